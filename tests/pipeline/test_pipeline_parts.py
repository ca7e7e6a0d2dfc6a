"""Loads part by part: the rows of a load at once, whoever copies them, wherever it is killed."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace

import market
import psycopg
import pyarrow as pa
import pytest
import small_parts
from halting import Watching, kill_at, stop, two_workers
from integrity import schema_of, unkept
from sql_files import sql_of

from privbench import pipeline
from privbench.errors import DatabaseError, ModelError, PrivbenchError, TargetError, UsageError
from privbench.pipeline import Model, decode
from privbench.postgres.introspect import introspect
from privbench.postgres.load import Loader
from privbench.postgres.load_mark import Mark, copy_part
from privbench.postgres.transaction import TargetTransaction
from privbench.report import compare
from privbench.threads import JOBS

TABLES = ("holder", "visit", "plain", "room", "measured", "bill", "nothing", "cache")
PARTS = 'SELECT count(*) FROM "privbench unfinished load".parts'
GIVEN = {"seed": 3, "scale": 2}


@pytest.fixture(autouse=True, scope="module")
def _sizes():
    with pytest.MonkeyPatch.context() as patched:
        for name, size in small_parts.SIZES.items():
            patched.setattr(decode, name, size)
        yield


@pytest.fixture(autouse=True)
def _jobs():
    token = JOBS.set(3)
    yield
    JOBS.reset(token)


@pytest.fixture(scope="module")
def odd(make_database, tmp_path_factory):
    """A model whose rows break rules of most of its tables."""
    folder = tmp_path_factory.mktemp("parts")
    source = make_database(sql_of(__file__, "parts"))
    base = market.config(folder / "ledger", "", "independent", epsilon=300)
    pipeline.fit(source, pipeline.inspect(source, base=base).config, folder / "m")
    return folder / "m"


def rows(dsn):
    return {name: sorted(market.ask(dsn, f"SELECT {name}::text FROM {name}")) for name in TABLES}


@pytest.fixture(scope="module")
def whole(odd, make_database):
    """The rows of a load at once, its report and its schema."""
    target = make_database()
    report = pipeline.load(odd, target, **GIVEN)
    assert report.dropped["public.holder"]
    assert report.dropped["public.bill"]
    assert report.repaired["public.visit"]
    return rows(target), report, schema_of(target)


def test_a_load_by_parts_gives_the_rows_of_a_load_at_once(odd, whole, make_database):
    """By a role that owns nothing else, too."""
    target = make_database()
    role = market.weak_owner(target)
    report = pipeline.load(odd, target, resumable=True, as_role=role, **GIVEN)
    assert (rows(target), report, schema_of(target)) == whole
    assert unkept(target) == []
    owners = market.ask(target, "SELECT tableowner FROM pg_tables WHERE schemaname = 'public'")
    assert set(owners) == {(role,)}


@pytest.mark.parametrize(
    "moment",
    ["load public.plain", pytest.param("indexes and constraints", marks=pytest.mark.slow)],
)
def test_a_load_that_is_killed_goes_on(odd, whole, make_database, tmp_path, moment):
    """No command reads what it left, or goes on with something else."""
    target = make_database()
    kill_at(moment, small_parts.load, odd, target, resumable=True, **GIVEN)
    assert market.one(target, PARTS)
    # A crash of the server would empty it, and leave the note of its parts.
    assert market.one(target, f"{PARTS} WHERE relation = 'public.cache'") == 0
    queries = tmp_path / "queries.sql"
    queries.write_text("SELECT count(*) FROM plain;\n")
    for refused in (
        lambda: pipeline.load(odd, target, **GIVEN),
        lambda: pipeline.inspect(target),
        lambda: pipeline.run(queries, target),
        lambda: compare(make_database(), target, workload=queries),
        lambda: pipeline.check_target(make_database(), target, replace=False),
    ):
        with pytest.raises(TargetError, match=r"not whole.*UNFINISHED.*--resumable"):
            refused()
    for other in ({"seed": 4}, {"scale": 3}, {"trust_programs": True}):
        with pytest.raises(TargetError, match=r'something else.*"seed": 3.*--replace'):
            pipeline.load(odd, target, resumable=True, **(GIVEN | other))
    report = pipeline.load(odd, target, resumable=True, scale=2)
    assert (rows(target), report, schema_of(target)) == whole
    with pytest.raises(TargetError, match="not empty"):
        pipeline.load(odd, target, resumable=True, **GIVEN)


@pytest.mark.slow
def test_a_load_that_fails_says_how_to_go_on_and_replace_begins_anew(odd, whole, make_database):
    target = make_database()
    reporter = Watching("load public.visit", stop)
    with pytest.raises(RuntimeError) as raised:
        pipeline.load(odd, target, resumable=True, reporter=reporter)
    assert "run the command again" in raised.value.__notes__[0]
    pipeline.load(odd, target, resumable=True, replace=True, **GIVEN)
    assert rows(target) == whole[0]


@pytest.mark.parametrize("said", ['{"seed": []}', "[" * 10**5, "\x1b[31m"])
def test_a_mark_that_cannot_be_read_is_of_something_else(odd, make_database, said):
    """No terminal obeys what it says."""
    comment = f"""COMMENT ON TABLE "privbench unfinished load".parts IS '{said}'"""
    target = make_database(f"{_BOTH} {comment}")
    with pytest.raises(TargetError, match="something else") as raised:
        pipeline.load(odd, target, resumable=True, **GIVEN)
    assert str(raised.value).isprintable()


def test_what_others_have_made_is_not_gone_on_with(model, make_database):
    """Their triggers would run as the role of the load; so would those of a table put in place."""
    target, found = make_database(), Model.load(model)
    role = market.weak_owner(target)
    mark = Mark("a", 1.0, 7, programs=False)
    with Loader(target, found.schema, found.ddl, mark=mark) as loader:
        loader.publish()
    with Loader(target, found.schema, found.ddl, mark=mark) as loader:
        with loader.emptied():
            pass
        loader.publish()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            market.execute(target, "SET lock_timeout = 1; DROP TABLE refund")
    market.execute(target, f'ALTER TABLE refund OWNER TO "{role}"')
    with (
        Loader(target, found.schema, found.ddl, mark=mark) as loader,
        pytest.raises(TargetError, match="refund in the target belongs to another role"),
    ):
        loader.publish()


def test_a_part_is_copied_once_and_only_into_its_target(make_database):
    """Whoever copies a part that is under way waits for its end."""
    target = make_database("CREATE TABLE t (i integer)")
    mark = Mark("a", 1.0, 7, programs=False)
    with psycopg.connect(target) as connection:
        table = introspect(connection).table("public.t")
        mark.make(connection)
    numbers = [pa.table({"i": [1, 2]})]

    def copy() -> None:
        with TargetTransaction(target) as transaction:
            copy_part(transaction, mark, table, 0, ["i"], numbers)

    def batches() -> Iterator[pa.Table]:
        """While the part is under way, another copies it too."""
        other.start()
        yield from numbers
        other.join(0.5)
        assert other.is_alive()

    other = threading.Thread(target=copy)
    with TargetTransaction(target) as first:
        copy_part(first, mark, table, 0, ["i"], batches())
    other.join(30)
    assert market.one(target, "SELECT count(*) FROM t") == 2
    with (
        TargetTransaction(make_database()) as elsewhere,
        pytest.raises(DatabaseError, match="does not exist"),
    ):
        copy_part(elsewhere, mark, table, 1, ["i"], numbers)


_SCHEMA = 'CREATE SCHEMA "privbench unfinished load";'
_BOTH = f'{_SCHEMA} CREATE TABLE "privbench unfinished load".parts (i integer);'
_BLOCK = f"DO $$ BEGIN {_BOTH} END $$;"
_MARK = Mark("a", 1.0, 7, programs=True)


@pytest.mark.parametrize(
    ("part", "text", "mark"),
    [
        ("pre_data", _SCHEMA, None),
        ("pre_data", _BOTH, _MARK),
        ("post_data", _SCHEMA, _MARK),
        ("post_data", _BOTH, None),
        ("post_data", _BLOCK, None),
        ("post_data", _BLOCK, _MARK),
    ],
)
def test_a_model_that_makes_the_mark_itself_leaves_nothing(model, make_database, part, text, mark):
    """It would keep every reader away from the target; nobody has to trust it for that."""
    found, target = Model.load(model), make_database()
    made = replace(found.ddl, **{part: f"{getattr(found.ddl, part)}\n{text}"})
    with pytest.raises(ModelError, match=r"makes the schema privbench unfinished load|not allowed"):
        Loader(target, found.schema, made, trust=False, mark=mark)
    with (  # noqa: PT012
        pytest.raises(PrivbenchError, match=r"the database is not whole|already exists"),
        Loader(target, found.schema, made, mark=mark) as loader,
    ):
        loader.publish()
        loader.finish()
    if mark is None:
        assert market.one(target, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    if text.startswith("DO"):
        pipeline.load(model, target, replace=True, **GIVEN)


@pytest.mark.parametrize("text", [_SCHEMA, _BOTH])
def test_a_source_that_has_the_schema_of_the_mark_is_not_read(make_database, text):
    source = make_database(f"CREATE TABLE t (i integer); {text}")
    with psycopg.connect(source) as connection, pytest.raises(TargetError, match="not whole"):
        introspect(connection)


def test_the_hash_of_a_model_is_that_of_what_it_holds(odd, model, tmp_path):
    found = Model.load(odd)
    found.save(tmp_path / "copy")
    assert Model.load(tmp_path / "copy").digest == found.digest != Model.load(model).digest


@pytest.mark.slow
def test_workers_load_the_same_rows_though_one_dies(odd, whole, make_database):
    killed: list[int] = []

    def kill():
        if not killed:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    target = make_database()
    with two_workers(preload=small_parts.__file__) as cluster:
        where = cluster.scheduler_address
        with pytest.raises(UsageError, match="--resumable"):
            pipeline.load(odd, target, where=where)
        report = pipeline.load(
            odd,
            target,
            where=where,
            resumable=True,
            reporter=Watching("load public.plain", kill),
            **GIVEN,
        )
    assert killed
    assert (rows(target), report, schema_of(target)) == whole
