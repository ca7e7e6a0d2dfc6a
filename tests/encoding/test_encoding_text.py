"""Text: formats and lengths, how often surrogate values occur, dates and words inside texts."""

import json
from collections import Counter
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from columns import TEXT, plan, stored
from faker.providers.person.en_US import Provider as PersonProvider
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_files import cases

from privbench.encoding import codec_from_json
from privbench.encoding.base import attribute
from privbench.encoding.bounds import Bounds
from privbench.encoding.surrogate_text import SHAPES, made_text, shape_domain, shapes
from privbench.encoding.surrogates import (
    KIND,
    made_distinct,
    made_semantic,
    surrogates_from_json,
)
from privbench.encoding.text import TextCodec
from privbench.encoding.text_formats import days_of
from privbench.encoding.text_words import with_firsts, word_piece
from privbench.errors import ModelError
from privbench.rng import generator

#: Edges of lengths.
EDGES = tuple(range(13))


def codec_of(labels=None, *, lengths=EDGES, words=(), firsts=(), nullable=False, **more):
    """A codec of texts as a release may have it."""
    provider, surrogates = more.get("provider"), more.get("surrogates")
    codec = TextCodec("c", TEXT, nullable, labels, lengths, provider, surrogates)
    return codec.with_words(tuple(words), firsts) if words or firsts else codec


def decoded(codec, rows, label=0, *, length=8, shape="lower", seed=1):
    """Texts of rows that have these labels, lengths and formats, in turn."""
    kinds = SHAPES.index(shape) if isinstance(shape, str) else shape
    parts = {"c": label, attribute("c", "length"): length, attribute("c", "shape"): kinds}
    codes = {name: np.resize(part, rows) for name, part in parts.items() if name in codec.domains}
    return codec.decode(codes, generator(seed), rows).to_pylist()


# Formats


def test_texts_have_the_first_format_that_they_match_and_made_ones_have_the_same():
    names, texts = zip(*cases(__file__, "formats.txt"), strict=True)
    codes = shapes(pa.array([*texts, None]))[:-1]
    assert tuple(SHAPES[code] for code in codes) == names
    kinds = np.repeat(np.arange(len(SHAPES)), 50)
    text = made_text(kinds, np.full(len(kinds), 12), generator(2))
    same = shapes(text) == kinds
    seldom = {name for i, name in enumerate(SHAPES) if same[kinds == i].mean() < 0.9}
    assert seldom <= {
        *("other", "thousands", "thousands with decimals", "prefix and digits", "digits")
    }
    # Formats that noise hides are words and no numbers or addresses.
    domain = shape_domain(False)
    assert (*names[:7], *domain.specials) == SHAPES
    assert domain.values == 7


CASTS = {
    "iso date basic": lambda text: datetime.strptime(text, "%Y%m%d"),
    "date with slashes, day first": lambda text: datetime.strptime(text, "%d/%m/%Y"),
    "iso timestamp": datetime.fromisoformat, "iso week": lambda text: text.index("W"),
    "digits": lambda text: int(text) < 2**31, "percent": lambda text: int(text.rstrip("%")),
    "tenths": float, "scientific": float, "json object": json.loads, "json array": json.loads,
}  # fmt: skip


def test_texts_of_formats_can_be_cast_and_few_words_or_lengths_among_them_are_noise():
    codec = codec_of(lengths=tuple(range(30)))
    for name, cast in CASTS.items():
        kinds = np.full(300, SHAPES.index(name))
        kinds[:10] = SHAPES.index("lower")
        for text in decoded(codec, 300, length=generator(1).integers(1, 11, 300), shape=kinds):
            cast(text)
    # Numbers begin with no zero: codes with one have a format of their own.
    lengths = np.append(np.repeat([3, 4], 500), [9] * 5)
    made = decoded(codec, 1005, length=lengths, shape="digits")
    assert {len(str(int(text))) for text in made} == {3, 4}
    # A format that does not fit the length makes words.
    short = decoded(codec_of(lengths=tuple(range(6))), 9, length=4, shape="uuid")
    assert {len(text) for text in short} == {4}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.sampled_from("aZ0.,@ /#-_&'\n\t:wx"), max_size=9)))
