"""Ranges, bins and decimals from noisy histograms, and tails in parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench.encoding import Bounds, BoundsNeed
from privbench.encoding.scale import scale_of
from privbench.encoding.surrogate_text import WORD, length_cells, length_edges
from privbench.learning.answers import Measured
from privbench.learning.graphical.one_way import one_way
from privbench.learning.ranges import cut, find_range, find_step, within_likely
from privbench.pipeline.domain_answers import bounds
from privbench.rng import generator
from privbench.schema import ColumnType

SEEDS = st.integers(0, 10**6)


def noise_of(kind, sd, size, seed):
    g = generator(seed, "noise")
    return g.laplace(0, sd / np.sqrt(2), size) if kind == "laplace" else g.normal(0, sd, size)


@given(SEEDS, st.integers(1, 300), st.floats(9, 1000), st.data())
@settings(max_examples=80, deadline=None)
def test_cells_that_stand_out_of_bounded_noise_are_the_range(seed, cells, height, data):
    held = data.draw(st.sets(st.integers(0, cells - 1), max_size=20))
    noisy = generator(seed, "bounded").uniform(-0.9, 0.9, cells)
    noisy[list(held)] = height
    assert find_range(noisy, 1.0) == ((min(held), max(held)) if held else None)


@pytest.mark.parametrize(
    ("kind", "cells"), [("laplace", 100), ("laplace", 1600), ("gaussian", 256)]
)
def test_noise_alone_is_seldom_taken_for_rows(kind, cells):
    """One column in fifty, whatever the number of cells."""
    found = [find_range(noise_of(kind, 1.0, cells, seed), 1.0) for seed in range(400)]
    assert sum(ends is not None for ends in found) < 24


def test_many_cells_of_few_rows_are_seen_together_and_numbers_need_a_narrow_run():
    """A sixteenth of what a single cell needs, over 200 cells, beside a core that is clear."""
    counts = np.zeros(600)
    counts[300:500], counts[290:300] = 20.0, 500.0
    for core, low in ((500.0, 280), (0.0, 200)):
        counts[290:300] = core
        first, last = find_range(counts + noise_of("laplace", 10.0, 600, 1), 10.0)
        assert low <= first < 340
        assert 460 <= last <= 600
    # Numbers need a narrow run, dates do not.
    counts = np.zeros(600)
    counts[100:400] = 4.0
    noisy = [counts + noise_of("laplace", 7.0, 600, seed) for seed in range(40)]
    assert sum(find_range(one, 7.0) is not None for one in noisy) >= 30
    assert sum(find_range(one, 7.0, narrow=True) is not None for one in noisy) <= 12


@pytest.mark.parametrize(
    ("rows", "sd", "ends", "told", "found"),
    [
        ({**dict.fromkeys(range(40, 50), 50.0), 80: 8.0}, 1.0, (40, 80), (20, 60), (40, 60)),
        ({80: 6.0}, 5.0, (80, 80), (20, 60), (80, 80)),  # the only thing that was found
        ({80: 6.0}, 5.0, (80, 80), (20, 21), (80, 80)),
        ({30: 60.0, 31: 60.0, 85: 200.0}, 10.0, (30, 85), (30, 31), (30, 85)),
        ({30: 60.0, 85: 12.0}, 10.0, (30, 85), (30, 31), (30, 31)),  # few cells are taken as told
    ],
)  # fmt: skip
def test_a_name_is_believed_against_noise_and_rows_against_a_name(rows, sd, ends, told, found):
    noisy = np.zeros(100)
    noisy[[*rows]] = [*rows.values()]
    assert within_likely(noisy, sd, ends, told) == found


@pytest.mark.parametrize("base", ["date", "timestamp"])
def test_noise_in_other_millennia_makes_no_dates(base):
    """In every hundredth column some noisy cell passes for rows of the year 3000 or 500."""
    scale = scale_of(ColumnType(base, base))
    few = scale.coarser()[-1]
    usual = Bounds(*(scale.parse(text) for text in scale.default_range), released=False)
    need = BoundsNeed("d", few, usual, plausible=scale.plausible)
    edges = [scale.parse(f"{year}-01-01") for year in (1900, 2020, 2025, 2050)]
    rows = np.zeros(len(few) + 1)
    rows[np.searchsorted(few, edges[1], side="right")] = 200.0
    odd = 0
    for seed in range(400):
        found = bounds(
            [(need, Measured(None, rows + noise_of("laplace", 10.0, len(rows), seed), 10.0))], 16
        )
        odd += not edges[0] <= found.lo <= edges[1] < edges[2] <= found.hi <= edges[3]
    assert odd <= 2
    rows[np.searchsorted(few, scale.parse("1700-01-01"), side="right")] = 200.0
    assert bounds([(need, Measured(None, rows, 10.0))], 16).lo <= scale.parse("1700-01-01")


def test_a_narrow_range_is_found_within_a_wide_one():
    """Rows of two months: five years say where, months say when."""
    scale = scale_of(ColumnType("date", "date"))
    rows = np.arange(scale.parse("2024-02-01"), scale.parse("2024-04-01")).repeat(20)
    need = BoundsNeed("d", scale.candidates(), Bounds(0, 1), coarser=scale.coarser())
    wide, close = need.questions(25.0)
    assert close is need
    assert need.questions(15.0) == (wide,)
    sd = 2 * len(rows) / 50.0 * 2**0.5
    spans = []
    for seed in range(50):
        answers = []
        for part in (wide, close):
            cells = np.searchsorted(part.candidates, rows, side="right")
            counts = np.bincount(cells, minlength=len(part.candidates) + 1)
            noise = noise_of("laplace", sd, len(counts), (seed, part is close))
            answers.append((part, Measured(None, counts + noise, sd)))
        found = bounds(answers, 16)
        assert found.lo <= rows[0] <= rows[-1] < found.hi
        spans.append(found.hi - found.lo)
    assert np.median(spans) < 150


@given(SEEDS, st.integers(2, 200), st.integers(16, 128))
@settings(max_examples=60, deadline=None)
def test_parts_follow_what_cells_hold(seed, size, cells):
    counts = generator(seed, "cells").gamma(0.3, 1000.0, size)
    parts = cut(counts, 1e-9, 0, size - 1, cells)
    assert parts.shape == (size,)
    assert 1 <= parts.min() <= parts.max() <= cells
    assert parts == pytest.approx(counts * cells / counts.sum(), abs=1.0)
    assert (np.diff(parts[np.argsort(counts)]) >= 0).all()


def test_cells_that_noise_drowns_are_not_cut_and_a_long_gap_is_one_cell():
    """Eight thousand years between a real date and the one that says "until now"."""
    assert cut(np.array([0.0, 39, 41, 500, 0]), 10.0, 1, 3, 60).tolist() == [1, 1, 4, 52, 1]
    assert cut(np.full(4, -5.0), 1.0, 0, 3, 60).tolist() == [1, 1, 1, 1]
    gap = np.concatenate([[400.0, 300.0], np.tile([9.0, -9.0], 200), [900.0]])
    parts = cut(gap, 10.0, 0, 402, 60, gaps=True)
    assert parts.tolist()[:3] == [15, 11, 1]
    assert not any(parts[3:402])
    # What is faint cell by cell and clear together is no gap.
    faint = np.where(gap < 10.0, 20.0, gap)
    assert all(cut(faint, 10.0, 0, 402, 60, gaps=True))


def test_tails_may_reach_over_all_of_bigint():
    steps = [0, *(2**k for k in range(64))]
    ends = {max(-step, -(2**63)) for step in steps} | {min(s, 2**63 - 1) for s in steps}
    edges = tuple(sorted(ends))
    domain = Domain(len(edges) - 1, True, core=(60, 70), edges=edges)
    counts = np.zeros(domain.size)
    counts[60:70] = 500.0
    for seed in range(4):
        noisy = counts + noise_of("laplace", 20.0, domain.size, seed)
        found = one_way(noisy, 28.0, domain, "laplace", float(counts.sum()))
        assert np.isfinite(found).all()
        assert found[60:70].sum() > 0.95


@pytest.mark.parametrize("rows", [0.0, 80.0, 5000.0])
def test_one_way_of_lengths_that_noise_hides_is_that_of_words(rows):
    """A text that noise makes a thousand times too long fills the disk of the clone."""
    domain = length_cells(length_edges(0, None), False, WORD).domain
    middle = np.add(domain.edges[1:], domain.edges[:-1]) / 2
    counts = np.where(middle < 9, rows / 9, 0.0)
    means = []
    for seed in range(40):
        noisy = counts + noise_of("laplace", max(20.0, rows / 20), domain.size, seed)
        sd = max(20.0, rows / 20) * 2**0.5
        means.append(one_way(noisy, sd, domain, "laplace", rows) @ middle)
    assert np.median(means) < 12
    assert np.mean(np.greater(means, 200)) <= 0.1


def test_one_way_of_a_clear_column_has_next_to_no_rows_far_beyond_its_range():
    """Most rows hold a value before the range, which says nothing of what lies behind it."""
    domain = Domain(140, True, ("below", "above"), core=(5, 110))
    counts = np.zeros(domain.size)
    counts[0], counts[20:90] = 46_000.0, 35.0
    for seed in range(20):
        noisy = counts + noise_of("gaussian", 12.0, domain.size, seed)
        found = one_way(noisy, 12.0, domain, "gaussian", float(counts.sum()))
        assert found[115:140].sum() * counts.sum() < 2


def test_edges_of_a_domain_fit_its_cells():
    with pytest.raises(ValueError, match="one edge more"):
        Domain(3, True, edges=(0, 1, 2))
    assert Domain(2, True, edges=(0, 1, 5)) == Domain(2, True)
    assert Domain.from_json(Domain(2, True, edges=(0, 1, 5)).to_json()).edges is None


def test_numbers_beyond_all_decimals_are_never_whole():
    """Noise may make less than nothing of all rows together."""
    noisy = np.array([0.0, -20, -15, -10, -12, -14, -8, -9, 80])
    assert find_step(noisy, 14.1, 2) == 7
