"""Sums over rows as vectors: lengths, second moments, moments of a mixture, and clipped gradients.

The gradients are those of a small network, the decoder, that predicts a row from its latent row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privbench.arrays import Ints
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.claims import claim
from privbench.privacy.query import PublicArray, Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench_lab.queries.features import STEP, Features, Latent, Whole, cut, factors, lengths

#: Steps in a difference of 1 between log-densities or logits, and the largest difference that is
#: distinguished.
FINE, FAR = 2**8, 12
#: exp(−k/`FINE`) in steps, for k = 0 … `FINE`·`FAR`; a public table, so that no row's value depends
#: on how a processor evaluates exp.
_DECAY = np.rint(STEP * np.exp(-np.arange(FINE * FAR + 1) / FINE))


def shares(scores: Whole, starts: list[int] | None = None) -> Whole:
    """Softmax of integer scores: shares in units of 1/`STEP`, rounded down.

    Scores are in units of 1/`FINE`, of shape (rows, scores), and are changed in place. Groups of
    scores begin at ``starts``; without it, all are one group. The shares of each group sum to at
    most 1.
    """
    at = starts or [0]
    sizes = np.diff([*at, scores.shape[1]])
    scores -= np.repeat(np.maximum.reduceat(scores, at, axis=1), sizes, axis=1)
    mass = _DECAY[np.minimum(-scores, FINE * FAR).astype(np.intp)]
    totals = np.repeat(np.add.reduceat(mass, at, axis=1), sizes, axis=1)
    return np.asarray(np.floor(mass * STEP / totals))


@dataclass(frozen=True)
class OfFeatures(Query):
    """A statistic of rows as features."""

    features: Features  # how rows become vectors

    @property
    def table(self) -> str:
        return self.features.source

    @property
    def columns(self) -> tuple[str, ...]:
        return self.features.columns


@dataclass(frozen=True)
class Lengths(OfFeatures):
    """Weighted counts of rows by the length of their features, before these are shortened.

    Sensitivity (`claims`): a row adds its weight to one cell.
    """

    edges: PublicArray  # ascending, in steps: the boundaries between neighbouring cells
    kind = "lengths of rows"
    unit = STEP

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.edges.shape[0] + 1,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """See the class's docstring; weights are in steps here."""
        return claim(spec, self.table, adds=True, steps=STEP)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        total = np.zeros(self.shape, np.int64)
        limits = self.edges.values.astype(np.float64) ** 2
        for whole, weights in self.features.blocks(data):
            cells = np.searchsorted(limits, lengths(whole))
            total += np.bincount(cells, weights, len(total)).astype(np.int64)
        return total


