"""Drawing from many small categorical laws at once, without a loop over draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbench.circuit.structure import Floats, Ints


def uniforms(
    group: NDArray[np.integer], groups: int, generator: np.random.Generator, stratified: bool
) -> Floats:
    """One uniform number per draw.

    Stratified numbers split [0, 1) into as many equal parts as the group has draws and put one
    number into each part, in random order: every draw by itself is uniform, and the counts of a
    law's outcomes stay within one of their expectation.

    Args:
        group: Group of every draw, shape (draws,).
        groups: Number of groups.
        generator: Source of randomness.
        stratified: Whether to stratify within groups.
    """
    count = len(group)
    noise = generator.random(count)
    if not stratified:
        return noise
    order = generator.permutation(count)
    sizes = np.bincount(group, minlength=groups)
    if groups > 1:
        keys = group[order].astype(np.min_scalar_type(groups - 1))
        order = order[np.argsort(keys, kind="stable")]
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    out = np.empty(count)
    out[order] = (np.arange(count) - first + noise) / np.repeat(sizes, sizes)
    return out


def choose(weights: Floats, starts: Ints, counts: Ints, group: Ints, numbers: Floats) -> Ints:
    """Inverse distribution functions of laws that are laid out one after another.

    Args:
        weights: Non-negative weights of all laws; each law has some positive mass.
        starts: Where each law begins, shape (laws,), ascending and without gaps.
        counts: Length of each law, at least 1.
        group: The law of every draw, shape (draws,).
        numbers: A number in [0, 1) per draw.

    Returns:
        Position in ``weights`` of every draw; never one of weight zero.
    """
    total = np.concatenate([[0.0], np.cumsum(weights)])
    base = total[starts]
    mass = total[starts + counts] - base
    position = np.where(weights > 0, np.arange(len(weights)), -1)
    last = np.maximum.reduceat(position, starts)
    found = np.searchsorted(total[1:], base[group] + numbers * mass[group], side="right")
    return np.asarray(np.clip(found, starts[group], last[group]), np.int64)


def compact(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """Distinct keys, ascending, and the position of every key among them.

    >>> compact(np.array([4, 9, 4]), 10)
    (array([4, 9]), array([0, 1, 0]))
    """
    if bound > 4 * len(keys) + 2**16:
        distinct, inverse = np.unique(keys, return_inverse=True)
        return distinct, inverse.astype(np.int64)
    used = np.bincount(keys, minlength=bound) > 0
    distinct = np.flatnonzero(used)
    place = np.cumsum(used) - 1
    return distinct, np.asarray(place[keys])
