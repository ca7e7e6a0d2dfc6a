"""The planner's statistics of a clone, for a database that has the schema without the rows.

ANALYZE gathers them from a clone, so they are a function of the model and of public tables; no
statistics of the source are read.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from privbench import pipeline
from privbench.errors import UsageError
from privbench.pgsql import pieces
from privbench.pipeline import LoadReport, Model, Reporter
from privbench.postgres.connect import Connection, major_version
from privbench.postgres.failures import database_errors
from privbench.postgres.reading import ROWS, reading
from privbench.postgres.statement import build, run
from privbench.postgres.transaction import TargetTransaction
from privbench.publish.records import (
    STATISTIC_TYPES,
    IndexStatistics,
    PublishedStatistics,
    TableStatistics,
)
from privbench.publish.scripts import fill
from privbench.schema import Table

#: The first version of PostgreSQL with functions that import statistics.
SERVER = 18
#: The most rows of a tree from which statistics are gathered for an empty database. ANALYZE reads
#: 30,000 rows a table by default. 95 of 100 joins of a clinic of a million rows are planned as with
#: all rows; with half of it 94, with double 93, with four times as many 94, which is scatter.
ROWS_OF_TREE = 150_000
_VALUES = sql.SQL(", ").join(
    sql.SQL("{}, s.{}::pg_catalog.text").format(name, sql.Identifier(name))
    for name in STATISTIC_TYPES
)
_TABLES = sql.SQL("""
SELECT n.nspname AS schema, c.relname AS name, c.relkind = 'r' AS stored, c.relpages AS pages,
  c.reltuples AS rows, c.relallvisible AS visible,
  array(SELECT pg_catalog.jsonb_build_object('name', x.relname, 'pages', x.relpages,
      'rows', x.reltuples::float8)
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = c.oid AND x.relkind = 'i' ORDER BY x.relname) AS indexes,
  array(SELECT pg_catalog.jsonb_build_object('column', s.attname, 'inherited', s.inherited,
      'values', pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object({})))
    FROM pg_catalog.pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname
    ORDER BY s.attname, s.inherited) AS columns
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') ORDER BY 1, 2
""")
_ROOTS = sql.SQL("""
SELECT n.nspname AS schema, c.relname AS name, t.nspname || '.' || p.relname AS root
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_class p ON p.oid = pg_catalog.pg_partition_root(c.oid)
  JOIN pg_catalog.pg_namespace t ON t.oid = p.relnamespace
WHERE c.relkind IN ('r', 'p')
""")


def require_version(dsn: str, remedy: str) -> None:
    """Refuse a server that is too old to import statistics, with a remedy."""
    with reading(dsn, ROWS) as connection:
        version = major_version(connection)
    if version < SERVER:
        raise UsageError(
            f"only PostgreSQL {SERVER} or later takes statistics without rows; this is {version}.",
            remedy=remedy,
        )


def gathered(connection: Connection, tables: Collection[tuple[str, ...]]) -> PublishedStatistics:
    """Return the planner's statistics of tables, by schema and name, and of their indexes."""
    with database_errors("reading the planner's statistics"):
        rows = connection.cursor(row_factory=dict_row).execute(_TABLES.format(_VALUES)).fetchall()
    chosen = [row for row in rows if (row["schema"], row["name"]) in tables]
    return PublishedStatistics.model_validate({"tables": chosen})


