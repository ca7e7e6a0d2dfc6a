"""Ranges of dates that noise has hidden are those of dates nearby."""

from dataclasses import replace

import numpy as np

from privbench.encoding.bounds import Bounds
from privbench.pipeline.neighbours import lend_ranges
from privbench.schema import Column, ColumnType, Table, TableName

DATE = ColumnType("date", "date", category="D")
INT = ColumnType("integer", "int4", category="N")
USUAL = Bounds(0, 9, cells=16, seen=False)


def table(name, *columns, type_=DATE):
    kinds = tuple(Column(column, i + 1, type_) for i, column in enumerate(columns))
    return Table(TableName("public", name), kinds)


def lent(tables, limits=None, **released):
    keys = {name: tuple(name.split("__")) for name in released}
    given = {(f"public.{t}", c): released[name] for name, (t, c) in keys.items()}
    found = lend_ranges(tables, given, limits or {})
    return {name: found[f"public.{t}", c] for name, (t, c) in keys.items()}


def test_the_one_before_or_after_comes_first_then_the_table_then_the_database():
    stays = table("stays", "admit_date", "discharge_date", "billed", "seen_on")
    other = table("other", "day")
    found = lent(
        [stays, other],
        stays__admit_date=Bounds(100, 200),
        stays__discharge_date=USUAL,
        stays__billed=USUAL,
        stays__seen_on=Bounds(150, 400),
        other__day=USUAL,
    )
    assert found["stays__discharge_date"] == Bounds(100, 200, cells=16, seen=False)
    assert found["stays__billed"] == Bounds(100, 400, cells=16, seen=False)
    assert found["other__day"] == Bounds(100, 400, cells=16, seen=False)


def test_what_was_seen_stays_and_birthdays_neither_give_nor_take():
    people = table("people", "birth_date", "hired", "joined")
    found = lent(
        [people],
        people__birth_date=USUAL,
        people__hired=Bounds(5, 7),
        people__joined=USUAL,
    )
    assert found["people__birth_date"] == USUAL
    assert found["people__joined"] == Bounds(5, 7, cells=16, seen=False)
    assert found["people__hired"] == Bounds(5, 7)
    found = lent(
        [table("people", "dob", "visited")], people__dob=Bounds(-9, -5), people__visited=USUAL
    )
    assert found["people__visited"] == USUAL


def test_numbers_take_no_ranges():
    found = lent([table("t", "start", "end", type_=INT)], t__start=Bounds(100, 200), t__end=USUAL)
    assert found["t__end"] == USUAL


def test_ranges_that_a_check_forbids_are_not_lent():
    tables, limits = (
        [table("t", "seen_on", "valid_until")],
        {("public.t", "valid_until"): (500, 999)},
    )
    given = {"t__seen_on": Bounds(100, 200), "t__valid_until": Bounds(500, 600, seen=False)}
    assert lent(tables, limits, **given) == given
    given["t__seen_on"] = Bounds(100, 700)
    found = lent(tables, limits, **given)
    assert found["t__valid_until"] == Bounds(500, 700, seen=False)


def test_studies_are_no_deaths():
    found = lent([table("t", "seen", "studied_at")], t__seen=Bounds(5, 7), t__studied_at=USUAL)
    assert found["t__studied_at"] == Bounds(5, 7, cells=16, seen=False)


def test_marks_are_not_lent_and_their_columns_take_what_lies_nearby():
    # 1985 to 2000, and the years from 9990 on.
    first, end, mark = 5_479, 10_957, 2_929_000
    found = lent(
        [table("jobs", "from_date", "to_date", "noted"), table("other", "day")],
        jobs__from_date=Bounds(first, end, cells=16),
        jobs__to_date=Bounds(mark, 2_932_896, cells=16),
        jobs__noted=USUAL,
        other__day=USUAL,
    )
    until = found["jobs__to_date"]
    assert (until.lo, until.hi, until.seen) == (first, 2_932_896, True)
    inside = [edge for edge in until.inner if edge <= end]
    assert len(inside) >= 16
    assert max(np.diff([first, *inside, end])) <= (end - first) // 16 + 1
    assert mark in until.inner
    assert found["jobs__noted"] == found["other__day"] == replace(USUAL, lo=first, hi=end)


def test_a_column_beside_a_mark_alone_takes_what_the_table_or_the_database_has():
    jobs, mark = table("jobs", "from_date", "to_date"), Bounds(2_929_000, 2_932_896, cells=16)
    found = lent([jobs], jobs__from_date=USUAL, jobs__to_date=mark)
    assert found == {"jobs__from_date": USUAL, "jobs__to_date": mark}
    found = lent(
        [jobs, table("other", "day")],
        jobs__from_date=USUAL,
        jobs__to_date=mark,
        other__day=Bounds(100, 200),
    )
    assert found["jobs__from_date"] == replace(USUAL, lo=100, hi=200)
    assert found["jobs__to_date"].lo == 100


def test_of_a_range_that_holds_a_mark_the_rest_is_lent():
    found = lent([table("t", "start", "noted")], t__start=Bounds(100, 2_932_896), t__noted=USUAL)
    assert found["t__noted"] == replace(USUAL, lo=100, hi=47_482)
