"""Turn what replay and metrics found into parts of the document."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median

import numpy as np
from numpy.typing import NDArray

from privbench.metrics import qerror
from privbench.metrics.codes import CodedColumn
from privbench.metrics.fidelity import TableFidelity
from privbench.metrics.summary import weighted
from privbench.metrics.work import discrepancies
from privbench.report.document import (
    AnswerPart,
    ColumnPart,
    DivergencePart,
    QErrorPart,
    QueryPart,
    ReboundPart,
    ReplayPart,
    RuntimePart,
    SidePart,
    TablePart,
)
from privbench.report.document_parts import SummaryPart
from privbench.report.parts_work import (
    CLONE,
    SOURCE,
    joins_label,
    ordered,
    query_work,
    spread,
    summary,
    work_part,
)
from privbench.workload import Answer, Query, QueryResult, Replay, Side, Workload
from privbench.workload.replay import AGAIN

__all__ = [
    "CLONE",
    "SOURCE",
    "qerrors",
    "queries",
    "rebound",
    "replay_part",
    "runtimes",
    "side",
    "table",
]

#: Most cells of a column that the report shows; rarer values are joined in one.
_CELLS = 40
_NULL, _OTHERS = "NULL", "all others"
_Shares = NDArray[np.float64]


def side(found: Side) -> SidePart:
    """One database."""
    return SidePart(
        database=found.database,
        version=found.version,
        settings=found.settings,
        role=found.role,
        warning=found.warning,
    )


def queries(workload: Workload, replay: Replay) -> list[QueryPart]:
    """Every query with its figures, in the order of the workload."""
    return [_query(query, result) for query, result in zip(workload, replay.results, strict=True)]


def _query(query: Query, result: QueryResult) -> QueryPart:
    source, clone = result.answers[SOURCE], result.answers[CLONE]
    again = result.answers.get(AGAIN)
    return QueryPart(
        id=query.id,
        sql=query.sql,
        weight=query.weight,
        tables=query.shape.tables,
        joins=query.shape.joins,
        source=_answer(source),
        clone=_answer(clone),
        qerror=_qerror(source, clone),
        runtime=_discrepancy(source, clone),
        card_matches=_matches(query, source),
        again=list(again.seconds) if again else [],
        floor=_discrepancy(source, again) if again else None,
        stable=_stable(source, again) if again else None,
        work=query_work(source, clone),
    )


def _qerror(source: Answer | AnswerPart, clone: Answer | AnswerPart) -> float | None:
    """None where an answer is missing or was cut off."""
    ended = source.status == clone.status == "ok" and _whole(source, clone)
    if not ended or source.rows is None or clone.rows is None:
        return None
    return float(qerror.qerrors([source.rows], [clone.rows])[0])


def _whole(*answers: Answer | AnswerPart) -> bool:
    return not any(answer.truncated for answer in answers)


def _discrepancy(one: Answer, other: Answer) -> float | None:
    """Of the median run times, per cent; None where a side did not end or was cut off."""
    ended = one.status == other.status == "ok" and _whole(one, other)
    if not ended or one.median is None or other.median is None:
        return None
    return float(discrepancies([one.median], [other.median])[0])


def _stable(source: Answer, again: Answer) -> bool | None:
    if source.status != "ok" or again.status != "ok" or not _whole(source, again):
        return None
    return source.rows == again.rows


def _matches(query: Query, source: Answer) -> bool | None:
    if query.card is None or source.status != "ok" or source.truncated:
        return None
    return query.card == source.rows


def _answer(answer: Answer) -> AnswerPart:
    return AnswerPart(
        status=answer.status,
        rows=answer.rows,
        seconds=list(answer.seconds),
        median=answer.median,
        truncated=answer.truncated,
        error=answer.error,
        work=work_part(answer),
        message=answer.message,
    )


def qerrors(found: list[QueryPart]) -> QErrorPart:
    """Q-error of the queries that both sides answered."""
    answered = [query for query in found if query.qerror is not None]
    result = qerror.report(
        np.array([query.source.rows for query in answered], dtype=np.float64),
        np.array([query.clone.rows for query in answered], dtype=np.float64),
        [query.joins for query in answered],
    )
    weighing = _weighted(answered, [query.qerror for query in answered])
    return QErrorPart.model_validate({**asdict(result), "weighted": weighing})


def rebound(found: list[QueryPart], workload: Workload, answers: list[Answer]) -> ReboundPart:
    """Queries that were asked of the clone by other texts, beside all others."""
    changed = {}
    written = {query.id: query for query in found}
    for query, answer in zip(workload, answers, strict=True):
        old, clone = written[query.id], _answer(answer)
        new = {"sql": query.sql, "clone": clone, "qerror": _qerror(old.source, clone)}
        lost = dict.fromkeys(("runtime", "floor", "work"))
        changed[query.id] = old.model_copy(update=new | lost)
    both = [changed.get(query.id, query) for query in found]
    return ReboundPart(queries=[*changed.values()], qerror=qerrors(both))


def _weighted(found: list[QueryPart], errors: list[float | None]) -> SummaryPart | None:
    weights = np.array([query.weight for query in found], dtype=np.float64)
    return summary(weighted(np.array(errors, dtype=np.float64), weights))


def runtimes(found: list[QueryPart]) -> RuntimePart:
    """Run time of the queries that ended on both sides, and the noise floor beside it."""
    timed = [query for query in found if query.runtime is not None]
    floored = [query for query in found if query.floor is not None]
    return RuntimePart(
        overall=spread(query.runtime for query in timed),
        floor=spread(query.floor for query in floored),
        source_seconds=float(sum(query.source.median or 0 for query in timed)),
        clone_seconds=float(sum(query.clone.median or 0 for query in timed)),
        by_joins=_by_joins(timed, [query.runtime for query in timed]),
        floor_by_joins=_by_joins(floored, [query.floor for query in floored]),
        weighted=_weighted(timed, [query.runtime for query in timed]),
        again_seconds=sum(median(query.again) for query in floored) if floored else None,
        beyond_floor=_beyond_floor(found),
    )


def _beyond_floor(found: list[QueryPart]) -> float | None:
    pairs = [(query.runtime, query.floor) for query in found]
    signs = [
        (runtime > floor) + (runtime == floor) / 2
        for runtime, floor in pairs
        if runtime is not None and floor is not None
    ]
    return sum(signs) / len(signs) if signs else None


def _by_joins(found: list[QueryPart], errors: list[float | None]) -> dict[str, SummaryPart]:
    labels = [joins_label(query.joins) for query in found]
    parts = {
        label: spread(error for error, each in zip(errors, labels, strict=True) if each == label)
        for label in ordered(labels)
    }
    return {label: part for label, part in parts.items() if part is not None}


def replay_part(replay: Replay, found: list[QueryPart]) -> ReplayPart:
    """How the workload was run, and what went wrong."""
    one, other = replay.sides[SOURCE].settings, replay.sides[CLONE].settings
    names = sorted(one.keys() | other.keys())
    return ReplayPart(
        repeats=replay.repeats,
        warmup=replay.warmup,
        timeout=replay.timeout,
        settings=replay.settings,
        differences={
            name: (one.get(name), other.get(name))
            for name in names
            if one.get(name) != other.get(name)
        },
        timeouts=_ended(found, "timeout"),
        errors=_ended(found, "error"),
        truncated=sum(query.source.truncated or query.clone.truncated for query in found),
        card_mismatches=sum(query.card_matches is False for query in found),
        resumed=replay.resumed,
        cold=replay.before or None,
        unstable=sum(query.stable is False for query in found),
    )


def _ended(found: list[QueryPart], status: str) -> dict[str, int]:
    return {
        SOURCE: sum(query.source.status == status for query in found),
        CLONE: sum(query.clone.status == status for query in found),
    }


def table(
    name: str, public: bool, rows: tuple[int, int | None], found: TableFidelity | None
) -> TablePart:
    """One table; ``found`` is None where it is not compared."""
    return TablePart(
        name=name,
        public=public,
        source_rows=rows[0],
        clone_rows=rows[1],
        divergence={
            str(way): DivergencePart(**asdict(figures))
            for way, figures in (found.divergence if found else {}).items()
        },
        columns=[_column(column) for column in found.columns] if found else [],
        left_out=found.left_out if found else {},
        shares=found.shares if found else (1.0, 1.0),
    )


def _column(column: CodedColumn) -> ColumnPart:
    counts = column.counts()
    real, clone = (side / max(int(side.sum()), 1) for side in counts)
    labels = [_NULL, *column.labels]
    shown, labels = _shown(column, real, clone, labels)
    return ColumnPart(
        name=column.plan.column.name,
        how=column.plan.how,
        labels=labels,
        real=shown[0].tolist(),
        clone=shown[1].tolist(),
        tvd=float(0.5 * np.abs(real - clone).sum()),
    )


def _shown(
    column: CodedColumn, real: _Shares, clone: _Shares, labels: list[str]
) -> tuple[_Shares, list[str]]:
    """Shares, shape (2, cells), and labels of the cells to show: NULL last, rare values joined."""
    both = np.stack([real, clone])
    places = np.flatnonzero(both.sum(axis=0) > 0)
    values = places[places > 0]
    keep = values
    if not column.plan.edges and len(values) > _CELLS:
        largest = np.argsort(-both[:, values].sum(axis=0), kind="stable")[: _CELLS - 1]
        keep = np.sort(values[largest])
    rest = np.setdiff1d(values, keep)
    shares, names = [both[:, keep]], [labels[i] for i in keep]
    if len(rest):
        shares.append(both[:, rest].sum(axis=1, keepdims=True))
        names.append(_OTHERS)
    if both[:, 0].sum() > 0:
        shares.append(both[:, :1])
        names.append(_NULL)
    return np.concatenate(shares, axis=1), names
