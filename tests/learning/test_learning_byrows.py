"""Laws by rows: when they are worth it, what noise makes of them, and rows drawn by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.learning.bins import Bins
from privbench.learning.junction.byrows import Heavy, RowLaw, choose_clip, groups, row_law, tilt
from privbench.learning.junction.copulas import copula, expected
from privbench.learning.junction.given import Given
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.structure import layout
from privbench.learning.junction.tree import fit_tree
from privbench.learning.junction.trends import trended
from privbench.rng import generator


def units_of(counts):
    """Number of rows of every row's unit, from rows per unit."""
    return np.repeat(counts, counts)


def zipf(units=4000):
    return np.maximum((units / (1 + np.arange(units))).astype(np.int64), 1)


def test_a_clip_is_chosen_where_few_own_most_and_noise_allows_it():
    assert choose_clip(units_of(np.full(5000, 7)), 2, 5.0) is None
    assert choose_clip(units_of(zipf()), 2, 1e6) is None
    assert choose_clip(np.zeros(0, np.int64), 2, 1.0) is None
    found = [choose_clip(units_of(zipf()), 2, sd) for sd in (3.0, 300.0)]
    assert found == [64, None]
    few = np.concatenate([np.full(9000, 2), np.full(900, 20)])
    loud, quiet = (choose_clip(units_of(few), 2, sd) for sd in (90.0, 3.0))
    assert loud is not None
    assert quiet is not None
    assert loud < quiet


@pytest.mark.parametrize("ordered", [0, 3, 7, 40])
def test_groups_are_few_and_keep_order(ordered):
    counts = generator(ordered, "groups").exponential(size=40)
    of = groups(counts, ordered)
    assert sorted(set(of.tolist())) == list(range(of.max() + 1))
    assert of.max() < 8
    assert (np.diff(of[:ordered]) >= 0).all()
    assert not set(of[:ordered].tolist()) & set(of[ordered:].tolist())


def test_bins_that_hold_nothing_are_no_groups_of_their_own():
    assert groups(np.zeros(12), 11).tolist() == [0] * 11 + [1]
    assert groups(np.array([100.0] + [1.0] * 7), 8).tolist() == list(range(8))


def test_a_law_follows_what_is_clear_and_keeps_what_is_not():
    held = np.array([100.0, 120.0, 90.0, 110.0, 200.0])
    seen = np.array([60.0, 70.0, 55.0, 65.0, 370.0])
    of = np.arange(5)
    clear = row_law(0, of, seen, held, 4, 3.0, "laplace")
    assert clear.shares == pytest.approx(seen / seen.sum(), abs=0.02)
    drowned = row_law(0, of, seen, held, 4, 5000.0, "laplace")
    assert drowned.shares == pytest.approx(held / held.sum(), abs=0.03)


def test_a_tilt_brings_shares_by_rows_and_leaves_light_units_alone():
    g = generator(3, "tilt")
    sizes = units_of(zipf(800))
    heavy = Heavy.of(sizes, 2, 32)
    assert heavy.strength[sizes == 1].tolist() == [0.0] * int((sizes == 1).sum())
    cells = g.integers(0, 3, len(sizes))
    weights = np.minimum(sizes, 2) / sizes
    shares = np.array([0.1, 0.3, 0.6])
    for _ in range(20):
        weights = tilt(weights, cells, shares, heavy)
    got = np.bincount(cells, weights * heavy.counts)
    assert got / got.sum() == pytest.approx(shares, abs=1e-3)
    light = sizes == 1
    assert weights[light] == pytest.approx((np.minimum(sizes, 2) / sizes)[light])


def test_rows_are_drawn_by_units_and_by_rows_at_once():
    """Units say one thing in equal parts, those with most rows say another."""
    counts = np.concatenate([np.full(3000, 2), np.full(60, 100)])
    sizes = units_of(counts)
    share = 0.3
    bins = (Bins(np.arange(2), np.ones(2), 1000 * np.array([1 - share, share])),)
    law = TableLaw(
        {"x": Domain(2)},
        bins,
        fit_tree(layout([0], [], (2,), 0), [np.array([1 - share, share])], {}, None),
        {},
        1000.0,
        tau=2,
        by_rows=(RowLaw(0, np.arange(2), np.array([0.58, 0.42])),),
        clip=32,
    )
    none = np.zeros((0, len(sizes)), np.uint16)
    given = Given((), none, np.minimum(sizes, 2) / sizes, sizes)
    for herded in (True, False):
        made = law.sample(len(sizes), generator(1, "draw"), herded=herded, given=given)["x"]
        by_units = np.average(made, weights=np.minimum(sizes, 2) / sizes)
        by_rows = np.average(made, weights=np.minimum(sizes, 32) / sizes)
        assert by_units == pytest.approx(share, abs=0.03)
        assert by_rows == pytest.approx(0.42, abs=0.03)
    plain = replace(law, by_rows=()).sample(len(sizes), generator(1, "draw"), given=given)["x"]
    assert plain.mean() == pytest.approx(share, abs=0.03)


def test_a_value_without_an_order_follows_a_slope_that_no_cell_tells():
    """NULL among owners by number of rows: each of many cells drowns, all together do not."""
    g = generator(5, "slope")
    mass = 4000 * 0.72 ** np.arange(14)
    odds = np.exp(np.linspace(-2.5, 2.5, 14))
    null = mass * 0.1 * odds / (1 + 0.1 * odds)
    truth = np.stack([0.5 * (mass - null), 0.5 * (mass - null), null])
    base = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    before, after = [], []
    for _ in range(20):
        noisy = truth + g.laplace(0.0, 60.0, truth.shape)
        found = trended(noisy, base, 60.0, "laplace", (2, 14))
        assert found.sum() == pytest.approx(truth.sum(), rel=0.02)
        before.append(np.abs(base - truth)[2].sum())
        after.append(np.abs(found - truth)[2].sum())
    assert np.mean(after) < 0.55 * np.mean(before)


def test_largest_values_follow_a_copula_of_their_own():
    """Loose as a whole, tight at the upper end: the corner is seen all the same."""
    g = generator(6, "corner")
    mass = 20_000 * 0.55 ** np.arange(14)
    whole = copula(mass, mass, 0.3)
    inner = whole[4:, 4:]
    tight = copula(inner.sum(axis=1), inner.sum(axis=0), 0.97)
    truth = whole.copy()
    truth[4:, 4:] = tight
    base = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    hits = []
    for _ in range(5):
        noisy = truth + g.laplace(0.0, 25.0, truth.shape)
        found = expected(noisy, base, 25.0, "laplace", (14, 14))
        hits.append(found[8:, 8:].sum() / truth[8:, 8:].sum())
    assert np.mean(hits) > 0.6
    assert whole[8:, 8:].sum() / truth[8:, 8:].sum() < 0.45
