"""Choose new literals from synthetic rows for literals that are compared with a column.

Functions that a query applies to the column are applied to its values as PostgreSQL prints them.
"""

import functools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from privbench.arrays import Rng
from privbench.workload.generators.draft import RowTexts, pick
from privbench.workload.generators.rows import RowSource, joined
from privbench.workload.rebind.columns import Operand
from privbench.workload.rebind.literal_roles import Site

# Number of members of a list, and of letters in a piece of a pattern, if the old one is not known.
_MEMBERS, _PIECE = 3, 3
_MOST_MEMBERS = 1000
# Most characters of a value that becomes a literal, and of a piece of a pattern.
_LONGEST, _LONGEST_PIECE = 1000, 24
# Attempts to draw a value that a list does not hold yet.
_TRIES = 8
# Attempts to find rows that join. With half as many, some queries with many joins get no such rows.
_STARTS = 12
_RANGES = ("low", "high")
_LIKE = re.compile(r"\\.|[%_]+|[^%_\\]+", re.DOTALL)


def together(
    joins: Sequence[tuple[Operand, Operand]], rows: RowSource, rng: Rng
) -> dict[int, RowTexts]:
    """Return rows that join as a query's tables do, by table number; the query then has an answer.

    If a table has no matching row, the search starts again from another table. The result is the
    attempt that reached the most tables.
    """
    tables = {side.source: side.table for join in joins for side in join}
    links = [
        ((one.source, one.column.name), (other.source, other.column.name)) for one, other in joins
    ]
    groups = [[source] for source in tables]
    for (one, _), (other, _) in links:
        first = next(group for group in groups if one in group)
        second = next(group for group in groups if other in group)
        if first is not second:
            first += second
            groups.remove(second)
    reached: dict[int, RowTexts] = {}
    for group in groups:
        best: dict[int, RowTexts] = {}
        for number in range(_STARTS):
            start = group[number % len(group)]
            best = max(best, joined(tables, links, start, rows, rng), key=len)
            if len(best) == len(group):
                break
        reached |= best
    return reached


