"""EXCLUDE constraints, keys WITHOUT OVERLAPS and PERIOD keys: rows are inserted one by one.

Rows are generated so that periods do not overlap. A row that conflicts all the same is shifted in
time, or left out.

The target of a PERIOD key is never modelled: its columns come as placeholders, and every row gets a
target here. It is one whose periods contain the row's own period, else any target, and the row's
period is fitted into the target's. References that still lead nowhere become NULL, or their rows
are deleted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import errors, sql

from privbench.postgres.failures import database_errors
from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import TargetTables
from privbench.postgres.statement import build, own_rows, run, source
from privbench.schema import Table, TableName

#: Targets that are tried, at places up to 2 to the power of 0, …, 15 lengths within, and again.
_TRIES, _REACH = 48, 16
_EXCLUSIONS: LiteralString = """
SELECT wanted.schema, wanted.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  own.schema, own.name, own.whole
FROM {parts}
JOIN pg_catalog.pg_constraint k ON k.conrelid = own.oid
WHERE k.conexclop IS NOT NULL AND k.conparentid = 0
ORDER BY own.part IS NOT NULL, k.conname, own.schema, own.name
"""
#: A deferred constraint cannot say which row conflicts.
_DEFERRED = re.compile(r" DEFERRABLE(?: INITIALLY DEFERRED)?\Z")
#: Shifts by type category.
_STEPS = {"N": "+ step", "S": "|| step", "G": "+ pg_catalog.point(step, 0)"}
_STAGE = sql.Identifier("pg_temp", "privbench rows")
_PLACE = sql.Identifier("pg_temp", "privbench place")
#: Temporary table of the periods of a PERIOD key's targets; adjoining ones of one target are one.
_PIECES = sql.Identifier("pg_temp", "privbench periods")
#: Draws of a target that must hold the row's period; with fewer, more periods change.
_DRAWS = 8
_KEYS: LiteralString = """
SELECT wanted.schema, wanted.name, k.conname, rn.nspname, r.relname, r.relkind = 'p',
  ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY u(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.i),
  ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(k.confkey) WITH ORDINALITY u(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.i)
FROM {parts}
JOIN pg_catalog.pg_constraint k ON k.conrelid = own.oid AND own.part IS NULL
JOIN pg_catalog.pg_class r ON r.oid = k.confrelid
JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.contype = 'f' AND (to_jsonb(k) ->> 'conperiod')::boolean AND k.conparentid = 0
  AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true) AND k.convalidated
ORDER BY k.conname
"""


@dataclass(frozen=True, slots=True)
class PeriodKey:
    """A PERIOD foreign key of the finished clone."""

    table: Table
    name: str
    target: TableName  # the table that it refers to
    whole: bool  # whether the target is partitioned
    columns: tuple[str, ...]  # its columns, the period last
    ref_columns: tuple[str, ...]  # the target's, in the same order

    @property
    def is_self(self) -> bool:
        """Whether the key refers to its own table; the periods of that table are then not moved."""
        return self.target == self.table.name

    @property
    def pairs(self) -> list[tuple[str, sql.Identifier]]:
        """Each key column except the period, with its column in the temporary target table."""
        return [(name, sql.Identifier(f"key {i}")) for i, name in enumerate(self.columns[:-1])]

    @property
    def fixed(self) -> list[tuple[str, sql.Identifier]]:
        """The `pairs` whose column also belongs to another foreign key and may not change."""
        return [pair for pair in self.pairs if pair[0] in self.table.key_columns]

    def held(self, row: sql.Composable) -> sql.Composable:
        """Return the condition of rows whose target contains their period, or that have no period.

        Adjoining periods of one target count as one period, which must contain the row's.
        """
        here = "(num_nulls({}) > 0 OR EXISTS (SELECT FROM {} AS p WHERE {} AND p.piece @> {}))"
        columns = [build("{}.{}", row, name) for name in self.columns]
        equal = (build("p.{} = {}.{}", slot, row, name) for name, slot in self.pairs)
        return build(here, columns, _PIECES, rows.every(equal), columns[-1])

    def moving(self) -> sql.Composable:
        """Return PL/pgSQL that gives row ``r`` another target, and fits its period into it.

        The first tries search for a target whose period contains the row's. Later tries move the
        row's period into the target's, ``step`` of its own lengths after the target's beginning; a
        period without an end, or longer than the target's, is cut to a part of the target's.
        """
        return build(
            "SELECT {slots}, CASE WHEN turn <= {draws} OR {own} THEN {c}"
            " WHEN low IS NULL OR its.size IS NULL THEN p.piece"
            " ELSE {type}(low + spot * its.size, low + (spot + 1) * its.size) END INTO"
            " {taken}, {c} FROM {pieces} AS p, LATERAL (SELECT lower(p.piece) AS low,"
            " CASE WHEN turn % 2 = 0 THEN step ELSE step % 16 END AS spot,"
            " CASE WHEN mine < room THEN mine ELSE coalesce(room / 16, mine) END AS size FROM"
            " (SELECT upper({c}) - lower({c}) AS mine,"
            " upper(p.piece) - lower(p.piece) AS room) AS lengths) AS its"
            " WHERE {given} AND p.n = (SELECT 1 + floor(random() * size)::bigint"
            " FROM {pieces} AS p WHERE {given} LIMIT 1);",
            slots=[build("p.{}", slot) for _, slot in self.pairs],
            draws=_DRAWS,
            own=rows.TRUE if self.is_self else rows.FALSE,
            c=sql.Identifier("r", self.columns[-1]),
            type=rows.raw(self.table.column(self.columns[-1]).type.sql),
            taken=[sql.Identifier("r", name) for name, _ in self.pairs],
            pieces=_PIECES,
            given=rows.every(build("p.{1} = r.{0}", *pair) for pair in self.fixed),
        )


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A constraint under which rows are inserted one by one."""

    table: Table
    place: TableName  # the table, or the one partition that has the constraint
    whole: bool  # whether ``place`` is partitioned itself
    name: str
    definition: str  # its definition in SQL; empty for a PERIOD key that stands alone
    key: PeriodKey | None  # the PERIOD key that the rows move with, or None

    @property
    def added(self) -> sql.Composed:
        """The ``ALTER TABLE`` statement that adds the constraint."""
        template = "ALTER TABLE {} ADD CONSTRAINT {} {}"
        return build(template, self.place, self.name, rows.raw(self.definition))

    @property
    def own(self) -> sql.Composable:
        """The FROM clause of the rows that the constraint applies to."""
        return own_rows(self.place, whole=self.whole)


