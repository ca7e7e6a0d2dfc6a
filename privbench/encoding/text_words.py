"""Split texts into words, a public map of each text, and make texts from released words.

A text is split at blanks. A path, a URL or an e-mail address is one word for people, but no two of
them are equal; so a word is split again before ``/``, ``@`` and a ``?`` inside it, and its further
pieces begin with `GLUE`. Words keep their case and punctuation: ``(TV)``, ``team,``. In a word with
a run of `RUN` digits all digits are replaced by `DIGIT`, since it probably identifies something,
and random digits take their place later. A word longer than `LONGEST` is left out. Only the first
`MOST` pieces of a text's first `CUT` characters count.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator

from privbench.arrays import Floats, Ints, Mask, Rng
from privbench.encoding.surrogate_text import SHAPES, blocks, joined, made_text, strings
from privbench.encoding.uniqueness import ranks, replace_rows
from privbench.privacy.queries.words import PLACES
from privbench.rules.named import packaged

#: The longest piece of a text, in characters; most pieces of a text, and the part that is read.
LONGEST, MOST, CUT = 64, 32, 256
#: Stands before a piece that no blank precedes, and for a digit of a number.
GLUE, DIGIT = "\x1f", "\x1d"
_MASKS = bytes.maketrans(b"0123456789", 10 * DIGIT.encode("ascii"))
#: Digits in a row from which on a word is a number of something.
RUN = 5
#: Most released pieces of a column.
_PIECES = 4096
#: Spare texts for `with_firsts` beyond as many as there are rows, since small tables have few: a
#: letter that one name in a hundred has begins ten of them.
SPARE = 1000
#: Characters that are made at a time; a shorter gap in a text stays a gap.
_BLOCK, _GAP = 2**22, 3


def _sound(
    pieces: tuple[tuple[str, tuple[float, ...]], ...],
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    laws, texts = [law for _, law in pieces], [text for text, _ in pieces]
    odd = any("\x00" in text or not 0 < len(text) <= LONGEST + 1 for text in texts)
    odd |= any(len(law) != 1 + PLACES or not all(0 <= part <= 1 for part in law) for law in laws)
    if odd or len(pieces) > _PIECES:
        raise ValueError("these are no words with shares")
    return pieces


def _letters(firsts: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    points = [point for point, _ in firsts]
    odd = any(not 32 <= point < 0xD800 or not 0 <= share < math.inf for point, share in firsts)
    if odd or points != sorted(set(points)):
        raise ValueError("these are no first characters")
    return firsts


#: Released words, each with the share of the texts that hold it, and of those that have it at each
#: of the first places; all of the texts that are no label.
WordShares = Annotated[tuple[tuple[str, tuple[float, ...]], ...], AfterValidator(_sound)]
#: Code points of first characters, and their shares.
FirstCharacters = Annotated[tuple[tuple[int, float], ...], AfterValidator(_letters)]


@dataclass(frozen=True, slots=True)
class WordsNeed:
    """A release of words of a column's texts, made if its labels leave out many texts."""

    attribute: str  # the attribute, `privbench.privacy.data.Words`
    whole: str  # the attribute of the column's labels; '' where none are read
    listed: bool  # whether words are listed, or first characters counted alone
    plain: bool  # whether public words and places are counted too; not of hosts
    most: int | None = None  # most words of a unit that have a vote, where that is no default


class WordPiece(NamedTuple):
    """The words of one batch of texts."""

    words: pa.DictionaryArray
    sizes: Ints  # words of every row
    firsts: NDArray[np.int32]  # code point of every text's first character, −1 if it has none


def word_piece(text: pa.Array, hosts: bool | None = None) -> WordPiece:
    """Return the words of a batch of texts, or only the hosts of e-mail addresses, or no words.

    ``hosts`` is None for all words, True for hosts, and False for none.
    """
    plain = text.cast(pa.string()).fill_null("")
    firsts = _points(plain)
    if hosts is False:
        nothing = pa.array([], pa.large_string()).dictionary_encode()
        return WordPiece(nothing, np.zeros(len(text), np.int64), firsts)
    cut = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(plain, 0, CUT))
    cut = pc.replace_substring_regex(cut, r"([^\s/@:])([/@]|\?\w)", rf"\1 {GLUE}\2")
    lists = pc.list_slice(pc.ascii_split_whitespace(cut), 0, MOST)
    flat = lists.flatten().dictionary_encode()
    # All distinct words of a column may have more text than a plain dictionary holds.
    pieces = _pieces(flat.dictionary, bool(hosts)).cast(pa.large_string())
    known, words = pieces.dictionary_encode(), flat.indices
    codes = known.indices.take(words) if len(words) else pa.array([], pa.int32())
    sizes = np.asarray(pc.list_value_length(lists)).astype(np.int64)
    return WordPiece(pa.DictionaryArray.from_arrays(codes, known.dictionary), sizes, firsts)


