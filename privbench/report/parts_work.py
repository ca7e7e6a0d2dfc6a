"""Turn plans, statistics and load into parts of the document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from privbench.metrics import plans, statistics, work
from privbench.metrics.plans import PlanRun
from privbench.metrics.statistics import ColumnStatistics
from privbench.metrics.summary import Floats, Summary, summarise, weighted
from privbench.metrics.work import discrepancies
from privbench.report.document import AnswerPart, QueryPart
from privbench.report.document_parts import (
    ColumnStatisticsPart,
    LoadPart,
    LoadSidePart,
    NodePart,
    PlansPart,
    QueryWorkPart,
    StatisticPart,
    StatisticsPart,
    SummaryPart,
    WorkPart,
    WorkSummaryPart,
)
from privbench.schema import Table
from privbench.workload import Answer
from privbench.workload.replay import AGAIN, Load

#: Names of the two databases in a replay.
SOURCE, CLONE = "source", "clone"


def summary(found: Summary | None) -> SummaryPart | None:
    """Percentiles."""
    return None if found is None else SummaryPart(**asdict(found))


def spread(values: Iterable[float | None]) -> SummaryPart | None:
    """Percentiles of those values that there are."""
    return summary(summarise(np.array([v for v in values if v is not None], dtype=np.float64)))


def work_part(answer: Answer) -> WorkPart | None:
    """What EXPLAIN saw of one query on one side."""
    run = plans.read(answer.plan)
    if run is None:
        return None
    return WorkPart(
        shared=run.shared,
        local=run.local,
        temp=run.temp,
        rows=run.rows,
        planning=run.planning,
        execution=run.execution,
        estimate=float(np.mean(run.estimates())),
        plan=NodePart.model_validate(asdict(run.root)),
    )


def query_work(source: Answer, clone: Answer) -> QueryWorkPart | None:
    """One query's work on the clone against the source's."""
    one, other = plans.read(source.plan), plans.read(clone.plan)
    if one is None or other is None:
        return None
    return QueryWorkPart.model_validate(asdict(work.difference(one, other)))


def work_summary(found: list[QueryPart]) -> WorkSummaryPart | None:
    """Work discrepancy of a workload; None where nothing was explained."""
    both = [(query, query.work) for query in found if query.work is not None]
    if not both:
        return None
    blocks = np.array([item.blocks for _, item in both])
    weights = np.array([query.weight for query, _ in both])
    ended = sum(query.source.status == query.clone.status == "ok" for query in found)
    one = [query.source.work for query, _ in both if query.source.work]
    other = [query.clone.work for query, _ in both if query.clone.work]
    return WorkSummaryPart(
        queries=len(both),
        missing=ended - len(both),
        blocks=summary(summarise(blocks)),
        rows=spread(item.rows for _, item in both),
        spill=spread(item.spill for _, item in both),
        blocks_weighted=summary(weighted(blocks, weights)),
        source_blocks=sum(side.shared for side in one),
        clone_blocks=sum(side.shared for side in other),
        source_spill=sum(side.local + side.temp for side in one),
        clone_spill=sum(side.local + side.temp for side in other),
    )


def plans_part(
    found: list[QueryPart], answers: Iterable[tuple[Answer, Answer]]
) -> PlansPart | None:
    """Plan agreement of a workload; None where nothing was explained.

    Args:
        found: The queries.
        answers: The source's and the clone's answers, which hold the plans, in the same order.
    """
    both = [(query, query.work) for query in found if query.work is not None]
    if not both:
        return None
    sides = [(plans.read(one.plan), plans.read(other.plan)) for one, other in answers]
    labels = [joins_label(query.joins) for query, _ in both]
    same = np.array([item.same_plan for _, item in both])
    return PlansPart(
        queries=len(both),
        same=float(np.mean(same)),
        same_join_order=float(np.mean([item.same_join_order for _, item in both])),
        same_by_joins={
            label: float(np.mean(same[np.array(labels) == label])) for label in ordered(labels)
        },
        operators=spread(value for _, item in both for value in item.operators),
        source_estimates=_estimates(one for one, _ in sides),
        clone_estimates=_estimates(other for _, other in sides),
        planning=_times(found, "planning"),
        execution=_times(found, "execution"),
    )


def joins_label(joins: int | None) -> str:
    """A number of joins, ``?`` where it is not known."""
    return "?" if joins is None else str(joins)


def ordered(labels: Iterable[str]) -> list[str]:
    """Labels of joins without repeats, by number, ``?`` last."""
    return sorted(set(labels), key=lambda label: (label == "?", len(label), label))


def _estimates(runs: Iterable[PlanRun | None]) -> SummaryPart | None:
    return spread(value for run in runs if run for value in run.estimates().tolist())


def _times(found: list[QueryPart], field: str) -> SummaryPart | None:
    pairs = [(_time(query.source, field), _time(query.clone, field)) for query in found]
    whole = np.array([(a, b) for a, b in pairs if a and b is not None], dtype=np.float64)
    return summary(summarise(discrepancies(*whole.reshape(-1, 2).T)))


def _time(answer: AnswerPart, field: str) -> float | None:
    return getattr(answer.work, field) if answer.work else None


Statistics = dict[str, ColumnStatistics]


def statistics_part(
    found: Iterable[tuple[Table, tuple[int, Statistics], tuple[int, Statistics]]],
) -> StatisticsPart:
    """Agreement of ``pg_stats``.

    Args:
        found: For each table that both sides have: rows and statistics of the source, then of the
            clone.
    """
    absent: dict[str, list[str]] = {SOURCE: [], CLONE: []}
    columns: list[StatisticPart] = []
    for table, source, clone in found:
        for name, (rows, known) in ((SOURCE, source), (CLONE, clone)):
            if rows and table.columns and not known:
                absent[name].append(table.key)
        columns += [
            _statistic(table, column.name, source[1][column.name], clone[1][column.name])
            for column in table.columns
            if column.name in source[1] and column.name in clone[1]
        ]
    return StatisticsPart(
        absent={name: tables for name, tables in absent.items() if tables},
        n_distinct=spread(column.n_distinct for column in columns),
        null_frac=spread(column.null_frac for column in columns),
        mcv=spread(column.mcv for column in columns),
        correlation=spread(column.correlation for column in columns),
        avg_width=spread(column.avg_width for column in columns),
        columns=columns,
    )


def _statistic(
    table: Table, column: str, source: ColumnStatistics, clone: ColumnStatistics
) -> StatisticPart:
    return StatisticPart(
        table=table.key,
        column=column,
        source=_column(source),
        clone=_column(clone),
        **asdict(statistics.difference(table, column, source, clone)),
    )


def _column(found: ColumnStatistics) -> ColumnStatisticsPart:
    return ColumnStatisticsPart(
        n_distinct=found.n_distinct,
        null_frac=found.null_frac,
        avg_width=found.avg_width,
        correlation=found.correlation,
        mcv=len(found.common),
        mcv_share=sum(found.common.values()),
    )


def load_part(found: Load) -> LoadPart:
    """The workload under load."""
    sides = {name: _load_side(found, name) for name in found.rounds}
    medians = {name: found.latencies(name) for name in found.rounds}
    floor = AGAIN in sides
    return LoadPart(
        clients=found.clients,
        rounds=len(found.rounds[SOURCE]),
        sides=sides,
        throughput=_throughput(sides, CLONE),
        throughput_floor=_throughput(sides, AGAIN) if floor else None,
        latency=_apart(medians[SOURCE], medians[CLONE]),
        latency_floor=_apart(medians[SOURCE], medians[AGAIN]) if floor else None,
    )


def _load_side(found: Load, name: str) -> LoadSidePart:
    rounds = found.rounds[name]
    latency = np.concatenate([each.latency.ravel() for each in rounds])
    throughput = [each.throughput for each in rounds]
    return LoadSidePart(
        throughput=throughput,
        median_throughput=float(np.median(throughput)),
        latency=spread(latency[np.isfinite(latency)].tolist()),
        failed=int(np.isnan(latency).sum()),
    )


def _throughput(sides: dict[str, LoadSidePart], name: str) -> float | None:
    source = sides[SOURCE].median_throughput
    if source <= 0:
        return None
    return float(discrepancies([source], [sides[name].median_throughput])[0])


def _apart(source: Floats, other: Floats) -> SummaryPart | None:
    whole = np.isfinite(source) & np.isfinite(other)
    return summary(summarise(discrepancies(source[whole], other[whole])))
