"""Loads in several transactions: the rows of one, whoever copies them, wherever it is killed."""

import os
import signal
import threading
import time
from dataclasses import replace

import market
import psycopg
import pytest
import small_parts
from halting import Watching, kill_at, stop, two_workers
from integrity import schema_of, unkept
from psycopg import conninfo
from sql_files import sql_of

from privbench import pipeline
from privbench.errors import ModelError, PrivbenchError, TargetError, UsageError
from privbench.pipeline import Model
from privbench.postgres.introspect import introspect
from privbench.postgres.load import Loader
from privbench.postgres.load_mark import LoadStep, Mark, once
from privbench.postgres.statement import build
from privbench.postgres.transaction import TargetTransaction
from privbench.report import compare
from privbench.schema import TableName
from privbench.threads import JOBS

TABLES = ("holder", "visit", "plain", "room", "measured", "bill", "nothing", "cache")
STEPS = 'SELECT count(*) FROM "privbench unfinished load".steps'
GIVEN = {"seed": 3, "scale": 2}


@pytest.fixture(autouse=True, scope="module")
def _sizes():
    with pytest.MonkeyPatch.context() as patched:
        for module, name, size in small_parts.SIZES:
            patched.setattr(module, name, size)
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
    """The rows of a load in one transaction, its report and its schema."""
    target = make_database()
    report = pipeline.load(odd, target, one_transaction=True, **GIVEN)
    assert report.dropped["public.holder"]
    assert report.dropped["public.bill"]
    assert report.repaired["public.visit"]
    return rows(target), report, schema_of(target)


def test_a_load_in_several_transactions_gives_the_rows_of_one(odd, whole, make_database):
    """By a role that owns nothing else, too."""
    target = make_database()
    role = market.weak_owner(target)
    report = pipeline.load(odd, target, as_role=role, **GIVEN)
    assert (rows(target), report, schema_of(target)) == whole
    assert unkept(target) == []
    owners = market.ask(target, "SELECT tableowner FROM pg_tables WHERE schemaname = 'public'")
    assert set(owners) == {(role,)}


@pytest.mark.parametrize(
    ("moment", "step"),
    market.some_slow(
        [
            ("load public.plain", ""),
            ("indexes and constraints", "repairs"),
            ("analyze", "check of statement %"),
            ("sequences", "statistics of public.visit"),
        ],
        [("load public.plain", ""), ("analyze", "check of statement %")],
    ),
)
def test_a_load_that_is_killed_goes_on(odd, whole, make_database, tmp_path, moment, step):
    """No command reads what it left, or goes on with something else."""
    target = make_database()
    kill_at(moment, small_parts.load, odd, target, **GIVEN)
    market.execute(target, sql_of(__file__, "kill_ended"))
    assert market.one(target, f"{STEPS} WHERE step LIKE '{step}%'")
    queries = tmp_path / "queries.sql"
    queries.write_text("SELECT count(*) FROM plain;\n")
    for refused in (
        lambda: pipeline.load(odd, target, one_transaction=True, **GIVEN),
        lambda: pipeline.load(odd, target, schema_only=True, **GIVEN),
        lambda: pipeline.inspect(target),
        lambda: pipeline.run(queries, target),
        lambda: compare(make_database(), target, workload=queries),
        lambda: pipeline.check_target(make_database(), target, replace=False),
    ):
        with pytest.raises(TargetError, match=r"not whole.*UNFINISHED.*--one-transaction"):
            refused()
    for other in ({"seed": 4}, {"scale": 3}, {"trust_programs": True}):
        with pytest.raises(TargetError, match=r'something else.*"seed": 3.*--replace'):
            pipeline.load(odd, target, **(GIVEN | other))
    report = pipeline.load(odd, target, scale=2)
    assert (rows(target), report, schema_of(target)) == whole
    with pytest.raises(TargetError, match="not empty"):
        pipeline.load(odd, target, **GIVEN)


@pytest.mark.slow
def test_a_load_that_fails_says_how_to_go_on_and_replace_begins_anew(odd, whole, make_database):
    target = make_database()
    reporter = Watching("load public.visit", stop)
    with pytest.raises(RuntimeError) as raised:
        pipeline.load(odd, target, reporter=reporter)
    assert "the same load goes on" in raised.value.__notes__[0]
    pipeline.load(odd, target, replace=True, **GIVEN)
    assert rows(target) == whole[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER ROLE {} CONNECTION LIMIT 3", "2 connections, not 3"),
        ("ALTER ROLE {} CONNECTION LIMIT 1", "the load is one transaction"),
        ("ALTER DATABASE {} OWNER TO CURRENT_USER", "may not make a schema"),
    ],
)
def test_a_load_makes_do_with_what_it_is_given(odd, whole, make_database, caplog, change, said):
    """With fewer connections, or in one transaction; the rows are the same."""
    target = make_database()
    role, database = market.weak_owner(target), conninfo.conninfo_to_dict(target)["dbname"]
    name = database if "DATABASE" in change else role
    for statement, changed in (
        ("ALTER ROLE {} LOGIN", role),
        ("GRANT CREATE ON SCHEMA public TO {}", role),
        (change, name),
    ):
        market.execute(target, build(statement, str(changed)))
    pipeline.load(odd, conninfo.make_conninfo(target, user=role), **GIVEN)
    assert said in caplog.text
    assert rows(target) == whole[0]


