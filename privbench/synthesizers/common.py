"""What both synthesizers share: amounts, keys, and their plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from privbench.learning.absent import emptied, told_tables
from privbench.learning.answers import Answer, counted_units, measured
from privbench.learning.assemble import TableModel
from privbench.learning.denoise import Floats, Noise, by_precision, noise_law
from privbench.learning.keyasks import Answers, asks, bounds_of, measure_key
from privbench.learning.keyfit import Sizes, fit_key, parents_of
from privbench.learning.keys import KeyModel
from privbench.learning.links import measure_links
from privbench.learning.shares import key_item, rows_item, shares
from privbench.learning.unitrows import Evidence
from privbench.privacy import (
    MARGIN,
    DatabaseSpec,
    KeySpec,
    Measurement,
    Query,
    Session,
    allocate,
    noise_sd,
)
from privbench.privacy.queries import FanOut, Histogram, Presence, Total
from privbench.synthesizers.base import PlanInput, PlannedEvent, roots_of, spare_amounts

#: How far the weight of synthetic owned rows may be off.
TRUST = 0.3
#: Units, in standard deviations of the noise of a count of them, from which on shares of keys
#: stay as they are; most and least factors on those of OWN and other keys of fewer units.
_SEEN, _MORE, _LESS = 60.0, 3.0, 0.3
#: The same of a one-way marginal of an owned table; below it, no range is seen either.
_TOLD = 12.0
_LOSS = {"pure": "epsilon", "zcdp": "rho"}


@dataclass(frozen=True, slots=True)
class Fitting:
    """One fit under way: the session, its input, and the amounts per table and key.

    Attributes:
        session: The door to the private rows.
        start: Released or public input of the fit.
        amounts: Amount per item of `privbench.learning.shares`.
        total_sd: Per table, noise of its total, as far as this session released it.
        faint: Items of keys of few units (`faint`).
        counted: Units that have rows in owned tables and the noise of that, where counted.
        sums: Per root table, sums of its one-way histograms and fan-outs, and their variances; per
            owned table, those of the weight of its rows.
        weights: Released weight of the rows of owned tables, as far as a synthesizer knows it.
        drawn: Rows of owned tables as their synthetic owners have them, likewise.
    """

    session: Session
    start: PlanInput
    amounts: dict[str, float]
    total_sd: dict[str, float]
    faint: frozenset[str] = frozenset()
    counted: dict[str, tuple[float, float]] = field(default_factory=dict)
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
        left = {root: session.remaining(root) for root in roots_of(session.spec)}
        counted = counted_units(session)
        start = PlanInput(
            amount,
            session.accounting,
            dict(totals),
            dict(public_rows or {}),
            spare_amounts(left, amount),
            {name: max(found) for name, found in counted.items()},
        )
        return cls(
            session,
            start,
            amounts(session.spec, start),
            _total_sd(session, start),
            faint(session.spec, start),
            counted,
        )

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
        return measured(self.session, questions)

    def weight(self, table: str, answers: Iterable[Answer]) -> float:
        """Weight of a table's rows: of an owned one, the mean of its histograms' sums, at least 1.

        Args:
            table: The table.
            answers: Noisy histograms of all of its rows.
        """
        if self.spec.tables[table].own is None:
            return self.rows(table)
        sums = [(float(values.sum()), max(sd * sd * values.size, 1e-18)) for values, sd in answers]
        return max(by_precision(sums)[0], 1.0)

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

        Every row of a root table stands in one cell of each of its histograms with weight 1, and
        in one bucket of each of its fan-outs, so that their sums are further noisy totals.
        """
        return max(self._rows(table)[0], 1.0)

    def _rows(self, table: str) -> tuple[float, float]:
        """Rows of a table and the variance of that."""
        total = self.start.rows(table)
        sd = self.total_sd.get(table)
        if sd is None:
            return total, 0.0
        sums = self.sums.get(table, []) if self.spec.tables[table].own is None else []
        return by_precision([(total, max(sd * sd, 1e-18)), *sums])

    def table_model(self, table: str) -> TableModel:
        """Measure and fit all keys of a table; after the histograms, which tell its size."""
        keys = [self.key(key) for key in self.spec.tables[table].keys]
        return TableModel(self.rows(table), {key.name: key for key in keys})

    def drawn_tables(self, tables: Mapping[str, TableModel]) -> dict[str, TableModel]:
        """The models of all tables; those that no release tells from empty ones have no rows."""
        told = told_tables(self.session, {name: self._rows(name) for name in self.spec.tables})
        return {name: model if name in told else emptied(model) for name, model in tables.items()}

    def sizes(self, *tables: str) -> Sizes:
        """Rows of some tables and how uncertain they are."""
        found = {name: self._rows(name) for name in tables}
        rows = {name: max(value, 1.0) for name, (value, _) in found.items()}
        deviations = {name: variance**0.5 for name, (_, variance) in found.items()}
        told = {
            name: by_precision(self.sums[name])
            for name in tables
            if self.sums.get(name) and self.spec.tables[name].own
        }
        owners = {name: (max(weight, 1.0), var**0.5) for name, (weight, var) in told.items()}
        return Sizes(rows, deviations, self.weights, self.drawn, owners, self.counted)

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
        return self.fit(key, self.ask(key, links, part), links, outside)

    def ask(self, key: KeySpec, links: Floats | None = None, part: float = 1.0) -> Answers:
        """Measure a key as `key` does; a fan-out tells the number of rows of a root table too."""
        if key.role == "own" and self.spec.tables[key.parent].own and key.parent in self.weights:
            # What synthetic owners say of the weight of owned rows is not far off.
            weight = self.weights[key.parent]
            self.sums.setdefault(key.parent, [(weight, (TRUST * weight) ** 2)])
        answers = measure_key(
            key,
            self.amounts[key_item(key)] * part,
            self.measure,
            self.start.public_rows,
            links,
            few=key_item(key) in self.faint,
        )
        told = parents_of(key, answers)
        if told is not None:
            self.sums.setdefault(key.parent, []).append(told)
        return answers

    def fit(
        self,
        key: KeySpec,
        answers: Answers,
        links: Floats | None = None,
        outside: float | None = None,
        evidence: Evidence | None = None,
    ) -> KeyModel:
        """Fit a key to what `ask` gave, and to totals of its table."""
        sizes = self.sizes(key.table, key.parent)
        return fit_key(self.spec, key, answers, sizes, self.noise, links, outside, evidence)

    def links(self, key: KeySpec, part: float, total: float, *, own: bool) -> Floats:
        """Measure where a REF key's references lead (`links.measure_links`)."""
        amount = self.amounts[key_item(key)] * part
        few = key_item(key) in self.faint
        return measure_links(
            self.spec, key, amount, self.measure, total, self.noise, own=own, few=few
        )