class Chooser:
    """Chooses the literals of one query after another at random.

    All literals of a query that are compared with one table occurrence come from one row, so that
    conditions on several columns hold together for at least that row.
    """

    def __init__(self, rows: RowSource) -> None:
        self.rows = rows
        self._values: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}

    def choose(
        self, sites: Sequence[Site], own: Mapping[int, RowTexts], rng: Rng
    ) -> dict[int, list[str]]:
        """Return new values by the number of the placeholder; several values for a list.

        ``own`` holds rows that join, by the number of the occurrence; an occurrence without a row
        there gets its values from others.
        """
        self._rows, self._rng = dict(own), rng
        self._own: dict[tuple[object, ...], str] = {}
        self._members: dict[tuple[object, ...], list[str]] = defaultdict(list)
        chosen: dict[int, list[str]] = {}
        for site in sites:
            # An empty literal is kept: it is no value of a column, and `nullif(x, '')` needs it.
            literal = site.mark.original or site.mark.kind == "parameter"
            if site.role == "value" and site.operand is not None and literal:
                values = self._literals(site, site.operand)
                if values:
                    chosen[site.mark.number] = values
        return chosen

    def _present(self, operand: Operand) -> list[str]:
        """The operand's values in sampled rows, except NULL, unknown and too long ones."""
        key = (operand.table.key, operand.column.name, operand.steps)
        if key not in self._values:
            values = (_value(operand, row) for row in self.rows.starts(operand.table))
            self._values[key] = [text for text in values if text is not None]
        return self._values[key]

    def _literals(self, site: Site, operand: Operand) -> list[str]:
        present = self._present(operand)
        if not present:
            return []
        old = site.mark.original
        if site.shape == "array":
            size = min(old.count(",") + 1, _MOST_MEMBERS) if old else _MEMBERS
            members = self._several(operand, present, size)
            quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in members)
            return ["{" + ",".join(f'"{text}"' for text in quoted) + "}"]
        if site.shape == "member" or site.mark.many:
            drawn = self._several(operand, present, _MEMBERS if site.mark.many else 1)
        else:
            drawn = [self._shaped(site, self._value_of_row(operand, present), present)]
        return [text for text in (_fitted(site, one) for one in drawn) if text is not None]

    def _value_of_row(self, operand: Operand, present: Sequence[str]) -> str:
        """The value in the row of the table occurrence; if it is NULL, one value for all uses."""
        place = (operand.source, operand.column.name, operand.steps)
        if place not in self._own:
            if operand.source not in self._rows:
                starts = self.rows.starts(operand.table)
                self._rows[operand.source] = pick(starts, self._rng)
            text = _value(operand, self._rows[operand.source])
            self._own[place] = pick(present, self._rng) if text is None else text
        return self._own[place]

    def _shaped(self, site: Site, text: str, present: Sequence[str]) -> str:
        """A literal of the same shape as the old one, with a condition that the value satisfies."""
        old = site.mark.original
        if site.shape == "pattern":
            return like(old, text, self._rng)
        if site.shape == "regex":
            start, end = old.startswith("^"), old.endswith("$")
            if not (start and end):
                size = sum(char.isalnum() for char in old) or _PIECE
                text = _piece(text, size, not start, not end, self._rng)
            return f"{'^' * start}{re.escape(text)}{'$' * end}"
        if site.shape == "prefix":
            return text[: len(old) or _PIECE]
        if site.shape == "infix":
            return _piece(text, len(old) or _PIECE, True, True, self._rng)
        if site.shape in _RANGES:
            # The bound is another value that includes the row's own, unless there is none.
            own, low = place(text), site.shape == "low"
            beyond = [one for one in present if (place(one) < own if low else own < place(one))]
            return pick(beyond, self._rng) if beyond else text
        return text

    def _several(self, operand: Operand, present: Sequence[str], count: int) -> list[str]:
        """Values for ``count`` further members of a query's lists, all different if possible."""
        members = self._members[operand.source, operand.column.name, operand.steps]
        own = self._value_of_row(operand, present)
        for _ in range(count):
            fresh = [own, *(pick(present, self._rng) for _ in range(_TRIES))]
            members.append(next((text for text in fresh if text not in members), own))
        return members[len(members) - count :]


def _value(operand: Operand, row: RowTexts) -> str | None:
    """The operand's value in one row, None where it is NULL, not known or too long."""
    text = row[operand.column.name]
    value = None if text is None else apply(text, operand.steps)
    return None if value is None or len(value) > _LONGEST else value


def place(text: str) -> tuple[int, float, str]:
    """Return a sort key for the values of a column: numbers by size, others by their text."""
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)


def _fitted(site: Site, text: str) -> str | None:
    """The value in the type to which the literal is cast, without a sign that the query has."""
    if site.cast and site.shape in ("equal", "member", *_RANGES):
        fitted = apply(text, (f"cast {site.cast}",))
        if fitted is None:
            return None
        text = fitted
    if not site.negated:
        return text
    return text[1:] if text.startswith("-") else f"-{text}"


def like(old: str, value: str, rng: Rng) -> str:
    """Return a LIKE pattern with the old wildcards that a value matches, if it is long enough.

    >>> from privbench.rng import generator
    >>> like("ab%", "hello", generator(0)), like("%ab", "hello", None)
    ('he%', '%lo')
    """
    pieces = _LIKE.findall(old) or ["?" * _PIECE, "%"]
    wild = [piece[0] in "%_" for piece in pieces]
    if wild == [False]:
        return _escaped(value)
    sizes = [
        piece.count("_") if free else min(len(piece), _LONGEST_PIECE)
        for piece, free in zip(pieces, wild, strict=True)
    ]
    at = _start(len(value) - sum(sizes), "%" in pieces[0], "%" in pieces[-1], rng)
    pattern = []
    for number, (piece, free, size) in enumerate(zip(pieces, wild, sizes, strict=True), 1):
        if number == len(pieces) and not free:
            at = max(at, len(value) - size)
        pattern.append(piece if free else _escaped(value[at : at + size]))
        at += size
    return "".join(pattern)


