r"""Values of pgbench's variables, from the expressions of its ``\set`` lines.

Whole-number and floating arithmetic, earlier variables, ``random``, ``abs``, ``greatest`` and
``least``; everything else of pgbench's is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from privbench.errors import UsageError
from privbench.rng import generator

#: pgbench's variable for ``-s``; 1 unless a script sets it.
SCALE = "scale"

Number = int | float

_BINARY: dict[type[exp.Expression], Callable[[Number, Number], Number]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: _divided(a, b),
    exp.Mod: lambda a, b: math.trunc(math.fmod(a, b)),
}


def draw(expression: str, values: Mapping[str, str], *labels: str) -> str:
    """The value of an expression.

    Args:
        expression: As it stands after the variable's name.
        values: Of the variables that are set before it.
        labels: What the value is for: the same labels give the same value.

    Returns:
        A number as SQL.

    Raises:
        UsageError: The expression is beyond what is understood here.

    >>> draw("10 * :scale + 1", {"scale": "3"})
    '31'
    >>> 1 <= int(draw("random(1, 6)", {}, "q1", "x")) <= 6
    True
    """
    try:
        value = _value(_tree(expression), values, generator(0, "pgbench", *labels))
    except (SqlglotError, ArithmeticError, ValueError, KeyError):
        raise UsageError(
            f"the variable drawn by {expression!r} cannot be drawn here.",
            remedy="Numbers, + - * / %, variables set before, random, abs, greatest and least are.",
        ) from None
    return str(value)


def _tree(expression: str) -> exp.Expression:
    tree = sqlglot.parse_one(expression, dialect="postgres")
    if not isinstance(tree, exp.Expression):
        raise ValueError
    return tree


def _value(node: exp.Expression, values: Mapping[str, str], rng: np.random.Generator) -> Number:
    if isinstance(node, exp.Paren):
        return _value(node.this, values, rng)
    if isinstance(node, exp.Literal) and not node.is_string:
        return _number(node.name)
    if isinstance(node, exp.Placeholder):
        return _number(values[node.name])
    if isinstance(node, exp.Neg):
        return -_value(node.this, values, rng)
    if type(node) in _BINARY:
        left, right = (_value(side, values, rng) for side in (node.this, node.expression))
        return _BINARY[type(node)](left, right)
    name, parts = _call(node)
    return _called(name, [_value(part, values, rng) for part in parts], rng)


def _call(node: exp.Expression) -> tuple[str, list[exp.Expression]]:
    if isinstance(node, exp.Anonymous):
        return node.name.lower(), list(node.expressions)
    if isinstance(node, exp.Func):
        parts = [part for part in node.args.values() if isinstance(part, exp.Expression)]
        return node.sql_name().lower(), [*parts, *node.expressions]
    raise ValueError


def _called(name: str, values: list[Number], rng: np.random.Generator) -> Number:
    if name in ("random", "rand") and len(values) == 2:
        low, high = (math.trunc(value) for value in values)
        return int(rng.integers(low, high, endpoint=True))
    if name == "abs" and len(values) == 1:
        return abs(values[0])
    if name in ("greatest", "least") and values:
        return max(values) if name == "greatest" else min(values)
    raise ValueError


def _divided(left: Number, right: Number) -> Number:
    """As pgbench divides: whole numbers towards zero."""
    if isinstance(left, int) and isinstance(right, int):
        return math.trunc(left / right)
    return left / right


def _number(text: str) -> Number:
    try:
        return int(text)
    except ValueError:
        return float(text)
