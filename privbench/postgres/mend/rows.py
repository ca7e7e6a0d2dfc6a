"""What the repairs share: names, raw text of the catalog, borrowing values from good rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, LiteralString

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import run
from privbench.schema import Table, TableName

#: Tables that `ask_all` asks for, as ``wanted``; and with them every partition, as ``own``.
_WANTED = sql.SQL(
    "ROWS FROM (pg_catalog.unnest(%(schemas)s::text[]), pg_catalog.unnest(%(names)s::text[]))"
    " AS wanted(schema, name)"
)
_PARTS = sql.SQL(
    "{} CROSS JOIN LATERAL ("
    " SELECT pg_catalog.format('%%I.%%I', wanted.schema, wanted.name)::regclass AS oid) root"
    " CROSS JOIN LATERAL (SELECT root.oid UNION"
    " SELECT t.relid FROM pg_catalog.pg_partition_tree(root.oid) t) own"
).format(_WANTED)
#: In ``WITH RECURSIVE``: what every domain stands over, itself a domain or the plain type.
UNDER = sql.SQL("""under(type, base) AS (
  SELECT oid, typbasetype FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION
  SELECT u.type, d.typbasetype FROM under u JOIN pg_catalog.pg_type d
    ON d.typtype = 'd' AND d.oid = u.base)""")
TRUE, FALSE = sql.SQL("true"), sql.SQL("false")


def name_of(table: Table) -> sql.Composable:
    """The table's qualified name."""
    return sql.Identifier(table.name.schema, table.name.name)


def raw(text: str) -> sql.Composable:
    """Text that the target's own catalog printed; the only raw SQL of the repairs.

    Statements run without parameters, so that a % sign in it stands for itself.
    """
    return sql.SQL(text)


def row_of(table: Table) -> sql.Composable:
    """What tells a row from all others, partitions and children included."""
    name = name_of(table)
    return sql.SQL("{0}.tableoid AS t, {0}.ctid AS id").format(name)


def in_partition(oid: int) -> sql.Composable:
    """Condition of the rows in one partition, or in those beneath it."""
    condition = "(tableoid = {0} OR tableoid IN (SELECT relid FROM pg_partition_tree({0})))"
    return sql.SQL(condition).format(sql.Literal(oid))


def is_free(table: Table, column: str) -> bool:
    """Whether a repair may change a column: no key, not unique, not generated."""
    tied = {name for item in table.unique_sets for name in item.columns} | table.key_columns
    return column not in tied and not is_computed(table, column)


def is_computed(table: Table, column: str) -> bool:
    """Whether PostgreSQL computes the column or numbers it."""
    found = table.column(column)
    return bool(found.generated) or found.identity == "a"


def referred(tables: Iterable[Table]) -> frozenset[tuple[TableName, str]]:
    """Columns that foreign keys refer to."""
    return frozenset(
        (key.ref_table, name)
        for table in tables
        for key in table.foreign_keys
        for name in key.ref_columns
    )


def every(conditions: Iterable[sql.Composable]) -> sql.Composable:
    """All conditions at once."""
    listed = list(conditions)
    return sql.SQL(" AND ").join(listed) if listed else TRUE


def nulls(names: Iterable[str]) -> sql.Composable:
    """Assignments of NULL to columns."""
    return sql.SQL(", ").join(sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in names)


def set_seed(connection: Connection, value: float) -> None:
    """Have the session's ``random()`` draw as before; a value in [-1, 1]."""
    with database_errors("seeding the repairs"):
        run(connection, "SELECT pg_catalog.setseed(%s)", [value])


def holds(connection: Connection, table: Table, condition: sql.Composable) -> bool:
    """Whether some row meets a condition."""
    row = run(
        connection,
        sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(name_of(table), condition),
    ).fetchone()
    return bool(row and row[0])


