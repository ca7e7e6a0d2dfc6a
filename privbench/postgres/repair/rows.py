"""What the repairs share: SQL from parts, catalog questions, borrowing columns of other rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, LiteralString, TypeAlias

from psycopg import sql

from privbench.pgsql import SqlError, Token, tokens
from privbench.postgres.connect import Connection
from privbench.postgres.statement import run
from privbench.schema import Table, TableName

Part: TypeAlias = "sql.Composable | str | int | float | Iterable[Part]"

#: Rows that others borrow from at most: enough to be as varied as the rest of the table.
_LENDERS = 100_000
#: Tables that `ask_all` asks for, as ``wanted`` and, by their OIDs, ``root``; and those with every
#: partition, as ``own``: ``whole`` says that it has partitions, ``part`` is its OID if it is one.
_TABLES = sql.SQL(
    "ROWS FROM (pg_catalog.unnest(%(schemas)s::text[]), pg_catalog.unnest(%(names)s::text[]))"
    " AS wanted(schema, name) CROSS JOIN LATERAL ("
    " SELECT pg_catalog.format('%%I.%%I', wanted.schema, wanted.name)::regclass AS oid) root"
)
_PARTS = sql.SQL(
    "{} CROSS JOIN LATERAL (SELECT c.oid, n.nspname AS schema, c.relname AS name,"
    " c.relkind = 'p' AS whole, CASE WHEN c.oid <> root.oid THEN c.oid::int8 END AS part"
    " FROM (SELECT root.oid UNION SELECT t.relid FROM pg_catalog.pg_partition_tree(root.oid) t) o"
    " JOIN pg_catalog.pg_class c ON c.oid = o.oid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace) own"
).format(_TABLES)
TRUE, FALSE, NULL, NOTHING = map(sql.SQL, ("true", "false", "NULL", ""))


def build(template: LiteralString, *parts: Part, **named: Part) -> sql.Composed:
    """SQL of a template: texts become quoted names, numbers literals, several parts a list.

    >>> build("SELECT {} FROM {} LIMIT {}", ["a", "b c"], "t", 7).as_string(None)
    'SELECT "a", "b c" FROM "t" LIMIT 7'
    """
    made = {name: _made(part) for name, part in named.items()}
    return sql.SQL(template).format(*map(_made, parts), **made)


def _made(part: Part) -> sql.Composable:
    if isinstance(part, sql.Composable):
        return part
    if isinstance(part, str):
        return sql.Identifier(part)
    if isinstance(part, (int, float)):
        return sql.Literal(part)
    return sql.SQL(", ").join(map(_made, part))


def raw(text: str) -> sql.Composable:
    """Text that the target's own catalog printed; the only raw SQL of the repairs.

    Statements run without parameters, so that a % sign in it stands for itself.
    """
    return sql.SQL(text)


def name_of(table: Table) -> sql.Composable:
    """The table's qualified name."""
    return sql.Identifier(table.name.schema, table.name.name)


def own_rows(name: TableName, *, whole: bool) -> sql.Composable:
    """A table in a FROM clause without those that inherit from it, which only its CHECKs speak of.

    Args:
        name: The table, or a partition.
        whole: Whether it is partitioned, and its rows are those of its partitions.
    """
    return build("{}" if whole else "ONLY {}", sql.Identifier(name.schema, name.name))


def rows_of(place: sql.Composable, condition: sql.Composable) -> sql.Composable:
    """Query of the rows of a table or partition that meet a condition.

    Its columns ``t`` (OID of the table or partition) and ``id`` (ctid) identify a row.
    """
    return build("SELECT tableoid AS t, ctid AS id FROM {} WHERE {}", place, condition)


def every(conditions: Iterable[sql.Composable]) -> sql.Composable:
    """All conditions at once."""
    return sql.SQL(" AND ").join([*conditions] or [TRUE])


def present(names: Iterable[str]) -> sql.Composable:
    """Condition of the rows in which no column is NULL."""
    return every(build("{} IS NOT NULL", name) for name in names)


def among(table: Table, conditions: Iterable[sql.Composable]) -> sql.Composable:
    """FROM clause of the rows of a table that meet all conditions."""
    return build("{} WHERE {}", name_of(table), every(conditions))


def renamed(names: Iterable[str], slots: Iterable[sql.Composable]) -> list[sql.Composable]:
    """Columns under names of our own, as a column of the schema may have any name."""
    return [build("{} AS {}", *pair) for pair in zip(names, slots, strict=True)]


def nulls(names: Iterable[str]) -> sql.Composable:
    """Assignments of NULL to columns."""
    return build("{}", [build("{} = NULL", name) for name in names])


def within(oid: int | None) -> sql.Composable:
    """Condition of the rows of one table or partition, or those beneath it; None is of all rows."""
    condition = "(tableoid = {0} OR tableoid IN (SELECT relid FROM pg_partition_tree({0})))"
    return TRUE if oid is None else build(condition, int(oid))


def is_computed(table: Table, column: str) -> bool:
    """Whether PostgreSQL computes the column or numbers it."""
    found = table.column(column)
    return bool(found.generated) or found.identity == "a"


