"""Noisy histograms of ordered codes, denoised: post-processing, free of charge.

Neighbouring counts resemble each other, except where they do not (spikes, round numbers). A hidden
Markov model over the logarithm of the count says so: the state walks from cell to cell, and with a
small probability a cell is a spike of its own. How smooth, how spiky, and whether every fifth cell
is a chain of its own, is not guessed but averaged over by likelihood, beside "all cells alike" and
"no order at all".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from privbench.learning.denoise import Floats, Noise, log_likelihoods
from privbench.learning.junction.passes import Evidence, Ints, Passes, Walks, likely

Bools = NDArray[np.bool_]

#: Cells this many noise scales above zero are taken as they are.
TRUSTED = 24.0
#: Noise scales above the largest noisy count that no count is beyond, but for e^−12 or less.
_REACH = 12.0
_PERIOD, _MOST_PERIODIC = 5, 400
#: Standard deviations of noise by which the sum of every fifth cell is off, to be looked at.
_OFF = 2.0
_JUMP = 0.02
_RATES = np.array([0.02, 0.1, 0.3, 0.6])
#: Settings that are less likely than this, against the likeliest, do not count.
_COUNTS = 1e-2


@dataclass(frozen=True, slots=True)
class _Cells:
    """What all settings share.

    Attributes:
        states: Counts that a cell may have, shape (states,).
        evidence: Likelihood of every state, 1 for trusted cells; likelihood of a cell under
            ``prior``, and its posterior by itself.
        prior: Law of the states, learned from all cells.
        smooth: The same, smoothed over neighbouring states.
        shift: Step of the log-count that widths alone explain, shape (cells,).
        apart: Of every `_PERIOD` cells, those that hold more or fewer rows than the others.
    """

    states: Floats
    evidence: Evidence
    prior: Floats
    smooth: Floats
    shift: Floats
    apart: tuple[int, ...]


def denoise_ordered(
    noisy: Floats, scale: float, total: float, noise: Noise, widths: Floats | None = None
) -> Floats:
    """Posterior mean of the counts of ordered cells, given their sum.

    Args:
        noisy: Noisy counts, shape (cells,).
        scale: Scale of the noise, above 0.
        total: Released sum, above 0.
        noise: Law of the noise.
        widths: Codes per cell; what is smooth is then the density. None means one each.

    Returns:
        Counts, non-negative, summing to ``total``.
    """
    trusted = noisy > TRUSTED * scale
    if trusted.all():
        return np.asarray(noisy * (total / noisy.sum()))
    most = min(total, max(float(noisy[~trusted].max()), 0.0) + _REACH * scale)
    states = _states(scale, most, fine=widths is None and len(noisy) <= 250)
    cells = _prepare(noisy, scale, noise, states, trusted, widths)
    posterior = _average(cells, trusted, noisy, scale, noise, total)
    return _tilt(posterior[~trusted], states, noisy, trusted, scale, noise, total)


def _states(scale: float, most: float, *, fine: bool) -> Floats:
    """Counts that a cell may have, up to about ``most``."""
    if fine:
        low = np.exp(np.linspace(log(0.001), log(0.5), 16))
        more = np.concatenate([np.arange(0.75, 6.01, 0.25), 6 * 1.05 ** np.arange(1, 34)])
    else:
        low = np.exp(np.linspace(log(0.004), log(0.5), 11))
        more = np.concatenate([np.arange(0.9, 6.01, 0.45), 6 * 1.09 ** np.arange(1, 20)])
    low = scale * low if most >= scale else most * low
    more = scale * more
    return np.concatenate([low, more[more <= most]])


def _prepare(
    noisy: Floats,
    scale: float,
    noise: Noise,
    states: Floats,
    trusted: Bools,
    widths: Floats | None,
) -> _Cells:
    logs = log_likelihoods((noisy[:, None] - states) / scale, noise)
    seen = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = likely(seen[~trusted])
    seen[trusted] = 1.0
    single = seen * prior
    alone = single.sum(axis=1)
    shift = np.zeros(len(noisy))
    if widths is not None:
        shift[1:] = np.clip(np.diff(np.log(widths)), -8.0, 8.0)
    narrow, wide = _walks(states, (0.4, 1.2))
    smooth = 0.5 * (prior @ narrow + prior @ wide)
    evidence = Evidence(seen, alone, single / alone[:, None])
    spread = scale if noise == "laplace" else scale / np.sqrt(2.0)
    return _Cells(states, evidence, prior, smooth, shift, _apart(noisy, np.sqrt(2.0) * spread))


def _apart(noisy: Floats, sd: float) -> tuple[int, ...]:
    """Remainders of cells whose sum is off by more than noise; only they can be a chain apart."""
    cells = len(noisy)
    if not 3 * _PERIOD <= cells <= _MOST_PERIODIC:
        return ()
    rests = np.arange(cells) % _PERIOD
    sizes = np.bincount(rests, minlength=_PERIOD)
    off = np.abs(np.bincount(rests, noisy, _PERIOD) - sizes * noisy.mean())
    seen = off > _OFF * sd * np.sqrt(sizes * (1.0 - sizes / cells))
    return tuple(np.flatnonzero(seen).tolist())


def _near(states: Floats, widths: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Normal steps of the log-count by width, (widths, states, states), and the states' spacing."""
    place = np.log(states)
    apart = (place[:, None] - place) / np.array(widths)[:, None, None]
    return np.exp(-0.5 * apart**2), np.gradient(place)


