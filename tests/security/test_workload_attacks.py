"""Workloads of strangers that a superuser replays: what does more than read is refused."""

import re
import tempfile
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import market
import psycopg
import pytest
from bounded import bounded
from sql_files import cases, sql_of

from privbench.errors import ModelError, UsageError
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import reading
from privbench.publish.judging import judge_workload
from privbench.workload import Workload, WorkloadQuery, replay
from privbench.workload.capture.gather import reason_against
from privbench.workload.generators.rows import DatabaseRows
from privbench.workload.rebind import Planner, rebind
from privbench.workload.safety import Trust, replayed

#: ``act`` writes the file of the attack; ``calm`` is immutable for all that the planner knows.
SETUP = sql_of(__file__, "workload_setup")


@dataclass(frozen=True)
class Attack:
    """The query, what the refusal says, and what makes it possible in the source."""

    query: str
    refused: str = ""
    made: str = ""
    extension: str = ""
    needs: str = "SELECT 1"  # a query that fails where the attack cannot be
    writes: bool = True

    @property
    def offered(self):
        """Whether it is possible on servers alone that offer an extension or a clause."""
        return bool(self.extension) or "EXTENSION" in self.made or self.needs != Attack.needs

    @property
    def alone(self):
        """Whether it needs a database of its own."""
        return bool(self.made) or self.offered


def read_attacks(name):
    """The attacks of a file, by what they are called."""
    found = {}
    for attack, text in cases(__file__, name):
        head, query = text.split("-- query:\n")
        said = dict(re.findall(r"^-- (refused|extension|needs|it writes)(?::)? (.*)", head, re.M))
        made = "\n".join(line for line in head.split("\n") if not line.startswith("-- "))
        writes = said.pop("it writes", "") != "nothing"
        found[attack] = Attack(query, made=made.strip(), writes=writes, **said)
    return found


MADE = dict(cases(__file__, "workload_made"))
#: Functions that the query names, and what stands for its operators and words; what stops the
#: latter: `judge` asks for all that a clause may stand for, and `Database` for what the planner and
#: functions written in SQL put in the place of what is written.
ATTACKS = read_attacks("named") | read_attacks("unnamed")


