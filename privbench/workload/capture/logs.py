"""Capture a workload from a server's logs, line by line, in memory that does not grow with them."""

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from privbench.errors import UsageError
from privbench.files import file_errors
from privbench.options import CaptureOptions, with_fields_of
from privbench.postgres.connect import APPLICATION
from privbench.workload.capture.gather import (
    MOST_PARAMETERS,
    OURS,
    Capture,
    Execution,
    Gatherer,
    Parameters,
)
from privbench.workload.capture.wrappers import LOGS, unwrapped, wrapper

#: The reason why a log entry with a statement is left out if the statement was not run there.
NOT_RUN = "it is a parse or bind step, not a run"
FETCH = "it goes on with an open cursor"
PLAN_FORM = "its plan is logged as XML or YAML"


def _words(*english: str) -> tuple[dict[str, str], str]:
    """Words in all languages of the server, each with the English one, and their pattern."""
    found = {word: word for word in english} | {
        language[word]: word
        for language in LOGS["languages"].values()
        for word in english
        if word in language
    }
    return found, "|".join(map(re.escape, sorted(found, key=len, reverse=True)))


_VERBS, _ANY_VERB = _words(*LOGS["verbs"])
_STATEMENT = re.compile(
    r"(?:\w+ ?: [\d.]+ \w+,?\s+)?"
    # Not every language has a blank behind the verb.
    rf"(?P<verb>{_ANY_VERB})(?:(?: |(?<=[^ -~]))[^:\n]*)?:\s+"
    r"(?P<text>.*)",
    re.DOTALL,
)
_VALUE = re.compile(r"\$([0-9]{1,5}) = (?:'((?:[^']++|'')*+)'|NULL)")
_PARAMETERS = re.compile(
    rf"(?:{_words('parameters')[1]}|Query Parameters) ?: (?=\$)", re.IGNORECASE
)
_PLAN = re.compile(
    r"Query Text: (?P<text>.*?)\n"
    r"(?:Query Parameters: (?P<parameters>[^\n]*)\n)?"
    r"(?:Query Identifier: [^\n]*\n)?"
    r"(?=[^\n]*\(cost=\d|[^\n]*\(actual )",
    re.DOTALL,
)


