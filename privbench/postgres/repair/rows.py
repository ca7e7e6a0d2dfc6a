"""The rows that repairs change, and the SQL fragments that all repairs use."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, LiteralString

from psycopg import sql

from privbench.pgsql import SqlError, tokens
from privbench.postgres.connect import Connection
from privbench.postgres.statement import StatementPart, build, run
from privbench.schema import ForeignKey, Table, TableName

#: Rows that others borrow from at most: enough to be as varied as the rest of the table.
_LENDERS = 100_000
#: Tables of a catalog query (`TargetTables.ask_all`), as ``wanted``, each with all its partitions,
#: as ``own``: ``whole`` says that it has partitions, ``part`` is its name in SQL if it is one. No
#: OIDs are returned, since a resumed load reads this of tables that it makes and drops again.
_PARTS = sql.SQL(
    "ROWS FROM (pg_catalog.unnest(%(schemas)s::text[]), pg_catalog.unnest(%(names)s::text[]))"
    " AS wanted(schema, name) CROSS JOIN LATERAL ("
    " SELECT pg_catalog.format('%%I.%%I', wanted.schema, wanted.name)::regclass AS oid) root"
    " CROSS JOIN LATERAL (SELECT c.oid, n.nspname AS schema, c.relname AS name,"
    " c.relkind = 'p' AS whole, CASE WHEN c.oid <> root.oid"
    " THEN pg_catalog.format('%%I.%%I', n.nspname, c.relname) END AS part"
    " FROM (SELECT root.oid UNION SELECT t.relid FROM pg_catalog.pg_partition_tree(root.oid) t) o"
    " JOIN pg_catalog.pg_class c ON c.oid = o.oid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace) own"
)
TRUE, FALSE, NULL, NOTHING = map(sql.SQL, ("true", "false", "NULL", ""))


class TargetTables:
    """The synthetic rows of a load; all repairs change rows through it, and it counts the changes.

    Attributes:
        connection: To the target, in the transaction of the load.
        tables: Tables that will hold synthetic rows.
        changed: How many rows were changed, by table.
        deleted: How many rows were deleted, by table.
        lost: Tables that lost rows to which references may still lead.
        fixed: Columns that repairs of CHECKs may no longer change, by table: other rules read them.
        kept: The condition of the rows that satisfy every CHECK of a table.
    """

    def __init__(
        self, connection: Connection, tables: Iterable[Table], lost: Iterable[str] = ()
    ) -> None:
        self.connection = connection
        self.tables = tuple(tables)
        self.changed: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.lost = set(lost)
        self.fixed: defaultdict[str, set[str]] = defaultdict(set)
        self.kept: Callable[[Table], sql.Composable] = lambda table: TRUE

    @cached_property
    def referred(self) -> frozenset[tuple[TableName, str]]:
        """The columns that foreign keys refer to."""
        keys = [key for table in self.tables for key in table.foreign_keys]
        return frozenset((key.ref_table, name) for key in keys for name in key.ref_columns)

    @cached_property
    def references(self) -> list[tuple[Table, ForeignKey]]:
        """All foreign keys that rows have to satisfy."""
        pairs = ((table, key) for table in self.tables for key in table.foreign_keys)
        return [(table, key) for table, key in pairs if key.validated]

    def run(self, template: LiteralString, *parts: StatementPart, **named: StatementPart) -> int:
        """Run a statement from a template (see `build`); return the number of affected rows."""
        return run(self.connection, build(template, *parts, **named)).rowcount

    def first(self, template: LiteralString, *parts: StatementPart) -> Any:
        """Return the first row of a query from a template."""
        return run(self.connection, build(template, *parts)).fetchone()

    def ask_all(
        self, question: LiteralString, tables: Sequence[Table] | None = None
    ) -> defaultdict[TableName, list[tuple[Any, ...]]]:
        """Run a catalog query about many tables, and return its rows by table.

        The query selects from ``{parts}``; the table's schema and name come first.
        """
        tables = self.tables if tables is None else tables
        by_table: defaultdict[TableName, list[tuple[Any, ...]]] = defaultdict(list)
        names = {
            "schemas": [table.name.schema for table in tables],
            "names": [table.name.name for table in tables],
        }
        query = sql.SQL(question).format(parts=_PARTS)
        for schema, name, *rest in run(self.connection, query, names) if tables else ():
            by_table[TableName(schema, name)].append(tuple(rest))
        return by_table

    def note(self, table: str, *, changed: int = 0, deleted: int = 0) -> None:
        """Count rows of a table that were changed or deleted."""
        self.changed[table] += changed
        self.deleted[table] += deleted
        if deleted:
            self.lost.add(table)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Give a context in which an error undoes its changes, and the counts of these."""
        counted = self.changed.copy(), self.deleted.copy(), self.lost.copy()
        try:
            with self.connection.transaction():
                yield
        except BaseException:
            self.changed, self.deleted, self.lost = counted
            raise

    @contextlib.contextmanager
    def watch(self) -> Iterator[set[str]]:
        """Give a set that afterwards holds the tables whose rows the context has changed."""
        before, touched = self.changed.copy(), set[str]()
        yield touched
        touched.update(self.changed - before)

    def update(self, table: Table, assignments: sql.Composable, bad: sql.Composable) -> int:
        """Change the rows of a query (see `rows_of`), named ``broken``; return their number."""
        changed = self.run(
            "UPDATE {} AS broken SET {} FROM ({}) AS bad"
            " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t",
            *(table.name, assignments, bad),
        )
        self.note(table.key, changed=changed)
        return changed

    def delete(self, table: Table, bad: sql.Composable) -> int:
        """Delete the rows of a query (see `rows_of`); return their number."""
        deleted = self.run(
            "DELETE FROM {} AS broken USING ({}) AS bad"
            " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t",
            *(table.name, bad),
        )
        self.note(table.key, deleted=deleted)
        return deleted

    def borrow(
        self,
        table: Table,
        columns: Mapping[str, str],
        bad: sql.Composable,
        good: sql.Composable,
        alike: Mapping[str, str] | None = None,
    ) -> int:
        """Copy some columns of random good rows into bad rows, each good row equally often.

        Returns the number of changed rows: 0 if there is no good row.

        Args:
            table: The table.
            columns: Columns to take, and those of the good rows that they become.
            bad: A query of the bad rows (see `rows_of`).
            good: A FROM clause of the good rows, with its condition.
            alike: Columns on which both rows must agree, and those of the good rows.
        """
        if not columns:
            return 0
        alike = alike or {}
        aliases = [sql.Identifier(f"taken {place}") for place in range(len(columns))]
        same = [sql.Identifier(f"same {place}") for place in range(len(alike))]
        statement = build(
            "WITH lent AS MATERIALIZED (SELECT {lent} FROM {good} ORDER BY random() LIMIT {most}),"
            " wanting AS MATERIALIZED (SELECT {wanting} FROM ({bad}) AS listed JOIN {table} AS mine"
            " ON mine.ctid = listed.id AND mine.tableoid = listed.t),"
            # A turn is one number, so that PostgreSQL can hash it: to compare every row with every
            # other one of its group takes the square of their number.
            " sizes AS MATERIALIZED (SELECT {slots} count(*) AS size,"
            " row_number() OVER () << 40 AS part FROM lent {grouped}),"
            " good AS MATERIALIZED (SELECT lent.*, part + row_number() OVER (PARTITION BY part) - 1"
            " AS turn FROM lent JOIN sizes ON {lent_alike}),"
            " bad AS MATERIALIZED (SELECT wanting.*,"
            " part + (row_number() OVER (PARTITION BY part) - 1) % size AS turn"
            " FROM wanting JOIN sizes ON size > 0 AND {wanting_alike})"
            " UPDATE {table} AS broken SET {assignments} FROM bad JOIN good ON good.turn = bad.turn"
            " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t",
            lent=renamed([*columns.values(), *alike.values()], [*aliases, *same]),
            good=good,
            most=_LENDERS,
            wanting=[sql.SQL("listed.t, listed.id"), *renamed(alike, same)],
            bad=bad,
            table=table.name,
            slots=build("{},", same) if same else NOTHING,
            grouped=build("GROUP BY {}", same) if same else NOTHING,
            lent_alike=every(build("lent.{0} = sizes.{0}", slot) for slot in same),
            wanting_alike=every(build("wanting.{0} = sizes.{0}", slot) for slot in same),
            assignments=[
                build("{} = good.{}", *pair) for pair in zip(columns, aliases, strict=True)
            ],
        )
        return self.pair_off(table, statement)

    def pair_off(self, table: Table, statement: sql.Composed) -> int:
        """Run a statement that joins many rows with many, without nested loops.

        PostgreSQL has no statistics on the rows of a WITH query and expects few; nested loops over
        them took quadratic time. After an error, the rollback to the savepoint undoes the setting.
        Returns the number of rows that were changed.
        """
        self.run("SET LOCAL enable_nestloop = off")
        changed = run(self.connection, statement).rowcount
        self.run("SET LOCAL enable_nestloop TO DEFAULT")
        self.note(table.key, changed=changed)
        return changed


