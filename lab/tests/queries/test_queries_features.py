"""Statistics of rows as vectors: their definitions, and mutants that the harness must catch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import caught, turned
from private_tables import two_tables
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from privbench.arrays import Ints
from privbench.errors import SchemaError
from privbench.privacy import queries as q
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.query import Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench_lab import queries as lab
from privbench_lab.neighbours.stability import remove_unit
from privbench_lab.queries.features import STEP
from privbench_lab.queries.outer import OfFeatures


def small(rows: int = 12, seed: int = 0) -> PrivateDatabase:
    """One post a user; two columns of chances and one place."""
    rng = np.random.default_rng(seed)
    cells = [rng.integers(0, size, rows).tolist() for size in (3, 2, 40)]
    return two_tables(range(rows), cells, (3, 2, 40))


def asked(database: PrivateDatabase, clip: int = STEP) -> list[OfFeatures]:
    """One query of each kind on posts."""
    rng = np.random.default_rng(5)
    spec = database.spec
    line = q.PublicArray.rounded(np.linspace(-0.5, 0.5, 40)[:, None], STEP)
    features = lab.Features.of(spec, "posts", most=64)
    features = replace(features, lines=(*features.lines[:2], line), bound=int(1.2 * STEP))
    width = features.width
    latent = lab.Latent(q.PublicArray(rng.integers(-STEP, STEP, (2, width))))
    hidden = q.PublicArray(rng.integers(-STEP, STEP, (4, 3)))
    output = q.PublicArray(rng.integers(-STEP, STEP, (width - 1, 5)))
    return [
        lab.Lengths(features, q.PublicArray([int(1.45 * STEP)])),
        lab.SecondMoments(features),
        lab.MixtureMoments(features, latent, q.PublicArray(rng.integers(-900, 900, (3, 5)))),
        lab.ClippedGradients(features, latent, hidden, output, clip),
    ]


@pytest.mark.parametrize("rows", [2, 7, 130])
def test_a_row_adds_the_same_in_any_company(rows: int) -> None:
    database = small(rows)
    for query in asked(database):
        gone = query.evaluate(database) - query.evaluate(remove_unit(database, "users", 0))
        alone = database
        for row in range(rows - 1, 0, -1):
            alone = remove_unit(alone, "users", row)
        assert np.array_equal(gone, query.evaluate(alone)), query.kind


def rows_of(query: OfFeatures, database: PrivateDatabase) -> np.ndarray[Any, Any]:
    """Rows with their constant, in floating point, by the definition."""
    codes = [database._codes("posts", name)[0] for name in query.columns]
    lines = query.features.lines
    whole = np.concatenate(
        [line.values[c] / STEP for line, c in zip(lines, codes, strict=True)], axis=1
    )
    length = np.linalg.norm(whole, axis=1, keepdims=True)
    bound = query.features.bound / STEP
    short = whole * np.minimum(1, bound / length)
    return np.concatenate([np.ones((len(whole), 1)) * query.features.origin / STEP, short], axis=1)


def latent_rows(latent: lab.Latent, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Latent rows in floating point, by the definition."""
    found = rows @ (latent.matrix.values.T / STEP)
    return found / np.maximum(np.linalg.norm(found, axis=1), 1)[:, None]


def test_moments_and_lengths_are_what_their_formulas_say() -> None:
    database = small(200)
    _, second, mixture, _ = asked(database)
    rows = rows_of(second, database)
    found = second.matrix(second.evaluate(database) / second.unit)
    assert found == pytest.approx(rows.T @ rows, abs=0.05)
    latent = latent_rows(mixture.latent, rows)
    terms = np.concatenate([np.ones((200, 1)), latent, latent**2], axis=1)
    scores = np.exp(terms @ (mixture.scores.values.T / 2**8))
    chances = scores / scores.sum(axis=1, keepdims=True)
    assert mixture.evaluate(database) / mixture.unit == pytest.approx(chances.T @ terms, abs=0.5)
    # Lengths are counted before rows are shortened.
    database = small(200)
    query = asked(database)[0]
    whole = rows_of(lab.SecondMoments(replace(query.features, bound=2**20)), database)[:, 1:]
    above = int((np.linalg.norm(whole, axis=1) > 1.45).sum())
    assert query.evaluate(database).tolist() == [(200 - above) * STEP, above * STEP]


