"""The default synthesizer: a graphical model per table, given its owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privbench.circuit import Circuit
from privbench.errors import ConfigError, ModelError
from privbench.learning.answers import counted_units
from privbench.learning.graphical.budget import (
    Budget,
    TableSize,
    by_size,
    clipped_question,
    fan_in_question,
    one_way_questions,
    size_questions,
)
from privbench.learning.graphical.columns import (
    HIDDEN,
    Column,
    Variable,
    columns_of,
    degree_name,
    may_stay_inside,
    scope_name,
)
from privbench.learning.graphical.database import PLAIN_FLOOR, DatabaseFit
from privbench.learning.graphical.estimate import Floats
from privbench.learning.graphical.model import TableLaw, populate, sample
from privbench.learning.graphical.outline import Outline, outline
from privbench.learning.graphical.references import ReferenceLaw, marginals, target_questions
from privbench.learning.graphical.select import by_classes, candidates, pair_query, score_query
from privbench.learning.graphical.sizes import MANY, ONE
from privbench.learning.graphical.table_model import TableModel
from privbench.learning.synthetic import SyntheticDatabase
from privbench.privacy import DatabaseSpec, KeySpec, Measurement, Selection, Session
from privbench.privacy.queries import PublicArray
from privbench.privacy.queries.fanin import KEPT
from privbench.rng import generator
from privbench.synthesizers.base import (
    FittedModel,
    Options,
    PlanInput,
    PlannedEvent,
    Synthesizer,
    roots_of,
    spare_amounts,
)
from privbench.synthesizers.model import damaged, load, public_from_state, store

#: Synthetic rows of the largest table that outlines of a model are counted on; for time alone.
OUTLINED = 100_000


@dataclass(frozen=True)
class GraphicalModel:
    """A fitted model.

    Attributes:
        laws: Released law of every table, owners first.
        references: Released law of every reference between private tables, by table and key.
        public_rows: Exact row counts of the public tables that keys point to.
    """

    laws: dict[str, TableLaw]
    references: dict[tuple[str, str], ReferenceLaw]
    public_rows: dict[str, int]

    @cached_property
    def units(self) -> Mapping[str, float]:
        """Units that are expected to have rows in every table, at most."""
        found: dict[str, float] = {}
        for name, law in self.laws.items():
            found[name] = law.rows
            if law.own is not None:
                parent = self.laws[law.own.parent]
                at = parent.names.index(degree_name(law.own))
                shares = next(f.shares for f in parent.model.factors if f.column == at)
                having = (parent.rows + parent.free) * float(shares[1:].sum())
                found[name] = min(found[law.own.parent], having, law.rows) + law.free
        return found

    @cached_property
    def circuits(self) -> Mapping[str, Circuit]:
        """One circuit per table: `outlines`."""
        return {name: outline.circuit for name, outline in self.outlines.items()}

    @cached_property
    def outlines(self) -> Mapping[str, Outline]:
        """The tree of strongest dependences of every table, with weights from synthetic rows."""
        most = max((law.rows + law.free for law in self.laws.values()), default=1.0)
        people = populate(self.laws, min(1.0, OUTLINED / max(most, 1.0)), partial(generator, 0))
        return {name: outline(law, people.codes[name]) for name, law in self.laws.items()}

    def sample(self, scale: float = 1.0, seed: int | None = None) -> SyntheticDatabase:
        """Draw a synthetic database; see `privbench.learning.graphical.model.sample`."""
        kinds = {name: _kinds(law) for name, law in self.laws.items()}
        return sample(self.laws, self.references, self.public_rows, kinds, scale, seed)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON object and arrays that `from_state` reads back."""
        arrays: dict[str, NDArray[Any]] = {}
        tables, references = [], []
        for index, (name, law) in enumerate(self.laws.items()):
            factors, parts = law.model.to_state()
            store(arrays, parts, "table", index)
            tables.append(
                {
                    "name": name,
                    "rows": law.rows,
                    "free": law.free,
                    "columns": list(law.names),
                    "cells": list(law.cells),
                    "keys": [_key_state(key) for key in law.keys],
                    "factors": factors,
                }
            )
        for index, ((table, key), reference) in enumerate(self.references.items()):
            state, parts = reference.to_state()
            store(arrays, parts, "reference", index)
            references.append({"table": table, "key": key, **state})
        header = {
            "synthesizer": "privbench",
            "public_rows": dict(self.public_rows),
            "tables": tables,
            "references": references,
        }
        return header, arrays

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that `to_state` wrote.

        Raises:
            ModelError: Damaged or hostile input.
        """
        laws: dict[str, TableLaw] = {}
        references: dict[tuple[str, str], ReferenceLaw] = {}
        with damaged():
            for index, state in enumerate(header["tables"]):
                laws[str(state["name"])] = _law(state, load(arrays, "table", index))
            for index, state in enumerate(header["references"]):
                law = ReferenceLaw.from_state(state, load(arrays, "reference", index))
                references[str(state["table"]), str(state["key"])] = law
            public = public_from_state(header)
        _check(laws, references, public)
        return cls(laws, references, public)


def _kinds(law: TableLaw) -> dict[str, np.dtype[Any]]:
    """Types of the codes of a table's attributes."""
    held = zip(law.names, law.cells, strict=True)
    return {
        name: np.dtype(np.min_scalar_type(cells - 1))
        for name, cells in held
        if not name.startswith(HIDDEN)
    }


