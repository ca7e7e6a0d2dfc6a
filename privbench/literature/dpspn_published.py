"""The claims of the paper on sum-product networks, as it makes them: NOT PRIVATE, to compare with.

A claim that is too small is still a claim: the question is asked of the session with the paper's
sensitivity in place of the true one, so that the noise is the paper's, and the stability harness
refuses it. Only a fit whose noise is seeded, and which is stamped NOT PRIVATE for that, may ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privbench.errors import PrivacyRefusal
from privbench.learning.answers import Measure
from privbench.learning.denoise import Floats
from privbench.privacy import GRID, DatabaseSpec, Query, Sensitivity, Session
from privbench.privacy.queries import Histogram, JointHistogram, Region


@dataclass(frozen=True, slots=True)
class Published(Query):
    """A query with a claim that is too small by a factor. NOT PRIVATE.

    Statistic: that of ``query``. Claimed sensitivity: its own over ``factor``, at least one grid
    unit; there is no proof, since it does not hold. Source: Theorem 3.1 of the paper, which counts
    one histogram for a product of ``factor`` of them, and counts exact sizes as post-processing
    (``factor`` = `GRID`).

    Attributes:
        query: What is measured.
        factor: By what the paper's claim is too small.
    """

    query: Query
    factor: int

    @property
    def kind(self) -> str:  # type: ignore[override]
        """See `Query.kind`."""
        return f"{self.query.kind}, as published"

    @property
    def unit(self) -> int:  # type: ignore[override]
        """See `Query.unit`."""
        return self.query.unit

    @property
    def table(self) -> str:
        """See `Query.table`."""
        return self.query.table

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return self.query.columns

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Query.shape`."""
        return self.query.shape

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """The paper's claim."""
        true = self.query.sensitivity(spec)
        return Sensitivity(
            max(true.l1 // self.factor, 1),
            max(true.l2 / self.factor, 1.0),
            max(true.linf // self.factor, 1),
        )

    def evaluate(self, data: Any) -> Any:
        """The statistic, in grid units."""
        return self.query.evaluate(data)


def refuse_private(session: Session) -> None:
    """Refuse a fit that would not be stamped NOT PRIVATE.

    Raises:
        PrivacyRefusal: The session's noise is not seeded, or its accounting is not pure.
    """
    if session.private:
        raise PrivacyRefusal(
            "as_published is not private, and this fit would not be stamped so.",
            remedy="Give a seed ([privacy] seed), which stamps model and rows NOT PRIVATE.",
        )
    if session.accounting != "pure":
        raise PrivacyRefusal(
            "the paper's accounting is pure.", remedy="Set [privacy] accounting = 'pure'."
        )


def exactly(measure: Measure) -> Measure:
    """Ask for histograms of whole columns exactly, as the paper reads bins. NOT PRIVATE."""

    def ask(query: Query, amount: float, label: str) -> tuple[Floats, float]:
        return measure(Published(query, GRID), amount, label)

    return ask


def claims(measure: Measure, columns: int) -> Measure:
    """Ask for leaves as the paper does: as if a product of columns were one histogram."""

    def ask(query: Query, amount: float, label: str) -> tuple[Floats, float]:
        given = Published(query, columns) if isinstance(query, JointHistogram) else query
        return measure(given, amount, label)

    return ask


@dataclass(frozen=True, slots=True)
class ExactSizes:
    """Exact sizes of regions, as the paper takes them. NOT PRIVATE.

    Attributes:
        spec: What is public.
        table: The table.
        measure: Asks the session.
        amount: What each look is charged: next to nothing, as the paper charges nothing.
    """

    spec: DatabaseSpec
    table: str
    measure: Measure
    amount: float

    def __call__(self, regions: Sequence[Region]) -> list[float]:
        """Rows of every region."""
        parts = tuple((Histogram.of(self.spec, self.table, [], region), 1.0) for region in regions)
        exact = Published(JointHistogram(parts), GRID)
        noisy, _ = self.measure(exact, self.amount, f"sizes of regions of {self.table}")
        return [max(float(value), 0.0) for value in noisy]
