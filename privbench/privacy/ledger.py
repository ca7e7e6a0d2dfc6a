"""The durable ledger: what every release of a database has spent, and the cap on the next.

One directory holds one sub-directory per database identity, named by a hash of it::

    <ledger>/<hash of identity>/ledger.jsonl       openings, closings, caps
    <ledger>/<hash of identity>/ledger.lock
    <ledger>/<hash of identity>/<release>.jsonl    the release's events and results

An opening reserves the whole (ε, δ) that the release asked for, checked against the cap while the
lock is held, so two fits at once cannot both pass a cap that has room for one. Closing replaces
the reservation by what was spent. A release that was never closed counts as its reservation.

Ledgers of other names that may be of the same database count too (`privbench.postgres.connect`
says which); they are read, and written only to go on with a release of theirs or to give it up.

The ledger is CONFIDENTIAL (P1). Whoever can delete it can forget its losses: keep it where the
database's backups are kept.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from platformdirs import user_state_dir

from privbench.errors import LedgerError
from privbench.privacy.accountant import Accountant, Guarantee, Tally, price
from privbench.privacy.budget import round_up
from privbench.privacy.conversion import epsilon_for
from privbench.privacy.definition import UnitDefinition
from privbench.privacy.events import Event
from privbench.privacy.journal import Entry, Journal, sync_directory
from privbench.privacy.release import Release, locked
from privbench.privacy.standing import Cap, Standing

FORMAT = 1
_FOLDER = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Fit:
    """What a release is opened for; a resumed release must be opened for the same.

    Attributes:
        config_hash: Hash of the config and the schema.
        definition: Whose losses these are.
        private: False for seeded noise: counts as infinite.
    """

    config_hash: str
    definition: UnitDefinition
    private: bool = True


class Ledger:
    """All releases of one database identity. Nothing is created before the first write.

    Args:
        directory: The identity's own directory.
        identity: The database's identity (P27).
        others: Ledgers of other names whose losses count as well.
    """

    def __init__(self, directory: Path, identity: str, others: Sequence[Ledger] = ()) -> None:
        self.identity = identity
        self.directory = directory
        self.others = tuple(others)
        self._journal = Journal(directory / "ledger.jsonl")

    @classmethod
    def open(
        cls, path: str | Path | None, identity: str, covers: Callable[[str], bool] | None = None
    ) -> Self:
        """The ledger of a database.

        Args:
            path: Directory of all ledgers; None means the user's state directory.
            identity: The database's identity.
            covers: Tells of a ledger's name whether its losses may be of this database.

        Raises:
            LedgerError: A ledger in the directory is damaged, so that none can tell whose it is.
        """
        base = _base(path)
        name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        found = cls._all(base) if covers is not None else ()
        others = [
            item
            for item in found
            if item.directory.name != name and covers is not None and covers(item.identity)
        ]
        return cls(base / name, identity, others)

    @classmethod
    def holding(cls, path: str | Path | None, release_id: str) -> Self:
        """The ledger that knows a release.

        Args:
            path: Directory of all ledgers; None means the user's state directory.
            release_id: The release.

        Raises:
            LedgerError: None does.
        """
        base = _base(path)
        for item in cls._all(base):
            if release_id in Standing(item._read()).accounts:
                return item
        raise LedgerError(
            f"no ledger in {base} knows a release {release_id}.",
            remedy="Name the right folder by --ledger, and the release as 'ledger show' does.",
        )

    @classmethod
    def _all(cls, base: Path) -> Iterator[Self]:
        """Every ledger of a directory, by the name of its folder."""
        folders = sorted(base.iterdir()) if base.is_dir() else []
        for folder in folders:
            entry = (
                Journal(folder / "ledger.jsonl").first() if _FOLDER.fullmatch(folder.name) else None
            )
            if entry is not None:
                yield cls(folder, str(entry["identity"]))

    def open_release(
        self,
        fit: Fit,
        accountant: Accountant,
        *,
        cap: Cap | None = None,
        resume: str | None = None,
    ) -> Release:
        """Reserve the accountant's (ε, δ) and open a release, or go on with one that was killed.

        Args:
            fit: What the release is for.
            accountant: Holds the accounting and the (ε, δ) that are asked for.
            cap: The config's cap; the stricter of it and the ledger's own holds.
            resume: Id of an open release.

        Raises:
            BudgetExceeded: The cap has no room for the release.
            LedgerError: The ledger is damaged, or the release to resume is closed, in use, or was
                opened for another fit.
        """
        self._prepare()
        holder = self
        with self._locked():
            standing = self._standing()
            header = _header(fit, accountant)
            if resume is None:
                release_id = str(uuid.uuid4())
                opened = {"type": "opened", "release": release_id, "time": _now(), **header}
                standing.add(opened)
                standing.check(cap)
                self._journal.append(opened)
            else:
                release_id = resume
                standing.require_open(resume, header)
                holder = self._holder(resume)
            release = holder._release(release_id, header)
            try:
                holder._extend(standing, release, accountant, cap)
            except BaseException:
                release.leave()
                raise
        return release

    def abandon(self, release_id: str) -> Guarantee:
        """Close a release that will not be resumed, and give back what none of its events took.

        Every event that the release's file knows stays spent, also one whose result was lost.

        Returns:
            What stays spent.

        Raises:
            LedgerError: There is no such open release, or it is in use.
        """
        self._prepare()
        with locked(self.directory / "ledger.lock"):
            header = self._own().require_open(release_id)
            release = self._release(release_id, header)
        return release.close()

    def set_cap(self, epsilon: float | None, delta: float | None) -> None:
        """Set the ledger's own cap; None lifts that half of it."""
        self._prepare()
        with locked(self.directory / "ledger.lock"):
            self._own()
            entry = {"type": "cap", "epsilon": epsilon, "delta": delta, "time": _now()}
            self._journal.append(entry)

    def show(self) -> dict[str, Any]:
        """Releases, totals per unit definition, and the cap. Totals may be infinite.

        Raises:
            LedgerError: The ledger is damaged.
        """
        standing = Standing(self._seen())
        for item in self.others:
            standing.count_in(Standing(item._seen()))
        others = [{"identity": item.identity, "path": str(item.directory)} for item in self.others]
        place = {"identity": self.identity, "path": str(self.directory), "others": others}
        return {**place, **standing.to_json()}

    def _seen(self) -> list[Entry]:
        """The entries, without making anything where there are none."""
        if not self._journal.path.exists():
            return []
        with locked(self.directory / "ledger.lock"):
            return self._read()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold this ledger and, by the order of their names, the others that count."""
        with ExitStack() as stack:
            for item in sorted((self, *self.others), key=lambda ledger: ledger.directory.name):
                stack.enter_context(locked(item.directory / "ledger.lock"))
            yield

    def _holder(self, release_id: str) -> Ledger:
        """Which of the ledgers has opened a release."""
        for item in self.others:
            if release_id in Standing(item._read()).accounts:
                return item
        return self

    def _prepare(self) -> None:
        try:
            created = not self.directory.exists()
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if created:
                sync_directory(self.directory.parent)
        except OSError as error:
            raise LedgerError(
                f"cannot make the ledger directory {self.directory}: {error.strerror}.",
                remedy="Give [ledger] path a directory that this user may write.",
            ) from None

    def _read(self) -> list[Entry]:
        entries = self._journal.read()
        expected = {"type": "ledger", "format": FORMAT, "identity": self.identity}
        if entries and entries[0] != expected:
            raise LedgerError(f"the ledger file {self._journal.path} is not of this database.")
        return entries[1:]

    def _standing(self) -> Standing:
        """What counts: this ledger's state, and that of the others."""
        standing = self._own()
        for item in self.others:
            standing.count_in(Standing(item._read()))
        return standing

    def _own(self) -> Standing:
        """The ledger's state, with the header line written if there is none."""
        standing = Standing(self._read())
        if self._journal.empty:
            header = {"type": "ledger", "format": FORMAT, "identity": self.identity}
            self._journal.append(header)
        return standing

    def _release(self, release_id: str, header: Entry) -> Release:
        path = self.directory / f"{uuid.UUID(release_id)}.jsonl"
        return Release(release_id, path, header, self._close)

    def _extend(
        self, standing: Standing, release: Release, accountant: Accountant, cap: Cap | None
    ) -> None:
        """Reserve what a killed run lost on top of what the fit will spend.

        The fit's own accountant starts anew and recharges what is replayed; lost events are not
        among these, so without this they would be forgotten.
        """
        if not release.lost:
            return
        reserved = with_lost(accountant, release.lost)
        entry = {
            "type": "extended",
            "release": release.id,
            "epsilon": reserved.epsilon,
            "delta": reserved.delta,
        }
        standing.add(entry)
        standing.check(cap)
        self._journal.append(entry)

    def _close(self, release_id: str, spent: Guarantee, events: int) -> None:
        with locked(self.directory / "ledger.lock"):
            reserved = self._own().reserved(release_id)
            entry = {
                "type": "closed",
                "release": release_id,
                "epsilon": min(_outward(spent.epsilon), reserved.epsilon),
                "delta": min(_outward(spent.delta), reserved.delta),
                "events": events,
                "time": _now(),
            }
            self._journal.append(entry)


