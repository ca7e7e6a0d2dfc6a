"""Syntax trees of a schema's expressions, where sqlglot can parse them in reasonable time."""

import sqlglot
from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser

#: How deep arrays and calls of types may be nested for sqlglot to read them; PostgreSQL's arrays
#: have at most as many dimensions.
MAX_ARRAYS = 6


def expression_tree(text: str) -> exp.Expr | None:
    """Return the tree of an expression; None if sqlglot cannot parse it in reasonable time.

    >>> expression_tree("a > 3").sql()
    'a > 3'
    >>> expression_tree("(("), expression_tree("int4(" * 9 + "a" + ")" * 9)
    (None, None)
    """
    try:
        return sqlglot.parse_one(text, read="postgres") if _is_soon_read(text) else None
    except (SqlglotError, RecursionError):
        return None


def bare(tree: exp.Expr) -> exp.Expr:
    """Return the expression without the parentheses and casts around it."""
    while isinstance(tree, (exp.Paren, exp.Cast)):
        tree = tree.this
    return tree


def _is_soon_read(text: str) -> bool:
    """Whether arrays and calls of possible type names are nested at most `MAX_ARRAYS` deep.

    Each level doubles sqlglot's time, since it tries both readings of ``int4(…)``.
    """
    open_ones: list[bool] = []
    before = TokenType.SPACE
    for token in sqlglot.tokenize(text, read="postgres"):
        kind = token.token_type
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
            open_ones.append(kind == TokenType.L_BRACKET or before in Parser.TYPE_TOKENS)
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET) and open_ones:
            open_ones.pop()
        if sum(open_ones) > MAX_ARRAYS:
            return False
        before = kind
    return True
