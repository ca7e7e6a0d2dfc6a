"""Arrays: how many elements they have, and one random element of every row.

What is read of a row is a random map of its own value (P33, P39): the number of elements, and one
of them, each with the same chance, by a fresh random number of the operating system that is used
for nothing else. So the element is a text attribute with one value a row, like any other column of
labels, and every query over it has the sensitivity that it claims for such attributes. No query
counts several elements of a row: an array of a thousand elements adds no more than one of a single
element does, and a unit with several such rows what its rows add by their weights. A row without
elements, and one whose element is NULL, has NULL. The proof fixes the numbers that are drawn for
the rows that both databases share, as that of random ranks does (P14).

The elements of a row's array have, by this, the law of a random element given the array's length
and whatever else of the row the model has learned with it. Elements on a grid (numbers, dates) are
read as columns of their type are, with a released range. Whether a few elements ascend is a third
map of the row's own value, with two cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql
from pydantic import PlainValidator

from privbench.config import ColumnConfig
from privbench.domain import Domain
from privbench.encoding.base import (
    CategoriesNeed,
    Codec,
    Codes,
    ColumnReader,
    Need,
    Released,
    Rng,
    attribute,
    null_mask,
)
from privbench.encoding.bounds import public_range
from privbench.encoding.categories import MAX_LABEL, label_piece, labels_of, released_labels
from privbench.encoding.keys.placeholders import is_array, part_maker
from privbench.encoding.ordered import OrderedCodec, OrderedReader
from privbench.encoding.scale import int64_points, scale_of
from privbench.encoding.surrogate_text import TEXT_BASES, joined, length_cells, quoted
from privbench.encoding.unmodelled import MAX_ELEMENTS, drawn_sizes, limited_edges
from privbench.privacy.recoding import EdgesRecoding, LabelsRecoding, Recoding
from privbench.schema import Column

#: Up to this share, elements without a label are taken for noise, as in columns of text.
_NOISE = 0.05
#: How often elements that a row has already are drawn again; what is still repeated then stays.
_AGAIN = 8

_SIZE = "pg_catalog.cardinality({0})::bigint"
_ASCENDS = (
    "CASE WHEN pg_catalog.cardinality({0}) BETWEEN 2 AND {1} THEN"
    " ({0} = ARRAY(SELECT u.e FROM pg_catalog.unnest({0}) AS u(e) ORDER BY u.e))::integer END"
)
_ORDER = Domain(2, nullable=True)
#: A 32-bit number from the operating system's random bytes, which version-4 UUIDs consist of.
_RANDOM = (
    "('x' || pg_catalog.left(pg_catalog.gen_random_uuid()::pg_catalog.text, 8))"
    "::pg_catalog.bit(32)::bigint"
)
#: PostgreSQL cannot print a value whose text is longer than a gigabyte, and a nested one may take
#: many times its size. No element of more than a megabyte is printed: it is too long for a label.
_ELEMENT = (
    "CASE WHEN pg_catalog.pg_column_size(e.v) > 1048576 THEN pg_catalog.repeat('?', {1})"
    " ELSE pg_catalog.left(FORM, {1}) END"
)
_DRAWN = (
    "(SELECT {1} FROM (SELECT pg_catalog.unnest({0}) AS v"
    " OFFSET {2} % GREATEST(pg_catalog.cardinality({0}), 1) LIMIT 1) AS e)"
)


@dataclass(frozen=True)
class ArrayCodec(Codec):
    """Gives arrays of a sampled length: the row's element, and others of rows as long as it.

    Elements without a label are made by their type's placeholder. Listed values are drawn from the
    labels instead, if there are any. Labelled elements of a row differ where the labels allow it.
    """

    kind: ClassVar[str] = "array"

    edges: tuple[int, ...]  # edges of the cells of lengths
    labels: tuple[str, ...]  # released elements
    grid: Annotated[OrderedCodec, PlainValidator(OrderedCodec.from_json)] | None = None
    ascends: bool = False  # whether it is measured which arrays ascend

    def __post_init__(self) -> None:
        """Refuse elements of another column."""
        if self.grid and (self.grid.column, self.grid.type) != (self.column, self.type.parts[0]):
            raise ValueError("the elements of an array are not those of its type")

    @property
    def domains(self) -> dict[str, Domain]:
        lengths = length_cells(self.edges, self.nullable).domain
        elements = self.grid.recoding.domain if self.grid else self._labels.domain
        order = {attribute(self.column, "ascends"): _ORDER} if self.ascends else {}
        return {attribute(self.column, "length"): lengths, self.column: elements, **order}

    @property
    def _labels(self) -> LabelsRecoding:
        return LabelsRecoding(self.labels, True, True)

    @property
    def recodings(self) -> dict[str, Recoding]:
        return self.grid.recodings if self.grid else {self.column: self._labels}

    def decode(self, codes: Codes, rng: Rng, rows: int | None = None) -> pa.Array:
        """Array literals; NULL where the length has the code of NULL."""
        length = attribute(self.column, "length")
        sizes, null = drawn_sizes(codes[length], self.domains[length], self.edges, rng)
        given, element = codes[self.column].astype(np.int64), self.type.parts[0]
        known, labels = ~null_mask(given, self.domains[self.column]), len(self.labels)
        if not self.grid:
            named, other = given < labels, known & (given == labels)
            if named.any() and (labels_of(element) or other.sum() < _NOISE * known.sum()):
                known = named
        there, cells = np.flatnonzero(known & (sizes > 0)), codes[length].astype(np.int64)
        flat = _elements(given, sizes, there, cells, labels, rng)
        values = self._values(flat, rng)
        if self.ascends:
            order = codes[attribute(self.column, "ascends")]
            fall, rise = (order == 0).sum(), (order == 1).sum()
            ascend = (order == 1) | (fall < _NOISE * rise) | ((order == 2) & (rise > fall))
            listed = pa.array(labels_of(element), pa.string())
            rank = pc.index_in(values, value_set=listed) if len(listed) else values
            rank = pa.array(self.grid.scale.points_of(values)) if self.grid else rank
            values = values.take(_ascending(rank, sizes, ascend))
        texts = quoted(values.cast(pa.string())).fill_null("NULL")
        places = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        lists = pa.ListArray.from_arrays(places, texts)
        made = joined("{", pc.binary_join(lists, ";" if element.base == "box" else ","), "}")
        return pc.if_else(pa.array(null), pa.scalar(None, made.type), made)

    def _values(self, flat: NDArray[np.int64], rng: Rng) -> pa.Array:
        """Every element."""
        if self.grid:
            return self.grid.decode({self.column: flat}, rng)
        maker = part_maker(self.type.parts[0])
        if maker is None:
            raise ValueError(f"no element of {self.type.sql} can be made")
        others = np.flatnonzero(flat == len(self.labels))
        made = maker.make(rng.integers(2**20, size=len(others)) % maker.room).cast(pa.string())
        places = flat.copy()
        places[others] += np.arange(len(others))
        return pa.concat_arrays([pa.array(self.labels, pa.string()), made]).take(pa.array(places))


def _ascending(values: pa.Array, sizes: NDArray[np.int64], ascend: NDArray[np.bool_]) -> pa.Array:
    """Places of the elements, those of some rows in ascending order."""
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = pc.sort_indices(
        pa.table({"row": row, "value": values}),
        sort_keys=[("row", "ascending"), ("value", "ascending")],
    )
    return pa.array(np.where(ascend[row], order, np.arange(len(row))).astype(np.int64))


def _elements(
    given: NDArray[np.int64],
    sizes: NDArray[np.int64],
    known: NDArray[np.int64],
    cells: NDArray[np.int64],
    labels: int,
    rng: Rng,
) -> NDArray[np.int64]:
    """The codes of all elements, row by row; a row that is ``known`` begins with its own.

    All others are those of known rows of the same cell of lengths, or of any row where it has none.
    """
    row = np.repeat(np.arange(len(sizes)), sizes)
    if not len(known):
        return np.full(len(row), labels, np.int64)
    order = known[np.argsort(cells[known], kind="stable")]
    sides = [np.searchsorted(cells[order], cells, side=side) for side in ("left", "right")]
    first, end = np.where(sides[0] < sides[1], sides, [[0], [len(order)]])

    def drawn(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(given[order[rng.integers(first[rows], end[rows])]])

    flat = drawn(row)
    starts = np.cumsum(sizes) - sizes
    flat[starts[known]] = given[known]
    for _ in range(_AGAIN):
        _, once = np.unique(row * (labels + 1) + flat, return_index=True)
        repeated = flat < labels
        repeated[once] = False
        again = np.flatnonzero(repeated)
        if not len(again):
            break
        flat[again] = drawn(row[again])
    return flat


def arrays_of_keys(
    owners: NDArray[np.int64],
    targets: NDArray[np.int64],
    keys: pa.Array,
    null: NDArray[np.bool_],
    rng: Rng,
) -> pa.Array:
    """Array literals of keys; elements of a row differ where the targets allow it.

    Each element has its row and the place of its key. As many rows without elements are NULL as
    ``null`` says, those that it names first; the other ones have an empty array.
    """
    pool = targets.copy()
    for left in range(_AGAIN, -1, -1):
        _, once = np.unique(owners * len(keys) + targets, return_index=True)
        again = np.setdiff1d(np.arange(len(pool)), once)
        if left and len(again):
            targets[again] = pool[rng.integers(len(pool), size=len(again))]
    once = rng.permutation(once)
    once = once[np.argsort(owners[once], kind="stable")]
    sizes = np.bincount(owners[once], minlength=len(null))
    empty = np.flatnonzero(sizes == 0)
    missing = np.zeros(len(null), np.bool_)
    missing[empty[np.argsort(~null[empty], kind="stable")][: null.sum()]] = True
    places = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    texts = quoted(keys.cast(pa.string())).take(pa.array(targets[once]))
    made = joined("{", pc.binary_join(pa.ListArray.from_arrays(places, texts), ","), "}")
    return pc.if_else(pa.array(missing), pa.scalar(None, made.type), made)


@dataclass(frozen=True)
class ArrayReader(ColumnReader):
    """Reads every array's length, one of its elements, and whether it ascends."""

    per_unit: int = 1  # distinct elements that one unit may propose
    sizes: tuple[int, int | None] = (0, None)  # least and greatest length that rules allow

    @cached_property
    def _grid(self) -> OrderedReader | None:
        """The reader of elements on a grid."""
        element = self.column.type.parts[0]
        scale = scale_of(element)
        if scale is None or element.domain is not None:
            return None
        column = Column(self.name, self.column.position, element)
        known = public_range(self.table, column, scale, ColumnConfig(), ())
        return OrderedReader(self.table, column, scale, known, per_unit=self.per_unit)

    @property
    def _ascends(self) -> bool:
        element = self.column.type.parts[0]
        return bool(self._grid or labels_of(element) or element.base in TEXT_BASES)

    @property
    def attributes(self) -> tuple[str, ...]:
        elements = self._grid.attributes if self._grid else (self.name,)
        return tuple(dict.fromkeys((attribute(self.name, "length"), *elements, *self.cells)))

    @property
    def labelled(self) -> bool:
        return self._grid is None

    @property
    def needs(self) -> tuple[Need, ...]:
        if self._grid:
            return self._grid.needs
        public = labels_of(self.column.type.parts[0])
        return (CategoriesNeed(self.name, self.per_unit, repeats=True, public=public),)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        if self._grid:
            [(element, _)] = self._grid.select(sql.SQL("e.v"))
        else:
            form = self.column.type.parts[0].text_form.replace("{0}", "e.v")
            text = sql.SQL(_ELEMENT.replace("FORM", form))
            element = text.format(identifier, sql.Literal(MAX_LABEL + 1))
        found: list[tuple[sql.Composable, str]] = [
            (sql.SQL(_DRAWN).format(identifier, element, sql.SQL(_RANDOM)), self.alias()),
            (sql.SQL(_SIZE).format(identifier), self.alias("n")),
        ]
        ascends = sql.SQL(_ASCENDS).format(identifier, sql.Literal(MAX_ELEMENTS))
        return [*found, (ascends, self.alias("a"))] if self._ascends else found

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """One piece per attribute: the element, the cell of the length, and of the order."""
        part, length = batch[self.alias()], int64_points(batch[self.alias("n")])
        grid, name = self._grid, attribute(self.name, "length")
        result = grid.read({self.alias(): part}) if grid else {self.name: label_piece(part)}
        result[name] = self._lengths.apply(length)
        if self._ascends:
            order = batch[self.alias("a")].cast(pa.int64()).fill_null(2).to_numpy()
            result[attribute(self.name, "ascends")] = order
        return result

    @property
    def cells(self) -> dict[str, Domain]:
        order = {attribute(self.name, "ascends"): _ORDER} if self._ascends else {}
        grid = self._grid.cells if self._grid else {}
        return {attribute(self.name, "length"): self._lengths.domain, **grid, **order}

    @property
    def _lengths(self) -> EdgesRecoding:
        return length_cells(limited_edges(self.column, self.sizes, MAX_ELEMENTS), self.nullable)

    def finish(self, released: Mapping[str, Released]) -> Codec:
        edges, grid = self._lengths.edges, self._grid
        labels = () if grid else released_labels(released, self.name)
        return ArrayCodec(
            *self.head, edges, labels, grid.finish(released) if grid else None, self._ascends
        )

    def describe(self) -> tuple[str, str]:
        if self._grid:
            return "arrays of measured length, of elements in a released range", "by element"
        return (
            "arrays of measured length, of released elements",
            "elements of enough units, under δ",
        )


def array_reader(
    table: str, column: Column, per_unit: int, sizes: tuple[int, int | None]
) -> ArrayReader | None:
    """The reader of an array whose elements are numbers or can be released as labels, else None.

    ``sizes`` are the least and greatest number of elements that rules of the schema allow.
    """
    if column.templates or not is_array(column.type):
        return None
    element = column.type.parts[0]
    grid = scale_of(element) is not None and element.domain is None
    if not (per_unit or grid) or part_maker(element) is None:
        return None
    return ArrayReader(table, column, per_unit, sizes)
