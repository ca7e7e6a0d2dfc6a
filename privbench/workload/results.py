"""What a replay found, and the log that it writes as it goes.

A log is JSON lines: a header that says what is being replayed, then one line a query, then a line
``{"done": true}``. It holds exact answers of the source: CONFIDENTIAL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, Self

from privbench import files
from privbench.errors import UsageError

Status = Literal["ok", "timeout", "error"]

_DONE = {"done": True}


@dataclass(frozen=True, slots=True)
class Answer:
    """One query on one database.

    Attributes:
        status: ``timeout`` where any run passed the time-out.
        rows: The number in a single integer cell, or else the number of rows; None without a run
            that ended.
        seconds: Client seconds of each timed run that ended, in order.
        truncated: Whether the row limit cut the fetch: rows and seconds are then lower bounds.
        error: SQLSTATE of an error.
        plan: EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON), where asked for.
        message: The error in words. What the server said is kept only of kinds of errors whose
            texts hold names and settings, and no values.
    """

    status: Status
    rows: int | None = None
    seconds: tuple[float, ...] = ()
    truncated: bool = False
    error: str | None = None
    plan: Any = None
    message: str | None = None

    @property
    def median(self) -> float | None:
        """Median seconds of the timed runs, None without one."""
        return median(self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One query on every database, by the database's name in the replay.

    The first database's second part is missing where its first one did not end.
    """

    id: str
    answers: dict[str, Answer]

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The result that `to_json` wrote."""
        answers = {
            name: Answer(**{**item, "seconds": tuple(item["seconds"])})
            for name, item in data["answers"].items()
        }
        return cls(str(data["id"]), answers)


@dataclass(frozen=True, slots=True)
class Side:
    """One database of a replay.

    Attributes:
        database: Its name on its server.
        version: ``server_version``.
        settings: Settings that shape plans and cannot be set in a session.
        catalog: Digest of the identities of its tables; a reload changes it.
        role: The role that ran the queries.
        powers: What that role may do beyond reading tables: ``SUPERUSER``, ….
    """

    database: str
    version: str
    settings: dict[str, str]
    catalog: str
    role: str = ""
    powers: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """That the role may do more than read, and what; empty where it may not."""
        if not self.powers:
            return ""
        return (
            f"the workload ran on {self.database} as the role {self.role}, which has "
            f"{', '.join(self.powers)}: use one that may only SELECT."
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """A whole replay.

    Attributes:
        sides: The databases by name.
        settings: Session settings that held on every side.
        results: One a query, in the order of the workload.
        repeats: Timed runs a query and side.
        warmup: Runs before them.
        timeout: Seconds that one run may take.
        resumed: How many results come from an earlier, broken run.
        before: What was done before each run, in words.
    """

    sides: dict[str, Side]
    settings: dict[str, str]
    results: tuple[QueryResult, ...]
    repeats: int
    warmup: int
    timeout: float
    resumed: int = 0
    before: str = ""


@dataclass(slots=True)
class ReplayLog:
    """The JSON lines of a replay; `open` takes up a broken run where it stopped."""

    path: Path | None
    header: dict[str, Any]
    found: dict[str, QueryResult] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, header: dict[str, Any]) -> Self:
        """Open a log, or none.

        A log that is done is begun anew. One that was broken off is continued if its header is the
        same, a half-written last line cut off.

        Raises:
            UsageError: The file is the log of another replay, or no log.
        """
        log = cls(path, header)
        if path is None:
            return log
        files.make_folder(path.parent)
        lines = _lines(path)
        if lines and lines[-1] != _DONE:
            if lines[0] != header:
                raise UsageError(
                    f"{path} is the log of another replay"
                    " (workload, settings or databases differ).",
                    remedy="Delete it, or choose another directory.",
                )
            log.found = {line["id"]: QueryResult.from_json(line) for line in lines[1:]}
        # Header and earlier results afresh, whole or not at all.
        lines = [header, *(result.to_json() for result in log.found.values())]
        files.write_text(path, "".join(map(_line, lines)))
        return log

    def add(self, result: QueryResult) -> None:
        """Append one result."""
        if self.path is not None:
            files.append_text(self.path, _line(result.to_json()))

    @staticmethod
    def finish(path: Path) -> None:
        """Mark a log done."""
        files.append_text(path, _line(_DONE))


def _line(data: dict[str, Any]) -> str:
    return f"{json.dumps(data)}\n"


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; a half-written last one is dropped."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    try:
        return [json.loads(line) for line in whole.split("\n")] if whole else []
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not the log of a replay.") from error


def failures(answers: Iterable[tuple[str, str, str | None]]) -> list[tuple[str, list[str]]]:
    """The reasons for which queries have no answer, and their ids; the most frequent first.

    Args:
        answers: Id, status and error in words of every query.
    """
    found: dict[str, list[str]] = {}
    for name, status, message in answers:
        if status != "ok":
            found.setdefault(message or status, []).append(name)
    return sorted(found.items(), key=lambda item: -len(item[1]))
