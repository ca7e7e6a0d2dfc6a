"""Percentiles of a set of errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The percentiles that are reported.
PERCENTILES = (50, 75, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean, percentiles (linear interpolation) and maximum of n errors."""

    n: int
    mean: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float


def summarise(errors: Floats) -> Summary | None:
    """Summarise errors, shape (n,); None without any.

    >>> summarise(np.array([1.0, 2.0, 3.0])).p50
    2.0
    """
    if len(errors) == 0:
        return None
    points = [float(value) for value in np.percentile(errors, PERCENTILES)]
    p50, p75, p90, p95, p99 = points
    mean, top = float(np.mean(errors)), float(np.max(errors))
    return Summary(len(errors), mean, p50, p75, p90, p95, p99, top)


def weighted(errors: Floats, weights: Floats) -> Summary | None:
    """Summarise errors, shape (n,), that count by weights above 0, shape (n,).

    A percentile is the least error up to which the weights reach that share of their sum. Weights
    of 2 are as if the error stood there twice. None without errors, and where all weigh the same:
    `summarise` says it then.

    >>> found = weighted(np.array([1.0, 5.0, 9.0]), np.array([8.0, 1.0, 1.0]))
    >>> found.mean, found.p50, found.p75, found.p90, found.p95
    (2.2, 1.0, 1.0, 5.0, 9.0)
    """
    if len(errors) == 0 or np.all(weights == weights[0]):
        return None
    order = np.argsort(errors, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    # The last share is 1 but for rounding.
    places = np.searchsorted(reached, np.array(PERCENTILES) / 100 - 1e-12)
    p50, p75, p90, p95, p99 = errors[order][np.minimum(places, len(errors) - 1)].tolist()
    mean = float(np.average(errors, weights=weights))
    return Summary(len(errors), mean, p50, p75, p90, p95, p99, float(np.max(errors)))
