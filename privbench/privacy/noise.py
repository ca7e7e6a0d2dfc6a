"""Where noise comes from: OpenDP on the system's entropy, or a seed, which is not private.

A fit whose source is not private is stamped NOT PRIVATE in every event.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privbench.privacy.mechanisms import (
    DiscreteLaplace,
    Integers,
    Mechanism,
    VectorMechanism,
    clamp,
)
from privbench.privacy.selection import Selection
from privbench.privacy.thresholds import LaplaceThreshold, Threshold
from privbench.rng import generator


class NoiseSource(Protocol):
    """Draws the releases that the session asks for.

    ``stream`` names the event; a source with entropy of its own does not look at it.
    """

    @property
    def private(self) -> bool:
        """Whether the releases are differentially private."""

    def vector(
        self, mechanism: VectorMechanism, values: Integers, scale: float, stream: str
    ) -> Integers:
        """The values plus noise."""

    def index(self, mechanism: Selection, scores: Integers, scale: float, stream: str) -> int:
        """The index of a noisy maximum."""

    def labels(
        self,
        mechanism: Threshold,
        counts: Mapping[str, int],
        scale: float,
        threshold: int,
        stream: str,
    ) -> dict[str, int]:
        """The labels whose noisy count reaches the threshold, sorted, with these counts."""


class OpenDPNoise:
    """The private source: OpenDP's exact samplers on operating-system entropy."""

    private = True

    def vector(
        self, mechanism: VectorMechanism, values: Integers, scale: float, stream: str
    ) -> Integers:
        """See `NoiseSource`."""
        return mechanism.draw(values, scale)

    def index(self, mechanism: Selection, scores: Integers, scale: float, stream: str) -> int:
        """See `NoiseSource`."""
        return mechanism.draw(scores, scale)

    def labels(
        self,
        mechanism: Threshold,
        counts: Mapping[str, int],
        scale: float,
        threshold: int,
        stream: str,
    ) -> dict[str, int]:
        """See `NoiseSource`."""
        return mechanism.draw(counts, scale, threshold)


class SeededNoise:
    """NOT PRIVATE: the same laws from a public seed, for tests and reproducible fits.

    Args:
        seed: The public seed; every event draws from a stream of its own.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def keys(self, rows: int, table: str) -> NDArray[np.uint64]:
        """Uniform numbers for the ranks of a table's rows, shape (rows,)."""
        found = generator(self._seed, "ranks", table).integers(2**64, size=rows, dtype=np.uint64)
        return np.asarray(found)

    def vector(
        self, mechanism: VectorMechanism, values: Integers, scale: float, stream: str
    ) -> Integers:
        """See `NoiseSource`."""
        rng = generator(self._seed, "noise", stream)
        noise = _noise(rng, mechanism, scale, values.size)
        return clamp(values) + noise.reshape(values.shape)

    def index(self, mechanism: Selection, scores: Integers, scale: float, stream: str) -> int:
        """See `NoiseSource`."""
        rng = generator(self._seed, "noise", stream)
        shape = scores.shape
        draws = rng.exponential(size=shape) if mechanism.noise == "exponential" else None
        noise = rng.gumbel(size=shape) if draws is None else draws
        shifted = (scores - scores.max()).astype(np.float64)
        return int(np.argmax(shifted + scale * noise))

    def labels(
        self,
        mechanism: Threshold,
        counts: Mapping[str, int],
        scale: float,
        threshold: int,
        stream: str,
    ) -> dict[str, int]:
        """See `NoiseSource`."""
        rng = generator(self._seed, "noise", stream)
        labels = sorted(counts)
        noise = _noise(rng, mechanism, scale, len(labels)).tolist()
        return {
            label: counts[label] + extra
            for label, extra in zip(labels, noise, strict=True)
            if counts[label] + extra >= threshold
        }


def _noise(rng: np.random.Generator, mechanism: Mechanism, scale: float, size: int) -> Integers:
    if isinstance(mechanism, DiscreteLaplace | LaplaceThreshold):
        return _discrete_laplace(rng, scale, size)
    return _discrete_gaussian(rng, scale, size)


def _discrete_laplace(rng: np.random.Generator, scale: float, size: int) -> Integers:
    """The difference of two geometric draws with success probability 1 − exp(−1/s)."""
    success = -math.expm1(-1.0 / scale)
    return rng.geometric(success, size) - rng.geometric(success, size)


def _discrete_gaussian(rng: np.random.Generator, scale: float, size: int) -> Integers:
    """From the table of the law below scale 32; above it rounding is finer than any test sees."""
    if scale >= 32.0:
        return np.rint(rng.normal(scale=scale, size=size)).astype(np.int64)
    reach = np.arange(-512, 513, dtype=np.int64)
    law = np.exp(-(reach.astype(np.float64) ** 2) / (2.0 * scale**2))
    return rng.choice(reach, size=size, p=law / law.sum())
