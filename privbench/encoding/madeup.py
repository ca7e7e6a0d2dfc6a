"""Made-up text of a given shape and length. No source value can reach it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.encoding.column_names import packaged
from privbench.encoding.shapes import SHAPES

Bytes = NDArray[np.uint8]
Lengths = NDArray[np.int64]

#: Characters that are made at a time.
_CHUNK = 2**24
#: Words in the stream from which sentences are cut.
_STREAM = 8192


def _letters(text: str) -> Bytes:
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8)


_DIGITS = _letters("0123456789")
_HEX = _letters("0123456789abcdef")
_UPPER_DIGITS = _letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_CONSONANTS = _letters("bcdfghjklmnprstvwz")
_VOWELS = _letters("aeiou")
#: Words that are shorter than those of the list.
_SHORT = ("a", "of", "in", "to", "by", "at")
_MAIL = _letters("@example.org")
_URL = _letters("https://example.org/")


class _Layout:
    """Where the characters of a block of strings lie in one flat buffer."""

    def __init__(self, lengths: Lengths) -> None:
        self.lengths = lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.total = int(self.starts[-1])

    def rows(self) -> NDArray[np.int64]:
        """The string of every character."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def places(self) -> NDArray[np.int64]:
        """The position of every character in its string."""
        return np.arange(self.total) - np.repeat(self.starts[:-1], self.lengths)

    def put(self, flat: Bytes, rows: NDArray[Any], place: Any, text: Bytes) -> None:
        """Write `text` into the chosen strings from `place` (one for all, or one for each)."""
        at = self.starts[:-1][rows] + place
        flat[at[:, None] + np.arange(len(text))] = text


def made_text(shapes: NDArray[Any], lengths: Lengths, rng: np.random.Generator) -> pa.Array:
    """One made-up ASCII string for every row.

    Args:
        shapes: Shape class codes (`privbench.encoding.shapes.SHAPES`), shape (rows,).
        lengths: Lengths in characters, shape (rows,).
        rng: Source of randomness.

    Returns:
        An Arrow string array (large_string past 2 GiB), each of exactly the length asked for.
    """
    parts: list[pa.Array] = []
    rows: list[NDArray[np.int64]] = []
    for code, name in enumerate(SHAPES):
        chosen = np.flatnonzero(shapes == code)
        for block in _blocks(chosen, lengths):
            layout = _Layout(lengths[block])
            parts.append(_strings(_MAKERS[name](layout, rng), layout))
            rows.append(block)
    if not parts:
        return pa.array([], pa.string())
    order = np.empty(len(shapes), dtype=np.int64)
    order[np.concatenate(rows)] = np.arange(len(shapes))
    wide = int(lengths.sum()) > 2**31 - 1
    whole = pa.concat_arrays([part.cast(pa.large_string()) if wide else part for part in parts])
    return whole.take(pa.array(order))


def _blocks(rows: NDArray[np.int64], lengths: Lengths) -> list[NDArray[np.int64]]:
    """The rows in blocks of about `_CHUNK` characters."""
    if not len(rows):
        return []
    block = np.cumsum(lengths[rows]) // _CHUNK
    return np.split(rows, np.flatnonzero(np.diff(block)) + 1)


def _strings(flat: Bytes, layout: _Layout) -> pa.Array:
    offsets = pa.py_buffer(layout.starts.astype(np.int32).tobytes())
    data = pa.py_buffer(flat.tobytes())
    return pa.StringArray.from_buffers(len(layout.lengths), offsets, data)


def _random(alphabet: Bytes, layout: _Layout, rng: np.random.Generator) -> Bytes:
    return alphabet[rng.integers(len(alphabet), size=layout.total, dtype=np.uint8)]


def _digits(layout: _Layout, rng: np.random.Generator) -> Bytes:
    return _random(_DIGITS, layout, rng)


def _decimal(layout: _Layout, rng: np.random.Generator) -> Bytes:
    flat = _digits(layout, rng)
    rows = np.flatnonzero(layout.lengths >= 3)
    place = np.maximum(layout.lengths[rows] - 3, 1)
    layout.put(flat, rows, place, _letters("."))
    return flat


def _hex(layout: _Layout, rng: np.random.Generator) -> Bytes:
    return _random(_HEX, layout, rng)


def _code(layout: _Layout, rng: np.random.Generator) -> Bytes:
    flat = _random(_UPPER_DIGITS, layout, rng)
    places, lengths = layout.places(), layout.lengths[layout.rows()]
    flat[(places % 5 == 4) & (places < lengths - 1)] = ord("-")
    return flat


def _lower(layout: _Layout, rng: np.random.Generator) -> Bytes:
    """Consonants and vowels by turns, beginning with either."""
    phase = rng.integers(2, size=len(layout.lengths))
    vowel = (layout.places() + phase[layout.rows()]) % 2 == 1
    return np.where(vowel, _random(_VOWELS, layout, rng), _random(_CONSONANTS, layout, rng))


