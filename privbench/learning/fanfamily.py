"""Fan-out laws for few parents: a small family, weighed by how well it explains what was released.

Where a histogram of parents by number of children is mostly noise, taking it cell by cell either
loses the children (cells that do not stand out) or invents them (cells that do by chance). A family
of plain laws under a likelihood uses all cells and the noisy total together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri, pdtr

from privbench.learning.denoise import Floats, Noise, log_likelihoods, scale_of

Ints = NDArray[np.int64]

#: Mean number of children of parents that may have some, spread of their rates, share of parents
#: that have none for another reason.
_MEANS = np.geomspace(0.02, 3000.0, 96)
_SPREADS = (0.2, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5)
#: Spreads of rates that are rounded to counts instead: all parents have about as many children.
_EVEN_SPREADS = (0.0, 0.2, 0.5)
_ZEROS = (0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.87, 0.92, 0.95, 0.97, 0.985, 0.995, 0.999)
#: Exponents and cut-offs of power laws, and their shares of parents without children. Below 1 most
#: children belong to parents near the cut-off.
_EXPONENTS = (0.3, 0.6, 0.8, 1.0, 1.2, 1.5, 1.8, 2.2)
_CUTS = (10.0, 30.0, 100.0, 200.0, 400.0, 1e3, 3e3, 1e4)
_POWER_ZEROS = 1.0 - np.geomspace(1e-4, 0.95, 28)
#: A mean over all parents is less likely beforehand by this power of its distance from one child:
#: without evidence no clone grows giants, and no table vanishes either.
_MEAN_PRIOR = 0.5
#: Equally likely values of a standard normal variable.
_NORMAL = ndtri((np.arange(64) + 0.5) / 64)
#: Laws that count have means between these factors of the posterior's median.
_NEAR, _FAR = 1.6, 0.75


def masses(mean: float, spread: float, starts: Ints, ends: Ints) -> Floats:
    """Masses of buckets for Poisson counts whose rates are lognormal with a mean.

    Args:
        mean: Mean count.
        spread: Standard deviation of the rates' logarithm.
        starts: First count of every bucket.
        ends: Last count of every bucket; the last bucket takes all that is more.
    """
    below = pdtr(ends[:, None], _rates(max(mean, 1e-6), spread))
    return _between(below.mean(axis=1))


def even_masses(mean: float, spread: float, starts: Ints, ends: Ints) -> Floats:
    """Masses of buckets for lognormal rates, each rounded up or down to a count at random.

    Where a rule fixes how many children a parent has (three lines per order, one profile per
    person), counts vary less than Poisson ones.

    Args:
        mean: Mean count.
        spread: Standard deviation of the rates' logarithm.
        starts: First count of every bucket.
        ends: Last count of every bucket; the last bucket takes all that is more.
    """
    rates = _rates(mean, spread)
    low = np.floor(rates)
    # The share of rounded counts that are at most a bucket's last one.
    below = np.clip(np.where(low <= ends[:, None], 1.0 - (rates - low), 0.0), 0.0, 1.0)
    return _between(np.where(low + 1 <= ends[:, None], 1.0, below).mean(axis=1))


def _rates(mean: float, spread: float) -> Floats:
    """Equally likely lognormal rates with a mean, shape (64,)."""
    rates = np.exp(spread * _NORMAL)
    return np.asarray(rates * (mean / rates.mean()))


def _between(below: Floats) -> Floats:
    """Masses of buckets from the shares up to their ends; the last one takes the rest."""
    below[-1] = 1.0
    mass = np.maximum(np.diff(np.concatenate([[0.0], below])), 1e-12)
    return np.asarray(mass / mass.sum())


def buckets(bounds: tuple[int, ...]) -> tuple[Ints, Ints]:
    """First and last count of every bucket by their lower ends; the last bucket has no end.

    >>> [ends.tolist() for ends in buckets((0, 1, 2, 4))]
    [[0, 1, 2, 4], [0, 1, 3, 8]]
    """
    starts = np.array(bounds, np.int64)
    return starts, np.append(starts[1:] - 1, 2 * starts[-1])


def bucket_centres(starts: Ints, ends: Ints) -> Floats:
    """Number of children that stands for every bucket: the geometric middle."""
    return np.asarray(np.sqrt(np.maximum(starts, 0) * (ends + 1.0)), np.float64)


def posterior(
    noisy: Floats,
    sd: float,
    starts: Ints,
    ends: Ints,
    parents: float,
    target: tuple[float, float, float] | None,
    design: Floats | None = None,
    shades: tuple[Floats, Floats] | None = None,
    even: float = 0.0,
    more: Callable[[Floats], Floats] | None = None,
    noise: Noise = "laplace",
) -> tuple[Floats, float]:
    """Posterior mean of the masses of buckets, with the factor that explains cells best.

    Args:
        noisy: Noisy number of parents per bucket, shape (buckets,).
        sd: Standard deviation of that noise.
        starts: First count of every bucket.
        ends: Last count of every bucket.
        parents: Noisy number of parents, above 0.
        target: Noisy Σ min(count, clip) over all parents, the clip, and the noise's standard
            deviation.
        design: How much a parent of every bucket adds to every noisy cell, shape (cells, buckets);
            missing means that cells are buckets.
        shades: Factors on what parents add, if that is uncertain, and their log prior; masses are
            those under the factor that is likeliest over all laws.
        even: How much likelier even laws are beforehand: the power of E[x²]/E[x]² that is divided
            by.
        more: Log likelihood of laws, shape (laws, buckets), by what else was released.
        noise: Law of the noise.

    Returns:
        Masses, shape (buckets,), positive, summing to 1; the factor, 1 without ``shades``.
    """
    laws, prior = family(tuple(starts.tolist()), tuple(ends.tolist()))
    seen = laws if design is None else laws @ design.T
    factors, beliefs = shades or (np.ones(1), np.zeros(1))
    fits = log_fits(noisy, np.ascontiguousarray(seen), parents * factors, sd, noise)
    logs = prior.copy()
    if even:
        sizes = bucket_centres(starts, ends)
        logs = logs - even * np.log((laws @ sizes**2) / (laws @ sizes) ** 2)
    if target is not None:
        total, clip, total_sd = target
        middle = np.sqrt(np.maximum(starts, 0) * np.maximum(ends, 0).astype(np.float64))
        centre = np.minimum(middle, clip)
        explained = parents * (laws @ centre)
        # A law's mean is known no better than its buckets are wide.
        width = np.hypot(max(total_sd, 1e-9), 0.1 * explained)
        width = width / np.sqrt(2.0) if noise == "laplace" else width
        logs = logs + log_likelihoods((total - explained) / width, noise) - np.log(width)
    if more is not None:
        logs = logs + more(laws)
    each = logs + beliefs[:, None] + fits
    logs = np.logaddexp.reduce(each)
    weights = np.exp(logs - logs.max())
    weights *= _plausible(laws @ bucket_centres(starts, ends), weights)
    found = weights @ laws
    return found / found.sum(), float(factors[np.argmax(logsumexp(each, axis=1))])


def log_fits(noisy: Floats, seen: Floats, factors: Floats, sd: float, noise: Noise) -> Floats:
    """Log likelihood of noisy cells that are factor·seen, shape (factors, members).

    Args:
        noisy: Noisy counts, shape (cells,).
        seen: Masses of cells by every member, shape (members, cells).
        factors: Number of what is counted.
        sd: Standard deviation of the noise.
        noise: Law of the noise.
    """
    scale = scale_of(max(sd, 1e-9), noise)
    if noise == "laplace":
        return np.asarray(-_distances(noisy, seen, factors) / scale)
    return np.asarray(-0.5 * _squares(noisy, seen, factors) / scale**2)


def _squares(noisy: Floats, seen: Floats, factors: Floats) -> Floats:
    """Σ (noisy − factor·seen)² over cells, as `_distances`."""
    own, cross = np.einsum("ij,ij->i", seen, seen), seen @ noisy
    return np.asarray(noisy @ noisy - 2 * factors[:, None] * cross + factors[:, None] ** 2 * own)


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def _distances(noisy, seen, factors):  # type: ignore[no-untyped-def]
    """Σ |noisy − factor·seen| over cells, shape (factors, members); seen is (members, cells)."""
    members, cells = seen.shape
    found = np.empty((len(factors), members))
    for member in range(members):
        for place, factor in enumerate(factors):
            apart = 0.0
            for cell in range(cells):
                apart += abs(noisy[cell] - factor * seen[member, cell])
            found[place, member] = apart
    return found


def _plausible(means: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Laws whose mean is near the posterior's median.

    A law of thousands of children with a thousandth of the weight would otherwise rule the mean.
    """
    order = np.argsort(means)
    below = np.cumsum(weights[order])
    median = means[order[int(np.searchsorted(below, 0.5 * below[-1]))]]
    return np.asarray((means <= _NEAR * median) & (means >= _FAR * median))