def is_movable(table: Table, column: str) -> bool:
    """Whether a repair may change a column as far as UNIQUE sets allow: no key, not computed."""
    return column not in table.key_columns and not is_computed(table, column)


def is_free(table: Table, column: str) -> bool:
    """Whether a repair may change a column freely: no key, not unique, not computed."""
    tied = {name for item in table.unique_sets for name in item.columns}
    return column not in tied and is_movable(table, column)


def named(word: Token) -> str:
    """A word as a name."""
    return word.text[1:-1].replace('""', '"') if word.text.startswith('"') else word.text


def columns_in(table: Table, text: str) -> list[str]:
    """Columns of a table that an expression reads."""
    try:
        words = {named(word) for word in tokens(text)}
    except SqlError:
        return []
    return [column.name for column in table.columns if column.name in words]


def bases(table: Table, columns: Iterable[str]) -> list[str]:
    """Columns that decide what some columns are: in place of generated ones, what they read."""
    found: dict[str, None] = {}
    for column in map(table.column, columns):
        read = columns_in(table, column.default or "")
        found.update(dict.fromkeys(read if column.generated else [column.name]))
    return list(found)


def referred(tables: Iterable[Table]) -> frozenset[tuple[TableName, str]]:
    """Columns that foreign keys refer to."""
    keys = [key for table in tables for key in table.foreign_keys]
    return frozenset((key.ref_table, name) for key in keys for name in key.ref_columns)


def first(connection: Connection, query: sql.Composed) -> Any:
    """The first value that a query gives, None where it gives no row."""
    row = run(connection, query).fetchone()
    return row[0] if row else None


def borrow(
    connection: Connection,
    table: Table,
    columns: Mapping[str, str],
    bad: sql.Composable,
    good: sql.Composable,
    alike: Mapping[str, str] | None = None,
) -> int:
    """Give bad rows some columns of good rows drawn at random, each as often as any other.

    Args:
        connection: To the target.
        table: The table.
        columns: Columns to take, and those of the good rows that they become.
        bad: A query of the bad rows (see `rows_of`).
        good: A FROM clause of the good rows, with its condition.
        alike: Columns on which both rows must agree, and those of the good rows.

    Returns:
        How many rows were changed: none where there is no good row.
    """
    if not columns:
        return 0
    alike = alike or {}
    taken = [sql.Identifier(f"taken {place}") for place in range(len(columns))]
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
        lent=renamed([*columns.values(), *alike.values()], [*taken, *same]),
        good=good,
        most=_LENDERS,
        wanting=[sql.SQL("listed.t, listed.id"), *renamed(alike, same)],
        bad=bad,
        table=name_of(table),
        slots=build("{},", same) if same else NOTHING,
        grouped=build("GROUP BY {}", same) if same else NOTHING,
        lent_alike=every(build("lent.{0} = sizes.{0}", slot) for slot in same),
        wanting_alike=every(build("wanting.{0} = sizes.{0}", slot) for slot in same),
        assignments=[build("{} = good.{}", *pair) for pair in zip(columns, taken, strict=True)],
    )
    return pair_off(connection, statement)


def pair_off(connection: Connection, statement: sql.Composed) -> int:
    """Run a statement that joins many rows with as many; how many rows it changed.

    PostgreSQL knows nothing of rows that a WITH query makes, and takes them for a few: its nested
    loops took the square of their number. Plans that need one all the same look so dear that they
    would be compiled. An error leaves the settings to the savepoint that is rolled back.
    """
    for name in ("enable_nestloop", "jit"):
        run(connection, build("SET LOCAL {} = off", name))
    changed = run(connection, statement).rowcount
    for name in ("enable_nestloop", "jit"):
        run(connection, build("SET LOCAL {} TO DEFAULT", name))
    return changed


def update(
    connection: Connection, table: Table, assignments: sql.Composable, bad: sql.Composable
) -> int:
    """Change the rows of a query (see `rows_of`), known as ``broken``; how many there were."""
    statement = build(
        "UPDATE {} AS broken SET {} FROM ({}) AS bad"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t",
        *(name_of(table), assignments, bad),
    )
    return run(connection, statement).rowcount


def delete(connection: Connection, table: Table, bad: sql.Composable) -> int:
    """Delete the rows of a query (see `rows_of`); how many there were."""
    statement = build(
        "DELETE FROM {} AS broken USING ({}) AS bad"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t",
        *(name_of(table), bad),
    )
    return run(connection, statement).rowcount


def ask_all(
    connection: Connection, question: LiteralString, tables: Sequence[Table]
) -> defaultdict[TableName, list[tuple[Any, ...]]]:
    """Rows of a catalog question about many tables, by table.

    The question is asked of ``{tables}``, or of ``{parts}`` with all partitions; the table's schema
    and name come first.
    """
    found: defaultdict[TableName, list[tuple[Any, ...]]] = defaultdict(list)
    names = {
        "schemas": [table.name.schema for table in tables],
        "names": [table.name.name for table in tables],
    }
    asked = sql.SQL(question).format(tables=_TABLES, parts=_PARTS)
    for schema, name, *rest in run(connection, asked, names) if tables else ():
        found[TableName(schema, name)].append(tuple(rest))
    return found
