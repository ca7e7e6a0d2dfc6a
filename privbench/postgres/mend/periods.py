"""PERIOD foreign keys: a row's period must lie within its target's periods.

What such a key refers to is never modelled: its columns come as placeholders, and every row takes a
target here, drawn at random among those whose periods hold its own; where none is found, the row's
period is fitted into a target's. References that still hold nothing end, or their rows go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.mend.places import TRIES, between
from privbench.postgres.statement import run
from privbench.schema import Table, TableName

#: Draws of a target for rows whose period no drawn target holds.
DRAWS = 8
_KEYS: LiteralString = """
SELECT wanted.schema, wanted.name, k.conname, rn.nspname, r.relname, r.relkind = 'p',
  ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY u(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.i),
  ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(k.confkey) WITH ORDINALITY u(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.i)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN {wanted} ON wanted.schema = n.nspname AND wanted.name = c.relname
JOIN pg_catalog.pg_class r ON r.oid = k.confrelid
JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.contype = 'f' AND (to_jsonb(k) ->> 'conperiod')::boolean AND k.conparentid = 0
  AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true) AND k.convalidated
ORDER BY k.conname
"""


@dataclass(frozen=True, slots=True)
class PeriodKey:
    """A PERIOD foreign key of the finished clone.

    Attributes:
        table: Its table.
        name: Its name.
        target: The table that it refers to.
        whole: Whether the target is partitioned.
        columns: Its columns, the period last.
        ref_columns: The target's, in the same order.
    """

    table: Table
    name: str
    target: TableName
    whole: bool
    columns: tuple[str, ...]
    ref_columns: tuple[str, ...]

    @property
    def period(self) -> str:
        """The row's own period."""
        return self.columns[-1]

    @property
    def is_self(self) -> bool:
        """Whether it refers to its own table, whose periods then may not move."""
        return self.target == self.table.name

    @property
    def pieces(self) -> sql.Identifier:
        """Temporary table of the targets' periods, adjoining ones as one."""
        return sql.Identifier("pg_temp", f"privbench periods of {self.name}"[:60])

    @property
    def fixed(self) -> tuple[int, ...]:
        """Places of columns that another foreign key fills."""
        return tuple(i for i, c in enumerate(self.columns[:-1]) if c in self.table.key_columns)

    def ends(self) -> list[str]:
        """Columns that may be NULL, and so end the reference."""
        names = [name for i, name in enumerate(self.columns[:-1]) if i not in self.fixed]
        return [name for name in names if not self.table.column(name).not_null]

    def fitted(self, period: sql.Composable, piece: sql.Composable) -> sql.Composable:
        """A period within a piece: what both share, else one of the same length, else all of it."""
        type_ = self.table.column(self.period).type
        return sql.SQL(
            "CASE WHEN {c} && {p} THEN {c} * {p} ELSE coalesce({moved}, {p}) END"
        ).format(c=period, p=piece, moved=between(type_, period, piece))

    def spans(self, expressions: Collection[str]) -> bool:
        """Whether one of some expressions, as the catalog prints them, is the period."""
        return not {self.period, '"' + self.period.replace('"', '""') + '"'}.isdisjoint(expressions)

    # What `exclusions` asks of a place: rows that overlap others take another target.

    def declared(self, table: sql.Composable) -> sql.Composable:
        """The variables of `moved`."""
        return sql.SQL("turns bigint; drawn record;")

    def endless(self) -> sql.Composable:
        """Periods without one of their ends."""
        period = sql.Identifier(self.period)
        return sql.SQL("lower_inf({0}) OR upper_inf({0})").format(period)

    def moved(self) -> sql.Composable:
        """Statements of PL/pgSQL that give ``r`` another target and fit its period.

        First at its own time; where many rows want the same time, later at another.
        """
        slots = [_slot(i) for i in range(len(self.columns) - 1)]
        given = [
            sql.SQL("p.{} = r.{}").format(slots[i], sql.Identifier(self.columns[i]))
            for i in self.fixed
        ]
        taken = [
            sql.SQL("r.{} := drawn.{};").format(sql.Identifier(name), slot)
            for name, slot in zip(self.columns, slots, strict=False)
        ]
        period = sql.Identifier("r", self.period)
        type_ = self.table.column(self.period).type
        return sql.SQL(
            "SELECT p.size INTO turns FROM {pieces} AS p WHERE {given} LIMIT 1;"
            " turns := 1 + floor(random() * turns)::bigint;"
            " SELECT * INTO drawn FROM {pieces} AS p WHERE p.n = turns AND {given};"
            " IF FOUND THEN {taken}"
            " {period} := CASE WHEN turn > {stays} THEN coalesce({moved}, {fitted})"
            " ELSE {fitted} END; END IF;"
        ).format(
            stays=sql.Literal(TRIES // 3),
            moved=between(type_, period, sql.SQL("drawn.piece")),
            pieces=self.pieces,
            given=rows.every(given),
            taken=sql.SQL(" ").join(taken),
            period=period,
            fitted=self.fitted(period, sql.SQL("drawn.piece")),
        )


def find(connection: Connection, tables: Iterable[Table]) -> list[PeriodKey]:
    """The keys that are there, targets before those that refer to them; see `uniques.find`."""
    found, tables = [], tuple(tables)
    with database_errors("reading PERIOD foreign keys"):
        listed = rows.ask_all(connection, _KEYS, tables)
    for table in tables:
        for name, schema, target, whole, columns, theirs in listed[table.name]:
            named = TableName(schema, target)
            found.append(PeriodKey(table, name, named, whole, tuple(columns), tuple(theirs)))
    return _sorted(found)


def _sorted(keys: Sequence[PeriodKey]) -> list[PeriodKey]:
    """Targets first, as far as there is no cycle."""
    left, done = list(keys), []
    while left:
        open_ = {key.table.name for key in left}
        ready = [key for key in left if key.is_self or key.target not in open_] or left[:1]
        done += ready
        left = [key for key in left if key not in ready]
    return done


def draw(connection: Connection, key: PeriodKey) -> int:
    """Give the rows of a key's table targets; how many there are.

    The temporary table of pieces stays until `forget`.

    Raises:
        DatabaseError: The server refused.
    """
    with database_errors("giving rows targets of their periods", key.table.key):
        _list(connection, key)
        held = sql.SQL("p.piece @> c.{}").format(sql.Identifier(key.period))
        count = 0
        for _ in range(DRAWS):
            some = run(connection, _taking(key, held, moves=False)).rowcount
            count += some
            if not some and not _left(connection, key):
                break
        if not key.is_self:
            count += run(connection, _taking(key, rows.TRUE, moves=True)).rowcount
    return count


def _left(connection: Connection, key: PeriodKey) -> int:
    """How many rows have no target; all are counted, which PostgreSQL plans as one hash join."""
    statement = sql.SQL("SELECT count(*) FROM {} WHERE {}")
    row = run(connection, statement.format(rows.name_of(key.table), _open(key))).fetchone()
    return int(row[0]) if row else 0


def forget(connection: Connection, key: PeriodKey) -> None:
    """Drop the temporary table that `draw` made."""
    run(connection, sql.SQL("DROP TABLE {}").format(key.pieces))


def end(connection: Connection, key: PeriodKey) -> tuple[int, int]:
    """End references that hold nothing; where they may not end, their rows go.

    Returns:
        How many rows were changed, and how many were deleted.
    """
    with database_errors("ending references to periods that are gone", key.table.key):
        _list(connection, key)
        names, broken = key.ends(), _open(key)
        changed = deleted = 0
        if names:
            statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(
                rows.name_of(key.table), rows.nulls(names), broken
            )
            changed = run(connection, statement).rowcount
        else:
            gone = sql.SQL("SELECT {} FROM {} WHERE {}").format(
                rows.row_of(key.table), rows.name_of(key.table), broken
            )
            deleted = rows.delete(connection, key.table, gone)
        forget(connection, key)
    return changed, deleted


def _slot(place: int) -> sql.Identifier:
    return sql.Identifier(f"key {place}")


def _list(connection: Connection, key: PeriodKey) -> None:
    """Make the table of the targets' periods, numbered among those that agree on fixed columns."""
    names = [sql.Identifier(name) for name in key.ref_columns]
    slots = [_slot(i) for i in range(len(names) - 1)]
    among = [slots[i] for i in key.fixed]
    window = sql.SQL("PARTITION BY {}").format(sql.SQL(", ").join(among)) if among else sql.SQL("")
    made = sql.SQL(
        "CREATE TEMPORARY TABLE {pieces} AS SELECT *, row_number() OVER ({window}) AS n,"
        " count(*) OVER ({window}) AS size"
        " FROM (SELECT {keys}, unnest(range_agg({period})) AS piece FROM {only}{target}"
        " WHERE {known} GROUP BY {plain}) AS listed"
    ).format(
        pieces=key.pieces,
        window=window,
        keys=sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(name, slot) for name, slot in zip(names, slots, strict=False)
        ),
        period=names[-1],
        only=sql.SQL("" if key.whole else "ONLY "),
        target=sql.Identifier(key.target.schema, key.target.name),
        known=rows.every(sql.SQL("{} IS NOT NULL").format(name) for name in names),
        plain=sql.SQL(", ").join(names[:-1]),
    )
    run(connection, made)
    columns = sql.SQL(", ").join([*among, sql.Identifier("n")])
    run(connection, sql.SQL("CREATE INDEX ON {} ({})").format(key.pieces, columns))
    for table in (key.pieces, rows.name_of(key.table)):
        run(connection, sql.SQL("ANALYZE {}").format(table))


