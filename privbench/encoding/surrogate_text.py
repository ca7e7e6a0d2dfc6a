"""Surrogate texts of a given shape and length, made without any value of the source."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.arrays import Ints, Mask, Rng
from privbench.domain import Domain
from privbench.encoding.text_formats import FORMATS, formatted, has_template
from privbench.privacy.recoding import EdgesRecoding
from privbench.rules.named import packaged

#: Base types of text.
TEXT_BASES = ("text", "varchar", "bpchar", "name", "citext")

#: ASCII codes of the digits.
BASE36 = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


def strings(ends: Ints, characters: NDArray[np.uint8]) -> pa.Array:
    """Return strings, given their ASCII codes one after another and the offset of each string."""
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(characters)]
    return pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers)


def fixed_width(characters: NDArray[np.uint8]) -> pa.Array:
    """Return strings from a matrix of ASCII codes, shape (rows, width)."""
    rows, width = characters.shape
    return strings(np.arange(rows + 1) * width, np.ascontiguousarray(characters))


def digits(numbers: Ints, width: int, base: int = 36) -> pa.Array:
    """Return numbers below ``base ** width`` as digits, with leading zeros.

    >>> digits(np.array([1, 40]), 3).to_pylist()
    ['001', '014']
    """
    places = np.empty((len(numbers), width), dtype=np.int64)
    left = numbers.copy()
    for place in range(width - 1, -1, -1):
        left, places[:, place] = np.divmod(left, base)
    return fixed_width(BASE36[places])


def decimal(numbers: Ints) -> pa.Array:
    """Return numbers as decimal texts without leading zeros."""
    return pa.array(numbers, pa.int64()).cast(pa.string())


def joined(*pieces: pa.Array | str) -> pa.Array:
    """Concatenate arrays of strings and constants, row by row.

    >>> joined("(", pa.array(["a", "b"]), ")").to_pylist()
    ['(a)', '(b)']
    """
    whole: Any = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*whole, "")


def quoted(texts: pa.Array) -> pa.Array:
    r"""Return texts as quoted elements of an array, range or composite literal."""
    escaped = pc.replace_substring(texts, "\\", "\\\\")
    return joined('"', pc.replace_substring(escaped, '"', '\\"'), '"')


#: Shapes of words with their patterns (RE2); `other` takes the rest.
_WORDS: tuple[tuple[str, str], ...] = (
    ("lower", r"^[\p{Ll}]+$"),
    ("capitalised", r"^[\p{Lu}][\p{Ll}]+$"),
    ("upper", r"^[\p{Lu}]+$"),
    ("code", r"^[\p{Lu}0-9._/#-]+$"),
    ("title", r"^[\p{Lu}][\p{L}.'&-]*(?: [\p{Lu}0-9&][\p{L}.'&-]*)+$"),
    ("sentence", r"\S\s+\S"),
)
#: How many shapes are of words, `other` among them; the formats follow.
_PLAIN = len(_WORDS) + 1
#: Names of the shapes, by code.
SHAPES: tuple[str, ...] = (*(name for name, _ in (*_WORDS, ("other", ""), *FORMATS)),)
#: Codes and patterns of the shapes: of several that match a text, the first counts; the last one
#: matches all.
PATTERNS: tuple[tuple[int, str], ...] = (
    *((_PLAIN + place, pattern) for place, (_, pattern) in enumerate(FORMATS)),
    *((place, pattern) for place, (_, pattern) in enumerate((*_WORDS, ("other", "")))),
)
#: The same patterns for ASCII texts: Unicode's classes of letters take milliseconds to compile.
_ASCII = tuple(
    (code, pattern.replace(r"\p{Lu}", "A-Z").replace(r"\p{Ll}", "a-z").replace(r"\p{L}", "A-Za-z"))
    for code, pattern in PATTERNS
)


#: The greatest length that is measured and made; longer texts count as of this length. Noise may
#: fill the cells of the greatest lengths, and must not fill the disk.
MAX_LENGTH = 2**16
#: The greatest length of a text of which nothing is released.
WORD = 9


def length_edges(least: int, greatest: int | None) -> tuple[int, ...]:
    """Return the edges of public cells of text lengths: 0 to 16 one by one, then two per octave.

    >>> length_edges(0, 3), length_edges(2, 20)
    ((0, 1, 2, 3, 4), (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 21))
    """
    top = MAX_LENGTH if greatest is None else min(greatest, MAX_LENGTH)
    grid = [*range(18), *(round(2 ** (k / 2)) + 1 for k in range(9, 33))]
    inner = [edge for edge in grid if least < edge < top + 1]
    return (min(least, top), *inner, top + 1)


def length_cells(edges: tuple[int, ...], nullable: bool, default: int = 0) -> EdgesRecoding:
    """Return the cells of text lengths, one between each two ``edges``.

    Cells of lengths from half of ``default`` to ``default`` are always used; a count of another
    cell is set to 0 unless it is clear of noise. So texts whose lengths are hidden by noise have
    about the length ``default``; with 0 they are empty.
    """
    last = max(min(bisect_right(edges, default), len(edges) - 1), 1)
    first = min(bisect_right(edges, (default + 1) // 2) - 1, last - 1)
    return EdgesRecoding(edges, (), nullable, core=(max(first, 0), last))


def shape_domain(nullable: bool) -> Domain:
    """Return the domain of text shapes, in which a format's count must be clear of noise.

    The reason is that one wrongly formatted date would end a query with an error.
    """
    return Domain(_PLAIN, specials=SHAPES[_PLAIN:], nullable=nullable, filler=True)


def is_format(shapes: NDArray[Any]) -> Mask:
    """Return whether each shape is a format, such as a date, and not a shape of words."""
    return shapes >= _PLAIN


def settled(codes: Ints, least: float, labels: tuple[str, ...], rng: Rng) -> Ints:
    """Return shapes in which words that are probably noise among formats are replaced by formats.

    They count as noise if their share is below ``least``: one word among numbers would end a query
    with an error. If noise hides all shapes, all shapes of words are about equally frequent; then
    the formats that all released labels have are used.
    """
    words = np.flatnonzero(~is_format(codes))
    known = shapes(pa.array([label for label in labels if label], pa.string())).astype(np.int64)
    alike = np.bincount(codes[words], minlength=1).max() * _PLAIN < 2 * len(words)
    if not (alike and len(known) and is_format(known).all()):
        if not 0 < len(words) < least * len(codes):
            return codes
        known = codes[is_format(codes)]
    result = codes.copy()
    result[words] = rng.choice(known, len(words))
    return result


#: Spellings with slashes; where days are known, one order holds for all of them.
_SLASHES = [SHAPES.index(f"date with slashes, {order}") for order in
            ("month first", "day first", "either order")]  # fmt: skip


def in_one_order(shapes: Ints) -> Ints:
    """Return shapes in which dates with slashes agree: the day first in all, or the month."""
    month, day, _ = (int((shapes == code).sum()) for code in _SLASHES)
    return np.where(np.isin(shapes, _SLASHES), _SLASHES[day > month], shapes)


def length_domain(edges: tuple[int, ...], nullable: bool, labelled: bool) -> Domain:
    """Return the domain of text lengths; if labels are read too, it is used for surrogates only."""
    return replace(length_cells(edges, nullable, WORD).domain, filler=labelled)


def shapes(text: pa.Array) -> NDArray[np.uint8]:
    """Return the shape class of every string; arbitrary for NULL.

    >>> [SHAPES[code] for code in shapes(pa.array(["12", "Ann Lee", "2024-02-29", "hello", ""]))]
    ['digits', 'title', 'iso date', 'lower', 'other']
    """
    encoded = text.dictionary_encode()
    places = np.asarray(encoded.indices.fill_null(len(encoded.dictionary)))
    codes: NDArray[np.uint8] = _distinct(encoded.dictionary)[places]
    return codes


def _distinct(text: pa.Array) -> NDArray[np.uint8]:
    """The shape classes of distinct strings, with one more entry for NULL."""
    codes = np.full(len(text) + 1, SHAPES.index("other"), dtype=np.uint8)
    plain = pc.all(pc.string_is_ascii(text), min_count=0).as_py()
    _classify(codes, np.arange(len(text)), text, _ASCII if plain else PATTERNS)
    return codes


def _classify(
    codes: NDArray[np.uint8], rows: Ints, text: pa.Array, patterns: Sequence[tuple[int, str]]
) -> None:
    """Set the codes of rows, each of whose texts matches one of the patterns, by binary search.

    Alternatives are matched as fast as one pattern, so seven matches find one of 71 patterns.
    """
    if len(patterns) == 1:
        codes[rows] = patterns[0][0]
    elif len(rows):
        first, rest = patterns[: len(patterns) // 2], patterns[len(patterns) // 2 :]
        alternatives = "|".join(f"(?:{pattern})" for _, pattern in first)
        match = np.asarray(pc.match_substring_regex(text, alternatives))
        _classify(codes, rows[match], text.filter(pa.array(match)), first)
        _classify(codes, rows[~match], text.filter(pa.array(~match)), rest)


#: Characters of ASCII texts, one byte each.
TextBytes = NDArray[np.uint8]

#: About how many characters are made at a time.
_CHUNK = 2**24
#: Words in the stream from which sentences are cut.
_STREAM = 8192


def _letters(text: str) -> TextBytes:
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8)


_HEX = _letters("0123456789abcdef")
_UPPER_DIGITS = _letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_CONSONANTS = _letters("bcdfghjklmnprstvwz")
_VOWELS = _letters("aeiou")
_MAIL = _letters("@example.org")
_URL = _letters("https://example.org/")


class _Layout:
    """Where the characters of a block of strings lie in one flat buffer."""

    def __init__(self, lengths: Ints) -> None:
        self.lengths = lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.total = int(self.starts[-1])

    def rows(self) -> Ints:
        """The number of the string that each character belongs to."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def places(self) -> Ints:
        """The position of every character in its string."""
        return np.arange(self.total) - np.repeat(self.starts[:-1], self.lengths)

    def put(self, flat: TextBytes, rows: NDArray[Any], place: Any, text: TextBytes) -> None:
        """Write `text` into the chosen strings from `place` (one for all, or one for each)."""
        at = self.starts[:-1][rows] + place
        flat[at[:, None] + np.arange(len(text))] = text


