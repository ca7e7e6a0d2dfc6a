"""Text: shapes and lengths, and how often surrogate values occur."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from columns import TEXT
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.encoding import codec_from_json
from privbench.encoding.base import attribute
from privbench.encoding.surrogate_text import PATTERNS, SHAPES, made_text, shape_domain, shapes
from privbench.encoding.surrogates import (
    Surrogates,
    made_distinct,
    made_semantic,
    surrogates_from_json,
)
from privbench.encoding.text import TextCodec
from privbench.rng import generator

EDGES = tuple(range(13))


def test_shapes_cover_their_names_and_made_text_has_them():
    samples = {
        "digits": "0123", "decimal": "-1.50", "email": "a.b@c.de", "url": "https://x.y/z",
        "hex": "deadbeef01", "lower": "straße", "capitalised": "Émile", "upper": "ABC",
        "code": "AB-12/3", "title": "Ann Marie Lee", "sentence": "hello, big world", "other": "a_b",
    }  # fmt: skip
    assert set(samples) == set(SHAPES)
    assert len(PATTERNS) + 1 == len(SHAPES)
    codes = shapes(pa.array([*samples.values(), None]))[:-1]
    assert [SHAPES[code] for code in codes] == list(samples)
    # Made text has the shape asked for.
    kinds = np.repeat(np.arange(len(SHAPES)), 50)
    text = made_text(kinds, np.full(len(kinds), 24), generator(2))
    same = shapes(text) == kinds
    by_kind = {name: float(same[kinds == i].mean()) for i, name in enumerate(SHAPES)}
    by_kind.pop("other")
    assert min(by_kind.values()) > 0.9, by_kind
    # Shapes that noise hides are words and no numbers or addresses.
    first, end = shape_domain(False).core
    assert {"lower", "title", "sentence"} <= {*SHAPES[first:end]}
    assert not {"digits", "decimal", "email", "url", "hex"} & {*SHAPES[first:end]}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.sampled_from("aZ0.,@ /#-_&'\n\t:wx"), max_size=9)))
def test_shapes_of_ascii_are_those_of_all_letters(texts):
    """One text beyond ASCII among them takes the patterns over all of Unicode."""
    assert shapes(pa.array([*texts, "é"], pa.string()))[:-1].tolist() == (
        shapes(pa.array(texts, pa.string())).tolist()
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 300))), st.integers(0, 2**32))
def test_made_text_of_a_length_has_it(pairs, seed):
    kinds, lengths = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    text = made_text(kinds, lengths, generator(seed)).to_pylist()
    assert [len(value) for value in text] == lengths.tolist()
    assert all(value.isascii() and "\x00" not in value for value in text)


def codec_of(surrogates: Surrogates | None, labels=("red", "blue"), provider=None) -> TextCodec:
    lengths = None if provider else EDGES
    return TextCodec("c", TEXT, True, labels, lengths, provider, surrogates)


def codes_of(label: np.ndarray, length: int = 8) -> dict[str, np.ndarray]:
    return {
        "c": label,
        attribute("c", "length"): np.full(len(label), length),
        attribute("c", "shape"): np.full(len(label), SHAPES.index("lower")),
    }


@pytest.mark.parametrize("provider", [None, "last_name"])
def test_decode_of_blocks_occurs_as_often_as_they_say(provider):
    codec = codec_of(((1, 0.5), (10, 0.4), (0, 0.1)), provider=provider)
    codes = codes_of(np.repeat([0, 2, 3], [500, 1000, 100]))
    found = codec.decode(codes, generator(1))
    counts = Counter(found.to_pylist())
    assert (counts.pop(None), counts.pop("red")) == (100, 500)
    assert sorted(counts.values(), reverse=True) == [500] + [40] * 10 + [1] * 100
    again = codec_from_json(codec.to_json()).decode(codes, generator(1))
    assert again.equals(found)


def test_decode_of_surrogates_differs_and_is_as_long_as_told():
    codes = codes_of(np.full(4000, 2))
    codes[attribute("c", "length")] = generator(2).integers(3, 12, 4000)
    found = codec_of(((40, 1.0),)).decode(codes, generator(3)).to_pylist()
    assert len(set(found)) == 40
    off = np.array([*map(len, found)]) - codes[attribute("c", "length")]
    assert np.mean(np.abs(off)) < 0.2
    # Short texts differ from each other and from labels.
    for seed in range(5):
        codes = codes_of(np.full(600, 3), length=1)
        found = codec_of(((6, 1.0),), ("a", "e", "i")).decode(codes, generator(seed)).to_pylist()
        assert len(set(found)) >= 5
    # Semantic types of which few rows share a value are different.
    assert len(set(made_semantic("email", 3000, generator(1)).to_pylist())) == 3000
    mails, names = (made_distinct(kind, 5000, generator(1), 24) for kind in ("email", "first_name"))
    assert len(set(mails.to_pylist())) > 4950
    # Others are shared by more rows before they get a number.
    assert 500 < len(set(names.to_pylist())) < 1000
    assert not any(any(map(str.isdigit, name)) for name in names.to_pylist())
    assert len(set(made_semantic("first_name", 5000, generator(1)).to_pylist())) < 1000


def test_a_rest_that_is_noise_becomes_labels_and_a_real_one_does_not():
    def distinct(rest: int) -> set[str]:
        codes = codes_of(np.repeat([0, 1, 2], [600, 400, rest]))
        return set(codec_of(()).decode(codes, generator(4)).to_pylist())

    assert distinct(20) == {"red", "blue"}
    assert 2 < len(distinct(200)) <= 10
    assert len(distinct(3000)) > 2500
    nothing = codec_of((), labels=()).decode(codes_of(np.zeros(5, int)), generator(1))
    assert nothing.null_count == 0


@pytest.mark.parametrize(
    "blocks", [[[-1, 0.5]], [[1, -0.5]], [[1, float("nan")]], [[float("inf"), 1.0]], [[10**9, 1.0]]]
)
def test_surrogates_from_json_of_hostile_blocks_is_refused(blocks):
    with pytest.raises(ValueError, match="no blocks"):
        surrogates_from_json(blocks)
