"""Workload formats, one line in `FORMATS` each."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from privbench.errors import UsageError
from privbench.files import file_errors
from privbench.workload.formats import mscn, native, pgbench, sam, sql_files
from privbench.workload.formats.base import MOST_BYTES, WorkloadFormat
from privbench.workload.query import Workload

#: In order of detection: the first that recognises a path reads it.
FORMATS: tuple[WorkloadFormat, ...] = (
    native.FORMAT,
    sam.FORMAT,
    sql_files.LINES,
    mscn.FORMAT,
    pgbench.FORMAT,
    sql_files.FORMAT,
)


_KNOWN = f"Formats: {', '.join(form.name for form in FORMATS)}."


def by_name(name: str) -> WorkloadFormat:
    """The format of that name."""
    for form in FORMATS:
        if form.name == name:
            return form
    raise UsageError(f"there is no workload format {name!r}.", remedy=_KNOWN)


def read(path: str | Path, form: str | WorkloadFormat | None = None) -> Workload:
    """Read a workload; unless a format is given, it is recognised by the content.

    The path ``-`` means standard input; a pipe is read to its end. A UsageError is raised if
    nothing is at the path, or if no format fits, or the text cannot be read.
    """
    place = Path("/dev/stdin" if str(path) == "-" else path)
    if place.exists() and not place.is_dir() and not place.is_file():
        with TemporaryDirectory(prefix="privbench-") as folder:
            # A copy is made, since formats look at a file before they read it.
            copy = Path(folder) / "workload.sql"
            with place.open("rb") as stream:
                copy.write_bytes(stream.read(MOST_BYTES + 1))
            return read(copy, form)
    if not place.exists():
        raise UsageError(f"there is no workload at {place}.")
    if form is not None:
        return (by_name(form) if isinstance(form, str) else form).read(place)
    for candidate in FORMATS:
        if candidate.detects(place):
            return candidate.read(place)
    raise UsageError(f"the workload {place} has no known format.", remedy=_KNOWN)


def write(workload: Workload, path: str | Path, form: str = "sql") -> None:
    """Write a workload in a format; a UsageError is raised if the format cannot hold it."""
    place = Path(path)
    with file_errors(f"cannot write the workload {place}"):
        by_name(form).write(workload, place)
