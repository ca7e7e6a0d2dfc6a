"""Ranges from noisy histograms, tails that fall off, and tails in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench.encoding import Bounds, BoundsNeed
from privbench.encoding.scale import scale_of
from privbench.learning.guard import guard, taper
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


# Ends that fall off


def falling(cells=60, core=(0, 60)):
    """A column whose counts halve every third cell, seen to its thirtieth or so."""
    truth = 4000 * 0.5 ** (np.arange(cells) / 3)
    return truth, Domain(cells, True, core=core)


def test_ends_fall_off_as_the_cells_before_them():
    truth, domain = falling()
    errors = []
    for seed in range(12):
        noisy = truth + noise_of("laplace", 20.0, 60, seed)
        # A denoised histogram: right where rows are to be seen, a trace in every other cell.
        level = np.where(truth > 60, truth, 8.0)
        found = taper(level, noisy, 20.0, domain)
        assert found.sum() == pytest.approx(level.sum())
        assert found.min() >= 0
        errors.append((found[40:].sum(), level[40:].sum()))
    mine, before = np.mean(errors, axis=0)
    assert truth[40:].sum() < 5
    assert mine < 0.1 * before


def test_both_ends_fall_off_alike():
    truth, domain = falling()
    noisy = truth + noise_of("laplace", 20.0, 60, 1)
    level = np.where(truth > 60, truth, 8.0)
    up = taper(level, noisy, 20.0, domain)
    down = taper(level[::-1], noisy[::-1], 20.0, domain)
    assert down[::-1] == pytest.approx(up, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    "domain",
    [Domain(60, True), Domain(60, False, core=(0, 60)), Domain(7, True, core=(0, 7))],
    ids=["public range", "no order", "few cells"],
)
def test_public_unordered_and_small_columns_keep_their_counts(domain):
    counts = generator(1, "kept").gamma(1.0, 9.0, domain.size)
    found = taper(counts, counts + 3.0, 20.0, domain)
    assert np.array_equal(found, counts)
    assert found is not counts


def test_without_noise_nothing_falls_off():
    truth, domain = falling()
    assert np.array_equal(taper(truth, truth, 0.0, domain), truth)


@given(SEEDS, st.integers(8, 120), st.floats(0.5, 100), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_mass_is_made_and_none_beyond_what_was_there(seed, cells, sd, nullable):
    """The total stays, and so do NULL and other values without an order."""
    g = generator(seed, "taper")
    domain = Domain(cells, True, ("nan",), nullable, core=(cells // 4, cells - cells // 4))
    counts = g.gamma(0.3, 100.0, domain.size)
    noisy = counts + g.laplace(0, sd, domain.size)
    given_counts = counts.copy()
    found = taper(counts, noisy, sd, domain)
    assert np.array_equal(counts, given_counts)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(counts.sum())
    assert np.array_equal(found[cells:], counts[cells:])
    lost = np.maximum(counts - found, 0.0).sum()
    assert found[:cells].max() <= counts[:cells].max() + lost * (1 + 1e-9)


def test_a_guarded_column_has_no_rows_a_thousand_times_too_large():
    """Over cells that double, a trace far out is a handful of rows with absurd values."""
    truth, domain = falling(60, (0, 30))
    beyond = []
    for seed in range(12):
        noisy = truth + noise_of("laplace", 20.0, 60, seed)
        found = guard(np.where(truth > 60, truth, 8.0), noisy, 20.0, domain)
        beyond.append(found[48:].sum())
    assert np.mean(beyond) < 1
    assert sorted(beyond)[9] == 0


def test_few_rows_have_no_values_beyond_what_noise_tells():
    """Ages of 2,000 people end at 80; cells beyond a released range grow to thousands of years."""
    edges = [*range(102), *(round(101 * 2 ** (k / 2)) for k in range(1, 16))]
    truth = np.histogram(np.repeat(np.arange(20, 80), 33), edges)[0].astype(float)
    domain = Domain(len(truth), True, core=(0, 101), edges=tuple(edges))
    beyond = []
    for seed in range(12):
        noisy = truth + noise_of("laplace", 6.0, len(truth), seed)
        found = guard(np.where(truth > 0, truth, 6.0), noisy, 6.0 * np.sqrt(2.0), domain)
        assert found.sum() == pytest.approx(np.where(truth > 0, truth, 6.0).sum())
        beyond.append(found[101:].sum())
    assert sorted(beyond)[10] == 0, beyond


def heavy_tailed(rows=40_000):
    """Views of profiles: half of them 0, the others lognormal; cells as after a released range."""
    g = generator(3, "views")
    views = np.where(g.random(rows) < 0.5, 0, np.floor(np.exp(g.normal(1.3, 1.6, rows))))
    edges = [*range(65), *(round(65 * 2 ** (k / 2)) for k in range(1, 24))]
    counts, _ = np.histogram(views, edges)
    return counts.astype(float), Domain(len(counts), True, core=(0, 64), edges=tuple(edges))


def test_a_heavy_tail_beyond_a_spike_and_many_narrow_cells_stays():
    """Cells of one value each hold a few rows, the wide ones behind them many again."""
    truth, domain = heavy_tailed()
    far = np.array(domain.edges[:-1]) >= 65
    assert truth[far].sum() > 300
    kept, farther = [], []
    for seed in range(8):
        noisy = truth + noise_of("laplace", 18.0, len(truth), seed)
        level = np.where(truth > 40, truth, np.maximum(truth, 5.0))
        found = guard(level, noisy, 18.0 * np.sqrt(2.0), domain)
        kept.append(found[far].sum())
        farther.append(found[far][12:].sum())
    assert np.mean(kept) == pytest.approx(truth[far].sum(), rel=0.25)
    assert min(kept) > 0.5 * truth[far].sum()
    # From 65·2⁶ on there are next to none.
    assert np.mean(farther) < 10


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
        found = guard(np.maximum(counts, 5.0), noisy, 28.0, domain)
        assert np.isfinite(found).all()
        assert found[60:70].sum() > 0.95 * found.sum()


def test_edges_of_a_domain_fit_its_cells():
    with pytest.raises(ValueError, match="one edge more"):
        Domain(3, True, edges=(0, 1, 2))
    assert Domain(2, True, edges=(0, 1, 5)) == Domain(2, True)
    assert Domain.from_json(Domain(2, True, edges=(0, 1, 5)).to_json()).edges is None


def test_counts_that_stand_in_one_tail_cell_alone_are_spread_over_the_core():
    """A row whose length is lost in noise has the length of a word, not of a book."""
    domain = Domain(40, ordered=True, nullable=True, core=(5, 10))
    for null in (0.0, 0.2):
        counts = np.zeros(domain.size)
        counts[37], counts[domain.null_code] = 1.0 - null, null
        found = guard(counts, np.where(counts > 0.5, 3.0, 0.0), 1.5, domain)
        np.testing.assert_allclose(found[5:10], (1.0 - null) / 5)
        assert found.sum() == pytest.approx(1.0)
        assert found[domain.null_code] == pytest.approx(null)


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


def test_noise_alone_reaches_no_tail():
    """Cells of a column that noise hides hold usual values, not texts of a million characters."""
    domain = Domain(50, True, core=(4, 10))
    beyond = []
    for seed in range(200):
        noisy = noise_of("laplace", 140.0, 50, seed)
        found = guard(np.full(50, 8.0), noisy, 140.0, domain)
        beyond.append(found[10:].sum() / found.sum())
    assert np.mean(np.array(beyond) > 0.0) < 0.15
    assert np.mean(beyond) < 0.02
