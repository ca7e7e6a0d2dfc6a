"""Text: shapes and lengths, and how often surrogate values occur."""

import json
from collections import Counter
from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from columns import TEXT, plan
from faker.providers.person.en_US import Provider as PersonProvider
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.encoding import codec_from_json
from privbench.encoding.base import attribute
from privbench.encoding.bounds import Bounds
from privbench.encoding.surrogate_text import SHAPES, made_text, shape_domain, shapes
from privbench.encoding.surrogates import (
    KIND,
    Surrogates,
    made_distinct,
    made_semantic,
    surrogates_from_json,
)
from privbench.encoding.text import TextCodec
from privbench.encoding.text_formats import days_of
from privbench.encoding.text_words import word_piece
from privbench.errors import ModelError
from privbench.rng import generator

EDGES = tuple(range(13))


WORDS = {
    "lower": "straße", "capitalised": "Émile", "upper": "ABC", "code": "AB-12/3",
    "title": "Ann Marie Lee", "sentence": "hello, big world", "other": "a_b",
}  # fmt: skip
TEXTS = {
    "19800412": "iso date basic", "2022-03": "iso month", "2021-W05": "iso week",
    "2024-02-29": "iso date", "2024-01-31T10:00:00Z": "iso timestamp",
    "2024-01-31 10:00:00.5": "sql timestamp", "07:30": "time of day",
    "31.12.2024": "date with dots", "31-Dec-2024": "date with the month's name",
    "01/02/2024": "date with slashes, either order", "01/31/2024": "date with slashes, month first",
    "31/01/2024": "date with slashes, day first", "1700000000": "unix seconds",
    "1700000000000": "unix milliseconds", "00037": "leading zeros", "42": "digits",
    "-7": "signed integer",
    "45.5": "tenths", "45.50": "hundredths", "0.125": "decimal", "-1.50": "signed decimal",
    "12,50": "decimal comma", "1,234.50": "thousands with decimals", "12%": "percent",
    "$9.99": "currency before", "9.99 EUR": "currency code", "deadbeef01": "hex",
    "c1a6cac5-8e39-420a-9698-fb0cc79e9940": "uuid", "01HGMCT81GWMGKWDSZJ02M45ZP": "ulid",
    "192.168.0.1": "ip address", "v1.2.0": "version with v", "a.b@c.de": "email",
    "https://x.y/z": "url", "https://x.y/z?a=b": "url with query", "+49 30 100001": "phone",
    "INV-2021-00001": "number of a year", "CUST-000017": "upper prefix and digits",
    '{"theme": "dark", "n": 1}': "json object", '["a", "b"]': "json array", "[1, 2]":
    "json array of numbers", "{a,b}": "postgres array", "1,2,3": "list of integers",
    "vip,new": "list with commas", "/usr/share": "absolute path", "report.pdf": "file name",
}  # fmt: skip


def test_texts_have_the_first_format_that_they_match_and_made_ones_have_the_same():
    texts = {**TEXTS, **{text: name for name, text in WORDS.items()}}
    codes = shapes(pa.array([*texts, None]))[:-1]
    assert [SHAPES[code] for code in codes] == list(texts.values())
    # Made text has the shape asked for.
    kinds = np.repeat(np.arange(len(SHAPES)), 50)
    text = made_text(kinds, np.full(len(kinds), 12), generator(2))
    same = shapes(text) == kinds
    by_kind = {name: float(same[kinds == i].mean()) for i, name in enumerate(SHAPES)}
    by_kind = {name: share for name, share in by_kind.items() if share < 0.9}
    assert set(by_kind) <= {
        "other",
        "thousands",
        "thousands with decimals",
        "prefix and digits",
        "digits",
    }
    # Shapes that noise hides are words and no numbers or addresses.
    domain = shape_domain(False)
    assert (*WORDS, *domain.specials) == SHAPES
    assert domain.values == len(WORDS)


