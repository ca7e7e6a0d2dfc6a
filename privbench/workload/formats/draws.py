r"""Values of pgbench's variables, from the expressions of its ``\set`` lines.

Whole-number and floating arithmetic, earlier variables, ``random``, ``abs``, ``greatest`` and
``least``; everything else of pgbench's is refused. What is left is written alike in Python, whose
parser reads it.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

import numpy as np

from privbench.errors import UsageError
from privbench.rng import generator

#: pgbench's variable for ``-s``; 1 unless a script sets it.
SCALE = "scale"

Number = int | float

_VARIABLE = re.compile(r":([A-Za-z_]\w*)")
_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    # Whole numbers towards zero, as pgbench divides.
    ast.Div: lambda a, b: math.trunc(a / b) if isinstance(a, int) and isinstance(b, int) else a / b,
    ast.Mod: lambda a, b: math.trunc(math.fmod(a, b)),
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
    rng = generator(0, "pgbench", *labels)
    try:
        bound = _VARIABLE.sub(lambda found: f"({values[found[1]]})", expression)
        return str(_value(ast.parse(bound.strip(), mode="eval").body, rng))
    except (SyntaxError, ArithmeticError, ValueError, KeyError, RecursionError):
        raise UsageError(
            f"the variable drawn by {expression!r} cannot be drawn here.",
            remedy="Numbers, + - * / %, variables set before, random, abs, greatest and least are.",
        ) from None


def _value(node: ast.expr, rng: np.random.Generator) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand, rng)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, rng), _value(node.right, rng))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id.lower(), [_value(part, rng) for part in node.args], rng)
    raise ValueError


def _called(name: str, values: list[Number], rng: np.random.Generator) -> Number:
    if name == "random" and len(values) == 2:
        low, high = (math.trunc(value) for value in values)
        return int(rng.integers(low, high, endpoint=True))
    if name == "abs" and len(values) == 1:
        return abs(values[0])
    if name in ("greatest", "least") and values:
        return max(values) if name == "greatest" else min(values)
    raise ValueError
