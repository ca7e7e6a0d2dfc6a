"""The rehearsal: expressions of a schema decide on formats, before any budget, by schema alone."""

import re
import shlex

import psycopg
import pytest
from market import run as command
from market import succeed

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
    "cast_index": (
        "CREATE TABLE cast_index (id int PRIMARY KEY, no text NOT NULL);"
        "CREATE INDEX ON cast_index ((no::bigint))",
        [r'"no" ~ .*\[0-9\]'],
    ),
    "pieces": (
        "CREATE TABLE pieces (period char(7) NOT NULL, doc text NOT NULL,"
        " year int GENERATED ALWAYS AS (substr(period, 1, 4)::int) STORED,"
        " month int GENERATED ALWAYS AS (split_part(period, '-', 2)::int) STORED,"
        " seq int GENERATED ALWAYS AS (split_part(doc, '/', 2)::int) STORED)",
        [r'"period" ~ .*\(19\|20\).*-\(0\[1-9\]\|1\[0-2\]\)\)\$', '"doc" ~ .*/'],
    ),
    "parts_of_dates": (
        "CREATE TABLE parts_of_dates (y int NOT NULL, m int NOT NULL, d int NOT NULL,"
        " day date GENERATED ALWAYS AS (make_date(y, m, d)) STORED)",
        [r"\"m\" >= '1'\) AND \(\"m\" <= '12'", "\"d\" <= '28'", "\"y\" >= '1'"],
    ),
    "divided": (
        "CREATE TABLE divided (a int NOT NULL, b int NOT NULL,"
        " each numeric GENERATED ALWAYS AS (a::numeric / b) STORED)",
        ["\"b\" >= '1'"],
    ),
    "shares": (
        "CREATE TABLE shares (w numeric(6,4) NOT NULL,"
        " each numeric GENERATED ALWAYS AS (1 / w) STORED)",
        ["\"w\" >= '0.01'"],
    ),
    # Products of what a range may hold before it is measured are too large; those of rows are not.
    "products": (
        "CREATE TABLE products (qty int NOT NULL, price int NOT NULL, part int NOT NULL,"
        " total int GENERATED ALWAYS AS (qty * price) STORED,"
        " rate numeric(5,2) GENERATED ALWAYS AS (100.0 * part / nullif(qty, 0)) STORED)",
        [r"\A\w+ 0 \n(.* 0 \n)*\w+ 0 \Z"],
    ),
    "spans": (
        "CREATE TABLE spans (lo int NOT NULL, hi int NOT NULL,"
        " EXCLUDE USING gist (int4range(lo, hi) WITH &&))",
        ['"lo" <= "hi"'],
    ),
    "documents": (
        "CREATE TABLE documents (doc jsonb NOT NULL,"
        " kind text GENERATED ALWAYS AS (doc ->> 'type') STORED NOT NULL,"
        " customer int GENERATED ALWAYS AS ((doc -> 'customer' ->> 'id')::int) STORED NOT NULL)",
        [r'"type": "w#"', r'"customer": \{[^}]*"id": #'],
    ),
    "parted": (
        "CREATE TABLE parted (doc jsonb NOT NULL) PARTITION BY LIST ((doc ->> 'type'));"
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN ('in', 'out');"
        "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN ('view')",
        ['"type": "in"', '"type": "out"', '"type": "view"'],
    ),
    "years": (
        "CREATE TABLE years (d date NOT NULL) PARTITION BY LIST (date_part('year', d));"
        "CREATE TABLE years_1 PARTITION OF years FOR VALUES IN (2023);"
        "CREATE TABLE years_2 PARTITION OF years FOR VALUES IN (2024)",
        ["\"d\" >= '2023-01-01'", "\"d\" <= '2024-12-31'"],
    ),
    "lists": (
        "CREATE TABLE lists (tags text[] NOT NULL,"
        " first text GENERATED ALWAYS AS (tags[1]) STORED NOT NULL)",
        ["tags 1"],
    ),
    "domains": (
        "CREATE DOMAIN place AS jsonb CHECK (VALUE ? 'city' AND VALUE ? 'zip' AND"
        " jsonb_typeof(VALUE -> 'zip') = 'number');"
        "CREATE DOMAIN amount AS text CHECK (VALUE::numeric >= 0);"
        "CREATE TABLE domains (at place NOT NULL, a amount NOT NULL, others place[] NOT NULL)",
        [r'"city": "w#"', '"zip": #', r'"a" ~ .*\[0-9\]'],
    ),
    # A function of PostgreSQL has 100 arguments at most, so nothing is known of what it takes.
    "wide": (
        f"CREATE TABLE wide ({', '.join(f'c{n} int' for n in range(101))},"
        f" g int GENERATED ALWAYS AS ({' + '.join(f'c{n}' for n in range(101))}) STORED)",
        [],
    ),
    "called": (
        "CREATE FUNCTION day(t text) RETURNS date LANGUAGE sql IMMUTABLE AS"
        " $$ SELECT to_date(t, 'DD.MM.YYYY') $$;"
        "CREATE TABLE called (t text NOT NULL); CREATE INDEX ON called (day(t))",
        [r'"t" ~ .*\[\.\]'],
    ),
}
ROWS = """
INSERT INTO documents (doc) SELECT jsonb_build_object('type', 'a', 'customer',
  jsonb_build_object('id', i)) FROM generate_series(1, 300) i;
INSERT INTO pieces (period, doc) SELECT '2020-0' || 1 + i % 9, 'INV/' || i
  FROM generate_series(1, 300) i;
INSERT INTO spans SELECT 3 * i, 3 * i + 2 FROM generate_series(1, 300) i;
INSERT INTO parted SELECT '{"type": "view"}' FROM generate_series(1, 300) i;
INSERT INTO lists SELECT ARRAY['a', 'b'] FROM generate_series(1, 300) i;
INSERT INTO cast_index SELECT i, i::text FROM generate_series(1, 300) i;
"""
#: Keys of another type than their targets.
KEYS = """
CREATE TABLE stamp (k timestamp PRIMARY KEY); CREATE TABLE of_stamp (k date REFERENCES stamp);
CREATE TABLE whole (k double precision PRIMARY KEY); CREATE TABLE of_whole (k int REFERENCES whole);
INSERT INTO stamp SELECT '2020-01-01'::date + i FROM generate_series(1, 300) i;
INSERT INTO of_stamp SELECT k FROM stamp;
INSERT INTO whole SELECT i FROM generate_series(1, 300) i; INSERT INTO of_whole SELECT k FROM whole;
"""
QUICK = ("--synthesizer", "independent")
JSONB = ColumnType("jsonb", "jsonb", "jsonb", "b", "U")
DDL = ";\n".join(ddl for ddl, _ in TABLES.values()) + ";"


