"""The law of unnamed values: as many as there are, each as often as noise lets it be told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.encoding.surrogates import times
from privbench.learning.surrogates import surrogates
from privbench.privacy.queries.labels import BLOCKS, block_ends

ROWS = 5000
ZIPF = np.maximum(np.rint(ROWS / np.arange(1, 301) / (1 / np.arange(1, 301)).sum()), 1)
#: Counts of values, and by which factor their number may be off.
LAWS = {
    "all different": (np.ones(ROWS), 1.04),
    "few": (np.array([4000.0, 800, 200]), 1.04),
    "even": (np.full(12, 400.0), 1.04),
    "zipf": (ZIPF, 1.25),
}


def _noisy(counts: np.ndarray, seed: int) -> np.ndarray:
    """What `RankedCounts` tells of a column where every unit has one row."""
    falling = np.append(0, np.cumsum(np.sort(counts)[::-1]))
    ends = np.minimum(block_ends(), len(counts))
    sums = np.diff(falling[ends], prepend=0).astype(np.float64)
    return sums + 20.0 * np.random.default_rng(seed).standard_normal(BLOCKS)


@pytest.mark.parametrize("law", LAWS)
def test_the_number_of_values_and_the_shares_of_ranks_are_kept(law):
    counts, factor = LAWS[law]
    sizes, tops = [], []
    for seed in range(15):
        found = surrogates(_noisy(counts, seed), 20.0, counts.sum(), 0)
        assert found is not None
        made = np.sort(times(found, int(counts.sum())))[::-1]
        assert made.sum() == counts.sum()
        sizes.append(len(made) / len(counts))
        ranks = [rank for rank in (0, 9, 99) if rank < min(len(made), len(counts))]
        tops += [made[rank] / counts[rank] for rank in ranks if counts[rank] > 60]
    assert max(np.median(sizes), 1 / np.median(sizes)) < factor
    assert np.exp(np.median(np.abs(np.log(tops or [1])))) < 1.2


def test_nothing_is_left_where_labels_are_all_there_is_and_noise_alone_is_no_law():
    for law, named in (("few", 3), ("even", 12)):
        assert surrogates(_noisy(LAWS[law][0], 1), 20.0, ROWS, named) == ()
    rest = surrogates(_noisy(ZIPF, 1), 20.0, ROWS, 10)
    assert 0 < sum(count for count, _ in rest) <= 2 * len(ZIPF)
    found = [surrogates(_noisy(np.zeros(1), seed), 20.0, 90.0, 0) for seed in range(60)]
    assert sum(law is not None for law in found) <= 3


@given(
    st.lists(st.floats(-200, 5000), min_size=BLOCKS, max_size=BLOCKS),
    st.floats(1, 100),
    st.floats(1, 1e6),
    st.integers(0, 40),
)
@settings(max_examples=30, deadline=None)
def test_blocks_are_sound_whatever_was_released(noisy, sd, rows, named):
    found = surrogates(np.array(noisy), sd, rows, named)
    if found:
        assert sum(share for _, share in found) == pytest.approx(1.0)
        assert all(count >= 0 and share > 0 for count, share in found)
        assert times(found, 1000).sum() == 1000
        assert (times(found, 1000) > 0).all()
