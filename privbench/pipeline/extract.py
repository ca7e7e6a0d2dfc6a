"""Read the source's rows as a stream and encode them into the private database.

Memory holds rows as codes (small integers, or grid points until their bounds are released) and as
row indices of parents; key values are dropped as soon as they are matched.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from psycopg import sql

from privbench.domain import PublicValues
from privbench.encoding import calendar
from privbench.encoding.base import ColumnReader
from privbench.errors import SchemaError
from privbench.pipeline.archive import MAX_EMPTY_ROWS
from privbench.pipeline.prepare import FitPlan, TablePlan
from privbench.pipeline.progress import Reporter
from privbench.postgres.keys import (
    DANGLING,
    NULL,
    element_expressions,
    elements,
    key_expressions,
    match,
)
from privbench.postgres.snapshot import Snapshot, SnapshotPart
from privbench.postgres.stream import SelectItem
from privbench.privacy.data import Attribute, PrivateDatabase, PrivateTable
from privbench.privacy.recoding import narrow
from privbench.privacy.units import RowIndex
from privbench.privacy.workers import Workers, WorkersCounter
from privbench.schema import ROW, ForeignKey
from privbench.threads import JOBS, spread, streamed

#: Parts of a table per worker. Several are read, so that the last part of a slow worker, for which
#: the other workers wait, is small.
PARTS = 4


#: Rows of one table: their number; per column, the pieces that its reader made, one for each
#: batch; and the arrays of each column of keys.
_EncodedPart = tuple[int, dict[str, list[dict[str, Any]]], dict[str, list[pa.Array]]]


@dataclass(frozen=True)
class _KeyColumn:
    """A column of a key; references that need the same expression of a table share it."""

    table: str
    expression: sql.Composable

    @property
    def alias(self) -> str:
        """Its name among what is read of the table."""
        return f"key {self.expression.as_string()}"


@dataclass(frozen=True, repr=False)
class _Raw:
    """One table before its keys are matched; key columns are dropped as each key is matched."""

    rows: int
    attributes: Mapping[str, Attribute]
    keys: dict[str, pa.ChunkedArray]
    verbatim: pa.Table | None = None  # the columns of a public table


def extract(
    snapshot: Snapshot, plan: FitPlan, reporter: Reporter, workers: Workers | None = None
) -> tuple[PrivateDatabase, dict[str, pa.Table]]:
    """Read every table of the plan once; return the private rows, and public tables as text.

    If `JOBS` is set, that many connections read parts of a large table, or several small tables, at
    once. With workers, each worker reads and encodes its own parts of large private tables over its
    own connection to the same snapshot. The results are joined in the order of the rows, so that
    the private database is the same in every bit. The workers will also count its marginals.
    Rows may contradict the catalog. A SchemaError is raised for public tables that no model can
    hold.
    """
    key_columns = _key_columns(plan)
    jobs = JOBS.get() or 1
    # With a single connection, tables are not split into parts.
    hands = len(workers.addresses()) if workers else jobs if jobs > 1 else 0
    parts: dict[str, Sequence[SnapshotPart]] = {}
    for item in plan.private if hands else ():
        chosen = _expressions(item, key_columns[item.table.key])
        parts[item.table.key] = snapshot.parts(
            item.table, chosen, PARTS * hands, known=_known(item)
        )

    def read(item: TablePlan) -> _Raw:
        keys = key_columns[item.table.key]
        if item.public:
            return _read_public(snapshot, item, keys)
        several = parts.get(item.table.key, [])
        return _read_private(snapshot, item, keys, reporter, several, workers)

    raw = {key: read(plan.tables[key]) for key, several in parts.items() if len(several) > 1}
    rest = [item for key, item in plan.tables.items() if key not in raw]
    others = spread(read, rest) if JOBS.get() else [read(item) for item in rest]
    raw.update(zip((item.table.key for item in rest), others, strict=True))
    tables: dict[str, PrivateTable] = {}
    parents: dict[str, dict[str, RowIndex]] = {item.table.key: {} for item in plan.private}
    references = [(item, *reference) for item in plan.private for reference in _keys(plan, item)]
    uses = Counter((one.table, one.alias) for *_, sides in references for one in chain(*sides))
    for item, fk, sides in references:
        key = item.table.key
        child_keys, parent_keys = ([raw[c.table].keys[c.alias] for c in side] for side in sides)
        for column in chain(*sides):
            uses[column.table, column.alias] -= 1
            if not uses[column.table, column.alias]:
                del raw[column.table].keys[column.alias]
        if fk in item.table.arrays:
            rows, keys = elements(child_keys[0])
            edges = {ROW: rows, fk.name: match([keys], parent_keys)}
            tables[item.table.elements(fk)] = PrivateTable(len(rows), {}, edges)
        else:
            parents[key][fk.name] = match(child_keys, parent_keys)
    for item in plan.private:
        key = item.table.key
        if item.owners:
            own = next(spec.name for spec in item.keys if spec.role == "own")
            parents[key][own] = _root_rows(plan, key, parents, raw)
        tables[key] = PrivateTable(raw[key].rows, raw[key].attributes, parents[key])
    # Arrow keeps the memory of texts that were freed, which may be more than that of all codes.
    pa.default_memory_pool().release_unused()
    database = PrivateDatabase(plan.spec, tables)
    database.counter = WorkersCounter(workers) if workers else None
    return database, {item.table.key: raw[item.table.key].verbatim for item in plan.public}


def _root_rows(
    plan: FitPlan,
    table: str,
    parents: Mapping[str, Mapping[str, RowIndex]],
    raw: Mapping[str, _Raw],
) -> RowIndex:
    """The row of the tree's root that every row belongs to, by row index; `DANGLING` for none.

    A row whose target belongs to no root is a unit of its own, before and after its target goes.
    """
    item, root_rows = plan.tables[table], np.full(raw[table].rows, NULL, np.int32)
    keys = [(key.name, str(key.ref_table)) for key in item.owners]
    keys = keys or [(key.name, key.parent) for key in item.keys if key.role == "own"]
    if not keys:
        return np.arange(raw[table].rows, dtype=np.int32)
    for name, parent in keys:
        above = np.append(_root_rows(plan, parent, parents, raw), DANGLING)
        rows = np.where(above < 0, DANGLING, above)[np.maximum(parents[table][name], -1)]
        root_rows = np.where(parents[table][name] == NULL, root_rows, rows)
    return root_rows


def _keys(
    plan: FitPlan, item: TablePlan
) -> Iterator[tuple[ForeignKey, tuple[list[_KeyColumn], list[_KeyColumn]]]]:
    """Every reference with what to select of child and parent, so that equal keys are equal."""
    arrays = item.table.arrays
    for key in (*item.table.foreign_keys, *arrays):
        if not key.natural:
            expressions = element_expressions if key in arrays else key_expressions
            child, parent = expressions(plan.schema, key)
            yield (
                key,
                (
                    [_KeyColumn(item.table.key, part) for part in child],
                    [_KeyColumn(str(key.ref_table), part) for part in parent],
                ),
            )


def _key_columns(plan: FitPlan) -> dict[str, dict[str, sql.Composable]]:
    """SQL expressions of key columns, by table and alias, that match children with parents."""
    expressions: dict[str, dict[str, sql.Composable]] = {key: {} for key in plan.tables}
    for item in plan.private:
        for _, sides in _keys(plan, item):
            for column in chain(*sides):
                expressions[column.table][column.alias] = column.expression
    return expressions


def _present(expressions: list[SelectItem]) -> list[SelectItem]:
    # A table without columns to read still has rows to count.
    return expressions or [(sql.SQL("true"), "present")]


def _expressions(item: TablePlan, keys: dict[str, sql.Composable]) -> list[SelectItem]:
    """The expressions to select from a private table: key columns, and what the readers need."""
    expressions: list[SelectItem] = [(chosen, name) for name, chosen in keys.items()]
    for reader in item.readers.values():
        expressions += reader.select(sql.Identifier(reader.name))
    return _present(expressions)


def _known(item: TablePlan) -> dict[str, PublicValues]:
    """Public knowledge of the values of a private table, by alias."""
    readers = item.readers.values()
    return {alias: what for reader in readers for alias, what in reader.known.items()}


def _read_private(
    snapshot: Snapshot,
    item: TablePlan,
    keys: dict[str, sql.Composable],
    reporter: Reporter,
    parts: Sequence[SnapshotPart],
    workers: Workers | None,
) -> _Raw:
    encoded = list[_EncodedPart]()
    for piece in _encoded(snapshot, item, keys, parts, workers):
        encoded.append(piece)
        reporter.advance(f"read {item.table.key}", sum(rows for rows, _, _ in encoded))
    attributes: dict[str, Attribute] = {}
    for name, reader in item.readers.items():
        pieces = [one for _, columns, _ in encoded for one in columns.pop(name)]
        attributes.update(reader.collect(pieces))
    return _Raw(
        sum(rows for rows, _, _ in encoded),
        attributes,
        {
            name: pa.chunked_array([one for _, _, columns in encoded for one in columns[name]])
            for name in keys
        },
    )


def _encoded(
    snapshot: Snapshot,
    item: TablePlan,
    keys: dict[str, sql.Composable],
    parts: Sequence[SnapshotPart],
    workers: Workers | None,
) -> Iterator[_EncodedPart]:
    """A table's rows in order: batch by batch, or part by part, read by workers or by threads."""
    readers, aliases = dict(item.readers), list(keys)
    stream = partial(snapshot.stream, item.table, _expressions(item, keys), known=_known(item))
    if len(parts) < 2:
        for batch in stream():
            yield encode([batch], readers, aliases)
    elif workers is None:
        pages = [(part.first, part.last) for part in parts]
        yield from streamed(lambda some: encode(stream(pages=some), readers, aliases), pages)
    else:
        calls = [workers.submit(read_part, part, readers, aliases) for part in parts]
        while calls:
            # Removing the future from the list lets the worker free its result.
            yield workers.result(calls.pop(0))


