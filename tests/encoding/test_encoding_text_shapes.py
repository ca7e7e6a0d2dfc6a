"""Shapes of text that noise hides."""

import numpy as np
import pytest

from privbench.encoding.surrogate_text import SHAPES, shape_domain
from privbench.learning.junction.oneway import Raw, denoise_one_way
from privbench.rng import generator

ODD = ["digits", "decimal", "email", "url", "hex"]


def denoised(counts: dict[str, float], sd: float, seed: int) -> dict[str, float]:
    true = np.array([counts.get(name, 0.0) for name in SHAPES])
    noisy = true + generator(seed, "shapes").laplace(0.0, sd / np.sqrt(2.0), len(true))
    raw = Raw(np.arange(len(true)), noisy, sd)
    found = denoise_one_way(raw, shape_domain(False), float(true.sum()), "laplace")
    return dict(zip(SHAPES, found / found.sum(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_titles_that_noise_hides_are_words(seed):
    found = denoised({"title": 90.0, "capitalised": 10.0}, 60.0, seed)
    assert sum(found[name] for name in ODD) < 0.05


@pytest.mark.parametrize("name", ODD)
def test_addresses_and_numbers_that_are_seen_stay(name):
    found = denoised({name: 500.0, "lower": 20.0}, 10.0, 3)
    assert found[name] > 0.8
