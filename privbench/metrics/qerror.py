"""Q-error: how far the clone's answer is from the source's, as a factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.metrics.base import Metric
from privbench.metrics.summary import Floats, Summary, summarise

QERROR = Metric(
    name="qerror",
    title="Q-error",
    goal="lower",
    low=1.0,
    high=math.inf,
    unit="×",
    reads_source=True,
    meaning="How many times the clone's answer is larger or smaller than the true one: "
    "1 is exact, 2 is twice or half.",
    headline="qerror.p50",
    good=1.5,
    fair=3.0,
)

THIRDS = ("small", "middle", "large")


def qerrors(true: ArrayLike, clone: ArrayLike) -> Floats:
    """max(c/ĉ, ĉ/c) with both answers floored at 1 (DESIGN section 5).

    Returns:
        Q-errors, shape (n,), at least 1.

    >>> qerrors([10, 0, 5], [5, 3, 5]).tolist()
    [2.0, 3.0, 1.0]
    """
    c = np.maximum(np.asarray(true, dtype=np.float64), 1.0)
    e = np.maximum(np.asarray(clone, dtype=np.float64), 1.0)
    return np.asarray(np.maximum(c / e, e / c), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class QErrorReport:
    """Q-error overall and in parts."""

    overall: Summary | None  # none where no query has both answers
    by_joins: dict[str, Summary]  # by number of joins; ``?`` where the text could not be read
    by_third: dict[str, Summary]  # by thirds of the queries in the order of their true answers
    true_zero: int  # queries whose true answer is 0
    clone_zero: int  # queries with an answer on the source and none on the clone


def report(true: ArrayLike, clone: ArrayLike, joins: Sequence[int | None]) -> QErrorReport:
    """Summarise the Q-errors of a workload.

    Returns:
        The figures.
    """
    c, e = np.asarray(true, dtype=np.float64), np.asarray(clone, dtype=np.float64)
    errors = qerrors(c, e)
    labels = np.array(["?" if number is None else f"{number:d}" for number in joins], dtype=str)
    order = sorted(set(labels.tolist()), key=lambda label: (label == "?", len(label), label))
    return QErrorReport(
        overall=summarise(errors),
        by_joins=_parts(errors, labels, order),
        by_third=_parts(errors, _thirds(c), THIRDS),
        true_zero=int(np.sum(c == 0)),
        clone_zero=int(np.sum((c > 0) & (e == 0))),
    )


def _thirds(true: Floats) -> NDArray[np.str_]:
    """The third of each query: its place among the true answers, equal answers kept together."""
    rank = np.searchsorted(np.sort(true), true, side="left")
    return np.array(THIRDS)[(3 * rank) // max(len(true), 1)]


def _parts(errors: Floats, labels: NDArray[np.str_], order: Sequence[str]) -> dict[str, Summary]:
    found = {label: summarise(errors[labels == label]) for label in order}
    return {label: summary for label, summary in found.items() if summary is not None}
