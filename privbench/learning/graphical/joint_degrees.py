"""Correlated degrees: how many rows of several child tables belong to the same parent row.

See "Degrees together" in ``docs/method.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Rng
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.denoise import Noise
from privbench.learning.graphical.estimate import TINY, log_likelihood, posterior
from privbench.learning.portable import normal_quantile

#: Correlations that are considered, as inverse hyperbolic tangents (Fisher's z).
GRID = np.linspace(-2.6, 2.6, 27)
#: Prior standard deviation of z of a correlation of sizes, around that of presences; and of that of
#: presences, around independence at first, and then around that of sizes.
SIZE_SD, PRESENCE_SD = 1.0, 0.5
#: Relative error that the copula is allowed where noise is small.
INEXACT = 0.02
#: Parts of the parents with children that may lie beyond a clip.
BEYOND = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
#: Share of the logarithm of what a clip leaves out by which the copula's extrapolation may be off:
#: .16 to .19 for Poisson degrees of a shared log-normal factor, clipped at 8 to 24.
EXTRAPOLATED = 0.2
#: Rows of a simulation of two degrees.
ROWS = 2**12
#: Least eigenvalue of a matrix of correlations.
LEAST = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class JointDegrees:
    """The joint distribution of the degrees of one table; each degree keeps its own distribution.

    Every degree has a normal score, and another that decides whether a row has any children at all.
    Both are sums of the same independent scores.
    """

    columns: tuple[int, ...]  # places of the degrees among the table's own columns
    sizes: Floats  # weights of the independent scores, shape (degrees, degrees), see `root_of`
    presences: Floats  # the same for the other scores

    def joined(self, codes: Mapping[int, Codes], generator: Rng) -> dict[int, Codes]:
        """Move the cells of each degree to other rows, so that degrees have these correlations.

        ``codes`` and the result are by the place of the column. Correlations that degrees have
        already, through columns on which they depend, are taken out first.
        """
        degrees = [codes[place] for place in self.columns]
        if len(degrees[0]) <= len(degrees):
            return dict(codes)
        scores = np.array([_scores(column, generator) for column in degrees])
        free = np.empty_like(scores)  # independent of those before
        for place, rest in enumerate(scores):
            for other in free[:place]:
                rest -= (rest * other).sum() * other
            free[place] = rest / np.sqrt(max((rest * rest).sum(), LEAST * len(rest)))
        sizes, presences = (
            [(weights[:, None] * free).sum(axis=0) for weights in root]
            for root in (self.sizes, self.presences)
        )
        moved = map(_placed, degrees, sizes, presences)
        return {**codes, **dict(zip(self.columns, moved, strict=True))}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the distribution as arrays, which `from_arrays` reads."""
        columns = np.array(self.columns, np.int64)
        return {"columns": columns, "sizes": self.sizes, "presences": self.presences}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the joint distribution that arrays of `to_arrays` describe.

        Raises:
            ModelError: Damaged or hostile input.
        """
        columns, *both = (arrays[name] for name in ("columns", "sizes", "presences"))
        sound = columns.ndim == 1 and columns.dtype == np.int64 and len(np.unique(columns)) > 1
        for matrix in both:
            sound = sound and matrix.dtype == np.float64 and matrix.shape == (columns.size,) * 2
            sound = sound and bool((np.abs(matrix) <= 1.0).all())
        if not sound or len(np.unique(columns)) < columns.size:
            raise ModelError("correlations of degrees in the model are damaged.")
        # Files of version 9 have correlations.
        roots = (root_of(item) if np.triu(item, 1).any() else item for item in both)
        return cls(tuple(columns.tolist()), *roots)


def _scores(codes: Codes, generator: Rng) -> Floats:
    """Normal scores of rows by their cells, equal ones in random order."""
    order = generator.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    scores = np.empty(len(codes))
    scores[order] = normal_quantile((np.arange(len(codes)) + 0.5) / len(codes))
    return scores


def _placed(codes: NDArray[Any], sizes: Floats, presences: Floats) -> NDArray[Any]:
    """The same cells in other rows: those above 0 go to the rows of largest presence, by size."""
    none = int((codes == 0).sum())
    placed = np.zeros_like(codes)
    if none < len(codes):
        rows = np.sort(np.argpartition(presences, none)[none:])
        placed[rows[np.argsort(sizes[rows], kind="stable")]] = np.sort(codes)[none:]
    return placed


def root_of(correlations: Floats) -> Floats:
    """Return the Cholesky factor of correlations after negative eigenvalues are removed."""
    values, vectors = np.linalg.eigh(correlations)
    positive = (vectors * np.maximum(values, LEAST)) @ vectors.T
    scale = np.sqrt(np.diag(positive))
    return np.asarray(np.linalg.cholesky(positive / np.outer(scale, scale)))


@dataclass(frozen=True, slots=True, eq=False)
class DegreeLaw:
    """The released distribution of one degree, and the estimates that correlate it with others."""

    shares: Floats  # share of parents per bucket, in the order of their counts; the first has none
    means: Floats  # mean count per bucket

    def clips(self) -> set[int]:
        """Return counts above which fixed parts (`BEYOND`) of the parents with children lie."""
        above = self.shares[::-1].cumsum()[::-1]
        parts = np.array(BEYOND)[:, None] * max(float(above[1]), TINY)
        last = len(above) - 1 - (above > parts)[:, ::-1].argmax(axis=1)
        return {max(round(mean), 1) for mean in self.means[last].tolist()}

    def clips_with(
        self, other: DegreeLaw, noise: Callable[[tuple[int, int]], float]
    ) -> tuple[int, int]:
        """Return the clips with the least error of log Σ d₁·d₂, given the noise per parent.

        A larger clip leaves less to the copula and has more noise.
        """
        options = list(product(self.clips(), other.clips()))
        every: list[tuple[float, float]] = [(np.inf, np.inf), *options]
        low, middle, high = self._means(other, every, [(rho, rho) for rho in (0.2, 0.5, 0.8)])
        informative = (high - low) / max(
            float(np.log(max(high[0], TINY) / max(low[0], TINY))), TINY
        )
        errors = [
            np.hypot(
                noise(clips) * clips[0] * clips[1] / max(float(informative[place]), TINY),
                EXTRAPOLATED * np.log(max(middle[0], TINY) / max(middle[place], TINY)),
            )
            for place, clips in enumerate(options, 1)
        ]
        return options[int(np.argmin(errors))]

    def moments_with(
        self, other: DegreeLaw, clips: tuple[int, int], presence: float | None = None
    ) -> Floats:
        """Return the expected product of two clipped degrees at every correlation in `GRID`.

        It is a share of the parents. The correlation of presences is the same, or else
        ``presence``.
        """
        each = [(rho, rho if presence is None else presence) for rho in np.tanh(GRID)]
        return self._means(other, [clips], each)[:, 0] / (clips[0] * clips[1])

    def correlations_with(
        self, other: DegreeLaw, noisy: Floats, clips: tuple[int, int], sd: float, law: Noise
    ) -> tuple[float, float]:
        """Estimate the correlations of sizes and of presences from the measured moments.

        The moments are those at the clips 1 × 1 and ``clips``.
        """
        there, size = noisy.tolist()
        both = self.moments_with(other, (1, 1))
        start = _correlation(there, sd, law, both, 0.0, SIZE_SD)
        correlation = _correlation(size, sd, law, self.moments_with(other, clips), start, SIZE_SD)
        presence = _correlation(there, sd, law, both, correlation, PRESENCE_SD)
        means = self.moments_with(other, clips, presence)
        return _correlation(size, sd, law, means, presence, SIZE_SD), presence

    def _means(
        self,
        other: DegreeLaw,
        clips: Sequence[tuple[float, float]],
        correlations: Sequence[tuple[float, float]],
    ) -> Floats:
        """Means of min(d₁, c₁)·min(d₂, c₂) over rows, by correlations (of sizes, of presences)."""
        uniform = (np.arange(ROWS) + 0.5) / ROWS
        free = normal_quantile((np.arange(ROWS, dtype=np.float64) * 0.6180339887498949 + 0.5) % 1.0)
        score = normal_quantile(uniform)
        mine, theirs = (
            np.searchsorted(np.cumsum(law.shares)[:-1], uniform, side="right")
            for law in (self, other)
        )
        first, means = self.means[mine], []
        for both in correlations:
            size, there = (part * score + np.sqrt(1.0 - part**2) * free for part in both)
            second = other.means[_placed(theirs, size, there)]
            means.append([np.minimum(first, c) @ np.minimum(second, d) for c, d in clips])
        return np.array(means) / ROWS


def _correlation(
    noisy: float,
    sd: float,
    law: Noise,
    means: Floats,
    around: float,
    spread: float,
) -> float:
    """The posterior mean of a correlation, by a moment that has these means over `GRID`.

    Beforehand it is as likely as not ``around``, and else normal about it.
    """
    middle = float(np.arctanh(around))
    means = np.append(means, np.interp(middle, GRID, means))
    normal = np.exp(-0.5 * ((GRID - middle) / spread) ** 2)
    prior = np.append(normal / normal.sum(), 1.0)
    error = np.hypot(sd, INEXACT * means)
    likely = log_likelihood(noisy - means, error, law) - np.log(error)
    weight = posterior(likely + np.log(prior))
    return float(np.tanh(weight @ np.append(GRID, middle)))
