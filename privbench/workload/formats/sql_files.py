"""The formats of plain SQL: a folder of ``.sql`` files (JOB), a file of statements, ``card||SQL``.

In ``card||SQL`` each line is a query with its true answer in front (STATS-CEB, SAM). A line without
``||`` in front is a query without a stated answer. Lines that are empty or start with ``--`` are
skipped.
"""

import re
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from privbench.errors import UsageError
from privbench.files import write_text
from privbench.workload.formats.base import (
    CONFIDENTIAL,
    MOST_BYTES,
    WorkloadFormat,
    cut,
    marked,
    query_id,
    read_text,
    whole,
)
from privbench.workload.query import Workload, WorkloadQuery

#: Commands of psql that are carried out, or are ignored since they do not matter to a replay.
COMMAND = re.compile(
    r"^[ \t]*\\(?:(?:i|ir|include|include_relative)[ \t]+(?P<file>\S+)"
    r"|(?:echo|qecho|warn|pset)\b[^\n]*"
    r"|(?:timing|x|a|t|H|encoding|conninfo)(?:[ \t]+\w+)?)[ \t]*$",
    re.MULTILINE,
)
#: Lines of files: the file, the number of the first line, and the lines with their ends.
FileBlocks = list[tuple[Path, int, str]]
#: What a block takes besides its text: its place in a list, and the number of its first line.
_BLOCK_BYTES = 64
_DEEPEST = 10
_NUMBERS = re.compile(r"(\d+)")
# The mark of confidentiality has its own semicolon, so that it is not part of the first query.
_MARK = f"-- {CONFIDENTIAL}\n;\n"
_LINE = re.compile(r"\s*+(?:(\d{1,18})(?:\.0*)?)?\s*+\|\|(.*)\Z", re.DOTALL)


def _detects(path: Path) -> bool:
    """Whether it is a folder, or a file whose name ends in ``.sql``."""
    return path.is_dir() or path.suffix.lower() == ".sql"


def _read_statements(path: Path) -> Workload:
    """Read every statement; ids are q1, q2, … in a single file, those of `query_id` in a folder.

    The files of a folder are read in natural order (2a before 10a), and sub-folders are searched.
    """
    if not path.is_dir():
        numbered = enumerate(_texts(path), 1)
        alone = (WorkloadQuery(f"q{i}", text, place=place) for i, (place, text) in numbered)
        return whole(path, [path], alone)
    files = sorted(path.rglob("*.sql"), key=lambda file: natural(file.relative_to(path)))
    queries = (
        WorkloadQuery(query_id(file, path, number), text, place=place)
        for file in files
        for number, (place, text) in enumerate(_texts(file), 1)
    )
    return whole(path, files, queries)


def _write(workload: Workload, path: Path) -> None:
    """Write one file if the path ends in ``.sql``, else a folder with a file for each query."""
    mark = _MARK if workload.confidential else ""
    if path.suffix.lower() == ".sql":
        text = "".join(f"{ended(query.sql)}\n" for query in workload)
        write_text(path, mark + text)
        return
    for query in workload:
        file = inside(path, f"{query.id}.sql")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, f"{mark}{ended(query.sql)}\n")


def _texts(file: Path) -> list[tuple[str, str]]:
    """The statements of a file, each with its file and line."""
    blocks = _blocks(file, {})
    starts = [0, *accumulate(text.count("\n") for _, _, text in blocks)]
    statements = []
    # The mark of confidentiality is a line of a comment and an empty statement.
    for number, statement in cut("".join(text for _, _, text in blocks), file):
        block = bisect_right(starts, number, hi=len(blocks)) - 1
        path, first, _ = blocks[block]
        statements.append((f"{path}:{first + number - starts[block]}", statement))
    return statements


def _blocks(file: Path, known: dict[Path, FileBlocks], depth: int = 0) -> FileBlocks:
    r"""The lines of a file, without commands about psql's output.

    In the place of ``\i`` stand the blocks of the file that it names. Blocks of files are kept in
    ``known``: each file is read once.
    """
    if depth > _DEEPEST:
        raise UsageError(f"the workload {file} includes itself.")
    if file in known:
        return known[file]
    text = read_text(file)
    text += "" if text.endswith("\n") or not text else "\n"
    blocks: FileBlocks = []
    start, line, size = 0, 1, 0
    for command in [*COMMAND.finditer(text), None]:
        end = command.start() if command else len(text)
        added = [(file, line, text[start:end])] if end > start else []
        line += text.count("\n", start, end)
        start = command.end() if command else end
        if command and command["file"]:
            path = inside(file.parent, command["file"].strip("'"))
            added += _blocks(path, known, depth + 1)
            # Every block begins with a line, so the line's end goes with its command.
            start, line = start + 1, line + 1
        blocks += added
        size += sum(len(block) + _BLOCK_BYTES for _, _, block in added)
        if size > MOST_BYTES:
            raise UsageError(f"the workload {file} includes more than {MOST_BYTES:,} bytes.")
    known[file] = blocks
    return blocks


def inside(folder: Path, name: str) -> Path:
    """Return the file of that name in a folder; names that lead out of the folder are refused."""
    root = folder.resolve()
    # A loop of links, too long a name, or a NUL in it is an error of one of these kinds.
    with suppress(OSError, RuntimeError, ValueError):
        file = (root / name).resolve()
        file.exists()
        if file.is_relative_to(root):
            return file
    raise UsageError(f"{name!r} is no file name within {folder}.")


def natural(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that sorts 2a before 10a."""
    parts = _NUMBERS.split(path.as_posix())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def ended(sql: str) -> str:
    """Return the text with a semicolon that no comment at its end can swallow."""
    text = sql.rstrip()
    if "--" in text.rpartition("\n")[2]:
        return f"{text}\n;"
    return text if text.endswith(";") else f"{text};"


def _detects_lines(path: Path) -> bool:
    """Whether the first line with a query starts with ``number||``."""
    return path.is_file() and _LINE.match(next((text for _, text in _lines(path)), "")) is not None


def _read_lines(path: Path) -> Workload:
    """Read one query a line; ids are q1, q2, … in their order."""
    matches = ((place, _LINE.match(line) or (line, None, line)) for place, line in _lines(path))
    queries = (
        WorkloadQuery(f"q{number}", item[2].strip(), int(item[1]) if item[1] else None, place=place)
        for number, (place, item) in enumerate(matches, 1)
    )
    return Workload(path.stem, tuple(queries), marked(read_text(path)))


def _write_lines(workload: Workload, path: Path) -> None:
    """Write one query a line."""
    long = next((query.id for query in workload if "\n" in query.sql.strip()), None)
    if long:
        raise UsageError(
            f"query {long} has several lines, which card||SQL cannot hold.",
            remedy="Write a folder of .sql files instead.",
        )
    lines = [f"{'' if q.card is None else q.card}||{q.sql.strip()}\n" for q in workload]
    mark = f"-- {CONFIDENTIAL}\n" if workload.confidential else ""
    write_text(path, mark + "".join(lines))


def _lines(path: Path) -> list[tuple[str, str]]:
    """The lines that hold a query, each with its file and line."""
    return [
        (f"{path}:{number}", line)
        for number, line in enumerate(read_text(path).split("\n"), 1)
        if line.strip() and not line.lstrip().startswith("--")
    ]


FORMAT = WorkloadFormat("sql", _detects, _read_statements, _write)
LINES = WorkloadFormat("card-sql", _detects_lines, _read_lines, _write_lines)
