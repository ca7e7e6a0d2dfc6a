"""Statistics of rows as vectors: their definitions, and mutants that the harness must catch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import caught, turned
from small_databases import two_tables

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.neighbour import remove_unit
from privbench.privacy.queries import (
    ClippedGradients,
    Features,
    Latent,
    Lengths,
    MixtureMoments,
    PublicArray,
    SecondMoments,
)
from privbench.privacy.queries.features import STEP
from privbench.privacy.queries.outer import OfFeatures
from privbench.privacy.query import Integers, Sensitivity
from privbench.privacy.spec import DatabaseSpec


def small(rows: int = 12, seed: int = 0) -> PrivateDatabase:
    """One post a user; two columns of chances and one place."""
    rng = np.random.default_rng(seed)
    cells = [rng.integers(0, size, rows).tolist() for size in (3, 2, 40)]
    return two_tables(range(rows), cells, (3, 2, 40))


def asked(database: PrivateDatabase, clip: int = STEP) -> list[OfFeatures]:
    """One query of each kind on posts."""
    rng = np.random.default_rng(5)
    spec = database.spec
    line = PublicArray.rounded(np.linspace(-0.5, 0.5, 40)[:, None], STEP)
    features = Features.of(spec, "posts", most=64)
    features = replace(features, lines=(*features.lines[:2], line), bound=int(1.2 * STEP))
    width = features.width
    latent = Latent(PublicArray(rng.integers(-STEP, STEP, (2, width))))
    hidden = PublicArray(rng.integers(-STEP, STEP, (4, 3)))
    output = PublicArray(rng.integers(-STEP, STEP, (width - 1, 5)))
    return [
        Lengths(features, PublicArray([int(1.45 * STEP)])),
        SecondMoments(features),
        MixtureMoments(features, latent, PublicArray(rng.integers(-900, 900, (3, 5)))),
        ClippedGradients(features, latent, hidden, output, clip),
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


def test_moments_are_what_their_formulas_say() -> None:
    database = small(200)
    _, second, mixture, _ = asked(database)
    assert isinstance(second, SecondMoments)
    assert isinstance(mixture, MixtureMoments)
    rows = rows_of(second, database)
    found = second.matrix(second.evaluate(database) / second.unit)
    assert found == pytest.approx(rows.T @ rows, abs=0.05)
    latent = rows @ (mixture.latent.matrix.values.T / STEP)
    latent /= np.maximum(np.linalg.norm(latent, axis=1), 1)[:, None]
    terms = np.concatenate([np.ones((200, 1)), latent, latent**2], axis=1)
    scores = np.exp(terms @ (mixture.scores.values.T / 2**8))
    chances = scores / scores.sum(axis=1, keepdims=True)
    assert mixture.evaluate(database) / mixture.unit == pytest.approx(chances.T @ terms, abs=0.5)


def test_lengths_are_counted_before_rows_are_shortened() -> None:
    database = small(200)
    query = asked(database)[0]
    whole = rows_of(SecondMoments(replace(query.features, bound=2**20)), database)[:, 1:]
    above = int((np.linalg.norm(whole, axis=1) > 1.45).sum())
    assert query.evaluate(database).tolist() == [(200 - above) * STEP, above * STEP]


def test_gradients_are_those_of_opacus() -> None:
    """Per-row gradients and their clipping against an implementation that is not ours."""
    torch = pytest.importorskip("torch")
    opacus = pytest.importorskip("opacus")
    database = small(60)
    for clip in (0.5, 2.0, 50.0):
        query = asked(database, int(clip * STEP))[3]
        assert isinstance(query, ClippedGradients)
        rows = rows_of(query, database)
        latent = rows @ (query.latent.matrix.values.T / STEP)
        latent /= np.maximum(np.linalg.norm(latent, axis=1), 1)[:, None]
        first, second = torch.nn.Linear(2, 4), torch.nn.Linear(4, query.features.width - 1)
        for layer, weights in ((first, query.hidden), (second, query.output)):
            exact = torch.tensor(weights.values / STEP, dtype=torch.float32)
            layer.weight.data, layer.bias.data = exact[:, 1:].clone(), exact[:, 0].clone()
        layers = torch.nn.Sequential(first, torch.nn.ReLU(), second)
        network = opacus.GradSampleModule(layers, loss_reduction="sum")
        given = [database._codes("posts", name)[0] for name in query.columns]
        targets = [torch.tensor(codes.astype(np.int64)) for codes in given]
        scores = network(torch.tensor(latent, dtype=torch.float32))
        functional = torch.nn.functional
        loss = functional.cross_entropy(scores[:, :3], targets[0], reduction="sum")
        loss = loss + functional.cross_entropy(scores[:, 3:5], targets[1], reduction="sum")
        place = (targets[2] / 39).float()
        loss = loss + functional.binary_cross_entropy_with_logits(
            scores[:, 5], place, reduction="sum"
        )
        loss.backward()
        each = [
            torch.cat([layer.bias.grad_sample[:, :, None], layer.weight.grad_sample], dim=2)
            for layer in (first, second)
        ]
        norms = torch.sqrt(sum((g**2).sum(dim=(1, 2)) for g in each))
        factor = torch.clamp(clip / norms, max=1.0)
        wanted = [(g * factor[:, None, None]).sum(dim=0).numpy() for g in each]
        found = query.split(query.evaluate(database) / query.unit)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours == pytest.approx(theirs, abs=0.02 + 0.01 * clip)


# mutants -----------------------------------------------------------------------------------------


class Unshortened(SecondMoments):
    """Rows as they are, under the claim for shortened ones."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        long = replace(self.features, bound=2**20)
        return SecondMoments(long).evaluate(data)


class ExactMean(SecondMoments):
    """The mean that centres rows is their own: it moves for all of them when one goes."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        rows = next(self.features.rows(whole) for whole, _ in self.features.blocks(data))
        rows[:, 1:] -= np.trunc(rows[:, 1:].mean(axis=0)) if len(rows) else 0
        found = (rows.T @ rows).astype(np.int64)
        return found[np.triu_indices(self.features.width)]


class HalfAClaim(MixtureMoments):
    """Numbers and sums are paid for, squares are not."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        claim = super().sensitivity(spec)
        return replace(claim, l2=claim.l2 / np.sqrt(3))


class SharesOfAll(MixtureMoments):
    """Sums over numbers, as the paper releases means: the quotient moves for every row."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        found = super().evaluate(data)
        counts = np.maximum(found[:, :1], 1)
        means = np.trunc(found[:, 1:] * (len(found) * float(self.unit) / counts)).astype(np.int64)
        return np.concatenate([found[:, :1], means], axis=1)


class Unclipped(ClippedGradients):
    """Gradients as they are."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        return ClippedGradients.evaluate(replace(self, clip=2**20), data)


class ClippedTogether(ClippedGradients):
    """The sum of all gradients is clipped, not each."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        found = ClippedGradients.evaluate(replace(self, clip=2**20), data).astype(np.float64)
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
        lambda: replace(features, lines=(*features.lines[:2], PublicArray([[2 * STEP]] * 40))),
        lambda: Latent(PublicArray([[2**21]])),
        lambda: replace(mixture, scores=PublicArray(np.zeros((3, 4), np.int64))),  # type: ignore[call-arg]
        lambda: replace(network, hidden=PublicArray(np.full((4, 3), 2**19))),  # type: ignore[call-arg]
        lambda: replace(network, clip=0),  # type: ignore[call-arg]
    ):
        with pytest.raises(SchemaError):
            wrong()
