"""The durable ledger: what every release of a database has spent, and the cap on the next.

One directory holds one sub-directory per database identity, named by a hash of it::

    <ledger>/<hash of identity>/ledger.sqlite      openings, closings, caps; events and results
    <ledger>/<hash of identity>/<release>.lock     held while a release is being written
    <ledger>/<hash of identity>/ledger.lock        held while the file is made
    <ledger>/ledger.lock                           held while a release is opened

An opening reserves the whole (ε, δ) that the release requested. It is checked against the cap
within the transaction that writes it, so that two fits at once cannot both pass a cap that has room
for one. Closing replaces the reservation by what was spent. A release that was never closed counts
with its reservation.

Losses in ledgers of other names that may be of the same database count too (`joined` says which).
Such a ledger is read; it is written only to resume one of its releases or to give it up.

The ledger is CONFIDENTIAL. Whoever can delete it can forget its losses: keep it where the
database's backups are kept.
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from filelock import FileLock
from platformdirs import user_state_dir

from privbench.errors import LedgerError, PrivacyRefusal, ReleaseInUse
from privbench.privacy.accountant import Accountant, Guarantee
from privbench.privacy.events import Event
from privbench.privacy.ledger_state import Cap, Standing, UnitDefinition
from privbench.privacy.release import Release
from privbench.privacy.store import (
    FILE,
    WAIT,
    Book,
    damaged,
    lock,
    make,
    sync_folder,
    there,
    transaction,
    usable,
)

_FOLDER = re.compile(r"[0-9a-f]{32}")
#: A database's own identifier: the system identifier (``?`` if it may not be read) and its OID.
_OWN = re.compile(r"([0-9]+):[0-9]+")
#: What an earlier version left in the place of a file of lines once it had converted it.
_CONVERTED = f"This ledger was converted; its entries are in {FILE}.\n".encode()
#: Names under which earlier versions kept ledgers: ``host:port/database``.
_ADDRESS = re.compile(r".*:[0-9]+/.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fit:
    """The properties with which a release is opened; a resumed release must have the same."""

    config_hash: str  # hash of the config and the schema
    definition: UnitDefinition  # the unit definition under which losses are counted
    private: bool = True  # False if the noise is seeded: the loss then counts as infinite
    sizes_shown: bool = False  # whether roles were chosen with estimates of sizes in sight


class Ledger:
    """All releases under one identity of a database. Its folder is made on the first write.

    ``database`` is the server's own identifier of the database, whatever name the user declares;
    None if it is unknown. ``apart`` are names that the user declares to be those of other data,
    although a server may state the same identifier.
    """

    def __init__(
        self,
        directory: Path,
        identity: str,
        database: str | None = None,
        apart: Collection[str] = (),
    ) -> None:
        self.identity = identity
        self.directory = directory
        self.database = database
        self.apart = frozenset(apart)

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        identity: str,
        database: str | None = None,
        apart: Collection[str] = (),
    ) -> Self:
        """Return the ledger of a database in ``path``, by default the user's state directory."""
        name = hashlib.sha256(identity.encode()).hexdigest()[:32]
        return cls(_base(path) / name, identity, database, apart)

    @classmethod
    def holding(cls, path: str | Path | None, release_id: str) -> Self:
        """Return the ledger in which a release is recorded.

        Raise a LedgerError if there is none.
        """
        base = _base(path)
        for item, standing in cls.every(base):
            if release_id in standing.accounts:
                return item
        raise LedgerError(
            f"no ledger in {base} has a release {release_id}.",
            remedy="Name the right folder by --ledger, and the release as 'ledger show' does.",
        )

    @classmethod
    def of_database(
        cls, path: str | Path | None, database: str | None, *, surely: bool = False
    ) -> list[Ledger]:
        """Return the ledgers with releases of a database, by the server's identifier.

        See `joined`.
        """
        names = set() if database is None else {database}
        every = joined(cls.every(_base(path)), names, surely=surely)
        return [item for item, standing in every if standing.accounts]

    @classmethod
    def every(cls, base: Path) -> Iterator[tuple[Self, Standing]]:
        """Yield every ledger of a directory with its state, by the name of its folder."""
        with usable(base):
            folders = sorted(base.iterdir()) if there(base) else []
        for folder in folders:
            if not _FOLDER.fullmatch(folder.name):
                continue
            _require_whole(folder)
            if there(folder / FILE):
                with transaction(folder) as book:
                    headers = book.read()[:1]
                    if not headers and book.parts():
                        raise damaged(book.path)
                for header in headers:
                    item = cls(folder, str(header["identity"]))
                    yield item, item._standing()

    @property
    def others(self) -> list[Ledger]:
        """Return the ledgers under other names whose losses count as well."""
        return [item for item, _ in self._others()]

    def require_one_name(self) -> None:
        """Refuse a second declared name for one database, unless declared to be other data."""
        mine = self._standing() if there(self.directory) else Standing([])
        self._require_one_name(mine, self._others())

    def open_release(
        self,
        fit: Fit,
        accountant: Accountant,
        *,
        cap: Cap | None = None,
        resume: str | None = None,
        agree: Callable[[Release], None] | None = None,
    ) -> Release:
        """Reserve the accountant's (ε, δ) and open a release, or resume one that was killed.

        The stricter of two caps applies: ``cap``, which is the config's, and the ledger's own. If
        it has no room, a BudgetExceeded is raised. A release to resume must be open, not in use,
        and of the same fit. If answers of it were lost, ``agree`` is called before more is reserved
        for them, and may raise. A PrivacyRefusal says that no level covers the lost answers: then
        the release can only be given up.
        """
        header = _header(fit, accountant)
        with ExitStack() as undo:
            with self._books() as books:
                holder, standing = self._counted(books, resume)
                name = resume or str(uuid.uuid4())
                if resume is None:
                    opened = {"type": "opened", "release": name, "time": _now(), **header}
                    opened["database"] = self.database
                    if self.apart:
                        opened["apart"] = sorted(self.apart)
                    standing.add(opened)
                    standing.check(name, cap)
                    books[self][0].append(opened)
                else:
                    standing.require_open(resume, header)
                release = holder._release(books[holder][0], name, header)
                undo.callback(release.leave)
                whole = _larger_reservation(release, accountant, self.directory.parent)
                elsewhere = self.database not in {None, *books[holder][1].databases}
            if release.lost and agree is not None:
                agree(release)
            if release.lost or elsewhere:
                with self._books() as books:
                    holder, standing = self._counted(books, resume)
                    extended = standing.extend(name, whole, self.database)
                    standing.check(name, cap)
                    books[holder][0].append(extended)
            undo.pop_all()
        return release

    def unfinished(self, fit: Fit, accountant: Accountant) -> dict[str, list[Event]]:
        """Return interrupted releases of the same fit, each with its lost events.

        Fits that run side by side lock their releases, so the returned ones belong to interrupted
        fits.
        """
        header, lost = _header(fit, accountant), {}
        with self._books() as books:
            for item, (book, standing) in books.items():
                for account in standing.accounts.values():
                    if account.spent is None and account.header == header:
                        with suppress(ReleaseInUse):
                            release = item._release(book, account.id, header)
                            release.leave()
                            lost[account.id] = release.lost
        return lost

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
        """Set the ledger's own cap, which replaces the previous cap."""
        with self._book() as book:
            place = {"time": _now("microseconds"), "database": self.database}
            book.append({"type": "cap", **place, **asdict(cap)})

    def show(self) -> dict[str, Any]:
        """Return releases, totals per unit definition, and the cap. Totals may be infinite."""
        standing = self._standing() if there(self.directory) else Standing([])
        others, apart = self._others(), self.apart | standing.apart
        for _, standing_of_other in others:
            standing.count_in(standing_of_other)
        return {
            "identity": self.identity,
            "path": str(self.directory),
            "others": [{"identity": i.identity, "path": str(i.directory)} for i, _ in others],
            "apart": sorted(apart),
            **standing.to_json(),
        }

    def _others(self) -> list[tuple[Ledger, Standing]]:
        """The ledgers of other names whose losses count, with their states."""
        every, apart, names = [], self.apart, {self.identity}
        for item, standing in self.every(self.directory.parent):
            if item.directory == self.directory:
                apart |= standing.apart
                names |= standing.databases
            else:
                every.append((item, standing))
        if self.database is not None:
            names.add(self.database)
        return joined(
            [
                (item, standing)
                for item, standing in every
                if item.identity not in apart and self.identity not in standing.apart
            ],
            names,
        )

    @contextmanager
    def _books(self) -> Iterator[dict[Ledger, tuple[Book, Standing]]]:
        """One transaction on this ledger and on all that count with it, and their states.

        Only one process at a time is within it in a directory of ledgers, so that none can come to
        count, or open a release, beside this one.
        """
        base = self.directory.parent
        _make_folder(base)
        with ExitStack() as stack:
            stack.callback(_lock(base).release)
            # Locked in the order of their names, as earlier versions do.
            ledgers = sorted((self, *self.others), key=lambda item: item.directory.name)
            books = {item: stack.enter_context(item._book()) for item in ledgers}
            yield {item: (book, item._own(book)) for item, book in books.items()}

    def _counted(
        self, books: dict[Ledger, tuple[Book, Standing]], release_id: str | None
    ) -> tuple[Ledger, Standing]:
        """The ledger that has a release (this one if none has), and the state of all together."""
        standing = books[self][1]
        others = {item: counted for item, (_, counted) in books.items() if item is not self}
        self._require_one_name(standing, others.items())
        holder = next((i for i, counted in others.items() if release_id in counted.accounts), self)
        for counted in others.values():
            standing.count_in(counted)
        return holder, standing

    def _require_one_name(self, mine: Standing, others: Iterable[tuple[Ledger, Standing]]) -> None:
        own = set() if self.database is None else {self.database}
        if self.apart and _meet({self.identity, *self.apart}, own):
            # What was spent without a name counts whatever the name.
            raise PrivacyRefusal(
                "only a declared name can be apart from another.",
                remedy="Declare one under [database] in the config, or with --identity NAME, and "
                "name another by --apart-from, or apart_from under [ledger].",
            )
        if self.database is None or _meet({self.identity, *mine.databases}, {self.database}):
            return
        names = sorted(
            item.identity
            for item, standing in others
            if standing.used
            and _meet(standing.databases, {self.database})
            and not _meet({item.identity}, {self.database})
        )
        if names:
            raise PrivacyRefusal(
                f"the database, or one that cannot be told from it, has releases under the name "
                f"{names[0]!r}, and is now called {self.identity!r}.",
                remedy=f"Keep the name {names[0]!r}. If that is other data, whose server states "
                "the same identifier (a copy of the server's files), say so with --apart-from "
                "NAME, or apart_from under [ledger].",
            )

    @contextmanager
    def _book(self) -> Iterator[Book]:
        """One transaction on this ledger; its file is made first if there is none."""
        _make_folder(self.directory)
        _require_whole(self.directory)
        if not there(self.directory / FILE):
            lock_held = _lock(self.directory)
            try:
                make(self.directory)
            finally:
                lock_held.release()
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

    def _release(self, book: Book, release_id: str, header: dict[str, Any]) -> Release:
        return Release(release_id, self.directory, header, book.read(release_id), self._close)

    def _close(self, release_id: str, spent: Guarantee, events: int) -> Guarantee:
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
        return Guarantee(min(spent.epsilon, reserved.epsilon), min(spent.delta, reserved.delta))


