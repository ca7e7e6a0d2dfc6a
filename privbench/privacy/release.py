"""One release in the ledger: its events, their results, and how a killed fit goes on (P25).

The order on disk is: events, fsync; draw; results, fsync; only then does the caller see a result.
The events of a batch are one line of the journal, and its results another, so that each counts
whole or not at all.

* Killed before the events' fsync returned: nothing was drawn, the torn line is cut off.
* Killed after it, before the results' fsync returned: all events of the batch stay spent, their
  results (if there were any) are lost for ever. Drawing again is a new event, with a new charge.
* Killed later: the results are on disk and are replayed.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from privbench.errors import LedgerError
from privbench.privacy.accountant import Guarantee, loss_of
from privbench.privacy.events import Accounting, Event
from privbench.privacy.journal import Entry, Journal
from privbench.privacy.mechanisms import Integers


@dataclass(frozen=True, slots=True)
class Listed:
    """A released list of values with its noisy counts, in grid units.

    Attributes:
        cells: Counts of the public cells, in their order.
        labels: Values that reached the threshold, sorted.
        counts: Counts of these, as the mechanism drew them.
    """

    cells: tuple[int, ...]
    labels: tuple[str, ...]
    counts: tuple[int, ...]


#: What a mechanism released: noisy integers, an index, or a list.
Result = Integers | int | Listed


class Release:
    """The journal of one release, locked by one process from opening to closing.

    Made by `privbench.privacy.ledger.Ledger.open_release`.

    Attributes:
        id: Random name of the release.
        events: Every event so far, lost ones included, in order.
    """

    def __init__(
        self,
        release_id: str,
        path: Path,
        header: Entry,
        settle: Callable[[str, Guarantee, int], None],
    ) -> None:
        self.id = release_id
        self.accounting: Accounting = header["accounting"]
        self.delta_conversion = float(header["delta_conversion"])
        self.private = bool(header["private"])
        self.events: list[Event] = []
        self._results: dict[int, Entry] = {}
        self._cursor = 0
        self._journal = Journal(path)
        self._lock = FileLock(
            str(path.with_suffix(".lock")), timeout=0, mode=0o600, thread_local=False
        )
        self._settle = settle
        self._open(header)

    def _open(self, header: Entry) -> None:
        try:
            self._lock.acquire()
        except Timeout:
            raise LedgerError(f"release {self.id} is being written by another process.") from None
        try:
            self._load(header)
        except BaseException:
            self._lock.release()
            raise

    def _load(self, header: Entry) -> None:
        entries = self._journal.read()
        if not entries:
            self._journal.append({"type": "release", **header})
            return
        if entries[0] != {"type": "release", **header}:
            raise LedgerError(f"release {self.id} was opened for another fit.")
        for entry in entries[1:]:
            if entry["type"] == "events":
                self.events += map(Event.from_json, entry["events"])
            elif entry["type"] == "results":
                self._results |= {int(item["event"]): item for item in entry["results"]}
            elif entry["type"] == "event":
                # Before there were batches, an event and a result had a line each.
                self.events.append(Event.from_json(entry["event"]))
            elif entry["type"] == "result":
                self._results[int(entry["event"])] = entry
            else:
                raise LedgerError(f"release {self.id} was written by another version.")

    @property
    def lost(self) -> list[Event]:
        """Events without a stored result: spent, and never to be seen."""
        return [event for event in self.events if event.id not in self._results]

    def replay(self, event: Event) -> tuple[Event, Result] | None:
        """The stored event and result at this point of the fit, or None once all are replayed.

        Raises:
            LedgerError: The fit asks for something else than it did before it was killed.
        """
        while self._cursor < len(self.events):
            stored = self.events[self._cursor]
            self._cursor += 1
            if stored.id not in self._results:
                continue
            if not stored.same(event):
                raise LedgerError(
                    f"release {self.id} cannot be resumed: its event {stored.id} was "
                    f"'{stored.label}', the fit now asks for '{event.label}'.",
                    remedy="Start a new release.",
                )
            return stored, _decode(self._results[stored.id])
        return None

    def record(self, events: Sequence[Event]) -> None:
        """Make a batch of events durable, all or none; only after this may they be drawn."""
        if [event.id for event in events] != list(
            range(len(self.events), len(self.events) + len(events))
        ):
            raise LedgerError("an event is out of order.")
        self._require_lock()
        self._journal.append({"type": "events", "events": [event.to_json() for event in events]})
        self.events += events
        self._cursor = len(self.events)

    def store(self, drawn: Sequence[tuple[Event, Result]]) -> None:
        """Make a batch of results durable, all or none; only after this may they be used."""
        self._require_lock()
        results = [{"event": event.id, **_encode(result)} for event, result in drawn]
        self._journal.append({"type": "results", "results": results})
        self._results |= {int(item["event"]): item for item in results}

    def loss(self) -> Guarantee:
        """(ε, δ) of every event so far, lost ones included."""
        return loss_of(self.events, self.accounting, self.delta_conversion)

    def close(self) -> Guarantee:
        """Replace the reservation by what was spent, and give up the lock.

        Returns:
            What was spent.
        """
        self._require_lock()
        spent = self.loss()
        self._settle(self.id, spent, len(self.events))
        self._lock.release()
        return spent

    def leave(self) -> None:
        """Give up the lock and stay open: reserved, to be resumed."""
        self._lock.release()

    def _require_lock(self) -> None:
        if not self._lock.is_locked:
            raise LedgerError(f"release {self.id} is closed.")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a ledger; waits for other processes.

    Raises:
        LedgerError: The lock cannot be had within a minute, or the directory is not writable.
    """
    lock = FileLock(str(path), timeout=60, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise LedgerError(f"another process holds the ledger lock {path}.") from None
    except OSError as error:
        raise LedgerError(
            f"cannot lock the ledger at {path}: {error.strerror}.",
            remedy="Give [ledger] path a directory that this user may write.",
        ) from None
    try:
        yield
    finally:
        lock.release()


def _encode(result: Result) -> Entry:
    if isinstance(result, np.ndarray):
        packed = zlib.compress(result.astype("<i8").tobytes(), 1)
        return {"shape": list(result.shape), "data": base64.b64encode(packed).decode()}
    if isinstance(result, int):
        return {"index": result}
    return {
        "labels": list(result.labels),
        "counts": list(result.counts),
        "cells": list(result.cells),
    }


def _decode(entry: dict[str, Any]) -> Result:
    if "data" in entry:
        raw = zlib.decompress(base64.b64decode(entry["data"]))
        return np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(entry["shape"])
    if "index" in entry:
        return int(entry["index"])
    return Listed(tuple(entry["cells"]), tuple(entry["labels"]), tuple(entry["counts"]))
