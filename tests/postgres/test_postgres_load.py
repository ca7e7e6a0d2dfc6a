"""Loads: what they bring, what they refuse, and what VACUUM (ANALYZE) leaves after them."""

import logging
import os
import shutil
import subprocess
import sys
import time

import psycopg
import pyarrow as pa
import pytest
from market import ask, execute
from plans import load, plan
from psycopg import conninfo, sql
from sql_files import cases, sql_of

from privbench.errors import AccessDenied, DatabaseError, TargetError
from privbench.limits import CLONE
from privbench.postgres.connect import connect
from privbench.postgres.ddl import Ddl
from privbench.postgres.load import Loader
from privbench.postgres.load_mark import Mark
from privbench.postgres.reading import reading
from privbench.postgres.statement import build

SHOP = sql_of(__file__, "shop")
PERSON = pa.table(
    {
        "id": [1, 2, 7],
        "name": ["", 'it\'s "q"\n\\.\n\\N, x', "é\t"],
        "mood": ["sad", None, "glad"],
        "boss": pa.array([7, None, 7], pa.int32()),
        "favourite": [40, None, 41],
    }
)
THING = pa.table({"id": [40, 41], "owner": [1, 7], "price": ["1.50", "2"]})
LOG = pa.table({"at": ["2019-01-01", "2021-01-01"], "n": [-6, -11]})
#: Children first: keys are made after the rows, so the order is free.
ROWS = {"shop.thing": THING, "shop.person": PERSON, "shop.log": LOG}


def _name(dsn):
    return str(conninfo.conninfo_to_dict(dsn)["dbname"])


@pytest.fixture(scope="module")
def shop(make_database):
    return plan(make_database(SHOP))


def test_loader_brings_everything(each_server, make_database_on):
    schema, ddl = plan(make_database_on(each_server, statements=SHOP))
    steps = []
    copy = make_database_on(each_server)
    load(copy, (schema, ddl), rows=ROWS, progress=lambda step, n: steps.append((step, n)))
    persons = ask(copy, "SELECT id, name, mood::text, boss, favourite FROM shop.person ORDER BY id")
    assert persons == [tuple(row.values()) for row in PERSON.to_pylist()]
    assert ask(copy, "SELECT bool_and(upper_name = upper(name)) FROM shop.person") == [(True,)]
    assert ask(copy, "SELECT tableoid::regclass::text, n FROM shop.log ORDER BY n DESC") == [
        ("shop.log_old", -6),
        ("shop.log_new", -11),
    ]
    assert ask(copy, "SELECT top FROM shop.a_summary") == [(2,)]
    names = ("person_id_seq", "thing_id_seq", "down")
    numbers = "SELECT " + ", ".join(f"nextval('shop.{name}')" for name in names)
    assert ask(copy, numbers) == [(8, 42, -16)]
    assert ask(
        copy,
        "SELECT DISTINCT reltuples > 0 AND relallvisible = relpages FROM pg_class"
        " WHERE relname IN ('person', 'thing', 'log_old', 'log_new')",
    ) == [(True,)]
    assert ("copy shop.thing", 2) in steps
    assert plan(copy)[1] == ddl


def test_loader_into_a_target_with_anything_is_refused(shop, make_database):
    for words, text in cases(__file__, "anything"):
        copy = make_database(text)
        with pytest.raises(TargetError, match=words) as caught:
            Loader(copy, *shop)
        assert "--replace" in str(caught.value)
        assert ask(copy, "SELECT count(*) FROM pg_namespace WHERE nspname = 'shop'") == [(0,)]


def test_loader_with_replace_drops_all_that_users_made(shop, make_database):
    copy = make_database(sql_of(__file__, "made_by_users"))
    said = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = {}"
    (name,) = ask(copy, "SELECT current_database()")[0]
    load(copy, shop, rows=ROWS, replace=True)
    assert plan(copy)[1] == shop[1]
    assert ask(copy, said.format(sql.Literal(name).as_string())) == [(CLONE,)]
    load(copy, shop, replace=True)
    assert ask(copy, "SELECT count(*) FROM shop.person") == [(0,)]


