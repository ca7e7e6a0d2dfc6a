"""CHECK constraints as the target's catalog states them, set aside and put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.statement import run

#: Asked of the target, whose catalog holds what its own parser understood; those of single
#: partitions, which come with their OID, included.
TABLE_CHECKS: LiteralString = """
SELECT wanted.schema, wanted.name,
  n.nspname, c.relname, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  pg_catalog.pg_get_expr(k.conbin, k.conrelid),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = k.conrelid AND a.attnum = ANY(k.conkey) ORDER BY a.attnum),
  CASE WHEN c.oid <> root.oid THEN c.oid::int8 END
FROM {parts}
JOIN pg_catalog.pg_constraint k ON k.conrelid = own.oid
JOIN pg_catalog.pg_class c ON c.oid = own.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'c' AND k.conislocal AND k.coninhcount = 0
ORDER BY c.oid <> root.oid, k.conname, n.nspname, c.relname
"""
#: Domains with a CHECK, and the columns of that type or of a domain over it. PostgreSQL cannot put
#: a CHECK back on a domain that stands within an array or a composite type, so those stay.
DOMAIN_CHECKS = sql.SQL("""
WITH RECURSIVE over(base, type) AS (
  SELECT oid, oid FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION
  SELECT o.base, d.oid FROM over o JOIN pg_catalog.pg_type d
    ON d.typtype = 'd' AND d.typbasetype = o.type),
{under}
SELECT k.oid::bigint, n.nspname, t.typname, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  pg_catalog.pg_get_expr(k.conbin, 0),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
        JOIN over o ON o.type = a.atttypid AND o.base = t.oid
        WHERE s.nspname = %(schema)s AND c.relname = %(name)s
          AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
  -- Without a length: the SQL names character and bit mean those of length one.
  (SELECT pg_catalog.format_type(u.base, -1) FROM under u
   JOIN pg_catalog.pg_type b ON b.oid = u.base AND b.typtype <> 'd'
   WHERE u.type = t.oid) AS plain
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_type t ON t.oid = k.contypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE k.contype = 'c' AND NOT EXISTS (
    SELECT FROM over o JOIN pg_catalog.pg_type d ON d.oid = o.type
    JOIN pg_catalog.pg_attribute a ON a.atttypid IN (d.oid, d.typarray)
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    WHERE o.base = t.oid AND (a.atttypid = d.typarray OR c.relkind = 'c'))
  AND NOT EXISTS (SELECT FROM over o JOIN pg_catalog.pg_range r ON r.rngsubtype = o.type
    WHERE o.base = t.oid)
ORDER BY n.nspname, t.typname, k.conname
""").format(under=rows.UNDER)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A CHECK that is off for the moment.

    Attributes:
        place: ``table: constraint`` or ``domain: constraint``, for people.
        owner: ``ALTER TABLE x`` or ``ALTER DOMAIN x``.
        name: Its name.
        definition: What puts it back.
    """

    place: str
    owner: sql.Composable
    name: str
    definition: str

    def drop(self, connection: Connection) -> None:
        """Set it aside."""
        with database_errors("setting CHECK constraints aside", self.place):
            run(
                connection,
                sql.SQL("{} DROP CONSTRAINT {}").format(self.owner, sql.Identifier(self.name)),
            )

    def restore(self, connection: Connection, *, kept: bool) -> None:
        """Put it back; as not validated where rows do not keep it."""
        loose = "" if kept or self.definition.endswith((" NOT VALID", "ENFORCED")) else " NOT VALID"
        with database_errors(f"putting back the CHECK constraint {self.name!r}", self.place):
            run(
                connection,
                sql.SQL("{} ADD CONSTRAINT {} {}").format(
                    self.owner, sql.Identifier(self.name), rows.raw(self.definition + loose)
                ),
            )
