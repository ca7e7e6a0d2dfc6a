"""Door: a workload that a stranger wrote, replayed on a source by a superuser. Attacks: queries.

Each attack is a SELECT, so neither the READ ONLY transaction nor the extended protocol stops it;
run with ``--trust-workload`` it does its work: it writes a file, or reads one, as the server's
user. What stops it otherwise: PostgreSQL's parser and the allow-list of `privbench.pgsql.judge`,
and the catalog, which tells where names lead and what runs unnamed (`privbench.workload.database`).
All of the workload is refused, and nothing of it runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from privbench.errors import UsageError
from privbench.postgres.embedded import Server
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import reading
from privbench.workload import Query, Workload, replay
from privbench.workload.capture.gather import reason_against
from privbench.workload.generators.database import DatabaseRows
from privbench.workload.rebind import Planner, rebind
from privbench.workload.safety import Trust

#: ``act`` writes the file of the attack; ``calm`` is immutable for all that the planner knows.
SETUP = """
CREATE FUNCTION public.act() RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN EXECUTE format('COPY (SELECT 1) TO %L', '{file}'); RETURN 'x'; END $$;
CREATE FUNCTION public.calm(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM public.act(); RETURN t; END $$;
CREATE FUNCTION public.sure(t text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM public.act(); RETURN true; END $$;
CREATE FUNCTION public.same(t text, u text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM public.act(); RETURN true; END $$;
CREATE TABLE public.victim (name text, n int);
INSERT INTO public.victim VALUES ('a', 1), ('b', 2);
"""


@dataclass(frozen=True)
class Attack:
    """The query, what the refusal says, and what makes it possible in the source."""

    query: str
    refused: str
    made: str = ""
    extension: str = ""
    needs: str = "SELECT 1"  # a query that fails where the attack cannot be
    writes: bool = True


WHERE = "'host=' || current_setting('unix_socket_directories') || ' dbname=' || current_database()"
DBLINK = f"({WHERE}, 'delete from victim')"
ATTACKS = {
    # Functions of the server that run SQL, act on files, sessions and settings.
    "ts_stat": Attack(
        "SELECT * FROM ts_stat('select to_tsvector(public.act())')", "it calls ts_stat"
    ),
    "query_to_xml": Attack(
        "SELECT query_to_xml('select public.act()', true, false, '')", "it calls query_to_xml"
    ),
    "ts_rewrite": Attack(
        "SELECT ts_rewrite('a'::tsquery,"
        " 'select ''a''::tsquery, plainto_tsquery(public.act()) where now() is not null')",
        "it calls ts_rewrite",
    ),
    "dblink by ts_stat": Attack(
        f"SELECT * FROM ts_stat($q$select to_tsvector(dblink_exec{DBLINK})$q$)",
        "it calls ts_stat",
        extension="dblink",
        writes=False,
    ),
    "crosstab": Attack(
        "SELECT * FROM crosstab('select public.act(), ''b'', ''c''') AS c(a text, b text)",
        "public.crosstab, a function of the extension tablefunc",
        extension="tablefunc",
    ),
    "escaped name": Attack(
        f'SELECT U&"\\0064blink_exec"{DBLINK}',
        "public.dblink_exec, a function of the extension dblink",
        extension="dblink",
        writes=False,
    ),
    "escaped name with a character of its own": Attack(
        "SELECT U&\"pg!005Fread_file\" UESCAPE '!' ('/etc/hostname')",
        "it calls pg_read_file",
        writes=False,
    ),
    "no-break space": Attack(
        "SELECT 1 \u00a0$$ , (SELECT public.act()) AS b --$$", "public.act, a function"
    ),
    "next line": Attack(
        "SELECT 1 \u0085$$ , (SELECT public.act()) AS b --$$", "public.act, a function"
    ),
    "line separator": Attack("SELECT 1 --\u2028 + 1\n, public.act()", "public.act, a function"),
    "nested comment": Attack("SELECT /* /* */ 1 -- */ public.act()", "public.act, a function"),
    "field that is a call": Attack(
        "SELECT ('/etc/hostname'::text).pg_read_file", "it selects pg_read_file", writes=False
    ),
    "field of a function's row": Attack(
        "SELECT g.pg_read_file FROM unnest(ARRAY['/etc/hostname']) g",
        "it selects pg_read_file",
        writes=False,
    ),
    "field that is a user's function": Attack(
        "SELECT v.secret FROM victim v",
        "public.secret, a function",
        "CREATE FUNCTION public.secret(victim) RETURNS text LANGUAGE sql AS 'SELECT public.act()'",
    ),
    "field that is a cast": Attack(
        "SELECT ('a'::text).trap",
        "the domain public.trap is not allowed",
        "CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE))",
    ),
    # Functions of users.
    "a user's function": Attack("SELECT public.act()", "public.act, a function"),
    "lateral": Attack("SELECT * FROM victim v, LATERAL public.act() a", "public.act, a function"),
    "rows from": Attack(
        "SELECT * FROM ROWS FROM (generate_series(1, 2), public.act()) AS r(a, b)",
        "public.act, a function",
    ),
    "values": Attack("VALUES (1, public.act())", "public.act, a function"),
    "limit": Attack("TABLE victim LIMIT length(public.act())", "public.act, a function"),
    "recursive": Attack(
        "WITH RECURSIVE w(i, t) AS (SELECT 1, 'x' UNION ALL SELECT i + 1, public.act() FROM w"
        " WHERE i < 2) SELECT * FROM w",
        "public.act, a function",
    ),
    "filter of a window": Attack(
        "SELECT count(*) FILTER (WHERE public.act() = 'x') OVER (ORDER BY n) FROM victim",
        "public.act, a function",
    ),
    "a sample's share": Attack(
        "SELECT * FROM victim TABLESAMPLE bernoulli (100 * length(public.act()))",
        "public.act, a function",
    ),
    "xmltable": Attack(
        "SELECT * FROM XMLTABLE('/a' PASSING XMLPARSE(DOCUMENT '<a>' || public.act() || '</a>')"
        " COLUMNS b text PATH '.')",
        "public.act, a function",
        needs="SELECT '<a/>'::xml",
    ),
    "json_table": Attack(
        "SELECT * FROM JSON_TABLE('[1]'::jsonb, '$[*]' PASSING public.act() AS x"
        " COLUMNS (b int PATH '$'))",
        "public.act, a function",
        needs="SELECT JSON_VALUE('[1]'::jsonb, '$[0]')",
    ),
    "name of a listed function": Attack(
        "SELECT upper(name, n) FROM victim",
        "public.upper, a function",
        "CREATE FUNCTION public.upper(text, int) RETURNS text LANGUAGE sql"
        " AS 'SELECT public.act()'",
    ),
    "aggregate": Attack(
        "SELECT public.total(name) FROM victim",
        "public.total, a function",
        "CREATE FUNCTION public.step(text, text) RETURNS text LANGUAGE sql"
        " AS 'SELECT public.act()'; CREATE AGGREGATE public.total(text)"
        " (SFUNC = public.step, STYPE = text)",
    ),
    "a user's function as an extension's": Attack(
        "SELECT public.akeys(1)",
        "public.akeys, a function",
        "CREATE ROLE {role}; CREATE FUNCTION public.akeys(int) RETURNS text LANGUAGE sql AS"
        " 'SELECT public.act()'; ALTER FUNCTION public.akeys(int) OWNER TO {role};"
        " ALTER EXTENSION hstore ADD FUNCTION public.akeys(int)",
        extension="hstore",
    ),
    # Operators, casts and types.
    "range": Attack(
        "SELECT r(1, 2)",
        "the type public.r runs public.gap",
        "CREATE FUNCTION public.gap(float8, float8) RETURNS float8 LANGUAGE plpgsql"
        " IMMUTABLE AS 'BEGIN RETURN 0; END'; CREATE TYPE public.r AS RANGE (subtype = float8,"
        " subtype_diff = public.gap)",
        writes=False,
    ),
    "operator": Attack(
        "SELECT 'a'::text ==> 'b'::text",
        "operator public.==>, which runs public.same",
        "CREATE OPERATOR public.==> (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same)",
    ),
    "operator of a server's function": Attack(
        "SELECT !!! '/etc/hostname'",
        "operator public.!!!, which runs pg_catalog.pg_read_file",
        "CREATE OPERATOR public.!!! (RIGHTARG = text, FUNCTION = pg_catalog.pg_read_file)",
        writes=False,
    ),
    "better operator": Attack(
        "SELECT count(*) FROM victim WHERE n = name",
        "operator public.=, which runs public.equal",
        "CREATE FUNCTION public.equal(int, text) RETURNS boolean LANGUAGE sql"
        " AS 'SELECT public.act() IS NOT NULL'; CREATE OPERATOR public.= (LEFTARG = int,"
        " RIGHTARG = text, FUNCTION = public.equal)",
    ),
    "operator that is not written": Attack(
        "SELECT CASE n WHEN 'a'::text THEN 1 END FROM victim",
        "operator public.=, which runs public.equal",
        "CREATE FUNCTION public.equal(int, text) RETURNS boolean LANGUAGE sql"
        " AS 'SELECT public.act() IS NOT NULL'; CREATE OPERATOR public.= (LEFTARG = int,"
        " RIGHTARG = text, FUNCTION = public.equal)",
    ),
    "cast that is not written": Attack(
        "SELECT length(kind) FROM kinds",
        "the cast from public.kind to text, which runs public.spell",
        "CREATE TYPE public.kind AS ENUM ('a'); CREATE FUNCTION public.spell(public.kind)"
        " RETURNS text LANGUAGE sql AS 'SELECT public.act()'; CREATE CAST (public.kind AS text)"
        " WITH FUNCTION public.spell(public.kind) AS IMPLICIT;"
        " CREATE TABLE public.kinds AS SELECT 'a'::public.kind AS kind",
    ),
    "domain": Attack(
        "SELECT 'a'::trap",
        "the domain public.trap is not allowed: it may call public.sure",
        "CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE))",
    ),
    "domain named like a listed function": Attack(
        "SELECT lower(5)",
        "the domain public.lower is not allowed",
        "CREATE DOMAIN public.lower AS text CHECK (public.sure(VALUE))",
    ),
    "domain in a row": Attack(
        "SELECT ROW('a')::pair",
        "the domain public.trap is not allowed",
        "CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));"
        " CREATE TYPE public.pair AS (t public.trap)",
    ),
    "domain that is not named": Attack(
        "SELECT array_append(array_agg(t), 'b') FROM traps",
        "the domain public.trap is not allowed",
        "CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));"
        " CREATE TABLE public.traps (t public.trap)",
    ),
    # What reading a relation runs.
    "view": Attack(
        "SELECT * FROM outer_view",
        "the view public.outer_view is not allowed: the view public.inner_view is not allowed:"
        " it may call public.act",
        "CREATE VIEW public.inner_view AS SELECT public.act(); CREATE VIEW public.outer_view AS"
        " SELECT * FROM public.inner_view",
    ),
    "view under a query's name": Attack(
        "SELECT * FROM (WITH w AS (SELECT 1) SELECT * FROM w) AS a, w",
        "the view public.w is not allowed",
        "CREATE VIEW public.w AS SELECT public.act()",
    ),
    "view with a server's function": Attack(
        "SELECT * FROM v",
        "the view public.v is not allowed: it calls pg_read_file",
        "CREATE VIEW public.v AS SELECT pg_read_file('/etc/hostname')",
        writes=False,
    ),
    "view whose operator is not written": Attack(
        "SELECT * FROM v",
        "operator public.=, which runs public.equal",
        "CREATE FUNCTION public.equal(int, text) RETURNS boolean LANGUAGE sql"
        " AS 'SELECT public.act() IS NOT NULL'; CREATE OPERATOR public.= (LEFTARG = int,"
        " RIGHTARG = text, FUNCTION = public.equal); CREATE VIEW public.v AS"
        " SELECT NULLIF(n, name) FROM public.victim",
    ),
    "policy": Attack(
        "SELECT * FROM v",
        "the policy p of public.victim is not allowed",
        "CREATE ROLE {role}; GRANT ALL ON public.victim TO {role};"
        " GRANT pg_write_server_files TO {role}; ALTER TABLE public.victim ENABLE ROW LEVEL"
        " SECURITY; CREATE POLICY p ON public.victim USING (public.act() IS NOT NULL);"
        " CREATE VIEW public.v AS SELECT * FROM public.victim; ALTER VIEW public.v OWNER TO {role}",
    ),
    "index": Attack(
        "SELECT count(*) FROM victim",
        "the index i of public.victim is not allowed: it may call public.calm",
        "CREATE INDEX i ON public.victim ((public.calm('x') || name))",
    ),
    "index on what folds": Attack(
        "SELECT count(*) FROM victim",
        "the index i of public.victim is not allowed",
        "CREATE INDEX i ON public.victim (public.calm(CASE WHEN true THEN 'x' ELSE name END))",
    ),
    "index on SQL": Attack(
        "SELECT count(*) FROM victim",
        "the index i of public.victim is not allowed: it may call public.wrap",
        "CREATE FUNCTION public.wrap(t text) RETURNS text LANGUAGE sql IMMUTABLE AS"
        " $$ SELECT public.calm('x') || t $$; CREATE INDEX i ON public.victim (public.wrap(name))",
    ),
    "partial index": Attack(
        "SELECT count(*) FROM victim",
        "the index i of public.victim is not allowed",
        "CREATE INDEX i ON public.victim (name) WHERE public.sure('x')",
    ),
    "CHECK of a child": Attack(
        "SELECT count(*) FROM victim WHERE n = 1",
        "the constraint c of public.child is not allowed",
        "CREATE TABLE public.child (CONSTRAINT c CHECK (public.sure('x') AND n > 0))"
        " INHERITS (public.victim)",
    ),
    "partition key": Attack(
        "SELECT count(*) FROM parts",
        "the partition key of public.parts is not allowed",
        "CREATE TABLE public.parts (name text) PARTITION BY LIST ((public.calm('x') || name));"
        " CREATE TABLE public.part PARTITION OF public.parts FOR VALUES IN ('xa')",
    ),
    "statistics": Attack(
        "SELECT count(*) FROM victim",
        "the statistics s of public.victim is not allowed",
        "CREATE STATISTICS public.s ON (public.calm('x') || name), n FROM public.victim",
    ),
}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the server may write in, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="privbench-attack-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def source(
    each_server: Server, make_database_on: Callable[..., str], open_folder: Path
) -> Callable[[Attack], tuple[str, Path]]:
    """``source(attack)``: a database that the attack is possible in, and the file it would make."""

    def made(attack: Attack) -> tuple[str, Path]:
        file = open_folder / "written"
        dsn = make_database_on(each_server)
        role = f"role_{psycopg.conninfo.conninfo_to_dict(dsn)['dbname']}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            if attack.extension:
                try:
                    connection.execute(f"CREATE EXTENSION {attack.extension}".encode())
                except psycopg.Error:
                    pytest.skip(f"this server does not have {attack.extension}")
            try:
                connection.execute(attack.needs.encode())
            except psycopg.Error:
                pytest.skip(f"{each_server.name} has no such clause")
            connection.execute(SETUP.replace("{file}", str(file)).encode())
            connection.execute(attack.made.replace("{role}", role).encode())
        file.unlink(missing_ok=True)
        return dsn, file

    return made


def _run(dsn: str, query: str, trust: Trust = Trust()) -> str:  # noqa: B008
    workload = Workload("theirs", (Query("q1", "SELECT 1"), Query("q2", query)))
    found = replay(workload, {"source": dsn}, repeats=1, warmup=0, trust=trust)
    return found.results[1].answers["source"].status


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_and_only_trust_lets_it_happen(
    source: Callable[[Attack], tuple[str, Path]], name: str
) -> None:
    attack = ATTACKS[name]
    dsn, file = source(attack)
    with pytest.raises(UsageError, match=r"query q\d of workload theirs") as refusal:
        _run(dsn, attack.query)
    assert attack.refused in refusal.value.message
    assert not file.exists()
    status = _run(dsn, attack.query, Trust(workload=True))
    # Or it is no attack at all.
    assert file.exists() if attack.writes else status == "ok"


#: Queries that only read, whatever the source holds beside.
CALM = {
    "an index on a column's function": (
        "CREATE INDEX i ON public.victim (public.calm(name))", "SELECT count(*) FROM victim"),
    "a CHECK of a column": (
        "ALTER TABLE public.victim ADD CHECK (name IS NULL OR n > 0)",
        "SELECT count(*) FROM victim WHERE n = 1"),
    "a generated column and a default": (
        "ALTER TABLE public.victim ADD m text DEFAULT public.act(),"
        " ADD g text GENERATED ALWAYS AS (public.calm(name)) STORED",
        "SELECT count(g), count(m) FROM victim"),
    "a column with a function's name": (
        "CREATE FUNCTION public.n(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SELECT v.n, v.name FROM victim v"),
    "a policy that does not hold for the role": (
        "ALTER TABLE public.victim ENABLE ROW LEVEL SECURITY;"
        " CREATE POLICY p ON public.victim USING (public.act() IS NOT NULL)",
        "SELECT count(*) FROM victim"),
    "types, domains, collations and views of its own": (
        "CREATE TYPE public.kind AS ENUM ('a'); CREATE DOMAIN public.nat AS int CHECK (VALUE > 0);"
        " CREATE COLLATION public.plain FROM \"C\"; CREATE TYPE public.pair AS (a nat, b kind);"
        " CREATE TYPE public.span AS RANGE (subtype = float8); CREATE VIEW public.v AS"
        " SELECT lower(name COLLATE public.plain) AS name, sum(n) OVER () FROM public.victim;"
        " CREATE MATERIALIZED VIEW public.m AS SELECT public.act() AS stored",
        "SELECT 'a'::kind, 1::nat, ROW(1, 'a')::pair, '[1,2]'::span, stored"
        " FROM v, m ORDER BY name COLLATE plain"),
    "catalogs and sequences": (
        "CREATE SEQUENCE public.s",
        "SELECT count(*), max(last_value) FROM pg_catalog.pg_class, s, pg_stat_activity a,"
        " information_schema.tables t WHERE a.pid IS NOT NULL AND t.table_name <> ''"),
    "an operator, a cast and a view that go by allowed functions": (
        "CREATE OPERATOR public.==> (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same);"
        " CREATE TYPE public.k AS ENUM ('a'); CREATE FUNCTION public.spell(public.k) RETURNS text"
        " LANGUAGE sql AS $$ SELECT 'k' $$; CREATE CAST (public.k AS text) WITH FUNCTION"
        " public.spell(public.k) AS IMPLICIT; CREATE VIEW public.v AS SELECT public.act()",
        "SELECT length('a'::k), 'a' ==> 'b', pg_sleep(0) FROM v"),
}  # fmt: skip
ALLOWED = ["public.same", "public.spell", "public.act", "pg_catalog.pg_sleep"]


@pytest.mark.parametrize("name", CALM)
def test_what_only_reads_still_runs(
    source: Callable[[Attack], tuple[str, Path]], name: str
) -> None:
    made, query = CALM[name]
    dsn, file = source(Attack(query, "", made))
    allowed = "allowed" in name
    file.unlink(missing_ok=True)
    assert _run(dsn, query, Trust.of(ALLOWED) if allowed else Trust()) == "ok"
    assert file.exists() == allowed


def test_functions_of_listed_and_allowed_extensions_may_be_called(
    source: Callable[[Attack], tuple[str, Path]],
) -> None:
    query = "SELECT similarity('a', 'b'), 'a'::text % 'b', normal_rand(1, 0, 1) FROM victim"
    dsn, _ = source(Attack(query, "", "CREATE EXTENSION pg_trgm", extension="tablefunc"))
    with pytest.raises(UsageError, match=r"public\.normal_rand, a function of the extension"):
        _run(dsn, query)
    assert _run(dsn, query, Trust.of(extensions=["tablefunc"])) == "ok"
    with pytest.raises(UsageError, match=r"form schema\.name"):
        Trust.of(["act"])


def test_a_strong_role_is_warned_of_by_name(
    source: Callable[[Attack], tuple[str, Path]],
) -> None:
    dsn, _ = source(Attack("SELECT 1", ""))
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"CREATE ROLE weak_{name} LOGIN; CREATE ROLE files_{name} LOGIN CREATEROLE;"
            f" GRANT pg_read_server_files TO files_{name}".encode()
        )
        owner = connection.info.user
    workload = Workload("theirs", (Query("q1", "SELECT 1"),))
    sides = {
        user: replay(
            workload, {"source": psycopg.conninfo.make_conninfo(dsn, user=user)}, repeats=1
        ).sides["source"]
        for user in (owner, f"files_{name}", f"weak_{name}")
    }
    strong, files, weak = sides.values()
    assert f"the role {owner}, which has SUPERUSER" in strong.warning
    assert files.powers == ("CREATEROLE", "pg_read_server_files")
    assert (weak.role, weak.warning) == (f"weak_{name}", "")


def test_a_table_with_a_foreign_part_is_not_read(
    source: Callable[[Attack], tuple[str, Path]],
) -> None:
    made = (
        "CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;"
        " CREATE FOREIGN TABLE public.host (name text, n int) INHERITS (public.victim)"
        " SERVER files OPTIONS (program 'echo a')"
    )
    try:
        dsn, _ = source(Attack("TABLE victim", "", made))
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server does not have file_fdw")
    with pytest.raises(UsageError, match=r"public\.host, which is neither a table nor a view"):
        _run(dsn, "SELECT * FROM victim")
    assert _run(dsn, "SELECT * FROM ONLY victim", Trust(workload=True)) == "ok"


def test_captured_and_rebound_queries_may_call_functions_of_users_once_they_are_allowed(
    source: Callable[[Attack], tuple[str, Path]],
) -> None:
    query = "SELECT count(*) FROM victim WHERE public.calm('secret') <> name"
    assert reason_against(query) is None
    assert reason_against("SELECT pg_read_file(name) FROM victim") == "it calls pg_read_file"
    dsn, file = source(Attack(query, ""))
    workload = Workload("captured", (Query("q0", "SELECT n FROM victim"), Query("q1", query)))
    with reading(dsn) as clone:
        for functions, left_out in ((), {"q1": "it calls public.calm"}), (["public.calm"], {}):
            found = rebind(
                workload,
                introspect(clone),
                DatabaseRows(clone, 0),
                planner=Planner(clone),
                trust=Trust.of(functions),
            )
            assert found.left_out == left_out
            # The planner computes what it is asked to explain.
            assert file.exists() == (not left_out)
