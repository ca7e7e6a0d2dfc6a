"""How the budget of columns' domains is shared: a rule of what totals and first counts tell.

Reads no rows: how the budget is split follows from numbers that are released by then (P19, P20).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from privbench.encoding import BoundsNeed, CategoriesNeed, DecimalsNeed
from privbench.encoding.base import Need
from privbench.pipeline.domain_items import Items
from privbench.pipeline.domain_modes import Mode, Modes, is_clear
from privbench.pipeline.domain_stages import Stages, needs, stages
from privbench.pipeline.domain_weights import Weights
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import MARGIN, Accounting, Measurement, allocate
from privbench.privacy.queries import GridHistogram, PublicArray

#: How many times as much bounds and categories may take, and rows in noise scales that a range is
#: to get, where that saves category lists: queries on a column without its labels find nothing at
#: all, all others lose a little.
STEPS = ((1.0, 40.0), (1.0, 24.0), (1.0, 16.0), (1.35, 20.0), (1.7, 24.0), (1.7, 14.0), (2.4, 16.0))
#: Part of the amount for domains that goes to second totals; the rest goes to the synthesizer.
AGAIN = 0.25


def settled_stages(
    plan: FitPlan,
    weights: Weights,
    amount: float,
    accounting: Accounting,
    delta: float,
    modes: Modes,
) -> tuple[Stages, Shares]:
    """The three stages' budget once totals and largest counts are released, and its shares.

    A rule of released numbers: domains take the first of `STEPS` that keeps as many category lists
    as any, and ranges of tables in which few units have rows; lists of which nothing is known do
    not count where a column's name or type tells that few rows share a value.

    Args:
        plan: The fit's plan.
        weights: What is known of the tables' rows.
        amount: The whole budget per root table, ε or ρ.
        accounting: What the amount is.
        delta: δ for threshold releases, per root table.
        modes: What largest counts have told, and what they took of domains.
    """
    listed = any(isinstance(need, CategoriesNeed) for _, _, need in needs(plan))
    found = []
    for step, wanted in STEPS if listed else STEPS[:1]:
        split = stages(plan, amount, step)
        rest = (split.domains - modes.spent) * MARGIN
        shares = Shares.of(plan, weights, rest, accounting, delta, modes.found, wanted)
        found.append((split, shares))
        if shares.lists == shares.possible:
            break
    kept = [shares.lists for _, shares in found]
    return found[kept.index(max(kept))]


@dataclass(frozen=True)
class Shares:
    """What may be spent on what columns need, by item; those left out would drown in noise.

    Attributes:
        amounts: ε or ρ of every item that is asked for.
        weights: Released weight of every table's rows.
        again: ε or ρ of second totals, of root tables whose units are asked for nothing else: so
            few rows that their number is all that can be learned of them.
        lists: Number of category lists that are asked for and may well be there, and of ranges and
            decimals of thin tables.
        possible: The same before any was dropped.
    """

    amounts: dict[str, float]
    weights: Mapping[str, float]
    again: dict[str, float]
    lists: int
    possible: int

    @classmethod
    def of(
        cls,
        plan: FitPlan,
        weights: Weights,
        amount: float,
        accounting: Accounting,
        delta: float,
        modes: Mapping[str, Mode],
        wanted: float = STEPS[0][1],
    ) -> Shares:
        """Share the amount, and drop what drowns by turns: a rule of released numbers.

        After every drop the amount is shared anew, so that what is left drowns less (`_turns`).

        Args:
            plan: The fit's plan.
            weights: What is known of the tables' rows.
            amount: What may be spent per root table, ε or ρ.
            accounting: What the amount is.
            delta: δ for threshold releases, per root table.
            modes: What is known of lists, by item.
            wanted: Rows in noise scales that a range is to get.
        """
        spec = plan.spec
        kept = Items.of(plan, weights, accounting, delta, modes, wanted)
        possible = kept.lists(modes)
        kept = kept.without(kept.unaffordable(amount))
        kept = kept.without(kept.hopeless(amount))
        for turn in _turns(kept, modes):
            left = turn
            while left and (gone := kept.drowned(left, amount)):
                need = kept.needs[gone[0]][1]
                in_parts = need.dear or isinstance(need, CategoriesNeed)
                gone = kept.later(gone) if in_parts else gone
                kept = kept.without(gone)
                left = [name for name in left if name in kept.needs]
        charged = {root for name in kept.needs for root in kept.roots[name]}
        again = {
            table: (1.0, spec.roots(table))
            for table in sorted(spec.tables)
            if spec.tables[table].own is None and not charged & set(spec.roots(table))
        }
        return cls(
            kept.amounts(amount),
            weights.weights,
            allocate(again, AGAIN * amount) if again and amount else {},
            kept.lists(modes),
            possible,
        )


def _turns(items: Items, modes: Mapping[str, Mode]) -> Iterator[list[str]]:
    """Groups in the order in which they are dropped; of a group, the end goes first.

    Lists that are unlikely, then what tells little, lists first. A list whose largest count is
    clear tells much, whatever the column's name: it costs little where all share a value. Of lists
    the dearest, of those of one price those of long texts.
    """
    groups: dict[tuple[int, bool], list[str]] = {}
    for name, (_, need) in items.needs.items():
        lists = isinstance(need, CategoriesNeed)
        unlikely = isinstance(need, CategoriesNeed) and need.own and name not in modes
        dear = need.dear or (lists and is_clear(modes.get(name)))
        worth = 0 if unlikely else 1 + dear
        groups.setdefault((worth, not lists), []).append(name)
    for _, group in sorted(groups.items()):
        yield sorted(group, key=lambda name: _rank(items.needs[name][1], items.prices[name]))


def _rank(need: Need, price: float) -> tuple[float, float]:
    if not isinstance(need, CategoriesNeed):
        return 0.0, 0.0
    return price, inf if need.length is None else need.length


def grids(
    table: str, column: str, need: BoundsNeed | DecimalsNeed, amount: float, seen: float
) -> list[tuple[BoundsNeed | DecimalsNeed, Measurement]]:
    """The questions of a column's range, or of its decimals, and what each is to tell.

    Args:
        table: The table.
        column: The column.
        need: What it needs.
        amount: ε or ρ of all questions together.
        seen: Rows in noise scales of one histogram that gets all of it.
    """
    asked: tuple[BoundsNeed | DecimalsNeed, ...] = (need,)
    words = ["decimals"]
    if isinstance(need, BoundsNeed):
        asked, words = need.asked(seen), ["range", "range closely"]
    return [
        (
            part,
            Measurement(
                GridHistogram(table, part.attribute, PublicArray(part.candidates)),
                amount / len(asked),
                f"{word} {table}.{column}",
            ),
        )
        for part, word in zip(asked, words, strict=False)
    ]
