"""Ranges of dates that noise has hidden are those of dates nearby."""

from dataclasses import replace

import pytest

from privbench.encoding.bounds import Bounds
from privbench.pipeline.domain_answers import lend_ranges
from privbench.schema import Column, ColumnType, Table, TableName

DATE = ColumnType("date", "date", category="D")
INT = ColumnType("integer", "int4", category="N")
USUAL = Bounds(0, 9, cells=16, released=False)


def table(name, *columns, type_=DATE):
    kinds = tuple(Column(column, i + 1, type_) for i, column in enumerate(columns))
    return Table(TableName("public", name), kinds)


def lent(tables, limits=None, **released):
    keys = {name: tuple(name.split("__")) for name in released}
    given = {(f"public.{t}", c): released[name] for name, (t, c) in keys.items()}
    found = lend_ranges(tables, given, limits or {})
    return {name: found[f"public.{t}", c] for name, (t, c) in keys.items()}


JOBS, MARK = table("jobs", "from_date", "to_date"), Bounds(2_929_000, 2_932_896, cells=16)
STAYS = table("stays", "admit_date", "discharge_date", "billed", "seen_on")
VALID = table("t", "seen_on", "valid_until")
NOT_BEFORE = {("public.t", "valid_until"): (500, 999)}


def between(lo, hi):
    """The usual range after it was lent another."""
    return replace(USUAL, lo=lo, hi=hi)


#: Tables, limits, what was released, and what becomes of it where that is not the same.
CASES = {
    "the one before or after comes first, then the table, then the database": (
        [STAYS, table("other", "day")], None,
        {"stays__admit_date": Bounds(100, 200), "stays__discharge_date": USUAL,
         "stays__billed": USUAL, "stays__seen_on": Bounds(150, 400), "other__day": USUAL},
        {"stays__discharge_date": between(100, 200), "stays__billed": between(100, 400),
         "other__day": between(100, 400)},
    ),
    "birthdays take nothing": (
        [table("people", "birth_date", "hired", "joined")], None,
        {"people__birth_date": USUAL, "people__hired": Bounds(5, 7), "people__joined": USUAL},
        {"people__joined": between(5, 7)},
    ),
    "birthdays give nothing": (
        [table("people", "dob", "visited")], None,
        {"people__dob": Bounds(-9, -5), "people__visited": USUAL}, {},
    ),
    "studies are no deaths": (
        [table("t", "seen", "studied_at")], None,
        {"t__seen": Bounds(5, 7), "t__studied_at": USUAL}, {"t__studied_at": between(5, 7)},
    ),
    "numbers take no ranges": (
        [table("t", "start", "end", type_=INT)], None,
        {"t__start": Bounds(100, 200), "t__end": USUAL}, {},
    ),
    "a range that a CHECK forbids": (
        [VALID], NOT_BEFORE,
        {"t__seen_on": Bounds(100, 200), "t__valid_until": Bounds(500, 600, released=False)}, {},
    ),
    "a range of which a CHECK allows a part": (
        [VALID], NOT_BEFORE,
        {"t__seen_on": Bounds(100, 700), "t__valid_until": Bounds(500, 600, released=False)},
        {"t__valid_until": Bounds(500, 700, released=False)},
    ),
    "a mark is not lent": ([JOBS], None, {"jobs__from_date": USUAL, "jobs__to_date": MARK}, {}),
    "the rest of a range that holds a mark": (
        [table("t", "start", "noted")], None,
        {"t__start": Bounds(100, 2_932_896), "t__noted": USUAL},
        {"t__noted": between(100, 47_482)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_lend_ranges_takes_what_lies_nearby(case):
    tables, limits, given, changed = CASES[case]
    assert lent(tables, limits, **given) == {**given, **changed}
