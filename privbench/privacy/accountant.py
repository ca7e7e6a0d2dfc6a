"""Price events and keep their sum within a fixed cap.

Every event names the root tables whose units can change its statistic. The accountant keeps one sum
per root table; what is spent is the largest of them. The cap is fixed before the first event, and
an event that would exceed it is refused before anything is drawn: so amounts and mechanisms may
depend on earlier releases. The proofs of both stand in docs/privacy.md, under Accounting.

Amounts are added as fractions. `Accountant.total` is a billionth below the cap, so that rounding in
a caller's own arithmetic (ten tenths of an amount) can never exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NoReturn

from opendp import combinators

from privbench.errors import BudgetExceeded, PrivacyRefusal
from privbench.privacy.budget import round_down, round_up
from privbench.privacy.events import Accounting, Event
from privbench.privacy.mechanisms import MECHANISMS, VECTOR, Price

_MARGIN = 1 - Fraction(1, 2**30)
#: Levels of a zCDP release beside its cap, as parts of it; those above are for releases that go on
#: after answers were lost, and twice the cap covers any first crash. And the part of the
#: conversion's δ that each takes. It costs the cap .08 % of ρ at (3.2, 1e-9), and half as much
#: (double) with half (double) the part, where ε of the other levels is 1.4 % higher (lower). The
#: step to 9/8 takes ε from 3.2 to 3.94; half the step would take it to 3.82, double it to 4.16.
LEVELS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 9 / 8, 3 / 2, 2.0)
LEVEL_DELTA = Fraction(1, 512)
_LOSS: dict[Accounting, Literal["epsilon", "rho"]] = {"pure": "epsilon", "zcdp": "rho"}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """An (ε, δ)-differential privacy guarantee."""

    epsilon: float
    delta: float = 0.0


def price(event: Event, accounting: Accounting) -> Price:
    """Return the privacy loss of an event in the accountant's unit.

    The event's own claim is checked against OpenDP's privacy map for its mechanism, sensitivity and
    scale. A pure event under zCDP costs ε² / 2. A claim below the mechanism's loss is a
    PrivacyRefusal, and so is a zCDP event under pure accounting.
    """
    stated = MECHANISMS[event.mechanism].price(event.sensitivity, event.scale, event.threshold)
    if stated.amount > event.amount or stated.delta > event.delta:
        raise PrivacyRefusal(f"'{event.label}' claims a smaller loss than its mechanism has.")
    if event.loss == _LOSS[accounting]:
        return Price(event.amount, event.delta)
    if accounting == "pure":
        raise PrivacyRefusal(f"'{event.label}' has no loss under pure accounting.")
    return Price(round_up(Fraction(event.amount) ** 2 / 2), event.delta)


class Tally:
    """Sums of the losses of events, by root table."""

    def __init__(self, events: Iterable[Event] = (), accounting: Accounting = "pure") -> None:
        self._amount: dict[str, Fraction] = {}
        self._delta: dict[str, Fraction] = {}
        for event in events:
            self.add(event, price(event, accounting))

    def amount(self, root: str | None = None) -> Fraction:
        """Return the ε or ρ of one root table, or the largest if none is named."""
        if root is not None:
            return self._amount.get(root, Fraction(0))
        return max(self._amount.values(), default=Fraction(0))

    def delta(self, root: str | None = None) -> Fraction:
        """Return the δ of one root table, or the largest if none is named."""
        if root is not None:
            return self._delta.get(root, Fraction(0))
        return max(self._delta.values(), default=Fraction(0))

    def add(self, event: Event, cost: Price) -> None:
        """Add an event's price to every root table that it is charged to."""
        for root in event.roots:
            self._amount[root] = self.amount(root) + Fraction(cost.amount)
            self._delta[root] = self.delta(root) + Fraction(cost.delta)

    def copy(self) -> Tally:
        """Return a copy; adding to the copy leaves this tally unchanged."""
        copied = Tally()
        copied._amount, copied._delta = dict(self._amount), dict(self._delta)
        return copied

    def guarantee(self, accounting: Accounting, delta_conversion: float) -> Guarantee:
        """Return the largest sums as (ε, δ), each rounded up."""
        amount, delta = round_up(self.amount()), self.delta()
        if accounting == "pure" or amount == 0.0:
            return Guarantee(amount, round_up(delta))
        epsilon = epsilon_for(amount, delta_conversion)
        return Guarantee(epsilon, round_up(delta + Fraction(delta_conversion)))


