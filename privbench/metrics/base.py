"""Metrics: named figures with a direction, a range and a meaning, and their grades."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

#: How a figure is to be taken, in words.
Grade = Literal["good", "fair", "poor"]


class Part(BaseModel):
    """A part of a comparison's document: frozen, and without fields that are not declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric."""

    name: str  # prefix of its figures: ``qerror`` stands for ``qerror.p95`` and the like
    title: str  # for people
    meaning: str  # one sentence for a reader who does not know it
    headline: str  # the figure that stands for the metric in a summary
    good: float  # up to here (lower) or from here (higher) the headline figure is good
    fair: float  # likewise fair; beyond it is poor
    goal: Literal["lower", "higher"] = "lower"  # whether lower or higher figures are better
    low: float = 0.0  # least possible figure; the best one where ``goal`` is lower
    high: float = math.inf  # largest possible figure
    unit: str = ""  # what follows the number: ``×``, ``%``, or nothing
    # Whether it reads the source's rows: its figures are then CONFIDENTIAL.
    reads_source: bool = True

    def grade(self, value: float | None) -> Grade | None:
        """The headline figure in words; what is not a number is poor, nothing has no grade.

        >>> from privbench.metrics.qerror import QERROR
        >>> QERROR.grade(1.2), QERROR.grade(2.5), QERROR.grade(float("nan"))
        ('good', 'fair', 'poor')
        """
        if value is None:
            return None
        if math.isnan(value):
            return "poor"
        sign = 1 if self.goal == "lower" else -1
        if sign * value <= sign * self.good:
            return "good"
        return "fair" if sign * value <= sign * self.fair else "poor"
