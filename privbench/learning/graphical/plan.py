"""List the measurements of a fit without reading data, for `plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from privbench.arrays import Ints
from privbench.learning.graphical import associations
from privbench.learning.graphical.budget import (
    Budget,
    clipped_question,
    fan_in_question,
    guessed_sizes,
    moment_question,
    moments,
    one_way_questions,
    set_questions,
    sibling_questions,
    size_questions,
)
from privbench.learning.graphical.candidates import candidates, pair_axes, score_query
from privbench.learning.graphical.columns import (
    ModelColumn,
    Variable,
    columns_above,
    columns_of,
    may_stay_inside,
)
from privbench.learning.graphical.database import PLAIN_FLOOR
from privbench.learning.graphical.references import marginals, target_questions
from privbench.privacy import KeySpec, Measurement, Selection
from privbench.privacy.queries import PublicArray
from privbench.privacy.queries.references import KEPT


def planned(
    budget: Budget, totals: Mapping[str, float], public_kinds: dict[str, Ints]
) -> Iterator[Measurement | Selection]:
    """Yield the measurements of a fit without data: every event, pair tables at their largest.

    If another synthesizer learns attributes (`Budget.attributes`), its events are not included.
    Rows per table are guessed; for public tables they are given as far as they are known.
    """
    spec, pairs = budget.spec, budget.learns == "pairs"
    keys = [key for table in spec.tables.values() for key in table.keys if key.role == "public"]
    # A fit measures targets in a public table if it has rows; a plan assumes that it has some.
    public = {key.parent: np.zeros(1, np.int64) for key in keys} | public_kinds
    columns = {name: columns_of(spec, name, public) for name in spec.tables}
    budget.divide(guessed_sizes(spec, totals), columns)
    yield from (
        moment_question(budget, keys, clips) for keys in budget.moments for clips in moments(keys)
    )
    flat = {name: [_flat(column) for column in held if pairs] for name, held in columns.items()}
    for name in spec.order():
        if spec.tables[name].own is not None:
            yield from size_questions(budget, name)
            yield clipped_question(budget, name, KEPT)
        questions = one_way_questions(budget, name, [*columns[name], *budget.times_of(name)])
        yield from (question for _, question in questions)
        yield from (question for _, question in set_questions(budget, name))
        if pairs:
            above = columns_above(spec, name, columns)
            variables = [*flat[name], *(_flat(column, path) for column, path in above)]
            yield from _planned_pairs(budget, name, columns[name], variables)
            yield from sibling_questions(budget, name, variables).values()
        for key in spec.tables[name].keys:
            if key.role == "ref":
                inside, targets = may_stay_inside(spec, key), flat[key.parent]
                yield fan_in_question(budget, key, len(targets), inside)
                margins = marginals(targets, {})
                yield from target_questions(key, margins, budget, len(targets), inside)
                pairs_of_key = budget.associations[name, key.name]
                yield from associations.planned(
                    spec, key, inside, flat[name], targets, pairs_of_key
                )


def _planned_pairs(
    budget: Budget, table: str, columns: list[ModelColumn], variables: list[Variable]
) -> Iterator[Measurement | Selection]:
    amounts = budget.pairs[table]
    every = candidates(variables, len(columns))
    if not amounts.pairs or not every:
        return
    pairs = [budget.marginal(table, pair_axes(variables, item), amounts.first) for item in every]
    predictions = [PublicArray(np.zeros(pair.shape, np.int64)) for pair in pairs]
    query = score_query(budget.spec, table, variables, every, predictions, np.zeros(len(every)))
    pair = max(pairs, key=lambda item: prod(item.shape))
    for _ in range(amounts.picks):
        yield Selection(query, amounts.select, f"choice of a pair of {table}")
    for _ in range(amounts.pairs):
        yield Measurement(pair, amounts.first, f"pair of {table}")
    for _ in range(amounts.pairs):
        yield Measurement(pair, amounts.refine / amounts.pairs, f"pair of {table}, again")


def _flat(column: ModelColumn, path: Sequence[KeySpec] = ()) -> Variable:
    cells = column.domain.size + len(path)
    return Variable.of(column, np.full(cells, 1.0 / cells), PLAIN_FLOOR, path)
