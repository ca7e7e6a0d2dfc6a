import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
from market import ask, execute
from plans import load, offered_by, plan
from psycopg import conninfo
from sql_files import sql_of

from privbench.errors import AccessDenied, DatabaseError, SchemaError, UsageError
from privbench.postgres import binaries, ddl
from privbench.postgres.connect import connect, environment, major_version
from privbench.postgres.ddl import dump_ddl, find_pg_dump
from privbench.postgres.introspect import introspect
from privbench.postgres.load import Loader
from privbench.postgres.reading import reading

UGLY = (Path(__file__).parent / "golden" / "ugly.sql").read_text(encoding="utf-8")


NAMES = ['My "Odd". Schema', "select", "Upper", "a\nb", "größe"]
QUOTED = "".join(
    f"CREATE SCHEMA {q}; CREATE TYPE {q}.mood AS ENUM ('a');"
    f'CREATE TABLE {q}."new\nline" (id serial PRIMARY KEY, m {q}.mood);'
    f'CREATE VIEW {q}."order" AS SELECT id FROM {q}."new\nline";'
    for q in ('"' + name.replace('"', '""') + '"' for name in NAMES)
)


@pytest.mark.parametrize("text", [UGLY, QUOTED], ids=["ugly", "quoted"])
def test_the_schema_of_a_clone_is_that_of_its_source(each_server, make_database_on, text):
    schema, made = plan(make_database_on(each_server, statements=text))
    copy = make_database_on(each_server)
    load(copy, (schema, made))
    again, made_again = plan(copy)
    assert made_again == made
    assert _unplaced(again) == _unplaced(schema)
    quoted = [table.name.schema for table in again if table.name.name == "new\nline"]
    assert text == UGLY or sorted(quoted) == sorted(NAMES)


def _unplaced(schema):
    """The schema without the gaps that dropped columns leave in the numbering."""
    return [
        dataclasses.replace(
            table,
            columns=tuple(dataclasses.replace(column, position=0) for column in table.columns),
            comment=None,
        )
        for table in schema
    ]


def test_nothing_but_the_allow_list_travels(server, make_database):
    dsn = make_database(UGLY)
    execute(dsn, sql_of(__file__, "private"))
    try:
        with connect(dsn) as connection:
            raw = subprocess.run(
                [find_pg_dump(major_version(connection)).path, "--schema-only"],
                env=environment(connection),
                capture_output=True,
                check=True,
                text=True,
            ).stdout
        _, made = plan(dsn)
    finally:
        execute(
            dsn,
            "DROP EVENT TRIGGER canary; DROP SERVER canary CASCADE;"
            " DROP OWNED BY owner_of_secrets; DROP ROLE owner_of_secrets",
        )
    text = made.pre_data + made.post_data
    for word in ("CANARY", "n_distinct", "COMMENT", "GRANT", "OWNER TO"):
        assert word in raw
        assert word not in text
    for word in ("canary", "EVENT TRIGGER", "\\restrict", "transaction_timeout", "Dumped"):
        assert word not in text
    assert "SET STATISTICS 77" in text


_POLICIES = """
SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, p.polname
FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid
WHERE c.relname IN ('note', 'other') ORDER BY 1, 4
"""


@pytest.mark.parametrize("trust", [True, False], ids=["trusted", "untrusted"])
def test_loader_takes_policies_whose_roles_are_there(
    newest_server, make_database_on, trust, caplog
):
    schema, made = plan(make_database_on(newest_server, statements=sql_of(__file__, "policies")))
    script = made.script(trust=trust)
    assert len(script.row_security) == 4
    assert not any("POLICY" in statement.text for statement in script.constraints)
    for role, policies in (("pg_monitor", ["mine", "theirs"]), ("nobody_knows", ["mine"])):
        copy = make_database_on(newest_server)
        ddl_ = dataclasses.replace(made, post_data=made.post_data.replace("pg_monitor", role))
        with Loader(copy, schema, ddl_, trust=trust) as loader:
            loader.connection.execute("INSERT INTO public.note SELECT FROM generate_series(1, 5)")
            with loader.rehearsal():
                pass
            loader.finish()
        wanted = [("note", True, True, name) for name in policies]
        assert ask(copy, _POLICIES) == [*wanted, ("other", False, False, "asleep")]
        assert ask(copy, "SELECT count(*) FROM all_notes") == [(5,)]
        said = "left out, since it names a role that is not here: CREATE POLICY theirs"
        assert (said in "".join(loader.lost)) == (said in caplog.text) == (role == "nobody_knows")