def raw(text: str) -> sql.Composable:
    """Return SQL text that the target's own catalog printed; no other raw SQL is used by repairs.

    Statements run without parameters, so that a % sign in it stands for itself.
    """
    return sql.SQL(text)


def rows_of(place: StatementPart, condition: sql.Composable) -> sql.Composable:
    """Return a query of the rows of a table or partition that meet a condition.

    Its columns ``t`` (OID of the table or partition) and ``id`` (ctid) identify a row.
    """
    return build("SELECT tableoid AS t, ctid AS id FROM {} WHERE {}", place, condition)


def every(conditions: Iterable[sql.Composable]) -> sql.Composable:
    """Return the conjunction of conditions."""
    return sql.SQL(" AND ").join([*conditions] or [TRUE])


def present(names: Iterable[str]) -> sql.Composable:
    """Return the condition that no column is NULL."""
    return every(build("{} IS NOT NULL", name) for name in names)


def among(table: Table, conditions: Iterable[sql.Composable]) -> sql.Composable:
    """Return a FROM clause of the rows of a table that meet all conditions."""
    return build("{} WHERE {}", table.name, every(conditions))


def renamed(names: Iterable[str], slots: Iterable[sql.Composable]) -> list[sql.Composable]:
    """Return columns under fixed names, as a column of the schema may have any name."""
    return [build("{} AS {}", *pair) for pair in zip(names, slots, strict=True)]


