"""Comparisons beyond counting queries: sums, ranges, lengths, and broken rules between columns.

Columns are read whole on both sides: the server counts the rows of each value, sorts the distinct
values once, within its ``work_mem``, and returns one line. Rules are searched for in a sample, and
``pg_stats`` is what the last ANALYZE left for the planner. All of it is CONFIDENTIAL.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import Any, SupportsFloat

import numpy as np
from psycopg import sql

from privbench.arrays import Floats
from privbench.metrics import canon
from privbench.metrics.base import Metric, MetricFacts, Part
from privbench.metrics.columns import CELLS, Binning, CellPlan
from privbench.metrics.qerror import qerrors
from privbench.metrics.work import amounts
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.postgres.statement import source as from_table
from privbench.schema import Column, Table

VALUES = Metric(
    name="values",
    title="Values of columns",
    meaning="A column's largest error: of NULL's share, of mean, quantiles and ends in its spread, "
    "or |ln| of a ratio (distinct values, sum, length).",
    headline="values.worst.p50",
    good=0.2,
    fair=0.5,
)
_PLANNER = """
SELECT attname, n_distinct, null_frac, avg_width, correlation,
    pg_catalog.textin(pg_catalog.anyarray_out(most_common_vals))::pg_catalog.text[],
    most_common_freqs
FROM pg_catalog.pg_stats WHERE schemaname = %s AND tablename = %s AND inherited = %s
"""
_APART: dict[str, Callable[..., SupportsFloat]] = {
    "stats.n_distinct": qerrors,
    "stats.null_frac": np.subtract,
    "stats.correlation": np.subtract,
    "stats.avg_width": amounts,
}
#: Figures; ``worst`` is a column's largest error.
KINDS = (
    *map("values.{}".format, ("nulls", "distinct", "mean", "quantiles", "range", "sum", "length")),
    *("values.worst", "values.order", "values.identity", "values.bytes", *_APART, "stats.mcv"),
)
#: Rows in which rules are sought; the least that show one; the largest error.
_ROWS, _LEAST, _MOST = 40_000, 50, 9.0
_NUMBER = {
    "timestamp": "CASE WHEN pg_catalog.isfinite({0}) THEN extract(epoch FROM {0}) END",
    "time": "extract(epoch FROM {0})",
    "bool": "{0}::pg_catalog.int4",
}
# Squares stay within the range of floats.
_FINITE = (
    "CASE WHEN {0} BETWEEN -1e-140 AND 1e-140 THEN 0 WHEN {0} BETWEEN -1e150 AND 1e150 THEN {0} END"
)
_POINTS = ("least", "p5", "p50", "p95", "greatest", "mean")
_FACTS = """
pg_catalog.sum(n), pg_catalog.sum(filled), pg_catalog.sum(kinds),
    pg_catalog.sqrt(pg_catalog.sum(n * (x - mean) * (x - mean)) / pg_catalog.max(has)),
    pg_catalog.min(x), pg_catalog.min(x) FILTER (WHERE upto >= .05 * has),
    pg_catalog.min(x) FILTER (WHERE upto >= .5 * has),
    pg_catalog.min(x) FILTER (WHERE upto >= .95 * has), pg_catalog.max(x), pg_catalog.max(mean)
FROM (SELECT *, pg_catalog.sum(n * x) OVER () / has AS mean
FROM (SELECT *, pg_catalog.sum(n) OVER (ORDER BY x) AS upto,
    pg_catalog.sum(n) FILTER (WHERE x IS NOT NULL) OVER () AS has
FROM (SELECT {measure}::double precision AS x, pg_catalog.sum(n) AS n,
    pg_catalog.sum(filled) AS filled, pg_catalog.count(v) AS kinds
FROM (SELECT {value} AS v, pg_catalog.count({name}) AS filled,
    pg_catalog.count(*)::double precision AS n FROM {table} GROUP BY 1) AS g
GROUP BY 1) AS l) AS c) AS r
"""
#: Bins of a histogram, and steps to which their edges are rounded up.
_BINS = 32
_STEPS = {"int2": 1, "int4": 1, "int8": 1, "date": 86400}
_SIZES = """
SELECT pg_catalog.sum(pg_catalog.pg_table_size(c.oid))::pg_catalog.int8,
    pg_catalog.sum(pg_catalog.pg_indexes_size(c.oid))::pg_catalog.int8
