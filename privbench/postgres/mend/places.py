"""How a row that an EXCLUDE constraint refuses finds another place.

A row keeps what it is and moves: a period of the same length elsewhere within the time that the
rows span, then, where that is full, after the last; a number beyond the greatest; a shape aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from psycopg import sql
from sqlglot import expressions as exp

from privbench.postgres.mend import rows
from privbench.postgres.mend.parsed import parsed
from privbench.schema import ColumnType, Table

#: Tries within the span of the rows; one more goes beyond it.
TRIES = 12
_NUMBERS = frozenset({"int2", "int4", "int8", "date", "numeric", "float4", "float8"})
_TIMES = frozenset({"timestamp", "timestamptz"})
#: What makes a random number a number of steps.
_WHOLE = {"date": "::int", **dict.fromkeys(("int2", "int4", "int8"), "::int8")}
_SHAPES = frozenset({"circle", "box"})


class Mover(Protocol):
    """Moves a row that another one is in the way of, in PL/pgSQL; its record is ``r``."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it changes."""

    def declared(self, table: sql.Composable) -> sql.Composable:
        """The variables that `moved` uses, as the rows of a table or a partition have it."""

    def moved(self) -> sql.Composable:
        """Statements that change ``r``; ``turn`` counts the tries."""

    def endless(self) -> sql.Composable:
        """Condition of the rows that leave no room beyond them, which are placed last."""


@dataclass(frozen=True, slots=True)
class Place:
    """What decides where a row is.

    Attributes:
        columns: A range, a shape or a number; or the two ends of a period.
        type: Type of the column, or of the ends.
    """

    columns: tuple[str, ...]
    type: ColumnType

    @property
    def range(self) -> bool:
        """Whether it is one column of a range type."""
        return self.type.kind == "r"

    @property
    def _step(self) -> str:
        return self.type.parts[0].base if self.range else self.type.base

    def ends(self, row: sql.Composable) -> tuple[sql.Composable, sql.Composable]:
        """First and last point of a row's place."""
        names = [sql.SQL("{}.{}").format(row, sql.Identifier(name)) for name in self.columns]
        if self.range:
            return sql.SQL("lower({})").format(names[0]), sql.SQL("upper({})").format(names[0])
        return names[0], names[-1]

    def endless(self) -> sql.Composable:
        """Periods without one of their ends."""
        if self._step in _SHAPES:
            return rows.FALSE
        names = [sql.Identifier(name) for name in self.columns]
        if self.range:
            return sql.SQL("lower_inf({0}) OR upper_inf({0})").format(names[0])
        return sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(name) for name in names)

    def moved(self) -> sql.Composable:
        """Statements of PL/pgSQL that move ``r``, by the variables of `declared` and ``turn``."""
        one = sql.Identifier("r", self.columns[0])
        if self._step in _SHAPES:
            return sql.SQL("{0} := {0} + point(10 * (2 ^ turn) * (random() - 0.5), 0);").format(one)
        whole = sql.SQL(_WHOLE.get(self._step, ""))
        within = sql.SQL("first + ((last - first) * random()){}").format(whole)
        if len(self.columns) == 1 and not self.range:
            after = sql.SQL("beyond + 1")
            return sql.SQL(
                "IF turn <= {tries} THEN {one} := {within};"
                " ELSE {one} := {after}; beyond := {one}; END IF;"
            ).format(tries=sql.Literal(TRIES), one=one, within=within, after=after)
        low, high = self.ends(sql.Identifier("r"))
        start = sql.SQL(
            "size := {high} - {low}; IF turn <= {tries} THEN start := {within};"
            " ELSE start := beyond; beyond := coalesce(start + size, start); END IF;"
        ).format(high=high, low=low, tries=sql.Literal(TRIES), within=within)
        if self.range:
            made = sql.SQL("{} := {}(start, start + size);").format(one, sql.SQL(self.type.sql))
            return sql.SQL("{} {}").format(start, made)
        other = sql.Identifier("r", self.columns[1])
        return sql.SQL("{} {} := start; {} := start + size;").format(start, one, other)

    def declared(self, table: sql.Composable) -> sql.Composable:
        """The variables that `moved` uses, as the rows of a table or a partition have it."""
        if self._step in _SHAPES:
            return sql.SQL("")
        step, size = self._step, "interval" if self._step in _TIMES else self._step
        low, high = self.ends(sql.SQL("t"))
        ask = sql.SQL("(SELECT {}({}) FROM {} AS t)")
        spans = [
            sql.SQL("{} {} := {};").format(
                sql.SQL(name), sql.SQL(step), ask.format(sql.SQL(what), end, table)
            )
            for name, what, end in (
                ("first", "min", low),
                ("last", "max", low),
                ("beyond", "max", high),
            )
        ]
        extent = "int" if step == "date" else size
        rest = sql.SQL("start {}; size {};").format(sql.SQL(step), sql.SQL(extent))
        return sql.SQL(" ").join([*spans, rest])


def between(type_: ColumnType, period: sql.Composable, piece: sql.Composable) -> sql.Composable:
    """SQL of a range as long as another at random within a third; NULL where there is no room.

    Args:
        type_: The range type.
        period: The range whose length is kept.
        piece: The range that is to hold it.
    """
    step = type_.parts[0].base if type_.kind == "r" and type_.parts else ""
    if type_.domain is not None or step not in _NUMBERS | _TIMES:
        return sql.SQL("NULL")
    return sql.SQL(
        "(SELECT {type}(s, s + size) FROM (SELECT upper({c}) - lower({c}) AS size, lower({p})"
        " + (random() * (upper({p}) - lower({p}) - (upper({c}) - lower({c})))){whole} AS s)"
        " AS start WHERE upper({p}) - lower({p}) > size)"
    ).format(type=sql.SQL(type_.sql), c=period, p=piece, whole=sql.SQL(_WHOLE.get(step, "")))


def place_of(table: Table, elements: Sequence[tuple[str, str]]) -> Place | None:
    """What may be moved, or None.

    Args:
        table: The table.
        elements: Expressions of the constraint and their operators.
    """
    for operator, wanted in (("&&", _SHAPES | _TIMES | _NUMBERS), ("=", _NUMBERS)):
        for text, found in elements:
            place = _read(table, text) if found == operator else None
            if place is None or not all(_movable(table, name) for name in place.columns):
                continue
            alone = operator == "&&" or (len(place.columns) == 1 and not place.range)
            if alone and place._step in wanted:
                return place
    return None


def _movable(table: Table, name: str) -> bool:
    return name not in table.key_columns and not rows.is_computed(table, name)


def _read(table: Table, text: str) -> Place | None:
    """The place that an expression speaks of: a column, or a range made of two."""
    known = {column.name: column for column in table.columns}
    tree = parsed(text)
    if isinstance(tree, exp.Column) and tree.name in known:
        return Place((tree.name,), known[tree.name].type)
    if not isinstance(tree, exp.Anonymous) or not str(tree.this).lower().endswith("range"):
        return None
    ends = [part.name for part in tree.expressions[:2] if isinstance(part, exp.Column)]
    types = {known[name].type for name in ends if name in known}
    if len(ends) == 2 and len(types) == 1:
        return Place((ends[0], ends[1]), types.pop())
    return None