@dataclass(frozen=True)
class SecondMoments(OfFeatures):
    """The weighted sum of x xᵀ over rows, upper triangle: row count, sums and products at once.

    Statistic: entries i ≤ j of Σ w·x xᵀ row by row, in steps². With x = (o, f), entry 00 is o²
    times the weight of all rows and the rest of line 0 is o times the sum of f.

    Sensitivity: with |f| ≤ R a row of weight w moves it by at most w·√Σ_{i≤j} xᵢ²xⱼ² in L2. The sum
    of squares is (|x|⁴ + Σ xᵢ⁴)/2 ≤ ((o² + R²)² + o⁴ + R⁴)/2 = o⁴ + o²R² + R⁴. In L1 it is at most
    w·(|x|₁² + |x|²)/2 ≤ w·(k + 1)/2·(o² + R²) for k coordinates that are not 0 (Cauchy-Schwarz), in
    L∞ w·max(o, R)². Weights are multiplied in and rounded toward zero before the product, which
    makes no entry larger. Then `claims`. Source: Dwork, Talwar, Thakurta and Zhang (2014),
    Analyze Gauss, for rows of length at most 1.
    """

    kind = "second moments"
    unit = STEP**2

    @property
    def shape(self) -> tuple[int, ...]:
        width = self.features.width
        return (width * (width + 1) // 2,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        o, r = self.features.origin, self.features.bound
        l1 = (self.features.filled + 1) / 2 * (o**2 + r**2)
        l2 = math.sqrt(o**4 + o**2 * r**2 + r**4)
        return claim(spec, self.table, l1, l2, max(o, r) ** 2, steps=1)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        width = self.features.width
        total = np.zeros((width, width), np.int64)
        for whole, weights in self.features.blocks(data):
            rows = self.features.rows(whole)
            total += (cut(rows * weights[:, None]).T @ rows).astype(np.int64)
        return total[np.triu_indices(width)]

    def matrix(self, measured: Whole) -> Whole:
        """The symmetric matrix of a result of `Session.measure`; post-processing."""
        width = self.features.width
        found = np.zeros((width, width))
        found[np.triu_indices(width)] = measured
        return np.asarray(found + np.triu(found, 1).T)


@dataclass(frozen=True)
class MixtureMoments(OfFeatures):
    """One step of EM for a mixture of Gaussians with diagonal covariances, of latent rows.

    Statistic, shape (components, 1 + 2·dimensions), in steps²: for every component the sums of w·r,
    w·r·z and w·r·z² over rows, where z is the latent row and r the probability, under released
    parameters, that the row belongs to the component. z² is rounded down, and so are w·r and r.

    Sensitivity: a row's part is the outer product of its w·r and (1, z, z²). As r ≥ 0 sums to at
    most 1, |r| ≤ 1. As |z| ≤ 1, Σ zⱼ⁴ ≤ |z|⁴ ≤ 1, so the second vector is of length at most √3. So
    a row of weight w moves the statistic by at most √3·w in L2, by w·(2 + √d) in L1
    (|z|₁ ≤ √d for d dimensions, Σ z² ≤ 1), and by w in L∞. Then `claims`. Means and variances
    are quotients of what is released, so that no bound on them is needed. Which component a row
    belongs to follows from the row itself and from released numbers. Source: Park, Foulds,
    Chaudhuri and Welling (2017), DP-EM, which measures the same sums one by one.
    """

    latent: Latent  # the map of rows to latent ones
    # Log-density of every component as a linear form of (1, z, z²), shape (components, 1 +
    # 2·dimensions), in steps of 1/`FINE`; within ±2²⁴.
    scores: PublicArray
    kind = "moments of a mixture"
    unit = STEP**2

    def __post_init__(self) -> None:
        shape = (self.scores.shape[0], 1 + 2 * self.latent.dimensions)
        if self.scores.shape != shape or int(np.abs(self.scores.values).max(initial=0)) > 2**24:
            raise SchemaError("the parameters of a mixture are out of range.", table=self.table)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.scores.shape

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        l1 = 2 + math.sqrt(self.latent.dimensions)
        return claim(spec, self.table, l1, math.sqrt(3), steps=STEP**2)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        total = np.zeros(self.shape, np.int64)
        forms = self.scores.values.T.astype(np.float64)
        for whole, weights in self.features.blocks(data):
            latent = self.latent.rows(self.features.rows(whole))
            terms = np.concatenate([_with_one(latent), cut(latent**2)], axis=1)
            chances = shares(np.floor(terms @ forms / STEP))
            total += (cut(chances * weights[:, None]).T @ terms).astype(np.int64)
        return total


#: Largest activation of a hidden unit, and largest weight of the decoder, in steps.
MOST = 2**4 * STEP


@dataclass(frozen=True)
class ClippedGradients(OfFeatures):
    """The weighted sum over rows of the clipped gradient of a decoder's loss, for one step.

    The decoder has a hidden layer of rectified units, h = max(A·(1, z), 0), limited to `MOST`, and
    outputs B·(1, h): softmax for groups of probabilities, the logistic function for single
    coordinates, whose target is the coordinate plus ½. The loss is cross-entropy. Its gradient at
    the outputs is e, probability minus target; at the hidden units it is g = Bᵀe, within ±64, where
    h is above 0.

    Statistic, in steps²: the sums of w·c·g (1, z)ᵀ and of w·c·e (1, h)ᵀ, one after the other; w·c·g
    and w·c·e are rounded toward zero.

    Sensitivity: a row's gradient is of squared length |g|²·(1 + |z|²) + |e|²·(1 + |h|²), known
    exactly from the row and from released weights, and c ≤ 1 brings it to at most the bound C.
    Rounding toward zero makes no factor longer. So a row of weight w moves the statistic by
    at most w·C in L2 and L∞, and by w·C·√p in L1 for p parameters. Then `claims`. No row's
    part depends on another row: all integers (`features`). Source: Abadi et al. (2016), with all
    rows in every batch: under zCDP sampling of batches buys nothing, as zCDP bounds all orders.
    """

    latent: Latent  # the map of rows to latent ones
    hidden: PublicArray  # A, shape (units, 1 + dimensions), in steps
    output: PublicArray  # B, shape (outputs, 1 + units), in steps
    clip: int = STEP  # C in steps
    kind = "clipped gradients"
    unit = STEP**2

    def __post_init__(self) -> None:
        outputs, units = self.features.width - 1, self.hidden.shape[0]
        if self.hidden.shape != (units, 1 + self.latent.dimensions):
            raise SchemaError("hidden units do not fit the latent rows.", table=self.table)
        if self.output.shape != (outputs, 1 + units) or not 0 < units <= 2**10:
            raise SchemaError("outputs do not fit the columns.", table=self.table)
        for weights in (self.hidden, self.output):
            if int(np.abs(weights.values).max(initial=0)) > MOST:
                raise SchemaError("a weight of a network is out of range.", table=self.table)
        if not 0 < self.clip <= 2**20:
            raise SchemaError("gradients are not clipped.", table=self.table)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.hidden.values.size + self.output.values.size,)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        l1 = math.sqrt(self.shape[0])
        return claim(spec, self.table, l1, steps=self.clip * STEP)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        inner = np.zeros(self.hidden.shape, np.int64)
        outer = np.zeros(self.output.shape, np.int64)
        for whole, weights in self.features.blocks(data):
            for start in range(0, len(whole), _ROWS):
                at = slice(start, start + _ROWS)
                at_hidden, latent, at_output, units = self._factors(whole[at], weights[at])
                inner += (at_hidden.T @ latent).astype(np.int64)
                outer += (at_output.T @ units).astype(np.int64)
        return np.concatenate([inner.ravel(), outer.ravel()])

    def split(self, measured: Whole) -> tuple[Whole, Whole]:
        """The gradients of A and B of a result of `Session.measure`; post-processing."""
        size = self.hidden.values.size
        inner, outer = measured[:size], measured[size:]
        return inner.reshape(self.hidden.shape), outer.reshape(self.output.shape)

    def _factors(self, whole: Whole, weights: Whole) -> tuple[Whole, Whole, Whole, Whole]:
        """The factors w·c·g, (1, z), w·c·e and (1, h) of rows; see the class's docstring."""
        matrix = self.output.values.astype(np.float64)
        latent = _with_one(self.latent.rows(self.features.rows(whole)))
        before = cut(latent @ self.hidden.values.T.astype(np.float64))
        units = _with_one(np.clip(before, 0, MOST))
        scores = np.floor(units @ matrix.T / (STEP * (STEP // FINE)))
        targets = whole + np.where(self.features.places, STEP // 2, 0.0)
        error = chances(scores, self.features.groups) - targets
        back = np.clip(cut(error @ matrix[:, 1:]), -(2**20), 2**20) * (before > 0)
        squares = lengths(back) * lengths(latent) + lengths(error) * lengths(units)
        scale = factors(squares, float(self.clip) * STEP) * (weights / STEP)
        return np.trunc(back * scale[:, None]), latent, np.trunc(error * scale[:, None]), units


#: Rows of one block when gradients are summed; a limit on memory.
_ROWS = 2**14


def chances(scores: Whole, groups: Sequence[int]) -> Whole:
    """Outputs, in steps, from scores in units of 1/`FINE`; both have the shape (rows, outputs).

    A group of one output is the softmax of its score against a score of 0: the logistic function.
    """
    wide = np.repeat([size == 1 for size in groups], groups)
    places = np.arange(len(wide)) + np.cumsum(wide) - wide
    full = np.zeros((len(scores), len(wide) + int(wide.sum())))
    full[:, places] = scores
    sizes = np.maximum(groups, 2)
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    return shares(full, starts)[:, places]


def _with_one(rows: Whole) -> Whole:
    return np.concatenate([np.full((len(rows), 1), float(STEP)), rows], axis=1)
