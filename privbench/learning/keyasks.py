"""What is asked of a foreign key, and with which part of its amount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from privbench.learning.answers import Measure
from privbench.learning.denoise import Floats
from privbench.privacy import KeySpec, Query
from privbench.privacy.queries import FAN_OUT_BOUNDS, FanIn, FanOut, Presence, PublicTargets

#: Share of a nullable key's amount that goes to its NULL share.
_NULL_SHARE = 0.15
#: The same where units are few.
_FEW_NULL_SHARE = 0.6
#: What is asked of a key.
NULLS, FANS, FAN_IN, TARGETS = "NULL share", "fan-out", "fan-in", "targets"
#: What was measured of a key: query, noisy values and standard deviation, by what it asks.
Answers = dict[str, tuple[Query, Floats, float]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One query of a key with its part of the key's amount."""

    what: str
    query: Query
    part: float

    def label(self, key: KeySpec) -> str:
        """Label of the event."""
        return f"{self.what} of {key.table}.{key.name}"


def asks(
    key: KeySpec, public_rows: Mapping[str, int], *, own: bool = False, few: bool = False
) -> list[Ask]:
    """The queries of one key; public, the same whatever the rows.

    Args:
        key: The key.
        public_rows: Exact rows of public tables.
        own: Whether references into the row's own unit are told apart (REF keys).
        few: Whether units are few against the noise, so that most goes to the NULL share of a REF
            key.
    """
    if key.role == "public":
        return [Ask(TARGETS, PublicTargets(key, max(public_rows.get(key.parent, 0), 0)), 1.0)]
    found = [Ask(FANS, FanOut(key, bounds_of(key)), 1.0)]
    if key.role == "ref":
        found = [Ask(FAN_IN, FanIn(key, outside=own), 1.0)] if not key.unique else []
    if not key.nullable and not own:
        return found
    null = _FEW_NULL_SHARE if few and key.role == "ref" else _NULL_SHARE
    rest = 1.0 - null if found else 1.0
    main = [Ask(ask.what, ask.query, ask.part * rest) for ask in found]
    return [*main, Ask(NULLS, Presence(key, own), 1.0 - rest if found else 1.0)]


def measure_key(
    key: KeySpec,
    amount: float,
    measure: Measure,
    public_rows: Mapping[str, int],
    links: Floats | None = None,
    *,
    few: bool = False,
) -> Answers:
    """Measure what `fit_key` fits a key to.

    Args:
        key: The key.
        amount: What may be spent on it.
        measure: Asks the session.
        public_rows: Exact rows of public tables.
        links: What `measure_links` gave, if that was asked before.
        few: See `asks`.
    """
    own = links is not None and len(links) == 3
    return {
        ask.what: (ask.query, *measure(ask.query, amount * ask.part, ask.label(key)))
        for ask in asks(key, public_rows, own=own, few=few)
        if links is None or ask.what != NULLS
    }


def bounds_of(key: KeySpec) -> tuple[int, ...]:
    """Lower ends of the buckets of a fan-out."""
    return (0, 1) if key.unique else FAN_OUT_BOUNDS
