"""What units by their number of rows tell of a table's size."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.learning.crowds import Crowds, Told, doubt
from privbench.learning.fanlaw import law_from_counts
from privbench.learning.unitrows import GRID, UNIT_BOUNDS, Evidence, UnitCounts, factor_of
from privbench.privacy.queries import FAN_OUT_BOUNDS

STARTS = np.array(FAN_OUT_BOUNDS, np.int64)
ENDS = np.append(STARTS[1:] - 1, 2 * STARTS[-1])


def histogram(units, sd, seed):
    """Noisy units by their number of rows; ``units`` maps a number of rows to how many have it."""
    found = np.zeros(len(UNIT_BOUNDS))
    for rows, count in units.items():
        found[np.searchsorted(UNIT_BOUNDS, rows, side="right") - 1] += count
    return found + np.random.default_rng(seed).laplace(0, sd / np.sqrt(2), len(found))


def likeliest(counts):
    return float(np.exp(GRID[np.argmax(counts.logs)]))


@pytest.mark.parametrize(("rows", "units"), [(12, 90), (18, 150), (3, 200)])
def test_rows_of_units_that_are_alike_are_seen(rows, units):
    """Though the family has many more laws by which the table is all but empty."""
    ratios, odds = [], []
    for seed in range(12):
        counts = UnitCounts.of(histogram({rows: units}, 16.0, seed), 16.0, units * 1.2, None)
        ratios.append(likeliest(counts) / (rows * units))
        odds.append(counts.at(np.array([rows * units]))[0] - counts.at(np.array([10.0]))[0])
    assert 0.75 < np.median(ratios) < 1.3
    assert np.median(odds) > 2.0


def test_noise_alone_speaks_for_no_giants():
    for seed in range(12):
        counts = UnitCounts.of(histogram({}, 16.0, seed), 16.0, 150.0, None)
        few, giants = counts.at(np.array([30.0, 30_000.0]))
        assert few > giants


def test_uneven_units_are_about_right():
    ratios = []
    for seed in range(10):
        g = np.random.default_rng(seed)
        rows = np.minimum(g.poisson(g.lognormal(1.5, 1.2, 400)), 300)
        real = dict(zip(*np.unique(rows[rows > 0], return_counts=True), strict=True))
        counts = UnitCounts.of(histogram(real, 12.0, seed), 12.0, 400.0, None)
        ratios.append(likeliest(counts) / rows.sum())
    assert 0.5 < np.median(ratios) < 2.0


@pytest.mark.parametrize(("ownerless", "owned"), [(300, 0), (0, 300), (200, 100)])
def test_rows_without_an_owner_are_told_from_units_of_one_row(ownerless, owned):
    """Their own count is noise of 150; units of one row are known, and so are those of owners."""
    found = []
    for seed in range(15):
        noise = float(np.random.default_rng(99 + seed).laplace(0, 150 / np.sqrt(2)))
        noisy = histogram({1: ownerless + owned}, 15.0, seed)
        counts = UnitCounts.of(noisy, 15.0, 400.0, (ownerless + noise, 150.0))
        crowds = Crowds(np.ones(1), np.full(1, 400.0))
        mass = np.zeros(len(STARTS))
        mass[1], mass[0] = owned / 400.0, 1.0 - owned / 400.0
        found.append(Evidence(crowds, Told(0.0, 5e3, 100.0), counts).ownerless(mass))
    assert abs(np.median(found) - ownerless) < 25
    assert np.abs(np.array(found) - ownerless).max() < 100


def test_means_by_weight_and_by_rows_differ_where_units_and_owners_are_uneven():
    """``loose`` bounds what a seeded simulation finds, and is next to nothing for even units."""
    g = np.random.default_rng(3)
    sizes = g.integers(1, 40, 300)
    rows = np.repeat(sizes, sizes)
    uneven, even = Crowds.of(rows, 1.0, 2), Crowds.of(np.full(900, 3), 1.0, 2)
    assert even.uneven == 0.0
    children = g.poisson(3.0 / rows)
    weights = np.minimum(rows, 2) / (2 * rows)
    apart = abs(children.mean() / np.average(children, weights=weights) - 1.0)
    bucket = np.searchsorted(STARTS, children, side="right") - 1
    law = law_from_counts(np.bincount(bucket, weights, len(STARTS)) + 1e-9, STARTS, ENDS)
    assert 0.2 < apart < 2 * uneven.loose(law.mass[None, :], law.means())[0]
    assert even.loose(law.mass[None, :], law.means())[0] < 0.15


def test_held_rows_are_those_of_a_simulation():
    g = np.random.default_rng(5)
    sizes = g.integers(1, 12, 400)
    mass = np.zeros(len(STARTS))
    mass[[0, 1, 2]] = 0.7, 0.2, 0.1
    unit = np.repeat(np.arange(400), sizes)
    drawn = g.choice(3, (200, len(unit)), p=mass[:3])
    totals = [np.minimum(np.bincount(unit, row), 3).sum() for row in drawn]
    crowds = Crowds.of(np.repeat(sizes, sizes), 1.0, 2)
    law = law_from_counts(mass, STARTS, ENDS)
    whole, cut = (float(crowds.held(mass[None, :], law.means(), c)[0]) for c in (np.inf, 3))
    assert whole == pytest.approx(len(unit) * 0.4, rel=0.02)
    assert cut == pytest.approx(np.mean(totals), rel=0.15)


def test_a_total_that_drowns_does_not_undo_a_clear_fan_out():
    """16,000 rows by a fan-out that is known to 5 %, 1 ± 6,600 by the total."""
    factor = factor_of(np.full(1900, 8.5), 1.0, Told(1.0, 6600.0, 100.0), None, 0.12, "laplace")
    assert 0.85 < factor < 1.0


def test_a_clear_total_rules():
    for noise in ("laplace", "gaussian"):
        factor = factor_of(np.full(1000, 4.0), 1.0, Told(6000.0, 40.0, 100.0), None, 0.5, noise)
        assert factor == pytest.approx(1.5, rel=0.03)
    # Units of 300 rows count 100 each: that is no reason to take rows away.
    heavy = np.append(np.full(900, 4.0), np.full(100, 300.0))
    told = Told(900 * 4.0 + 100 * 100, 40.0, 100.0)
    assert factor_of(heavy, 1.0, told, None, 0.5, "laplace") == pytest.approx(1.0, abs=0.05)
    assert factor_of(np.zeros(0), 1.0, told, None, 0.5, "laplace") == 1.0


def test_doubt_grows_with_noise_and_with_rare_owners():
    centres = np.sqrt(np.maximum(STARTS, 0) * (ENDS + 1.0))
    many, rare = np.zeros(len(STARTS)), np.zeros(len(STARTS))
    many[[0, 4]], rare[[0, 4]] = (0.2, 0.8), (0.98, 0.02)
    assert doubt(many, centres, 200.0, 5.0) < 0.1 < 1.0 < doubt(rare, centres, 200.0, 5.0)
    assert doubt(many, centres, 200.0, 10.0) == pytest.approx(2 * doubt(many, centres, 200.0, 5.0))
