"""Split SQL text into statements without touching it.

sqlglot's tokenizer finds the semicolons, so those inside strings, dollar quotes, quoted names and
comments do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import Token, TokenType
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError

from privbench.errors import UsageError


def tokens(text: str) -> list[Token]:
    """The tokens of PostgreSQL text.

    Raises:
        UsageError: A string, quoted name or comment does not end.
    """
    try:
        return list(Postgres().tokenize(text))
    except SqlglotError as error:
        raise UsageError("the SQL text holds a string, name or comment without an end.") from error


def statements(text: str) -> list[str]:
    r"""The statements of a text, each as it stands there, comments included.

    Args:
        text: Any number of statements separated by semicolons.

    Returns:
        Each statement without its semicolon and without white space around it; empty ones and ones
        of comments alone are left out.

    Raises:
        UsageError: A string, quoted name or comment does not end.

    >>> statements("SELECT ';'; -- one; two\nSELECT $$;$$;;")
    ["SELECT ';'", '-- one; two\nSELECT $$;$$']
    """
    return list(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    start, seen = 0, False
    for token in tokens(text):
        if token.token_type is not TokenType.SEMICOLON:
            seen = True
            continue
        if seen:
            yield text[start : token.start].strip()
        start, seen = token.end + 1, False
    if seen:
        yield text[start:].strip()