def test_made_texts_of_formats_can_be_cast_and_few_words_among_them_are_noise():
    shape, length = attribute("c", "shape"), attribute("c", "length")
    codec = TextCodec("c", TEXT, False, None, tuple(range(30)), None)
    read = {
        "iso date basic": lambda text: datetime.strptime(text, "%Y%m%d"),
        "date with slashes, day first": lambda text: datetime.strptime(text, "%d/%m/%Y"),
        "iso timestamp": datetime.fromisoformat, "iso week": lambda text: text.index("W"),
        "digits": lambda text: int(text) < 2**31, "percent": lambda text: int(text.rstrip("%")),
        "tenths": float, "scientific": float, "json object": json.loads, "json array": json.loads,
    }  # fmt: skip
    for name, cast in read.items():
        kinds = np.full(300, SHAPES.index(name))
        kinds[:10] = SHAPES.index("lower")
        codes = {length: generator(1).integers(1, 11, 300), shape: kinds}
        for text in codec.decode(codes, generator(1)).to_pylist():
            cast(text)
    # A few lengths that noise gives are none, and numbers begin with no zero: codes with one have
    # a format of their own.
    length_of = np.append(np.repeat([3, 4], 500), [9] * 5)
    kinds = np.full(1005, SHAPES.index("digits"))
    made = codec.decode({length: length_of, shape: kinds}, generator(1)).to_pylist()
    assert {len(str(int(text))) for text in made} == {3, 4}
    # A format that does not fit the length makes words.
    short = TextCodec("c", TEXT, False, None, tuple(range(6)), None)
    made = short.decode(
        {length: np.full(9, 4), shape: np.full(9, SHAPES.index("uuid"))}, generator(1)
    )
    assert {len(text) for text in made.to_pylist()} == {4}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.sampled_from("aZ0.,@ /#-_&'\n\t:wx"), max_size=9)))
def test_shapes_of_ascii_are_those_of_all_letters(texts):
    """One text beyond ASCII among them takes the patterns over all of Unicode."""
    assert shapes(pa.array([*texts, "é"], pa.string()))[:-1].tolist() == (
        shapes(pa.array(texts, pa.string())).tolist()
    )


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(WORDS) - 1), st.integers(0, 300))), st.integers(0, 2**32)
)
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


@pytest.mark.parametrize(("labels", "empty"), [(("", "red"), 500), (("red", "blue"), 200)])
def test_texts_beside_an_empty_label_are_not_empty(labels, empty):
    """Most rows are: of a thousand, five hundred have the label, and most lengths are 0."""
    codes = codes_of(np.repeat([labels.index("red") ^ 1, 2], [500, 500]))
    lengths = np.repeat([0, 7, 8], [700, 200, 100])
    codes[attribute("c", "length")] = lengths
    found = codec_of(None, labels).decode(codes, generator(5)).to_pylist()
    assert found.count("") == empty
    assert {len(text) for text in found[500:] if text} == {7, 8}


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
    ("labels", "kinds", "numbers"),
    [
        (("0", "12"), range(len(WORDS)), True),
        (("0", ""), range(len(WORDS)), True),
        (("0", "12"), [0, 0, 0, 1], False),
        (("0", "red"), range(len(WORDS)), False),
        ((), range(len(WORDS)), False),
    ],
)
def test_texts_whose_shapes_noise_hides_have_the_formats_of_the_labels(labels, kinds, numbers):
    codes = codes_of(np.full(700, len(labels)))
    codes[attribute("c", "shape")] = np.resize(kinds, 700)
    found = codec_of(None, labels).decode(codes, generator(6)).to_pylist()
    assert all(map(str.isdigit, found)) == numbers
    # Of words most begin with consonants.
    lower = [text for text in found if text.isalpha() and text.islower()]
    assert sum(text[0] in "aeiou" for text in lower) < max(0.3 * len(lower), 1)


