"""The lexical elements of PostgreSQL text, fast enough for logs of many gigabytes.

Only used to tell which statements are one and the same, and to put parameters into them. What may
be published goes through the tokenizer of sqlglot instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from psycopg import sql

_ELEMENT = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
    |(?P<string>[eE]'(?:[^'\\]|\\.|'')*'
        |(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*'
        |(?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag))
    |(?P<name>"(?:[^"]|"")*")
    |(?P<parameter>\$\d+)
    |(?P<number>(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<space>\s+)
    |(?P<word>[^\W\d][\w$]*)
    """,
    re.VERBOSE | re.DOTALL,
)
_AROUND = re.compile(r" ?([^\w\s?\"]) ?")
# Most texts hold nothing that needs more than this.
_SPECIAL = re.compile(r"""--|/\*|["\\]|\$[^\d]|[bnux&]'""", re.IGNORECASE)
_CONSTANT = re.compile(
    r"[eE]?'(?:[^']|'')*'|(?<![\w$])(?:\$\d+|(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
)
_BLANKS = frozenset({"comment", "space"})
_CONSTANTS = frozenset({"string", "tag", "parameter", "number"})


@lru_cache(maxsize=1024)
def normalised(text: str) -> str:
    r"""The text with every constant and parameter as ``?``, without comments, case and layout.

    >>> normalised("SELECT a -- 'x'\n FROM T WHERE b = 'it''s' AND c<$1 LIMIT 5;")
    'select a from t where b=? and c<? limit ?'
    """
    short = not _SPECIAL.search(text)
    plain = _CONSTANT.sub("?", text).lower() if short else _ELEMENT.sub(_plain, text)
    words = " ".join(plain.split())
    return _AROUND.sub(r"\1", words).rstrip("; ")


def _plain(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind in _BLANKS:
        return " "
    if kind in _CONSTANTS:
        return "?"
    return found[0].lower() if kind == "word" else found[0]


def bound(text: str, parameters: Sequence[str | None]) -> str:
    """The text with its parameters in place, as literals without a type.

    A parameter for which there is no value stays as it is.

    >>> bound("SELECT '$1' FROM t WHERE a = $1 AND b = $2", ["it's", None])
    "SELECT '$1' FROM t WHERE a = 'it''s' AND b = NULL"
    """
    if not parameters:
        return text

    def value(found: re.Match[str]) -> str:
        number = int(found[0][1:]) if found.lastgroup == "parameter" else 0
        if not 0 < number <= len(parameters):
            return found[0]
        return sql.Literal(parameters[number - 1]).as_string()

    return _ELEMENT.sub(value, text)
