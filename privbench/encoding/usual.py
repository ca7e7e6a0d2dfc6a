"""What columns of some names usually hold: public labels and ranges, told by the names alone.

Labels can be counted without δ, since no row proposes them; ranges are taken where noise drowns the
rows that would tell one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from privbench.encoding.lists import packaged, whole
from privbench.encoding.semantic import is_kind
from privbench.roles.names import singular, snake

#: Columns of look-up tables that are told by the table's name.
_PLAIN = frozenset({"name", "code", "label", "title", "value"})


def usual_labels(
    column: str, least: int = 0, greatest: int | None = None, *, table: str = ""
) -> tuple[str, ...]:
    """Labels to look for in a column of which no list is known, the most usual first.

    Args:
        column: The column's name. The choice follows names alone.
        least: Least length of a label.
        greatest: Greatest length, or None.
        table: The table's name, which tells what columns such as ``name`` hold.

    Returns:
        Distinct labels of fitting lengths; none where the name tells nothing.

    >>> usual_labels("gender", greatest=1)[:2], usual_labels("Ship_Country")[:2]
    (('M', 'F'), ('USA', 'US'))
    >>> usual_labels("name", table="Countries")[:2], usual_labels("name", table="people")
    (('USA', 'US'), ())
    """
    data = _data()
    if snake(column) in _PLAIN and table:
        column = f"{singular(snake(table))}_{column}"
    found = _first(data.labels, column)
    if found is None:
        found = data.kinds if is_kind(column) else ()
    top = max(map(len, found), default=0) if greatest is None else greatest
    return tuple(label for label in found if least <= len(label) <= top)


def usual_range(column: str, *, whole: bool = True) -> tuple[str, str] | None:
    """Literals of the ends of a range to take for a column of numbers; None without any.

    Args:
        column: The column's name.
        whole: Whether its values are whole numbers; else no flags and no codes: ``approved`` may
            be an amount then.

    >>> usual_range("birthYear"), usual_range("points")
    (('1950', '2030'), None)
    """
    told = _first(_data().ranges, column)
    return None if told is None or (told.whole and not whole) else (told.low, told.high)


def is_firm(column: str) -> bool:
    """Whether the usual range of a column's name has ends that no value of its kind passes.

    >>> is_firm("exp_month"), is_firm("age")
    (True, False)
    """
    told = _first(_data().ranges, column)
    return told is not None and told.firm


_Told = TypeVar("_Told")
#: What patterns of names tell, in the order in which they are tried.
_Lists = tuple[tuple[re.Pattern[str], _Told], ...]


@dataclass(frozen=True, slots=True)
class _UsualRange:
    """Literals of both ends; whether only whole numbers are meant, and whether ends are firm."""

    low: str
    high: str
    whole: bool
    firm: bool


@dataclass(frozen=True, slots=True)
class _Data:
    """The package's lists.

    Attributes:
        labels: Labels by patterns of names.
        kinds: Labels of columns of kinds, whatever their names.
        ranges: Ranges by patterns of names.
    """

    labels: _Lists[tuple[str, ...]]
    kinds: tuple[str, ...]
    ranges: _Lists[_UsualRange]


def _first(lists: _Lists[_Told], column: str) -> _Told | None:
    """What the first pattern tells that matches a column's name."""
    name = snake(column)
    return next((told for names, told in lists if names.match(name)), None)


@lru_cache(maxsize=1)
def _data() -> _Data:
    data = packaged("usual")
    return _Data(
        tuple((whole(item["names"]), tuple(item["labels"])) for item in data["lists"]),
        tuple(data["kinds"]),
        tuple(
            (
                whole(_uncounted(item, data["counts"])),
                _UsualRange(
                    item["low"], item["high"], item.get("whole", False), item.get("firm", False)
                ),
            )
            for item in data["ranges"]
        ),
    )


def _uncounted(item: dict[str, Any], counts: str) -> str:
    """Names of a range; those of counts and rates are none where its values are no counts."""
    names = str(item["names"])
    return names if item.get("count", True) else f"(?!{counts})(?:{names})"