def read_part(
    part: SnapshotPart, readers: Mapping[str, ColumnReader], keys: list[str]
) -> _EncodedPart:
    """Read a part of the snapshot in a worker and encode it."""
    return encode(part.stream(), readers, keys)


def encode(
    batches: Iterable[pa.RecordBatch], readers: Mapping[str, ColumnReader], keys: list[str]
) -> _EncodedPart:
    """Encode batches by the readers of their columns; key columns stay as they are."""
    rows = 0
    pieces: dict[str, list[dict[str, Any]]] = {name: [] for name in readers}
    columns: dict[str, list[pa.Array]] = {name: [] for name in keys}
    for batch in batches:
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, reader in readers.items():
            piece = _piece(reader, arrays)
            pieces[name].append({part: _narrow(values) for part, values in piece.items()})
        for name in keys:
            columns[name].append(_without_dictionary(arrays[name]))
        rows += batch.num_rows
    return rows, pieces, columns


def _piece(reader: ColumnReader, arrays: Mapping[str, pa.Array]) -> dict[str, Any]:
    """Encode a batch by a reader; of a dictionary-encoded column, each distinct value only once."""
    chosen = [alias for _, alias in reader.select(sql.Identifier(reader.name))]
    if len(chosen) == 1 and pa.types.is_dictionary(arrays[chosen[0]].type):
        column = arrays[chosen[0]]
        codes = column.indices.to_numpy()
        codes_of_distinct = reader.read({chosen[0]: column.dictionary})
        return {name: np.take(values, codes) for name, values in codes_of_distinct.items()}
    return reader.read({alias: _without_dictionary(arrays[alias]) for alias in chosen})


