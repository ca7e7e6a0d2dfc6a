"""One release in the ledger: its events, their results, and how an interrupted fit is resumed.

The order of steps is: the events are committed to disk, the results are drawn, the results are
committed; only then does the caller see a result. The events of a batch are one transaction and its
results another, so that each counts whole or not at all. `Session.ask` states what that guarantees
after a kill.
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privbench.arrays import Ints
from privbench.errors import LedgerError
from privbench.privacy.accountant import Guarantee, Level, Tally, Terms
from privbench.privacy.events import Accounting, Event
from privbench.privacy.store import damaged, lock, transaction


@dataclass(frozen=True, slots=True)
class Listed:
    """A released list of values with its noisy counts, in grid units."""

    cells: tuple[int, ...]  # counts of the public cells, in their order
    labels: tuple[str, ...]  # values that reached the threshold, sorted
    counts: tuple[int, ...]  # noisy counts of ``labels``, as the mechanism released them


#: What a mechanism released: noisy integers, an index, or a list.
NoisyResult = Ints | int | Listed


class Release:
    """The events and results of one release, locked by one process from opening to closing.

    It is made by `privbench.privacy.ledger.Ledger.open_release`, which refuses a release that
    another process has locked or that a later version wrote to. ``header`` has the facts with which
    it was opened, ``entries`` its batches so far; ``settle`` records what was spent.
    """

    def __init__(
        self,
        release_id: str,
        folder: Path,
        header: dict[str, Any],
        entries: Sequence[dict[str, Any]],
        settle: Callable[[str, Guarantee, int], Guarantee],
    ) -> None:
        self.id = release_id
        self.accounting: Accounting = header["accounting"]
        self.terms = Terms(
            header["accounting"],
            Guarantee(header["epsilon"], header["delta"]),
            header["delta_conversion"],
            tuple(header.get("levels", ())),  # earlier versions had none
        )
        self.private = bool(header["private"])
        self.events: list[Event] = []  # every one so far, lost ones included, in order
        self._results: dict[int, dict[str, Any]] = {}
        self._cursor = 0
        self._folder, self._settle, self._written = folder, settle, len(entries)
        for entry in entries:
            if entry["type"] == "events":
                self.events += map(Event.from_json, entry["events"])
            elif entry["type"] == "results":
                self._results |= {int(item["event"]): item for item in entry["results"]}
            else:
                raise LedgerError(f"release {self.id} was written by another version.")
        # Held from the opening to the closing; a release that another process holds is refused.
        self._lock = lock(folder / f"{release_id}.lock", 0, f"release {release_id}")

    @property
    def lost(self) -> list[Event]:
        """Return events without a stored result: their budget is spent and their result is lost."""
        return [event for event in self.events if event.id not in self._results]

    def replay(self, event: Event) -> tuple[Event, NoisyResult] | None:
        """Return the next stored event and result, or None once all are replayed.

        A resumed fit must request the same events as it did before it was killed.
        """
        while self._cursor < len(self.events):
            stored = self.events[self._cursor]
            self._cursor += 1
            if stored.id not in self._results:
                continue
            if not stored.same(event):
                raise LedgerError(
                    f"release {self.id} cannot be resumed: its event {stored.id} was "
                    f"'{stored.label}', the fit now measures '{event.label}'.",
                    remedy="Start a new release.",
                )
            return stored, _decode(self._results[stored.id])
        return None

    def record(self, events: Sequence[Event]) -> None:
        """Make a batch of events durable, all or none; only after this may noise be drawn."""
        if [event.id for event in events] != list(
            range(len(self.events), len(self.events) + len(events))
        ):
            raise LedgerError("an event is out of order.")
        self._append({"type": "events", "events": [event.to_json() for event in events]})
        self.events += events
        self._cursor = len(self.events)

    def store(self, drawn: Sequence[tuple[Event, NoisyResult]]) -> None:
        """Make a batch of results durable, all or none; only after this may they be used."""
        results = [{"event": event.id, **_encode(result)} for event, result in drawn]
        self._append({"type": "results", "results": results})
        self._results |= {int(item["event"]): item for item in results}

    def spent(self) -> Tally:
        """Return the sums of every event so far, lost ones included."""
        return Tally(self.events, self.accounting)

    def loss(self) -> Guarantee:
        """Return the guarantee after the events so far (`privbench.privacy.accountant.Terms`)."""
        return self.terms.promised(self.spent(), self.lost)

    def level(self) -> Level:
        """Return the limit under zCDP from which the promise follows."""
        return self.terms.level(self.spent().amount())

    def close(self) -> Guarantee:
        """Replace the reservation by the promised loss, release the lock, and return that loss."""
        self._require_lock()
        spent = self._settle(self.id, self.loss(), len(self.events))
        self._lock.release()
        return spent

    def leave(self) -> None:
        """Release the lock; the release stays open with its budget reserved, to be resumed."""
        self._lock.release()

    def _append(self, entry: dict[str, Any]) -> None:
        """Make an entry durable; after a failure this object writes no more.

        If the ledger was replaced by an older copy while the fit ran, it lacks entries of the fit.
        This is detected here.
        """
        self._require_lock()
        try:
            with transaction(self._folder) as book:
                if book.append(entry, self.id) != self._written:
                    raise damaged(book.path)
        except LedgerError:
            self.leave()
            raise
        self._written += 1

    def _require_lock(self) -> None:
        if not self._lock.is_locked:
            raise LedgerError(f"release {self.id} is closed.")


def _encode(result: NoisyResult) -> dict[str, Any]:
    if isinstance(result, np.ndarray):
        packed = zlib.compress(result.astype("<i8").tobytes(), 1)
        return {"shape": list(result.shape), "data": base64.b64encode(packed).decode()}
    if isinstance(result, int):
        return {"index": result}
    return asdict(result)


def _decode(entry: dict[str, Any]) -> NoisyResult:
    if "data" in entry:
        raw = zlib.decompress(base64.b64decode(entry["data"]))
        return np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(entry["shape"])
    if "index" in entry:
        return int(entry["index"])
    return Listed(tuple(entry["cells"]), tuple(entry["labels"]), tuple(entry["counts"]))
