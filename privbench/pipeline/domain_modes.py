"""How many units share a column's most frequent value: asked before lists are.

A list costs Θ(log(1/δ)/ε) units of its rarest label, a largest count a tenth of that. Of free text,
and of numbers and times that hardly repeat, no list is asked for then; what all rows share, a
constant or a few prices, is found at a small price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from privbench.encoding import CategoriesNeed
from privbench.pipeline.domain_stages import amount_of, epsilon_of, lists_of
from privbench.pipeline.domain_weights import Weights
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import MARGIN, Accounting, DatabaseSpec, Measurement, Purse, root_sums
from privbench.privacy.queries import LargestCount

#: Part of the amount for domains that largest counts are to take, and how many times that they may,
#: where columns of few units need more than their equal part.
_PART, _ROOM = 0.3, 1.25
#: Least and most rows in noise scales of a largest count. At the most, a value that one row in 70
#: holds (in 50 under zCDP) is seen for sure.
_LEAST, _MOST = 7.0, 300.0
#: Rows in noise scales of all that there is, below which no list could pass its threshold.
_HOPELESS = 40.0
#: Standard deviations from which on a value is shared for sure; the same of texts that are seldom
#: shared, of which noise makes one in 50 look so, and of others; within which a list is not ruled
#: out.
_SURE, _OWN, _SEEN, _OPEN = 3.0, 2.25, 1.5, 1.0
#: Standard deviations by which a largest count may well be too large.
_CAUTION = 0.5
#: Share of the units that the largest label of a list is taken to have where nothing is known.
SHARED = 0.12

#: Lists by item: the table and what it needs.
Lists = Mapping[str, tuple[str, CategoriesNeed]]


def mode_amounts(
    plan: FitPlan, weights: Weights, amount: float, accounting: Accounting
) -> dict[str, float]:
    """ε or ρ of the largest counts that are asked for, by item; see `mode_epsilons`.

    Args:
        plan: The fit's plan.
        weights: What is known of the tables' rows.
        amount: What may be spent on domains per root table, ε or ρ.
        accounting: What the amount is.
    """
    lists = lists_of(plan)
    found = mode_epsilons(lists, plan.spec, weights.units, epsilon_of(amount, accounting))
    return {name: amount_of(epsilon, accounting) for name, epsilon in found.items()}


def mode_epsilons(
    lists: Lists, spec: DatabaseSpec, units: Mapping[str, float], epsilon: float
) -> dict[str, float]:
    """ε of the largest count of every list for which it is asked: a rule of released numbers.

    Equal parts of what there is, if these show anything; else the likeliest lists alone.

    Args:
        lists: The lists.
        spec: The session's.
        units: Units that may have rows in every table.
        epsilon: ε of all domains, per root table.

    Returns:
        ε by item. No root table's sum passes its part of ``epsilon``: every item is added only
        where it does not.
    """
    columns = root_sums((spec.roots(table), 1.0) for table, _ in lists.values())
    purse, found = Purse(_ROOM * _PART * epsilon), dict[str, float]()

    def rank(name: str) -> tuple[bool, bool, bool, float]:
        table, need = lists[name]
        return *_priority(need), -units[table]

    for name in sorted(lists, key=rank):
        table, roots = lists[name][0], spec.roots(lists[name][0])
        if units[table] * epsilon < _HOPELESS:
            continue
        part = _PART * epsilon * MARGIN / max(columns[root] for root in roots)
        amount = min(max(part, _LEAST / units[table]), _MOST / units[table])
        if purse.take(roots, amount):
            found[name] = amount
    return found


def _priority(need: CategoriesNeed) -> tuple[bool, bool, bool]:
    """Likely lists first, then texts that are seldom shared, then numbers and times."""
    return need.grid is not None, need.own, not need.dear


def mode_questions(lists: Lists, amounts: Mapping[str, float]) -> Iterator[Measurement]:
    """The questions, in the order of the amounts."""
    for name, amount in amounts.items():
        table, need = lists[name]
        column = need.source
        query = LargestCount(table, column, need.per_unit)
        yield Measurement(query, amount, f"largest count {table}.{column}")


@dataclass(frozen=True, slots=True)
class Mode:
    """What is known of the units that share a column's most frequent value.

    Attributes:
        units: The noisy count.
        sd: Standard deviation of its noise.
    """

    units: float
    sd: float


@dataclass(frozen=True)
class Modes:
    """What largest counts have told.

    Attributes:
        found: By item.
        spent: The most that a root table was charged for them and for weights, ε or ρ.
    """

    found: Mapping[str, Mode]
    spent: float

    @classmethod
    def of(
        cls,
        plan: FitPlan,
        amounts: Mapping[str, float],
        found: Mapping[str, Mode],
        before: float = 0.0,
    ) -> Modes:
        """With what was charged by the amounts, and before them."""
        lists = lists_of(plan)
        used = root_sums((plan.spec.roots(lists[name][0]), part) for name, part in amounts.items())
        return cls(found, before + max(used.values(), default=0.0))


def is_clear(mode: Mode | None) -> bool:
    """Whether units share a value for sure."""
    return mode is not None and mode.units >= _SURE * mode.sd


def expected(need: CategoriesNeed, weight: float, mode: Mode | None) -> float:
    """Units that a list's largest label is taken to have; 0 where it is not worth being asked for.

    Args:
        need: The list.
        weight: Released weight of the table's rows.
        mode: What is known, or None where it was not asked.

    >>> text = CategoriesNeed("t")
    >>> expected(text, 1000.0, None), expected(text, 1000.0, Mode(400.0, 30.0))
    (120.0, 385.0)
    >>> expected(text, 1000.0, Mode(20.0, 30.0)), expected(text, 1000.0, Mode(50.0, 90.0))
    (0.0, 120.0)
    """
    if mode is None:
        return 0.0 if need.grid else SHARED * weight
    likely = not (need.own or need.grid)
    least = _SEEN if likely else _SURE if need.grid else _OWN
    if mode.units >= least * mode.sd:
        # A list that is paid too little is paid for nothing.
        return mode.units - _CAUTION * mode.sd
    open_ = mode.units + _OPEN * mode.sd >= SHARED * weight
    return SHARED * weight if likely and open_ else 0.0
