"""Patterns of the old shape for new values."""

from __future__ import annotations

import re

import numpy as np

#: Letters of a piece whose length is not known.
_PIECE = 3
_LONGEST_PIECE = 24
_LIKE = re.compile(r"\\.|[%_]+|[^%_\\]+", re.DOTALL)


def like(old: str, value: str, rng: np.random.Generator) -> str:
    """A LIKE pattern with the wildcards of the old one that a value fits, if it is long enough.

    >>> like("ab%", "hello", np.random.default_rng(0)), like("%ab", "hello", None)
    ('he%', '%lo')
    """
    pieces = _LIKE.findall(old) or ["?" * _PIECE, "%"]
    texts = [len(piece) for piece in pieces if not _wild(piece)]
    cuts = iter(_cuts(value, texts, _wild(pieces[0]), _wild(pieces[-1]), rng))
    return "".join(piece if _wild(piece) else _escaped(next(cuts)) for piece in pieces)


def regex(old: str, value: str, rng: np.random.Generator) -> str:
    """A regular expression for a piece of the value, anchored where the old one was."""
    start, end = old.startswith("^"), old.endswith("$")
    length = sum(char.isalnum() for char in old) or _PIECE
    (piece,) = _cuts(value, [length], not start, not end, rng)
    return f"{'^' * start}{re.escape(piece)}{'$' * end}"


def prefix(old: str, value: str) -> str:
    """As many of the value's first letters as the old prefix had."""
    return value[: len(old) or _PIECE]


def infix(old: str, value: str, rng: np.random.Generator) -> str:
    """A piece of the value as long as the old one."""
    return _cuts(value, [len(old) or _PIECE], True, True, rng)[0]


def _wild(piece: str) -> bool:
    return piece[0] in "%_"


def _cuts(
    value: str, lengths: list[int], open_start: bool, open_end: bool, rng: np.random.Generator
) -> list[str]:
    """Pieces of the value one after the other, from its start or to its end where it is closed."""
    if lengths and not open_start and not open_end and len(lengths) == 1:
        return [value]
    lengths = [min(length, _LONGEST_PIECE) for length in lengths]
    spare = max(0, len(value) - sum(lengths))
    at = int(rng.integers(spare + 1)) if open_start and open_end and spare else 0
    if open_start and not open_end:
        at = spare
    found = []
    for place, length in enumerate(lengths):
        last = place == len(lengths) - 1
        if last and place and not open_end:
            at = max(at, len(value) - length)
        found.append(value[at : at + length])
        at += length
    return found


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)