@pytest.fixture(scope="module")
def open_folder():
    """A folder that the server may write in, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="privbench-attack-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture(scope="module")
def shared(make_database_on, open_folder):
    """``shared(server)``: a database for all attacks that need nothing made for them."""
    setup = SETUP.replace("{file}", str(open_folder / "written"))
    made = {}

    def of(server):
        if server.name not in made:
            made[server.name] = make_database_on(server, keep=True, statements=setup)
        return made[server.name]

    return of


@pytest.fixture
def source_on(make_database_on, open_folder, shared):
    """``source_on(server, attack)``: a database the attack is possible in, and its file."""

    def made(server, attack):
        if not attack.alone:
            file = open_folder / "written"
            file.unlink(missing_ok=True)
            return shared(server), file
        # Autovacuum may compute an index at any time: each database writes a file of its own.
        dsn, role = make_database_on(server), f"role_{uuid.uuid4().hex[:12]}"
        file = open_folder / role
        with psycopg.connect(dsn, autocommit=True) as connection:
            if attack.extension:
                try:
                    connection.execute(f"CREATE EXTENSION {attack.extension}".encode())
                except psycopg.Error:
                    pytest.skip(f"this server does not have {attack.extension}")
            try:
                connection.execute(attack.needs.encode())
            except psycopg.Error:
                pytest.skip(f"{server.name} has no such clause")
            connection.execute(SETUP.replace("{file}", str(file)).encode())
            connection.execute(attack.made.replace("{role}", role).encode())
        file.unlink(missing_ok=True)
        return dsn, file

    return made


@pytest.fixture
def source(each_server, source_on):
    """``source(attack)``: the same on each server."""
    return partial(source_on, each_server)


def _run(dsn, query, **options):
    workload = Workload("theirs", (WorkloadQuery("q1", "SELECT 1"), WorkloadQuery("q2", query)))
    found = replay(workload, {"source": dsn}, repeats=1, warmup=0, **options)
    return found.results[1]["source"].status


#: Attacks that need nothing made for them.
SHARED = [name for name, attack in ATTACKS.items() if not attack.alone]


def test_replay_of_attacks_is_refused_without_trust(source, each_server, server):
    dsn, file = source(Attack(""))
    queries = (WorkloadQuery(name, ATTACKS[name].query) for name in SHARED)
    workload = Workload("theirs", (WorkloadQuery("harmless", "SELECT 1"), *queries))
    found = replay(workload, {"source": dsn}, repeats=1, warmup=0, skip_refused=True)
    reasons = {item.id: item.reason for item in found.refused}
    assert [*reasons] == SHARED
    assert [name for name in SHARED if ATTACKS[name].refused not in reasons[name]] == []
    assert not file.exists()
    if each_server is not server:
        return
    wrote = []

    def tell(step, done, total):
        wrote.append(file.exists())
        file.unlink(missing_ok=True)

    found = replay(workload, {"source": dsn}, repeats=1, warmup=0, trust_workload=True, tell=tell)
    ran = zip(found.workload, found.results, wrote, strict=True)
    for query, answers, written in [*ran][1:]:
        status = answers["source"].status
        assert written if ATTACKS[query.id].writes else status == "ok", query.id


def _refused(server, name, source_on, *, trusted):
    attack = ATTACKS[name]
    dsn, file = source_on(server, attack)
    with pytest.raises(UsageError, match=r"query q\d of workload theirs") as refusal:
        _run(dsn, attack.query)
    assert attack.refused in refusal.value.message
    assert not file.exists()
    if trusted:
        status = _run(dsn, attack.query, trust_workload=True)
        # Or it is no attack at all.
        assert file.exists() if attack.writes else status == "ok"


ALONE = [name for name in ATTACKS if name not in SHARED]


@pytest.mark.parametrize("name", ALONE)
def test_replay_of_an_attack_is_refused_without_trust(server, source_on, name):
    _refused(server, name, source_on, trusted=True)


@pytest.mark.parametrize(
    "name",
    market.some_slow(
        [(name,) for name in ALONE],
        [(name,) for name in ALONE if ATTACKS[name].offered],
    ),
)
def test_replay_of_an_attack_is_refused_by_each_server(each_server, server, source_on, name):
    if each_server is server:
        pytest.skip("the test before has it")
    _refused(each_server, name, source_on, trusted=ATTACKS[name].needs != Attack.needs)


def test_clauses_are_left_out_in_time_that_grows_with_the_text():
    count = 45_000
    text = "EXPLAIN SELECT 1" + " FOR UPDATE" * count

    def act():
        found, words = replayed(WorkloadQuery("q", text))
        assert found.sql == "SELECT 1"
        assert words.count("FOR UPDATE") == count

    bounded(act, seconds=15)


CALM = read_attacks("calm")
ALLOWED = ["public.same", "public.spell", "public.act", "pg_catalog.pg_sleep"]


@pytest.mark.parametrize("name", CALM)
def test_replay_of_what_only_reads_runs(source, name):
    dsn, file = source(CALM[name])
    allowed = "allowed" in name
    file.unlink(missing_ok=True)
    assert _run(dsn, CALM[name].query, functions=ALLOWED if allowed else ()) == "ok"
    assert file.exists() == allowed


def test_functions_of_listed_and_allowed_extensions_may_be_called(source):
    query = "SELECT similarity('a', 'b'), 'a'::text % 'b', normal_rand(1, 0, 1) FROM victim"
    dsn, _ = source(Attack(query, "", "CREATE EXTENSION pg_trgm", extension="tablefunc"))
    with pytest.raises(UsageError, match=r"public\.normal_rand, a function of the extension"):
        _run(dsn, query)
    assert _run(dsn, query, extensions=("tablefunc",)) == "ok"
    with pytest.raises(UsageError, match=r"form schema\.name"):
        _run(dsn, query, functions=("act",))


def test_an_aggregate_is_judged_by_the_operator_that_may_sort_for_it(source):
    dsn, _ = source(Attack("", made=MADE["an operator that may sort for an aggregate"]))
    with pytest.raises(UsageError, match=r"public\.first_of, .*: it runs public\.below, which is"):
        _run(dsn, "SELECT first_of(n) FROM victim")


def test_a_name_that_no_function_has_is_left_to_the_server_unless_somebody_may_have_it(source):
    dsn, _ = source(Attack(""))
    assert _run(dsn, "SELECT first_of(n), public.first_of(n) FROM victim") == "error"
    # A pooler's session may have temporary functions of others.
    for name in ("pg_temp.act", "pg_catalog.act", "information_schema._pg_truetypid"):
        with pytest.raises(UsageError, match=name.replace(".", r"\.")):
            _run(dsn, f"SELECT {name}()")


def test_of_an_ordinary_workload_only_what_does_more_than_read_is_refused(source):
    """Functions that tell facts are allowed by name; of their kinds, what changes one is not."""
    dsn, file = source(Attack(""))
    texts = sql_of(__file__, "ordinary").splitlines()
    refused = sql_of(__file__, "ordinary_refused").splitlines()
    workload = Workload("theirs", tuple(WorkloadQuery(text, text) for text in texts + refused))
    found = replay(workload, {"source": dsn}, repeats=1, warmup=0, skip_refused=True)
    assert [item.id for item in found.refused] == refused
    assert [query.id for query in found.workload] == texts
    with pytest.raises(UsageError) as caught:
        replay(workload, {"source": dsn}, repeats=1, warmup=0)
    lines = caught.value.message.splitlines()
    assert lines[0] == f"{len(refused)} of {len(workload)} queries are refused, none was run."
    assert [line.rpartition(": ")[2] for line in lines[1:-1]] == refused
    assert not file.exists()


def test_no_sequence_is_advanced_under_another_name(source):
    """A READ ONLY run refuses it too."""
    dsn, _ = source(Attack("", made=MADE["other names of nextval"]))
    for query in ("SELECT !+ 's'::regclass", "SELECT final('s'::regclass)", "SELECT advance()"):
        with pytest.raises(UsageError, match=r"public\..*nextval"):
            _run(dsn, query)
        assert _run(dsn, query, trust_workload=True) == "error"


def test_functions_within_functions_without_end_are_refused_by_name(source):
    """More than the judge's stack holds."""
    calls = [*(f"public.f{n}()" for n in range(1, 400)), "public.act()"]
    made = "SET check_function_bodies = off;" + "".join(
        f"CREATE FUNCTION public.f{n}() RETURNS text LANGUAGE sql AS 'SELECT {call}';"
        for n, call in enumerate(calls)
    )
    dsn, file = source(Attack("", made=made))
    ends = (0, 399, 1)
    workload = Workload("deep", tuple(WorkloadQuery(f"q{end}", f"SELECT f{end}()") for end in ends))
    with pytest.raises(UsageError) as caught:
        replay(workload, {"source": dsn})
    lines = caught.value.message.splitlines()[1:-1]
    for end, line in zip(ends, lines, strict=True):
        assert f"may call public.f{end}, a function that" in line
    assert len(caught.value.message) < 4000
    assert not file.exists()


