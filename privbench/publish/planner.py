"""What the clone's planner knows of its rows, for a database that has its schema alone.

All of it is gathered by ANALYZE from a clone of the source's size, so it is a function of the model
and of public tables; no statistics of the source are read.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import LiteralString

from privbench.errors import UsageError
from privbench.postgres.connect import Connection, major_version
from privbench.postgres.failures import database_errors
from privbench.postgres.reading import ROWS, reading
from privbench.publish.facts import STATISTIC_TYPES, Statistics

#: The version whose functions take statistics.
SERVER = 18
_TABLES: LiteralString = """
SELECT n.nspname, c.relname, c.relkind = 'r', c.relpages, c.reltuples, c.relallvisible,
  array(SELECT pg_catalog.jsonb_build_object('name', x.relname, 'pages', x.relpages,
      'rows', x.reltuples::float8)
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = c.oid AND x.relkind = 'i' ORDER BY x.relname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') ORDER BY 1, 2
"""
_COLUMNS: LiteralString = """
SELECT s.schemaname, s.tablename, s.attname, s.inherited, s.null_frac::text, s.avg_width::text,
  s.n_distinct::text, s.most_common_vals::text, s.most_common_freqs::text,
  s.histogram_bounds::text, s.correlation::text, s.most_common_elems::text,
  s.most_common_elem_freqs::text, s.elem_count_histogram::text, s.range_length_histogram::text,
  s.range_empty_frac::text, s.range_bounds_histogram::text
FROM pg_catalog.pg_stats s ORDER BY 1, 2, 3, 4
"""


def require_version(dsn: str) -> None:
    """Refuse a server that cannot say what functions of later versions take.

    Raises:
        UsageError: The server is too old.
    """
    with reading(dsn, ROWS) as connection:
        found = major_version(connection)
    if found < SERVER:
        raise UsageError(
            f"statistics can be published from PostgreSQL {SERVER} or later; this is {found}.",
            remedy="Leave out --database, to use the embedded server, or --statistics.",
        )


def gathered(connection: Connection, tables: Collection[tuple[str, ...]]) -> Statistics:
    """What the planner knows of tables, by schema and name, and of their indexes."""
    with database_errors("reading the planner's statistics"):
        sizes = connection.execute(_TABLES).fetchall()
        found = connection.execute(_COLUMNS).fetchall()
    columns: dict[tuple[str, str], list[dict[str, object]]] = {}
    for space, table, column, inherited, *values in found:
        told = zip(STATISTIC_TYPES, values, strict=True)
        item = {"column": column, "inherited": inherited, "values": {n: v for n, v in told if v}}
        columns.setdefault((space, table), []).append(item)
    names = ("schema", "name", "stored", "pages", "rows", "visible", "indexes")
    rows = [dict(zip(names, row, strict=True)) for row in sizes if (row[0], row[1]) in tables]
    return Statistics.model_validate(
        {
            "tables": [
                {**row, "columns": columns.get((row["schema"], row["name"]), [])} for row in rows
            ]
        }
    )