def _belief(mean: float) -> float:
    """Log prior of a mean over all parents."""
    return float(-_MEAN_PRIOR * abs(np.log(mean)))


def _power_laws(starts: Ints, ends: Ints) -> list[Floats]:
    """Masses of buckets for counts from 1 on with density x^−a·e^(−x/c)."""
    counts = np.arange(1.0, min(int(ends[-1]), 2**17) + 1)
    laws = []
    for exponent in _EXPONENTS:
        for cut in _CUTS:
            below = np.concatenate([[0.0], np.cumsum(counts**-exponent * np.exp(-counts / cut))])
            last = np.minimum(ends, len(counts))
            first = np.minimum(np.maximum(starts, 1) - 1, len(counts))
            mass = np.maximum(below[last] - below[first], 1e-12)
            laws.append(mass / mass.sum())
    return laws


@lru_cache(maxsize=8)
def family(starts: tuple[int, ...], ends: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Masses of every member, shape (members, buckets), and its log prior."""
    first, last = np.array(starts, np.int64), np.array(ends, np.int64)
    nothing = (first == 0).astype(np.float64)
    rows, prior = [], []
    for mean in _MEANS:
        plain = [masses(float(mean), spread, first, last) for spread in _SPREADS]
        even = [even_masses(float(mean), spread, first, last) for spread in _EVEN_SPREADS]
        for law in plain + even:
            for zero in _ZEROS:
                rows.append(zero * nothing + (1.0 - zero) * law)
                prior.append(_belief((1.0 - zero) * mean))
    for law in _power_laws(first, last):
        mean = float(law @ bucket_centres(first, last))
        for zero in _POWER_ZEROS:
            rows.append(zero * nothing + (1.0 - zero) * law)
            prior.append(_belief((1.0 - zero) * mean))
    return np.array(rows), np.array(prior)
