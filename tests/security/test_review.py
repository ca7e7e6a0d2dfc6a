"""Attacks that a reviewer made up: what runs though no query, model or tool has named it.

Doors: queries of a stranger's workload, the catalog of a hostile source, the DDL of a model.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import test_source_code as sources
import test_workload_attacks as workloads
from click.testing import CliRunner
from forging import fitted, forge
from test_source_code import hostile, nothing_ran
from test_workload_attacks import Attack, open_folder, source

from privbench import pipeline
from privbench.cli import main
from privbench.errors import ModelError, UsageError
from privbench.pgsql import statements
from privbench.pgsql.ddl import allowed
from privbench.workload.safety import Trust

__all__ = ["fitted", "forge", "hostile", "nothing_ran", "open_folder", "source"]

#: Code of the source's users that ran in a query of a workload; what stops it: `judge` asks for all
#: the operators and words that a clause may stand for, and `Database` for what the planner and
#: functions written in SQL put in the place of what is written.
QUERIES = workloads.read_attacks("unnamed.sql")


@pytest.mark.parametrize("name", QUERIES)
def test_what_a_query_does_not_name_is_refused_too(
    source: Callable[[Attack], tuple[str, Path]], name: str
) -> None:
    attack = QUERIES[name]
    dsn, file = source(attack)
    with pytest.raises(UsageError) as refusal:
        workloads._run(dsn, attack.query)
    assert attack.refused in refusal.value.message
    assert not file.exists()
    assert workloads._run(dsn, attack.query, Trust(workload=True)) == "ok"
    assert file.exists()


#: What an extension of the target's has made before the load.
THEIRS = """
CREATE TABLE public.jobs (command text DEFAULT 'none'); INSERT INTO public.jobs VALUES ('secret');
CREATE VIEW public.seen AS SELECT 'truth'::text AS word; CREATE SEQUENCE public.ticket;
CREATE MATERIALIZED VIEW public.kept AS SELECT 1 AS x;
ALTER EXTENSION plpgsql ADD TABLE public.jobs; ALTER EXTENSION plpgsql ADD VIEW public.seen;
ALTER EXTENSION plpgsql ADD SEQUENCE public.ticket;
ALTER EXTENSION plpgsql ADD MATERIALIZED VIEW public.kept;
"""
STATE = """
SELECT (SELECT array_agg(c.relname::text || c.relrowsecurity ORDER BY c.relname)
    FROM pg_class c WHERE c.relnamespace = 2200 AND c.relname ~ '^(jobs|seen|ticket|kept|stolen)'),
  pg_get_viewdef('public.seen'), (SELECT seqincrement FROM pg_sequence
    WHERE seqrelid = 'public.ticket'::regclass),
  (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'public.jobs'::regclass)
"""
CLAIM = "CREATE TABLE public.x (i int CONSTRAINT {} CHECK (i > 0));"
#: Statements that reach what the target's extensions hold, under names that seem to be made here.
CLAIMS = [
    f"{CLAIM.format('jobs')} CREATE MATERIALIZED VIEW public.stolen AS SELECT command"
    " FROM public.jobs WITH NO DATA",
    f"{CLAIM.format('jobs')} CREATE INDEX jobs_i ON public.jobs (command)",
    f"{CLAIM.format('jobs')} ALTER TABLE public.jobs ENABLE ROW LEVEL SECURITY",
    "CREATE TABLE public.x (i int PRIMARY KEY, j int CONSTRAINT jobs REFERENCES public.x);"
    " ALTER TABLE public.jobs ALTER command SET DEFAULT 'evil'",
    f"{CLAIM.format('seen')} CREATE OR REPLACE VIEW public.seen AS SELECT 'lie'::text AS word",
    "CREATE OR REPLACE VIEW public.seen AS SELECT 'lie'::text AS word",
    "CREATE TABLE IF NOT EXISTS public.jobs (command text);"
    " ALTER TABLE public.jobs ALTER command SET DEFAULT 'evil'",
    "CREATE SEQUENCE IF NOT EXISTS public.ticket; ALTER SEQUENCE public.ticket INCREMENT 99",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS public.kept AS SELECT 1 AS x WITH NO DATA;"
    " CREATE INDEX kept_i ON public.kept (x)",
]


@pytest.mark.parametrize("text", CLAIMS)
def test_a_model_touches_nothing_that_extensions_of_the_target_hold(
    fitted, forge, make_database, text: str
) -> None:
    """Attack: the name of a constraint, IF NOT EXISTS or OR REPLACE passes for making a relation.

    What stops it: only constraints that make an index count, and statements must make anew.
    """
    target = make_database()
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute(THEIRS)
        before = connection.execute(STATE).fetchone()
    model = fitted("CREATE TABLE t (i int PRIMARY KEY); INSERT INTO t VALUES (1)")

    def change(parts, header):
        parts["ddl/pre.sql"] += f"{text};\n".encode()

    with contextlib.suppress(ModelError):
        pipeline.load(forge(model, change), target)
    with psycopg.connect(target) as connection:
        assert connection.execute(STATE).fetchone() == before


def test_what_a_dump_writes_of_views_and_constraints_is_still_made() -> None:
    """No attack: a view in two steps, and a partition's index by the name of a constraint."""
    text = """CREATE TABLE public.t (a int CONSTRAINT positive CHECK (a > 0));
        CREATE VIEW public.v AS SELECT NULL::int AS a;
        CREATE OR REPLACE VIEW public.v AS SELECT a FROM public.t;
        ALTER TABLE public.t ADD CONSTRAINT t_key UNIQUE (a);
        ALTER INDEX public.t_key ATTACH PARTITION public.t_key"""
    assert allowed(text).left_out == ()


