"""How much one column says about another: mutual information, in nats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mutual_information(joint: Floats) -> float:
    """Mutual information of the two axes of a table of non-negative counts; 0 if it is empty."""
    shares = joint / max(float(joint.sum()), 1e-300)
    apart = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    there = shares > 0
    return float((shares[there] * np.log(shares[there] / apart[there])).sum())


def uncertainty_coefficient(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Mutual information of two columns over the entropy of the second (Theil 1970), 0 to 1.

    Args:
        first: Codes of one column, from 0 on, shape (rows,).
        second: Codes of the other one, likewise.
    """
    joint = np.bincount(first * (int(second.max(initial=0)) + 1) + second)
    both, one, two = (_entropy(part) for part in (joint, np.bincount(first), np.bincount(second)))
    return max(one + two - both, 0.0) / two if two > 0 else 0.0


def _entropy(counts: NDArray[Any]) -> float:
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
