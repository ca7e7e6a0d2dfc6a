"""What a workload format is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from privbench.errors import UsageError
from privbench.pgsql import SqlError, pieces
from privbench.workload.query import Workload

#: The first line, as a comment, of a workload that may not leave the house.
CONFIDENTIAL = "CONFIDENTIAL: literals and answers come from private rows."


class WorkloadFormat(Protocol):
    """One way to write queries down. An implementation is a module-level object."""

    @property
    def name(self) -> str:
        """The format's name on the command line."""
        ...

    def detects(self, path: Path) -> bool:
        """Whether the file or folder looks like this format, judged by its content."""
        ...

    def read(self, path: Path) -> Workload:
        """Read a workload; its name is the file's or folder's name."""
        ...

    def write(self, workload: Workload, path: Path) -> None:
        """Write a workload, replacing what stands there."""
        ...


def read_text(path: Path) -> str:
    """The UTF-8 text of a file.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the workload {path}: {error}.") from error


def cut(text: str, path: Path) -> list[str]:
    """The statements of a file's text, cut by PostgreSQL's scanner, with their comments.

    Raises:
        UsageError: A string, a name or a comment has no end.
    """
    try:
        return pieces(text)
    except SqlError as error:
        raise UsageError(f"cannot read the workload {path}: {error.message}") from None


def marked(text: str) -> bool:
    """Whether a text begins with the mark of confidentiality."""
    return text.startswith(f"-- {CONFIDENTIAL}")