def loss_within(events: Iterable[Event], accounting: Accounting, delta: float) -> Guarantee:
    """Return the (ε, δ) of a list of events, with at most ``delta`` as δ if that is possible.

    The threshold releases among the events use part of ``delta``; the conversion of zCDP gets the
    rest. The δ of the result exceeds ``delta`` if that of the threshold releases alone does, and ε
    is infinite where they leave nothing for a conversion.
    """
    tally = Tally(events, accounting)
    rest = round_down(Fraction(delta) - tally.delta())
    if rest <= 0 and accounting == "zcdp" and tally.amount() > 0:
        return Guarantee(math.inf, round_up(tally.delta()))
    return tally.guarantee(accounting, max(rest, 0.0))


@dataclass(frozen=True, slots=True)
class Level:
    """A limit ρ that was fixed before the first event, and the δ of its conversion."""

    rho: float
    delta: float

    @property
    def epsilon(self) -> float:
        """The ε that is promised to outcomes that spend no more than the limit."""
        return epsilon_for(self.rho, self.delta) if self.rho < math.inf else math.inf


@dataclass(frozen=True, slots=True)
class Terms:
    """What a release may spend and what it promises, fixed before its first event (P36).

    Under zCDP a promise is never what an outcome happened to spend: it is the cap, or one of a few
    levels beside it, the least one that the outcome's sums stay within. Events whose answers were
    lost in a crash are in these sums, so only an outcome with lost events has a level above the
    cap. A release goes on after a crash if the cap and all lost events stay within the last level;
    if not it is refused, and given up at the level that it had reached: no outcome is without one.

    Let level ℓ have the limit ρ_ℓ and the part δ_ℓ of the conversion's δ, with Σ δ_ℓ no more than
    that over all levels, and let ε_ℓ be the conversion of ρ_ℓ at δ_ℓ. Let an outcome o have the
    promise ε(o) of its level, and δ(o): the release's δ, and on top of it that of lost threshold
    releases. *Claim:* for every function g of outcomes with values in [0, 1],
    E[g] ≤ E′[exp(ε(o))·g(o)] + E[δ(o)], where E′ is the mean on a neighbour; for a set of outcomes
    g is its indicator.
    *Proof.* Let an outcome be all that was drawn, lost answers included: what is known, where a
    crash came and what the fit then asked are made of it, and of nothing else that is private.
    Let B be the outcomes in which a threshold lets through what one unit alone has. Split g into
    g_B on B and g_ℓ on the other outcomes of level ℓ. The mechanism that stops where an event would
    pass ρ_ℓ has the same outcomes of level ℓ with the same probabilities, on both databases.
    Outside of B it is ρ_ℓ-zCDP, since a limit that is fixed in advance makes sums of adaptive
    amounts a bound (docs/privacy.md): E[g_ℓ] ≤ exp(ε_ℓ)·E′[g_ℓ] + δ_ℓ. A threshold release that is
    asked adds no more to the probability of B than its δ, whatever was asked before, so that of B
    is at most the mean of their sum, once for all levels. On every path this sum is at most the
    limit for thresholds, which the accountant keeps to after a crash anew, and what was lost: with
    Σ δ_ℓ at most δ(o). So E[g] = Σ E[g_ℓ] + E[g_B] ≤ E′[exp(ε(o))·g] + E[δ(o)]. ∎

    For outcomes with δ(o) ≤ x, whatever x was fixed in advance, E[δ(o)] may be x: stop the release
    where more would be reserved. Without a lost threshold release that is the release's δ. Amounts
    of ρ need levels, since each limit needs a conversion with a δ of its own; δ of thresholds needs
    none, since it is added up as a mean. Where δ is large beside ε, the little δ of a level below
    the cap may make its ε larger than what was asked for: such a level is left out.

    The claim composes: let a second release, chosen after the first one, have it with ε₂ and δ₂.
    For an outcome o of the first let f(o) = E′[exp(ε₂)·g], at most 1, and h(o) be the mean of g
    over the second, at most f(o) + E[δ₂]. So E[h] ≤ E′[exp(ε₁)·f] + E[δ₁] + E[δ₂]: promises add up
    in a ledger, and so do those of releases that were given up.

    Pure losses need no levels: without δ the claim holds outcome by outcome with the sum of ε, lost
    events included, and with δ(o) where values were listed.
    """

    accounting: Accounting
    requested: Guarantee  # (ε, δ) of the whole release
    delta_conversion: float  # δ for the conversions of zCDP, those of all levels
    levels: tuple[float, ...] = LEVELS  # levels beside the cap, ascending, as parts of it

    @property
    def conversion(self) -> float:
        """The δ for the conversion of the cap."""
        return round_down(Fraction(self.delta_conversion) * (1 - len(self.levels) * LEVEL_DELTA))

    @property
    def cap(self) -> float:
        """The ε or ρ that no root table's sum may exceed."""
        epsilon, _ = spendable(self.requested.epsilon, 0.5)
        return epsilon if self.accounting == "pure" else rho_for(epsilon, self.conversion)

    def level(self, spent: Fraction) -> Level:
        """Return the level of outcomes that spent this sum of ρ, lost events included.

        Pure: level 0. A sum beyond the last level, which only earlier versions allowed, has no
        limit.
        """
        if self.accounting == "pure":
            return Level(0.0, 0.0)
        part = round_down(Fraction(self.delta_conversion) * LEVEL_DELTA)
        for share in sorted({*self.levels, 1.0}):
            rho = round_up(Fraction(share) * Fraction(self.cap))
            level = Level(rho, self.conversion if share == 1 else part)
            if spent <= Fraction(rho) and (share >= 1 or level.epsilon < self.requested.epsilon):
                return level
        return Level(math.inf, part)

    def reserved(self, lost: Iterable[Event] = ()) -> Guarantee:
        """Return the whole budget plus that of lost events; ε is infinite if no level covers it.

        Such a release cannot be resumed.
        """
        tally, (epsilon, delta) = Tally(lost, self.accounting), astuple(self.requested)
        delta = round_up(Fraction(delta) + tally.delta())
        if tally.amount() and self.accounting == "pure":
            epsilon = round_up(Fraction(epsilon) + tally.amount())
        elif tally.amount():
            epsilon = self.level(Fraction(self.cap) + tally.amount()).epsilon
        return Guarantee(epsilon, delta)

    def promised(self, spent: Tally, lost: Iterable[Event] = ()) -> Guarantee:
        """Return the promise to outcomes with such sums, lost events included."""
        amount, delta = spent.amount(), self.reserved(lost).delta
        if self.accounting == "pure" or not amount:
            return Guarantee(round_up(amount), delta if spent.delta() else 0.0)
        level = self.level(amount)
        capped = level.rho == self.cap
        return Guarantee(self.requested.epsilon if capped else level.epsilon, delta)


