"""The model of one table: a directed graphical model of bounded width, given its context.

P(v₁ … v_d | context) = Π P(vᵢ | Sᵢ), where Sᵢ are at most `WIDTH` columns that stand before vᵢ
or in the context, each at a level of its groups, and each factor is the one of greatest entropy
that keeps the estimated pair tables of vᵢ with Sᵢ. What lies before is sampled already, so P(Sᵢ) is
counted on synthetic rows and nothing is inferred. Within a group cells follow the one-way marginal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privbench.circuit.draw import choose, draw
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.graphical.attributes import AttributeModel, State
from privbench.learning.graphical.columns import Variable, normal_scores
from privbench.learning.graphical.estimate import COUNTED, Floats, Ints, conditional, rake

#: Most columns that a factor is conditioned on. Four or six: no change on coded Adult.
WIDTH = 5
#: Most cells of a factor: wider pairs are taken at a coarser level. Half or double: no change.
CELLS = 100_000
#: Added to the variance of normal scores in a regression, and largest multiple correlation: noise
#: makes correlations that no rows have.
RIDGE, MOST_TOLD = 0.05, 0.98
#: Groups of a column that a model file may have; a fit makes a tenth. For memory alone.
MOST_GROUPS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The estimated marginal of two columns.

    Attributes:
        first: Place of the one column, an own one.
        second: Place of the other one, greater; own columns come first, then the context.
        level: Level of the groups of both.
        table: Shares, shape (groups, groups).
        gap: Half of the L1 distance from what was predicted without it, in weight.
        power: Their association, λ of `associate`.
    """

    first: int
    second: int
    level: int
    table: Floats
    gap: float
    power: float = 0.0

    def seen_from(self, column: int) -> tuple[int, Floats]:
        """The other column, and the table with the other column first."""
        if column == self.first:
            return self.second, self.table.T
        return self.first, self.table


@dataclass(frozen=True, slots=True, eq=False)
class Tie:
    """A Gaussian copula of v and columns of S, which orders rows within the groups of v.

    Groups of a heavy tail are wide, and without it the largest values of two columns would be
    those of different rows.

    Attributes:
        places: Places of those columns among all.
        scores: For each of them, the normal score of every cell times its regression weight.
        ordered: Number of leading cells of v, which follow an order.
        correlation: Multiple correlation of the normal score of v with theirs.
    """

    places: tuple[int, ...]
    scores: tuple[Floats, ...]
    ordered: int
    correlation: float

    def keys(
        self,
        codes: Mapping[int, Codes],
        shares: Floats,
        groups: Ints,
        chosen: Ints,
        numbers: Floats,
    ) -> Floats:
        """Normal numbers of the rows, given the cells of the other columns and the group of v.

        Args:
            codes: Cells of all columns, by place.
            shares: Share of every cell of v.
            groups: Group of every cell of v.
            chosen: Group of v of every row.
            numbers: Uniform numbers, one for each row.
        """
        held = np.bincount(groups[: self.ordered], shares[: self.ordered], int(groups.max()) + 1)
        steps = np.append(0.0, np.cumsum(held)) / max(float(held.sum()), 1e-12)
        ends = ndtri(np.minimum(steps, 1.0))
        mean, sd = np.zeros(len(chosen)), np.sqrt(1.0 - self.correlation**2)
        for place, scores in zip(self.places, self.scores, strict=True):
            mean += scores[codes[place]]
        low, high = (ndtr((ends[chosen + side] - mean) / sd) for side in (0, 1))
        at = np.clip(low + numbers * (high - low), 1e-15, 1.0 - 1e-15)
        return np.asarray(mean + sd * ndtri(at))


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """P(v | S).

    Attributes:
        column: Place of v among the own columns.
        parents: Places of S: own columns that stand before, or columns of the context.
        parent_groups: Group of every cell of each of S.
        groups: Group of every cell of v.
        table: P(group of v | groups of S), shape (configurations of S, groups).
        shares: Share of every cell of v.
        tie: What orders rows within groups of v, or None.
    """

    column: int
    parents: tuple[int, ...]
    parent_groups: tuple[Ints, ...]
    groups: Ints
    table: Floats
    shares: Floats
    tie: Tie | None = None

    @classmethod
    def alone(cls, column: int, shares: Floats) -> Self:
        """The factor of a column that depends on no others."""
        return cls(column, (), (), np.zeros(len(shares), np.int64), np.ones((1, 1)), shares)

    def draw(self, codes: Mapping[int, Codes], rows: int, generator: np.random.Generator) -> Codes:
        """Cells of v of some rows, given those of S."""
        index = np.zeros(rows, np.int64)
        for parent, groups in zip(self.parents, self.parent_groups, strict=True):
            index = index * (int(groups.max()) + 1) + groups[codes[parent]]
        chosen = draw(self.table, index, generator)
        cells = np.argsort(self.groups, kind="stable")
        if len(cells) == self.table.shape[1]:
            found = cells[chosen]
        else:
            keys = None
            if self.tie is not None:
                numbers = generator.random(rows)
                keys = self.tie.keys(codes, self.shares, self.groups, chosen, numbers)
            shares = np.maximum(self.shares, 1e-12)[cells]
            widths = np.bincount(self.groups, minlength=self.table.shape[1])
            found = cells[choose(shares, widths, chosen, generator, keys)]
        return found.astype(np.min_scalar_type(len(self.shares)))


