"""The rehearsal: expressions of a schema decide on formats, before any budget, by schema alone."""

import re
import shlex

import pytest
from halting import Watching, stop
from market import ask, execute, fail, succeed
from sql_files import cases, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.encoding.formats import Choice, formatted
from privbench.errors import SchemaError
from privbench.pipeline.load import LoadReport, rehearse
from privbench.pipeline.progress import Reporter
from privbench.pipeline.rehearsal import rehearse_apart
from privbench.schema import Column, ColumnType, Schema, Table, TableName

#: Tables, each with the formats that its expressions need, as patterns of what the schema states.
TABLES = {
    name: (ddl, patterns.splitlines())
    for name, text in cases(__file__, "formats.txt")
    for patterns, ddl in [text.split("\n=\n")]
}
# A function of PostgreSQL has 100 arguments at most, so nothing is known of what it takes.
_WIDE = [f"c{number}" for number in range(101)]
TABLES["wide"] = (
    f"CREATE TABLE wide ({' int, '.join(_WIDE)} int,"
    f" g int GENERATED ALWAYS AS ({' + '.join(_WIDE)}) STORED);",
    [],
)
QUICK = ("--synthesizer", "independent")
JSONB = ColumnType("jsonb", "jsonb", "jsonb", "b", "U")


def formats(schema: Schema, table: str) -> str:
    """All formats of a table, a line each."""
    found = schema.table(f"public.{table}")
    lines = [check.expression for check in found.checks if check.name == "format by rehearsal"]
    lines += [f"{c.name} {c.least} {' '.join(c.templates)}" for c in found.columns]
    return "\n".join(lines)


def rehearsed(source: str, target: str, config: Config | None = None):
    config = config or Config()
    return rehearse(source, target, pipeline.look(source, config), config, replace=False)


@pytest.fixture(scope="module")
def source(make_database_on, server):
    """A database with all tables, which have rows."""
    ddl = "\n".join(ddl for ddl, _ in TABLES.values())
    statements = ddl + sql_of(__file__, "formats_rows")
    return make_database_on(server, keep=True, statements=statements)


@pytest.fixture(scope="module")
def catalog(source, make_database_on, server):
    target = make_database_on(server)
    found = rehearsed(source, target)
    assert not ask(target, "SELECT 1 FROM pg_class WHERE relname LIKE ANY ('{cast%,parted%}')")
    return found


@pytest.mark.parametrize("table", TABLES)
def test_expressions_decide_on_formats(catalog, table):
    for pattern in TABLES[table][1]:
        assert re.search(pattern, formats(catalog.schema, table)), formats(catalog.schema, table)


def test_every_expression_is_met(catalog):
    assert catalog.findings == ()


def test_the_choice_is_by_the_schema_alone(catalog, make_database):
    names = ["documents", "spans", "cast_index"]
    bare = rehearsed(make_database("".join(TABLES[name][0] for name in names)), make_database())
    for name in names:
        assert formats(bare.schema, name) == formats(catalog.schema, name)


def test_a_clone_has_its_rows_and_the_line_to_go_on_with_goes_on(source, make_database, tmp_path):
    config = Config.loads(sql_of(__file__, "formats.toml", ledger=tmp_path))
    target = make_database()
    with pytest.raises(RuntimeError, match="switched off") as broken:
        pipeline.clone(source, target, config, reporter=Watching("load", stop))
    (note,) = broken.value.__notes__
    words = shlex.split(note.removeprefix("To go on: "))[1:]
    assert "left out" not in succeed(*words, "--strict").stdout
    joined = [f"{key} JOIN of_{key} USING (k)" for key in ("stamp", "whole")]
    for rows in ("documents", "pieces", "parted", "lists", "cast_index", *joined):
        assert ask(target, f"SELECT count(*) BETWEEN 200 AND 400 FROM {rows}") == [(True,)], rows
    assert ask(target, "SELECT count(*) > 50 FROM spans") == [(True,)]
    assert ask(target, "SELECT count(*) FROM documents WHERE customer IS NULL") == [(0,)]


def test_types_of_which_no_value_is_known_are_tried(make_database):
    # A base type of users, which reads what integers do.
    made = """
    CREATE TYPE odd;
    CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
    CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
    CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, INTERNALLENGTH = 4, PASSEDBYVALUE);
    CREATE TABLE t (o odd NOT NULL);
    """
    found = rehearsed(make_database(made), make_database())
    assert found.schema.table("public.t").column("o").templates == ("#",)
    with pytest.raises(SchemaError, match="no valid value of type"):
        rehearsed(make_database(made.replace("int4in", "pg_node_tree_in")), make_database())


