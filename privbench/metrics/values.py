"""What counting queries do not show: sums, ranges, lengths, and rules between columns that broke.

Columns are read whole on both sides, rules are looked for in a sample, and ``pg_stats`` is what the
last ANALYZE left to the planner. All of it is CONFIDENTIAL.
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
}
_FINITE = "CASE WHEN {0} BETWEEN -1e150 AND 1e150 THEN {0} END"
_POINTS = ("least", "p5", "p50", "p95", "greatest", "mean")
_SIZES = """
SELECT pg_catalog.sum(pg_catalog.pg_table_size(c.oid))::pg_catalog.int8,
    pg_catalog.sum(pg_catalog.pg_indexes_size(c.oid))::pg_catalog.int8
FROM pg_catalog.pg_class c WHERE c.oid = %(table)s::pg_catalog.regclass
OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(%(table)s::pg_catalog.regclass))
"""
#: Statistics by name, and the most common values as text with their shares.
ColumnStatistics = tuple[MetricFacts, dict[str, float]]
_near = partial(np.isclose, rtol=1e-9, atol=0.011)


class ColumnValuesPart(Part):
    """One column on both sides; of a text, least, quantiles, greatest and mean are of lengths."""

    name: str
    source: MetricFacts
    clone: MetricFacts
    errors: dict[str, float]  # by figure; values of keys are generated


class RulePart(Part):
    """An order or an identity of the source's columns."""

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
    """Sizes, columns and rules of a table, as fields of its part of the document.

    ``there`` are the columns that the clone has. Without ``exact`` no row is read.
    """
    columns = [column for column in table.columns if column.name in there]
    asked = {"table": build("{}", table.name).as_string(None)}
    source, clone = (side.execute(_SIZES, asked).fetchone() or (0, 0) for side in sides)
    return {
        "source_bytes": source,
        "clone_bytes": clone,
        "values": [*_columns(sides, table, columns, rows, exact)],
        "rules": [*_rules(sides, table, columns, rows)] if exact else [],
    }


def ratio(one: float, other: float) -> float:
    """How far two sizes are apart: ln of their Q-error."""
    return float(np.log(qerrors(one, other)))


def statistics(connection: Connection, table: Table, rows: int) -> dict[str, ColumnStatistics]:
    """What ``pg_stats`` shows of a table's columns; the session prints values as a snapshot's."""
    asked = [table.name.schema, table.name.name, table.kind == "p"]
    with database_errors("reading pg_stats", table.key):
        found = connection.execute(_PLANNER, asked).fetchall()
    columns = {}
    for name, distinct, nulls, width, order, values, shares in found:
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


def apart(key: bool, one: ColumnStatistics, other: ColumnStatistics) -> dict[str, float]:
    """How far the statistics of a column are apart, by figure.

    Most common values: 1 less the overlap, Σ min / Σ max of their shares, which are 0 of a value in
    one list alone. There are none of key columns, whose values are generated.
    """
    sides = [
        {name: float(x) for name, x in side[0].items() if x is not None} for side in (one, other)
    ]
    found = {
        name: abs(float(distance(*(side[name] for side in sides))))
        for name, distance in _APART.items()
        if all(name in side for side in sides)
    }
    pairs = [(one[1].get(value, 0.0), other[1].get(value, 0.0)) for value in {**one[1], **other[1]}]
    if found and pairs and not key:
        found["stats.mcv"] = 1 - math.fsum(map(min, pairs)) / math.fsum(map(max, pairs))
    return found


def _columns(
    sides: Sequence[Connection],
    table: Table,
    columns: Iterable[Column],
    rows: Sequence[int],
    exact: bool,
) -> Iterator[ColumnValuesPart]:
    seen = [statistics(side, table, n) for side, n in zip(sides, rows, strict=True)]
    for column in columns:
        key = _is_key(table, column)
        known = [side.get(column.name, ({}, {})) for side in seen]
        errors = apart(key, *known)
        facts = [side for side, _ in known]
        if exact:
            exactly = [_facts(side, table, column) for side in sides]
            errors |= _errors(column, key, *exactly)
            facts = [_shown(column, a) | b for a, b in zip(exactly, facts, strict=True)]
        one, other = facts
        yield ColumnValuesPart(name=column.name, source=one, clone=other, errors=errors)