def _points(text: pa.Array) -> NDArray[np.int32]:
    """The code point of every text's first character, −1 if it has none."""
    letters = pc.utf8_slice_codeunits(text, 0, 1).dictionary_encode()
    points = np.array([ord(one) if one else -1 for one in letters.dictionary.to_pylist()], np.int32)
    places: Ints = np.asarray(letters.indices)
    return points[places]


def _pieces(words: pa.Array, hosts: bool) -> pa.Array:
    """The pieces that distinct words are; NULL for what is none."""
    numbers = pc.match_substring_regex(words, rf"\d{{{RUN}}}")
    masked = pc.replace_with_mask(words, numbers, _without_digits(words.filter(numbers)))
    size = pc.utf8_length(masked)
    none = pc.or_(pc.equal(size, 0), pc.greater(size, LONGEST))
    if hosts:
        none = pc.or_(none, pc.invert(pc.starts_with(masked, f"{GLUE}@")))
    return pc.if_else(none, pa.scalar(None, pa.string()), masked)


def _without_digits(words: pa.Array) -> pa.Array:
    """The strings with `DIGIT` in place of every digit: one byte each, in UTF-8 too."""
    if not len(words):
        return words
    present, ends, letters = words.buffers()
    masked = pa.py_buffer(letters.to_pybytes().translate(_MASKS))
    buffers = [present, ends, masked]
    return pa.Array.from_buffers(words.type, len(words), buffers, offset=words.offset)


@lru_cache(maxsize=1)
def public_words() -> tuple[str, ...]:
    """Return words that are counted without a release: stop words, beginnings, separators."""
    stop = " ".join(packaged("stop_words", "privbench.encoding")["words"]).split()
    usual = ["-", "&", "/", "|", f"{GLUE}/", "http:/", "https:/"]
    return tuple(dict.fromkeys([*stop, *(word.capitalize() for word in stop), *usual]))


#: Every printable character of ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic; other scripts
#: by their blocks: Hebrew, Arabic, Devanagari, Thai, Japanese, Chinese and Korean.
_SCRIPTS = (
    range(0x20, 0x7F), range(0xC0, 0x180), range(0x391, 0x3CA), range(0x410, 0x450),
    range(0x5D0, 0x5EB, 0xFFF), range(0x620, 0x64B, 0xFFF), range(0x905, 0x93A, 0xFFF),
    range(0xE01, 0xE2F, 0xFFF), range(0x3041, 0x30FB, 0xFFF), range(0x4E00, 0x9FA6, 0xFFFF),
    range(0xAC00, 0xD7A4, 0xFFFF),
)  # fmt: skip
#: First code points of the ranges in which first characters are counted, and those of them that
#: begin a gap between two scripts.
FIRSTS = tuple(point for script in _SCRIPTS for point in (*script, script.stop))
GAPS = frozenset(script.stop for script in _SCRIPTS)


def _drawn(shares: Floats, weights: Floats, rng: Rng) -> Ints:
    """For every text one of some alternatives, −1 for none: each has its share of the weights."""
    if not len(shares) or not len(weights):
        return np.full(len(weights), -1, np.int64)
    ends, order = np.cumsum(shares), rng.permutation(len(weights))
    ends = ends / max(float(ends[-1]), 1.0)
    upto = np.cumsum(weights[order])
    at = (upto - weights[order] * rng.random()) / max(float(upto[-1]), 1e-9)
    drawn = np.empty(len(weights), np.int64)
    drawn[order] = np.searchsorted(ends, at, side="right")
    return np.where(drawn < len(shares), drawn, -1)


