"""Where a throwaway server runs: by a program of this machine, or in a container.

Either loads a clone as a role without attributes, leaves its data in a folder, and serves them from
there. A container's port is published on 127.0.0.1 alone. The engine is the one that testcontainers
finds, but without its reaper, whose port is open to the network: a process of our own waits for the
end of this one and removes the container (`privbench.postgres.embedded.Lifeline`).
"""

import secrets
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from psycopg import conninfo, sql

from privbench.errors import ConnectionFailed, DatabaseError, UsageError
from privbench.postgres import embedded
from privbench.postgres.connect import connect
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build

#: The database, and the role that owns it, which may create databases once rows are loaded.
DATABASE, OWNER = "clone", "clone_owner"
ADDRESS = "127.0.0.1"
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
_PSQL = ("psql", "-XqvON_ERROR_STOP=1")
_SCRIPT = ("-U", OWNER, "-d", DATABASE, "-f", "load.sql")
# Where a container has its data: in no volume of the image.
_DATA = "/privbench"
# A container may be about to be created when the process that asked for it is killed.
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


@dataclass(frozen=True, slots=True)
class Loading:
    """A server into which a clone is loaded."""

    address: str  # parameters of a connection, but for role and database
    execute: Callable[..., None]  # statements, as its superuser
    run: Callable[[Path], None]  # a bundle's script, as the owner


class Machine:
    """Programs of this machine, whose data are in ``place / "data"``."""

    def __init__(self, on: str, place: Path, port: int) -> None:
        self.place, self.port = place, port
        self.programs = embedded.programs(on)
        #: What data depend on, beside the clone.
        self.key = str([(item.path, item.path.stat().st_mtime_ns) for _, item in self.programs])

    def nearest(self, major: int) -> tuple[int, int]:
        """Number and version of a program: the same version, else the next later one."""
        majors = [program.major for _, program in self.programs]
        best = min(majors, key=lambda other: (other < major, abs(other - major)))
        return majors.index(best), best

    @contextmanager
    def loading(self, number: int, password: str) -> Iterator[Loading]:
        """A server without data yet, reached by a socket; it has stopped when the block is left."""
        program = self.programs[number][1]

        def run(folder: Path) -> None:
            psql = [program.path.with_name(_PSQL[0]), *_PSQL[1:], *_SCRIPT, "-h", sockets]
            done = subprocess.run(psql, cwd=folder, capture_output=True)  # noqa: S603
            _expect(done.returncode, done.stderr)

        with embedded.start(program, self.place, settings=_SETTINGS) as server:
            sockets = str(conninfo.conninfo_to_dict(server.dsn)["host"])
            yield Loading(f"host={sockets}", partial(_execute, server), run)

    @contextmanager
    def serving(self, number: int, *passwords: sql.Composed) -> Iterator[str]:
        """A server that listens once these statements are executed; gives what it is, in words."""
        label, program = self.programs[number]
        with embedded.start(program, self.place, settings=_SETTINGS) as server:
            rules = build(_ACCESS, sql.Literal(f"{self.place}/data/pg_hba.conf"))
            _execute(server, *passwords, rules)
        settings = {**_SETTINGS, "listen_addresses": ADDRESS, "port": str(self.port)}
        with embedded.start(program, self.place, label=label, settings=settings) as server:
            yield f"{server.name}; its superuser: {server.dsn} port={self.port}"


class Container:
    """Containers of the official images, whose data are in the archive ``place / "data"``."""

    key = "docker"

    def __init__(self, place: Path, port: int) -> None:
        try:
            from testcontainers.core.docker_client import DockerClient

            client = DockerClient()
            client.client.ping()
        except Exception as error:
            raise UsageError(
                f"no container engine answers ({error}).",
                remedy="Start one, with pip install 'privbench[docker]', or use --on machine.",
            ) from error
        if client.host() not in {"localhost", ADDRESS}:
            raise UsageError("the container engine is elsewhere: its ports are open to others.")
        self.place, self.port, self.client = place, port, client.client

    def nearest(self, major: int) -> tuple[int, int]:
        """The version itself, twice: there are images of all."""
        return major, major

    @contextmanager
    def loading(self, major: int, password: str) -> Iterator[Loading]:
        """A server without data yet, which has stopped when the block is left."""
        with self._started(major) as container:

            def run(folder: Path) -> None:
                with tempfile.TemporaryFile() as file:
                    with tarfile.open(fileobj=file, mode="w") as archive:
                        archive.add(folder, "bundle")
                    file.seek(0)
                    container.put_archive("/", file)
                _expect(*container.exec_run([*_PSQL, *_SCRIPT], workdir="/bundle"))

            address = f"host={ADDRESS} port={self.port} password={password}"
            yield Loading(address, partial(_execute_in, container), run)
            container.stop(timeout=60)
            with (self.place / "data").open("wb") as file:
                file.writelines(container.get_archive(_DATA)[0])

    @contextmanager
    def serving(self, major: int, *passwords: sql.Composed) -> Iterator[str]:
        """A server in which no role has a known password before these statements are executed."""
        with self._started(major, self.place / "data") as container:
            _execute_in(container, *passwords)
            superuser = f"docker exec -it {container.name} psql -U postgres"
            yield f"docker PostgreSQL {major}; its superuser: {superuser}"

    @contextmanager
    def _started(self, major: int, data: Path | None = None) -> Iterator[Any]:
        from testcontainers.core.config import testcontainers_config

        from docker import errors

        image = f"{testcontainers_config.hub_image_name_prefix}postgres:{major}"
        name = f"privbench-{secrets.token_hex(8)}"
        lifeline = None
        try:
            try:
                self.client.images.get(image)
            except errors.ImageNotFound:
                self.client.images.pull(image)
            lifeline = embedded.Lifeline(None, sys.executable, "-c", _REMOVE, name)
            container = self.client.containers.create(
                image,
                ["postgres", *(f"-c{key}={value}" for key, value in _SETTINGS.items())],
                name=name,
                ports={"5432/tcp": (ADDRESS, self.port)},
                environment={
                    "PGDATA": _DATA,
                    "POSTGRES_PASSWORD": secrets.token_hex(16),
                    # Engines without root forward connections from an address that it trusts.
                    "POSTGRES_INITDB_ARGS": "--auth-local=trust --auth-host=scram-sha-256",
                },
                shm_size="1g",
                stop_signal="SIGINT",
            )
            if data:
                with data.open("rb") as file:
                    container.put_archive("/", file)
            container.start()
            # While the image makes its data, the server does not listen.
            while container.exec_run(["pg_isready", "-qh", ADDRESS]).exit_code:
                time.sleep(0.1)
            yield container
        except errors.DockerException as error:
            raise ConnectionFailed(f"a container of {image} does not run: {error}.") from error
        finally:
            if lifeline:
                lifeline.end()


def _execute(server: embedded.Server, *statements: sql.Composed) -> None:
    with database_errors("preparing"), connect(server.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _execute_in(container: Any, *statements: sql.Composed) -> None:
    """Execute statements as the superuser: passwords are in no command line."""
    psql = ["sh", "-c", f'printf %s "$STATEMENT" | {" ".join(_PSQL)} -U postgres']
    for statement in statements:
        text = {"STATEMENT": statement.as_string(None)}
        _expect(*container.exec_run(psql, environment=text))


def _expect(code: int, output: bytes) -> None:
    if code:
        said = output.decode(errors="replace")[-300:]
        raise DatabaseError(f"the server refused: {said}")
