"""How much of everything a row has: many ordered variables as one score.

Rows that are referred to most have most of everything: the posts that all link to are viewed,
answered and marked, the users who edit for others write, vote and are known. No single variable
says so as well as all of them together, and their noisy counts are too few to measure each. So
scores of their values are added up, with the loadings of their first principal component over
synthetic rows; what is measured is bins of that sum. A public map of released bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privbench.domain import Codes
from privbench.learning.denoise import Floats, middle_ranks
from privbench.learning.junction.context import Variable
from privbench.learning.pulls import Term, binned_sums, summed
from privbench.privacy.queries import Axis
from privbench.privacy.queries.axes import Joined
from privbench.privacy.queries.public import PublicArray

Ints = NDArray[np.int64]
#: Masses beyond the ends of the bins of one variable, and of those of the sum.
_EACH, BEYOND = (0.6, 0.3, 0.1, 0.03, 0.008), (0.75, 0.5, 0.25, 0.1, 0.04, 0.015, 0.005, 0.0015)
#: Most variables, fewest, and least loading of one against the largest; decimals of loadings, so
#: that ties do not hang on the last bit of a sum.
_MOST, _FEWEST, _LOADED, _DECIMALS = 7, 2, 0.37, 6
#: Least share of the first component, against the most that as many variables have by chance.
_TOGETHER = 1.2
#: Score of a value without an order (NULL), in standard deviations; steps of scores per deviation.
_APART, _STEPS = -1.0, 100.0
#: Synthetic rows that loadings are taken from, and least spread of a variable that counts.
_ROWS, _SPREAD = 20_000, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """One variable in few bins.

    Attributes:
        variable: The variable.
        of: Bin of every code, shape (codes,).
        scores: Score of every bin, shape (bins,).
    """

    variable: Variable
    of: Ints
    scores: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Overall:
    """The sum of scores of several variables, in bins.

    Attributes:
        axis: Its bins as an axis of queries.
        terms: Scores of the codes of every variable.
        ends: Least sum of every bin but the first.
        leads: Whether numbers of children are part of the sum, so that much is surely more.
    """

    axis: Axis
    terms: tuple[Term, ...]
    ends: Ints
    leads: bool


def overall(variables: Sequence[Variable], codes: Mapping[str, Codes]) -> Overall | None:
    """The score that says most about all ordered variables; None where too few go together.

    Args:
        variables: Variables of the rows.
        codes: Their codes in synthetic rows.
    """
    found = [part for item in variables if (part := binned(item, codes[item.name])) is not None]
    rows = {part.variable.name: _rows(part, codes) for part in found}
    found = [part for part in found if rows[part.variable.name].std() > _SPREAD]
    if len(found) < _FEWEST:
        return None
    sample = np.array([rows[part.variable.name] for part in found])
    loadings = _loadings(sample)
    sizes = np.abs(loadings)
    largest = np.sort(np.argsort(-sizes, kind="stable")[:_MOST])
    kept = largest[sizes[largest] > _LOADED * sizes.max()]
    if len(kept) < _FEWEST:
        return None
    chosen = [found[k] for k in kept]
    early = np.array([part.variable.early for part in chosen])
    steps = _STEPS * _signed(loadings[kept], early) / sample[kept].std(axis=1)
    scores = [
        np.rint(step * part.scores).astype(np.int64)
        for step, part in zip(steps, chosen, strict=True)
    ]
    terms = tuple(
        Term(part.variable.name, score[part.of]) for part, score in zip(chosen, scores, strict=True)
    )
    ends = _ends(summed(term.scores[codes[term.variable]] for term in terms))
    groups = binned_sums([reduce(np.add.outer, scores)], ends)
    axes = tuple(part.variable.binned(part.of) for part in chosen)
    return Overall(Joined(axes, PublicArray(groups)), terms, ends, bool(early.any()))


def binned(variable: Variable, codes: Codes) -> Binned | None:
    """Few bins of an ordered variable, finer toward its largest values; None where it has none."""
    domain = variable.domain
    if not domain.ordered or not domain.values or (variable.key and not variable.early):
        return None
    counts = np.bincount(codes, minlength=domain.size).astype(np.float64)
    inner = counts[: domain.values]
    if not inner.sum() > 0:
        return None
    bins = np.unique(cut(inner, _EACH), return_inverse=True)[1]
    values = int(bins.max()) + 1
    if values < _FEWEST:
        return None
    apart = np.full(domain.size - domain.values, values, np.int64)
    mass = np.bincount(bins, inner).astype(np.float64) + 1e-9
    scores = ndtri(np.clip(middle_ranks(mass), 1e-6, 1 - 1e-6))
    return Binned(
        variable,
        np.concatenate([bins, apart]).astype(np.int64),
        np.append(scores, np.full(min(len(apart), 1), _APART)),
    )


def _rows(part: Binned, codes: Mapping[str, Codes]) -> Floats:
    return np.asarray(part.scores[part.of[codes[part.variable.name][:_ROWS]]])


def _loadings(sample: Floats) -> Floats:
    """First principal component of variables; zeros where they have little to do with each other.

    Variables that are independent have eigenvalues up to (1 + √(variables/rows))², by Marchenko and
    Pastur: a sum of them would blur what each says.
    """
    chance = (1.0 + math.sqrt(len(sample) / sample.shape[1])) ** 2
    shares, components = np.linalg.eigh(np.corrcoef(sample))
    together = shares[-1] > _TOGETHER * chance
    return np.round(components[:, -1], _DECIMALS) if together else np.zeros(len(sample))


def _signed(loadings: Floats, early: NDArray[np.bool_]) -> Floats:
    """Positive by numbers of children, else by the largest loading."""
    lead = float(loadings[early].sum())
    sign = lead if lead else float(loadings[np.argmax(np.abs(loadings))])
    return np.asarray(loadings * math.copysign(1.0, sign))


def cut(counts: Floats, beyond: Sequence[float]) -> Ints:
    """Bins of ordered values by the mass from each on.

    Args:
        counts: Rows per value, shape (values,).
        beyond: Masses at which bins end, falling.
    """
    mass = 1.0 - (np.cumsum(counts) - counts) / max(counts.sum(), 1.0)
    return np.asarray(np.searchsorted(-np.array(beyond), -mass, side="left"), np.int64)


def _ends(sums: Ints) -> Ints:
    """Least sum of every bin but the first, by the mass of rows beyond."""
    values, counts = np.unique(sums, return_counts=True)
    bins = cut(counts.astype(np.float64), BEYOND)
    return np.asarray(values[1:][np.diff(bins) > 0], np.int64)
