"""``serve``: the clone of a model or of a bundle on a throwaway server, for tests.

The server ends with the process that started it (`privbench.postgres.embedded.Lifeline`). Its
superuser is reached by a socket in a folder of the server's account alone; by TCP `OWNER` is, on
127.0.0.1, with a password that is drawn for each start and set before the server listens there.

The data folder is kept in the user's cache, in a folder of mode 0700, and a later start copies it.
It holds no password.
"""

import hashlib
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir
from psycopg import conninfo, sql

from privbench import __version__, pipeline, publish
from privbench.errors import DatabaseError, UsageError
from privbench.files import file_errors, make_folder, write_text
from privbench.options import LoadOptions, with_fields_of
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
_OURS = {"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"}
_SETTINGS = {
    **embedded.FAST,
    "password_encryption": "scram-sha-256",
    # Segments of the log are copied too.
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
}
# The server writes it: root would follow a link of its account.
_ACCESS = f"""ALTER ROLE {OWNER} PASSWORD {{}};
COPY (VALUES ('local all all trust'), ('host all postgres all reject'),
('host all all {_HOST}/32 scram-sha-256')) TO {{}}"""


@with_fields_of(LoadOptions, "scale", "seed", "trust_programs")
@contextmanager
def serve(
    model: str | Path,
    *,
    on: str = "auto",
    port: int | None = None,
    reporter: pipeline.Reporter | None = None,
    options: LoadOptions,
) -> Iterator[str]:
    """The connection URI of a server with the clone, while the block lasts.

    A model is loaded as by `privbench.pipeline.load`, and a bundle's script is run once `verify`
    has passed it; either by a role without attributes. Without `port` a free one is taken, and
    without `seed` rows are the same in every call. Within the block other PG*
    variables than those of the URI's parts are gone: they may lead elsewhere.
    """
    path, options = Path(model), replace(options, seed=options.seed or 0)
    if path.is_dir() and (options.scale != 1 or options.trust_programs):
        raise UsageError("a bundle has the rows that it has.", remedy="Name a model.")
    programs = embedded.programs(on)
    lifeline = embedded.Lifeline(None)
    place = lifeline.directory
    names = {name for name in os.environ if name.startswith("PG")} - _OURS
    elsewhere = {name: os.environ.pop(name) for name in names}
    try:
        embedded.own(lifeline.folder)
        embedded.own(place)
        label, program = programs[_filled(path, place, programs, options, reporter)]
        password = secrets.token_hex(16)
        with embedded.start(program, place, settings=_SETTINGS) as server:
            given = password, f"{place}/data/pg_hba.conf"
            _execute(server, build(_ACCESS, *map(sql.Literal, given)))
        with socket.socket() as free:
            free.bind((_HOST, 0))
            port = port or int(free.getsockname()[1])
        settings = {**_SETTINGS, "listen_addresses": _HOST, "port": str(port)}
        with embedded.start(program, place, label=label, settings=settings) as server:
            logger.info("%s; its superuser: %s port=%d", server.name, server.dsn, port)
            yield f"postgresql://{OWNER}:{password}@{_HOST}:{port}/{DATABASE}"
    finally:
        lifeline.end()
        os.environ.update(elsewhere)


@file_errors("the cache cannot be used")
def prune(most: int = 0) -> int:
    """Drop from the cache what was used first, until it has so many bytes; gives those dropped."""
    entries = sorted(filter(Path.is_dir, _cache().iterdir()), key=os.path.getmtime)
    sizes = {entry: sum(i.lstat().st_size for i in entry.rglob("*")) for entry in entries}
    dropped, total = 0, sum(sizes.values())
    for entry, size in sizes.items():
        if total - dropped <= most:
            break
        with suppress(Timeout), _lock(entry.stem, wait=0):
            shutil.rmtree(entry)
            dropped += size
    return dropped


