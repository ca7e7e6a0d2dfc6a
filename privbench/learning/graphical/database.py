"""Fit a whole database: sizes, then table by table with owners first, then references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import hypot, log

import numpy as np

from privbench.arrays import Floats, Ints, Mask
from privbench.domain import Codes
from privbench.learning.answers import Measured, measured, of_lists, released_totals
from privbench.learning.denoise import CLEAR, PRESENT, noise_law
from privbench.learning.graphical import herding
from privbench.learning.graphical.associations import End, TargetAssociation, learn
from privbench.learning.graphical.budget import (
    Budget,
    PairBudget,
    TableSize,
    cap_of,
    clipped_question,
    fan_in_question,
    guessed_sizes,
    moment_question,
    moments,
    one_way_questions,
    set_questions,
    sibling_questions,
    size_questions,
    star_of,
)
from privbench.learning.graphical.columns import (
    OUTSIDE,
    ModelColumn,
    Variable,
    children,
    columns_above,
    columns_of,
    may_stay_inside,
    needed,
    public_owner,
    scope_name,
    shares_of,
)
from privbench.learning.graphical.estimate import cell_fits, shrink
from privbench.learning.graphical.joint_degrees import (
    DegreeLaw,
    JointDegrees,
    root_of,
)
from privbench.learning.graphical.model import Population, TableLaw
from privbench.learning.graphical.one_way import measured_one_ways, one_way
from privbench.learning.graphical.references import (
    ReferenceLaw,
    fit_reference,
    marginals,
    shares_of_the_upper,
    target_questions,
)
from privbench.learning.graphical.select import PairLearner
from privbench.learning.graphical.sets import SetLaw, counted, presences
from privbench.learning.graphical.siblings import date_of, with_siblings
from privbench.learning.graphical.sizes import (
    MANY,
    ONE,
    best_clip,
    contributed,
    references_per_target,
    rows_per_unit,
    with_mean,
)
from privbench.learning.graphical.table_model import AttributeModel, Factor, Rows, TableModel
from privbench.learning.graphical.tilting import POOL, Tilt, tilts_for
from privbench.learning.graphical.times import FOLLOWS, SERIAL, direction, follows, order_axis
from privbench.privacy import DatabaseSpec, KeySpec, Measurement, Session
from privbench.privacy.queries import Histogram, NormedHistogram, Total
from privbench.privacy.units import bound, row_weights
from privbench.rng import generator

#: A fit draws synthetic rows to learn from: at most `MOST_ROWS` of the largest table, unless some
#: tree would then have fewer than `LEAST_UNITS` units. This limits time and memory alone.
MOST_ROWS, LEAST_UNITS = 200_000, 3_000
#: Prior odds that an owned table has rows. At 1: one in eight releases loses the 24 managers of
#: 10,000 employees, and one empty table in twenty gets rows; at 2: one in twenty, and one in four.
SOME = 2.0
#: A table without owners is taken to have rows if its total is at least this many standard
#: deviations above zero. Half of the empty tables come out with a few rows.
PRESENT_SDS = 0.7
#: Least share of a group of cells where no pairs are measured.
PLAIN_FLOOR = 0.01


@dataclass
class DatabaseFit:
    """The state of a fit of a whole database."""

    session: Session
    totals: Mapping[str, float]  # noisy rows per table, released before
    budget: Budget
    public_kinds: dict[str, Ints]
    # Learns attributes, if the budget has amounts for that.
    learner: Callable[[str, float, float], AttributeModel] | None = None
    # Laws of tables from an earlier release on the same domains, whose models are kept if a test
    # shows no change. A table's law is not used if its columns, or an ancestor's, are other ones.
    old: Mapping[str, TableLaw] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spec: DatabaseSpec = self.session.spec
        self.law = noise_law(self.session.accounting)
        self.sizes: dict[str, TableSize] = {}
        self.variables: dict[str, list[Variable]] = {}
        self.laws: dict[str, TableLaw] = {}
        self.answers = of_lists(self.session)
        self.unspent: dict[str, float] = {}
        self.columns = {
            name: columns_of(self.spec, name, self.public_kinds) for name in self.spec.tables
        }

    def run(self) -> dict[tuple[str, str], ReferenceLaw]:
        """Fit all tables (stored in `laws`, owners first), and return the fitted references."""
        self._measure_sizes()
        # A learner of attributes plans by its amount, so that must be known before the fit: it is
        # computed from guessed sizes instead of measured ones.
        known = self.sizes if self.learner is None else guessed_sizes(self.spec, self.totals)
        self.budget.divide(known, self.columns)
        keys = {name: table.keys for name, table in self.spec.tables.items()}
        largest = max((size.rows for size in self.sizes.values()), default=1.0)
        tops = {self.spec.top(name) for name in self.spec.tables}
        units = min((self.sizes[top].rows for top in tops), default=1.0)
        scale = max(min(1.0, MOST_ROWS / largest), min(1.0, LEAST_UNITS / max(units, 1.0)))
        self.people = Population(keys, scale, lambda *labels: generator(0, "fit", *labels))
        for name in self.spec.order():
            self._fit_table(name)
        references = {
            (name, key.name): self._fit_reference(key)
            for name, table in self.spec.tables.items()
            for key in table.keys
            if key.role == "ref"
        }
        self._empty()
        return references

    def _empty(self) -> None:
        """Give no rows to tables that, by all that was released, may be empty.

        For a table without owners the released total decides, for an owned table the posterior
        odds. Tables to which rows of other tables must refer keep their rows.
        """
        present = set()
        for name, table in self.spec.tables.items():
            released = released_totals(self.session, name)
            total, sd = released[0].join(*released[1:]) if released else (np.ones(1), 0.0)
            size, above = self.sizes[name], total.item() - PRESENT_SDS * sd
            if (size.odds + log(SOME) if table.own else above) > 0 or size.free > 0:
                present.add(name)
        for name in set(self.laws) - needed(self.spec, present):
            self.laws[name] = replace(self.laws[name], rows=0.0, free=0.0, lost=0.0)

    # sizes ---------------------------------------------------------------------------------------

    def _measure_sizes(self) -> None:
        for name in self.spec.order():
            if self.spec.tables[name].own is None:
                rows = max(float(self.totals.get(name, 1.0)), 1.0)
                self.sizes[name] = TableSize(rows, rows)
        owned = [name for name in self.spec.order() if self.spec.tables[name].own is not None]
        questions = [(name, size_questions(self.budget, name)) for name in owned]
        answers = iter(measured(self.session, [item for _, items in questions for item in items]))
        first = {name: [next(answers) for _ in items] for name, items in questions}
        free = {name: self._free(name, first[name]) for name in owned}
        clipped = [self._clipped_question(name, first[name][0], free[name][0]) for name in owned]
        measured(self.session, clipped)
        for name in owned:
            self.sizes[name] = self._size(name, first[name][0], *free[name])

    def _clipped(self, table: str, histogram: Measured, free: float) -> list[Measured]:
        """All released values of Σ min(n, C) over the units of an owned table (`Total`).

        With C = 1 it is the number of units that have rows. That number also follows from the
        histogram, as all units less those without rows.
        """
        noisy, sd = histogram
        top = self.spec.top(table)
        spread = min((item.sd for item in released_totals(self.session, top)), default=0.0)
        units = Measured(Total(table, 1), self.sizes[top].rows - noisy[:1], hypot(sd, spread))
        totals = released_totals(self.session, table)
        return [units, *(replace(item, counts=item.counts - free) for item in totals)]

    def _free(self, table: str, answers: list[Measured]) -> tuple[float, float]:
        """Number of rows without an owner; each is a unit of one row, whose weight is 1/τ or 1.

        By a declared key these are rows of NULL and rows whose owner is not there, of which the
        second number is.
        """
        if len(answers) == 1:
            return 0.0, 0.0
        noisy, sd = answers[1]
        bounded = self.spec.tables[table].bound == "truncation"
        counts = [max(float(x), 0.0) for x in noisy[: len(noisy) - 1] if float(x) > PRESENT * sd]
        each = 1 if bounded else bound(self.spec, table)
        lost = float(noisy[1]) * each if len(noisy) == 3 and noisy[1] > PRESENT * sd else 0.0
        return sum(counts) * each, lost

    def _units(self, table: str, histogram: Measured, free: float) -> tuple[Floats, float, float]:
        units = self.sizes[self.spec.top(table)].rows
        return rows_per_unit(
            histogram.counts, histogram.sd, units, self.law, self._clipped(table, histogram, free)
        )

    def _clipped_question(self, table: str, histogram: Measured, free: float) -> Measurement:
        one = clipped_question(self.budget, table, 1)
        sd = self.session.noise_scale(one.query, one.amount)
        units, rows, _ = self._units(table, histogram, free)
        clip = best_clip(units, rows, sd)
        return clipped_question(self.budget, table, clip)

    def _size(self, table: str, histogram: Measured, free: float, lost: float) -> TableSize:
        """The estimated size of an owned table, from its histogram of units and its clipped totals.

        The units per bucket are adjusted to the mean that follows from the number of rows.
        """
        units, rows, odds = self._units(table, histogram, free)
        owned = max(rows, 1.0)
        count = max(float(units.sum()), 1e-9)
        shares = units / count
        units = count * with_mean(shares, MANY.means(shares), owned / count)
        tau = bound(self.spec, table)
        each = 1.0 if self.spec.tables[table].bound == "truncation" else 1.0 / tau
        weight = (contributed(units, tau) + free) * each
        return TableSize(owned + free, max(weight, 1.0), free, units, odds, lost)

    # tables --------------------------------------------------------------------------------------

    def _fit_table(self, table: str) -> None:
        size, columns = self.sizes[table], self.columns[table]
        width = {
            name: [c.domain.size for c in own_columns] for name, own_columns in self.columns.items()
        }
        self.people.start(table, size.owned, size.free, size.lost)
        pairs = self.budget.learns == "pairs"
        context = self.people.context(table, width, None if pairs else ())
        model = self._unchanged(table, context)
        old = self.old[table] if model else None
        if model is None:
            self._measure_one_ways(table, 1.0)
            model = self._in_pairs(table, context) if pairs else self._singly(table)
            model, drawn = self._with_siblings(table, model, context)
        else:
            drawn = self._drawn(table, model, context)
        self.people.codes[table] = {column.name: drawn[at] for at, column in enumerate(columns)}
        times = (old.follows, old.serial) if old else self._times(table)
        sets = old.sets if old else self._sets(table)
        self.laws[table] = TableLaw(
            size.owned,
            size.free,
            {column.name: column.domain.size for column in columns},
            self.spec.tables[table].keys,
            model,
            size.lost,
            *times,
            sets,
        )

    def _drawn(
        self, table: str, model: TableModel, context: Mapping[int, Codes]
    ) -> dict[int, Codes]:
        numbers, owners = self.people.stream("rows", table), self.people.owners[table]
        return model.sample(context, self.people.rows(table), numbers, owners)

    def _with_siblings(
        self, table: str, model: TableModel, context: Mapping[int, Codes]
    ) -> tuple[TableModel, dict[int, Codes]]:
        """The model with the likeness of siblings, and rows that are drawn from it."""
        questions = sibling_questions(self.budget, table, self.variables[table])
        answers = dict(zip(questions, measured(self.session, [*questions.values()]), strict=True))
        own, owners = self.spec.tables[table].own, self.people.owners[table]
        drawn = self._drawn(table, model, context)
        if own is None or owners is None or not answers:
            return model, drawn
        weights = self._weights(own.parent)
        variables = self.variables[table]
        date = date_of(self.spec, table, variables)
        for place, factor in enumerate(model.factors):
            if (at := factor.column) in answers:
                codes = {**context, **drawn}
                better = with_siblings(factor, variables, date, answers[at], codes, owners, weights)
                factors = (*model.factors[:place], better, *model.factors[place + 1 :])
                if better is not factor:
                    model = replace(model, factors=factors)
                    drawn = self._drawn(table, model, context)
        return model, drawn

    def _times(self, table: str) -> tuple[bool, int]:
        """Whether a table's dates follow those of owners, and its keys dates; see `times`."""
        by_name = {column.name: column for column in self.columns[table]}
        unknown = Measured(None, np.zeros(3), 0.0)
        orders = {FOLLOWS: replace(unknown, counts=np.array([0.0, 1.0, 0.0])), SERIAL: unknown}
        for order in self.budget.times_of(table):
            axis = order_axis(
                self.spec, table, order.name, lambda name: self._shares(table, by_name[name])
            )
            if axis is not None:
                questions = one_way_questions(self.budget, table, [replace(order, axis=axis)])
                (orders[order.name],) = measured(
                    self.session, [question for _, question in questions]
                )
        return follows(*orders[FOLLOWS]), direction(*orders[SERIAL])

    def _sets(self, table: str) -> dict[str, SetLaw]:
        """The laws of sets of columns."""
        own, laws, columns = self.spec.tables[table].own, {}, self.columns[table]
        scope = 0 if own else next(iter(self._first(table)), 0)
        count = public = 0 if own or not columns else columns[scope].domain.size - 1
        weight, codes = float(public), dict(enumerate(self.people.codes[table].values()))
        if own:
            weight, count = self.sizes[own.parent].weight, self.people.rows(own.parent)
        power = -0.5 if self.law == "gaussian" else -1.0
        for column, question in set_questions(self.budget, table):
            labels, cells = column.domain.values, codes[columns.index(column)]
            law = SetLaw(power, np.zeros((labels, labels)), public, scope)
            means, upper = law.presences, np.triu_indices(labels)
            owners = law.owners(codes, self.people.owners[table])
            expected = presences(counted(cells, labels, owners), power)[upper]
            ((noisy, sd),) = measured(self.session, [question])
            shrunk = shrink(noisy, sd, expected * weight / max(count, 1), self.law)
            means[upper] = means.T[upper] = shrunk / max(weight, 1.0)
            laws[column.name] = law
        return laws

    def _first(self, table: str) -> tuple[int, ...]:
        """The place of the date that rows drift along, or of the key to public owners of sets."""
        columns, measured = self.columns[table], {name for name, _ in self.budget.sets}
        if (date := date_of(self.spec, table, columns)) >= 0:
            return (date,)
        scope = public_owner(self.spec, table, columns)
        return (columns.index(scope),) if scope and table in measured else ()

    def _unchanged(self, table: str, context: Mapping[int, Codes]) -> TableModel | None:
        """The earlier model of a table, unless there is none or a test says that it is out of date.

        Nothing else of the table's columns is measured then.
        """
        if not all(self._is_known(name) for name in (table, *self.spec.ancestors(table))):
            return None
        model = self.old[table].model
        columns, weights, floor = self.columns[table], self._weights(table), self._floor(table)
        drawn = self._drawn(table, model, context)
        own = [
            Variable.of(column, shares_of(drawn[at], weights, column.domain.size), floor)
            for at, column in enumerate(columns)
        ]
        learner = self._learner(table, context, weights, own, drawn)
        amounts = [self.budget.one_ways.get((table, column.name), 0.0) for column in columns]
        noises = [
            self.session.noise_scale(Histogram(table, ()), amount) if amount else 0.0
            for amount in amounts
        ]
        return None if learner.differs(noises, partial(self.budget.test_amount, table)) else model

    def _is_known(self, table: str) -> bool:
        """Whether an earlier law has the columns of a table."""
        cells = [(column.name, column.domain.size) for column in self.columns[table]]
        return table in self.old and [*self.old[table].columns.items()] == cells

    def _singly(self, table: str) -> TableModel:
        """A model of one-way factors, except for attributes that have a learner of their own."""
        self.variables[table] = []
        amount = self.budget.attributes.get(table)
        factors = tuple(
            Factor.alone(place, self._shares(table, column))
            for place, column in enumerate(self.columns[table])
            if amount is None or column.kind != "attribute"
        )
        degrees = self._joint_degrees(table, {one.column: one.shares for one in factors})
        attributes = None
        if amount is not None and self.learner:
            attributes = self.learner(table, amount, self.sizes[table].weight)
        return TableModel(factors, attributes, degrees=degrees)

    def _joint_degrees(self, table: str, shares: Mapping[int, Floats]) -> JointDegrees | None:
        """How the degrees of a table go together, if it has several; ``shares`` are by place."""
        columns, keys = self.columns[table], children(self.spec, table)
        places = [place for place, column in enumerate(columns) if column.kind == "degree"]
        if len(places) < 2:
            return None
        each = [(shares[place], columns[place].buckets) for place in places]
        laws = [DegreeLaw(share, buckets.means(share)) for share, buckets in each]
        joint = np.array([np.eye(len(places))] * 2)
        for i, j in combinations(range(len(places)), 2):
            one, other, pair = laws[i], laws[j], (keys[i], keys[j])
            clips = one.clips_with(other, partial(self._moment_noise, pair))
            noisy, sd = self._moments(pair, clips)
            both = one.correlations_with(other, noisy, clips, sd, self.law)
            joint[:, i, j] = joint[:, j, i] = both
        return JointDegrees(tuple(places), *map(root_of, joint))

    def _moment_noise(self, keys: tuple[KeySpec, KeySpec], clips: tuple[int, int]) -> float:
        """Standard deviation of the noise of a moment, as a share of the table's weight."""
        question = moment_question(self.budget, keys, clips)
        sd = self.session.noise_scale(question.query, question.amount)
        return sd / self.sizes[keys[0].parent].weight

    def _moments(
        self, keys: tuple[KeySpec, KeySpec], clips: tuple[int, int]
    ) -> tuple[Floats, float]:
        """Noisy moments of two degrees and their noise, as shares of the table's weight."""
        questions = [moment_question(self.budget, keys, each) for each in moments(keys, clips)]
        noisy = np.concatenate([counts for counts, _ in measured(self.session, questions)])
        return noisy / self.sizes[keys[0].parent].weight, self._moment_noise(keys, clips)

    def _in_pairs(self, table: str, context: Mapping[int, Codes]) -> TableModel:
        """A graphical model of all columns, given the context."""
        floor = self._floor(table)
        own = [Variable.of(c, self._shares(table, c), floor) for c in self.columns[table]]
        degrees = self._joint_degrees(table, {at: one.shares for at, one in enumerate(own)})
        learner = self._learner(table, context, self._weights(table), own, degrees=degrees)
        learner.learn()
        unspent, top = self._improve(table, learner), self.spec.top(table)
        self.unspent[top] = self.unspent.get(top, 0.0) + unspent
        single = self.spec.tables[table].own is None and not children(self.spec, table)
        if single and herding.is_affordable(learner.model, round(self.sizes[table].rows)):
            return self._tilted(table, learner)
        return learner.model

    def _tilted(self, table: str, learner: PairLearner) -> TableModel:
        """The model of a single table with multipliers that meet all its measured marginals."""
        marginals = learner.marginals()
        for place, column in enumerate(self.columns[table]):
            answer, variable = self.answers.get((table, column.name)), learner.variables[place]
            if answer is None or not variable.modelled:
                continue
            groups, counts = variable.levels[-1], variable.mass(-1) * learner.weight
            variance = np.bincount(groups, np.broadcast_to(answer.sd, len(groups)) ** 2)
            tilt = Tilt((place,), (groups,), np.zeros(counts.shape))
            marginals.append((tilt, Measured(None, counts, np.sqrt(variance))))
        rows = POOL * round(self.sizes[table].rows)
        pool = learner.model.sample({}, rows, self.people.stream("tilt", table))
        tilts = tilts_for(marginals, pool, rows, learner.weight)
        return replace(learner.model, tilts=tilts)

    def _improve(self, table: str, learner: PairLearner) -> float:
        """Measure the selected pairs once more, or one-ways if there are none.

        Returns the part of the amount that is left.
        """
        columns, unspent = self.columns[table], learner.unspent
        if unspent <= 0:
            return unspent
        if learner.found:
            learner.refine(unspent)
            return 0.0
        questions = one_way_questions(self.budget, table, columns)
        if not questions:
            return unspent
        self._measure_one_ways(table, unspent / sum(question.amount for _, question in questions))
        learner.improve([self._shares(table, column) for column in columns])
        self.variables[table] = list(learner.variables[: len(columns)])
        return 0.0

    def _pair_budget(self, table: str) -> PairBudget:
        """The table's own pair budget, plus what earlier tables of its tree could not use."""
        own = self.budget.pairs[table]
        if not own.pairs:
            return own
        return replace(own, refine=own.refine + self.unspent.pop(self.spec.top(table), 0.0))

    def _learner(
        self,
        table: str,
        context: Mapping[int, Codes],
        weights: Floats,
        own: list[Variable],
        old: Mapping[int, Codes] | None = None,
        degrees: JointDegrees | None = None,
    ) -> PairLearner:
        """A learner of pairs on released one-ways; ``old`` are rows of an earlier model to test."""
        columns, floor = self.columns[table], self._floor(table)
        self.variables[table] = own
        sampled = float((weights**2).sum() / max(weights.sum(), 1e-9))
        return PairLearner(
            self.session,
            table,
            [*own, *self._context(table, context, weights, floor)],
            Rows(len(own), context, weights, self._first(table)),
            self.sizes[table].weight,
            sampled * (1.0 + 1.0 / self.people.scale),
            self._pair_budget(table) if old is None else self.budget.pairs[table],
            self.law,
            lambda *labels: self.people.stream(table, *labels),
            partial(self.budget.marginal, table),
            star_of(self.budget.target, table, columns),
            old,
            degrees,
        )

    def _measure_one_ways(self, table: str, factor: float) -> None:
        """Measure the one-ways of a table's own columns, with a factor on their amounts.

        Answers for one column are combined, with that of a released list of its values.
        """
        questions = one_way_questions(self.budget, table, self.columns[table])
        one_ways = measured_one_ways(
            self.session, questions, factor, self.sizes[table].weight, self.law
        )
        for name, answer in one_ways.items():
            first = self.answers.get((table, name))
            self.answers[table, name] = first.join(answer) if first else answer

    def _shares(self, table: str, column: ModelColumn) -> Floats:
        """Released shares of the cells of an own column."""
        answer = self.answers.get((table, column.name))
        if column.kind == "degree":
            return self._degrees(table, column, answer and replace(answer, sd=float(answer.sd[0])))
        shares = np.ones(column.domain.size)
        if answer is not None:
            ordered = column.key is not None and column.key.ordered
            amount = self.budget.one_ways.get((table, column.name), 0.0)
            query = amount and self.budget.marginal(table, (column.axis,), amount)
            norms, weight = isinstance(query, NormedHistogram), self.sizes[table].weight
            shares = one_way(
                answer.counts,
                answer.sd,
                column.domain,
                self.law,
                weight,
                ordered=ordered,
                norms=norms,
            )
        shares[list(column.ruled)] = 0.0
        total = float(shares.sum())
        return shares / total if total > 0 else np.full(len(shares), 1.0 / len(shares))

    def _degrees(self, table: str, column: ModelColumn, answer: Measured | None) -> Floats:
        """Shares of the buckets of a degree, adjusted to the mean that follows from sizes."""
        key = column.key
        if key is None:
            raise ValueError("a degree column needs a key")
        size, child = self.sizes[table], self.sizes[key.table]
        mean = child.owned / max(size.rows, 1.0)
        if column.buckets is ONE:
            return np.array([1.0 - min(mean, 1.0), min(mean, 1.0)])
        if answer is None:
            units = child.units if child.units is not None else np.ones(MANY.size)
        else:
            units = rows_per_unit(answer.counts, answer.sd, size.weight, self.law, [])[0]
        shares = units / max(float(units.sum()), 1e-9)
        by_sizes = with_mean(shares, MANY.means(shares), mean)
        if self.spec.tables[table].own is not None and answer is not None:
            # Owners that are themselves owned are counted by weights, and their weighted mean
            # number of children may differ from the mean that follows from sizes. The weighted mean
            # is kept if the histogram clearly contradicts the mean from sizes.
            noisy, sd = answer.counts.ravel()[1:], answer.sd
            free, sized = (
                float(cell_fits(noisy, size.weight * law[1:], sd).sum())
                for law in (shares, by_sizes)
            )
            if free - sized > 0.5 * CLEAR[self.law] ** 2:
                return np.asarray(shares)
        return by_sizes

    def _floor(self, table: str) -> float:
        """Least share of a group of cells: two standard deviations of a pair's noise."""
        budget = self.budget.pairs[table]
        if not budget.pairs:
            return PLAIN_FLOOR
        sd = self.session.noise_scale(Histogram(table, ()), budget.first)
        return 2.0 * sd / self.sizes[table].weight

    def _weights(self, table: str) -> Floats:
        """Weight of every synthetic row, by the rule that gives real rows their weights.

        The weights sum to the released weight of the table.
        """
        spec, units = self.spec.tables[table], self.people.units[table]
        if spec.own is None or not len(units):
            return np.full(len(units), self.sizes[table].weight / max(len(units), 1))
        weights = row_weights(self.people.in_unit(table), bound(self.spec, table)).astype(float)
        if spec.bound == "truncation":
            weights *= bound(self.spec, table)
        return np.asarray(weights / weights.sum() * self.sizes[table].weight)

    def _context(
        self, table: str, codes: Mapping[int, Codes], weights: Floats, floor: float
    ) -> list[Variable]:
        """The columns of all ancestors, with the shares of their cells among the synthetic rows."""
        context: list[Variable] = []
        place = len(self.columns[table])
        for column, path in columns_above(self.spec, table, self.columns):
            cells = column.domain.size + len(path)
            shares = shares_of(codes[place], weights, cells)
            context.append(Variable.of(column, shares, floor, path))
            place += 1
        return context

    # references ----------------------------------------------------------------------------------

    def _fit_reference(self, key: KeySpec) -> ReferenceLaw:
        """How often rows are referred to, and by which of their columns."""
        inside = may_stay_inside(self.spec, key)
        scope = self.people.codes[key.table][scope_name(key.name)]
        weight = float((self._weights(key.table) * (scope == OUTSIDE)).sum())
        part = float((scope == OUTSIDE).mean()) if len(scope) else 0.0
        rows = self.sizes[key.table].rows * part
        target = self.sizes[key.parent]
        variables = self.variables[key.parent]
        question = fan_in_question(self.budget, key, len(variables), inside)
        codes, units = self.people.codes[key.parent], self.people.units[key.parent]
        marginals_asked = marginals(variables, codes) if len(units) else []
        ((noisy, sd),) = measured(self.session, [question])
        questions = target_questions(key, marginals_asked, self.budget, len(variables), inside)
        answers = measured(self.session, questions)
        fan_in = references_per_target(
            noisy.ravel(),
            sd,
            rows / max(target.rows, 1.0),
            target.weight,
            self.sizes[key.table].kept,
            question.query.scale(self.spec),  # type: ignore[attr-defined]
            self.spec.tables[key.parent].own is not None,
            shares_of_the_upper(marginals_asked, answers, codes),
        )
        scaled, cap = weight * self.people.scale, self.budget.cap(key, len(variables))
        numbers = self.people.stream("reference", key.table, key.name)
        law = fit_reference(
            fan_in, marginals_asked, answers, codes, units, scaled, cap, self.law, numbers
        )
        return replace(law, association=self._association(key, law, scope == OUTSIDE))

    def _association(
        self, key: KeySpec, law: ReferenceLaw, outside: Mask
    ) -> TargetAssociation | None:
        """What the columns of rows that refer have to do with those of their targets."""
        budget, table = self.budget.associations[key.table, key.name], key.table
        units, scale = self.people.units[key.parent], self.people.scale
        if not (budget.picks and len(units)):
            return None
        weights = self._weights(table) * outside
        row = End(self.variables[table], self.people.codes[table], weights)
        codes = self.people.codes[key.parent]
        numbers = self.people.stream("associations", table, key.name)
        whole, cap = float(weights.sum()) * scale, cap_of(self.spec, key)
        references = law.weights(codes, units, whole, cap, numbers) / scale
        target = End(self.variables[key.parent], codes, references)
        inside, rows = may_stay_inside(self.spec, key), self.sizes[table].rows
        spread = min(float(references.sum()) / max(rows * float(outside.mean()), 1.0), 1.0)
        return learn(self.session, key, inside, (row, target), budget, spread, self.law)
