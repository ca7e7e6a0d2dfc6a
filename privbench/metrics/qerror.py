"""Q-error: the factor by which the clone's answer differs from the source's."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from privbench.arrays import Floats, Ints
from privbench.metrics.base import Metric, Part, SummaryPart, by_joins, summarise, weighted

QERROR = Metric(
    name="qerror",
    title="Q-error",
    low=1.0,
    unit="×",
    meaning="How many times the clone's answer is larger or smaller than the true one: "
    "1 is exact, 2 is twice or half.",
    headline="qerror.p50",
    good=1.5,
    fair=3.0,
)

THIRDS = ("small", "middle", "large")


def qerrors(true: ArrayLike, clone: ArrayLike) -> Floats:
    """Return max(c/ĉ, ĉ/c) for each query, with both answers floored at 1 (DESIGN section 5).

    >>> qerrors([10, 0, 5], [5, 3, 5]).tolist()
    [2.0, 3.0, 1.0]
    """
    c = np.maximum(np.asarray(true, dtype=np.float64), 1.0)
    e = np.maximum(np.asarray(clone, dtype=np.float64), 1.0)
    return np.asarray(np.maximum(c / e, e / c), dtype=np.float64)


class QErrorPart(Part):
    """The Q-error of a workload, overall and by groups of queries."""

    overall: SummaryPart | None  # none where no query has both answers
    by_joins: dict[str, SummaryPart]  # by number of joins; ``?`` where the text could not be read
    by_third: dict[str, SummaryPart]  # by thirds of the queries in the order of their true answers
    true_zero: int  # queries whose true answer is 0
    clone_zero: int  # queries with an answer on the source and none on the clone
    patterns: SummaryPart | None = None  # of queries with LIKE or ILIKE
    limited: SummaryPart | None = None  # of queries whose LIMIT bounds both answers
    weighted: SummaryPart | None = None  # by the queries' weights; None where all weigh the same


def report(
    true: ArrayLike,
    clone: ArrayLike,
    joins: Sequence[int | None],
    weights: Sequence[float] | None = None,
    patterns: Sequence[bool] = (),
    limited: Sequence[bool] = (),
) -> QErrorPart:
    """Summarise the Q-errors of a workload from its true answers and the clone's answers."""
    c, e = np.asarray(true, dtype=np.float64), np.asarray(clone, dtype=np.float64)
    errors, third = qerrors(c, e), thirds(c)
    parts = {label: summarise(errors[third == place]) for place, label in enumerate(THIRDS)}
    return QErrorPart(
        overall=summarise(errors),
        by_joins=by_joins(errors, joins),
        by_third={label: part for label, part in parts.items() if part is not None},
        true_zero=int(np.sum(c == 0)),
        clone_zero=int(np.sum((c > 0) & (e == 0))),
        patterns=summarise(errors[np.flatnonzero(patterns)]),
        limited=summarise(errors[np.flatnonzero(limited)]),
        weighted=None if weights is None else weighted(errors, np.array(weights, dtype=np.float64)),
    )


def thirds(true: ArrayLike) -> Ints:
    """Return the third, 0 to 2, of each query by its true answer; equal answers stay together."""
    answers = np.asarray(true, dtype=np.float64)
    rank = np.searchsorted(np.sort(answers), answers, side="left")
    return (3 * rank) // max(len(answers), 1)
