"""Sections that only hand parts of the document to their templates, in the order of the page."""

from __future__ import annotations

from collections import Counter

from privbench.metrics.statistics import StatisticPart
from privbench.report.document import ComparisonDocument
from privbench.report.headlines import headlines
from privbench.report.sections.base import Section
from privbench.report.sections.qerror import joins_label


def _headline(document: ComparisonDocument) -> dict[str, object]:
    replay = document.replay
    return {
        "headlines": headlines(document),
        "timeouts": replay.timeouts,
        "errors": replay.errors,
        "troubled": any([*replay.timeouts.values(), *replay.errors.values(), replay.truncated]),
    }


HEADLINE = Section(
    name="headline",
    title="At a glance",
    intro="How close the clone is to its source, each figure with what it means.",
    values=_headline,
)


_DRIFT_SHOWN = 30
# Ends of the figures that a reader looks at first; all of them are in comparison.json.
_SHORT = (".p50", ".p95", ".2", ".3", ".4", ".agreement", ".violations", ".max_difference")


def _drift(document: ComparisonDocument) -> dict[str, object] | None:
    drift = document.drift
    if drift is None:
        return None
    shown = [
        n for n, part in drift.figures.items() if n.endswith(_SHORT) and part.change is not None
    ]
    return {"drift": drift, "names": shown, "regressions": drift.regressions[:_DRIFT_SHOWN]}


DRIFT = Section(
    name="drift",
    title="Against the baseline",
    intro="What has changed since an earlier comparison.",
    values=_drift,
)


_WORST_SHOWN = 10
# Longer than this, a query's text is folded.
_LONG = 1500


def _worst(document: ComparisonDocument) -> dict[str, object] | None:
    numbered = list(enumerate(document.queries))
    wrong = [(i, query) for i, query in numbered if query.qerror is not None and query.qerror > 1]
    failed = [q for q in document.queries if {q.source.status, q.clone.status} != {"ok"}]
    if not wrong and not failed:
        return None
    worst = sorted(wrong, key=lambda item: -(item[1].qerror or 0))
    return {
        "worst": worst[:_WORST_SHOWN],
        "failed": failed[:_WORST_SHOWN],
        "failures": len(failed),
        "long": _LONG,
    }


WORST = Section(
    name="worst",
    title="Worst queries",
    intro="Where the clone is furthest from the source: start here when a figure disappoints. "
    "Plans are as they ran, with the rows that came out of each node (all loops together) and "
    "those that the planner expected.",
    values=_worst,
)


def _load(document: ComparisonDocument) -> dict[str, object] | None:
    if document.load is None:
        return None
    return {
        "load": document.load,
        "sides": [(name, ("load", "sides", name, "latency")) for name in document.load.sides],
        "lines": [
            ("latency, source against clone", ("load", "latency")),
            ("noise floor: source against itself", ("load", "latency_floor")),
        ],
    }


LOAD = Section(
    name="load",
    title="Under load",
    intro="Several clients ran the workload at once, on one side at a time, in turns.",
    values=_load,
)


def _work(document: ComparisonDocument) -> dict[str, object] | None:
    if document.work is None or document.plans is None:
        return None
    return {
        "work": [
            ("shared blocks, hit or read", ("work", "blocks")),
            ("↳ by weight", ("work", "blocks_weighted")),
            ("rows through all plan nodes", ("work", "rows")),
            ("local and temporary blocks", ("work", "spill")),
            ("planning time", ("plans", "planning")),
            ("execution time, on the server", ("plans", "execution")),
        ],
        "estimates": [
            ("rows of matched nodes, source against clone", ("plans", "operators")),
            ("planner’s estimates on the source", ("plans", "source_estimates")),
            ("planner’s estimates on the clone", ("plans", "clone_estimates")),
        ],
        "joins": [(joins_label(name), name) for name in document.plans.same_by_joins],
    }


