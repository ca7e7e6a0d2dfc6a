"""Make texts that satisfy a CHECK: a pattern, a case, or an order between two other texts.

They are made a whole column at a time. Regular expressions are parsed by the standard library's
parser, on which `rstr` and hypothesis build as well. `parse` gives up on expressions whose texts
cannot be generated directly (back references, look-around, word boundaries).
"""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Rng
from privbench.rules.facts import column_rules, length_limits
from privbench.schema import Check, Column, Rule, Table

#: How many copies beyond the least number an unbounded repetition gets at most.
EXTRA = 8
#: The longest text that is made; an expression that demands a longer one is not understood.
MOST = 1024
#: How deep groups, alternatives and repetitions may be nested.
DEPTH = 32

_parser: Any = import_module("re._parser")
_WORDS = string.ascii_lowercase + string.digits
_PLAIN = string.ascii_letters + string.digits + " -_.,:/"
_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_WORD": _WORDS + "_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": string.ascii_lowercase,
    "CATEGORY_NOT_WORD": "-",
    "CATEGORY_NOT_SPACE": _WORDS,
}
#: Character classes by PostgreSQL's names, in the form that they have within brackets.
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
#: What PostgreSQL reads in another way than Python: within brackets, a collating element or a class
#: of characters that is not listed above; and ``{,3}``, which PostgreSQL reads as literal text.
_FOREIGN = re.compile(r"\[[^][]*\[[.=:]|\{,")


class Unknown(ValueError):
    """A regular expression is not understood."""


@dataclass(frozen=True, slots=True)
class PatternNode:
    """A part of a regular expression."""

    width: int  # the greatest number of pieces that its texts may be made of
    # Makes random texts, shape (rows,). Its arguments are the number of rows, how many copies
    # beyond its least number an unbounded repetition may have, and a source of randomness.
    make: Callable[[int, int, Rng], pa.Array]


def _one_of(alphabet: str) -> PatternNode:
    letters = pa.array(list(alphabet), pa.string())
    return PatternNode(
        1, lambda n, _, rng: letters.take(pa.array(rng.integers(len(letters), size=n)))
    )


def _in_turn(parts: Sequence[PatternNode]) -> PatternNode:
    return PatternNode(
        sum(part.width for part in parts) + 1,
        lambda n, extra, rng: pc.binary_join_element_wise(
            pa.repeat("", n), *(part.make(n, extra, rng) for part in parts), ""
        ),
    )


def _choice(parts: Sequence[PatternNode]) -> PatternNode:
    def make(rows: int, extra: int, rng: Rng) -> pa.Array:
        which = pa.array(rng.integers(len(parts), size=rows))
        return pc.choose(which, *(part.make(rows, extra, rng) for part in parts))

    return PatternNode(sum(part.width for part in parts) + 1, make)


def _repeated(part: PatternNode, least: int, greatest: int | None) -> PatternNode:
    """A part repeated `least` to `greatest` times; None means without limit."""

    def most(extra: int) -> int:
        return least + extra if greatest is None else min(greatest, least + extra)

    def make(rows: int, extra: int, rng: Rng) -> pa.Array:
        count = rng.integers(least, most(extra) + 1, size=rows)
        texts = pa.repeat("", rows)
        for turn in range(most(extra)):
            more = part.make(rows, extra, rng)
            more = pc.if_else(pa.array(turn < count), more, "")
            texts = pc.binary_join_element_wise(texts, more, "")
        return texts

    return PatternNode(max(most(EXTRA), 1) * part.width, make)


