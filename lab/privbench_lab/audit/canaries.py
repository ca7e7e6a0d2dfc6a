"""Canaries: units that the audit plants in a scratch copy, and takes out again.

A canary is a copy of a unit of the database with new keys and with values that stand out: unique
texts, and in other columns the rarest values of the column. An independent coin decides whether a
canary is in the data.
"""

from __future__ import annotations

import secrets
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import LiteralString
from uuid import uuid4

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from privbench.config import Config
from privbench.errors import SchemaError, UsageError
from privbench.pipeline.prepare import FitPlan, TablePlan, prepare
from privbench.pipeline.source import read_catalog
from privbench.postgres.connect import Connection, connect
from privbench.postgres.failures import database_errors, describe
from privbench.postgres.reading import SEARCH_PATH, TEXTS, assignment, reading
from privbench.postgres.statement import run
from privbench.postgres.stream import SelectItem
from privbench.schema import Column, Table

#: Most rows of a canary in an owned table for each owning row. Three suffice to mark every table;
#: with twice as many, fits would be slower and each row would weigh less.
CHILDREN = 3
#: The number of units that are examined as candidates for the copy; and the number of attempts to
#: insert a copy with other keys.
_LOOKED_AT, _TRIES = 50, 50
#: Length of a unique text: "canary" and 24 hexadecimal digits.
OWN = 30
_TEXT = ("text", "varchar", "bpchar", "citext")
#: The step from the largest value of a key to the next one.
_STEPS: dict[str, LiteralString] = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric"), "1"),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "interval '1 day'"),
}
_KEYS = (*_TEXT, *_STEPS, "uuid")

