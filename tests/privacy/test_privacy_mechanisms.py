"""Every mechanism against its claimed law; the same check must reject a wrong scale."""

import itertools
import math

import numpy as np
import pytest
import scipy  # its parts are loaded by the test that names them
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privbench.errors import PrivacyRefusal
from privbench.privacy import NoiseSource, SeededNoise, Sensitivity, mechanisms
from privbench.privacy.mechanisms import CLAMP, MECHANISMS, SELECTION, THRESHOLD, VECTOR, Method

DRAWS = 30_000
#: Labels for a rate of release: a scale that is wrong by a tenth still shows.
LABELS = 20_000
#: A right mechanism fails a check once in a million runs.
ALARM = 1e-6
ONE = Sensitivity(1, 1.0, 1, 1)
SOURCES = {"opendp": NoiseSource(), "seeded": SeededNoise(20)}


def laplace_law(scale):
    alpha = math.exp(-1 / scale)
    return lambda k: (1 - alpha) / (1 + alpha) * alpha ** np.abs(k)


def gaussian_law(scale):
    grid = np.arange(-4000, 4001)
    total = np.exp(-(grid**2) / (2 * scale**2)).sum()
    return lambda k: np.exp(-(k.astype(float) ** 2) / (2 * scale**2)) / total


LAWS = {"pure": laplace_law, "zcdp": gaussian_law}


def law_p_value(noise, law, scale):
    """Chi-square of integer draws against a law, tails beyond three scales pooled."""
    reach = math.ceil(3 * scale)
    cells = np.arange(-reach, reach + 1)
    expected = law(cells) * noise.size
    tail = (noise.size - expected.sum()) / 2
    observed = np.array([(noise == k).sum() for k in cells])
    counts = np.concatenate([[(noise < -reach).sum()], observed, [(noise > reach).sum()]])
    hoped = np.concatenate([[tail], expected, [tail]])
    kept = hoped > 5
    pooled = np.append(counts[kept], counts[~kept].sum())
    wanted = np.append(hoped[kept], max(hoped[~kept].sum(), 1e-9))
    if wanted[-1] < 5:
        pooled, wanted = pooled[:-1], wanted[:-1]
    return float(scipy.stats.chisquare(pooled, wanted * pooled.sum() / wanted.sum()).pvalue)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_vector_noise_has_the_claimed_law(accounting, scale, source):
    mechanism, law = VECTOR[accounting], LAWS[accounting](scale)
    zeros = np.zeros(DRAWS, np.int64)
    noise = SOURCES[source].draw(Method(mechanism, scale), zeros, "right")
    assert law_p_value(noise, law, scale) > ALARM
    assert noise.std() == pytest.approx(mechanism.sd(scale), rel=0.05)
    halved = SOURCES[source].draw(Method(mechanism, scale / 2), zeros, "halved")
    assert law_p_value(halved, law, scale) < ALARM


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("accounting", "law"), [("pure", "laplace"), ("zcdp", "norm")])
def test_vector_noise_on_the_weight_grid(accounting, law, source):
    mechanism, scale = VECTOR[accounting], 1.7 * 2**31
    zeros = np.zeros(DRAWS, np.int64)
    noise = SOURCES[source].draw(Method(mechanism, scale), zeros, "right")
    assert scipy.stats.kstest(noise / scale, law).pvalue > ALARM
    halved = SOURCES[source].draw(Method(mechanism, scale / 2), zeros, "halved")
    assert scipy.stats.kstest(halved / scale, law).pvalue < ALARM


def test_draw_of_a_vector_is_centred_fresh_and_clamped():
    values = np.arange(12, dtype=np.int64).reshape(3, 4) * 1_000_000
    for mechanism in VECTOR.values():
        noisy = mechanism.draw(values, 10.0)
        assert noisy.shape == (3, 4)
        assert noisy.dtype == np.int64
        assert np.abs(noisy - values).max() < 1000
    assert VECTOR["pure"].draw(np.empty((0, 3), np.int64), 1.0).shape == (0, 3)
    # Two draws differ.
    zeros = np.zeros(64, np.int64)
    assert (VECTOR["pure"].draw(zeros, 1e6) != VECTOR["pure"].draw(zeros, 1e6)).any()
    # Huge statistics are clamped not wrapped.
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    for mechanism in VECTOR.values():
        noisy = mechanism.draw(ends, 1000.0)
        assert np.abs(np.abs(noisy) - CLAMP).max() < 10**6
        assert noisy[0] < 0 < noisy[1]


