"""The results of a replay, and the log that it writes as it goes.

A log is JSON lines: a header that says what is being replayed, then one line a query, then a line
``{"done": true}``. It holds exact answers of the source: CONFIDENTIAL.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import starmap
from pathlib import Path
from statistics import median
from typing import Any, Literal, Self

from pydantic import TypeAdapter

from privbench import files
from privbench.errors import UsageError
from privbench.workload.query import Refusal, Workload

_DONE = {"done": True}


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The answer and run times of one query on one database."""

    status: Literal["ok", "timeout", "error"]  # ``timeout`` where any run passed the time-out
    # The number in a single integer cell, or else the number of rows; None without a run
    # that ended.
    rows: int | None = None
    seconds: tuple[float, ...] = ()  # client seconds of each timed run that ended, in order
    # Whether the row limit cut the fetch: rows and seconds are then lower bounds.
    truncated: bool = False
    error: str | None = None  # SQLSTATE of an error
    plan: Any = None  # EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON), if it was requested
    # The error in words. The server's own message is kept only for kinds of errors whose messages
    # hold names and settings, but no values.
    message: str | None = None

    @property
    def median(self) -> float | None:
        """The median seconds of the timed runs; None without one."""
        return median(self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class Side:
    """One database of a replay."""

    database: str  # its name on its server
    version: str  # ``server_version``
    settings: dict[str, str]  # settings that shape plans and cannot be set in a session
    catalog: str  # digest of the identities of its tables; a reload changes it
    role: str = ""  # the role that ran the queries
    powers: tuple[str, ...] = ()  # what that role may do beyond reading tables: ``SUPERUSER``, …

    @property
    def warning(self) -> str:
        """A warning that says what the role may do beyond reading; empty if it may only read."""
        if not self.powers:
            return ""
        return (
            f"the workload ran on {self.database} as the role {self.role}, which has "
            f"{', '.join(self.powers)}: use one that may only SELECT."
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """The results of a replay."""

    sides: dict[str, Side]  # the databases by name
    settings: dict[str, str]  # session settings that held on every side
    workload: Workload  # the queries as they ran
    # For each of them its answers by the database's name. The first database may run twice; its
    # second answer is missing if the first one failed.
    results: tuple[dict[str, QueryAnswer], ...]
    repeats: int  # timed runs a query and side
    warmup: int  # runs before them
    timeout: float  # seconds that one run may take
    resumed: int = 0  # how many results come from an earlier, broken run
    before: str = ""  # what was done before each run, in words
    refused: tuple[Refusal, ...] = ()  # queries that were left out
    # What was left out of the texts of others, by id.
    changed: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ReplayLog:
    """The JSON lines of a replay; `open` continues an interrupted replay."""

    path: Path | None
    # Answers of the broken run by the query's id, then by the database's name.
    found: dict[str, dict[str, QueryAnswer]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, header: dict[str, Any]) -> Self:
        """Open a log; without a path, results are kept in memory only.

        A log of a finished replay is overwritten. The log of an interrupted one is continued if its
        header is the same; a half-written last line is dropped.
        """
        log = cls(path)
        if path is None:
            return log
        files.make_folder(path.parent)
        try:
            lines = _lines(path)
            if lines and lines[-1] != _DONE:
                if lines[0] != header:
                    raise UsageError(
                        f"{path} is the log of another replay"
                        " (workload, settings or databases differ).",
                        remedy="Delete it, or choose another directory.",
                    )
                answers = TypeAdapter(dict[str, QueryAnswer]).validate_python
                log.found = {str(line["id"]): answers(line["answers"]) for line in lines[1:]}
        except (ValueError, TypeError, LookupError):
            raise UsageError(f"{path} is not the log of a replay.") from None
        # The header and the earlier results are written anew; the file appears complete or not at
        # all.
        lines = [header, *starmap(_result, log.found.items())]
        files.write_text(path, "".join(map(_line, lines)))
        return log

    def add(self, query: str, answers: dict[str, QueryAnswer]) -> None:
        """Append the answers to the query with an id."""
        if self.path is not None:
            files.append_text(self.path, _line(_result(query, answers)))

    @staticmethod
    def finish(path: Path) -> None:
        """Mark a log as done."""
        files.append_text(path, _line(_DONE))


def _result(query: str, answers: dict[str, QueryAnswer]) -> dict[str, Any]:
    return {"id": query, "answers": {side: asdict(answer) for side, answer in answers.items()}}


def _line(data: dict[str, Any]) -> str:
    return f"{json.dumps(data)}\n"


def _lines(path: Path) -> list[Any]:
    """The whole lines of a log; a half-written last one is dropped."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    return [json.loads(line) for line in whole.split("\n")] if whole else []


def failures(answers: Iterable[tuple[str, str, str | None]]) -> list[tuple[str, list[str]]]:
    """Return why queries have no answer, and which queries; the most frequent reason first.

    The answers are given as id, status and the error in words.
    """
    by_reason: dict[str, list[str]] = {}
    for name, status, message in answers:
        if status != "ok":
            by_reason.setdefault(message or status, []).append(name)
    return sorted(by_reason.items(), key=lambda item: -len(item[1]))
