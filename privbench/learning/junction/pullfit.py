"""Measuring which rows a REF key refers to.

What of the targets is worth measuring is told by what is released already: how much of everything
they have (`overall`), and the variable that says most about the others (mutual information over
synthetic rows), so that rows that are right in them are about right in the rest. What noisy counts
of both say of the targets is in `tilts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes
from privbench.learning.answers import Measure
from privbench.learning.denoise import Floats, Noise
from privbench.learning.information import uncertainty_coefficient
from privbench.learning.junction.context import Variable, in_order
from privbench.learning.junction.overall import BEYOND, cut, overall
from privbench.learning.junction.tilts import Races, Seen, preferences
from privbench.learning.keys import KeyModel
from privbench.learning.pulls import Pull
from privbench.privacy import DatabaseSpec, KeySpec
from privbench.privacy.queries import Axis, TargetHistogram
from privbench.privacy.queries.fanin import most_kept
from privbench.rng import generator

Ints = NDArray[np.int64]
#: Most pulls of a key, and their parts of its amount.
MOST, PARTS = 2, (0.6, 0.4)
#: The most that a target unit counts, in source units: against 1, noise grows by 1.4 at 2, by 2.1
#: at 4, by 6.2 at 16 (2.8 at 4 for single rows that refer within their tree), and what is counted
#: of hubs by more up to about 4.
CAP = 4
#: Most bins of a variable without an order, or of a small domain.
_BINS = 10
#: Synthetic rows that dependence is taken from.
_ROWS = 20_000
#: Races that the expected law is averaged over, and most synthetic targets that run.
_RACES, _RUNNERS = 2, 50_000
#: Slope that numbers of children are believed to have.
_BELIEF = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Synthetic rows of a table that is referred to, and what refers to them.

    Attributes:
        variables: Variables of the rows.
        codes: Their codes.
        units: Unit of every row, shape (rows,).
        weight: Weight of all references that are counted, in a database of this many rows.
        references: Number of references that are counted, for keys without a fan-in law; likewise.
        scale: Part of the whole database that the synthetic rows are.
    """

    variables: Sequence[Variable]
    codes: Mapping[str, Codes]
    units: Ints
    weight: float
    references: float
    scale: float

    def some(self, draws: np.random.Generator) -> Targets:
        """At most about `_RUNNERS` rows, whole units by random choice."""
        part = _RUNNERS / max(len(self.units), 1)
        if part >= 1.0:
            return self
        _, place = np.unique(self.units, return_inverse=True)
        kept = (draws.random(int(place.max()) + 1) < part)[place]
        part = float(kept.mean())
        return Targets(
            self.variables,
            {name: held[kept] for name, held in self.codes.items()},
            self.units[kept],
            self.weight * part,
            self.references * part,
            self.scale * part,
        )


def cap_of(spec: DatabaseSpec, key: KeySpec) -> int:
    """The most that a target unit counts: 1 where a higher cap would cost its whole height."""
    apart = not spec.roots(key.table) & spec.roots(key.parent)
    return 1 if apart and most_kept(spec, key) == 1 else CAP


def fit_pulls(
    spec: DatabaseSpec,
    key: KeySpec,
    model: KeyModel,
    amount: float,
    measure: Measure,
    noise: Noise,
    targets: Targets,
    *,
    outside: bool,
) -> KeyModel:
    """Measure which rows a key refers to: its model with pulls.

    Args:
        spec: What is public.
        key: A REF key.
        model: What is known of it so far.
        amount: What may be spent.
        measure: Asks the session.
        noise: Law of the noise.
        targets: Synthetic rows of the table that is referred to.
        outside: Whether references into the row's own unit are told apart.
    """
    looks = _looks(targets)
    if not looks or not len(targets.units):
        return model
    targets = targets.some(generator(0, "runners", key.table, key.name))
    cap, seen = cap_of(spec, key), []
    for number, (look, part) in enumerate(zip(looks, _parts(len(looks)), strict=True)):
        query = TargetHistogram.of(spec, key, [], [look.axis], cap=cap, outside=outside)
        label = f"targets {number + 1} of {key.table}.{key.name}"
        noisy, sd = measure(query, amount * part, label)
        bins, scale = look.pull.bins(targets.codes), targets.scale
        raw = noisy.ravel() * scale
        seen.append(Seen.of(raw, sd * scale, noise, bins, look.ordered, look.belief))
    races = _races(key, model, targets, float(cap))
    factors = preferences(seen, races, noise)
    pulls = tuple(
        replace(look.pull, factors=factor) for look, factor in zip(looks, factors, strict=True)
    )
    return replace(model, pulls=pulls, counted=races.counted)


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """What is measured of targets at once.

    Attributes:
        axis: Its bins.
        pull: Its bins of codes, all factors 1.
        ordered: How many of the bins, the first ones, follow an order.
        belief: Slope that is likeliest beforehand.
    """

    axis: Axis
    pull: Pull
    ordered: int
    belief: float


