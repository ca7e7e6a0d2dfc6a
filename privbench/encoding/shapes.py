"""The public shape classes of text: what kind of string it is, never which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Shape classes with their patterns (RE2); the first that matches counts, `other` takes the rest.
PATTERNS: tuple[tuple[str, str], ...] = (
    ("digits", r"^[0-9]+$"),
    ("decimal", r"^[+-]?[0-9]*[.,][0-9]+$"),
    ("email", r"^[^@\s]+@[^@\s]+\.[^@\s]+$"),
    ("url", r"^(?:[a-z]+://|www\.)\S+$"),
    ("hex", r"^(?:0x)?(?:[0-9a-f]{8,}|[0-9A-F]{8,})$"),
    ("lower", r"^[\p{Ll}]+$"),
    ("capitalised", r"^[\p{Lu}][\p{Ll}]+$"),
    ("upper", r"^[\p{Lu}]+$"),
    ("code", r"^[\p{Lu}0-9._/#-]+$"),
    ("title", r"^[\p{Lu}][\p{L}.'&-]*(?: [\p{Lu}0-9&][\p{L}.'&-]*)+$"),
    ("sentence", r"\S\s+\S"),
)
#: The same for texts in ASCII: classes of all of Unicode's letters take milliseconds to compile.
_ASCII = tuple(
    (name, pattern.replace(r"\p{Lu}", "A-Z").replace(r"\p{Ll}", "a-z").replace(r"\p{L}", "A-Za-z"))
    for name, pattern in PATTERNS
)
#: Names of the classes, by code.
SHAPES: tuple[str, ...] = (*(name for name, _ in PATTERNS), "other")


def shapes(text: pa.Array) -> NDArray[np.uint8]:
    """The class of every string; what stands for NULL is arbitrary.

    >>> [SHAPES[code] for code in shapes(pa.array(["12", "Ann Lee", "a@b.org", "hello", ""]))]
    ['digits', 'title', 'email', 'lower', 'other']
    """
    encoded = text.dictionary_encode()
    codes: NDArray[np.uint8] = _distinct(encoded.dictionary)[indices(encoded)]
    return codes


def indices(encoded: pa.DictionaryArray) -> NDArray[Any]:
    """Positions in the dictionary; NULL takes one past its end."""
    past = len(encoded.dictionary)
    return np.asarray(encoded.indices.fill_null(past).to_numpy(zero_copy_only=False))


def _distinct(text: pa.Array) -> NDArray[np.uint8]:
    """Classes of distinct strings, with one more entry for NULL."""
    codes = np.full(len(text) + 1, len(PATTERNS), dtype=np.uint8)
    left = np.arange(len(text))
    plain = pc.all(pc.string_is_ascii(text), min_count=0).as_py()
    for code, (_, pattern) in enumerate(_ASCII if plain else PATTERNS):
        if not len(left):
            break
        match = pc.match_substring_regex(text, pattern).to_numpy(zero_copy_only=False)
        codes[left[match]] = code
        left, text = left[~match], text.filter(pa.array(~match))
    return codes
