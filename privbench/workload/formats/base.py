"""The interface of workload formats.

A `UsageError` is raised for a query that a file or a format cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from privbench.errors import UsageError
from privbench.limits import faults
from privbench.pgsql import SqlError, placed_pieces
from privbench.workload.query import Workload, WorkloadQuery

ParsedModel = TypeVar("ParsedModel", bound=BaseModel)

#: The comment that is the first line of a confidential workload.
CONFIDENTIAL = "CONFIDENTIAL: literals and answers come from private rows."


@dataclass(frozen=True, slots=True)
class WorkloadFormat:
    """A file format of workloads; each module of this folder defines one, `FORMAT`."""

    name: str  # on the command line
    detects: Callable[[Path], bool]  # whether a file or folder has this format, by its content
    read: Callable[[Path], Workload]  # the workload gets the name of the file or folder
    write: Callable[[Workload, Path], None]  # replaces what is at the path
    # This format for files that do not state the table that is queried, or its columns in the order
    # of their numbers; None where every file states them.
    named: Callable[[str | None, tuple[str, ...]], WorkloadFormat] | None = None
    # Kinds of generated workloads in its manner, by name: each a `generators.kinds.Kind`.
    kinds: Mapping[str, object] = field(default_factory=dict)


#: Most bytes of a file, and of a script with all that it includes.
MOST_BYTES = 2**28


def read_text(path: Path) -> str:
    """Return the UTF-8 text of a plain file; other files are refused, as a pipe may never end."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise UsageError(f"the workload {path} is no plain file, or too large.")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the workload {path}: {error}.") from error


def read_json(path: Path, kind: type[ParsedModel]) -> ParsedModel:
    """Return the JSON of a file as a pydantic model, which checks it."""
    try:
        return kind.model_validate_json(read_text(path))
    except ValidationError as error:
        raise UsageError(f"{path}: {faults(error)[0]}.") from None


def whole(path: Path, files: Iterable[Path], queries: Iterable[WorkloadQuery]) -> Workload:
    """Return the workload of a file or folder of scripts; it is confidential if one of them is."""
    read = tuple(queries)
    if not read:
        raise UsageError(f"the workload {path} holds no query.")
    secret = any(marked(read_text(file)) for file in files)
    return Workload(path.stem if path.is_file() else path.name, read, secret)


def query_id(file: Path, root: Path, number: int) -> str:
    """Return the id of a script's query: its path without suffix, ``#2``, … from the second on."""
    name = file.relative_to(root).with_suffix("").as_posix()
    return name if number == 1 else f"{name}#{number}"


def cut(text: str, path: Path) -> list[tuple[int, str]]:
    """Return the statements of a file's text, cut by PostgreSQL's scanner, with their comments.

    Each comes with the number of the line on which it begins, counted from 0.
    """
    try:
        pieces = placed_pieces(text)
    except SqlError as error:
        raise UsageError(f"cannot read the workload {path}: {error.message}") from None
    places = [0, *(place for place, _ in pieces)]
    lines = accumulate(text.count("\n", *ends) for ends in pairwise(places))
    return [(line, piece) for line, (_, piece) in zip(lines, pieces, strict=True)]


def beyond(query: WorkloadQuery, form: str, reason: str) -> UsageError:
    """Return the error for a query that a format cannot hold."""
    return UsageError(
        f"the format {form} cannot hold query {query.id}: {reason}.",
        remedy="The formats native and sql hold any query.",
    )


def marked(text: str) -> bool:
    """Return whether a text begins with the mark of confidentiality."""
    return text.startswith(f"-- {CONFIDENTIAL}")