def _key_state(key: KeySpec) -> dict[str, Any]:
    return {
        "name": key.name,
        "parent": key.parent,
        "role": key.role,
        "nullable": key.nullable,
        "unique": key.unique,
    }


def _law(state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TableLaw:
    rows, free = float(state["rows"]), float(state["free"])
    names = tuple(str(name) for name in state["columns"])
    cells = tuple(int(count) for count in state["cells"])
    keys = []
    for key in state["keys"]:
        if key["role"] not in ("own", "ref", "public"):
            raise ModelError("a key in the model is damaged.")
        flags = bool(key["nullable"]), bool(key["unique"])
        keys.append(
            KeySpec(str(key["name"]), str(state["name"]), str(key["parent"]), key["role"], *flags)
        )
    sized = 0 <= rows < 2**53 and 0 <= free < 2**53
    if not sized or len(names) != len(cells) or len(set(names)) != len(names):
        raise ModelError("a table's size or columns in the model are damaged.")
    model = TableModel.from_state(state["factors"], arrays, len(names))
    return TableLaw(rows, free, names, cells, tuple(keys), model)


def _check(
    laws: Mapping[str, TableLaw],
    references: Mapping[tuple[str, str], ReferenceLaw],
    public_rows: Mapping[str, int],
) -> None:
    """Refuse parts that do not fit each other; owners stand before what they own.

    Raises:
        ModelError: They do not.
    """
    above: dict[str, list[int]] = {}
    for name, law in laws.items():
        known = dict(zip(law.names, law.cells, strict=True))
        context: list[int] = []
        if law.own is not None:
            parent = laws.get(law.own.parent)
            if parent is None or law.own.parent not in above:
                raise ModelError("an owner in the model is missing, or comes late.", table=name)
            context = [cells + 1 for cells in (*parent.cells, *above[law.own.parent])]
            degrees = dict(zip(parent.names, parent.cells, strict=True))
            buckets = ONE if law.own.unique else MANY
            _require(degrees.get(degree_name(law.own)) == buckets.size, name)
        above[name] = context
        held = [] if law.own is None else [MANY.size]
        law.model.check([*law.cells, *context, *held])
        _require(sum(key.role == "own" for key in law.keys) <= 1, name)
        for key in law.keys:
            scope = known.get(scope_name(key.name))
            if key.role == "public":
                _require(scope == public_rows.get(key.parent, 0) + 1, name)
            elif key.role == "ref":
                _require(scope in (2, 3) and key.parent in laws, name)
                _require((name, key.name) in references, name)
                target = laws[key.parent]
                cells = dict(zip(target.names, target.cells, strict=True))
                references[name, key.name].check(cells)


def _require(condition: bool, table: str) -> None:
    if not condition:
        raise ModelError("the parts of the model do not fit each other.", table=table)


class GraphicalOptions(Options):
    """Parameters.

    Attributes:
        target: A column that rows shall tell from the others, as ``table.column`` or by its name:
            its pairs with all other columns of its table are measured, and most of the budget is
            for pairs. For training sets; of other pairs and of single columns less is known.
    """

    target: str = ""

    def place(self, spec: DatabaseSpec) -> tuple[str, str] | None:
        """Table and attribute of the target, or None without one.

        Raises:
            ConfigError: It is no column that is modelled, or one of several tables.
        """
        if not self.target:
            return None
        found = [
            (table, name)
            for table, held in spec.tables.items()
            for name, domain in held.attributes.items()
            if self.target in (name, f"{table}.{name}") and not domain.filler
        ]
        if len(found) != 1:
            how = "no modelled column" if not found else "a column of several tables"
            raise ConfigError(f"the target {self.target!r} is {how}.", remedy="Give table.column.")
        return found[0]


class GraphicalSynthesizer(Synthesizer[GraphicalOptions]):
    """Graphical models of tables, conditioned on their owners."""

    name: ClassVar[str] = "privbench"
    options_type: ClassVar[type[Options]] = GraphicalOptions

    def fit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        public_rows: Mapping[str, int] | None = None,
    ) -> FittedModel:
        """See `Synthesizer.fit`.

        Raises:
            ConfigError: The target is no column; nothing was spent.
        """
        target = self.options.place(session.spec)
        left = {root: session.remaining(root) for root in roots_of(session.spec)}
        spare = spare_amounts(left, amount)
        units = {name: max(found) for name, found in counted_units(session).items()}
        budget = Budget.of(session.spec, session.accounting, amount, spare, units, target)
        public = dict(public_rows or {})
        fit = DatabaseFit(session, totals, budget, public)
        references = fit.run()
        return GraphicalModel(fit.laws, references, public)

    def plan(self, spec: DatabaseSpec, plan: PlanInput) -> list[PlannedEvent]:
        """See `Synthesizer.plan`."""
        target = self.options.place(spec)
        budget = Budget.of(spec, plan.accounting, plan.total, plan.spare, plan.counted, target)
        asked = planned(budget, plan.totals, dict(plan.public_rows))
        return [PlannedEvent.of(item.label, item.query, spec, item.amount, plan) for item in asked]

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedModel:
        """See `Synthesizer.load`."""
        return GraphicalModel.from_state(header, arrays)


