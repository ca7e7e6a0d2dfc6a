"""Functions around a column, on values as PostgreSQL prints them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

_WHOLE = ("smallint", "int", "bigint")
_UNITS = ("year", "month", "day", "hour", "minute", "second")
_REAL = ("decimal", "numeric", "real", "double", "float")


def apply(text: str, steps: tuple[str, ...]) -> str | None:
    """The value after all steps, or None where it is not known.

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
