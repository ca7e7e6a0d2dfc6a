"""Queries in regions, and of rows as vectors, on every small private database."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from small_databases import subset_scores

from privbench.privacy import queries as q
from privbench.privacy.query import Query
from privbench.privacy.spec import DatabaseSpec
from privbench_lab import queries as lab


def queries(spec: DatabaseSpec, seed: int = 0) -> list[Query]:
    """Every kind of query of the lab, on every table of a settled spec."""
    rng = np.random.default_rng(seed)
    return [query for name in spec.tables for query in _of_table(spec, name, rng)]


def _of_table(spec: DatabaseSpec, name: str, rng: np.random.Generator) -> Iterator[Query]:
    yield from _regions(spec, name, rng)
    yield from _of_features(spec, name, rng)


def _regions(spec: DatabaseSpec, name: str, rng: np.random.Generator) -> Iterator[Query]:
    first = lab.Split.of({"c0": rng.integers(0, 50, (3, 3)), "c1": rng.integers(0, 50, (2, 3))})
    second = lab.Split.by_code("c2", [0, 1, 1, 0])
    root = lab.Region(name)
    parts = root.children(first)
    leaves = (*parts[0].children(second), *parts[1:])
    yield q.Histogram.of(spec, name, ("c1",), leaves[1])
    yield q.Joint(tuple(q.Histogram.of(spec, name, ("c1", "c2"), leaf) for leaf in leaves))
    mixed = [
        q.Histogram.of(spec, name, ("c1",), leaves[0]),
        q.Histogram.of(spec, name, ("c0",), parts[0]),
        q.Histogram.of(spec, name, ("c2",), root),
        q.Histogram.of(spec, name, ("c2",), root.child(second, 1)),
    ]
    yield q.Joint(tuple(mixed))
    for kind in (q.PairScores, q.DependenceScores):
        scored = [subset_scores(kind, spec, name, rng, region) for region in (*leaves, root)]
        yield q.Joint(tuple(scored))
    yield lab.RegionMoments.of(spec, ("c0", "c1"), root, first)
    yield q.Joint(tuple(lab.RegionMoments.of(spec, ("c0", "c1"), leaf, first) for leaf in leaves))
    wide = [lab.RegionMoments.of(spec, ("c0", "c2"), part, second) for part in (*parts, root)]
    yield q.Joint((*wide, lab.RegionMoments.of(spec, ("c1",), parts[0], second)))


def _of_features(spec: DatabaseSpec, name: str, rng: np.random.Generator) -> Iterator[Query]:
    """Rows as vectors: some are shortened, and so are latent rows and gradients."""
    features = replace(lab.Features.of(spec, name, most=3), origin=2**13, bound=int(1.4 * 2**14))
    yield lab.Lengths(features, q.PublicArray([2**14, int(1.5 * 2**14)]))
    yield lab.SecondMoments(features)
    latent = lab.Latent(q.PublicArray(rng.integers(-(2**15), 2**15, (2, features.width))))
    yield lab.MixtureMoments(features, latent, q.PublicArray(rng.integers(-900, 900, (3, 5))))
    hidden = q.PublicArray(rng.integers(-(2**15), 2**15, (3, 3)))
    output = q.PublicArray(rng.integers(-(2**15), 2**15, (features.width - 1, 4)))
    yield lab.ClippedGradients(features, latent, hidden, output, 2**14)
