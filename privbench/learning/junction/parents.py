"""Attributes of rows that own rows: pair tables with numbers of children, from these rows alone.

Joins follow rows that own others. Where few rows of a unit own any, they weigh next to nothing in
histograms of all rows, and a pair with their number of children drowns. Among themselves they weigh
as much as all rows do: one histogram of each attribute over the rows that own some says what sets
them apart, and all others follow from what is known of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from privbench.learning.denoise import Floats, Noise
from privbench.learning.junction.implied import Ints
from privbench.learning.junction.pairs import related
from privbench.learning.junction.ratios import rake
from privbench.learning.junction.structure import Components, Pair

#: Sweeps that bring a table to its margins, and the least that a cell holds before.
_SWEEPS, _LEAST = 30, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is released of an attribute and a number of children, apart from each other.

    Attributes:
        attribute: Weight of all rows by bin of the attribute, shape (bins,), with a sum.
        children: The same by group of the number of children, shape (groups,): group 0 owns none.
        block: Block of every bin of the attribute (`implied.blocks_of`).
        ordered: How many of its bins, the first ones, follow an order.
    """

    attribute: Floats
    children: Floats
    block: Ints
    ordered: int


def with_children(known: Known, noisy: Floats, owning: float, scale: float, noise: Noise) -> Floats:
    """The pair table of an attribute and a number of children.

    Args:
        known: What else is released.
        noisy: Noisy weights of the rows that own some, weighed among themselves, shape (bins,).
        owning: Estimated sum of those weights, above 0.
        scale: Scale of their noise.
        noise: Its law.

    Returns:
        Weights, shape (bins, groups), with the known margins. Rows that own some are alike in the
        attribute whatever number they own: what tells these apart is lost in noise.
    """
    some = float(known.children[1:].sum())
    factor = some / owning
    margins = known.attribute, np.array([known.attribute.sum() - some, some])
    seen = np.stack([known.attribute - factor * noisy, factor * noisy], axis=1)
    even = np.outer(known.attribute, margins[1]) / max(float(known.attribute.sum()), 1e-300)
    kinds = (known.block, np.array([0, 1])), (known.ordered, 2)
    held = related(seen, even, margins, max(factor * scale, 1e-9), noise, *kinds)
    held = rake(held, *margins, _SWEEPS)
    among = known.children[1:] / max(some, 1e-300)
    whole = np.concatenate([held[:, :1], np.outer(held[:, 1], among)], axis=1)
    return rake(np.maximum(whole, _LEAST), known.attribute, known.children, _SWEEPS)


def strongest(tables: Mapping[Pair, Floats], forest: Components) -> Pair | None:
    """Of the pairs that join what is apart, the one whose variables say most about each other."""
    joining = [pair for pair in tables if forest.apart(pair)]
    return max(joining, key=lambda pair: _shared(tables[pair]), default=None)


def telling_most(tables: Mapping[Pair, Floats], most: int) -> dict[Pair, Floats]:
    """Those of some tables whose variables say most about each other, in their order."""
    kept = set(sorted(tables, key=lambda pair: -_shared(tables[pair]))[:most])
    return {pair: table for pair, table in tables.items() if pair in kept}


def _shared(table: Floats) -> float:
    """Mutual information in nats."""
    mass = table / max(float(table.sum()), 1e-300)
    return float(rel_entr(mass, np.outer(mass.sum(axis=1), mass.sum(axis=0))).sum())
