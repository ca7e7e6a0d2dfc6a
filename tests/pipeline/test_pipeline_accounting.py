"""``accounting = "auto"``: chosen from plan and config alone, and written wherever it is stated."""

import re

import market
import pytest

from privbench import pipeline
from privbench.config import Config
from privbench.pipeline.foreseen import settle_accounting
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
ALONE = "ALTER TABLE b ADD UNIQUE (a_id);"


def chosen(dsn: str, privacy: str) -> str:
    config = Config.loads(f"[privacy]\n{privacy}")
    with connect(dsn) as connection:
        return settle_accounting(prepare(introspect(connection), config), config.privacy)


@pytest.mark.parametrize(
    ("ddl", "privacy", "expected"),
    [
        pytest.param(table("a", flags(4)), "epsilon = 3.2", "pure", id="few histograms"),
        pytest.param(table("a", flags(12)), "epsilon = 3.2", "zcdp", id="many histograms"),
        pytest.param(table("a", texts(1)), "epsilon = 3.2", "pure", id="one list"),
        pytest.param(table("a", texts(6)), "epsilon = 3.2", "zcdp", id="many lists"),
        # Without its law by rank each list would be one event less: twelve are too few.
        pytest.param(table("a", texts(2)), "epsilon = 3.2", "zcdp", id="laws by rank count"),
        # The units that have rows in b are the nineteenth event; with an owner each they are none.
        pytest.param(OWNED, f"epsilon = 3.2\n{OWNS}", "zcdp", id="counts of units count"),
        pytest.param(f"{OWNED}{ALONE}", f"epsilon = 3.2\n{OWNS}", "pure", id="unless each has one"),
        pytest.param(
            table("a", flags(40)), "epsilon = 3.2\ndelta = 0", "pure", id="no delta to convert"
        ),
        pytest.param(
            table("a", texts(9)), 'epsilon = 3.2\naccounting = "pure"', "pure", id="as configured"
        ),
        pytest.param(
            table("a", flags(1)), 'epsilon = 3.2\naccounting = "zcdp"', "zcdp", id="likewise"
        ),
        pytest.param(
            "".join(table(f"a{i}", flags(3)) for i in range(9)),
            "epsilon = 3.2",
            "pure",
            id="root tables do not add up",
        ),
    ],
)
def test_settle_accounting_follows_the_plan(make_database, ddl, privacy, expected):
    assert chosen(make_database(ddl), privacy) == expected


@pytest.mark.parametrize(("columns", "expected"), [(flags(3), "pure"), (texts(6), "zcdp")])
def test_accounting_is_the_same_whatever_the_rows(make_database, tmp_path, columns, expected):
    dsn, ledger = make_database(table("a", columns)), tmp_path / "ledger"
    head = "[privacy]\nepsilon = 3.2\n[synthesizer]\nname = 'independent'\n"
    config = Config.loads(f"{head}[ledger]\npath = '{ledger}'\n")
    model = pipeline.fit(dsn, config, tmp_path / "empty")
    market.execute(dsn, "INSERT INTO a SELECT g FROM generate_series(1, 500) g")
    full = pipeline.fit(dsn, config, tmp_path / "full")
    planned = pipeline.plan(config, dsn, {"public.a": 17})
    (file,) = ledger.rglob("ledger.sqlite")
    stated = [word.decode() for word in re.findall(rb'"accounting": ?"(\w+)"', file.read_bytes())]
    assert stated
    assert {*stated, model.promise.accounting, full.promise.accounting} == {expected}
    assert planned.accounting == expected
    assert f"{expected} accounting" in planned.render()
    assert f"({expected})" in full.promise.sentence()