def test_loader_that_is_refused_or_left_writes_nothing(shop, make_database):
    dsn = make_database("CREATE TABLE precious (i int)")
    with connect(dsn) as source, pytest.raises(TargetError, match="source database itself"):
        Loader(dsn, *shop, source=source, replace=True)
    assert ask(dsn, "SELECT count(*) FROM precious") == [(0,)]
    # A role that may not create is denied.
    copy = make_database("CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(AccessDenied):
            Loader(psycopg.conninfo.make_conninfo(copy, user="guest"), *shop)
    finally:
        execute(copy, "DROP ROLE guest")
    # A database that its owner protects is written only if the connection string says so.
    copy = make_database()
    execute(copy, build("ALTER DATABASE {} SET default_transaction_read_only = on", _name(copy)))
    with pytest.raises(TargetError, match="default_transaction_read_only = on") as caught:
        Loader(copy, *shop)
    option = str(caught.value.remedy).partition("options=")[2].strip("'.")
    load(conninfo.make_conninfo(copy, options=option), shop, rows=ROWS)
    # Without `finish` all is as before.
    copy = make_database("CREATE TABLE old (i int)")
    with Loader(copy, *shop, replace=True) as loader:
        loader.copy_table("shop.thing", THING.column_names, [THING])
    left = "SELECT to_regclass('old') IS NOT NULL, to_regclass('shop.person') IS NULL"
    assert ask(copy, left) == [(True, True)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"id": [40, 40], "owner": [1, 7], "price": ["5550123", "1"]}, "thing_pkey"),
        ({"id": [40, 41], "owner": [1, 5550123], "price": ["1", "1"]}, "thing_owner_fkey"),
        ({"id": [40, 41], "owner": [1, 7], "price": ["1", "-5550123"]}, "price_check"),
        ({"id": [40, 41], "owner": [1, None], "price": ["1", "5550123"]}, "NOT NULL"),
        ({"id": [40, 41], "owner": [1, 7], "price": ["1", "x5550123"]}, "InvalidText"),
    ],
)
def test_loader_of_a_broken_constraint_names_it_without_the_row(shop, make_database, wrong, words):
    copy = make_database()
    rows = {"shop.person": PERSON, "shop.thing": pa.table(wrong)}
    with pytest.raises(DatabaseError, match=words) as caught:
        load(copy, shop, rows=rows)
    assert "5550123" not in str(caught.value)
    assert caught.value.table == "shop.thing"
    assert caught.value.__suppress_context__
    assert ask(copy, "SELECT to_regclass('shop.thing') IS NULL") == [(True,)]


def test_loader_refuses_wrong_columns_and_a_second_load(shop, make_database):
    with Loader(make_database(), *shop) as loader:
        with pytest.raises(ValueError, match="upper_name"):
            loader.copy_table("shop.person", ["id", "upper_name"], [])
        with pytest.raises(ValueError, match="2 columns"):
            loader.copy_table("shop.person", ["id", "name"], [PERSON])
    # Two loads into one target do not mix.
    copy = make_database()
    with Loader(copy, *shop) as loader:
        with pytest.raises(TargetError, match="another load"):
            Loader(copy, *shop)
        loader.finish()


def test_loader_of_an_extension_elsewhere_names_it_first(shop, make_database):
    """IF NOT EXISTS would leave it there, and tables would look for its types in vain."""
    schema, ddl = shop
    entry = 'CREATE EXTENSION IF NOT EXISTS plpgsql WITH SCHEMA "other ""one";'
    moved = Ddl(entry + ddl.pre_data, ddl.post_data, ("plpgsql",))
    copy = make_database()
    with pytest.raises(TargetError, match='plpgsql in schema pg_catalog, the source in other "one'):
        Loader(copy, schema, moved)
    assert ask(copy, "SELECT to_regnamespace('other') IS NULL") == [(True,)]