def test_formats_of_ascii_are_those_of_all_letters(texts):
    """One text beyond ASCII among them takes the patterns over all of Unicode."""
    assert shapes(pa.array([*texts, "é"], pa.string()))[:-1].tolist() == (
        shapes(pa.array(texts, pa.string())).tolist()
    )


# Surrogates

COLOURS = ("red", "blue")


@pytest.mark.parametrize("provider", [None, "last_name"])
def test_surrogates_occur_as_often_as_their_blocks_say(provider):
    blocks = ((1, 0.5), (10, 0.4), (0, 0.1))
    more = {"provider": provider, "lengths": None if provider else EDGES}
    codec = codec_of(COLOURS, surrogates=blocks, nullable=True, **more)
    labels = np.repeat([0, 2, 3], [500, 1000, 100])
    found = decoded(codec, 1600, labels)
    counts = Counter(found)
    assert (counts.pop(None), counts.pop("red")) == (100, 500)
    assert sorted(counts.values(), reverse=True) == [500] + [40] * 10 + [1] * 100
    assert decoded(codec_from_json(codec.to_json()), 1600, labels) == found


def test_surrogates_differ_and_have_their_lengths():
    lengths = generator(2).integers(3, 12, 4000)
    codec = codec_of(COLOURS, surrogates=((40, 1.0),), nullable=True)
    found = decoded(codec, 4000, 2, length=lengths, seed=3)
    assert len(set(found)) == 40
    assert np.mean(np.abs(np.array([*map(len, found)]) - lengths)) < 0.2
    # Short texts differ from each other and from labels.
    short = codec_of(("a", "e", "i"), surrogates=((6, 1.0),), nullable=True)
    for seed in range(5):
        assert len(set(decoded(short, 600, 3, length=1, seed=seed))) >= 5
    # Semantic types of which few rows share a value are different.
    assert len(set(made_semantic("email", 3000, generator(1)).to_pylist())) == 3000
    mails, names = (made_distinct(kind, 5000, generator(1), 24) for kind in ("email", "first_name"))
    assert len(set(mails.to_pylist())) > 4950
    # Others are shared by more rows before they get a number.
    assert 500 < len(set(names.to_pylist())) < 1000
    assert not any(any(map(str.isdigit, name)) for name in names.to_pylist())
    assert len(set(made_semantic("first_name", 5000, generator(1)).to_pylist())) < 1000


def test_a_rest_that_is_noise_becomes_labels_and_a_real_one_does_not():
    codec = codec_of(COLOURS, surrogates=(), nullable=True)

    def distinct(rest):
        labels = np.repeat([0, 1, 2], [600, 400, rest])
        return set(decoded(codec, 1000 + rest, labels, seed=4))

    assert distinct(20) == set(COLOURS)
    assert 2 < len(distinct(200)) <= 10
    assert len(distinct(3000)) > 2500
    assert None not in decoded(codec_of((), surrogates=(), nullable=True), 5)


@pytest.mark.parametrize(
    "blocks", [[[-1, 0.5]], [[1, -0.5]], [[1, float("nan")]], [[float("inf"), 1.0]], [[10**9, 1.0]]]
)
def test_surrogates_of_a_strangers_model_are_refused(blocks):
    with pytest.raises(ValueError, match="no blocks"):
        surrogates_from_json(blocks)


# Dates and numbers inside texts


def read(found, texts):
    sent = {"c1": pa.array(texts), "c1n": pc.utf8_length(pa.array(texts)).cast(pa.int64())}
    return found.read(sent)


