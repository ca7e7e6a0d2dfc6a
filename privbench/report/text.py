"""Numbers and headline sentences for people."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privbench.metrics import METRICS, Grade
from privbench.report.document import ComparisonDocument


def number(value: float | None) -> str:
    """Three significant digits, thousands set apart; a dash for nothing.

    >>> number(1234567), number(3.14159), number(0.000123), number(None), number(2.0)
    ('1,234,567', '3.14', '0.000123', '–', '2')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == int(value) or abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.3g}"


def seconds(value: float | None) -> str:
    """A run time in a fitting unit.

    >>> seconds(0.00042), seconds(0.25), seconds(61.2), seconds(None)
    ('0.42 ms', '250 ms', '61.2 s', '–')
    """
    if value is None:
        return "–"
    return f"{number(1000 * value)} ms" if value < 1 else f"{number(value)} s"


def percent(value: float | None) -> str:
    """A share as per cent.

    >>> percent(0.1234), percent(0)
    ('12.3 %', '0 %')
    """
    return "–" if value is None else f"{number(100 * value)} %"


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure that a reader sees first.

    Attributes:
        title: What it is.
        value: The figure with its unit.
        grade: The figure in a word.
        meaning: One sentence for those who do not know it.
        aside: A further figure.
        figure: Name of the figure, in the document's table of figures; empty for what is counted.
        aside_figure: Name of the further figure, where there is one.
    """

    title: str
    value: str
    grade: Grade | None
    meaning: str
    aside: str
    figure: str = ""
    aside_figure: str = ""


def headlines(document: ComparisonDocument) -> list[Headline]:
    """The figures that stand for the whole comparison, metrics first."""
    found = [_metric(document, name) for name in ("qerror", "runtime")]
    found += [_work(document)] if document.work else []
    found.append(_metric(document, "kld"))
    found += [_plans(document)] if document.plans else []
    return [*found, _integrity(document), _rows(document)]


def _metric(document: ComparisonDocument, name: str) -> Headline:
    metric = next(metric for metric in METRICS if metric.name == name)
    value = document.figures.get(metric.headline)
    titles = {
        "qerror": "Q-error, median",
        "runtime": "Runtime discrepancy, median",
        "kld": "2-way KLD, mean",
    }
    shown = "–" if value is None else f"{number(value)}{_unit(metric.unit)}"
    grade = None if value is None else metric.grade(value)
    aside, further = _aside(document, name)
    return Headline(titles[name], shown, grade, metric.meaning, aside, metric.headline, further)


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def _aside(document: ComparisonDocument, name: str) -> tuple[str, str]:
    """A further figure in words, and its name."""
    figures = document.figures
    if name == "qerror":
        return f"95 % of the queries are within {number(figures['qerror.p95'])} ×", "qerror.p95"
    if name == "runtime":
        floor = figures.get("runtime.floor.p50")
        if floor is not None:
            said = f"noise floor, source against itself: {number(floor)} %"
            return said, "runtime.floor.p50"
        return f"95th percentile {number(figures['runtime.p95'])} %", "runtime.p95"
    return f"2-way total variation distance {number(figures['tvd.2'])}", "tvd.2"


def _work(document: ComparisonDocument) -> Headline:
    """No grade: the noise floor of work is 0, and how much of it matters is the workload's."""
    value = document.figures.get("work.blocks.p50")
    rows = document.figures.get("work.rows.p50")
    return Headline(
        "Work discrepancy, median",
        "–" if value is None else f"{number(value)} %",
        None,
        "How far the blocks that a query reads in the clone differ from those in the source. "
        "Unlike run time, this has next to no noise.",
        f"rows through the plans: {number(rows)} %",
        "work.blocks.p50",
        "work.rows.p50",
    )


def _plans(document: ComparisonDocument) -> Headline:
    value = document.figures.get("plan.agreement")
    order = document.figures.get("plan.join_order")
    return Headline(
        "Same plan",
        "–" if value is None else percent(value),
        None,
        "Queries that the planner runs with the same operators and join order on both sides.",
        f"same join order: {'–' if order is None else percent(order)}",
        "plan.agreement",
        "plan.join_order",
    )


def _integrity(document: ComparisonDocument) -> Headline:
    broken = sum(check.violations > 0 for check in document.integrity)
    total = len(document.integrity)
    grade: Grade | None = None
    if total:
        grade = "good" if broken == 0 else "poor"
    return Headline(
        "Integrity",
        f"{total - broken} of {total}" if total else "–",
        grade,
        "Keys, references, NOT NULL and CHECK constraints of the schema that hold in the clone.",
        _violated(total, broken),
    )


def _violated(total: int, broken: int) -> str:
    if total == 0:
        return "the schema has no constraint"
    return "no violation" if broken == 0 else f"violated: {broken}"


def _rows(document: ComparisonDocument) -> Headline:
    value = document.figures.get("rows.max_difference")
    grade: Grade | None = None
    if value is not None:
        grade = "good" if value <= 5 else "fair" if value <= 20 else "poor"
    total = sum(table.source_rows for table in document.tables)
    return Headline(
        "Row counts, worst table",
        "–" if value is None else f"{number(value)} %",
        grade,
        "The largest difference between a table's number of rows in the clone and in the source.",
        f"{number(total)} rows in the source, {_tables(len(document.tables))}",
        "rows.max_difference",
    )


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"