def worded(
    pieces: WordShares,
    shapes: Ints,
    lengths: Ints,
    weights: Floats,
    longest: int,
    rng: Rng,
) -> tuple[pa.Array, Mask]:
    """Make texts from released words by their frequencies, and fill them up with public words.

    ``weights`` says how many rows share each text. A word is never cut. Also returns whether each
    text begins with a public word.
    """
    sizes = np.array([len(text) + (text[0] != GLUE) for text, _ in pieces] + [0], np.int64)
    parts, fronts = [], []
    for rows in blocks(np.arange(len(lengths)), lengths, _BLOCK):
        shape, length, weight = shapes[rows], lengths[rows], weights[rows]
        at, tie = _placed(pieces, weight, rng), rng.random(len(rows))
        # Long texts get the words that need most room.
        room = sizes[at].sum(axis=1)
        by_room, by_length = (np.lexsort((tie, size, weight)) for size in (room, length))
        at[by_length] = at[by_room]
        # A filler stands in front if no word does, else behind the first places.
        some, front = (at >= 0).any(axis=1), at[:, 0] < 0
        room = length - sizes[at].sum(axis=1)
        room = np.where(front & some, np.maximum(room, _GAP), room)
        room = np.minimum(np.where(room < np.where(some, _GAP, 1), 0, room), longest)
        dense = np.isin(shape, _WHOLE)
        shape = np.where(dense & some, SHAPES.index("lower"), shape)
        filler = made_text(shape, room, rng).cast(pa.string())
        filler = pc.if_else(pa.array(dense & ~front), joined(f"{GLUE}/", filler), filler)
        filler = pc.if_else(pa.array(room > 0), filler, pa.scalar(None, pa.string()))
        parts.append(_sentences(pieces, at, filler, longest, rng))
        fronts.append(front & (room > 0))
    wide = int(lengths.sum()) > 2**30
    texts = [part.cast(pa.large_string()) if wide else part for part in parts]
    return pa.concat_arrays(texts), np.concatenate(fronts)


def _placed(pieces: WordShares, weights: Floats, rng: Rng) -> Ints:
    """The words of every text, −1 for none, shape (texts, columns): first places, then others."""
    laws = np.array([law for _, law in pieces], np.float64).reshape(-1, 1 + PLACES)
    # Places are drawn apart, and a word may already stand at one of them.
    free = np.prod(1 - laws[:, 1:], axis=1)
    rest = np.maximum(1 - (1 - laws[:, 0]) / np.maximum(free, 1e-9), 0.0)
    order = np.argsort(-rest, kind="stable")
    ends = np.cumsum(rest[order])
    # Words of similar frequency exclude each other: of the years in brackets a title has one.
    columns = [laws[:, 1 + place] for place in range(PLACES)]
    for begun in range(min(math.ceil(ends[-1]), MOST) if len(pieces) else 0):
        shares = np.clip(ends, begun, begun + 1) - np.clip(ends - rest[order], begun, begun + 1)
        columns.append(shares[np.argsort(order)])
    at = np.stack([_drawn(shares, weights, rng) for shares in columns], axis=1)
    for column in range(PLACES, at.shape[1]):
        again = (at[:, :column] == at[:, column : column + 1]).any(axis=1)
        at[again, column] = -1
    return at


def _sentences(pieces: WordShares, at: Ints, filler: pa.Array, longest: int, rng: Rng) -> pa.Array:
    """Texts of words: first places, then public words between all others, which end it."""
    names, public = [text for text, _ in pieces], frozenset(public_words())
    split = pc.split_pattern(filler, " ")
    many = np.diff(split.offsets.to_numpy()).astype(np.int64)
    pool = pa.concat_arrays([pa.array(names, pa.string()), split.flatten()])
    rows, number = np.repeat(np.arange(len(at)), many), np.arange(len(pool) - len(names))
    nth = number - np.repeat(np.cumsum(many) - many, many)
    behind = PLACES * ((nth > 0) | (at[:, 0] >= 0)[rows])
    # Of every text public words, and then its others, in random order at equal distances.
    tail, chance = at[:, PLACES:], rng.random((len(at), at.shape[1] - PLACES))
    stop = np.array([text in public for text in names] + [False])[tail]
    rank = np.argsort(np.argsort(np.where(tail < 0, 9, chance + ~stop), axis=1), axis=1)
    stops, others = (kind.sum(axis=1)[:, None] for kind in (stop, (tail >= 0) & ~stop))
    place = np.empty(at.shape)
    place[:, :PLACES] = np.arange(PLACES)
    near = np.where(
        stop, (rank + 0.5) / np.maximum(stops, 1), (rank - stops + 0.99) / (others + 1e-9)
    )
    # Parts of a path follow where it begins.
    glued = np.array([text[0] == GLUE for text in names] + [False])[tail]
    place[:, PLACES:] = PLACES + np.where(glued, chance / 1e3, near)
    row, column = np.nonzero(at >= 0)
    key = [2 * PLACES * rows + behind + (nth + 1) / many[rows]]
    order = np.argsort(np.append(key, 2 * PLACES * row + place[row, column]), kind="stable")
    chosen = np.append(len(names) + number, at[row, column])[order]
    row = np.append(rows, row)[order]
    upto = np.cumsum(np.asarray(pc.utf8_length(pool))[chosen] + 1)
    fitting = upto - np.append(0, upto)[np.searchsorted(row, row)] <= longest + 1
    ends = np.searchsorted(row[fitting], np.arange(len(at) + 1))
    lists = pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pool.take(pa.array(chosen[fitting]))
    )
    texts = pc.replace_substring(pc.binary_join(lists, " "), f" {GLUE}", "")
    return numbered(pc.replace_substring(texts, GLUE, ""), rng)