#: Spellings of dates, each with the most days that a date may be off.
SPELLINGS = {
    "%Y%m%d": 1, "%Y-%m-%d": 1, "%d.%m.%Y": 1, "%d-%b-%Y": 1,
    # Of 01/02/2024 nobody knows the order by itself, so the year is kept, and the day is spelled
    # before the month as in 31/01/2024.
    "%d/%m/%Y": 200, "%m/%d/%Y": 1, "%Y/%m/%d": 1,
    "%Y-%m-%dT%H:%M:%SZ": 1, "%Y-%m": 31, "%Y%m": 31, "%Y": 366, "%G-W%V": 7,
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_dates_inside_texts_are_dates(spelling):
    first, last = (np.datetime64(f"{year}-01-01").astype(int) for year in (1951, 1991))
    days = np.arange(first, last, 3)
    texts = pc.strftime(pa.array(days.astype("M8[D]").astype("M8[s]")), format=spelling)
    found = plan(TEXT, name="birthday_txt", null=False, delta=0.0)
    (need,) = found.needs
    codec = stored(found.finish({need.attribute: Bounds(int(first), int(last), 128)}))
    codes = read(found, texts)
    date = codec.recodings[need.attribute].apply(codes[need.attribute])
    made = codec.decode({**codes, need.attribute: date}, generator(1))
    for text in made.to_pylist() if "W" not in spelling else ():
        datetime.strptime(text, spelling)
    again = np.asarray(days_of(made).cast(pa.int64()))
    assert np.abs(again - np.asarray(days_of(texts))).max() <= 150 + 2 * SPELLINGS[spelling]
    # What is no date of the calendar, or no date at all, ends no fit.
    odd = days_of(pa.array(["20210231", "02/30/2021", "2021-W53", "Ann", "", None])).to_pylist()
    assert odd == [18686, 18686, 18995, None, None, None]


@pytest.mark.parametrize("place", ["column", "nullable", "type"])
def test_dates_of_a_text_that_no_reader_asks_for_are_refused(place):
    found = plan(TEXT, name="period")
    data = found.finish({found.needs[0].attribute: Bounds(0, 900, 128)}).to_json()
    wrong = {"column": "other", "nullable": False, "type": data["type"]}[place]
    with pytest.raises(ModelError):
        codec_from_json({**data, "dates": {**data["dates"], place: wrong}})


BEGINNINGS = {"CUST-": 300, "INV-2021-": 200, "INV-2022-": 100}


def test_texts_that_differ_begin_as_before():
    """What many share is released like a label, the rest is a number."""
    found = plan(TEXT, name="code", uniques=[("code",)], null=False, delta=1e-9)
    (need,) = found.needs
    codes = read(found, [f"{b}{n:06d}" for b, rows in BEGINNINGS.items() for n in range(rows)])
    begun = codes[need.attribute].to_pylist()
    assert begun == [begin for begin, rows in BEGINNINGS.items() for _ in range(rows)]
    codec = stored(found.finish({need.attribute: tuple(BEGINNINGS)}))
    # Literals of queries are whole texts, so beginnings are no values that these may name.
    assert codec.listed is None
    label = np.repeat(np.arange(len(BEGINNINGS) + 1), [*BEGINNINGS.values(), 50])
    parts = codes.keys() & codec.domains.keys() - {"code"}
    others = {name: np.resize(codes[name], len(label)) for name in parts}
    made = codec.decode({**others, "code": label}, generator(1)).to_pylist()
    for code, begin in enumerate(BEGINNINGS):
        here = [text for text, at in zip(made, label, strict=True) if at == code]
        assert len({*here}) == len(here)
        assert all(int(text.removeprefix(begin)) for text in here)
    assert not any(text.startswith(tuple(BEGINNINGS)) for text in made[-50:])
    # Where none are released, nothing of them is modelled.
    assert need.attribute not in found.finish({need.attribute: ()}).domains


# Words of texts


@pytest.mark.parametrize(
    ("text", "hosts", "wanted"),
    [
        ("The River (1994) (TV)", None, ["The", "River", "(1994)", "(TV)"]),
        (" a\tb ", None, ["a", "b"]),
        ("https://x.org/a/b/", None, ["https://x.org", "\x1f/a", "\x1f/b", "\x1f/"]),
        ("x.org/a?id=1 So?", None, ["x.org", "\x1f/a", "\x1f?id=1", "So?"]),
        ("/var/log 3/4", None, ["/var", "\x1f/log", "3", "\x1f/4"]),
        ("INV-2024-000123", None, ["INV-####-######".replace("#", "\x1d")]),
        ("order 1234", None, ["order", "1234"]),
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
    codec = codec_of(lengths=(0, 30, 41), words=law, firsts=((ord("Q"), 0.2), (ord("T"), 0.3)))
    found = decoded(codec_from_json(codec.to_json()), rows, length=0, shape="title")
    share = {word: sum(word in text for text in found) / rows for word in ("The", "(TV)", "nr.")}
    assert share == pytest.approx({"The": 0.3, "(TV)": 0.4, "nr.": 0.05}, abs=0.02)
    begun = sum(text.startswith(("The ", "The/x")) for text in found)
    assert begun / rows == pytest.approx(0.3, abs=0.02)
    assert sum(text[:1] == "Q" for text in found) / rows == pytest.approx(0.2, abs=0.03)
    assert max(map(len, found)) <= 40
    assert not any("\x1f" in text or "\x1d" in text for text in found)


def test_numbers_begin_with_released_digits_if_they_fit_an_integer_then():
    law = ((ord("0"), 0.5), (ord("7"), 0.5), (ord("x"), 0.5))
    codec = codec_of(lengths=(0, 5, 10, 11), firsts=law)
    found = decoded(codec, 500, length=np.repeat([1, 2], [400, 100]), shape="digits")
    counts = Counter(text[0] for text in found)
    assert counts == pytest.approx({"0": 200, "7": 200, "1": 100}, abs=8)
    assert all(text[0] == "1" for text in found[400:])


@pytest.mark.parametrize("provider", [None, "street_address"])
@pytest.mark.parametrize("words", [(), (("Road", (0.5, 0.0, 0.0, 0.0)),)])
def test_empty_texts_stay_empty_beside_words(provider, words):
    codec = codec_of(lengths=(0, 1, 20, 41), provider=provider, words=words)
    found = decoded(codec, 100, length=np.repeat([1, 0], [40, 60]), shape=0)
    assert all(found[:40])
    assert set(found[40:]) == {""}


def test_surrogates_get_released_hosts_and_first_letters():
    firsts = ((ord("x"), 0.5), (ord("y"), 0.5))
    email = plan(TEXT, name="email", delta=1e-9, null=False)
    assert email.words.listed
    hosts = (("\x1f@a.example", (0.7, 0.0, 0.7, 0.0)), ("\x1f@b.example", (0.3, 0.0, 0.3, 0.0)))
    found = decoded(email.finish({}).with_words(hosts, firsts), 500, seed=2)
    assert sum(text.endswith("@a.example") for text in found) == pytest.approx(350, abs=2)
    assert sum(text[0] == "x" for text in found) == pytest.approx(250, abs=2)
    assert len(set(found)) > 490
    # Names of which many rows share one begin as the rows do, and stay names where there are such.
    law = ((ord("G"), 0.5), (ord("x"), 0.5))
    names = codec_of(("Ann",), lengths=None, provider="first_name", surrogates=KIND, firsts=law)
    found = decoded(names, 500, 1, seed=2)
    assert {text[0] for text in found} == {"G", "x"}
    assert {text for text in found if text[0] == "G"} < {*PersonProvider.first_names}


def test_surrogates_take_the_released_case_of_their_first_letter():
    law = ((ord("B"), 0.5), (ord("b"), 0.25), (ord("Ž"), 0.25))
    texts = pa.array(["anna", "zoe", "kim", "lea"])
    spare = pa.array(["bert", "žofia", "bob", "ben"])
    found = with_firsts(texts, law, np.ones(4), generator(3), spare=spare).to_pylist()
    assert sorted(text[0] for text in found) == ["B", "B", "b", "Ž"]
    assert {text.lower() for text in found} == {"bert", "bob", "ben", "žofia"}


@pytest.mark.parametrize(
    ("words", "firsts"),
    [
        ((("x" * 66, (1.0, 0, 0, 0)),), ()), ((("", (1.0, 0, 0, 0)),), ()),
        ((("a\x00", (1.0, 0, 0, 0)),), ()), ((("a", (1.5, 0, 0, 0)),), ()),
        ((("a", (float("nan"), 0, 0, 0)),), ()), ((("a", (1.0, 0, 0)),), ()),
        ((), ((0, 1.0),)), ((), ((0xD800, 1.0),)), ((), ((97, float("inf")),)),
    ],
)  # fmt: skip
def test_words_of_a_strangers_model_are_refused(words, firsts):
    codec = codec_of(lengths=(0, 30, 41), words=words, firsts=firsts)
    with pytest.raises(ModelError):
        codec_from_json(codec.to_json())
