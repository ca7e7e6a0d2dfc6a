"""The figures that a reader sees first, in sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privbench.metrics import METRICS, Grade, Metric
from privbench.metrics.fidelity import FEW_ROWS
from privbench.report.document import ComparisonDocument
from privbench.report.text import number, per_cent, percent

#: Seconds below which a run time is the machine's and the network's more than the plan's.
_SHORT = 0.001


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure that a reader sees first."""

    title: str  # what it is
    value: str  # the figure with its unit
    grade: Grade | None  # the figure in a word
    meaning: str  # one sentence for those who do not know it
    # Further figures, each with its name in the document's table of figures; the name is
    # empty for what is counted.
    asides: tuple[tuple[str, str], ...]
    figure: str = ""  # name of the figure itself; empty likewise

    @property
    def aside(self) -> str:
        """The further figures in one line."""
        return "; ".join(text for text, _ in self.asides)


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
    shown = "–" if value is None else f"{number(value)} {metric.unit}".rstrip()
    grade = None if value is None else _grade(document, metric, value)
    return Headline(
        titles[name], shown, grade, metric.meaning, _asides(document, name), metric.headline
    )


def _grade(document: ComparisonDocument, metric: Metric, value: float) -> Grade | None:
    """Run times are graded by what lies beyond their noise floor.

    Where nothing does, a small discrepancy is good, and a large one says that the machine is too
    noisy to tell: no grade. The rest is what is left of the discrepancy when independent noise of
    the floor's size is taken out. Nor is there a grade where the median is that of queries too
    short to be timed, or where all tables are too small to have a distribution.
    """
    if metric.name == "kld" and _small(document) == len(document.tables):
        return None
    if metric.name == "runtime" and _too_short(document):
        return None
    grade, floor = metric.grade(value), document.figures.get("runtime.floor.p50")
    if metric.name != "runtime" or floor is None or grade == "good":
        return grade
    if value <= floor or not _is_beyond(document):
        return None
    return metric.grade(math.sqrt(value**2 - floor**2))


def _too_short(document: ComparisonDocument) -> bool:
    """Whether most queries take under a millisecond on both sides, by the same plan."""
    timed = [query for query in document.queries if query.runtime is not None]
    short = [
        query
        for query in timed
        if query.work is not None
        and query.work.same_plan
        and max(query.source.median or 0, query.clone.median or 0) < _SHORT
    ]
    return 2 * len(short) > len(timed)


def _small(document: ComparisonDocument) -> int:
    """Tables with too few rows for a distribution."""
    return sum(table.source_rows < FEW_ROWS for table in document.tables)


def _is_beyond(document: ComparisonDocument) -> bool:
    """Whether more queries are beyond their floor than two standard deviations of chance allow."""
    share, queries = document.runtime.beyond_floor, document.runtime.floor
    if share is None or queries is None:
        return True
    return share > 0.5 + 1 / math.sqrt(queries.n)


def _asides(document: ComparisonDocument, name: str) -> tuple[tuple[str, str], ...]:
    """Further figures in words, and their names."""
    figures = document.figures
    if name == "qerror":
        within = f"95 % of the queries are within {number(figures['qerror.p95'])} ×"
        again = f"re-bound by rank {number(figures['qerror.rebound.p50'])} ×, CONFIDENTIAL"
        both = ((within, "qerror.p95"), (again, "qerror.rebound.p50"))
        return both if document.rebound else both[:1]
    if name == "kld":
        told = [(f"2-way total variation distance {number(figures['tvd.2'])}", "tvd.2")]
        small = _small(document)
        if small:
            told.append((f"{_tables(small)} under {FEW_ROWS} rows left out", ""))
        return tuple(told)
    floor = figures.get("runtime.floor.p50")
    if _too_short(document):
        return (("not graded: most queries take under 1 ms, by the same plan on both sides", ""),)
    if floor is None:
        return ((f"95th percentile {number(figures['runtime.p95'])} %", "runtime.p95"),)
    said = [(f"noise floor, source against itself: {number(floor)} %", "runtime.floor.p50")]
    beyond = figures.get("runtime.beyond_floor")
    if beyond is not None:
        text = f"{percent(beyond)} of the queries beyond it (an identical database: about 50 %)"
        said.append((text, "runtime.beyond_floor"))
    return tuple(said)


def _work(document: ComparisonDocument) -> Headline:
    """No grade: the noise floor of work is 0, and how much of it matters is the workload's."""
    value = document.figures.get("work.blocks.p50")
    rows = document.figures.get("work.rows.p50")
    return Headline(
        "Work discrepancy, median",
        per_cent(value),
        None,
        "How far the blocks that a query reads in the clone differ from those in the source. "
        "Unlike run time, this has next to no noise.",
        ((f"rows through the plans: {number(rows)} %", "work.rows.p50"),),
        "work.blocks.p50",
    )


def _plans(document: ComparisonDocument) -> Headline:
    value = document.figures.get("plan.agreement")
    order = document.figures.get("plan.join_order")
    return Headline(
        "Same plan",
        percent(value),
        None,
        "Queries that the planner runs with the same operators and join order on both sides.",
        ((f"same join order: {percent(order)}", "plan.join_order"),),
        "plan.agreement",
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
        ((_violated(total, broken), ""),),
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
        per_cent(value),
        grade,
        "The largest difference between a table's number of rows in the clone and in the source.",
        ((f"{number(total)} rows in the source, {_tables(len(document.tables))}", ""),),
        "rows.max_difference",
    )


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"
