"""The first measurements of a fit: noisy totals (P17), then those that determine columns' domains.

They are made in rounds, each of which depends only on earlier ones: first the numbers of units that
have rows in owned tables; then the counts by rank of every column that may have labels; then lists
with their counts, ranges and steps. Each gets the budget that `domain_budget` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privbench.arrays import Floats
from privbench.encoding import CategoriesNeed, Codec
from privbench.encoding.base import Need, ReleasedDomain
from privbench.encoding.ordered import OrderedReader
from privbench.encoding.scale import LINEAR
from privbench.encoding.surrogates import Surrogates
from privbench.learning.answers import Measured, measured
from privbench.pipeline.domain_answers import (
    lend_ranges,
    lent_labels,
    measurement_of,
    released_list,
    rest_law,
    settled,
    with_default,
)
from privbench.pipeline.domain_budget import Rounds, total_amounts, totals_share
from privbench.pipeline.domain_error import Size, believed
from privbench.pipeline.domain_words import deltas, release_words, useful_columns
from privbench.pipeline.prepare import FitPlan, need_key
from privbench.pipeline.rule_tests import RuleTests
from privbench.privacy import Accounting, Listed, Measurement, Session, root_sums
from privbench.privacy.queries import Total
from privbench.schema import Check

#: Fewest equal cells of a column with released bounds.
LEAST_CELLS = 16

#: Factor on the standard deviation in tests that must not mistake noise for values: Laplace noise
#: exceeds 5.3 of its standard deviations as often as Gaussian noise exceeds 3.5.
_HEAVY: dict[Accounting, float] = {"pure": 1.5, "zcdp": 1.0}


def release_totals(session: Session, plan: FitPlan) -> dict[str, float]:
    """Measure the numbers of rows of all private tables; return them, at least 1 each.

    For a root table this is the number of units; for a table with an OWN key it is Σ min(n, 100)
    over units (P17).
    """
    amounts, names = total_amounts(plan, session.amount_total), session.spec.order()
    totals = session.measure_all(
        [Measurement(Total(name), amounts[name], f"total {name}") for name in names]
    )
    return {
        name: max(float(noisy.reshape(-1)[0]), 1.0)
        for name, noisy in zip(names, totals, strict=True)
    }


def release_domains(
    session: Session, plan: FitPlan, totals: Mapping[str, float]
) -> tuple[dict[str, dict[str, Codec]], dict[str, float], float, Mapping[str, Sequence[Check]]]:
    """Make the measurements that columns need, and determine every domain.

    Returns the codecs per private table and modelled column, the totals, averaged with second ones,
    the ε or ρ that the synthesizer may spend per root table, and by table the rules that rows show.
    """
    accounting, whole = session.accounting, session.amount_total
    delta, of_words, _ = deltas(plan, session.delta_total)
    rounds = Rounds(plan, accounting, whole, delta, totals)
    counted = measured(session, rounds.units())
    units = {item.query.table: (item.counts.item(), item.sd) for item in counted if item.query}
    rounds = rounds.sized(units)
    sizes, ranked = rounds.sizes, rounds.laws()
    ranked_counts = dict(zip(ranked, measured(session, [*ranked.values()]), strict=True))
    laws = {
        name: believed(
            need, sizes[table].units, ranked_counts[name].counts[1:], ranked_counts[name].sd
        )
        for name, (table, need) in plan.lists.items()
        if name in ranked
    }
    questions = rounds.last(laws)
    results = iter(session.ask([q for group in questions.values() for _, q in group]))
    lists: dict[str, Listed] = {}
    answers: dict[str, list[tuple[Need | None, Measured]]] = {}
    for name, group in questions.items():
        answers[name] = []
        for need, question in group:
            result = next(results)
            answers[name].append((need, measurement_of(session, question, result)))
            if isinstance(result, Listed):
                lists[name] = result
    again = {
        name: _better(session, name, group[0][1], totals)
        for name, group in answers.items()
        if name in session.spec.tables
    }
    named = {
        name: released_list(need, lists[name], answers[name][0][1].sd)
        for name, (_, need) in plan.lists.items()
        if name in lists
    }
    released = _settle(session, plan, sizes, laws, answers, lists, named)
    heavy = _HEAVY[session.accounting]
    rest = {
        (table, need.attribute): rest_law(
            need, sizes[table], len(named.get(name, ())), ranked_counts.get(name), heavy
        )
        for name, (table, need) in plan.lists.items()
        if need.grid is None
    }
    codecs = _codecs(plan, released, rest)
    of_column = {(t, need.attribute): laws[n] for n, (t, need) in plan.lists.items() if n in laws}
    word_columns = useful_columns(rounds, codecs, of_column)
    found_words = release_words(session, rounds, word_columns, of_words)
    for (table, column), (pieces, firsts) in found_words.items():
        codecs[table][column] = codecs[table][column].with_words(pieces, firsts)
    tests = RuleTests(plan, accounting, whole, sizes)
    tests.orders(session, codecs)
    recode(session, plan, codecs)
    tests.combinations(session, codecs)
    trace = session.trace[len(totals) :]
    spent = root_sums((step.query.roots(session.spec), step.event.amount) for step in trace)
    first = totals_share(plan) * whole
    left = whole - first - max(spent.values(), default=0.0)
    return codecs, {**totals, **again}, left, tests.shown


def _settle(
    session: Session,
    plan: FitPlan,
    sizes: Mapping[str, Size],
    laws: Mapping[str, Floats],
    answers: Mapping[str, list[tuple[Need | None, Measured]]],
    lists: Mapping[str, Listed],
    named: Mapping[str, tuple[str, ...]],
) -> dict[tuple[str, str], ReleasedDomain]:
    """The released domain of every need, by table and attribute."""
    cells, lent = _cells(plan, session, sizes), lent_labels(plan, named)
    shared = {
        (table, need.grid): (lists[name].labels, answers[name][0][1])
        for name, (table, need) in plan.lists.items()
        if need.grid is not None and name in lists and lists[name].labels
    }
    domains: dict[tuple[str, str], ReleasedDomain] = {}
    for table, _, need in plan.needs():
        name = need_key(table, need)
        if isinstance(need, CategoriesNeed):
            labels = named.get(name) or lent.get(name, ())
            released: ReleasedDomain = with_default(need, labels, laws.get(name), cells[table])
        else:
            known = shared.get((table, need.attribute))
            released = settled(need, answers.get(name, []), cells[table], known)
        domains[table, need.attribute] = released
    limits = {
        (item.table.key, name): (reader.range.lo, reader.range.hi)
        for item in plan.private
        for name, reader in item.readers.items()
        if isinstance(reader, OrderedReader)
    }
    return lend_ranges((item.table for item in plan.private), domains, limits)


def _codecs(
    plan: FitPlan,
    released: Mapping[tuple[str, str], ReleasedDomain],
    rest: Mapping[tuple[str, str], Surrogates | None],
) -> dict[str, dict[str, Codec]]:
    """The codecs of all columns."""
    codecs: dict[str, dict[str, Codec]] = {}
    for item in plan.private:
        table = item.table.key
        codecs[table] = {}
        for name, reader in item.readers.items():
            codec = reader.finish(
                {need.attribute: released[table, need.attribute] for need in reader.needs}
            )
            laws = {need.attribute: rest.get((table, need.attribute)) for need in reader.needs}
            codecs[table][name] = codec.with_surrogates(laws)
    return codecs


def recode(session: Session, plan: FitPlan, codecs: dict[str, dict[str, Codec]]) -> None:
    """Map the attributes of all private columns to the cells of their codecs."""
    for item in plan.private:
        table = item.table.key
        # Distances first: they read another column's points.
        readers = sorted(item.readers.items(), key=lambda pair: not codecs[table][pair[0]].since)
        for name, reader in readers:
            for attribute, recoding in codecs[table][name].recodings.items():
                session.recode(table, attribute, recoding)
            for need in reader.needs:
                beside = isinstance(need, CategoriesNeed) and need.grid
                if not beside and need.attribute not in codecs[table][name].domains:
                    session.let_go(table, need.attribute)
            if reader.words is not None:
                session.let_go(table, reader.words.attribute)


def _better(session: Session, table: str, second: Measured, totals: Mapping[str, float]) -> float:
    """The inverse-variance mean of both totals of a table, at least 1."""
    query = Total(table)
    first = next(step.event.amount for step in session.trace if step.query == query)
    sd = session.noise_scale(query, first)
    known = Measured(query, np.array([totals[table]]), sd)
    return max(known.join(second).counts.item(), 1.0)


def _cells(plan: FitPlan, session: Session, sizes: Mapping[str, Size]) -> dict[str, int]:
    """Per table, the number of equal cells that a column's one-way histogram can distinguish.

    With this number of cells, the count of a cell would be twice its noise if the whole budget were
    divided equally among one-way histograms.
    """
    columns = root_sums(
        (session.spec.roots(item.table.key), float(len(item.readers))) for item in plan.private
    )
    total = session.amount_total
    epsilon = total if session.accounting == "pure" else (2 * total) ** 0.5
    cells = {}
    for table, size in sizes.items():
        most = max((columns.get(root, 1.0) for root in session.spec.roots(table)), default=1.0)
        cells[table] = int(
            min(max(size.weight * epsilon / (2 * max(most, 1)), LEAST_CELLS), LINEAR)
        )
    return cells