def joined(
    ledgers: Iterable[tuple[Ledger, Standing]], names: set[str], *, surely: bool = False
) -> list[tuple[Ledger, Standing]]:
    """Return the ledgers whose losses may be of a database that is known by ``names``.

    Names are declared ones, which replicas and restores share, and the identifiers that servers
    state. A ledger counts if it is kept under a name or has a release of a database that is known
    by it; its own name and databases are then further names. Entries without a database are found
    by their ledger's name alone. Earlier versions kept ledgers under ``system identifier/database
    name``, or an address. As a database may have been renamed, and an address may be that of any
    database, all of these count, unless ``surely`` asks for ledgers that are certainly of the
    database. Too much may be counted, never too little.
    """
    left, known = list(ledgers), set(names)
    joined_ledgers: list[tuple[Ledger, Standing]] = []
    while True:
        more = [
            (item, standing)
            for item, standing in left
            if _meet({item.identity, *standing.databases}, known)
            or (not surely and _is_former(item.identity, known))
        ]
        if not more:
            return joined_ledgers
        left = [pair for pair in left if pair not in more]
        joined_ledgers += more
        known |= {name for item, own in more for name in (item.identity, *own.databases)}


def _meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether names of two databases share one.

    Identifiers of which one lacks the system identifier, which a role may not be allowed to read,
    are taken for one where the OIDs are equal.
    """
    return any(
        one == other or (one[2] == other[2] and "?" in (one[0], other[0]))
        for one in (name.rpartition(":") for name in some)
        for other in (name.rpartition(":") for name in others)
    )


def _is_former(identity: str, known: set[str]) -> bool:
    """Whether an earlier version may have kept a ledger of a known database under this name."""
    system, slash, _ = identity.partition("/")
    systems = {match[1] for name in known if (match := _OWN.fullmatch(name))}
    return bool(_ADDRESS.fullmatch(identity)) or (slash == "/" and system in systems)


def _larger_reservation(release: Release, accountant: Accountant, base: Path) -> Guarantee | None:
    """The budget of a killed run's lost events on top of what the fit will spend, if there are any.

    The fit's own accountant starts from 0 and charges the replayed events again. Lost events are
    not replayed, so without this reservation they would be forgotten.
    """
    if not release.lost:
        return None
    whole = accountant.terms.reserved(release.lost)
    if math.isinf(whole.epsilon):
        words = ["privbench", "ledger", "abandon", release.id, "--ledger"]
        raise PrivacyRefusal(
            f"release {release.id} cannot be resumed: so many answers were lost that paying for "
            "them again would pass the last of its limits.",
            remedy=f"Give it up by `{shlex.join([*words, str(base)])}`, and start a new one.",
        )
    return whole


def _require_whole(folder: Path) -> None:
    """Refuse a folder whose ledger was lost, or is still a file of lines of an earlier version."""
    lines, book = folder / "ledger.jsonl", folder / FILE
    with usable(lines):
        text = lines.read_bytes() if there(lines) else None
    if text not in (None, _CONVERTED):
        raise LedgerError(
            f"the ledger file {lines} is of an earlier version and was not converted, so its "
            "losses cannot be counted.",
            remedy="Run 'privbench ledger show' once with a version that converts such files; "
            "without the file, what it holds would be spent a second time.",
        )
    # A ledger is made before its first release is locked.
    if (text is not None or any(folder.glob("*-*.lock"))) and not there(book):
        raise damaged(book)


def _lock(folder: Path) -> FileLock:
    """Take the lock of a ledger, or of a directory of ledgers; wait for other processes."""
    return lock(folder / "ledger.lock", WAIT, f"the ledger in {folder}")


def _make_folder(path: Path) -> None:
    """Make a folder, durably, if there is none."""
    with usable(path):
        missing = [item for item in (path, *path.parents) if not there(item)]
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for item in missing:
            sync_folder(item.parent)


def _base(path: str | Path | None) -> Path:
    """The directory of all ledgers."""
    return Path(path) if path is not None else Path(user_state_dir("privbench")) / "ledger"


def _header(fit: Fit, accountant: Accountant) -> dict[str, Any]:
    levels = {"levels": list(accountant.terms.levels)} if accountant.accounting == "zcdp" else {}
    sizes = {"sizes_shown": True} if fit.sizes_shown else {}
    return {
        **levels,
        **sizes,
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


def _now(timespec: str = "seconds") -> str:
    return datetime.now(UTC).isoformat(timespec=timespec)
