"""``accounting = "auto"``: chosen from plan and config alone, and written wherever it is stated."""

import re

import market
import pytest
from fits import fit

from privbench import pipeline
from privbench.config import Config
from privbench.pipeline.planned_events import settle_accounting
from privbench.pipeline.prepare import prepare
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect


def table(name: str, columns: list[str]) -> str:
    return f"CREATE TABLE {name} ({', '.join(['id int PRIMARY KEY', *columns])});"


def texts(count: int) -> list[str]:
    return [f"t{i} text" for i in range(count)]


def flags(count: int) -> list[str]:
    return [f"f{i} bool" for i in range(count)]


NUMBERS = ["i smallint", "j smallint"]
OWNED = table("a", flags(5)) + table("b", [*NUMBERS, "a_id int NOT NULL REFERENCES a"])
OWNS = '[tables."public.b"]\nown = ["a_id"]'
LEFT_OUT = '[tables."public.a".columns.t0]\npieces = false'
ALONE = "ALTER TABLE b ADD UNIQUE (a_id);"


#: DDL, what the config says beside ε, and what is chosen.
CASES = {
    "few histograms": (table("a", flags(4)), "", "pure"),
    "many histograms": (table("a", flags(12)), "", "zcdp"),
    "one list": (table("a", texts(1)), "", "pure"),
    "many lists": (table("a", texts(6)), "", "zcdp"),
    # Without its law by rank each list would be one event less: twelve are too few.
    "laws by rank count": (table("a", texts(2)), "", "zcdp"),
    # The list of its words and how often they occur are two events.
    "words count": (table("a", texts(1) + flags(4)), "", "zcdp"),
    "unless they are left out": (table("a", texts(1) + flags(4)), LEFT_OUT, "pure"),
    # The units that have rows in b are the nineteenth event; with an owner each they are none.
    "counts of units count": (OWNED, OWNS, "zcdp"),
    "unless each has one": (f"{OWNED}{ALONE}", OWNS, "pure"),
    "no delta to convert": (table("a", flags(40)), "delta = 0", "pure"),
    "as configured": (table("a", texts(9)), 'accounting = "pure"', "pure"),
    "likewise": (table("a", flags(1)), 'accounting = "zcdp"', "zcdp"),
    "root tables do not add up": ("".join(table(f"a{i}", flags(3)) for i in range(9)), "", "pure"),
}


@pytest.mark.parametrize("case", CASES)
def test_settle_accounting_follows_the_plan(make_database, case):
    ddl, privacy, expected = CASES[case]
    config = Config.loads(f"[privacy]\nepsilon = 3.2\n{privacy}")
    with connect(make_database(ddl)) as connection:
        plan = prepare(introspect(connection), config)
    assert settle_accounting(plan, config.privacy) == expected


@pytest.mark.parametrize(("columns", "expected"), [(flags(3), "pure"), (texts(6), "zcdp")])
def test_accounting_is_the_same_whatever_the_rows(make_database, tmp_path, columns, expected):
    dsn, ledger = make_database(table("a", columns)), tmp_path / "ledger"
    config = market.config(ledger, "", "independent", epsilon=3.2)
    model = pipeline.fit(dsn, config, tmp_path / "empty")
    market.execute(dsn, "INSERT INTO a SELECT g FROM generate_series(1, 500) g")
    full = pipeline.fit(dsn, config, tmp_path / "full")
    planned = pipeline.plan(config, dsn, {"public.a": 17})
    (file,) = ledger.rglob("ledger.sqlite")
    stated = [word.decode() for word in re.findall(rb'"accounting": ?"(\w+)"', file.read_bytes())]
    assert stated
    assert {*stated, model.promise.accounting, full.promise.accounting} == {expected}
    assert planned.accounting == expected
    assert f"{expected} accounting" in planned.render(whole=True)
    assert f"({expected})" in full.promise.sentence()


@pytest.mark.parametrize(("accounting", "unit"), [("pure", "owner"), ("zcdp", "row")])
def test_numbers_of_units_are_public_under_replace(make_database, tmp_path, accounting, unit):
    """Totals of tables without an owner are exact, cost nothing and are asked once (P11)."""
    dsn = make_database(f"{OWNED}INSERT INTO a SELECT g FROM generate_series(1, 37) g;")
    market.execute(dsn, "INSERT INTO b SELECT g, g % 5, 1, 1 + g % 9 FROM generate_series(1, 90) g")
    config = market.config(
        tmp_path / "ledger",
        OWNS if unit == "owner" else "",
        epsilon=2.0,
        neighbours="replace",
        unit=unit,
        accounting=accounting,
    )
    fitted = fit(dsn, config)
    totals = {}
    for step in fitted.trace:
        if step.query.kind == "total" and "total" in step.event.label:
            totals.setdefault(step.query.table, []).append((step.event.amount, int(step.result[0])))
    exact = {"public.a": [(0.0, 37)], "public.b": [(0.0, 90)]}
    assert totals["public.a"] == exact["public.a"]
    if unit == "row":
        assert totals == exact
    else:
        assert totals["public.b"][0][0] > 0
    planned = pipeline.plan(config, dsn, {"public.a": 37, "public.b": 90})
    assert "total public.a" in planned.render(whole=True)