#: Shapes of texts without blanks, whose filler is joined to a word.
_WHOLE = [SHAPES.index(name) for name in ("email", "url", "url with query", "hex")]


def numbered(texts: pa.Array, rng: Rng) -> pa.Array:
    """Return the texts with a random digit in the place of every `DIGIT`."""
    texts = texts.cast(pa.string())
    if not len(texts):
        return texts
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[: int(offsets[-1])].copy()
    places = np.flatnonzero(data == ord(DIGIT))
    data[places] = ord("0") + rng.integers(10, size=len(places))
    return strings(offsets.astype(np.int64), data)


def rehoused(texts: pa.Array, pieces: WordShares, longest: int | None, rng: Rng) -> pa.Array:
    """Return e-mail addresses whose hosts are released hosts, at their frequencies."""
    if not pieces:
        return texts
    texts, shares = texts.cast(pa.string()), np.array([law[0] for _, law in pieces], np.float64)
    hosts = _drawn(shares, np.ones(len(texts)), rng)
    names = numbered(pa.array([text.lstrip(GLUE) for text, _ in pieces], pa.string()), rng)
    local = pc.replace_substring_regex(texts, "@.*$", "")
    whole = joined(local, names.take(pa.array(hosts, mask=hosts < 0)))
    fits = pc.less_equal(pc.utf8_length(whole), longest or 2**31 - 1)
    return pc.if_else(fits.fill_null(False), whole, texts)


def with_firsts(
    texts: pa.Array,
    firsts: FirstCharacters,
    weights: Floats,
    rng: Rng,
    free: Mask | None = None,
    spare: pa.Array | None = None,
) -> pa.Array:
    """Return texts whose first characters have the released frequencies.

    Of the texts marked ``free``, as few as possible are changed. A text that has to begin otherwise
    becomes the next of the ``spare`` texts that begins so in either case, in the released case;
    where none is left, its first character is replaced. Spare texts that are not distinct are used
    again and again.
    """
    free = np.ones(len(texts), np.bool_) if free is None else free
    if not firsts or not free.any():
        return texts
    points, shares = (np.array(part) for part in zip(*firsts, strict=True))
    law = np.append(shares, 0.0) * weights.sum()
    have = _places(points, _points(texts))
    order = np.lexsort((free, have))
    upto = np.cumsum(weights[order])
    upto = upto - np.append(0.0, upto)[np.searchsorted(have[order], have[order])]
    unchanged = np.empty(len(have), np.bool_)
    unchanged[order] = upto <= law[have[order]]
    law = np.maximum(
        law - np.bincount(have[unchanged | ~free], weights[unchanged | ~free], len(law)), 0.0
    )
    rows = np.flatnonzero(free & ~unchanged)
    drawn = _drawn(law[:-1] / weights[rows].sum(), weights[rows], rng)
    rows, drawn = rows[drawn >= 0], drawn[drawn >= 0]
    letters = pa.array([chr(point) for point in points.tolist()], texts.type)
    rest = pc.utf8_slice_codeunits(texts.take(pa.array(rows)), 1)
    changed = joined(letters.take(pa.array(drawn)), rest)
    if spare is not None:
        kinds, kind = np.unique(_small(points), return_inverse=True)
        begun, wanted = _places(kinds, _small(_points(spare))), kind[drawn]
        sides = np.searchsorted(np.sort(begun), np.arange(len(kinds) + 1))
        room, turn = np.diff(sides)[wanted], ranks(wanted)
        if len(pc.unique(spare)) < len(spare):
            turn %= np.maximum(room, 1)
        at, whole = sides[wanted] + turn, np.flatnonzero(turn < room)
        ones = spare.take(pa.array(np.argsort(begun, kind="stable")[at[whole]]))
        cased = joined(letters.take(pa.array(drawn[whole])), pc.utf8_slice_codeunits(ones, 1))
        changed = replace_rows(changed, whole, cased.cast(changed.type))
    return replace_rows(texts, rows, changed)


def _small(points: NDArray[Any]) -> NDArray[Any]:
    """The code points of characters in lower case."""
    known, at = np.unique(points, return_inverse=True)
    texts = [chr(point).lower() if point >= 0 else "" for point in known.tolist()]
    small = [ord(text) if len(text) == 1 else int(known[k]) for k, text in enumerate(texts)]
    return np.array(small, known.dtype)[at]


def _places(points: NDArray[Any], found: NDArray[Any]) -> Ints:
    """The place of each code point among sorted ones; their number if it is none of them."""
    places = np.searchsorted(points, found)
    places[np.append(points, -2)[places] != found] = len(points)
    return places
