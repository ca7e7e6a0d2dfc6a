"""What CHECK constraints say of two columns: which one is not greater, which ones differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import expressions as exp

from privbench.encoding.checktree import column_of, conjuncts, is_null
from privbench.schema import Table


@dataclass(frozen=True, slots=True)
class Order:
    """A CHECK that one column is not greater than another.

    Attributes:
        low: The column with the smaller value.
        high: The column with the greater value.
        strict: Whether they may not be equal.
    """

    low: str
    high: str
    strict: bool


def column_orders(table: Table) -> tuple[Order, ...]:
    """Comparisons between two columns of the table, each a conjunct of a CHECK.

    >>> from privbench.schema import Check, TableName
    >>> column_orders(Table(TableName("public", "t"), (), checks=(Check("c", "(a < b)"),)))
    (Order(low='a', high='b', strict=True),)
    """
    found = [order_of(part) for check in table.checks for part in conjuncts(check.expression)]
    return tuple(order for order in found if order is not None)


def column_differences(table: Table) -> tuple[tuple[str, str], ...]:
    """Pairs of columns that must differ, each a conjunct of a CHECK.

    >>> from privbench.schema import Check, TableName
    >>> column_differences(Table(TableName("public", "t"), (), checks=(Check("c", "(a <> b)"),)))
    (('a', 'b'),)
    """
    parts = [part for check in table.checks for part in conjuncts(check.expression)]
    pairs = [(column_of(p.left), column_of(p.right)) for p in parts if isinstance(p, exp.NEQ)]
    return tuple((left, right) for left, right in pairs if left and right and left != right)


def conditional_orders(table: Table) -> tuple[tuple[str, str], ...]:
    """Pairs of columns of which a CHECK says under some condition that one is not the greater.

    >>> from privbench.schema import Check, TableName
    >>> text = "CASE state WHEN 'done' THEN (ended >= begun) ELSE (ended IS NULL) END"
    >>> conditional_orders(Table(TableName("public", "t"), (), checks=(Check("c", text),)))
    (('begun', 'ended'),)
    """
    parts = [part for check in table.checks for part in conjuncts(check.expression)]
    claims = [claim for part in parts if order_of(part) is None for claim in _claims(part)]
    return tuple(dict.fromkeys((order.low, order.high) for order in claims))


def _claims(tree: exp.Expr) -> Iterator[Order]:
    """Orders that a CHECK demands of some rows; nothing is known of what it rules out."""
    tree = tree.unnest()
    if isinstance(tree, (exp.And, exp.Or)):
        yield from _claims(tree.left)
        yield from _claims(tree.right)
    elif isinstance(tree, exp.Case):
        results = [branch.args["true"] for branch in tree.args["ifs"]]
        for result in (*results, tree.args.get("default")):
            if result is not None:
                yield from _claims(result)
    elif (order := order_of(tree)) is not None:
        yield order


def order_of(tree: exp.Expr) -> Order | None:
    """The order that one conjunct demands, or None."""
    if isinstance(tree, exp.Or):
        sides = [tree.left.unnest(), tree.right.unnest()]
        rest = [side for side in sides if not is_null(side)]
        return order_of(rest[0]) if len(rest) == 1 else None
    if not isinstance(tree, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return None
    left, right = column_of(tree.left), column_of(tree.right)
    if left is None or right is None or left == right:
        return None
    strict = isinstance(tree, (exp.GT, exp.LT))
    if isinstance(tree, (exp.GT, exp.GTE)):
        left, right = right, left
    return Order(left, right, strict)
