"""Rows and answers of synthetic tables in memory: what a model gives without any database.

A workload made of them holds no literal of a private row. Its answers are those of one sample, so
they say which queries are empty, and are not stated.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.rng import generator
from privbench.schema import ForeignKey, Table
from privbench.workload.generators.draft import Draft, Edge, JoinTree, Predicate, Row
from privbench.workload.generators.rows import Answers, RowSource

#: By column, the values of one table; columns that are left to the server are not there.
Columns = Mapping[str, pa.Array | pa.ChunkedArray]

#: A foreign key as codes of the child's rows, codes of the parent's, and how many there are.
Codes = tuple[NDArray[np.int64], NDArray[np.int64], int]

# Between the columns of a composite key.
_SEAM = "\x1f"
_COMPARE = {
    "=": pc.equal, "<": pc.less, ">": pc.greater, "<=": pc.less_equal, ">=": pc.greater_equal,
}  # fmt: skip


class MemoryRows(RowSource):
    """Rows of synthetic tables, by ``schema.table``; values become text on request."""

    def __init__(self, tables: Mapping[str, Columns], seed: int) -> None:
        super().__init__()
        self._tables = tables
        self._seed = seed
        self._read: dict[tuple[str, str, bool], pa.Array] = {}
        self._places: dict[tuple[str, tuple[str, ...]], dict[str, NDArray[np.int64]]] = {}

    def sample(self, table: Table, most: int) -> list[Row]:
        """Random rows."""
        size = self.size(table)
        rng = generator(self._seed, "memory rows", table.key)
        return self._rows(table, rng.choice(size, min(size, most), replace=False))

    def match(self, table: Table, wanted: Mapping[str, str], seed: int) -> Row | None:
        """A row with these values."""
        place = (table.key, tuple(wanted))
        if place not in self._places:
            keys = self.keys(table, tuple(wanted))
            groups = keys.groupby(keys).indices
            self._places[place] = {str(key): np.asarray(found) for key, found in groups.items()}
        found = self._places[place].get(_SEAM.join(wanted.values()))
        return None if found is None else self._rows(table, found[[seed % len(found)]])[0]

    def size(self, table: Table) -> int:
        """The number of rows; 0 where there are no columns."""
        return next((len(array) for array in self._tables.get(table.key, {}).values()), 0)

    def column(self, table: Table, name: str, *, numeric: bool = False) -> pa.Array:
        """A column as text, or as numbers; NULL where it is not known."""
        place = (table.key, name, numeric)
        if place not in self._read:
            array = self._tables.get(table.key, {}).get(name)
            missing = pa.nulls(self.size(table), pa.string())
            text = missing if array is None else _text(array)
            self._read[place] = pc.cast(text, pa.float64()) if numeric else text
        return self._read[place]

    def keys(self, table: Table, columns: tuple[str, ...]) -> pd.Series:
        """The values of some columns as one, None where one of them is NULL."""
        arrays = [self.column(table, name) for name in columns]
        return pd.Series(pc.binary_join_element_wise(*arrays, _SEAM).to_pandas())

    def _rows(self, table: Table, places: NDArray[np.int64]) -> list[Row]:
        names = [column.name for column in table.columns]
        cells = [self.column(table, name).take(pa.array(places)).to_pylist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]


class MemoryAnswers(Answers):
    """Answers by counting along the tree, which a sample in memory allows."""

    stated = False

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows
        self._codes: dict[ForeignKey, Codes] = {}

    def count(self, draft: Draft, enough: int | None = None) -> int:
        """How many rows the conditions leave."""
        weights = [self._kept(draft, place) for place in range(len(draft.tree.tables))]
        # The last table is a leaf of the remaining tree: multiply its counts into its neighbour.
        for new, edge in reversed(list(enumerate(draft.tree.edges, 1))):
            old = edge.parent if edge.child == new else edge.child
            mine, theirs, size = self._coded(draft.tree, edge, new)
            sums = np.bincount(mine[mine >= 0], weights[new][mine >= 0], minlength=max(size, 1))
            weights[old] = weights[old] * np.where(theirs >= 0, sums[theirs], 0.0)
        return round(float(weights[0].sum()))

    def _kept(self, draft: Draft, place: int) -> NDArray[np.float64]:
        """1 for the rows of a table that its predicates leave, otherwise 0."""
        table = draft.tree.tables[place]
        kept = np.ones(self._rows.size(table), dtype=bool)
        for item in draft.predicates:
            if item.table == place:
                mask = self._mask(table, item).fill_null(False)
                kept &= mask.to_numpy(zero_copy_only=False)
        return kept.astype(np.float64)

    def _mask(self, table: Table, item: Predicate) -> pa.Array:
        name, numeric = item.values.column.name, item.values.column.type.category == "N"
        if item.operator.startswith("is "):
            nulls = pc.is_null(self._rows.column(table, name))
            return nulls if item.operator == "is null" else pc.invert(nulls)
        column = self._rows.column(table, name, numeric=numeric)
        bounds = [pa.scalar(float(text) if numeric else text) for text in item.texts]
        if item.operator == "between":
            return pc.and_(pc.greater_equal(column, bounds[0]), pc.less_equal(column, bounds[1]))
        return _COMPARE[item.operator](column, bounds[0])

    def _coded(self, tree: JoinTree, edge: Edge, new: int) -> Codes:
        """The key as codes of both tables, the new end's first; -1 for NULL."""
        if edge.key not in self._codes:
            child = self._rows.keys(tree.tables[edge.child], edge.key.columns)
            parent = self._rows.keys(tree.tables[edge.parent], edge.key.ref_columns)
            codes, known = pd.factorize(pd.concat([child, parent], ignore_index=True))
            self._codes[edge.key] = codes[: len(child)], codes[len(child) :], len(known)
        ours, theirs, size = self._codes[edge.key]
        return (ours, theirs, size) if edge.child == new else (theirs, ours, size)


def _text(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An array as PostgreSQL would read it, NaN and bytes aside."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    plain = whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole
    if pa.types.is_fixed_size_binary(plain.type) or pa.types.is_binary(plain.type):
        return pa.array([None if v is None else v.hex() for v in plain.to_pylist()], pa.string())
    if pa.types.is_nested(plain.type) or pa.types.is_duration(plain.type):
        return pa.nulls(len(plain), pa.string())
    text = pc.cast(plain, pa.string())
    if pa.types.is_temporal(plain.type):
        # As PostgreSQL's to_json prints them, so that text order is the order in time.
        return pc.replace_substring(pc.replace_substring_regex(text, r"\.0+(Z?)$", r"\1"), " ", "T")
    return text
