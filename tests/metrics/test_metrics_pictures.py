"""Associations and fan-outs against other ways to compute them."""

import tracemalloc

import numpy as np
import psycopg
import pytest
import scipy
from sql_files import sql_of

from privbench.metrics.correlation import cramers_v, spearman
from privbench.metrics.fanout import fanout
from privbench.postgres.introspect import introspect


def test_made_up_texts_take_no_more_room_than_their_rows():
    """Two columns of 60,000 values each: a table of their pairs would be 29 GB."""
    rng = np.random.default_rng(8)
    one, other = (1 + rng.permutation(60_000) for _ in range(2))
    tracemalloc.start()
    assert abs(spearman(one, other)) < 0.02
    assert np.isnan([cramers_v(np.ones_like(one), other), spearman(np.ones_like(one), one)]).all()
    assert 0 <= cramers_v(one // 2, other // 3) <= 1
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("values", [3, 40, 900])
def test_associations_are_the_definitions_however_pairs_are_counted(values):
    rng = np.random.default_rng(values)
    x = rng.integers(1, values, 4000)
    y = np.where(rng.random(4000) < 0.5, x, rng.integers(1, values, 4000))
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    table = scipy.stats.contingency.crosstab(x, y).count
    n, (k, m) = table.sum(), table.shape
    phi = scipy.stats.chi2_contingency(table, correction=False).statistic / n - (k - 1) * (
        m - 1
    ) / (n - 1)
    room = min(size - (size - 1) ** 2 / (n - 1) for size in (k, m)) - 1
    assert cramers_v(x, y) == pytest.approx(np.sqrt(min(1, max(0, phi) / room)))


def test_children_are_counted_in_buckets(make_database):
    dsn = make_database(sql_of(__file__, "forum"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        schema = introspect(connection)
        child, parent = schema.table("public.children"), schema.table("public.parents")
        with psycopg.connect(dsn) as other:
            other.execute("DELETE FROM children WHERE parent > 2")
            found = fanout(connection, other, child.foreign_keys[0], child, parent)
            assert found.labels == ["0", "1", "2", "3–4", "5–8", "9–16"]
            assert (found.real.parents, found.real.mean, found.real.max) == (10, 3.2, 9)
            assert found.real.shares == [0.3, 0.1, 0.1, 0.2, 0.2, 0.1]
            assert found.clone.shares == [0.8, 0.1, 0.1, 0, 0, 0]
            assert found.tvd == pytest.approx(0.5)
            other.execute("TRUNCATE children, parents")
            empty = fanout(other, other, child.foreign_keys[0], child, parent)
            assert (empty.clone.mean, empty.labels, empty.tvd) == (0.0, ["0"], 0)