class Accountant:
    """The budget of one release: ``pure`` adds ε; ``zcdp`` adds ρ and converts once.

    ``epsilon`` and ``delta`` are those of the whole release. ``threshold_delta`` is the part of δ
    that threshold releases may use, per root table: by default all of it under pure accounting, and
    half of it under zCDP, whose conversion takes the rest. ε must be above 0 and δ in [0, 1); zCDP
    needs some δ. Other budgets are refused.
    """

    def __init__(
        self,
        accounting: Accounting,
        epsilon: float,
        delta: float = 0.0,
        *,
        threshold_delta: float | None = None,
    ) -> None:
        if not (0.0 < epsilon < float("inf") and 0.0 <= delta < 1.0):
            raise PrivacyRefusal("a release needs epsilon > 0 and delta in [0, 1).")
        if threshold_delta is not None and not 0.0 <= threshold_delta <= delta:
            raise PrivacyRefusal("threshold releases cannot use more than the release's delta.")
        self.accounting: Accounting = accounting
        self.requested = Guarantee(float(epsilon), float(delta))
        _, delta = spendable(epsilon, delta)
        default = delta if accounting == "pure" else delta / 2
        self.threshold_delta = default if threshold_delta is None else min(threshold_delta, delta)
        rest = round_down(Fraction(delta) - Fraction(self.threshold_delta))
        self.delta_conversion = rest if accounting == "zcdp" else 0.0
        self.terms = Terms(accounting, self.requested, self.delta_conversion)
        self._cap = Fraction(self.terms.cap)
        self.loss = _LOSS[accounting]  # the measure of loss in which amounts are stated
        self.cap = round_down(self._cap)  # the cap that no root table's sum may pass
        self.total = round_down(self._cap * _MARGIN)  # what callers may plan with per root table
        self._tally = Tally()

    @property
    def spent(self) -> float:
        """The largest sum over root tables."""
        return round_up(self._tally.amount())

    def remaining(self, root: str) -> float:
        """Return the amount of budget that callers may still plan with for a root table."""
        return max(0.0, round_down(Fraction(self.total) - self._tally.amount(root)))

    def charge(self, *events: Event) -> None:
        """Charge all events to all their root tables, or nothing at all.

        A BudgetExceeded says that a root table's sum would pass the cap, a PrivacyRefusal that an
        event's claim is wrong or that it is charged to no root table; then nothing was charged.
        """
        tally = self._tally.copy()
        for event in events:
            if not event.roots:
                raise PrivacyRefusal(f"'{event.label}' is charged to no root table.")
            cost = price(event, self.accounting)
            tally.add(event, cost)
            for root in event.roots:
                amount, delta, cap = tally.amount(root), tally.delta(root), self.threshold_delta
                if amount > self._cap:
                    _refuse(event, root, self.loss, cost.amount, Fraction(self.total) - amount)
                if delta > Fraction(cap):
                    _refuse(event, root, "delta", cost.delta, Fraction(cap) - delta)
        self._tally = tally

    def guarantee(self) -> Guarantee:
        """Return what is promised to outcomes that spend no more than this; see `Terms`."""
        return self.terms.promised(self._tally)


