"""Replace every literal of a query's text by a mark before anything else looks at the text.

What is written in the end is the text around the marks, without its comments, with new literals in
their places: an old one can survive only where it is put back on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from psycopg import sql
from sqlglot import Token, TokenType, exp
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError

from privbench.errors import UsageError

Kind = Literal["number", "string", "bits", "parameter"]

_STRINGS = frozenset(kind for kind in TokenType if kind.name.endswith("STRING"))
_BITS = frozenset({TokenType.BIT_STRING, TokenType.HEX_STRING})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_CLOSERS = _NAMES | {TokenType.R_PAREN, TokenType.R_BRACKET}
_BEFORE_WITH = frozenset({TokenType.WITH, TokenType.COMMA, TokenType.RECURSIVE})
_HOLDERS = (exp.Literal, exp.JSONPathKey, exp.JSONPathSubscript, exp.Var, exp.National)
_WORD = "pbmark"
_FOUND = re.compile(rf"{_WORD}([a-j]+)", re.IGNORECASE)
# Letters for digits: a text like ``5 x`` would be taken for an interval.
_LETTERS = str.maketrans("0123456789", "abcdefghij")
_DIGITS = str.maketrans("abcdefghij", "0123456789")
# Subscripts are shifted by one in the tree, so numbers stand far apart.
_BASE, _STEP = 7_700_000_000, 16
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_BIT_DIGITS = re.compile(r"[01]+\Z")
# Four digits are a date or a number of somebody, whatever stands between them.
_TELLING = re.compile(r"(?:\d\D*){4}")
# What pg_stat_statements writes for a list of constants since PostgreSQL 18.
_LIST = re.compile(r"\s*/\*, \.\.\. \*/")


@dataclass(frozen=True, slots=True)
class Mark:
    """One literal or parameter.

    Attributes:
        number: Its place among the marks.
        kind: How it was written.
        original: Its value; empty for a parameter. It goes nowhere but into allow-lists and
            lengths of patterns.
        many: Whether it stands for a list of constants of unknown length.
    """

    number: int
    kind: Kind
    original: str
    many: bool = False

    @property
    def text(self) -> str:
        """What stands for it in the marked text."""
        if self.kind == "number":
            return str(_BASE + _STEP * self.number)
        return f"'{_WORD}{str(self.number).translate(_LETTERS)}'"

    def written(self, value: str, *, bare: bool = False) -> str:
        """A new value as SQL, as the old one was written where that can be.

        Args:
            value: As PostgreSQL prints it.
            bare: Write a number without quotes though a parameter stood here.

        >>> Mark(0, "number", "5").written("-3"), Mark(0, "string", "5").written("a'b")
        ('(-3)', "'a''b'")
        """
        if (bare or self.kind == "number") and _NUMBER.match(value):
            return f"({value})" if value.startswith("-") else value
        if self.kind == "bits" and _BIT_DIGITS.match(value):
            return f"B'{value}'"
        return sql.Literal(value).as_string().strip()


@dataclass(frozen=True, slots=True)
class Marked:
    """A text and its marks, in order.

    Attributes:
        pieces: Text and marks.
        stayed: Names in it that neither the schema has nor a function or type.
    """

    pieces: tuple[str | Mark, ...]
    stayed: frozenset[str] = frozenset()

    @property
    def marks(self) -> list[Mark]:
        """The marks."""
        return [piece for piece in self.pieces if isinstance(piece, Mark)]

    def render(self, put: Callable[[Mark], str]) -> str:
        """The text with something in place of every mark."""
        return "".join(piece if isinstance(piece, str) else put(piece) for piece in self.pieces)

    @property
    def text(self) -> str:
        """The text that is parsed."""
        return self.render(lambda mark: mark.text)


def number_of(node: exp.Expr) -> int | None:
    """The number of the mark that a node of the tree holds, or None."""
    if not isinstance(node, _HOLDERS):
        return None
    value = str(node.args.get("this"))
    if found := _FOUND.fullmatch(value):
        return int(found[1].lower().translate(_DIGITS))
    if isinstance(node, (exp.Literal, exp.JSONPathSubscript)) and value.isdigit():
        place, off = divmod(int(value) - _BASE + 1, _STEP)
        return place if place >= 0 and off <= 2 else None
    return None


def mark(text: str, known: Collection[str], given: Collection[str] = ()) -> Marked:
    """Mark the literals of a statement.

    Names that the query gives itself, and others that do not look like names and may be made of
    data, are replaced by ``n1``, ``n2``, ….

    Args:
        text: One statement.
        known: Names of the schema, which stay whatever they look like.
        given: Names that the query gives itself, which do not stay.

    Raises:
        UsageError: The text holds a string, name or comment without an end.
    """
    found = _tokens(text)
    pieces: list[str | Mark] = []
    renamed: dict[str, str] = {}
    stayed: set[str] = set()
    end = at = 0
    while at < len(found) and found[at].token_type is not TokenType.SEMICOLON:
        stop, kind = _literal(text, found, at)
        pieces.append(_gap(text[end : found[at].start], first=at == 0))
        end = found[stop - 1].end + 1
        if kind is None:
            written = text[found[at].start : end]
            name = _renamed(found, at, written, known, given, renamed)
            if name is None and _is_free(found, at, known):
                stayed.add(_folded(found[at]))
            pieces.append(name or written)
        else:
            number = sum(isinstance(piece, Mark) for piece in pieces)
            value = _value(text, found[at:stop], kind)
            many = kind == "parameter" and _LIST.match(text, end) is not None
            pieces.append(Mark(number, kind, value, many))
        at = stop
    return Marked(tuple(piece for piece in pieces if piece), frozenset(stayed))


def _tokens(text: str) -> list[Token]:
    try:
        return list(Postgres().tokenize(text))
    except SqlglotError as error:
        raise UsageError("the SQL text holds a string, name or comment without an end.") from error


def _literal(text: str, found: Sequence[Token], at: int) -> tuple[int, Kind | None]:
    """Where the literal that begins at a token ends, and its kind; None where there is none."""
    token = found[at]
    kind = token.token_type
    if kind is TokenType.PARAMETER and _touches(found, at) and _is_number(found, at + 1):
        return at + 2, "parameter"
    fraction = kind is TokenType.DOT and _touches(found, at) and _is_number(found, at + 1)
    if fraction and (at == 0 or found[at - 1].token_type not in _CLOSERS):
        return _number_end(found, at + 2), "number"
    if kind is TokenType.NUMBER:
        return _number_end(found, at + 1), "number"
    if kind in _BITS and text[token.start] != "0":
        return at + 1, "bits"
    if kind in _BITS:
        return at + 1, "number"
    if kind in _STRINGS:
        stop = at + 1
        # Strings on lines of their own are parts of one.
        while stop < len(found) and found[stop].token_type is TokenType.STRING:
            stop += 1
        return stop, "string"
    return at + 1, None


def _number_end(found: Sequence[Token], stop: int) -> int:
    """Behind what is written onto a number: ``_000`` of ``1_000``."""
    while (
        stop < len(found)
        and _touches(found, stop - 1)
        and found[stop].token_type in (TokenType.VAR, TokenType.NUMBER)
    ):
        stop += 1
    return stop


def _touches(found: Sequence[Token], at: int) -> bool:
    return at + 1 < len(found) and found[at].end + 1 == found[at + 1].start


def _is_number(found: Sequence[Token], at: int) -> bool:
    return found[at].token_type is TokenType.NUMBER


def _value(text: str, parts: Sequence[Token], kind: Kind) -> str:
    if kind == "parameter":
        return ""
    if kind == "number":
        return text[parts[0].start : parts[-1].end + 1]
    return "".join(part.text for part in parts)


def _gap(gap: str, *, first: bool) -> str:
    """White space as it is, comments as a space."""
    if not gap.strip():
        return "" if first else gap
    return "" if first else "\n" if "\n" in gap else " "


def _renamed(
    found: Sequence[Token],
    at: int,
    written: str,
    known: Collection[str],
    given: Collection[str],
    renamed: dict[str, str],
) -> str | None:
    """What a name is called instead; None where it stays."""
    token = found[at]
    name = _folded(token)
    if name in given and not _is_call(found, at):
        return renamed.setdefault(name, _fresh(renamed, known))
    if token.token_type not in _NAMES or token.text in known:
        return None
    collation = at > 0 and found[at - 1].token_type is TokenType.COLLATE
    if collation or (_PLAIN.match(token.text) and not _TELLING.search(token.text)):
        return None
    return renamed.setdefault(name, _fresh(renamed, known))


def _folded(token: Token) -> str:
    """A name as PostgreSQL folds it."""
    return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()


def _is_free(found: Sequence[Token], at: int, known: Collection[str]) -> bool:
    """Whether a name may be anybody's: neither of the schema, nor of a function, type or collation.

    After a dot too: a field of a record that the query has named.
    """
    if found[at].token_type not in _NAMES or _folded(found[at]) in known:
        return False
    typed = at > 0 and found[at - 1].token_type in (TokenType.DCOLON, TokenType.COLLATE)
    return not typed and not _is_call(found, at)


def _fresh(renamed: dict[str, str], known: Collection[str]) -> str:
    """The next name that the schema does not have."""
    return next(n for i in count(len(renamed) + 1) if (n := f"n{i}") not in known)


def _is_call(found: Sequence[Token], at: int) -> bool:
    """Whether a name is that of a function: before a parenthesis, and not one that is given there.

    A name is given in ``WITH name (columns)`` and ``AS name (columns)``.
    """
    if at + 1 == len(found) or found[at + 1].token_type is not TokenType.L_PAREN:
        return False
    depth = 0
    for place in range(at + 1, len(found)):
        depth += (found[place].token_type is TokenType.L_PAREN) - (
            found[place].token_type is TokenType.R_PAREN
        )
        if depth == 0:
            after = found[place + 1].token_type if place + 1 < len(found) else None
            before = found[at - 1].token_type if at else None
            with_query = after is TokenType.ALIAS and before in _BEFORE_WITH
            return not with_query and before not in (TokenType.ALIAS, *_CLOSERS)
    return True
