"""What a metric is: a named figure with a direction, a range and a meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

#: How a figure is to be taken, in words.
Grade = Literal["good", "fair", "poor"]


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric.

    Attributes:
        name: Prefix of its figures: ``qerror`` stands for ``qerror.p95`` and the like.
        title: For people.
        goal: Whether lower or higher figures are better.
        low: Least possible figure; the best one where ``goal`` is lower.
        high: Largest possible figure.
        unit: What follows the number: ``×``, ``%``, or nothing.
        reads_source: Whether it is computed from the source's rows, so that its figures are
            CONFIDENTIAL (P1).
        meaning: One sentence for a reader who does not know it.
        headline: The figure that stands for the metric in a summary.
        good: Up to here (lower) or from here (higher) the headline figure is good.
        fair: Likewise fair; beyond it is poor.
    """

    name: str
    title: str
    goal: Literal["lower", "higher"]
    low: float
    high: float
    unit: str
    reads_source: bool
    meaning: str
    headline: str
    good: float
    fair: float

    def grade(self, value: float) -> Grade:
        """The headline figure in words; what is not a number is poor.

        >>> from privbench.metrics.qerror import QERROR
        >>> QERROR.grade(1.2), QERROR.grade(2.5), QERROR.grade(float("nan"))
        ('good', 'fair', 'poor')
        """
        if math.isnan(value):
            return "poor"
        sign = 1 if self.goal == "lower" else -1
        if sign * value <= sign * self.good:
            return "good"
        return "fair" if sign * value <= sign * self.fair else "poor"
