"""Write files that are readable by their owner only, and are never left incomplete.

Files that a command writes may hold values of private rows; the user may give others access later.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from privbench.errors import UsageError

_FILE, _FOLDER = 0o600, 0o700


@contextmanager
def file_errors(failed: str, kind: type[UsageError] = UsageError) -> Iterator[None]:
    """Within this context, turn file system errors into errors of ``kind`` that say what failed."""
    try:
        yield
    except OSError as error:
        raise kind(f"{failed}: {error.strerror or error}.") from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a temporary file to write to, which replaces ``path`` once it is complete.

    A symbolic link at ``path`` is replaced, not followed; a terminal or a pipe is written to
    directly. If writing fails with an OSError, nothing is left behind.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as stream:
            yield stream
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".privbench-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, which appears only when it is complete, see `replacing`."""
    with replacing(path) as file:
        file.write(text.encode())


def append_text(path: Path, text: str) -> None:
    """Append to a text file, which is created if it does not exist."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _FILE)
    with os.fdopen(handle, "ab") as file:
        file.write(text.encode())


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless they exist."""
    path.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