def test_xml_is_left_null_where_there_is_none(each_server, make_database_on):
    text = "CREATE TABLE page (id int PRIMARY KEY, doc xml, title text)"
    schema, made = plan(make_database_on(each_server, statements=text))
    try:
        ask(each_server.dsn, "SELECT '<a/>'::xml")
        known = True
    except psycopg.errors.FeatureNotSupported:
        known = False
    with Loader(make_database_on(each_server), schema, made) as loader:
        assert loader.without_values(schema.table("public.page")) == ([] if known else ["doc"])
        loader.copy_table("public.page", ["id", "title"], [pa.table({"id": [1], "title": ["x"]})])
        loader.finish()


# VACUUM (ANALYZE) after a load, and what stands where it could not run.


COUNT = 10_000
FILLED = {"plain", "worked", "part_low", "part_high", "few"}
PAGES = sql_of(__file__, "upkeep_pages")
CHANGES = """
SELECT relname, n_mod_since_analyze, n_dead_tup, vacuum_count, analyze_count
FROM pg_stat_all_tables WHERE schemaname = 'public'
"""


@pytest.fixture
def copy(newest_server, make_database_on):
    return make_database_on(newest_server)


@pytest.fixture
def planned(newest_server, make_database_on):
    return plan(make_database_on(newest_server, statements=sql_of(__file__, "upkeep")))


def _fill(loader):
    ids = pa.table({"id": range(COUNT)})
    loader.copy_table("plain", ["id", "pad"], [ids.append_column("pad", [["x" * 200] * COUNT])])
    for name in ("worked", "parts"):
        loader.copy_table(name, ["id"], [ids])
    # Repair takes rows away too.
    loader.connection.execute(f"DELETE FROM public.plain WHERE id > {COUNT // 2}")
    loader.connection.execute(f"DELETE FROM public.worked WHERE id < {COUNT // 2}")


def _ask(dsn, query):
    return {row[0]: row[1:] for row in ask(dsn, query)}


def test_loader_leaves_tables_as_vacuum_would(planned, newest_server, make_database_on):
    # A worker of autovacuum that analyzes a catalog keeps removed rows for that moment.
    for _ in range(3):
        copy = make_database_on(newest_server)
        with Loader(copy, *planned) as loader:
            _fill(loader)
            loader.finish()
        before = _ask(copy, PAGES)
        if all(before[name][0] == before[name][1] for name in FILLED):
            break
    for name in FILLED:
        pages, visible, rows, real = before[name]
        assert pages == visible == real > 0, name
        assert rows > 0, name
    # Autovacuum finds nothing changed.
    found = _ask(copy, CHANGES)
    assert {name: found[name][:2] for name in FILLED} == dict.fromkeys(FILLED, (0, 0))
    assert all(found[name][2] >= 1 and found[name][3] >= 1 for name in FILLED)
    execute(copy, "VACUUM")
    assert _ask(copy, PAGES) == before


def test_loader_of_a_held_table_names_it(planned, copy, caplog, impatient):
    held = connect(copy)

    def told(step, _rows):
        if step == "vacuum":
            held.execute("LOCK TABLE public.plain IN ACCESS EXCLUSIVE MODE")

    with held, caplog.at_level(logging.WARNING), Loader(copy, *planned, progress=told) as loader:
        _fill(loader)
        loader.finish()
    assert "could not be vacuumed: public.plain" in caplog.text
    assert "public.worked" not in caplog.text
    assert ask(copy, "SELECT count(*) FROM pg_stats WHERE tablename = 'plain'") == [(2,)]
    assert _ask(copy, PAGES)["plain"][2] == COUNT // 2 + 1


def test_loader_under_time_limits_is_not_stopped(planned, copy, caplog):
    name = conninfo.conninfo_to_dict(copy)["dbname"]
    execute(copy, f'ALTER DATABASE "{name}" SET statement_timeout = 1')
    with caplog.at_level(logging.WARNING), Loader(copy, *planned) as loader:
        _fill(loader)
        loader.finish()
    assert not caplog.records


