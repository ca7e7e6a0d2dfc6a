"""The model of one table: a directed graphical model of bounded width, given its context.

P(v₁ … v_d | context) = Π P(vᵢ | Sᵢ), where Sᵢ are at most `WIDTH` columns that stand before vᵢ or
in the context, each at a level of its groups; see "Pairs" in ``docs/method.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints, Rng
from privbench.domain import Codes, Domain
from privbench.errors import ModelError
from privbench.learning.draw import choose, draw, together
from privbench.learning.graphical.columns import Variable
from privbench.learning.graphical.estimate import COUNTED, conditional, rake
from privbench.learning.graphical.joint_degrees import JointDegrees
from privbench.learning.graphical.sets import SetLaw, exchanged
from privbench.learning.graphical.tilting import MOST, Tilt

#: Most columns that a factor is conditioned on. Four or six: no change on coded Adult.
WIDTH = 5
#: Most cells of a factor: if pairs would exceed it, they are taken at a coarser level. Half or
#: double: no change.
CELLS = 100_000
#: Most groups of a column in a model file; a fit makes a tenth of it. A limit on memory alone.
MOST_GROUPS = 256
#: Most by which sums of shares in a model file differ from 1: shares may have 16 bits.
ROUNDED = 2.0**-10


class AttributeModel(Protocol):
    """The distribution of a table's attributes, without keys, from another synthesizer.

    Degrees and scopes of the table are then drawn from their own one-way marginals.
    """

    @property
    def domains(self) -> Mapping[str, Domain]:
        """The domains of the attributes, in order."""

    def sample(self, rows: int, generator: Rng) -> Mapping[str, Codes]:
        """Return the codes of ``rows`` sampled rows, by attribute."""

    def to_state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the model as a JSON object and arrays, for the model file.

        `read_attributes` of the synthesizer reads them.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The estimated marginal of two columns."""

    first: int  # place of the one column, an own one
    second: int  # place of the other one, greater; own columns come first, then the context
    level: int  # level of the groups of both
    table: Floats  # shares, shape (groups, groups)
    gap: float  # half of its L1 distance from the prediction without this pair, in weight

    def seen_from(self, column: int) -> tuple[int, Floats]:
        """Return the pair's other column, and the table with this column's groups as first axis."""
        if column == self.first:
            return self.second, self.table.T
        return self.first, self.table


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """The conditional distribution P(v | S) of one column v, given its parents S."""

    column: int  # place of v among the own columns
    # Places of S: own columns that stand before, or columns of the context.
    parents: tuple[int, ...]
    parent_groups: tuple[Ints, ...]  # group of every cell of each of S
    groups: Ints  # group of every cell of v
    table: Floats  # P(group of v | groups of S), shape (configurations of S, groups)
    shares: Floats  # share of every cell of v
    likeness: float = 0.0  # of rows of one owner (`together`)
    ordered: bool = False  # whether they are alike along the order of cells
    drift: float = 0.0  # of rows of one owner along the column at the place `along`
    along: int = -1

    @classmethod
    def alone(cls, column: int, shares: Floats) -> Self:
        """Return the factor of a column that depends on no other column."""
        return cls(column, (), (), np.zeros(len(shares), np.int64), np.ones((1, 1)), shares)

    def index(self, codes: Mapping[int, Codes], rows: int) -> Codes:
        """Return the configuration of S of each row, given the rows' cells."""
        # Small integer types, so that less memory is moved.
        kind = np.min_scalar_type(len(self.table))
        index = np.zeros(rows, kind)
        for parent, groups in zip(self.parents, self.parent_groups, strict=True):
            index = index * (int(groups.max()) + 1) + groups.astype(kind)[codes[parent]]
        return index

    def draw(
        self,
        codes: Mapping[int, Codes],
        rows: int,
        generator: Rng,
        owners: Ints | None = None,
    ) -> Codes:
        """Draw the cells of v, given those of S and, for correlated rows, their owners."""
        along = codes[self.along] if self.drift else None
        alike = self.likeness, self.ordered, generator, self.drift, along
        index, numbers = self.index(codes, rows), together(owners, *alike)
        chosen = draw(self.table, index, generator, numbers)
        code_type = np.min_scalar_type(len(self.shares))
        cells = np.argsort(self.groups, kind="stable").astype(code_type)
        if len(cells) == self.table.shape[1]:
            return np.asarray(cells[chosen])
        if numbers is not None:
            # What is left of a number chooses among the cells of the group.
            ends = np.cumsum(self.table, axis=1) / self.table.sum(axis=1, keepdims=True)
            parts = np.diff(ends, axis=1, prepend=0.0)[index, chosen]
            numbers = np.clip(1.0 - (ends[index, chosen] - numbers) / parts, 0.0, 1.0)
        shares = np.maximum(self.shares, 1e-12)[cells]
        widths = np.bincount(self.groups, minlength=self.table.shape[1])
        return choose(shares, widths, chosen, generator, cells, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class TableModel:
    """The distribution of one table's own columns, given its context."""

    factors: tuple[Factor, ...]  # one for every own column, in the order in which they are drawn
    # Law of the attributes, the first columns, if they have a model of their own; drawn first.
    attributes: AttributeModel | None = None
    # Multipliers of the law, which rows that are herded follow, and no others.
    tilts: tuple[Tilt, ...] = ()
    # What joins the degrees, if there are several; they are exchanged once all of them are drawn.
    degrees: JointDegrees | None = None

    def sample(
        self,
        context: Mapping[int, Codes],
        rows: int,
        generator: Rng,
        owners: Ints | None = None,
        sets: Mapping[int, SetLaw] = MappingProxyType({}),
    ) -> dict[int, Codes]:
        """Draw the cells of all own columns, by position, given the context and the rows' owners.

        ``sets`` are distributions of labels among an owner's rows, by position.
        """
        codes = dict(context)
        if self.attributes is not None:
            drawn = self.attributes.sample(rows, generator)
            codes |= {place: drawn[name] for place, name in enumerate(self.attributes.domains)}
        left = set(self.degrees.columns) if self.degrees else set()
        for factor in self.factors:
            cells = factor.draw(codes, rows, generator, owners)
            if law := sets.get(factor.column):
                chances, index = factor.table[:, factor.groups], factor.index(codes, rows)
                whose = law.owners(codes, owners)
                cells = exchanged(cells, chances, index, whose, law, generator)
            codes[factor.column] = cells
            if left == {factor.column} and self.degrees:
                codes = self.degrees.joined(codes, generator)
            left.discard(factor.column)
        return {place: held for place, held in codes.items() if place not in context}

    def parts(self) -> tuple[Self, Self]:
        """Split the model in two: columns joined by factors or tilts, and all other columns."""
        joint = {factor.column for factor in self.factors if factor.parents}
        joint.update(*((*factor.parents, factor.along) for factor in self.factors))
        joint.update(*(tilt.columns for tilt in self.tilts if len(tilt.columns) > 1))
        within = [
            tuple(f for f in self.factors if (f.column in joint) is own) for own in (True, False)
        ]
        tilts = tuple(tilt for tilt in self.tilts if joint.issuperset(tilt.columns))
        return type(self)(within[0], tilts=tilts), type(self)(within[1])

    def to_state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return factors and tilts, which `from_state` reads; attributes are not included."""
        factors, tilts = list[dict[str, Any]](), list[dict[str, Any]]()
        arrays: dict[str, NDArray[Any]] = {}
        for number, factor in enumerate(self.factors):
            names = "column", "parents", "likeness", "ordered", "drift", "along"
            factors.append({name: getattr(factor, name) for name in names})
            arrays[f"{number}/table"] = factor.table
            arrays[f"{number}/shares"] = factor.shares
            arrays[f"{number}/groups"] = factor.groups
            for place, groups in enumerate(factor.parent_groups):
                arrays[f"{number}/parent{place}"] = groups
        for number, tilt in enumerate(self.tilts):
            tilts.append({"columns": list(tilt.columns)})
            arrays[f"tilt{number}/multipliers"] = tilt.multipliers
            for place, groups in enumerate(tilt.groups):
                arrays[f"tilt{number}/groups{place}"] = groups
        if self.degrees:
            arrays |= {f"degrees/{name}": array for name, array in self.degrees.to_arrays().items()}
        return {"factors": factors, "tilts": tilts}, arrays

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        own: int,
        attributes: AttributeModel | None = None,
    ) -> Self:
        """Return the model, with ``own`` own columns, that state and arrays of `to_state` describe.

        Raises:
            ModelError: Damaged or hostile input.
        """
        factors, seen = [], set(range(len(attributes.domains) if attributes else 0, own))
        for number, item in enumerate(state["factors"]):
            parents = tuple(int(place) for place in item["parents"])
            groups = _grouping(arrays[f"{number}/groups"])
            lists = tuple(
                _grouping(arrays[f"{number}/parent{place}"]) for place in range(len(parents))
            )
            shape = (
                prod(int(degree_arrays.max()) + 1 for degree_arrays in lists),
                int(groups.max()) + 1,
            )
            if prod(shape) > CELLS:
                raise ModelError("a factor in the model has more cells than any that is learned.")
            table = _distributions(arrays[f"{number}/table"], shape)
            shares = _distributions(arrays[f"{number}/shares"][None], (1, len(groups)))[0]
            alike = float(item.get("likeness", 0.0)), bool(item.get("ordered"))
            drift = float(item.get("drift", 0.0)), int(item.get("along", -1))
            of = int(item["column"]), parents, lists, groups, table, shares
            factor = Factor(*of, *alike, *drift)
            fits = abs(factor.likeness) <= 1.0 and abs(factor.drift) <= 1.0
            if not fits or (factor.drift and factor.along not in {*range(own)} - seen):
                raise ModelError("a likeness in the model is damaged.")
            if factor.column not in seen or any(parent in seen for parent in parents):
                raise ModelError("the factors of a table in the model have no order.")
            seen.discard(factor.column)
            factors.append(factor)
        if seen:
            raise ModelError("a table in the model lacks the factor of a column.")
        tilts = [_tilt(item, arrays, n, own) for n, item in enumerate(state["tilts"])]
        parts = ((name.partition("/"), array) for name, array in arrays.items())
        degree_arrays = {part: array for (first, _, part), array in parts if first == "degrees"}
        degrees = JointDegrees.from_arrays(degree_arrays) if degree_arrays else None
        if degrees and not set(degrees.columns) <= set(range(own)):
            raise ModelError("degrees in the model are no columns.")
        return cls(tuple(factors), attributes, tuple(tilts), degrees)

    def check(self, cells: Sequence[int]) -> None:
        """Refuse factors that do not fit the cells of own columns and context.

        Raises:
            ModelError: A column that is not there, or another number of cells.
        """
        for factor in self.factors:
            columns_groups = [(factor.column, factor.groups)]
            columns_groups += zip(factor.parents, factor.parent_groups, strict=True)
            _require_columns(columns_groups, cells)
        for tilt in self.tilts:
            _require_columns(zip(tilt.columns, tilt.groups, strict=True), cells)


def _require_columns(columns: Iterable[tuple[int, Ints]], cells: Sequence[int]) -> None:
    for place, groups in columns:
        if not 0 <= place < len(cells) or len(groups) != cells[place]:
            raise ModelError("a factor in the model does not fit its columns.")


def _tilt(
    item: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], number: int, own: int
) -> Tilt:
    columns = tuple(int(place) for place in item["columns"])
    groups = tuple(_grouping(arrays[f"tilt{number}/groups{at}"]) for at in range(len(columns)))
    multipliers = arrays[f"tilt{number}/multipliers"]
    shape = tuple(int(of.max()) + 1 for of in groups)
    plain = multipliers.shape == shape and multipliers.dtype == np.float64
    # The test of the largest multiplier also refuses NaN.
    if not plain or prod(shape) > CELLS or not (np.abs(multipliers) <= MOST).all():
        raise ModelError("a tilt in the model is damaged.")
    if not 0 < len(set(columns)) == len(columns) <= 2 or not set(columns) <= set(range(own)):
        raise ModelError("a tilt in the model does not fit its columns.")
    return Tilt(columns, groups, multipliers)


def _grouping(array: NDArray[Any]) -> Ints:
    plain = array.ndim == 1 and array.dtype == np.int64 and len(array) > 0
    if not plain or array.min() < 0 or array.max() >= min(len(array), MOST_GROUPS):
        raise ModelError("groups in the model are damaged.")
    return array


def _distributions(array: NDArray[Any], shape: tuple[int, int]) -> Floats:
    # The test that sums are near 1 also refuses NaN.
    plain = array.shape == shape and array.dtype == np.float64
    if not plain or (array < 0).any() or not (np.abs(array.sum(axis=1) - 1.0) < ROUNDED).all():
        raise ModelError("distributions in the model are damaged.")
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The synthetic rows of the table that is being learned."""

    own: int  # number of own columns
    context: Mapping[int, Codes]  # cells of the columns of the context, by place
    weights: Floats  # weight of every row, shape (rows,)
    first: tuple[int, ...] = ()  # places of columns that others follow, which are drawn early


def build_table_model(
    variables: Sequence[Variable],
    pairs: Sequence[Pair],
    rows: Rows,
    generator: Rng,
    degrees: JointDegrees | None = None,
) -> tuple[TableModel, dict[int, Codes]]:
    """Build the model of greatest entropy, factor by factor, and return it with synthetic rows.

    The next column is always the one whose pairs with the columns chosen so far differ most from
    the prediction. A pair whose table would make a factor too large is taken at a coarser level, or
    left out. Degrees that are joined come first, then ``rows.first``. The rows are cells by
    position, of own columns and context.
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

    begin = [*(degrees.columns if degrees else ()), *rows.first]
    while todo:
        column = begin.pop(0) if begin else max(todo, key=gain)
        todo.remove(column)
        near = [pair for pair in of[column] if pair.seen_from(column)[0] in codes]
        near.sort(key=lambda pair: -pair.gap)
        factor = _factor(column, near, variables, codes, rows.weights)
        codes[column] = factor.draw(codes, count, generator)
        factors.append(factor)
        if degrees and column == degrees.columns[-1]:
            codes = degrees.joined(codes, generator)
    return TableModel(tuple(factors), degrees=degrees), codes


def _factor(
    column: int,
    near: Sequence[Pair],
    variables: Sequence[Variable],
    codes: Mapping[int, Codes],
    weights: Floats,
) -> Factor:
    """The conditional law of one column, given its pairs with columns that are placed already."""
    own = variables[column]
    fine = max((pair.level for pair in near), default=0)
    pairs_used: list[tuple[Pair, int]] = []
    size = own.groups(fine)
    for pair in near:
        other, level = variables[pair.seen_from(column)[0]], min(pair.level, fine)
        while level and size * other.groups(level) > CELLS:
            level -= 1
        if len(pairs_used) < WIDTH and size * other.groups(level) <= CELLS:
            pairs_used.append((pair, level))
            size *= other.groups(level)
    if not pairs_used:
        return Factor.alone(column, own.shares)
    places = [pair.seen_from(column)[0] for pair, _ in pairs_used]
    others = [variables[place] for place in places]
    lists = [other.levels[level] for other, (_, level) in zip(others, pairs_used, strict=True)]
    shape = [other.groups(level) for other, (_, level) in zip(others, pairs_used, strict=True)]
    # P(S) is counted on synthetic rows, on evenly spaced ones if there are many.
    step = -(-len(weights) // COUNTED)
    at = np.ravel_multi_index(
        [held[codes[place][::step]] for held, place in zip(lists, places, strict=True)], shape
    )
    counts = np.bincount(at, weights[::step], minlength=prod(shape)).reshape(shape)
    parents = np.asarray(counts / max(float(counts.sum()), 1e-12))
    targets, groups = [], []
    for axis, (pair, level) in enumerate(pairs_used):
        table = pair.seen_from(column)[1]
        merged = np.zeros((shape[axis], table.shape[1]))
        np.add.at(merged, others[axis].coarser(pair.level, level), table)
        margin = parents.sum(axis=tuple(other for other in range(len(pairs_used)) if other != axis))
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
    )
