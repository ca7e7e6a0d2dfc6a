"""The durable ledger: what every release of a database has spent, and the cap on the next.

One directory holds one sub-directory per database identity, named by a hash of it::

    <ledger>/<hash of identity>/ledger.sqlite      openings, closings, caps; events and results
    <ledger>/<hash of identity>/<release>.lock     held while a release is being written
    <ledger>/<hash of identity>/ledger.lock        held while the file is made or converted

An opening reserves the whole (ε, δ) that the release requested. It is checked against the cap
within the transaction that writes it, so that two fits at once cannot both pass a cap that has room
for one. Closing replaces the reservation by what was spent. A release that was never closed counts
with its reservation.

Losses in ledgers of other names that may be of the same database count too
(`privbench.postgres.connect` says which). Such a ledger is read; it is written only to resume one
of its releases or to give it up.

The ledger is CONFIDENTIAL. Whoever can delete it can forget its losses: keep it where the
database's backups are kept.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from platformdirs import user_state_dir

from privbench.errors import LedgerError
from privbench.privacy.accountant import Accountant, Guarantee
from privbench.privacy.earlier import convert, lock
from privbench.privacy.release import Release
from privbench.privacy.standing import Cap, Standing, UnitDefinition
from privbench.privacy.store import (
    FILE,
    Book,
    Entry,
    damaged,
    make,
    sync_folder,
    there,
    transaction,
    usable,
)

_FOLDER = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Fit:
    """The facts that a release is opened with; a resumed release must be opened for the same."""

    config_hash: str  # hash of the config and the schema
    definition: UnitDefinition  # the unit definition under which losses are counted
    private: bool = True  # False if the noise is seeded: the loss then counts as infinite
    # The server's own identifier of the database, whatever name the user declares; None if it is
    # unknown. It need not be the same on resuming, which may be on a replica or a restored copy.
    database: str | None = None


class Ledger:
    """All releases of one database identity. Its folder is made on the first write.

    ``others`` are ledgers of other names whose losses count as well.
    """

    def __init__(self, directory: Path, identity: str, others: Sequence[Ledger] = ()) -> None:
        self.identity = identity
        self.directory = directory
        self.others = tuple(others)

    @classmethod
    def open(
        cls, path: str | Path | None, identity: str, covers: Callable[[str], bool] | None = None
    ) -> Self:
        """The ledger of a database in ``path``, by default the user's state directory.

        ``covers`` says, for the name of another ledger, whether its losses may be of this database.
        """
        base = _base(path)
        name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        others = [
            item
            for item in (cls._all(base) if covers is not None else ())
            if item.directory.name != name and covers is not None and covers(item.identity)
        ]
        return cls(base / name, identity, others)

    @classmethod
    def holding(cls, path: str | Path | None, release_id: str) -> Self:
        """The ledger in which a release is recorded; a LedgerError if there is none."""
        base = _base(path)
        for item in cls._all(base):
            if release_id in item._standing().accounts:
                return item
        raise LedgerError(
            f"no ledger in {base} has a release {release_id}.",
            remedy="Name the right folder by --ledger, and the release as 'ledger show' does.",
        )

    @classmethod
    def of_database(
        cls, path: str | Path | None, database: str | None, covers: Callable[[str], bool]
    ) -> list[Self]:
        """The ledgers with releases of the database that the server identifies as ``database``.

        They may have any name. ``covers`` is that of `open`.
        """
        return [
            item
            for item in cls._all(_base(path))
            if any(
                covers(item.identity) or database == account.database is not None
                for account in item._standing().accounts.values()
            )
        ]

    @classmethod
    def _all(cls, base: Path) -> Iterator[Self]:
        """Every ledger of a directory, by the name of its folder."""
        with usable(base):
            folders = sorted(base.iterdir()) if there(base) else []
        for folder in folders:
            if not _FOLDER.fullmatch(folder.name):
                continue
            convert(folder)
            if there(folder / FILE):
                with transaction(folder) as book:
                    headers = book.read()[:1]
                    if not headers and book.parts():
                        raise damaged(book.path)
                for header in headers:
                    yield cls(folder, str(header["identity"]))

    def open_release(
        self, fit: Fit, accountant: Accountant, *, cap: Cap | None = None, resume: str | None = None
    ) -> Release:
        """Reserve the accountant's (ε, δ) and open a release, or resume one that was killed.

        The stricter of two caps applies: ``cap``, which is the config's, and the ledger's own. If
        it has no room, that is a BudgetExceeded. A release to resume must be open, not in use, and
        of the same fit.
        """
        header = _header(fit, accountant)
        with ExitStack() as undo:
            with ExitStack() as stack:
                # Locked in the order of their names, so that two fits never wait for each other.
                ledgers = sorted((self, *self.others), key=lambda item: item.directory.name)
                books = {item: stack.enter_context(item._book()) for item in ledgers}
                holder, standing = self, self._own(books[self])
                for item in self.others:
                    found = item._own(books[item])
                    holder = item if resume in found.accounts else holder
                    standing.count_in(found)
                name = resume or str(uuid.uuid4())
                if resume is None:
                    opened = {"type": "opened", "release": name, "time": _now(), **header}
                    opened["database"] = fit.database
                    standing.add(opened)
                    standing.check(name, cap)
                    books[self].append(opened)
                else:
                    standing.require_open(resume, header)
                release = holder._release(books[holder], name, header)
                undo.callback(release.leave)
                _extend(books[holder], standing, release, accountant, cap)
            undo.pop_all()
        return release

    def abandon(self, release_id: str) -> Guarantee:
        """Close a release that will not be resumed, and free the unspent part of its reservation.

        Every event in the ledger stays spent, also one whose result was lost. Returns the loss of
        all events.
        """
        with self._book() as book:
            header = self._own(book).require_open(release_id)
            release = self._release(book, release_id, header)
        return release.close()

    def set_cap(self, cap: Cap) -> None:
        """Set the ledger's own cap, which replaces the one before."""
        with self._book() as book:
            book.append({"type": "cap", "time": _now(), **asdict(cap)})

    def show(self) -> dict[str, Any]:
        """Releases, totals per unit definition, and the cap. Totals may be infinite."""
        standing = self._standing() if there(self.directory) else Standing([])
        for item in self.others:
            standing.count_in(item._standing())
        others = [{"identity": item.identity, "path": str(item.directory)} for item in self.others]
        place = {"identity": self.identity, "path": str(self.directory), "others": others}
        return {**place, **standing.to_json()}

    @contextmanager
    def _book(self) -> Iterator[Book]:
        """One transaction on this ledger; its file is made first if there is none."""
        with usable(self.directory):
            folders = (self.directory, *self.directory.parents)
            missing = [item for item in folders if not there(item)]
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for item in missing:
                sync_folder(item.parent)
        convert(self.directory)
        if not there(self.directory / FILE):
            held = lock(self.directory)
            try:
                make(self.directory)
            finally:
                held.release()
        with transaction(self.directory) as book:
            header = {"type": "ledger", "format": 1, "identity": self.identity}
            entries = book.read()
            if not entries:
                book.append(header)
            elif entries[0] != header:
                raise LedgerError(f"the ledger file {book.path} is not of this database.")
            yield book

    def _standing(self) -> Standing:
        with self._book() as book:
            return self._own(book)

    def _own(self, book: Book) -> Standing:
        """The ledger's state."""
        try:
            standing = Standing(book.read()[1:])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise damaged(book.path) from None
        if not book.parts() <= {"", *standing.accounts}:
            # The ledger has events of a release whose opening is missing.
            raise damaged(book.path)
        return standing

    def _release(self, book: Book, release_id: str, header: Entry) -> Release:
        return Release(release_id, self.directory, header, book.read(release_id), self._close)

    def _close(self, release_id: str, spent: Guarantee, events: int) -> None:
        with self._book() as book:
            reserved = self._own(book).reserved(release_id)
            book.append(
                {
                    "type": "closed",
                    "release": release_id,
                    "epsilon": min(_outward(spent.epsilon), reserved.epsilon),
                    "delta": min(_outward(spent.delta), reserved.delta),
                    "events": events,
                    "time": _now(),
                }
            )


