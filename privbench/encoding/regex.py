"""Texts that a regular expression matches, a whole column at a time.

The standard library's parser, on which `rstr` and hypothesis build as well, reads the expression.
Whatever has no plain texts (back references, look-around, word boundaries) makes `parse` give up.
"""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Callable, Iterable, Sequence
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
class Node:
    """A part of an expression.

    Attributes:
        width: How many pieces its texts may be made of.
        make: Makes random texts, shape (rows,), from the number of rows, how many copies of an
            open repetition there may be past its least number, and a source of randomness.
    """

    width: int
    make: Callable[[int, int, np.random.Generator], pa.Array]


def _join(parts: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _blank(rows: int) -> pa.Array:
    return pa.repeat(pa.scalar("", pa.string()), rows)


def _one_of(alphabet: str) -> Node:
    letters = pa.array(list(alphabet), pa.string())
    return Node(1, lambda n, _, rng: letters.take(pa.array(rng.integers(len(letters), size=n))))


def _in_turn(parts: Sequence[Node]) -> Node:
    return Node(
        sum(part.width for part in parts) + 1,
        lambda n, extra, rng: _join([_blank(n), *(part.make(n, extra, rng) for part in parts)]),
    )


def _choice(parts: Sequence[Node]) -> Node:
    def make(rows: int, extra: int, rng: np.random.Generator) -> pa.Array:
        which = pa.array(rng.integers(len(parts), size=rows))
        return pc.choose(which, *(part.make(rows, extra, rng) for part in parts))

    return Node(sum(part.width for part in parts) + 1, make)


def _repeated(part: Node, least: int, greatest: int | None) -> Node:
    """A part several times, at most `greatest` (None: open)."""

    def most(extra: int) -> int:
        return least + extra if greatest is None else min(greatest, least + extra)

    def make(rows: int, extra: int, rng: np.random.Generator) -> pa.Array:
        count = rng.integers(least, most(extra) + 1, size=rows)
        made = _blank(rows)
        for turn in range(most(extra)):
            more = part.make(rows, extra, rng)
            made = _join([made, pc.if_else(pa.array(turn < count), more, "")])
        return made

    return Node(max(most(EXTRA), 1) * part.width, make)


def parse(text: str) -> Node:
    """The structure of a regular expression; `Unknown` where it is not understood."""
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
    if tree.state.flags & ~re.UNICODE or node.width > MOST:
        raise Unknown(text)
    return node


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
                parts.append(_one_of(_alphabet(value if str(kind) == "IN" else [(kind, value)])))
            case _:
                raise Unknown(str(kind))
    return parts[0] if len(parts) == 1 else _in_turn(parts)


def _nested(kind: str, value: Any, depth: int) -> Node:
    if kind == "BRANCH":
        return _choice([_node(branch, depth) for branch in value[1]])
    if kind == "SUBPATTERN":
        _, added, removed, inner = value
        if added or removed:
            raise Unknown("flags")
        return _node(inner, depth)
    least, greatest, inner = value
    return _repeated(
        _node(inner, depth), least, None if greatest is _parser.MAXREPEAT else greatest
    )


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