@pytest.mark.parametrize(
    "blocks", [[[-1, 0.5]], [[1, -0.5]], [[1, float("nan")]], [[float("inf"), 1.0]], [[10**9, 1.0]]]
)
def test_surrogates_from_json_of_hostile_blocks_is_refused(blocks):
    with pytest.raises(ValueError, match="no blocks"):
        surrogates_from_json(blocks)


SPELLINGS = {
    "%Y%m%d": 1, "%Y-%m-%d": 1, "%d.%m.%Y": 1, "%d-%b-%Y": 1,
    # Of 01/02/2024 nobody knows the order by itself, so the year is kept, and the day is spelled
    # before the month as in 31/01/2024.
    "%d/%m/%Y": 200, "%m/%d/%Y": 1, "%Y/%m/%d": 1,
    "%Y-%m-%dT%H:%M:%SZ": 1, "%Y-%m": 31, "%Y%m": 31, "%Y": 366, "%G-W%V": 7,
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_dates_inside_texts_are_dates(spelling):
    """Their range and law are those of dates, and every text is spelled as before."""
    first, last = (np.datetime64(f"{year}-01-01").astype(int) for year in (1951, 1991))
    days = np.arange(first, last, 3)
    texts = pc.strftime(pa.array(days.astype("M8[D]").astype("M8[s]")), format=spelling)
    found = plan(TEXT, name="birthday_txt", null=False, delta=0.0)
    bounds, *more = found.needs
    assert not more
    codec = found.finish({bounds.attribute: Bounds(int(first), int(last), 128)})
    codes = found.read({"c1": texts, "c1n": pc.utf8_length(texts).cast(pa.int64())})
    date = codec.recodings[bounds.attribute].apply(codes[bounds.attribute])
    made = codec.decode({**codes, bounds.attribute: date}, generator(1))
    assert codec_from_json(json.loads(json.dumps(codec.to_json()))) == codec
    for text in made.to_pylist() if "W" not in spelling else ():
        datetime.strptime(text, spelling)
    again = np.asarray(days_of(made).cast(pa.int64()))
    assert np.abs(again - np.asarray(days_of(texts))).max() <= 150 + 2 * SPELLINGS[spelling]
    # What is no date of the calendar, or no date at all, ends no fit.
    odd = days_of(pa.array(["20210231", "02/30/2021", "2021-W53", "Ann", "", None])).to_pylist()
    assert odd == [18686, 18686, 18995, None, None, None]


def test_days_of_a_text_that_no_reader_asks_for_are_refused():
    found = plan(TEXT, name="period")
    codec = found.finish({found.needs[0].attribute: Bounds(0, 900, 128)})
    data = json.loads(json.dumps(codec.to_json()))
    for place, value in (("column", "other"), ("nullable", False), ("type", data["type"])):
        wrong = {**data, "dates": {**data["dates"], place: value}}
        with pytest.raises(ModelError):
            codec_from_json(wrong)


BEGINNINGS = {"CUST-": 300, "INV-2021-": 200, "INV-2022-": 100}


def test_texts_that_differ_begin_as_before():
    """What many share is released like a label, the rest is a number."""
    found = plan(TEXT, name="code", uniques=[("code",)], null=False, delta=1e-9)
    (need,) = found.needs
    beginnings = list(BEGINNINGS)
    texts = [f"{begun}{place:06d}" for begun, rows in BEGINNINGS.items() for place in range(rows)]
    codes = found.read({"c1": pa.array(texts), "c1n": pc.utf8_length(texts).cast(pa.int64())})
    piece = codes[need.attribute]
    assert piece.to_pylist() == [begun for begun, rows in BEGINNINGS.items() for _ in range(rows)]
    codec = found.finish({need.attribute: tuple(beginnings)})
    assert codec_from_json(json.loads(json.dumps(codec.to_json()))) == codec
    # Literals of queries are whole texts, so beginnings are no values that these may name.
    assert codec.listed is None
    label = np.repeat(np.arange(len(beginnings) + 1), [*BEGINNINGS.values(), 50])
    parts = codes.keys() & codec.domains.keys() - {"code"}
    fill = {name: np.resize(codes[name], len(label)) for name in parts}
    made = codec.decode({**fill, "code": label}, generator(1)).to_pylist()
    for begun, code in zip(beginnings, range(len(beginnings)), strict=True):
        here = [text for text, at in zip(made, label, strict=True) if at == code]
        assert len({*here}) == len(here)
        assert all(int(text.removeprefix(begun)) for text in here)
    assert not any(text.startswith(tuple(beginnings)) for text in made[-50:])
    # Where none are released, nothing of them is modelled.
    plain = found.finish({need.attribute: ()})
    assert need.attribute not in plain.domains


# words of texts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hosts", "wanted"),
    [
        ("The River (1994) (TV)", None, ["The", "River", "(1994)", "(TV)"]),
        (" a\tb ", None, ["a", "b"]),
        ("https://x.org/a/b/", None, ["https://x.org", "\x1f/a", "\x1f/b", "\x1f/"]),
        ("x.org/a?id=1 So?", None, ["x.org", "\x1f/a", "\x1f?id=1", "So?"]),
        ("/var/log 3/4", None, ["/var", "\x1f/log", "3", "\x1f/4"]),
        (
            "order 1234 INV-2024-000123",
            None,
            [
                "order",
                "1234",
                "INV-2024-000123".translate(dict.fromkeys(map(ord, "01234"), "\x1d")),
            ],
        ),
        ("ann@mail.example", True, [None, "\x1f@mail.example"]),
        ("ann@mail.example", False, []),
        ("", None, [None]),
        (None, None, [None]),
        (f"{'x' * 64} {'y' * 65} z", None, ["x" * 64, None, "z"]),
        ("b " * 40, None, ["b"] * 32),
    ],
)
def test_words_of_a_text(text, hosts, wanted):
    found = word_piece(pa.array([text], pa.string()), hosts)
    assert found.words.to_pylist() == wanted
    assert found.words.type.value_type == pa.large_string()
    assert found.sizes.tolist() == [len(wanted)]
    assert found.firsts.tolist() == [ord(text[0]) if text else -1]


