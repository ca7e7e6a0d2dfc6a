"""CHECKs of tables and domains, as the target's catalog states them; PostgreSQL evaluates them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, LiteralString

from psycopg import sql

from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import TargetTables
from privbench.postgres.statement import build
from privbench.schema import ForeignKey, Table, TableName

#: CHECKs of tables, and those of single partitions, which come with the partition's name in
#: SQL. Column number 0 stands for the whole row, which has all columns.
_TABLE_CHECKS: LiteralString = """
SELECT wanted.schema, wanted.name,
  own.schema, own.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  pg_catalog.pg_get_expr(k.conbin, k.conrelid),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = k.conrelid AND a.attnum > 0 AND NOT a.attisdropped
          AND (a.attnum = ANY(k.conkey) OR 0 = ANY(k.conkey)) ORDER BY a.attnum),
  CASE WHEN k.connoinherit THEN pg_catalog.format('%%I.%%I', own.schema, own.name) ELSE own.part END
FROM {parts}
JOIN pg_catalog.pg_constraint k ON k.conrelid = own.oid
WHERE k.contype = 'c' AND k.conislocal AND k.coninhcount = 0
ORDER BY own.part IS NOT NULL, k.conname, own.schema, own.name
"""
#: Every domain with a CHECK, the columns of its type or of a domain over it, and its base type by
#: `format_type`, as the plain SQL names character and bit mean those of length one. Domains within
#: an array, a range or a composite type are left out: PostgreSQL cannot put their CHECKs back.
_DOMAIN_CHECKS: LiteralString = """
WITH RECURSIVE over(base, type) AS (
  SELECT oid, oid FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION
  SELECT o.base, d.oid FROM over o JOIN pg_catalog.pg_type d
    ON d.typtype = 'd' AND d.typbasetype = o.type)
SELECT wanted.schema, wanted.name, n.nspname, t.typname, k.conname,
  pg_catalog.pg_get_constraintdef(k.oid), pg_catalog.pg_get_expr(k.conbin, 0),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        JOIN over o ON o.type = a.atttypid AND o.base = t.oid
        WHERE a.attrelid = own.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
  (SELECT pg_catalog.format_type(b.oid, -1) FROM over u JOIN pg_catalog.pg_type d ON d.oid = u.base
   JOIN pg_catalog.pg_type b ON b.oid = d.typbasetype AND b.typtype <> 'd' WHERE u.type = t.oid)
FROM {parts}
CROSS JOIN pg_catalog.pg_constraint k
JOIN pg_catalog.pg_type t ON t.oid = k.contypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE k.contype = 'c' AND own.part IS NULL AND NOT EXISTS (
  SELECT FROM over o JOIN pg_catalog.pg_type d ON d.oid = o.type WHERE o.base = t.oid
    AND (EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c
        ON c.oid = a.attrelid AND (a.atttypid = d.typarray OR c.relkind = 'c')
        WHERE a.atttypid IN (d.oid, d.typarray))
      OR EXISTS (SELECT FROM pg_catalog.pg_range r WHERE r.rngsubtype = d.oid)))