def _extend(
    book: Book, standing: Standing, release: Release, accountant: Accountant, cap: Cap | None
) -> None:
    """Reserve the budget of a killed run's lost events on top of what the fit will spend.

    The fit's own accountant starts from 0 and charges the replayed events again. Lost events are
    not replayed, so without this reservation they would be forgotten.
    """
    if release.lost:
        total = accountant.terms.reserved(release.lost)
        amounts = {"epsilon": total.epsilon, "delta": total.delta}
        entry = {"type": "extended", "release": release.id, **amounts}
        standing.add(entry)
        standing.check(release.id, cap)
        book.append(entry)


def _base(path: str | Path | None) -> Path:
    """The directory of all ledgers."""
    return Path(path) if path is not None else Path(user_state_dir("privbench")) / "ledger"


def _header(fit: Fit, accountant: Accountant) -> Entry:
    levels = {"levels": list(accountant.terms.levels)} if accountant.accounting == "zcdp" else {}
    return {
        **levels,
        "config_hash": fit.config_hash,
        "definition": fit.definition.to_json(),
        "private": fit.private,
        "accounting": accountant.accounting,
        "epsilon": accountant.requested.epsilon,
        "delta": accountant.requested.delta,
        "delta_conversion": accountant.delta_conversion,
    }


def _outward(value: float) -> float:
    """The next larger float: the ledger sums decimal forms, which may lie below the float."""
    return math.nextafter(value, math.inf) if value else 0.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
