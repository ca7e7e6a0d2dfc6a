"""Draw a small circuit of the columns that the workload asks about, and count both sides on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privbench.errors import DatabaseError
from privbench.metrics import heatmap, heattree
from privbench.metrics.fidelity import TableFidelity
from privbench.metrics.heatmap import Heat, Predicate
from privbench.metrics.modelled import ModelledTable
from privbench.metrics.summary import Floats
from privbench.postgres.snapshot import Snapshot
from privbench.report.collect_modelmap import released
from privbench.report.collect_predicates import predicates
from privbench.report.document import QueryPart
from privbench.report.document_views import HeatMapPart, HeatNodePart, HeatQueryPart
from privbench.report.heat_choice import Drawing, choose, held_by
from privbench.schema import Schema, Table

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
                model_share=None if model is None else round(float(model.ways[place]), 6),
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