def _walks(states: Floats, widths: tuple[float, ...]) -> Floats:
    """Normal steps of the log-count, shape (widths, states, states); rows sum to 1."""
    near, spacing = _near(states, widths)
    return _rows(near * spacing)


def _rows(steps: Floats) -> Floats:
    return np.asarray(steps / steps.sum(axis=-1, keepdims=True))


def _free(near: Floats, spacing: Floats, prior: Floats) -> Floats:
    """Walks that keep no law."""
    return _rows((near + 1e-4 * prior) * spacing)


def _reversible(near: Floats, spacing: Floats, smooth: Floats) -> Floats:
    """Walks that keep the smoothed law of the states (Sinkhorn), with rare jumps to it."""
    steps = near * np.outer(spacing, spacing)
    steps += 1e-12
    factor = np.sqrt(smooth / steps.sum(axis=-1))[..., None]
    goal = smooth[:, None]
    for _ in range(20):
        factor = np.sqrt(factor * goal / np.maximum(steps @ factor, 1e-300))
    walk = _rows(factor * steps * factor.swapaxes(1, 2))
    return np.asarray((1 - _JUMP) * walk + _JUMP * smooth)


def _average(
    cells: _Cells, trusted: Bools, noisy: Floats, scale: float, noise: Noise, total: float
) -> Floats:
    """Posterior of every cell, averaged over settings by likelihood; shape (cells, states)."""
    chains = list(_chains(cells))
    alone = float(np.log(cells.evidence.alone).sum()) - 3.0
    flat, each = -np.inf, np.zeros(len(cells.states))
    if not cells.shift.any():
        level = max((total - noisy[trusted].sum()) / (~trusted).sum(), 0.02 * scale)
        flat = _flat(cells.states, noisy[~trusted], level, scale, noise)
        each[np.abs(np.log(cells.states / level)).argmin()] = 1.0
    logs = np.concatenate([[flat, alone], *(chain.logs for chain in chains)])
    weights = np.exp(logs - logs.max())
    weights = np.where(weights > _COUNTS, weights, 0.0)
    mixed = weights[0] * each + weights[1] * cells.evidence.single
    start = 2
    for chain in chains:
        stop = start + len(chain.logs)
        if weights[start:stop].any():
            chain.add(weights[start:stop], mixed)
        start = stop
    return np.asarray(mixed / weights.sum())


def _flat(states: Floats, noisy: Floats, level: float, scale: float, noise: Noise) -> float:
    """Log-likelihood of one level for all cells."""
    best = log_likelihoods((noisy[:, None] - states) / scale, noise).max(axis=1)
    return float((log_likelihoods((noisy - level) / scale, noise) - best).sum())


