import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pyarrow as pa
import pytest
from market import ask, execute
from psycopg import sql
from sql_files import sql_of

from privbench.errors import AccessDenied, DatabaseError
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot

ID = [(sql.Identifier("id"), "id")]
UUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"


def filled(dsn):
    """VACUUM is among the statements, so each goes alone."""
    execute(dsn, *sql_of(__file__, "snapshot").split(";\n"))
    return dsn


@pytest.fixture(scope="module")
def dsn(make_database):
    return filled(make_database())


def test_stream_beside_a_writer_has_one_order_and_moment(each_server, make_database_on):
    dsn = filled(make_database_on(each_server))
    wrote, stop = threading.Event(), threading.Event()

    def write():
        with psycopg.connect(dsn, autocommit=True) as connection:
            low = 10000
            while not stop.is_set():
                connection.execute("UPDATE t SET pad = 'changed' WHERE id %% 7 = %s", [low % 7])
                connection.execute("INSERT INTO t VALUES (%s, 'new')", [low])
                connection.execute("DELETE FROM t WHERE id = %s", [low - 9000])
                low += 1
                wrote.set()

    with Snapshot(dsn) as snapshot:
        table = introspect(snapshot.connection).table("public.t")
        pair = [*ID, (sql.Identifier("pad"), "pad")]
        before = snapshot.read(table, pair)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert wrote.wait(60)
            for size in (1 << 12, 1 << 16, 1 << 24):
                batches = list(snapshot.stream(table, pair, batch_bytes=size))
                assert pa.Table.from_batches(batches).combine_chunks() == before.combine_chunks()
            assert len(list(snapshot.stream(table, pair, batch_bytes=1 << 12))) > 10
        finally:
            stop.set()
            writer.join()
    assert before.num_rows == 5000 - 5000 // 3 + 501
    with Snapshot(dsn) as snapshot:
        assert snapshot.read(table, pair).num_rows != 0
        assert "changed" in set(snapshot.read(table, pair).column("pad").to_pylist())


def test_stream_of_every_kind_of_table_gives_its_rows(dsn):
    """Inheritance is read table by table, partitions with their root; odd types arrive plain."""
    long = "x" * 100 + "\x1fpart"
    odd = {
        long: ("ARRAY[1.50, NULL]::numeric[]", "{1.50,NULL}"),
        "u": (f"'{UUID}'::uuid", UUID),
        "j": ("'{\"a\": 1}'::jsonb", '{"a": 1}'),
        "n": ("NULL::numeric[]", None),
        "tz": ("'12:00+02'::timetz::text", "12:00:00+02"),
    }
    with Snapshot(dsn) as snapshot:
        schema = introspect(snapshot.connection)
        rows = {
            name: sorted(snapshot.read(schema.table(name), ID).column("id").to_pylist())
            for name in ("parent", "child", "part")
        }
        assert rows == {"parent": [1], "child": [2, 3], "part": [1, 2, 3]}
        (batch,) = snapshot.stream(schema.table("nothing"), ID)
        assert (batch.num_rows, batch.schema) == (0, pa.schema([("id", pa.string())]))
        asked = [(sql.SQL(text), name) for name, (text, _) in odd.items()]
        (got,) = snapshot.read(schema.table("parent"), asked).to_pylist()
        assert got == {name: wanted for name, (_, wanted) in odd.items()}
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: snapshot.read(schema.table("t"), ID), range(4)))
        assert all(one.equals(found[0]) for one in found)


@pytest.mark.parametrize(
    "odd",
    ["'plain'", "E'\\x1e'", "E'\\x1f'", "E'a\\x1eb\\n\"\"'", "string_agg(md5(n::text), '')"],
    ids=["plain", "separator", "unit mark", "both and a quote", "out of line"],
)
def test_stream_of_odd_values_gives_them_as_they_are(make_database, odd):
    dsn = make_database(sql_of(__file__, "odd_values", odd=odd))
    chosen = [(sql.Identifier(name), name) for name in "isfrbt"]
    types = ["int64", "int16", "double", "float", "bool", "string"]
    with psycopg.connect(dsn) as connection, Snapshot(dsn) as snapshot:
        expected = connection.execute("SELECT * FROM v").fetchall()
        table = introspect(snapshot.connection).table("public.v")
        for size in (1 << 16, 1 << 24):
            got = pa.Table.from_batches(list(snapshot.stream(table, chosen, batch_bytes=size)))
            assert [str(kind) for kind in got.schema.types] == types
            rows = zip(*got.to_pydict().values(), strict=True)
            assert list(map(repr, rows)) == list(map(repr, expected))


def test_snapshot_is_read_only_and_shares_a_connection(dsn):
    with Snapshot(dsn) as snapshot, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        snapshot.connection.execute("CREATE TABLE no (i integer)")
    asked = [(sql.SQL("pg_catalog.pg_backend_pid()::int8"), "pid")]
    with Snapshot(dsn) as snapshot:
        table = introspect(snapshot.connection).table("t")
        found = [snapshot.read(table, asked).column("pid").to_pylist() for _ in range(3)]
    assert len({pid for pids in found for pid in pids}) == 1


def test_an_error_of_reading_holds_no_value(dsn):
    with Snapshot(dsn) as snapshot:
        table = introspect(snapshot.connection).table("t")
        with pytest.raises(DatabaseError) as caught:
            snapshot.read(table, [(sql.SQL("(pad || 'CANARY')::integer"), "x")])
    assert "CANARY" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert caught.value.table == "public.t"


def test_read_of_a_locked_table_gives_up(dsn, impatient):
    with psycopg.connect(dsn) as other, Snapshot(dsn) as snapshot:
        table = introspect(snapshot.connection).table("parent")
        other.execute("LOCK TABLE parent IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DatabaseError, match="lock was not granted"):
            snapshot.read(table, ID)


def test_read_without_the_right_is_denied(dsn, server):
    execute(dsn, "DROP ROLE IF EXISTS nosy", "CREATE ROLE nosy LOGIN")
    try:
        with Snapshot(psycopg.conninfo.make_conninfo(dsn, user="nosy")) as snapshot:
            table = introspect(snapshot.connection).table("parent")
            with pytest.raises(AccessDenied, match=r"public\.parent"):
                snapshot.read(table, ID)
    finally:
        execute(dsn, "DROP ROLE nosy")


def test_snapshot_that_closes_ends_streams_of_other_threads(dsn):
    begun, ended = threading.Event(), []

    def read(snapshot, table):
        begun.set()
        try:
            snapshot.read(table, [(sql.SQL("pg_catalog.pg_sleep(60)::text"), "slow")])
        except DatabaseError as error:
            ended.append(str(error))

    with Snapshot(dsn) as snapshot:
        table = introspect(snapshot.connection).table("t")
        snapshot.lock(table)
        thread = threading.Thread(target=read, args=(snapshot, table))
        thread.start()
        begun.wait()
        asked = """SELECT count(*) FROM pg_stat_activity
          WHERE query LIKE 'COPY%%pg_sleep%%' AND pid <> pg_backend_pid()"""
        while ask(dsn, asked) == [(0,)]:
            pass
    thread.join(10)
    assert ended == ["public.t: reading rows: the statement was cancelled or passed its time-out "
                     "(SQLSTATE 57014)."]  # fmt: skip
