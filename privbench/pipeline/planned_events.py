"""The events that a fit would have, expected from catalog, config and sizes; reads no rows."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from privbench.config import PrivacyConfig
from privbench.encoding import (
    Bounds,
    BoundsNeed,
    CategoriesNeed,
    PartNeed,
    ReleasedDomain,
    Step,
)
from privbench.pipeline.domain_budget import Rounds, is_public, total_amounts
from privbench.pipeline.domain_error import believed, deviation, margin_of
from privbench.pipeline.domain_words import (
    deltas,
    path_lists,
    word_columns,
    word_lists,
    word_presence,
)
from privbench.pipeline.prepare import FitPlan
from privbench.pipeline.rule_tests import RuleTests
from privbench.privacy import (
    Accountant,
    Accounting,
    DatabaseSpec,
    Event,
    Measurement,
    Question,
    noise_sd,
    root_sums,
)
from privbench.privacy.queries import Total
from privbench.privacy.queries.labels import BLOCKS
from privbench.privacy.units import single
from privbench.synthesizers import PlanInput, Synthesizer, roots_of

#: A table is worth learning from 90·d/ε privacy units on (see docs/privacy.md).
LEAST = 90.0
#: Laws by rank that a column may turn out to have, as shares of the blocks of ranks; the law
#: decides how much budget the column's list gets. They are: the default of the column's kind
#: (None); two values; some two hundred values, with equal shares for all blocks.
PROFILES: tuple[tuple[float, ...] | None, ...] = (None, (0.6, 0.4), (1 / 9,) * 9)


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """One measurement that a fit would make, described without data."""

    label: str  # its purpose, for the ledger
    table: str  # the table whose rows are counted
    kind: str
    shape: tuple[int, ...]  # of the statistic; the largest planned one if adaptive
    amount: float  # ε or ρ
    share: float  # ``amount`` over the total
    noise_sd: float  # standard deviation of the noise, in counted units
    roots: frozenset[str]  # root tables that are charged
    needed: float | None = None  # number of units at which a label is released half the time
    noises: tuple[float, ...] = ()  # other values of ``noise_sd``, for other earlier results
    needs: tuple[float, ...] = ()  # other values of ``needed``, for other earlier results

    @classmethod
    def of(
        cls, question: Question, spec: DatabaseSpec, source: PlanInput, *, needed: bool = True
    ) -> Self:
        """Return the planned form of a question; for a list, with the units that a label needs.

        This number is the threshold plus one, since the statistic leaves one unit out. Without
        ``needed`` it is not computed, which takes as long as all else.
        """
        query, amount = question.query, question.amount
        threshold = question.method(spec, source.accounting).threshold if needed else None
        return cls(
            question.label,
            query.table,
            query.kind,
            tuple(query.shape),
            amount,
            amount / source.total,
            noise_sd(query, spec, amount, source.accounting),
            query.roots(spec),
            None if threshold is None else 1 + threshold / query.unit,
        )


def planned(
    plan: FitPlan, source: PlanInput, delta: float, *, ranges: bool = False
) -> list[PlannedEvent]:
    """Return the events that a fit is expected to have before the synthesizer's.

    No rows are read. Columns are assumed to hold the default values of their type and name, and all
    units to have rows in owned tables. `source` has the whole budget and the guessed rows, `delta`
    is the accountant's for threshold releases, per root table. With `ranges` every distribution in
    `PROFILES` is planned for: events whose noise depends on how frequent a column's values are then
    state a range of noise, and lists the number of units that a label needs.
    """
    spec = plan.spec
    thresholds = set[tuple[type[Question], float]]()

    def described(item: Question) -> PlannedEvent:
        """The planned form; one list of each δ shows that there is a threshold."""
        kind = type(item), item.delta
        needed = ranges or kind not in thresholds
        thresholds.add(kind)
        return PlannedEvent.of(item, spec, source, needed=needed)

    rows = {name: source.rows(name) for name in spec.tables}
    of_labels, delta_of_words, _ = deltas(plan, delta)
    rounds = Rounds(plan, source.accounting, source.total, of_labels, rows).sized({})
    totals = total_amounts(plan, source.total)
    sizes, ranked, lists = rounds.sizes, rounds.laws(), plan.lists
    first: list[Question] = [
        *(Measurement(Total(name), amount, f"total {name}") for name, amount in totals.items()),
        *path_lists(rounds, delta).values(),
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
        questions = (question for group in rounds.last(laws).values() for _, question in group)
        last.append({item.label: described(item) for item in questions})
    expected, *others = last
    for label, event in expected.items():
        found = [one[label] for one in others if label in one]
        needs = tuple(other.needed for other in found if other.needed is not None)
        noises = tuple(other.noise_sd for other in found)
        expected[label] = replace(event, noises=noises, needs=needs)
    columns = word_columns(rounds)
    of_texts = (
        *word_lists(rounds, columns, delta_of_words).values(),
        *word_presence(rounds, columns, {}).values(),
    )
    tests = RuleTests(plan, source.accounting, source.total, sizes).first()
    return [
        *(described(item) for item in first),
        *expected.values(),
        *(described(item) for item in (*of_texts, *tests)),
    ]


def foresee(
    plan: FitPlan,
    synthesizer: Synthesizer[Any],
    accountant: Accountant,
    totals: Mapping[str, float],
    *,
    ranges: bool = False,
) -> tuple[list[PlannedEvent], list[PlannedEvent], dict[str, float]]:
    """Return the events of `planned`, those of the synthesizer, and tables' least useful sizes.

    `totals` are noisy or guessed rows per table.
    """
    source = PlanInput(accountant.total, accountant.accounting, totals)
    spec = settled(plan)
    first = planned(plan, source, accountant.threshold_delta, ranges=ranges)
    spent = root_sums((event.roots, event.amount) for event in first)
    left = {root: source.total - spent.get(root, 0.0) for root in roots_of(spec)}
    least = min(left.values(), default=source.total)
    spare = {root: rest - least for root, rest in left.items()}
    questions = synthesizer.plan(spec, replace(source, total=least, spare=spare))
    rest = [PlannedEvent.of(question, spec, source) for question in questions]
    attributes = {name: len(table.attributes) for name, table in spec.tables.items()}
    return first, rest, least_sizes(attributes, rest, source.accounting)


def settled(plan: FitPlan) -> DatabaseSpec:
    """Return the database's spec with the domains known before any release, for ``plan``.

    Attributes whose domain must be released are given the size that they are likely to get.
    """
    spec = plan.spec
    for item in plan.private:
        domains = {}
        for reader in item.readers.values():
            guess: dict[str, ReleasedDomain] = {}
            for need in reader.needs:
                if isinstance(need, BoundsNeed):
                    quarter = len(need.candidates) // 4
                    guess[need.attribute] = Bounds(
                        int(need.candidates[quarter]), int(need.candidates[3 * quarter])
                    )
                elif isinstance(need, PartNeed) and not need.cycle:
                    guess[need.attribute] = Step(need.default)
                elif isinstance(need, CategoriesNeed) and need.grid is None:
                    guess[need.attribute] = tuple(f"value {i}" for i in range(20))
            domains.update(reader.finish(guess).domains)
        spec = spec.with_attributes(item.table.key, domains)
    return spec


#: Kinds of events that measure sizes, domains or keys, not the distribution of a table's values.
_ASIDE = frozenset(
    {
        "total",
        "ranked counts",
        "label counts",
        "grid histogram",
        "normed grid histogram",
        "fan-in",
        "word votes",
        "word presence",
        "order test",
    }
)


def least_sizes(
    attributes: Mapping[str, int], events: Iterable[PlannedEvent | Event], accounting: str
) -> dict[str, float]:
    """Return the number of units below which little can be learned, per table: 90·d/ε.

    Here ε is what d attributes of the table get together. A table without attributes, of which
    only the rows per unit are learned, counts as having one.
    """
    spent: dict[str, float] = {}
    for event in events:
        if event.kind not in _ASIDE:
            spent[event.table] = spent.get(event.table, 0.0) + event.amount
    least = {}
    for name, count in attributes.items():
        if spent.get(name):
            epsilon = spent[name] if accounting == "pure" else (2 * spent[name]) ** 0.5
            least[name] = LEAST * max(count, 1) / epsilon
    return least


def settle_accounting(plan: FitPlan, privacy: PrivacyConfig) -> Accounting:
    """Return the accounting of a fit: the config's, or under ``auto`` the one with less noise.

    Of m equal events, noise has the standard deviation √2·m/ε under pure ε and √(m/2ρ) under zCDP;
    m category lists have the thresholds (m/ε)·log(m/2δ) and √(m/2ρ)·Φ⁻¹(1 − δ/2m), as zCDP needs
    half of δ for its conversion. zCDP is chosen if the mean of the logarithms of these ratios, over
    all events that follow from catalog and config, including those of the first rounds, is above 0.
    At (3.2, 10⁻⁹) that is so from four lists or nineteen histograms on, or from two lists together
    with the other measurements of their columns.
    """
    if privacy.accounting != "auto":
        return privacy.accounting
    if privacy.epsilon is None or privacy.delta == 0.0:
        return "pure"
    # Root tables of every list that may be asked for, and of every other event.
    tables = (*(table for table, _ in plan.lists.values()), *plan.words, *plan.documents.words)
    lists, others = [plan.spec.roots(table) for table in tables], _others(plan)
    load = root_sums((roots, 1.0) for roots in (*lists, *others))
    list_load = root_sums((roots, 1.0) for roots in lists)
    threshold = None if lists else 0.0
    rho = Accountant("zcdp", privacy.epsilon, privacy.delta, threshold_delta=threshold).cap
    gain = 0.0
    for roots in (*lists, *others):
        most = max(load[root] for root in roots)
        gain += math.log(deviation("pure", privacy.epsilon / most) / deviation("zcdp", rho / most))
    for roots in lists:
        delta = privacy.delta / max(list_load[root] for root in roots)
        gain += math.log(margin_of("pure", delta, 1) / margin_of("zcdp", delta / 2, 1))
    return "zcdp" if gain > 0 else "pure"


def _others(plan: FitPlan) -> list[frozenset[str]]:
    """The root tables of each expected event that is not a category list, one set for each event.

    The events are: a total of every table, and a second total of every root table, but none where
    the number of rows is public; two marginals
    for every attribute, one alone and one with another attribute; every key; every range and step
    that a column needs; the law by rank of every list; how often a
    column's words occur; and, for every table in which a unit may have many rows, the number of
    units that have rows.
    """
    roots_of_events = []
    for item in plan.private:
        table = item.table.key
        attributes = sum(
            len(reader.attributes)
            - sum(isinstance(need, PartNeed) for need in reader.needs)
            - (reader.words is not None)
            for reader in item.readers.values()
        )
        second = plan.spec.tables[table].own is None
        totals = 0 if is_public(plan.spec, table) else 1 + second
        count = totals + attributes + max(attributes - 1, 0) + len(item.keys)
        needs = sum(len(reader.needs) for reader in item.readers.values())
        units = needs > 0 and not single(plan.spec, table)
        words = sum(reader.words is not None for reader in item.readers.values())
        roots_of_events += [plan.spec.roots(table)] * (count + needs + units + words)
    return roots_of_events
