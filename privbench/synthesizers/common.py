"""What both synthesizers share: amounts, keys, and their plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from privbench.learning.assemble import TableModel
from privbench.learning.denoise import Floats, Noise, noise_law
from privbench.learning.keyfit import Sizes, asks, fit_key, measure_links
from privbench.learning.keys import KeyModel
from privbench.learning.shares import key_item, rows_item, shares
from privbench.privacy import DatabaseSpec, KeySpec, Measurement, Query, Session, allocate
from privbench.privacy.queries import Histogram, Total
from privbench.synthesizers.base import PlanInput, PlannedEvent

#: Kept back, so that no sum of amounts passes what was given.
_MARGIN = 1 - 1e-9
_LOSS = {"pure": "epsilon", "zcdp": "rho"}


@dataclass(frozen=True, slots=True)
class Fitting:
    """One fit under way: the session, its input, and the amounts per table and key.

    Attributes:
        session: The door to the private rows.
        start: Released or public input of the fit.
        amounts: Amount per item of `privbench.learning.shares`.
        total_sd: Per table, noise of its total, as far as this session released it.
        sums: Per root table, sums of its one-way histograms and their variances.
        weights: Released weight of the rows of owned tables, as far as a synthesizer knows it.
        drawn: Rows of owned tables as their synthetic owners have them, likewise.
    """

    session: Session
    start: PlanInput
    amounts: dict[str, float]
    total_sd: dict[str, float]
    sums: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    drawn: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_rows: Mapping[str, int] | None,
    ) -> Fitting:
        """Divide the amount among tables and keys."""
        start = PlanInput(amount, session.accounting, dict(totals), dict(public_rows or {}))
        return cls(session, start, amounts(session.spec, start), _total_sd(session, start))

    @property
    def spec(self) -> DatabaseSpec:
        """What is public about the database."""
        return self.session.spec

    @property
    def noise(self) -> Noise:
        """Law of the noise."""
        return noise_law(self.session.accounting)

    def measure(self, query: Query, amount: float, label: str) -> tuple[Floats, float]:
        """A measurement and the standard deviation of its noise, in counts."""
        (found,) = self.measure_all([Measurement(query, amount, label)])
        return found

    def measure_all(self, questions: Sequence[Measurement]) -> list[tuple[Floats, float]]:
        """Measurements that do not depend on each other's answers, as one batch; as `measure`."""
        return [
            (np.asarray(noisy, np.float64), self.session.noise_scale(item.query, item.amount))
            for item, noisy in zip(questions, self.session.measure_all(questions), strict=True)
        ]

    def one_way(self, table: str, attribute: str, amount: float) -> tuple[Floats, float]:
        """Measure one attribute's histogram; a root table's size is learned from it too."""
        query = Histogram.of(self.spec, table, [attribute])
        noisy, sd = self.measure(query, amount, f"one-way of {table}.{attribute}")
        if self.spec.tables[table].own is None:
            variance = max(sd * sd * len(noisy), 1e-18)
            self.sums.setdefault(table, []).append((float(noisy.sum()), variance))
        return noisy, sd

    def rows(self, table: str) -> float:
        """Rows of a table: the inverse-variance mean of all that was released, at least 1.

        Every row of a root table stands in one cell of each of its histograms with weight 1, so
        that their sums are further noisy totals.
        """
        return max(self._rows(table)[0], 1.0)

    def _rows(self, table: str) -> tuple[float, float]:
        """Rows of a table and the variance of that."""
        total = self.start.rows(table)
        sd = self.total_sd.get(table)
        if sd is None:
            return total, 0.0
        found = [(total, max(sd * sd, 1e-18)), *self.sums.get(table, [])]
        precision = sum(1.0 / variance for _, variance in found)
        return sum(value / variance for value, variance in found) / precision, 1.0 / precision

    def table_model(self, table: str) -> TableModel:
        """Measure and fit all keys of a table; after the histograms, which tell its size."""
        keys = [self.key(key) for key in self.spec.tables[table].keys]
        return TableModel(self.rows(table), {key.name: key for key in keys})

    def sizes(self, *tables: str) -> Sizes:
        """Rows of some tables and how uncertain they are."""
        found = {name: self._rows(name) for name in tables}
        rows = {name: max(value, 1.0) for name, (value, _) in found.items()}
        deviations = {name: variance**0.5 for name, (_, variance) in found.items()}
        return Sizes(rows, deviations, self.weights, self.drawn)

    def rows_amount(self, table: str) -> float:
        """What may be spent on a table's attributes."""
        return self.amounts[rows_item(table)]

    def key(
        self,
        key: KeySpec,
        links: Floats | None = None,
        outside: float | None = None,
        part: float = 1.0,
    ) -> KeyModel:
        """Measure and fit a key with a part of its amount.

        Args:
            key: The key.
            links: What `links` gave for it.
            outside: Number of references into other units that fan-in keeps, if rows tell it.
            part: Part of the key's amount, the same for both.
        """
        return fit_key(
            self.spec,
            key,
            self.amounts[key_item(key)] * part,
            self.measure,
            self.sizes(key.table, key.parent),
            self.start.public_rows,
            self.noise,
            links,
            outside,
        )

    def links(self, key: KeySpec, part: float, total: float, *, own: bool) -> Floats:
        """Measure where a REF key's references lead (`keyfit.measure_links`)."""
        amount = self.amounts[key_item(key)] * part
        return measure_links(self.spec, key, amount, self.measure, total, self.noise, own=own)


def _total_sd(session: Session, start: PlanInput) -> dict[str, float]:
    """Noise of the totals that a session released."""
    sd: dict[str, float] = {}
    for step in session.trace:
        if isinstance(step.query, Total) and step.event.loss == _LOSS[start.accounting]:
            noise = session.noise_scale(step.query, step.event.amount)
            sd[step.query.table] = min(noise, sd.get(step.query.table, noise))
    return sd


def amounts(spec: DatabaseSpec, start: PlanInput) -> dict[str, float]:
    """Amount per table and key; no root table's sum passes the total."""
    items = shares(spec, start.totals)
    return allocate(items, start.total * _MARGIN) if items else {}


def planned_keys(
    spec: DatabaseSpec,
    start: PlanInput,
    own: Callable[[KeySpec], bool] = lambda key: False,
    part: Callable[[KeySpec], float] = lambda key: 1.0,
) -> list[PlannedEvent]:
    """The events of all keys, as `Fitting.key` makes them.

    Args:
        spec: What is public.
        start: What the plan starts from.
        own: Whether references into the row's own unit are told apart.
        part: Part of a key's amount that goes to these events.
    """
    given = amounts(spec, start)
    return [
        PlannedEvent.of(
            ask.label(key), ask.query, spec, given[key_item(key)] * part(key) * ask.part, start
        )
        for table in spec.tables.values()
        for key in table.keys
        for ask in asks(key, start.public_rows, own=own(key))
    ]
