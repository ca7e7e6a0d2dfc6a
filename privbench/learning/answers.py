"""Noisy answers of a session, and how they are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.learning.denoise import Floats
from privbench.privacy import (
    GRID,
    Accounting,
    DatabaseSpec,
    Listed,
    Measurement,
    Query,
    Session,
)
from privbench.privacy.queries import LabelCounts, Total
from privbench.privacy.recoding import EdgesRecoding, Recoding
from privbench.privacy.units import single

#: Marginals count rows by weight and not units by norm if the table has at least this weight (in
#: standard deviations of the noise) or this many rows: there is little noise then, and norms take a
#: second for ten million rows. With three times the weight stats5 is off by 2.63 for 2.48, which is
#: within scatter.
PLENTY, MOST_ROWS = 1000.0, 2**23

#: Noisy values and their standard deviation; or that of each, infinite where nothing is known.
Answer = tuple[Floats, float]
CellAnswer = tuple[Floats, Floats]
#: One standard deviation for all values, or one for each.
Sd = TypeVar("Sd", float, Floats)
#: A clip C, the noisy Σ min(n, C) over units, and the standard deviation of its noise.
Clipped = tuple[float, float, float]
#: Takes a measurement: (query, amount, label).
Measure = Callable[[Query, float, str], Answer]


def measured(session: Session, questions: Sequence[Measurement]) -> list[Answer]:
    """Take independent measurements as one batch; the answers are in counts."""
    return [
        (np.asarray(noisy, np.float64), session.noise_scale(item.query, item.amount))
        for item, noisy in zip(questions, session.measure_all(questions), strict=True)
    ]


def joined(*answers: tuple[Floats, Sd]) -> tuple[Floats, Sd]:
    """Combine several answers to the same question: their inverse-variance mean.

    >>> mean, sd = joined((np.zeros(1), 1.0), (np.full(1, 10.0), 3.0))
    >>> mean, round(float(sd), 2)
    (array([1.]), 0.95)
    """
    # Tests replay fits without any noise, where sd is 0.
    weights = [np.maximum(sd, 1e-9) ** -2 for _, sd in answers]
    whole = sum(weights)
    mean = sum(noisy * weight for (noisy, _), weight in zip(answers, weights, strict=True)) / whole
    return mean, whole**-0.5


def by_norms(
    spec: DatabaseSpec, accounting: Accounting, table: str, rows: float, scales: float
) -> bool:
    """Whether marginals of a table are to count units by their norms (`NormedHistogram`).

    Gaussian noise is scaled to the L2 norm of what a unit adds. A unit with rows in many cells then
    adds more by its norm than by weights that sum to 1. A declared truncation is obeyed. ``rows``
    is an estimate, and ``scales`` the table's weight in standard deviations of the noise.
    """
    owned = not single(spec, table) and spec.tables[table].bound == "weights"
    return owned and accounting == "zcdp" and scales < PLENTY and rows < MOST_ROWS


def in_weight(noisy: Floats, sd: float, expected: Floats) -> Answer:
    """Convert a marginal that counts units by their norms to weights: divide it by a factor.

    The factor is the least-squares ratio of the noisy cells to the expected ones. It lies between 1
    and the root of the number of cells, by the inequality of Cauchy and Schwarz.
    """
    factor = float((noisy * expected).sum() / max((expected**2).sum(), 1e-9))
    factor = min(max(factor, 1.0), noisy.size**0.5)
    return noisy / factor, sd / factor


def released_totals(session: Session, table: str) -> list[Clipped]:
    """All totals of a table that a session has measured."""
    found = []
    for step in session.trace:
        if isinstance(step.query, Total) and step.query.table == table:
            noisy = float(np.asarray(step.result).item()) / step.query.unit
            sd = session.noise_scale(step.query, step.event.amount)
            found.append((float(step.query.clip), noisy, sd))
    return found


def counted_units(session: Session) -> dict[str, float]:
    """Noisy numbers of units with rows in owned tables, if they were counted.

    Each is at least the standard deviation of its noise.
    """
    return {
        name: max(noisy, sd)
        for name, table in session.spec.tables.items()
        if table.own is not None
        for clip, noisy, sd in released_totals(session, name)
        if clip == 1
    }


def of_lists(session: Session) -> dict[tuple[str, str], CellAnswer]:
    """Counts of cells that follow from released lists of values, by table and attribute.

    A list counts the rows of a value, as a one-way marginal does, where every unit has one row.
    Values that missed the threshold are not known. Those that just reached it are counted too
    high, by .8 standard deviations at the threshold; the mean with the one-way marginal halves it.
    """
    found = {}
    recodings = {(table, name): item for table, name, item in session.recodings if not item.since}
    for step in session.trace:
        query, result = step.query, step.result
        if not isinstance(query, LabelCounts) or not isinstance(result, Listed):
            continue
        recoding = recodings.get((query.source, query.attribute))
        if recoding is None or recoding.domain.size < 2 or not single(session.spec, query.source):
            continue
        # The threshold mechanism counts every value less one unit (`LabelCounts`), which is added.
        drawn = [*result.cells[1:], *(count + GRID for count in result.counts)]
        codes, places = _cells_of(recoding, (*query.public, *result.labels))
        noisy, sd = np.zeros(recoding.domain.size), np.full(recoding.domain.size, np.inf)
        noisy[codes] = np.array(drawn, np.float64)[places] * query.clip / GRID
        sd[codes] = session.noise_scale(query, step.event.amount) * query.clip
        found[query.source, query.attribute] = noisy, sd
    return found


def _cells_of(recoding: Recoding, values: Sequence[str]) -> tuple[Codes, NDArray[np.intp]]:
    """The cells of those ``values`` that have one, and the positions of these in ``values``.

    A grid point has the cell that begins with it; values without a cell of their own are left out.
    """
    places = np.arange(len(values))
    if isinstance(recoding, EdgesRecoding):
        points = np.array([int(value) for value in values], np.int64)
        codes, held = recoding.apply(points), np.isin(points, recoding.edges[:-1])
    else:
        codes = recoding.apply(places, pa.array(values, pa.string()))
        held = np.isin(values, recoding.values)
    return codes[held], places[held]