#: Queries that call a function as if it were a field; `act` is the users', taking a row or a value.
FIELDS = sql_of(__file__, "fields").splitlines()


def test_a_function_in_the_place_of_a_field_is_judged_as_a_call(source):
    dsn, file = source(Attack("", made=MADE["functions of a row and of a value"]))
    for query in FIELDS:
        with pytest.raises(UsageError, match=r"selects nextval|may call public\.(rows|value)_of"):
            _run(dsn, query)
        # A bundle has no catalog that says what a field is: it has to be a column of its schema.
        workload = Workload("bundle", (WorkloadQuery("q1", query),))
        with pytest.raises(ModelError, match="which may be a call and is no known column"):
            judge_workload(workload, frozenset({"name", "n"}))
        assert not file.exists(), query
    judge_workload(
        Workload("b", (WorkloadQuery("q", "SELECT v.name FROM victim v"),)), frozenset({"name"})
    )
    assert market.one(dsn, "SELECT is_called FROM public.s") is False


def test_a_strong_role_is_warned_of_by_name(source):
    dsn, _ = source(Attack("SELECT 1", ""))
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"CREATE ROLE weak_{name} LOGIN; CREATE ROLE files_{name} LOGIN CREATEROLE;"
            f" GRANT pg_read_server_files TO files_{name}".encode()
        )
        owner = connection.info.user
    workload = Workload("theirs", (WorkloadQuery("q1", "SELECT 1"),))
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


def test_a_table_with_a_foreign_part_is_not_read(source):
    try:
        dsn, _ = source(Attack("", made=MADE["a foreign part"]))
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server does not have file_fdw")
    with pytest.raises(UsageError, match=r"public\.host, which is neither a table nor a view"):
        _run(dsn, "SELECT * FROM victim")
    assert _run(dsn, "SELECT * FROM ONLY victim", trust_workload=True) == "ok"


def test_captured_and_rebound_queries_may_call_functions_of_users_once_they_are_allowed(source):
    query = "SELECT count(*) FROM victim WHERE public.calm('secret') <> name"
    assert reason_against(query) is None
    assert reason_against("SELECT pg_read_file(name) FROM victim") == "it calls pg_read_file"
    dsn, file = source(Attack(query, ""))
    workload = Workload(
        "captured", (WorkloadQuery("q0", "SELECT n FROM victim"), WorkloadQuery("q1", query))
    )
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
