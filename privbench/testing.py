"""Clones for tests, by fixtures of pytest and for those of others; see ``docs/tests.md``.

pytest imports this wherever privbench is installed, so libraries come with the first fixture.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from psycopg import Connection

    from privbench.pipeline import LoadReport


def load(model: str | Path, url: str, **options: Any) -> LoadReport:
    """`privbench.pipeline.load`; the URL may be SQLAlchemy's."""
    from privbench import pipeline

    return pipeline.load(model, url, **options)


def loader(model: str | Path, **options: Any) -> Callable[..., None]:
    """For ``load=`` of pytest-postgresql's factories."""

    def fill(**connection: Any) -> None:
        from psycopg import conninfo

        load(model, conninfo.make_conninfo(**connection), **options)

    return fill


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options, for the ini file too."""
    for name, meaning in ("model", "Model or bundle"), ("scale", "Size"):
        said = f"{meaning} of the clone for privbench's fixtures."
        parser.getgroup("privbench").addoption(f"--privbench-{name}", help=said)
        parser.addini(f"privbench_{name}", said)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse tests that need a model if none is given."""
    needed = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    config = session.config
    later = config.option.collectonly or hasattr(config, "workerinput")
    if "privbench_server" in needed and not later:
        _model(config)


def _model(config: pytest.Config) -> Path:
    folder, given = config.invocation_params.dir, config.getoption("privbench_model")
    if not given:
        folder, given = config.rootpath, config.getini("privbench_model")
    if not given:
        raise pytest.UsageError("privbench's fixtures need a model: name it by --privbench-model.")
    if not (path := folder / str(given)).exists():
        raise pytest.UsageError(f"there is no model {path}.")
    return path


@pytest.fixture(scope="session")
def privbench_server(pytestconfig: pytest.Config) -> Iterator[str]:
    """URI of database ``postgres`` of a server with the clone, the template ``clone``."""
    from privbench.publish import serve

    scale = pytestconfig.getoption("privbench_scale") or pytestconfig.getini("privbench_scale")
    with serve(_model(pytestconfig), scale=float(scale or 1)) as uri:
        yield uri.rpartition("/")[0] + "/postgres"


@pytest.fixture
def privbench_dsn(privbench_server: str) -> Iterator[str]:
    """URI of a copy of the clone, for this test alone."""
    from privbench.postgres.connect import connect
    from privbench.postgres.statement import build
    from privbench.publish.serving import DATABASE

    name = f"test_{secrets.token_hex(8)}"
    with connect(privbench_server, autocommit=True) as connection:
        since = connection.info.server_version >= 150000
        made = build("CREATE DATABASE {} TEMPLATE {}", name, DATABASE)
        connection.execute(made + build(" STRATEGY file_copy") if since else made)
    yield privbench_server.rpartition("/")[0] + f"/{name}"
    with connect(privbench_server, autocommit=True) as connection:
        connection.execute(build("DROP DATABASE IF EXISTS {} WITH (FORCE)", name))


@pytest.fixture
def privbench_connection(privbench_dsn: str) -> Iterator[Connection]:
    """A connection of psycopg to `privbench_dsn`."""
    import psycopg

    with psycopg.connect(privbench_dsn) as connection:
        yield connection
