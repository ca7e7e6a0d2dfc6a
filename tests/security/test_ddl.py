"""Door: the DDL of a model that a stranger made. Attack: a statement does more than make a schema.

What stops every attack of this file: PostgreSQL's own parser reads the DDL, and each kind of
statement, each kind of node and each name must be on an allow-list (`privbench.pgsql`). What rows
can do without is left out by name; anything else refuses the model before a connection is made.
"""

from __future__ import annotations

import contextlib

import market
import psycopg
import pytest

from privbench import pipeline
from privbench.errors import DatabaseError, ModelError
from privbench.pgsql.ddl import allowed
from privbench.postgres.connect import connect
from privbench.postgres.ddl import dump_ddl, dumped
from privbench.postgres.introspect import introspect

TABLE = "CREATE TABLE public.t (a int, b text); "
MATVIEW = "CREATE MATERIALIZED VIEW public.m AS {} WITH NO DATA"

#: Attack, and what the refusal says: nothing of the model is run.
REFUSED = {
    # Calls within what rows cannot do without.
    r"""CREATE TABLE public.x (a text DEFAULT public.U&"\0064blink_exec"('DROP TABLE y'))""": (
        "calls public.dblink_exec"
    ),
    r"""CREATE TABLE public.x (a int CHECK (U&"lo\005fimport"('/etc/passwd') > 0))""": "lo_import",
    "CREATE TABLE public.x (a text GENERATED ALWAYS AS (pg_read_file('/etc/passwd')) STORED)": (
        "calls pg_read_file"
    ),
    "CREATE TABLE public.x (a text DEFAULT ('/etc/hostname'::text).pg_read_file)": (
        "selects pg_read_file"
    ),
    "CREATE TABLE public.x (a text DEFAULT (pg_catalog.textcat('/etc/', 'x')).\"pg_read_file\")": (
        "selects pg_read_file"
    ),
    "CREATE TABLE public.x (a text DEFAULT CAST('a' AS text) OPERATOR(public.|||) 'b')": (
        "uses the operator public.|||"
    ),
    "CREATE TABLE public.x (a int DEFAULT TREAT('x' AS pg_read_file))": "calls pg_catalog.pg_read",
    "CREATE TABLE public.x (a int DEFAULT nextval('public.of_the_target'))": "calls nextval",
    "CREATE TABLE public.x (a int DEFAULT nextval(('pg_' || 'x')::regclass))": "calls nextval",
    "CREATE TABLE public.x (a int DEFAULT set_config('role', 'me', false)::int)": "set_config",
    "CREATE TABLE public.x (a text DEFAULT current_setting('ssl_passphrase_command'))": "current_s",
    "CREATE DOMAIN public.d AS text CHECK (pg_catalog.query_to_xml(VALUE, true, true, '') = '')": (
        "query_to_xml"
    ),
    "CREATE TYPE public.r AS RANGE (subtype = text, subtype_diff = public.evil)": "as subtype_diff",
    "CREATE TYPE public.r AS RANGE (subtype = text, canonical = public.evil)": "as canonical",
    "CREATE TABLE public.x (a int) USING evil": "access method evil",
    "CREATE TABLE public.x (a text COLLATE public.evil)": "collation public.evil",
    "CREATE TABLE public.x (a public.evil)": "type public.evil",
    "ALTER SEQUENCE public.of_the_target OWNED BY public.t.a": "public.of_the_target, which",
    "CREATE TABLE public.x (a int) PARTITION BY RANGE (public.evil(a))": "calls public.evil",
    "CREATE TABLE public.x (a int) PARTITION BY RANGE (a public.evil_ops)": "operator class",
    # Objects that the model does not make, or must not.
    "CREATE TABLE public.x (LIKE pg_catalog.pg_authid)": "TableLikeClause",
    "CREATE TABLE public.x () INHERITS (pg_catalog.pg_authid)": "reads pg_catalog.pg_authid",
    "CREATE TABLE public.x (a oid REFERENCES pg_catalog.pg_authid)": "reads pg_catalog.pg_authid",
    "CREATE TABLE pg_catalog.pg_authid (a int)": "no schema of its own",
    "CREATE TABLE other.x (a int)": "no schema of its own",
    "CREATE TABLE x (a int)": "no schema of its own",
    "CREATE TABLE postgres.public.x (a int)": "no schema of its own",
    "CREATE TEMP TABLE pg_authid (a int)": "no schema of its own",
    "CREATE TABLE pg_temp.x (a int)": "no schema of its own",
    "CREATE TEMPORARY VIEW public.x AS SELECT 1": "temporary",
    "CREATE SCHEMA pg_evil": "otherwise than a dump does",
    "CREATE SCHEMA information_schema": "otherwise than a dump does",
    "CREATE SCHEMA z GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_catalog TO PUBLIC": "otherwise",
    "CREATE SCHEMA z AUTHORIZATION postgres": "otherwise than a dump does",
    "CREATE SCHEMA z CREATE TABLE x (a int)": "otherwise than a dump does",
    "CREATE VIEW pg_catalog.pg_shadow AS SELECT 1": "no schema of its own",
    "CREATE SEQUENCE pg_catalog.s": "no schema of its own",
    TABLE + "ALTER TABLE public.t ALTER a ADD GENERATED ALWAYS AS IDENTITY"
    " (SEQUENCE NAME pg_catalog.s)": "no schema of its own",
    TABLE + "CREATE INDEX i ON public.t (a) TABLESPACE evil": "tablespace",
    "CREATE TABLE public.x (a int) TABLESPACE evil": "tablespace",
    "CREATE TABLE public.x (a int) ON COMMIT DROP": "otherwise than a dump does",
    # Statements that no schema needs.
    "ALTER TYPE pg_catalog.int4 OWNER TO postgres": "AlterOwnerStmt",
    TABLE + "ALTER TABLE public.t OWNER TO postgres": "AT_ChangeOwner",
    TABLE + "ALTER TABLE public.t ADD COLUMN c text DEFAULT pg_read_file('x')": "as no dump does",
    TABLE + "ALTER TABLE public.t ALTER a TYPE text USING pg_read_file('x')": "as no dump does",
    "CREATE TABLE public.x AS SELECT 1": "fills a table by a query",
    "SELECT 1 INTO public.x": "SelectStmt",
    "SELECT pg_catalog.lo_export(1, '/tmp/x')": "SelectStmt",
    "COPY public.t TO PROGRAM 'sh'": "CopyStmt",
    "DO $$ BEGIN PERFORM 1; END $$": "DoStmt",
    "CALL public.evil()": "CallStmt",
    "ALTER SYSTEM SET archive_command = 'sh'": "AlterSystemStmt",
    "ALTER DATABASE postgres SET search_path = evil": "AlterDatabaseSetStmt",
    "ALTER ROLE postgres SET search_path = evil": "AlterRoleSetStmt",
    "CREATE ROLE me SUPERUSER": "CreateRoleStmt",
    "GRANT pg_execute_server_program TO me": "GrantRoleStmt",
    "GRANT ALL ON SCHEMA public TO me": "GrantStmt",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO me": "AlterDefaultPrivilegesStmt",
    "CREATE SERVER s FOREIGN DATA WRAPPER w": "CreateForeignServerStmt",
    "CREATE USER MAPPING FOR me SERVER s OPTIONS (password 'x')": "CreateUserMappingStmt",
    "CREATE FOREIGN TABLE public.f (a int) SERVER s": "CreateForeignTableStmt",
    "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f()": "CreateEventTrigStmt",
    "CREATE SUBSCRIPTION s CONNECTION 'host=evil' PUBLICATION p": "CreateSubscriptionStmt",
    "CREATE PUBLICATION p FOR ALL TABLES": "CreatePublicationStmt",
    "SECURITY LABEL ON TABLE public.t IS 'x'": "SecLabelStmt",
    "COMMENT ON TABLE public.t IS 'x'": "CommentStmt",
    "LOAD 'evil'": "LoadStmt",
    "PREPARE p AS SELECT 1": "PrepareStmt",
    "EXPLAIN ANALYZE SELECT 1": "ExplainStmt",
    "DROP TABLE public.t": "DropStmt",
    "TRUNCATE public.t": "TruncateStmt",
    "LOCK TABLE public.t": "LockStmt",
    "COMMIT": "TransactionStmt",
    "SET ROLE postgres": "sets role",
    "RESET ROLE": "sets role",
    "SET session_replication_role = replica": "sets session_replication_role",
    "SET LOCAL default_tablespace = ''": "sets default_tablespace",
    "SET default_tablespace = 'mine'": "sets default_tablespace",
    "SET default_table_access_method = evil": "sets default_table_access_method",
    "CREATE EXTENSION citext VERSION '1.0' SCHEMA public": "otherwise than a dump does",
    "CREATE EXTENSION earthdistance WITH SCHEMA public CASCADE": "otherwise than a dump does",
    # Texts that two readers read in two ways.
    "CREATE TABLE public.x (a int DEFAULT 1\u00a0$$ , lo_import('/x') AS b --$$)": "\u00a0",
    "CREATE TABLE public.x (a int);\u2028COPY t TO PROGRAM 'sh'": "\u2028",
    "CREATE TABLE public.x (a int DEFAULT 0x1F)": "0x1F is a number that not all servers know",
    "CREATE TABLE public.x (a int DEFAULT 1_000)": "1_000 is a number that not all servers know",
    'CREATE TABLE public."' + "x" * 64 + '" (a int)': "a name is longer than 63 bytes",
    "CREATE TABLE public.x (a text DEFAULT 'open)": "unterminated quoted string",
    "\\! touch /tmp/x\nCREATE TABLE public.x (a int)": "syntax error",
    "CREATE TABLE public.foo$a$ (i int); COPY t TO PROGRAM 'sh'; -- $a$": "CopyStmt",
    "CREATE TABLE public.x (a int); -- x\rCOPY t TO PROGRAM 'sh';": "CopyStmt",
    r"CREATE TABLE public.x (a text DEFAULT '\'); COPY t TO PROGRAM 'sh'; --')": "CopyStmt",
    "CREATE TABLE public.x (a text DEFAULT E'a'\n'\\''); CREATE TABLE smuggled (i int); --')": (
        "smuggled, which lies in no schema"
    ),
    # Texts that are too much for a parser.
    "CREATE VIEW public.x AS SELECT " + "||".join("a" * 60_000): "tokens",
    "CREATE VIEW public.x AS SELECT " + "(" * 30_000 + "1" + ")" * 30_000: "memory exhausted",
    "CREATE VIEW public.x AS SELECT '" + "x" * (1 << 20) + "'": "longer than",
}

