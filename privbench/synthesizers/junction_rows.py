"""Measuring attributes of owned tables by rows, beside by units (`learning.junction.byrows`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from privbench.domain import Codes
from privbench.learning.junction.byrows import MOST, PART, RowLaw, choose_clip, groups, row_law
from privbench.learning.junction.context import Variable
from privbench.learning.junction.given import Ints
from privbench.learning.junction.pullfit import telling
from privbench.learning.shares import rows_item
from privbench.privacy import DatabaseSpec, Measurement, noise_sd
from privbench.privacy.queries import Axis, Histogram
from privbench.privacy.units import bound
from privbench.synthesizers.common import Fitting


def may_count_rows(spec: DatabaseSpec, table: str) -> bool:
    """Whether a table's attributes may be measured by rows: it is owned, its rows are weighed."""
    found = spec.tables[table]
    told = any(domain.size > 1 for domain in found.attributes.values())
    return found.own is not None and told and found.bound == "weights"


def find_clip(fitting: Fitting, table: str, units: Ints, part: float) -> int | None:
    """τ of a table's laws by rows; None where none are worth their amount.

    Args:
        fitting: Gives the amounts.
        table: The table.
        units: Number of rows of every synthetic row's unit, shape (rows,).
        part: Part of the whole table that the synthetic rows are.
    """
    if not may_count_rows(fitting.spec, table):
        return None
    amount, accounting = fitting.amounts.get(rows_item(table), 0.0), fitting.start.accounting
    if amount <= 0:
        return None
    # The noise of the whole amount, which can be asked for, then that of a part of it.
    sd = noise_sd(Histogram.of(fitting.spec, table, []), fitting.spec, amount, accounting)
    sd *= (MOST / PART) ** (1.0 if accounting == "pure" else 0.5)
    return choose_clip(units, bound(fitting.spec, table), sd * part)


def measure_by_rows(
    fitting: Fitting,
    table: str,
    variables: Sequence[Variable],
    codes: Mapping[str, Codes],
    units: Ints,
    part: float,
    clip: int,
) -> tuple[RowLaw, ...]:
    """Measure the variables that say most about the others, rows weighed up to the clip.

    Args:
        fitting: Session and amounts.
        table: The table.
        variables: Variables of its rows.
        codes: Their codes in synthetic rows.
        units: Number of rows of every synthetic row's unit, shape (rows,).
        part: Part of the whole table that the synthetic rows are.
        clip: What `find_clip` gave.
    """
    chosen = telling([item for item in variables if not item.early], codes, MOST)
    if not chosen:
        return ()
    weights = np.minimum(units, clip) / (units * clip * part)
    amount = fitting.amounts[rows_item(table)] * PART / len(chosen)
    questions, expected, ofs = [], [], []
    for number, item in enumerate(chosen):
        bins = item.bins.of[codes[item.name]]
        counts = np.bincount(bins, weights, item.bins.size).astype(np.float64)
        of = np.arange(item.bins.size) if item.key else groups(counts, item.ordered)
        query = Histogram(table, (item.binned(of[item.bins.of]),), tau=clip)
        questions.append(Measurement(query, amount, _label(table, number)))
        expected.append(np.bincount(of, counts).astype(np.float64))
        ofs.append(of)
    answers = fitting.measure_all(questions)
    return tuple(
        row_law(
            variables.index(item),
            of,
            noisy.ravel(),
            due,
            int(of[: item.ordered].max(initial=-1)) + 1,
            sd,
            fitting.noise,
        )
        for item, of, due, (noisy, sd) in zip(chosen, ofs, expected, answers, strict=True)
    )


def planned_by_rows(
    spec: DatabaseSpec, table: str, axes: Sequence[Axis]
) -> Iterator[tuple[str, Histogram, float]]:
    """The events of `measure_by_rows`, at most: label, query, part of the table's amount.

    Args:
        spec: What is public.
        table: The table.
        axes: Axes of its variables but numbers of children, at their largest.
    """
    largest = sorted(axes, key=lambda axis: -axis.size)[:MOST]
    for number, axis in enumerate(largest):
        yield _label(table, number), Histogram(table, (axis,)), PART / len(largest)


def _label(table: str, number: int) -> str:
    return f"by rows {number + 1} of {table}"