def planned(
    budget: Budget, totals: Mapping[str, float], public_rows: dict[str, int]
) -> Iterator[Measurement | Selection]:
    """What a fit would ask, without data: every event, pair tables at their largest.

    Args:
        budget: Amounts per tree of ownership.
        totals: Guessed rows per table.
        public_rows: Rows of the public tables.
    """
    spec = budget.spec
    rows = {name: max(float(totals.get(name, 1.0)), 1.0) for name in spec.tables}
    columns = {name: columns_of(spec, name, public_rows) for name in spec.tables}
    budget.divide(
        {name: TableSize(rows[name], min(rows[name], rows[spec.top(name)])) for name in rows},
        columns,
    )
    flat = {
        name: [Variable.of(column, _even(column.domain.size), PLAIN_FLOOR) for column in held]
        for name, held in columns.items()
    }
    for name in spec.order():
        if spec.tables[name].own is not None:
            yield from size_questions(budget, name)
            yield clipped_question(budget, name, KEPT)
        yield from (question for _, question in one_way_questions(budget, name, columns[name]))
        variables = [*flat[name], *_flat_context(spec, name, columns)]
        amounts = {place: by_size(budget, name, item) for place, item in enumerate(columns[name])}
        for candidate, amount in by_classes(variables, amounts):
            label = f"columns of {name} by rows of the unit"
            yield Measurement(pair_query(name, variables, candidate), amount, label)
        yield from _planned_pairs(budget, name, len(flat[name]), variables)
        for key in spec.tables[name].keys:
            if key.role == "ref":
                inside = may_stay_inside(spec, key)
                yield fan_in_question(budget, key, len(flat[key.parent]), inside)
                asked = marginals(flat[key.parent], {})
                width = len(flat[key.parent])
                yield from target_questions(key, asked, budget, width, inside)


def _planned_pairs(
    budget: Budget, table: str, own: int, variables: list[Variable]
) -> Iterator[Measurement | Selection]:
    amounts = budget.pairs[table]
    every = candidates(variables, own)
    if not amounts.pairs or not every:
        return
    shapes = [pair_query(table, variables, item).shape for item in every]
    predictions = [PublicArray(np.zeros(shape, np.int64)) for shape in shapes]
    query = score_query(
        budget.spec, table, variables, every, predictions, np.zeros(len(predictions))
    )
    largest = max(every, key=lambda item: prod(pair_query(table, variables, item).shape))
    pair = pair_query(table, variables, largest)
    for _ in range(amounts.picks):
        yield Selection(query, amounts.select, f"choice of a pair of {table}")
    for _ in range(amounts.pairs):
        yield Measurement(pair, amounts.first, f"pair of {table}")
    for _ in range(amounts.pairs):
        yield Measurement(pair, amounts.refine / amounts.pairs, f"pair of {table}, again")


def _flat_context(
    spec: DatabaseSpec, table: str, columns: Mapping[str, list[Column]]
) -> list[Variable]:
    found: list[Variable] = []
    path: list[KeySpec] = []
    key = spec.tables[table].own
    while key is not None:
        path.append(key)
        for column in columns[key.parent]:
            shares = _even(column.domain.size + len(path))
            found.append(Variable.of_context(column, path, shares, PLAIN_FLOOR))
        key = spec.tables[key.parent].own
    if path:
        found.append(Variable.of_unit_rows(table, np.ones(MANY.size, np.int64), np.ones(MANY.size)))
    return found


def _even(cells: int) -> Floats:
    return np.full(cells, 1.0 / cells)
