"""Texts that a regular expression matches: a small parser, and vectorised random texts.

Understood: literals, escapes, classes, groups, alternatives, anchors at the ends and quantifiers.
Whatever else an expression holds (back references, look-around, word boundaries) makes `parse` give
up.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Copies of an open repetition past its least number.
EXTRA = 8
#: Longest text; an expression that asks for more is not understood.
MOST = 1024
#: Groups within groups.
DEPTH = 32

_WORD = string.ascii_lowercase + string.digits
_SETS = {
    "d": string.digits,
    "w": _WORD + "_",
    "s": " ",
    "D": string.ascii_lowercase,
    "W": "-",
    "S": _WORD,
}
_POSIX = {
    "alpha": string.ascii_letters,
    "digit": string.digits,
    "alnum": string.ascii_letters + string.digits,
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "space": " ",
    "blank": " ",
    "punct": "!#%&*+,-./:;=?@_",
    "xdigit": string.digits + "abcdef",
}
_PLAIN = string.ascii_letters + string.digits + " -_.,:/"
_CONTROL = {"n": "\n", "t": "\t", "r": "\r"}


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
    """The structure of a regular expression.

    >>> from privbench.rng import generator
    >>> parse("^[A-Z]{2}-(7|8)$").make(1, 0, generator(1))[0].as_py()[2:3]
    '-'

    Raises:
        Unknown: It holds something that is not understood.
    """
    reader = _Reader(text)
    tree = reader.choice()
    if reader.left or _width(tree) > MOST:
        raise Unknown(text)
    return tree


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


class _Reader:
    """A recursive descent over the expression."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    @property
    def left(self) -> bool:
        return self.at < len(self.text)

    def peek(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.text[place] if place < len(self.text) else ""

    def take(self) -> str:
        if not self.left:
            raise Unknown(self.text)
        self.at += 1
        return self.text[self.at - 1]

    def choice(self) -> Node:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.take()
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.left and self.peek() not in "|)":
            if (self.peek() == "^" and not parts) or (
                self.peek() == "$" and self.peek(1) in ("", "|", ")")
            ):
                self.take()
            else:
                parts.append(self.quantified())
        return Concat(tuple(parts))

    def quantified(self) -> Node:
        node = self.atom()
        while self.peek() and self.peek() in "?*+{":
            least, greatest = self.counts()
            if self.peek() == "?":  # reluctant: the same texts
                self.take()
            node = Repeat(node, least, greatest)
        return node

    def counts(self) -> tuple[int, int | None]:
        mark = self.take()
        if mark != "{":
            return {"?": (0, 1), "*": (0, None), "+": (1, None)}[mark]
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : end].partition(",")
        if end < 0 or not low.isdigit() or (high and not high.isdigit()):
            raise Unknown(self.text)
        self.at = end + 1
        least = int(low)
        greatest = least if not comma else int(high) if high else None
        if max(least, greatest or 0) > MOST or (greatest is not None and greatest < least):
            raise Unknown(self.text)
        return least, greatest

    def atom(self) -> Node:
        letter = self.take()
        if letter == "(":
            return self.group()
        if letter == "[":
            return Chars(self.bracket())
        if letter == ".":
            return Chars(_WORD)
        if letter == "\\":
            return Chars(self.escape())
        if letter in "^$?*+{":
            raise Unknown(self.text)
        return Chars(letter)

    def group(self) -> Node:
        if self.peek() == "?":
            if self.text[self.at : self.at + 2] != "?:":
                raise Unknown(self.text)
            self.at += 2
        self.depth += 1
        if self.depth > DEPTH:
            raise Unknown(self.text)
        inside = self.choice()
        if self.take() != ")":
            raise Unknown(self.text)
        self.depth -= 1
        return inside

    def escape(self) -> str:
        letter = self.take()
        if letter in _SETS:
            return _SETS[letter]
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter.isalnum():
            raise Unknown(self.text)
        return letter

    def bracket(self) -> str:
        negated = self.peek() == "^"
        if negated:
            self.take()
        result = ""
        while self.peek() != "]" or not result:
            result += self.member()
        self.take()
        if negated:
            result = "".join(letter for letter in _PLAIN if letter not in result)
        if not result:
            raise Unknown(self.text)
        return "".join(dict.fromkeys(result))

    def member(self) -> str:
        letter = self.take()
        if letter == "[" and self.peek() in ":.=" and self.peek():
            return self.posix()
        if letter == "\\":
            letter = self.escape()
        if len(letter) > 1 or self.peek() != "-" or self.peek(1) in ("]", ""):
            return letter
        self.take()
        last = self.take()
        last = self.escape() if last == "\\" else last
        if len(last) > 1 or not 0 <= ord(last) - ord(letter) < 512:
            raise Unknown(self.text)
        return "".join(map(chr, range(ord(letter), ord(last) + 1)))

    def posix(self) -> str:
        end = self.text.find(":]", self.at)
        name = self.text[self.at + 1 : end]
        if end < 0 or name not in _POSIX:
            raise Unknown(self.text)
        self.at = end + 2
        return _POSIX[name]
