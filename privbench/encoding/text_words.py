"""Words of texts: which pieces a text has (a public map of it), and texts of released pieces.

A text is split at blanks. A path, a URL or an e-mail address is one word for people, but no two of
them are equal; so a word is split again before ``/`` and ``@``, and its further pieces begin with
`GLUE`. Words keep their case and what clings to them: ``(TV)``, ``team,``. Of a word with a run of
`RUN` digits all digits are replaced by `DIGIT`, since it is a number of something, and is made with
random digits. What is longer than `LONGEST` is no piece. Of a text the first `MOST` pieces of its
first `CUT` characters count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator

from privbench.encoding.surrogate_text import SHAPES, joined, made_text, strings
from privbench.privacy.queries.words import PLACES
from privbench.rules.named import packaged

#: The longest piece of a text, in characters; most pieces of a text, and the part that is read.
LONGEST, MOST, CUT = 64, 32, 256
#: Stands before a piece that no blank precedes, and for a digit of a number.
GLUE, DIGIT = "\x1f", "\x1d"
#: Digits in a row from which on a word is a number of something.
RUN = 5
#: Most released pieces of a column.
_PIECES = 4096
#: Characters that are made at a time; a shorter gap in a text stays a gap.
_BLOCK, _GAP = 2**22, 3

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def _sound(
    pieces: tuple[tuple[str, tuple[float, ...]], ...],
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    shares = [share for _, of_word in pieces for share in of_word]
    texts = [text for text, _ in pieces]
    if any(not 0 <= share <= 1 for share in shares) or len(pieces) > _PIECES:
        raise ValueError("these are no shares of words")
    if any(len(of_word) != 1 + PLACES for _, of_word in pieces):
        raise ValueError("a word has no shares of places")
    if any("\x00" in text or not 0 < len(text) <= LONGEST + 1 for text in texts):
        raise ValueError("this is no word")
    return pieces


def _letters(firsts: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    if any(not 32 <= point < 0xD800 or not 0 <= share < math.inf for point, share in firsts):
        raise ValueError("these are no first characters")
    return firsts


#: Released words, each with the share of the texts that hold it, and of those that have it at each
#: of the first places; all of the texts that are no label.
Pieces = Annotated[tuple[tuple[str, tuple[float, ...]], ...], AfterValidator(_sound)]
#: Code points of first characters, and their shares.
Firsts = Annotated[tuple[tuple[int, float], ...], AfterValidator(_letters)]


@dataclass(frozen=True, slots=True)
class WordsNeed:
    """Words of a column to release, if its labels leave many of its texts."""

    attribute: str  # the attribute, `privbench.privacy.data.Words`
    whole: str  # the attribute of the column's labels; '' where none are read
    listed: bool  # whether words are listed, or first characters counted alone
    plain: bool  # whether public words and places are counted too; not of hosts


class WordPiece(NamedTuple):
    """The words of one batch of texts."""

    words: pa.DictionaryArray
    sizes: Ints  # words of every row
    firsts: NDArray[np.int32]  # code point of every text's first character, −1 if it has none


def word_piece(text: pa.Array, hosts: bool | None = None) -> WordPiece:
    """The words of a batch of texts; of e-mail addresses the host alone, or no words at all.

    ``hosts`` is None for all words, True for hosts, and False for none.

    >>> [str(word_piece(pa.array(["a b"]), hosts).words.type.value_type) for hosts in (None, False)]
    ['large_string', 'large_string']
    """
    plain = text.cast(pa.string()).fill_null("")
    letters = pc.utf8_slice_codeunits(plain, 0, 1).dictionary_encode()
    points = np.array([ord(one) if one else -1 for one in letters.dictionary.to_pylist()], np.int32)
    firsts = points[letters.indices.to_numpy(zero_copy_only=False)]
    if hosts is False:
        nothing = pa.array([], pa.large_string()).dictionary_encode()
        return WordPiece(nothing, np.zeros(len(text), np.int64), firsts)
    cut = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(plain, 0, CUT))
    cut = pc.replace_substring_regex(cut, r"([^\s/@:])([/@])", rf"\1 {GLUE}\2")
    lists = pc.list_slice(pc.split_pattern_regex(cut, r"\s+"), 0, MOST)
    flat = lists.flatten().dictionary_encode()
    # All distinct words of a column may have more text than a plain dictionary holds.
    pieces = _pieces(flat.dictionary, bool(hosts)).cast(pa.large_string())
    known, words = pieces.dictionary_encode(), flat.indices
    codes = known.indices.take(words) if len(words) else pa.array([], pa.int32())
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return WordPiece(pa.DictionaryArray.from_arrays(codes, known.dictionary), sizes, firsts)


def _pieces(words: pa.Array, hosts: bool) -> pa.Array:
    """The pieces that distinct words are; NULL for what is none."""
    numbers = pc.match_substring_regex(words, rf"\d{{{RUN}}}")
    masked = pc.if_else(numbers, pc.replace_substring_regex(words, r"\d", DIGIT), words)
    size = pc.utf8_length(masked)
    none = pc.or_(pc.equal(size, 0), pc.greater(size, LONGEST))
    if hosts:
        none = pc.or_(none, pc.invert(pc.starts_with(masked, f"{GLUE}@")))
    return pc.if_else(none, pa.scalar(None, pa.string()), masked)


@lru_cache(maxsize=1)
def public_words() -> tuple[str, ...]:
    """Words that are counted without a list: stop words, and beginnings and separators of texts."""
    stop = " ".join(packaged("stop_words", "privbench.encoding")["words"]).split()
    usual = ["-", "&", "/", "|", f"{GLUE}/", "http:/", "https:/"]
    return tuple(dict.fromkeys([*stop, *(word.capitalize() for word in stop), *usual]))


#: First code points of the ranges in which first characters are counted: every printable one of
#: ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic; other scripts by their blocks.
FIRSTS: tuple[int, ...] = (
    *range(0x20, 0x7F), 0x7F, *range(0xC0, 0x180), 0x180,
    *range(0x391, 0x3CA), 0x3CA, *range(0x410, 0x450), 0x450,
    0x5D0, 0x5EB, 0x620, 0x64B, 0x905, 0x93A, 0xE01, 0xE2F, 0x3041, 0x30FB, 0x4E00, 0x9FA6,
    0xAC00, 0xD7A4,
)  # fmt: skip
#: Those of them that begin a gap between two scripts.
GAPS = frozenset(
    (0x7F, 0x180, 0x3CA, 0x450, 0x5EB, 0x64B, 0x93A, 0xE2F, 0x30FB, 0x9FA6, 0xD7A4)
)  # fmt: skip


def _drawn(shares: Floats, weights: Floats, rng: np.random.Generator) -> Ints:
    """For every text one of some alternatives, −1 for none: each has its share of the weights."""
    if not len(shares) or not len(weights):
        return np.full(len(weights), -1, np.int64)
    ends, order = np.cumsum(shares), rng.permutation(len(weights))
    ends = ends / max(float(ends[-1]), 1.0)
    upto = np.cumsum(weights[order])
    at = (upto - weights[order] * rng.random()) / max(float(upto[-1]), 1e-9)
    found = np.empty(len(weights), np.int64)
    found[order] = np.searchsorted(ends, at, side="right")
    return np.where(found < len(shares), found, -1)


def worded(
    pieces: Pieces,
    firsts: Firsts,
    shapes: Ints,
    lengths: Ints,
    weights: Floats,
    longest: int,
    rng: np.random.Generator,
) -> pa.Array:
    """Texts of released words at their frequency, filled with public words to their lengths.

    ``weights`` says how many rows share each text. A word stands whole or not at all.
    """
    block = np.cumsum(lengths) // _BLOCK
    ends = [*(np.flatnonzero(np.diff(block)) + 1).tolist(), len(lengths)]
    parts, start = [], 0
    for end in ends:
        one = slice(start, end)
        made = _Texts(pieces, weights[one], rng)
        parts.append(made.filled(firsts, shapes[one], lengths[one], longest))
        start = end
    wide = int(lengths.sum()) > 2**30
    return pa.concat_arrays([part.cast(pa.large_string()) if wide else part for part in parts])


class _Texts:
    """Which words stand in which of some texts, and in which order."""

    def __init__(self, pieces: Pieces, weights: Floats, rng: np.random.Generator) -> None:
        self.rng, self.weights = rng, weights
        self.names = [text for text, _ in pieces]
        shares = np.array([law for _, law in pieces], np.float64).reshape(-1, 1 + PLACES)
        self.size = np.array([len(text) + (text[0] != GLUE) for text in self.names] + [0], np.int64)
        # The word at each place, −1 for none, shape (texts, columns): first places, then others.
        columns = [_drawn(shares[:, 1 + place], weights, rng) for place in range(PLACES)]
        # Places are drawn apart, and a word may already stand at one of them.
        free = np.prod(1 - shares[:, 1:], axis=1)
        rest = np.maximum(1 - (1 - shares[:, 0]) / np.maximum(free, 1e-9), 0.0)
        order = np.argsort(-rest, kind="stable")
        upto, begun = np.cumsum(rest[order]), 0.0
        # Words of similar frequency exclude each other: of the years in brackets a title has one.
        while begun < min(float(upto[-1]) if len(upto) else 0.0, MOST):
            part = np.clip(
                np.minimum(upto, begun + 1) - np.maximum(upto - rest[order], begun), 0, 1
            )
            found = _drawn(part, weights, rng)
            found = np.where(found >= 0, order[found], -1)
            again = np.any([found == other for other in columns], axis=0)
            columns.append(np.where(again, -1, found))
            begun += 1
        self.at = np.stack(columns, axis=1)

    def filled(self, firsts: Firsts, shapes: Ints, lengths: Ints, longest: int) -> pa.Array:
        """The texts; long texts get the words that need most room."""
        tie = self.rng.random(len(lengths))
        used = self.size[self.at].sum(axis=1)
        one = np.lexsort((tie, used, self.weights))
        other = np.lexsort((tie, lengths, self.weights))
        at, used = np.empty_like(self.at), used.copy()
        at[other], used[other] = self.at[one], self.size[self.at[one]].sum(axis=1)
        front, some = at[:, 0] < 0, used > 0
        room = np.where(front & some, np.maximum(lengths - used, _GAP), lengths - used)
        room = np.where(room < np.where(some, _GAP, 0), 0, room)
        shape = np.where(np.isin(shapes, _WHOLE) & some, SHAPES.index("lower"), shapes)
        filler = made_text(shape, np.minimum(room, longest), self.rng).cast(pa.string())
        filler = self._begun(filler, firsts, at[:, 0], front & (room > 0))
        return self._joined(at, filler, front, room > 0, np.isin(shapes, _WHOLE), longest)

    def _begun(
        self, filler: pa.Array, firsts: Firsts, first: Ints, begins: NDArray[np.bool_]
    ) -> pa.Array:
        """The fillers, of which those at the front of texts begin as the law of texts says."""
        rows = np.flatnonzero(begins)
        if not firsts or not len(rows):
            return filler
        points = [point for point, _ in firsts]
        law = np.array([share for _, share in firsts]) * self.weights.sum()
        held = np.bincount(first + 1, self.weights, len(self.names) + 1)[1:]
        for text, weight in zip(self.names, held, strict=True):
            if ord(text[0]) in points:
                law[points.index(ord(text[0]))] -= weight
        law = np.maximum(law, 0.0)
        drawn = _drawn(law / self.weights[rows].sum(), self.weights[rows], self.rng)
        whole = np.full(len(filler), len(points))
        whole[rows] = np.where(drawn >= 0, drawn, len(points))
        letters = pa.array([*map(chr, points), ""]).take(pa.array(whole))
        changed = joined(letters, pc.utf8_slice_codeunits(filler, 1))
        return pc.if_else(pa.array(whole < len(points)), changed, filler)

    def _joined(
        self,
        at: Ints,
        filler: pa.Array,
        front: NDArray[np.bool_],
        fills: NDArray[np.bool_],
        dense: NDArray[np.bool_],
        longest: int,
    ) -> pa.Array:
        rows = np.arange(len(at))
        row, column = np.nonzero(at >= 0)
        # Fillers stand in front, or anywhere behind the first places.
        place = np.where(column < PLACES, column, PLACES + self.rng.random(len(column)))
        other = np.where(front, -1.0, PLACES + self.rng.random(len(at)))
        filler = pc.if_else(pa.array(dense & ~front), joined(f"{GLUE}/", filler), filler)
        pool = pa.concat_arrays([pa.array(self.names, pa.string()), filler])
        row = np.concatenate([row, rows[fills]])
        what = np.concatenate([at[at >= 0], len(self.names) + rows[fills]])
        order = np.lexsort((np.concatenate([place, other[fills]]), row))
        row, what = row[order], what[order]
        sizes = pc.utf8_length(pool).to_numpy(zero_copy_only=False)[what] + 1
        upto = np.cumsum(sizes)
        before = np.concatenate([[0], upto])[np.searchsorted(row, row)]
        kept = upto - before <= longest + 1
        row, what = row[kept], what[kept]
        ends = np.searchsorted(row, np.arange(len(at) + 1))
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pool.take(pa.array(what)))
        made = pc.replace_substring(pc.binary_join(lists, " "), f" {GLUE}", "")
        return numbered(pc.replace_substring(made, GLUE, ""), self.rng)


#: Shapes of texts without blanks, whose filler is joined to a word.
_WHOLE = [SHAPES.index(name) for name in ("email", "url", "hex")]


def numbered(texts: pa.Array, rng: np.random.Generator) -> pa.Array:
    """Texts with a random digit for every `DIGIT`."""
    texts = texts.cast(pa.string())
    if not len(texts):
        return texts
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[: int(offsets[-1])].copy()
    places = np.flatnonzero(data == ord(DIGIT))
    data[places] = ord("0") + rng.integers(10, size=len(places))
    return strings(offsets, data)


def rehoused(
    texts: pa.Array,
    pieces: Pieces,
    firsts: Firsts,
    longest: int | None,
    rng: np.random.Generator,
) -> pa.Array:
    """Surrogate values with released hosts and first characters, both at their frequency."""
    if not len(texts) or not (pieces or firsts):
        return texts
    texts, weights = texts.cast(pa.string()), np.ones(len(texts))
    hosts = _drawn(np.array([law[0] for _, law in pieces], np.float64), weights, rng)
    if pieces:
        names = numbered(pa.array([text.lstrip(GLUE) for text, _ in pieces], pa.string()), rng)
        local = pc.replace_substring_regex(texts, "@.*$", "")
        house = names.take(pa.array(np.maximum(hosts, 0)))
        whole = joined(local, house)
        fits = pc.less_equal(pc.utf8_length(whole), longest or 2**31 - 1)
        texts = pc.if_else(pc.and_(pa.array(hosts >= 0), fits), whole, texts)
    if not firsts:
        return texts
    points = np.array([point for point, _ in firsts])
    want = _drawn(np.array([share for _, share in firsts]), weights, rng)
    want = np.where(want >= 0, points[want], -1)
    return _beginning(texts, want)


def _beginning(texts: pa.Array, want: Ints) -> pa.Array:
    """The texts in an order in which they begin with the wanted characters, as far as there are."""
    have = word_piece(texts, hosts=False).firsts.astype(np.int64)
    order = np.full(len(texts), -1)
    left = np.ones(len(texts), np.bool_)
    for point in np.unique(want).tolist():
        rows, some = np.flatnonzero(want == point), np.flatnonzero(have == point)
        some = some[: len(rows)]
        order[rows[: len(some)]], left[some] = some, False
    rest = np.flatnonzero(order < 0)
    order[rest] = np.flatnonzero(left)
    letters = [chr(point) if point >= 0 else "" for point in want.tolist()]
    changed = np.zeros(len(texts), np.bool_)
    changed[rest] = want[rest] >= 0
    taken = texts.take(pa.array(order))
    new = joined(pa.array(letters, pa.string()), pc.utf8_slice_codeunits(taken, 1))
    return pc.if_else(pa.array(changed), new, taken)