def _is_key(table: Table, column: Column) -> bool:
    # Parts of a key may hold values.
    alone = any(unique.columns == (column.name,) for unique in table.unique_sets)
    return alone or column.name in table.key_columns


def _number(column: Column) -> sql.Composed | None:
    """SQL of finite numbers, moments in seconds; None without an order."""
    order = canon.order_type(column)
    if order is None:
        return None
    value = canon.canonical(column, sql.Identifier(column.name))
    return build("({})::double precision", sql.SQL(_NUMBER.get(order, _FINITE)).format(value))


def _facts(side: Connection, table: Table, column: Column) -> dict[str, float | None]:
    number, text = _number(column), canon.text(column, sql.Identifier(column.name))
    query = SELECT + build(
        "pg_catalog.count(*), pg_catalog.count(n), pg_catalog.count(DISTINCT v),"
        " pg_catalog.stddev_pop(x), pg_catalog.percentile_disc('{{0,.05,.5,.95,1}}'::double"
        " precision[]) WITHIN GROUP (ORDER BY x) || pg_catalog.avg(x)::double precision"
        " FROM (SELECT {} AS n, {} AS v, {}::double precision AS x FROM {}) AS r",
        column.name,
        number or text,
        number or build("pg_catalog.length({})", text),
        from_table(table),
    )
    with database_errors("reading the values of a column", table.key):
        rows, filled, distinct, sd, points = side.execute(query).fetchone() or ()
    nulls = 1 - filled / max(rows, 1)
    named = dict.fromkeys(_POINTS) | dict(zip(_POINTS, points or (), strict=False))
    return {"rows": rows, "NULL": nulls, "distinct": distinct, "sd": sd, **named}


def _shown(column: Column, facts: Mapping[str, float | None]) -> MetricFacts:
    moments = _POINTS if canon.order_type(column) == "timestamp" else ()
    return {
        name: str(np.datetime64(round(value), "s")) if name in moments and value else value
        for name, value in facts.items()
    }


def _errors(column: Column, key: bool, *sides: Mapping[str, float | None]) -> dict[str, float]:
    order = canon.order_type(column)
    one, other = ({name: value or 0.0 for name, value in side.items()} for side in sides)
    apart = {name: abs(one[name] - other[name]) for name in one}
    errors = {"nulls": apart["NULL"], "distinct": ratio(one["distinct"], other["distinct"])}
    if order is None:
        errors["length"] = ratio(one["mean"], other["mean"])
    elif not key:
        sd = max(one["sd"], 1e-9 * abs(one["mean"]), 1e-9)
        errors["mean"] = apart["mean"] / sd
        middle = sum(apart[name] for name in ("p5", "p50", "p95")) / 3
        errors["quantiles"] = middle / max(one["p95"] - one["p5"], sd)
        reach = max(one["greatest"] - one["least"], sd)
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
    known = [(c.name, canon.order_type(c) or "", x) for c in plain if (x := _number(c))]
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
        whole = [_whole(sample, used) for sample in samples]
        if whole[1].size:
            real, copy = (float(keeps(values).mean()) for values in whole)
            yield RulePart(
                kind="values.order" if keeps is _ordered else "values.identity",
                rule=form.format(*(names[i] for i in used)),
                source=real,
                clone=copy,
                error=min(max(real - copy, 0.0) / chance, 2.0),
            )


def _whole(rows: Floats, used: Sequence[int]) -> Floats:
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
    rng, linked = np.random.default_rng(1), list[set[int]]()
    for used, form, keeps in _candidates(rows, kinds):
        values, chance = _whole(rows, used), 1.0
        least = 0.998 if keeps is _ordered else 0.99
        if any(pair <= {*used} for pair in linked) or values.shape[1] < _LEAST:
            continue
        if keeps(values[:, :400]).mean() < 0.97 or keeps(values).mean() < least:
            continue
        if keeps is _ordered:
            low, high = values
            chance = float((low > rng.permutation(high)).mean()) if (low != high).any() else 0.0
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
    varied = [i for i in range(len(kinds)) if len(np.unique(_whole(rows, [i])[0, :5000])) > 5][:24]
    for pair in combinations(varied, 2):
        x, y = _whole(rows, pair)
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
