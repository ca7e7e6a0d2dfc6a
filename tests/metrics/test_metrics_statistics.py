"""``pg_stats`` of two real databases."""

import numpy as np
import pytest
from sql_files import sql_of

from privbench.metrics import statistics
from privbench.metrics.base import weighted
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot
from privbench.report.measuring import statistics_part


@pytest.fixture(scope="module")
def pair(make_database):
    return (
        make_database(sql_of(__file__, "kinds", third="'z'", distinct=10, rows=4000)),
        make_database(sql_of(__file__, "kinds", third="'x'", distinct=40, rows=8000)),
    )


def test_statistics_agree_or_not_and_partitioned_tables_have_theirs(pair):
    with Snapshot(pair[0]) as source, Snapshot(pair[1]) as clone:
        table = introspect(source.connection).table("kinds")
        one = statistics.read(source.connection, table, 4000)
        other = statistics.read(clone.connection, table, 8000)
    assert set(one) == {"id", "kind", "n", "a"}
    assert (one["id"].part.n_distinct, other["id"].part.n_distinct) == (4000, 8000)
    assert one["kind"].common == pytest.approx({"x": 0.25, "y": 0.25, "z": 0.25}, abs=0.01)
    kind = statistics.difference(table, "kind", one["kind"], other["kind"])
    assert kind.null_frac == pytest.approx(0, abs=0.01)
    assert kind.mcv == pytest.approx(1 - 0.5 / 1.0, abs=0.03)  # x: min ¼ of ½, y: ¼; z: 0 of ¼
    assert kind.n_distinct == 1.5
    n = statistics.difference(table, "n", one["n"], other["n"])
    assert n.n_distinct == 4
    key = statistics.difference(table, "id", one["id"], other["id"])
    assert (key.n_distinct, key.mcv) == (2, None)
    same = statistics.difference(table, "kind", one["kind"], one["kind"])
    assert (same.n_distinct, same.null_frac, same.mcv, same.correlation, same.avg_width) == (
        1, 0, 0, 0, 0,
    )  # fmt: skip
    # Partitioned tables have statistics as a whole.
    with Snapshot(pair[0]) as source:
        table = introspect(source.connection).table("parts")
        found = statistics.read(source.connection, table, 300)
    assert found["k"].part.n_distinct == pytest.approx(100)
    assert found["v"].part.n_distinct == 3


def test_tables_without_statistics_are_named(pair):
    with Snapshot(pair[0]) as source:
        schema = introspect(source.connection)
        kinds, later = schema.table("kinds"), schema.table("later")
        known = statistics.read(source.connection, kinds, 4000)
    part = statistics_part(
        [
            (kinds, (4000, known), (4000, known)),
            (later, (5, {}), (0, {})),  # an empty table has none even after ANALYZE
        ]
    )
    assert part.absent == {"source": ["public.later"]}
    assert len(part.columns) == 4
    assert (part.n_distinct.max, part.n_distinct.n) == (1, 4)
    assert part.mcv.n == 3


def test_weights_count_as_repeats():
    errors, weights = np.array([4.0, 1.0, 2.0]), np.array([1.0, 3.0, 6.0])
    found = weighted(errors, weights)
    whole = np.sort(np.repeat(errors, weights.astype(int)))
    assert found.mean == pytest.approx(whole.mean())
    assert (found.p50, found.p90, found.p95, found.max) == (2, 2, 4, 4)
    assert weighted(errors, np.full(3, 7.0)) is None
    assert weighted(errors[:0], weights[:0]) is None
