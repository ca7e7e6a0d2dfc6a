"""Rules of a config or model that a stranger sent only ask; no code of them runs."""

import re

import market
import pytest
from sql_files import cases, database_of, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pipeline.rules import with_declared
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import reading

NO_EXPRESSION = "it is not one expression of SQL"
HOSTILE = {
    **{text: said for said, text in cases(__file__, "rules")},
    "": NO_EXPRESSION,
    "-- nothing": NO_EXPRESSION,
    "a > 'x\n\x1b[2J'": r"invalid input syntax for type integer: \"x \[2J\"",
    # Texts that no model may hold.
    "a > 0 " + "AND a > 0 " * 2001: "the expression is too long",
    "(" * 101 + "a > 0" + ")" * 101: "the expression is nested too deeply",
    "a > 0" + " + 1" * 1500: "it is nested too deeply",
    "s " + 'COLLATE "C" ' * 5000 + "> ''": "it is nested too deeply",
    "s <> '" + "x" * 2**17 + "'": "the expression is too long",
    "s <> 'a\0b'": NO_EXPRESSION,
}
ROWS = "INSERT INTO t SELECT i, i, 's' FROM generate_series(1, 50) i"
CONFIG = sql_of(__file__, "rules.toml")


def config(folder, *rules):
    settings = Config.loads(CONFIG).model_dump()
    ledger, database = {"path": str(folder / "ledger")}, {"identity": "rules"}
    return Config.model_validate(
        {**settings, "ledger": ledger, "database": database, "rules": {"t": list(rules)}}
    )


source = database_of(sql_of(__file__, "rules_schema") + ROWS)


@pytest.fixture(scope="module")
def catalog(source):
    """A session on the source, which outlives every refusal, and its catalog."""
    with reading(source) as connection:
        yield connection, introspect(connection)


@pytest.mark.parametrize("rule", HOSTILE, ids=lambda rule: rule[:40].replace("\0", "NUL"))
def test_with_rules_of_a_hostile_rule_is_one_line_of_error(catalog, tmp_path, rule):
    with pytest.raises(ConfigError, match=HOSTILE[rule]) as refused:
        with_declared(*catalog, config(tmp_path, "a >= 0", rule))
    said = str(refused.value)
    assert re.match(r"public\.t: the rule ['\"].*['\"] cannot be kept: ", said)
    assert "\n" not in said
    assert len(said) < 800


def test_fit_of_a_hostile_rule_spends_nothing(source, tmp_path):
    wanted = config(tmp_path, "public.mine(a)")
    for refused in (
        lambda: pipeline.check(wanted, source),
        lambda: pipeline.fit(source, wanted, tmp_path / "m"),
    ):
        with pytest.raises(ConfigError, match=r"it calls public\.mine"):
            refused()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("forged", "left_out"),
    [
        ("a >= 0", False),
        ("pg_read_file('/etc/passwd') <> s", True),
        ("a = (SELECT max(1) FROM pg_authid)", True),
        ("public.mine(a)", True),
    ],
)
def test_load_of_a_strangers_rule_runs_no_code(make_database, forge, fitted_rule, forged, left_out):
    """A rule that was changed in the model's DDL and header."""

    def change(parts, header):
        assert b"CHECK (a >= 0)" in parts["ddl/pre.sql"]
        made = f"CHECK ({forged})".encode()
        parts["ddl/pre.sql"] = parts["ddl/pre.sql"].replace(b"CHECK (a >= 0)", made)
        header["schema"]["tables"][0]["checks"][-1]["expression"] = f"({forged})"
        header["schema"]["tables"][0]["rules"] = []
        header["config"]["rules"]["t"] = [forged]

    target = make_database()
    report = pipeline.load(forge(fitted_rule, change), target)
    assert any("ALTER TABLE" in line for line in report.lost) == left_out
    asked = "SELECT count(*) FROM pg_constraint WHERE conname = 'privbench_rule_1'"
    assert market.one(target, asked) == (0 if left_out else 1)


@pytest.fixture(scope="module")
def fitted_rule(fitted):
    """The model of one table with one rule."""
    table = "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, s text);"
    return fitted(table + ROWS, '[rules]\nt = ["a >= 0"]')