def borrow(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    bad: sql.Composable,
    good: sql.Composable,
    alike: Sequence[str] = (),
) -> int:
    """Give bad rows some columns of good rows drawn at random.

    Args:
        connection: To the target.
        table: The table.
        columns: Columns to take.
        bad: A query of the bad rows, columns ``t`` and ``id`` (see `row_of`).
        good: A condition that good rows meet.
        alike: Columns on which both rows must agree.

    Returns:
        How many rows were changed: none where there is no good row.
    """
    if not columns:
        return 0
    # Taken as a row under numbered names: a column may be called anything.
    taken, same = _numbered(table, columns, "taken"), _numbered(table, alike, "same")
    slots = [sql.Identifier(f"same {i}") for i in range(len(alike))]
    statement = sql.SQL(
        "WITH listed AS MATERIALIZED ({bad}), drawn AS MATERIALIZED"
        " (SELECT {taken} FROM {table} WHERE {good} ORDER BY random() LIMIT {most}),"
        " {turns}"
        " UPDATE {table} AS broken SET {assignments} FROM bad JOIN good ON good.turn = bad.turn"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(
        bad=bad,
        taken=sql.SQL(", ").join([*taken, *same]),
        table=name_of(table),
        good=good,
        # Of rows that must agree, more are drawn than can be needed of a common kind.
        most=sql.SQL(
            "(SELECT 1000 + 10 * count(*) FROM listed)"
            if alike
            else "(SELECT count(*) FROM listed)"
        ),
        turns=turns(_beside(table, same) if alike else sql.SQL("listed"), slots),
        assignments=sql.SQL(", ").join(
            sql.SQL("{} = good.{}").format(sql.Identifier(name), sql.Identifier(f"taken {i}"))
            for i, name in enumerate(columns)
        ),
    )
    return pair_off(connection, statement)


def turns(wanting: sql.Composable, slots: Sequence[sql.Identifier]) -> sql.Composable:
    """WITH queries ``good`` and ``bad``, whose rows of equal ``turn`` belong together.

    Rows of ``drawn`` go round among the rows that want one, within groups of equal slots. A turn is
    one number, so that PostgreSQL can hash it: to compare every row with every other one of its
    group takes the square of their number.

    Args:
        wanting: The rows that want one.
        slots: Columns of both on which they must agree.
    """
    listed = sql.SQL(", ").join(slots)
    both = [
        every(sql.SQL("{}.{} = sizes.{}").format(sql.SQL(name), slot, slot) for slot in slots)
        for name in ("drawn", "wanting")
    ]
    return sql.SQL(
        "sizes AS MATERIALIZED (SELECT {slots} count(*) AS size, row_number() OVER () << 40 AS part"
        " FROM drawn {grouped}),"
        " good AS MATERIALIZED (SELECT drawn.*, part + row_number() OVER (PARTITION BY part) - 1"
        " AS turn FROM drawn JOIN sizes ON {drawn}),"
        " bad AS MATERIALIZED (SELECT wanting.*,"
        " part + (row_number() OVER (PARTITION BY part) - 1) % size AS turn"
        " FROM {wanting} AS wanting JOIN sizes ON size > 0 AND {agree})"
    ).format(
        slots=sql.SQL("{},").format(listed) if slots else sql.SQL(""),
        grouped=sql.SQL("GROUP BY {}").format(listed) if slots else sql.SQL(""),
        drawn=both[0],
        wanting=wanting,
        agree=both[1],
    )


def pair_off(connection: Connection, statement: sql.Composed) -> int:
    """Run a statement that joins many rows with as many; how many rows it changed.

    PostgreSQL knows nothing of rows that a WITH query makes, and takes them for a few: its nested
    loops took the square of their number.
    """
    # Plans that need one all the same look so dear that they would be compiled.
    for name in ("enable_nestloop", "jit"):
        run(connection, sql.SQL("SET LOCAL {} = off").format(sql.SQL(name)))
    changed = run(connection, statement).rowcount
    # An error leaves it to the savepoint that is rolled back.
    for name in ("enable_nestloop", "jit"):
        run(connection, sql.SQL("SET LOCAL {} TO DEFAULT").format(sql.SQL(name)))
    return changed


def _numbered(table: Table, columns: Sequence[str], word: str) -> list[sql.Composable]:
    return [
        sql.SQL("{}.{} AS {}").format(
            name_of(table), sql.Identifier(name), sql.Identifier(f"{word} {place}")
        )
        for place, name in enumerate(columns)
    ]


def _beside(table: Table, columns: Sequence[sql.Composable]) -> sql.Composable:
    """The listed rows with some columns of theirs."""
    return sql.SQL(
        "(SELECT listed.t, listed.id, {columns} FROM listed JOIN {table}"
        " ON {table}.ctid = listed.id AND {table}.tableoid = listed.t)"
    ).format(columns=sql.SQL(", ").join(columns), table=name_of(table))


def delete(connection: Connection, table: Table, bad: sql.Composable) -> int:
    """Delete the rows of a query (see `row_of`); how many there were."""
    statement = sql.SQL(
        "DELETE FROM {} AS broken USING ({}) AS bad"
        " WHERE broken.ctid = bad.id AND broken.tableoid = bad.t"
    ).format(name_of(table), bad)
    return run(connection, statement).rowcount


def ask(connection: Connection, question: Any, table: Table) -> list[Any]:
    """Rows of a catalog question about one table, by ``%(schema)s`` and ``%(name)s``."""
    names = {"schema": table.name.schema, "name": table.name.name}
    return run(connection, question, names).fetchall()


def ask_all(
    connection: Connection, question: LiteralString, tables: Sequence[Table]
) -> defaultdict[TableName, list[tuple[Any, ...]]]:
    """Rows of a catalog question about many tables, by table.

    The question is asked of ``{wanted}``, or of ``{parts}`` for partitions as well; the table's
    schema and name come first.
    """
    found: defaultdict[TableName, list[tuple[Any, ...]]] = defaultdict(list)
    names = {
        "schemas": [table.name.schema for table in tables],
        "names": [table.name.name for table in tables],
    }
    asked = sql.SQL(question).format(wanted=_WANTED, parts=_PARTS)
    for schema, name, *rest in run(connection, asked, names):
        found[TableName(schema, name)].append(tuple(rest))
    return found
