"""What catalog, config and guessed or noisy sizes foresee of a fit; reads no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privbench.encoding import Bounds, BoundsNeed, Decimals, DecimalsNeed, Released
from privbench.pipeline.domain_budget import total_amounts, totals_share
from privbench.pipeline.domain_error import Noise, believed
from privbench.pipeline.domains import Rounds
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import DatabaseSpec, Event, Measurement, Question, root_sums
from privbench.privacy.queries import Total
from privbench.privacy.queries.labels import BLOCKS
from privbench.synthesizers import PlanInput, PlannedEvent, Synthesizer, roots_of, spare_amounts

#: Units that a table must have before a table is worth learning: 90·d/ε (see docs/privacy.md).
LEAST = 90.0
#: What laws by rank may say of a column, which decides what its list gets, as shares of blocks of
#: ranks: what is usual of its kind; two values; some two hundred, as frequent by octave.
PROFILES: tuple[tuple[float, ...] | None, ...] = (None, (0.6, 0.4), (1 / 9,) * 9)


def planned(
    plan: FitPlan, source: PlanInput, delta: float, *, ranges: bool = False
) -> list[PlannedEvent]:
    """The events before the synthesizer's, without data.

    Columns are taken to hold what is usual, and all units to have rows in owned tables.

    Args:
        plan: The fit's plan.
        source: The whole budget and the rows that are guessed.
        delta: δ for threshold releases, per root table: the accountant's, as in the fit.
        ranges: Whether noise that depends on laws by rank is a range over `PROFILES`.
    """
    spec, noise = plan.spec, Noise(source.accounting)
    rows = {name: source.rows(name) for name in spec.tables}
    rounds = Rounds(plan, noise, source.total, delta, rows)
    totals = total_amounts(spec, totals_share(plan) * source.total)
    sizes = rounds.sizes({})
    ranked, lists = rounds.laws(sizes), plan.lists()
    first = [
        *(Measurement(Total(name), amount, f"total {name}") for name, amount in totals.items()),
        *rounds.units(),
        *ranked.values(),
    ]
    last = []
    for shares in PROFILES if ranges else PROFILES[:1]:
        laws = {}
        for name in ranked:
            units = sizes[lists[name][0]].units
            noisy = None if shares is None else units * np.pad(shares, (0, BLOCKS - len(shares)))
            laws[name] = believed(lists[name][1], units, noisy, 0.0)
        asked = (question for group in rounds.last(sizes, laws).values() for _, question in group)
        last.append({item.label: _described(item, spec, source) for item in asked})
    usual, *others = last
    for label, event in usual.items():
        found = [one[label] for one in others if label in one]
        needs = tuple(other.needed for other in found if other.needed is not None)
        noises = tuple(other.noise_sd for other in found)
        usual[label] = replace(event, noises=noises, needs=needs)
    return [*(_described(item, spec, source) for item in first), *usual.values()]


def _described(item: Question, spec: DatabaseSpec, source: PlanInput) -> PlannedEvent:
    """A question as an event; of a list, with the units that a label needs.

    The statistic leaves one unit out, which the threshold does not count.
    """
    event = PlannedEvent.of(item.label, item.query, spec, item.amount, source)
    threshold = item.method(spec, source.accounting).threshold
    return event if threshold is None else replace(event, needed=1 + threshold / item.query.unit)


def foresee(
    plan: FitPlan,
    synthesizer: Synthesizer[Any],
    source: PlanInput,
    delta: float,
    *,
    ranges: bool = False,
) -> tuple[list[PlannedEvent], list[PlannedEvent], dict[str, float]]:
    """The events of `planned`, those of the synthesizer after them, and least useful sizes."""
    spec, first = settled(plan), planned(plan, source, delta, ranges=ranges)
    spent = root_sums((event.roots, event.amount) for event in first)
    left = {root: source.total - spent.get(root, 0.0) for root in roots_of(spec)}
    least = min(left.values(), default=source.total)
    spare = spare_amounts(left, least)
    events = synthesizer.plan(spec, replace(source, total=least, spare=spare))
    rest = [replace(event, share=event.amount / source.total) for event in events]
    attributes = {name: len(table.attributes) for name, table in spec.tables.items()}
    return first, rest, least_sizes(attributes, rest, source.accounting)


def settled(plan: FitPlan) -> DatabaseSpec:
    """The spec with the domains that are known before any release, for ``plan``.

    Attributes whose domain must be released are given the size that they are likely to get.
    """
    spec = plan.spec
    for item in plan.private:
        domains = {}
        for reader in item.readers.values():
            guess: dict[str, Released] = {}
            for need in reader.needs:
                if isinstance(need, BoundsNeed):
                    quarter = len(need.candidates) // 4
                    guess[need.attribute] = Bounds(
                        int(need.candidates[quarter]), int(need.candidates[3 * quarter])
                    )
                elif isinstance(need, DecimalsNeed):
                    guess[need.attribute] = Decimals(need.usual)
                elif need.grid is None:
                    guess[need.attribute] = tuple(f"value {i}" for i in range(20))
            domains.update(reader.finish(guess).domains)
        spec = spec.with_attributes(item.table.key, domains)
    return spec


#: Kinds of events that tell nothing of a table's values: sizes, domains, keys.
_ASIDE = frozenset(
    {"total", "ranked counts", "label counts", "grid histogram", "fan-out", "fan-in"}
)


def least_sizes(
    attributes: Mapping[str, int], events: Iterable[PlannedEvent | Event], accounting: str
) -> dict[str, float]:
    """Units per table below which little can be learned: 90·d/ε, for d attributes that get ε."""
    spent: dict[str, float] = {}
    for event in events:
        if event.kind not in _ASIDE:
            spent[event.table] = spent.get(event.table, 0.0) + event.amount
    least = {}
    for name, count in attributes.items():
        if count and spent.get(name):
            epsilon = spent[name] if accounting == "pure" else (2 * spent[name]) ** 0.5
            least[name] = LEAST * count / epsilon
    return least