WORK = Section(
    name="work",
    title="Does the server do the same work?",
    intro="Run times wobble; the blocks that a query touches and the rows that pass through its "
    "plan hardly do. Every query was explained once on each side while it ran.",
    values=_work,
)


def _tables(document: ComparisonDocument) -> dict[str, object] | None:
    if not document.tables:
        return None
    return {
        "tables": document.tables,
        "ways": ("2", "3", "4"),
        "sampled": any(
            part.sets < part.of for table in document.tables for part in table.divergence.values()
        ),
    }


TABLES = Section(
    name="tables",
    title="Tables: size and joint distributions",
    intro="Rows of each table on both sides, and how far the distributions of every 2, 3 and 4 "
    "columns taken together are apart: λ-way KLD, and below it the total variation distance. "
    "Both are 0 for equal distributions; single values matter less than how they compare with an "
    "earlier clone of the same source.",
    values=_tables,
)


_STATISTICS_SHOWN = 200


def _statistics(document: ComparisonDocument) -> dict[str, object] | None:
    found = document.statistics
    if found is None:
        return None
    order = sorted(range(len(found.columns)), key=lambda i: -_badness(found.columns[i]))
    kinds = {
        "n_distinct": ("distinct values, Q-error", "number"),
        "null_frac": ("share of NULL, difference", "number"),
        "mcv": ("most common values, 1 − overlap", "number"),
        "correlation": ("physical order, difference", "number"),
        "avg_width": ("average width, difference in %", "number"),
    }
    return {
        "statistics": found,
        "lines": [(label, ("statistics", name)) for name, (label, _) in kinds.items()],
        "order": order[:_STATISTICS_SHOWN],
        "more": max(0, len(order) - _STATISTICS_SHOWN),
    }


def _badness(part: StatisticPart) -> float:
    """What the planner would notice first: the sum of the differences, each near 0 to 1."""
    return (
        1 - 1 / max(part.n_distinct, 1.0)
        + part.null_frac
        + (part.mcv or 0.0)
        + (part.correlation or 0.0) / 2
    )  # fmt: skip


STATISTICS = Section(
    name="statistics",
    title="Does the planner see the same statistics?",
    intro="The rows of pg_stats of every column on both sides, from the last ANALYZE.",
    values=_statistics,
)


def _integrity(document: ComparisonDocument) -> dict[str, object] | None:
    if not document.integrity:
        return None
    total = Counter(check.kind for check in document.integrity)
    broken = Counter(check.kind for check in document.integrity if check.violations)
    return {
        "kinds": {kind: (total[kind], broken[kind]) for kind in total},
        "violated": [(i, check) for i, check in enumerate(document.integrity) if check.violations],
    }


INTEGRITY = Section(
    name="integrity",
    title="Does the schema hold?",
    intro="What the source's constraints promise, counted on the clone's rows by query, whether or "
    "not the clone has the constraints itself.",
    values=_integrity,
)


#: Queries beyond which only the worst are listed: a page has to open fast.
SHOWN = 1000
#: Characters of a query's text.
TEXT = 120


def _queries(document: ComparisonDocument) -> dict[str, object]:
    order = sorted(range(len(document.queries)), key=lambda i: -(document.queries[i].qerror or 0.0))
    return {
        "order": order[:SHOWN],
        "hidden": max(0, len(order) - SHOWN),
        "queries": document.queries,
        "explained": document.work is not None,
        "text": TEXT,
    }


QUERIES = Section(
    name="queries",
    title="All queries",
    intro="Sorted by Q-error; click a heading to sort by it.",
    values=_queries,
)


def _environment(document: ComparisonDocument) -> dict[str, object]:
    return {"replay": document.replay, "workload": document.workload}


ENVIRONMENT = Section(
    name="environment",
    title="How it was measured",
    intro="Versions and settings, so that the figures can be repeated.",
    values=_environment,
)
