"""Candidate pairs of columns, their marginals, and the query that scores the candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privbench.arrays import Floats
from privbench.learning.graphical.budget import MOST_CANDIDATES
from privbench.learning.graphical.columns import LEVELS, Variable
from privbench.privacy import GRID, DatabaseSpec
from privbench.privacy.queries import Axis, DependenceScores, PairScores, PublicArray


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pair of columns that may be measured, with the level of its groups of cells."""

    ends: tuple[int, int]
    level: int


def candidates(variables: Sequence[Variable], own: int, turn: int = 0) -> list[Candidate]:
    """Return all pairs of an own column with another column, at every level whose cells differ.

    A table of very many columns has candidates at the coarse level only. If there are too many
    pairs, every k-th pair is a candidate; ``turn`` chooses the first, so that each turn has other
    pairs.
    """
    pairs = pairs_of(variables, own)
    stride = max(-(-len(pairs) // MOST_CANDIDATES), 1)
    result = []
    for i, j in pairs[turn % stride :: stride]:
        shapes: set[tuple[int, int]] = set()
        for level in range(offered_levels(len(pairs))):
            shape = variables[i].groups(level), variables[j].groups(level)
            if min(shape) > 1 and shape not in shapes:
                shapes.add(shape)
                result.append(Candidate((i, j), level))
    return result


def offered_levels(pairs: int) -> int:
    """Return how many levels have candidates: all, or only the coarse level for many pairs."""
    return len(LEVELS) if len(LEVELS) * pairs <= MOST_CANDIDATES else 1


def pairs_of(variables: Sequence[Variable], own: int) -> list[tuple[int, int]]:
    """Return all pairs of an own column with another column that has a model."""
    modelled = [place for place, item in enumerate(variables) if item.modelled]
    return [(i, j) for i in modelled for j in modelled if i < own and i < j]


def score_query(
    spec: DatabaseSpec,
    table: str,
    variables: Sequence[Variable],
    among: Sequence[Candidate],
    predictions: Sequence[PublicArray],
    penalties: Floats,
    kind: type[PairScores] | None = None,
) -> PairScores:
    """Return the query that scores candidate pairs by their distance from the prediction.

    In an owned table the score is what the margins of a pair do not explain. A root table's
    predictions have its released margins already, so its score is the distance of the counts from
    the prediction, which has half of the sensitivity. ``kind`` chooses the query class instead.
    """
    if kind is None:
        kind = PairScores if spec.tables[table].own is None else DependenceScores
    axes = [variable.grouped(level) for variable in variables for level in range(len(LEVELS))]
    pairs = [(c.ends[0] * len(LEVELS) + c.level, c.ends[1] * len(LEVELS) + c.level) for c in among]
    costs = PublicArray.rounded(penalties, 2 * GRID)
    return kind(table, tuple(axes), tuple(pairs), tuple(predictions), costs)


def pair_axes(variables: Sequence[Variable], candidate: Candidate) -> list[Axis]:
    """Return the axes of a candidate's marginal."""
    return [variables[at].grouped(candidate.level) for at in candidate.ends]