def _make_pieces(clone: TargetTables, key: PeriodKey) -> None:
    """Make the table of the targets' periods, numbered among those that agree on fixed columns."""
    fixed_slots = [slot for _, slot in key.fixed]
    clone.run("DROP TABLE IF EXISTS {}", _PIECES)
    clone.run(
        "CREATE TEMPORARY TABLE {pieces} AS SELECT *, row_number() OVER ({window}) AS n,"
        " count(*) OVER ({window}) AS size"
        " FROM (SELECT {keys}, unnest(range_agg({period})) AS piece FROM {target}"
        " WHERE {known} GROUP BY {plain}) AS listed",
        pieces=_PIECES,
        window=build("PARTITION BY {}", fixed_slots) if fixed_slots else rows.NOTHING,
        keys=rows.renamed(key.ref_columns[:-1], [slot for _, slot in key.pairs]),
        period=key.ref_columns[-1],
        target=own_rows(key.target, whole=key.whole),
        known=rows.present(key.ref_columns),
        plain=key.ref_columns[:-1],
    )
    for columns in ([*fixed_slots, sql.Identifier("n")], [slot for _, slot in key.pairs]):
        clone.run("CREATE INDEX ON {} ({})", _PIECES, columns)
    clone.run("ANALYZE {}", _PIECES)


def find(clone: TargetTables) -> tuple[list[PeriodKey], list[Exclusion]]:
    """Return the PERIOD keys and the constraints of a clone, read in a rehearsal of the load.

    A period that refers by a PERIOD key is moved within its target's.
    """
    periods, found = _periods(clone), list[Exclusion]()
    listed = clone.ask_all(_EXCLUSIONS)
    for table in clone.tables:
        alone = [key for key in periods if key.table == table]
        for name, definition, *own, whole in listed[table.name]:
            read = rows.columns_in(table, definition)
            spans = (key for key in alone if key.columns[-1] in read and not key.is_self)
            key, plain = next(spans, None), _DEFERRED.sub("", definition)
            found.append(Exclusion(table, TableName(*own), whole, name, plain, key))
            alone = [other for other in alone if other is not key]
        for key in alone:
            found.append(Exclusion(table, table.name, table.kind == "p", key.name, "", key))
    return periods, found


def repair(
    clone: TargetTables,
    periods: Sequence[PeriodKey],
    constraints: Sequence[Exclusion],
    touched: Collection[str] | None,
) -> None:
    """Leave out rows that conflict; PERIOD keys are only repaired for all tables."""
    turns = {key: turn for turn, key in enumerate(periods, start=1)}
    # Those without targets first, then targets of periods before what refers to them.
    for item in sorted(constraints, key=lambda i: turns[i.key] if i.key else 0):
        if touched is None or (item.key is None and item.table.key in touched):
            with database_errors("repairing rows that exclude each other", item.table.key):
                _repair(clone, item)
    for item in constraints:
        # These columns may no longer change.
        read = rows.columns_in(item.table, item.definition)
        clone.fixed[item.table.key].update(read, item.key.columns if item.key else ())