#: Autovacuum would run the functions too, but as the table's owner.
ONE = """ALTER TABLE person SET (autovacuum_enabled = off);
CREATE FUNCTION public.f(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1';"""
EVIL = f"CREATE OR REPLACE FUNCTION public.f(integer) RETURNS integer IMMUTABLE {sources.BODY}"
#: What the planner computes for every query that reads the table, and the log would tell of.
COMPUTED = {
    "an index": "CREATE INDEX ON person ((age + public.f(1)));",
    "an index's condition": "CREATE INDEX ON person (age) WHERE age > public.f(1);",
    "statistics": "CREATE STATISTICS public.st ON (age + public.f(1)), id FROM public.person;",
    "a part's index": "CREATE TABLE public.grown () INHERITS (person)"
    " WITH (autovacuum_enabled = off);"
    " CREATE INDEX ON public.grown ((age + public.f(1)));",
}


@pytest.mark.parametrize("attack", COMPUTED)
def test_tables_of_which_the_planner_runs_functions_of_the_owner_are_refused(
    attack: str,
    hostile: Callable[..., str],
    nothing_ran: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Door: a constant part of an expression in the source's catalog; nobody calls it by name.

    What stops it: the expressions are judged before a row of the table is read.
    """
    monkeypatch.setitem(sources.ATTACKS, attack, (ONE + COMPUTED[attack] + EVIL, "public"))
    source, config = hostile(attack), tmp_path / "c.toml"
    sources.run("inspect", source, "-o", config)
    model = ["-o", tmp_path / "m", "--ledger", tmp_path / "l"]
    for words in (
        ["check", config, source],
        ["plan", config, source, "--epsilon", 4],
        ["fit", source, "-c", config, "--epsilon", 4, *model],
        ["workload", "generate", source, "-o", tmp_path / "w.json", "--queries", 6],
    ):
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == 2, result.output
        assert "whoever reads it runs a function of users" in result.output
    assert not (tmp_path / "l").exists()


def test_checks_of_the_owner_are_not_computed_and_need_not_be_refused(
    hostile: Callable[..., str],
    nothing_ran: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Door: a CHECK with a constant part, and ``constraint_exclusion`` set for the database.

    What stops it: the sessions that read rows switch that off.
    """
    made = (
        "ALTER TABLE person ADD CHECK (age IS NOT NULL OR public.f(1) > 5) NOT VALID;"
        "ALTER DATABASE {database} SET constraint_exclusion = on;"
    )
    monkeypatch.setitem(sources.ATTACKS, "check", (ONE + made + EVIL, "public"))
    source, config = hostile("check"), tmp_path / "c.toml"
    sources.run("inspect", source, "-o", config)
    sources.run(
        "fit",
        source,
        "-c",
        config,
        "--epsilon",
        4,
        "-o",
        tmp_path / "m",
        "--ledger",
        tmp_path / "l",
    )
    sources.run("workload", "generate", source, "-o", tmp_path / "w.json", "--queries", 6)


def test_a_process_that_is_forked_while_a_thread_parses_goes_on() -> None:
    """Door: the parser's lock, which a fork copies as it is held. A long text holds it for seconds.

    What stops it: a forked process begins with a parser of its own.
    """
    thread = threading.Thread(target=statements, args=["SELECT 1;" * 15_000])
    thread.start()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        os._exit(0 if statements("SELECT 2")[0].text == "SELECT 2" else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
