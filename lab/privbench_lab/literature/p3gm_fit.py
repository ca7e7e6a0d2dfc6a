"""How P3GM's three phases learn a table: components, a mixture of latent rows, a decoder.

Every measurement is one of four statistics with proofs of their own (`privbench.privacy.queries`):
`Lengths`, `SecondMoments`, `MixtureMoments`, `ClippedGradients`. All else here works on their noisy
answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from privbench.arrays import Floats
from privbench.learning.answers import Measured
from privbench.privacy import DatabaseSpec, Measurement, Query
from privbench.privacy.queries import PublicArray
from privbench.synthesizers.base import Options
from privbench.synthesizers.database import TableFit
from privbench_lab.literature.p3gm_decoder import Decoder, Mixture
from privbench_lab.queries import (
    ClippedGradients,
    Features,
    Latent,
    Lengths,
    MixtureMoments,
    SecondMoments,
)
from privbench_lab.queries.features import MOST_ORIGIN, STEP
from privbench_lab.queries.outer import MOST

#: Part of the amount for the range of lengths.
LENGTHS = 0.02
#: Labels of events; the label of a step ends with the step's number.
_LENGTHS_LABEL, _MOMENTS_LABEL = "lengths of rows of {}", "second moments of {}"
_MIXTURE_LABEL, _DECODER_LABEL = "mixture of {}, step ", "decoder of {}, step "
#: Part of the rows that are not shortened: the bound on lengths is about this quantile.
_KEPT = 0.98
#: Root mean square of the length of latent rows, whose greatest is 1.
_TYPICAL = 0.5
#: Steps of gradient descent: Adam's usual decays, and its rate at first; it falls to 0.
_DECAYS, _RATE = (0.9, 0.99), 0.05


class P3gmOptions(Options):
    """Parameters of P3GM."""

    # A column whose shares in synthetic rows are the released ones, as for the paper's label.
    label: str = ""
    latent: Annotated[int, Field(ge=1, le=64)] = 10  # number of principal components
    components: Annotated[int, Field(ge=1, le=64)] = 3  # Gaussians of the mixture
    # Columns of at most this many codes have a probability for each; wider ones are numbers.
    cells: Annotated[int, Field(ge=2, le=256)] = 24
    hidden: Annotated[int, Field(ge=1, le=1024)] = 100  # hidden units of the decoder
    iterations: Annotated[int, Field(ge=1, le=100)] = 10  # steps of EM
    steps: Annotated[int, Field(ge=1, le=1000)] = 100  # steps of gradient descent
    # Part of the amount for principal components.
    principal: Annotated[float, Field(gt=0, lt=0.5)] = 0.15
    # Part of the amount for the mixture; the decoder gets the rest.
    mixture: Annotated[float, Field(gt=0, lt=0.48)] = 0.15

    @property
    def decoder(self) -> float:
        """Part of the amount for the decoder."""
        return 1 - LENGTHS - self.principal - self.mixture


@dataclass(frozen=True)
class Learner:
    """Learns the decoder of one table."""

    fit: TableFit  # the fit of a table with a column of more than one code
    options: P3gmOptions  # the synthesizer's options
    random: np.random.Generator  # public randomness: starting points, draws from what was released

    def decoder(self) -> Decoder:
        """Measure and learn everything."""
        spec, table, options = self.fit.spec, self.fit.table, self.options
        features = self._bounded(Features.of(spec, table, options.cells))
        rows, mean, covariance, sd = self._moments(features)
        latent, spreads = self._components(features, mean, covariance)
        mixture = self._mixture(features, latent, spreads)
        network = self._trained(features, latent, rows, mean)
        domains = dict(spec.tables[table].attributes)
        none, label = np.zeros(0), options.label
        made = Decoder(domains, options.cells, mixture, *network, mean, none, label)
        # One standard deviation is subtracted from variances, so that their noise does not become
        # variance of columns that hardly vary.
        return made.with_noise(np.diag(covariance) - sd, self.random)

    def _measure(self, query: Query, part: float, event: str) -> Measured:
        """The answer to a query that costs a part of the table's amount."""
        return self.fit.measure(query, part * self.fit.amount, event.format(self.fit.table))

    def _bounded(self, features: Features) -> Features:
        """The features with a bound on their lengths, and an origin of half that length.

        The bound is measured, unless public knowledge says that all lengths are equal.
        """
        least, most = reach(features)
        bound = most
        if least < most:
            query = lengths_of(features)
            counts, _ = self._measure(query, LENGTHS, _LENGTHS_LABEL)
            ends = [*query.edges.values.tolist(), most]
            below = np.cumsum(np.maximum(counts, 0))
            bound = ends[int(np.searchsorted(below, _KEPT * below[-1]))]
        return bounded(features, bound)

    def _moments(self, features: Features) -> tuple[float, Floats, Floats, float]:
        """Number of rows, mean and covariance of their features, and the covariance's noise."""
        query = SecondMoments(features)
        noisy, sd = self._measure(query, self.options.principal, _MOMENTS_LABEL)
        found, origin = query.matrix(noisy), features.origin / STEP
        rows = max(found[0, 0] / origin**2, 1.0)
        mean = np.clip(found[0, 1:] / (origin * rows), -1.0, 1.0)
        return rows, mean, found[1:, 1:] / rows - np.outer(mean, mean), sd / rows

    def _components(
        self, features: Features, mean: Floats, covariance: Floats
    ) -> tuple[Latent, Floats]:
        """The map to principal components, and the variances of latent rows."""
        values, vectors = np.linalg.eigh(covariance)
        count = min(self.options.latent, len(values))
        variances = np.maximum(values[::-1][:count], 1e-6)
        steep = _TYPICAL / np.sqrt(variances.sum())
        matrix = steep * vectors[:, ::-1][:, :count].T
        origin = features.origin / STEP
        whole = np.concatenate([-(matrix @ mean)[:, None] / origin, matrix], axis=1)
        return Latent(PublicArray.rounded(np.clip(whole, -64, 64), STEP)), variances * steep**2

    def _mixture(self, features: Features, latent: Latent, spreads: Floats) -> Mixture:
        """Fit the mixture by EM; each step averages the last half of all sums to reduce noise."""
        count, steps = self.options.components, self.options.iterations
        # If means began far apart in many dimensions, one component would take all rows.
        means = self.random.normal(size=(count, len(spreads))) * np.sqrt(spreads / len(spreads))
        found = Mixture(np.full(count, 1 / count), means, np.tile(spreads, (count, 1)))
        sums: list[Floats] = []
        for step in range(steps):
            query = MixtureMoments(features, latent, found.scores())
            part, label = self.options.mixture / steps, f"{_MIXTURE_LABEL}{step + 1}"
            noisy, sd = self._measure(query, part, label)
            sums.append(noisy)
            kept = sums[len(sums) // 2 :]
            found = Mixture.of(np.mean(kept, axis=0), 2 * sd / len(kept) ** 0.5, spreads)
        return found

    def _trained(
        self, features: Features, latent: Latent, rows: float, mean: Floats
    ) -> tuple[Floats, Floats]:
        """The decoder's weights: Adam on noisy gradients, the mean over the last half of steps."""
        units, outputs, steps = self.options.hidden, features.width - 1, self.options.steps
        at = [
            self.random.normal(size=(units, 1 + latent.dimensions)) / _TYPICAL,
            self.random.normal(size=(outputs, 1 + units)) / np.sqrt(units) / 4,
        ]
        # Constants of the outputs at which these are the released means.
        chance = np.clip(np.where(features.places, mean + 0.5, mean), 1e-4, 1 - 1e-4)
        at[1][:, 0] = np.log(chance) - features.places * np.log(1 - chance)
        first, second = [np.zeros_like(w) for w in at], [np.zeros_like(w) for w in at]
        total = [np.zeros_like(w) for w in at]
        late = steps // 2
        for step in range(steps):
            query = gradients(features, latent, at)
            part, label = self.options.decoder / steps, f"{_DECODER_LABEL}{step + 1}"
            noisy, _ = self._measure(query, part, label)
            rate = _RATE * (1 - step / steps)
            for i, gradient in enumerate(query.split(noisy / rows)):
                first[i] += (1 - _DECAYS[0]) * (gradient - first[i])
                second[i] += (1 - _DECAYS[1]) * (gradient**2 - second[i])
                size = np.sqrt(second[i] / (1 - _DECAYS[1] ** (step + 1))) + 1e-8
                at[i] = at[i] - rate * first[i] / (1 - _DECAYS[0] ** (step + 1)) / size
                if step >= late:
                    total[i] += at[i] / (steps - late)
        return total[0], total[1]


def reach(features: Features) -> tuple[int, int]:
    """Least and greatest length that a row's features can have, in steps; public."""
    squares = [(line.values**2).sum(axis=1) for line in features.lines]
    least, most = (sum(int(pick(s)) for s in squares) for pick in (np.min, np.max))
    return int(least**0.5), int(most**0.5) + 1


def lengths_of(features: Features) -> Lengths:
    """Counts of rows by length, at steps of a factor √2 down from the greatest length."""
    _, most = reach(features)
    return Lengths(features, PublicArray([int(most * 2 ** (-k / 2)) for k in range(15, 0, -1)]))


def bounded(features: Features, bound: int) -> Features:
    """The same features with rows shortened to at most the length ``bound``."""
    bound = max(bound, 2)
    origin = min(bound // 2, MOST_ORIGIN)
    return Features(features.source, features.axes, features.lines, origin, bound)


def gradients(features: Features, latent: Latent, weights: Sequence[Floats]) -> ClippedGradients:
    """The query of one step's gradients at these weights."""
    hidden, output = (
        PublicArray(np.clip(np.rint(w * STEP), -MOST, MOST).astype(np.int64)) for w in weights
    )
    return ClippedGradients(features, latent, hidden, output)


def planned(
    spec: DatabaseSpec, table: str, amount: float, options: P3gmOptions
) -> list[Measurement]:
    """Every measurement of a table's fit, planned with parameters that are all 0."""
    features = Features.of(spec, table, options.cells)
    least, most = reach(features)
    measurements: list[tuple[str, Query, float]] = []
    if least < most:
        measurements.append((_LENGTHS_LABEL, lengths_of(features), LENGTHS))
    features = bounded(features, most)
    measurements.append((_MOMENTS_LABEL, SecondMoments(features), options.principal))
    dimensions = min(options.latent, features.width - 1)
    latent = Latent(PublicArray(np.zeros((dimensions, features.width), np.int64)))
    scores = PublicArray(np.zeros((options.components, 1 + 2 * dimensions), np.int64))
    mixture, part = MixtureMoments(features, latent, scores), options.mixture / options.iterations
    measurements += [(f"{_MIXTURE_LABEL}{k + 1}", mixture, part) for k in range(options.iterations)]
    shapes = (options.hidden, 1 + dimensions), (features.width - 1, 1 + options.hidden)
    network = gradients(features, latent, [np.zeros(shape) for shape in shapes])
    part = options.decoder / options.steps
    measurements += [(f"{_DECODER_LABEL}{k + 1}", network, part) for k in range(options.steps)]
    return [
        Measurement(query, part * amount, label.format(table))
        for label, query, part in measurements
    ]
