"""The circuit of a released model over the columns that the workload asks about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privbench.metrics import modeltree
from privbench.metrics.heatmap import Predicate
from privbench.metrics.modelled import ModelledTable
from privbench.metrics.routes import drawable
from privbench.metrics.summary import Floats
from privbench.report.conditions import weights
from privbench.report.document import QueryPart
from privbench.report.heat_choice import Drawing, ModelHeat, choose, held_by


def released(
    model: ModelledTable, asked: Mapping[str, list[Predicate]], queries: Sequence[QueryPart]
) -> Drawing | None:
    """Draw the circuit, and what the model says of the queries that are to colour it.

    Returns:
        None where fewer than two columns have conditions that can be asked of the model.
    """
    kept = {query: _known(model, held) for query, held in asked.items()}
    picks, names = choose({query: held for query, held in kept.items() if held}, queries)
    if len(names) < 2:
        return None
    held = held_by(picks, kept, names)
    nodes = modeltree.draw(model, names)
    ways, shares = modeltree.heats(model, nodes, [_weights(model, query) for query in held])
    return Drawing([item.node for item in nodes], picks, held, ModelHeat(ways, shares))


def _known(model: ModelledTable, held: Sequence[Predicate]) -> list[Predicate]:
    """The predicates on one column each that can be asked of the model."""
    return [
        predicate
        for predicate in held
        if len(predicate.columns) == 1
        and _has(model, next(iter(predicate.columns)))
        and _column_weights(model, [predicate]) is not None
    ]


def _has(model: ModelledTable, name: str) -> bool:
    known = name in model.codecs and name in model.circuit.domains
    return known and drawable(model.codecs[name])


def _weights(model: ModelledTable, held: Sequence[Predicate]) -> dict[str, Floats]:
    """Weights of the codes of every column that a query has predicates on."""
    columns: dict[str, list[Predicate]] = {}
    for predicate in held:
        columns.setdefault(next(iter(predicate.columns)), []).append(predicate)
    found = {name: _column_weights(model, those) for name, those in columns.items()}
    return {name: vector for name, vector in found.items() if vector is not None}


def _column_weights(model: ModelledTable, held: Sequence[Predicate]) -> Floats | None:
    codec = model.codecs[next(iter(held[0].columns))]
    return weights((predicate.condition.as_string(None) for predicate in held), codec)