def test_what_nothing_meets_is_named_and_empty_tables_come_first(make_database, tmp_path):
    name = "rehearsal_of_nothing"
    source = make_database(
        # Rows of the source pass, those of no other database do.
        "CREATE FUNCTION here(t text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
        f" IF current_database() <> '{name}' THEN RAISE EXCEPTION 'not here'; END IF;"
        " RETURN 1; END $$;"
        "CREATE TABLE t (a text NOT NULL, b int GENERATED ALWAYS AS (here(a)) STORED);"
        "INSERT INTO t SELECT i FROM generate_series(1, 200) i",
        name=name,
    )
    ledger = tmp_path / "ledger"
    words = ["clone", source, make_database(), "--epsilon", "9", "--yes", *QUICK]
    fail(1, "generated column b", *words, "--ledger", ledger, "--strict")
    assert not ledger.exists()
    done = succeed(*words, "--ledger", ledger)
    assert "generated column b" in done.stderr
    assert done.stdout.splitlines()[0] == "EMPTY, although rows were drawn for it: public.t"


def test_an_alarm_is_a_loss():
    report = LoadReport({"public.t": 0}, {"public.t": 9}, (), (), emptied=("public.t",))
    assert report.render().splitlines()[0].startswith("EMPTY")
    assert report.losses == [report.alarm]


def test_a_fit_rehearses_apart_and_runs_no_function_of_the_source(make_database):
    source = make_database(
        "CREATE FUNCTION hostile(t text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
        " PERFORM pg_read_file('/etc/passwd'); RETURN t::int; END $$;"
        "CREATE TABLE t (a text NOT NULL, b text NOT NULL); CREATE INDEX ON t (hostile(a));"
        "CREATE INDEX ON t ((b::int));"
    )
    found = rehearse_apart(pipeline.look(source, Config()), Config(), Reporter())
    assert found.rehearsed
    assert found.findings == ()
    # The index on the function was left out, so that nothing is known of what it takes.
    assert '"a"' not in formats(found.schema, "t")
    assert '"b" ~' in formats(found.schema, "t")
    # A table that cannot be made without the function is not rehearsed.
    execute(source, "ALTER TABLE t ADD CHECK (hostile(a) > 0)")
    execute(source, "CREATE TABLE u (a text, b int GENERATED ALWAYS AS (hostile(a)) STORED)")
    reporter = Watching()
    assert not rehearse_apart(pipeline.look(source, Config()), Config(), reporter).rehearsed
    assert "not rehearsed" in reporter.said[0]


def test_look_ups_that_are_opened_later_keep_their_rows(make_database, tmp_path):
    """They are copied as they are, whatever formats a rehearsal chose for them before that."""
    source, target = make_database(sql_of(__file__, "formats_lookup")), make_database()
    ledger = ("--ledger", tmp_path / "l")
    words = ["clone", source, target, "--epsilon", "9", "--yes", *QUICK, *ledger]
    succeed(*words, "--lookups", "public")
    assert ask(target, "TABLE genres") == ask(source, "TABLE genres")
    config = tmp_path / "c.toml"
    config.write_text('[tables.genres]\nrole = "public"\n[tables.people]\nown = []\n')
    succeed(*words, "--replace", "--config", config)
    assert ask(target, "TABLE genres") == ask(source, "TABLE genres")


def test_an_expression_that_takes_long_is_no_finding(make_database, monkeypatch):
    monkeypatch.setattr("privbench.postgres.rehearsal._PATIENCE", 50)
    source = make_database(
        "CREATE FUNCTION slow(t text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
        " $$ BEGIN PERFORM pg_sleep(60); RETURN 1; END $$;"
        "CREATE TABLE t (a text NOT NULL); CREATE INDEX ON t (slow(a))"
    )
    assert rehearsed(source, make_database()).findings == ()


def test_a_rehearsal_has_an_end_and_keeps_what_it_found_until_then(make_database, monkeypatch):
    monkeypatch.setattr("privbench.postgres.rehearsal._WHOLE", -1.0)
    source = make_database(
        "CREATE TABLE t (a text NOT NULL, b int GENERATED ALWAYS AS (a::int) STORED)"
    )
    found = rehearsed(source, make_database())
    assert found.findings == ()
    assert "~" not in formats(found.schema, "t")


def test_documents_whose_keys_are_all_objects_are_small_enough_to_try():
    keys = [f"key{n}" for n in range(30)]
    columns = (Column("d", 1, JSONB),)
    of_keys = [
        (Choice(("d",), ("{}",), keys=(key, *(other for other in keys if other != key))), ("{}",))
        for key in keys
    ]
    made = formatted(Table(TableName("public", "t"), columns), dict(of_keys))
    (text,) = made.columns[0].templates
    assert len(text) < 2**15
    assert '"key0": {"key1": ' in text
