"""The one-way marginals of columns: their measurement, smoothing, tails and wide domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import pi, sqrt

import numpy as np

from privbench.arrays import Floats, Mask
from privbench.domain import Domain
from privbench.learning.answers import Measured, measured
from privbench.learning.denoise import CLEAR, SURE, Noise
from privbench.learning.graphical.columns import ModelColumn
from privbench.learning.graphical.estimate import (
    MISFIT,
    TINY,
    log_likelihood,
    lowered,
    posterior,
    shrink,
)
from privbench.privacy import Measurement, Session
from privbench.privacy.queries import NormedHistogram

#: Least expected count, in standard deviations of the noise, of NULL and of every other cell
#: without a rule of its own. At a tenth of it counts that noise hides are lost, and queries for
#: NULL or rare labels find nothing in trees of few units.
UNSEEN = 0.3
#: Number of cells before the end of a released range from which, with those beyond it, the law of
#: the tail is estimated.
BEFORE = 20
#: Prior odds of a column that ends with its released range against one that goes on. At 10: values
#: beyond twice the range in .10 for .07 of 374 columns; sums of stats5 are off by .25 for .26.
ENDED = 30.0
#: Least expected count of an ordinary cell, in standard deviations of the noise. Half or double: no
#: change.
ABSENT = 0.03
#: If the median lies in the last cell of a range, no law of a tail can be estimated, and every cell
#: beyond the range is expected to have this part of the count before it. At 1: distances are off by
#: e^.70 for e^.59 (231 columns); at 0.5: no change.
FALL = 0.7
#: An ordered column ends where fewer units than this, and a smaller part of all, are expected from
#: there on. At 2 units: values beyond twice the range in .06 for .07 of 374 columns, but sums of
#: stats5, which has the heaviest tails, are off by .26 for .25; at .5: .10.
NOBODY, NEARLY_ALL = 1.0, 0.01
#: A one-way of more ordered cells than this is estimated as a tree. Without, `capital_gain` in
#: 100,000 cells is off by .79 for .03 (total variation of 24 parts, noise 10), `duration` in 3,880
#: by .23 for .08. At 64: `age` in 78 cells is off by .057 for .044 (noise 30). Double: not
#: measured.
WIDE = 512
#: Standard deviations of the kernels of a local mean, in cells, and of the region in which their
#: errors are compared. At 24 or 96: divergences of 221 columns 1 to 4 % larger.
WIDTHS, REGION = (0.7, 1.5, 3.0, 6.0, 12.0, 48.0), 48.0
#: Share of the errors of a region that count as independent, since the means of neighbouring cells
#: have most terms in common. At .1: divergences 3 % larger at high noise; at 1: cells off by 2 %
#: more.
APART = 0.3
#: Widths of bell-shaped curves (`_bells`), as parts of all cells. Without them divergences of 221
#: columns are 4 to 12 % larger; with more than twice as many widths and centres 1 % smaller at
#: most.
BELLS = np.array([0.06, 0.12, 0.25, 0.5, 10.0])


def smooth(noisy: Floats, sd: Floats, law: Noise, ordered: bool) -> Floats:
    """Return the expected count of each cell: the mean of cells around it, or of all if unordered.

    A cell far above that mean (`CLEAR`) is left out of the mean and expected as measured: a round
    number or a frequent label says nothing about other cells.
    """
    plain, least = np.ones(len(noisy), bool), CLEAR[law] * sd
    while True:
        expected, others = _local_mean(noisy, plain, float(np.max(sd)), law, ordered)
        clear = plain & (noisy - others > least)
        if not clear.any() or clear.sum() == plain.sum():
            return np.where(plain, expected, noisy)
        plain &= ~clear


def _local_mean(
    noisy: Floats, plain: Mask, sd: float, law: Noise, ordered: bool
) -> tuple[Floats, Floats]:
    """The mean of the plain cells around each cell, first with that cell and then without it.

    ``plain`` says which cells are not far above the others. Unordered cells all have the mean of
    all plain ones. For ordered cells the mean is an average of several estimates: by kernels of
    several widths, and by the posterior mean of bell-shaped curves (better with few, noisy cells).
    Estimates are weighted by the likelihood of their leave-one-out errors in the cell's region,
    since steep counts need a narrow kernel and a long tail a wide one.
    """
    if not ordered:
        mean = np.full(len(noisy), noisy[plain].mean())
        return mean, mean
    bells, fits = _bells(noisy, plain, sd, law)
    means = [posterior(fits.sum(axis=1)) @ bells]
    without = fits.sum(axis=1, keepdims=True) - fits
    weight = np.exp(without - without.max(axis=0))
    others = [(weight * bells).sum(axis=0) / weight.sum(axis=0)]
    shape, plain_counts = plain.astype(np.float64), np.where(plain, noisy, 0.0)
    for width in WIDTHS:
        if width <= len(noisy):
            counts, cells = _around(plain_counts, width), _around(shape, width)
            itself = shape * _around(np.eye(1, len(noisy), len(noisy) // 2)[0], width).max()
            means.append(counts / np.maximum(cells, TINY))
            others.append((counts - itself * noisy) / np.maximum(cells - itself, TINY))
    errors = np.array([_around(shape * (noisy - other) ** 2, REGION) for other in others])
    least = np.maximum(errors.min(axis=0), TINY)
    number = APART * min(float(shape.sum()), 2 * sqrt(pi) * REGION)
    weight = np.exp(-number / 2 * (errors - least) / least)
    weight /= weight.sum(axis=0)
    return (weight * means).sum(axis=0), (weight * others).sum(axis=0)


def _bells(noisy: Floats, plain: Mask, sd: float, law: Noise) -> tuple[Floats, Floats]:
    """Expected counts of bell-shaped curves over the cells and their fits to each cell's count.

    Both have the shape (curves, cells). Curves are scaled to the sum of the plain cells, and other
    cells have a fit of 0.
    """
    shapes = _shapes(len(noisy))
    total = max(float(noisy[plain].sum()), sd)
    shapes = shapes * (total / shapes[:, plain].sum(axis=1, keepdims=True))
    spread = np.hypot(sd, 2 * MISFIT * shapes)
    return shapes, plain * (log_likelihood(noisy - shapes, spread, law) - np.log(spread))


@lru_cache(maxsize=16)
def _shapes(cells: int) -> Floats:
    """Normal and Laplace densities of many centres and widths, shape (densities, cells)."""
    place = (np.arange(cells) + 0.5) / cells
    far = np.abs(place - np.linspace(-0.25, 1.25, 16)[:, None, None]) / BELLS[:, None]
    densities = np.stack([np.exp(-far * far / 2), np.exp(-far)])
    return np.asarray(np.maximum(densities, 1e-6).reshape(-1, cells))


def _around(values: Floats, width: float) -> Floats:
    """Sums of values around every cell, by a Gaussian kernel."""
    reach = int(4 * width + 0.5)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(values, kernel / kernel.sum())[reach : reach + len(values)]


def _tail(noisy: Floats, edges: Sequence[int] | None, high: int, sd: float, law: Noise) -> Floats:
    """Expected counts of the cells beyond a released range, from the noisy cells around its end.

    The law is in "The one estimator" of ``docs/method.md``. A cell's prediction is the exponential
    of the posterior mean of its logarithm, since the plain mean is ruled by the heaviest tail,
    times the probability that the column goes on so far. ``edges`` are the first point of every
    cell and one past the last, or None for equal widths; ``high`` is the first cell beyond the
    range, from where on counts are given.
    """
    sums = np.cumsum(np.maximum(noisy[:high], 0.0))
    middle = int(np.searchsorted(sums, sums[-1] / 2)) if high else 0
    points = range(len(noisy) + 1) if edges is None else edges
    # Python's integers: edges of a bigint are further apart than int64 holds.
    far = np.array([abs(point - points[middle]) for point in points[middle:]], np.float64)
    start = max(min(high - BEFORE, len(noisy) - 2), middle + 1)
    ends = np.log1p(far / max(far[1], 1.0))[start - middle :]
    if len(ends) < 3 or start >= high:
        return np.asarray(ABSENT * sd * FALL ** np.arange(len(noisy) - high))
    widths = np.maximum(np.diff(ends), 1e-9)
    place = ((ends[1:] + ends[:-1]) / 2 - ends[0]) / (ends[-1] - ends[0])
    levels, slopes = np.linspace(-1.0, 2.0, 13), np.linspace(-24.0, 4.0, 29)
    curves = np.append(0.0, np.geomspace(1.0, 32.0, 6))
    shapes = levels[:, None, None, None] + slopes[:, None, None] * place
    shapes = (shapes - curves[:, None] * place**2).reshape(-1, len(place))
    near = slice(0, high - start)
    level = max(float(noisy[start:high].sum()), sd) / float(widths[near].sum())
    shapes = np.maximum(level * widths * np.exp(shapes), TINY * sd)
    spread, tail = np.hypot(sd, MISFIT * shapes), slice(high - start, None)
    fit = log_likelihood(noisy[start:] - shapes, spread, law) - np.log(spread / sd)
    fit -= log_likelihood(noisy[start:], sd, law)
    ended = np.insert(np.cumsum(fit[:, tail], axis=1), 0, 0.0, axis=1)
    ended += fit[:, near].sum(axis=1, keepdims=True)
    ended[:, 1:] -= np.log(ENDED * (ended.shape[1] - 1.0))
    weight = posterior(ended)
    expected = np.exp(weight.sum(axis=1) @ np.log(shapes[:, tail]))
    return np.asarray(expected * weight.sum(axis=0)[::-1].cumsum()[::-1][1:])


def one_way(
    noisy: Floats,
    sd: float | Floats,
    domain: Domain,
    law: Noise,
    total: float | None = None,
    *,
    ordered: bool = False,
    norms: bool = False,
) -> Floats:
    """Return the shares of a column's cells from its noisy histogram; shape (cells,), sum 1.

    ``sd`` is one number or one per cell. All cells are shrunk to a prediction, with a known sum if
    there is one; more than `WIDE` cells of an ordered domain are estimated by `halves` instead.
    ``ordered`` are cells that follow one another in time although the domain has no order. See "The
    one estimator" in ``docs/method.md``. ``norms`` says that the histogram counts units by norms
    and was divided by a factor. Then the total less one cell is no measurement of the other cells,
    since a unit's norm hides a few rows of other cells, and the factor hides the rest.
    """
    sd, most = np.broadcast_to(sd, noisy.shape), float(np.max(sd))
    prediction = np.maximum(noisy, UNSEEN * sd)
    for name in domain.specials:
        # An infinite, empty or very distant value breaks sums, averages and keys, so it needs a
        # count that is surely not noise. Labels beyond a list need none.
        cell = domain.special_code(name)
        if name != "other":
            clear = noisy[cell] > SURE * sd[cell]
            prediction[cell] = noisy[cell] if clear else TINY * sd[cell]
    low, high = domain.core or (0, domain.values)
    wide = domain.ordered and high - low > WIDE
    if high - low > 1 and not wide:
        part = noisy[low:high]
        prediction[low:high] = np.maximum(
            smooth(part, sd[low:high], law, domain.ordered or ordered), ABSENT * most
        )
    inner, edges = noisy[: domain.values], domain.edges
    if high < domain.values:
        prediction[high : domain.values] = _tail(inner, edges, high, most, law)
    if low > 0:
        back = edges if edges is None else edges[::-1]
        prediction[:low] = _tail(inner[::-1], back, domain.values - low, most, law)[::-1]
    place = np.arange(len(noisy))
    core = (place >= low) & (place < high)
    rest = ~core if wide else np.ones(len(noisy), bool)
    counts = np.empty(len(noisy))
    counts[rest] = shrink(noisy[rest], sd[rest], prediction[rest], law, None if wide else total)
    # Else noise in a cell far out could be most of its group and get all rows of a heavy tail.
    outer = ~core & (place < domain.values) & (noisy < SURE * sd)
    counts[outer] = np.minimum(counts[outer], prediction[outer])
    if wide:
        known_sum = float(noisy.sum()) if total is None else total
        left = max(known_sum - float(counts[rest].sum()), most)
        counts[low:high] = halves(noisy[low:high], sd[low:high], left)
    counts = lowered(counts, noisy, sd, law, None if norms else total)
    inner, few = counts[: domain.values], min(NOBODY, NEARLY_ALL * float(counts.sum()))
    for end in (inner, inner[::-1]) if domain.ordered else ():
        end[np.cumsum(end) < few] = 0.0
    return np.asarray(counts / counts.sum())


def halves(noisy: Floats, sd: Floats, total: float) -> Floats:
    """Estimate the counts of very many ordered cells, by dividing their total by repeated halving.

    This is the Haar wavelet with a normal prior for each level (Clyde, Parmigiani and Vidakovic
    1998): each half's share of the count is shrunk towards its share of the cells. The variance of
    the prior is estimated from all halves of a level, by the method of moments. Cells whose noisy
    count exceeds what noise alone gives among so many cells keep it as measured. The counts sum to
    about the total. ``sd`` is the noise of each cell; sums have the largest.
    """
    heavy, most = noisy > sd * (1.0 + np.sqrt(2.0 * np.log(len(noisy)))), float(np.max(sd))
    total = max(total - float(noisy[heavy].sum()), most)
    size = 1 << (len(noisy) - 1).bit_length()
    padded = np.zeros((2, size))
    padded[0, : len(noisy)], padded[1, : len(noisy)] = np.where(heavy, 0.0, noisy), ~heavy
    levels = [padded]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1].reshape(2, -1, 2).sum(axis=2))
    sums = np.array([total])
    for counts, cells in reversed(levels[:-1]):
        count, cell = counts.reshape(-1, 2), cells.reshape(-1, 2)
        part = cell[:, 0] / np.maximum(cell.sum(axis=1), 1.0)
        off = count[:, 0] - part * count.sum(axis=1)
        noise = most * most * cell.sum(axis=1) * part * (1.0 - part) + TINY
        spread = sums * sums * part * (1.0 - part)
        weight = spread / noise**2
        prior = float((weight * (off * off - noise)).sum()) / max(float(weight @ spread), TINY)
        spread *= min(max(prior, 0.0), 1.0)
        left = np.clip(sums * part + off * spread / (spread + noise), 0.0, sums)
        sums = np.stack([left, sums - left], axis=1).ravel()
    return np.where(heavy, noisy, sums[: len(noisy)])


def measured_one_ways(
    session: Session,
    asked_columns: Sequence[tuple[ModelColumn, Measurement]],
    factor: float,
    weight: float,
    law: Noise,
) -> dict[str, Measured]:
    """Measure the one-way marginals of a table's columns, as weights; return them by column.

    The amounts in ``asked_columns`` are multiplied by ``factor``; ``weight`` is that of all rows of
    the table.
    """
    questions = [
        replace(question, amount=question.amount * factor) for _, question in asked_columns
    ]
    one_ways = {}
    for (column, _), answer in zip(asked_columns, measured(session, questions), strict=True):
        if isinstance(answer.query, NormedHistogram):
            answer = answer.in_weight(
                one_way(answer.counts, answer.sd, column.domain, law) * weight
            )
        one_ways[column.name] = replace(answer, sd=np.full(len(answer.counts), answer.sd))
    return one_ways
