"""ColSplit and DecideOP: which attributes are near independent in a region.

The paper compares the normalised mutual information of candidate column splits, computed from
exact rows, with a threshold. Here every pair's distance from independence, ½‖H − n̂·p̂⊗p̂‖₁ / n̂, is
released once per region by a score of proved sensitivity (`PairScores`); all that follows is
post-processing, so that the best of *all* column splits can be taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse.csgraph import connected_components

from privbench.learning.denoise import Floats
from privbench.learning.spn.node import Node
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Axis, PairScores

#: Most pairs that one region's scores hold.
_MOST_PAIRS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """Released distance from independence of every pair, in [0, 1] after correction.

    Attributes:
        names: Attributes.
        matrix: Symmetric, zero diagonal, NaN where a pair was not scored; shape (attributes,
            attributes).
    """

    names: tuple[str, ...]
    matrix: Floats

    def groups(self, alpha: float) -> list[tuple[str, ...]]:
        """The finest column split across which every pair is within ``alpha``.

        Cutting a maximum spanning tree at its weakest edge gives the binary split of least
        largest cross dependence; repeating that while it is within α leaves the connected
        components of the pairs above α. Pairs that were not scored count as dependent.
        """
        linked = (self.matrix > alpha) | np.isnan(self.matrix)
        _, label = connected_components(linked, directed=False)
        groups: dict[int, list[str]] = {}
        for name, number in zip(self.names, label, strict=True):
            groups.setdefault(int(number), []).append(name)
        return [tuple(group) for group in groups.values()]

    def strongest(self, scope: tuple[str, ...]) -> str:
        """The attribute of a scope that depends most on the others."""
        place = [self.names.index(name) for name in scope]
        return scope[int(np.nansum(self.matrix[np.ix_(place, place)], axis=1).argmax())]


def scored_pairs(attributes: int) -> list[tuple[int, int]]:
    """Pairs that are scored: all of them, or in wide tables each attribute with its next few.

    The noise of a score grows with their number, so at most `_MOST_PAIRS` are (a public rule).
    """
    pairs = list(combinations(range(attributes), 2))
    if len(pairs) <= _MOST_PAIRS:
        return pairs
    reach = max(_MOST_PAIRS // attributes, 1)
    steps = range(1, reach + 1)
    around = {tuple(sorted((i, (i + s) % attributes))) for i in range(attributes) for s in steps}
    return sorted((i, j) for i, j in around if i != j)


def score_query(spec: DatabaseSpec, table: str, node: Node, axes: dict[str, Axis]) -> PairScores:
    """Distances from independence of all pairs of a node's attributes in its region."""
    pairs = scored_pairs(len(node.scope))
    rows = max(node.rows, 1.0)
    laws = [node.counts[name] / max(node.counts[name].sum(), 1e-9) for name in node.scope]
    return PairScores.of(
        spec,
        table,
        [axes[name] for name in node.scope],
        pairs,
        [rows * np.outer(laws[i], laws[j]) for i, j in pairs],
        node.region,
    )


def dependence(node: Node, scores: Floats) -> Dependence:
    """Scores as a matrix, less what sampling alone gives for independent attributes."""
    pairs = scored_pairs(len(node.scope))
    rows = max(node.rows, 1.0)
    matrix = np.full((len(node.scope), len(node.scope)), np.nan)
    np.fill_diagonal(matrix, 0.0)
    for (i, j), score in zip(pairs, scores, strict=True):
        first, second = node.counts[node.scope[i]], node.counts[node.scope[j]]
        joint = np.outer(first, second) / max(first.sum() * second.sum(), 1e-9)
        chance = 0.4 * np.sqrt(joint * rows).sum()
        matrix[i, j] = matrix[j, i] = np.clip((score - chance) / rows, 0.0, 1.0)
    return Dependence(node.scope, matrix)