def test_a_chosen_schema_brings_what_it_needs_and_no_more(make_database):
    dsn = make_database(UGLY)
    schema, made = plan(dsn, schemas=["public"], exclude=["public.event"])
    text = made.pre_data + made.post_data
    assert 'CREATE TYPE "Odd Shop"."Colour"' in text
    assert "Order.Items" not in text
    assert "CREATE TABLE public.customer" in text
    assert "fav.note" not in text
    assert "public.event" not in text
    assert 'dots.and""quotes' not in text
    assert "totals" not in text
    assert "CREATE VIEW public.buyers" in text
    copy = make_database()
    load(copy, (schema, made))
    assert plan(copy)[1].post_data == made.post_data
    # A table built upon one left out is refused.
    dsn = make_database(UGLY)
    with pytest.raises(SchemaError, match=r"public\.dog"):
        plan(dsn, exclude=["public.animal"])


def test_needed_extensions_alone_are_named(newest_server, make_database_on):
    name = offered_by(newest_server, "citext", "vector")
    extension = f"CREATE SCHEMA extra; CREATE EXTENSION {name} SCHEMA extra;"
    dsn, copy = (make_database_on(newest_server, statements=extension) for _ in "12")
    assert plan(dsn)[1].extensions == ()
    execute(dsn, f"CREATE TABLE t (v extra.{name})")
    schema, made = plan(dsn)
    assert made.extensions == (name,)
    for replace in (False, True):
        load(copy, (schema, made), replace=replace)
    assert plan(copy)[1] == made


def test_extensions_bring_their_schema(each_server, make_database_on):
    """`extensions` holds no table, and is no chosen schema: functions alone speak of it."""
    offered = offered_by(each_server, "pgcrypto", "vector")
    watching = offered_by(each_server, "pgrowlocks", "plpgsql")
    dsn = make_database_on(
        each_server,
        statements=f"""
        CREATE SCHEMA "the Extensions"; CREATE EXTENSION {offered} SCHEMA "the Extensions";
        CREATE FUNCTION f(text) RETURNS text LANGUAGE sql AS $$ SELECT upper($1) $$;
        CREATE TABLE t (k text DEFAULT f('x')); CREATE EXTENSION IF NOT EXISTS {watching};
        """,
    )
    schema, made = plan(dsn, schemas=["public"])
    assert made.extensions == ()
    assert "pgrowlocks" not in made.pre_data, "what only watches a server is no loss"
    copy = make_database_on(each_server)
    load(copy, (schema, made))
    where = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = '{}'"
    assert ask(copy, where.format(offered)) == [('"the Extensions"',)]


def test_reading_a_schema_needs_select_alone(each_server, make_database_on):
    dsn = make_database_on(each_server, statements=UGLY + "CREATE ROLE only_select LOGIN;")
    execute(
        dsn,
        'GRANT USAGE ON SCHEMA "Odd Shop", "dots.and""quotes" TO only_select;'
        'GRANT SELECT ON ALL TABLES IN SCHEMA public, "Odd Shop", "dots.and""quotes"'
        " TO only_select; CREATE TABLE hidden (i int)",
    )
    plain = conninfo.make_conninfo(dsn, user="only_select")
    try:
        with connect(plain) as connection:
            schema = introspect(connection, exclude=["public.hidden"])
            made = dump_ddl(connection, schema)
            assert "CREATE TABLE public.region" in made.pre_data
            everything = introspect(connection)
            with pytest.raises(AccessDenied, match="permission denied for table hidden"):
                dump_ddl(connection, everything)
    finally:
        execute(dsn, "DROP OWNED BY only_select; DROP ROLE only_select")