ORDER BY n.nspname, t.typname, k.conname
"""


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """A CHECK on the rows of one table, and the changes that a repair may make."""

    table: Table
    constraint: str  # the CHECK, for people: ``table: constraint`` or ``domain: constraint``
    place: sql.Composable  # the table, or the one partition that the CHECK was declared on
    # SQL condition that selects the rows of `place` among those of the table.
    within: sql.Composable
    # SQL of the CHECK; a row breaks it only where it gives FALSE, not NULL.
    condition: sql.Composable
    uses: frozenset[str]  # columns that the CHECK reads
    columns: tuple[str, ...]  # columns that a repair may change freely
    # Foreign keys that a repair may set to NULL or point to another row.
    references: tuple[ForeignKey, ...]
    # Columns of UNIQUE sets, which a repair may change as far as rows stay distinct; empty unless
    # `columns` is.
    unique: tuple[str, ...]
    text: str  # the CHECK, which names values to try
    spoken: tuple[str, ...]  # columns that may take such values
    value: str | None = None  # the column that VALUE stands for, in the CHECK of a domain

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns whose values tell the kind of a row, which repairs change last."""
        return tuple(name for name in self.columns if is_label(self.table, name))

    @property
    def kept(self) -> sql.Composable:
        """The condition of rows that satisfy the CHECK, or that it does not apply to."""
        return build("(NOT {} OR ({})) IS NOT FALSE", self.within, self.condition)

    @property
    def broken(self) -> sql.Composable:
        """The condition of rows that break the CHECK."""
        return build("NOT ({})", self.kept)

    @property
    def broken_rows(self) -> sql.Composable:
        """The query of the rows that break the CHECK.

        It reads `place` alone: reading all partitions for the CHECK of one of them takes long.
        """
        broken = build("{} AND ({}) IS FALSE", self.within, self.condition)
        return rows.rows_of(self.place, broken)

    def breaks(self, clone: TargetTables) -> bool:
        """Return whether some row breaks the CHECK."""
        return bool(clone.first("SELECT EXISTS ({})", self.broken_rows)[0])

    def batches(self, clone: TargetTables, most: int) -> list[tuple[int, int]]:
        """Return ranges of blocks with about ``most`` broken rows each.

        None if no row is broken.
        """
        count, blocks = clone.first(
            "SELECT count(*), 1 + max(split_part(ltrim(id::text, '('), ',', 1)::int8)"
            " FROM ({}) AS broken",
            self.broken_rows,
        )
        size = -(-(blocks or 0) // max(1, -(-count // most)))
        return [(start, start + size) for start in range(0, blocks or 0, size or 1)]

    def share(self, clone: TargetTables) -> float:
        """Return the share of broken rows among those that the CHECK applies to."""
        query = "SELECT coalesce(avg((({}) IS FALSE)::int), 0)::float8 FROM {} WHERE {}"
        return float(clone.first(query, self.condition, self.place, self.within)[0])

    def without(self, fixed: Collection[str]) -> TargetCheck:
        """Return the CHECK where given columns, references and UNIQUE columns must not change."""
        free = tuple(name for name in self.columns if name not in fixed)
        return replace(self, columns=free, references=(), unique=())


def is_label(table: Table, name: str) -> bool:
    """Return whether a column's values tell the kind of a row: enums, texts, booleans."""
    type_ = table.column(name).type
    return type_.kind == "e" or (type_.kind == "b" and type_.category in "SB")


def find(
    clone: TargetTables,
) -> tuple[dict[str, tuple[sql.Composable, str, str]], list[TargetCheck]]:
    """Return the CHECKs that rows may break, and the conditions that they imply for each table.

    The first result has the CHECKs by the name that messages use: the ``ALTER …`` that changes the
    object, the constraint's own name, and the clause that creates it.
    """
    definitions: dict[str, tuple[sql.Composable, str, str]] = {}
    breakable: list[TargetCheck] = []
    checks = clone.ask_all(_TABLE_CHECKS)
    over = [table for table in clone.tables if any(c.type.domain for c in table.columns)]
    domains = clone.ask_all(_DOMAIN_CHECKS, over)
    for table in clone.tables:
        for schema, name, constraint, definition, text, columns, partition in checks[table.name]:
            label, place = f"{schema}.{name}: {constraint}", build("{}", TableName(schema, name))
            definitions[label] = build("ALTER TABLE {}", place), constraint, definition
            where = label, place, rows.within(partition), rows.raw(text)
            breakable.append(_rule(clone, table, where, columns, text))
        for schema, domain, name, definition, text, columns, plain in domains[table.name]:
            label = f"{schema}.{domain}: {name}"
            if columns:
                definitions[label] = (
                    build("ALTER DOMAIN {}", TableName(schema, domain)),
                    name,
                    definition,
                )
            for column in columns:
                # Read as its plain type: operators of enums and arrays do not take domains.
                read = "(SELECT {} FROM (SELECT {}::{}) AS given(value))"
                condition = build(read, rows.raw(text), column, rows.raw(plain))
                where = label, build("{}", table.name), rows.TRUE, condition
                breakable.append(_rule(clone, table, where, [column], text, column))
    return definitions, breakable


def _rule(
    clone: TargetTables,
    table: Table,
    where: tuple[str, Any, Any, Any],
    uses: Collection[str],
    text: str,
    value: str | None = None,
) -> TargetCheck:
    """The CHECK with the columns that a repair may change; VALUE of a domain is column `value`."""
    bases = rows.bases(table, uses)
    hung = {name for name in bases if (table.name, name) in clone.referred}
    free = tuple(name for name in bases if rows.is_free(table, name))
    unique = () if free else tuple(n for n in bases if rows.is_movable(table, n) and n not in hung)
    tied = {name for item in table.unique_sets for name in item.columns} | hung
    keys = [name for key in table.foreign_keys for name in key.columns]
    tied |= {name for name in keys if keys.count(name) > 1}
    references = tuple(
        key
        for key in table.foreign_keys
        if set(key.columns) & set(bases) and not tied & set(key.columns)
    )
    changes = free, references, unique
    return TargetCheck(table, *where, frozenset(uses), *changes, text, free or unique, value)


def guarded(clone: TargetTables, check: TargetCheck, number: int) -> TargetCheck:
    """Return the CHECK, evaluated by a function that gives FALSE where the CHECK raises an error.

    The function is temporary, so the session's end drops it; ``number``, different for every CHECK,
    is part of its name. A CHECK that reads no column is the same for all rows and stays as it is.
    """
    columns = [column.name for column in check.table.columns if column.name in check.uses]
    if not columns:
        return check
    name = sql.Identifier("pg_temp", f"privbench rule {number}")
    body = build(
        # PL/pgSQL has a variable "found", which a column may be called too.
        "#variable_conflict use_column\n"
        "BEGIN RETURN (SELECT {} FROM (SELECT {}) AS {}({})); EXCEPTION"
        " WHEN data_exception OR raise_exception OR integrity_constraint_violation"
        " THEN RETURN false; END",
        check.condition,
        [sql.SQL(f"${place}") for place in range(1, len(columns) + 1)],
        check.table.name.name,
        columns,
    )
    types = [rows.raw(check.table.column(column).type.sql) for column in columns]
    template = "CREATE FUNCTION {}({}) RETURNS boolean LANGUAGE plpgsql STABLE AS {}"
    clone.run(template, name, types, sql.Literal(body.as_string(clone.connection)))
    return replace(check, condition=build("{}({})", name, columns))
