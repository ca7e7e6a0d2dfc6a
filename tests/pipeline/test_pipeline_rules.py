"""Rules of the config: every row of a clone keeps them, whether the source's rows do or not."""

import tomllib
from fractions import Fraction
from pathlib import Path

import postgast
import pytest
import sqlglot
from market import ask
from sql_files import cases, database_of, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.pipeline import Model
from privbench.pipeline.decode import decode
from privbench.rules.parse import lowered, stated

#: No row keeps any of the rules that one row alone can break, but a fifth the one on `net`.
ROWS = sql_of(__file__, "rules_rows")
RULES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))["rules"]
CONFIG = sql_of(__file__, "rules.toml")


def configured(rules, folder=None) -> Config:
    more = {"rules": rules, "database": {"identity": "rules"}, "ledger": {"path": str(folder)}}
    return Config.model_validate({**Config.loads(CONFIG).model_dump(), **more})


source = database_of(sql_of(__file__, "rules_schema") + ROWS)


@pytest.fixture(scope="module")
def clone(source, make_database, tmp_path_factory):
    """A clone of rows that break every rule, its model and its report."""
    folder, target = tmp_path_factory.mktemp("rules"), make_database()
    pipeline.fit(source, configured(RULES, folder / "ledger"), folder / "m.privbench")
    return target, folder / "m.privbench", pipeline.load(folder / "m.privbench", target, seed=1)


CASES = [(table, rule) for table, rules in RULES.items() for rule in rules]


@pytest.mark.parametrize(("table", "rule"), CASES, ids=[rule for _, rule in CASES])
def test_clone_under_a_rule_keeps_it_in_every_row(source, clone, table, rule):
    asked = f"SELECT count(*), count(*) FILTER (WHERE ({rule}\n) IS FALSE) FROM {table}"
    ((rows, broken),) = ask(clone[0], asked)
    assert rows > 20
    assert broken == 0
    assert ask(source, asked)[0][1] > 20


def test_rules_are_constraints_of_the_clone_and_take_other_names_in_its_clone(clone, tmp_path):
    target, model, report = clone
    asked = (
        "SELECT conrelid::regclass::text, conname, convalidated FROM pg_constraint"
        " WHERE contype = 'c' AND conislocal AND conname LIKE 'privbench%'"
    )
    found = {(table, name) for table, name, valid in ask(target, asked) if valid}
    assert ("event", "privbench_rule_4") in found
    assert len(found) == len(CASES)
    assert report.loose == ()
    assert report.repaired["public.sale"] > 0
    assert f"{report.repaired['public.sale']:,} changed to keep a rule" in report.render()
    schema = Model.load(model).schema
    assert {c.columns for c in schema.table("sale").checks} >= {("net", "tax", "gross"), ("zip",)}
    # A clone of a clone takes other names.
    rules = {"event": ["size < 1000"], "public.event": ["id IS NOT NULL"]}
    count = len(CASES)
    checked = pipeline.check(configured(rules, tmp_path), clone[0])
    names = [check.name for check in checked.plan.schema.table("event").checks if check.declared]
    assert names == [f"privbench_rule_{count + 1}", f"privbench_rule_{count + 2}"]


def test_decode_of_a_model_reads_no_sql(clone, monkeypatch):
    model = Model.load(clone[1])
    stated.cache_clear()
    lowered.cache_clear()
    for module, name in ((sqlglot, "tokenize"), (sqlglot, "parse_one"), (postgast, "parse")):
        monkeypatch.delattr(module, name)
    for item in decode(model, seed=1):
        assert item.rows == sum(batch.num_rows for batch in item.batches())
    assert {rule.kind for table in model.schema for rule in table.rules} >= {"values", "pattern"}


def test_check_of_rules_tells_how_columns_follow(source, tmp_path):
    checked = pipeline.check(configured(RULES, tmp_path), source)
    how = {line.column: line.how for line in checked.plan.coverage()}
    assert how["status"] == "2 public values"
    assert "rows are repaired in the load" in how["net, tax, gross"]
    assert any("CHECK (status IN ('open', 'paid'))" in line for line in checked.literals)


shop = database_of(sql_of(__file__, "shown"))


@pytest.mark.slow
def test_clone_keeps_rules_that_rows_show_and_no_others(shop, make_database, tmp_path):
    toml = sql_of(__file__, "shown.toml", ledger=tmp_path / "ledger")
    config, model, target = Config.loads(toml), tmp_path / "m", make_database()
    fitted = pipeline.fit(shop, config, model)
    asked = [event for event in fitted.events if event.label.startswith("rule ")]
    assert 0 < sum(event.amount for event in asked) <= 0.1 * fitted.promise.rho
    assert {event.kind for event in asked} == {"order test", "histogram"}
    pipeline.load(model, target, seed=1)
    for title, condition in cases(__file__, "shown_rules.txt"):
        table, share = title.split()
        counted = f"SELECT avg(({condition})::int)::float8 FROM {table}"
        share = float(Fraction(share))
        assert ask(shop, counted)[0][0] == pytest.approx(share, abs=0.001)
        assert ask(target, counted)[0][0] == pytest.approx(share, abs=0.03 * bool(share)), condition
    assert ask(target, "SELECT count(*) FILTER (WHERE is_rare) FROM ticket")[0][0] > 0
    apart = "SELECT stddev(closed - opened)::float8, avg(seen - created)::float8 FROM ticket"
    assert ask(target, apart)[0] == pytest.approx(ask(shop, apart)[0], abs=1), "dates near others"
    # They are no constraints of the clone, and the next release keeps them.
    checks = "SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0"
    assert ask(target, checks) == [(0,)]
    again = pipeline.fit(shop, config, tmp_path / "next", since=model)
    assert again.schema.table("ticket").checks == Model.load(model).schema.table("ticket").checks
    config = Config.loads(toml.replace("own = ", "shown = false\nown = "))
    without = pipeline.fit(shop, config, tmp_path / "without")
    assert not any(event.label.startswith("rule ") for event in without.events)
    assert without.schema.table("ticket").checks == ()
