"""Bins of noisy one-way histograms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench_lab.spn.node import make_bins

SEEDS = st.integers(0, 10**6)


@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=60),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.integers(1, 20),
    st.floats(0, 200),
)
def test_bins_partition_the_codes(values, specials, nullable, ordered, most, least):
    names = ("other", "nan", "below")[:specials]
    domain = Domain(len(values), ordered, names, nullable)
    counts = np.concatenate([values, np.full(domain.size - len(values), 5.0)])
    bins = make_bins(counts, domain, most, least)
    assert set(bins.of.tolist()) == set(range(bins.size))
    assert bins.size <= 2 * most + domain.size - domain.values + 1
    assert bins.counts.sum() == pytest.approx(counts.sum())
    inside = np.bincount(bins.of, bins.inside)
    assert inside == pytest.approx(np.ones(bins.size))
    assert bins.spread(bins.counts) == pytest.approx(counts, abs=1e-9)
    if ordered:
        assert (np.diff(bins.of[: domain.values]) >= 0).all()


@pytest.mark.parametrize("ordered", [True, False])
def test_heavy_codes_stand_alone(ordered):
    counts = np.ones(100)
    counts[37] = 200.0
    bins = make_bins(counts, Domain(100, ordered), 10, 1.0)
    assert (bins.of == bins.of[37]).sum() == 1
