"""Sums of clipped gradients of a small network that foretells a row from a latent row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.claims import claim
from privbench.privacy.queries.features import STEP, Latent, Whole, cut, factors, lengths
from privbench.privacy.queries.outer import FINE, OfFeatures, shares
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.query import Integers, Sensitivity
from privbench.privacy.spec import DatabaseSpec

#: Largest activation of a hidden unit, and largest weight, in steps.
MOST = 2**4 * STEP


@dataclass(frozen=True)
class ClippedGradients(OfFeatures):
    """The weighted sum over rows of the clipped gradient of a decoder's loss, for one step.

    The decoder has a hidden layer of rectified units, h = max(A·(1, z), 0), limited to `MOST`, and
    outputs B·(1, h): softmax for groups of chances, the logistic function for numbers, whose
    target is their place plus ½. The loss is cross-entropy, whose gradient at the outputs is
    chance minus target, e; at the hidden units it is g = Bᵀe, within ±64, where h is above 0.

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

    def evaluate(self, data: PrivateDatabase) -> Integers:
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
        """w·c·g, (1, z), w·c·e and (1, h) of rows."""
        matrix = self.output.values.astype(np.float64)
        latent = _with_one(self.latent.rows(self.features.rows(whole)))
        before = cut(latent @ self.hidden.values.T.astype(np.float64))
        units = _with_one(np.clip(before, 0, MOST))
        error = self._chances(units, matrix) - self._targets(whole)
        back = np.clip(cut(error @ matrix[:, 1:]), -(2**20), 2**20) * (before > 0)
        squares = lengths(back) * lengths(latent) + lengths(error) * lengths(units)
        scale = factors(squares, float(self.clip) * STEP) * (weights / STEP)
        return np.trunc(back * scale[:, None]), latent, np.trunc(error * scale[:, None]), units

    def _chances(self, units: Whole, matrix: Whole) -> Whole:
        """Outputs in steps."""
        scores = np.floor(units @ matrix.T / (STEP * (STEP // FINE)))
        return chances(scores, self.features.groups)

    def _targets(self, whole: Whole) -> Whole:
        """Target values of the outputs, in steps."""
        return whole + np.where(self.features.places, STEP // 2, 0.0)


#: Rows of one block of a gradient; bounds memory.
_ROWS = 2**14


def chances(scores: Whole, groups: Sequence[int]) -> Whole:
    """Outputs in steps of scores in steps of 1/`FINE`, shape (rows, outputs) both.

    A number alone stands against a score of 0.
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