def _refuse(event: Event, root: str, unit: str, cost: float, over: Fraction) -> NoReturn:
    left = max(0.0, round_down(over + Fraction(cost)))
    raise BudgetExceeded(
        f"'{event.label}' needs {unit} {cost:.6g}; {left:.6g} is left for the units of this "
        "root table.",
        table=root,
    )


def spendable(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the ε and δ that may be spent when a user has written these two numbers.

    A written number means its decimal form. The float that was read from it may lie above that, so
    the next smaller float is spent.
    """
    return math.nextafter(epsilon, 0.0), math.nextafter(delta, 0.0)


@lru_cache(maxsize=1)
def _conversion() -> tuple[Any, Any]:
    """OpenDP's Gaussian measurement of scale 1, and its conversion to (ε, δ)-DP."""
    gaussian = VECTOR["zcdp"].measurement(1.0)
    return gaussian, combinators.make_zCDP_to_approxDP(gaussian)


@lru_cache(maxsize=4096)
def epsilon_for(rho: float, delta: float) -> float:
    """Return the least ε that OpenDP states for ρ-zCDP at δ.

    OpenDP's ``make_zCDP_to_approxDP`` is the tight conversion of Canonne, Kamath and Steinke
    (2020), Corollary 13. It converts a measurement, not a number ρ, so it is applied to a Gaussian
    of scale 1, whose privacy map is ρ = d² / 2. Unless ρ is 0, δ must lie between 0 and 1.
    """
    if rho == 0.0:
        return 0.0
    if not 0.0 < delta < 1.0:
        raise PrivacyRefusal("zCDP needs a delta between 0 and 1 for its conversion.")
    (gaussian, converted), distance = _conversion(), math.sqrt(2.0 * rho)
    while float(gaussian.map(distance)) < rho:
        distance = math.nextafter(distance, math.inf)
    return float(converted.map(distance).epsilon(delta))


@lru_cache(maxsize=256)
def rho_for(epsilon: float, delta: float) -> float:
    """Return the largest ρ with ``epsilon_for(rho, delta) <= epsilon``, rounded to 12 digits.

    It is rounded down.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PrivacyRefusal("epsilon must be a positive number.")
    low, high = 0.0, epsilon
    while epsilon_for(high, delta) <= epsilon:
        low, high = high, 2.0 * high
    bounds = [low, high]

    def fits(rho: float) -> bool:
        """ε rises with ρ: only what lies between two answers is converted."""
        if bounds[0] < rho < bounds[1]:
            bounds[epsilon_for(rho, delta) > epsilon] = rho
        return rho <= bounds[0]

    # A few secants in √ρ spare the bisection most conversions.
    last, root, start = 0.0, math.sqrt(high), 0.0
    for _ in range(6):
        end = epsilon_for(root**2, delta)
        if start != end:
            step = (epsilon - end) * (root - last) / (end - start)
            last, root, start = root, root + step, end
    fits(root**2 * (1.0 - 1e-11))
    fits(root**2 * (1.0 + 1e-11))
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(middle) else (low, middle)
        if high - low <= 1e-12 * high:
            break
    if low <= 0.0 or epsilon_for(low, delta) > epsilon:
        raise PrivacyRefusal("epsilon is too small for any measurement at this delta.")
    return low
