"""Fitting all tables of a database: owners first, what they own given them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privbench.domain import Codes, Domain
from privbench.learning.assemble import TableModel
from privbench.learning.bins import Bins, bins_of
from privbench.learning.denoise import Floats
from privbench.learning.fanlaw import FanLaw
from privbench.learning.junction.byrows import PART
from privbench.learning.junction.context import GROUP, Variable, fan_groups, find_context
from privbench.learning.junction.fans import joint_law
from privbench.learning.junction.given import Ints
from privbench.learning.junction.learner import Learner
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.pullfit import Targets, fit_pulls
from privbench.learning.keyasks import Answers
from privbench.learning.keys import OUTSIDE, KeyModel, fan_variable, link_variable, own_keys
from privbench.learning.shares import key_item, rows_item
from privbench.privacy import KeySpec
from privbench.privacy.queries.fanin import KEPT
from privbench.synthesizers.common import TRUST, Fitting
from privbench.synthesizers.junction_draws import Draws
from privbench.synthesizers.junction_parents import measure_parents, parents_part
from privbench.synthesizers.junction_rows import find_clip, measure_by_rows
from privbench.synthesizers.junction_rules import (
    budget_of,
    counts_rows,
    has_links,
    has_pulls,
    joint_fan_outs,
    joint_part,
    key_part,
    may_stay_inside,
    released_weight,
)
from privbench.synthesizers.junction_sizes import Size, excess, measure_rows, size_of

#: Rows that the expected law by rows is taken from, at most.
MOST_LOOKED_AT = 40_000
#: How often children are brought to their totals, and how near that is near enough.
_CALIBRATIONS, _CLOSE = 2, 0.02


@dataclass
class DatabaseFit:
    """One fit of all tables under way.

    Attributes:
        fitting: Session, input and amounts.
        target: A column that rows shall tell from the others, or none.
        laws: Laws of the tables fitted so far.
        keys: Models of the keys fitted so far, by table and name.
    """

    fitting: Fitting
    target: str = ""
    laws: dict[str, TableLaw] = field(default_factory=dict)
    keys: dict[tuple[str, str], KeyModel] = field(default_factory=dict)
    _variables: dict[str, list[Variable]] = field(default_factory=dict)
    _links: dict[tuple[str, str], Floats] = field(default_factory=dict)
    _sizes: dict[str, Size] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._draws = Draws(self.fitting.spec, self.fitting.start)

    def run(self) -> dict[str, TableModel]:
        """Fit every table and key."""
        for name in self.fitting.spec.order():
            self._table(name)
        models = {name: self._model(name) for name in self.fitting.spec.order()}
        return self.fitting.drawn_tables(models)

    def _model(self, table: str) -> TableModel:
        spec = self.fitting.spec.tables[table]
        for key in spec.keys:
            if key.role != "own":
                self.keys[table, key.name] = self._reference(key)
        keys = {key.name: self.keys[table, key.name] for key in spec.keys}
        return TableModel(self.fitting.rows(table), keys)

    def _reference(self, key: KeySpec) -> KeyModel:
        """Measure and fit a key that does not own: how often, and which rows are referred to."""
        fitting, links = self.fitting, self._links.get((key.table, key.name))
        part = key_part(fitting.spec, key, fitting.faint)
        model = fitting.key(key, links, self._outside(key), part)
        if not has_pulls(fitting.spec, key, fitting.faint):
            return model
        return fit_pulls(
            fitting.spec,
            key,
            model,
            fitting.amounts[key_item(key)] * (1.0 - part),
            fitting.measure,
            fitting.noise,
            self._targets(key),
            outside=may_stay_inside(fitting.spec, key),
        )

    def _targets(self, key: KeySpec) -> Targets:
        """Synthetic rows that a key may refer to, and the weight of its references."""
        variables, people = self._variables[key.parent], self._draws.people
        links = self._links.get((key.table, key.name))
        sizes = self.fitting.sizes(key.table)
        part = self._draws.scale * (1.0 if links is None else float(links[OUTSIDE]))
        return Targets(
            variables,
            {item.name: people.codes(key.parent, item.name) for item in variables},
            people.identity(key.parent),
            sizes.weight(key.table) * part,
            sizes.rows[key.table] * part,
            self._draws.scale,
        )

    def _outside(self, key: KeySpec) -> float | None:
        """Number of references into other units that fan-in keeps, if synthetic rows tell it."""
        codes = self._draws.people.find(key.table, link_variable(key.name))
        if codes is None:
            return None
        kept = np.minimum(KEPT / self._draws.people.sizes(key.table), 1.0)
        return float(kept[codes == OUTSIDE].sum()) / self._draws.scale

    def _table(self, table: str) -> None:
        spec = self.fitting.spec
        owners, rows = self._owners(table)
        units = None if owners is None else self._draws.people.units(table, owners)
        clip = None
        if units is not None:
            clip = find_clip(self.fitting, table, units, self._draws.sampled(table))
        amount = self.fitting.amounts.get(rows_item(table), 0.0) * (1.0 - PART if clip else 1.0)
        among = amount * parents_part(spec, table)
        learner = self._learner(table, owners, amount - among)
        root = spec.tables[table].own is None
        sizes = self.fitting.sizes(table)
        known = sizes.rows[table], sizes.sd[table]
        # What synthetic owners say of the weight of owned rows is not far off.
        learner.one_ways(known if root else (learner.rows, TRUST * learner.rows))
        if root:
            self.fitting.sums[table] = learner.sums
        else:
            self.fitting.weights[table] = learner.rows
        if owners is not None:
            self.fitting.drawn[table] = rows / self._draws.sampled(table)
        self._fan_outs(table, learner, owners)
        if root:
            rows = self._owners(table)[1]
        keys = [key for key in spec.tables[table].keys if has_links(spec, key)]
        learner.variables += [self._link(key, learner) for key in keys]
        if owners is not None and len(owners):
            learner.context = find_context(
                spec,
                table,
                self._variables,
                self._draws.people,
                owners,
                learner.rows,
                learner.tree_sd,
            )
        self._variables[table] = learner.variables
        learner.held = measure_parents(self.fitting, learner, table, among)
        self.laws[table] = learner.learn()
        if units is not None and clip:
            some = slice(0, rows, -(-rows // MOST_LOOKED_AT))
            found = measure_by_rows(
                self.fitting,
                table,
                learner.variables,
                self._draws.sample(self.laws[table], table, owners, rows, some),
                units[some],
                self._draws.sampled(table) * len(units[some]) / rows,
                clip,
            )
            self.laws[table] = learner.heavier(self.laws[table], found, clip)
        if self._draws.holds(table):
            codes = self._draws.sample(self.laws[table], table, owners, rows)
            if owners is not None:
                codes = self._calibrated(table, learner, codes, owners, rows)
            self._draws.people.add(table, codes, owners, rows)

    def _learner(self, table: str, owners: Ints | None, amount: float) -> Learner:
        spec, fitting = self.fitting.spec, self.fitting
        rows, given = released_weight(spec, table, fitting.start), 0
        if owners is not None:
            rows = self._draws.weight(table, owners)
            given = sum(len(self._variables[name]) for name in spec.ancestors(table))
        budget = budget_of(spec, table, amount, rows, given, fitting.start, self.target)
        learner = Learner(
            spec,
            table,
            amount,
            budget,
            fitting.start.accounting,
            fitting.noise,
            fitting.measure_all,
            fitting.session.select,
        )
        learner.rows = rows
        return learner

    def _fan_outs(self, table: str, learner: Learner, owners: Ints | None) -> None:
        """Measure all fan-outs of a table, and each jointly with the first."""
        keys = own_keys(self.fitting.spec, table)
        first = len(learner.variables)
        # All fan-outs come first: each tells how many owners there are.
        parts = [key_part(self.fitting.spec, key, self.fitting.faint) for key in keys]
        asked = [self.fitting.ask(key, part=part) for key, part in zip(keys, parts, strict=True)]
        for number, (key, answers) in enumerate(zip(keys, asked, strict=True)):
            learner.variables.append(self._fan_out(key, answers, learner, owners))
            if number:
                place = first, first + number
                learner.fine[place] = self._joint(table, keys[0], key, learner)

    def _joint(self, table: str, first: KeySpec, second: KeySpec, learner: Learner) -> Floats:
        """Measure two fan-outs jointly."""
        fitting = self.fitting
        label = f"fan-outs of {first.table}.{first.name} and {second.table}.{second.name}"
        query = joint_fan_outs(table, first, second)
        noisy, sd = fitting.measure(
            query, fitting.amounts[key_item(second)] * joint_part(second, fitting.faint), label
        )
        one, two = (self._law(key).mass * learner.rows for key in (first, second))
        return joint_law(noisy, sd, one, two, fitting.noise)

    def _fan_out(
        self, key: KeySpec, answers: Answers, learner: Learner, owners: Ints | None
    ) -> Variable:
        """Fit a fan-out; its bucket is a variable of the owner."""
        evidence = None
        if counts_rows(self.fitting.spec, key, self.fitting.faint):
            units, part = self._units(key.parent, owners), self._draws.sampled(key.parent)
            evidence = measure_rows(self.fitting, key, answers, units, part)
        model = self.fitting.fit(key, answers, evidence=evidence)
        self.keys[key.table, key.name] = model
        self._sizes[key.table] = size_of(self.fitting, key, model, answers, learner.rows, evidence)
        counts = self._law(key).mass * learner.rows
        bins = bins_of(fan_groups(counts, GROUP * learner.tree_sd), counts)
        domain = Domain(len(counts), ordered=True)
        return Variable(fan_variable(key.table, key.name), domain, bins, key)

    def _units(self, table: str, owners: Ints | None) -> Ints:
        """Unit of every synthetic row."""
        if owners is None:
            return np.arange(self._draws.count(self.fitting.sizes(table).rows[table]))
        return self._draws.people.identify(table, owners)

    def _law(self, key: KeySpec) -> FanLaw:
        """The law of an OWN key's numbers of children."""
        law = self.keys[key.table, key.name].law
        if law is None:
            raise ValueError("an OWN key has a fan-out law")
        return law

    def _link(self, key: KeySpec, learner: Learner) -> Variable:
        """Measure where references lead; it is a variable of the row."""
        part = key_part(self.fitting.spec, key, self.fitting.faint)
        inside = may_stay_inside(self.fitting.spec, key)
        shares = self.fitting.links(key, part, learner.rows, own=inside)
        self._links[key.table, key.name] = shares
        size = len(shares)
        bins = Bins(np.arange(size), np.ones(size), shares * learner.rows)
        return Variable(link_variable(key.name), Domain(size), bins, key)

    def _owners(self, table: str) -> tuple[Ints | None, int]:
        """Owner of every synthetic row, and the number of rows."""
        own = self.fitting.spec.tables[table].own
        if own is None:
            return None, self._draws.count(self.fitting.sizes(table).rows[table])
        edges = self._draws.owners(own, self.keys[table, own.name], self._law(own))
        return edges, len(edges)

    def _calibrated(
        self, table: str, learner: Learner, codes: dict[str, Codes], owners: Ints, rows: int
    ) -> dict[str, Codes]:
        """Rows of an owned table whose numbers of children add up to what totals say.

        Fan-outs of owned rows are measured with their weights. Where parents of many rows have more
        or fewer children than others, a law that is right by weight is off by rows.
        """
        names = [fan_variable(key.table, key.name) for key in own_keys(self.fitting.spec, table)]
        goals: dict[str, float] = {}
        for _ in range(_CALIBRATIONS):
            factors = {}
            for key in own_keys(self.fitting.spec, table):
                name = fan_variable(key.table, key.name)
                drawn = float(self._law(key).means()[codes[name]].sum())
                # A total that is mostly noise is weighed once: then rows lean to it already.
                if name not in goals or self._sizes[key.table].units is not None:
                    goals[name] = drawn * self._excess(key, codes[name], owners)
                factor = goals[name] / drawn if drawn > 0 else 1.0
                if abs(factor - 1.0) > _CLOSE:
                    factors[name] = factor
            if not factors:
                break
            before = self.laws[table], codes
            self.laws[table] = learner.rescale(factors)
            codes = self._draws.sample(self.laws[table], table, owners, rows)
            # A fit anew may raise the rare cells of another fan-out, whose children are many.
            others = [name for name in names if name not in factors]
            if any(_grown(before[1][name], codes[name]) for name in others):
                self.laws[table], codes = before
                break
        return codes

    def _excess(self, key: KeySpec, buckets: Codes, owners: Ints) -> float:
        """Factor from the drawn number of children toward what is known of it."""
        crowd = self._draws.crowd(key.parent, self._units(key.parent, owners))
        return excess(self._law(key), buckets, crowd, self._sizes[key.table], self.fitting.noise)


def _grown(before: Codes, after: Codes) -> bool:
    """Whether buckets that double in size hold half as many children again."""
    held = [float((2.0 ** codes.astype(np.float64))[codes > 0].sum()) for codes in (before, after)]
    return held[1] > 1.5 * held[0] + 1.0
