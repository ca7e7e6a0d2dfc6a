"""Metrics against straightforward computations of their definitions."""

import itertools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from privbench.metrics import METRICS, fidelity, kld
from privbench.metrics.columns import CellPlan
from privbench.metrics.kld import MOST_SETS, Coded, column_sets, divergence
from privbench.metrics.qerror import report
from privbench.rng import generator
from privbench.schema import Column, ColumnType


def _rows(n, sizes, label):
    rng = generator(5, label)
    first = rng.integers(sizes[0], size=n)
    others = [(first + rng.integers(size, size=n)) % size for size in sizes[1:]]
    return [tuple(int(v) for v in row) for row in zip(first, *others, strict=True)]


def _coded(real, clone, sizes):
    def column(rows, i):
        return np.array([row[i] for row in rows], dtype=np.uint16)

    return [Coded(column(real, i), column(clone, i), size) for i, size in enumerate(sizes)]


def _by_definition(real, clone, ways):
    """Word for word: cells of each set by a Counter, one term a cell."""
    klds, tvds = [], []
    for chosen in itertools.combinations(range(len(real[0])), ways):
        p = Counter(tuple(row[i] for i in chosen) for row in real)
        q = Counter(tuple(row[i] for i in chosen) for row in clone)
        kld = tvd = 0.0
        for cell in p.keys() | q.keys():
            a, b = p[cell] / len(real), q[cell] / max(len(clone), 1)
            kld += (a + 1e-10) * math.log((a + 1e-10) / (b + 1e-10))
            tvd += abs(a - b) / 2
        klds.append(kld)
        tvds.append(tvd)
    return sum(klds) / len(klds), sum(tvds) / len(tvds)


@pytest.mark.parametrize("ways", [1, 2, 3, 4])
@pytest.mark.parametrize("clone_rows", [0, 70, 400])
def test_divergence_is_the_definition(ways, clone_rows):
    sizes = (3, 5, 2, 7, 4)
    real, clone = _rows(300, sizes, "real"), _rows(clone_rows, sizes, "clone")
    found = divergence(_coded(real, clone, sizes), ways)
    assert (found.kld, found.tvd) == pytest.approx(_by_definition(real, clone, ways), rel=1e-9)
    assert found.sets == found.of == math.comb(5, ways)


@pytest.mark.parametrize(
    ("sizes", "real_rows", "clone_rows", "cells"),
    [
        # Far more cells than rows: combinations are sorted.
        ((250, 240, 230, 200), 120, 90, None),
        # More rows than are coded at once, counted in place or sorted.
        ((7, 5), 70_000, 66_000, None),
        ((60_000, 60_000), 70_000, 66_000, None),
        # Numbers of combinations need more than 32 bits.
        ((2, 3, 3), 300, 200, (2, 1 << 16, 1 << 16)),
    ],
)
def test_every_way_of_counting_is_the_definition(sizes, real_rows, clone_rows, cells):
    real, clone = _rows(real_rows, sizes, "real"), _rows(clone_rows, sizes, "clone")
    found = kld.distance(_coded(real, clone, cells or sizes))
    assert found == pytest.approx(_by_definition(real, clone, len(sizes)), rel=1e-9)


def test_too_few_columns_or_rows_give_nothing_and_too_many_combinations_are_refused():
    for columns, rows in ((3, 0), (0, 0), (1, 1)):
        column = Coded(np.zeros(rows, np.uint8), np.zeros(rows, np.uint8), 2)
        assert divergence([column] * columns, 2) is None
    column = Coded(np.zeros(4, np.uint32), np.zeros(4, np.uint32), 1 << 31)
    with pytest.raises(ValueError, match="too many"):
        kld.distance([column] * 3)


def test_many_sets_are_sampled_with_a_fixed_seed():
    assert len(column_sets(14, 4)) == 1001 == math.comb(14, 4)
    sets = column_sets(20, 4)
    assert len(set(sets)) == MOST_SETS < math.comb(20, 4)
    assert sets == column_sets(20, 4)
    assert all(len(set(chosen)) == 4 and max(chosen) < 20 for chosen in sets)
    assert len(column_sets(19, 3)) == math.comb(19, 3)
    assert len(column_sets(400, 2)) == len(column_sets(400, 3)) == MOST_SETS


def test_qerror_report_by_joins_thirds_and_patterns():
    true = [1, 2, 3, 10, 20, 30, 100, 200, 0]
    clone = [1, 4, 3, 10, 10, 30, 0, 800, 0]
    joins = [0, 0, 1, 1, 2, 10, None, 2, 0]
    found = report(true, clone, joins, patterns=[False, True, True, *[False] * 6])
    assert (found.patterns.n, found.patterns.max) == (2, 2)
    assert report(true, clone, joins).patterns is None
    assert list(found.by_joins) == ["0", "1", "2", "10", "?"]
    assert found.by_joins["2"].mean == pytest.approx(3.0)
    assert found.by_joins["?"].max == 100
    thirds = {name: part.n for name, part in found.by_third.items()}
    assert thirds == {"small": 3, "middle": 3, "large": 3}
    assert found.by_third["large"].max == 100
    assert (found.true_zero, found.clone_zero) == (1, 1)
    assert found.overall.n == 9
    equal = report([5] * 9, [5] * 8 + [10], [0] * 9)
    assert {name: part.n for name, part in equal.by_third.items()} == {"small": 9}


def test_declarations_are_sound():
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.headline.startswith(f"{metric.name}.")
        assert metric.reads_source
        best = metric.low if metric.goal == "lower" else metric.high
        assert metric.grade(best) == "good"
        assert metric.grade(float("nan")) == "poor"


def _batches(rows):
    texts = [str(i % 7) if i % 5 else None for i in range(rows)]
    return [pa.record_batch({"c": pa.array(texts[i : i + 1000])}) for i in range(0, rows, 1000)]


def test_large_sides_are_thinned_by_their_own_share():
    column = Column(name="c", position=1, type=ColumnType("text", "text", "b", "S"))
    plan = CellPlan(column, "values")
    (whole,) = fidelity.encode([plan], _batches(20_000), _batches(10_000))
    (thin,) = fidelity.encode([plan], _batches(20_000), _batches(10_000), (0.25, 1.0))
    assert whole.real.dtype == np.uint8
    assert len(whole.real) == 20_000
    assert 4500 < len(thin.real) < 5500
    assert thin.clone.tolist() == whole.clone.tolist()
    shares = [np.bincount(c.real, minlength=8) / len(c.real) for c in (whole, thin)]
    assert np.abs(shares[0] - shares[1]).max() < 0.03
    assert fidelity.share(1000, 8) == 1
    assert fidelity.share(fidelity.MOST_CODES, 4) == 0.25