#: A materialised view that a load fills for as long as the rows of a table say.
SLOW = "CREATE TABLE t (n float8); CREATE MATERIALIZED VIEW v AS SELECT pg_sleep(n)::text FROM t"
_BUSY = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'REFRESH%'
  AND state = 'active'
"""


def _until(condition):
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.1)
    return pytest.fail("it did not come about within a minute")


def _start_loading(target, source):
    """A process that loads for a quarter of an hour, and the server's process that serves it."""
    code = f"""
import pyarrow as pa
from plans import load, plan
load({target!r}, plan({source!r}), rows={{"t": pa.table({{"n": [900.0]}})}})
"""
    places = os.pathsep.join(place for place in sys.path if place)
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": places}
    )
    ((backend,),) = _until(lambda: ask(target, _BUSY))
    return process, backend


def test_a_killed_load_does_not_block_the_next(server, make_database):
    if server.major < 14:
        pytest.skip("servers of this version do not look whether their client is there")
    source, target = make_database(SLOW), make_database()
    process, backend = _start_loading(target, source)
    process.kill()
    process.wait()
    try:
        _until(lambda: not ask(target, _BUSY))
    finally:
        ask(target, f"SELECT pg_terminate_backend({backend})")
    load(target, plan(source))


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_a_load_that_is_blocked_names_the_process_and_the_command_that_ends_it(make_database):
    source, target = make_database(SLOW), make_database()
    process, backend = _start_loading(target, source)
    try:
        with pytest.raises(TargetError, match=f"server process {backend}") as caught:
            load(conninfo.make_conninfo(target, password="hush"), plan(source))
        assert "hush" not in str(caught.value) + str(caught.value.remedy)
        command = str(caught.value.remedy).partition(": ")[2]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert process.wait(60) != 0
    finally:
        process.kill()
    load(target, plan(source))


@pytest.mark.parametrize("opened", [connect, reading])
def test_every_session_has_the_server_look_for_its_client(each_server, opened):
    query = "SELECT current_setting('client_connection_check_interval', true)"
    with opened(each_server.dsn) as connection:
        shown = connection.execute(query).fetchone()
    assert shown == ("1s" if each_server.major >= 14 else None,)


def test_what_rows_do_not_fit_is_left_out_and_named(make_database):
    source = make_database(sql_of(__file__, "unfit"))
    copy = make_database()
    rows = pa.table({"no": ["x", "1"], "lo": [5, 1], "hi": [4, 2]})
    lost = load(copy, plan(source), rows={"public.t": rows}).lost
    # What is of an index that is left out goes with it, without a line.
    assert [line.split(": ")[1] for line in lost if line.startswith("left out, since rows")] == [
        "ALTER TABLE ONLY public.t_1 ADD CONSTRAINT t_1_int4range_excl EXCLUDE USING gist",
        "CREATE INDEX t_1_no_idx ON public.t_1 USING btree",
    ]
    assert any(line.startswith("the materialised view public.seen stays without") for line in lost)
    assert ask(copy, "SELECT count(*) FROM t") == [(2,)]
    assert ask(copy, "SELECT count(*) FROM pg_indexes WHERE indexname ~ 'kept|hi_idx'") == [(2,)]


def test_a_key_into_a_partitioned_table_is_checked_for_each_partition(
    each_server, make_database_on
):
    """Of a load in several transactions too, which adds other keys without a check."""
    source = make_database_on(each_server, statements=sql_of(__file__, "partitioned_parent"))
    copy = make_database_on(each_server)
    with Loader(copy, *plan(source), mark=Mark("a", 1.0, 7, programs=True)) as loader:
        loader.publish()
        loader.finish()
    keys = "SELECT count(*), bool_and(convalidated) FROM pg_constraint WHERE contype = 'f'"
    assert ask(copy, keys) == ask(source, keys)
