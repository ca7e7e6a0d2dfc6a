"""EXCLUDE constraints and keys of periods: rows are put in one by one.

A row that conflicts with one before it moves to another place (`places`); where none is known or
free it is left out. A constraint of a single partition is a matter of that partition's rows, which
stay in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import errors, sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.mend import rows
from privbench.postgres.mend.periods import PeriodKey
from privbench.postgres.mend.places import TRIES, Mover, Place, place_of
from privbench.postgres.statement import run
from privbench.schema import Table

_EXCLUSIONS: LiteralString = """
SELECT wanted.schema, wanted.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  ARRAY(SELECT pg_catalog.pg_get_indexdef(k.conindid, e.place::int, true)
    FROM pg_catalog.unnest(k.conexclop) WITH ORDINALITY AS e(operator, place) ORDER BY e.place),
  ARRAY(SELECT o.oprname::text
    FROM pg_catalog.unnest(k.conexclop) WITH ORDINALITY AS e(operator, place)
    JOIN pg_catalog.pg_operator o ON o.oid = e.operator ORDER BY e.place),
  n.nspname, c.relname, CASE WHEN c.oid <> root.oid THEN c.oid::int8 END
FROM {parts}
JOIN pg_catalog.pg_constraint k ON k.conrelid = own.oid
JOIN pg_catalog.pg_class c ON c.oid = own.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE k.conexclop IS NOT NULL AND k.conparentid = 0
ORDER BY c.oid <> root.oid, k.conname, n.nspname, c.relname
"""
#: A deferred constraint cannot say which row conflicts.
_DEFERRED = re.compile(r" DEFERRABLE(?: INITIALLY DEFERRED)?\Z")
#: Endless dates cannot be moved, and a row that has moved may be one of another partition.
_OR_STAY = sql.SQL(
    "BEGIN {} {} EXCEPTION WHEN data_exception OR check_violation THEN done := 0; END;"
)
_STAGE = sql.Identifier("pg_temp", "privbench rows")
_PLACE = sql.Identifier("pg_temp", "privbench place")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An EXCLUDE constraint of the finished clone, or a key WITHOUT OVERLAPS.

    Attributes:
        table: Its table.
        name: Its name.
        definition: What makes it.
        mover: What moves a row that conflicts with another, or None.
        place: The table, or the partition that alone has it.
        partition: OID of that partition, or None.
    """

    table: Table
    name: str
    definition: str
    mover: Mover | None
    place: sql.Composable
    partition: int | None

    @property
    def without_overlaps(self) -> bool:
        """Whether it is a key of periods, which takes no empty one."""
        return self.definition.startswith(("PRIMARY KEY", "UNIQUE"))


def find(
    connection: Connection, tables: Iterable[Table], periods: Sequence[PeriodKey] = ()
) -> list[Exclusion]:
    """The constraints that are there.

    Args:
        connection: In a transaction in which the clone's indexes exist.
        tables: Tables that will hold synthetic rows.
        periods: Their PERIOD keys: what such a key spans moves with its target.
    """
    found, tables = [], tuple(tables)
    with database_errors("reading EXCLUDE constraints"):
        listed = rows.ask_all(connection, _EXCLUSIONS, tables)
    for table in tables:
        for name, definition, expressions, operators, *place, partition in listed[table.name]:
            bound = (key for key in periods if key.table == table and not key.is_self)
            mover = next((key for key in bound if key.spans(expressions)), None) or place_of(
                table, list(zip(expressions, operators, strict=True))
            )
            text = _DEFERRED.sub("", definition)
            found.append(Exclusion(table, name, text, mover, sql.Identifier(*place), partition))
    return found


def repair(
    connection: Connection, exclusions: Iterable[Exclusion]
) -> tuple[dict[str, int], dict[str, int]]:
    """Move rows that conflict with others, and delete those that cannot be moved.

    Returns:
        How many rows were moved, and how many were deleted, by table.
    """
    moved: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for item in exclusions:
        with database_errors("repairing rows that exclude each other", item.table.key):
            moved[item.table.key] = moved.get(item.table.key, 0) + _open(connection, item)
            if _conflicts(connection, item):
                some, lost = _insert_again(connection, item)
                moved[item.table.key] += some
                deleted[item.table.key] = deleted.get(item.table.key, 0) + lost
    return moved, deleted