def _narrow(values: Any) -> Any:
    """Points in the narrowest type; other pieces as they are."""
    wide = isinstance(values, np.ndarray) and values.dtype == np.int64
    return narrow(values) if wide else values


def _without_dictionary(column: pa.Array) -> pa.Array:
    """The column without dictionary encoding."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _read_public(snapshot: Snapshot, item: TablePlan, keys: dict[str, sql.Composable]) -> _Raw:
    columns = [column for column in item.table.columns if not column.generated]
    expressions: list[SelectItem] = [
        (sql.SQL(column.type.text_form).format(sql.Identifier(column.name)), f"p{column.position}")
        for column in columns
    ]
    expressions += [(chosen, name) for name, chosen in keys.items()]
    whole = snapshot.read(item.table, _present(expressions))
    if not columns and whole.num_rows > MAX_EMPTY_ROWS:
        # `archive.read_table` would refuse a model with so many rows.
        message = f"the public table has more than {MAX_EMPTY_ROWS:,} rows without a column."
        raise SchemaError(message, table=item.table.key, remedy="Exclude it under [database].")
    if days := calendar(item.table):
        whole = whole.sort_by(f"p{days.position}")
    verbatim = whole.select([f"p{column.position}" for column in columns])
    verbatim = verbatim.rename_columns([column.name for column in columns])
    return _Raw(whole.num_rows, {}, {name: whole[name] for name in keys}, verbatim)