def _piece(value: str, size: int, open_start: bool, open_end: bool, rng: Rng) -> str:
    """Cut ``size`` characters out of a value, at its start or end unless that side is open."""
    at = _start(len(value) - size, open_start, open_end, rng)
    return value[at : at + size]


def _start(spare: int, open_start: bool, open_end: bool, rng: Rng) -> int:
    """Start of a piece in a value that is longer than the piece by ``spare`` characters."""
    if spare <= 0 or not open_start:
        return 0
    return int(rng.integers(spare + 1)) if open_end else spare


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)


_WHOLE = ("smallint", "int", "bigint")
_UNITS = ("year", "month", "day", "hour", "minute", "second")
_REAL = ("decimal", "numeric", "real", "double", "float")


def apply(text: str, steps: tuple[str, ...]) -> str | None:
    """Return the value after all steps, or None where it is not known.

    >>> apply("2024-05-17 10:00:00", ("extract month",)), apply(" Ab ", ("trim", "lower"))
    ('5', 'ab')
    """
    try:
        return functools.reduce(_step, steps, text)
    except (ValueError, OverflowError, LookupError, TypeError):
        return None


def _step(text: str, step: str) -> str:
    name, _, argument = step.partition(" ")
    if name == "cast":
        return _cast(text, argument)
    if name == "extract":
        return str(_PARTS[argument](_moment(text)))
    if name == "trunc":
        return _trunc(text, argument)
    return _PLAIN[name](text)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _cast(text: str, kind: str) -> str:
    if kind == "date":
        return _moment(text).date().isoformat()
    if kind.startswith("timestamp"):
        return str(_moment(text))
    if kind.startswith(_WHOLE):
        return str(round(float(text)))
    if kind.startswith(_REAL):
        return str(float(text)) if "." in text or "e" in text.lower() else str(int(text))
    return text


def _trunc(text: str, unit: str) -> str:
    at = _moment(text).replace(microsecond=0)
    if unit == "week":
        at, unit = at - timedelta(days=at.weekday()), "day"
    if unit == "quarter":
        at, unit = at.replace(month=at.month - (at.month - 1) % 3, day=1), "month"
    below = _UNITS[_UNITS.index(unit) + 1 :]
    least: dict[str, Any] = {part: int(part in ("month", "day")) for part in below}
    return str(at.replace(**least))


def _element(text: str) -> str:
    """The first element of an array of plain values."""
    first = text.strip("{}").split(",")[0].strip('"')
    if not first or not text.startswith("{"):
        raise ValueError("the array has no element")
    return first


_PARTS: dict[str, Callable[[datetime], int]] = {
    "year": lambda at: at.year,
    "quarter": lambda at: (at.month + 2) // 3,
    "month": lambda at: at.month,
    "week": lambda at: at.isocalendar().week,
    "day": lambda at: at.day,
    "dow": lambda at: at.isoweekday() % 7,
    "isodow": lambda at: at.isoweekday(),
    "doy": lambda at: at.timetuple().tm_yday,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "epoch": lambda at: round(at.timestamp()),
}
_PLAIN: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "initcap": str.title,
    "trim": str.strip,
    "length": lambda text: str(len(text)),
    "abs": lambda text: text.lstrip("-"),
    "neg": lambda text: text[1:] if text.startswith("-") else f"-{text}",
    "round": lambda text: str(round(float(text))),
    "floor": lambda text: str(math.floor(float(text))),
    "ceil": lambda text: str(math.ceil(float(text))),
    "element": _element,
}