def _looks(targets: Targets) -> list[_Look]:
    """How much of everything targets have, and what says most about the rest of them."""
    whole, found = overall(targets.variables, targets.codes), []
    if whole is not None:
        belief, size = _BELIEF if whole.leads else 0.0, len(whole.ends) + 1
        found = [_Look(whole.axis, Pull(whole.terms, whole.ends, np.ones(size)), size, belief)]
    for item in telling(targets.variables, targets.codes, MOST - len(found)):
        of = binned(item, targets.codes[item.name])
        belief, ordered = _BELIEF if item.early else 0.0, in_order(item.domain, of)
        pull = Pull.of(item.name, of, np.ones(int(of.max()) + 1))
        found.append(_Look(item.binned(of), pull, ordered, belief))
    return found


def _parts(events: int) -> tuple[float, ...]:
    """Parts of the amount of events; a single one takes it all."""
    return PARTS if events == MOST else (1.0,)


def _races(key: KeySpec, model: KeyModel, targets: Targets, cap: float) -> Races:
    """What races in `tilts.preferences`, with fixed public seeds."""
    rows = len(targets.units)
    draws = generator(0, "pulls", key.table, key.name)
    if model.law is not None:
        counts = model.law.draw(rows, draws)
    else:
        counts = (np.arange(rows) < targets.references).astype(np.int64)
    units = np.unique(targets.units, return_inverse=True)[1]
    return Races(counts, units, targets.weight, cap, draws.exponential(size=(_RACES, rows)))


def planned_pulls(
    spec: DatabaseSpec, key: KeySpec, axes: Sequence[Axis], *, outside: bool
) -> Iterator[tuple[str, TargetHistogram, float]]:
    """The events of `fit_pulls`, at most: label, query, part of the amount.

    Where synthetic targets show fewer variables that tell anything, one event takes the amount of
    both; where there are none, nothing is asked.

    Args:
        spec: What is public.
        key: A REF key.
        axes: Axes of the variables of the target.
        outside: Whether references into the row's own unit are told apart.
    """
    largest = sorted(axes, key=lambda axis: -axis.size)[:MOST]
    for number, axis in enumerate(largest):
        label = f"targets {number + 1} of {key.table}.{key.name}"
        query = TargetHistogram.of(spec, key, [], [axis], cap=cap_of(spec, key), outside=outside)
        yield label, query, _parts(len(largest))[number]


def binned(variable: Variable, codes: Codes) -> Ints:
    """Bins of the codes by the mass of synthetic rows, finer toward the largest values."""
    domain = variable.domain
    counts = np.bincount(codes, minlength=domain.size).astype(np.float64)
    if domain.size <= _BINS and not variable.early:
        return np.arange(domain.size)
    if not domain.ordered or not domain.values:
        return _most_frequent(counts)
    raw = cut(counts[: domain.values], BEYOND)
    if variable.early:
        raw[1:] = np.maximum(raw[1:], raw[0] + 1)
    of = np.concatenate([raw, raw[-1] + 1 + np.arange(domain.size - domain.values)])
    return np.unique(of, return_inverse=True)[1].astype(np.int64)


def _most_frequent(counts: Floats) -> Ints:
    """The most frequent codes by themselves, the others together."""
    of = np.full(len(counts), _BINS - 1, np.int64)
    of[np.argsort(-counts, kind="stable")[: _BINS - 1]] = np.arange(_BINS - 1)
    return of


def telling(
    variables: Sequence[Variable], codes: Mapping[str, Codes], most: int = MOST
) -> list[Variable]:
    """The variables that say most about the others, beyond what those before say of them."""
    bins = [binned(item, codes[item.name]) for item in variables]
    rows = [of[codes[item.name][:_ROWS]] for of, item in zip(bins, variables, strict=True)]
    usable = [k for k, of in enumerate(bins) if of.max() > 0]
    shared = {(i, j): uncertainty_coefficient(rows[i], rows[j]) for i in usable for j in usable}
    chosen: list[int] = []
    known = np.zeros(len(variables))
    while len(chosen) < min(most, len(usable)):
        gains = {
            i: sum(max(shared[i, j] - known[j], 0.0) for j in usable if j != i)
            for i in usable
            if i not in chosen
        }
        best = max(gains, key=gains.__getitem__)
        chosen.append(best)
        for j in usable:
            known[j] = max(known[j], shared[best, j])
    return [variables[k] for k in chosen]
