"""Small circuits of the columns on which queries have conditions, with the rows of both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privbench.arrays import Floats
from privbench.errors import DatabaseError
from privbench.metrics.fidelity import TableFidelity
from privbench.postgres.snapshot import Snapshot
from privbench.report.document import QueryPart
from privbench.schema import Schema, Table
from privbench.workload.rebind.columns import Tables
from privbench_lab.heatmap import model_tree, tree
from privbench_lab.heatmap.conditions import predicates, weights
from privbench_lab.heatmap.model_tree import ModelledTable
from privbench_lab.heatmap.parts import HeatMapPart, HeatNodePart, HeatQueryPart
from privbench_lab.heatmap.routes import drawable
from privbench_lab.heatmap.tree import Heat, Node, Predicate

#: Most tables with a heat map, and most columns of a circuit; more would not be readable.
_TABLES, _COLUMNS = 6, 6

#: The predicates of queries on one table, by query.
Asked = Mapping[str, list[Predicate]]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A circuit with the queries whose rows are counted at its nodes."""

    nodes: list[Node]  # parents before their children
    # The queries that colour it, why they were chosen, and their predicates on its columns.
    picks: list[tuple[QueryPart, str, list[Predicate]]]
    model: Heat | None = None  # probabilities by the model, if the circuit is a model's

    def count(self, side: Snapshot, table: Table, share: float) -> Heat | None:
        """Count rows at the nodes; None if a predicate refers to more than the table, and fails."""
        held = [held for *_, held in self.picks]
        try:
            with side.connection.transaction():
                return tree.count(side.connection, table, self.nodes, held, share)
        except DatabaseError:
            return None


def drawings(
    schema: Schema,
    found: Mapping[str, TableFidelity],
    queries: Sequence[QueryPart],
    model: Mapping[str, ModelledTable],
) -> dict[str, Drawing]:
    """Circuits of the tables on which most queries have conditions; needs no database.

    A table of a released model has the model's circuit, others have learned ones. At most six, the
    table with the most queries first; tables are left out if queries have conditions on fewer than
    two of their compared columns.
    """
    asked = _asked(schema, found, queries)
    made = {}
    for key in sorted(asked, key=lambda key: -len(asked[key]))[:_TABLES]:
        drawing = _released(model[key], asked[key], queries) if key in model else None
        drawing = drawing or _learned(found[key], asked[key], queries)
        if drawing is not None and found[key].rows:
            made[key] = drawing
    return made


def heatmaps(
    source: Snapshot,
    clone: Snapshot,
    schema: Schema,
    found: Mapping[str, TableFidelity],
    drawn: Mapping[str, Drawing],
) -> list[HeatMapPart]:
    """Count the rows of both sides at the nodes of the circuits."""
    made = []
    for key, drawing in drawn.items():
        table, column = schema.table(key), found[key].columns[0]
        share = min(1.0, tree.MOST_ROWS / max(len(column.real), len(column.clone)))
        real, copied = (drawing.count(side, table, share) for side in (source, clone))
        if real is not None and copied is not None:
            made.append(_part(table, drawing, (real, copied), share < 1))
    return made


def _asked(
    schema: Schema, found: Mapping[str, TableFidelity], queries: Sequence[QueryPart]
) -> dict[str, dict[str, list[Predicate]]]:
    """By table and query, the predicates on compared columns."""
    compared = {key: {column.name for column in table.columns} for key, table in found.items()}
    asked: dict[str, dict[str, list[Predicate]]] = {}
    tables = Tables(schema)
    for query in queries:
        for key, held in predicates(query.sql, tables).items():
            kept = [item for item in held if item.columns <= compared.get(key, set())]
            if kept:
                asked.setdefault(key, {})[query.id] = kept
    return asked


