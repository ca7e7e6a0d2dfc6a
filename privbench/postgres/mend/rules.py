"""What a CHECK demands of the rows of one table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from psycopg import sql
from sqlglot import expressions as exp

from privbench.postgres.connect import Connection
from privbench.postgres.mend import rows
from privbench.postgres.mend.parsed import parsed
from privbench.postgres.statement import run
from privbench.schema import Table, TableName


@dataclass(frozen=True, slots=True)
class Rule:
    """What the rows of one table must keep.

    Attributes:
        table: The table.
        constraint: Which constraint demands it.
        condition: What it demands of the rows in `place`; only FALSE breaks it.
        columns: Columns that a repair may change.
        uses: All its columns.
        text: The CHECK as the catalog prints it.
        tied: Columns that a repair may change where `columns` are none, at the risk that rows are
            no longer unique.
        lent: References that may end, or become those of another row.
        within: Condition of the table's rows that it speaks of: those of one partition, or all.
        part: The partition's name, or None.
    """

    table: Table
    constraint: int
    condition: sql.Composable
    columns: tuple[str, ...]
    uses: frozenset[str]
    text: str
    tied: tuple[str, ...] = ()
    lent: tuple[str, ...] = ()
    within: sql.Composable = field(default_factory=lambda: rows.TRUE)
    part: sql.Composable | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns whose values say what kind of row it is: a repair had better keep them."""
        named = {name: self.table.column(name).type for name in self.columns}
        return tuple(
            name
            for name, type_ in named.items()
            if type_.kind == "e" or (type_.kind == "b" and type_.category in "SB")
        )

    @property
    def place(self) -> sql.Composable:
        """The table, or the partition: asking all partitions for each one's CHECK takes long."""
        return rows.name_of(self.table) if self.part is None else self.part

    @property
    def kept(self) -> sql.Composable:
        """Condition of the table's rows that keep it, or that it does not speak of."""
        return sql.SQL("(NOT {} OR ({})) IS NOT FALSE").format(self.within, self.condition)

    @property
    def broken(self) -> sql.Composable:
        """Condition of the table's rows that break it."""
        return sql.SQL("(NOT {} OR ({})) IS FALSE").format(self.within, self.condition)

    @property
    def broken_rows(self) -> sql.Composable:
        """Query of the rows that break it."""
        return sql.SQL(
            "SELECT {0}.tableoid AS t, {0}.ctid AS id FROM {0} WHERE ({1}) IS FALSE"
        ).format(self.place, self.condition)

    def breaks(self, connection: Connection) -> bool:
        """Whether some row breaks it."""
        query = sql.SQL("SELECT EXISTS ({})").format(self.broken_rows)
        row = run(connection, query).fetchone()
        return bool(row and row[0])

    def count(self, connection: Connection) -> tuple[int, int]:
        """How many rows break it, and how many it speaks of."""
        query = sql.SQL("SELECT count(*) FILTER (WHERE ({}) IS FALSE), count(*) FROM {}")
        row = run(connection, query.format(self.condition, self.place)).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])


def free_columns(table: Table, columns: Iterable[str]) -> tuple[str, ...]:
    """Columns that a repair may change so that some columns change: generated ones by their own."""
    return tuple(name for name in _plain(table, columns) if rows.is_free(table, name))


def tied_columns(
    table: Table, columns: Iterable[str], referred: Collection[tuple[TableName, str]]
) -> tuple[str, ...]:
    """Columns that stand in a UNIQUE set, and neither refer to others nor are referred to."""
    return tuple(
        name
        for name in _plain(table, columns)
        if not rows.is_computed(table, name)
        and name not in table.key_columns
        and (table.name, name) not in referred
    )


def lent_columns(
    table: Table, columns: Iterable[str], referred: Collection[tuple[TableName, str]]
) -> tuple[str, ...]:
    """Columns of foreign keys, whole keys, that nothing else hangs on."""
    keys = [name for key in table.foreign_keys for name in key.columns]
    unique = {name for item in table.unique_sets for name in item.columns}
    free = [
        key.columns
        for key in table.foreign_keys
        if all(
            keys.count(name) == 1 and name not in unique and (table.name, name) not in referred
            for name in key.columns
        )
    ]
    wanted = list(columns)
    return tuple(name for key in free if set(key) & set(wanted) for name in key)


def ends(table: Table, lent: Collection[str]) -> list[tuple[str, ...]]:
    """Per foreign key among some columns, those that are to be NULL so that it refers to nothing.

    Args:
        table: The table.
        lent: Columns of whole keys, see `lent_columns`.
    """
    found = []
    for key in table.foreign_keys:
        names = tuple(name for name in key.columns if not table.column(name).not_null)
        may = len(names) == len(key.columns) if key.match == "f" else bool(names)
        if set(key.columns) <= set(lent) and may:
            found.append(names)
    return found


def _plain(table: Table, columns: Iterable[str]) -> Iterator[str]:
    yield from dict.fromkeys(base for name in columns for base in _bases(table, name))


def _bases(table: Table, name: str) -> Iterator[str]:
    """The column, or those that it is computed from."""
    column = table.column(name)
    if not column.generated or column.default is None:
        yield name
        return
    tree = parsed(column.default)
    if tree is None:
        return
    known = {item.name for item in table.columns}
    yield from (node.name for node in tree.find_all(exp.Column) if node.name in known)


def guarded(connection: Connection, rule: Rule) -> Rule:
    """The rule, read by a function that takes a failure of the CHECK for a breach.

    Args:
        connection: In the transaction of the load; the function goes with the session.
        rule: The rule.
    """
    name = sql.Identifier("pg_temp", f"privbench rule {rule.constraint} {'/'.join(rule.uses)}"[:60])
    body = sql.SQL(
        "BEGIN RETURN (SELECT {condition} FROM {table}"
        " WHERE {table}.tableoid = $1 AND {table}.ctid = $2);"
        " EXCEPTION WHEN data_exception THEN RETURN false; END"
    ).format(condition=rule.condition, table=rule.place)
    run(
        connection,
        sql.SQL(
            "CREATE OR REPLACE FUNCTION {}(oid, tid) RETURNS boolean LANGUAGE plpgsql STABLE AS {}"
        ).format(name, sql.Literal(body.as_string(connection))),
    )
    # Without a table's name: both the table and a partition of it are asked.
    return replace(rule, condition=sql.SQL("{}(tableoid, ctid)").format(name))
