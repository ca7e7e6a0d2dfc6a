"""``privbench workload``: made from a source or a model, converted, brought together."""

import re

import market
import psycopg
import pytest

from privbench import pipeline
from privbench.workload import KINDS, read

LIGHT = """\
715||SELECT COUNT(*) FROM title t,movie_companies mc WHERE t.id=mc.movie_id AND t.kind_id=7;
8||SELECT COUNT(*) FROM title t WHERE t.id<9;
"""


def _done(*arguments):
    return market.succeed("-q", "workload", *arguments).stdout


def _refused(*arguments):
    return re.sub(r"\s+", " ", market.fail(2, "", "-q", "workload", *arguments).stderr)


@pytest.fixture(scope="module")
def clone(model, make_database):
    dsn = make_database()
    pipeline.load(model, dsn, seed=1)
    return dsn


@pytest.fixture
def light(tmp_path):
    path = tmp_path / "light.sql"
    path.write_text(LIGHT)
    return path


def test_a_workload_of_a_source_says_that_it_is_confidential(source, tmp_path):
    path = tmp_path / "w.sql"
    plan = "--joins 1-2 --predicates 2 --operators <=,>= --card-min 2 --card-max 900 --seed 5"
    form = ("--queries", 8, "--format", "card-sql")
    said = _done("generate", source, "-o", path, "--kind", "joins", *plan.split(), *form)
    assert said.startswith("CONFIDENTIAL")
    assert path.read_text().startswith("-- CONFIDENTIAL")
    made = read(path)
    assert made.confidential
    assert len(made) == 8
    assert {query.facts.joins for query in made} == {1, 2}
    for query in made:
        assert 2 <= query.card <= 900
        assert len(re.findall(r'"\."\w+" [<>]= ', query.sql)) == 2
        assert market.one(source, query.sql) == query.card


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_of_a_model_needs_no_database(kind, model, clone, tmp_path):
    path = tmp_path / "w.json"
    more = ("--joins", "0-2")
    said = _done("generate", model, "-o", path, "--kind", kind, "--queries", 12, *more)
    assert said == f"Wrote 12 queries to {path}.\n"
    made = read(path)
    assert not made.confidential
    assert {query.card for query in made} == {None}
    again = tmp_path / "again.json"
    _done("generate", model, "-o", again, "--kind", kind, "--queries", 12, *more)
    assert again.read_text() == path.read_text()
    with psycopg.connect(clone) as connection:
        for query in made:
            connection.execute(query.sql.encode())


def test_free_text_and_addresses_of_the_source_are_in_no_query_of_a_model(model, source, tmp_path):
    path = tmp_path / "w.json"
    _done("generate", model, "-o", path, "--queries", 150)
    text = path.read_text()
    notes = market.ask(source, "SELECT note FROM customer WHERE note IS NOT NULL")
    mails = market.ask(source, "SELECT email FROM customer")
    assert len(notes) == 30
    assert not [value for (value,) in (*notes, *mails) if value in text]


def test_a_seeded_model_is_confidential(source, tmp_path):
    config = market.config(tmp_path / "ledger", name="independent", seed=1)
    pipeline.fit(source, config, tmp_path / "m")
    said = _done("generate", tmp_path / "m", "-o", tmp_path / "w.json", "--queries", 3)
    assert said.startswith("CONFIDENTIAL")


def test_a_missing_file_and_a_clone_without_a_model_are_refused(source, clone, tmp_path):
    said = _refused("generate", source, "-o", tmp_path / "w", "--clone", clone)
    assert "a model" in said
    # A missing file is said.
    assert "no workload at" in _refused("import", tmp_path / "gone@2", "-o", tmp_path / "w")


@pytest.mark.parametrize("form", ["native", "sql", "card-sql", "pgbench"])
def test_formats_are_converted_and_back(form, light, tmp_path):
    there, back = tmp_path / "there", tmp_path / "back.sql"
    there = there.with_suffix(".sql") if form in ("sql", "card-sql") else there
    assert "Wrote 2 queries" in _done("convert", light, there, "--to", form)
    _done("convert", there, back, "--from", form, "--to", "card-sql")
    kept = form in ("native", "card-sql")
    assert back.read_text() == (LIGHT if kept else re.sub(r"(?m)^\d+(.*);$", r"\1", LIGHT))


def test_no_table_is_named_to_a_format_that_states_it(light, tmp_path):
    said = _refused(
        "convert", light, tmp_path / "w", "--from", "sql", "--to", "native", "--table", "t"
    )
    assert "state their table" in said


def test_one_table_may_be_asked_for(source, tmp_path):
    path = tmp_path / "w.json"
    _done("generate", source, "-o", path, "--kind", "mscn", "--queries", 9, "--joins", 0,
          "--table", "purchase", "--predicates", "1-3")  # fmt: skip
    made = read(path)
    assert made.confidential
    assert all('"purchase"' in query.sql for query in made)


def test_weighted_files_are_brought_together(light, tmp_path):
    script = tmp_path / "pick.sql"
    script.write_text("\\set n random(1, 9)\nSELECT :n;\n")
    _done("import", f"{script}@9", light, f"{light}@0.5", "-o", tmp_path / "w", "--name", "mix")
    made = read(tmp_path / "w")
    assert made.name == "mix"
    assert {query.id: query.weight for query in made} == {
        "pick/pick": 9.0,
        "light/q1": 1.0,
        "light/q2": 1.0,
        "light~2/q1": 0.5,
        "light~2/q2": 0.5,
    }
    assert made.queries[0].template == "SELECT $1"