#: Attack, and why it is left out: everything else of the model is made.
LEFT_OUT = {
    MATVIEW.format("SELECT * FROM ts_stat('select lo_export(1, ''/tmp/x'')::text')"): "ts_stat",
    MATVIEW.format("SELECT ts_rewrite('a'::tsquery, 'select ...')"): "calls ts_rewrite",
    MATVIEW.format("SELECT * FROM public.crosstab('select ...') AS (a int)"): "public.crosstab",
    MATVIEW.format("SELECT table_to_xml('pg_catalog.pg_authid', true, true, '')"): "table_to_xml",
    MATVIEW.format("SELECT rolpassword FROM pg_catalog.pg_authid"): "reads pg_catalog.pg_authid",
    MATVIEW.format("SELECT rolpassword FROM pg_authid"): "reads pg_authid",
    MATVIEW.format("SELECT * FROM public.of_the_target"): "reads public.of_the_target",
    MATVIEW.format(
        "SELECT a FROM (WITH pg_authid AS (SELECT 1 AS a) SELECT a FROM pg_authid) x, pg_authid"
    ): "reads pg_authid",
    MATVIEW.format("SELECT g.pg_read_file FROM unnest(ARRAY['/etc/passwd']) AS g"): "pg_read_file",
    MATVIEW.format(
        "SELECT g.pg_ls_dir FROM (VALUES ('/etc')) AS x(pg_ls_dir), unnest(ARRAY['/']) g"
    ): ("selects pg_ls_dir"),
    MATVIEW.format(
        "SELECT g.pg_made_later FROM unnest(ARRAY['/']) g, (SELECT 1 AS pg_made_later) x"
    ): ("selects pg_made_later"),
    MATVIEW.format("SELECT (row_to_json(g)).lo_import FROM generate_series(1, 2) g"): "lo_import",
    MATVIEW.format("SELECT 1 ORDER BY 1 USING OPERATOR(public.<<<)"): "operator public.<<<",
    MATVIEW.format("SELECT 1 WHERE 1 OPERATOR(public.=) ANY (SELECT 1)"): "operator public.=",
    MATVIEW.format("SELECT a FROM public.t TABLESAMPLE public.evil(1)"): "samples by public.evil",
    MATVIEW.format("SELECT a FROM public.t FOR UPDATE"): "LockingClause",
    MATVIEW.format("WITH x AS (DELETE FROM public.t RETURNING a) SELECT a FROM x"): "DeleteStmt",
    MATVIEW.format(
        "WITH x AS (INSERT INTO public.t VALUES (1) RETURNING a) SELECT 1"
    ): "InsertStmt",
    MATVIEW.format("SELECT sum(a) FILTER (WHERE pg_sleep(9) IS NULL) FROM public.t"): "pg_sleep",
    MATVIEW.format("SELECT sum(a) OVER (ORDER BY lo_unlink(1)) FROM public.t"): "calls lo_unlink",
    MATVIEW.format("SELECT 1 FROM public.t, LATERAL pg_ls_dir(b) x"): "calls pg_ls_dir",
    MATVIEW.format(
        "SELECT * FROM ROWS FROM (pg_ls_dir('/'), generate_series(1, 2)) x"
    ): "pg_ls_dir",
    MATVIEW.format("SELECT 1 LIMIT pg_advisory_lock(1)::text::int"): "calls pg_advisory_lock",
    MATVIEW.format("SELECT 1 GROUP BY GROUPING SETS ((lo_creat(1)))"): "calls lo_creat",
    MATVIEW.format("VALUES (pg_reload_conf())"): "calls pg_reload_conf",
    MATVIEW.format("SELECT 1 UNION SELECT pg_terminate_backend(1)::int"): "pg_terminate_backend",
    MATVIEW.format("SELECT xmlelement(name a, database_to_xml(true, true, ''))"): "database_to_xml",
    MATVIEW.format(
        "SELECT x.a FROM XMLTABLE('/a' PASSING query_to_xml('select 1', true, true, '')"
        " COLUMNS a text) x"
    ): "calls query_to_xml",
    MATVIEW.format("SELECT JSON_VALUE(pg_read_file('x')::jsonb, '$.a')"): "calls pg_read_file",
    MATVIEW.format("SELECT 'x'::public.of_the_target"): "type public.of_the_target",
    MATVIEW.format("SELECT 'x' LIKE 'y' ESCAPE public.evil()"): "calls public.evil",
    MATVIEW.format("SELECT x FROM generate_series(1, 2) x ORDER BY x COLLATE public.evil"): (
        "collation public.evil"
    ),
    MATVIEW.format("SELECT $1::int"): "ParamRef",
    "CREATE VIEW public.v AS SELECT pg_read_file('/etc/passwd')": "calls pg_read_file",
    "CREATE VIEW public.v WITH (evil = 1) AS SELECT 1": "sets the option evil",
    "CREATE INDEX i ON public.t (public.evil(b))": "calls public.evil",
    "CREATE INDEX i ON public.t (b public.evil_ops)": "operator class public.evil_ops",
    "CREATE INDEX i ON public.t USING evil (b)": "access method evil",
    "CREATE INDEX i ON public.t (a) WHERE dblink_exec('x') = b": "calls dblink_exec",
    "CREATE INDEX i ON public.of_the_target (a)": "public.of_the_target, which",
    "CREATE STATISTICS public.s ON (pg_read_file(b)), a FROM public.t": "calls pg_read_file",
    "CREATE POLICY p ON public.t USING (public.evil())": "calls public.evil",
    "CREATE POLICY p ON pg_catalog.pg_authid USING (true)": "pg_catalog.pg_authid, which",
    "ALTER TABLE public.t ADD CHECK (public.evil(a))": "calls public.evil",
    "ALTER TABLE public.t ALTER a SET DEFAULT lo_import('/etc/passwd')": "calls lo_import",
    "ALTER TABLE public.t ADD EXCLUDE USING gist (a WITH OPERATOR(public.&&))": "public.&&",
    "ALTER TABLE public.t ADD FOREIGN KEY (a) REFERENCES pg_catalog.pg_authid": "pg_authid",
    "ALTER TABLE public.t ATTACH PARTITION public.of_the_target DEFAULT": "public.of_the_target",
    "ALTER TABLE public.t SET (evil = 1)": "sets the option evil",
    "ALTER TABLE pg_catalog.pg_authid ENABLE ROW LEVEL SECURITY": "pg_catalog.pg_authid, which",
    "ALTER VIEW pg_catalog.pg_shadow ALTER usename SET DEFAULT 'x'": "pg_catalog.pg_shadow, which",
    "CREATE EXTENSION dblink WITH SCHEMA public": "none of the extensions",
    "CREATE EXTENSION plpython3u WITH SCHEMA public": "none of the extensions",
    "CREATE EXTENSION citext WITH SCHEMA pg_catalog": "puts an extension into pg_catalog",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'": "defines a function",
    "CREATE OR REPLACE FUNCTION pg_catalog.lower(text) RETURNS text LANGUAGE sql AS ''": "function",
    "CREATE PROCEDURE public.f() LANGUAGE sql AS ''": "defines a function",
    "CREATE AGGREGATE public.f(int) (sfunc = int4pl, stype = int)": "defines an aggregate",
    "CREATE OPERATOR public.=== (leftarg = int, rightarg = int, procedure = f)": "an operator",
    "CREATE CAST (int AS text) WITH FUNCTION f(int) AS IMPLICIT": "defines a cast",
    "CREATE OPERATOR CLASS public.c DEFAULT FOR TYPE int USING btree AS OPERATOR 1 <": "class",
    "CREATE TYPE public.evil (INPUT = array_in, OUTPUT = array_out)": "a base type",
    "CREATE LANGUAGE evil HANDLER f": "a language",
    "CREATE ACCESS METHOD evil TYPE INDEX HANDLER f": "an access method",
    "CREATE TRIGGER g BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION f()": "a trigger",
    "CREATE RULE r AS ON INSERT TO public.t DO ALSO NOTIFY x": "a rule",
    "ALTER TABLE public.t ENABLE ALWAYS TRIGGER g": "switches a trigger",
    "CREATE TEXT SEARCH TEMPLATE public.x (lexize = f)": "a text search template",
    "CREATE TEXT SEARCH DICTIONARY public.d (TEMPLATE = public.evil)": "template public.evil",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_statement_that_refuses_the_model(text):
    with pytest.raises(ModelError) as caught:
        allowed(TABLE, text)
    assert REFUSED[text] in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", LEFT_OUT)
def test_a_statement_that_is_left_out_and_named(text):
    judged = allowed(TABLE, text)
    assert judged.parts[1] == ()
    (line,) = judged.left_out
    assert LEFT_OUT[text] in line


def test_what_was_left_out_takes_along_what_stands_on_it():
    """Attack: an object is left out, and one of that name in the target is used instead."""
    judged = allowed(
        TABLE + "CREATE VIEW public.v AS SELECT pg_read_file('x') AS a;"
        "CREATE VIEW public.w AS SELECT a FROM public.v;"
        "CREATE FUNCTION public.lower(text) RETURNS text LANGUAGE sql AS '';"
        "CREATE INDEX i ON public.t (public.lower(b));"
        "ALTER INDEX public.i ATTACH PARTITION public.i"
    )
    assert [found.tree.kind for found in judged.parts[0]] == ["CreateStmt"]
    assert len(judged.left_out) == 5


@pytest.fixture(scope="module")
def small(fitted):
    """The model of a table of one row."""
    return fitted("CREATE TABLE t (i int PRIMARY KEY); INSERT INTO t VALUES (1)")


def adding(text, member="ddl/pre.sql"):
    """A change that adds a statement to a model's DDL."""
    return lambda parts, header: parts.update({member: parts[member] + f"{text};\n".encode()})


@pytest.mark.parametrize("member", ["ddl/pre.sql", "ddl/post.sql"])
def test_a_refused_model_is_refused_before_a_connection_is_made(small, forge, member):
    """Attack: the same statements within a model's file."""
    forged = forge(small, adding("COPY public.t TO PROGRAM 'sh'", member))
    with pytest.raises(ModelError, match="CopyStmt"):
        pipeline.load(forged, "host=/nowhere")


#: What of the issue's attacks a server with dblink and tablefunc would carry out.
CARRIED_OUT = [
    "CREATE MATERIALIZED VIEW public.m AS SELECT * FROM"
    " ts_stat($$select to_tsvector(public.dblink_exec('dbname=' || current_database(), '{}'))$$)"
    " WITH NO DATA",
    "CREATE MATERIALIZED VIEW public.m AS SELECT * FROM public.crosstab($$select 'a'::text,"
    " 'b'::text, public.dblink_exec('dbname=' || current_database(), '{}')$$) AS (x text, y text)"
    " WITH NO DATA",
    "CREATE MATERIALIZED VIEW public.m AS SELECT"
    r""" public.U&"\0064blink_exec"('dbname=' || current_database(), '{}') WITH NO DATA""",
]


@pytest.mark.parametrize("attack", CARRIED_OUT)
def test_nothing_runs_where_the_target_has_what_it_takes(
    small, forge, make_database_on, each_server, attack
):
    """Attack: the target has dblink, which a view calls when it is filled."""
    target = make_database_on(each_server)
    try:
        market.execute(target, "CREATE EXTENSION dblink; CREATE EXTENSION tablefunc")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server has no dblink")
    done = attack.format("CREATE TABLE public.carried_out ()")
    report = pipeline.load(forge(small, adding(done)), target)
    assert len(report.lost) == 1
    assert "MATERIALIZED VIEW public.m" in report.lost[0]
    assert market.one(target, "SELECT to_regclass('public.carried_out')") is None


def test_psql_commands_around_a_dump_are_stripped_only_in_a_pair():
    """Attack: a hostile source smuggles a psql command into what pg_dump writes.

    Door: source. Stopped by: PostgreSQL's parser takes no backslash outside quotes.
    """
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


def dump(dsn):
    """The DDL of a database that travels."""
    with connect(dsn) as connection:
        ddl = dump_ddl(connection, introspect(connection))
    return ddl.pre_data + ddl.post_data


def test_numbers_of_distinct_values_never_travel(make_database):
    """Attack: a column's name holds a line feed, so that no line begins with its option."""
    dsn = make_database(
        statements='CREATE TABLE t (a int, "b\nALTER" int);'
        ' ALTER TABLE t ALTER "b\nALTER" SET (n_distinct = 4711)'
    )
    assert "4711" not in dump(dsn)


def test_names_with_line_separators_lose_nothing_and_bring_nothing(make_database):
    """Attack: an index named ``b<U+2028>z`` drops the foreign key listed after it, and a server so
    named carries a user mapping with its password past the list of what may travel.

    Door: source. Stopped by: lists of contents are cut at line feeds alone, statements by kind.
    """
    dsn = make_database(
        statements="CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int REFERENCES p);"
        'CREATE INDEX "b\u2028z" ON c (id); CREATE INDEX "b\u0085z" ON p (id);'
        "CREATE FOREIGN DATA WRAPPER w;"
        'CREATE SERVER "s\u2028123; 1259 1 TABLE public x y" FOREIGN DATA WRAPPER w;'
        'CREATE USER MAPPING FOR CURRENT_USER SERVER "s\u2028123; 1259 1 TABLE public x y"'
        " OPTIONS (password 'hush')"
    )
    try:
        text = dump(dsn)
    finally:
        market.execute(dsn, "DROP FOREIGN DATA WRAPPER w CASCADE")
    assert "FOREIGN KEY" in text
    assert "b\u2028z" in text
    assert "hush" not in text
    assert "SERVER" not in text


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
    small, forge, make_database, text: str
) -> None:
    """Attack: the name of a constraint, IF NOT EXISTS or OR REPLACE passes for making a relation.

    What stops it: only constraints that make an index count, and statements must make anew.
    """
    target = make_database(statements=THEIRS)
    before = market.ask(target, STATE)
    with contextlib.suppress(ModelError):
        pipeline.load(forge(small, adding(text)), target)
    assert market.ask(target, STATE) == before


def test_what_a_dump_writes_of_views_and_constraints_is_still_made() -> None:
    """No attack: a view in two steps, and a partition's index by the name of a constraint."""
    text = """CREATE TABLE public.t (a int CONSTRAINT positive CHECK (a > 0));
        CREATE VIEW public.v AS SELECT NULL::int AS a;
        CREATE OR REPLACE VIEW public.v AS SELECT a FROM public.t;
        ALTER TABLE public.t ADD CONSTRAINT t_key UNIQUE (a);
        ALTER INDEX public.t_key ATTACH PARTITION public.t_key"""
    assert allowed(text).left_out == ()
