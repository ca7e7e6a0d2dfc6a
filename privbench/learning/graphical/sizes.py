"""Distributions of counts: rows per unit, rows per owner, references per target.

All of them use one grid of buckets and are predicted by one family of shapes; see "Sizes" in
``docs/method.md``. Heavy tails are estimated from the known number of units that have any row, or
from a known mean, and not from the few noisy cells of the tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, hypot, log

import numpy as np

from privbench.arrays import Floats, Ints, Rng
from privbench.learning import portable
from privbench.learning.answers import Measured
from privbench.learning.denoise import CLEAR, SURE, Noise, normal_below
from privbench.learning.graphical.estimate import MISFIT, TINY, cell_fits, posterior, shrink
from privbench.privacy.queries import Total

#: A total with a larger relative error than this is left out of the family's posterior. Half or
#: double: no change, since such totals weigh next to nothing.
IMPRECISE = 0.5
#: The prior of a law is divided by this power of its mean number of rows per unit. At 0, noise
#: in one of thirty buckets gives 24 units thousands of rows each in one table of a hundred. Log
#: sizes of 24 units of 1, 4 or 17 rows are off by .63, .56, .94 (noise 9); by .91, .71, .86 at 0,
#: by .51, .61, 1.21 at .5, where tables of a hundred rows a unit come out at half their size.
LARGE = 0.25
#: A shape that is cut off at an end bucket is considered only if more than this part of it lies
#: before that end.
REACHED = 0.3

#: A tail begins `TAIL` buckets before the first one that is not clear of noise, if at most the part
#: `UPPER` of the units with rows lies in it; so its slope is seen. Without it, badges and posts of
#: stats5 have squares of e^-.6 and e^-.8 times the true ones, with it e^-.1 and e^.05 (noise 17).
TAIL, UPPER = 4, 0.25
#: The prior of a tail falls with this power of its sum of squares, since the posterior mean of
#: counts is ruled by the longest tails. Logs of the squares of posts of stats5 are off by .51,
#: 90th percentile 1.06; at .5 by .58 and .92, at 0 by .36 and 1.20.
LONG = 0.25
#: Shapes that are compared at once. Their 250 KB stay in a processor's cache; all shapes take 6 MB,
#: and three times as long.
BLOCK = 25
#: Relative errors of a tail's shape: of its buckets, and of its sum.
CURVED, SUMMED = 0.1, 0.03


@dataclass(frozen=True, slots=True)
class CountBuckets:
    """Buckets of a count; there are two to each doubling of the count."""

    lower: tuple[int, ...]  # lower ends, ascending from 0
    top: int  # largest count

    @property
    def size(self) -> int:
        """The number of buckets."""
        return len(self.lower)

    @property
    def ends(self) -> Ints:
        """The largest count of every bucket."""
        return np.append(np.array(self.lower[1:]) - 1, self.top).astype(np.int64)

    def law(self, shares: Floats) -> Floats:
        """Return the distribution of the count within each bucket, shape (top + 1,).

        It sums to 1 over every bucket. Within a bucket it is log-linear, with the mean of the
        slopes to both neighbours.
        """
        low, end = np.array(self.lower, np.float64), self.ends.astype(np.float64)
        middle = (low + end) / 2
        density = portable.log(np.maximum(shares, 1e-9) / (end - low + 1))
        slopes = np.clip(np.diff(density) / np.diff(middle), -2.0, 2.0)
        each = (np.append(slopes[:1], slopes) + np.append(slopes, slopes[-1:])) / 2
        width = self.ends - np.array(self.lower) + 1
        count = np.arange(self.top + 1)
        power = np.repeat(each, width) * (count - np.repeat(middle, width))
        starts = np.array(self.lower)
        weight = portable.exp(power - np.repeat(np.maximum.reduceat(power, starts), width))
        return np.asarray(weight / np.repeat(np.add.reduceat(weight, starts), width))

    def means(self, shares: Floats) -> Floats:
        """Return the mean count of every bucket."""
        return np.add.reduceat(self.law(shares) * np.arange(self.top + 1), np.array(self.lower))

    def draw(self, codes: Ints, shares: Floats, generator: Rng) -> Ints:
        """Draw a count within the bucket of every row."""
        steps = np.append(0.0, np.cumsum(self.law(shares)))
        at = codes + generator.random(len(codes))
        counts = np.searchsorted(steps, at, side="right") - 1
        return np.clip(counts, np.array(self.lower)[codes], self.ends[codes])


#: Buckets of the number of rows with one key: of any key, and of a unique one.
MANY = CountBuckets(
    (0, 1, 2, 3, 4, *(2**k + 1 + half for k in range(2, 15) for half in (0, 2 ** (k - 1))), 32769),
    65536,
)
ONE = CountBuckets((0, 1), 1)


def with_mean(shares: Floats, means: Floats, mean: float) -> Floats:
    """Return shares of buckets so changed that the mean count is ``mean``.

    Shares of positive counts are multiplied by a power of their bucket's mean. The share of 0
    stays, as far as the mean can be reached with it.
    """
    positive_share = shares[1:].sum()
    if positive_share <= 0 or mean <= 0:
        return np.append(1.0, np.zeros(len(shares) - 1))
    lowest, highest = -3.0, 3.0
    base = np.log(np.maximum(means[1:], 1.0))
    for _ in range(50):
        power = (lowest + highest) / 2
        positive = shares[1:] * np.exp(power * (base - base.max()))
        positive *= positive_share / max(positive.sum(), 1e-300)
        if float(positive @ means[1:]) > mean:
            highest = power
        else:
            lowest = power
    factor = mean / max(float(positive @ means[1:]), 1e-300)
    positive = positive * min(factor, 1.0 / positive_share)
    return np.append(max(1.0 - positive.sum(), 0.0), positive)


@cache
def family() -> tuple[Floats, Floats, Floats]:
    """Return the distributions of positive counts that estimates are chosen from.

    These are discretised log-normal laws, and power laws with an exponential cut-off. Returned are
    their log priors, shape (laws,), which are lower for log-normal laws of a larger spread; their
    shares of the buckets of `MANY` above 0, shape (laws, buckets − 1); and their mean counts, shape
    (laws,).
    """
    low, high = np.log(np.array(MANY.lower[1:]) - 0.5), np.log(MANY.ends[1:] + 0.5)
    middle, width = np.exp((low + high) / 2), np.exp(high) - np.exp(low)
    raw = [
        (-(s**2) / 2, normal_below((high - mu) / s) - normal_below((low - mu) / s))
        for mu in np.arange(-1.5, 9.6, 0.25)
        for s in (0.08, 0.15, 0.3, 0.5, 0.8, 1.1, 1.5, 2.0)
    ]
    raw += [
        (-0.5, (middle + shift) ** -power * np.exp(-middle / cut) * width)
        for power in np.arange(0.6, 3.3, 0.3)
        for shift in (0, 1, 4, 16)
        for cut in (10, 30, 100, 300, 1000, 3000, 10000)
    ]
    shapes = np.array([shape / shape.sum() for _, shape in raw if shape.sum() > 1e-3])
    priors = np.array([prior for prior, shape in raw if shape.sum() > 1e-3])
    means = shapes @ middle
    return priors, shapes, means


def rows_per_unit(
    noisy: Floats, sd: float, units: float, law: Noise, totals: Sequence[Measured]
) -> tuple[Floats, float, float]:
    """Estimate the histogram of units by their number of rows, and the total of rows.

    The units per bucket of `MANY` sum to the number of units. The total is exp of the posterior
    mean of its logarithm, plus rows of clear buckets. With them come the log posterior odds that
    there are rows at all, at equal prior odds.

    The histogram is shrunk to the posterior mean of a family of laws. The family includes laws that
    end in any bucket: without these, shapes that the noise cannot rule out would give tables of few
    units some units of thousands of rows. ``noisy`` are units per bucket of `MANY`, of which bucket
    0 is not used, and ``totals`` noisy numbers of rows, clipped per unit.
    """
    prior, shapes, means = family()
    prior = prior - LARGE * np.log(means)
    amounts = np.geomspace(1.0, max(units, 2.0), 40)[None, :, None]
    middle = (np.array(MANY.lower[1:]) + MANY.ends[1:]) / 2
    cumulative, rows = np.cumsum(shapes, axis=1), np.cumsum(shapes * middle, axis=1)
    beforehand = np.where(cumulative > REACHED, prior[:, None], -np.inf)
    clipped = [
        (np.cumsum(shapes * np.minimum(middle, most), axis=1), total, noise)
        for most, total, noise in map(_of_total, totals)
    ]
    empty = cell_fits(noisy[1:], np.zeros(len(middle)), sd)
    empty_totals = sum(cell_fits(total, np.zeros(1), noise) for _, total, noise in clipped)
    fit = np.empty((len(shapes), amounts.size, len(middle)))
    for start in range(0, len(shapes), BLOCK):
        # Likelihoods for all end buckets at once: buckets up to the end have the expected counts,
        # all others 0.
        part = slice(start, start + BLOCK)
        cells = cell_fits(noisy[1:], amounts * shapes[part, None, :], sd)
        cells -= empty
        np.cumsum(cells, axis=2, out=fit[part])
        for rows_of, total, noise in clipped:
            fit[part] += cell_fits(total, amounts * rows_of[part, None, :], noise)
        fit[part] += beforehand[part, None, :] - empty_totals
    weight, best = posterior(fit), int(fit.argmax())
    # By Bayes' rule, evidence = likelihood · prior / posterior, evaluated at the maximum.
    evidence = float(fit.flat[best]) - log(float(weight.flat[best]))
    odds = evidence - log(amounts.size * float(np.exp(beforehand).sum()))
    by_amount = np.einsum("sae,a->se", weight, amounts.ravel())
    going_on = by_amount[:, ::-1].cumsum(axis=1)[:, ::-1]
    prediction = (going_on * shapes).sum(axis=0)
    estimate = shrink(noisy[1:], sd, prediction, law)
    # A bucket that stands clear of the noise is counted even if no shape of the family has it.
    clear = noisy[1:] > CLEAR[law] * sd
    estimate = np.where((prediction < 0.02 * sd) & ~clear, prediction, estimate)
    mean = float((weight.sum(axis=1) * np.log(np.maximum(rows, TINY))).sum())
    mean += float(weight.sum(axis=(0, 2)) @ np.log(amounts.ravel()))
    estimate *= min(1.0, units / max(estimate.sum(), 1e-9))
    all_rows = exp(mean) + float((estimate - prediction)[clear] @ middle[clear])
    start = _tail_start(noisy[1:], sd)
    if start:
        estimate[start + TAIL :] = _tail(noisy[1:], sd, estimate, start, totals)[TAIL:]
        all_rows = float(estimate @ middle)
    estimate = np.append(max(units - estimate.sum(), 0.0), estimate)
    # Laws are not wrong about rows in buckets of one count that are clear of the noise.
    measured = clear & (np.array(MANY.lower[1:]) == MANY.ends[1:])
    hidden = max(all_rows - float(estimate[1:][measured] @ middle[measured]), 0.0)
    error = hypot(MISFIT * hidden, sd * float(np.linalg.norm(middle[measured])))
    return estimate, _with_totals(all_rows, error / all_rows, estimate, totals), odds


def _of_total(item: Measured) -> tuple[int, float, float]:
    """The clip of a total, its noisy value, and the standard deviation of its noise."""
    assert isinstance(item.query, Total)
    return item.query.clip, item.counts.item(), item.sd


def _tail_start(noisy: Floats, sd: float) -> int:
    """The bucket above 0 at which the tail begins, or 0 if too little of the law is clear."""
    hidden = np.flatnonzero(noisy <= SURE * sd)
    start = max(int(hidden[0]) - TAIL, 0) if len(hidden) else 0
    return start if noisy[start:].sum() < UPPER * noisy.sum() else 0


@cache
def _tails(start: int) -> Floats:
    """Power laws that are cut off, over the buckets above 0 from ``start`` on; sums are 1."""
    low, high = np.array(MANY.lower[start + 1 :]) - 0.5, MANY.ends[start + 1 :] + 0.5
    middle = np.sqrt(low * high) / low[0]
    raw = [
        middle ** -(power + 1.0) * np.exp(-middle / cut) * (high - low)
        for power in np.arange(0.2, 4.01, 0.2)
        for cut in (1.5, 3, 6, 12, 25, 50, 100, 200, 1000)
    ]
    shapes = np.array(raw)
    return np.asarray(shapes / shapes.sum(axis=1, keepdims=True))


def _tail(
    noisy: Floats, sd: float, units: Floats, start: int, totals: Sequence[Measured]
) -> Floats:
    """Units per bucket from ``start`` on, by power laws that continue the last clear buckets.

    One shape for all counts is ruled by the many units of few rows, and its tail is theirs. What
    clipped totals have beyond the ``units`` of the buckets before is the tail's.
    """
    middle = (np.array(MANY.lower[1:]) + MANY.ends[1:]) / 2
    shapes, size = _tails(start), max(float(noisy[start : start + TAIL + 1].sum()), sd)
    expected = size * np.exp(np.linspace(-0.8, 0.8, 33))[:, None] * shapes[:, None, :]
    fit = cell_fits(noisy[start:], expected, sd, CURVED).sum(axis=2)
    for most, total, noise in map(_of_total, totals):
        if most > 2 * MANY.lower[start + 1]:
            clipped = np.minimum(middle, most)
            error = hypot(noise, sd * float(np.linalg.norm(clipped[:start])))
            rest = total - float(units[:start] @ clipped[:start])
            fit += cell_fits(rest, expected @ clipped[start:], error, SUMMED)
    fit -= LONG * np.log(expected @ middle[start:] ** 2)
    return np.asarray(np.einsum("sa,sab->b", posterior(fit), expected))


def _with_totals(rows: float, misfit: float, units: Floats, totals: Sequence[Measured]) -> float:
    """Combine two estimates of the number of rows, by an inverse-variance mean of logarithms.

    The best clipped total lacks the rows beyond its clip; the histogram shows about half of these.
    ``misfit`` is the relative error of ``rows``, so that precise totals outweigh it.
    """
    best, least = rows, np.inf
    parts = [_of_total(item) for item in totals]
    tails = tail_rows(units, [most for most, _, _ in parts]).tolist()
    for (_, total, noise), beyond in zip(parts, tails, strict=True):
        error = hypot(noise, 0.5 * beyond) / max(total + beyond, 1.0)
        if error < least:
            best, least = total + beyond, error
    if least > IMPRECISE:
        return rows
    first, second = max(misfit, TINY) ** -2, max(least, TINY) ** -2
    return exp((first * log(max(rows, TINY)) + second * log(best)) / (first + second))


def tail_rows(units: Floats, bounds: Sequence[int]) -> Floats:
    """Return Σ max(n − C, 0) over units, for each bound C, from units per bucket of `MANY`."""
    means = MANY.means(units / max(units.sum(), 1e-9))
    return np.maximum(means - np.array(bounds, np.float64)[:, None], 0.0) @ units


def best_clip(units: Floats, rows: float, sd: float) -> int:
    """Return the contribution bound C with the least squared error from noise and from clipping.

    The noise has a standard deviation of C·sd; clipping loses about half of the rows beyond C.
    Bounds whose noise would exceed the number of rows are left out: the expected rows beyond C may
    all come from an unlikely shape, of few units with very many rows.
    """
    options = [int(end) for end in MANY.ends[1:24] if end * sd <= max(rows, sd)]
    losses = (np.array(options) * sd) ** 2 + (0.5 * tail_rows(units, options)) ** 2
    return options[int(losses.argmin())]


def contributed(units: Floats, most: float) -> float:
    """Return Σ min(n, most) over units, from units per bucket of `MANY`."""
    means = MANY.means(units / max(units.sum(), 1e-9))
    return float(units @ np.minimum(means, most))


def references_per_target(
    noisy: Floats,
    sd: float,
    mean: float,
    weight: float,
    kept: float,
    scale: int,
    owned: bool,
    targets: Sequence[tuple[float, float, float]],
) -> Floats:
    """Estimate how many references lead to a target, as shares of targets per bucket of `MANY`.

    Two explanations are compared by their likelihood: every reference chooses its target at random
    (Poisson), or the counts follow the laws of `family`. The second is taken if it is at least as
    likely. With a stricter condition, a log likelihood greater by 4, the links of the database
    stats5 would be taken for random (Q-error 2.41 instead of 2.28).

    Args:
        noisy: Noisy weight of targets in every bucket of `FanIn`, bucket 0 included.
        sd: Standard deviation of its noise.
        mean: Mean number of references per target.
        weight: Weight of all targets together.
        kept: Share of the references that the measurement counts.
        scale: The scale s of `FanIn`.
        owned: Whether targets have an owner, so that their weights may differ.
        targets: Of some parts of the targets: the part's share of the targets, its share of the
            references by a noisy marginal, and the standard deviation of the latter.
    """
    prior, shapes, means = family()
    counts = np.linspace(np.array(MANY.lower), MANY.ends, 7)
    level = np.minimum(np.log2(1.0 + kept * counts / scale), len(noisy) - 1.0)
    below = np.floor(level).astype(np.int64)
    above = np.minimum(below + 1, len(noisy) - 1)
    spread = np.zeros((MANY.size, len(noisy)))
    for step in range(len(counts)):
        at = np.arange(MANY.size)
        np.add.at(spread, (at, below[step]), (1.0 - level[step] + below[step]) / len(counts))
        np.add.at(spread, (at, above[step]), (level[step] - below[step]) / len(counts))
    shares = np.minimum(mean / means, 1.0)[:, None] * shapes
    laws = np.column_stack([1.0 - shares.sum(axis=1), shares])
    # Owned targets may be in units of many rows and so weigh less than others: their total is left
    # free.
    measured = slice(1 if owned else 0, None)
    likely = cell_fits(noisy[measured], (weight * laws @ spread)[:, measured], sd).sum(axis=1)
    likely += _room(laws, targets) + prior - 0.5 * np.log(means)
    likely[(mean > means) & (means < means.max())] = -np.inf
    # The last bucket holds all counts beyond the largest.
    random = _by_chance(min(mean, MANY.lower[-1]))
    # Weights that targets may have, relative to the mean of all rows, if references are random.
    visible = np.array((1.0, 0.5, 0.25, 0.1, 0.03) if owned else (1.0,))
    chance = weight * (random @ spread) * visible[:, None]
    by_chance = cell_fits(noisy[measured], chance[:, measured], sd).sum(axis=1).max()
    by_chance += _room(random[None], targets)[0]
    if likely.max() < float(by_chance):
        return np.asarray(random / random.sum())
    return np.asarray(posterior(likely) @ laws)


def _by_chance(mean: float) -> Floats:
    """The probability of every bucket of `MANY` under a Poisson law of this mean."""
    count = np.arange(MANY.top + 1.0)
    logs = count * log(max(mean, TINY)) - np.append(0.0, np.cumsum(np.log(count[1:])))
    return np.add.reduceat(np.exp(logs - mean), np.array(MANY.lower))


def _room(laws: Floats, targets: Sequence[tuple[float, float, float]]) -> Floats:
    """Log likelihood of laws given shares of the references that parts of the targets have.

    A part has at most the share at the upper end of the law's Lorenz curve; the part that is
    furthest beyond it counts.
    """
    middle = (np.array(MANY.lower) + MANY.ends) / 2
    above = laws[:, ::-1].cumsum(axis=1)[:, ::-1] - laws
    worst, mean = np.zeros(len(laws)), np.maximum(laws @ middle, TINY)
    for part, share, noise in targets:
        most = np.clip(part - above, 0.0, laws) @ middle / mean
        worst = np.maximum(worst, (share - most) / noise)
    return -0.5 * worst**2