@pytest.mark.parametrize(
    "setting",
    [
        "default_transaction_isolation = 'serializable'",
        "idle_session_timeout = '500ms'",
        "default_tablespace = other",
    ],
)
def test_settings_of_a_database_change_nothing_of_a_load(odd, whole, make_database, setting):
    """While one table is copied, other connections are idle for longer than the limit."""
    target, pauses = make_database(), iter([1.0])
    database = str(conninfo.conninfo_to_dict(target)["dbname"])
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute("CREATE TABLESPACE other LOCATION ''")
    try:
        market.execute(target, build("ALTER DATABASE {} SET " + setting, database))
        reporter = Watching("load public.plain", lambda: time.sleep(next(pauses, 0.0)))
        pipeline.load(odd, target, reporter=reporter, **GIVEN)
    finally:
        # PostgreSQL refuses that if anything was put there.
        market.execute(target, "DROP TABLESPACE other")
    assert rows(target) == whole[0]


def test_a_crash_of_the_server_that_empties_unlogged_tables_is_seen(odd, make_database):
    target, found = make_database(), Model.load(odd)
    mark = Mark(found.digest, 2.0, 3, programs=False)
    with Loader(target, found.schema, found.ddl, trust=False, mark=mark) as loader:
        loader.publish()
    kept = "SELECT relpersistence::text FROM pg_class WHERE relname = 'steps'"
    assert market.one(target, kept) == "u"
    market.execute(target, 'TRUNCATE "privbench unfinished load".steps')
    with pytest.raises(TargetError, match=r"has crashed.*--replace"):
        pipeline.load(odd, target, **GIVEN)


@pytest.mark.parametrize("said", ['{"seed": []}', "[" * 10**5, "\x1b[31m"])
def test_a_mark_that_cannot_be_read_is_of_something_else(odd, make_database, said):
    """No terminal obeys what it says."""
    comment = f"""COMMENT ON TABLE "privbench unfinished load".steps IS '{said}'"""
    target = make_database(f"{_BOTH} {comment}")
    with pytest.raises(TargetError, match="something else") as raised:
        pipeline.load(odd, target, **GIVEN)
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

        def work(_: TargetTransaction) -> str:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                market.execute(target, "SET lock_timeout = 1; DROP TABLE refund")
            return ""

        steps = [LoadStep(name, work, frozenset([TableName("public", "refund")])) for name in "ab"]
        assert [result for _, result in loader.run(steps)] == ["", ""]
        loader.alone(LoadStep("c", work))
    market.execute(target, f'ALTER TABLE refund OWNER TO "{role}"')
    strange = "refund in the target belongs to another role"
    with Loader(target, found.schema, found.ddl, mark=mark) as loader:
        loader.publish()
        with pytest.raises(TargetError, match=strange):
            list(loader.run([replace(steps[0], name="d")]))
        with pytest.raises(TargetError, match=strange):
            loader.alone(LoadStep("e", work))


@pytest.mark.parametrize("place", ["mark", "table"])
def test_a_view_of_others_in_the_place_of_a_table_is_not_asked(model, make_database, place):
    """What it calls would run as the role of the load, which may be a superuser's."""
    target, found = make_database(), Model.load(model)
    role = market.weak_owner(target)
    mark = Mark("a", 1.0, 7, programs=False)
    with Loader(target, found.schema, found.ddl, mark=mark) as loader:
        loader.publish()
    name = '"privbench unfinished load".steps' if place == "mark" else "public.refund"
    comment = market.one(target, f"SELECT obj_description('{name}'::regclass)")
    market.execute(
        target,
        f"DROP TABLE {name} CASCADE",
        "CREATE TABLE seen (who text)",
        "CREATE FUNCTION look() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.seen VALUES (current_user); RETURN true; END $$",
        f"CREATE VIEW {name} AS SELECT 'a' AS step, 'b' AS result WHERE public.look()",
        f"COMMENT ON VIEW {name} IS '{comment or ''}'",
        f'ALTER VIEW {name} OWNER TO "{role}"',
    )
    step = LoadStep("a", lambda _: "", frozenset([TableName("public", "refund")]))
    with (  # noqa: PT012
        pytest.raises(TargetError, match="is no table any more"),
        Loader(target, found.schema, found.ddl, mark=mark) as loader,
    ):
        loader.publish()
        list(loader.run([step]))
    assert market.one(target, "SELECT count(*) FROM seen") == 0


def test_a_step_is_done_once_and_only_in_its_target(make_database):
    """Whoever does a step that is under way waits for its end."""
    target = make_database("CREATE TABLE t (i integer)")
    mark = Mark("a", 1.0, 7, programs=False)
    with psycopg.connect(target) as connection:
        mark.make(connection)

    def fill(transaction: TargetTransaction) -> str:
        """While the step is under way, another session does it too."""
        transaction.connection.execute("INSERT INTO public.t VALUES (1)")
        other.start()
        other.join(0.5)
        assert other.is_alive()
        return "filled"

    def again() -> None:
        with TargetTransaction(target) as transaction:
            results.append(*once(transaction, mark, [LoadStep("rows", lambda _: "filled again")]))

    results: list[str] = []
    other = threading.Thread(target=again)
    with TargetTransaction(target) as first:
        assert once(first, mark, [LoadStep("rows", fill)]) == ["filled"]
    other.join(30)
    assert results == ["filled"]
    assert market.one(target, "SELECT count(*) FROM t") == 1
    with (
        TargetTransaction(make_database()) as elsewhere,
        pytest.raises(TargetError, match="is no table any more"),
    ):
        once(elsewhere, mark, [LoadStep("rows", fill)])


_SCHEMA = 'CREATE SCHEMA "privbench unfinished load";'
_BOTH = f'{_SCHEMA} CREATE TABLE "privbench unfinished load".steps (i integer);'
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
        with pytest.raises(UsageError, match="--one-transaction"):
            pipeline.load(odd, target, where=where, one_transaction=True)
        report = pipeline.load(
            odd,
            target,
            where=where,
            reporter=Watching("load public.plain", kill),
            **GIVEN,
        )
    assert killed
    assert (rows(target), report, schema_of(target)) == whole
