"""Replace every literal of a query's text by a mark before anything else looks at the text.

The result is the text around the marks, without comments, with new literals in their places. So an
old literal can survive only where it is put back on purpose. PostgreSQL's own scanner determines
what is a literal.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from psycopg import sql
from sqlglot import exp
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError

from privbench.pgsql import SqlError, Token, tokens

_KINDS: dict[str, Literal['number', 'string', 'bits', 'parameter']] = {
    "SCONST": "string", "USCONST": "string", "ICONST": "number", "FCONST": "number",
    "BCONST": "bits", "XCONST": "bits", "PARAM": "parameter",
}  # fmt: skip
_SEMICOLON, _PARENTHESIS = "ASCII_59", "ASCII_40"
_WORD = "pbmark"
_FOUND = re.compile(rf"{_WORD}([a-j]+)", re.IGNORECASE)
# Placeholders of strings have letters for digits: a text like ``5 x`` would be read as an interval.
_LETTERS = str.maketrans("0123456789", "abcdefghij")
_DIGITS = str.maketrans("abcdefghij", "0123456789")
# Placeholders of numbers. They differ by more than 1, since sqlglot shifts subscripts by one, and
# are below 2**31, since the length of a type has to be a 32-bit integer.
_BASE, _STEP = 1_700_000_000, 16
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_BIT_DIGITS = re.compile(r"[01]+\Z")
# Four digits in a name, whatever is between them, may be a date or a number of a person.
_TELLING = re.compile(r"(?:\d\D*){4}")
# The comment that pg_stat_statements writes for a list of constants since PostgreSQL 18.
_LIST = re.compile(r"\s*/\*, \.\.\. \*/")


@dataclass(frozen=True, slots=True)
class LiteralMark:
    """A placeholder that stands for one literal or parameter of a query's text."""

    number: int  # its place among the marks
    kind: Literal["number", "string", "bits", "parameter"]  # how it was written
    # Its old value; empty for a parameter. It is used only to look it up in allow-lists and for
    # the lengths of patterns.
    original: str
    many: bool = False  # whether it stands for a list of constants of unknown length

    @property
    def text(self) -> str:
        """The placeholder in the marked text."""
        if self.kind == "number":
            return str(_BASE + _STEP * self.number)
        return f"'{_WORD}{str(self.number).translate(_LETTERS)}'"

    def written(self, value: str, *, bare: bool = False) -> str:
        """Return a value that PostgreSQL printed as an SQL literal, of the old kind if possible.

        With ``bare`` a number in the place of a parameter is written without quotes.

        >>> LiteralMark(0, "number", "5").written("-3")
        '(-3)'
        >>> LiteralMark(0, "string", "5").written("a'b")
        "'a''b'"
        """
        if (bare or self.kind == "number") and _NUMBER.match(value):
            return f"({value})" if value.startswith("-") else value
        if self.kind == "bits" and _BIT_DIGITS.match(value):
            return f"B'{value}'"
        return sql.Literal(value).as_string().strip()


@dataclass(frozen=True, slots=True)
class Marked:
    """A query text whose literals are replaced by placeholders, with the placeholders in order."""

    pieces: tuple[str | LiteralMark, ...]  # text and marks
    # Names left in the text that belong neither to the schema nor to a function or type.
    stayed: frozenset[str] = frozenset()

    @property
    def marks(self) -> list[LiteralMark]:
        """The placeholders of the text."""
        return [piece for piece in self.pieces if isinstance(piece, LiteralMark)]

    def render(self, put: Callable[[LiteralMark], str]) -> str:
        """Return the text with something else in place of every placeholder."""
        return "".join(piece if isinstance(piece, str) else put(piece) for piece in self.pieces)

    @property
    def text(self) -> str:
        """The text with placeholders, which is parsed."""
        return self.render(lambda mark: mark.text)


def mark_of(node: exp.Expr | None, marks: Sequence[LiteralMark]) -> LiteralMark | None:
    """Return the placeholder that a node of the tree holds, or None."""
    if not isinstance(node, (exp.Literal, exp.Var)):
        return None
    value, number = str(node.args.get("this")), -1
    if match := _FOUND.fullmatch(value):
        number = int(match[1].lower().translate(_DIGITS))
    elif isinstance(node, exp.Literal) and value.isdigit():
        place, off = divmod(int(value) - _BASE + 1, _STEP)
        number = place if off <= 2 else -1
    return marks[number] if 0 <= number < len(marks) else None


def mark(
    text: str, known: Collection[str], defined: Collection[str] = (), called: Collection[str] = ()
) -> Marked:
    """Mark the literals of a statement; raise a SqlError if it cannot be parsed.

    Two sorts of names are replaced by ``n1``, ``n2``, …: those that the query itself defines
    (``defined``), and those that do not look like names and may contain data. Names of the schema
    (``known``) always stay, and functions stay if they are ``called``.
    """
    words = tokens(text)
    if any(token.kind == "UIDENT" for token in words):
        raise SqlError("it holds a name in Unicode escapes.")
    pieces: list[str | LiteralMark] = []
    renamed: dict[str, str] = {}
    stayed: set[str] = set()
    end, marks = 0, count()
    for at, token in enumerate(words):
        if token.kind == _SEMICOLON:
            break
        pieces.append(_gap(text[end : token.start], first=at == 0))
        end = token.end
        kind = _KINDS.get(token.kind)
        before = words[at - 1].kind if at else ""
        after = words[at + 1].kind if at + 1 < len(words) else ""
        if kind is not None:
            many = kind == "parameter" and _LIST.match(text, end) is not None
            pieces.append(LiteralMark(next(marks), kind, _value(token, kind), many))
        elif token.kind == "NCHAR" and after == "SCONST":
            continue  # The N of N'text' is dropped.
        elif token.kind != "IDENT":
            pieces.append(token.text)  # Signs and key words of SQL reveal nothing.
        else:
            name = token.name
            call = name in called and after == _PARENTHESIS
            # Whether it looks like a name and not like data.
            plain = _PLAIN.match(name) and not _TELLING.search(name)
            odd = not (plain or name in known or before == "COLLATE")
            if not call and (name in defined or odd):
                fresh = (n for i in count(len(renamed) + 1) if (n := f"n{i}") not in known)
                pieces.append(renamed.setdefault(name, next(fresh)))
                continue
            pieces.append(token.text)
            if not (call or name in known or before in ("COLLATE", "TYPECAST")):
                stayed.add(name)
    return Marked(tuple(piece for piece in pieces if piece), frozenset(stayed))


def _value(token: Token, kind: Literal["number", "string", "bits", "parameter"]) -> str:
    """The value of a literal; a string that is continued on further lines is joined."""
    if kind == "string":
        try:
            return "".join(part.text for part in Postgres().tokenize(token.text))
        except SqlglotError as error:
            raise SqlError("it holds a string that cannot be read.") from error
    return {"parameter": "", "bits": token.text[2:-1]}.get(kind, token.text)


def _gap(gap: str, *, first: bool) -> str:
    """The text between two tokens: white space is kept, comments become a space."""
    if first or not gap.strip():
        return "" if first else gap
    return "\n" if "\n" in gap else " "
