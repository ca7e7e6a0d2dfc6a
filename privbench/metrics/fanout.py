"""The number of children per parent of a foreign key, in buckets whose widths double."""

import numpy as np
from psycopg import sql

from privbench.metrics.base import Part
from privbench.metrics.columns import count
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.postgres.statement import source as from_table
from privbench.schema import ForeignKey, Table


class FanoutSidePart(Part):
    """The children per parent in one database; ``shares`` are of the parents, by bucket."""

    parents: int
    mean: float
    max: int
    shares: list[float]


class FanoutPart(Part):
    """The distribution of children per parent along one foreign key."""

    table: str  # the table that holds the key
    key: str  # the constraint's name
    columns: list[str]  # its columns
    parent: str  # the table that it refers to
    labels: list[str]  # buckets of the number of children: 0, 1, 2, 3–4, 5–8, …
    real: FanoutSidePart  # the source
    clone: FanoutSidePart
    tvd: float  # total variation distance over the buckets


def label(bucket: int) -> str:
    """Return the numbers of children that a bucket holds, as text.

    >>> [label(i) for i in range(5)]
    ['0', '1', '2', '3–4', '5–8']
    """
    if bucket <= 2:
        return str(bucket)
    return f"{2 ** (bucket - 2) + 1:,}–{2 ** (bucket - 1):,}"


def fanout(
    source: Connection, clone: Connection, key: ForeignKey, child: Table, parent: Table
) -> FanoutPart:
    """Count the children of every parent, in both databases.

    Buckets 0, 1, 2, 3–4, 5–8, … go up to the last one that holds a parent on either side.
    """
    sides = [_side(connection, key, child, parent) for connection in (source, clone)]
    buckets = max(len(side.shares) for side in sides)
    shares = [side.shares + [0.0] * (buckets - len(side.shares)) for side in sides]
    real, copy = (
        side.model_copy(update={"shares": whole}) for side, whole in zip(sides, shares, strict=True)
    )
    return FanoutPart(
        table=child.key,
        key=key.name,
        columns=list(key.columns),
        parent=parent.key,
        labels=[label(bucket) for bucket in range(buckets)],
        real=real,
        clone=copy,
        tvd=float(0.5 * np.abs(np.diff(shares, axis=0)).sum()),
    )


def _side(connection: Connection, key: ForeignKey, child: Table, parent: Table) -> FanoutSidePart:
    with database_errors("counting children", child.key):
        filled = from_table(parent), _filled(key.ref_columns)
        parents = count(connection, SELECT + build("pg_catalog.count(*) FROM {} WHERE {}", *filled))
        groups = connection.execute(_groups(key, child)).fetchall()
    by_bucket = {int(bucket): int(number) for bucket, number, _, _ in groups}
    # With dangling references a clone may have more groups than parents: then no parent counts as
    # having no children.
    by_bucket[0] = max(0, parents - sum(by_bucket.values()))
    return FanoutSidePart(
        parents=parents,
        mean=sum(int(rows) for _, _, rows, _ in groups) / max(parents, 1),
        max=max((int(top) for *_, top in groups), default=0),
        shares=[by_bucket.get(bucket, 0) / max(parents, 1) for bucket in range(max(by_bucket) + 1)],
    )


def _groups(key: ForeignKey, child: Table) -> sql.Composed:
    """A query for each bucket's number of parents and children, and most children of a parent."""
    return SELECT + build(
        "CASE WHEN n = 1 THEN 1"
        " ELSE 1 + pg_catalog.ceil(pg_catalog.log(2, n::numeric))::integer END AS bucket,"
        " pg_catalog.count(*), pg_catalog.sum(n), pg_catalog.max(n) FROM"
        " (SELECT pg_catalog.count(*) AS n FROM {} WHERE {} GROUP BY {}) AS g GROUP BY 1",
        from_table(child),
        _filled(key.columns),
        key.columns,
    )


def _filled(columns: tuple[str, ...]) -> sql.Composed:
    return sql.SQL(" AND ").join(build("{} IS NOT NULL", name) for name in columns)
