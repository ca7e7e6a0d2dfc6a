"""Where a throwaway server runs: by a program of this machine, or in a container.

A container's port is published on 127.0.0.1 alone. testcontainers finds the engine, but its reaper,
whose port is open to the network, is left out: `privbench.postgres.embedded.Lifeline` removes what
is left.
"""

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from psycopg import sql

from privbench.errors import ConnectionFailed, DatabaseError, UsageError
from privbench.postgres import embedded
from privbench.postgres.connect import connect
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build

ADDRESS = "127.0.0.1"
#: What a server is, for people; its connection string; what executes statements as its superuser.
Running: TypeAlias = tuple[str, str, Callable[..., None]]
_SETTINGS = {
    **embedded.FAST,
    "password_encryption": "scram-sha-256",
    # Segments of the log are copied too.
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
}
# The server writes it: root would follow a link of its account.
_ACCESS = f"""COPY (VALUES ('local all all trust'), ('host all postgres all reject'),
('host all all {ADDRESS}/32 scram-sha-256')) TO {{}}"""
# Where a container has its data: in no volume of the image.
_DATA = "/privbench"
_PSQL = 'printf %s "$STATEMENT" | psql -Xqv ON_ERROR_STOP=1 -U postgres'
# A container may be about to be created when the process that asks for it is killed.
_REMOVE = """
import sys, time
from testcontainers.core.docker_client import DockerClient
for turn in range(50):
    try:
        DockerClient().client.containers.get(sys.argv[1]).remove(force=True, v=True)
        break
    except Exception:
        time.sleep(0.1)
"""


class Machine:
    """Programs of this machine, whose data are the folder ``place / "data"``."""

    def __init__(self, on: str, place: Path, port: int) -> None:
        self.place, self.port = place, port
        programs = embedded.programs(on)
        #: What data depend on, beside the clone. An installation that is made anew, as in a
        #: pipeline, has the same programs at another time.
        self.key = str([(item.path, item.path.stat().st_size) for _, item in programs])
        #: By version, embedded ones first.
        self.programs = {item.major: (label, item) for label, item in reversed(programs)}

    @contextmanager
    def running(self, major: int, *access: sql.Composed) -> Iterator[Running]:
        """A server, which listens if statements give access to it, once they are executed."""
        (label, program), settings = self.programs[major], _SETTINGS
        if access:
            with embedded.start(program, self.place, settings=settings) as server:
                rules = build(_ACCESS, sql.Literal(f"{self.place}/data/pg_hba.conf"))
                _execute(server.dsn, *access, rules)
            settings = {**settings, "listen_addresses": ADDRESS, "port": str(self.port)}
        with embedded.start(program, self.place, label=label, settings=settings) as server:
            words = f"{server.name}; its superuser: {server.dsn} port={self.port}"
            yield words, server.dsn, partial(_execute, server.dsn)


class Container:
    """Containers of the official images, whose data are the archive ``place / "data"``."""

    key, programs = "docker", dict[int, Any]()  # there are images of all versions

    def __init__(self, place: Path, port: int) -> None:
        self.place, self.port = place, port
        try:
            from testcontainers.core.docker_client import DockerClient

            client = DockerClient()
            client.client.ping()
        except Exception as error:
            raise UsageError(
                f"no container engine answers ({error}).",
                remedy="Start one, and: pip install 'privbench[docker]'",
            ) from error
        if client.host() not in {"localhost", ADDRESS}:
            raise UsageError("the container engine is on another machine.")
        self.client = client.client

    @contextmanager
    def running(self, major: int, *access: sql.Composed) -> Iterator[Running]:
        """A server where no password is known before these statements; without them data stay."""
        name = f"privbench-{secrets.token_hex(8)}"
        lifeline = embedded.Lifeline(None, sys.executable, "-c", _REMOVE, name)
        try:
            container = self._start(major, name)
            _execute_in(container, *access)
            words = f"docker PostgreSQL {major}; its superuser: docker exec -it {name} psql"
            dsn = f"host={ADDRESS} port={self.port}"
            yield f"{words} -U postgres", dsn, partial(_execute_in, container)
            if not access:
                container.stop(timeout=60)
                with (self.place / "data").open("wb") as file:
                    file.writelines(container.get_archive(_DATA)[0])
        finally:
            lifeline.end()

    def _start(self, major: int, name: str) -> Any:
        from testcontainers.core.config import testcontainers_config

        image = f"{testcontainers_config.hub_image_name_prefix}postgres:{major}"
        try:
            if not self.client.images.list(image):
                self.client.images.pull(image)
            container = self.client.containers.create(
                image,
                ["postgres", *(f"-c{key}={value}" for key, value in _SETTINGS.items())],
                name=name,
                ports={"5432/tcp": (ADDRESS, self.port)},
                environment={
                    "PGDATA": _DATA,
                    "POSTGRES_PASSWORD": secrets.token_hex(16),
                    # Engines without root forward from an address that is trusted otherwise.
                    "POSTGRES_INITDB_ARGS": "--auth-host=scram-sha-256",
                },
                shm_size="1g",
                stop_signal="SIGINT",
            )
            with suppress(FileNotFoundError), (self.place / "data").open("rb") as file:
                container.put_archive("/", file)
            container.start()
            # An image that makes its data does not listen meanwhile.
            while container.exec_run(["pg_isready", "-qh", ADDRESS]).exit_code:
                time.sleep(0.1)
        except Exception as error:
            raise ConnectionFailed(f"{image} does not run: {error}.") from error
        return container


def _execute(dsn: str, *statements: sql.Composed) -> None:
    with database_errors("preparing"), connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _execute_in(container: Any, *statements: sql.Composed) -> None:
    # No password stands in a command line, which others see.
    for statement in statements:
        text = {"STATEMENT": statement.as_string(None)}
        code, output = container.exec_run(["sh", "-c", _PSQL], environment=text)
        if code:
            raise DatabaseError(f"the server refused: {output.decode(errors='replace')[-300:]}")
