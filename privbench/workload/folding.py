"""Which functions of an expression the planner never computes: those of columns.

The planner reads the expressions of indexes, CHECKs, partition keys and statistics of every table
that a query reads, and computes what of them is constant.
"""

from __future__ import annotations

from collections import defaultdict

from privbench.pgsql import Node, SqlError, names, statement
from privbench.pgsql.judge import Name, plain


def late(text: str, *, condition: bool) -> frozenset[Name]:
    """Functions that have a column among their arguments wherever they are called.

    Args:
        text: An expression.
        condition: Whether it is an index's. A scan may compute that again, on rows of which a query
            implies it without naming all of it: ``n > 0`` implies ``n > 0 OR f(n)``.
    """
    found: dict[Name, bool] = defaultdict(lambda: True)
    try:
        nodes = list(statement(f"SELECT {text}").tree.walk())
    except SqlError:
        return frozenset()
    if condition and any(_chooses(node) for node in nodes):
        return frozenset()
    for node in nodes:
        if node.kind == "FuncCall":
            found[node.names("funcname")] &= any(_varies(arg) for arg in node.nodes("args"))
    return frozenset(name for name, always in found.items() if always)


def _chooses(node: Node) -> bool:
    """Whether a part of a condition may be enough for the whole."""
    if node.kind == "BoolExpr":
        return bool(node.get("boolop") != "AND_EXPR")
    return node.kind == "A_Expr" and node.get("kind") != "AEXPR_OP"


def _varies(node: Node) -> bool:
    """Whether no planner can take an expression for a constant.

    It is a column, or a listed function of one whose other arguments cannot be NULL: most
    functions of NULL are NULL.
    """
    while node.kind == "TypeCast":
        (node,) = node.nodes("arg")
    if node.kind == "FuncCall" and plain(node.names("funcname")) in names.functions():
        args = node.nodes("args")
        return any(map(_varies, args)) and all(_varies(arg) or _text(arg) for arg in args)
    return node.kind == "ColumnRef"


def _text(node: Node) -> bool:
    """Whether an argument is a constant other than NULL."""
    while node.kind == "TypeCast":
        (node,) = node.nodes("arg")
    return node.kind == "A_Const" and not node.get("isnull")
