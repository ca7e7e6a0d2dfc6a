"""Turn what replay and metrics found into parts of the document."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from privbench.metrics import qerror
from privbench.metrics.codes import CodedColumn
from privbench.metrics.fidelity import TableFidelity
from privbench.metrics.runtime import discrepancies
from privbench.metrics.summary import Summary, summarise
from privbench.report.document import (
    AnswerPart,
    ColumnPart,
    DivergencePart,
    QErrorPart,
    QueryPart,
    ReplayPart,
    RuntimePart,
    SidePart,
    TablePart,
)
from privbench.report.document_base import SummaryPart
from privbench.workload import Answer, Query, QueryResult, Replay, Side, Workload

#: Names of the two databases in a replay.
SOURCE, CLONE = "source", "clone"
#: Most cells of a column that the report shows; rarer values are joined in one.
_CELLS = 40
_NULL, _OTHERS = "NULL", "all others"
_Shares = NDArray[np.float64]


def side(found: Side) -> SidePart:
    """One database."""
    return SidePart(database=found.database, version=found.version, settings=found.settings)


def summary(found: Summary | None) -> SummaryPart | None:
    """Percentiles."""
    return None if found is None else SummaryPart(**asdict(found))


def queries(workload: Workload, replay: Replay) -> list[QueryPart]:
    """Every query with its figures, in the order of the workload."""
    return [_query(query, result) for query, result in zip(workload, replay.results, strict=True)]


def _query(query: Query, result: QueryResult) -> QueryPart:
    source, clone = result.answers[SOURCE], result.answers[CLONE]
    ended = source.status == clone.status == "ok"
    whole = ended and not (source.truncated or clone.truncated)
    error = discrepancy = None
    if whole and source.rows is not None and clone.rows is not None:
        error = float(qerror.qerrors([source.rows], [clone.rows])[0])
    if whole and source.median is not None and clone.median is not None:
        discrepancy = float(discrepancies([source.median], [clone.median])[0])
    return QueryPart(
        id=query.id,
        sql=query.sql,
        tables=query.shape.tables,
        joins=query.shape.joins,
        source=_answer(source),
        clone=_answer(clone),
        qerror=error,
        runtime=discrepancy,
        card_matches=_matches(query, source),
    )


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
    )


def qerrors(found: list[QueryPart]) -> QErrorPart:
    """Q-error of the queries that both sides answered."""
    answered = [query for query in found if query.qerror is not None]
    result = qerror.report(
        np.array([query.source.rows for query in answered], dtype=np.float64),
        np.array([query.clone.rows for query in answered], dtype=np.float64),
        [query.joins for query in answered],
    )
    return QErrorPart.model_validate(asdict(result))


def runtimes(found: list[QueryPart], floor: Replay | None) -> RuntimePart:
    """Run time of the queries that ended on both sides."""
    timed = [query for query in found if query.runtime is not None]
    source = np.array([query.source.median for query in timed], dtype=np.float64)
    clone = np.array([query.clone.median for query in timed], dtype=np.float64)
    return RuntimePart(
        overall=summary(summarise(discrepancies(source, clone))),
        floor=summary(_floor(floor)) if floor is not None else None,
        source_seconds=float(source.sum()),
        clone_seconds=float(clone.sum()),
    )


def _floor(floor: Replay) -> Summary | None:
    pairs = [[answer.median for answer in result.answers.values()] for result in floor.results]
    whole = np.array([pair for pair in pairs if None not in pair], dtype=np.float64)
    return summarise(discrepancies(*whole.reshape(-1, 2).T))


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
