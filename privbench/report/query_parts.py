"""Turn the results of a replay into parts of the document."""

from collections.abc import Iterable
from statistics import median

import numpy as np

from privbench.metrics import plans, qerror, work
from privbench.metrics.base import SummaryPart, by_joins, summarise, weighted
from privbench.metrics.plans import WorkPart
from privbench.metrics.qerror import QErrorPart
from privbench.metrics.work import discrepancies
from privbench.report.document import (
    AnswerPart,
    PlansPart,
    QueryPart,
    ReplayPart,
    RuntimePart,
    WorkSummaryPart,
)
from privbench.workload import QueryAnswer, Replay, Workload, WorkloadQuery
from privbench.workload.replay import AGAIN

#: Names of the two databases in a replay.
SOURCE, CLONE = "source", "clone"


def queries(workload: Workload, replay: Replay) -> list[QueryPart]:
    """Return every query with its figures, in the order of the workload."""
    return [_query(query, result) for query, result in zip(workload, replay.results, strict=True)]


def _query(query: WorkloadQuery, result: dict[str, QueryAnswer]) -> QueryPart:
    source, clone = _answer(result[SOURCE]), _answer(result[CLONE])
    again = _answer(result[AGAIN]) if AGAIN in result else None
    return QueryPart(
        id=query.id,
        sql=query.sql,
        weight=query.weight,
        **query.facts._asdict(),
        source=source,
        clone=clone,
        qerror=_qerror(source, clone),
        runtime=_discrepancy(source, clone),
        card_matches=query.card == source.rows
        if query.card is not None and _all_answered(source)
        else None,
        again=again.seconds if again else [],
        floor=_discrepancy(source, again) if again else None,
        stable=source.rows == again.rows if again and _all_answered(source, again) else None,
        work=work.difference(source.work, clone.work) if source.work and clone.work else None,
    )


def _answer(answer: QueryAnswer) -> AnswerPart:
    part = AnswerPart.model_validate(answer, from_attributes=True)
    return part.model_copy(update={"work": plans.read(answer.plan)})


def _all_answered(*answers: AnswerPart) -> bool:
    """Whether all queries ended and no answer was cut off."""
    return all(answer.status == "ok" and not answer.truncated for answer in answers)


def _qerror(source: AnswerPart, clone: AnswerPart) -> float | None:
    """Q-error of a query; None where an answer is missing or was cut off."""
    if not _all_answered(source, clone) or source.rows is None or clone.rows is None:
        return None
    return float(qerror.qerrors([source.rows], [clone.rows])[0])


def _discrepancy(one: AnswerPart, other: AnswerPart) -> float | None:
    """Discrepancy of the median run times, in per cent; None if a side failed or was cut off."""
    if not _all_answered(one, other) or one.median is None or other.median is None:
        return None
    return float(discrepancies([one.median], [other.median])[0])


def qerrors(queries: list[QueryPart]) -> QErrorPart:
    """Return the Q-error of the queries that both sides answered."""
    answered = [query for query in queries if query.qerror is not None]
    return qerror.report(
        [query.source.rows or 0 for query in answered],
        [query.clone.rows or 0 for query in answered],
        [query.joins for query in answered],
        [query.weight for query in answered],
        ["LIKE '" in query.sql.upper() for query in answered],
        [query.limited for query in answered],
    )


def runtimes(queries: list[QueryPart]) -> RuntimePart:
    """Return the run times of the queries that ended on both sides, and the noise floor."""
    timed = [query for query in queries if query.runtime is not None]
    floored = [query for query in queries if query.floor is not None]
    times, floors = [query.runtime for query in timed], [query.floor for query in floored]
    weights = np.array([query.weight for query in timed], dtype=np.float64)
    return RuntimePart(
        overall=summarise(times),
        floor=summarise(floors),
        source_seconds=sum(query.source.median or 0 for query in timed),
        clone_seconds=sum(query.clone.median or 0 for query in timed),
        by_joins=by_joins(times, [query.joins for query in timed]),
        floor_by_joins=by_joins(floors, [query.joins for query in floored]),
        weighted=weighted(np.array(times, dtype=np.float64), weights),
        again_seconds=sum(median(query.again) for query in floored) if floored else None,
        beyond_floor=_beyond_floor(queries),
    )


