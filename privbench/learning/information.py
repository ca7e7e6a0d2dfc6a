"""Measures of how much one column tells about another: mutual information, in nats."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Ints


def mutual_information(joint: NDArray[Any]) -> float:
    """Return the mutual information of the two axes of a table of counts; 0 if it is empty."""
    shares = joint / max(float(joint.sum()), 1e-300)
    apart = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    there = shares > 0
    return float((shares[there] * np.log(shares[there] / apart[there])).sum())


def uncertainty_coefficient(first: Ints, second: Ints) -> float:
    """Return the mutual information of two columns over the entropy of the second (Theil 1970).

    It lies between 0 and 1. Both columns are codes, counted from 0, of shape (rows,).
    """
    shape = int(first.max(initial=0)) + 1, int(second.max(initial=0)) + 1
    joint = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1]).reshape(shape)
    shares = joint.sum(axis=0) / max(len(first), 1)
    entropy = -float(shares @ np.log(np.maximum(shares, 1e-300)))
    return max(mutual_information(joint), 0.0) / entropy if entropy > 0 else 0.0