def _total_sd(session: Session, start: PlanInput) -> dict[str, float]:
    """Noise of the totals that a session released."""
    sd: dict[str, float] = {}
    for step in session.trace:
        # Units are counted too, by totals with a clip of their own.
        total = step.query == Total(step.query.table)
        if total and step.event.loss == _LOSS[start.accounting]:
            noise = session.noise_scale(step.query, step.event.amount)
            sd[step.query.table] = min(noise, sd.get(step.query.table, noise))
    return sd


def amounts(spec: DatabaseSpec, start: PlanInput) -> dict[str, float]:
    """Amount per table and key; no root table's sum passes the total and what it has to spare.

    Proof: by `allocate` no root table's sum passes the total T. An item is raised by the smallest
    factor 1 + spare_r / T of its root tables, so that a root table's sum is at most T + spare_r.
    """
    items = shares(spec, start.totals, _few(spec, start))
    if not items:
        return {}
    given = allocate(items, start.total * MARGIN)
    more = {
        name: min(start.spare.get(root, 0.0) for root in roots) / start.total
        for name, (_, roots) in items.items()
    }
    return {name: amount * (1.0 + more[name]) for name, amount in given.items()}


#: A count of units by the role of a key.
_COUNTS: dict[str, Callable[[KeySpec], Query]] = {
    "own": lambda key: FanOut(key, bounds_of(key)),
    "ref": lambda key: Presence(key, own=False),
    "public": lambda key: Histogram(key.table, ()),
}


def _plain(spec: DatabaseSpec, start: PlanInput) -> dict[str, float]:
    """Amount per table and key before what is known of units changes it."""
    items = shares(spec, start.totals)
    return allocate(items, start.total * MARGIN) if items else {}


def standing(spec: DatabaseSpec, start: PlanInput) -> dict[str, float]:
    """How far the units of every key stand above noise.

    The yardstick is the noise of one count of units (a fan-out; rows with a reference) for a key's
    plain share: 1 where units are as many as `_SEEN` of its standard deviations.
    """
    given, found = _plain(spec, start), {}
    for table in spec.tables.values():
        for key in table.keys:
            query = _COUNTS[key.role](key)
            sd = noise_sd(query, spec, given[key_item(key)], start.accounting)
            ends = (key.table,) if key.role == "public" else (key.parent, key.table)
            units = min(start.units(spec, end) for end in ends)
            found[key_item(key)] = units / max(sd * _SEEN, 1e-9)
    return found


def faint(spec: DatabaseSpec, start: PlanInput) -> frozenset[str]:
    """Names of the items of keys whose units are few against the noise."""
    return frozenset(name for name, seen in standing(spec, start).items() if seen < 1.0)


def _few(spec: DatabaseSpec, start: PlanInput) -> dict[str, float]:
    """Factors on the amounts of keys and rows of few units.

    How many rows a few units have is the first thing to know; where their references lead, and what
    values their rows hold, is lost in noise whatever is spent.
    """
    owned = {
        key_item(key) for table in spec.tables.values() for key in table.keys if key.role == "own"
    }
    found = {
        name: min(max(1.0 / seen, 1.0), _MORE) if name in owned else min(max(seen, _LESS), 1.0)
        for name, seen in standing(spec, start).items()
    }
    given = _plain(spec, start)
    for table in spec.tables.values():
        if table.attributes and table.name in start.counted:
            each = given[rows_item(table.name)] / (2 * len(table.attributes))
            sd = noise_sd(Histogram(table.name, ()), spec, each, start.accounting)
            seen = start.units(spec, table.name) / max(sd * _TOLD, 1e-9)
            found[rows_item(table.name)] = min(max(seen, _LESS), 1.0)
    return found


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
    given, few = amounts(spec, start), faint(spec, start)
    return [
        PlannedEvent.of(
            ask.label(key), ask.query, spec, given[key_item(key)] * part(key) * ask.part, start
        )
        for table in spec.tables.values()
        for key in table.keys
        for ask in asks(key, start.public_rows, own=own(key), few=key_item(key) in few)
    ]
