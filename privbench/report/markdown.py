"""The short form of a report in Markdown, for logs, tickets and terminals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privbench.report.document import ComparisonDocument, GatePart
from privbench.report.figures import at
from privbench.report.headlines import headlines
from privbench.report.summary import failed
from privbench.report.text import few, number, percent, seconds

_WORST = 5
#: Figures whose drift is shown.
_DRIFTING = (
    "qerror.p50", "qerror.p95", "runtime.p50", "runtime.floor.p50", "work.blocks.p50",
    "plan.agreement", "kld.2", "kld.3", "stats.n_distinct.p50", "rows.max_difference",
)  # fmt: skip
#: Spreads that are shown below those of the Q-error, and where they stand in the document.
_SPREADS = {
    "Q-error by weights": "qerror.weighted",
    "Q-error, re-bound by rank": "rebound.qerror.overall",
    "run time discrepancy, %": "runtime.overall",
    "noise floor, %": "runtime.floor",
    "run time discrepancy by weights, %": "runtime.weighted",
    "work discrepancy, blocks, %": "work.blocks",
    "work discrepancy, rows, %": "work.rows",
    "work discrepancy, spilled blocks, %": "work.spill",
    "Q-error of operators": "plans.operators",
    "distinct values by pg_stats, Q-error": "statistics.n_distinct",
}


def render(document: ComparisonDocument) -> str:
    """The Markdown text."""
    blocks = [
        "# Comparison of a clone with its source",
        f"> **CONFIDENTIAL.** {document.confidential}",
        _sentence(document),
        *(
            f"**Warning:** {side.warning}"
            for side in (document.source, document.clone)
            if side.warning
        ),
        _table(
            ("figure", "value", "verdict", ""),
            ((h.title, h.value, h.grade or "", h.aside) for h in headlines(document)),
        ),
        _gates(document),
        _failed(document),
        _spread(document),
        _rebound(document),
        _plans(document),
        _load(document),
        _divergence(document),
        _worst(document),
        _drift(document),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _sentence(document: ComparisonDocument) -> str:
    return (
        f"Workload `{document.workload.name}` of {document.workload.queries} queries on "
        f"`{document.source.database}` (PostgreSQL {document.source.version}) and its clone "
        f"`{document.clone.database}` (PostgreSQL {document.clone.version}), "
        f"{document.created:%Y-%m-%d %H:%M} UTC, privbench {document.privbench}."
    )


def _gates(document: ComparisonDocument) -> str:
    if not document.gates:
        return ""
    rows = ((f"`{gate.condition}`", number(gate.figure), _verdict(gate)) for gate in document.gates)
    return _table(("fail if", "figure", ""), rows)


def _verdict(gate: GatePart) -> str:
    if not gate.failed:
        return "passed"
    return f"**failed** {few(gate.queries)}".rstrip()


def _failed(document: ComparisonDocument) -> str:
    rows = [
        (f"{len(ids)} on the {side}", reason, few(ids)) for side, reason, ids in failed(document)
    ]
    return _table(("queries without an answer", "reason", ""), rows) if rows else ""


def _spread(document: ComparisonDocument) -> str:
    points = ("n", "mean", "p50", "p75", "p90", "p95", "p99", "max")
    joins = {f"Q-error, {n} joins": part for n, part in document.qerror.by_joins.items()}
    others = {label: at(document, place) for label, place in _SPREADS.items()}
    rows = (
        (name, *(number(getattr(part, point)) for point in points))
        for name, part in {"Q-error": document.qerror.overall, **joins, **others}.items()
        if part is not None
    )
    return _table(("", *points), rows)


def _rebound(document: ComparisonDocument) -> str:
    part = document.rebound
    if part is None:
        return ""
    return (
        f"{len(part.queries)} queries were re-bound by rank: {document.qerror.clone_zero} answers "
        f"of 0 as written, {part.qerror.clone_zero} re-bound. **CONFIDENTIAL.** {part.confidential}"
    )


def _plans(document: ComparisonDocument) -> str:
    lines = []
    if document.runtime.beyond_floor is not None:
        lines.append(
            f"{percent(document.runtime.beyond_floor)} of the queries are further from the source "
            "than the source is from itself (50 % for identical databases)."
        )
    if document.plans is not None:
        lines.append(
            f"Same plan for {percent(document.plans.same)} of {document.plans.queries} queries, "
            f"same join order for {percent(document.plans.same_join_order)}."
        )
    absent = document.statistics.absent if document.statistics else {}
    lines += [
        f"No statistics on the {side}: {', '.join(tables)}; run ANALYZE there."
        for side, tables in absent.items()
    ]
    return "\n".join(lines)


def _load(document: ComparisonDocument) -> str:
    if document.load is None:
        return ""
    rows = (
        (
            side,
            number(part.median_throughput),
            seconds(part.latency.p50 if part.latency else None),
            number(part.failed),
        )
        for side, part in document.load.sides.items()
    )
    return _table(
        (f"{document.load.clients} clients", "queries a second", "median latency", "failed"), rows
    )


def _divergence(document: ComparisonDocument) -> str:
    rows = (
        (
            table.name,
            number(table.source_rows),
            number(table.clone_rows),
            *(
                number(part.kld if part else None)
                for part in map(table.divergence.get, ("2", "3", "4"))
            ),
        )
        for table in document.tables
    )
    return _table(("table", "rows", "clone's rows", "2-way KLD", "3-way", "4-way"), rows)


def _worst(document: ComparisonDocument) -> str:
    wrong = [query for query in document.queries if query.qerror is not None and query.qerror > 1]
    worst = sorted(wrong, key=lambda query: -(query.qerror or 0))[:_WORST]
    rows = (
        (query.id, number(query.qerror), number(query.source.rows), number(query.clone.rows))
        for query in worst
    )
    return _table(("worst query", "Q-error", "true", "clone"), rows) if worst else ""


def _drift(document: ComparisonDocument) -> str:
    drift = document.drift
    if drift is None:
        return ""
    told = f"Against the comparison of {drift.created}, privbench {drift.privbench}:"
    if not drift.same_workload:
        told = f"**Another workload**, matched by id and text. {told}"
    rows = (
        (f"`{name}`", number(part.old), number(part.new), number(part.ratio))
        for name in _DRIFTING
        if (part := drift.figures.get(name)) is not None and part.ratio is not None
    )
    worse = (
        (part.query, part.figure, number(part.old), number(part.new))
        for part in drift.regressions[:_WORST]
    )
    return "\n\n".join(
        [
            told,
            _table(("figure", "then", "now", "ratio"), rows),
            f"Worse queries: {len(drift.regressions)}.",
            *([_table(("query", "figure", "then", "now"), worse)] if drift.regressions else []),
        ]
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