#: Statements that contain a query (COPY, DECLARE, PREPARE, …), which counts as the query that ran.
_COPY = re.compile(r"\s*copy\s*\((?P<query>.*)\)\s*to\s", re.IGNORECASE | re.DOTALL)
_DECLARE = re.compile(
    r"\s*declare\s+(?:\"[^\"]+\"|\w+)(?:\s+(?:binary|asensitive|insensitive|no|scroll))*\s+cursor"
    r"(?:\s+with(?:out)?\s+hold)?\s+for\s+(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
_PREPARE = re.compile(
    rf"(?:(?:{_words('prepare')[1]}) ?: )?"
    r"\s*prepare\s+(?:\"[^\"]+\"|\w+)\s*(?:\([^()]*\)\s*)?as\s+(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
_EXECUTE = re.compile(r"\s*execute\s+(?:\"[^\"]+\"|\w+)\s*(?:\((?P<values>.*)\))?", re.I | re.S)
_CONSTANT = re.compile(r"\s*(?:'((?:[^']++|'')*+)'|([-+]?[\d.]+|true|false)|null)\s*(?:,|$)", re.I)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log of any format."""

    message: str  # its message
    detail: str = ""  # its DETAIL
    database: str | None = None  # the database, where the log states it
    application: str | None = None  # the session's ``application_name``, where the log states it
    session: str | None = None  # its number, or that of its process, where the log states it


def execution(entry: LogEntry) -> Execution | str | None:
    """The statement that an entry reports, or why it is left out; None if it reports no statement.

    >>> execution(LogEntry("duration: 1 ms  execute <unnamed>: SELECT $1", "parameters: $1 = '7'"))
    Execution(text='SELECT $1', parameters=('7',), planned=False, calls=1)
    """
    found = _STATEMENT.match(entry.message)
    if found is None:
        return None
    verb, text = _VERBS[found["verb"]], found["text"]
    if verb in ("parse", "bind"):
        return NOT_RUN
    if verb == "execute fetch from":
        return FETCH
    if verb == "plan":
        run = _planned(text)
        return run if isinstance(run, str) else replace(run, text=_inner(run.text, _PREPARE))
    prepared = _PREPARE.match(entry.detail) if verb == "statement" else None
    if prepared is not None:
        return Execution(prepared["query"], _constants(text))
    bound = verb == "execute" and _PARAMETERS.match(entry.detail)
    return Execution(_inner(text), _values(entry.detail) if bound else ())


def _inner(text: str, *more: re.Pattern[str]) -> str:
    """The query that a statement runs: its own text, or the query within a COPY or DECLARE.

    >>> _inner("COPY (SELECT a FROM t) TO STDOUT"), _inner("DECLARE c CURSOR FOR SELECT 1")
    ('SELECT a FROM t', 'SELECT 1')
    """
    found = next((match for each in (_COPY, _DECLARE, *more) if (match := each.match(text))), None)
    return found["query"] if found else text


def _constants(text: str) -> Parameters:
    """The values of ``EXECUTE name (1, 'a', NULL)``; empty if one of them is not a constant."""
    found = _EXECUTE.match(text)
    rest, values, end = (found["values"] if found else None) or "", list[str | None](), 0
    while end < len(rest):
        one = _CONSTANT.match(rest, end)
        if one is None or len(values) == MOST_PARAMETERS:
            return ()
        values.append(one[2] if one[1] is None else one[1].replace("''", "'"))
        end = one.end()
    return tuple(values)


def _planned(text: str) -> Execution | str:
    """The statement that an entry of auto_explain was written for."""
    if text.startswith("{"):
        data = _object(text)
        if "Query Text" not in data:
            return PLAN_FORM
        return Execution(
            str(data["Query Text"]), _values(str(data.get("Query Parameters", ""))), True
        )
    found = _PLAN.match(text)
    if found is None:
        return PLAN_FORM
    return Execution(found["text"], _values(found["parameters"] or ""), True)


def _values(text: str) -> Parameters:
    """The values of a list ``$1 = 'a', $2 = NULL``; servers write all of them, in order.

    Where one may have been cut, none is known.

    >>> _values("$1 = 'it''s', $2 = NULL, $99999 = '1'"), _values("$1 = 'aaaa...', $2 = '7'")
    (("it's", None), ())
    """
    values: list[str | None] = []
    for item in _VALUE.finditer(text):
        if int(item[1]) != len(values) + 1:
            break
        # So ends what ``log_parameter_max_length`` cut.
        if (item[2] or "").endswith("..."):
            return ()
        values.append(None if item[2] is None else item[2].replace("''", "'"))
    return tuple(values)


#: An escape of a prefix, and the text up to the next one.
_ESCAPE = re.compile(r"%(\\?-?\d+)?(.)([^%]*)")
_LEVELS, _ANY_LEVEL = _words(*LOGS["levels"])
_LEVEL = rf"(?P<level>{_ANY_LEVEL})\d? ?:  "
_BEFORE_LEVEL = f"(?={_LEVEL.replace('?P<level>', '?:')})"
_UNKNOWN = "[unknown]"


def _first_line(prefix: str | None, head: Sequence[str]) -> re.Pattern[str]:
    """A pattern of the first line of an entry."""
    tried = map(_compiled, LOGS["prefixes"] if prefix is None else (prefix,))
    best = max(tried, key=lambda one: sum(one.match(line) is not None for line in head))
    if not any(map(best.match, head)):
        raise UsageError(
            "no line of the log begins as expected.",
            remedy="Name the server's log_line_prefix with --prefix (SHOW log_line_prefix).",
        )
    return best


def _of_text(lines: Iterable[str], first: re.Pattern[str]) -> Iterator[LogEntry]:
    """The LOG entries, each with the DETAIL that follows it."""
    for piece, after in pairwise(chain(_pieces(lines, first), [None])):
        if piece is not None and _LEVELS[piece[0]["level"]] == "LOG":
            found, text = piece
            detailed = after is not None and _LEVELS[after[0]["level"]] == "DETAIL"
            detail = after[1] if after is not None and detailed else ""
            database, application, session, process = (
                _named(found, name) for name in ("database", "application", "session", "process")
            )
            yield LogEntry(text, detail, database, application, session or process)


def _pieces(lines: Iterable[str], first: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """The match of the first line and the complete text of every entry, all its lines joined."""
    begun: re.Match[str] | None = None
    text, size = list[str](), 0
    for line in lines:
        found = first.match(line)
        if found is None:
            # The server puts a tab before every further line.
            size += len(line)
            if size <= _LONGEST_LINE:
                text.append(line.removeprefix("\t"))
            continue
        if begun is not None:
            yield begun, "".join(text).rstrip("\r\n")
        begun, text, size = found, [line[found.end() :]], len(line)
    if begun is not None:
        yield begun, "".join(text).rstrip("\r\n")


def _named(found: re.Match[str], group: str) -> str | None:
    name = (found.groupdict().get(group) or "").strip()
    return None if name in ("", _UNKNOWN) else name


def _compiled(prefix: str) -> re.Pattern[str]:
    """The pattern of a prefix; what follows ``%q`` is missing in entries without a session.

    An escape ends where the text after it first follows (its group is atomic), so that a line is
    matched in time that is linear in its length.
    """
    said: set[str] = set()
    escaped = re.escape(prefix)

    def escape(found: re.Match[str]) -> str:
        width, sign, after = found.groups()
        known: str | None = LOGS["escapes"].get(sign)
        if known is None:
            raise UsageError(f"log_line_prefix has no escape %{sign}.")
        if sign in said:
            # A prefix may contain an escape twice, but a pattern may name a group only once.
            known = "" if sign == "q" else re.sub(r"\?P<\w+>", "?:", known)
        said.add(sign)
        if sign == "q":
            return known + after
        if width:
            known = rf"\s*+{known}" + ("" if sign == "a" else r"\s*")
        if found.end() == len(escaped):
            after += _BEFORE_LEVEL
        return f"(?>{known}{after})" if after else known

    start = _ESCAPE.sub(escape, escaped)
    return re.compile(start + (")?" if "q" in said else "") + _LEVEL)


# Number of first lines, and of their characters, from which a log's format is identified.
_LOOK, _LOOK_SIZE = 2000, 1 << 22
# Columns of a csv log by position; later versions append theirs.
_DATABASE, _SESSION, _SEVERITY, _MESSAGE, _DETAIL, _APPLICATION = 2, 5, 11, 13, 14, 22
_LEAST = 23
# Most characters of a field, of a line and of an entry; what is longer is no query that runs.
_LONGEST_FIELD, _LONGEST_LINE = 2**27, 2**24
_LOG = re.compile(r"\.(?:log|csv|json)(?:[.-]\d+)?(?:\.gz)?\Z")
_FORMAT = re.compile(r"\.(log|csv|json)(?=(?:[.-]\d+)?(?:\.gz)?\Z)")
_OTHER = "it ran in another database"
_SHOW = (
    "Set log_min_duration_statement = 0 (or auto_explain.log_min_duration = 0) for a while,"
    " or name the log's --prefix."
)


@with_fields_of(CaptureOptions)
def capture_logs(paths: Sequence[str | Path], *, options: CaptureOptions) -> Capture:
    """Read statements with their parameters from logs in csv, JSON or plain form.

    ``paths`` are files, patterns (``*``, ``?``) or folders, of which all log files are read; files
    may be gzipped. The format is identified by the first lines. The options are given by name.
    ``prefix`` is the ``log_line_prefix`` of plain logs; without it common ones are tried. At most
    ``samples`` executions of each text, chosen by the seed, become queries, each with its own
    literals; with ``sessions`` all do, a script for each session in its own order. A UsageError is
    raised if a file cannot be read, or if there is no statement, or none of ``database``.
    """
    gatherer, database = Gatherer(options), options.database
    reported = False
    databases: set[str | None] = set()
    files = _one_format(_files(paths))
    for entry in chain.from_iterable(_entries(file, options.prefix) for file in files):
        found = execution(entry)
        if found is None:
            continue
        reported = True
        databases.add(entry.database)
        if isinstance(found, str):
            gatherer.skip(found)
        elif entry.application == APPLICATION:
            gatherer.skip(OURS, found.calls)
        elif database is not None and entry.database != database:
            gatherer.skip(_OTHER, found.calls)
        else:
            gatherer.add(found, entry.session)
    if not reported:
        raise UsageError("the logs hold no statement.", remedy=_SHOW)
    if database is not None and database not in databases:
        named = ", ".join(sorted(name for name in databases if name is not None))
        raise UsageError(
            f"the logs hold no statement of the database {database!r}.",
            remedy=f"They name these: {named}."
            if named
            else "They do not say the database: put %d into log_line_prefix, or name --prefix.",
        )
    return gatherer.capture(files[0].name.partition(".")[0])


def _files(paths: Sequence[str | Path]) -> list[Path]:
    """The files that the paths name, in the order of their names."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            some = [file for file in path.iterdir() if _LOG.search(file.name) and file.is_file()]
        elif path.exists() or not has_magic(str(path)):
            some = [path]
        else:
            some = [Path(name) for name in glob(str(path), recursive=True)]
        if not some:
            raise UsageError(f"there is no log in {path}.")
        strange = next((file for file in some if file.exists() and not file.is_file()), None)
        if strange is not None:
            raise UsageError(f"the log {strange} is no plain file.")
        found += sorted(some)
    return found


def _one_format(files: Sequence[Path]) -> list[Path]:
    """One file of each log that a server wrote in several formats, and of a file named twice.

    Names of such files differ in the format alone. Empty ones come last.
    """
    chosen: dict[str, Path] = {}
    for form in (".csv", ".json", ".log", ""):
        for file in files:
            name, named = _FORMAT.subn("", str(file))
            empty = file.exists() and not file.stat().st_size
            if not form or (named and not empty and form in file.name):
                chosen.setdefault(name, file)
    return list(chosen.values())


def _entries(path: Path, prefix: str | None) -> Iterator[LogEntry]:
    """The LOG entries of a log; its first lines identify its format."""
    head, lines = _head(_lines(path)), _lines(path)
    for _ in range(4):
        if rule := wrapper(head):
            head, lines = _head(unwrapped(head, rule)), unwrapped(lines, rule)
    if not head:
        return iter(())
    row = next(_rows(head), []) if prefix is None else []
    if prefix is None and "error_severity" in _object(head[0]):
        return _of_json(lines)
    if len(row) >= _LEAST and row[_SEVERITY].rstrip("12345") in _LEVELS:
        return _of_csv(lines)
    return _of_text(lines, _first_line(prefix, head))


def _of_csv(lines: Iterable[str]) -> Iterator[LogEntry]:
    """Entries of ``log_destination = csvlog``."""
    for row in _rows(lines):
        if len(row) >= _LEAST and _LEVELS.get(row[_SEVERITY]) == "LOG":
            names = (row[_DATABASE] or None, row[_APPLICATION], row[_SESSION] or None)
            yield LogEntry(row[_MESSAGE], row[_DETAIL], *names)


def _rows(lines: Iterable[str]) -> Iterator[list[str]]:
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield from csv.reader(lines)
    except csv.Error as error:
        raise UsageError(f"the csv log cannot be read ({error}).") from None


def _head(lines: Iterable[str]) -> list[str]:
    """The first lines of a log."""
    head, size = list[str](), 0
    for line in islice(lines, _LOOK):
        head.append(line)
        size += len(line)
        if size > _LOOK_SIZE:
            break
    return head


def _of_json(lines: Iterable[str]) -> Iterator[LogEntry]:
    """Entries of ``log_destination = jsonlog``, one object a line; incomplete lines are skipped.

    CloudNativePG names the fields of a csv log instead.
    """
    for item in map(_object, lines):
        if _LEVELS.get(str(item.get("error_severity"))) == "LOG":
            message, detail = (str(item.get(name, "")) for name in ("message", "detail"))
            named = ("dbname", "database_name"), ("application_name",), ("session_id", "pid")
            names = (next(filter(None, map(item.get, some)), None) for some in named)
            yield LogEntry(message, detail, *(None if n is None else str(n) for n in names))


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(path: Path) -> Iterator[str]:
    """The lines of a log; those that are longer than `_LONGEST_LINE` come in pieces."""
    opened = gzip.open if path.suffix == ".gz" else open
    # Line ends are not translated: a quoted field of a csv log may hold carriage returns.
    with (
        file_errors(f"cannot read the log {path}"),
        opened(path, "rt", encoding="utf-8", errors="replace", newline="") as file,
    ):
        try:
            while line := file.readline(_LONGEST_LINE):
                yield line
        except (EOFError, zlib.error):
            raise UsageError(f"the log {path} is damaged.") from None