def test_texts_are_made_of_released_words_at_their_frequency():
    law = (
        ("The", (0.3, 0.3, 0.0, 0.0)),
        ("(TV)", (0.4, 0.0, 0.2, 0.0)),
        ("\x1f/x", (0.1, 0.0, 0.0, 0.0)),
        ("nr.\x1d\x1d", (0.05, 0.0, 0.0, 0.0)),
    )
    rows = 4000
    codec = TextCodec("c", TEXT, False, None, (0, 30, 41), None).with_words(
        law, ((ord("Q"), 0.2), (ord("T"), 0.3))
    )
    codec = codec_from_json(codec.to_json())
    codes = {name: np.zeros(rows, np.int64) for name in codec.domains}
    codes["c\x1fshape"] += SHAPES.index("title")
    found = codec.decode(codes, generator(1)).to_pylist()
    share = {word: sum(word in text for text in found) / rows for word in ("The", "(TV)", "nr.")}
    assert share == pytest.approx({"The": 0.3, "(TV)": 0.4, "nr.": 0.05}, abs=0.02)
    begun = sum(text.startswith(("The ", "The/x")) for text in found)
    assert begun / rows == pytest.approx(0.3, abs=0.02)
    assert sum(text[:1] == "Q" for text in found) / rows == pytest.approx(0.2, abs=0.03)
    assert max(map(len, found)) <= 40
    assert not any("\x1f" in text or "\x1d" in text for text in found)


def test_numbers_begin_with_released_digits_if_they_fit_an_integer_then():
    law = ((ord("0"), 0.5), (ord("7"), 0.5), (ord("x"), 0.5))
    codec = TextCodec("c", TEXT, False, None, (0, 5, 10, 11), None).with_words((), law)
    codes = {name: np.repeat([1, 2], [400, 100]) for name in codec.domains}
    codes["c\x1fshape"] = np.full(500, SHAPES.index("digits"))
    found = codec.decode(codes, generator(1)).to_pylist()
    counts = Counter(text[0] for text in found)
    assert counts == pytest.approx({"0": 200, "7": 200, "1": 100}, abs=8)
    assert all(text[0] == "1" for text in found[400:])