def _open(connection: Connection, item: Exclusion) -> int:
    """Give rows whose period is empty, which no key WITHOUT OVERLAPS takes, one of another row.

    Rows whose period is that of a target keep it: they go with their reference.
    """
    mover = item.mover
    if not isinstance(mover, Place) or not mover.range or not item.without_overlaps:
        return 0
    empty = sql.SQL("isempty({})").format(sql.Identifier(mover.columns[0]))
    bad = sql.SQL("SELECT tableoid AS t, ctid AS id FROM {} WHERE {}").format(item.place, empty)
    within = rows.TRUE if item.partition is None else rows.in_partition(item.partition)
    good = sql.SQL("NOT {} AND {}").format(empty, within)
    return rows.borrow(connection, item.table, mover.columns, bad, good)


def _conflicts(connection: Connection, item: Exclusion) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            run(connection, _add(item))
    except (errors.ExclusionViolation, errors.UniqueViolation):
        return True
    return False


def _add(item: Exclusion) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {}").format(
        item.place, sql.Identifier(item.name), rows.raw(item.definition)
    )


def _insert_again(connection: Connection, item: Exclusion) -> tuple[int, int]:
    """Put all rows in anew; how many had to move, and how many were left out."""
    table = item.place
    kept = [sql.Identifier(c.name) for c in item.table.columns if not c.generated]
    columns = sql.SQL(", ").join(kept)
    parts = {"table": table, "columns": columns, "stage": _STAGE}
    made = run(
        connection,
        sql.SQL("CREATE TEMPORARY TABLE {stage} AS SELECT {columns} FROM {table}").format(**parts),
    ).rowcount
    body = _program(item, kept)
    run(
        connection,
        sql.SQL("CREATE FUNCTION {}(OUT moved int, OUT placed int) LANGUAGE plpgsql AS {}").format(
            _PLACE, sql.Literal(body.as_string(connection))
        ),
    )
    row = run(connection, sql.SQL("SELECT * FROM {}()").format(_PLACE)).fetchone()
    moved, placed = row if row else (0, 0)
    for statement in (
        sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(table, sql.Identifier(item.name)),
        sql.SQL("DROP FUNCTION {}").format(_PLACE),
        sql.SQL("DROP TABLE {}").format(_STAGE),
    ):
        run(connection, statement)
    return moved, made - placed


def _program(item: Exclusion, kept: list[sql.Identifier]) -> sql.Composed:
    """PL/pgSQL that puts the staged rows in where they are, and the rest in other places."""
    mover = item.mover
    insert = sql.SQL(
        "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({values}) "
        "ON CONFLICT DO NOTHING; GET DIAGNOSTICS done = ROW_COUNT;"
    ).format(
        table=item.place,
        columns=sql.SQL(", ").join(kept),
        values=sql.SQL(", ").join(sql.SQL("r.{}").format(name) for name in kept),
    )
    return sql.SQL(
        "#variable_conflict use_column\n"
        "DECLARE r record; turn int; done int; {variables} "
        "BEGIN moved := 0; placed := 0; DELETE FROM {table}; EXECUTE {add}; "
        "FOR r IN SELECT {columns}, ctid AS {row} FROM {stage} WHERE NOT ({endless}) LOOP {insert} "
        "IF done > 0 THEN placed := placed + 1; DELETE FROM {stage} WHERE ctid = r.{row}; END IF; "
        "END LOOP; "
        "FOR r IN SELECT {columns}, {endless} AS {last} FROM {stage} ORDER BY {endless}, ctid LOOP "
        "turn := 0; done := 0; IF r.{last} THEN {insert} END IF; "
        "WHILE done = 0 AND turn <= {tries} LOOP turn := turn + 1; {again} END LOOP; "
        "moved := moved + done; END LOOP; placed := placed + moved; END"
    ).format(
        variables=mover.declared(item.place) if mover else sql.SQL(""),
        table=item.place,
        add=sql.Literal(_add(item).as_string(None)),
        columns=sql.SQL(", ").join(kept),
        insert=insert,
        again=_OR_STAY.format(mover.moved() if mover else sql.SQL(""), insert),
        row=sql.Identifier("privbench row"),
        last=sql.Identifier("privbench last"),
        stage=_STAGE,
        tries=sql.Literal(TRIES if mover else -1),
        endless=sql.SQL("coalesce({}, false)").format(mover.endless() if mover else rows.FALSE),
    )
