"""Exact pair tables that are kept: the same as counted anew, in any order, for any region."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.errors import SchemaError
from privbench.privacy import GRID, DatabaseSpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Column, Histogram, PairScores, PublicArray, pairtables
from privbench.privacy.queries.pairtables import pair_tables

SIZES = (5, 3, 7, 4)


def database(rows: int = 3000) -> PrivateDatabase:
    g = np.random.default_rng(1)
    cells = {
        f"c{k}": Cells(g.integers(0, size, rows), Domain(size)) for k, size in enumerate(SIZES)
    }
    return PrivateDatabase(
        DatabaseSpec({"t": TableSpec("t", {})}), {"t": PrivateTable(rows, cells, {})}
    )


AXES = tuple(Column(f"c{k}", size) for k, size in enumerate(SIZES))
PAIRS = list(combinations(range(4), 2))


def counted(data, pair):
    return Histogram("t", (AXES[pair[0]], AXES[pair[1]])).evaluate(data).ravel()


@pytest.mark.parametrize("limit", [1, 40, 2**24])
def test_kept_tables_are_the_exact_ones(limit, monkeypatch):
    monkeypatch.setattr(pairtables, "PASS", limit)
    data = database()
    for pairs in (PAIRS[:2], PAIRS, PAIRS[::-1], PAIRS[3:]):
        found = list(pair_tables(data, "t", AXES, None, pairs))
        for pair, table in zip(pairs, found, strict=True):
            assert np.array_equal(table, counted(data, pair))


def test_bins_of_one_column_do_not_share_a_table():
    data = database()
    halves = Column("c2", 2, PublicArray([0, 0, 0, 0, 1, 1, 1]))
    thirds = Column("c2", 2, PublicArray([0, 0, 1, 1, 1, 1, 1]))
    tables = [
        next(pair_tables(data, "t", (AXES[0], cut), None, [(0, 1)])) for cut in (halves, thirds)
    ]
    assert tables[0].size == tables[1].size
    assert not np.array_equal(*tables)


def test_another_database_has_tables_of_its_own():
    first, second = database(3000), database(2000)
    for data, rows in ((first, 3000), (second, 2000), (first, 3000)):
        assert next(pair_tables(data, "t", AXES, None, [(0, 1)])).sum() == rows * GRID


def test_predictions_of_large_tables_are_scored_exactly():
    """Hundreds of pairs of a table of a billion rows; no distance passes 2⁶²."""
    rows = 1_000_000_000
    pairs = PAIRS * 100
    shapes = [(SIZES[i], SIZES[j]) for i, j in pairs]
    predictions = [np.full(shape, rows / np.prod(shape)) for shape in shapes]
    spec = database(10).spec
    query = PairScores.of(spec, "t", [f"c{k}" for k in range(4)], pairs, predictions)
    scores = query.evaluate(database(10))
    assert (scores >= (rows - 20) * GRID).all()
    assert (scores <= (rows + 20) * GRID).all()
    with pytest.raises(SchemaError, match="too large"):
        PairScores.of(spec, "t", ["c0", "c1"], [(0, 1)], [np.full((5, 3), rows)])
