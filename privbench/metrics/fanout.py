"""How many children the parents of a foreign key have, in buckets that double."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from psycopg import sql

from privbench.metrics.columns import from_table
from privbench.metrics.summary import Floats
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.schema import ForeignKey, Table


@dataclass(frozen=True, slots=True)
class Fanout:
    """Children per parent along one foreign key."""

    parents: int  # rows that can be referred to
    children: int  # rows that refer to one of them
    largest: int  # most children of a parent
    counts: tuple[int, ...]  # parents by bucket of their number of children (see `label`)

    @property
    def mean(self) -> float:
        """Children per parent."""
        return self.children / max(self.parents, 1)

    def shares(self, buckets: int) -> Floats:
        """Share of the parents in each bucket, shape (buckets,)."""
        found = np.zeros(buckets)
        found[: len(self.counts)] = self.counts
        return found / max(self.parents, 1)


def label(bucket: int) -> str:
    """What a bucket holds.

    >>> [label(i) for i in range(5)]
    ['0', '1', '2', '3–4', '5–8']
    """
    if bucket <= 2:
        return str(bucket)
    return f"{2 ** (bucket - 2) + 1:,}–{2 ** (bucket - 1):,}"


def fanout(connection: Connection, key: ForeignKey, child: Table, parent: Table) -> Fanout:
    """Count the children of every parent, in the database.

    Args:
        connection: To the source or the clone; only read.
        key: The foreign key.
        child: The table that holds it.
        parent: The table that it refers to.

    Returns:
        Buckets 0, 1, 2, 3–4, 5–8, … up to the last one that holds a parent.
    """
    with database_errors("counting children", child.key):
        filled = from_table(parent), _filled(key.ref_columns)
        asked = SELECT + sql.SQL("pg_catalog.count(*) FROM {} WHERE {}").format(*filled)
        total = connection.execute(asked).fetchone()
        found = connection.execute(_groups(key, child)).fetchall()
    parents = int(total[0]) if total else 0
    by_bucket = {int(bucket): int(count) for bucket, count, _, _ in found}
    # A clone whose keys dangle has more groups than parents: nobody is then without children.
    by_bucket[0] = max(0, parents - sum(by_bucket.values()))
    return Fanout(
        parents=parents,
        children=sum(int(rows) for _, _, rows, _ in found),
        largest=max((int(top) for *_, top in found), default=0),
        counts=tuple(by_bucket.get(i, 0) for i in range(max(by_bucket) + 1)),
    )


def _groups(key: ForeignKey, child: Table) -> sql.Composed:
    """Bucket, parents, children and the largest number of children."""
    return SELECT + sql.SQL(
        "CASE WHEN n = 1 THEN 1"
        " ELSE 1 + pg_catalog.ceil(pg_catalog.log(2, n::numeric))::integer END AS bucket,"
        " pg_catalog.count(*), pg_catalog.sum(n), pg_catalog.max(n) FROM"
        " (SELECT pg_catalog.count(*) AS n FROM {} WHERE {} GROUP BY {}) AS g GROUP BY 1"
    ).format(
        from_table(child),
        _filled(key.columns),
        sql.SQL(", ").join(sql.Identifier(name) for name in key.columns),
    )


def _filled(columns: tuple[str, ...]) -> sql.Composed:
    return sql.SQL(" AND ").join(
        sql.SQL("{} IS NOT NULL").format(sql.Identifier(name)) for name in columns
    )