def end(clone: TargetTables, periods: Sequence[PeriodKey]) -> None:
    """Set references by PERIOD keys to NULL where no target contains their period.

    Where no column of the key may be NULL, the rows are deleted.
    """
    for key in periods:
        row = build("{}", key.table.name)
        bad = rows.rows_of(source(key.table), build("NOT {}", key.held(row)))
        free = [name for name in key.columns[:-1] if name not in key.table.key_columns]
        ended = [name for name in free if not key.table.column(name).not_null]
        with database_errors("ending references to periods that are gone", key.table.key):
            _make_pieces(clone, key)
            if ended:
                clone.update(key.table, rows.nulls(ended), bad)
            else:
                clone.delete(key.table, bad)


def _periods(clone: TargetTables) -> list[PeriodKey]:
    """Find the PERIOD keys, those of a target before those that refer to it."""
    left = []
    listed = clone.ask_all(_KEYS)
    for table in clone.tables:
        for name, schema, target, whole, *columns in listed[table.name]:
            names = (tuple(some) for some in columns)
            left.append(PeriodKey(table, name, TableName(schema, target), whole, *names))
    ordered: list[PeriodKey] = []
    while left:
        # As far as there is no cycle.
        waiting = {key.table.name for key in left if not key.is_self}
        ordered += [key for key in left if key.target not in waiting - {key.table.name}] or left[:1]
        left = [key for key in left if key not in ordered]
    return ordered


def _repair(clone: TargetTables, item: Exclusion) -> None:
    """Put all rows in anew if there is a target to find or some conflict."""
    if item.key is not None:
        _make_pieces(clone, item.key)
        return _insert_again(clone, item)
    try:
        with clone.connection.transaction(force_rollback=True):
            run(clone.connection, item.added)
    except (errors.ExclusionViolation, errors.UniqueViolation, errors.CheckViolation):
        _insert_again(clone, item)


def _insert_again(clone: TargetTables, item: Exclusion) -> None:
    columns = [column.name for column in item.table.columns if not column.generated]
    inserted = clone.run(
        "CREATE TEMPORARY TABLE {} AS SELECT {} FROM {}", _STAGE, columns, item.own
    )
    body = sql.Literal(_program(item, columns).as_string(clone.connection))
    program = "CREATE FUNCTION {}(OUT moved int, OUT placed int) LANGUAGE plpgsql AS {}"
    clone.run(program, _PLACE, body)
    moved, placed = clone.first("SELECT * FROM {}()", _PLACE)
    clone.note(item.table.key, changed=moved, deleted=inserted - placed)
    if item.definition:
        clone.run("ALTER TABLE {} DROP CONSTRAINT {}", item.place, item.name)
    clone.run("DROP FUNCTION {}", _PLACE)
    clone.run("DROP TABLE {}", _STAGE)


def _shift(item: Exclusion) -> sql.Composable | None:
    """PL/pgSQL that shifts the last column of a constraint in the row ``r``."""
    *_, name = ["", *re.findall(r'"?([^"(), ]+)"? WITH ', item.definition)]
    free = {c.name: c.type for c in item.table.columns if rows.is_free(item.table, c.name)}
    step = _STEPS.get(free[name].category) if name in free else None
    return build("{0} := {0} {1};", sql.Identifier("r", name), rows.raw(step)) if step else None


def _program(item: Exclusion, columns: Sequence[str]) -> sql.Composed:
    """PL/pgSQL that puts the staged rows in, where they are or elsewhere."""
    row = sql.SQL("r")
    moving = item.key.moving() if item.key else _shift(item)
    return build(
        "#variable_conflict use_column\n"
        "DECLARE r record; old record; turn int; step int; done int;"
        " BEGIN moved := 0; placed := 0; DELETE FROM {table}; {add}"
        " FOR old IN SELECT * FROM {stage} AS r ORDER BY {held} IS TRUE DESC, ctid LOOP"
        " turn := 0; done := 0; WHILE done = 0 AND turn <= {tries} LOOP r := old;"
        " step := floor(random() * 2 ^ (turn % {reach}));"
        # A row that has moved may belong to no partition, or be beyond what its type holds.
        " BEGIN IF turn > 0 THEN {moved} END IF; IF {held} THEN {insert} END IF;"
        " EXCEPTION WHEN check_violation OR data_exception OR undefined_function THEN done := 0;"
        " END; turn := turn + 1; END LOOP;"
        " IF done > 0 THEN placed := placed + 1; moved := moved + (turn > 1)::int; END IF;"
        " END LOOP; END",
        table=item.own,
        add=build("EXECUTE {};", sql.Literal(item.added.as_string(None)))
        if item.definition
        else rows.NOTHING,
        stage=_STAGE,
        held=rows.TRUE if item.key is None else item.key.held(row),
        insert=build(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({}) ON CONFLICT DO NOTHING;"
            " GET DIAGNOSTICS done = ROW_COUNT;",
            *(item.place, columns, [sql.Identifier("r", name) for name in columns]),
        ),
        tries=_TRIES if moving else 0,
        reach=_REACH,
        moved=moving or rows.NOTHING,
    )
