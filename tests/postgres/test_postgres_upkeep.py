"""What VACUUM (ANALYZE) after a load leaves, and what stands where it could not run."""

import logging

import pyarrow as pa
import pytest
from plans import ask, plan, script
from sql_files import sql_of

from privbench.postgres.connect import connect
from privbench.postgres.load import Loader

COUNT = 10_000
FILLED = {"plain", "worked", "part_low", "part_high", "few"}
PAGES = sql_of(__file__, "upkeep_pages")
CHANGES = """
SELECT relname, n_mod_since_analyze, n_dead_tup, vacuum_count, analyze_count
FROM pg_stat_all_tables WHERE schemaname = 'public'
"""


@pytest.fixture
def copy(each_server, make_database_on):
    return make_database_on(each_server)


@pytest.fixture
def planned(each_server, make_database_on):
    return plan(make_database_on(each_server, statements=sql_of(__file__, "upkeep")))


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


def test_loader_leaves_tables_as_vacuum_would(planned, copy):
    with Loader(copy, *planned) as loader:
        _fill(loader)
        loader.finish()
    before = _ask(copy, PAGES)
    for name in FILLED:
        pages, visible, rows, real = before[name]
        assert pages == visible == real > 0, name
        assert rows > 0, name
    # Autovacuum finds nothing changed.
    found = _ask(copy, CHANGES)
    assert {name: found[name][:2] for name in FILLED} == dict.fromkeys(FILLED, (0, 0))
    assert all(found[name][2] >= 1 and found[name][3] >= 1 for name in FILLED)
    script(copy, "VACUUM")
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
    with connect(copy, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET statement_timeout = 1')
    with caplog.at_level(logging.WARNING), Loader(copy, *planned) as loader:
        _fill(loader)
        loader.finish()
    assert not caplog.records
