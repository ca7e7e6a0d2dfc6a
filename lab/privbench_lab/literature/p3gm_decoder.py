"""P3GM's released model of a table: a mixture of latent rows and a network that decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats
from privbench.domain import Codes, Domain
from privbench.errors import ModelError
from privbench.privacy.queries import PublicArray
from privbench_lab.literature.classify import draw
from privbench_lab.queries.features import groups_of, line_of
from privbench_lab.queries.outer import FINE

#: Rows that are decoded at once; a limit on memory.
_CHUNK = 2**14
#: Rounds in which the label's mean law is adjusted to its released shares.
_ROUNDS = 30
#: Least variance of a Gaussian, as a part of that of all rows.
_LEAST = 0.05
#: Names of a decoder's arrays in a model file.
_ARRAYS = ("weights", "means", "variances", "hidden", "output", "mean", "noise")


@dataclass(frozen=True, slots=True)
class Mixture:
    """A mixture of Gaussians with diagonal covariances."""

    weights: Floats  # shares of components, above 0
    means: Floats  # shape (components, dimensions)
    variances: Floats  # shape (components, dimensions), above 0

    @classmethod
    def of(cls, sums: Floats, few: float, spreads: Floats) -> Mixture:
        """The mixture of the noisy sums of `MixtureMoments`.

        Every component gets ``few`` rows of variance ``spreads`` around 0 beyond its own.
        """
        half = len(spreads)
        counts = np.maximum(sums[:, :1], 0.0) + few
        means = np.clip(sums[:, 1 : 1 + half] / counts, -1.0, 1.0)
        squares = (sums[:, 1 + half :] + few * spreads) / counts
        variances = np.clip(squares - means**2, _LEAST * spreads, 1.0)
        return cls(counts[:, 0] / counts.sum(), means, variances)

    def scores(self) -> PublicArray:
        """Log-densities as linear forms of (1, z, z²), in steps of 1/`FINE`."""
        inverse = 1.0 / self.variances
        constant = np.log(self.weights) + 0.5 * (np.log(inverse) - self.means**2 * inverse).sum(
            axis=1
        )
        forms = np.concatenate([constant[:, None], self.means * inverse, -0.5 * inverse], axis=1)
        return PublicArray.rounded(np.clip(forms, -(2**16), 2**16), FINE)

    def sample(self, rows: int, rng: np.random.Generator) -> Floats:
        """Latent rows of a length of at most 1."""
        which = rng.choice(len(self.weights), rows, p=self.weights)
        drawn = rng.normal(self.means[which], np.sqrt(self.variances[which]))
        return np.asarray(drawn / np.maximum(np.linalg.norm(drawn, axis=1), 1.0)[:, None])


@dataclass(frozen=True, slots=True)
class Decoder:
    """The released model of a table's rows: a mixture of latent rows and the decoder's weights."""

    domains: dict[str, Domain]  # every column's domain, in order
    cells: int  # columns of at most this many codes have a probability for each code
    mixture: Mixture  # the law of latent rows
    hidden: Floats  # weights of hidden units
    output: Floats  # weights of outputs
    mean: Floats  # released mean of every output's target; that of numbers is centred at 0
    noise: Floats  # standard deviation of numbers around the decoded ones, 0 for probabilities
    label: str  # a column whose shares in sampled rows are the released ones, or none

    def with_noise(self, variances: Floats, rng: np.random.Generator) -> Decoder:
        """This decoder, with the noise that gives numbers their released variances."""
        made = self._outputs(self.mixture.sample(_CHUNK, rng))
        chances = np.concatenate([np.full(g, g > 1) for g in self._groups()])
        decoded = np.var(1 / (1 + np.exp(-made)), axis=0)
        left = np.where(chances, 0.0, np.maximum(variances - decoded, 0.0))
        return replace(self, noise=np.sqrt(left))

    def sample(self, rows: int, generator: np.random.Generator) -> Mapping[str, Codes]:
        """See `AttributeModel`."""
        parts = []
        for start in range(0, rows, _CHUNK):
            latent = self.mixture.sample(min(_CHUNK, rows - start), generator)
            parts.append(self._decoded(self._outputs(latent), generator))
        return {
            name: np.concatenate([part[name] for part in parts] or [np.zeros(0, domain.dtype)])
            for name, domain in self.domains.items()
        }

    def _outputs(self, latent: Floats) -> Floats:
        units = np.clip(latent @ self.hidden[:, 1:].T + self.hidden[:, 0], 0.0, 16.0)
        return np.asarray(units @ self.output[:, 1:].T + self.output[:, 0])

    def _groups(self) -> list[int]:
        """Number of outputs in every group; a group of one output is a number."""
        return [size for domain in self.domains.values() for size in self._parts(domain)]

    def _parts(self, domain: Domain) -> list[int]:
        return groups_of([line_of(domain, self.cells)]) if domain.size > 1 else []

    def _decoded(self, scores: Floats, rng: np.random.Generator) -> dict[str, Codes]:
        found, place = {}, 0
        for name, domain in self.domains.items():
            codes = np.zeros(len(scores), np.int64)
            for size in self._parts(domain):
                at = slice(place, place + size)
                place += size
                if size == 1:
                    level = 1 / (1 + np.exp(-scores[:, at.start]))
                    level += self.noise[at.start] * rng.normal(size=len(level))
                    codes = np.rint(np.clip(level, 0, 1) * (domain.values - 1)).astype(np.int64)
                    continue
                law = np.exp(scores[:, at] - scores[:, at].max(axis=1, keepdims=True))
                law /= law.sum(axis=1, keepdims=True)
                if name == self.label:
                    law = _calibrated(law, np.maximum(self.mean[at], 1e-6))
                drawn = draw(law, rng)
                # If the column has a number, the first probability is that of all ordinary codes.
                special = domain.values - 1 + drawn
                beside = size < domain.size
                codes = np.where(drawn == 0, codes, special) if beside else drawn
            found[name] = codes.astype(domain.dtype)
        return found

    def to_state(self) -> tuple[Any, dict[str, NDArray[Any]]]:
        """See `AttributeModel`."""
        domains = [[name, domain.to_json()] for name, domain in self.domains.items()]
        law = self.mixture.weights, self.mixture.means, self.mixture.variances
        held = *law, self.hidden, self.output, self.mean, self.noise
        state = {"label": self.label, "cells": self.cells, "domains": domains}
        return state, dict(zip(_ARRAYS, held, strict=True))

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that `to_state` wrote; a ModelError for anything else."""
        domains = {str(name): Domain.from_json(dict(held)) for name, held in state["domains"]}
        held = (np.asarray(arrays[name], np.float64) for name in _ARRAYS)
        weights, means, variances, hidden, output, mean, noise = held
        mixture, cells, label = Mixture(weights, means, variances), state["cells"], state["label"]
        made = cls(domains, int(cells), mixture, hidden, output, mean, noise, str(label))
        outputs = sum(made._groups())
        fits = (
            means.shape == variances.shape == (len(weights), hidden.shape[1] - 1)
            and output.shape == (outputs, 1 + len(hidden))
            and mean.shape == noise.shape == (outputs,)
            and all(np.isfinite(array).all() for array in arrays.values())
            and (variances > 0).all()
            and (noise >= 0).all()
            and abs(weights.sum() - 1) < 1e-6
            and (weights >= 0).all()
        )
        if not fits:
            raise ModelError("the decoder in the model is damaged.")
        return made


def _calibrated(law: Floats, shares: Floats) -> Floats:
    """Scale the classes of all rows' laws so that the mean law has the given shares."""
    wanted = shares / shares.sum()
    for _ in range(_ROUNDS):
        law = law * (wanted / np.maximum(law.mean(axis=0), 1e-12))
        law = law / law.sum(axis=1, keepdims=True)
    return law
