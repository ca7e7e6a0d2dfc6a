"""The planner's statistics of a clone, for a database that has the schema without the rows.

ANALYZE gathers them from a clone of the source's size, so they are a function of the model and of
public tables; no statistics of the source are read.
"""

from collections.abc import Collection

from psycopg import sql
from psycopg.rows import dict_row

from privbench.errors import UsageError
from privbench.postgres.connect import Connection, major_version
from privbench.postgres.failures import database_errors
from privbench.postgres.reading import ROWS, reading
from privbench.publish.records import STATISTIC_TYPES, PublishedStatistics

#: The first version of PostgreSQL with functions that import statistics.
SERVER = 18
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


def require_version(dsn: str) -> None:
    """Refuse a server whose version is too old to give the statistics."""
    with reading(dsn, ROWS) as connection:
        version = major_version(connection)
    if version < SERVER:
        raise UsageError(
            f"statistics can be published from PostgreSQL {SERVER} or later; this is {version}.",
            remedy="Leave out --database, to use the embedded server, or --statistics.",
        )


def gathered(connection: Connection, tables: Collection[tuple[str, ...]]) -> PublishedStatistics:
    """Return the planner's statistics of tables, by schema and name, and of their indexes."""
    with database_errors("reading the planner's statistics"):
        rows = connection.cursor(row_factory=dict_row).execute(_TABLES.format(_VALUES)).fetchall()
    chosen = [row for row in rows if (row["schema"], row["name"]) in tables]
    return PublishedStatistics.model_validate({"tables": chosen})
