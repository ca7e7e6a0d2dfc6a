"""The statement that a log entry reports."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from privbench.workload.capture.gather import Execution, Parameters

#: Why an entry that names a statement is left out.
NOT_RUN = "it is a parse or bind step, not a run"
FETCH = "it goes on with an open cursor"
PLAN_FORM = "its plan is logged as XML or YAML"

_MESSAGE = re.compile(
    r"(?:duration: [\d.]+ ms\s+)?"
    r"(?:(?P<verb>statement|plan|parse|bind|execute fetch from|execute)(?: [^:\n]*)?):\s+"
    r"(?P<text>.*)",
    re.DOTALL,
)
_VALUE = re.compile(r"\$(\d+) = (?:'((?:[^']|'')*)'|NULL)")
_PARAMETERS = re.compile(r"(?:parameters|Query Parameters): (?=\$)", re.IGNORECASE)
_PLAN = re.compile(
    r"Query Text: (?P<text>.*?)\n"
    r"(?:Query Parameters: (?P<parameters>[^\n]*)\n)?"
    r"(?:Query Identifier: [^\n]*\n)?"
    r"(?=[^\n]*\(cost=\d|[^\n]*\(actual )",
    re.DOTALL,
)


#: Statements around a query: what each holds is what ran.
_COPY = re.compile(r"\s*copy\s*\((?P<query>.*)\)\s*to\s", re.IGNORECASE | re.DOTALL)
_DECLARE = re.compile(
    r"\s*declare\s+(?:\"[^\"]+\"|\w+)(?:\s+(?:binary|asensitive|insensitive|no|scroll))*\s+cursor"
    r"(?:\s+with(?:out)?\s+hold)?\s+for\s+(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
_PREPARE = re.compile(
    r"(?:prepare: )?\s*prepare\s+(?:\"[^\"]+\"|\w+)\s*(?:\([^()]*\)\s*)?as\s+(?P<query>.*)",
    re.IGNORECASE | re.DOTALL,
)
_EXECUTE = re.compile(r"\s*execute\s+(?:\"[^\"]+\"|\w+)\s*(?:\((?P<values>.*)\))?", re.I | re.S)
_CONSTANT = re.compile(r"\s*(?:'((?:[^']|'')*)'|([-+]?[\d.]+|true|false)|null)\s*(?:,|$)", re.I)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a log of any format.

    Attributes:
        message: Its message.
        detail: Its DETAIL.
        database: The database, where the log states it.
        application: The session's ``application_name``, likewise.
    """

    message: str
    detail: str = ""
    database: str | None = None
    application: str | None = None


def execution(entry: Entry) -> Execution | str | None:
    """The statement that an entry reports.

    Returns:
        The execution; why it is left out; or None where the entry is of another kind.

    >>> execution(Entry("duration: 0.1 ms  execute <unnamed>: SELECT $1", "parameters: $1 = '7'"))
    Execution(text='SELECT $1', parameters=('7',), planned=False, calls=1)
    """
    found = _MESSAGE.match(entry.message)
    if found is None:
        return None
    verb, text = found["verb"], found["text"]
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
    return Execution(_inner(text), _parameters(entry.detail) if verb == "execute" else ())


def _inner(text: str, *more: re.Pattern[str]) -> str:
    """The query that a statement runs: its own text, or what COPY or DECLARE hold.

    >>> _inner("COPY (SELECT a FROM t) TO STDOUT"), _inner("DECLARE c CURSOR FOR SELECT 1")
    ('SELECT a FROM t', 'SELECT 1')
    """
    found = next((match for each in (_COPY, _DECLARE, *more) if (match := each.match(text))), None)
    return found["query"] if found else text


def _constants(text: str) -> Parameters:
    """The values of ``EXECUTE name (1, 'a', NULL)``; none where one is more than a constant."""
    found = _EXECUTE.match(text)
    rest, values = (found["values"] if found else None) or "", list[str | None]()
    while rest:
        one = _CONSTANT.match(rest)
        if one is None:
            return ()
        values.append(one[2] if one[1] is None else one[1].replace("''", "'"))
        rest = rest[one.end() :]
    return tuple(values)


def _planned(text: str) -> Execution | str:
    """The statement that an entry of auto_explain was written for."""
    if text.startswith("{"):
        try:
            data = json.loads(text)
            return Execution(
                str(data["Query Text"]), _values(str(data.get("Query Parameters", ""))), True
            )
        except (ValueError, KeyError, TypeError):
            return PLAN_FORM
    found = _PLAN.match(text)
    if found is None:
        return PLAN_FORM
    return Execution(found["text"], _values(found["parameters"] or ""), True)


def _parameters(detail: str) -> Parameters:
    return _values(detail) if _PARAMETERS.match(detail) else ()


def _values(text: str) -> Parameters:
    """The values of a list ``$1 = 'a', $2 = NULL``."""
    found = {int(item[1]): item[2] for item in _VALUE.finditer(text)}
    values = (found.get(number) for number in range(1, max(found, default=0) + 1))
    return tuple(None if value is None else value.replace("''", "'") for value in values)
