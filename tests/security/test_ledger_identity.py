"""Attacks by the ledger: one database that is taken for several, each with the whole cap."""

import uuid
from contextlib import contextmanager
from functools import partial
from itertools import product

import market
import pytest
from halting import fit_at_once, kill_at
from psycopg import conninfo

from privbench import pipeline
from privbench.config import Config
from privbench.errors import BudgetExceeded, LedgerError, PrivacyRefusal, TargetError
from privbench.pipeline.accounts import ledgers_of
from privbench.postgres.connect import connect, identity
from privbench.postgres.load_mark import Mark
from privbench.privacy import Accountant, Cap, Fit, Ledger, UnitDefinition
from privbench.workload import Plan

DEFINITION = UnitDefinition("add-remove", (("public.users", ""),))
OVER = partial(pytest.raises, BudgetExceeded)
SECOND_NAME = partial(pytest.raises, PrivacyRefusal, match="has releases under the name")
IS_A_SOURCE = partial(pytest.raises, TargetError, match="has releases in the ledger")


@pytest.fixture(scope="module")
def source(make_database):
    return market.create(make_database(), 20)


@pytest.fixture
def plain(source):
    """A role that may read the market, on a server where pg_control_system is nobody's."""
    name = f"plain_{uuid.uuid4().hex[:8]}"
    market.execute(
        source,
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
        f"CREATE ROLE {name} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}",
    )
    yield conninfo.make_conninfo(source, user=name)
    market.execute(
        source,
        "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC",
        f"DROP OWNED BY {name}; DROP ROLE {name}",
    )


def spend(path, name, epsilon=1.0, database=None, cap=None, apart=()):
    """Open a release in a ledger and leave it, as a fit that died does."""
    ledger = Ledger.open(path, name, database, apart)
    release = ledger.open_release(
        Fit("hash", DEFINITION), Accountant("pure", epsilon), cap=None if cap is None else Cap(cap)
    )
    release.leave()
    return release.id


def known(dsn, declared=None):
    with connect(dsn) as connection:
        return identity(connection, declared)


def test_fit_without_an_identity_is_refused_whatever_the_address(plain, tmp_path):
    """Socket, symbolic link and names of one server do not make it several."""
    parts = conninfo.conninfo_to_dict(plain)
    spelled = [parts]
    if str(parts["host"]).startswith("/"):
        (tmp_path / "sock").symlink_to(str(parts["host"]))
        spelled.append({**parts, "host": str(tmp_path / "sock")})
    undeclared = market.CONFIG.replace('identity = "market"', "")
    config = market.config(tmp_path / "ledger", undeclared)
    for one in spelled:
        dsn = conninfo.make_conninfo("", **one)
        for refused in (
            partial(pipeline.fit, dsn, config, tmp_path / "m"),
            partial(pipeline.plan, config, dsn),
            partial(pipeline.ledger_show, dsn, None, config.ledger.path),
            partial(pipeline.ledger_cap, dsn, None, config.ledger.path, Cap(1.0)),
        ):
            with pytest.raises(PrivacyRefusal, match="Declare one under \\[database\\]"):
                refused()
    assert not (tmp_path / "ledger").exists()
    assert "none" in pipeline.inspect(plain).render().splitlines()[0]
    planned = pipeline.plan(market.config(tmp_path / "ledger"), plain)
    assert "market (declared in the config)" in planned.render()
    assert planned.to_json()["identity"]["name"] == "market"


@contextmanager
def renamed(server, old, new):
    market.execute(server.dsn, f"ALTER DATABASE {old} RENAME TO {new}")
    yield
    market.execute(server.dsn, f"ALTER DATABASE {new} RENAME TO {old}")


