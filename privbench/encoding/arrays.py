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
and whatever else of the row the model has learned with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

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
)
from privbench.encoding.categories import MAX_LABEL, label_piece, labels_of, released_labels
from privbench.encoding.keys.placeholders import is_array, part_maker
from privbench.encoding.scale import int64_points, scale_of
from privbench.encoding.surrogate_text import joined, length_cells, quoted
from privbench.encoding.unmodelled import MAX_ELEMENTS, drawn_sizes, limited_edges
from privbench.privacy.recoding import EdgesRecoding, LabelsRecoding, Recoding
from privbench.schema import Column

#: Up to this share, elements without a label are taken for noise, as in columns of text.
_NOISE = 0.05
#: How often elements that a row has already are drawn again; what is still repeated then stays.
_AGAIN = 8

_SIZE = "pg_catalog.cardinality({0})::bigint"
#: A 32-bit number from the operating system's random bytes, which version-4 UUIDs consist of.
_RANDOM = (
    "('x' || pg_catalog.left(pg_catalog.gen_random_uuid()::pg_catalog.text, 8))"
    "::pg_catalog.bit(32)::bigint"
)
#: PostgreSQL cannot print a value whose text is longer than a gigabyte, and a nested one may take
#: many times its size. No element of more than a megabyte is printed: it is too long for a label.
_ELEMENT = (
    "(SELECT CASE WHEN pg_catalog.pg_column_size(e.v) > 1048576 THEN pg_catalog.repeat('?', {1})"
    " ELSE pg_catalog.left(FORM, {1}) END FROM (SELECT pg_catalog.unnest({0}) AS v"
    " OFFSET RANDOM % GREATEST(pg_catalog.cardinality({0}), 1) LIMIT 1) AS e)"
)


@dataclass(frozen=True)
class ArrayCodec(Codec):
    """Gives arrays of a sampled length: the row's element, and others of rows as long as it.

    Elements without a label are made by their type's placeholder. Numbers, dates and listed values
    are drawn from the labels instead, if there are any. Elements of a row differ where the labels
    allow it.
    """

    kind: ClassVar[str] = "array"

    edges: tuple[int, ...]  # edges of the cells of lengths
    labels: tuple[str, ...]  # released elements

    @property
    def domains(self) -> dict[str, Domain]:
        lengths = length_cells(self.edges, self.nullable).domain
        return {attribute(self.column, "length"): lengths, self.column: self._labels.domain}

    @property
    def _labels(self) -> LabelsRecoding:
        return LabelsRecoding(self.labels, True, True)

    @property
    def recodings(self) -> dict[str, Recoding]:
        return {self.column: self._labels}

    def decode(self, codes: Codes, rng: Rng, rows: int | None = None) -> pa.Array:
        """Array literals; NULL where the length has the code of NULL."""
        length = attribute(self.column, "length")
        sizes, null = drawn_sizes(codes[length], self.domains[length], self.edges, rng)
        given = codes[self.column].astype(np.int64)
        named, element = given < len(self.labels), self.type.parts[0]
        listed = scale_of(element) is not None or bool(labels_of(element))
        other = given == len(self.labels)
        if named.any() and (listed or other.sum() < _NOISE * (named | other).sum()):
            other = np.zeros_like(other)
        known = np.flatnonzero((named | other) & (sizes > 0))
        flat = _elements(given, sizes, known, codes[length].astype(np.int64), len(self.labels), rng)
        texts = self._texts(flat, rng)
        places = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        lists = pa.ListArray.from_arrays(places, texts)
        made = joined("{", pc.binary_join(lists, ";" if element.base == "box" else ","), "}")
        return pc.if_else(pa.array(null), pa.scalar(None, made.type), made)

    def _texts(self, flat: NDArray[np.int64], rng: Rng) -> pa.Array:
        """Every element as it is written in an array literal."""
        maker = part_maker(self.type.parts[0])
        if maker is None:
            raise ValueError(f"no element of {self.type.sql} can be made")
        others = np.flatnonzero(flat == len(self.labels))
        made = maker.make(rng.integers(2**20, size=len(others)) % maker.room).cast(pa.string())
        places = flat.copy()
        places[others] += np.arange(len(others))
        pool = pa.concat_arrays([pa.array(self.labels, pa.string()), made])
        return quoted(pool).fill_null("NULL").take(pa.array(places))


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
    """Reads every array's length, and one of its elements as a possible label."""

    per_unit: int = 1  # distinct elements that one unit may propose
    sizes: tuple[int, int | None] = (0, None)  # least and greatest length that rules allow

    @property
    def attributes(self) -> tuple[str, ...]:
        return attribute(self.name, "length"), self.name

    @property
    def labelled(self) -> bool:
        return True

    @property
    def needs(self) -> tuple[Need, ...]:
        public = labels_of(self.column.type.parts[0])
        return (CategoriesNeed(self.name, self.per_unit, repeats=True, public=public),)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        size = sql.SQL(_SIZE).format(identifier)
        form = self.column.type.parts[0].text_form.replace("{0}", "e.v")
        text = sql.SQL(_ELEMENT.replace("FORM", form).replace("RANDOM", _RANDOM))
        return [
            (text.format(identifier, sql.Literal(MAX_LABEL + 1)), self.alias()),
            (size, self.alias("n")),
        ]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """One piece per attribute: the element as text, and the cell of the length."""
        points = int64_points(batch[self.alias("n")])
        cells = self._lengths.apply(points)
        return {self.name: label_piece(batch[self.alias()]), self.attributes[0]: cells}

    @property
    def cells(self) -> dict[str, Domain]:
        return {self.attributes[0]: self._lengths.domain}

    @property
    def _lengths(self) -> EdgesRecoding:
        return length_cells(limited_edges(self.column, self.sizes, MAX_ELEMENTS), self.nullable)

    def finish(self, released: Mapping[str, Released]) -> Codec:
        return ArrayCodec(*self.head, self._lengths.edges, released_labels(released, self.name))

    def describe(self) -> tuple[str, str]:
        return (
            "arrays of measured length, of released elements",
            "elements of enough units, under δ",
        )


def array_reader(
    table: str, column: Column, per_unit: int, sizes: tuple[int, int | None]
) -> ArrayReader | None:
    """The reader of an array whose elements can be released as labels, else None.

    ``sizes`` are the least and greatest number of elements that rules of the schema allow.
    """
    if not per_unit or column.templates or not is_array(column.type):
        return None
    if part_maker(column.type.parts[0]) is None:
        return None
    return ArrayReader(table, column, per_unit, sizes)
