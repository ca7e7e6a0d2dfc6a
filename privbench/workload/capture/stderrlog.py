"""Plain logs: ``log_destination = stderr`` or syslog-free files, in any ``log_line_prefix``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from privbench.errors import UsageError
from privbench.workload.capture.messages import Entry

#: Tried in this order where no prefix is named; the one that most lines bear is taken.
COMMON_PREFIXES = (
    "%m [%p] ",
    "%m [%p] %q%u@%d ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%t:%r:%u@%d:[%p]:",
    "%m [%p] %u@%d ",
    "%t [%p] ",
    "%t [%p]: ",
    "%m %u %d [%p] ",
    "%t ",
    "%m ",
    "",
)
_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_ESCAPES = {
    "t": _TIME + r" \S+",
    "m": _TIME + r"\.\d+ \S+",
    "n": r"\d+\.\d+",
    "s": _TIME + r" \S+",
    "p": r"\d+", "P": r"\d*", "l": r"\d+", "x": r"\d+", "Q": r"-?\d+",
    "u": r"\S*?", "a": r"(?P<application>.*?)", "h": r"\S*?", "r": r"\S*?",
    "L": r"\S*?", "b": r"[\w ]*?",
    "d": r"(?P<database>\S*?)",
    "c": r"[0-9a-f]+\.[0-9a-f]+", "v": r"\S*", "e": r"\w{5}", "i": r"[A-Z ]*",
    "%": "%",
}  # fmt: skip
_ESCAPE = re.compile(r"%(-?\d+)?(.)")
_LEVEL = (
    r"(?P<level>LOG|DETAIL|STATEMENT|CONTEXT|HINT|QUERY|LOCATION|BACKTRACE"
    r"|DEBUG\d|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):  "
)
_UNKNOWN = "[unknown]"


def pattern(prefix: str | None, head: Sequence[str]) -> re.Pattern[str]:
    """What the first line of an entry looks like.

    Args:
        prefix: ``log_line_prefix``, or None to find out.
        head: Some of the first lines.

    Raises:
        UsageError: The prefix holds an unknown escape, or no line bears it or a common one.
    """
    tried = [_compiled(one) for one in (COMMON_PREFIXES if prefix is None else (prefix,))]
    counts = [sum(one.match(line) is not None for line in head) for one in tried]
    best = max(counts)
    if best == 0:
        raise UsageError(
            "no line of the log begins as expected.",
            remedy="Name the server's log_line_prefix with --prefix (SHOW log_line_prefix).",
        )
    return tried[counts.index(best)]


def entries(lines: Iterable[str], first: re.Pattern[str]) -> Iterator[Entry]:
    """The LOG entries, each with the DETAIL that follows it."""
    held: Entry | None = None
    for found, text in _pieces(lines, first):
        level = found["level"]
        if held is not None:
            yield replace(held, detail=text) if level == "DETAIL" else held
            held = None
        if level == "LOG":
            held = Entry(text, "", _named(found, "database"), _named(found, "application"))
    if held is not None:
        yield held


def _pieces(lines: Iterable[str], first: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """The beginning and the text of every piece, its later lines joined on."""
    begun: re.Match[str] | None = None
    text: list[str] = []
    for line in lines:
        found = first.match(line)
        if found is None:
            # The server puts a tab before every further line.
            text.append(line.removeprefix("\t"))
            continue
        if begun is not None:
            yield begun, "".join(text).rstrip("\r\n")
        begun, text = found, [line[found.end() :]]
    if begun is not None:
        yield begun, "".join(text).rstrip("\r\n")


def _named(found: re.Match[str], group: str) -> str | None:
    name = found.groupdict().get(group)
    return None if name in (None, "", _UNKNOWN) else name


def _compiled(prefix: str) -> re.Pattern[str]:
    """The pattern of a prefix; what follows ``%q`` is missing in entries without a session."""
    head, optional, tail = prefix.partition("%q")
    text = _translated(head)
    if optional:
        text += f"(?:{_translated(tail)})?"
    return re.compile(text + _LEVEL)


def _translated(prefix: str) -> str:
    parts, at = [], 0
    for found in _ESCAPE.finditer(prefix):
        parts.append(re.escape(prefix[at : found.start()]))
        escape = _ESCAPES.get(found[2])
        if escape is None:
            raise UsageError(f"log_line_prefix has no escape %{found[2]}.")
        parts.append(rf"\s*{escape}\s*" if found[1] else escape)
        at = found.end()
    text = "".join([*parts, re.escape(prefix[at:])])
    for group in ("(?P<database>", "(?P<application>"):
        # A prefix may say a thing twice, a pattern may name a group once.
        head, first, tail = text.partition(group)
        text = head + first + tail.replace(group, "(?:")
    return text