@file_errors("the cache cannot be used")
def _filled(
    path: Path,
    place: Path,
    programs: list[embedded.Labelled],
    options: LoadOptions,
    reporter: pipeline.Reporter | None,
) -> int:
    """Put the data folder into `place`; gives the number of its program.

    Of processes that want the same, one makes it.
    """
    content = _content(path)
    servers = [(item.path, item.path.stat().st_mtime_ns) for _, item in programs]
    key = hashlib.sha256(f"{__version__} {content} {servers} {options}".encode()).hexdigest()
    entry = _cache() / key
    with _lock(key):
        if there := entry.exists():
            os.utime(entry)
            _copy(entry / "data", place)
            text = (entry / "report").read_text()
        else:
            part = entry.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            try:
                # Others may write to the path: a copy is loaded.
                make_folder(kept := part / "of")
                _copy(path.resolve(), kept)
                (source,) = kept.iterdir()
                if _content(source) != content:
                    raise UsageError(f"{path} was changed meanwhile.")
                text = _made(source, place, programs, options, reporter)
                shutil.rmtree(kept)
                _copy(place / "data", part)
                write_text(part / "report", text)
                os.sync()  # the server did not
                part.rename(entry)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    number, *report = text.splitlines()
    for line in report:
        logger.info("%s", " ".join(line.split()))
    with suppress(UsageError):  # others may move entries
        there or prune(CAP)
    return int(number)


def _content(path: Path) -> str:
    # The name is `records.SUMS`: a start from the cache need not import so much.
    named = path / "SHA256SUMS" if path.is_dir() else path
    with file_errors(f"{named} cannot be read"):
        return hashlib.sha256(named.read_bytes()).hexdigest()


def _made(
    path: Path,
    place: Path,
    programs: list[embedded.Labelled],
    options: LoadOptions,
    reporter: pipeline.Reporter | None,
) -> str:
    """Make the data folder; gives the number of its program, and a report for people."""
    model = None if path.is_dir() else pipeline.Model.load(path)
    known = model.schema.server_version // 10000 if model else publish.verify(path).bundle.server
    majors = [program.major for _, program in programs]
    # The same version, else the next later one, else an earlier one.
    number = majors.index(min(majors, key=lambda major: (major < known, abs(major - known))))
    program = programs[number][1]
    with embedded.start(program, place, settings=_SETTINGS) as server:
        made = build("CREATE DATABASE {} OWNER {}", DATABASE, OWNER)
        _execute(server, build("CREATE ROLE {} LOGIN", OWNER), made)
        dsn = conninfo.make_conninfo(server.dsn, user=OWNER, dbname=DATABASE)
        if model:
            said = str(pipeline.load(model, dsn, reporter=reporter, options=options).render())
        else:
            psql = [str(program.path.with_name("psql")), "-XqvON_ERROR_STOP=1", "-d", dsn]
            done = subprocess.run(  # noqa: S603
                [*psql, "-f", "load.sql"], cwd=path, capture_output=True, text=True
            )
            if done.returncode:
                raise DatabaseError(f"the bundle was not loaded: {done.stderr[-300:]}")
            said = f"loaded: {path.name}"
        _execute(server, build("ALTER ROLE {} CREATEDB", OWNER))
    return f"{number}\n{said}\nIt is of PostgreSQL {known}: plans may differ on another."


def _execute(server: embedded.Server, *statements: sql.Composed) -> None:
    with database_errors("preparing"), connect(server.dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _cache() -> Path:
    folder = Path(user_cache_dir("privbench")) / "serve"
    make_folder(folder)
    if folder.lstat().st_uid != os.geteuid():
        raise OSError(f"{folder} is another account's")
    folder.chmod(0o700)
    return folder


def _lock(key: str, wait: float = -1) -> FileLock:
    return FileLock(_cache() / f"{key}.lock", timeout=wait, mode=0o600)


def _copy(folder: Path, into: Path) -> None:
    """Copy a folder with its owners, by reference where the file system can."""
    shared = ["--reflink=auto"] * (sys.platform == "linux")
    if subprocess.call(["cp", "-a", *shared, folder, into]):  # noqa: S603, S607
        raise OSError("cp failed")