def execute(dsn: str, statements: str):
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(statements)


def asked(dsn: str, query: str):
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


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
    return make_database_on(server, keep=True, statements=DDL + ROWS + KEYS)


@pytest.fixture(scope="module")
def catalog(source, make_database_on, server):
    target = make_database_on(server)
    found = rehearsed(source, target)
    assert not asked(target, "SELECT 1 FROM pg_class WHERE relname LIKE ANY ('{cast%,parted%}')")
    return found


@pytest.mark.parametrize("table", TABLES)
def test_expressions_decide_on_formats(catalog, table):
    for pattern in TABLES[table][1]:
        assert re.search(pattern, formats(catalog.schema, table)), formats(catalog.schema, table)


def test_every_expression_is_met(catalog):
    assert catalog.findings == ()


def test_the_choice_is_by_the_schema_alone(catalog, make_database):
    names = ["documents", "spans", "cast_index"]
    bare = rehearsed(
        make_database("".join(TABLES[name][0] + ";" for name in names)), make_database()
    )
    for name in names:
        assert formats(bare.schema, name) == formats(catalog.schema, name)


class Broken(Reporter):
    """Breaks the load off, once everything is spent."""

    def begin(self, name: str) -> None:
        if name == "load":
            raise RuntimeError("the machine was switched off")


