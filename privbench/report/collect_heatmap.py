"""Choose queries for the heat map, learn a small circuit for their columns, and count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from privbench.errors import DatabaseError
from privbench.metrics import heatmap, heattree
from privbench.metrics.fidelity import TableFidelity
from privbench.metrics.heatmap import Heat, Predicate
from privbench.metrics.heattree import Node
from privbench.metrics.summary import Floats
from privbench.postgres.snapshot import Snapshot
from privbench.report.collect_predicates import predicates
from privbench.report.document import QueryPart
from privbench.report.document_views import HeatMapPart, HeatNodePart, HeatQueryPart
from privbench.schema import Schema, Table

#: Tables with a heat map, and columns of a circuit: more would not be readable.
_TABLES, _COLUMNS = 6, 6

Asked = dict[str, dict[str, list[Predicate]]]


def heatmaps(
    source: Snapshot,
    clone: Snapshot,
    schema: Schema,
    found: Mapping[str, TableFidelity],
    queries: Sequence[QueryPart],
) -> list[HeatMapPart]:
    """Heat maps of the tables that the workload asks most about.

    Args:
        source: The source; only read.
        clone: The clone; only read.
        schema: The source's schema.
        found: The compared tables, by key.
        queries: The queries with their figures.

    Returns:
        At most six, the table with the most queries first. Tables of whose compared columns the
        workload asks fewer than two have none.

    Raises:
        DatabaseError: The source refused to learn from.
    """
    asked = _asked(schema, found, queries)
    order = sorted(asked, key=lambda key: -len(asked[key]))
    made = [
        _heatmap(source, clone, schema.table(key), found[key], asked[key], queries)
        for key in order[:_TABLES]
    ]
    return [part for part in made if part is not None]


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


def _heatmap(
    source: Snapshot,
    clone: Snapshot,
    table: Table,
    compared: TableFidelity,
    asked: Mapping[str, list[Predicate]],
    queries: Sequence[QueryPart],
) -> HeatMapPart | None:
    chosen, names = _chosen(asked, queries)
    columns = [column for column in compared.columns if column.plan.column.name in names]
    if len(columns) < 2 or not len(columns[0].coded.real):
        return None
    nodes = heattree.learn(columns)
    held = [
        [predicate for predicate in asked[query.id] if predicate.columns <= names]
        for query, _ in chosen
    ]
    rows = max(len(columns[0].coded.real), len(columns[0].coded.clone))
    share = min(1.0, heatmap.MOST_ROWS / rows)
    sides = [_count(side, table, nodes, held, share) for side in (source, clone)]
    if sides[0] is None or sides[1] is None:
        return None
    return _part(table, nodes, chosen, held, (sides[0], sides[1]), share < 1)


def _chosen(
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


def _count(
    side: Snapshot,
    table: Table,
    nodes: Sequence[Node],
    held: Sequence[Sequence[Predicate]],
    share: float,
) -> Heat | None:
    """None where a predicate cannot be evaluated by itself (it names something out of reach)."""
    try:
        with side.connection.transaction():
            return heatmap.count(side.connection, table, nodes, held, share)
    except DatabaseError:
        return None


def _part(
    table: Table,
    nodes: Sequence[Node],
    chosen: Sequence[tuple[QueryPart, str]],
    held: Sequence[Sequence[Predicate]],
    sides: tuple[Heat, Heat],
    sampled: bool,
) -> HeatMapPart:
    real, clone = sides
    return HeatMapPart(
        table=table.key,
        sampled=sampled,
        nodes=[
            HeatNodePart(
                kind=node.kind,
                parent=node.parent,
                when=node.when,
                columns=list(node.columns),
                real_rows=int(real.rows[place]),
                clone_rows=int(clone.rows[place]),
            )
            for place, node in enumerate(nodes)
        ],
        queries=[
            HeatQueryPart(
                query=query.id,
                why=why,
                predicates=[predicate.text for predicate in held[place]],
                qerror=query.qerror,
                real=_shares(real.shares[place]),
                clone=_shares(clone.shares[place]),
            )
            for place, (query, why) in enumerate(chosen)
        ],
    )


def _shares(found: Floats) -> list[float | None]:
    return [None if np.isnan(share) else round(float(share), 6) for share in found]
