"""Collect what the pictures of the HTML report are drawn from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privbench.metrics import canon
from privbench.metrics.correlation import association
from privbench.metrics.fanout import fanout, label
from privbench.metrics.fidelity import TableFidelity
from privbench.metrics.summary import Floats
from privbench.postgres.snapshot import Snapshot
from privbench.report.document_parts import (
    CorrelationPart,
    FanoutPart,
    FanoutSidePart,
)
from privbench.schema import ForeignKey, Schema

#: Most columns of a matrix; a wider one is no longer readable.
_COLUMNS = 40


def fanouts(source: Snapshot, clone: Snapshot, schema: Schema, theirs: Schema) -> list[FanoutPart]:
    """Fan-outs of both sides: CONFIDENTIAL.

    Args:
        source: The source; only read.
        clone: The clone; only read.
        schema: The source's schema.
        theirs: The clone's.
    """
    keys = [key for table in schema for key in table.foreign_keys if _on_both(key, schema, theirs)]
    return [_fanout(source, clone, schema, key) for key in keys]


def correlations(found: Mapping[str, TableFidelity]) -> list[CorrelationPart]:
    """Associations of the columns of the compared tables, by key; needs no database."""
    return [
        _correlation(key, held)
        for key, held in found.items()
        if len(held.columns) > 1 and len(held.columns[0].coded.real)
    ]


def _correlation(table: str, found: TableFidelity) -> CorrelationPart:
    columns = found.columns[:_COLUMNS]
    ordered = [canon.order_type(column.plan.column) is not None for column in columns]
    matrices = association([column.coded for column in columns], ordered)
    return CorrelationPart(
        table=table,
        columns=[column.plan.column.name for column in columns],
        ordered=ordered,
        real=_matrix(matrices.real),
        clone=_matrix(matrices.clone),
        mean_difference=matrices.mean_difference,
        left_out=[column.plan.column.name for column in found.columns[_COLUMNS:]],
    )


def _matrix(found: Floats) -> list[list[float | None]]:
    rows = np.round(found, 4).tolist()
    return [[None if value != value else value for value in row] for row in rows]


def _on_both(key: ForeignKey, schema: Schema, theirs: Schema) -> bool:
    sides = ((key.table, key.columns), (key.ref_table, key.ref_columns))
    return key.ref_table in schema and all(
        name in theirs and {column.name for column in theirs.table(name).columns}.issuperset(names)
        for name, names in sides
    )


def _fanout(source: Snapshot, clone: Snapshot, schema: Schema, key: ForeignKey) -> FanoutPart:
    child, parent = schema.table(key.table), schema.table(key.ref_table)
    real, copy = (fanout(side.connection, key, child, parent) for side in (source, clone))
    buckets = max(len(real.counts), len(copy.counts))
    shares = [side.shares(buckets) for side in (real, copy)]
    parts = [
        FanoutSidePart(
            parents=side.parents, mean=side.mean, max=side.largest, shares=share.tolist()
        )
        for side, share in zip((real, copy), shares, strict=True)
    ]
    return FanoutPart(
        table=child.key,
        key=key.name,
        columns=list(key.columns),
        parent=parent.key,
        labels=[label(i) for i in range(buckets)],
        real=parts[0],
        clone=parts[1],
        tvd=float(0.5 * np.abs(shares[0] - shares[1]).sum()),
    )
