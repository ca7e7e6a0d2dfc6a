"""Start and stop a PostgreSQL server of this process: for demo and tests, never in production.

The server listens on a Unix socket only and trusts every local user, and by default it does not
fsync: its data do not survive a power cut. It ends with the process that started it, even if that
process is killed, and its temporary folder is removed then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

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
#: A program, and the first word of its server's name.
Labelled: TypeAlias = tuple[str, Program]
_INITDB = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
#: A shell script that waits for the end of its input, runs the command $2..., stops the server of
#: the directory $1 without a checkpoint and removes the folder $0, again while a server that was
#: starting writes there.
_WAIT = """
trap '' HUP INT TERM
cat
data="$1/data"
shift
"$@"
for turn in $(seq 100); do
    if read -r process < "$data/postmaster.pid" && kill -QUIT "$process"; then
        for wait in $(seq 100); do kill -0 "$process" && sleep 0.05 || break; done
    fi
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
    _lifeline: Lifeline | None = None

    def stop(self, *, wait: bool = True) -> None:
        """Stop the server and remove its temporary folder; stopping twice does no harm.

        Without ``wait``, the folder may still be there when this function returns.
        """
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is None:
            return
        if self.program and self.directory and lifeline.folder not in self.directory.parents:
            command: list[str | Path] = [self.program.parent / "pg_ctl", "stop", "-w", "-m", "fast"]
            with contextlib.suppress(ConnectionFailed):
                _run([*command, "-D", self.directory / "data"], "pg_ctl stop")
        lifeline.end(wait=wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()


class Lifeline:
    """A new folder that is removed, with its server, when this process ends in any way.

    A process that is killed cannot clean up. So a second process waits on a pipe whose other end
    only the first one holds, until the first one or the system closes it.

    Args:
        directory: Where the server's data live; None for a place in the folder.
        last: A command that is run then.

    Attributes:
        folder: The folder, which only this account and that of the server can open.
    """

    def __init__(self, directory: Path | None, *last: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="privbench-")).resolve()
        self.directory = self.folder / "server" if directory is None else directory.resolve()
        self._waiting = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _WAIT, self.folder, self.directory, *last],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        # Nothing closes the pipe before that, whoever keeps the server or forgets it.
        _lifelines.add(self)

    def end(self, *, wait: bool = True) -> None:
        """Stop the server and remove the folder; with ``wait``, return when both are done."""
        _lifelines.discard(self)
        self.release()
        if wait:
            self._waiting.wait()

    def release(self) -> None:
        """Close this process's end of the pipe."""
        if self._waiting.stdin:
            self._waiting.stdin.close()


_lifelines: set[Lifeline] = set()


@atexit.register
def end_servers() -> None:
    """Stop all servers of this process, and wait until their folders are gone."""
    for lifeline in list(_lifelines):
        lifeline.end()


def _close_in_child() -> None:
    """Leave the pipes to the parent: a forked child that outlives it would hold them open."""
    for lifeline in _lifelines:
        lifeline.release()
    _lifelines.clear()


os.register_at_fork(after_in_child=_close_in_child)


def embedded_programs() -> list[Program]:
    """Return the ``postgres`` programs of the optional package, newest first."""
    return binaries.find("postgres", binaries.package_directories())


def machine_programs() -> list[Program]:
    """Return the machine's ``postgres`` programs that have initdb and pg_ctl, newest first."""
    servers = binaries.find("postgres", binaries.machine_directories())
    needed = ("initdb", "pg_ctl")
    return [p for p in servers if all((p.path.parent / name).exists() for name in needed)]


def programs(on: str = "auto") -> list[Labelled]:
    """Return the servers that can be started, those of the ``demo`` extra first; ``on`` chooses."""
    listed = [("embedded", program) for program in embedded_programs() if on != "machine"]
    listed += [("machine's", program) for program in machine_programs() if on != "embedded"]
    if listed:
        return listed
    raise UsageError(
        "there is no PostgreSQL here to start.",
        remedy="Install it with: pip install 'privbench[demo]', or with the machine's packages "
        "(postgres, initdb and pg_ctl).",
    )


def any_server(settings: Mapping[str, str] = FAST) -> Server:
    """Start a temporary server of the first of the `programs`; see `start`."""
    label, program = programs()[0]
    return start(program, label=label, settings=settings)


def start(
    program: Program,
    directory: Path | None = None,
    *,
    label: str = "own",
    settings: Mapping[str, str] = FAST,
) -> Server:
    """Start one program, making its data directory first if it has none.

    The server ends with this process, in whatever way that ends (`Lifeline`).

    Args:
        program: The ``postgres`` to start.
        directory: Where the data live and stay; None for a temporary place, which goes with the
            server.
        label: The first word of the server's name.
        settings: Server settings.

    Raises:
        UsageError: The account that the server must run under cannot reach the directory.
        ConnectionFailed: initdb or pg_ctl failed; the message ends with what they said.
    """
    lifeline = Lifeline(directory)
    try:
        own(lifeline.folder)
        own(lifeline.directory)
        # A socket's path may hold 107 bytes at most, so it does not lie in a named directory.
        sockets = lifeline.folder / "socket"
        own(sockets)
        postgres = _runnable(program.path, lifeline.folder / "programs")
        data = lifeline.directory / "data"
        if not (data / "PG_VERSION").exists():
            _run([postgres.parent / "initdb", "-D", data, *_INITDB], "initdb")
        options = {"listen_addresses": "", "unix_socket_directories": str(sockets), **settings}
        _launch(postgres, lifeline.directory, options)
    except BaseException:
        lifeline.end()
        raise
    return Server(
        name=f"{label} PostgreSQL {program.major}",
        major=program.major,
        dsn=f"host={sockets} user=postgres dbname=postgres",
        directory=lifeline.directory,
        program=postgres,
        _lifeline=lifeline,
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


def accounts() -> set[int]:
    """Return the numbers of this account and of that which servers run under."""
    account = _account()
    return {os.geteuid(), *([account.pw_uid] if account else [])}


def _run(command: Sequence[str | Path], what: str, log: Path | None = None) -> None:
    account = _account()
    # pg_ctl hands its output channels on to the server, which would keep a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.run(  # noqa: S603
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
        if process.returncode == 0:
            return
        output.seek(0)
        output_text = output.read().decode(errors="replace")
    if log is not None and log.exists():
        output_text += log.read_text(errors="replace")
    raise ConnectionFailed(f"{what} failed: {' '.join(output_text.split())[-600:]}")


def own(directory: Path) -> None:
    """Create a directory, if need be, that only the server's account can enter."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def _runnable(postgres: Path, place: Path) -> Path:
    """The program, copied to where the server's account can reach it if need be."""
    if _account() is None or _reaches(postgres):
        return postgres
    # The package finds its libraries two directories above its programs' own.
    own(place)
    install = postgres.parent.parent
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