def nulls(names: Iterable[str]) -> sql.Composable:
    """Return assignments of NULL to columns."""
    return build("{}", [build("{} = NULL", name) for name in names])


def within(name: str | None) -> sql.Composable:
    """Return the condition of the rows of a table or partition and those below; None: all rows."""
    condition = (
        "(tableoid = {0}::pg_catalog.regclass"
        " OR tableoid IN (SELECT relid FROM pg_catalog.pg_partition_tree({0})))"
    )
    return TRUE if name is None else build(condition, sql.Literal(name))


def is_movable(table: Table, column: str) -> bool:
    """Return whether a repair may change a column within UNIQUE sets: no key, not computed."""
    described = table.column(column)
    return not (column in table.key_columns or described.generated or described.identity == "a")


def is_free(table: Table, column: str) -> bool:
    """Return whether a repair may change a column freely: no key, not unique, not computed."""
    tied = {name for item in table.unique_sets for name in item.columns}
    return column not in tied and is_movable(table, column)


def columns_in(table: Table, text: str) -> list[str]:
    """Return the columns of a table that an expression reads."""
    try:
        words = {word.name for word in tokens(text)}
    except SqlError:
        return []
    return [column.name for column in table.columns if column.name in words]


def bases(table: Table, columns: Iterable[str]) -> list[str]:
    """Return the columns that determine the given ones: for generated ones, what they read."""
    stored: dict[str, None] = {}
    for column in map(table.column, columns):
        read = columns_in(table, column.default or "")
        stored.update(dict.fromkeys(read if column.generated else [column.name]))
    return list(stored)