def _beyond_floor(queries: list[QueryPart]) -> float | None:
    signs = [
        (query.runtime > query.floor) + (query.runtime == query.floor) / 2
        for query in queries
        if query.runtime is not None and query.floor is not None
    ]
    return sum(signs) / len(signs) if signs else None


def replay_part(replay: Replay, queries: list[QueryPart]) -> ReplayPart:
    """Return how the workload was run, and which queries failed."""
    one, other = replay.sides[SOURCE].settings, replay.sides[CLONE].settings
    return ReplayPart(
        repeats=replay.repeats,
        warmup=replay.warmup,
        timeout=replay.timeout,
        settings=replay.settings,
        differences={
            name: (one.get(name), other.get(name))
            for name in sorted(one.keys() | other.keys())
            if one.get(name) != other.get(name)
        },
        timeouts=_ended(queries, "timeout"),
        errors=_ended(queries, "error"),
        truncated=sum(query.source.truncated or query.clone.truncated for query in queries),
        card_mismatches=sum(query.card_matches is False for query in queries),
        resumed=replay.resumed,
        cold=replay.before or None,
        unstable=sum(query.stable is False for query in queries),
    )


def _ended(queries: list[QueryPart], status: str) -> dict[str, int]:
    return {
        SOURCE: sum(query.source.status == status for query in queries),
        CLONE: sum(query.clone.status == status for query in queries),
    }


def work_summary(queries: list[QueryPart]) -> WorkSummaryPart | None:
    """Return the work discrepancy of a workload; None if no query was explained."""
    both = [(query, query.work) for query in queries if query.work is not None]
    if not both:
        return None
    blocks = [item.blocks for _, item in both]
    weights = np.array([query.weight for query, _ in both], dtype=np.float64)
    ended = sum(query.source.status == query.clone.status == "ok" for query in queries)
    one = [query.source.work for query, _ in both if query.source.work]
    other = [query.clone.work for query, _ in both if query.clone.work]
    return WorkSummaryPart(
        queries=len(both),
        missing=ended - len(both),
        blocks=summarise(blocks),
        rows=summarise(item.rows for _, item in both),
        spill=summarise(item.spill for _, item in both),
        blocks_weighted=weighted(np.array(blocks), weights),
        source_blocks=sum(run.shared for run in one),
        clone_blocks=sum(run.shared for run in other),
        source_spill=sum(run.spill for run in one),
        clone_spill=sum(run.spill for run in other),
    )


def plans_part(queries: list[QueryPart]) -> PlansPart | None:
    """Return the plan agreement of a workload; None if no query was explained."""
    both = [(query.joins, query.work) for query in queries if query.work is not None]
    if not both:
        return None
    same = by_joins([float(item.same_plan) for _, item in both], [joins for joins, _ in both])
    runs = [(query.source.work, query.clone.work) for query in queries]
    return PlansPart(
        queries=len(both),
        same=float(np.mean([item.same_plan for _, item in both])),
        same_join_order=float(np.mean([item.same_join_order for _, item in both])),
        same_by_joins={label: part.mean for label, part in same.items()},
        operators=summarise(value for _, item in both for value in item.operators),
        source_estimates=_estimates(source for source, _ in runs),
        clone_estimates=_estimates(clone for _, clone in runs),
        planning=_apart((one.planning, other.planning) for one, other in runs if one and other),
        execution=_apart((one.execution, other.execution) for one, other in runs if one and other),
    )


def _estimates(runs: Iterable[WorkPart | None]) -> SummaryPart | None:
    return summarise(error for run in runs if run for error in run.plan.estimates().tolist())


def _apart(pairs: Iterable[tuple[float | None, float | None]]) -> SummaryPart | None:
    """Discrepancies of the pairs whose first value is above 0 and whose second is not None."""
    known = np.array([(a, b) for a, b in pairs if a and b is not None], dtype=np.float64)
    return summarise(discrepancies(*known.reshape(-1, 2).T))
