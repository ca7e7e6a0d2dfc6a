"""The state of a ledger: the total loss of its releases per unit definition, and its cap.

Losses of releases add up: Σ ε and Σ δ (sequential composition). Numbers that people write are
summed in their decimal form, so that ten releases of 0.1 fill a cap of 1 exactly.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, field
from fractions import Fraction
from typing import Any, Literal, Self

from privbench.errors import BudgetExceeded, LedgerError
from privbench.privacy.accountant import Guarantee
from privbench.privacy.budget import round_up
from privbench.privacy.spec import DatabaseSpec

#: The loss of a release that guarantees nothing.
INFINITE = Guarantee(math.inf, 1.0)


@dataclass(frozen=True, slots=True)
class UnitDefinition:
    """The privacy unit of a release: which rows belong to one unit, and which neighbours count.

    Under ``unit = "row"`` no table has an owner; nothing else distinguishes that definition.
    """

    neighbours: Literal["add-remove", "replace"]
    # For every private table its OWN key as ``key→parent``, or "" for none; sorted.
    owners: tuple[tuple[str, str], ...]
    public: tuple[str, ...] = ()  # tables that the release copied verbatim; sorted

    @classmethod
    def of(cls, spec: DatabaseSpec, public: Iterable[str] = ()) -> Self:
        """Return the unit definition of a database spec."""
        owners = [
            (name, f"{table.own.name}→{table.own.parent}" if table.own else "")
            for name, table in spec.tables.items()
            if not table.elements  # parts of their owners' rows
        ]
        return cls(spec.relation.neighbours, tuple(sorted(owners)), tuple(sorted(public)))

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that identify the definition."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return the definition as a JSON object, which `from_json` reads."""
        return {
            "neighbours": self.neighbours,
            "owners": dict(self.owners),
            "public": list(self.public),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the definition that a JSON object of `to_json` describes."""
        owners = tuple(sorted((str(k), str(v)) for k, v in data["owners"].items()))
        return cls(data["neighbours"], owners, tuple(data["public"]))

    def parts(self, other: UnitDefinition) -> int | None:
        """Return how many steps of this definition's units a unit of ``other`` takes, or None.

        One step removes or adds a unit here. Where both definitions give every table that they
        share the same owner, it is one. Where some of the OWN keys here are none in ``other``, its
        units are finer, and it is two, if this definition is of add/remove. Elsewhere there is
        no bound, nor where a table that is private in ``other`` was public here.

        *Proof.* Join the forests: that of ``other``, and on tables that it lacks the one here. Each
        is closed upwards (an owner of one of its tables is one of its tables), so a path from a row
        up to its root in the joined forest, as far as it is in tables of this definition, is part
        of its path here: a unit u of the joined forest, restricted to these tables, lies within one
        unit U here. Where no key is missing it is U or empty, and going is one step. Else u goes
        and its remainder R = U − u stays. Edges into u are marked ⊥, OWN edges among them, and rows
        with such an edge stay in their unit, so that R is one unit (`Units.identity`). Removing U
        from D, and R from D without u, gives the same database: two steps. Every claim is one for
        all databases with marks, so it holds in both.

        Under replace the second step would change the number of units of a root table, which is
        public there: finer units have no bound then. ∎
        """
        differ = self._other_owners(other)
        if dict(other.owners).keys() & set(self.public) or differ - {""}:
            return None
        finer = 2 if differ else 1
        if self.neighbours == "replace":
            return 1 if (finer, other.neighbours) == (1, "replace") else None
        return finer * (2 if other.neighbours == "replace" else 1)

    def refines(self, other: UnitDefinition) -> bool:
        """Return whether every unit lies within one of ``other``, and some are smaller."""
        return bool(other._other_owners(self)) and other.parts(self) is not None

    def _other_owners(self, other: UnitDefinition) -> set[str]:
        """The owners in ``other`` of the tables of both that have another one here."""
        mine = dict(self.owners)
        return {own for table, own in other.owners if mine.get(table, own) != own}

    def counted(self, loss: Guarantee, other: UnitDefinition) -> Guarantee:
        """Convert a loss that was stated under this definition for units of ``other``.

        A unit of ``other`` takes k steps of units here (`parts`), and replace of one that is
        counted under add/remove is a removal and an addition. For k steps the loss is that of a
        group: k·ε, and δ·(1 + e^ε + … + e^((k−1)ε)) (Dwork and Roth 2014, Theorem 2.2 and its
        proof). Where no number of steps is known, it is infinite: a guarantee for smaller units
        says nothing about larger ones.
        """
        steps = self.parts(other)
        if steps == 1:
            return loss
        if steps is None or (loss.delta and loss.epsilon * steps > 700.0):
            return INFINITE
        growth = sum(math.exp(step * loss.epsilon) for step in range(steps)) if loss.delta else 0.0
        return Guarantee(steps * loss.epsilon, min(1.0, growth * loss.delta))


#: Fields of an opening that a resumed release need not share; all others describe the fit.
_NOT_OF_THE_FIT = ("type", "release", "time", "database", "apart")


@dataclass(frozen=True, slots=True)
class Cap:
    """Limits that the totals of releases may not exceed; None means no limit."""

    epsilon: float | None = None  # for Σ ε over all releases
    delta: float | None = None  # for Σ δ over all releases
    monthly: float | None = None  # for Σ ε over releases opened in a calendar month (UTC)

    def stricter(self, other: Cap | None) -> Cap:
        """Return the cap whose limits are each the lower limit of both caps."""
        if other is None:
            return self
        both = zip(astuple(self), astuple(other), strict=True)
        known = ([limit for limit in limits if limit is not None] for limits in both)
        return Cap(*(min(limits, default=None) for limits in known))


@dataclass(slots=True)
class Account:
    """One release in the ledger, with the loss that it has spent or reserved."""

    id: str
    header: dict[str, Any]
    definition: UnitDefinition
    reserved: Guarantee
    opened: str
    spent: Guarantee | None = None
    events: int | None = None

    @property
    def loss(self) -> Guarantee:
        """The loss that counts: what a closed release has spent, or an open one has reserved."""
        return self.reserved if self.spent is None else self.spent

    def counted(self, definition: UnitDefinition) -> Guarantee:
        """Return the loss converted for a unit definition; that of a seeded fit is infinite."""
        if not self.header["private"]:
            return INFINITE
        return self.definition.counted(self.loss, definition)

    def to_json(self) -> dict[str, Any]:
        """Return the release for ``ledger show``."""
        return {
            "release": self.id,
            "state": "open" if self.spent is None else "closed",
            "opened": self.opened,
            "private": self.header["private"],
            "accounting": self.header["accounting"],
            "definition": self.definition.id,
            "requested": {"epsilon": self.header["epsilon"], "delta": self.header["delta"]},
            "epsilon": self.loss.epsilon,
            "delta": self.loss.delta,
            "events": self.events,
            "config_hash": self.header["config_hash"],
        }


@dataclass(slots=True)
class Standing:
    """The state of a ledger, computed from its entries.

    Every entry names a release that was opened.
    """

    entries: list[dict[str, Any]]
    accounts: dict[str, Account] = field(default_factory=dict)
    cap: Cap = Cap()
    capped: str = ""  # when the cap was set
    # The server's own identifiers of the databases that entries are of. Entries of earlier versions
    # have none, nor have those of a database whose identifier could not be read.
    databases: set[str] = field(default_factory=set)
    apart: set[str] = field(default_factory=set)  # names that were declared to be of other data

    def __post_init__(self) -> None:
        for entry in self.entries:
            self.add(entry)

    def add(self, entry: dict[str, Any]) -> None:
        """Update the state by one more entry."""
        kind = entry["type"]
        if entry.get("database") is not None:
            self.databases.add(str(entry["database"]))
        self.apart |= {*entry.get("apart", ())}
        if kind == "cap":
            self.cap = Cap(entry["epsilon"], entry["delta"], entry.get("monthly"))
            self.capped = entry["time"]
        elif kind == "opened":
            uuid.UUID(entry["release"])  # Files are named by it.
            self.accounts[entry["release"]] = Account(
                entry["release"],
                {name: entry[name] for name in entry if name not in _NOT_OF_THE_FIT},
                UnitDefinition.from_json(entry["definition"]),
                Guarantee(entry["epsilon"], entry["delta"]),
                entry["time"],
            )
        else:
            account = self._account(entry["release"])
            loss = Guarantee(entry["epsilon"], entry["delta"])
            if kind == "extended":
                account.reserved = loss
            else:
                account.spent, account.events = loss, entry["events"]

    def count_in(self, other: Standing) -> None:
        """Add another ledger's releases; the cap that was set later applies.

        Of caps that were set at the same time each applies.
        """
        self.accounts = {**other.accounts, **self.accounts}
        if other.capped >= self.capped:
            self.cap = self.cap.stricter(other.cap)

    def require_open(self, release_id: str, header: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return a release's header; raise a LedgerError if it is closed or its header differs."""
        account = self._account(release_id)
        if account.spent is not None:
            raise LedgerError(f"release {release_id} is closed.", remedy="Start a new one.")
        if header is not None and account.header != header:
            wrong = [name for name in header if account.header.get(name) != header[name]]
            raise LedgerError(
                f"release {release_id} was opened for another fit ({', '.join(wrong)} differ).",
                remedy="Resume with the config it was opened with, or start a new release.",
            )
        return account.header

    def extend(
        self, release_id: str, whole: Guarantee | None, database: str | None
    ) -> dict[str, Any]:
        """Give a release a larger reserved budget, if one is given, and another database.

        Returns the ledger entry that records this.
        """
        total = whole or self._account(release_id).reserved
        amounts = {"epsilon": total.epsilon, "delta": total.delta}
        entry = {"type": "extended", "release": release_id, "database": database, **amounts}
        self.add(entry)
        return entry

    @property
    def used(self) -> bool:
        """Whether anything is spent, reserved or capped."""
        return bool(self.capped) or any(item.loss.epsilon for item in self.accounts.values())

    def reserved(self, release_id: str) -> Guarantee:
        """Return the loss that an open release has reserved."""
        self.require_open(release_id)
        return self._account(release_id).reserved

    def definitions(self) -> list[UnitDefinition]:
        """Return the unit definitions of all releases, in order of first use."""
        return list(
            {item.definition.id: item.definition for item in self.accounts.values()}.values()
        )

    def total(self, definition: UnitDefinition, month: str = "") -> Guarantee:
        """Return Σ ε and Σ δ over the releases of a month, converted for one unit definition.

        A month is written as in ``2030-01``; "" stands for all months.
        """
        releases = [item for item in self.accounts.values() if item.opened.startswith(month)]
        losses = [account.counted(definition) for account in releases]
        return Guarantee(
            _sum([loss.epsilon for loss in losses]), min(1.0, _sum([loss.delta for loss in losses]))
        )

    def check(self, release_id: str, cap: Cap | None = None) -> None:
        """Refuse, by a BudgetExceeded, a release with which some total would exceed the cap.

        Totals are kept for each unit definition. A release counts in the month in which it was
        opened, even if it is resumed later: what it may spend was reserved then. Unit definitions
        whose units are unions of the release's units are not checked: whoever makes units finer
        gives up the promise to the larger ones, whose total is infinite from then on, so that they
        have no further release under a cap.
        """
        account = self._account(release_id)
        limit, month = self.cap.stricter(cap), account.opened[:7]
        for definition in self.definitions():
            if account.definition.refines(definition):
                continue
            total, recent = self.total(definition), self.total(definition, month)
            infinite = self._infinite(definition)
            _require("total epsilon", total.epsilon, limit.epsilon, infinite)
            _require("total delta", total.delta, limit.delta, infinite)
            infinite = self._infinite(definition, month)
            _require(f"epsilon of {month}", recent.epsilon, limit.monthly, infinite)

    def to_json(self) -> dict[str, Any]:
        """Return the state for ``ledger show``."""
        return {
            "cap": asdict(self.cap),
            "definitions": [self._describe(definition) for definition in self.definitions()],
            "releases": [account.to_json() for account in self.accounts.values()],
        }

    def _describe(self, definition: UnitDefinition) -> dict[str, Any]:
        total = self.total(definition)
        months = sorted({account.opened[:7] for account in self.accounts.values()})
        return {
            "id": definition.id,
            **definition.to_json(),
            "epsilon": total.epsilon,
            "delta": total.delta,
            "months": {month: self.total(definition, month).epsilon for month in months},
            "infinite": self._infinite(definition),
        }

    def _infinite(self, definition: UnitDefinition, month: str = "") -> list[str]:
        return [
            account.id
            for account in self.accounts.values()
            if account.opened.startswith(month) and math.isinf(account.counted(definition).epsilon)
        ]

    def _account(self, release_id: str) -> Account:
        if release_id not in self.accounts:
            raise LedgerError(f"the ledger has no release {release_id}.")
        return self.accounts[release_id]


def _require(name: str, total: float, limit: float | None, infinite: list[str]) -> None:
    if limit is None or total <= limit:
        return
    if infinite:
        raise BudgetExceeded(
            f"under a cap, no release may stand beside one that promises its units nothing "
            f"(another privacy unit, or seeded noise: release {', '.join(infinite)}).",
            remedy="Keep the privacy unit of earlier releases, or use another ledger.",
        )
    raise BudgetExceeded(
        f"the database's {name} would be {total:.6g}, over the cap of {limit:.6g}.",
        remedy="Ask for less, or have the owner of the data raise the cap.",
    )


def _sum(values: list[float]) -> float:
    if any(math.isinf(value) for value in values):
        return math.inf
    exact = sum((Fraction(str(value)) for value in values), Fraction(0))
    near = float(exact)
    return near if Fraction(str(near)) >= exact else round_up(exact)
