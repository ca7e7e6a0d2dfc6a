"""The claims of the paper on sum-product networks, as it makes them: NOT PRIVATE, to compare with.

The session measures with the paper's sensitivity in place of the true one, so that the noise is the
paper's, and the stability harness refuses the claim. Only a fit with seeded noise, which is stamped
NOT PRIVATE, may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from privbench.errors import PrivacyRefusal
from privbench.learning.answers import Measured
from privbench.privacy import GRID, DatabaseSpec, Query, Sensitivity, Session
from privbench.privacy.queries import Histogram, Joint
from privbench.synthesizers.database import TableFit
from privbench_lab.queries import Region
from privbench_lab.spn.node import Measure


@dataclass(frozen=True, slots=True)
class Published(Joint):
    """A query with a claim that is too small by a factor. NOT PRIVATE.

    Statistic: that of its one part. Claimed sensitivity: its own over ``factor``, at least one grid
    unit; there is no proof, since it does not hold. Source: Theorem 3.1 of the paper, which counts
    one histogram for a product of ``factor`` of them, and counts exact sizes as post-processing
    (``factor`` = `GRID`).
    """

    parts: tuple[Query, ...]  # type: ignore[assignment]
    factor: int  # factor by which the paper's claim is too small

    @property
    def kind(self) -> str:  # type: ignore[override]
        """See `Query.kind`."""
        return f"{self.parts[0].kind}, as published"

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """The paper's claim."""
        true = self.parts[0].sensitivity(spec)
        return Sensitivity(
            max(true.l1 // self.factor, 1),
            max(true.l2 / self.factor, 1.0),
            max(true.linf // self.factor, 1),
        )


def refuse_private(session: Session) -> None:
    """Refuse a fit that would not be stamped NOT PRIVATE, or whose accounting is not pure."""
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
    """Histograms of whole columns without noise, as the paper reads bins. NOT PRIVATE."""
    return lambda query, amount, label: measure(Published((query,), GRID), amount, label)


def claims(measure: Measure, columns: int) -> Measure:
    """Leaves with the paper's sensitivity: as if a product of columns were one histogram."""

    def ask(query: Query, amount: float, label: str) -> Measured:
        given = Published((query,), columns) if query.kind == "joint histogram" else query
        return measure(given, amount, label)

    return ask


def exact_sizes(fit: TableFit, amount: float) -> Callable[[Sequence[Region]], list[float]]:
    """Look up exact sizes of regions, as the paper takes them. NOT PRIVATE.

    Each is charged next to nothing, ``amount``, as the paper charges nothing.
    """
    measure = exactly(fit.measure)

    def rows(regions: Sequence[Region]) -> list[float]:
        query = Joint(tuple(Histogram.of(fit.spec, fit.table, [], region) for region in regions))
        noisy, _ = measure(query, amount, f"sizes of regions of {fit.table}")
        return [max(float(value), 0.0) for value in noisy]

    return rows