def test_the_nearest_pg_dump_that_is_new_enough_is_taken():
    at_hand = binaries.find(
        "pg_dump", binaries.machine_directories() + binaries.package_directories()
    )
    majors = sorted(program.major for program in at_hand)
    assert find_pg_dump(majors[0]).major == majors[0]
    assert find_pg_dump(majors[-1]).major == majors[-1]
    with pytest.raises(UsageError, match=f"PostgreSQL 99.*{majors[-1]}"):
        find_pg_dump(99)


def test_no_secret_is_an_argument_of_pg_dump(make_database, monkeypatch):
    seen = []
    run = subprocess.run

    def watch(command, **options):
        seen.append((command, options.get("env", {})))
        return run(command, **options)

    dsn = conninfo.make_conninfo(make_database(), password="hush")
    monkeypatch.setattr(ddl.subprocess, "run", watch)
    with connect(dsn) as connection:
        dump_ddl(connection, introspect(connection))
    commands = [" ".join(map(str, command)) for command, env in seen if "PGDATABASE" in env]
    assert len(commands) == 1
    assert not re.search("hush|host|user", commands[0])


CONSTANTS = sql_of(__file__, "constants")
#: What an owner may set for a database or for a role in it.
OWNERS = sql_of(__file__, "settings_of_owners.txt").splitlines()


def _read(dsn):
    with reading(dsn) as connection:
        schema = introspect(connection)
        return schema, dump_ddl(connection, schema)


@pytest.mark.parametrize("whose", ["DATABASE {}", "ROLE {} IN DATABASE {}"])
def test_no_setting_of_the_owner_changes_what_is_read(newest_server, make_database_on, whose):
    """Attack: each text is another one under other settings, a pattern of a CHECK for instance."""
    dsn = make_database_on(newest_server, statements=CONSTANTS)
    parts = conninfo.conninfo_to_dict(dsn)
    before = _read(dsn)
    whose = whose.format(*[parts["dbname"], "postgres"][: whose.count("{")][::-1])
    execute(dsn, *(f"ALTER {whose} SET {setting}" for setting in OWNERS))
    assert ask(dsn, "SHOW standard_conforming_strings") == [("off",)]
    after = _read(dsn)
    assert after == before
    copy = make_database_on(newest_server)
    load(copy, after)
    execute(copy, "INSERT INTO t (code) VALUES ('12345')")


DROPS = "unset PGOPTIONS"
REFUSES = 'if [ -n "$PGOPTIONS" ]; then echo "FATAL: unsupported startup parameter" >&2; exit 1; fi'


@pytest.mark.parametrize("pooler", [DROPS, REFUSES], ids=["drops options", "refuses options"])
@pytest.mark.parametrize("setting", ["on", "off"])
def test_an_archive_of_other_strings_is_refused(
    make_database, monkeypatch, tmp_path, pooler, setting
):
    dsn = make_database(CONSTANTS)
    before = _read(dsn)
    with connect(dsn) as connection:
        program = find_pg_dump(major_version(connection))
    wrapper = tmp_path / "pg_dump"
    wrapper.write_text(f'#!/bin/sh\n{pooler}\nexec {program.path} "$@"\n')
    wrapper.chmod(0o755)
    (tmp_path / "pg_restore").symlink_to(program.path.parent / "pg_restore")
    monkeypatch.setattr(ddl, "find_pg_dump", lambda _: binaries.Program(wrapper, program.major))
    name = conninfo.conninfo_to_dict(dsn)["dbname"]
    execute(dsn, f"ALTER DATABASE {name} SET standard_conforming_strings = {setting}")
    if setting == "off":
        with pytest.raises(DatabaseError, match="standard_conforming_strings"):
            _read(dsn)
    else:
        assert _read(dsn) == before
