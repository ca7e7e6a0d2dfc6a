"""The session: the only door through which a value computed from private rows may leave.

Every release takes the same steps (P25): price and charge the event; write it to the ledger and
wait for the disk; compute the exact statistic; draw; write the result and wait; return it. A step
that fails leaves the event spent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.errors import PrivacyRefusal
from privbench.privacy.accountant import Accountant, Guarantee
from privbench.privacy.definition import UnitDefinition
from privbench.privacy.events import Accounting, Event, describe
from privbench.privacy.ledger import Fit, Ledger
from privbench.privacy.mechanisms import Integers
from privbench.privacy.noise import NoiseSource, OpenDPNoise
from privbench.privacy.query import Query
from privbench.privacy.registry import SELECTION, THRESHOLD, VECTOR
from privbench.privacy.release import Release, Result
from privbench.privacy.shield import checked, shielded
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.standing import Cap

_R = TypeVar("_R", bound=Result)


class PrivateData(Protocol):
    """What the session needs of the private database."""

    @property
    def spec(self) -> DatabaseSpec:
        """What is public about it."""

    def recode(self, table: str, attribute: str, recoding: Any) -> Domain:
        """Map an attribute, row by row, to a public domain."""


@runtime_checkable
class LabelQuery(Protocol):
    """A query whose statistic is a map from label to count."""

    def evaluate_labels(self, data: Any) -> dict[str, int]:
        """How many units propose each label."""


@dataclass(frozen=True, slots=True)
class Step:
    """One release of a session, for the model's header and the stability harness.

    Attributes:
        event: What was recorded.
        query: What was asked.
        result: What was released: noisy integers in grid units, an index, or labels.
    """

    event: Event
    query: Query
    result: Result


class Session:
    """One fit's access to a private database; used by one thread.

    Args:
        data: The private database.
        accountant: The fit's budget; nothing may be charged to it yet.
        release: The open release in the ledger, for the same budget.
        noise: Where noise comes from; OpenDP by default.

    Attributes:
        trace: Every release so far.

    Raises:
        PrivacyRefusal: The ledger's release, the accountant and the noise do not agree.
    """

    def __init__(
        self,
        data: PrivateData,
        accountant: Accountant,
        release: Release,
        noise: NoiseSource | None = None,
    ) -> None:
        source = noise or OpenDPNoise()
        if source.private != release.private:
            raise PrivacyRefusal("the ledger must know whether a release's noise is seeded.")
        if release.accounting != accountant.accounting or accountant.spent:
            raise PrivacyRefusal("a session needs an unused accountant that fits its release.")
        self._data = data
        self._accountant = accountant
        self._release = release
        self._noise = source
        self.trace: list[Step] = []

    @property
    def spec(self) -> DatabaseSpec:
        """What is public about the database; follows every recoding."""
        return self._data.spec

    @property
    def accounting(self) -> Accounting:
        """``pure`` or ``zcdp``."""
        return self._accountant.accounting

    @property
    def private(self) -> bool:
        """False for a seeded fit, which is to be stamped NOT PRIVATE."""
        return self._noise.private

    @property
    def release_id(self) -> str:
        """The release's random name in the ledger, by which a killed fit is resumed."""
        return self._release.id

    @property
    def requested(self) -> Guarantee:
        """The (ε, δ) of the release."""
        return self._accountant.requested

    @property
    def amount_total(self) -> float:
        """The whole budget per root table: ε in pure accounting, ρ in zCDP."""
        return self._accountant.total

    @property
    def spent(self) -> float:
        """The largest amount charged to a root table."""
        return self._accountant.spent

    def remaining(self, root: str) -> float:
        """The amount left for a root table."""
        return self._accountant.remaining(root)

    @property
    def delta_total(self) -> float:
        """δ for threshold releases, per root table."""
        return self._accountant.threshold_delta

    def remaining_delta(self, root: str) -> float:
        """δ left for threshold releases on a root table."""
        return self._accountant.remaining_delta(root)

    def guarantee(self) -> Guarantee:
        """What the events so far cost, as (ε, δ); events lost in a crash included."""
        return self._release.loss()

    def measure(self, query: Query, amount: float, label: str) -> NDArray[np.float64]:
        """The statistic plus noise, in counted units.

        Args:
            query: What to count.
            amount: ε or ρ to charge to every root table of the query.
            label: What it is for.

        Returns:
            float64 of ``query.shape``: noisy grid units divided by ``query.unit``. Discrete
            Laplace by the L1 sensitivity, or discrete Gaussian by the L2 sensitivity.

        Raises:
            BudgetExceeded: The amount is not left; nothing was drawn.
            PrivbenchError: The statistic could not be computed; the event stays spent.
        """
        mechanism = VECTOR[self.accounting]
        scale = mechanism.scale(query.sensitivity(self.spec), amount)
        event = self._event(query, label, mechanism.name, scale, amount)

        def draw(stream: str) -> Integers:
            exact = checked(query, query.evaluate(self._data))  # type: ignore[arg-type]
            return self._noise.vector(mechanism, exact, scale, stream)

        return self._run(query, event, draw) / float(query.unit)

    def select(self, query: Query, amount: float, label: str) -> int:
        """The index of a largest score, by noisy max; charged by the L∞ sensitivity.

        Args:
            query: A one-dimensional score vector.
            amount: ε or ρ to charge.
            label: What it is for.

        Raises:
            BudgetExceeded: The amount is not left; nothing was drawn.
            PrivacyRefusal: The query is not one-dimensional, or has no candidates.
            PrivbenchError: The scores could not be computed; the event stays spent.
        """
        if len(query.shape) != 1 or query.shape[0] < 1:
            raise PrivacyRefusal(f"'{label}': a selection needs a vector of scores.")
        mechanism = SELECTION[self.accounting]
        scale = mechanism.scale(query.sensitivity(self.spec), amount)
        event = self._event(query, label, mechanism.name, scale, amount)

        def draw(stream: str) -> int:
            exact = checked(query, query.evaluate(self._data))  # type: ignore[arg-type]
            return self._noise.index(mechanism, exact, scale, stream)

        return self._run(query, event, draw)

    def release_labels(
        self, query: Query, amount: float, delta: float, label: str
    ) -> tuple[str, ...]:
        """The labels whose noisy count passes a threshold, sorted (P19).

        Args:
            query: A label query: its sensitivity has l0, and it has ``evaluate_labels``.
            amount: ε or ρ to charge.
            delta: δ to charge; public, above 0.
            label: What it is for.

        Raises:
            BudgetExceeded: The amount or δ is not left; nothing was drawn.
            PrivacyRefusal: δ is 0, or the query is not a label query.
            PrivbenchError: The labels could not be counted; the event stays spent.
        """
        if not isinstance(query, LabelQuery):
            raise PrivacyRefusal(f"'{label}' is not a query over labels.")
        if not delta > 0.0:
            raise PrivacyRefusal(
                f"'{label}': categories cannot be released with delta = 0 (P19).",
                remedy="Declare the list of values, or give the release a delta.",
            )
        counter: LabelQuery = query
        mechanism = THRESHOLD[self.accounting]
        claim = query.sensitivity(self.spec)
        scale = mechanism.scale(claim, amount)
        threshold = mechanism.threshold(claim, scale, delta)
        event = self._event(query, label, mechanism.name, scale, amount, threshold, delta)

        def draw(stream: str) -> tuple[str, ...]:
            counts = counter.evaluate_labels(self._data)
            return self._noise.labels(mechanism, counts, scale, threshold, stream)

        return self._run(query, event, draw)

    def recode(self, table: str, attribute: str, recoding: Any) -> Domain:
        """Map an attribute to a public domain, each row by itself; free.

        Args:
            table: The attribute's table.
            attribute: Its name.
            recoding: A public map: edges or labels that were released or declared.

        Raises:
            PrivbenchError: The rows could not be recoded.
        """
        return shielded(
            lambda: self._data.recode(table, attribute, recoding),
            f"the attribute {attribute!r} of {table} could not be recoded",
        )

    def noise_scale(self, query: Query, amount: float) -> float:
        """Standard deviation of a measurement's noise in counted units; public, free."""
        return noise_sd(query, self.spec, amount, self.accounting)

    def close(self) -> Guarantee:
        """Settle with the ledger: what was spent replaces what was reserved."""
        return self._release.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close after success; after a failure stay open, so that the fit can be resumed."""
        if kind is None:
            self.close()
        else:
            self._release.leave()

    def _event(
        self,
        query: Query,
        label: str,
        mechanism: Any,
        scale: float,
        amount: float,
        threshold: int | None = None,
        delta: float = 0.0,
    ) -> Event:
        return describe(
            query,
            self.spec,
            label,
            mechanism=mechanism,
            scale=scale,
            loss=self._accountant.loss,
            amount=float(amount),
            private=self.private,
            threshold=threshold,
            delta=float(delta),
        )

    def _run(self, query: Query, event: Event, draw: Callable[[str], _R]) -> _R:
        self._accountant.charge(event)
        replayed = self._release.replay(event)
        if replayed is not None:
            stored, result = replayed
            self.trace.append(Step(stored, query, result))
            return result  # type: ignore[return-value]
        event = replace(event, id=len(self._release.events))
        self._release.record(event)
        stream = str(len(self.trace))
        drawn = shielded(
            lambda: draw(stream), f"the statistic of '{event.label}' could not be computed"
        )
        self._release.store(event, drawn)
        self.trace.append(Step(event, query, drawn))
        return drawn


def noise_sd(query: Query, spec: DatabaseSpec, amount: float, accounting: Accounting) -> float:
    """Standard deviation of a measurement's noise, in counted units.

    Reads no rows: for ``plan`` and for rules that weigh measurements.
    """
    mechanism = VECTOR[accounting]
    scale = mechanism.scale(query.sensitivity(spec), amount)
    return mechanism.sd(scale) / query.unit


def open_session(
    data: PrivateData,
    accountant: Accountant,
    ledger: str | Path | None,
    identity: str,
    *,
    config_hash: str = "",
    public: tuple[str, ...] = (),
    noise: NoiseSource | None = None,
    cap: Cap | None = None,
    resume: str | None = None,
) -> Session:
    """Open a release in the ledger and a session on it.

    Args:
        data: The private database.
        accountant: The fit's budget.
        ledger: Directory of the ledgers; None means the user's state directory.
        identity: The database's identity (P27).
        config_hash: Hash of config and schema; a resumed fit must have the same.
        public: Tables that are copied verbatim.
        noise: Where noise comes from; OpenDP by default.
        cap: The config's cap.
        resume: Id of a release that was killed.

    Raises:
        BudgetExceeded: The cap has no room.
        LedgerError: The ledger is damaged, or the release cannot be resumed.
    """
    source = noise or OpenDPNoise()
    fit = Fit(config_hash, UnitDefinition.of(data.spec, public), source.private)
    release = Ledger.open(ledger, identity).open_release(fit, accountant, cap=cap, resume=resume)
    return Session(data, accountant, release, source)