def test_a_clone_has_its_rows_and_the_line_to_go_on_with_goes_on(source, make_database, tmp_path):
    config = Config.loads(
        '[synthesizer]\nname = "independent"\n'
        f'[ledger]\npath = "{tmp_path}"\n[privacy]\nepsilon = 50\n[database]\nidentity = "forms"\n'
        'tables = ["documents", "pieces", "spans", "parted*", "lists", "cast_index", "*stamp",'
        '"*whole"]\n[tables."public.of_stamp"]\nown = []\n[tables."public.of_whole"]\nown = []'
    )
    target = make_database()
    with pytest.raises(RuntimeError, match="switched off") as broken:
        pipeline.clone(source, target, config, reporter=Broken())
    (note,) = broken.value.__notes__
    words = shlex.split(note.removeprefix("To go on: "))[1:]
    assert "left out" not in succeed(*words, "--strict").stdout
    for table in ("documents", "pieces", "parted", "lists", "cast_index"):
        assert asked(target, f"SELECT count(*) BETWEEN 200 AND 400 FROM {table}") == [(True,)]
    for key in ("stamp", "whole"):
        asked_of = f"SELECT count(*) BETWEEN 200 AND 400 FROM {key} JOIN of_{key} USING (k)"
        assert asked(target, asked_of) == [(True,)]
    assert asked(target, "SELECT count(*) > 50 FROM spans") == [(True,)]
    assert asked(target, "SELECT count(*) FROM documents WHERE customer IS NULL") == [(0,)]


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
    target, ledger = make_database(), ["--ledger", str(tmp_path / "ledger")]
    words = ["clone", source, target, "--epsilon", "9", "--yes", *QUICK, *ledger]
    strict = command(*words, "--strict")
    assert strict.exit_code == 1
    assert "generated column b" in strict.stderr
    assert not (tmp_path / "ledger").exists()
    done = command(*words)
    assert done.exit_code == 0, done.stderr
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
    said: list[str] = []
    reporter = Reporter()
    reporter.say = said.append  # type: ignore[method-assign]
    assert not rehearse_apart(pipeline.look(source, Config()), Config(), reporter).rehearsed
    assert "not rehearsed" in said[0]


def test_look_ups_that_are_opened_later_keep_their_rows(make_database, tmp_path):
    """They are copied as they are, whatever formats a rehearsal chose for them before that."""
    source, target = make_database(LOOKUP), make_database()
    words = ["clone", source, target, "--epsilon", "9", "--yes", *QUICK]
    words += ["--ledger", str(tmp_path / "l")]
    succeed(*words, "--lookups", "public")
    assert asked(target, "TABLE genres") == asked(source, "TABLE genres")
    config = tmp_path / "c.toml"
    config.write_text('[tables.genres]\nrole = "public"\n[tables.people]\nown = []\n')
    succeed(*words, "--replace", "--config", config)
    assert asked(target, "TABLE genres") == asked(source, "TABLE genres")


#: A look-up with an expression that texts as drawn do not pass.
LOOKUP = """
CREATE TABLE genres (id int PRIMARY KEY, name text NOT NULL, rank text NOT NULL);
CREATE INDEX ON genres ((rank::int));
CREATE TABLE people (id int PRIMARY KEY, email text, genre_id int REFERENCES genres);
INSERT INTO genres SELECT i, 'g' || i, i::text FROM generate_series(1, 9) i;
INSERT INTO people SELECT i, 'a' || i, 1 + i % 9 FROM generate_series(1, 200) i;
"""


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
