"""Query runtime discrepancy: how far the clone's run time is from the source's, in per cent."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from privbench.metrics.base import Metric
from privbench.metrics.summary import Floats

RUNTIME = Metric(
    name="runtime",
    title="Query runtime discrepancy",
    goal="lower",
    low=0.0,
    high=math.inf,
    unit="%",
    reads_source=True,
    meaning="How much longer or shorter a query takes on the clone than on the source: "
    "0 % is the same, 100 % is twice as long.",
    headline="runtime.p50",
    good=15.0,
    fair=40.0,
)


def discrepancies(source: ArrayLike, clone: ArrayLike) -> Floats:
    """|t − t̂| / t in per cent (DESIGN section 5).

    Returns:
        Per cent, shape (n,).

    >>> discrepancies([2.0, 1.0], [1.0, 1.5]).tolist()
    [50.0, 50.0]
    """
    t, e = np.asarray(source, dtype=np.float64), np.asarray(clone, dtype=np.float64)
    return np.asarray(100.0 * np.abs(t - e) / t, dtype=np.float64)
