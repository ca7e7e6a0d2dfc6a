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
