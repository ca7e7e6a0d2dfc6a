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
    if len(pieces) == 1 and not _wild(old):
        return _escaped(value)
    sizes = [piece.count("_") if _wild(piece) else min(len(piece), _LONGEST_PIECE)
             for piece in pieces]  # fmt: skip
    at = _start(len(value) - sum(sizes), "%" in pieces[0], "%" in pieces[-1], rng)
    found = []
    for piece, size in zip(pieces, sizes, strict=True):
        if piece is pieces[-1] and not _wild(piece):
            at = max(at, len(value) - size)
        found.append(piece if _wild(piece) else _escaped(value[at : at + size]))
        at += size
    return "".join(found)


def regex(old: str, value: str, rng: np.random.Generator) -> str:
    """A regular expression for a piece of the value, anchored where the old one was."""
    start, end = old.startswith("^"), old.endswith("$")
    if start and end:
        return f"^{re.escape(value)}$"
    size = sum(char.isalnum() for char in old) or _PIECE
    at = _start(len(value) - size, not start, not end, rng)
    return f"{'^' * start}{re.escape(value[at : at + size])}{'$' * end}"


def prefix(old: str, value: str) -> str:
    """As many of the value's first letters as the old prefix had."""
    return value[: len(old) or _PIECE]


def infix(old: str, value: str, rng: np.random.Generator) -> str:
    """A piece of the value as long as the old one."""
    size = len(old) or _PIECE
    at = _start(len(value) - size, True, True, rng)
    return value[at : at + size]


def _wild(piece: str) -> bool:
    return piece[0] in "%_"


def _start(spare: int, open_start: bool, open_end: bool, rng: np.random.Generator) -> int:
    """Where the pieces of a value begin that has some letters to spare."""
    if spare <= 0 or not open_start:
        return 0
    return int(rng.integers(spare + 1)) if open_end else spare


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)