FROM pg_catalog.pg_class c WHERE c.oid = %(table)s::pg_catalog.regclass
OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(%(table)s::pg_catalog.regclass))
"""
_near = partial(np.isclose, rtol=1e-9, atol=0.011)


class ColumnValuesPart(Part):
    """The statistics of one column in both databases; for texts they are those of lengths.

    The mean of a boolean is the share of true.
    """

    name: str
    source: MetricFacts
    clone: MetricFacts
    errors: dict[str, float]  # by figure; values of keys are generated


class RulePart(Part):
    """An order or an identity between columns that holds in the source."""

    kind: str
    rule: str
    source: float  # share of the rows that keep it
    clone: float
    error: float  # the share lost; for an order, over the share that chance would lose


def contents(
    sides: Sequence[Connection],
    table: Table,
    there: Container[str],
    rows: Sequence[int],
    exact: bool,
) -> dict[str, Any]:
    """Return sizes, columns and rules of a table, as fields of its part of the document.

    ``there`` are the columns that the clone has. Without ``exact`` no row is read. Histograms are
    fields of `ColumnPart` by the column's name.
    """
    columns = [column for column in table.columns if column.name in there]
    names = {"table": build("{}", table.name).as_string(None)}
    source, clone = (side.execute(_SIZES, names).fetchone() or (0, 0) for side in sides)
    histograms: dict[str, dict[str, Any]] = {}
    return {
        "source_bytes": source,
        "clone_bytes": clone,
        "values": [*_columns(sides, table, columns, rows, exact, histograms)],
        "histograms": histograms,
        "rules": [*_rules(sides, table, columns, rows)] if exact else [],
    }


def ratio(one: float, other: float) -> float:
    """Return how far two sizes are apart, as ln of their Q-error."""
    return float(np.log(qerrors(one, other)))


def statistics(
    connection: Connection, table: Table, rows: int
) -> dict[str, tuple[MetricFacts, dict[str, float]]]:
    """Return the statistics that ``pg_stats`` shows of a table's columns, by column.

    The session must print values as a snapshot's does.
    """
    parameters = [table.name.schema, table.name.name, table.kind == "p"]
    with database_errors("reading pg_stats", table.key):
        stats = connection.execute(_PLANNER, parameters).fetchall()
    columns = {}
    for name, distinct, nulls, width, order, values, shares in stats:
        common = dict(zip(values or (), map(float, shares or ()), strict=False))
        facts: MetricFacts = {
            "stats.n_distinct": float(distinct if distinct >= 0 else -distinct * rows),
            "stats.null_frac": float(nulls),
            "stats.avg_width": float(width),
            "stats.correlation": None if order is None else float(order),
            "stats.mcv": sum(common.values()),
        }
        columns[name] = facts, common
    return columns


def apart(
    key: bool,
    one: tuple[MetricFacts, dict[str, float]],
    other: tuple[MetricFacts, dict[str, float]],
) -> dict[str, float]:
    """Return how far the statistics of a column are apart in source and clone, by figure.

    For the most common values it is 1 less the overlap, Σ min / Σ max of their shares; a value in
    one list alone has share 0 in the other. Key columns have none, since their values are
    generated.
    """
    sides = [
        {name: float(x) for name, x in side[0].items() if x is not None} for side in (one, other)
    ]
    distances = {
        name: abs(float(distance(*(side[name] for side in sides))))
        for name, distance in _APART.items()
        if all(name in side for side in sides)
    }
    pairs = [(one[1].get(value, 0.0), other[1].get(value, 0.0)) for value in {**one[1], **other[1]}]
    if distances and pairs and not key:
        distances["stats.mcv"] = 1 - math.fsum(map(min, pairs)) / math.fsum(map(max, pairs))
    return distances


def _columns(
    sides: Sequence[Connection],
    table: Table,
    columns: Iterable[Column],
    rows: Sequence[int],
    exact: bool,
    histograms: dict[str, dict[str, Any]],
) -> Iterator[ColumnValuesPart]:
    statistics_of_sides = [statistics(side, table, n) for side, n in zip(sides, rows, strict=True)]
    for column in columns:
        key = _is_key(table, column)
        known = [side.get(column.name, ({}, {})) for side in statistics_of_sides]
        errors = apart(key, *known)
        facts = [side for side, _ in known]
        if exact:
            exactly = [_facts(side, table, column) for side in sides]
            errors |= _errors(column, key, *exactly)
            most = max(side["distinct"] or 0 for side in exactly)
            if canon.order_type(column) and not key and most > CELLS and exactly[0]["distinct"]:
                histograms[column.name] = _histogram(sides, table, column, exactly[0])
            facts = [_shown(column, a) | b for a, b in zip(exactly, facts, strict=True)]
        one, other = facts
        yield ColumnValuesPart(name=column.name, source=one, clone=other, errors=errors)


def _is_key(table: Table, column: Column) -> bool:
    # Parts of a key may hold values.
    alone = any(unique.columns == (column.name,) for unique in table.unique_sets)
    return alone or column.name in table.key_columns


def _order(column: Column) -> str | None:
    return "bool" if column.type.base == "bool" else canon.order_type(column)


def _number(column: Column) -> sql.Composed | None:
    """SQL of finite numbers, moments in seconds, true as 1; None without an order."""
    order = _order(column)
    if order is None:
        return None
    name: sql.Composable = sql.Identifier(column.name)
    value = name if order == "bool" else canon.canonical(column, name)
    return build("({})::double precision", sql.SQL(_NUMBER.get(order, _FINITE)).format(value))


def _facts(side: Connection, table: Table, column: Column) -> dict[str, float | None]:
    number, text = _number(column), canon.text(column, sql.Identifier(column.name))
    query = SELECT + build(
        _FACTS,
        measure=sql.SQL("v" if number else "pg_catalog.length(v)"),
        value=number or text,
        name=column.name,
        table=from_table(table),
    )
    with database_errors("reading the values of a column", table.key):
        rows, filled, distinct, sd, *points = side.execute(query).fetchone() or ()
    nulls = 1 - float(filled or 0) / max(rows or 0, 1)
    named = dict(zip(_POINTS, points, strict=True))
    return {
        "rows": rows or 0.0,
        "NULL": nulls,
        "distinct": float(distinct or 0),
        "sd": sd,
        **named,
    }


def _histogram(
    sides: Sequence[Connection], table: Table, column: Column, facts: Mapping[str, float | None]
) -> dict[str, Any]:
    """Shares of both sides in bins of equal widths, or of logarithmic ones.

    Outliers, further from the middle nine tenths than twice their width, are in the end bins.
    Widths are logarithmic where half of the rows would be in the first of equal ones.
    """
    low, p5, p50, p95, high = points = [facts[name] or 0.0 for name in _POINTS[:5]]
    reach, order = 2 * (p95 - p5) or high - low, canon.order_type(column)
    ends = max(low, p5 - reach), min(high, p95 + reach)
    how: Binning = "equal widths"
    edges = np.linspace(*ends, _BINS)
    if low >= 0 and p50 < edges[1] and order in ("numeric", "float8"):
        how = "logarithmic widths"
        edges = np.geomspace(low or min(1.0, *(x for x in points if x > 0)), high, _BINS)
        edges = np.array([float(f"{edge:.3g}") for edge in edges])
    else:
        edges = edges.round(2 - math.floor(math.log10(edges[1] - edges[0] or 1.0)))
    step = _STEPS.get(column.type.base)
    edges = np.unique(np.ceil(edges / step) * step if step else edges)
    texts = [f"{edge:.15g}" for edge in edges]
    if order in ("timestamp", "time"):
        moments = [str(np.datetime64(round(edge), "s")) for edge in edges]
        texts = [moment[11:] if order == "time" else moment for moment in moments]
    cells = CellPlan(column, how, tuple(texts)).bin_labels
    query = SELECT + build(
        "pg_catalog.width_bucket({}, ARRAY[{}]::double precision[]), pg_catalog.count(*)"
        " FROM {} GROUP BY 1",
        _number(column) or "",
        [sql.Literal(str(edge)) for edge in edges.tolist()],
        from_table(table),
    )
    with database_errors("reading the values of a column", table.key):
        counts: list[dict[int | None, int]] = [
            dict(side.execute(query).fetchall()) for side in sides
        ]
    labels: dict[int | None, str] = {
        i: label for i, label in enumerate(cells) if i or any(0 in n for n in counts)
    }
    if any(None in count for count in counts):
        labels[None] = "NULL"
    shares = [[n.get(i, 0) / max(sum(n.values()), 1) for i in labels] for n in counts]
    return {"how": how, "labels": [*labels.values()], "real": shares[0], "clone": shares[1]}


def _shown(column: Column, facts: Mapping[str, float | None]) -> MetricFacts:
    moments = _POINTS if canon.order_type(column) == "timestamp" else ()
    return {
        name: str(np.datetime64(round(value), "s")) if name in moments and value else value
        for name, value in facts.items()
    }


def _errors(column: Column, key: bool, *sides: Mapping[str, float | None]) -> dict[str, float]:
    order = _order(column)
    one, other = ({name: value or 0.0 for name, value in side.items()} for side in sides)
    apart = {name: abs(one[name] - other[name]) for name in one}
    errors = {"nulls": apart["NULL"], "distinct": ratio(one["distinct"], other["distinct"])}
    if not (one["distinct"] and other["distinct"]):
        # No value is left to compare: the clone lost them all, or there were none.
        errors = {"nulls": 1.0 if one["distinct"] else apart["NULL"]}
    elif order is None:
        errors["length"] = ratio(one["mean"], other["mean"])
    elif not key:
        sd = max(one["sd"], 1e-9 * abs(one["mean"]), 1e-9)
        errors["mean"] = apart["mean"] / sd
        middle = sum(apart[name] for name in ("p5", "p50", "p95")) / 3
        errors["quantiles"] = middle / max(one["p95"] - one["p5"], sd)
        if reach := one["greatest"] - one["least"]:
            errors["range"] = (apart["least"] + apart["greatest"]) / reach
        if order != "timestamp" and one["least"] >= 0 and one["mean"] > 0:
            real, copy = (side["mean"] * (1 - side["NULL"]) * side["rows"] for side in (one, other))
            errors["sum"] = ratio(real, copy)
    errors = {f"values.{kind}": min(error, _MOST) for kind, error in errors.items()}
    return {**errors, "values.worst": max(errors.values())}


def _rules(
    sides: Sequence[Connection], table: Table, columns: Iterable[Column], rows: Sequence[int]
) -> Iterator[RulePart]:
    plain = [column for column in columns if not _is_key(table, column)]
    kinds_of = ((c, canon.order_type(c)) for c in plain)
    known = [(c.name, kind, x) for c, kind in kinds_of if kind and (x := _number(c))]
    if len(known) < 2 or not all(rows):
        return
    names, kinds, numbers = zip(*known, strict=True)
    samples = []
    for side, n in zip(sides, rows, strict=True):
        part = build("TABLESAMPLE BERNOULLI ({}) REPEATABLE (1)", 100 * min(1.0, _ROWS / n))
        query = SELECT + build("{} FROM {} {}", numbers, from_table(table), part)
        with database_errors("reading a sample", table.key):
            samples.append(np.array(side.execute(query).fetchall(), np.float64).T)
    for used, form, keeps, chance in _true(samples[0], kinds):
        whole = [_complete_rows(sample, used) for sample in samples]
        if whole[1].size:
            real, copy = (float(keeps(values).mean()) for values in whole)
            yield RulePart(
                kind="values.order" if keeps is _ordered else "values.identity",
                rule=form.format(*(names[i] for i in used)),
                source=real,
                clone=copy,
                error=min(max(real - copy, 0.0) / chance, 2.0),
            )


def _complete_rows(rows: Floats, used: Sequence[int]) -> Floats:
    return rows[[*used]][:, ~np.isnan(rows[[*used]]).any(axis=0)]


def _ordered(values: Floats) -> Any:
    return np.less_equal(*values)


def _linear(factor: float, by: float, near: Callable[..., Any], values: Floats) -> Any:
    return near(values[0], factor * values[1] + by)


def _true(
    rows: Floats, kinds: Sequence[str]
) -> Iterator[tuple[tuple[int, ...], str, Callable[[Floats], Any], float]]:
    """Identities of 99 % of the rows, orders of 99.8 %; with each, what chance would lose.

    Columns that one identity links take no part in another.
    """
    linked = list[set[int]]()
    for used, form, keeps in _candidates(rows, kinds):
        values, chance = _complete_rows(rows, used), 1.0
        least = 0.998 if keeps is _ordered else 0.99
        if any(pair <= {*used} for pair in linked) or values.shape[1] < _LEAST:
            continue
        if keeps(values[:, :400]).mean() < 0.97 or keeps(values).mean() < least:
            continue
        if keeps is _ordered:
            low, high = values
            below = np.searchsorted(np.sort(high), low) / len(high)
            chance = float(below.mean()) if (low != high).any() else 0.0
        elif len(used) == 2:
            linked.append({*used})
        if chance >= 0.02:
            yield used, form, keeps, chance


def _candidates(
    rows: Floats, kinds: Sequence[str]
) -> Iterator[tuple[tuple[int, ...], str, Callable[[Floats], Any]]]:
    """Orders, then constant differences and ratios of two columns, then sums and products."""
    for pair in permutations(range(len(kinds)), 2):
        if kinds[pair[0]] == kinds[pair[1]]:
            yield pair, "{} ≤ {}", _ordered
    varied = [
        i for i in range(len(kinds)) if len(np.unique(_complete_rows(rows, [i])[0, :5000])) > 5
    ][:24]
    for pair in combinations(varied, 2):
        x, y = _complete_rows(rows, pair)
        if y.any():
            by, factor = float(np.median(x - y)), float(np.median(x[y != 0] / y[y != 0]))
            more = "" if _near(by, 0) else f" + {by:.6g}"
            yield pair, f"{{}} = {{}}{more}", partial(_linear, 1.0, by, _near)
            close = partial(np.isclose, rtol=1e-6, atol=1e-6)
            yield pair, f"{{}} = {factor:.6g} × {{}}", partial(_linear, factor, 0.0, close)
    for whole in varied if len(varied) <= 16 else ():
        for pair in combinations([i for i in varied if i != whole], 2):
            yield (whole, *pair), "{} = {} + {}", lambda v: _near(v[0], v[1] + v[2])
            yield (whole, *pair), "{} = {} × {}", lambda v: _near(v[0], v[1] * v[2])
