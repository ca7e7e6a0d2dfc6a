"""Counting on Dask workers: the same integers, whoever dies, and no private value in a log."""

import logging
import os
import signal
import time
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from private_tables import two_tables
from small_databases import fill, queries, settled, specs
from sql_files import cases

from privbench.cli import main
from privbench.errors import ConfigError, ConnectionFailed, PrivbenchError, UsageError
from privbench.privacy import workers as module
from privbench.privacy.queries import Histogram, Refers
from privbench.privacy.workers import TRUST_NETWORK, Held, Workers, WorkersCounter, guarded

pytestmark = pytest.mark.skipif(not find_spec("distributed"), reason="Dask is not installed")

SECRET = "the-secret-of-row-17"


NO_DISK = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}


@contextmanager
def local_cluster(settings=NO_DISK, **given):
    """A scheduler and workers of this machine, with these settings of Dask."""
    import dask
    import distributed

    given = {"dashboard_address": None, "n_workers": 1, "processes": False, **given}
    with dask.config.set(settings), distributed.LocalCluster(**given) as made:
        yield made


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(n_workers=2, threads_per_worker=1, processes=True) as made:
        yield made


@pytest.fixture(scope="module")
def workers(cluster):
    with Workers(cluster.scheduler_address) as found:
        yield found


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_workers_count_what_this_process_counts(workers, data, seed):
    """Every query of the small databases, in parts of eight rows: units lie in several parts."""
    database = settled(fill(data.draw(specs()), 20, seed))
    asked = [query for query in queries(database.spec) if not query.reads_raw]
    here = [query.evaluate(database) for query in asked]
    there = database.copy()
    there._units = database._units
    there.counter = WorkersCounter(workers, least=8)
    for query, found in zip(asked, here, strict=True):
        assert np.array_equal(query.evaluate(there), found)


def heavy():
    return two_tables([0] * 30 + [1, 2, 3], [[0, 1] * 16 + [1]], [2])


def test_a_worker_that_dies_changes_no_count(workers):
    database = heavy()
    query = Histogram.of(database.spec, "posts", ("a0",))
    expected = query.evaluate(database)
    database.counter = WorkersCounter(workers, least=4)
    assert np.array_equal(query.evaluate(database), expected)
    pids = workers._client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    assert np.array_equal(query.evaluate(database), expected)


def test_columns_that_are_made_for_one_count_are_not_kept(workers):
    database = heavy()
    key = next(iter(database.spec.tables["posts"].keys))
    query = Histogram.of(database.spec, "posts", (Refers(key),))
    database.counter = WorkersCounter(workers, least=4)
    before = len(workers._client.futures)
    for _ in range(6):
        query.evaluate(database)
    for _ in range(200):
        if len(workers._client.futures) <= before + 4:
            return
        time.sleep(0.05)
    pytest.fail("the workers keep columns that nobody asks for")


def test_workers_that_would_write_rows_to_disk_are_refused():
    """Dask's files are open to every account of the machine."""
    disk = dict.fromkeys(NO_DISK, 0.7)
    made = local_cluster(disk, memory_limit="1GB", protocol="tcp")
    with made as cluster, pytest.raises(ConfigError, match="disk"):
        Workers(cluster.scheduler_address)


def fail(text, given):
    raise ValueError(f"{text}: {given}")


def test_nothing_private_is_logged_or_told(workers, cluster, caplog, capfd):
    """A task fails with private arguments and a private text; its worker's log is looked at too."""
    caplog.set_level(logging.DEBUG)
    call = workers.submit(fail, SECRET, workers.send([SECRET], workers.addresses()[0]))
    with pytest.raises(PrivbenchError) as caught:
        workers.result(call)
    assert "ValueError" in str(caught.value)
    written = capfd.readouterr()
    logs = str(workers._client.get_worker_logs()) + str(cluster.get_logs())
    for text in (str(caught.value), caplog.text, written.out, written.err, logs):
        assert SECRET not in text
    assert SECRET not in repr(Held(SECRET))


