"""Estimate counts from noisy histograms, by shrinkage and iterative proportional fitting.

Everything here is post-processing of released numbers. One estimator serves every histogram:
`shrink`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.learning.answers import Measured
from privbench.learning.denoise import CLEAR, PRESENT, SURE, Noise

#: Strata of cells by prediction / noise sd: upper end, and step of the grid of log ratios. Cells
#: far above the noise need a finer grid, since a step must not pass one sd; half or double the
#: steps: no change.
STRATA = ((0.3, 0.25), (1.0, 0.25), (3.0, 0.25), (10.0, 0.1), (40.0, 0.03))
#: Largest log ratio of a cell to its prediction on the grid; double: slower, no change.
REACH = 4.0
#: Prior sd of the log ratio; in references, prior sd of the power of a column's odds by which
#: shares of targets are multiplied. Half: true ratios above 3 are flattened; double: more noise is
#: kept.
RATIO_SD = 0.7
#: Weight of that prior, in cells, against the ratios that the cells of a stratum have themselves.
PRIOR_CELLS = 6.0
#: Rounds of expectation maximisation; half or double: no change within scatter on coded Adult.
EM_ROUNDS = 15
#: Most synthetic rows on which P(S) is counted, and most cells of a stratum from which its prior is
#: learned; a limit on time and memory. Half: no change within scatter; double: slower.
COUNTED = 60_000
#: Relative error that likelihoods allow every fitted shape, as no family of shapes is exact. Half:
#: a shape wins over cells that its family cannot have; double: sizes of trees of a few hundred
#: units scatter more. For associations it is doubled: else the many cells of ordinary rows outweigh
#: the few of a tail (stats5 2.40 for 2.32).
MISFIT = 0.15
#: Prior sd of the association of normal scores, ρ/(1 − ρ²) of a Gaussian copula. At 1.5: stats5
#: 2.41 for 2.34, within scatter.
POWER_SD = 4.0
#: Most sweeps of proportional fitting; it stops earlier once the error of all targets is `CLOSE`.
SWEEPS, CLOSE = 25, 0.01
#: Most rounds of Newton's method for a known sum, and the relative error at which it stops.
SUM_ROUNDS, CLOSE_SUM = 60, 1e-9
#: Least number of rows that cells which noise may have made are expected to hold together. At a
#: tenth: not measured.
LEAST = 0.3
#: Largest part of all rows that noise may hide in cells which are taken to be empty. At .1: numbers
#: of distinct values of 453 columns are off by .37 for .36; without a limit sums of f1, where three
#: of four drivers have no points, are off by 1.20 for 1.09.
SMALL = 0.2
#: Least cell of a fitted table, as a share of its sum.
TINY = 1e-12


def log_likelihood(distance: Floats, sd: float | Floats, law: Noise) -> Floats:
    """Return the log density, up to a constant, of noise with standard deviation ``sd``."""
    z = np.abs(distance) / sd
    return np.asarray(-np.sqrt(2.0) * z if law == "laplace" else -0.5 * z * z)


def shrink(
    noisy: Floats,
    sd: float | Floats,
    prediction: Floats,
    law: Noise,
    total: float | None = None,
) -> Floats:
    """Return posterior means, above 0, of counts c = m·r given noisy counts, of any shape.

    The prediction is m, at least 0, and r is the ratio of the true count to it. The prior of r is
    learned from the cells of one stratum of m/sd; see "The one estimator" in ``docs/method.md``.
    ``sd`` is the noise of all cells or of each. Cells whose prediction is far above the noise keep
    their measured count. A known ``total``, up to about the noise of one cell, corrects the counts
    (`_summing_to`).
    """
    y = noisy.ravel().astype(np.float64)
    m = np.maximum(prediction.ravel().astype(np.float64), 1e-9)
    sds, out, low = np.broadcast_to(sd, noisy.shape).ravel(), y.copy(), 0.0
    variance = sds * sds
    for high, step in STRATA:
        cells = np.flatnonzero((m >= low * sds) & (m < high * sds))
        low = high
        if len(cells):
            out[cells], variance[cells] = _posterior(y[cells], sds[cells], m[cells], step, law)
    out = np.maximum(out, 1e-3 * np.minimum(m, sds))
    if total is not None:
        out = _summing_to(total, out, variance, float(np.max(sd)))
    return np.asarray(out.reshape(noisy.shape))


def _summing_to(total: float, mean: Floats, variance: Floats, sd: float) -> Floats:
    """Posterior means of counts given their noisy sum, from their means and variances without it.

    If the sum is larger than that of the means, the posterior is taken as Gaussian; if smaller, as
    Gamma, under which no count becomes 0.
    """
    off = total - float(mean.sum())
    if off >= 0:
        return mean + off * variance / (float(variance.sum()) + sd * sd)
    steps, rate, counts = variance / mean, 0.0, mean
    # Newton's method on a falling convex function, started left of its root, never oversteps it.
    for _ in range(SUM_ROUNDS):
        counts = mean / (1.0 + rate * steps)
        over = float(counts.sum()) - total - rate * sd * sd
        if over <= CLOSE_SUM * total:
            break
        rate += over / (float((counts * counts / mean * steps).sum()) + sd * sd)
    return counts


def _posterior(y: Floats, sd: Floats, m: Floats, step: float, law: Noise) -> tuple[Floats, Floats]:
    """Posterior means and variances of the counts of one stratum."""
    logs = np.arange(-REACH, REACH + step / 2, step)
    ratios = np.append(0.0, np.exp(logs))
    start = np.append(0.0, np.exp(-0.5 * (logs / RATIO_SD) ** 2))
    start[0] = 0.02 * start.sum()
    start /= start.sum()

    def likelihood(cells: slice) -> Floats:
        like = log_likelihood(y[cells, None] - m[cells, None] * ratios, sd[cells, None], law)
        return np.asarray(np.exp(like - like.max(axis=1, keepdims=True)))

    def normalised(post: Floats) -> Floats:
        return np.asarray(post / (post.sum(axis=1, keepdims=True) + 1e-300))

    like = likelihood(slice(None, None, -(-len(y) // COUNTED)))
    prior = start
    for _ in range(EM_ROUNDS):
        post = normalised(like * prior)
        prior = (post.sum(axis=0) + PRIOR_CELLS * start) / (len(post) + PRIOR_CELLS)
    mean, square = np.empty(len(y)), np.empty(len(y))
    for first in range(0, len(y), COUNTED):
        part = slice(first, first + COUNTED)
        post = normalised(likelihood(part) * prior)
        mean[part], square[part] = m[part] * (post @ ratios), m[part] ** 2 * (post @ ratios**2)
    beyond = (y > m * ratios[-1]) & (y > SURE * sd)
    variance = np.where(beyond, sd * sd, square - mean**2)
    return np.where(beyond, np.maximum(y, mean), mean), np.maximum(variance, 0.0)


def lowered(
    counts: Floats, noisy: Floats, sd: float | Floats, law: Noise, total: float | None = None
) -> Floats:
    """Return counts in which cells that may be noise are lowered to the sum that the data support.

    The posterior mean of an empty cell is above 0, and the means of a hundred empty cells add up to
    more than their true sum. Two noisy measurements of this sum exist: a known total less the cells
    that are clear of the noise (`CLEAR`), whose noise is about that of a cell, and the sum of the
    cells' own noisy counts. A priori the sum is as likely to be 0 as to be log-uniform between
    `LEAST` and the sum of the cells' ``counts``. If it is more likely 0 than not, and otherwise at
    most `SMALL` of all rows, these cells become 0, so that a constant column stays constant; else
    they share the sum's posterior mean, given that it is above 0. Where no cell is clear of the
    noise, or the measurements show that other cells have rows, nothing changes.
    """
    sds = np.broadcast_to(sd, noisy.shape)
    clear = noisy > CLEAR[law] * sds
    rest = float(counts[~clear].sum())
    if not clear.any() or rest <= LEAST:
        return counts
    evidence, spread = noisy[~clear].sum(keepdims=True), float(np.linalg.norm(sds[~clear]))
    if total is not None:
        noise = np.append(sds[clear], np.max(sds[clear]))
        left = total - noisy[clear].sum(keepdims=True), float(np.linalg.norm(noise))
        evidence, spread = Measured(None, evidence, spread).join(Measured(None, *left))
    if evidence[0] > SURE * spread:
        return counts
    sums = np.append(0.0, np.geomspace(LEAST, rest, 200))
    fit = -0.5 * (evidence - sums) ** 2 / max(spread * spread, TINY)
    fit[0] += np.log(len(sums) - 1.0)
    weight = posterior(fit)
    none = weight[0] > 0.5 and PRESENT * spread < SMALL * float(counts.sum())
    lowered_sum = 0.0 if none else float(weight @ sums) / float(weight[1:].sum())
    return np.where(clear, counts, counts * (lowered_sum / rest))


def posterior(fit: Floats) -> Floats:
    """Return probabilities that sum to 1, from log likelihoods and log priors.

    Of the same shape.
    """
    weight = np.asarray(fit - fit.max())
    np.exp(weight, out=weight)
    weight /= weight.sum()
    return weight


def associate(
    noisy: Floats, sd: float, prediction: Floats, rows: Floats, columns: Floats
) -> Floats:
    """Return the prediction times exp(λ·row score·column score), raked to its margins.

    This is linear-by-linear association (Goodman 1979). λ is its posterior mean; a posterior mean
    of the tables would be a mixture of tables with and without association. A second λ for large
    values of both columns would fit noise in their few cells: the KLD of coded Adult would be .065
    instead of .040. Tables have shape (rows, columns); rows or columns with score 0 keep their
    shape.
    """
    if np.count_nonzero(rows) < 2 or np.count_nonzero(columns) < 2:
        return prediction
    steps, margins = np.outer(rows, columns), (prediction.sum(axis=1), prediction.sum(axis=0))
    powers = np.sinh(np.linspace(-2.1, 2.1, 29))
    tables = np.array([rake(prediction * np.exp(power * steps), *margins) for power in powers])
    fit = cell_fits(noisy, tables, sd, 2 * MISFIT).sum(axis=(1, 2))
    power = float(posterior(fit - 0.5 * (powers / POWER_SD) ** 2) @ powers)
    return rake(prediction * np.exp(power * steps), *margins)


def cell_fits(noisy: Floats | float, expected: Floats, sd: float, misfit: float = MISFIT) -> Floats:
    """Return the log likelihood of noisy cells, up to a constant; the arguments are broadcast.

    ``misfit`` is the relative error, beside the noise, of the shape that predicts ``expected``.
    """
    # Computed in place, because laws of sizes are tried against millions of cells.
    variance = np.asarray(misfit * expected)
    np.square(variance, out=variance)
    variance += sd * sd
    loss = np.asarray(noisy - expected)
    np.square(loss, out=loss)
    loss /= variance
    loss += np.log(variance, out=variance)
    loss *= -0.5
    return loss


def rake(table: Floats, rows: Floats, columns: Floats, sweeps: int = 12) -> Floats:
    """Return the table nearest to ``table`` in relative entropy with the given margins.

    All margins are at least 0.
    """
    raked = np.maximum(table, TINY)
    for _ in range(sweeps):
        raked = raked * (rows / np.maximum(raked.sum(axis=1), TINY))[:, None]
        raked = raked * (columns / np.maximum(raked.sum(axis=0), TINY))[None]
    return np.asarray(raked)


def conditional(
    parents: Floats, own: Floats, targets: Sequence[Floats], groups: Sequence[Ints]
) -> Floats:
    """Return the P(v | S) of greatest entropy that keeps P(S), P(v) and v's pairs with each of S.

    Iterative proportional fitting (Deming and Stephan 1940; Csiszár 1975): the joint table starts
    as P(S)·P(v) and is multiplied in turn by the ratio of each target to its margin.

    ``parents`` is P(S), one axis per parent, and ``own`` P(v) over its groups at the finest level
    that a target has. Each target is P(s, v) with v at a level of its own, and ``groups`` say which
    group of that level every finest group is in. The result has the shape of ``parents`` and one
    more axis, also where P(S) is 0.
    """
    weights = parents + TINY / parents.size
    weights = (weights / weights.sum())[..., None]
    joint = weights * own
    axes = tuple(range(parents.ndim))
    for _ in range(SWEEPS):
        worst = 0.0
        for place, (target, group) in enumerate(zip(targets, groups, strict=True)):
            one_hot = np.eye(target.shape[1])[group]
            margin = joint.sum(axis=tuple(axis for axis in axes if axis != place)) @ one_hot
            ratio = np.clip(target / np.maximum(margin, TINY), 1e-3, 1e3)
            worst = max(worst, float(np.abs(np.log(ratio[target > 1e-6])).max(initial=0.0)))
            shape = [1] * parents.ndim + [len(own)]
            shape[place] = parents.shape[place]
            joint *= (ratio @ one_hot.T).reshape(shape)
        joint *= own / np.maximum(joint.sum(axis=axes), TINY)
        joint *= weights / np.maximum(joint.sum(axis=-1, keepdims=True), 1e-300)
        if worst < CLOSE:
            break
    total = joint.sum(axis=-1, keepdims=True)
    conditioned = np.where(total > 1e-200, joint / np.maximum(total, 1e-300), own / own.sum())
    return np.asarray(conditioned)