def _capitalise(flat: Bytes, layout: _Layout) -> Bytes:
    first = layout.starts[:-1][layout.lengths > 0]
    small = flat[first] >= ord("a")
    flat[first[small]] -= 32
    return flat


def _capitalised(layout: _Layout, rng: np.random.Generator) -> Bytes:
    return _capitalise(_lower(layout, rng), layout)


def _upper(layout: _Layout, rng: np.random.Generator) -> Bytes:
    return _lower(layout, rng) - np.uint8(32)


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """The package's own word list."""
    return tuple(packaged("words")["words"])


@lru_cache(maxsize=1)
def _spoken() -> NDArray[np.object_]:
    """The words, a space after each."""
    return np.array([f"{word} " for word in words()], dtype=object)


@lru_cache(maxsize=1)
def _by_length() -> dict[int, Bytes]:
    """The words of every length, as rows of letters."""
    found: dict[int, list[Bytes]] = {}
    for word in (*_SHORT, *words()):
        found.setdefault(len(word), []).append(_letters(word))
    return {length: np.stack(group) for length, group in found.items()}


def _prose(layout: _Layout, rng: np.random.Generator) -> Bytes:
    """Each string is cut from a stream of random words, at the start of one.

    What the cut leaves of the last word is replaced by a word of that length.
    """
    known = _spoken()
    chosen = known[rng.integers(len(known), size=_STREAM)]
    stream = _letters("".join(chosen.tolist()))
    starts = np.concatenate([[0], np.flatnonzero(stream == ord(" "))[:-1] + 1])
    first = starts[rng.integers(len(starts), size=len(layout.lengths))]
    flat = stream[(first[layout.rows()] + layout.places()) % len(stream)]
    last = (layout.starts[1:] - 1)[layout.lengths > 0]
    flat[last[flat[last] == ord(" ")]] = ord("s")
    _finish_words(flat, layout, rng)
    return flat


def _finish_words(flat: Bytes, layout: _Layout, rng: np.random.Generator) -> None:
    """Put a whole word in the place of each string's last one."""
    gaps = np.where(flat == ord(" "), layout.places(), -1)
    filled = np.flatnonzero(layout.lengths > 0)
    if not len(filled):
        return
    start = np.maximum.reduceat(gaps, layout.starts[:-1][filled]) + 1
    room = layout.lengths[filled] - start
    for length, known in _by_length().items():
        chosen = np.flatnonzero(room == length)
        at = layout.starts[:-1][filled[chosen]] + start[chosen]
        flat[at[:, None] + np.arange(length)] = known[rng.integers(len(known), size=len(chosen))]


def _sentence(layout: _Layout, rng: np.random.Generator) -> Bytes:
    said = _Layout(layout.lengths - (layout.lengths >= 12))
    flat = np.full(layout.total, ord("."), dtype=np.uint8)
    flat[layout.starts[:-1][said.rows()] + said.places()] = _capitalise(_prose(said, rng), said)
    return flat


def _title(layout: _Layout, rng: np.random.Generator) -> Bytes:
    flat = _capitalise(_prose(layout, rng), layout)
    space = np.flatnonzero(flat == ord(" "))
    after = space[space + 1 < layout.total] + 1
    flat[after[flat[after] >= ord("a")]] -= 32
    return flat


def _email(layout: _Layout, rng: np.random.Generator) -> Bytes:
    flat = _lower(layout, rng)
    short = np.flatnonzero((layout.lengths >= 5) & (layout.lengths <= len(_MAIL)))
    layout.put(flat, short, layout.lengths[short] - 4, _letters("@"))
    layout.put(flat, short, layout.lengths[short] - 2, _letters("."))
    long = np.flatnonzero(layout.lengths > len(_MAIL))
    layout.put(flat, long, layout.lengths[long] - len(_MAIL), _MAIL)
    return flat


def _url(layout: _Layout, rng: np.random.Generator) -> Bytes:
    flat = _lower(layout, rng)
    short = np.flatnonzero((layout.lengths >= 5) & (layout.lengths <= len(_URL)))
    layout.put(flat, short, 0, _letters("www."))
    layout.put(flat, np.flatnonzero(layout.lengths > len(_URL)), 0, _URL)
    return flat


_MAKERS: dict[str, Callable[[_Layout, np.random.Generator], Bytes]] = {
    "digits": _digits,
    "decimal": _decimal,
    "email": _email,
    "url": _url,
    "hex": _hex,
    "lower": _lower,
    "capitalised": _capitalised,
    "upper": _upper,
    "code": _code,
    "title": _title,
    "sentence": _sentence,
    "other": _prose,
}
