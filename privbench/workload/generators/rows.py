"""The sources of the rows that generators use, which answer their queries too.

Rows come from a database, or in memory from a model. Rows of a database make a workload
CONFIDENTIAL. Rows of a model are synthetic, and a workload with their values may be published. Its
answers on one sample only show which queries are empty, and are not stated.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.arrays import Floats, Ints, Rng
from privbench.postgres.connect import SELECT
from privbench.postgres.reading import assignment
from privbench.postgres.statement import build
from privbench.rng import generator
from privbench.schema import Column, ForeignKey, Table
from privbench.workload.generators.draft import (
    DATES,
    ColumnSample,
    JoinTree,
    Predicate,
    QueryDraft,
    RowTexts,
    judged,
    pick,
)

# The number of rows of a table around which queries are drawn, and the number of these from which
# literals are taken. Twice or half as many change which values are drawn, but no property of the
# workload.
_START_ROWS, _SAMPLE = 2000, 500
_SEEDS = 2**31


class RowSource(ABC):
    """Rows from which literals are taken, and which answer queries; each table is sampled once."""

    #: Whether the workload states the answers.
    stated: bool

    def __init__(self) -> None:
        self._values: dict[str, list[ColumnSample]] = {}
        self._starts: dict[str, list[RowTexts]] = {}

    def values(self, table: Table) -> list[ColumnSample]:
        """Return the usable columns of a table with their values in some of its rows."""
        if table.key not in self._values:
            self._values[table.key] = judged(table, self.starts(table)[:_SAMPLE])
        return self._values[table.key]

    def starts(self, table: Table) -> list[RowTexts]:
        """Return some rows of a table, in an order that the seed decides."""
        if table.key not in self._starts:
            self._starts[table.key] = self.sample(table, _START_ROWS)
        return self._starts[table.key]

    @abstractmethod
    def sample(self, table: Table, most: int) -> list[RowTexts]:
        """Return at most ``most`` rows of a table, chosen by the seed."""

    @abstractmethod
    def match(self, table: Table, values: Mapping[str, str], seed: int) -> RowTexts | None:
        """Return a row of the table with these values, chosen by the seed, or None."""

    @abstractmethod
    def count(self, draft: QueryDraft, enough: int | None = None) -> int | None:
        """Return the number of rows that satisfy the conditions; None if counting takes too long.

        Counting may stop at ``enough`` rows.
        """


def joined(
    tables: Mapping[int, Table],
    links: Sequence[tuple[tuple[int, str], tuple[int, str]]],
    start: int,
    rows: RowSource,
    rng: Rng,
) -> dict[int, RowTexts]:
    """Return rows that join: a random row of the first table, then matching rows along the links.

    Tables are numbered, and ``start`` is the number of the first one. The walk ends at a table
    without a matching row; the result has a row of every table that was reached until then.
    """
    starts = rows.starts(tables[start])
    row_of = {start: pick(starts, rng)} if starts else {}
    ends = [end for link in links for end in (link, link[::-1])]
    while row_of:
        reached = (new for (old, _), (new, _) in ends if old in row_of and new not in row_of)
        new = next(reached, None)
        if new is None:
            break
        values = {
            name: row_of[old][source_column]
            for (old, source_column), (other, name) in ends
            if other == new and old in row_of
        }
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) < len(values):
            break
        row = rows.match(tables[new], known, int(rng.integers(_SEEDS)))
        if row is None:
            break
        row_of[new] = row
    return row_of


def anchored(tree: JoinTree, rows: RowSource, rng: Rng) -> list[RowTexts] | None:
    """Return rows that join, one of each of the tree's tables; None if a table has no match.

    A query whose predicates hold for such rows has an answer of at least one.
    """
    reached = joined(dict(enumerate(tree.tables)), tree.links, 0, rows, rng)
    return (
        [reached[place] for place in range(len(reached))]
        if len(reached) == len(tree.tables)
        else None
    )


class DatabaseRows(RowSource):
    """Rows chosen by a hash of their content and the seed, whatever their physical order.

    Queries are answered by running them, within a time-out in seconds.
    """

    stated = True

    def __init__(
        self, connection: psycopg.Connection[Any], seed: int, timeout: float = 20.0
    ) -> None:
        super().__init__()
        self._connection = connection
        self._seed = seed
        self._timeout = timeout

    def sample(self, table: Table, most: int) -> list[RowTexts]:
        """Return at most ``most`` rows of a table: the first in the order of their hashes."""
        return self._rows(table, sql.SQL("true"), self._seed, most)

    def match(self, table: Table, values: Mapping[str, str], seed: int) -> RowTexts | None:
        """Return a row with these values, or None."""
        condition = sql.SQL(" AND ").join(
            build("t.{} = {}", name, sql.Literal(value)) for name, value in values.items()
        )
        rows = self._rows(table, condition, seed, 1)
        return rows[0] if rows else None

    def count(self, draft: QueryDraft, enough: int | None = None) -> int | None:
        """Return the number of rows that satisfy the conditions; None if counting is too slow."""
        limit = str(max(1, round(1000 * self._timeout)))
        try:
            # The rollback restores the session's own time-out.
            with self._connection.transaction(force_rollback=True):
                self._connection.execute(assignment("statement_timeout", limit))
                row = self._connection.execute(draft.counting(enough).encode()).fetchone()
        except psycopg.errors.QueryCanceled:
            return None
        return int(row[0]) if row else None

    def _rows(
        self, table: Table, condition: sql.Composable, seed: int, most: int
    ) -> list[RowTexts]:
        if not table.columns:
            return []
        query = SELECT + build(
            "{columns} FROM {table} AS t WHERE {condition}"
            " ORDER BY pg_catalog.hashtextextended("
            "pg_catalog.array_to_string(ARRAY[{columns}], ','), {seed}::bigint) LIMIT {most}",
            columns=list(map(_as_text, table.columns)),
            table=table.name,
            condition=condition,
            seed=seed,
            most=most,
        )
        names = [column.name for column in table.columns]
        fetched = self._connection.execute(query).fetchall()
        return [dict(zip(names, row, strict=True)) for row in fetched]


def _as_text(column: Column) -> sql.Composable:
    """The column as text; dates in ISO order whatever the session's DateStyle."""
    form = "pg_catalog.to_json({}) #>> '{{}}'" if column.type.base in DATES else None
    return sql.SQL(form or column.type.text_form).format(sql.Identifier("t", column.name))


