"""Questions: what a session measures or selects for a fit, and with which amount of budget.

`Session.ask` takes a list of questions as one batch. Questions of a batch may depend on what was
released before the batch, never on each other's answers: all noise is drawn before any answer is
given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privbench.arrays import Ints
from privbench.errors import PrivacyRefusal
from privbench.privacy.events import Accounting, Event, fingerprint
from privbench.privacy.mechanisms import SELECTION, THRESHOLD, VECTOR, Mechanism, Method
from privbench.privacy.noise import NoiseSource
from privbench.privacy.query import Query
from privbench.privacy.release import Listed, NoisyResult
from privbench.privacy.spec import DatabaseSpec


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its amount of budget, answered by the accounting's mechanism."""

    query: Query  # the statistic to measure
    amount: float  # ε or ρ to charge to every root table of the query
    label: str  # its purpose, for the ledger
    delta: float = 0.0  # δ to charge; public, and above 0 for `LabelRelease` alone
    mechanisms: ClassVar[Mapping[Accounting, Mechanism]]

    def method(self, spec: DatabaseSpec, accounting: Accounting) -> Method:
        """Return the mechanism and scale that answer the question; reads no rows.

        If the question does not fit its mechanism, a PrivacyRefusal is raised.
        """
        mechanism = self.mechanisms[accounting]
        return Method(mechanism, mechanism.scale(self.query.sensitivity(spec), self.amount))

    def draw(self, method: Method, data: Any, noise: NoiseSource, stream: str) -> NoisyResult:
        """Compute the exact statistic of the data and draw the noisy result."""
        exact = _checked(self.query, self.query.evaluate(data))
        noisy: NoisyResult = noise.draw(method, exact, stream)
        return noisy

    def event(self, spec: DatabaseSpec, method: Method, *, private: bool) -> Event:
        """Return the event to record, with the position of a release's first event.

        Reads no rows.
        """
        query, threshold = self.query, method.threshold
        return Event(
            id=0,
            label=self.label,
            kind=query.kind,
            table=query.table,
            columns=tuple(query.columns),
            query=fingerprint(query),
            shape=() if threshold is not None else tuple(int(size) for size in query.shape),
            mechanism=method.mechanism.name,
            unit=query.unit,
            sensitivity=query.sensitivity(spec),
            scale=method.scale,
            threshold=threshold,
            loss=method.mechanism.loss,
            amount=float(self.amount),
            delta=float(self.delta),
            roots=tuple(sorted(query.roots(spec))),
            neighbours=spec.relation.neighbours,
            private=private,
        )


class Measurement(Question):
    """The statistic plus noise: discrete Laplace by L1, or discrete Gaussian by L2."""

    __slots__ = ()
    mechanisms = VECTOR


class Selection(Question):
    """The index of a largest score in a vector, by noisy max; charged by the L∞ sensitivity."""

    __slots__ = ()
    mechanisms = SELECTION

    def method(self, spec: DatabaseSpec, accounting: Accounting) -> Method:
        """Return the method; the query must have one dimension and at least one candidate."""
        if len(self.query.shape) != 1 or self.query.shape[0] < 1:
            raise PrivacyRefusal(f"'{self.label}': a selection needs a vector of scores.")
        return Question.method(self, spec, accounting)


class LabelRelease(Question):
    """Noisy counts of public cells, and the labels whose noisy count passes a threshold.

    Public cells and labels are together the cells of one vector, whose sensitivity the query
    states. Noise of the same law is added once to each. Public cells get it from the vector
    mechanism, which adds what the threshold mechanism adds to labels before it compares them with
    the threshold. So the loss is that of the threshold mechanism on the whole vector. Its δ is for
    labels that one of two neighbours lacks; it does not concern public cells, which both have.
    """

    __slots__ = ()

    def method(self, spec: DatabaseSpec, accounting: Accounting) -> Method:
        """Return the method; the query must count labels, its sensitivity have l0, and δ be > 0."""
        if not hasattr(self.query, "evaluate_labels"):
            raise PrivacyRefusal(f"'{self.label}' is not a query over labels.")
        if not self.delta > 0.0:
            raise PrivacyRefusal(
                f"'{self.label}': categories cannot be released with delta = 0.",
                remedy="Declare the list of values, or give the release a delta.",
            )
        mechanism, claim = THRESHOLD[accounting], self.query.sensitivity(spec)
        scale = mechanism.scale(claim, self.amount)
        threshold = mechanism.threshold(claim, scale, self.delta)
        return Method(mechanism, scale, threshold, VECTOR[accounting])

    def draw(self, method: Method, data: Any, noise: NoiseSource, stream: str) -> NoisyResult:
        """Compute the exact counts and draw the noisy ones, and the labels over the threshold."""
        assert method.public is not None
        exact, counts = self.query.evaluate_labels(data)  # type: ignore[attr-defined]
        exact = _checked(self.query, exact)
        cells = noise.draw(Method(method.public, method.scale), exact, f"{stream} cells")
        released = noise.draw(method, counts, stream)
        return Listed(tuple(cells.tolist()), tuple(released), tuple(released.values()))


def _checked(query: Query, values: Any) -> Ints:
    """The statistic, if it is an array of int64 of the query's public shape."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        raise TypeError
    if values.shape != tuple(query.shape):
        raise ValueError
    return values