def _base(path: str | Path | None) -> Path:
    """The directory of all ledgers."""
    return Path(path) if path is not None else Path(user_state_dir("privbench")) / "ledger"


def with_lost(accountant: Accountant, lost: list[Event]) -> Guarantee:
    """The whole budget of a fit plus events whose results were lost."""
    tally = Tally()
    for event in lost:
        tally.add(event, price(event, accountant.accounting))
    delta = round_up(Fraction(accountant.requested.delta) + tally.delta())
    if accountant.accounting == "pure":
        return Guarantee(round_up(Fraction(accountant.requested.epsilon) + tally.amount()), delta)
    rho = round_up(Fraction(accountant.cap) + tally.amount())
    return Guarantee(epsilon_for(rho, accountant.delta_conversion), delta)


def _header(fit: Fit, accountant: Accountant) -> Entry:
    return {
        "config_hash": fit.config_hash,
        "definition": fit.definition.to_json(),
        "private": fit.private,
        "accounting": accountant.accounting,
        "epsilon": accountant.requested.epsilon,
        "delta": accountant.requested.delta,
        "delta_conversion": accountant.delta_conversion,
    }


def _outward(value: float) -> float:
    """One rounding step up: the ledger sums decimal forms, which may lie below the float."""
    return math.nextafter(value, math.inf) if value else 0.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
