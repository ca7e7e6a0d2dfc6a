"""RowSplit: k-means in which nothing but released centres decides where a row goes.

Rows are points in the space of one-hot codes of their bins, so categories need no order. A centre
is then the vector of its part's relative bin counts; these are measured with noise, the next
assignment is a public map of a row by the released centres, and so on for J iterations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbench.learning.bins import Bins
from privbench.learning.denoise import Floats
from privbench.learning.spn.node import Node
from privbench.privacy.queries import Split

#: Integer steps of a squared distance.
_STEP = 2**20


def first_split(node: Node, attribute: str, bins: Bins, ordered: bool) -> Split:
    """Two parts by one attribute: at its median, or its heaviest bin against the rest."""
    counts = np.maximum(node.counts[attribute], 0.0)
    total = max(float(counts.sum()), 1e-9)
    heaviest = int(counts.argmax())
    if ordered and counts[heaviest] < 0.25 * total:
        cut = int(np.searchsorted(np.cumsum(counts), total / 2))
        part = np.arange(bins.size) > min(cut, bins.size - 2)
    else:
        part = np.arange(bins.size) != heaviest
    return Split.by_code(attribute, part[bins.of].astype(np.int64))


def next_split(node: Node, parts: list[dict[str, Floats]], bins: dict[str, Bins]) -> Split:
    """Assign every row to the nearest released centre.

    The squared distance of a row to a centre c is Σ over attributes of 1 + ‖c‖² − 2·c[bin]; each
    attribute's term is a public table of costs.

    Args:
        node: The node whose rows are split.
        parts: For every part its estimated bin counts per attribute.
        bins: Bins of every attribute.
    """
    luts: dict[str, NDArray[np.int64]] = {}
    for name in node.scope:
        costs = []
        for counts in parts:
            mass = np.maximum(counts[name], 0.0)
            law = mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), 1 / len(mass))
            costs.append((1 + (law**2).sum() - 2 * law)[bins[name].of])
        luts[name] = np.rint(np.stack(costs, axis=1) * _STEP).astype(np.int64)
    return Split.of(luts)