def made_text(
    shapes: NDArray[Any],
    lengths: Ints,
    rng: Rng,
    days: Ints | None = None,
) -> pa.Array:
    """Return a generated ASCII string for every row; a string in a format may have another length.

    Texts that are dates lie on the given days, if there are any.
    """
    parts: list[pa.Array] = []
    rows: list[Ints] = []
    for code, name in enumerate(SHAPES):
        chosen = np.flatnonzero(shapes == code)
        if len(chosen) and has_template(name):
            known = None if days is None else days[chosen]
            parts.append(formatted(name, lengths[chosen], rng, known))
            rows.append(chosen)
            continue
        for block in blocks(chosen, lengths):
            layout = _Layout(lengths[block])
            parts.append(strings(layout.starts, _MAKERS[name](layout, rng)))
            rows.append(block)
    if not parts:
        return pa.array([], pa.string())
    order = np.empty(len(shapes), dtype=np.int64)
    order[np.concatenate(rows)] = np.arange(len(shapes))
    wide = int(lengths.sum()) > 2**31 - 1
    whole = pa.concat_arrays([part.cast(pa.large_string()) if wide else part for part in parts])
    return whole.take(pa.array(order))


def blocks(rows: Ints, lengths: Ints, size: int = _CHUNK) -> list[Ints]:
    """Return the rows in blocks of about ``size`` characters."""
    if not len(rows):
        return []
    block = np.cumsum(lengths[rows]) // size
    return np.split(rows, np.flatnonzero(np.diff(block)) + 1)


