"""Servers and databases for the tests. Nothing is mocked: every server is a real PostgreSQL.

Beside them, `parse_line`: command lines in prose and examples are ones that click takes; and
`browse`: pages are opened in a browser.
"""

import contextlib
import ctypes
import gc
import logging
import os
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import click
import psycopg
import pytest
from _pytest.doctest import DoctestModule
from browsing import browse  # noqa: F401 - a fixture
from databases import Databases
from market import model, source  # noqa: F401 - fixtures, one market for every folder

from privbench.cli import main
from privbench.postgres import embedded
from privbench.postgres.embedded import Server

DSN_VARIABLE = "PRIVBENCH_TEST_DSN"

#: Hundreds of databases would each be visited again and again, and rows have statistics by chance.
_SETTINGS = {**embedded.FAST, "autovacuum": "off"}

#: It hides the lab from whatever imports it.
collect_ignore = ["tests/without_lab"]

# With glibc, freed memory stays with the process. Fits make and free arrays of megabytes all the
# time, and new pages from the kernel take a third of their time.
with contextlib.suppress(AttributeError):
    M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 2**30)
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**25)


# Modules and tests stay until the end: to look through them again and again for what is no longer
# needed takes a tenth of the processor time.
gc.set_threshold(50_000, 20, 50)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[None]:
    """Modules without an example are not searched for one, which loads whatever they may need."""
    collectors = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text(encoding="utf-8"):
        return [found for found in collectors if not isinstance(found, DoctestModule)]
    return collectors


@pytest.fixture(autouse=True)
def _logger():
    """A command sets up the program's logger for its process: no test hears of another's."""
    log = logging.getLogger("privbench")
    handlers, level, propagate = list(log.handlers), log.level, log.propagate
    yield
    log.handlers[:], log.propagate = handlers, propagate
    log.setLevel(level)


def _given(dsn: str) -> Server:
    with psycopg.connect(dsn) as connection:
        major = connection.info.server_version // 10000
    return Server(name=f"given PostgreSQL {major}", major=major, dsn=dsn)


@cache
def _sources() -> dict[str, Callable[[], Server]]:
    """Ways to a server by name, the default first."""
    sources: dict[str, Callable[[], Server]] = {}
    dsn = os.environ.get(DSN_VARIABLE)
    if dsn:
        sources["given"] = lambda: _given(dsn)
    for label, programs in (
        ("embedded", embedded.embedded_programs()),
        ("machine's", embedded.machine_programs()),
    ):
        for program in programs:
            sources[f"{label} {program.major}"] = lambda program=program, label=label: (
                embedded.start(program, label=label, settings=_SETTINGS)
            )
    if not sources:
        sources["container"] = _container
    return sources


def _container() -> Server:
    from testcontainers.postgres import PostgresContainer

    container = PostgresContainer("postgres:17")
    try:
        container.start()
    except Exception as error:
        pytest.skip(f"no PostgreSQL: nothing installed, and no Docker engine answers ({error})")
    # The library's reaper stops it when this process has ended.
    return _given(container.get_connection_url(driver=None))


def _oldest_and_newest() -> list[str]:
    """One source for the oldest and one for the newest major version at hand."""
    sources = list(_sources())
    by_major = {name.split()[-1]: name for name in reversed(sources) if name[-1].isdigit()}
    if not by_major:
        return sources[:1]
    majors = sorted(by_major, key=int)
    return [by_major[major] for major in dict.fromkeys((majors[-1], majors[0]))]


def pytest_report_header(config: pytest.Config) -> str:
    names = list(_sources())
    return f"PostgreSQL: {names[0]} (each_server: {', '.join(_oldest_and_newest())})"


class _Pool:
    """Servers of this test process, started when first asked for."""

    def __init__(self) -> None:
        self.started: dict[str, Server] = {}

    def get(self, name: str) -> Server:
        if name not in self.started:
            self.started[name] = _sources()[name]()
        return self.started[name]


@pytest.fixture(scope="session")
def _pool():
    pool = _Pool()
    yield pool
    for server in pool.started.values():
        # The files of hundreds of databases take half a minute to remove: nobody waits for that.
        server.stop(wait=False)


@pytest.fixture(scope="session")
def server(_pool):
    """The default server: PRIVBENCH_TEST_DSN, else embedded, else the machine's own."""
    return _pool.get(next(iter(_sources())))


@pytest.fixture(scope="session", params=_oldest_and_newest())
def each_server(request, _pool):
    """The newest and the oldest major version at hand, one after the other."""
    return _pool.get(request.param)


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (place > 0))
        for place, name in enumerate(_oldest_and_newest())
    ],
)
def newest_server(request, _pool):
    """The newest major version at hand; with the slow tests the oldest too."""
    return _pool.get(request.param)


_databases = Databases()


def pytest_configure(config: pytest.Config) -> None:
    # Hooks of a conftest are not asked about fixtures of the session.
    config.pluginmanager.register(_databases)


@pytest.fixture(scope="session")
def make_database_on(_pool):
    """``make_database_on(server, name=None, keep=False, statements="")``: DSN of a new database.

    After the test or the file that made it has ended, the database is given to another test, unless
    it has a name or is to be kept.
    """
    yield _databases.make
    _databases.drop()


@pytest.fixture(scope="session")
def make_database(server, make_database_on):
    """``make_database(statements="", name=None)``: DSN of a new database on `server`."""

    def make(statements: str = "", name: str | None = None) -> str:
        return make_database_on(server, name, statements=statements)

    return make


def _parse_line(line: str) -> None:
    words = shlex.split(line, comments=True)
    ends = [at for at, word in enumerate(words) if word in {">", "||", "&&", "|", ";"}]
    words = words[: ends[0]] if ends else words
    assert words[0] == "privbench"
    context = main.make_context("privbench", words[1:])
    command: click.Command = main
    while isinstance(command, click.Group):
        waiting = [*getattr(context, "_protected_args", ()), *context.args]
        _, found, rest = command.resolve_command(context, waiting)
        assert found is not None
        command = found
        context = command.make_context(command.name, rest, parent=context)


@pytest.fixture
def parse_line():
    """``parse_line("privbench ...")`` fails unless click takes that command line."""
    return _parse_line
