"""Ranges and decimals from noisy histograms, and tails in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench.encoding import Bounds, BoundsNeed
from privbench.encoding.scale import scale_of
from privbench.learning.graphical.one_way import one_way
from privbench.learning.ranges import as_told, cut, find_decimals, find_range
from privbench.pipeline.domain_answers import Answer, bounds
from privbench.rng import generator
from privbench.schema import ColumnType

SEEDS = st.integers(0, 10**6)


def noise_of(kind, sd, size, seed):
    g = generator(seed, "noise")
    return g.laplace(0, sd / np.sqrt(2), size) if kind == "laplace" else g.normal(0, sd, size)


# Ranges


@given(st.integers(1, 300), st.data())
@settings(max_examples=80, deadline=None)
def test_without_noise_the_range_is_that_of_the_rows(cells, data):
    held = data.draw(st.sets(st.integers(0, cells - 1), max_size=20))
    counts = np.zeros(cells)
    counts[list(held)] = 1.0
    found = find_range(counts, 1e-9)
    assert found == ((min(held), max(held)) if held else None)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_name_is_believed_against_noise_and_rows_against_a_name(kind):
    """Some noisy cell of 600 passes for rows in every tenth column: flags of 117 and of -42."""
    rows, told = np.zeros(600), (300, 301)
    rows[300:302] = 60.0
    beyond = np.array(rows)
    beyond[400:410] = 200.0
    kept = 0
    for seed in range(200):
        noise = noise_of(kind, 10.0, 600, seed)
        ends = find_range(rows + noise, 10.0) or told
        kept += as_told(rows + noise, 10.0, ends, told) == told
        first, last = find_range(beyond + noise, 10.0)
        assert as_told(beyond + noise, 10.0, (first, last), told) == (first, last)
    assert kept >= 198


@pytest.mark.parametrize("base", ["date", "timestamp"])
def test_noise_in_other_millennia_makes_no_dates(base):
    """In every hundredth column some noisy cell passes for rows of the year 3000 or 500."""
    scale = scale_of(ColumnType(base, base))
    few = scale.coarser()[-1]
    usual = Bounds(*(scale.parse(text) for text in scale.usual), seen=False)
    need = BoundsNeed("d", few, usual, plausible=scale.plausible)
    edges = [scale.parse(f"{year}-01-01") for year in (1700, 1900, 2020, 2025, 2050)]
    rows = np.zeros(len(few) + 1)
    rows[np.searchsorted(few, edges[2], side="right")] = 200.0
    far = np.array(rows)
    far[np.searchsorted(few, edges[0], side="right")] = 200.0
    odd = 0
    for seed in range(1000):
        noise = noise_of("laplace", 10.0, len(rows), seed)
        found = bounds([Answer(need, rows + noise, 10.0)], 16)
        odd += not edges[1] <= found.lo <= edges[2] < edges[3] <= found.hi <= edges[4]
        if seed < 40:
            assert bounds([Answer(need, far + noise, 10.0)], 16).lo <= edges[0]
    assert odd <= 3


def test_a_wide_range_that_a_name_tells_is_narrowed_to_what_is_seen():
    noisy = np.zeros(100)
    noisy[40:50] = 50.0
    noisy[80] = 8.0
    assert find_range(noisy, 1.0) == (40, 80)
    assert as_told(noisy, 1.0, (40, 80), (20, 60)) == (40, 60)


def test_what_was_found_beyond_a_name_is_not_thrown_away():
    noisy = np.zeros(100)
    noisy[80] = 6.0
    assert as_told(noisy, 5.0, (80, 80), (20, 60)) == (80, 80)
    assert as_told(noisy, 5.0, (80, 80), (20, 21)) == (80, 80)


def histogram(points, rows):
    """Counts of rows in the cells between points, as `GridHistogram` has them."""
    return np.bincount(np.searchsorted(points, rows, side="right"), minlength=len(points) + 1)


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [("date", "1990-05-13", "2025-12-07"), ("date", "2009-01-01", "2024-06-01"),
     ("int4", "1", "250"), ("int4", "0", "80000"), ("int4", "-50", "1000")],
)  # fmt: skip
def test_few_cells_tell_a_range_where_many_do_not(type_, low, high):
    """25 noise scales of rows, evenly spread; the histogram of all candidates sees next to none."""
    scale = scale_of(ColumnType(type_, type_))
    start, stop = scale.parse(low), scale.parse(high)
    rows = generator(1, "rows").integers(start, stop, 2500)
    few, many = scale.coarser()[-1], scale.candidates()
    seen, sd = {"few": [], "many": []}, 100 * 2**0.5
    for name, points in (("few", few), ("many", many)):
        counts = histogram(points, rows)
        for seed in range(100):
            ends = find_range(counts + noise_of("laplace", sd, len(counts), seed), sd)
            if ends is not None:
                seen[name].append(counts[ends[0] : ends[1] + 1].sum() / 2500)
    assert len(seen["few"]) >= 90
    assert np.mean(seen["few"]) > 0.75
    assert len(seen["few"]) > len(seen["many"]) + 25


def test_a_narrow_range_is_found_within_a_wide_one():
    """Rows of two months: five years say where, months say when."""
    scale = scale_of(ColumnType("date", "date"))
    rows = np.arange(scale.parse("2024-02-01"), scale.parse("2024-04-01")).repeat(20)
    need = BoundsNeed("d", scale.candidates(), Bounds(0, 1), coarser=scale.coarser())
    wide, close = need.asked(50.0)
    assert close is need
    assert need.asked(20.0) == (wide,)
    sd = 2 * len(rows) / 50.0 * 2**0.5
    spans = []
    for seed in range(50):
        answers = []
        for part in (wide, close):
            counts = histogram(part.candidates, rows)
            noise = noise_of("laplace", sd, len(counts), (seed, part is close))
            answers.append(Answer(part, counts + noise, sd))
        found = bounds(answers, 16)
        assert found.lo <= rows[0]
        assert found.hi > rows[-1]
        spans.append(found.hi - found.lo)
    assert np.median(spans) < 150


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_alone_is_seldom_taken_for_rows(kind):
    found = [find_range(noise_of(kind, 7.0, 256, seed), 7.0) for seed in range(500)]
    assert sum(ends is not None for ends in found) <= 25


@given(SEEDS, st.integers(0, 200), st.integers(1, 50), st.floats(9, 1000))
@settings(max_examples=60, deadline=None)
def test_clear_cells_are_in_the_range(seed, first, width, height):
    """A run that stands out of bounded noise is found to the cell."""
    noisy = generator(seed, "bounded").uniform(-0.9, 0.9, 256)
    noisy[first : first + width] = height
    assert find_range(noisy, 1.0) == (first, first + width - 1)


def test_many_cells_of_few_rows_are_seen_together():
    """A sixteenth of what a single cell needs, over 200 cells; beyond a core that is clear."""
    counts = np.zeros(600)
    counts[300:500] = 20.0
    counts[290:300] = 500.0
    for seed in range(10):
        first, last = find_range(counts + noise_of("laplace", 10.0, 600, seed), 10.0)
        assert 280 <= first <= 290
        assert 460 <= last <= 560
    alone = np.where(counts > 100, 0.0, counts)
    assert (alone < 6.5 * 10.0).all()
    first, last = find_range(alone + noise_of("laplace", 10.0, 600, 1), 10.0)
    assert 200 < first < 340
    assert 460 < last < 600


def test_more_noise_leaves_what_stands_out_more():
    counts = np.array([0.0, 9.0, 1.0, 8.0, 0.5])
    assert find_range(counts, 1.9) == (1, 3)
    assert find_range(counts, 2.1) == (1, 1)
    assert find_range(counts, 9.0) is None
    assert find_range(np.array([3.9]), 1.0) is None
    assert find_range(np.array([4.1]), 1.0) == (0, 0)


def test_noise_alone_seldom_passes_for_rows():
    """One column in fifty, whatever the number of cells."""
    for cells in (100, 1600):
        found = [find_range(noise_of("laplace", 1.0, cells, seed), 1.0) for seed in range(400)]
        assert sum(ends is not None for ends in found) < 24


@given(SEEDS, st.integers(2, 200), st.integers(16, 128))
@settings(max_examples=60, deadline=None)
def test_parts_follow_what_cells_hold(seed, size, cells):
    counts = generator(seed, "cells").gamma(0.3, 1000.0, size)
    parts = cut(counts, 1e-9, 0, size - 1, cells)
    assert parts.shape == (size,)
    assert parts.min() >= 1
    assert parts.max() <= cells
    assert parts == pytest.approx(counts * cells / counts.sum(), abs=1.0)
    order = np.argsort(counts)
    assert (np.diff(parts[order]) >= 0).all()


def test_cells_that_noise_drowns_are_not_cut():
    counts = np.array([0.0, 39.0, 41.0, 500.0, 0.0])
    assert cut(counts, 10.0, 1, 3, 60).tolist() == [1, 1, 4, 52, 1]
    assert cut(np.zeros(4), 1.0, 0, 3, 60).tolist() == [1, 1, 1, 1]
    assert cut(np.full(4, -5.0), 1.0, 0, 3, 60).tolist() == [1, 1, 1, 1]


def test_a_long_gap_is_one_cell():
    """Eight thousand years between a real date and the one that says "until now"."""
    gap = np.concatenate([[400.0, 300.0], np.tile([9.0, -9.0], 200), [900.0]])
    assert cut(gap, 10.0, 0, 402, 60, gaps=True).tolist()[:3] == [15, 11, 1]
    assert not any(cut(gap, 10.0, 0, 402, 60, gaps=True)[3:402])
    assert all(cut(gap, 10.0, 0, 402, 60))
    # What is faint cell by cell and clear together is no gap.
    faint = np.where(gap < 10.0, 20.0, gap)
    assert all(cut(faint, 10.0, 0, 402, 60, gaps=True))


def test_tails_may_reach_over_all_of_bigint():
    steps = [0, *(2**k for k in range(64))]
    edges = tuple(
        sorted({max(-step, -(2**63)) for step in steps} | {min(s, 2**63 - 1) for s in steps})
    )
    domain = Domain(len(edges) - 1, True, core=(60, 70), edges=edges)
    counts = np.zeros(domain.size)
    counts[60:70] = 500.0
    for seed in range(4):
        noisy = counts + noise_of("laplace", 20.0, domain.size, seed)
        found = one_way(noisy, 28.0, domain, "laplace", float(counts.sum()))
        assert np.isfinite(found).all()
        assert found[60:70].sum() > 0.95


def test_edges_of_a_domain_fit_its_cells():
    with pytest.raises(ValueError, match="one edge more"):
        Domain(3, True, edges=(0, 1, 2))
    assert Domain(2, True, edges=(0, 1, 5)) == Domain(2, True)
    assert Domain.from_json(Domain(2, True, edges=(0, 1, 5)).to_json()).edges is None


def test_numbers_need_a_narrow_run_and_dates_do_not():
    counts = np.zeros(600)
    counts[100:400] = 4.0
    noisy = [counts + noise_of("laplace", 7.0, 600, seed) for seed in range(40)]
    assert sum(find_range(one, 7.0) is not None for one in noisy) >= 30
    assert sum(find_range(one, 7.0, narrow=True) is not None for one in noisy) <= 12


def test_numbers_beyond_all_decimals_are_never_whole():
    """Noise may make less than nothing of all rows together."""
    noisy = np.array([0.0, -20, -15, -10, -12, -14, -8, -9, 80])
    assert find_decimals(noisy, 14.1, 2) == 7