def test_identity_of_a_renamed_database_is_the_same(make_database, server, tmp_path):
    old, new = f"old_{uuid.uuid4().hex[:8]}", f"new_{uuid.uuid4().hex[:8]}"
    dsn = make_database(name=old)
    before = known(dsn)
    spend(tmp_path, before.required(), database=before.own, cap=1.5)
    with renamed(server, old, new):
        assert known(conninfo.make_conninfo(dsn, dbname=new)) == before
    # Another database does not pay for this one.
    other = known(make_database()).required()
    assert other != before.required()
    spend(tmp_path, other, database=other, cap=1.5)
    with OVER():
        spend(tmp_path, before.required(), database=before.own, cap=1.5)


FORMER = [
    "{system}/shop", "{system}/another name, before a rename", "localhost:5432/shop",
    "/var/run/postgresql:5432/old", "db.example:6432/shop", "[::1]:5432/a/b",
]  # fmt: skip


@pytest.mark.parametrize(
    ("former", "declared"), [*product(FORMER, [None, "shop"]), ("{undeclared}", "shop")]
)
def test_spend_under_a_former_name_counts_under_the_new(make_database, tmp_path, former, declared):
    """That of an earlier version, or the OID before a name was declared."""
    dsn = make_database()
    now = known(dsn, declared)
    old = former.format(system=now.own.partition(":")[0], undeclared=known(dsn).required())
    spend(tmp_path, old, 1.0)
    Ledger.open(tmp_path, old).set_cap(Cap(1.5))
    given = {"name": now.required(), "database": now.own}
    with OVER():
        spend(tmp_path, **given)
    spend(tmp_path, epsilon=0.5, **given)
    ledger = Ledger.open(tmp_path, now.required(), now.own)
    assert [item["epsilon"] for item in ledger.show()["definitions"]] == [1.5]
    assert [item["identity"] for item in ledger.show()["others"]] == [old]
    # The owner may set another cap; that of the old name holds no longer.
    ledger.set_cap(Cap(3))
    spend(tmp_path, epsilon=1.5, **given)
    with OVER():
        spend(tmp_path, epsilon=0.1, **given)


def test_spend_beside_a_damaged_ledger_is_refused_and_beside_other_folders_goes_on(tmp_path):
    """What cannot be told apart is refused."""
    (tmp_path / "lost+found").mkdir(mode=0o000)
    (tmp_path / "notes.txt").write_text("x")
    spend(tmp_path, "7/shop")
    (file,) = tmp_path.rglob("ledger.sqlite")
    file.write_bytes(file.read_bytes().replace(b"identity", b"Identity", 1))
    with pytest.raises(LedgerError, match="damaged"):
        spend(tmp_path, "7:16384", database="7:16384")


def test_resume_of_an_earlier_name_goes_on_in_its_file(tmp_path):
    """So that it is counted once."""
    old = spend(tmp_path, "7/shop")
    ledger = Ledger.open(tmp_path, "7:16384", "7:16384")
    release = ledger.open_release(Fit("hash", DEFINITION), Accountant("pure", 1.0), resume=old)
    assert release.close().epsilon == 0
    (shown,) = Ledger.open(tmp_path, "7/shop").show()["releases"]
    assert shown["state"] == "closed"
    assert ledger.show()["definitions"][0]["epsilon"] == 0


