"""Fan-out laws: fitted to noise, drawn, calibrated, stored."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privbench.errors import ModelError
from privbench.learning.fanlaw import FanLaw, constant, law_from_counts
from privbench.learning.fanout import fit, spread_law
from privbench.privacy.queries import FAN_OUT_BOUNDS
from privbench.rng import generator

STARTS = np.array(FAN_OUT_BOUNDS, np.int64)
ENDS = np.append(STARTS[1:] - 1, 2 * STARTS[-1])


def buckets(counts):
    place = np.searchsorted(STARTS, counts, side="right") - 1
    return np.bincount(place, minlength=len(STARTS)).astype(float)


def heavy(parents=40_000, seed=1):
    g = np.random.default_rng(seed)
    counts = np.floor(g.pareto(1.3, parents) * 1.5).astype(int)
    return np.minimum(counts, 3000)


def laplace(sd, seed=2):
    return np.random.default_rng(seed).laplace(0, sd / np.sqrt(2), len(STARTS))


@pytest.mark.parametrize("sd", [0.0, 3.0, 40.0, 200.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_fitted_law_keeps_zeros_totals_and_tails(sd, seed):
    counts = heavy(seed=seed)
    clipped = float(np.minimum(counts, 100).sum())
    law = fit(
        buckets(counts) + laplace(sd, seed), sd, STARTS, ENDS, len(counts), (clipped, 100.0, 0.0)
    )
    drawn = law.draw(len(counts), generator(seed))
    assert np.minimum(drawn, 100).sum() == pytest.approx(clipped, rel=0.03)
    assert (drawn == 0).mean() == pytest.approx((counts == 0).mean(), abs=0.03)
    for least in (3, 9, 33):
        assert (drawn >= least).mean() == pytest.approx((counts >= least).mean(), rel=0.35)
    assert drawn.sum() == pytest.approx(counts.sum(), rel=0.4)


def test_noise_alone_makes_no_giants():
    for seed in range(20):
        law = fit(laplace(50.0, seed), 50.0, STARTS, ENDS, 150.0)
        assert law.mean() <= 10
        law = fit(laplace(50.0, seed) + buckets(np.ones(1000, int)), 50.0, STARTS, ENDS, 1000.0)
        assert law.draw(1000, generator(1)).sum() < 20_000


def test_an_empty_table_gets_few_rows():
    g = np.random.default_rng(5)
    counts = np.zeros(864, int)
    rows = []
    for seed in range(15):
        target = (max(float(g.laplace(0, 700.0)), 1.0), 100.0, 990.0)
        law = fit(buckets(counts) + laplace(7.0, seed), 7.0, STARTS, ENDS, 864.0, target)
        rows.append(864 * law.mean())
    assert np.median(rows) < 60
    assert max(rows) < 400


def sizes(held, sd, parents, off=4714.0, seeds=40, **more):
    """Numbers of children that fits to seeded noise give, where the total is lost in its noise."""
    centre = np.minimum(np.sqrt(STARTS * (ENDS + 1.0)), 100.0)
    found = []
    for seed in range(seeds):
        total = float(held @ centre) + np.random.default_rng(1000 + seed).laplace(0, off / 2**0.5)
        noisy, target = held + laplace(sd, seed), (max(total, 1.0), 100.0, off)
        found.append(parents * fit(noisy, sd, STARTS, ENDS, parents, target, **more).mean())
    return np.array(found)


@pytest.mark.parametrize("sd", [14.0, 25.9, 45.0])
def test_few_rows_of_many_parents_stay_few(sd):
    """24 of 3,000 employees manage: noise leaves open how many departments each, and not giants.

    A mean near one per employee was the likeliest before: 700 rows in the middle, 20,000 at worst.
    """
    held = np.zeros(len(STARTS))
    held[:2] = 2976.0, 24.0
    found = sizes(held, sd, 3000.0)
    assert np.median(found) < 24 + 2 * sd
    assert np.quantile(found, 0.9) < 24 + 10 * sd


def test_a_bucket_that_noise_alone_fills_makes_no_giants():
    """Parents of 20,000 children are missing nowhere else: they were taken for 800,000 rows."""
    held = np.zeros(len(STARTS))
    held[0] = 3000.0
    for seed in range(10):
        noisy = held + laplace(25.9, seed)
        noisy[14] = 6.6 * 25.9
        law = fit(noisy, 25.9, STARTS, ENDS, 3000.0, (1.0, 100.0, 4714.0))
        assert 3000 * law.mean() < 500


def test_a_clear_bucket_whose_parents_are_missing_in_others_stays():
    held = np.zeros(len(STARTS))
    held[[0, 8]] = 2700.0, 300.0
    children = 300.0 * np.sqrt(STARTS[8] * (ENDS[8] + 1.0))
    ratios = sizes(held, 25.9, 3000.0) / children
    assert 0.8 < np.median(ratios) < 1.25
    assert ratios.min() > 0.6


def test_parents_that_noise_made_up_own_nothing():
    """None of 91 customers has a type; 123 are reported, and 32 were taken for owners of thousands.

    What is reported is off by 15, and one bucket tells much better that there are 91.
    """
    held = np.zeros(len(STARTS))
    held[0] = 91.0
    found = sizes(held, 4.6, 123.0, off=3771.0, parents_sd=15.0)
    assert np.median(found) < 120
    # Parents that are known, and that no bucket has, do own something.
    sure = sizes(held, 4.6, 123.0, off=3771.0)
    assert np.median(sure) > 4 * np.median(found)


def test_few_of_many_parents_keep_their_children():
    """420 of 3,000 parents with children in all buckets: taken one by one none of these is seen."""
    g = np.random.default_rng(3)
    counts = np.zeros(3000, int)
    counts[:420] = np.clip(np.round(20 * np.exp(1.6 * g.standard_normal(420) - 1.28)), 1, 1000)
    ratios = sizes(buckets(counts), 24.0, 3000.0) / counts.sum()
    assert 0.6 < np.median(ratios) < 1.6
    assert (ratios > 0.4).mean() > 0.8


@pytest.mark.parametrize("children", [3, 12, 800])
def test_few_owners_among_a_million_parents_are_as_many(children):
    """The nearest share of childless parents that the family has was off by 150 of 400 owners."""
    held = np.zeros(len(STARTS))
    held[[0, int(buckets(np.array([children])).argmax())]] = 999_600.0, 400.0
    sd = 10.0
    for seed in range(20):
        law = fit(held + laplace(sd, seed), sd, STARTS, ENDS, 1e6, (1200.0, 100.0, 1000.0))
        assert 1e6 * (1.0 - law.mass[0]) == pytest.approx(400, rel=0.15)


def test_a_bucket_clear_beyond_doubt_is_no_noise():
    """Of two peaks the family has neither; what is missing beside each is below the noise."""
    held, sd = np.zeros(len(STARTS)), 10.0
    held[[0, 2, 6]] = 820.0, 90.0, 90.0
    for seed in range(40):
        noisy = held + laplace(sd, seed)
        noisy[6] = 90.0
        law = fit(noisy, sd, STARTS, ENDS, 1000.0, (1.0, 100.0, 1000.0), parents_sd=9.7)
        assert 1000 * law.mass[6] > 60, seed


def test_children_of_few_parents_are_not_lost_and_do_not_explode():
    sd = 17.0
    g = np.random.default_rng(5)
    # A tenth of 864 parents has children, most of them a hundred and more.
    counts = np.where(g.random(864) < 0.1, g.poisson(g.lognormal(4.6, 1.0, 864)), 0)
    clipped = float(np.minimum(counts, 100).sum())
    ratios = []
    for seed in range(12):
        noise = g.laplace(0, 2000.0)
        law = fit(
            buckets(counts) + laplace(sd, seed), sd, STARTS, ENDS, 864.0,
            (max(clipped + noise, 1.0), 100.0, 2000.0 * np.sqrt(2)),
        )  # fmt: skip
        ratios.append(864 * law.mean() / counts.sum())
    assert min(ratios) > 0.1
    assert 0.4 < np.median(ratios) < 2.0
    assert max(ratios) < 5.0


@settings(deadline=None, max_examples=60)
@example([2.0] + [0.0] * (len(STARTS) - 1), 0.0, 1.0, None, 1.0)
@example([2.0] + [0.0] * (len(STARTS) - 1), 0.0, 1.0, None, 1e-165)
@given(
    st.lists(st.floats(-1e5, 1e5), min_size=len(STARTS), max_size=len(STARTS)),
    st.floats(0, 1e4),
    st.floats(1, 1e6),
    st.one_of(
        st.none(), st.tuples(st.floats(0, 1e7), st.sampled_from([100.0, np.inf]), st.floats(0, 1e5))
    ),
    st.floats(0, 1e6),
)
def test_any_noise_gives_a_law(noisy, sd, parents, target, parents_sd):
    law = fit(np.array(noisy), sd, STARTS, ENDS, parents, target, parents_sd=parents_sd)
    assert (law.mass >= 0).all()
    assert law.mass.sum() == pytest.approx(1)
    again = FanLaw.from_state(json.loads(json.dumps(law.to_state())))
    drawn = again.draw(50, generator(1))
    assert np.array_equal(drawn, law.draw(50, generator(1)))
    assert (drawn >= 0).all()
    assert (drawn <= ENDS[-1]).all()


def test_draws_follow_the_buckets():
    mass = np.random.default_rng(3).dirichlet(np.ones(len(STARTS)))
    law = law_from_counts(mass, STARTS, ENDS)
    drawn = law.draw(100_000, generator(4))
    assert np.abs(buckets(drawn) - 100_000 * mass).max() <= 1
    assert law.mean() == pytest.approx(drawn.mean(), rel=0.02)


@pytest.mark.parametrize("mean", [0.01, 0.5, 3.0, 200.0])
def test_the_plain_law_has_its_mean(mean):
    law = law_from_counts(spread_law(mean, STARTS, ENDS), STARTS, ENDS)
    assert law.mean() == pytest.approx(mean, rel=0.2)


def test_tilting_moves_the_mean():
    law = law_from_counts(buckets(heavy()), STARTS, ENDS)
    assert law.tilted(-0.5).mean() < law.mean() < law.tilted(0.5).mean()
    assert law.tilted(0.0).mean() == pytest.approx(law.mean())


def test_constant():
    assert constant(3).draw(4, generator(1)).tolist() == [3] * 4
    assert constant(3).draw(0, generator(1)).tolist() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mass", [0.5, 0.4]),
        ("mass", [-0.5, 1.5]),
        ("mass", [float("nan"), 1.0]),
        ("starts", [-1, 1]),
        ("ends", [0, 0]),
        ("ends", [0, 2**50]),
        ("exponents", [0.0, 1e9]),
        ("exponents", [0.0]),
        ("mass", "x"),
    ],
)
def test_damaged_laws_are_refused(field, value):
    state = {"starts": [0, 1], "ends": [0, 1], "mass": [0.5, 0.5], "exponents": [0.0, 0.0]}
    FanLaw.from_state(state)
    with pytest.raises(ModelError):
        FanLaw.from_state({**state, field: value})


@pytest.mark.parametrize(
    "true",
    [{1: 5000}, {0: 500, 1: 4500}, {2: 5000}, {1: 3500, 2: 1500}, {5: 5000}, {0: 2500, 5: 2500}],
)
@pytest.mark.parametrize("sd", [0.5, 12.4])
def test_laws_in_few_buckets_stay_there(true, sd):
    held = np.zeros(len(STARTS))
    for bucket, parents in true.items():
        held[bucket] = parents
    for seed in range(10):
        law = fit(held + laplace(sd, seed), sd, STARTS, ENDS, held.sum())
        assert np.abs(law.mass - held / held.sum()).sum() / 2 < 0.1


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_few_parents_with_as_many_children_each_keep_them(count):
    """A drowned total (off by thousands) must not crush what the histogram tells, nor swell it."""
    parents, sd, off = 150, 22.0, 3800.0
    for seed in range(20):
        total = max(parents * count + np.random.default_rng(seed).laplace(0, off), 1.0)
        noisy = buckets(np.full(parents, count)) + laplace(sd, seed)
        law = fit(noisy, sd, STARTS, ENDS, parents, (total, 100.0, off))
        assert 0.5 * count < law.mean() < 2.0 * count


def test_a_clear_bucket_beats_the_family():
    held = np.zeros(len(STARTS))
    held[[1, 4]] = 1200.0, 1200.0
    for seed in range(10):
        law = fit(held + laplace(22.0, seed), 22.0, STARTS, ENDS, held.sum())
        assert np.abs(law.mass - held / held.sum()).sum() / 2 < 0.15


@pytest.mark.parametrize(("total", "mean"), [(1.0, 1.0), (8000.0, 1.0), (60.0, None)])
def test_lost_parents_with_a_lost_total_have_one_child(total, mean):
    """Only a total that stands out from its noise tells how many children lost parents have."""
    noise = 3800.0 if mean else 1.0
    law = fit(laplace(8.0), 8.0, STARTS, ENDS, 20.0, (total, 100.0, noise))
    assert law.mean() == pytest.approx(mean or 3.0, rel=0.2)


def test_many_parents_far_from_all_others_are_no_noise():
    """A third of 9,000 parents have 60 children each, the others one."""
    noisy = np.zeros(len(FAN_OUT_BOUNDS))
    noisy[1], noisy[7] = 6000.0, 3000.0
    noisy += generator(2, "far").laplace(0.0, 4.0, len(noisy))
    starts = np.array(FAN_OUT_BOUNDS, np.int64)
    law = fit(noisy, 6.0, starts, np.append(starts[1:] - 1, 2 * starts[-1]), 9000.0)
    assert law.mass[7] == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("off", [-900.0, 0.0, 900.0])
def test_a_clipped_total_tells_nothing_of_counts_beyond_its_clip(off):
    """All parents have more than 100 children: noise in their clipped number moves none."""
    counts = np.repeat([200, 3000], [1600, 400])
    target = (100.0 * len(counts) + off, 100.0, 700.0)
    law = fit(buckets(counts) + laplace(5.0), 5.0, STARTS, ENDS, len(counts), target)
    drawn = law.draw(len(counts), generator(1))
    assert (drawn > 1000).sum() == pytest.approx(400, abs=40)
    assert drawn.sum() == pytest.approx(counts.sum(), rel=0.2)


def test_gaussian_noise_and_counted_units_bring_sizes_nearer():
    """Of 864 owners 80 have some 150 rows each, and noise hides every bucket."""
    off = {"told": [], "untold": []}
    for seed in range(12):
        g = np.random.default_rng(seed)
        counts = np.zeros(864, int)
        counts[:80] = g.integers(20, 280, 80)
        noisy, units = buckets(counts) + g.normal(0, 14.0, len(STARTS)), 80 + g.normal(0, 25.0)
        target = (float(np.minimum(counts, 100).sum() + g.normal(0, 2000.0)), 100.0, 2000.0)
        for name, more in (("untold", {}), ("told", {"noise": "gaussian", "units": (units, 25.0)})):
            law = fit(noisy, 14.0, STARTS, ENDS, 864.0, target, **more)
            off[name].append(abs(np.log(864 * law.mean() / counts.sum())))
    assert np.mean(off["told"]) < np.mean(off["untold"])
    assert np.median(off["told"]) < 0.6
