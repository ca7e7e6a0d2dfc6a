"""Measuring which rows a REF key refers to.

Which variables of the target are worth measuring is told by what is released already: those that
say most about the others (mutual information over synthetic rows), so that rows that are right in
them are about right in the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.learning.bins import make_bins
from privbench.learning.denoise import Floats, Noise, scale_of
from privbench.learning.junction.context import Variable, fan_groups
from privbench.learning.junction.oneway import Measure
from privbench.learning.junction.unordered import denoise_unordered
from privbench.learning.keys import KeyModel, activity_of
from privbench.learning.pulls import BELIEF, Pull, rank_correlation
from privbench.privacy import DatabaseSpec, KeySpec
from privbench.privacy.queries import Axis, TargetHistogram
from privbench.rng import generator

Ints = NDArray[np.int64]
#: Most pulls of a key, and most bins of one.
MOST, BINS = 1, 8
#: Largest domain of a variable that tells what kind of row it is.
_KINDS = 20
#: A bin that stands out holds this many standard deviations of noise.
_CLEAR = 2.5
#: Weight of the law of all rows, in standard deviations of the sum of a histogram.
_PULL = 0.5
#: Synthetic rows that dependence is taken from.
_ROWS = 20_000


def fit_pulls(
    spec: DatabaseSpec,
    key: KeySpec,
    model: KeyModel,
    amount: float,
    measure: Measure,
    noise: Noise,
    variables: Sequence[Variable],
    codes: Mapping[str, Codes],
    *,
    outside: bool,
) -> KeyModel:
    """Measure which rows a key refers to: its model with pulls and the correlation of ranks.

    Args:
        spec: What is public.
        key: A REF key.
        model: What is known of it so far.
        amount: What may be spent.
        measure: Asks the session.
        noise: Law of the noise.
        variables: Variables of the target.
        codes: Their codes in synthetic rows.
        outside: Whether references into the row's own unit are told apart.
    """
    chosen = telling(variables, codes)
    pulls: list[Pull] = []
    ranks = BELIEF
    for number, variable in enumerate(chosen):
        held = codes[variable.name]
        of = binned(variable, held, BINS)
        query = TargetHistogram.of(spec, key, [], [variable.binned(of)], outside=outside)
        label = f"targets {number + 1} of {key.table}.{key.name}"
        noisy, sd = measure(query, amount / len(chosen), label)
        if variable.early and model.law is not None:
            activity = activity_of(codes, len(held))
            draws = generator(0, "pulls", key.table, key.name)
            counts = model.law.draw(len(held), draws)
            ranks = rank_correlation(noisy.ravel(), sd, of[held], activity, counts, draws, noise)
        else:
            base = np.asarray(np.bincount(of[held], minlength=noisy.size) + 1e-3, np.float64)
            pulls.append(Pull(variable.name, of, _shares(noisy.ravel(), sd, base, noise)))
    return replace(model, pulls=tuple(pulls), ranks=ranks)


def _shares(noisy: Floats, sd: float, base: Floats, noise: Noise) -> Floats:
    """Posterior shares of bins, drawn toward those of all rows as far as noise rules.

    How many references are left after the cap on a target is not known: few people may own all
    targets. So a law is taken from the histogram alone first; its sum is that of the clear cells
    where the noise of all cells together would swallow it.
    """
    clear = float(noisy[noisy > _CLEAR * sd].sum())
    total = max(float(noisy.sum()), clear, sd)
    scale = max(scale_of(sd, noise), 1e-9)
    found = denoise_unordered(noisy, scale, total, noise)
    mixed = found + _PULL * sd * np.sqrt(len(noisy)) * base / base.sum()
    return np.asarray(mixed / mixed.sum())


def planned_pulls(
    spec: DatabaseSpec, key: KeySpec, axes: Sequence[Axis], *, outside: bool
) -> Iterator[tuple[str, TargetHistogram, float]]:
    """The events of `fit_pulls` at their largest: label, query, part of the amount.

    Args:
        spec: What is public.
        key: A REF key.
        axes: Axes of the variables of the target.
        outside: Whether references into the row's own unit are told apart.
    """
    largest = sorted(axes, key=lambda axis: -axis.size)[:MOST]
    for number, axis in enumerate(largest):
        label = f"targets {number + 1} of {key.table}.{key.name}"
        query = TargetHistogram.of(spec, key, [], [axis], outside=outside)
        yield label, query, 1.0 / len(largest)


def binned(variable: Variable, codes: Codes, most: int) -> Ints:
    """At most so many bins of the codes, by the mass of synthetic rows."""
    counts = np.bincount(codes, minlength=variable.domain.size).astype(np.float64)
    if variable.domain.size <= most + 2 and not variable.early:
        return np.arange(variable.domain.size)
    if variable.early:
        return fan_groups(counts, counts.sum() / most / 4)
    return make_bins(counts + 1e-9, variable.domain, most, counts.sum() / most / 4).of


def telling(variables: Sequence[Variable], codes: Mapping[str, Codes]) -> list[Variable]:
    """The variables that say most about the others, one after the other.

    The first is one of a small domain, if there is any: what kind of row it is. The next one is
    that which says most beyond what the chosen ones say, as far as pairs tell.
    """
    bins = [binned(item, codes[item.name][:_ROWS], 16) for item in variables]
    rows = [of[codes[item.name][:_ROWS]] for of, item in zip(bins, variables, strict=True)]
    usable = [k for k, of in enumerate(bins) if of.max() > 0]
    shared = {(i, j): _information(rows[i], rows[j]) for i in usable for j in usable}
    chosen: list[int] = []
    known = np.zeros(len(variables))
    while len(chosen) < min(MOST, len(usable)):
        gains = {
            i: sum(max(shared[i, j] - known[j], 0.0) for j in usable)
            for i in usable
            if i not in chosen
        }
        kinds = {i: gain for i, gain in gains.items() if variables[i].domain.size <= _KINDS}
        gains = kinds if kinds and not chosen else gains
        best = max(gains, key=gains.__getitem__)
        chosen.append(best)
        for j in usable:
            known[j] = max(known[j], shared[best, j])
    return [variables[k] for k in chosen]


def _information(first: Ints, second: Ints) -> float:
    """Mutual information over entropy of the second, between 0 and 1."""
    if not len(first):
        return 0.0
    width = int(second.max()) + 1
    joint = np.bincount(first * width + second).astype(np.float64)
    whole, a, b = (_entropy(part) for part in (joint, np.bincount(first), np.bincount(second)))
    return max(a + b - whole, 0.0) / b if b > 0 else 0.0


def _entropy(counts: NDArray[np.number] | Floats) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