def _choose(
    asked: Asked, queries: Sequence[QueryPart]
) -> tuple[list[tuple[QueryPart, str, list[Predicate]]], set[str]]:
    """Queries to show, see `Drawing.picks`, and the columns of the circuit.

    The worst answer among the queries with conditions on the most columns decides the columns,
    filled up with the columns that most queries use; a typical answer and the best one are then
    taken from the queries that use no other columns.
    """
    names = {key: {name for p in held for name in p.columns} for key, held in asked.items()}
    order = sorted(
        (query for query in queries if query.id in asked and query.qerror is not None),
        key=lambda query: query.qerror or 0.0,
    )
    if not order:
        return [], set()
    worst = _widest(order, names)[-1]
    often = Counter(name for held in names.values() for name in sorted(held))
    ranked = dict.fromkeys([*sorted(names[worst.id]), *(name for name, _ in often.most_common())])
    columns = set(list(ranked)[:_COLUMNS])
    inside = _widest([query for query in order if names[query.id] <= columns], names)
    picks = [(worst, "the worst answer")]
    if inside:
        picks += [(inside[len(inside) // 2], "a typical answer"), (inside[0], "the best answer")]
    once: dict[str, tuple[QueryPart, str, list[Predicate]]] = {}
    for query, why in picks:
        held = [item for item in asked[query.id] if item.columns <= columns]
        once.setdefault(query.id, (query, why, held))
    return list(once.values()), columns


def _widest(queries: Sequence[QueryPart], names: Mapping[str, set[str]]) -> list[QueryPart]:
    """Queries with conditions on at least three columns; if none has three, on the most."""
    least = min(3, max((len(names[query.id]) for query in queries), default=0))
    return [query for query in queries if len(names[query.id]) >= least]


def _learned(compared: TableFidelity, asked: Asked, queries: Sequence[QueryPart]) -> Drawing | None:
    """A small circuit learned from the source's rows, for the report alone."""
    picks, names = _choose(asked, queries)
    columns = [column for column in compared.columns if column.name in names]
    if len(columns) < 2 or not compared.rows:
        return None
    return Drawing(tree.learn(columns), picks)


def _released(model: ModelledTable, asked: Asked, queries: Sequence[QueryPart]) -> Drawing | None:
    """The model's circuit, and the model's probabilities for the queries that colour it.

    None where the model can evaluate conditions on fewer than two columns.
    """
    kept = {query: [item for item in held if _known(model, item)] for query, held in asked.items()}
    picks, names = _choose({query: held for query, held in kept.items() if held}, queries)
    if len(names) < 2:
        return None
    nodes = model_tree.draw(model, names)
    heat = model_tree.heats(model, nodes, [_weights(model, held) for *_, held in picks])
    return Drawing(nodes, picks, heat)


def _known(model: ModelledTable, predicate: Predicate) -> bool:
    """Whether a predicate reads a single column and the model can evaluate it."""
    name = next(iter(predicate.columns))
    if len(predicate.columns) > 1 or name not in model.codecs or name not in model.circuit.domains:
        return False
    return drawable(model.codecs[name]) and bool(_weights(model, [predicate]))


def _weights(model: ModelledTable, held: Sequence[Predicate]) -> dict[str, Floats]:
    """Weights of a column's codes under a query's predicates, by column.

    Columns whose predicates cannot be interpreted are left out.
    """
    conditions: dict[str, list[str]] = {}
    for predicate in held:
        text = predicate.condition.as_string(None)
        conditions.setdefault(next(iter(predicate.columns)), []).append(text)
    found = {name: weights(texts, model.codecs[name]) for name, texts in conditions.items()}
    return {name: vector for name, vector in found.items() if vector is not None}


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
                predicates=[predicate.text for predicate in held],
                qerror=query.qerror,
                real=_shares(real.shares[place]),
                clone=_shares(clone.shares[place]),
                model=[] if model is None else _shares(model.shares[place]),
            )
            for place, (query, why, held) in enumerate(drawing.picks)
        ],
    )


def _shares(found: Floats) -> list[float | None]:
    return [None if np.isnan(share) else round(float(share), 6) for share in found]
