"""Which queries colour a table's heat map, and which columns its circuit has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privbench.metrics.heatmap import Predicate
from privbench.metrics.heattree import Node
from privbench.metrics.summary import Floats
from privbench.report.document import QueryPart

#: Columns of a circuit: more would not be readable.
_COLUMNS = 6

#: Queries, each with why it was chosen.
Picks = list[tuple[QueryPart, str]]


@dataclass(frozen=True, slots=True)
class ModelHeat:
    """What the released model says at every node."""

    ways: Floats  # probability that a row comes to it, shape (nodes,)
    # For each query, the probability of its predicates in the node's scope, given that a row
    # comes to it; NaN where none does.
    shares: list[Floats]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A circuit to count on."""

    nodes: list[Node]  # parents before their children
    picks: Picks  # the queries that colour it
    held: list[list[Predicate]]  # the predicates of each on the circuit's columns
    model: ModelHeat | None = None  # what the model says, where the circuit is a model's


def held_by(
    picks: Picks, asked: Mapping[str, list[Predicate]], names: set[str]
) -> list[list[Predicate]]:
    """The predicates of the chosen queries on columns of the circuit."""
    return [[held for held in asked[query.id] if held.columns <= names] for query, _ in picks]


def choose(
    asked: Mapping[str, list[Predicate]], queries: Sequence[QueryPart]
) -> tuple[list[tuple[QueryPart, str]], set[str]]:
    """Queries to show, and the columns of the circuit.

    The worst answer among those that ask about the most columns decides the columns, filled up with
    those asked about most; a typical answer and the best one are then taken from the queries that
    ask about no other columns.
    """
    names = {key: _names(held) for key, held in asked.items()}
    order = sorted(
        (query for query in queries if query.id in asked and query.qerror is not None),
        key=lambda query: query.qerror or 0.0,
    )
    if not order:
        return [], set()
    worst = _widest(order, names)[-1]
    columns = _columns(names, worst.id)
    inside = _widest([query for query in order if names[query.id] <= columns], names)
    picks = [(worst, "the worst answer")]
    if inside:
        picks += [(inside[len(inside) // 2], "a typical answer"), (inside[0], "the best answer")]
    once: dict[str, tuple[QueryPart, str]] = {}
    for query, why in picks:
        once.setdefault(query.id, (query, why))
    return list(once.values()), columns


def _widest(queries: Sequence[QueryPart], names: Mapping[str, set[str]]) -> list[QueryPart]:
    """Those that ask about at least three columns, or about as many as any does."""
    least = min(3, max((len(names[query.id]) for query in queries), default=0))
    return [query for query in queries if len(names[query.id]) >= least]


def _names(held: Sequence[Predicate]) -> set[str]:
    return {name for predicate in held for name in predicate.columns}


def _columns(names: Mapping[str, set[str]], first: str) -> set[str]:
    often = Counter(name for held in names.values() for name in sorted(held))
    ranked = dict.fromkeys([*sorted(names[first]), *(name for name, _ in often.most_common())])
    return set(list(ranked)[:_COLUMNS])