@pytest.mark.parametrize("kind", ["lower", "sentence"])
def test_public_words_stand_between_the_others_and_end_no_text(kind):
    law = [("A", (1.0, 1.0, 0.0, 0.0)), ("Epic", (0.5, 0.0, 0.0, 0.0))]
    law += [(word, (0.9, 0.0, 0.0, 0.0)) for word in ("of", "a", "who", "and")]
    codec = TextCodec("c", TEXT, False, None, (0, 60, 71), None).with_words(tuple(law), ())
    codes = {name: np.ones(300, np.int64) for name in codec.domains}
    codes["c\x1fshape"][:] = SHAPES.index(kind)
    public = {"of", "a", "who", "and"}
    for text in codec.decode(codes, generator(1)).to_pylist():
        first, *rest = text.split(" ")
        assert first == "A"
        assert rest[-1] not in public
        near = sum({one, other} <= public for one, other in pairwise(rest))
        assert near == 0 or len(rest) < 9


@pytest.mark.parametrize("provider", [None, "street_address"])
@pytest.mark.parametrize("pieces", [(), (("Road", (0.5, 0.0, 0.0, 0.0)),)])
def test_empty_texts_stay_empty_beside_words(provider, pieces):
    codec = TextCodec("c", TEXT, False, None, (0, 1, 20, 41), provider).with_words(pieces, ())
    codes = {name: np.zeros(100, np.int64) for name in codec.domains}
    codes["c\x1flength"][:40] = 1
    found = codec.decode(codes, generator(1)).to_pylist()
    assert all(found[:40])
    assert set(found[40:]) == {""}


def test_surrogates_get_released_hosts_and_first_letters():
    email = plan(TEXT, name="email", delta=1e-9, null=False)
    assert email.words.listed
    hosts = (("\x1f@a.example", (0.7, 0.0, 0.7, 0.0)), ("\x1f@b.example", (0.3, 0.0, 0.3, 0.0)))
    codec = email.finish({}).with_words(hosts, ((ord("x"), 0.5), (ord("y"), 0.5)))
    found = codec.decode({}, generator(2), 500).to_pylist()
    assert sum(text.endswith("@a.example") for text in found) == pytest.approx(350, abs=2)
    assert sum(text[0] == "x" for text in found) == pytest.approx(250, abs=2)
    assert len(set(found)) > 490
    # Names of which many rows share one begin as the rows do, and stay names where there are such.
    law = ((ord("G"), 0.5), (ord("x"), 0.5))
    names = TextCodec("c", TEXT, False, ("Ann",), None, "first_name", KIND).with_words((), law)
    found = names.decode({"c": np.ones(500, np.int64)}, generator(2)).to_pylist()
    assert {text[0] for text in found} == {"G", "x"}
    assert {text for text in found if text[0] == "G"} < {*PersonProvider.first_names}


@pytest.mark.parametrize(
    ("pieces", "firsts"),
    [
        ((("x" * 66, (1.0, 0, 0, 0)),), ()), ((("", (1.0, 0, 0, 0)),), ()),
        ((("a\x00", (1.0, 0, 0, 0)),), ()), ((("a", (1.5, 0, 0, 0)),), ()),
        ((("a", (float("nan"), 0, 0, 0)),), ()), ((("a", (1.0, 0, 0)),), ()),
        ((), ((0, 1.0),)), ((), ((0xD800, 1.0),)), ((), ((97, float("inf")),)),
    ],
)  # fmt: skip
def test_words_of_a_strangers_model_are_refused(pieces, firsts):
    codec = TextCodec("c", TEXT, False, None, (0, 30, 41), None).with_words(pieces, firsts)
    with pytest.raises(ModelError):
        codec_from_json(codec.to_json())