def test_chunks_keep_order_and_law(monkeypatch):
    monkeypatch.setattr(mechanisms, "CHUNK", 700)
    values = np.arange(DRAWS, dtype=np.int64) * 10**6
    noise = VECTOR["pure"].draw(values, 4.0) - values
    assert law_p_value(noise, laplace_law(4.0), 4.0) > ALARM
    # Two chunks drawn from one stream would repeat each other.
    first, second = noise[:700], noise[700:1400]
    assert (first == second).mean() < 0.5
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.25


def flip_law(scores, scale):
    """P(argmax) of scores plus exponential noise, by integration over the winner's noise."""

    def win(i):
        def density(t):
            gaps = t + (scores[i] - np.delete(scores, i)) / scale
            return math.exp(-t) * float(np.prod(-np.expm1(-np.maximum(gaps, 0.0))))

        kinks = sorted({max(0.0, (s - scores[i]) / scale) for s in scores})
        pieces = [*kinks, kinks[-1] + 50.0]
        return sum(
            scipy.integrate.quad(density, a, b, epsabs=1e-10)[0]
            for a, b in itertools.pairwise(pieces)
            if b > a
        )

    return np.array([win(i) for i in range(len(scores))])


def softmax(scores, scale):
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("accounting", "law"), [("pure", flip_law), ("zcdp", softmax)])
def test_selection_has_the_claimed_law(accounting, law, source):
    scores = np.array([0, 3, 5, 5, -4], dtype=np.int64)
    expected = law(scores, 3.0)
    assert expected.sum() == pytest.approx(1.0, abs=1e-8)

    def p_value(scale, draws):
        method, noise = Method(SELECTION[accounting], scale), SOURCES[source]
        picks = [noise.draw(method, scores, f"{scale}/{i}") for i in range(draws)]
        counts = np.bincount(picks, minlength=scores.size)
        return float(scipy.stats.chisquare(counts, expected * len(picks)).pvalue)

    # A scale that is wrong by 15 % shows in 99.9 % of runs, by a tenth in 80 %.
    assert p_value(3.0, 12_000) > ALARM
    assert p_value(1.5, 2_000) < ALARM


def release_rate(source, mechanism, count, scale, threshold, draws=DRAWS):
    counts = {f"label {i}": count for i in range(draws)}
    kept = source.draw(Method(mechanism, scale, threshold), counts, f"{count}/{scale}")
    assert list(kept) == sorted(kept)
    return len(kept) / draws


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_threshold_keeps_labels_with_the_claimed_probability(accounting, source):
    mechanism, scale, threshold = THRESHOLD[accounting], 3.0, 8
    cells = np.arange(-400, 401)
    law = LAWS[accounting](scale)(cells)

    def agrees(count, used_scale):
        expected = law[cells >= threshold - count].sum()
        rate = release_rate(SOURCES[source], mechanism, count, used_scale, threshold, LABELS)
        return scipy.stats.binomtest(round(rate * LABELS), LABELS, expected).pvalue > ALARM

    assert all(agrees(count, scale) for count in (1, 6, 8, 12))
    assert not agrees(1, scale / 2)
    assert not agrees(12, scale / 2)


@pytest.mark.parametrize("scale", [1.5, 6.0, 40.0])
@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_threshold_delta_bounds_the_release_of_a_lone_unit(accounting, scale):
    mechanism = THRESHOLD[accounting]
    cells = np.arange(-4000, 4001)
    law = LAWS[accounting](scale)(cells)
    for threshold in (3, 10, 40):
        exact = law[cells >= threshold - 1].sum()
        stated = mechanism.price(ONE, scale, threshold).delta
        assert stated >= exact * (1 - 1e-9)
        # OpenDP bounds the discrete Gaussian's tail by the continuous one a step lower.
        loosest = law[cells >= threshold - 2].sum() if accounting == "zcdp" else exact
        assert stated <= loosest * (1 + 1e-9) + 1e-15
        two = Sensitivity(2, 2**0.5, 1, 2)
        assert mechanism.price(two, scale, threshold).delta >= (1 - (1 - exact) ** 2) * (1 - 1e-9)


