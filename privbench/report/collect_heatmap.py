"""Draw a small circuit of the columns that the workload asks about, and count both sides on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privbench.errors import DatabaseError
from privbench.metrics import heatmap, heattree, modeltree
from privbench.metrics.fidelity import TableFidelity
from privbench.metrics.heatmap import Heat, Predicate
from privbench.metrics.heattree import Node
from privbench.metrics.modeltree import ModelledTable
from privbench.metrics.routes import drawable
from privbench.metrics.summary import Floats
from privbench.postgres.snapshot import Snapshot
from privbench.report.collect_predicates import predicates
from privbench.report.conditions import weights
from privbench.report.document import HeatMapPart, HeatNodePart, HeatQueryPart, QueryPart
from privbench.schema import Schema, Table

#: Columns of a circuit: more would not be readable.
_COLUMNS = 6

#: Queries, each with why it was chosen.
Picks = list[tuple[QueryPart, str]]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A circuit to count on."""

    nodes: list[Node]  # parents before their children
    picks: Picks  # the queries that colour it
    held: list[list[Predicate]]  # the predicates of each on the circuit's columns
    model: Heat | None = None  # what the model says, where the circuit is a model's


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
    names = {key: {name for p in held for name in p.columns} for key, held in asked.items()}
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


def _columns(names: Mapping[str, set[str]], first: str) -> set[str]:
    often = Counter(name for held in names.values() for name in sorted(held))
    ranked = dict.fromkeys([*sorted(names[first]), *(name for name, _ in often.most_common())])
    return set(list(ranked)[:_COLUMNS])


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
    heat = modeltree.heats(model, nodes, [_weights(model, query) for query in held])
    return Drawing(nodes, picks, held, heat)


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


#: Tables with a heat map: more would not be readable.
_TABLES = 6

Asked = dict[str, dict[str, list[Predicate]]]


def drawings(
    schema: Schema,
    found: Mapping[str, TableFidelity],
    queries: Sequence[QueryPart],
    model: Mapping[str, ModelledTable],
) -> dict[str, Drawing]:
    """Circuits of the tables that the workload asks most about; needs no database.

    Args:
        schema: The source's schema.
        found: The compared tables, by key.
        queries: The queries with their figures.
        model: Tables of a released model, whose circuits are drawn instead of learned ones.

    Returns:
        At most six, the table with the most queries first. Tables of whose compared columns the
        workload asks fewer than two have none.
    """
    asked = _asked(schema, found, queries)
    made = {}
    for key in sorted(asked, key=lambda key: -len(asked[key]))[:_TABLES]:
        drawing = released(model[key], asked[key], queries) if key in model else None
        drawing = drawing or _learned(found[key], asked[key], queries)
        if drawing is not None and len(found[key].columns[0].coded.real):
            made[key] = drawing
    return made


def heatmaps(
    source: Snapshot,
    clone: Snapshot,
    schema: Schema,
    found: Mapping[str, TableFidelity],
    drawn: Mapping[str, Drawing],
) -> list[HeatMapPart]:
    """Both sides' rows counted on the circuits."""
    made = []
    for key, drawing in drawn.items():
        table, coded = schema.table(key), found[key].columns[0].coded
        share = min(1.0, heatmap.MOST_ROWS / max(len(coded.real), len(coded.clone)))
        real, copied = (_count(side, table, drawing, share) for side in (source, clone))
        if real is not None and copied is not None:
            made.append(_part(table, drawing, (real, copied), share < 1))
    return made


def _asked(
    schema: Schema, found: Mapping[str, TableFidelity], queries: Sequence[QueryPart]
) -> Asked:
    """By table and query, the predicates on compared columns."""
    asked: Asked = {}
    for query in queries:
        for key, held in predicates(query.sql, schema).items():
            compared = found.get(key)
            if compared is None:
                continue
            names = {column.plan.column.name for column in compared.columns}
            kept = [predicate for predicate in held if predicate.columns <= names]
            if kept:
                asked.setdefault(key, {})[query.id] = kept
    return asked


def _learned(
    compared: TableFidelity, asked: Mapping[str, list[Predicate]], queries: Sequence[QueryPart]
) -> Drawing | None:
    """A small circuit learned from the source's rows, for the report alone."""
    picks, names = choose(asked, queries)
    columns = [column for column in compared.columns if column.plan.column.name in names]
    if len(columns) < 2 or not len(columns[0].coded.real):
        return None
    return Drawing(heattree.learn(columns), picks, held_by(picks, asked, names))


def _count(side: Snapshot, table: Table, drawing: Drawing, share: float) -> Heat | None:
    """None where a predicate cannot be evaluated by itself (it names something out of reach)."""
    try:
        with side.connection.transaction():
            return heatmap.count(side.connection, table, drawing.nodes, drawing.held, share)
    except DatabaseError:
        return None


def _part(table: Table, drawing: Drawing, sides: tuple[Heat, Heat], sampled: bool) -> HeatMapPart:
    real, clone = sides
    model = drawing.model
    return HeatMapPart(
        table=table.key,
        circuit="source" if model is None else "model",
        sampled=sampled,
        nodes=[
            HeatNodePart(
                kind=node.kind,
                parent=node.parent,
                when=node.when,
                columns=list(node.columns),
                real_rows=int(real.rows[place]),
                clone_rows=int(clone.rows[place]),
                model_share=None if model is None else round(float(model.rows[place]), 6),
            )
            for place, node in enumerate(drawing.nodes)
        ],
        queries=[
            HeatQueryPart(
                query=query.id,
                why=why,
                predicates=[predicate.text for predicate in drawing.held[place]],
                qerror=query.qerror,
                real=_shares(real.shares[place]),
                clone=_shares(clone.shares[place]),
                model=[] if model is None else _shares(model.shares[place]),
            )
            for place, (query, why) in enumerate(drawing.picks)
        ],
    )


def _shares(found: Floats) -> list[float | None]:
    return [None if np.isnan(share) else round(float(share), 6) for share in found]
