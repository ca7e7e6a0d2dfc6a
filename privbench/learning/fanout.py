"""Fan-out laws, from noisy bucket histograms of parents by their number of children.

A histogram is smoothed (DESIGN of the fan-outs: a concave quadratic in the logarithm from the mode
on, blended with the noisy counts by precision), then the law is tilted toward a noisy total.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privbench.learning.denoise import (
    BEYOND_DOUBT,
    CLEAR,
    Floats,
    Noise,
    by_precision,
    last_clear,
    log_likelihoods,
    project,
    scale_of,
)
from privbench.learning.falloff import CURVE_ERROR, concave
from privbench.learning.fanfamily import bucket_centres, masses, posterior
from privbench.learning.fanlaw import FanLaw, Ints, law_from_counts

#: Below so many standard deviations of noise there are too few parents to take bucket by bucket;
#: the same of those that have children, which may be spread over all buckets.
_FEW, _FEW_OWN = 120.0, 60.0
#: So many standard deviations of parents without children are as good as any number of them.
_EMPTY = 240.0
#: How much less likely beforehand few parents of many children each are: the power of the share of
#: parents that have some, or of 1 over their mean, whichever is more. At 1 the distances of both
#: from one child per parent would add up, and a tenth of all parents who own hundreds each is lost.
_GIANTS = 0.7
#: How much likelier beforehand parents of about as many children each are, as a power of
#: E[x]²/E[x²]. Without it a histogram that noise drowns gets parents of very many children.
#: Measured on seven databases, sizes of tables are off by 3 % less, at 0.25 as at 1.
_EVEN = 0.5
#: A bucket this many standard deviations off is not what a small family of laws says.
_WRONG = 6.0
#: Standard deviation of a bucket about what the family says, as a part of it.
_LOOSE = 0.4
#: Below this part of a bucket's noise the number of parents is taken as it is.
_SURE = 0.1
#: Numbers of parents that are weighed, in standard deviations from the likeliest.
_STEPS = np.linspace(-3.2, 3.2, 9)
#: How many times as much a tilt may change the logarithm of the mean as that of the clipped mean,
#: which is all that is told, and how much in any case.
_LEVER, _SLACK = 3.0, 0.02


def fit(
    noisy: Floats,
    sd: float,
    starts: Ints,
    ends: Ints,
    parents: float,
    target: tuple[float, float, float] | None = None,
    more: Callable[[Floats], Floats] | None = None,
    parents_sd: float = 0.0,
    noise: Noise = "laplace",
    units: tuple[float, float] | None = None,
) -> FanLaw:
    """Fit a law to a noisy bucket histogram.

    Args:
        noisy: Noisy number of parents per bucket, shape (buckets,).
        sd: Standard deviation of that noise.
        starts: First count of every bucket.
        ends: Last count of every bucket.
        parents: Noisy number of parents, above 0.
        target: Noisy Σ min(count, clip) over all parents, the clip, and the standard deviation of
            the noise; the law is tilted toward it where it stands out from its noise.
        more: Log likelihood of laws by what else was released (`fanfamily.posterior`); read where
            parents are few, instead of the target.
        parents_sd: Standard deviation of the noise of their number, which this histogram's own sum
            is part of.
        noise: Law of the noise.
        units: Noisy number of parents that have children by a count of its own, and the standard
            deviation of that noise; read where parents are few.

    Few parents against the noise, or few that have children, give a law of a small family
    (`fanfamily.posterior`), mended where a bucket says clearly otherwise. Where the parents
    themselves are lost in it, the law is a plain one with the target's mean, at most 10, so that
    noise alone never makes a clone explode; a target that is lost too says nothing, and the mean
    is 1.
    """
    if parents < 4 * sd and more is None:
        told = target is not None and target[0] >= 3 * target[2]
        mean = min(max(target[0] / parents, 0.0), 10.0) if target and told else 1.0
        return law_from_counts(spread_law(mean, starts, ends), starts, ends)
    if parents < _FEW * sd or (len(starts) > 2 and parents - noisy[0] < _FEW_OWN * sd):
        return law_from_counts(
            _by_family(noisy, sd, starts, ends, parents, target, more, parents_sd, noise, units),
            starts,
            ends,
        )
    law = law_from_counts(_smooth(noisy, sd, parents), starts, ends)
    if target is None or target[0] < 3 * target[2] or not law.mass[starts > 0].sum() > 0:
        return law
    return _calibrate(law, _both(law, sd, parents, target) / parents, target[1])


def _by_family(
    noisy: Floats,
    sd: float,
    starts: Ints,
    ends: Ints,
    parents: float,
    target: tuple[float, float, float] | None,
    more: Callable[[Floats], Floats] | None,
    parents_sd: float,
    noise: Noise,
    units: tuple[float, float] | None,
) -> Floats:
    """Parents per bucket by the posterior of a family of laws; as `fit`.

    Parents that surely have no children are set aside. Shares of the family are steps, and of very
    many parents a step is many times the noise: the law would be the one that has the share of
    parents without children right, whatever it says of the others.
    """
    empty = max(min(noisy[0] - _EMPTY * sd, parents - max(_EMPTY * sd, 1.0)), 0.0)
    aside = np.where(np.arange(len(noisy)) == 0, empty, 0.0)
    left, pool = noisy - aside, parents - empty
    centres, whole = bucket_centres(starts, ends), aside / parents

    def believed(laws: Floats) -> Floats:
        told = 0.0 if more is None else more(laws * (pool / parents) + whole)
        if units is not None:
            apart = (units[0] - pool * (1.0 - laws[:, 0])) / scale_of(units[1], noise)
            told = told + log_likelihoods(apart, noise)
        return _giants(laws, centres) + told

    goal, shades = target if more is None else None, _shades(left, sd, pool, parents_sd)
    family, shade = posterior(
        left, sd, starts, ends, pool, goal, shades=shades, more=believed, noise=noise, even=_EVEN
    )
    return _against(shade * pool * family + aside, noisy, sd)


def _shades(noisy: Floats, sd: float, parents: float, off: float) -> tuple[Floats, Floats]:
    """Factors on the number of parents, and what all but the histogram itself says of them.

    Otherwise parents that noise made up, and that no bucket has, would be taken for parents of any
    number of children.

    Args:
        noisy: Noisy number of parents per bucket.
        sd: Standard deviation of that noise.
        parents: Inverse-variance mean of the histogram's own sum and all else.
        off: Standard deviation of that.
    """
    if off <= _SURE * sd:
        return np.ones(1), np.zeros(1)
    own = max(sd * sd * len(noisy), 1e-18)
    beside = max(1.0 / max(off * off, 1e-18) - 1.0 / own, 1e-18)
    middle = parents + (parents - float(noisy.sum())) / (own * beside)
    numbers = np.maximum(parents + off * _STEPS, 0.05 * parents)
    return numbers / parents, -0.5 * beside * (numbers - middle) ** 2


def _giants(laws: Floats, centres: Floats) -> Floats:
    """Log prior of laws by which few parents own many children each, beside that of their means.

    Where next to no parent has children, noise leaves open by any factor how many these have. That
    the mean is near one child per parent does not make them likely then: it would take giants, and
    many tables are small.

    Args:
        laws: Masses of buckets, the first of which is of parents without children; shape (laws,
            buckets).
        centres: Number of children of every bucket.
    """
    some = np.clip(1.0 - laws[:, 0], 1e-12, 1.0)
    each = np.maximum(laws @ centres / some, 1.0)
    return np.asarray(_GIANTS * np.log(np.maximum(some, 1.0 / each)))


def _against(family: Floats, noisy: Floats, sd: float) -> Floats:
    """A family's counts and the histogram's, each at its precision.

    Where noise does not explain the difference, the histogram is right. Parents that one bucket has
    more of are missing in others, or else they are noise, unless it is clear beyond doubt.
    """
    seen = np.arange(len(noisy)) <= last_clear(noisy, sd)
    more = noisy - family
    held = np.where(family > sd, more, 0.0)
    noise = (more > 0) & (noisy <= BEYOND_DOUBT * sd)
    made_up = noise & (held - held.sum() < 0.5 * more)
    wrong = np.where(made_up, 0.0, np.maximum(more**2 - (_WRONG * sd) ** 2, 0.0))
    off = np.where(seen, np.maximum(wrong, (_LOOSE * family) ** 2), 0.0)
    variance = max(sd * sd, 1e-18)
    return np.maximum((noisy * off + family * variance) / (off + variance), 1e-12)


def _both(law: FanLaw, sd: float, parents: float, target: tuple[float, float, float]) -> float:
    """Σ min(count, clip) by the histogram and by the noisy total, each at its precision.

    The histogram's own sum is off by the noise of the buckets in use, each times its counts, and by
    a twentieth for what buckets do not tell.
    """
    total, clip, noise = target
    own = parents * law.mean(clip)
    used = law.mass > 0
    centre = np.minimum(bucket_centres(law.starts, law.ends), clip)
    spread = np.hypot(sd * float(np.linalg.norm(centre[used])), 0.05 * own)
    known = (own, max(float(spread), 1e-12) ** 2), (max(total, 0.0), max(noise, 1e-12) ** 2)
    return by_precision(known)[0]


def spread_law(mean: float, starts: Ints, ends: Ints) -> Floats:
    """Masses of buckets for Poisson counts whose rates are lognormal (σ = 1.2) with a mean."""
    return masses(mean, 1.2, starts, ends)


def _smooth(noisy: Floats, sd: float, total: float) -> Floats:
    """Counts that sum to the total, with the tail on a concave curve where noise rules."""
    plain = project(noisy, total)
    mode = 1 + int(np.argmax(plain[1:])) if len(plain) > 1 else 0
    tail = noisy[mode:]
    if sd <= 0:
        return plain
    if len(tail) < 4:
        return _cut(plain, noisy, sd, total)
    curve = concave(tail, max(sd, 0.5))
    # Where a bucket is further from the curve than noise explains, the curve is what is wrong.
    seen = np.arange(len(tail)) <= max(last_clear(noisy, sd) - mode, 0)
    off = np.where(seen, (tail - curve) ** 2 - 9 * sd * sd, 0.0)
    trust = np.maximum((CURVE_ERROR * curve) ** 2, off)
    blended = (tail * trust + curve * sd * sd) / (trust + sd * sd)
    lost = (curve < 0.2) & (tail < CLEAR * sd)
    blended = np.where(lost, 0.0, np.maximum(blended, 0.0))
    return _cut(np.concatenate([noisy[:mode], blended]), noisy, sd, total)


def _cut(counts: Floats, noisy: Floats, sd: float, total: float) -> Floats:
    """Drop buckets more than four past the last clear one, then restore the total.

    Without the cut, noise alone would put parents into buckets of tens of thousands of children.
    """
    last = min(last_clear(noisy, sd) + 4, len(noisy) - 1)
    out = np.zeros(len(counts))
    kept = np.maximum(counts[: last + 1], 0.0)
    # In proportion: an equal shift would put parents where a few have thousands of children.
    out[: last + 1] = kept * (total / kept.sum()) if kept.sum() > 0 else project(kept, total)
    return out


def _calibrate(law: FanLaw, mean: float, clip: float) -> FanLaw:
    """Tilt by |θ| ≤ 1; further down only where the mean would be too large by more than half."""
    theta = _tilt(law, mean, clip, -1.0)
    if law.tilted(theta).mean(clip) > 1.5 * mean:
        theta = _tilt(law, mean, clip, -24.0)
    return law.tilted(_as_told(law, theta, clip))


def _as_told(law: FanLaw, theta: float, clip: float) -> float:
    """The part of a tilt that the clipped mean supports.

    Where nearly all counts pass the clip, noise in the clipped mean would move those far beyond it
    by any factor.
    """
    before, told = law.mean(), law.mean(clip)

    def supported(part: float) -> bool:
        tilted = law.tilted(part * theta)
        moved, seen = np.log(tilted.mean() / before), np.log(tilted.mean(clip) / told)
        return bool(abs(moved) <= _LEVER * abs(seen) + _SLACK)

    if supported(1.0):
        return theta
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if supported(middle) else (low, middle)
    return low * theta


def _tilt(law: FanLaw, mean: float, clip: float, low: float) -> float:
    high = 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if law.tilted(middle).mean(clip) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2
