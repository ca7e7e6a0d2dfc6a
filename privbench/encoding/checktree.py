"""Reading the syntax tree of a CHECK: its parts, and the columns and literals in them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError


@lru_cache(maxsize=4096)
def conjuncts(expression: str) -> tuple[exp.Expr, ...]:
    """The conjuncts of an expression; none where sqlglot cannot read it."""
    text = expression.strip()
    if text.upper().startswith("CHECK"):
        text = text[5:].strip()
    text = text.removesuffix("NOT VALID").strip()
    try:
        return tuple(_split(sqlglot.parse_one(text, read="postgres")))
    except (SqlglotError, RecursionError):
        return ()


def _split(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _split(tree.left)
        yield from _split(tree.right)
    else:
        yield tree


def is_null(tree: exp.Expr) -> bool:
    """Whether it is ``x IS NULL``."""
    plain = isinstance(tree, exp.Is) and not tree.args.get("negate")
    return plain and isinstance(tree.expression, exp.Null)


def is_not_null(tree: exp.Expr) -> bool:
    """Whether it is ``x IS NOT NULL``."""
    # sqlglot writes it Not(Is) or Is(negate), depending on its version.
    if isinstance(tree, exp.Not):
        return is_null(tree.this.unnest())
    negated = isinstance(tree, exp.Is) and bool(tree.args.get("negate"))
    return negated and isinstance(tree.expression, exp.Null)


def not_null_part(tree: exp.Expr) -> exp.Expr:
    """``x`` of ``y IS NULL OR x``."""
    if isinstance(tree, exp.Or):
        left, right = tree.left.unnest(), tree.right.unnest()
        return right if is_null(left) else left if is_null(right) else tree
    return tree


def bare(tree: exp.Expr) -> exp.Expr:
    """Without parentheses and casts."""
    while isinstance(tree, (exp.Paren, exp.Cast)):
        tree = tree.this
    return tree


def untrimmed(tree: exp.Expr) -> exp.Expr:
    """What is trimmed, where something is: made-up texts have no spaces at their ends."""
    tree = bare(tree)
    return bare(tree.this) if isinstance(tree, exp.Trim) else tree


def column_of(tree: exp.Expr) -> str | None:
    """The name of a column of the table itself, or None."""
    tree = bare(tree)
    return tree.name if isinstance(tree, exp.Column) and not tree.table else None


def text_of(tree: exp.Expr) -> str | None:
    """The text of a literal, or None."""
    tree = bare(tree)
    if isinstance(tree, exp.Neg):
        inner = text_of(tree.this)
        return None if inner is None else f"-{inner}"
    if isinstance(tree, exp.Boolean):
        return str(tree.this).lower()
    return str(tree.this) if isinstance(tree, exp.Literal) else None


def texts_of(trees: list[exp.Expr]) -> tuple[str, ...] | None:
    """The texts of literals, or None if one of them is none."""
    values = [text_of(tree) for tree in trees]
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def array_of(tree: exp.Expr) -> tuple[str, ...] | None:
    """The elements of an array of literals, or None."""
    tree = bare(tree)
    if isinstance(tree, exp.Array):
        return texts_of(tree.expressions)
    if isinstance(tree, exp.Literal) and str(tree.this).startswith("{"):
        return _array_literal(str(tree.this))
    return None


def _array_literal(text: str) -> tuple[str, ...] | None:
    inner = text[1:-1]
    if any(mark in inner for mark in '"{}\\'):
        return None
    return tuple(part.strip() for part in inner.split(",")) if inner else None
