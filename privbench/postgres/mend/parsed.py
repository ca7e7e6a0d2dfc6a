"""Expressions of the catalog as trees."""

from __future__ import annotations

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError


def parsed(text: str) -> exp.Expr | None:
    """The tree of an expression as the catalog prints it; None where it cannot be read.

    >>> parsed("(a = 1)").sql(), parsed("(a = ")
    ('(a = 1)', None)
    """
    try:
        return sqlglot.parse_one(text, read="postgres")
    except (SqlglotError, RecursionError):
        return None