@pytest.mark.parametrize("clip", [0.5, 2.0, 50.0])
def test_gradients_are_those_of_the_loss_row_by_row(clip: float) -> None:
    """Finite differences of each row's cross-entropy, clipped, against the statistic."""
    database = small(20)
    query = asked(database, int(clip * STEP))[3]
    latent = latent_rows(query.latent, rows_of(query, database))
    codes = np.stack([database._codes("posts", name)[0] for name in query.columns], axis=1)
    layers = [query.hidden.values / STEP, query.output.values / STEP]

    def loss(flat: np.ndarray[Any, Any], row: int) -> float:
        parts = np.split(flat, [layers[0].size])
        first, second = (
            part.reshape(layer.shape) for part, layer in zip(parts, layers, strict=True)
        )
        hidden = np.maximum(first @ np.append(1, latent[row]), 0)
        scores = second @ np.append(1, hidden)
        one, two, place = codes[row]
        found = logsumexp(scores[:3]) - scores[one] + logsumexp(scores[3:5]) - scores[3 + two]
        return float(found + np.logaddexp(0, scores[5]) - place / 39 * scores[5])

    weights = np.concatenate([layer.ravel() for layer in layers])
    each = [approx_fprime(weights, loss, 1e-7, row) for row in range(20)]
    wanted = sum(g * min(1.0, clip / np.linalg.norm(g)) for g in each)
    assert query.evaluate(database) / query.unit == pytest.approx(wanted, abs=0.02 + 0.01 * clip)


class Unshortened(lab.SecondMoments):
    """Rows as they are, under the claim for shortened ones."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        long = replace(self.features, bound=2**20)
        return lab.SecondMoments(long).evaluate(data)


class ExactMean(lab.SecondMoments):
    """The mean that centres rows is their own: it moves for all of them when one goes."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        rows = next(self.features.rows(whole) for whole, _ in self.features.blocks(data))
        rows[:, 1:] -= np.trunc(rows[:, 1:].mean(axis=0)) if len(rows) else 0
        found = (rows.T @ rows).astype(np.int64)
        return found[np.triu_indices(self.features.width)]


class HalfAClaim(lab.MixtureMoments):
    """Numbers and sums are paid for, squares are not."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        claim = super().sensitivity(spec)
        return replace(claim, l2=claim.l2 / np.sqrt(3))


class SharesOfAll(lab.MixtureMoments):
    """Sums over numbers, as the paper releases means: the quotient moves for every row."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        found = super().evaluate(data)
        counts = np.maximum(found[:, :1], 1)
        means = np.trunc(found[:, 1:] * (len(found) * float(self.unit) / counts)).astype(np.int64)
        return np.concatenate([found[:, :1], means], axis=1)


class Unclipped(lab.ClippedGradients):
    """Gradients as they are."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        return lab.ClippedGradients.evaluate(replace(self, clip=2**20), data)


class ClippedTogether(lab.ClippedGradients):
    """The sum of all gradients is clipped, not each."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        found = lab.ClippedGradients.evaluate(replace(self, clip=2**20), data).astype(np.float64)
        bound, length = float(self.clip) * STEP, max(float(np.linalg.norm(found)), 1.0)
        return np.trunc(found * min(1.0, bound / length) * len(found)).astype(np.int64)


@pytest.mark.parametrize(
    ("kind", "place", "clip"),
    [
        (Unshortened, 1, STEP),
        (ExactMean, 1, STEP),
        (HalfAClaim, 2, STEP),
        (SharesOfAll, 2, STEP),
        (Unclipped, 3, STEP // 8),
        (ClippedTogether, 3, STEP // 8),
    ],
)
def test_mutants_are_caught(kind: type[Any], place: int, clip: int) -> None:
    database = two_tables(range(9), [[2] * 8 + [0], [1] * 8 + [0], [39] * 8 + [0]], (3, 2, 40))
    queries = asked(database, clip)
    assert caught(queries[place], database) == set()
    assert "l2" in caught(turned(kind, queries[place]), database)


def test_what_does_not_fit_is_refused() -> None:
    database = small(3)
    _, _, mixture, network = asked(database)
    features = mixture.features
    for wrong in (
        lambda: replace(features, bound=0),
        lambda: replace(features, lines=(*features.lines[:2], q.PublicArray([[2 * STEP]] * 40))),
        lambda: lab.Latent(q.PublicArray([[2**21]])),
        lambda: replace(mixture, scores=q.PublicArray(np.zeros((3, 4), np.int64))),  # type: ignore[call-arg]
        lambda: replace(network, hidden=q.PublicArray(np.full((4, 3), 2**19))),  # type: ignore[call-arg]
        lambda: replace(network, clip=0),  # type: ignore[call-arg]
    ):
        with pytest.raises(SchemaError):
            wrong()
