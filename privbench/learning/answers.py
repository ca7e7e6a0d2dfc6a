"""Noisy measurements of a session, and values that follow from its earlier releases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.arrays import Floats
from privbench.domain import Codes
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


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A noisy measurement of counts, or public counts.

    It unpacks to counts and standard deviation.
    """

    query: Query | None  # what was measured; None for what follows from other measurements
    counts: Floats  # noisy, in counted units
    sd: Any  # standard deviation of their noise; or that of each, infinite where nothing is known

    def __iter__(self) -> Iterator[Any]:
        return iter((self.counts, self.sd))

    def join(self, *others: Measured) -> Measured:
        """Combine several measurements of the same counts to their inverse-variance mean.

        >>> Measured(None, np.zeros(1), 1.0).join(Measured(None, np.full(1, 10.0), 3.0)).counts
        array([1.])
        """
        every = (self, *others)
        # Tests replay fits without any noise, where sd is 0.
        weights = [np.maximum(item.sd, 1e-9) ** -2 for item in every]
        whole = sum(weights)
        mean = sum(item.counts * weight for item, weight in zip(every, weights, strict=True))
        return Measured(self.query, mean / whole, whole**-0.5)

    def in_weight(self, expected: Floats) -> Measured:
        """Convert a marginal of units counted by their norms to weights, by dividing by a factor.

        The factor is the least-squares ratio of the noisy cells to the expected ones. It lies
        between 1 and the root of the number of cells, by the inequality of Cauchy and Schwarz.
        """
        factor = float((self.counts * expected).sum() / max((expected**2).sum(), 1e-9))
        factor = min(max(factor, 1.0), self.counts.size**0.5)
        return Measured(self.query, self.counts / factor, self.sd / factor)


def measured(session: Session, questions: Sequence[Measurement]) -> list[Measured]:
    """Measure independent questions as one batch and return their noisy results."""
    return [
        Measured(item.query, noisy, session.noise_scale(item.query, item.amount))
        for item, noisy in zip(questions, session.measure_all(questions), strict=True)
    ]


def by_norms(
    spec: DatabaseSpec, accounting: Accounting, table: str, rows: float, scales: float
) -> bool:
    """Return whether marginals of a table should count units by their norms (`NormedHistogram`).

    Gaussian noise is scaled to the L2 norm of a unit's contribution. A unit with rows in many cells
    then contributes more if it is scaled by its norm than by weights that sum to 1. A truncation
    that the config declares is kept. ``rows`` is an estimate, and ``scales`` is the total weight of
    the table in standard deviations of the noise.
    """
    owned = not single(spec, table) and spec.tables[table].bound == "weights"
    return owned and accounting == "zcdp" and scales < PLENTY and rows < MOST_ROWS


def released_totals(session: Session, table: str) -> list[Measured]:
    """Return all totals of a table's rows that a session has measured."""
    return [
        Measured(
            step.query,
            np.asarray(step.result) / step.query.unit,
            session.noise_scale(step.query, step.event.amount),
        )
        for step in session.trace
        if isinstance(step.query, Total) and step.query.table == table
    ]


def counted_units(session: Session) -> dict[str, float]:
    """Return the noisy numbers of units with rows, by owned table, where they were measured.

    Each is at least the standard deviation of its noise.
    """
    return {
        name: max(item.counts.item(), item.sd)
        for name, table in session.spec.tables.items()
        if table.own is not None
        for item in released_totals(session, name)
        if item.query == Total(name, 1)
    }


def of_lists(session: Session) -> dict[tuple[str, str], Measured]:
    """Return counts of cells that follow from released lists of values, by table and attribute.

    Where every unit has one row, a list counts the rows of a value as a one-way marginal does.
    Values below the threshold are unknown. Values just above it are counted too high, by .8
    standard deviations at the threshold; averaging with the one-way marginal halves this error.
    """
    counts = {}
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
        counts[query.source, query.attribute] = Measured(query, noisy, sd)
    return counts


def _cells_of(recoding: Recoding, values: Sequence[str]) -> tuple[Codes, NDArray[np.intp]]:
    """The cells of those ``values`` that have one, and the positions of these in ``values``.

    A grid point has the cell that begins with it; values without a cell of their own are left out.
    """
    places = np.arange(len(values))
    if isinstance(recoding, EdgesRecoding):
        points = np.array([int(value) for value in values], np.int64)
        codes, has_cell = recoding.apply(points), np.isin(points, recoding.edges[:-1])
    else:
        codes = recoding.apply(places, pa.array(values, pa.string()))
        has_cell = np.isin(values, recoding.values)
    return codes[has_cell], places[has_cell]
