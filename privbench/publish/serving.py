"""``serve``: the clone of a model or of a bundle on a throwaway server, for tests.

The server ends with the process that started it (`privbench.postgres.embedded.Lifeline`). By TCP
`OWNER` and `READER` are reached, on 127.0.0.1, with a password that is drawn for each start and set
before the server listens there.

The loaded data are kept in the user's cache, in a folder of mode 0700, and a later start copies
them. They hold no password.
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
from contextlib import ExitStack, contextmanager, suppress
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
from privbench.postgres.statement import build
from privbench.publish.hosts import ADDRESS, Container, Machine

logger = logging.getLogger(__name__)

#: The database, the role that owns it, which may create databases once rows are loaded, and one
#: that may read it, on PostgreSQL 14 or later.
DATABASE, OWNER, READER = "clone", "clone_owner", "clone_reader"
#: Bytes that the cache keeps at most.
CAP = 4 * 2**30
_OURS = {"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"}


@with_fields_of(LoadOptions, "scale", "seed", "trust_programs")
@contextmanager
def serve(
    model: str | Path,
    *,
    on: str = "auto",
    port: int | None = None,
    keep: str | Path | None = None,
    reporter: pipeline.Reporter | None = None,
    options: LoadOptions,
) -> Iterator[str]:
    """The connection URI of a server with the clone, while the block lasts.

    A model is loaded as by `privbench.pipeline.load`, and a bundle's script is run once `verify`
    has passed it; either by a role without attributes. Without `port` a free one is taken, and
    without `seed` rows are the same in every call. The folder `keep` has the data, what tests wrote
    included, when the block is left, and the next call goes on with them. Within the block other
    PG* variables than those of the URI's parts are gone: they may lead elsewhere.
    """
    path, options = Path(model), replace(options, seed=options.seed or 0)
    if path.is_dir() and (options.scale != 1 or options.trust_programs):
        raise UsageError("a bundle has the rows that it has.", remedy="Name a model.")
    if port is None:
        with socket.socket() as free:
            free.bind((ADDRESS, 0))
            port = int(free.getsockname()[1])
    with ExitStack() as stack:
        stack.callback(os.environ.update, drop_variables())
        lifeline = embedded.Lifeline(None)
        stack.callback(lifeline.end)
        embedded.own(lifeline.folder)
        place = Path(keep).resolve() if keep else lifeline.directory
        host = _host(on, place, port, keep=keep is not None)
        key = f"{__version__} {_content(path)} {host.key} {options}"
        key = hashlib.sha256(key.encode()).hexdigest()
        report = place / "report"
        if keep is None or _is_new(place, key, stack):
            embedded.own(place)
            text = _filled(path, key, host, options, reporter)
            write_text(report, f"{key}\n{text}")
        _, major, *lines = report.read_text().splitlines()
        for line in lines:
            logger.info("%s", " ".join(line.split()))
        password = secrets.token_hex(16)
        literal = sql.Literal(password)
        access = [build("ALTER ROLE {} PASSWORD {}", role, literal) for role in (OWNER, READER)]
        logger.info("%s", stack.enter_context(host.running(int(major), *access))[0])
        yield f"postgresql://{OWNER}:{password}@{ADDRESS}:{port}/{DATABASE}"


def _host(on: str, place: Path, port: int, *, keep: bool) -> Machine | Container:
    if keep and on == "docker":
        raise UsageError("data in a container are not kept.", remedy="Use --on machine.")
    if on == "docker":
        return Container(place, port)
    if on == "auto" and not keep:
        with suppress(UsageError):
            return Container(place, port)
    return Machine(on, place, port)


@file_errors("the folder cannot be used")
def _is_new(place: Path, key: str, stack: ExitStack) -> bool:
    """Whether a folder to keep is empty; else it has to hold this clone, which nobody uses.

    Who may write to it could replace data, and links in it would lead elsewhere.
    """
    make_folder(place)
    if place.stat().st_uid not in embedded.accounts():
        raise UsageError(f"{place} is another account's.", remedy="Name another folder.")
    place.chmod(0o700)
    try:
        stack.enter_context(FileLock(place / "lock", timeout=0, mode=0o600))
    except Timeout:
        raise UsageError(f"another process uses {place}.") from None
    report = place / "report"
    if report.exists() and report.read_text().startswith(key):
        return False
    if {path.name for path in place.iterdir()} != {"lock"}:
        raise UsageError(f"{place} has something else.", remedy="Name another folder.")
    return True


def drop_variables() -> dict[str, str]:
    """Drop PG* variables that a URI does not override; gives those dropped."""
    names = {name for name in os.environ if name.startswith("PG")} - _OURS
    return {name: os.environ.pop(name) for name in names}


def copy(uri: str, name: str) -> str:
    """URI of a new copy of the clone, by file copy."""
    statement = build("CREATE DATABASE {} TEMPLATE {}", name, DATABASE)
    with connect(uri.removesuffix(DATABASE) + "postgres", autocommit=True) as connection:
        if connection.info.server_version >= 150000:
            statement += build(" STRATEGY file_copy")
        connection.execute(statement)
    return uri.removesuffix(DATABASE) + name


def drop(uri: str, name: str) -> None:
    """Drop a copy, whoever uses it."""
    with connect(uri.removesuffix(DATABASE) + "postgres", autocommit=True) as connection:
        connection.execute(build("DROP DATABASE IF EXISTS {} WITH (FORCE)", name))


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
    key: str,
    host: Machine | Container,
    options: LoadOptions,
    reporter: pipeline.Reporter | None,
) -> str:
    """Put the host's data into its place; gives the version of its server, and a report.

    Of processes that want the same, one makes it.
    """
    entry, content = _cache() / key, _content(path)
    with _lock(key):
        if there := entry.exists():
            os.utime(entry)
            _copy(entry / "data", host.place)
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
                text = _made(source, host, options, reporter)
                shutil.rmtree(kept)
                _copy(host.place / "data", part)
                write_text(part / "report", text)
                os.sync()  # the server did not
                part.rename(entry)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    with suppress(UsageError):  # others may move entries
        there or prune(CAP)
    return text


def _content(path: Path) -> str:
    # The name is `records.SUMS`: a start from the cache need not import so much.
    named = path / "SHA256SUMS" if path.is_dir() else path
    with file_errors(f"{named} cannot be read"):
        return hashlib.sha256(named.read_bytes()).hexdigest()


def _made(
    path: Path,
    host: Machine | Container,
    options: LoadOptions,
    reporter: pipeline.Reporter | None,
) -> str:
    """Make the data; gives the version of their server, and a report for people."""
    model = None if path.is_dir() else pipeline.Model.load(path)
    known = model.schema.server_version // 10000 if model else publish.verify(path).bundle.server
    # The same version, else the next later one, else an earlier one.
    major = min(host.programs or [known], key=lambda item: (item < known, abs(item - known)))
    password = secrets.token_hex(16)
    with host.running(major) as (_, dsn, execute):
        execute(
            build("CREATE ROLE {} LOGIN PASSWORD {}", OWNER, sql.Literal(password)),
            build("CREATE ROLE {} LOGIN BYPASSRLS", READER),
            build("ALTER ROLE {} SET default_transaction_read_only = on", READER),
            *[build("GRANT pg_read_all_data TO {}", READER)] * (major >= 14),
            build("CREATE DATABASE {} OWNER {}", DATABASE, OWNER),
        )
        dsn = conninfo.make_conninfo(dsn, user=OWNER, password=password, dbname=DATABASE)
        if model:
            said = str(pipeline.load(model, dsn, reporter=reporter, options=options).render())
        else:
            program = embedded.programs()[0][1].path.with_name("psql")
            psql = [str(program), "-XqvON_ERROR_STOP=1", "-d", dsn]
            done = subprocess.run(  # noqa: S603
                [*psql, "-f", "load.sql"], cwd=path, capture_output=True, text=True
            )
            if done.returncode:
                raise DatabaseError(f"the bundle was not loaded: {done.stderr[-300:]}")
            said = f"loaded: {path.name}"
        execute(build("ALTER ROLE {} CREATEDB PASSWORD NULL", OWNER))
    if major != known:
        said += f"\nIt is of PostgreSQL {known}: plans may differ on {major}."
    return f"{major}\n{said}"


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
