"""Evaluate the expressions that a target stores with its rows on surrogate rows, before a load.

`stored` lists, from the target's own catalog, what would be evaluated for every row of a load:
generated columns, keys and conditions of indexes and EXCLUDE constraints, CHECKs, types with CHECKs
or modifiers, and the partitions of a table. `Trial` lets PostgreSQL evaluate them on surrogate
rows, in the transaction of an empty schema that is rolled back. The rows are texts that are cast to
the columns' types within a temporary function, so that each row's error is its own.

A schema may be hostile. The DDL was judged before it ran (`privbench.pgsql.ddl`): without trust it
has no function of users, and its expressions only compute. They run as the role of the load, one
statement each, under a time-out. No message of the server is shown, except its SQLSTATE.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import LiteralString

import psycopg
from psycopg import errors, sql

from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import TargetTables, columns_in
from privbench.postgres.statement import build, run
from privbench.schema import Column, ColumnType, Table, TableName

#: Milliseconds that one expression may take on all rows of a trial, and seconds that all may take.
_PATIENCE, _WHOLE = 5000, 60.0
#: Classes of SQLSTATE that say nothing of values: features, names, rights, resources, the system.
_NO_VALUE = frozenset({"0A", "25", "28", "3D", "3F", "42", "53", "55", "57", "58"})
_FILLED = ("json", "jsonb", "hstore")
#: What a row gives that the expression takes, and one for which a condition is false.
PASSED, FALSE = "", "false"
_INDEXES: LiteralString = """
SELECT wanted.schema, wanted.name, x.relname, i.indisexclusion,
  pg_catalog.pg_get_expr(i.indpred, i.indrelid),
  array(SELECT pg_catalog.pg_get_indexdef(i.indexrelid, k, false)
        FROM pg_catalog.generate_series(1, i.indnkeyatts) k WHERE i.indkey[k - 1] = 0 ORDER BY k)
FROM {parts}
JOIN pg_catalog.pg_index i ON i.indrelid = own.oid
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
WHERE i.indexprs IS NOT NULL
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)
ORDER BY x.relname, x.oid
"""
_PARTITIONS: LiteralString = """
SELECT wanted.schema, wanted.name, array(SELECT pg_catalog.pg_get_partition_constraintdef(t.relid)
  FROM pg_catalog.pg_partition_tree(own.oid) t WHERE t.isleaf ORDER BY t.relid::text)
FROM {parts}
WHERE own.part IS NULL AND own.whole AND EXISTS (
  SELECT FROM pg_catalog.pg_partition_tree(own.oid) t
  JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = t.relid WHERE p.partexprs IS NOT NULL)
"""
_CHECKS: LiteralString = """
SELECT wanted.schema, wanted.name, k.conname, pg_catalog.pg_get_expr(k.conbin, k.conrelid)
FROM {parts}
JOIN pg_catalog.pg_constraint k ON k.conrelid = own.oid
WHERE k.contype = 'c' AND own.part IS NULL
ORDER BY k.conname
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """An expression that is evaluated for every row of a table."""

    table: Table  # as the target's catalog states it
    what: str  # for people: ``index by_number``
    condition: sql.Composable  # SQL that is not FALSE for rows that the table takes
    reads: tuple[str, ...]  # columns that it reads, generated ones among them
    columns: tuple[str, ...]  # columns that rows have to give for it
    text: str  # the expression, as the catalog prints it
    # Whether a load repairs rows that break it, so that some may.
    repaired: bool = False
    # Whether only errors count, since a load makes it true of rows for which it is false.
    lenient: bool = False
    is_check: bool = False  # whether it is a CHECK of the table or of a domain that rows may break


def stored(clone: TargetTables, is_unknown: Callable[[Column], bool]) -> dict[str, list[Stored]]:
    """Return the expressions of every table, by its key.

    For columns for which ``is_unknown`` holds, no valid value is known and one has to be found.
    """
    indexes, partitions = clone.ask_all(_INDEXES), clone.ask_all(_PARTITIONS)
    checks = clone.ask_all(_CHECKS)
    by_table: dict[str, list[Stored]] = {}
    types = [column.type for table in clone.tables for column in table.columns]
    inner = {part.domain for type_ in types for part in type_.parts}
    for table in clone.tables:
        here = [
            _generated(table, column)
            if column.generated
            else _type_check(table, column, inner, unknown=is_unknown(column))
            for column in table.columns
        ]
        for name, excludes, predicate, keys in indexes[table.name]:
            what = f"{'constraint' if excludes else 'index'} {name}"
            whole = ", ".join(keys)
            condition = build(
                "CASE WHEN {} THEN pg_catalog.num_nulls({}) >= 0 ELSE true END",
                rows.raw(predicate or "true"),
                rows.raw(whole),
            )
            here.append(_stored(table, what, condition, f"{whole} {predicate or ''}"))
        for name, text in checks[table.name]:
            check = _stored(table, f"CHECK {name}", build("({})", rows.raw(text)), text)
            # A repair knows no values of documents and arrays, which are not modelled.
            kinds = [table.column(column).type for column in check.columns]
            filled = any(kind.category == "A" or kind.base in _FILLED for kind in kinds)
            here.append(replace(check, repaired=True, lenient=not filled, is_check=True))
        for (bounds,) in partitions[table.name]:
            text = " OR ".join(f"({bound})" for bound in bounds)
            if bounds and None not in bounds:
                condition = build("({}) IS TRUE", rows.raw(text))
                item = _stored(table, "bounds of the partitions", condition, text)
                here.append(replace(item, repaired=True))
        by_table[table.key] = [item for item in here if item.columns]
    return by_table