@dataclass(frozen=True, slots=True, eq=False)
class TableModel:
    """The law of one table's own columns, given its context.

    Attributes:
        factors: One for every own column, in the order in which they are drawn.
        attributes: The law of the attributes, the first columns, where these have a model of their
            own; it is drawn first.
    """

    factors: tuple[Factor, ...]
    attributes: AttributeModel | None = None

    def sample(
        self, context: Mapping[int, Codes], rows: int, generator: np.random.Generator
    ) -> dict[int, Codes]:
        """Cells of all own columns, by place.

        Args:
            context: Cells of the columns of the context, by place.
            rows: Number of rows.
            generator: Source of randomness.
        """
        codes = dict(context)
        if self.attributes is not None:
            drawn = self.attributes.sample(rows, generator)
            codes |= {place: drawn[name] for place, name in enumerate(self.attributes.domains)}
        for factor in self.factors:
            codes[factor.column] = factor.draw(codes, rows, generator)
        return {place: held for place, held in codes.items() if place not in context}

    def to_state(self) -> State:
        """The state of the factors, which `from_state` reads back; that of the attributes apart."""
        state: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for number, factor in enumerate(self.factors):
            state.append({"column": factor.column, "parents": list(factor.parents)})
            if factor.tie is not None:
                tie = factor.tie
                state[-1]["tie"] = [tie.ordered, tie.correlation, *tie.places]
                for place, scores in zip(tie.places, tie.scores, strict=True):
                    arrays[f"{number}/scores{place}"] = scores
            arrays[f"{number}/table"] = factor.table
            arrays[f"{number}/shares"] = factor.shares
            arrays[f"{number}/groups"] = factor.groups
            for place, groups in enumerate(factor.parent_groups):
                arrays[f"{number}/parent{place}"] = groups
        return state, arrays

    @classmethod
    def from_state(
        cls,
        state: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, NDArray[Any]],
        own: int,
        attributes: AttributeModel | None = None,
    ) -> Self:
        """The model that `to_state` wrote, of so many own columns.

        Raises:
            ModelError: Damaged or hostile input.
        """
        factors, seen = [], set(range(len(attributes.domains) if attributes else 0, own))
        for number, item in enumerate(state):
            parents = tuple(int(place) for place in item["parents"])
            groups = _grouping(arrays[f"{number}/groups"])
            lists = tuple(
                _grouping(arrays[f"{number}/parent{place}"]) for place in range(len(parents))
            )
            shape = prod(int(held.max()) + 1 for held in lists), int(groups.max()) + 1
            table = _distributions(arrays[f"{number}/table"], shape)
            shares = _distributions(arrays[f"{number}/shares"][None], (1, len(groups)))[0]
            tie = None
            if "tie" in item:
                places = [int(place) for place in item["tie"][2:]]
                scores = {place: arrays[f"{number}/scores{place}"] for place in places}
                sizes = dict(zip(parents, map(len, lists), strict=True))
                tie = _tie(item["tie"], scores, sizes, len(groups))
            factor = Factor(int(item["column"]), parents, lists, groups, table, shares, tie)
            if factor.column not in seen or any(parent in seen for parent in parents):
                raise ModelError("the factors of a table in the model have no order.")
            seen.discard(factor.column)
            factors.append(factor)
        if seen:
            raise ModelError("a table in the model lacks the factor of a column.")
        return cls(tuple(factors), attributes)

    def check(self, cells: Sequence[int]) -> None:
        """Refuse parts that do not fit the cells of own columns and context.

        Raises:
            ModelError: A column that is not there, or another number of cells.
        """
        if self.attributes is not None:
            sizes = [domain.size for domain in self.attributes.domains.values()]
            if sizes != list(cells[: len(sizes)]):
                raise ModelError("the attributes in the model do not fit their table.")
        for factor in self.factors:
            held = [(factor.column, factor.groups)]
            held += zip(factor.parents, factor.parent_groups, strict=True)
            for place, groups in held:
                if not 0 <= place < len(cells) or len(groups) != cells[place]:
                    raise ModelError("a factor in the model does not fit its columns.")


