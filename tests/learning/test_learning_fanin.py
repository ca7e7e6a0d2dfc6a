"""Laws of references from noisy histograms of fan-in: how many there are, and how uneven."""

import numpy as np
import pytest

from privbench.learning.fanin import OFF, SHADES, fit_fan_in
from privbench.privacy import DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.privacy.queries import FanIn
from privbench.privacy.queries.fanin import levels
from privbench.rng import generator

TARGETS, WEIGHT, REFERRED = 40_000, 10_000.0, 4_000
KEY = KeySpec("k", "link", "post", "ref")
SPEC = DatabaseSpec(
    {
        "person": TableSpec("person", {}),
        "post": TableSpec("post", {}, (KeySpec("o", "post", "person", "own"),)),
        "link": TableSpec("link", {}, (KeySpec("p", "link", "person", "own"), KEY)),
    },
    Relation(),
)


def counts_of(shape, draws):
    if shape == "even":
        return 1 + draws.poisson(1.2, REFERRED)
    if shape == "hubs":
        return np.minimum(draws.zipf(2.2, REFERRED), 3_000)
    return np.maximum(np.rint(np.exp(draws.normal(2.0, 1.3, REFERRED))), 1).astype(int)


def released(query, counts, weights, sd, draws):
    """What the query releases of targets with these numbers of references."""
    whole, part = levels(query.scale(SPEC), query.buckets)
    m = np.minimum(counts, len(whole) - 1)
    upper = part[m] / 2**30
    cells = np.bincount(whole[m], weights * (1 - upper), query.buckets + 2)
    cells += np.bincount(whole[m] + 1, weights * upper, query.buckets + 2)
    return cells[1 : query.buckets + 1] + draws.laplace(0, sd / np.sqrt(2.0), query.buckets)


@pytest.mark.parametrize("sd", [0.5, 5.0, 40.0])
@pytest.mark.parametrize("shade", [0.2, 1.0, 1.5])
@pytest.mark.parametrize("shape", ["even", "hubs", "spread"])
def test_a_law_has_the_references_that_there_are(shape, shade, sd):
    """Targets that weigh more or less than others, hubs less than others: exact cells or not."""
    draws = generator(5, shape, str(shade), str(sd))
    counts = counts_of(shape, draws)
    heavy = counts ** (-0.2 if shape == "hubs" else 0.0)
    weights = WEIGHT / TARGETS * shade * heavy / heavy.mean()
    query = FanIn(KEY)
    noisy = released(query, counts, weights, sd, draws)
    total = float(counts.sum())
    kept, most = (total, OFF * total), 1.1 * total
    law = fit_fan_in(query, SPEC, noisy, sd, (float(TARGETS), WEIGHT), kept, most, SHADES)
    drawn = law.draw(TARGETS, draws)
    assert drawn.sum() == pytest.approx(total, rel=0.35)
    if sd < 10.0:
        assert REFERRED / 2.5 < np.count_nonzero(drawn) < 4 * REFERRED


def test_as_many_references_of_each_target_stay_so():
    """Seven passengers on each of 3,000 flights: rows that weigh alike are told apart closely."""
    parent = TableSpec("flight", {})
    key = KeySpec("k", "ticket", "flight", "ref")
    spec = DatabaseSpec({"flight": parent, "ticket": TableSpec("ticket", {}, (key,))}, Relation())
    query = FanIn(key)
    whole, part = levels(query.scale(spec), query.buckets)
    cells = np.zeros(query.buckets + 2)
    cells[whole[7]], cells[whole[7] + 1] = 3_000 * (1 - part[7] / 2**30), 3_000 * part[7] / 2**30
    noisy = cells[1:-1] + generator(3).laplace(0, 5.0, query.buckets)
    size, kept = (3_000.0, 3_000.0), (20_000.0, 10_000.0)
    law = fit_fan_in(query, spec, noisy, 5.0 * np.sqrt(2.0), size, kept, 25_000.0, SHADES[:1])
    drawn = law.draw(3_000, generator(4))
    assert np.mean((drawn >= 5) & (drawn <= 8)) > 0.9