def _random(alphabet: TextBytes, layout: _Layout, rng: Rng) -> TextBytes:
    return alphabet[rng.integers(len(alphabet), size=layout.total, dtype=np.uint8)]


def _code(layout: _Layout, rng: Rng) -> TextBytes:
    flat = _random(_UPPER_DIGITS, layout, rng)
    places, lengths = layout.places(), layout.lengths[layout.rows()]
    flat[(places % 5 == 4) & (places < lengths - 1)] = ord("-")
    return flat


def _lower(layout: _Layout, rng: Rng) -> TextBytes:
    """Fill every string with alternating consonants and vowels; it begins as often as words do."""
    known = word_beginnings()
    first = known[rng.integers(len(known), size=len(layout.lengths))]
    vowel = (layout.places() + np.isin(first, _VOWELS)[layout.rows()]) % 2 == 1
    flat = np.where(vowel, _random(_VOWELS, layout, rng), _random(_CONSONANTS, layout, rng))
    some = layout.lengths > 0
    flat[layout.starts[:-1][some]] = first[some]
    return flat


def _capitalise(flat: TextBytes, layout: _Layout) -> TextBytes:
    first = layout.starts[:-1][layout.lengths > 0]
    small = flat[first] >= ord("a")
    flat[first[small]] -= 32
    return flat


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Return the package's own word list."""
    return tuple(packaged("words", "privbench.encoding")["words"])


