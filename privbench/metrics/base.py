"""How a metric is declared (direction, range, meaning, grades), and summaries of errors."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from privbench.arrays import Floats

#: The verdict on a figure, in a word.
Grade = Literal["good", "fair", "poor"]


class Part(BaseModel):
    """The base class of the parts of a comparison's document: frozen, no undeclared fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric."""

    name: str  # prefix of its figures: ``qerror`` stands for ``qerror.p95`` and the like
    title: str  # for people
    meaning: str  # one sentence for a reader who does not know it
    headline: str  # the figure that stands for the metric in a summary
    good: float  # up to here (lower) or from here (higher) the headline figure is good
    fair: float  # up to here, or from here, the headline figure is fair; beyond it is poor
    goal: Literal["lower", "higher"] = "lower"  # whether lower or higher figures are better
    low: float = 0.0  # least possible figure; the best one where ``goal`` is lower
    high: float = math.inf  # largest possible figure
    unit: str = ""  # what follows the number: ``×``, ``%``, or nothing
    # Whether it reads the source's rows: its figures are then CONFIDENTIAL.
    reads_source: bool = True

    def grade(self, value: float | None) -> Grade | None:
        """Return the grade of a value; NaN is poor, and None has no grade.

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


#: Facts by name; moments are text.
MetricFacts = dict[str, float | str | None]

#: The percentiles that are reported.
PERCENTILES = (50, 75, 90, 95, 99)


class SummaryPart(Part):
    """The mean, percentiles and maximum of n errors."""

    n: int
    mean: float
    p50: float  # linear interpolation, as of the other percentiles
    p75: float
    p90: float
    p95: float
    p99: float
    max: float


def summarise(errors: Iterable[float | None]) -> SummaryPart | None:
    """Summarise the errors that are not None; None if there are none.

    >>> summarise([1.0, 2.0, None, 3.0]).p50
    2.0
    """
    known = np.array([error for error in errors if error is not None], dtype=np.float64)
    if len(known) == 0:
        return None
    return _summary(known, float(np.mean(known)), np.percentile(known, PERCENTILES))


def weighted(errors: Floats, weights: Floats) -> SummaryPart | None:
    """Summarise errors that count by their weights; both have shape (n,), weights are above 0.

    A percentile is the least error up to which the weights reach that share of their sum. An error
    of weight 2 counts as if it occurred twice. The result is None without errors, and if all
    weights are equal, for which there is `summarise`.

    >>> found = weighted(np.array([1.0, 5.0, 9.0]), np.array([8.0, 1.0, 1.0]))
    >>> found.mean, found.p50, found.p75, found.p90, found.p95
    (2.2, 1.0, 1.0, 5.0, 9.0)
    """
    if len(errors) == 0 or np.all(weights == weights[0]):
        return None
    order = np.argsort(errors, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    # By rounding the last share may be a little less than 1.
    places = np.searchsorted(reached, np.array(PERCENTILES) / 100 - 1e-12)
    points = errors[order][np.minimum(places, len(errors) - 1)]
    return _summary(errors, float(np.average(errors, weights=weights)), points)


def _summary(errors: Floats, mean: float, points: Floats) -> SummaryPart:
    named = {f"p{share}": value for share, value in zip(PERCENTILES, points.tolist(), strict=True)}
    return SummaryPart(n=len(errors), mean=mean, max=float(np.max(errors)), **named)


def joins_label(joins: int | None) -> str:
    """Return a number of joins as text, ``?`` if it is not known."""
    return "?" if joins is None else str(joins)


def by_joins(errors: Iterable[float | None], joins: Sequence[int | None]) -> dict[str, SummaryPart]:
    """Summarise the errors of queries by their numbers of joins; unknown numbers come last."""
    groups: dict[str, list[float | None]] = {
        joins_label(number): [] for number in sorted(set(joins), key=lambda n: (n is None, n or 0))
    }
    for error, number in zip(errors, joins, strict=True):
        groups[joins_label(number)].append(error)
    parts = {label: summarise(group) for label, group in groups.items()}
    return {label: part for label, part in parts.items() if part is not None}