def test_other_versions_and_absent_schedulers_are_refused(monkeypatch):
    found = guarded("0.0.0", fail)
    assert isinstance(found, ConfigError)
    assert "0.0.0" in str(found)
    monkeypatch.setattr(module, "WAIT", 1)
    with pytest.raises(ConnectionFailed, match="no Dask scheduler answers"):
        Workers("tcp://127.0.0.1:9")


@contextmanager
def trusting(trusted):
    """Whether the network is trusted."""
    token = TRUST_NETWORK.set(trusted)
    yield
    TRUST_NETWORK.reset(token)


class Unreached(Exception):
    """A scheduler was to be connected."""


@pytest.fixture
def unreached(monkeypatch):
    def connected(*given, **named):
        raise Unreached(given)

    monkeypatch.setattr("distributed.Client", connected)


#: Addresses that other machines reach, or may; those of this machine or of TLS; and texts that are
#: no address of a scheduler, or one of a kind that is not spoken.
ADDRESSES = {title: text.split() for title, text in cases(__file__, "addresses.txt")}


@pytest.mark.usefixtures("unreached")
@pytest.mark.parametrize(
    ("address", "trusted", "refused"),
    [
        *((one, False, "--trust-network") for one in ADDRESSES["open"]),
        *((one, True, None) for one in ADDRESSES["open"]),
        *((one, False, None) for one in ADDRESSES["closed"]),
        *(
            (one, trusted, "no address")
            for one in [*ADDRESSES["none"], "", " "]
            for trusted in (False, True)
        ),
    ],
)
def test_an_open_address_is_refused_before_anything_is_connected(address, trusted, refused):
    """Whoever reaches a scheduler without TLS runs programs, and hears rows and passwords."""
    with trusting(trusted), pytest.raises(Unreached if refused is None else UsageError) as caught:
        Workers(address)
    assert (refused or "") in str(caught.value) + str(getattr(caught.value, "remedy", ""))


@pytest.mark.usefixtures("unreached")
@pytest.mark.parametrize(
    "words",
    [
        "fit {dsn} --epsilon 1 --yes -o {out}/m --count-on {address}",
        "fit {dsn} --epsilon 1 --yes -o {out}/m -c {out}/c.toml",
        "clone {dsn} {dsn} --epsilon 1 --yes --count-on {address}",
        "clone {dsn} {dsn} --epsilon 1 --yes --load-on {address}",
        "load {out}/none {dsn} --load-on {address}",
    ],
)
def test_commands_refuse_an_open_address_first(tmp_path, words):
    """The databases are not there: a command that connected to them would say so."""

    def run(address, *more):
        given = words.format(dsn="postgresql://127.0.0.1:9/none", out=tmp_path, address=address)
        (tmp_path / "c.toml").write_text(f'[counting]\nwhere = "{address}"\n')
        return CliRunner().invoke(main, [*given.split(), *more])

    for address, said in (("tcp://10.1.2.3:8786", "--trust-network"), ("ucx://h:1", "")):
        done = run(address)
        assert done.exit_code == 2
        assert said in done.output
        assert "none" not in done.output
    done = run("tcp://10.1.2.3:8786", "--trust-network")
    assert done.exit_code != 0
    assert "none" in done.output
    assert "--trust-network" not in done.output


def test_an_open_scheduler_or_worker_behind_a_closed_address_is_refused():
    """A tunnel leads to this machine's loopback interface, and to a scheduler elsewhere."""
    with local_cluster(protocol="tcp", host="0.0.0.0") as made:
        port = made.scheduler_address.rpartition(":")[2]
        if "127.0.0.1" in made.scheduler_address:
            pytest.skip("this machine has no other address")
        with pytest.raises(UsageError, match="whoever reaches"):
            Workers(f"tcp://127.0.0.1:{port}")
        with trusting(True), Workers(f"tcp://127.0.0.1:{port}") as trusted:
            assert len(trusted.addresses()) == 1