@cache
def word_beginnings() -> TextBytes:
    """Return the first letter of each of the package's words."""
    return _letters("".join(word[0] for word in words()))


def _prose(layout: _Layout, rng: Rng) -> TextBytes:
    """Cut each string from a stream of random words, from the start of a word on."""
    known = words()
    chosen = rng.integers(len(known), size=_STREAM).tolist()
    stream = _letters("".join(f"{known[place]} " for place in chosen))
    starts = np.concatenate([[0], np.flatnonzero(stream == ord(" "))[:-1] + 1])
    first = starts[rng.integers(len(starts), size=len(layout.lengths))]
    flat = stream[(first[layout.rows()] + layout.places()) % len(stream)]
    last = (layout.starts[1:] - 1)[layout.lengths > 0]
    flat[last[flat[last] == ord(" ")]] = ord("s")
    return flat


def _sentence(layout: _Layout, rng: Rng) -> TextBytes:
    sentence = _Layout(layout.lengths - (layout.lengths >= 12))
    flat = np.full(layout.total, ord("."), dtype=np.uint8)
    flat[layout.starts[:-1][sentence.rows()] + sentence.places()] = _capitalise(
        _prose(sentence, rng), sentence
    )
    return flat


def _title(layout: _Layout, rng: Rng) -> TextBytes:
    flat = _capitalise(_prose(layout, rng), layout)
    space = np.flatnonzero(flat == ord(" "))
    after = space[space + 1 < layout.total] + 1
    flat[after[flat[after] >= ord("a")]] -= 32
    return flat


def _email(layout: _Layout, rng: Rng) -> TextBytes:
    flat = _lower(layout, rng)
    short = np.flatnonzero((layout.lengths >= 5) & (layout.lengths <= len(_MAIL)))
    layout.put(flat, short, layout.lengths[short] - 4, _letters("@"))
    layout.put(flat, short, layout.lengths[short] - 2, _letters("."))
    long = np.flatnonzero(layout.lengths > len(_MAIL))
    layout.put(flat, long, layout.lengths[long] - len(_MAIL), _MAIL)
    return flat


def _url(layout: _Layout, rng: Rng) -> TextBytes:
    flat = _lower(layout, rng)
    short = np.flatnonzero((layout.lengths >= 5) & (layout.lengths <= len(_URL)))
    layout.put(flat, short, 0, _letters("www."))
    layout.put(flat, np.flatnonzero(layout.lengths > len(_URL)), 0, _URL)
    return flat


_MAKERS: dict[str, Callable[[_Layout, Rng], TextBytes]] = {
    "email": _email,
    "url": _url,
    "hex": lambda layout, rng: _random(_HEX, layout, rng),
    "lower": _lower,
    "capitalised": lambda layout, rng: _capitalise(_lower(layout, rng), layout),
    "upper": lambda layout, rng: _lower(layout, rng) - np.uint8(32),
    "code": _code,
    "title": _title,
    "sentence": _sentence,
    "other": _prose,
}