def _grouping(array: NDArray[Any]) -> Ints:
    if array.ndim != 1 or array.dtype != np.int64 or not len(array):
        raise ModelError("groups in the model are damaged.")
    if int(array.min()) < 0 or int(array.max()) >= min(len(array), MOST_GROUPS):
        raise ModelError("groups in the model are damaged.")
    return array


def _tie(
    state: Sequence[Any],
    scores: Mapping[int, NDArray[Any]],
    parents: Mapping[int, int],
    cells: int,
) -> Tie:
    ordered, correlation = int(state[0]), float(state[1])
    sound = bool(scores) and 0 < ordered <= cells and 0.0 <= correlation < 1.0
    for place, held in scores.items():
        sound = sound and held.shape == (parents.get(place),) and held.dtype == np.float64
        sound = sound and bool((np.abs(held) < 1000.0).all())
    if not sound:
        raise ModelError("the order of rows within groups in the model is damaged.")
    return Tie(tuple(scores), tuple(scores.values()), ordered, correlation)


def _distributions(array: NDArray[Any], shape: tuple[int, int]) -> Floats:
    if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ModelError("distributions in the model are damaged.")
    if (array < 0).any() or (np.abs(array.sum(axis=1) - 1.0) > 1e-6).any():
        raise ModelError("distributions in the model are damaged.")
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Synthetic rows of the table that is learned.

    Attributes:
        own: Number of own columns.
        context: Cells of the columns of the context, by place.
        weights: Weight of every row, shape (rows,).
    """

    own: int
    context: Mapping[int, Codes]
    weights: Floats


def estimate(
    variables: Sequence[Variable], pairs: Sequence[Pair], rows: Rows, generator: np.random.Generator
) -> tuple[TableModel, dict[int, Codes]]:
    """The model of greatest entropy, factor by factor, and synthetic rows of it.

    Columns are placed in order of the gap of their pairs with what is placed. A pair whose table
    would make a factor too large is taken at a coarser level, or left out.

    Returns:
        The model, and the cells of own columns and context by place.
    """
    count = len(rows.weights)
    codes: dict[int, Codes] = dict(rows.context)
    todo, factors = list(range(rows.own)), []
    of: dict[int, list[Pair]] = {place: [] for place in range(len(variables))}
    for pair in pairs:
        of[pair.first].append(pair)
        of[pair.second].append(pair)

    def gain(column: int) -> tuple[float, float]:
        placed = sum(pair.gap for pair in of[column] if pair.seen_from(column)[0] in codes)
        return placed, sum(pair.gap for pair in of[column])

    while todo:
        column = max(todo, key=gain)
        todo.remove(column)
        near = [pair for pair in of[column] if pair.seen_from(column)[0] in codes]
        near.sort(key=lambda pair: -pair.gap)
        factor = _factor(column, near, variables, codes, rows.weights)
        codes[column] = factor.draw(codes, count, generator)
        factors.append(factor)
    return TableModel(tuple(factors)), codes


def _factor(
    column: int,
    near: Sequence[Pair],
    variables: Sequence[Variable],
    codes: Mapping[int, Codes],
    weights: Floats,
) -> Factor:
    """The conditional of one column given those of its pairs that are placed."""
    own = variables[column]
    fine = max((pair.level for pair in near), default=0)
    kept: list[tuple[Pair, int]] = []
    size = own.groups(fine)
    for pair in near:
        other, level = variables[pair.seen_from(column)[0]], min(pair.level, fine)
        while level and size * other.groups(level) > CELLS:
            level -= 1
        if len(kept) < WIDTH and size * other.groups(level) <= CELLS:
            kept.append((pair, level))
            size *= other.groups(level)
    if not kept:
        return Factor.alone(column, own.shares)
    places = [pair.seen_from(column)[0] for pair, _ in kept]
    others = [variables[place] for place in places]
    lists = [other.levels[level] for other, (_, level) in zip(others, kept, strict=True)]
    shape = [other.groups(level) for other, (_, level) in zip(others, kept, strict=True)]
    # P(S) on synthetic rows, evenly spaced ones where there are many.
    step = -(-len(weights) // COUNTED)
    at = np.ravel_multi_index(
        [held[codes[place][::step]] for held, place in zip(lists, places, strict=True)], shape
    )
    counts = np.bincount(at, weights[::step], minlength=prod(shape)).reshape(shape)
    parents = np.asarray(counts / max(float(counts.sum()), 1e-12))
    targets, groups = [], []
    for axis, (pair, level) in enumerate(kept):
        table = pair.seen_from(column)[1]
        merged = np.zeros((shape[axis], table.shape[1]))
        np.add.at(merged, others[axis].coarser(pair.level, level), table)
        margin = parents.sum(axis=tuple(other for other in range(len(kept)) if other != axis))
        targets.append(rake(merged, margin, own.mass(pair.level)))
        groups.append(own.coarser(fine, pair.level))
    table = conditional(parents, own.mass(fine), targets, groups)
    return Factor(
        column,
        tuple(places),
        tuple(lists),
        own.levels[fine],
        table.reshape(-1, table.shape[-1]),
        own.shares,
        _tied(own, [pair.power for pair, _ in kept], places, variables, codes),
    )


def _tied(
    own: Variable,
    powers: Sequence[float],
    parents: Sequence[int],
    variables: Sequence[Variable],
    codes: Mapping[int, Codes],
) -> Tie | None:
    """The tie to all parents that have an order: the regression of a Gaussian copula."""
    places, wanted = [], []
    for place, power in zip(parents, powers, strict=True):
        if power and own.ordered and variables[place].ordered:
            places.append(place)
            # A copula whose density has the term λ·score·score: λ = ρ / (1 − ρ²).
            wanted.append((np.sqrt(1.0 + 4.0 * power**2) - 1.0) / (2.0 * power))
    if not places:
        return None
    scores = [normal_scores(variables[at].shares, variables[at].ordered) for at in places]
    rows = np.array([held[codes[at][:COUNTED]] for held, at in zip(scores, places, strict=True)])
    matrix = rows @ rows.T / max(rows.shape[1], 1) + RIDGE * np.eye(len(places))
    weights = np.linalg.solve(matrix, np.array(wanted))
    squared = float(weights @ matrix @ weights)
    weights *= min(1.0, MOST_TOLD / np.sqrt(max(squared, 1e-12)))
    held = tuple(weight * part for weight, part in zip(weights, scores, strict=True))
    return Tie(tuple(places), held, own.ordered, min(float(np.sqrt(squared)), MOST_TOLD))
