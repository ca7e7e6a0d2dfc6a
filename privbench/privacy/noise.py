"""Where noise comes from: OpenDP on the system's entropy, or a seed, which is not private.

A fit whose source is not private is stamped NOT PRIVATE in every event.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from privbench.privacy.mechanisms import (
    Integers,
    Mechanism,
    Selection,
    Threshold,
    VectorMechanism,
    clamp,
)
from privbench.rng import generator


class NoiseSource:
    """Draws the noise of a session's releases: privately, unless a subclass says otherwise.

    ``stream`` names the event; a source with entropy of its own does not use it.
    """

    private = True  # whether the releases are differentially private

    def vector(
        self, mechanism: VectorMechanism, values: Integers, scale: float, stream: str
    ) -> Integers:
        """The values plus noise."""
        return mechanism.draw(values, scale)

    def index(self, mechanism: Selection, scores: Integers, scale: float, stream: str) -> int:
        """The index of a noisy maximum."""
        return mechanism.draw(scores, scale)

    def labels(
        self,
        mechanism: Threshold,
        counts: Mapping[str, int],
        scale: float,
        threshold: int,
        stream: str,
    ) -> dict[str, int]:
        """The labels whose noisy count reaches the threshold, sorted, with these counts."""
        return mechanism.draw(counts, scale, threshold)


class OpenDPNoise(NoiseSource):
    """The private source: OpenDP's exact samplers on operating-system entropy."""


class SeededNoise(NoiseSource):
    """NOT PRIVATE: the same laws from a public seed, for tests and reproducible fits.

    Every event draws from a stream of its own.
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
        noise = self._noise(mechanism, values.size, scale, stream)
        return clamp(values) + noise.reshape(values.shape)

    def index(self, mechanism: Selection, scores: Integers, scale: float, stream: str) -> int:
        """See `NoiseSource`."""
        rng = generator(self._seed, "noise", stream)
        law = rng.exponential if mechanism.loss == "epsilon" else rng.gumbel
        noise = law(size=scores.shape)
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
        noise = self._noise(mechanism, len(counts), scale, stream).tolist()
        noisy = {
            name: counts[name] + extra for name, extra in zip(sorted(counts), noise, strict=True)
        }
        return {name: count for name, count in noisy.items() if count >= threshold}

    def _noise(self, mechanism: Mechanism, size: int, scale: float, stream: str) -> Integers:
        """Discrete Laplace or Gaussian noise, from a seeded generator.

        From scale 32 on, rounded Gaussian noise stands for the discrete Gaussian.
        """
        rng = generator(self._seed, "noise", stream)
        if mechanism.loss == "epsilon":
            success = -math.expm1(-1.0 / scale)
            return rng.geometric(success, size) - rng.geometric(success, size)
        if scale >= 32.0:
            return np.rint(rng.normal(scale=scale, size=size)).astype(np.int64)
        reach = np.arange(-512, 513, dtype=np.int64)
        law = np.exp(-(reach.astype(np.float64) ** 2) / (2.0 * scale**2))
        return rng.choice(reach, size=size, p=law / law.sum())
