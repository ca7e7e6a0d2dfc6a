"""Noisy histograms of ordered codes, denoised: post-processing, free of charge.

Neighbouring counts resemble each other, except where they do not (spikes, round numbers). A hidden
Markov model over the logarithm of the count says so: the state walks from cell to cell, and with a
small probability a cell is a spike of its own. How smooth, how spiky, and whether every fifth cell
is a chain of its own, is not guessed but averaged over by likelihood, beside "all cells alike" and
"no order at all". All settings run at once as arrays of shape (kernels, spike rates, states).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from privbench.learning.denoise import Floats, Noise

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Cells this many noise scales above zero are taken as they are.
TRUSTED = 24.0
_PERIOD, _MOST_PERIODIC = 5, 400
_JUMP = 0.02
_RATES = np.array([0.02, 0.1, 0.3, 0.6])


@dataclass(frozen=True, slots=True)
class _Cells:
    """What all settings share.

    Attributes:
        states: Counts that a cell may have, shape (states,).
        seen: Likelihood of every state, shape (cells, states); 1 for trusted cells.
        prior: Law of the states, learned from all cells.
        smooth: The same, smoothed over neighbouring states.
        alone: Likelihood of a cell under ``prior``, shape (cells,).
        single: Posterior of a cell by itself, shape (cells, states).
        shift: Step of the log-count that widths alone explain, shape (cells,).
    """

    states: Floats
    seen: Floats
    prior: Floats
    smooth: Floats
    alone: Floats
    single: Floats
    shift: Floats


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
    states = _states(scale, fine=widths is None and len(noisy) <= 250)
    cells = _prepare(noisy, scale, noise, states, trusted, widths)
    posterior = _average(cells, trusted, noisy, scale, noise, total)
    return _tilt(posterior[~trusted], states, noisy, trusted, scale, noise, total)


def _states(scale: float, *, fine: bool) -> Floats:
    if fine:
        low = np.exp(np.linspace(log(0.001), log(0.5), 16))
        return scale * np.concatenate(
            [low, np.arange(0.75, 6.01, 0.25), 6 * 1.05 ** np.arange(1, 34)]
        )
    low = np.exp(np.linspace(log(0.004), log(0.5), 11))
    return scale * np.concatenate([low, np.arange(0.9, 6.01, 0.45), 6 * 1.09 ** np.arange(1, 20)])


def _logs(distance: Floats, noise: Noise) -> Floats:
    return -np.abs(distance) if noise == "laplace" else -0.5 * distance**2


def _prepare(
    noisy: Floats,
    scale: float,
    noise: Noise,
    states: Floats,
    trusted: Bools,
    widths: Floats | None,
) -> _Cells:
    logs = _logs((noisy[:, None] - states) / scale, noise)
    seen = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(states), 1 / len(states))
    plain = seen[~trusted]
    for _ in range(60):
        prior = prior * ((1.0 / (plain @ prior)) @ plain) + 0.02
        prior /= prior.sum()
    seen[trusted] = 1.0
    single = seen * prior
    alone = single.sum(axis=1)
    shift = np.zeros(len(noisy))
    if widths is not None:
        shift[1:] = np.clip(np.diff(np.log(widths)), -8.0, 8.0)
    smooth = 0.5 * (prior @ _walks(states, 0.4) + prior @ _walks(states, 1.2))
    return _Cells(states, seen, prior, smooth, alone, single / alone[:, None], shift)


def _walks(states: Floats, width: float) -> Floats:
    """Normal steps of the log-count, shape (states, states); rows sum to 1."""
    place = np.log(states)
    steps = np.exp(-0.5 * ((place[:, None] - place) / width) ** 2) * np.gradient(place)
    return np.asarray(steps / steps.sum(axis=1, keepdims=True))


def _free(cells: _Cells, width: float) -> Floats:
    """A walk that keeps no law."""
    place = np.log(cells.states)
    steps = np.exp(-0.5 * ((place[:, None] - place) / width) ** 2) + 1e-4 * cells.prior
    steps *= np.gradient(place)
    return np.asarray(steps / steps.sum(axis=1, keepdims=True))


def _reversible(cells: _Cells, width: float) -> Floats:
    """A walk that keeps the smoothed law of the states (Sinkhorn), with rare jumps to it."""
    place = np.log(cells.states)
    weight = np.gradient(place)
    steps = np.exp(-0.5 * ((place[:, None] - place) / width) ** 2) * np.outer(weight, weight)
    steps += 1e-12
    factor = np.sqrt(cells.smooth / steps.sum(axis=1))
    for _ in range(60):
        factor = np.sqrt(factor * cells.smooth / np.maximum(steps @ factor, 1e-300))
    flow = factor[:, None] * steps * factor
    walk = flow / flow.sum(axis=1, keepdims=True)
    return np.asarray((1 - _JUMP) * walk + _JUMP * cells.smooth)


def _average(
    cells: _Cells, trusted: Bools, noisy: Floats, scale: float, noise: Noise, total: float
) -> Floats:
    """Posterior of every cell, averaged over settings by likelihood; shape (cells, states)."""
    logs, parts = [], []
    plain = ~trusted
    if not cells.shift.any():
        level = max((total - noisy[trusted].sum()) / plain.sum(), 0.02 * scale)
        each = np.zeros(len(cells.states))
        each[np.abs(np.log(cells.states / level)).argmin()] = 1.0
        raw = _logs((noisy[plain, None] - cells.states) / scale, noise).max(axis=1)
        logs.append(float((_logs((noisy[plain] - level) / scale, noise) - raw).sum()))
        parts.append(np.broadcast_to(each, cells.seen.shape))
    logs.append(float(np.log(cells.alone).sum()) - 3.0)
    parts.append(cells.single)
    for found, posterior in _chains(cells):
        logs += list(found)
        parts += list(posterior)
    weights = np.exp(np.array(logs) - max(logs))
    kept = np.flatnonzero(weights > 1e-3)
    mixed = sum(weights[index] * parts[index] for index in kept)
    return np.asarray(mixed / weights[kept].sum())


def _chains(cells: _Cells) -> Iterator[tuple[Floats, Floats]]:
    """Log-likelihoods and posteriors of all settings of the walk."""
    everything = np.arange(len(cells.seen))
    if cells.shift.any():
        yield _run(cells, everything, _density_steps(cells), _RATES[:3])
        return
    free = np.stack([_free(cells, width) for width in (0.1, 0.25, 0.6)])
    kept = np.stack([_reversible(cells, width) for width in (0.05, 0.1, 0.25, 0.6)])
    yield _run(cells, everything, _same(np.concatenate([free, kept])), _RATES)
    if not 3 * _PERIOD <= len(everything) <= _MOST_PERIODIC:
        return
    step = _same(np.concatenate([free, kept[1:]]))
    for rest in range(_PERIOD):
        split = everything % _PERIOD == rest
        first = _run(cells, everything[split], step, _RATES[:3])
        second = _run(cells, everything[~split], step, _RATES[:3])
        joined = np.empty((len(first[0]), *cells.seen.shape))
        joined[:, split], joined[:, ~split] = first[1], second[1]
        yield first[0] + second[0] + 1.0 - log(3 * _PERIOD), joined


#: Transition laws into a cell, shape (kernels, states, states).
_Step = Callable[[int], Floats]


def _same(walks: Floats) -> _Step:
    return lambda cell: walks


def _density_steps(cells: _Cells) -> _Step:
    """Walks whose centre moves with the widths of the cells, and the same without."""
    place = np.log(cells.states)
    weight = np.gradient(place)
    widths = np.array([0.1, 0.25, 0.6])[:, None, None]

    def steps(shift: float) -> Floats:
        normal = np.exp(-0.5 * ((place - place[:, None] - shift) / widths) ** 2)
        found = (normal + 1e-9) * weight
        walk = found / found.sum(axis=-1, keepdims=True)
        return np.asarray((1 - _JUMP) * walk + _JUMP * cells.smooth)

    plain = steps(0.0)
    return lambda cell: np.concatenate([steps(float(cells.shift[cell])), plain])


def _run(cells: _Cells, chosen: Ints, step: _Step, rates: Floats) -> tuple[Floats, Floats]:
    """Forward and backward passes over some cells, for all walks and spike rates at once.

    Args:
        cells: What all settings share.
        chosen: Cells of the chain, in order.
        step: Transition laws into a cell.
        rates: Probabilities of a spike.

    Returns:
        Log-likelihoods, shape (kernels·rates,), and posteriors (kernels·rates, cells, states).
    """
    seen, alone = cells.seen[chosen], cells.alone[chosen]
    kernels = len(step(int(chosen[0])))
    shape = (len(chosen), kernels, len(rates), len(cells.states))
    mixed = (1 - rates)[:, None] * seen[:, None, :] + rates[:, None] * alone[:, None, None]
    forward, scales = np.empty(shape), np.empty(shape[:3])
    value = np.broadcast_to(cells.smooth, shape[1:])
    for cell, number in enumerate(chosen):
        value = (forward[cell - 1] @ step(int(number)) if cell else value) * mixed[cell]
        scales[cell] = value.sum(axis=-1)
        forward[cell] = value / scales[cell][..., None]
    posterior = np.empty(shape)
    backward = np.ones(shape[1:])
    for cell in range(len(chosen) - 1, -1, -1):
        share = forward[cell] * backward
        share /= share.sum(axis=-1, keepdims=True)
        spike = share * (rates[:, None] * alone[cell] / np.maximum(mixed[cell], 1e-300))
        rate = spike.sum(axis=-1, keepdims=True)
        posterior[cell] = share - spike + rate * cells.single[chosen[cell]]
        if cell:
            backward = (mixed[cell] * backward) @ step(int(chosen[cell])).swapaxes(-1, -2)
            backward /= backward.sum(axis=-1, keepdims=True)
    logs = np.log(scales).sum(axis=0) - 1.0
    return logs.ravel(), posterior.reshape(len(chosen), -1, shape[3]).swapaxes(0, 1)


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

    low, high = -0.9 / spread, 0.9 / spread
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(map(np.sum, tilted(middle))) < total else (low, middle)
    out = np.empty(len(noisy))
    out[~trusted], out[trusted] = tilted(middle)
    return np.asarray(out * (total / out.sum()))