def _stored(table: Table, what: str, condition: sql.Composable, text: str) -> Stored:
    reads = tuple(columns_in(table, text))
    return Stored(table, what, condition, reads, tuple(rows.bases(table, reads)), text)


def _type_check(
    table: Table, column: Column, inner: Collection[TableName | None], *, unknown: bool
) -> Stored:
    """The type of a column, of which nothing is read if it has no CHECK and no modifier."""
    type_ = column.type
    checks = _checks_of(type_)
    columns = (column.name,) if checks or type_.extension or unknown else ()
    # CHECKs of domains are set aside in a load, but for those within another type.
    aside = type_.domain is not None and type_.domain not in inner
    return Stored(
        table,
        f"type {type_.sql} of {column.name}",
        _computed(column, needed=unknown),
        columns,
        columns,
        " ".join(checks),
        repaired=aside,
        is_check=aside,
    )


def _checks_of(type_: ColumnType) -> list[str]:
    return [*type_.domain_checks, *(text for part in type_.parts for text in _checks_of(part))]


def _generated(table: Table, column: Column) -> Stored:
    condition, text = _computed(column, needed=column.not_null), column.default or ""
    columns = tuple(columns_in(table, text))
    return Stored(
        table, f"generated column {column.name}", condition, (column.name,), columns, text
    )


def _computed(column: Column, *, needed: bool) -> sql.Composable:
    """The condition that a column can be computed, or has a value where one is needed."""
    return build("{} IS NOT NULL" if needed else "pg_catalog.num_nulls({}) >= 0", column.name)


def _variable(column: Column, place: int) -> sql.Composable:
    """The declaration of a variable for a column's value, which a function is given as a text."""
    type_, argument = rows.raw(column.type.sql), sql.SQL(f"${place}")
    # A cast would cut a text that is too long, which COPY refuses, and so does an assignment.
    value = argument if column.type.length is not None else build("{}::{}", argument, type_)
    return build("{} {} := {};", column.name, type_, value)


class Trial:
    """Evaluates stored expressions on surrogate rows; see the module's docstring."""

    def __init__(self, clone: TargetTables) -> None:
        self._clone = clone
        self._functions: dict[tuple[str, str], sql.Identifier] = {}
        self._late = set[tuple[str, str]]()  # expressions that took too long
        self._left = _WHOLE
        clone.run("SET LOCAL statement_timeout = {}", sql.Literal(_PATIENCE))

    @property
    def over(self) -> bool:
        """Whether all expressions together took too long, so that no further one is evaluated."""
        return self._left <= 0

    def outcomes(
        self, item: Stored, values: Mapping[str, Sequence[str | None]]
    ) -> list[str] | None:
        """Return for each row `PASSED`, `FALSE` or the SQLSTATE of its error; None if unknown.

        ``values`` has texts of all columns of the expression, equally many of each. An expression
        that took too long once is not evaluated again, and none is once all of them together took
        too long.
        """
        connection, place = self._clone.connection, (item.table.key, item.what)
        if place in self._late or self.over:
            return None
        begun = time.monotonic()
        try:
            with connection.transaction():
                function = self._function(item)
                lists = [list(values[name]) for name in item.columns]
                names = [sql.Identifier(f"c{place}") for place in range(len(lists))]
                statement = build(
                    "SELECT {}({}) FROM ROWS FROM ({}) WITH ORDINALITY AS made({}, n) ORDER BY n",
                    function,
                    names,
                    [sql.SQL("pg_catalog.unnest(%s::pg_catalog.text[])")] * len(lists),
                    names,
                )
                states = [str(row[0]) for row in run(connection, statement, lists)]
        except psycopg.Error as error:
            # Limits of the server, as of a function's arguments, are operational errors too.
            if connection.closed:
                raise
            if isinstance(error, errors.QueryCanceled):
                self._late.add(place)
            return None
        finally:
            self._left -= time.monotonic() - begun
        return None if states and all(state[:2] in _NO_VALUE for state in states) else states

    def _function(self, item: Stored) -> sql.Identifier:
        """The temporary function that evaluates an expression on one row."""
        place = item.table.key, item.what
        if place in self._functions:
            return self._functions[place]
        table = item.table
        function = sql.Identifier("pg_temp", f"privbench trial {len(self._functions)}")
        declared = [
            _variable(table.column(name), place) for place, name in enumerate(item.columns, start=1)
        ]
        row = build("(SELECT {}) AS {}", list(map(sql.Identifier, item.columns)), table.name.name)
        generated = [
            table.column(column) for column in item.reads if table.column(column).generated
        ]
        if generated:
            computed = [
                build("({})::{} AS {}", rows.raw(c.default or "NULL"), rows.raw(c.type.sql), c.name)
                for c in generated
            ]
            row = build("(SELECT *, {} FROM {}) AS {}", computed, row, table.name.name)
        body = build(
            "#variable_conflict use_column\n"
            "BEGIN DECLARE {} BEGIN"
            " RETURN (SELECT CASE WHEN ({}) IS FALSE THEN {} ELSE {} END FROM {}); END;"
            " EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END",
            *(sql.Composed(declared), item.condition, sql.Literal(FALSE), sql.Literal(PASSED), row),
        )
        made_as = "CREATE FUNCTION {}({}) RETURNS pg_catalog.text LANGUAGE plpgsql STABLE AS {}"
        texts = [sql.SQL("pg_catalog.text")] * len(declared)
        code = sql.Literal(body.as_string(self._clone.connection))
        self._clone.run(made_as, function, texts, code)
        self._functions[place] = function
        return function
