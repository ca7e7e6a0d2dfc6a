"""Workload formats, each with a line in `_FORMATS`; a format is imported when it is first needed.

Other packages add formats by entry points ``privbench.workload_formats``, a `WorkloadFormat` each.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from privbench import plugins
from privbench.errors import ConfigError, UsageError
from privbench.files import file_errors

if TYPE_CHECKING:
    from privbench.workload.formats.base import WorkloadFormat
    from privbench.workload.query import Workload

#: Module and attribute of every format by its name. In order of detection: the first that
#: recognises a path reads it.
_FORMATS = {
    "native": ("native", "FORMAT"),
    "card-sql": ("sql_files", "LINES"),
    "pgbench": ("pgbench", "FORMAT"),
    "sql": ("sql_files", "FORMAT"),
}


#: Formats that take many a text for theirs: those of other packages are asked before them.
_LAST = ("pgbench", "sql")


def names() -> tuple[str, ...]:
    """Return the names of all formats, in the order of detection; no format is imported."""
    own = tuple(name for name in _FORMATS if name not in _LAST)
    added = (name for name in plugins.names(plugins.FORMATS) if name not in _FORMATS)
    return (*own, *added, *_LAST)


def by_name(name: str) -> WorkloadFormat:
    """Return the format with this name."""
    if name not in names():
        raise UsageError(f"there is no workload format {name!r}.", remedy=_known())
    from privbench.workload.formats.base import WorkloadFormat

    if name in _FORMATS:
        module, attribute = _FORMATS[name]
        form: object = getattr(import_module(f"{__name__}.{module}"), attribute)
    else:
        form = plugins.load(plugins.FORMATS, name)
    if not isinstance(form, WorkloadFormat):
        raise ConfigError(f"the entry point {name!r} is no format of workloads.")
    return form


def _known() -> str:
    return f"Formats: {', '.join(names())}."


def read(path: str | Path, form: str | WorkloadFormat | None = None) -> Workload:
    """Read a workload; unless a format is given, it is recognised by the content.

    The path ``-`` means standard input; a pipe is read to its end. A UsageError is raised if
    nothing is at the path, if no format fits, or if the text cannot be read.
    """
    from privbench.workload.formats.base import MOST_BYTES

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
    for candidate in map(by_name, names()):
        if candidate.detects(place):
            return candidate.read(place)
    raise UsageError(f"the workload {place} has no known format.", remedy=_known())


def write(workload: Workload, path: str | Path, form: str = "sql") -> None:
    """Write a workload in a format; a UsageError is raised if the format cannot hold it."""
    place = Path(path)
    with file_errors(f"cannot write the workload {place}"):
        by_name(form).write(workload, place)
