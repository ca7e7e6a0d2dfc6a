"""Counting combinations out of core: every way of counting gives the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from privbench.metrics import codes, kld
from privbench.metrics.columns import CellPlan
from privbench.metrics.kld import Coded
from privbench.rng import generator
from privbench.schema import Column, ColumnType


def _columns(sizes: tuple[int, ...]) -> list[Coded]:
    """5,000 rows of the source and 3,000 of the clone."""
    rng = generator(3)
    sides = [[rng.random(rows) ** 2 * size for rows in (5000, 3000)] for size in sizes]
    return [
        Coded(real.astype(np.uint16), clone.astype(np.uint16), size)
        for (real, clone), size in zip(sides, sizes, strict=True)
    ]


@pytest.mark.parametrize("sizes", [(7, 5, 3), (300, 200), (9000, 9000, 9000)])
def test_in_place_and_sorted_counts_agree(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = _columns(sizes)
    monkeypatch.setattr(kld, "_BLOCK", 777)  # blocks that do not divide the rows
    found = kld.distance(columns)
    monkeypatch.setattr(kld, "_MOST_CELLS", 0)
    assert kld.distance(columns) == pytest.approx(found, rel=1e-9)
    assert found[0] > 0 < found[1]


def test_an_empty_clone_has_no_share_anywhere() -> None:
    column = Coded(np.zeros(4, np.uint8), np.zeros(0, np.uint8), 2)
    divergence, tvd = kld.distance([column])
    assert tvd == 0.5
    assert divergence == pytest.approx(np.log(1e10), rel=1e-6)


def test_too_many_combinations_are_refused() -> None:
    column = Coded(np.zeros(4, np.uint32), np.zeros(4, np.uint32), 1 << 31)
    with pytest.raises(ValueError, match="too many"):
        kld.distance([column] * 3)


def _batches(rows: int) -> list[pa.RecordBatch]:
    texts = [str(i % 7) if i % 5 else None for i in range(rows)]
    return [pa.record_batch({"c": pa.array(texts[i : i + 1000])}) for i in range(0, rows, 1000)]


def test_large_sides_are_thinned_by_their_own_share() -> None:
    column = Column(name="c", position=1, type=ColumnType("text", "text", "b", "S"))
    plan = CellPlan(column, "values")
    (whole,) = codes.encode([plan], _batches(20_000), _batches(10_000))
    (thin,) = codes.encode([plan], _batches(20_000), _batches(10_000), (0.25, 1.0))
    assert whole.real.dtype == np.uint8
    assert len(whole.real) == 20_000
    assert 4500 < len(thin.real) < 5500
    assert thin.clone.tolist() == whole.clone.tolist()
    shares = [np.bincount(c.real, minlength=8) / len(c.real) for c in (whole, thin)]
    assert np.abs(shares[0] - shares[1]).max() < 0.03
    assert codes.share(1000, 8) == 1
    assert codes.share(codes.MOST_CODES, 4) == 0.25
