"""Sources of noise: OpenDP with the system's entropy, or a seeded generator, which is not private.

A fit whose source is not private is stamped NOT PRIVATE in every event.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Ints
from privbench.privacy.mechanisms import Mechanism, Method, SelectionMechanism, clamp
from privbench.rng import generator


class NoiseSource:
    """Draws the noise of a session's releases by OpenDP's exact samplers from the system's entropy.

    Subclasses may draw otherwise, and say so.
    """

    private = True  # whether the releases are differentially private

    def draw(self, method: Method, exact: Any, stream: str) -> Any:
        """Return the mechanism's release of an exact statistic (`Mechanism.draw`).

        ``stream`` names the event. Only a seeded source uses it, to choose the random stream.
        """
        return method.mechanism.draw(exact, method.scale, method.threshold)


class SeededNoise(NoiseSource):
    """NOT PRIVATE: draws noise of the same distributions from a public seed, for tests.

    Fits with it are reproducible. Every event draws from a stream of its own.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def keys(self, rows: int, table: str) -> NDArray[np.uint64]:
        """Return uniform numbers for the ranks of a table's rows, shape (rows,)."""
        keys = generator(self._seed, "ranks", table).integers(2**64, size=rows, dtype=np.uint64)
        return np.asarray(keys)

    def draw(self, method: Method, exact: Any, stream: str) -> Any:
        """Return the mechanism's release with seeded noise; see `NoiseSource.draw`."""
        mechanism, scale = method.mechanism, method.scale
        if isinstance(mechanism, SelectionMechanism):
            rng = generator(self._seed, "noise", stream)
            law = rng.exponential if mechanism.loss == "epsilon" else rng.gumbel
            noise = law(size=exact.shape)
            shifted = (exact - exact.max()).astype(np.float64)
            return int(np.argmax(shifted + scale * noise))
        if method.threshold is None:
            noise = self._noise(mechanism, exact.size, scale, stream)
            return clamp(exact) + noise.reshape(exact.shape)
        extra = self._noise(mechanism, len(exact), scale, stream).tolist()
        noisy = {name: exact[name] + more for name, more in zip(sorted(exact), extra, strict=True)}
        return {name: count for name, count in noisy.items() if count >= method.threshold}

    def _noise(self, mechanism: Mechanism, size: int, scale: float, stream: str) -> Ints:
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
