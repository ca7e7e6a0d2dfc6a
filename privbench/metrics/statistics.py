"""Statistics agreement: what ``pg_stats`` states of a column on both sides.

The view is filled by ANALYZE and shows what the role may read. All of it comes from rows:
CONFIDENTIAL.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from privbench.metrics.base import Metric, Part
from privbench.metrics.columns import key_kind
from privbench.metrics.qerror import qerrors
from privbench.metrics.work import amounts
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.schema import Table

STATISTICS = Metric(
    name="stats",
    title="Statistics agreement",
    low=1.0,
    unit="×",
    meaning="How many times the planner's number of distinct values of a column is larger or "
    "smaller on the clone than on the source: 1 is the same.",
    headline="stats.n_distinct.p50",
    good=1.5,
    fair=3.0,
)

_QUERY = """
SELECT attname, n_distinct, null_frac, avg_width, correlation,
    pg_catalog.textin(pg_catalog.anyarray_out(most_common_vals))::pg_catalog.text[],
    most_common_freqs
FROM pg_catalog.pg_stats WHERE schemaname = %s AND tablename = %s AND inherited = %s
"""


class ColumnStatisticsPart(Part):
    """A row of ``pg_stats``."""

    # As a number of values: shares are turned into numbers by the rows of the table.
    n_distinct: float
    null_frac: float  # share of NULL
    avg_width: int  # bytes
    correlation: float | None  # of physical and logical order; None without an order
    mcv: int  # number of most common values
    mcv_share: float  # share of the rows that they hold


class StatisticPart(Part):
    """One column's statistics on both sides."""

    table: str
    column: str
    source: ColumnStatisticsPart
    clone: ColumnStatisticsPart
    n_distinct: float  # Q-error
    null_frac: float  # absolute difference of shares
    # 1 less the overlap of the most common values, Σ min / Σ max of their shares, a value that is
    # in one list alone having share 0 in the other; None for key columns, whose values are made
    # up, and where neither side has any.
    mcv: float | None
    correlation: float | None  # absolute difference, None without one
    avg_width: float  # |w − ŵ| / w, per cent


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """One column's statistics on one side."""

    part: ColumnStatisticsPart  # what the report shows
    common: Mapping[str, float]  # most common values as text, with their shares


def read(connection: Connection, table: Table, rows: int) -> dict[str, ColumnStatistics]:
    """The statistics of a table's columns, which has so many rows on this side.

    Columns that the view does not show are missing. The session has to print values alike on both
    sides, as a snapshot's does.
    """
    asked = [table.name.schema, table.name.name, table.kind == "p"]
    with database_errors("reading pg_stats", table.key):
        found = connection.execute(_QUERY, asked).fetchall()
    statistics = {}
    for name, distinct, nulls, width, order, values, shares in found:
        common = dict(zip(values or (), map(float, shares or ()), strict=False))
        part = ColumnStatisticsPart(
            n_distinct=float(distinct if distinct >= 0 else -distinct * rows),
            null_frac=float(nulls),
            avg_width=int(width),
            correlation=None if order is None else float(order),
            mcv=len(common),
            mcv_share=sum(common.values()),
        )
        statistics[name] = ColumnStatistics(part, common)
    return statistics


def difference(
    table: Table, column: str, source: ColumnStatistics, clone: ColumnStatistics
) -> StatisticPart:
    """Compare one column."""
    one, other = source.part, clone.part
    order = None
    if one.correlation is not None and other.correlation is not None:
        order = abs(one.correlation - other.correlation)
    return StatisticPart(
        table=table.key,
        column=column,
        source=one,
        clone=other,
        n_distinct=float(qerrors([one.n_distinct], [other.n_distinct])[0]),
        null_frac=abs(one.null_frac - other.null_frac),
        mcv=None if key_kind(table, column) else _distance(source.common, clone.common),
        correlation=order,
        avg_width=float(amounts([one.avg_width], [other.avg_width])[0]),
    )


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    values = one.keys() | other.keys()
    if not values:
        return None
    pairs = [(one.get(value, 0.0), other.get(value, 0.0)) for value in values]
    return 1.0 - math.fsum(map(min, pairs)) / math.fsum(map(max, pairs))
