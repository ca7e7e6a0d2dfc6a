"""ColSplit, RowSplit and DecideOP: by which attributes and rows a region is split.

``lab/docs/privbench-paper.md`` says how they differ from the paper's, and why. Columns are split by
released distances of pairs from independence, ½‖H − n̂·p̂⊗p̂‖₁ / n̂; rows by k-means, in which a centre
is the vector of its part's released relative bin counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from privbench.arrays import Floats
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Axis, Column, Joint, PairScores, PublicArray
from privbench_lab.queries import Region, Split
from privbench_lab.spn.node import Bins, Node, region_histograms, scaled

#: Most pairs that one region's scores hold.
_MOST_PAIRS = 1000
#: Integer steps in a squared distance of 1.
_STEP = 2**20


def scored_pairs(attributes: int) -> list[tuple[int, int]]:
    """Pairs that are scored: all of them, or in wide tables each attribute with its next few.

    The noise of a score grows with their number, so at most `_MOST_PAIRS` are (a public rule).
    """
    pairs = list(combinations(range(attributes), 2))
    if len(pairs) <= _MOST_PAIRS:
        return pairs
    reach = max(_MOST_PAIRS // attributes, 1)
    return [(i, j) for i, j in pairs if min(j - i, attributes - j + i) <= reach]


def score_query(spec: DatabaseSpec, table: str, node: Node, axes: Mapping[str, Axis]) -> PairScores:
    """Distances from independence of all pairs of a node's attributes in its region."""
    pairs = scored_pairs(len(node.scope))
    laws = [scaled(node.counts[name], 1.0) for name in node.scope]
    rows = max(node.rows, 1.0)
    expected = [rows * np.outer(laws[i], laws[j]) for i, j in pairs]
    return PairScores.of(
        spec, table, [axes[name] for name in node.scope], pairs, expected, node.region
    )


def dependence(node: Node, scores: Floats) -> Floats:
    """Distance from independence of every two attributes of a node, in [0, 1], by `score_query`.

    The distance that sampling alone gives independent attributes is subtracted. The result is a
    symmetric matrix with zero diagonal, and NaN for pairs that were not scored.
    """
    rows = max(node.rows, 1.0)
    laws = [scaled(node.counts[name], 1.0) for name in node.scope]
    matrix = np.full((len(node.scope), len(node.scope)), np.nan)
    np.fill_diagonal(matrix, 0.0)
    for (i, j), score in zip(scored_pairs(len(node.scope)), scores, strict=True):
        # Half of √(2/π), the mean absolute value of a normal number.
        chance = 0.4 * np.sqrt(np.outer(laws[i], laws[j]) * rows).sum()
        matrix[i, j] = matrix[j, i] = np.clip((score - chance) / rows, 0.0, 1.0)
    return matrix


def column_split(matrix: Floats, alpha: float) -> list[list[int]]:
    """The finest split of columns such that no pair across parts has a dependence above ``alpha``.

    These are the connected components of the pairs above α; pairs that were not scored count as
    dependent.
    """
    count, label = connected_components((matrix > alpha) | np.isnan(matrix), directed=False)
    return [np.flatnonzero(label == number).tolist() for number in range(count)]


def strongest(matrix: Floats, places: Sequence[int]) -> int:
    """The attribute among ``places`` that depends most on the others there."""
    return places[int(np.nansum(matrix[np.ix_(places, places)], axis=1).argmax())]


def first_split(node: Node, attribute: str, bins: Bins, ordered: bool) -> Split:
    """Split by one attribute: at its median if ordered, else its heaviest bin against the rest."""
    law = scaled(node.counts[attribute], 1.0)
    heaviest = int(law.argmax())
    if ordered and law[heaviest] < 0.25:
        cut = int(np.searchsorted(np.cumsum(law), 0.5))
        part = np.arange(bins.size) > min(cut, bins.size - 2)
    else:
        part = np.arange(bins.size) != heaviest
    return Split.by_code(attribute, part[bins.of].astype(np.int64))


def next_split(
    node: Node, parts: Sequence[Mapping[str, Floats]], bins: Mapping[str, Bins]
) -> Split:
    """Assign every row to the nearest released centre, from the estimated bin counts of the parts.

    The squared distance of a row to a centre c is Σ over attributes of 1 + ‖c‖² − 2·c[bin]; each
    attribute's term is a public table of costs.
    """
    luts: dict[str, NDArray[np.int64]] = {}
    for name in node.scope:
        centres = np.stack([scaled(counts[name], 1.0) for counts in parts])
        costs = 1.0 + (centres**2).sum(axis=1, keepdims=True) - 2.0 * centres
        luts[name] = np.rint(costs.T[bins[name].of] * _STEP).astype(np.int64)
    return Split.of(luts)


def planned_regions(spec: DatabaseSpec, table: str, level: int) -> list[Region]:
    """The 2^level regions of a level, for ``plan``: by an arbitrary split of one attribute."""
    name, domain = next(iter(spec.tables[table].attributes.items()))
    split = Split.of({name: np.zeros((domain.size, 2), np.int64)})
    found = [Region(table)]
    for _ in range(level):
        found = [region for parent in found for region in parent.children(split)]
    return found


def planned_histograms(spec: DatabaseSpec, table: str, level: int, bins: int) -> Joint:
    """Binned histograms of all attributes in all regions of a level."""
    axes = _axes(spec, table, bins)
    scopes = [(each, (*axes,)) for each in planned_regions(spec, table, level)]
    return region_histograms(table, axes, scopes)


def planned_scores(spec: DatabaseSpec, table: str, level: int, bins: int) -> Joint:
    """Pair scores of all attributes in all regions of a level."""
    axes = _axes(spec, table, bins)
    counts = {name: np.zeros(axis.size) for name, axis in axes.items()}
    nodes = [Node(region, (*axes,), counts) for region in planned_regions(spec, table, level)]
    return Joint(tuple(score_query(spec, table, node, axes) for node in nodes))


def _axes(spec: DatabaseSpec, table: str, most: int) -> dict[str, Axis]:
    """Axes with at most about ``most`` bins of equal width for every attribute."""
    return {
        name: Column.of(
            spec,
            table,
            name,
            PublicArray(np.arange(domain.size) * min(domain.size, most) // domain.size),
        )
        for name, domain in spec.tables[table].attributes.items()
    }
