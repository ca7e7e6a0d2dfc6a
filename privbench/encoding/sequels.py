"""Pairs of dates of which the columns' names tell that one comes before the other.

Public knowledge, free of charge: a return comes after its rental, an end after its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from privbench.roles.names import snake
from privbench.schema import Column, Table

#: Types of dates.
DATES = ("date", "timestamp", "timestamptz")
#: What comes before, and what after it, with the same words around.
_AFTER: dict[str, str] = {
    "start(ed)?|begin|begun|begins|starts": "end(ed)?|ends|stop(ped)?|finish(ed)?|complete[ds]?"
    "|completion|expiry|expiration",
    "from": "to|until|till|thru|through",
    "open(ed)?|opens": "close[ds]?|resolved",
    "created?|creation|inserted|added|posted|registered|registration|joined|join|signup": "updated?"
    "|modified|modification|changed?|edited|edit|deleted?|closed?|completed?|finished|resolved"
    "|archived|cancell?ed|expires?d?|expiration|approved|published|last_?(update|modified|login"
    "|log_?in|access(ed)?|seen|activity|active|visit|edit(ed)?|changed?|sign_?in|used)d?",
    "queued|enqueued|requested|request": "started|finished|completed|approved|processed|ended",
    "submitted|submission": "finished|approved|processed|ended",
    "order(ed)?|purchased?": "ship(ped|ping)?|required|require|due|delivery|delivered?|fulfilled"
    "|paid|cancell?ed",
    "ship(ped)?|sent|dispatched": "received|deliver(ed|y)",
    "rental|rented|loan|borrowed|checkout": "return(ed)?|due",
    "issued?": "due|expires?d?|expiry|expiration|return(ed)?",
    "check_?in|clock_?in|in": "check_?out|clock_?out|out",
    "departure|departed|depart": "arrival|arrived|arrive",
    "arrival|arrived|arrive": "departure|departed|depart",
    "admit(ted)?|admission": "disch(arged?)?|released?|death",
    "birth|born|dob": "death|died|dod|deceased|hired?|graduation|enrol(l?ed|lment)",
    "hired?|employed": "terminat(ed|ion)|left|leaving|fired|resigned|retired",
    "effective": "expir(y|ation|es|ed)|end",
    "first": "last",
}  # fmt: skip
_PAIRS = [(re.compile(before), re.compile(after)) for before, after in _AFTER.items()]
#: Words that say only that it is a date.
_MARKS = re.compile(
    r"(?<=[a-z])(?<!up)(_?(date_?times?|date|times?|time_?stamps?|dt|dttm|utc|tstz)|_(at|on|ts|day))\Z"
)
#: Most dates of one table that are looked at.
_MOST = 40


def sequels(table: Table) -> Iterator[tuple[str, str]]:
    """Pairs of columns of one type: what comes before, and what after it.

    >>> from privbench.schema import ColumnType, TableName
    >>> kind = ColumnType("date", "date", category="D")
    >>> names = ("rental_date", "returned_on", "ShipDate", "orderdate", "note_date")
    >>> columns = tuple(Column(name, i, kind) for i, name in enumerate(names))
    >>> list(sequels(Table(TableName("public", "t"), columns)))
    [('rental_date', 'returned_on'), ('orderdate', 'ShipDate')]
    """
    dates = [column for column in table.columns if _is_date(column)][:_MOST]
    cores = {column.name: _core(column.name) for column in dates}
    for one in dates:
        for other in dates:
            same = one.type.base == other.type.base and one.name != other.name
            if same and _follows(cores[one.name], cores[other.name]):
                yield one.name, other.name


def _is_date(column: Column) -> bool:
    return column.type.base in DATES and column.type.kind in "bd" and not column.generated


def _core(name: str) -> str:
    """A name without the words that say that it is a date.

    >>> _core("SellStartDate"), _core("created_at"), _core("admittime"), _core("from_date")
    ('sell_start', 'created', 'admit', 'from')
    """
    return _MARKS.sub("", snake(name))


def _follows(before: str, after: str) -> bool:
    """Whether two names differ in one word, which says what comes first.

    >>> _follows("visit_start", "visit_end"), _follows("first_seen", "last_seen")
    (True, True)
    >>> _follows("visit_start", "stay_end"), _follows("created", "last_login")
    (False, True)
    """
    head = _common(before, after)
    tail = _common(before[::-1][: len(before) - head], after[::-1][: len(after) - head])
    # A common letter may belong to the words that differ ("created", "closed").
    return any(
        one.fullmatch(before[first : len(before) - last])
        and other.fullmatch(after[first : len(after) - last])
        for first in {0, head, _word(before, head)}
        for last in {0, tail, _word(before[::-1], tail)}
        for one, other in _PAIRS
    )


def _common(one: str, other: str) -> int:
    """Length of the common beginning."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _word(text: str, place: int) -> int:
    """Where the word at a place begins."""
    return text.rfind("_", 0, place) + 1