def test_ledger_abandon_frees_what_no_event_took(tmp_path):
    dead = spend(tmp_path, "shop", cap=1.0)
    with OVER():
        spend(tmp_path, "shop", 0.5, cap=1.0)
    assert pipeline.ledger_abandon(dead, str(tmp_path)).epsilon == 0
    with pytest.raises(LedgerError, match="closed"):
        pipeline.ledger_abandon(dead, str(tmp_path))
    spend(tmp_path, "shop", 0.5, cap=1.0)
    # Ids are looked up, never opened.
    before = sorted(tmp_path.rglob("*"))
    for wrong in (str(uuid.UUID(int=1)), "", "../../etc/passwd", "%00", "é"):
        with pytest.raises(LedgerError, match="no ledger in"):
            pipeline.ledger_abandon(wrong, str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


#: A workload that is made at once.
PLAN = Plan(3, (0, 0), (1, 1), ("=",))
TOML = """
[privacy]
epsilon = 1.0
delta = 0.0
[synthesizer]
name = "independent"
[tables."public.t"]
"""
TABLE = """CREATE TABLE t (id integer PRIMARY KEY, v integer);
INSERT INTO t SELECT i, i % 5 FROM generate_series(1, 300) i"""


@pytest.fixture
def make_table(make_database):
    """Databases of one small table, each with an identifier of its own."""
    return partial(make_database, TABLE)


def declared(folder, name=None, **limits):
    """A config of that table under a name."""
    config = Config.loads(TOML).changed("database", identity=name)
    return config.changed("ledger", path=str(folder / "ledger"), **limits)


def fit(dsn, folder, name=None, **limits):
    """One release of ε = 1 under a name."""
    path = folder / f"{uuid.uuid4()}.privbench"
    pipeline.fit(dsn, declared(folder, name, **limits), path)
    return path


def total(folder, name, dsn=""):
    """ε of all releases that count for a database under a name, as whole releases."""
    (shown,) = pipeline.ledger_show(dsn, name, str(folder / "ledger")).state["definitions"]
    return round(shown["epsilon"], 6)


MARKS = (
    "ALTER DATABASE {0} SET privbench.staged = 'on'",
    "ALTER ROLE CURRENT_USER IN DATABASE {0} SET privbench.staged = 'on'",
    "ALTER DATABASE {0} SET application_name = 'privbench'",
    "COMMENT ON DATABASE {0} IS 'privbench.staged'",
    "CREATE SCHEMA files; CREATE TABLE files.privbench_staged ()",
)


@pytest.mark.parametrize(
    "statements", market.some_slow([(MARKS,), *(((mark,),) for mark in MARKS)], [(MARKS,)])
)
def test_what_a_database_says_of_itself_switches_no_ledger_off(make_table, tmp_path, statements):
    """Settings, comments and names that its owner can write, as if it were a copy of files."""
    dsn, path = make_table(), str(tmp_path / "ledger")
    name = conninfo.conninfo_to_dict(dsn)["dbname"]
    market.execute(dsn, *(statement.format(name) for statement in statements))
    model = fit(dsn, tmp_path, cap_epsilon=1.5)
    for name in (None, "a", "b"):
        with OVER():
            fit(dsn, tmp_path, name, cap_epsilon=1.5)
    assert total(tmp_path, None, dsn) == 1
    with IS_A_SOURCE():
        pipeline.load(model, dsn, replace=True, ledger=path)
    assert pipeline.generate_workload(model, "mscn", PLAN, clone=dsn, ledger=path).confidential


def test_a_mark_of_an_unfinished_load_opens_no_source(make_table, tmp_path):
    """The mark is a table that anybody may make."""
    dsn = make_table()
    model = fit(dsn, tmp_path)
    with connect(dsn, autocommit=True) as connection:
        Mark(pipeline.Model.load(model).digest, 1.0, 7, programs=False).make(connection)
    with IS_A_SOURCE():
        pipeline.load(model, dsn, ledger=str(tmp_path / "ledger"))
    assert market.one(dsn, "SELECT count(*) FROM t") == 300


@pytest.mark.parametrize("name", [None, "a"])
def test_rows_are_those_of_the_database_whose_ledger_was_asked(make_table, tmp_path, name):
    """After consent the address leads to another database: nothing is read."""
    dsn, copy = make_table(), make_table()
    config, path = declared(tmp_path, name), tmp_path / "model"
    seen = pipeline.look(copy, config)
    with pytest.raises(PrivacyRefusal, match="leads to another database"):
        pipeline.fit(dsn, config, path, catalog=seen)
    assert total(tmp_path, name, copy) == 0
    pipeline.fit(copy, config, path, catalog=seen)


@pytest.mark.parametrize(
    "names",
    market.some_slow(
        [((None, "a"),), (("a", None),), (("a", "a"),), ((None, "a", None),)],
        [(("a", None),), ((None, "a", None),)],
    ),
)
def test_all_names_of_a_database_are_one_ledger(make_table, tmp_path, names):
    """Losses under the declared name and under the server's identifier add up."""
    dsn = make_table()
    limit = len(names) + 0.5
    for number, name in enumerate(names, start=1):
        fit(dsn, tmp_path, name, cap_epsilon=limit)
        for asked in (None, "a"):
            assert total(tmp_path, asked, dsn) == number
    for name in (None, "a"):
        with OVER():
            fit(dsn, tmp_path, name, cap_epsilon=limit)


def test_a_second_name_is_refused_unless_it_is_declared_to_be_apart(make_table, tmp_path):
    """Two servers may state one identifier: their owner says so, and it then holds for both."""
    dsn, path = make_table(), str(tmp_path / "ledger")
    fit(dsn, tmp_path, "a")
    with SECOND_NAME():
        fit(dsn, tmp_path, "b")
    with SECOND_NAME():
        pipeline.ledger_cap(dsn, "b", path, Cap(9.0))
    assert "the name 'a'" in pipeline.doctor(dsn, None, declared(tmp_path, "b")).render()
    with pytest.raises(PrivacyRefusal, match="only a declared name"):
        fit(dsn, tmp_path, None, apart_from=["a"])
    config = tmp_path / "apart.toml"
    config.write_text(TOML, encoding="utf-8")
    words = ["fit", dsn, "-c", config, "--identity", "b", "--ledger", path, "-o", tmp_path / "m"]
    market.succeed(*words, "--apart-from", "a")
    assert (total(tmp_path, "a", dsn), total(tmp_path, "b", dsn)) == (1, 1)
    fit(dsn, tmp_path, "b")
    fit(dsn, tmp_path, "a")
    assert (total(tmp_path, "a", dsn), total(tmp_path, "b", dsn)) == (2, 2)
    shown = pipeline.ledger_show(dsn, "b", path)
    assert "Not counted, as it was declared to be of other data: a" in shown.render()
    # Without a name it may be the one or the other.
    fit(dsn, tmp_path)
    assert [total(tmp_path, name, dsn) for name in (None, "a", "b")] == [5, 3, 3]
    # The database's own identifier is the name of no other data.
    for own in (known(dsn).own, "?:" + known(dsn).own.rpartition(":")[2]):
        with pytest.raises(PrivacyRefusal, match="only a declared name"):
            fit(dsn, tmp_path, "b", apart_from=[own])
    for apart in ([], ["a"], ["b"]):
        with SECOND_NAME():
            fit(dsn, tmp_path, "c", apart_from=apart)


@pytest.mark.parametrize("hidden", [(True, True), (True, False), (False, True)])
def test_a_second_name_is_refused_where_the_identifier_is_hidden(source, plain, tmp_path, hidden):
    """A role that may not ask for it: the OID, which every role may read, then decides alone."""
    first, second = (known(plain if hide else source).own for hide in hidden)
    assert [name.startswith("?:") for name in (first, second)] == [*hidden]
    spend(tmp_path, "a", database=first, cap=1.5)
    with SECOND_NAME():
        spend(tmp_path, "b", database=second)
    with OVER():
        spend(tmp_path, "a", database=second, cap=1.5)
    with connect(plain if hidden[1] else source) as connection:
        assert ledgers_of(connection, str(tmp_path), surely=True)
    other = first.rpartition(":")[0] + ":1"
    spend(tmp_path, "c", database=other, cap=1.5)
    spend(tmp_path, "b", database=second, apart=["a"], cap=1.5)


def test_a_name_that_spent_nothing_binds_nobody(make_table, tmp_path):
    """That of a fit under a mistyped name that ended before its first event."""
    dsn = make_table()
    wrong = Ledger.open(tmp_path / "ledger", "shpo", known(dsn).own)
    wrong.open_release(Fit("hash", DEFINITION), Accountant("pure", 1.0)).close()
    fit(dsn, tmp_path, "shop")


def test_a_name_joins_a_database_and_its_restore_with_all_their_names(make_table, tmp_path):
    """What one name joins stays joined; entries of earlier versions go by their name."""
    one, restored, apart = make_table(), make_table(), make_table()
    fit(restored, tmp_path)
    fit(one, tmp_path, "shop")
    fit(restored, tmp_path, "shop")
    spend(tmp_path / "ledger", "other")
    for dsn in (one, restored):
        for name in (None, "shop"):
            assert total(tmp_path, name, dsn) == 3
    assert total(tmp_path, "shop") == 3
    with SECOND_NAME():
        fit(restored, tmp_path, "other")
    fit(apart, tmp_path)
    assert total(tmp_path, None, apart) == 1
    assert total(tmp_path, "shop", one) == 3


def test_a_release_that_is_resumed_on_a_restore_counts_for_it(make_table, tmp_path):
    """And the restore is no target."""
    one, restored = make_table(), make_table()
    config = declared(tmp_path, "shop")
    kill_at("store:1", pipeline.fit, one, config, tmp_path / "m")
    state = pipeline.ledger_show("", "shop", config.ledger.path).state
    pipeline.fit(restored, config, tmp_path / "m", resume=state["releases"][0]["release"])
    for dsn in (one, restored):
        assert total(tmp_path, None, dsn) == 1
        with IS_A_SOURCE():
            pipeline.load(tmp_path / "m", dsn, replace=True, ledger=config.ledger.path)


@pytest.mark.parametrize("names", [("a", "b"), ("a", None)])
def test_two_fits_at_once_under_two_names_share_one_cap(make_table, tmp_path, names):
    dsn = make_table()
    configs = [declared(tmp_path, name, cap_epsilon=1.5) for name in names]
    outcomes = fit_at_once(*((dsn, item, tmp_path / f"{n}.m") for n, item in enumerate(configs)))
    assert sorted(map(bool, outcomes)) == [False, True]
    assert len([*tmp_path.glob("*.m")]) == 1
    assert total(tmp_path, None, dsn) == 1


@pytest.fixture
def ticks(monkeypatch):
    """``ticks(seconds)``: what the ledger's clock says, one after the other."""

    def set_clock(seconds):
        times = (f"2030-01-01T00:00:{second:02}+00:00" for second in seconds)
        monkeypatch.setattr("privbench.privacy.ledger._now", lambda *_: next(times))

    return set_clock


def test_caps_that_were_set_in_one_second_hold_each(tmp_path, ticks):
    ticks([0] * 60)
    names = ["shop", "7:16384"]
    for name, cap in zip(names, (9.0, 1.0), strict=True):
        Ledger.open(tmp_path, name, "7:16384").set_cap(Cap(cap))
    for name in names:
        with OVER():
            spend(tmp_path, name, 2.0, database="7:16384")


def test_a_cap_holds_under_every_name(make_table, tmp_path, ticks):
    """Of the caps of joined ledgers those hold that no later one of the own ledger replaces."""
    dsn, path = make_table(), str(tmp_path / "ledger")
    ticks(range(60))
    pipeline.ledger_cap(dsn, "shop", path, Cap(0.5))
    with OVER():
        fit(dsn, tmp_path)
    pipeline.ledger_cap(dsn, None, path, Cap(1.5))
    with OVER():
        fit(dsn, tmp_path, "shop")
    pipeline.ledger_cap(dsn, "shop", path, Cap(9.0))
    fit(dsn, tmp_path, "shop")
    with OVER():
        fit(dsn, tmp_path)
    pipeline.ledger_cap(dsn, None, path, Cap(9.0))
    fit(dsn, tmp_path)