def _taking(key: PeriodKey, held: sql.Composable, *, moves: bool) -> sql.Composed:
    """Let rows without a target take one drawn at random, if it `held` their period."""
    pairs = [(sql.Identifier(name), _slot(i)) for i, name in enumerate(key.columns[:-1])]
    taken = [sql.SQL("{} = p.{}").format(name, slot) for name, slot in pairs]
    period = sql.Identifier(key.period)
    if moves:
        own = sql.SQL("c.{}").format(period)
        taken.append(sql.SQL("{} = {}").format(period, key.fitted(own, sql.SQL("p.piece"))))
    fixed = [pairs[i] for i in key.fixed]
    groups = [slot for _, slot in fixed]
    return sql.SQL(
        "WITH sizes AS (SELECT DISTINCT {groups} FROM {pieces}),"
        " bad AS MATERIALIZED (SELECT {row}, 1 + floor(random() * sizes.size)::bigint AS turn"
        " FROM {table}, sizes WHERE {mine} AND {open})"
        " UPDATE {table} AS c SET {taken} FROM bad, {pieces} AS p"
        " WHERE c.ctid = bad.id AND c.tableoid = bad.t AND p.n = bad.turn AND {theirs} AND {held}"
    ).format(
        groups=sql.SQL(", ").join([*groups, sql.Identifier("size")]),
        pieces=key.pieces,
        row=rows.row_of(key.table),
        table=rows.name_of(key.table),
        mine=rows.every(
            sql.SQL("sizes.{} = {}.{}").format(slot, rows.name_of(key.table), name)
            for name, slot in fixed
        ),
        open=_open(key),
        taken=sql.SQL(", ").join(taken),
        theirs=rows.every(sql.SQL("p.{1} = c.{0}").format(*pair) for pair in fixed),
        held=held,
    )


def _open(key: PeriodKey) -> sql.Composable:
    """Condition of the rows whose target does not hold their period.

    Periods of one target that adjoin are one piece, so that one piece must hold a row's.
    """
    child = rows.name_of(key.table)
    ours = [sql.SQL("{}.{}").format(child, sql.Identifier(name)) for name in key.columns]
    equal = [sql.SQL("held.{} = {}").format(_slot(i), our) for i, our in enumerate(ours[:-1])]
    return sql.SQL(
        "{known} AND NOT EXISTS (SELECT FROM {pieces} AS held"
        " WHERE {equal} AND held.piece @> {period} AND NOT isempty({period}))"
    ).format(
        known=rows.every(sql.SQL("{} IS NOT NULL").format(name) for name in ours),
        period=ours[-1],
        pieces=key.pieces,
        equal=rows.every(equal),
    )
