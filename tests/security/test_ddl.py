"""A stranger's DDL: what is on no allow-list is refused before a connection is made."""

import contextlib
import json
import os
import subprocess
import sys

import market
import psycopg
import pytest
from bounded import bounded
from sql_files import cases, sql_of

from privbench import pipeline
from privbench.display import visible
from privbench.errors import DatabaseError, ModelError, UsageError
from privbench.pgsql import parser
from privbench.pgsql.ddl import allowed, trusted
from privbench.pgsql.parser import statements
from privbench.postgres.connect import connect
from privbench.postgres.ddl import cleaned, dump_ddl, dumped
from privbench.postgres.introspect import introspect

TABLE = "CREATE TABLE public.t (a int, b text); "
#: Attack, and what the refusal says: nothing of the model is run.
REFUSED = {
    **{text: said for said, text in cases(__file__, "ddl_refused")},
    # Texts that are too much for a parser.
    "CREATE VIEW public.x AS SELECT " + "||".join("a" * 60_000): "tokens",
    "CREATE VIEW public.x AS SELECT " + "(" * 30_000 + "1" + ")" * 30_000: "memory exhausted",
    "CREATE VIEW public.x AS SELECT '" + "x" * (1 << 20) + "'": "longer than",
    "CREATE PROPERTY GRAPH public.g; " * 1001: 'cannot be read: syntax error at or near "PROPERTY"',
}
#: Attack, and why it is left out: everything else of the model is made.
LEFT_OUT = {text: said for said, text in cases(__file__, "ddl_left_out")}


@pytest.mark.parametrize("text", REFUSED)
def test_allowed_of_an_attack_refuses_the_model(text):
    with pytest.raises(ModelError) as caught:
        allowed(TABLE, text)
    assert visible(REFUSED[text]) in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", LEFT_OUT)
def test_allowed_of_what_rows_need_not_leaves_it_out(text):
    judged = allowed(TABLE, text)
    assert judged.parts[1] == ()
    (line,) = judged.left_out
    assert LEFT_OUT[text] in line


#: Attack: what this parser cannot read is what the target's server would run. Door: DDL.
UNREAD = "CREATE PROPERTY GRAPH public.g VERTEX TABLES (public.t KEY (a))"


def test_what_the_parser_cannot_read_is_not_run_for_a_trusted_maker_either():
    judged = trusted(f"{TABLE}{UNREAD}; TABLE public.t")
    ((line,), (part,)) = judged.left_out, judged.parts
    assert [item.text for item in part] == [TABLE.rstrip("; "), "TABLE public.t"]
    assert line.startswith("left out: CREATE PROPERTY GRAPH public.g VERTEX TABLES: it cannot be")


def test_a_dump_keeps_what_stands_beside_statements_of_a_later_server():
    body = "BEGIN ATOMIC SELECT 1 FROM GRAPH_TABLE (g MATCH (x) COLUMNS (x.a)); {}; END"
    function = f"CREATE FUNCTION public.f() RETURNS int LANGUAGE sql {body}"
    hidden = function.format("CREATE VIEW public.w AS SELECT 1")
    text, lines = cleaned(
        f"{TABLE}\n{UNREAD};\n{hidden};\nCREATE VIEW public.v AS SELECT 1;\n", set()
    )
    kept = "CREATE VIEW public.v AS SELECT 1"
    assert text == f"{TABLE.rstrip('; ')};\n{kept};\n"
    assert [line.split(": ")[1] for line in lines] == [
        "CREATE PROPERTY GRAPH public.g VERTEX TABLES",
        "CREATE FUNCTION public.f",
    ]
    with pytest.raises(DatabaseError, match=r"cannot be read: syntax error at or near \"NEW\""):
        cleaned(f"{UNREAD};\nCREATE TABLE public.t (a int) NEW;\n", set())


def test_what_is_built_upon_a_view_that_cannot_be_read_is_left_out_too():
    texts = dict(cases(__file__, "ddl_built_upon"))
    gone = set()
    text, lines = cleaned(texts["views"], gone)
    assert text.strip() == texts["kept"]
    assert [line.partition(": it ")[2][:9] for line in lines] == [
        "cannot be",
        "is built ",
        "is built ",
    ]
    text, lines = cleaned(texts["indexes"], gone)
    assert text == "CREATE INDEX i ON public.t USING btree (a);\n"
    assert [line.split(": ")[1] for line in lines] == ["CREATE INDEX i ON public.w USING btree"]
    judged = trusted(texts["views"], texts["indexes"])
    assert [len(part) for part in judged.parts] == [1, 1]
    assert len(judged.left_out) == 4


