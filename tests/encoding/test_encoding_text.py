"""Text: how often surrogate values occur, and shapes that noise hides."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from privbench.encoding import codec_from_json
from privbench.encoding.base import attribute
from privbench.encoding.surrogate_text import SHAPES, shape_domain
from privbench.encoding.surrogates import (
    Surrogates,
    made_distinct,
    made_semantic,
    surrogates_from_json,
)
from privbench.encoding.text import TextCodec
from privbench.learning.graphical.one_way import one_way
from privbench.rng import generator
from privbench.schema import ColumnType

TEXT = ColumnType("text", "text", category="S")
EDGES = tuple(range(13))


def _codec(surrogates: Surrogates | None, labels=("red", "blue"), provider=None) -> TextCodec:
    lengths = None if provider else EDGES
    return TextCodec("c", TEXT, True, labels, lengths, provider, surrogates)


def _codes(label: np.ndarray, length: int = 8) -> dict[str, np.ndarray]:
    rows = len(label)
    return {
        "c": label,
        attribute("c", "length"): np.full(rows, length),
        attribute("c", "shape"): np.full(rows, SHAPES.index("lower")),
    }


@pytest.mark.parametrize("provider", [None, "last_name"])
def test_values_occur_as_often_as_their_blocks_say(provider):
    codec = _codec(((1, 0.5), (10, 0.4), (0, 0.1)), provider=provider)
    codes = _codes(np.repeat([0, 2, 3], [500, 1000, 100]))
    found = codec.decode(codes, generator(1))
    counts = Counter(found.to_pylist())
    assert counts.pop(None) == 100
    assert counts.pop("red") == 500
    assert sorted(counts.values(), reverse=True) == [500] + [40] * 10 + [1] * 100
    again = codec_from_json(codec.to_json()).decode(codes, generator(1))
    assert again.equals(found)


def test_rows_that_share_a_text_are_alike_in_length():
    codes = _codes(np.full(4000, 2))
    codes[attribute("c", "length")] = generator(2).integers(3, 12, 4000)
    found = _codec(((40, 1.0),)).decode(codes, generator(3)).to_pylist()
    assert len(set(found)) == 40
    off = np.array([*map(len, found)]) - codes[attribute("c", "length")]
    assert np.mean(np.abs(off)) < 0.2


def test_short_texts_differ_from_each_other_and_from_labels():
    labels = ("a", "e", "i")
    for seed in range(5):
        codes = _codes(np.full(600, 3), length=1)
        found = _codec(((6, 1.0),), labels).decode(codes, generator(seed)).to_pylist()
        assert len(set(found)) >= 5


def test_a_rest_that_is_noise_becomes_labels_and_a_real_one_does_not():
    def distinct(rest: int) -> set[str]:
        codes = _codes(np.repeat([0, 1, 2], [600, 400, rest]))
        return set(_codec(()).decode(codes, generator(4)).to_pylist())

    assert distinct(20) == {"red", "blue"}
    assert 2 < len(distinct(200)) <= 10
    assert len(distinct(3000)) > 2500
    nothing = _codec((), labels=()).decode(_codes(np.zeros(5, int)), generator(1))
    assert nothing.null_count == 0


def test_semantic_types_of_which_few_rows_share_a_value_are_different():
    assert len(set(made_semantic("email", 3000, generator(1)).to_pylist())) == 3000
    assert len(set(made_distinct("first_name", 5000, generator(1), 12).to_pylist())) > 4950
    assert len(set(made_semantic("first_name", 5000, generator(1)).to_pylist())) < 1000


@pytest.mark.parametrize(
    "blocks", [[[-1, 0.5]], [[1, -0.5]], [[1, float("nan")]], [[float("inf"), 1.0]], [[10**9, 1.0]]]
)
def test_blocks_of_a_hostile_model_are_refused(blocks):
    with pytest.raises(ValueError, match="no blocks"):
        surrogates_from_json(blocks)


ODD = ["digits", "decimal", "email", "url", "hex"]


def denoised(counts: dict[str, float], sd: float, seed: int) -> dict[str, float]:
    true = np.array([counts.get(name, 0.0) for name in SHAPES])
    noisy = true + generator(seed, "shapes").laplace(0.0, sd / np.sqrt(2.0), len(true))
    found = one_way(noisy, sd, shape_domain(False), "laplace", float(true.sum()))
    return dict(zip(SHAPES, found, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_titles_that_noise_hides_are_words(seed):
    found = denoised({"title": 90.0, "capitalised": 10.0}, 60.0, seed)
    assert sum(found[name] for name in ODD) < 0.05


@pytest.mark.parametrize("name", ODD)
def test_addresses_and_numbers_that_are_seen_stay(name):
    found = denoised({name: 500.0, "lower": 20.0}, 10.0, 3)
    assert found[name] > 0.8