def test_the_librarys_own_statement_is_below_what_its_threshold_releases():
    """Why the price is asked at T − 1 (docs/adr/privacy-threshold-price.md)."""
    mechanism, scale, threshold = THRESHOLD["pure"], 2.0, 5
    stated = mechanism.measurement(scale, threshold).map((1, 1, 1))[1]
    rate = release_rate(NoiseSource(), mechanism, 1, scale, threshold)
    ours = mechanism.price(ONE, scale, threshold).delta
    hits = round(rate * DRAWS)
    assert scipy.stats.binomtest(hits, DRAWS, ours, alternative="greater").pvalue > ALARM
    assert scipy.stats.binomtest(hits, DRAWS, stated, alternative="greater").pvalue < ALARM


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@given(delta=st.floats(1e-13, 0.05), amount=st.floats(1e-3, 20.0), k=st.integers(1, 16))
@settings(max_examples=25, deadline=None)
def test_threshold_is_the_least_that_delta_allows(accounting, delta, amount, k):
    mechanism = THRESHOLD[accounting]
    claim = Sensitivity(k, k**0.5, 1, k)
    scale = mechanism.scale(claim, amount)
    threshold = mechanism.threshold(claim, scale, delta)
    assert mechanism.price(claim, scale, threshold).delta <= delta
    assert threshold == 2 or mechanism.price(claim, scale, threshold - 1).delta > delta


def test_labels_may_hold_any_text():
    labels = {text: 10**6 for text in ("", "ß", "a\tb\n", "\x1f", "😀", '"quoted"', "0", "1")}
    for mechanism in THRESHOLD.values():
        found = mechanism.draw(labels, 2.0, 50)
        assert list(found) == sorted(labels)
        assert all(abs(count - 10**6) < 100 for count in found.values())
        assert mechanism.draw({}, 2.0, 50) == {}


@pytest.mark.parametrize("name", sorted(MECHANISMS))
@given(amount=st.floats(1e-6, 50.0), l1=st.integers(1, 100 * 2**30), spread=st.floats(0.01, 1.0))
@settings(max_examples=40, deadline=None)
def test_price_never_exceeds_the_amount_and_wastes_nothing(name, amount, l1, spread):
    # Noise past what 64-bit integers hold is refused.
    assume(2 * l1 / amount < 0.999 * 2**55)
    mechanism = MECHANISMS[name]
    claim = Sensitivity(l1, max(1.0, l1 * spread), max(1, int(l1 * spread)))
    if "threshold" in name:
        k = l1 % 64 + 1
        claim = Sensitivity(k, k**0.5, 1, k)
    stated = mechanism.price(claim, mechanism.scale(claim, amount)).amount
    assert stated <= amount
    assert stated == pytest.approx(amount, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("discrete_laplace", lambda c, s: c.l1 / s),
        ("discrete_gaussian", lambda c, s: c.l2**2 / (2 * s * s)),
        ("noisy_max", lambda c, s: 2 * c.linf / s),
        ("noisy_max_gumbel", lambda c, s: (2 * c.linf / s) ** 2 / 8),
        ("laplace_threshold", lambda c, s: c.l1 / s),
        ("gaussian_threshold", lambda c, s: c.l2**2 / (2 * s * s)),
    ],
)
def test_price_is_the_documented_function(name, formula):
    claim = Sensitivity(6, 3.5, 2, 4)
    for scale in (0.5, 7.0, 2.0**31):
        assert MECHANISMS[name].price(claim, scale).amount == pytest.approx(
            formula(claim, scale), rel=1e-9
        )


def test_a_square_root_rounded_down_cannot_lower_the_price():
    root = math.nextafter(math.sqrt(3.0), 0.0)
    scale = 5.0
    stated = VECTOR["zcdp"].price(Sensitivity(3, root, 1), scale).amount
    assert stated >= 3.0 / (2 * scale**2)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
@pytest.mark.parametrize("amount", [0.0, -1.0, math.nan, math.inf, 1e-300])
def test_impossible_amounts_are_refused(name, amount):
    with pytest.raises(PrivacyRefusal):
        MECHANISMS[name].scale(ONE, amount)


def test_impossible_thresholds_are_refused():
    mechanism = THRESHOLD["pure"]
    with pytest.raises(PrivacyRefusal, match="delta"):
        mechanism.threshold(ONE, 2.0, 0.0)
    with pytest.raises(PrivacyRefusal, match="threshold"):
        mechanism.price(Sensitivity(5, 5.0, 5, 1), 2.0, 5)
    with pytest.raises(PrivacyRefusal, match="labels"):
        mechanism.price(Sensitivity(1, 1.0, 1), 2.0, 9)


def test_seeded_noise_repeats_itself_per_stream():
    zeros = np.zeros(50, np.int64)
    method = Method(VECTOR["pure"], 9.0)
    draw = lambda seed, stream: SeededNoise(seed).draw(method, zeros, stream)  # noqa: E731
    assert (draw(1, "a") == draw(1, "a")).all()
    assert (draw(1, "a") != draw(1, "b")).any()
    assert (draw(1, "a") != draw(2, "a")).any()
    assert not SeededNoise(1).private
