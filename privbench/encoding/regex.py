"""Texts that a regular expression matches, a whole column at a time.

The standard library's parser, on which `rstr` and hypothesis build as well, reads the expression.
Whatever has no plain texts (back references, look-around, word boundaries) makes `parse` give up.
"""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Copies of an open repetition past its least number.
EXTRA = 8
#: Longest text; an expression that asks for more is not understood.
MOST = 1024
#: Groups, alternatives and repetitions within each other.
DEPTH = 32

_parser: Any = import_module("re._parser")
_WORD = string.ascii_lowercase + string.digits
_PLAIN = string.ascii_letters + string.digits + " -_.,:/"
_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_WORD": _WORD + "_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": string.ascii_lowercase,
    "CATEGORY_NOT_WORD": "-",
    "CATEGORY_NOT_SPACE": _WORD,
}
#: Classes of characters by PostgreSQL's names, as they stand within brackets.
_POSIX = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:space:]": " ",
    "[:blank:]": " ",
    "[:punct:]": r"!#%&*+,\-./:;=?@_",
    "[:xdigit:]": "0-9a-f",
}
#: What PostgreSQL reads otherwise: a collating element, or a class of characters that is not known,
#: within brackets; ``{,3}``, which is plain text.
_FOREIGN = re.compile(r"\[[^][]*\[[.=:]|\{,")


class Unknown(ValueError):
    """The expression is not understood."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of an alphabet."""

    alphabet: str

    def make(self, rows: int, extra: int, rng: np.random.Generator) -> pa.Array:
        """Random texts, shape (rows,)."""
        letters = pa.array(list(self.alphabet), pa.string())
        return letters.take(pa.array(rng.integers(len(self.alphabet), size=rows)))


@dataclass(frozen=True, slots=True)
class Concat:
    """One part after another."""

    parts: tuple[Node, ...]

    def make(self, rows: int, extra: int, rng: np.random.Generator) -> pa.Array:
        """Random texts, shape (rows,)."""
        empty = pa.array([""], pa.string()).take(pa.array(np.zeros(rows, np.int64)))
        return _join([empty, *(part.make(rows, extra, rng) for part in self.parts)])


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts."""

    parts: tuple[Node, ...]

    def make(self, rows: int, extra: int, rng: np.random.Generator) -> pa.Array:
        """Random texts, shape (rows,)."""
        which = pa.array(rng.integers(len(self.parts), size=rows))
        return pc.choose(which, *(part.make(rows, extra, rng) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part several times, at most `greatest` (None: open)."""

    part: Node
    least: int
    greatest: int | None

    def make(self, rows: int, extra: int, rng: np.random.Generator) -> pa.Array:
        """Random texts, shape (rows,)."""
        top = self.least + extra
        top = top if self.greatest is None else min(self.greatest, top)
        count = rng.integers(self.least, top + 1, size=rows)
        made = Concat(()).make(rows, extra, rng)
        for turn in range(top):
            more = self.part.make(rows, extra, rng)
            made = _join([made, pc.if_else(pa.array(turn < count), more, "")])
        return made


Node = Chars | Concat | Choice | Repeat


def _join(parts: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def parse(text: str) -> Node:
    """The structure of a regular expression; `Unknown` where it is not understood.

    >>> from privbench.rng import generator
    >>> parse("^[A-Z]{2}-(7|8)$").make(1, 0, generator(1))[0].as_py()[2:3]
    '-'
    """
    plain = text
    for name, letters in _POSIX.items():
        plain = plain.replace(name, letters)
    if _FOREIGN.search(plain):
        raise Unknown(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what other versions of Python may read otherwise
            tree = _parser.parse(plain)
    except (re.error, OverflowError, RecursionError) as error:
        raise Unknown(text) from error
    node = _node(tree, 0)
    if tree.state.flags & ~re.UNICODE or _width(node) > MOST:
        raise Unknown(text)
    return node


def _width(node: Node) -> int:
    """How many parts a text may be made of."""
    match node:
        case Chars():
            return 1
        case Repeat():
            copies = node.least + EXTRA
            copies = copies if node.greatest is None else min(node.greatest, copies)
            return max(copies, 1) * _width(node.part)
        case _:
            return sum(map(_width, node.parts)) + 1


def _node(items: Any, depth: int) -> Node:
    parts: list[Node] = []
    for place, (kind, value) in enumerate(items):
        match str(kind):
            case "AT" if str(value) == "AT_BEGINNING" and not parts:
                pass
            case "AT" if str(value) == "AT_END" and place == len(items) - 1:
                pass
            case "BRANCH" | "SUBPATTERN" | "MAX_REPEAT" | "MIN_REPEAT" if depth < DEPTH:
                parts.append(_nested(str(kind), value, depth + 1))
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                parts.append(Chars(_alphabet(value if str(kind) == "IN" else [(kind, value)])))
            case _:
                raise Unknown(str(kind))
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _nested(kind: str, value: Any, depth: int) -> Node:
    if kind == "BRANCH":
        return Choice(tuple(_node(branch, depth) for branch in value[1]))
    if kind == "SUBPATTERN":
        _, added, removed, inner = value
        if added or removed:
            raise Unknown("flags")
        return _node(inner, depth)
    least, greatest, inner = value
    open_ = greatest is _parser.MAXREPEAT
    return Repeat(_node(inner, depth), least, None if open_ else greatest)


def _alphabet(members: Iterable[tuple[Any, Any]]) -> str:
    """The letters of a class of characters."""
    letters, negated = "", False
    for kind, value in members:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                letters += chr(value)
            case "NOT_LITERAL":
                letters, negated = chr(value), True
            case "ANY":
                letters += _WORD
            case "RANGE" if value[1] - value[0] < 512:
                letters += "".join(map(chr, range(value[0], value[1] + 1)))
            case "CATEGORY":
                letters += _CATEGORIES[str(value)]
            case _:
                raise Unknown(str(kind))
    if negated:
        letters = "".join(letter for letter in _PLAIN if letter not in letters)
    if not letters:
        raise Unknown("no letter")
    return "".join(dict.fromkeys(letters))