def parse(text: str) -> PatternNode:
    """Return the structure of a regular expression; raise `Unknown` if it is not understood."""
    plain = text
    for name, letters in _POSIX.items():
        plain = plain.replace(name, letters)
    if _FOREIGN.search(plain):
        raise Unknown(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that other versions may read differently
            tree = _parser.parse(plain)
    except (re.error, OverflowError, RecursionError) as error:
        raise Unknown(text) from error
    node = _node(tree, 0)
    if tree.state.flags & ~re.UNICODE or node.width > MOST:
        raise Unknown(text)
    return node


def _node(items: Any, depth: int) -> PatternNode:
    parts: list[PatternNode] = []
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


def _nested(kind: str, value: Any, depth: int) -> PatternNode:
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
                letters += _WORDS
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


#: Alphabets whose letters stand in the same order in every collation.
_ALPHABETS = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
#: The most letters of a CHECK's bound that is understood; and how many more a text may have.
_LONGEST_BOUND, _LONGER = 16, 6


def span_patterns(limits: Sequence[Rule]) -> tuple[str, str, str] | None:
    """Return regular expressions of texts between the bounds of CHECKs; None if not understood.

    The first matches the texts that may stay, new texts are made from the second, and more texts
    from the third where the second has too few. Bounds are understood if there are two of the same
    length whose letters at each position are of one alphabet. Which texts lie beyond a single bound
    depends on the collation.

    >>> span_patterns([Rule("bounds", ("c",), "check", "", low="A", high="F")])
    ('^(?:[A-F]|[B-E].*|A.+|A|F)$', '^[A-F]$', '^[A-E][A-Z]{1,6}$')
    """
    low = max((rule.low for rule in limits if rule.low is not None), default=None)
    high = min((rule.high for rule in limits if rule.high is not None), default=None)
    if low is None or high is None or any(rule.values is not None for rule in limits):
        return None
    sets = [_letters_beside(letter) for letter in low]
    alike = len(low) == len(high) and [_letters_beside(letter) for letter in high] == sets
    if not all(sets) or not alike or len(low) > _LONGEST_BOUND or not low < high:
        return None
    open_ = any(rule.strict for rule in limits)
    return _patterns_between(low, high, sets, open_)


def _patterns_between(
    low: str, high: str, sets: list[str], open_: bool
) -> tuple[str, str, str] | None:
    at = next(place for place, (a, b) in enumerate(zip(low, high, strict=True)) if a != b)
    head, letters = low[:at], sets[at]
    inner = letters[letters.index(low[at]) + 1 : letters.index(high[at])]
    rest = "".join(_letter_class(item) for item in sets[at + 1 :])
    tails = [(low[at + 1 :], 0), (high[at + 1 :], -1)]
    whole = not open_ and all(
        tail == "".join(item[end] for item in sets[at + 1 :]) for tail, end in tails
    )
    if not whole and not inner:
        return None
    pattern = low[at] + inner + high[at] if whole else inner
    plain = f"{head}{_letter_class(pattern)}{rest}"
    stay = [plain, *([f"{head}{_letter_class(inner)}.*"] if inner else []), f"{low}.+"]
    stay += [] if open_ else [low, high]
    below = pattern[:-1] if whole else inner
    more = f"{head}{_letter_class(below)}{rest}{_letter_class(sets[-1])}{{1,{_LONGER}}}"
    return f"^(?:{'|'.join(stay)})$", f"^{plain}$", f"^{more}$"


def _letters_beside(letter: str) -> str:
    return next((letters for letters in _ALPHABETS if letter in letters), "")


def _letter_class(letters: str) -> str:
    """The character class of consecutive letters."""
    return letters if len(letters) == 1 else f"[{letters[0]}-{letters[-1]}]"


#: The most rounds of drawing until there are enough distinct texts.
_DRAWS = 4
#: Length of a text of which a CHECK demands nothing but its case.
_WORD = 8


@dataclass(frozen=True)
class Pattern:
    """The pattern, case and bounds that texts must satisfy."""

    regex: str  # a regular expression for Arrow
    fold: bool  # whether case does not count
    tree: PatternNode  # makes texts
    length: int | None  # greatest length of the column's texts
    wider: PatternNode | None = None  # makes more texts where the first tree has too few, or None
    # ``upper`` or ``lower`` where the CHECK demands nothing but this case, else None.
    case: str | None = None

    def replace_bad(self, texts: pa.Array, rng: Rng) -> pa.Array:
        """Replace the texts that do not match, or change their case; NULL stays."""
        if self.case is not None:
            return (pc.utf8_upper if self.case == "upper" else pc.utf8_lower)(texts)
        bad = pc.fill_null(pc.invert(self._matches(texts)), False)
        rows = pc.sum(bad).as_py() or 0
        if not rows:
            return texts
        return pc.replace_with_mask(texts.cast(pa.string()), bad, self.make(rows, rng))

    def make(self, rows: int, rng: Rng) -> pa.Array:
        """Return texts that match, shape (rows,)."""
        texts = self.tree.make(rows, EXTRA, rng)
        if self.length is None:
            return texts
        short = self.tree.make(rows, 0, rng)
        return pc.if_else(pc.less_equal(pc.utf8_length(texts), self.length), texts, short)

    def distinct(self, rows: int, rng: Rng) -> pa.Array:
        """Return different texts that match, up to `rows` of them."""
        result = self.make(rows, rng).unique()
        for _ in range(_DRAWS):
            if len(result) >= rows:
                break
            result = pa.concat_arrays([result, self.make(2 * rows, rng)]).unique()
        if len(result) < rows and self.wider is not None:
            more = replace(self, tree=self.wider, wider=None).distinct(rows, rng)
            more = more.filter(self._matches(more))
            if self.length is not None:
                more = more.filter(pc.less_equal(pc.utf8_length(more), self.length))
            result = pa.concat_arrays([result, more]).unique()
        return result.slice(0, rows)

    def _matches(self, texts: pa.Array) -> pa.Array:
        try:
            return pc.match_substring_regex(
                texts.cast(pa.string()), self.regex, ignore_case=self.fold
            )
        except pa.ArrowInvalid:  # Arrow cannot read the expression: all texts are replaced
            return pc.if_else(texts.is_valid(), False, None)


def column_pattern(table: Table, column: Column) -> Pattern | None:
    """Return the first pattern, else the case, that a rule demands of a text column, or None."""
    if column.type.category != "S":
        return None
    limits = column_rules(table, column)
    _, greatest = length_limits(limits, column.type.length)
    for rule in column_rules(table, column, ("pattern",)):
        result = _pattern(rule.pattern or "", rule.fold, greatest)
        if result is not None:
            return result
    for rule in column_rules(table, column, ("case",)):
        return _cased(rule.case or "", greatest)
    found_spans = span_patterns(limits)
    if found_spans is None:
        return None
    stays, inner, more = found_spans
    return Pattern(stays, False, parse(inner), greatest, parse(more))


def unkept_checks(table: Table) -> tuple[Check, ...]:
    """Return CHECKs of a table and its domains that generated rows may break.

    They demand more than is understood, have a pattern without texts, or a case beside a pattern.
    """
    left, domains = {rule.text for rule in table.rules if rule.kind == "expression"}, []
    for column in table.columns:
        own = {rule.text for rule in column.type.rules if rule.kind == "expression"}
        patterns = column_rules(table, column, ("pattern",))
        own |= {rule.text for rule in patterns if not _pattern(rule.pattern or "", rule.fold, None)}
        if patterns:
            own |= {rule.text for rule in column_rules(table, column, ("case",))}
        left |= own
        name = str(column.type.domain or column.type.sql)
        texts = (text for text in column.type.domain_checks if text in own)
        domains += [Check(name, text, (column.name,)) for text in texts]
    return (*(check for check in table.checks if check.expression in left), *domains)


@lru_cache(maxsize=1024)
def _pattern(regex: str, fold: bool, length: int | None) -> Pattern | None:
    try:
        return Pattern(regex, fold, parse(regex), length)
    except Unknown:
        return None


@lru_cache
def _cased(case: str, length: int | None) -> Pattern:
    """Texts of one case: random words, enough of them for a key."""
    letters, others = ("A-Z", "a-z") if case == "upper" else ("a-z", "A-Z")
    size = _WORD if length is None else max(min(length, _WORD), 1)
    tree = parse(f"^[{letters}][{letters}0-9]{{{size - 1}}}$" if size > 1 else f"^[{letters}]$")
    return Pattern(f"^[^{others}]*$", False, tree, length, case=case)