# Separates the columns of a composite key.
_SEAM = "\x1f"
_COMPARE = {
    "=": pc.equal, "<": pc.less, ">": pc.greater, "<=": pc.less_equal, ">=": pc.greater_equal,
}  # fmt: skip


class MemoryRows(RowSource):
    """Rows of synthetic tables, by ``schema.table``; values become text on request.

    Queries are answered by counting along the join tree.
    """

    stated = False

    def __init__(
        self, tables: Mapping[str, Mapping[str, pa.Array | pa.ChunkedArray]], seed: int
    ) -> None:
        super().__init__()
        self._tables = tables
        self._seed = seed
        self._read: dict[tuple[str, str, bool], pa.Array] = {}
        self._places: dict[tuple[str, tuple[str, ...]], dict[str, Ints]] = {}
        self._codes: dict[ForeignKey, tuple[Ints, Ints, int]] = {}

    def sample(self, table: Table, most: int) -> list[RowTexts]:
        """Return random rows of a table."""
        size = self.size(table)
        rng = generator(self._seed, "memory rows", table.key)
        return self._rows(table, rng.choice(size, min(size, most), replace=False))

    def match(self, table: Table, values: Mapping[str, str], seed: int) -> RowTexts | None:
        """Return a row with these values, or None."""
        place = (table.key, tuple(values))
        if place not in self._places:
            (codes,), known = _encoded(self.keys(table, tuple(values)))
            order = np.argsort(codes, kind="stable")
            ends = np.searchsorted(codes[order], np.arange(len(known) + 1))
            groups = zip(known, pairwise(ends), strict=True)
            self._places[place] = {key: order[start:end] for key, (start, end) in groups}
        matching = self._places[place].get(_SEAM.join(values.values()))
        return None if matching is None else self._rows(table, matching[[seed % len(matching)]])[0]

    def size(self, table: Table) -> int:
        """Return the number of rows; 0 if there are no columns."""
        return next((len(array) for array in self._tables.get(table.key, {}).values()), 0)

    def column(self, table: Table, name: str, *, numeric: bool = False) -> pa.Array:
        """Return a column as text, or as numbers; NULL if the tables lack the column."""
        place = (table.key, name, numeric)
        if place not in self._read:
            array = self._tables.get(table.key, {}).get(name)
            missing = pa.nulls(self.size(table), pa.string())
            text = missing if array is None else _as_texts(array)
            self._read[place] = pc.cast(text, pa.float64()) if numeric else text
        return self._read[place]

    def keys(self, table: Table, columns: tuple[str, ...]) -> pa.Array:
        """Return the values of columns joined in one text per row; NULL if one of them is NULL."""
        arrays = [self.column(table, name) for name in columns]
        return pc.binary_join_element_wise(*arrays, _SEAM)

    def _rows(self, table: Table, places: Ints) -> list[RowTexts]:
        names = [column.name for column in table.columns]
        cells = [self.column(table, name).take(pa.array(places)).to_pylist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def count(self, draft: QueryDraft, enough: int | None = None) -> int:
        """Return the number of rows that satisfy the conditions."""
        weights = [self._kept(draft, place) for place in range(len(draft.tree.tables))]
        # The last table is a leaf of the remaining tree: multiply its counts into its neighbour.
        for new, edge in reversed(list(enumerate(draft.tree.edges, 1))):
            _, child, parent = edge
            old = parent if child == new else child
            mine, other_codes, size = self._coded(draft.tree, edge, new)
            sums = np.bincount(mine[mine >= 0], weights[new][mine >= 0], minlength=max(size, 1))
            weights[old] = weights[old] * np.where(other_codes >= 0, sums[other_codes], 0.0)
        return round(float(weights[0].sum()))

    def _kept(self, draft: QueryDraft, place: int) -> Floats:
        """1 for the rows of a table that satisfy its predicates, 0 for all others."""
        table = draft.tree.tables[place]
        satisfied = np.ones(self.size(table), dtype=bool)
        for item in draft.predicates:
            if item.table == place:
                mask = self._mask(table, item).fill_null(False)
                satisfied &= mask.to_numpy(zero_copy_only=False)
        return satisfied.astype(np.float64)

    def _mask(self, table: Table, item: Predicate) -> pa.Array:
        name, numeric = item.values.column.name, item.values.column.type.category == "N"
        if item.operator.startswith("is "):
            nulls = pc.is_null(self.column(table, name))
            return nulls if item.operator == "is null" else pc.invert(nulls)
        column = self.column(table, name, numeric=numeric)
        if item.operator.endswith("like"):
            return pc.match_like(column, item.texts[0], ignore_case=item.operator == "ilike")
        bounds = [pa.scalar(float(text) if numeric else text) for text in item.texts]
        if item.operator == "between":
            return pc.and_(pc.greater_equal(column, bounds[0]), pc.less_equal(column, bounds[1]))
        return _COMPARE[item.operator](column, bounds[0])

    def _coded(
        self, tree: JoinTree, edge: tuple[ForeignKey, int, int], new: int
    ) -> tuple[Ints, Ints, int]:
        """The key as codes in both tables, those of the new table first, and their number.

        NULL is -1.
        """
        key, below, above = edge
        if key not in self._codes:
            child = self.keys(tree.tables[below], key.columns)
            parent = self.keys(tree.tables[above], key.ref_columns)
            (mine, others), known = _encoded(child, parent)
            self._codes[key] = mine, others, len(known)
        child_codes, parent_codes, size = self._codes[key]
        return (
            (child_codes, parent_codes, size) if below == new else (parent_codes, child_codes, size)
        )


def _encoded(*columns: pa.Array) -> tuple[list[Ints], list[str]]:
    """Columns of texts as codes, -1 for NULL, and the texts that the codes stand for."""
    # Texts of more than 2 GiB in all need large strings.
    whole = pa.concat_arrays([pc.cast(column, pa.large_string()) for column in columns])
    encoded = whole.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return np.split(codes, ends), encoded.dictionary.to_pylist()


def _as_texts(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An array as texts that PostgreSQL can read, except for NaN and bytes."""
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
