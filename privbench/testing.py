"""Clones for tests, by fixtures of pytest and for those of others; see ``docs/tests.md``.

pytest imports this wherever privbench is installed, so libraries come with the first fixture.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from multiprocessing.connection import Listener

    from psycopg import Connection

    from privbench.pipeline import LoadReport


def load(model: str | Path, url: str, **options: Any) -> LoadReport:
    """`privbench.pipeline.load`; the URL may be SQLAlchemy's."""
    from privbench import pipeline

    return pipeline.load(model, url, **options)


def loader(model: str | Path, **options: Any) -> Callable[..., None]:
    """For ``load=`` of pytest-postgresql's factories."""

    def fill(**parameters: Any) -> None:
        from psycopg import conninfo

        names = {"host", "port", "user", "password", "dbname"} & {*parameters}
        dsn = conninfo.make_conninfo(**{name: parameters[name] for name in names})
        load(model, dsn, **options)

    return fill


_OPTIONS = ("model", "scale", "on")
_SERVERS = pytest.StashKey[dict[object, str]]()
_CONTROLLER = pytest.StashKey[tuple[object, bytes]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options, for the ini file too."""
    for name in _OPTIONS:
        said = f"{name.upper()} of `privbench serve`, for privbench's fixtures."
        parser.getgroup("privbench").addoption(f"--privbench-{name}", help=said)
        parser.addini(f"privbench_{name}", said)


def pytest_configure(config: pytest.Config) -> None:
    """Say what the marker means."""
    config.addinivalue_line("markers", "privbench(model, scale): take another clone.")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist how to ask this process, the controller, for servers."""
    stash = node.config.stash
    if _CONTROLLER not in stash:
        from multiprocessing.connection import Listener

        key = secrets.token_bytes(32)
        listener = Listener(("127.0.0.1", 0), backlog=64, authkey=key)
        Thread(target=_answer, args=(listener, node.config), daemon=True).start()
        stash[_CONTROLLER] = listener.address, key
    node.workerinput["privbench"] = stash[_CONTROLLER]


def _answer(listener: Listener, config: pytest.Config) -> None:
    from multiprocessing import ProcessError

    while True:
        # A worker may be killed, and a stranger does not know the key.
        with suppress(OSError, EOFError, ProcessError), listener.accept() as worker:
            try:
                worker.send(_start(config, *worker.recv()))
            except Exception as error:
                worker.send(error)


def _start(config: pytest.Config, model: Path, scale: float, on: str) -> str:
    from privbench.publish import serve

    uris = config.stash.setdefault(_SERVERS, {})
    if (model, scale) not in uris:
        stack = ExitStack()
        config.add_cleanup(stack.close)
        uris[model, scale] = stack.enter_context(serve(model, scale=scale, on=on))
    return uris[model, scale]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse tests that need a model if none is given."""
    config = session.config
    if config.option.collectonly or hasattr(config, "workerinput"):
        return
    for item in session.items:
        names = {*getattr(item, "fixturenames", ())}
        if "privbench_dsn" in names:
            _clone(config, item)
        if names & {"privbench_server", "privbench_shared_dsn"}:
            _clone(config)


def _uri(config: pytest.Config, item: pytest.Item | None = None) -> str:
    """URI of a clone, the template of copies."""
    clone, there = _clone(config, item), getattr(config, "workerinput", {}).get("privbench")
    if there is None:
        return _start(config, *clone)

    from multiprocessing.connection import Client

    from privbench.publish.serving import drop_variables

    drop_variables()
    with Client(there[0], authkey=there[1]) as controller:
        controller.send(clone)
        answer = controller.recv()
    if isinstance(answer, Exception):
        raise answer
    return str(answer)


def _clone(config: pytest.Config, item: pytest.Item | None = None) -> tuple[Path, float, str]:
    """Model, size and server, of a test's marker, the command line or the ini file."""
    typed = {name: config.getoption(f"privbench_{name}") for name in _OPTIONS}
    asked = {name: typed[name] or config.getini(f"privbench_{name}") for name in _OPTIONS}
    if marker := item and item.get_closest_marker("privbench"):
        asked |= marker.kwargs
    if not (model := asked["model"]):
        raise pytest.UsageError("privbench's fixtures need a model: name it by --privbench-model.")
    folder = config.invocation_params.dir if model == typed["model"] else config.rootpath
    if not (folder / model).exists():
        raise pytest.UsageError(f"there is no model {folder / model}.")
    return folder / model, float(asked["scale"] or 1), asked["on"] or "auto"


@pytest.fixture(scope="session")
def privbench_server(pytestconfig: pytest.Config) -> str:
    """URI of database ``postgres`` of a server with the clone, the template ``clone``."""
    return _uri(pytestconfig).rpartition("/")[0] + "/postgres"


@pytest.fixture(scope="session")
def privbench_shared_dsn(pytestconfig: pytest.Config) -> str:
    """URI of a copy of the clone for all tests, whose role may only read."""
    from psycopg import errors

    from privbench.publish import serving

    owners = _uri(pytestconfig)
    with suppress(errors.DuplicateDatabase, errors.UniqueViolation):  # of another worker
        serving.copy(owners, "shared")
    uri = owners.removesuffix(serving.DATABASE) + "shared"
    return uri.replace(serving.OWNER, serving.READER, 1)


@pytest.fixture
def privbench_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """URI of a copy of the clone, for this test alone."""
    from privbench.publish import serving

    uri, name = _uri(request.config, request.node), f"test_{secrets.token_hex(8)}"
    yield serving.copy(uri, name)
    serving.drop(uri, name)


@pytest.fixture
def privbench_connection(privbench_dsn: str) -> Iterator[Connection]:
    """A connection of psycopg to `privbench_dsn`."""
    import psycopg

    with psycopg.connect(privbench_dsn) as connection:
        yield connection
