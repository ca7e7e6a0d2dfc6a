"""Weight of the rows of owned tables: how many units have any, asked before all that needs it.

Few customers write reviews. A range or a list of what a tenth of the units have needs ten times as
much as the number of all units would say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from privbench.pipeline.domain_stages import amount_of, needs, stages
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import (
    MARGIN,
    Accounting,
    DatabaseSpec,
    Measurement,
    Purse,
    Session,
    root_sums,
)
from privbench.privacy.queries import Total
from privbench.privacy.units import bound, single

#: Part of the amount for domains that these counts may take.
_PART = 0.1
#: Least and most units of the root table in noise scales of a count.
_LEAST, _MOST = 10.0, 200.0
#: Standard deviations from which on units are seen, and rows.
_SEEN, _ROWS_SEEN = 1.5, 2.0
#: Owned rows weigh less than this part of their units' number where they are few.
_THIN = 0.4
#: Rows in a table that a unit with any is taken to have, where τ is no less.
_ROWS_EACH = 2.0


@dataclass(frozen=True, slots=True)
class Count:
    """Units that have rows in a table, by weight.

    Attributes:
        noisy: The noisy count.
        sd: Standard deviation of its noise.
        rows: Whether the table's total says that there are rows.
    """

    noisy: float
    sd: float
    rows: bool = False

    @property
    def weight(self) -> float:
        """The weight that the table's rows are taken to have; 0 for next to none.

        >>> Count(90.0, 20.0).weight, Count(9.0, 20.0).weight, Count(9.0, 20.0, True).weight
        (90.0, 0.0, 20.0)
        """
        if self.noisy > _SEEN * self.sd:
            return max(self.noisy, 1.0)
        return max(self.noisy, self.sd, 1.0) if self.rows else 0.0


@dataclass(frozen=True)
class Weights:
    """What is known of the weight of every table's rows.

    Attributes:
        weights: By table; 0 where noise drowned the units that have any rows.
        thin: Tables in which few of the units that may have rows do.
        spent: The most that a root table was charged for them, ε or ρ.
        more: Units that have rows, by table, where these weigh less than units are.
    """

    weights: Mapping[str, float]
    thin: frozenset[str] = frozenset()
    spent: float = 0.0
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def units(self) -> Mapping[str, float]:
        """Units that have rows, by table: lists count them, whatever their rows weigh."""
        return {**self.weights, **self.more}

    @classmethod
    def of(cls, spec: DatabaseSpec, totals: Mapping[str, float]) -> Weights:
        """By totals alone: every unit may have rows. An owned table's total says little of few."""
        return cls({name: totals[_counted(spec, name)] for name in spec.tables})

    def told(
        self,
        spec: DatabaseSpec,
        amounts: Mapping[str, float],
        found: Mapping[str, Count],
    ) -> Weights:
        """With counts that were asked for.

        A unit's rows weigh as much as it counts in a list only from τ rows on: with fewer it counts
        for more than they weigh, the more so the larger τ is.

        Args:
            spec: The session's.
            amounts: What was spent on each, ε or ρ.
            found: What they told, by table.
        """
        seen = {name: count.weight for name, count in found.items()}
        used = root_sums((spec.roots(name), amount) for name, amount in amounts.items())
        thin = {name for name, weight in seen.items() if weight < _THIN * self.weights[name]}
        more = {
            name: max(weight, min(weight * bound(spec, name) / _ROWS_EACH, self.weights[name]))
            for name, weight in seen.items()
        }
        return Weights(
            {**self.weights, **seen},
            frozenset(thin),
            max(used.values(), default=0.0),
            more,
        )


def _counted(spec: DatabaseSpec, table: str) -> str:
    """The table whose total counts the units that may have rows in another."""
    return table if single(spec, table) else spec.top(table)


def weight_amounts(
    plan: FitPlan, totals: Mapping[str, float], domains: float, accounting: Accounting
) -> dict[str, float]:
    """ε or ρ of the count of every owned table for which it is asked: a rule of released numbers.

    Equal parts of what there is, if these tell anything; else tables of most columns alone.

    Args:
        plan: The fit's plan.
        totals: Released rows per table.
        domains: What may be spent on domains per root table, ε or ρ.
        accounting: What it is.

    Returns:
        Amounts by table. No root table's sum passes its part of ``domains``: a table is added only
        where it does not.
    """
    spec, columns = plan.spec, dict[str, int]()
    for table, _, _ in needs(plan):
        columns[table] = columns.get(table, 0) + 1
    tables = [name for name in columns if not single(spec, name)]
    load = root_sums((spec.roots(name), 1.0) for name in tables)
    most, found = _PART * domains, dict[str, float]()
    purse = Purse(most)
    for name in sorted(tables, key=lambda name: (-columns[name], name)):
        units, roots = totals[spec.top(name)], spec.roots(name)
        part = MARGIN * most / max(load[root] for root in roots)
        least, enough = (amount_of(scales / units, accounting) for scales in (_LEAST, _MOST))
        amount = min(max(part, least), enough)
        if purse.take(roots, amount):
            found[name] = amount
    return found


def weight_questions(spec: DatabaseSpec, amounts: Mapping[str, float]) -> Iterator[Measurement]:
    """The questions, in the order of the amounts: rows by weight are units, each up to τ times."""
    for name, amount in amounts.items():
        yield Measurement(Total(name, bound(spec, name)), amount, f"units {name}")


def release_weights(session: Session, plan: FitPlan, totals: Mapping[str, float]) -> Weights:
    """Release how many units have rows in owned tables.

    Args:
        session: The door to the private rows.
        plan: The fit's plan.
        totals: Noisy rows per table.
    """
    spec, accounting = session.spec, session.accounting
    domains = stages(plan, session.amount_total).domains
    amounts = weight_amounts(plan, totals, domains, accounting)
    questions = [*weight_questions(spec, amounts)]
    sure = _with_rows(session, totals)
    found = {}
    for name, asked, noisy in zip(amounts, questions, session.measure_all(questions), strict=True):
        tau = bound(spec, name)
        sd = session.noise_scale(asked.query, asked.amount)
        found[name] = Count(float(noisy.reshape(-1)[0]) / tau, sd / tau, name in sure)
    return Weights.of(spec, totals).told(spec, amounts, found)


def _with_rows(session: Session, totals: Mapping[str, float]) -> set[str]:
    """Tables of which the first total alone says that they have rows."""
    return {
        step.query.table
        for step in session.trace
        if step.query == Total(step.query.table)
        and totals[step.query.table]
        > _ROWS_SEEN * session.noise_scale(step.query, step.event.amount)
    }
