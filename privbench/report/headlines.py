"""The figures that a reader sees first, in sentences, and short reports of them.

Short reports are a few lines of plain text for terminals, and Markdown for logs and tickets.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privbench import display
from privbench.metrics import Grade, Metric
from privbench.metrics.fidelity import FEW_ROWS
from privbench.metrics.kld import KLD
from privbench.metrics.qerror import QERROR
from privbench.metrics.values import VALUES
from privbench.metrics.work import RUNTIME, WORK
from privbench.report.document import ComparisonDocument, GatePart
from privbench.report.figures import counted, learned, rows_apart
from privbench.report.query_parts import CLONE, SOURCE
from privbench.report.templates import template
from privbench.report.text import few, number, per_cent, percent, seconds
from privbench.workload.query import Refusal
from privbench.workload.results import failures
from privbench.workload.safety import line

#: Seconds below which a run time depends more on machine and network than on the plan.
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
    figure: str = ""  # name of the figure itself; empty for what is counted

    @property
    def aside(self) -> str:
        """The further figures in one line."""
        return "; ".join(text for text, _ in self.asides)


def headlines(document: ComparisonDocument) -> list[Headline]:
    """Return the figures that summarise the comparison, metrics first."""
    lines = [_qerror(document), _runtime(document)] if document.queries else []
    lines += [_work(document)] if document.work else []
    lines += [_values(document), _kld(document)]
    lines += [_plans(document)] if document.plans else []
    return [*lines, _integrity(document), _rows(document)]


def _metric(
    document: ComparisonDocument,
    metric: Metric,
    title: str,
    grade: Grade | None,
    *asides: tuple[str, str],
) -> Headline:
    value = document.figures.get(metric.headline)
    text = "–" if value is None else f"{number(value)} {metric.unit}".rstrip()
    return Headline(title, text, grade, metric.meaning, asides, metric.headline)


def _qerror(document: ComparisonDocument) -> Headline:
    figures = document.figures
    asides = [(f"95 % within {number(figures['qerror.p95'])} ×", "qerror.p95")]
    worst = max(document.queries, key=lambda query: query.qerror or 0)
    if worst.qerror:
        asides.append((f"worst: {worst.id}, {number(worst.qerror)} ×", "qerror.max"))
    if empty := figures["qerror.clone_zero"]:
        asides.append((f"{number(empty)} find nothing on the clone alone", "qerror.clone_zero"))
    if limited := sum(query.limited for query in document.queries):
        asides.append((f"{limited} end by LIMIT, which bounds both answers", ""))
    grade = QERROR.grade(figures.get(QERROR.headline))
    return _metric(document, QERROR, "Q-error, median", grade, *asides)


def _runtime(document: ComparisonDocument) -> Headline:
    figures, title = document.figures, "Runtime discrepancy, median"
    slow = max(document.queries, key=lambda query: query.weight * (query.source.median or 0))
    times = f"{seconds(slow.source.median)}, clone {seconds(slow.clone.median)}"
    longest = (f"most time: {slow.id}, {times}", "")
    if _too_short(document):
        reason = "not graded: most queries take under 1 ms, by the same plan on both sides"
        return _metric(document, RUNTIME, title, None, (reason, ""), longest)
    grade = _beyond_noise(document)
    floor, beyond = figures.get("runtime.floor.p50"), figures.get("runtime.beyond_floor")
    if floor is None:
        tail = f"95th percentile {number(figures['runtime.p95'])} %"
        return _metric(document, RUNTIME, title, grade, (tail, "runtime.p95"), longest)
    asides = [(f"noise floor, source against itself: {number(floor)} %", "runtime.floor.p50")]
    if beyond is not None:
        text = f"{percent(beyond)} of the queries beyond it (an identical database: about 50 %)"
        asides.append((text, "runtime.beyond_floor"))
    return _metric(document, RUNTIME, title, grade, *asides, longest)


def _beyond_noise(document: ComparisonDocument) -> Grade | None:
    """The grade of run times, by the part of their discrepancy that exceeds the noise floor.

    If nothing exceeds it, a small discrepancy is good, and a large one has no grade, since the
    machine is too noisy to judge. The excess is what remains of the discrepancy when independent
    noise of the floor's size is removed.
    """
    value, floor = (document.figures.get(name) for name in (RUNTIME.headline, "runtime.floor.p50"))
    grade = RUNTIME.grade(value)
    if value is None or floor is None or grade == "good":
        return grade
    if value <= floor or not _is_beyond(document):
        return None
    return RUNTIME.grade(math.sqrt(value**2 - floor**2))


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


def _is_beyond(document: ComparisonDocument) -> bool:
    """Whether more queries are beyond their floor than two standard deviations of chance allow."""
    share, queries = document.runtime.beyond_floor, document.runtime.floor
    if share is None or queries is None:
        return True
    return share > 0.5 + 1 / math.sqrt(queries.n)


def _values(document: ComparisonDocument) -> Headline:
    worst = max(((table.worst, table.name) for table in learned(document.tables)), default=None)
    asides = []
    if worst:
        (error, kind, place), table = worst
        asides.append(
            (f"worst: {f'{table} {place}'.strip()}: {kind.split('.')[1]} {number(error)}", "")
        )
    grade = VALUES.grade(document.figures[VALUES.headline])
    return _metric(document, VALUES, "Values, median column", grade, *asides)


def _kld(document: ComparisonDocument) -> Headline:
    """The headline of the 2-way KLD; it has no grade where all tables are too small."""
    figures = document.figures
    asides = [(f"2-way total variation distance {number(figures['tvd.2'])}", "tvd.2")]
    apart = [
        (t.divergence["2"].kld, t.name) for t in learned(document.tables) if "2" in t.divergence
    ]
    if apart:
        asides.append((f"worst: {max(apart)[1]}", ""))
    private = [table for table in document.tables if not table.public]
    small = sum(table.source_rows < FEW_ROWS for table in private)
    if small:
        asides.append((f"{_tables(small)} under {FEW_ROWS} rows left out", ""))
    grade = KLD.grade(figures.get(KLD.headline)) if small < len(private) else None
    return _metric(document, KLD, "2-way KLD, mean", grade, *asides)


def _work(document: ComparisonDocument) -> Headline:
    """Work discrepancy; it has no grade, since the workload decides how much of it matters."""
    rows = f"rows through the plans: {number(document.figures.get('work.rows.p50'))} %"
    return _metric(document, WORK, "Work discrepancy, median", None, (rows, "work.rows.p50"))


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
    text, aside = "–", "the schema has no constraint"
    grade: Grade | None = None
    if total:
        text, grade = f"{total - broken} of {total}", "poor" if broken else "good"
        aside = f"violated: {broken}" if broken else "no violation"
    return Headline(
        "Integrity",
        text,
        grade,
        "Keys, references, NOT NULL and CHECK constraints of the schema that hold in the clone.",
        ((aside, ""),),
    )


def _rows(document: ComparisonDocument) -> Headline:
    value = document.figures.get("rows.max_difference")
    grade: Grade | None = None
    if value is not None:
        grade = "good" if value <= 5 else "fair" if value <= 20 else "poor"
    total = sum(table.source_rows for table in document.tables)
    worst = max(counted(document.tables), key=rows_apart, default=None)
    aside = (f"{worst.name}; " if worst else "") + number(total)
    source = sum(sum(table.source_bytes) for table in document.tables) / 1e6
    clone = sum(sum(table.clone_bytes) for table in document.tables) / 1e6
    on_disk = f"on disk {number(source)} MB, clone {number(clone)} MB"
    return Headline(
        "Row counts, worst table",
        per_cent(value),
        grade,
        "The largest difference between a table's number of rows in the clone and in the source.",
        ((f"{aside} rows in the source, {_tables(len(document.tables))}", ""), (on_disk, "")),
        "rows.max_difference",
    )


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"


#: Queries that are listed.
_WORST = 5


def markdown(document: ComparisonDocument) -> str:
    """Return the short report in Markdown."""
    wrong = [query for query in document.queries if query.qerror is not None and query.qerror > 1]
    return template("report.md.j2").render(
        document=document,
        headlines=headlines(document),
        failed=failed(document),
        worst=sorted(wrong, key=lambda query: -(query.qerror or 0))[:_WORST],
    )


def summary(document: ComparisonDocument) -> display.Lines:
    """Return the short report: failures first, a line for each headline, then the rest.

    Failures are failed gates and queries without an answer. A headline has a title, a figure, a
    grade and further figures. The report holds exact figures of the source: CONFIDENTIAL.
    """
    rows = [(line.title, line.value, line.grade or "", line.aside) for line in headlines(document)]
    lines = [gate_line(gate) for gate in document.gates if gate.failed]
    lines += [
        f"{len(ids)} of {document.workload.queries} queries on the {side}: {reason}: {few(ids)}"
        for side, reason, ids in failed(document)
    ]
    lines += display.table(rows, "1", indent=0)
    workload = document.workload
    lines += left_out(workload.name, workload.refused, workload.changed)
    lines += [gate_line(gate) for gate in document.gates if not gate.failed]
    return display.lines(*lines)


def left_out(workload: str, refused: Sequence[Refusal], changed: Mapping[str, str]) -> list[str]:
    """Return lines on what was not run of a workload: whole queries, and words of others."""
    lines = [f"left out: {line(item, workload)}" for item in refused]
    return lines + [f"query {name} ran without {words}" for name, words in changed.items()]


def failed(document: ComparisonDocument) -> list[tuple[str, str, list[str]]]:
    """Return side, reason and ids of queries without an answer."""
    return [
        (side, reason, ids)
        for side in (SOURCE, CLONE)
        for reason, ids in failures(
            (query.id, part.status, part.message)
            for query in document.queries
            for part in [query.source if side == SOURCE else query.clone]
        )
    ]


def gate_line(gate: GatePart) -> str:
    """Return a gate's result as a line."""
    verdict = "FAILED" if gate.failed else "passed"
    return f"gate {verdict}: fail if {gate.condition} (it is {number(gate.figure)})"