#: A row as texts that PostgreSQL reads, by column.
Row = dict[str, str | None]
#: A table and a column.
Place = tuple[str, str]
#: Physical places of rows, in the order of their insertion: table, ctid and tableoid.
Located = tuple[tuple[Table, str, int], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A row of the unit that canaries copy; parts are ordered with owners before owned rows."""

    table: Table
    row: Row


@dataclass(frozen=True, slots=True)
class Canary:
    """One planted unit, or one that would have been: its values that stand out, and its rows."""

    marks: Mapping[Place, str]
    rows: Located


@dataclass
class Planter:
    """Inserts canaries into a scratch database and removes them again.

    A canary copies a unit of the root table ``root``; None means the one that owns most tables.
    ``plan`` is a fit's plan for the schema, and ``places`` are the columns in which canaries have
    values that stand out. A SchemaError is raised if there is no such table, or if no unit of it
    can be copied.
    """

    dsn: str
    config: Config
    root: str | None = None
    plan: FitPlan = field(init=False)
    places: tuple[Place, ...] = field(init=False)
    _parts: tuple[Part, ...] = field(init=False)
    _rare: dict[Place, list[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        with reading(self.dsn) as connection:
            self.plan = prepare(read_catalog(connection, self.config).schema, self.config)
        refused: list[SchemaError] = []
        for name in self._roots():
            self.root = name
            try:
                with self._open() as connection:
                    self._parts = self._plantable(connection, self._pattern(connection))
                    self.places = tuple(self._markable(connection))
            except SchemaError as error:
                refused.append(error)
            else:
                return
        raise refused[0]

    @contextmanager
    def planted(self, coins: NDArray[np.bool_]) -> Iterator[list[Canary]]:
        """Insert the canaries whose coin is true, and remove them at the end.

        All canaries are inserted first, then those whose coin is false are removed: new keys follow
        the largest existing key, and the keys of a canary must not depend on the coins of others.
        Under ``replace`` an ordinary copy takes the place of a canary that is out, so that the
        databases for both sides of a coin are neighbours by the declared relation. A SchemaError is
        raised if there are not enough new keys.
        """
        found, replaced = [], self.config.privacy.neighbours == "replace"
        with self._open() as connection, database_errors("planting canaries"):
            for number, coin in enumerate(coins):
                marks = {place: self._mark(connection, place, number) for place in self.places}
                rows = self._copied(connection, marks if coin or not replaced else {})
                found.append(Canary(marks, rows))
            for number in () if replaced else np.flatnonzero(~coins).tolist():
                _delete(connection, found[number])
                found[number] = replace(found[number], rows=())
            connection.commit()
        try:
            yield found
        finally:
            with self._open() as connection, database_errors("removing canaries"):
                for canary in found:
                    _delete(connection, canary)
                connection.commit()

    def _copied(self, connection: Connection, marks: Mapping[Place, str]) -> Located:
        """Insert a copy; try new keys if keys are taken, and fewer marks if a constraint fails."""
        for _ in range(_TRIES):
            try:
                with connection.transaction():
                    return tuple(self._insert(connection, marks, self._parts))
            except psycopg.errors.UniqueViolation:
                continue
            except psycopg.IntegrityError:
                marks = {place: mark for place, mark in marks.items() if secrets.randbits(1)}
        raise self._useless("no new keys for so many canaries are found.")

    def hold_out(self, most: int) -> tuple[list[Row], list[Row]]:
        """Delete units for good, a quarter at most; returns root rows that stay, and deleted ones.

        Units that other units refer to cannot be deleted. They are in neither list, so that both
        lists are samples of the same units. A unit that is deleted together with another by ON
        DELETE CASCADE is in neither list.
        """
        table = self.plan.tables[str(self.root)].table
        stay, gone = list[Row](), list[Row]()
        with self._open() as connection, database_errors("holding units out"):
            rows = _rows(connection, table, sql.SQL("ORDER BY pg_catalog.random()"), 4 * most)
            for row in rows[: len(rows) // 2]:
                with suppress(psycopg.Error), connection.transaction():
                    self._drop(connection, table, row)
                    if len(gone) > len(stay):
                        stay.append(row)
                        raise psycopg.Rollback
                    gone.append(row)
            stay = [row for row in stay if _rows(connection, table, _same(table, row), 1)]
            connection.commit()
        return stay, gone

    def _drop(self, connection: Connection, table: Table, row: Row) -> None:
        """Delete a row and all that it owns; PostgreSQL refuses where others refer to it."""
        for item, where in self._children(table, row):
            for child in _rows(connection, item.table, where, None):
                self._drop(connection, item.table, child)
        statement = sql.SQL("DELETE FROM {} {}").format(_named(table), _same(table, row))
        run(connection, statement)

    def _open(self) -> Connection:
        connection = connect(self.dsn, autocommit=False)
        for name, value in {**TEXTS, "search_path": SEARCH_PATH}.items():
            run(connection, assignment(name, value))
        # A deferred constraint would fail only at the commit, and for all rows at once.
        run(connection, "SET CONSTRAINTS ALL IMMEDIATE")
        return connection

    def _roots(self) -> list[str]:
        """The root table that was named; else all, those that own most tables first."""
        spec = self.plan.spec
        owned = Counter(spec.top(name) for name in spec.tables)
        roots = sorted(owned, key=lambda name: (-owned[name], name))
        if self.root is None:
            return roots
        if self.root not in roots:
            known = f"Root tables: {', '.join(roots)}."
            raise SchemaError(f"{self.root} is no root table.", remedy=known)
        return [self.root]

    def _pattern(self, connection: Connection) -> list[Part]:
        """Of the units examined, the one with rows in most tables; among equals, fewest rows."""
        table = self.plan.tables[str(self.root)].table
        rows = _rows(connection, table, sql.SQL(""), _LOOKED_AT)
        units = [self._unit(connection, table, row) for row in rows]
        if not units:
            raise self._useless("it holds no rows, so that there is no unit to copy.")
        return max(units, key=lambda parts: (len({p.table.key for p in parts}), -len(parts)))

    def _unit(self, connection: Connection, table: Table, row: Row) -> list[Part]:
        found = [Part(table, row)]
        for item, where in self._children(table, row):
            for child in _rows(connection, item.table, where, CHILDREN):
                found += self._unit(connection, item.table, child)
        return found

    def _children(self, table: Table, row: Row) -> Iterator[tuple[TablePlan, sql.Composable]]:
        """The tables that a row of this table may own rows of, and a condition on those rows."""
        for item in self.plan.private:
            own = self.plan.spec.tables[item.table.key].own
            for key in item.owners or ([item.table.foreign_key(own.name)] if own else ()):
                if str(key.ref_table) == table.key:
                    values = [row.get(name) for name in key.ref_columns]
                    pairs = [
                        *zip(key.columns, values, strict=True),
                        *([key.when] if key.when else []),
                    ]
                    yield item, _where(pairs, "=")

    def _plantable(self, connection: Connection, parts: Sequence[Part]) -> tuple[Part, ...]:
        """The rows of a unit that can be inserted as a copy; the others are left out."""
        kept: list[Part] = []
        for part in parts:
            reason = self._refused(connection, [*kept, part], {})
            if reason is None:
                kept.append(part)
            elif not kept:
                raise self._useless(f"no copy of a unit can be put in: {reason}")
        return tuple(kept)

    def _markable(self, connection: Connection) -> list[Place]:
        """Columns of the copy in which a canary can have a unique value."""
        tables = dict.fromkeys(part.table.key for part in self._parts)
        found = []
        for place in ((key, name) for key in tables for name in _ordinary(self.plan.tables[key])):
            mark = self._mark(connection, place, 0)
            if mark and self._refused(connection, self._parts, {place: mark}) is None:
                found.append(place)
        if not found:
            raise self._useless("no column of its units can be given a value that stands out.")
        return found

    def _useless(self, reason: str) -> SchemaError:
        return SchemaError(reason, table=self.root, remedy="Name another root table with --root.")

    def _refused(
        self, connection: Connection, parts: Sequence[Part], marks: Mapping[Place, str]
    ) -> str | None:
        """Why a copy cannot be inserted, or None; the attempt is rolled back."""
        try:
            with connection.transaction(force_rollback=True):
                list(self._insert(connection, marks, parts))
        except psycopg.Error as error:
            return f"{describe(error)}."
        except UsageError as error:
            return str(error)
        return None

    def _insert(
        self, connection: Connection, marks: Mapping[Place, str], parts: Sequence[Part]
    ) -> Iterator[tuple[Table, str, int]]:
        """Insert one copy, row by row, owners first."""
        made: list[tuple[Part, Row]] = []
        for part in parts:
            row = {**part.row, **self._fresh(connection, part)}
            made.append((part, row))
            for key in part.table.foreign_keys:
                if key.when and part.row.get(key.when[0]) != key.when[1]:
                    continue
                old = [part.row.get(name) for name in key.columns]
                for other, new in made:
                    theirs = [other.row.get(name) for name in key.ref_columns]
                    if other.table.name == key.ref_table and old == theirs:
                        values = [new[name] for name in key.ref_columns]
                        row |= zip(key.columns, values, strict=True)
            row |= {name: mark for (key, name), mark in marks.items() if key == part.table.key}
            statement = sql.SQL(
                "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})"
                " RETURNING ctid::pg_catalog.text, tableoid::pg_catalog.int8"
            ).format(
                _named(part.table),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(map(sql.Literal, row.values())),
            )
            found = run(connection, statement).fetchone()
            if found is None:
                raise UsageError("a trigger or rule of the table kept a row out.")
            yield part.table, str(found[0]), int(found[1])

    def _fresh(self, connection: Connection, part: Part) -> Row:
        """New values for one column of every key that does not follow from another row."""
        table, row = part.table, part.row
        keys = [item.columns for item in table.unique_sets]
        keys += [item.columns for item in table.indexes if item.unique and item.columns]
        new: Row = {}
        for names in keys:
            own = [name for name in names if name not in table.key_columns]
            null = any(row.get(name, "") is None for name in own)
            if not own or null or any(name in new for name in own):
                continue
            able = [name for name in own if name in row and table.column(name).type.base in _KEYS]
            if not able:
                raise UsageError(f"no new value for its key column {own[0]} is known.")
            new[able[0]] = self._next(connection, table, table.column(able[0]), str(row[able[0]]))
        return new

    def _next(self, connection: Connection, table: Table, column: Column, old: str) -> str:
        base = column.type.base
        if base == "uuid":
            return str(uuid4())
        if base in _TEXT:
            return _alike(old)
        after = sql.SQL("SELECT (max({}) + {})::pg_catalog.{}::pg_catalog.text FROM {}").format(
            sql.Identifier(column.name), sql.SQL(_STEPS[base]), sql.SQL(base), _named(table)
        )
        return str(next(iter(run(connection, after)))[0])

    def _mark(self, connection: Connection, place: Place, number: int) -> str:
        """A unique text, or one of the rarest values of the column; '' if there is none."""
        table = self.plan.tables[place[0]].table
        column = table.column(place[1])
        if column.type.base in _TEXT and (column.type.length or OWN) >= OWN:
            return f"canary{secrets.token_hex(12)}"
        if place not in self._rare:
            shown = sql.SQL(column.type.text_form).format(sql.Identifier(column.name))
            query = sql.SQL(
                "SELECT value FROM (SELECT {} AS value FROM {} WHERE {} IS NOT NULL) listed"
                " GROUP BY value ORDER BY pg_catalog.count(*), pg_catalog.md5(value) LIMIT 100"
            ).format(shown, _named(table), sql.Identifier(column.name))
            self._rare[place] = [str(value) for (value,) in run(connection, query)]
        rare = self._rare[place]
        return rare[number % len(rare)] if rare else ""


def _delete(connection: Connection, canary: Canary) -> None:
    for table, place, relation in reversed(canary.rows):
        statement = sql.SQL("DELETE FROM {} WHERE ctid = {} AND tableoid = {}")
        run(connection, statement.format(_named(table), place, relation))


def readable(table: Table) -> tuple[list[str], list[SelectItem]]:
    """The columns that are not generated, and an expression for the text of each column's values.

    PostgreSQL can read that text back.
    """
    columns = [column for column in table.columns if not column.generated]
    names = [column.name for column in columns]
    return names, [
        (sql.SQL(column.type.text_form).format(sql.Identifier(column.name)), f"c{column.position}")
        for column in columns
    ]


def _rows(
    connection: Connection, table: Table, where: sql.Composable, most: int | None
) -> list[Row]:
    names, expressions = readable(table)
    shown = sql.SQL(", ").join(expression for expression, _ in expressions)
    query = sql.SQL("SELECT {} FROM {} {} LIMIT {}").format(shown, _named(table), where, most)
    return [dict(zip(names, row, strict=True)) for row in run(connection, query)]


def _same(table: Table, row: Row) -> sql.Composable:
    """A WHERE clause that selects a row by its primary key, else by all of its values."""
    key = table.primary_key
    names = key.columns if key and row.keys() >= set(key.columns) else tuple(row)
    return _where(((name, row[name]) for name in names), "IS NOT DISTINCT FROM")


def _where(pairs: Iterable[tuple[str, str | None]], operator: LiteralString) -> sql.Composable:
    same = sql.SQL(f"{{}} {operator} {{}}")
    return sql.SQL("WHERE {}").format(
        sql.SQL(" AND ").join(same.format(sql.Identifier(name), value) for name, value in pairs)
    )


def _ordinary(item: TablePlan) -> list[str]:
    """Modelled columns that stand in no key of any kind."""
    table = item.table
    indexed = {name for index in table.indexes if index.unique for name in index.columns}
    keys = {name for unique in table.unique_sets for name in unique.columns} | indexed
    return [name for name in item.readers if name not in keys | table.key_columns]


def _named(table: Table) -> sql.Identifier:
    return sql.Identifier(table.name.schema, table.name.name)


def _alike(old: str) -> str:
    """A text of the same shape: other digits, and other letters where there are few digits."""
    letters = sum(char.isdigit() for char in old) < 4
    return "".join(
        secrets.choice(string.digits)
        if char.isdigit()
        else secrets.choice(string.ascii_lowercase if char.islower() else string.ascii_uppercase)
        if letters and char.isascii() and char.isalpha()
        else char
        for char in old
    )