@dataclass(frozen=True, slots=True)
class _Chain:
    """Settings under which the cells are one chain, or several that know nothing of each other.

    Attributes:
        logs: Log-likelihoods, shape (settings,).
        parts: The cells of each chain, and its passes.
    """

    logs: Floats
    parts: tuple[tuple[Ints, Passes], ...]

    def add(self, weights: Floats, mixed: Floats) -> None:
        """Add the weighted posteriors to ``mixed``, shape (cells, states)."""
        for chosen, passes in self.parts:
            mixed[chosen] += passes.mean(weights)


def _chains(cells: _Cells) -> Iterator[_Chain]:
    """All settings of the walk."""
    everything = np.arange(len(cells.shift))
    if cells.shift.any():
        laws, into = _density_laws(cells)
        run = _run(cells, everything, Walks(laws, into, cells.smooth, _RATES[:3]))
        yield _Chain(run.logs - 1.0, ((everything, run),))
        return
    near, spacing = _near(cells.states, (0.05, 0.1, 0.25, 0.6))
    free = _free(near[1:], spacing, cells.prior)
    kept = _reversible(near, spacing, cells.smooth)
    same = np.zeros(len(everything), np.int64)
    run = _run(cells, everything, Walks(_joined(free, kept), same, cells.smooth, _RATES))
    yield _Chain(run.logs - 1.0, ((everything, run),))
    walks = Walks(_joined(free, kept[1:]), same, cells.smooth, _RATES[:3])
    for rest in cells.apart:
        split = everything % _PERIOD == rest
        first = _run(cells, everything[split], walks)
        second = _run(cells, everything[~split], walks)
        logs = first.logs + second.logs - 1.0 - log(3 * _PERIOD)
        yield _Chain(logs, ((everything[split], first), (everything[~split], second)))


def _joined(free: Floats, kept: Floats) -> Floats:
    return np.concatenate([free, kept])[None]


def _run(cells: _Cells, chosen: Ints, walks: Walks) -> Passes:
    return Passes.run(cells.evidence.take(chosen), replace(walks, into=walks.into[chosen]))


def _density_laws(cells: _Cells) -> tuple[Floats, Ints]:
    """Walks whose centre moves with the widths of the cells, and the same without.

    Returns:
        Laws of shape (distinct shifts, kernels, states, states), and which one leads into every
        cell.
    """
    place = np.log(cells.states)
    weight = np.gradient(place)
    widths = np.array([0.1, 0.25, 0.6])[:, None, None]
    shifts, into = np.unique(cells.shift, return_inverse=True)
    laws = np.empty((len(shifts), 2 * len(widths), len(place), len(place)))

    def steps(shift: float) -> Floats:
        normal = np.exp(-0.5 * ((place - place[:, None] - shift) / widths) ** 2)
        found = (normal + 1e-9) * weight
        walk = found / found.sum(axis=-1, keepdims=True)
        return np.asarray((1 - _JUMP) * walk + _JUMP * cells.smooth)

    for law, shift in zip(laws, shifts, strict=True):
        law[: len(widths)] = steps(float(shift))
    laws[:, len(widths) :] = steps(0.0)
    return laws, into.astype(np.int64)


def _tilt(
    posterior: Floats,
    states: Floats,
    noisy: Floats,
    trusted: Bools,
    scale: float,
    noise: Noise,
    total: float,
) -> Floats:
    """Posterior means after an exponential tilt of all cells that makes them sum to the total."""
    spread = scale if noise == "laplace" else scale / np.sqrt(2.0)
    clear = noisy[trusted]

    def tilted(slope: float) -> tuple[Floats, Floats]:
        lift = slope * states
        weights = posterior * np.exp(lift - lift.max())
        means = (weights @ states) / np.maximum(weights.sum(axis=1), 1e-300)
        moved = clear + 2 * spread**2 * slope / max(1 - (slope * spread) ** 2, 0.05)
        return means, np.maximum(moved, 0.3 * clear)

    def excess(slope: float) -> float:
        return float(sum(map(np.sum, tilted(slope)))) - total

    low, high = -0.9 / spread, 0.9 / spread
    if excess(low) < 0.0 < excess(high):
        slope = brentq(excess, low, high, xtol=1e-12 / spread)
    else:
        slope = low if excess(low) >= 0.0 else high
    out = np.empty(len(noisy))
    out[~trusted], out[trusted] = tilted(slope)
    return np.asarray(out * (total / out.sum()))
