"""The first measurements of a fit: noisy totals (P17), then bounds, decimals and categories.

Between them stand counts that tell which of these are worth their price: units that have rows in
owned tables, and how many share a column's most frequent value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, Codec, Decimals, DecimalsNeed
from privbench.encoding.base import Need, Released
from privbench.encoding.ordered import OrderedReader
from privbench.encoding.scale import LINEAR
from privbench.learning.denoise import Floats, by_precision
from privbench.learning.ranges import as_told, cut, find_decimals, find_range, find_within
from privbench.pipeline.domain_modes import Mode, Modes, mode_amounts, mode_questions
from privbench.pipeline.domain_shares import Shares, grids, settled_stages
from privbench.pipeline.domain_stages import (
    Stages,
    delta_shares,
    epsilon_of,
    item_of,
    lists_of,
    needs,
    stages,
    total_amounts,
)
from privbench.pipeline.domain_weights import release_weights
from privbench.pipeline.neighbours import lend_ranges
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import Labels, Measurement, Question, Result, Session
from privbench.privacy.queries import LabelCounts, Total

#: Standard deviations of noise from which on values below zero are seen.
_CLEAR = 2.0
#: Fewest equal cells of a column with released bounds.
LEAST_CELLS = 16

#: Codecs per table and column.
Codecs = dict[str, dict[str, Codec]]


def release_totals(session: Session, amount: float) -> dict[str, float]:
    """Noisy rows of every private table, floored at 1.

    Roots count units; tables with an OWN key Σ min(n, 100) (P17).
    """
    amounts, names = total_amounts(session.spec, amount), session.spec.order()
    found = session.measure_all(
        [Measurement(Total(name), amounts[name], f"total {name}") for name in names]
    )
    return {
        name: max(float(noisy.reshape(-1)[0]), 1.0)
        for name, noisy in zip(names, found, strict=True)
    }


def settle_stages(
    session: Session, plan: FitPlan, totals: Mapping[str, float]
) -> tuple[Stages, Shares]:
    """Release how many units have rows, and share columns' most frequent values; split by that.

    Args:
        session: The door to the private rows.
        plan: The fit's plan.
        totals: Noisy rows per table.

    Returns:
        The stages' budget, and what each column's domain gets of it.
    """
    whole, accounting = session.amount_total, session.accounting
    weights = release_weights(session, plan, totals)
    amounts = mode_amounts(plan, weights, stages(plan, whole).domains, accounting)
    questions = [*mode_questions(lists_of(plan), amounts)]
    found = {
        name: Mode(float(noisy[0]), session.noise_scale(question.query, question.amount))
        for name, question, noisy in zip(
            amounts, questions, session.measure_all(questions), strict=True
        )
    }
    modes = Modes.of(plan, amounts, found, weights.spent)
    return settled_stages(plan, weights, whole, accounting, session.delta_total, modes)


def release_domains(
    session: Session, plan: FitPlan, totals: Mapping[str, float], shares: Shares
) -> tuple[Codecs, dict[str, float]]:
    """Release what every column needs, settle its domain, and give the codecs.

    Args:
        session: The door to the private rows.
        plan: The fit's plan.
        totals: Noisy rows per table.
        shares: What is asked for.

    Returns:
        Codecs per private table and modelled column, and totals: those of small tables have been
        released once more.
    """
    given, again = _released(session, plan, totals, shares)
    limits = {
        (item.table.key, name): (reader.range.lo, reader.range.hi)
        for item in plan.private
        for name, reader in item.readers.items()
        if isinstance(reader, OrderedReader)
    }
    released = lend_ranges((item.table for item in plan.private), given, limits)
    codecs: Codecs = {}
    for item in plan.private:
        table = item.table.key
        codecs[table] = {}
        for name, reader in item.readers.items():
            codec = reader.finish(
                {need.attribute: released[table, need.attribute] for need in reader.needs}
            )
            for attribute, recoding in codec.recodings.items():
                session.recode(table, attribute, recoding)
            for need in reader.needs:
                if isinstance(need, DecimalsNeed):
                    session.let_go(table, need.attribute)
            codecs[table][name] = codec
    return codecs, {**totals, **again}


def _released(
    session: Session, plan: FitPlan, totals: Mapping[str, float], shares: Shares
) -> tuple[dict[tuple[str, str], Released], dict[str, float]]:
    """What all columns need, in one batch: it depends on earlier counts alone."""
    accounting = session.accounting
    lists = [table for name, (table, _) in lists_of(plan).items() if name in shares.amounts]
    deltas = delta_shares(session.spec, lists, session.delta_total)
    asked: list[tuple[str, Need, list[tuple[Need, Question]]]] = []
    for table, name, need in needs(plan):
        share = shares.amounts.get(item_of(table, need))
        if share is None:
            asked.append((table, need, []))
        elif isinstance(need, CategoriesNeed):
            query = LabelCounts(table, need.source, need.per_unit)
            label = f"categories {table}.{name}"
            asked.append((table, need, [(need, Labels(query, share, label, deltas[table]))]))
        else:
            seen = shares.weights[table] * epsilon_of(share, accounting)
            asked.append((table, need, [*grids(table, name, need, share, seen)]))
    repeated = [
        Measurement(Total(name), share, f"second total {name}")
        for name, share in shares.again.items()
    ]
    results = iter(session.ask([*repeated, *(q for *_, group in asked for _, q in group)]))
    again = {
        item.query.table: _better(session, item, float(np.ravel(next(results))[0]), totals)
        for item in repeated
    }
    cells = _cells(plan, session, shares.weights)
    found = {
        (table, need.attribute): _settled(
            session, need, group, [next(results) for _ in group], cells[table]
        )
        for table, need, group in asked
    }
    return found, again


def _better(
    session: Session, second: Measurement, noisy: float, totals: Mapping[str, float]
) -> float:
    """The inverse-variance mean of both totals of a table, at least 1."""
    table = second.query.table
    first = next(step.event.amount for step in session.trace if step.query == Total(table))
    sds = [session.noise_scale(second.query, amount) for amount in (first, second.amount)]
    values = [totals[table], noisy / second.query.unit]
    found = [(value, max(sd, 1e-9) ** 2) for value, sd in zip(values, sds, strict=True)]
    return max(by_precision(found)[0], 1.0)


def _cells(plan: FitPlan, session: Session, weights: Mapping[str, float]) -> dict[str, int]:
    """Per table, the equal cells of a column that its one-way histogram can tell apart.

    Cells hold two noise scales each on average, if all columns that share a root get equal parts.
    More would cost time and say nothing.
    """
    columns: dict[str, int] = {}
    for item in plan.private:
        for root in session.spec.roots(item.table.key):
            columns[root] = columns.get(root, 0) + len(item.readers)
    total = session.amount_total
    epsilon = total if session.accounting == "pure" else (2 * total) ** 0.5
    found = {}
    for table, weight in weights.items():
        most = max((columns[root] for root in session.spec.roots(table)), default=1)
        found[table] = int(min(max(weight * epsilon / (2 * max(most, 1)), LEAST_CELLS), LINEAR))
    return found


@dataclass(frozen=True)
class Answer:
    """A noisy histogram of grid cells.

    Attributes:
        need: Whose candidates part the cells.
        noisy: Counts of rows, shape (candidates + 1,).
        sd: Standard deviation of the noise, above 0.
    """

    need: BoundsNeed | DecimalsNeed
    noisy: Floats
    sd: float

    @classmethod
    def of(cls, session: Session, need: Need, question: Question, found: Result) -> Answer:
        """The answer to a question of a range or of decimals."""
        assert not isinstance(need, CategoriesNeed)
        sd = session.noise_scale(question.query, question.amount)
        noisy = np.asarray(found, np.float64) / question.query.unit
        return cls(need, noisy, max(sd, 1e-9))


def _settled(
    session: Session,
    need: Need,
    questions: list[tuple[Need, Question]],
    found: list[Result],
    cells: int,
) -> Released:
    """What a reader takes, from the results of its questions, if any were asked."""
    if isinstance(need, CategoriesNeed):
        # As many usual labels as the histogram can tell apart, and as many again.
        return (cast(tuple[str, ...], found[0]) if found else ()) or need.usual[: 2 * cells]
    answers = [
        Answer.of(session, part, question, result)
        for (part, question), result in zip(questions, found, strict=True)
    ]
    if isinstance(need, DecimalsNeed):
        return decimals(need, answers)
    return bounds(answers, cells) or replace(need.usual, cells=cells)


def decimals(need: DecimalsNeed, answers: list[Answer]) -> Decimals:
    """The number of decimals that nearly all values do with; None if no values are seen."""
    if not answers:
        return Decimals(None)
    usual = need.told.index(need.usual)
    place = find_decimals(answers[0].noisy, answers[0].sd, usual)
    return Decimals(None if place is None else need.told[place])


def bounds(answers: list[Answer], cells: int) -> Bounds | None:
    """A range by one histogram, or by one of few cells and one of many; None if none is seen."""
    if not answers:
        return None
    wide = answers[0]
    need, noisy, sd = cast(BoundsNeed, wide.need), wide.noisy, wide.sd
    ends = find_range(noisy, sd, narrow=not need.dear)
    if ends is None:
        return None
    if (told := need.told_cells) is not None:
        ends = as_told(noisy, sd, ends, told, whole=need.told)
    ends = _from_zero(need, noisy, sd, *ends)
    for close in answers[1:]:
        held = float(noisy[ends[0] : ends[1] + 1].sum())
        within = _closely(need.between(*ends, np.ones(len(noisy), np.int64), cells), close, held)
        if within is not None:
            need, noisy, sd, ends = cast(BoundsNeed, close.need), close.noisy, close.sd, within
    return need.between(*ends, cut(noisy, sd, *ends, cells), cells)


def _closely(wide: Bounds, close: Answer, held: float) -> tuple[int, int] | None:
    """The cells that hold nearly all rows of a wider range, by the histogram of more cells."""
    points = close.need.candidates
    first = int(np.searchsorted(points, wide.lo, side="right"))
    last = int(np.searchsorted(points, wide.hi))
    found = find_within(close.noisy[first : last + 1], close.sd, held)
    return None if found is None else (first + found[0], first + found[1])


def _from_zero(
    need: BoundsNeed, noisy: Floats, sd: float, first: int, last: int
) -> tuple[int, int]:
    """The cells of a range, from zero on where nothing is seen below it.

    A run of cells that tells a range only as a whole may begin anywhere: prices below zero are no
    fair guess.
    """
    zero = int(np.searchsorted(need.candidates, 0))
    known = zero < len(need.candidates) and need.candidates[zero] == 0
    if need.dear or not known or not first <= zero < last:
        return first, last
    below = noisy[first : zero + 1]
    seen = float(below.sum()) > _CLEAR * sd * len(below) ** 0.5
    return (first, last) if seen else (zero + 1, last)
