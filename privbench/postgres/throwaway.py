"""A throwaway server with a database in it, for tests, and the user's cache of such databases.

It ends with the process that started it (`privbench.postgres.embedded.Lifeline`). Its superuser is
reached by a socket in a folder of the server's account alone; by TCP `OWNER` is, on 127.0.0.1, with
a password that is drawn for each start and set before the server listens there.

The data folder is kept in the user's cache, in a folder of mode 0700, and a later start copies it.
It holds a clone, drawn from a model under differential privacy: no private row, only what the
model's file may tell anybody; and no password.
"""

import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir
from psycopg import conninfo, sql

from privbench.errors import UsageError
from privbench.files import file_errors, make_folder, write_text
from privbench.postgres import embedded
from privbench.postgres.connect import connect
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build

logger = logging.getLogger(__name__)

#: The database, and the role that owns it, which may create databases once rows are loaded.
DATABASE, OWNER = "clone", "clone_owner"
#: Bytes that the cache keeps at most.
CAP = 4 * 2**30
_HOST = "127.0.0.1"
_SETTINGS = {
    **embedded.FAST,
    "password_encryption": "scram-sha-256",
    # Segments of the log are copied too.
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
}
_ACCESS = f"""\
local all all trust
host all postgres all reject
host all all {_HOST}/32 scram-sha-256
"""
#: Gives the number of a program, and what fills the empty database of a DSN and returns a report.
Choose: TypeAlias = Callable[[], tuple[int, Callable[[str], str]]]


@contextmanager
def throwaway(
    key: str, programs: list[embedded.Labelled], choose: Choose, port: int | None = None
) -> Iterator[str]:
    """The connection URI of a server with the database of that key.

    If the cache has none, it is made as `choose` says. Without `port` a free one is taken.
    """
    lifeline = embedded.Lifeline(None)
    place = lifeline.directory
    try:
        embedded.own(lifeline.folder)
        embedded.own(place)
        started = programs[_filled(key, place, programs, choose)]
        (place / "data" / "pg_hba.conf").write_text(_ACCESS)
        password = secrets.token_hex(16)
        with _server(started, place) as server:
            _execute(server, build("ALTER ROLE {} PASSWORD {}", OWNER, sql.Literal(password)))
        with socket.socket() as free:
            free.bind((_HOST, 0))
            port = port or int(free.getsockname()[1])
        with _server(started, place, listen_addresses=_HOST, port=str(port)) as server:
            logger.info("%s; its superuser: %s port=%d", server.name, server.dsn, port)
            yield f"postgresql://{OWNER}:{password}@{_HOST}:{port}/{DATABASE}"
    finally:
        lifeline.end()


@file_errors("the cache cannot be used")
def prune(most: int = 0) -> int:
    """Drop from the cache, until it has so many bytes, what is in no use, the oldest use first.

    Returns the bytes that were dropped.
    """
    entries = [entry for entry in _cache().iterdir() if entry.is_dir()]
    sizes = {entry: _size(entry) for entry in sorted(entries, key=lambda e: e.stat().st_mtime)}
    dropped, total = 0, sum(sizes.values())
    for entry, size in sizes.items():
        if total - dropped <= most:
            break
        with suppress(Timeout), _lock(entry.stem, wait=0):
            shutil.rmtree(entry)
            dropped += size
    return dropped


@file_errors("the cache cannot be used")
def _filled(key: str, place: Path, programs: list[embedded.Labelled], choose: Choose) -> int:
    """Put the data folder of that key into `place`; the number of its program.

    Of processes that want what is not there, one makes it, and the others wait.
    """
    entry = _cache() / key
    with _lock(key):
        if there := entry.exists():
            os.utime(entry)
            _copy(entry / "data", place)
            text = (entry / "report").read_text()
        else:
            chosen, fill = choose()
            with _server(programs[chosen], place) as server:
                made = build("CREATE DATABASE {} OWNER {}", DATABASE, OWNER)
                _execute(server, build("CREATE ROLE {} LOGIN", OWNER), made)
                text = f"{chosen}\n" + fill(
                    conninfo.make_conninfo(server.dsn, user=OWNER, dbname=DATABASE)
                )
                _execute(server, build("ALTER ROLE {} CREATEDB", OWNER))
            part = entry.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            make_folder(part)
            _copy(place / "data", part)
            write_text(part / "report", text)
            os.sync()  # the server did not
            part.rename(entry)
    number, *report = text.splitlines()
    for line in report:
        logger.info("%s", " ".join(line.split()))
    with suppress(UsageError):  # others may move entries
        there or prune(CAP)
    return int(number)


def _server(started: embedded.Labelled, place: Path, **settings: str) -> embedded.Server:
    label, program = started
    return embedded.start(program, place, label=label, settings={**_SETTINGS, **settings})


def _execute(server: embedded.Server, *statements: sql.Composed) -> None:
    with database_errors("preparing"), connect(server.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _cache() -> Path:
    """The cache's folder, which only this user can enter."""
    folder = Path(user_cache_dir("privbench")) / "serve"
    make_folder(folder)
    folder.chmod(0o700)
    return folder


def _lock(key: str, wait: float = -1) -> FileLock:
    return FileLock(_cache() / f"{key}.lock", timeout=wait, mode=0o600)


def _copy(folder: Path, into: Path) -> None:
    """Copy a folder with its owners; where the file system can, both share their blocks."""
    shared = ["--reflink=auto"] * (sys.platform == "linux")
    try:
        subprocess.run(["cp", "-a", *shared, folder, into], check=True)  # noqa: S603, S607
    except subprocess.CalledProcessError as error:
        raise OSError(f"cp ends with {error.returncode}") from None


def _size(folder: Path) -> int:
    return sum(
        os.lstat(Path(at, name)).st_size for at, _, names in os.walk(folder) for name in names
    )
