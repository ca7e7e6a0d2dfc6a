"""Take off what collectors of logs put around the lines of a server: one rule for each wrapper.

A rule maps a line to the server's text in it, which goes on in the next where no line end ends it.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import resources
from typing import Any

#: Prefixes, wrappers and languages of logs.
LOGS: dict[str, Any] = tomllib.loads(
    resources.files("privbench.workload.capture").joinpath("logs.toml").read_text("utf-8")
)
_TIME = r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)"
#: Most pieces of a line.
_MOST_PIECES = 2048


def wrapper(head: Sequence[str]) -> Callable[[str], str | None] | None:
    """Find the outermost wrapper by the first lines of a log; None if there is none."""
    # A statement's further lines begin with a tab.
    starts = [line for line in head if not line.startswith("\t")]
    if starts and starts[0].lstrip().startswith(("{", "[")) and any(map(_within, starts)):
        return _within
    for text in LOGS["wrappers"].values():
        form = re.compile(text.replace("{time}", _TIME))
        if 2 * sum(form.match(line) is not None for line in starts) > len(starts):
            return partial(_after, form)
    return None


def unwrapped(lines: Iterable[str], rule: Callable[[str], str | None]) -> Iterator[str]:
    """Take off a wrapper, and join the parts of each line of the server."""
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
    """What follows a wrapper in a line, or the whole line if it has none."""
    match = form.match(line)
    text = line[match.end() if match else 0 :].rstrip("\r\n")
    if "chunk" in form.groupindex:
        # Syslog cuts long lines at a blank, and writes a tab by its code.
        text = text.replace("#011", "\t")
        cut = match is not None and match["chunk"] not in (None, "1") and text.startswith(" ")
        return text if cut else f"\n{text}"
    return text if match and match.groupdict().get("part") == "P" else f"{text}\n"


def _within(line: str) -> str | None:
    """The server's text in a line of JSON; None if there is none.

    The line is an object, or a field of one that is printed over several lines. The server's own
    ``jsonlog`` wraps nothing.
    """
    text = line.strip().removeprefix("[").rstrip(",]")
    try:
        outer = json.loads(f"{{{text}}}" if text.startswith('"') else text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(outer, dict) or "error_severity" in outer:
        return None
    for *above, name in LOGS["objects"]:
        part: Any = outer
        for step in above:
            part = part.get(step) if isinstance(part.get(step), dict) else {}
        inner, detail = part.get(name), part.get("detail")
        if isinstance(inner, dict):
            return json.dumps(inner) + "\n"
        if isinstance(inner, str):
            start, log, _ = inner.partition("LOG:  ")
            more = f"{start}DETAIL:  {detail}\n" if log and detail else ""
            return inner if name == "log" else f"{inner}\n{more}"
    return None
