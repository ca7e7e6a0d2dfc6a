"""Start and stop a PostgreSQL server of one's own: for the demo and for tests, never in production.

The server listens on a Unix socket only and trusts every local user, and by default it does not
fsync: what it holds does not survive a power cut.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from privbench.errors import ConnectionFailed, UsageError
from privbench.postgres import binaries
from privbench.postgres.binaries import Program

#: Settings of a server that may lose its data.
FAST: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "128MB",
    "max_connections": "64",
    "max_locks_per_transaction": "1024",
    "timezone": "UTC",
}
_INITDB = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
#: A shell script that waits for the end of its input, then stops the servers of a folder without a
#: checkpoint and removes the folder. It repeats this while a server that was starting writes there.
_WAIT = """
trap '' HUP INT TERM
cat
for turn in $(seq 100); do
    for file in "$0"/*/data/postmaster.pid; do
        read -r process < "$file" && kill -QUIT "$process" || continue
        for wait in $(seq 100); do kill -0 "$process" && sleep 0.05 || break; done
    done
    rm -rf "$0" && exit
    sleep 0.1
done
"""


@dataclass(slots=True)
class Server:
    """A running server."""

    name: str  # for people: ``embedded PostgreSQL 18``
    major: int
    dsn: str  # libpq connection string of database ``postgres`` for its superuser
    directory: Path | None = None  # where its data live; None for a server that somebody else runs
    program: Path | None = None  # its ``postgres`` executable
    _temporary: list[Path] = field(default_factory=list)

    def stop(self) -> None:
        """Stop the server and remove its temporary directories; stopping twice does no harm."""
        for path in self.halt():
            shutil.rmtree(path, ignore_errors=True)

    def halt(self) -> list[Path]:
        """Stop the server and return its temporary directories, which the caller has to remove."""
        if self.program is not None and self.directory is not None:
            mode = "immediate" if self.directory in self._temporary else "fast"
            command: list[str | Path] = [self.program.parent / "pg_ctl", "stop", "-w", "-m", mode]
            with contextlib.suppress(ConnectionFailed):
                _run([*command, "-D", self.directory / "data"], "pg_ctl stop")
        self.program = None
        left, self._temporary = self._temporary, []
        return left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()


class Lifeline:
    """A new folder that is removed, with the servers in it, when this process ends in any way.

    A process that is killed cannot clean up. So a second process waits on a pipe whose other end
    only the first one holds, until the first one or the system closes it.

    Attributes:
        folder: The folder, which only this account can open.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="privbench-"))
        self._waiting = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _WAIT, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def end(self) -> None:
        """Stop the server, remove the folder, and wait until both are done."""
        self._waiting.communicate()


def embedded_programs() -> list[Program]:
    """The ``postgres`` programs of the optional package, newest first."""
    return binaries.find("postgres", binaries.package_directories())


def machine_programs() -> list[Program]:
    """The machine's own ``postgres`` programs that come with initdb and pg_ctl, newest first."""
    found = binaries.find("postgres", binaries.machine_directories())
    needed = ("initdb", "pg_ctl")
    return [p for p in found if all((p.path.parent / name).exists() for name in needed)]


def any_server(settings: Mapping[str, str] = FAST, *, home: Path | None = None) -> Server:
    """Start a temporary server: that of the ``demo`` extra, else the machine's; see `start`."""
    for label, programs in (("embedded", embedded_programs()), ("machine's", machine_programs())):
        if programs:
            return start(programs[0], label=label, settings=settings, home=home)
    raise UsageError(
        "there is no PostgreSQL here to start.",
        remedy="Install it with: pip install 'privbench[demo]', or with the machine's packages "
        "(postgres, initdb and pg_ctl).",
    )


def start(
    program: Program,
    directory: Path | None = None,
    *,
    label: str = "own",
    settings: Mapping[str, str] = FAST,
    home: Path | None = None,
) -> Server:
    """Start one program, making its data directory first if it has none.

    Args:
        program: The ``postgres`` to start.
        directory: Where the data live and stay; None for a temporary place, removed by
            `Server.stop`.
        label: The first word of the server's name.
        settings: Server settings.
        home: Where temporary directories are made; None for the machine's usual place.

    Raises:
        UsageError: The account that the server must run under cannot reach the directory.
        ConnectionFailed: initdb or pg_ctl failed; the message ends with what they said.
    """
    made: list[Path] = []
    try:
        if home is not None:
            _own(home)
        directory = (directory or _scratch(made, home)).resolve()
        # A socket's path may hold 107 bytes at most, so it gets a short directory of its own.
        sockets = _scratch(made, home)
        _own(directory)
        postgres = _runnable(program.path, made, home)
        data = directory / "data"
        if not (data / "PG_VERSION").exists():
            _run([postgres.parent / "initdb", "-D", data, *_INITDB], "initdb")
        options = {**settings, "listen_addresses": "", "unix_socket_directories": str(sockets)}
        _launch(postgres, directory, options)
    except BaseException:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        raise
    return Server(
        name=f"{label} PostgreSQL {program.major}",
        major=program.major,
        dsn=f"host={sockets} user=postgres dbname=postgres",
        directory=directory,
        program=postgres,
        _temporary=made,
    )


def _account() -> pwd.struct_passwd | None:
    """The account to run the server under if we are root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise UsageError(
        "PostgreSQL does not run as root, and there is no account 'postgres' or 'nobody'.",
        remedy="Run privbench as another user.",
    )


def _run(command: Sequence[str | Path], what: str, log: Path | None = None) -> None:
    account = _account()
    # pg_ctl hands its output channels on to the server, which would keep a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                timeout=120,
                check=False,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ConnectionFailed(f"{what} did not run: {error}.") from error
        if done.returncode == 0:
            return
        output.seek(0)
        said = output.read().decode(errors="replace")
    if log is not None and log.exists():
        said += log.read_text(errors="replace")
    raise ConnectionFailed(f"{what} failed: {' '.join(said.split())[-600:]}")


def _scratch(made: list[Path], home: Path | None) -> Path:
    """Make a temporary directory of the server's account, and add it to the list ``made``."""
    path = Path(tempfile.mkdtemp(prefix="pb-", dir=home))
    made.append(path)
    _own(path)
    return path


def _own(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    account = _account()
    if account is None:
        return
    os.chown(directory, account.pw_uid, account.pw_gid)
    if not _reaches(directory):
        raise UsageError(
            f"the account {account.pw_name!r}, which runs the server, cannot reach {directory}.",
            remedy="Choose a directory whose parents are open to all, such as one in /tmp.",
        )


def _reaches(path: Path) -> bool:
    try:
        _run(["/bin/sh", "-c", 'test -x "$0"', path], "reading a directory")
    except ConnectionFailed:
        return False
    return True


def _runnable(postgres: Path, made: list[Path], home: Path | None) -> Path:
    """The program, copied to where the server's account can reach it if need be."""
    if _account() is None or _reaches(postgres):
        return postgres
    # The package finds its libraries two directories above its programs' own.
    place, install = _scratch(made, home), postgres.parent.parent
    libraries = install.parents[1] / f"{install.parent.name}.libs"
    shutil.copytree(install, place / "package" / install.name, symlinks=True)
    if libraries.exists():
        shutil.copytree(libraries, place / libraries.name)
    return place / "package" / install.name / "bin" / postgres.name


def _launch(postgres: Path, directory: Path, settings: Mapping[str, str]) -> None:
    log = directory / "log"
    options = " ".join(f"-c {name}={shlex.quote(value)}" for name, value in settings.items())
    command: list[str | Path] = [postgres.parent / "pg_ctl", "start", "-w", "-t", "60"]
    _run([*command, "-D", directory / "data", "-l", log, "-o", options], "pg_ctl start", log)