def load_statistics(
    model: str | Path | Model,
    target: str,
    *,
    scale: float = 1.0,
    as_role: str | None = None,
    reporter: Reporter | None = None,
    rows: float = ROWS_OF_TREE,
    **options: Any,
) -> LoadReport:
    """Make a clone without rows for which queries are planned as for one of full size.

    First a small clone is loaded and analysed. Then one transaction empties its tables, extends
    their files to the size that they would have, and multiplies the numbers of rows and pages in
    the catalog. The statistics that ANALYZE gathered of columns and expressions, and those of
    CREATE STATISTICS, stay as they are. Materialised views keep their rows.

    Returns the report of the load, with the number of rows that the planner assumes per table.

    Args:
        model: The model, or its file.
        target: DSN of an empty database.
        scale: Size of the clone that the planner assumes, as a factor of the source's size.
        as_role: See `privbench.pipeline.load`.
        reporter: Receives progress.
        rows: The most rows that are loaded of a root table and all that it owns together.
        options: Further options of `privbench.pipeline.load`.

    Raises:
        UsageError: The server is too old to import statistics.
    """
    teller = reporter or Reporter()
    require_version(target, "Use a later server, or load the rows.")
    smaller, parts = pipeline.fewer(model, rows / scale)
    report = pipeline.load(
        smaller, target, scale=scale, as_role=as_role, reporter=teller, **options
    )
    names = {table.key: table.name for table in smaller.schema}
    with teller.stage("statistics"), TargetTransaction(target, as_role) as transaction:
        transaction.begin()
        connection = transaction.connection
        with database_errors("writing the planner's statistics"):
            roots = {(space, name): root for space, name, root in run(connection, _ROOTS)}
            every = gathered(connection, {(n.schema, n.name) for n in names.values()} | {*roots})
            whole = _whole(every.tables, parts, smaller.schema, roots)
            if names:
                run(connection, build("TRUNCATE {}", list(names.values())))
            script = fill("planner.sql", statistics=whole, types=STATISTIC_TYPES)
            for statement in pieces(script):
                run(connection, statement.encode())
            # Not by `TargetTransaction.commit`: the functions of the script are temporary objects.
            connection.commit()
    planned = {f"{t.schema_}.{t.name}": max(round(t.rows), 0) for t in whole.tables}
    counts = {key: planned[key] for key in names if key in planned}
    return replace(report, rows=counts, dropped={}, public=(), repaired={}, emptied=())


def _whole(
    tables: Iterable[TableStatistics],
    parts: Mapping[str, float],
    schema: Iterable[Table],
    roots: Mapping[tuple[str, str], str],
) -> PublishedStatistics:
    """Statistics of a whole clone, from those of one with only a part of each table's rows.

    Of a column that refers to others, the number of distinct values grows with the rows, up to
    those of the table that it refers to. A partition is a part like its root.
    """
    by_key = {table.key: table for table in schema}
    known = [(f"{t.schema_}.{t.name}", t) for t in tables]
    factor = {key: 1.0 / parts.get(roots.get((t.schema_, t.name), key), 1.0) for key, t in known}
    rows = {key: max(t.rows, 0.0) * factor[key] for key, t in known}
    whole = []
    for key, table in known:
        top = by_key.get(roots.get((table.schema_, table.name), key))
        targets = {
            column: rows.get(str(reference.ref_table), 0.0)
            for reference in (top.foreign_keys if top else ())
            for column in reference.columns
        }
        columns = []
        for item in table.columns:
            distinct = float(item.values.get("n_distinct", 0.0))
            if item.column in targets and distinct and factor[key] > 1:
                number = distinct if distinct > 0 else -distinct * table.rows
                most = targets[item.column] or rows[key]
                number = min(number * factor[key], most, rows[key])
                values = {**item.values, "n_distinct": f"{number:.0f}"}
                item = item.model_copy(update={"values": values})
            columns.append(item)
        sizes = [index.model_copy(update=_times(index, factor[key])) for index in table.indexes]
        update = {**_times(table, factor[key]), "columns": columns, "indexes": sizes}
        if table.visible > 0:
            update["visible"] = int(table.visible * factor[key])
        whole.append(table.model_copy(update=update))
    return PublishedStatistics(tables=whole)


def _times(item: TableStatistics | IndexStatistics, factor: float) -> dict[str, Any]:
    """The pages and rows of a relation, times a factor; -1 is no number."""
    pages = int(item.pages * factor) if item.pages > 0 else item.pages
    return {
        "pages": min(pages, 2**31 - 1),
        "rows": item.rows * factor if item.rows > 0 else item.rows,
    }
