"""Take off what collectors of logs put around the lines of a server: one rule for each wrapper.

A rule maps a line to the server's text in it. The text ends with a line end, or else goes on in the
next line; None means that the line holds nothing of the server.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

Rule = Callable[[str], str | None]

_TIME = r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)"
#: What stands before the server's line. ``part`` is P where the line goes on in the next one, and
#: ``chunk`` numbers the lines of one message.
_BEFORE = {
    "containerd and CRI-O": rf"{_TIME} std(?:out|err) (?P<part>[FP]) ",
    "syslog and journald": rf"(?:<\d+>)?(?:1 )?(?:[A-Z][a-z]{{2}} [ \d]\d [\d:]{{8}}|{_TIME}) \S+ "
    r"[\w./-]+(?:\[\d+\]:| \d+ - -) (?:\[\d+-(?P<chunk>\d+)\] )?",
    "CloudWatch, docker logs -t, kubectl logs --timestamps": (
        rf"{_TIME} (?:\S+ (?=\t|\d{{4}}-\d\d-\d\d ))?"
    ),
    "docker compose": r"[\w.-]+ +\| ",
    "kubectl logs --prefix": r"\[pod/[^\]\s]+\] ",
}
#: Where the server's text stands in the object of a line.
_WITHIN = {
    "docker json-file": ("log",),
    "Cloud SQL": ("textPayload",),
    "Google Kubernetes Engine": ("jsonPayload", "message"),
    "CloudNativePG": ("record",),
    "Azure": ("properties", "message"),
    "journalctl -o json": ("MESSAGE",),
    "others": ("message",),
}
#: Most pieces of one line; what is longer is no query that runs.
_MOST_PIECES = 2048


def wrapper(head: Sequence[str]) -> Rule | None:
    """The rule of the outermost wrapper, by the first lines of a log; None if there is none."""
    # A statement's further lines begin with a tab.
    starts = [line for line in head if not line.startswith("\t")]
    if starts and starts[0].lstrip().startswith(("{", "[")) and any(map(_within, starts)):
        return _within
    for form in map(re.compile, _BEFORE.values()):
        if 2 * sum(form.match(line) is not None for line in starts) > len(starts):
            return partial(_after, form)
    return None


def unwrapped(lines: Iterable[str], rule: Rule) -> Iterator[str]:
    """The server's own lines."""
    begun: list[str] = []
    for line in lines:
        first, *others = (rule(line) or "").split("\n")
        if first and len(begun) < _MOST_PIECES:
            begun.append(first)
        for other in others:
            if begun:
                yield "".join([*begun, "\n"])
            begun = [other] if other else []
    if begun:
        yield "".join(begun)


def _after(form: re.Pattern[str], line: str) -> str:
    """The rest of a line behind its wrapper; a line without one is the server's own."""
    match = form.match(line)
    text = line[match.end() if match else 0 :].rstrip("\r\n")
    if "chunk" in form.groupindex:
        # Syslog cuts long lines at a blank, and writes a tab by its code.
        text = text.replace("#011", "\t")
        cut = match is not None and match["chunk"] not in (None, "1") and text.startswith(" ")
        return text if cut else f"\n{text}"
    return text if match and match.groupdict().get("part") == "P" else f"{text}\n"


def _within(line: str) -> str | None:
    """The server's text in an object, or in a field of one that is spread over several lines."""
    text = line.strip().removeprefix("[").rstrip(",]")
    try:
        outer = json.loads(f"{{{text}}}" if text.startswith('"') else text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(outer, dict) or "error_severity" in outer:
        return None
    for path in _WITHIN.values():
        inner: Any = outer
        for name in path:
            inner = inner.get(name) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            return json.dumps(inner) + "\n"
        if isinstance(inner, str):
            return inner if path == ("log",) else f"{inner}\n{_detail(outer, inner)}"
    return None


def _detail(outer: dict[str, Any], message: str) -> str:
    """The DETAIL that Azure keeps beside the message, as a line that begins like it."""
    start, log, _ = message.partition("LOG:  ")
    fields = outer.get("properties")
    detail = fields.get("detail") if isinstance(fields, dict) else None
    return f"{start}DETAIL:  {detail}\n" if log and detail else ""