@pytest.mark.parametrize("mebibytes", [700, 1500, 3000])
def test_statements_are_read_within_the_memory_that_is_allowed(mebibytes):
    """An operator's limit of memory (ulimit -v) is no fault of a text."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({mebibytes << 20},) * 2);"
    asked = "from privbench.pgsql import statements; print(len(statements('SELECT 1; SELECT 2')))"
    done = subprocess.run(
        [sys.executable, "-c", limit + asked],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_a_parser_that_cannot_start_is_no_fault_of_a_text(monkeypatch):
    monkeypatch.setattr(parser, "_PARSER", parser._Parser())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UsageError, match="the process that parses SQL cannot start"):
        statements("SELECT 1")


def test_statements_after_a_broken_answer_are_its_own(monkeypatch):
    """Ctrl-C while a long text is read: the next text is not taken for what followed."""

    def broken_off(data):
        raise KeyboardInterrupt

    with monkeypatch.context() as change:
        change.setattr(json, "loads", broken_off)
        with pytest.raises(KeyboardInterrupt):
            statements("SELECT 1; SELECT 2; SELECT 3")
    assert [found.text for found in statements("TABLE t")] == ["TABLE t"]


@pytest.fixture(scope="module")
def small(fitted):
    """The model of a table of one row."""
    return fitted("CREATE TABLE t (i int PRIMARY KEY); INSERT INTO t VALUES (1)")


def adding(text, member="ddl/pre.sql"):
    """A change that adds a statement to a model's DDL."""
    return lambda parts, header: parts.update({member: parts[member] + f"{text};\n".encode()})


@pytest.mark.parametrize("member", ["ddl/pre.sql", "ddl/post.sql"])
def test_load_of_a_refused_model_makes_no_connection(small, forge, member):
    """Attack: the same statements within a model's file."""
    forged = forge(small, adding("COPY public.t TO PROGRAM 'sh'", member))
    with pytest.raises(ModelError, match="CopyStmt"):
        pipeline.load(forged, "host=/nowhere")


def test_load_beside_dblink_carries_out_no_view(small, forge, make_database_on, each_server):
    """The target has dblink, which views would call when they are filled."""
    target = make_database_on(each_server)
    try:
        market.execute(target, "CREATE EXTENSION dblink; CREATE EXTENSION tablefunc")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server has no dblink")
    views = dict(cases(__file__, "ddl_carried_out"))
    done = ";\n".join(views.values()).format(*["CREATE TABLE public.carried_out ()"] * 3)
    report = pipeline.load(forge(small, adding(done)), target)
    assert len(report.lost) == len(views)
    for lost, name in zip(report.lost, views, strict=True):
        assert f"MATERIALIZED VIEW public.{name}" in lost
    assert market.one(target, "SELECT to_regclass('public.carried_out')") is None


def test_no_text_of_a_source_takes_more_than_its_length():
    """Bodies of functions full of commands of psql, none of which has its pair."""
    body = "\\restrict a\n\\unrestrict b\n" * 10_000
    text = f"CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$\n{body}$$;\n" * 20

    def read():
        for found in dumped(text), dumped(f"\\restrict aB\n{text}\n\\unrestrict aB\n"):
            assert len(found) == 20
            assert all(body in item.text for item in found)

    bounded(read)


def test_dumped_strips_psql_commands_only_in_a_pair():
    """PostgreSQL's parser takes no backslash outside quotes."""
    text = "\\restrict {}\nCREATE TABLE public.t (a int);\n{}\\unrestrict {}\n"
    (found,) = dumped(text.format("aB3", "", "aB3"))
    assert found.tree.kind == "CreateStmt"
    for bad in (
        text.format("aB3", "", "other"),
        text.format("aB3", "\\! touch /tmp/x\n", "aB3"),
        text.format("aB3", "\\unrestrict aB3\n\\! sh\n", "aB3"),
    ):
        with pytest.raises(DatabaseError, match="cannot be read"):
            dumped(bad)


def test_dump_ddl_with_line_separators_in_names_loses_nothing_and_brings_nothing(make_database):
    """No foreign key is dropped, no password and no number of distinct values comes along."""
    dsn = make_database(dict(cases(__file__, "line_separators"))["names"])
    try:
        with connect(dsn) as connection:
            ddl = dump_ddl(connection, introspect(connection))
    finally:
        market.execute(dsn, "DROP FOREIGN DATA WRAPPER w CASCADE")
    text = ddl.pre_data + ddl.post_data
    for kept in ("FOREIGN KEY", "b\u2028z", '"b\nALTER"'):
        assert kept in text
    for secret in ("hush", "SERVER", "4711"):
        assert secret not in text


#: What an extension of the target's has made before the load.
THEIRS = sql_of(__file__, "objects_of_extensions")
STATE = sql_of(__file__, "objects_of_extensions_now")
CLAIMS = dict(cases(__file__, "ddl_claims"))


@pytest.mark.parametrize("claim", CLAIMS)
def test_load_of_a_claim_changes_no_extension(small, forge, make_database, claim):
    """Only constraints that make an index count, and statements must make anew."""
    target = make_database(statements=THEIRS)
    before = market.ask(target, STATE)
    with contextlib.suppress(ModelError):
        pipeline.load(forge(small, adding(CLAIMS[claim])), target)
    assert market.ask(target, STATE) == before


def test_allowed_of_what_a_dump_writes_keeps_it_and_drops_what_stands_on_what_is_left_out():
    """A view in two steps, and a partition's index by the name of a constraint."""
    texts = dict(cases(__file__, "ddl_built_upon"))
    assert allowed(texts["of a dump"]).left_out == ()
    # One of its name in the target would be used instead.
    judged = allowed(TABLE + texts["left out by the list, and what stands on it"])
    assert [item.tree.kind for item in judged.parts[0]] == ["CreateStmt"]
    assert len(judged.left_out) == 5
