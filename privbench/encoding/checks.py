"""Limits of columns in CHECKs: bounds, lists, lengths, patterns, and orders of two columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import expressions as exp

from privbench.pgsql.expressions import bare, expression_tree
from privbench.schema import Check, Column, Table


@lru_cache(maxsize=4096)
def conjuncts(expression: str) -> tuple[exp.Expr, ...]:
    """The conjuncts of an expression; none where sqlglot cannot read it."""
    text = expression.strip()
    if text.upper().startswith("CHECK"):
        text = text[5:].strip()
    text = text.removesuffix("NOT VALID").strip()
    tree = expression_tree(text)
    try:
        return () if tree is None else tuple(_split(tree))
    except RecursionError:
        return ()


def _split(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _split(tree.left)
        yield from _split(tree.right)
    else:
        yield tree


def is_null(tree: exp.Expr) -> bool:
    """Whether an expression is ``x IS NULL``."""
    plain = isinstance(tree, exp.Is) and not tree.args.get("negate")
    return plain and isinstance(tree.expression, exp.Null)


def is_not_null(tree: exp.Expr) -> bool:
    """Whether an expression is ``x IS NOT NULL``."""
    # sqlglot writes it Not(Is) or Is(negate), depending on its version.
    if isinstance(tree, exp.Not):
        return is_null(tree.this.unnest())
    negated = isinstance(tree, exp.Is) and bool(tree.args.get("negate"))
    return negated and isinstance(tree.expression, exp.Null)


def not_null_part(tree: exp.Expr) -> exp.Expr:
    """The part ``x`` of ``y IS NULL OR x``; any other expression as it is."""
    if isinstance(tree, exp.Or):
        left, right = tree.left.unnest(), tree.right.unnest()
        return right if is_null(left) else left if is_null(right) else tree
    return tree


def untrimmed(tree: exp.Expr) -> exp.Expr:
    """The argument of trim(): generated texts have no spaces at their ends."""
    tree = bare(tree)
    return bare(tree.this) if isinstance(tree, exp.Trim) else tree


def column_of(tree: exp.Expr) -> str | None:
    """The name of the column that an expression is, without a table's name; else None."""
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
    """The texts of literals, or None if one of the expressions is no literal."""
    values = [text_of(tree) for tree in trees]
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def array_of(tree: exp.Expr) -> tuple[str, ...] | None:
    """The elements of an array of literals, or None."""
    tree = bare(tree)
    if isinstance(tree, exp.Array):
        return texts_of(tree.expressions)
    text = str(tree.this) if isinstance(tree, exp.Literal) else ""
    plain = text.startswith("{") and not any(mark in text[1:-1] for mark in '"{}\\')
    return tuple(part.strip() for part in text[1:-1].split(",")) if plain and text[1:-1] else None


@dataclass(frozen=True, slots=True)
class Order:
    """A CHECK that one column is not greater than another."""

    low: str  # the column with the smaller value
    high: str  # the column with the greater value
    strict: bool  # whether they may not be equal


def column_orders(table: Table) -> tuple[Order, ...]:
    """Comparisons between two columns of the table, each a conjunct of a CHECK."""
    found = [order_of(part) for check in table.checks for part in conjuncts(check.expression)]
    return tuple(order for order in found if order is not None)


def column_differences(table: Table) -> tuple[tuple[str, str], ...]:
    """Pairs of columns that must differ, each a conjunct of a CHECK."""
    parts = [part for check in table.checks for part in conjuncts(check.expression)]
    pairs = [(column_of(p.left), column_of(p.right)) for p in parts if isinstance(p, exp.NEQ)]
    return tuple((left, right) for left, right in pairs if left and right and left != right)


def order_of(tree: exp.Expr) -> Order | None:
    """The order that one conjunct demands, or None."""
    if isinstance(tree, exp.Or):
        part = not_null_part(tree)
        return None if part is tree else order_of(part)
    if not isinstance(tree, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return None
    left, right = column_of(tree.left), column_of(tree.right)
    if left is None or right is None or left == right:
        return None
    strict = isinstance(tree, (exp.GT, exp.LT))
    if isinstance(tree, (exp.GT, exp.GTE)):
        left, right = right, left
    return Order(left, right, strict)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that CHECK constraints set for one column.

    Several constraints on one column are kept one after another, since literals can only be
    compared by the family that owns the type.
    """

    low: str | None = None  # lower bound as a literal
    low_open: bool = False  # whether the bound itself is excluded
    high: str | None = None  # upper bound as a literal
    high_open: bool = False  # whether the bound itself is excluded
    values: tuple[str, ...] | None = None  # allowed values as literals, or None
    min_length: int = 0  # least length of a text
    max_length: int | None = None  # greatest length of a text


#: A column's name, and the limits that a CHECK sets for it.
_Fact = tuple[str, Limits]


def column_limits(table: Table, column: Column) -> tuple[Limits, ...]:
    """The limits that CHECKs of the table and of the column's domain set for a single column.

    >>> from privbench.schema import ColumnType, TableName
    >>> age = Column("age", 1, ColumnType("integer", "int4"))
    >>> adults = Table(TableName("public", "t"), (age,), checks=(Check("c", "(age >= 18)"),))
    >>> column_limits(adults, age)[0].low
    '18'
    """
    found: list[Limits] = []
    for check in table.checks:
        facts, _ = _facts(check.expression)
        found += [limits for name, limits in facts if name == column.name]
    for expression in column.type.domain_checks:
        facts, _ = _facts(expression)
        found += [limits for name, limits in facts if name.upper() == "VALUE"]
    return tuple(found)


def unread_checks(table: Table) -> tuple[Check, ...]:
    """CHECK constraints of a table and its domains of which some part is not understood.

    Rows made for such a table may break the constraint.
    """
    left = [check for check in table.checks if not _facts(check.expression)[1]]
    for column in table.columns:
        for expression in column.type.domain_checks:
            if not _facts(expression)[1]:
                name = str(column.type.domain or column.type.sql)
                left.append(Check(name, expression, (column.name,)))
    return tuple(left)


@lru_cache(maxsize=4096)
def _facts(expression: str) -> tuple[tuple[_Fact, ...], bool]:
    """The facts that an expression states; and whether facts and orders are all that it states."""
    parts = conjuncts(expression)
    facts: list[_Fact] = []
    whole = bool(parts)
    try:
        for part in parts:
            fact = _fact(part)
            if fact is None:
                whole = whole and (is_not_null(part) or order_of(part) is not None)
            else:
                facts.append(fact)
    except RecursionError:
        return (), False
    return tuple(facts), whole


def _fact(tree: exp.Expr) -> _Fact | None:
    if isinstance(tree, exp.Or):
        return _or_fact(tree)
    if isinstance(tree, (exp.Column, exp.Not)) and (
        name := column_of(tree.find(exp.Column) or tree)
    ):
        return _truth(tree, name)
    if isinstance(tree, exp.Between):
        name = column_of(tree.this)
        low, high = (text_of(tree.args[end]) for end in ("low", "high"))
        return (name, Limits(low=low, high=high)) if name and low and high else None
    if isinstance(tree, exp.In):
        name = column_of(tree.this)
        values = texts_of(tree.expressions)
        return (name, Limits(values=values)) if name and values else None
    if isinstance(tree, (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return _comparison(tree)
    if isinstance(tree, exp.NEQ) and text_of(tree.right) == "":
        name = column_of(untrimmed(tree.left))
        return (name, Limits(min_length=1)) if name else None
    return None


def _truth(tree: exp.Expr, name: str) -> _Fact | None:
    """The fact that ``flag`` or ``NOT flag`` states of a boolean column."""
    if column_of(tree) == name:
        return name, Limits(values=("true",))
    negated = isinstance(tree, exp.Not) and column_of(tree.this) == name
    return (name, Limits(values=("false",))) if negated else None


def _or_fact(tree: exp.Or) -> _Fact | None:
    """The fact that ``x IS NULL OR fact(x)`` states, or the list of ``x = 1 OR x = 2``."""
    left, right = tree.left.unnest(), tree.right.unnest()
    for null, other in ((left, right), (right, left)):
        if is_null(null):
            fact = _fact(other)
            return fact if fact and fact[0] == column_of(null.this) else None
    one, two = _fact(left), _fact(right)
    if one and two and one[0] == two[0] and one[1].values and two[1].values:
        return one[0], Limits(values=one[1].values + two[1].values)
    return None


_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip


def _comparison(tree: exp.Binary) -> _Fact | None:
    kind: type[exp.Expr] = type(tree)
    left, right = tree.left.unnest(), tree.right.unnest()
    if text_of(left) is not None:
        left, right, kind = right, left, _MIRROR[kind]
    if isinstance(bare(left), exp.Length):
        return _length(bare(left), kind, text_of(right))
    name = column_of(left)
    if name is None:
        return None
    if kind is exp.EQ and isinstance(right, exp.Any):
        values = array_of(right.this)
        return (name, Limits(values=values)) if values else None
    value = text_of(right)
    return None if value is None else (name, _bound(kind, value))


def _bound(kind: type[exp.Expr], value: str) -> Limits:
    if kind is exp.EQ:
        return Limits(values=(value,))
    if kind in (exp.GT, exp.GTE):
        return Limits(low=value, low_open=kind is exp.GT)
    return Limits(high=value, high_open=kind is exp.LT)


def _length(tree: exp.Expr, kind: type[exp.Expr], value: str | None) -> _Fact | None:
    plain = untrimmed(tree.this)
    name = column_of(plain)
    if name is None or value is None or not re.fullmatch("[0-9]{1,18}", value):
        return None
    number = int(value)
    if plain is not bare(tree.this) and kind not in (exp.GT, exp.GTE):
        return None
    if kind is exp.EQ:
        return name, Limits(min_length=number, max_length=number)
    if kind in (exp.GT, exp.GTE):
        return name, Limits(min_length=number + (kind is exp.GT))
    return name, Limits(max_length=number - (kind is exp.LT))


def length_limits(limits: tuple[Limits, ...], declared: int | None) -> tuple[int, int | None]:
    """The least and greatest length of a text by its CHECKs and its declared length."""
    tops = [item.max_length for item in limits if item.max_length is not None]
    if declared is not None:
        tops.append(declared)
    return max((item.min_length for item in limits), default=0), min(tops, default=None)


def allowed(limits: tuple[Limits, ...]) -> tuple[str, ...] | None:
    """The values that every list allows, in the first list's order; None without a list."""
    lists = [item.values for item in limits if item.values is not None]
    if not lists:
        return None
    kept = [value for value in lists[0] if all(value in other for other in lists[1:])]
    return tuple(dict.fromkeys(kept))


#: Characters that are special in a regular expression and stand for themselves in LIKE.
_SPECIAL = ".^$*+?()[]{}|\\"


def pattern_of(expression: str, column: str, *, alone: bool = False) -> tuple[str, bool] | None:
    """The regular expression that a CHECK demands (``~``, LIKE), and whether case does not count.

    The column is ``VALUE`` in the CHECK of a domain. With ``alone`` the result is None if the CHECK
    demands anything else besides.
    """
    parts = conjuncts(expression)
    if alone and len(parts) != 1:
        return None
    for part in parts:
        tree = not_null_part(part)
        if isinstance(tree, (exp.RegexpLike, exp.RegexpILike, exp.Like, exp.ILike)):
            name, text = column_of(tree.this), _similar(tree.expression) or text_of(tree.expression)
            if text is not None and (name == column or (name or "").upper() == column == "VALUE"):
                like = isinstance(tree, (exp.Like, exp.ILike))
                fold = isinstance(tree, (exp.ILike, exp.RegexpILike))
                return _from_like(text) if like else text, fold
    return None


def case_of(expression: str, column: str) -> str | None:
    """The case, ``upper`` or ``lower``, that a CHECK demands of a whole column; else None."""
    for part in conjuncts(expression):
        tree = not_null_part(part)
        if not isinstance(tree, exp.EQ):
            continue
        for plain, cased in ((tree.left, tree.right), (tree.right, tree.left)):
            cased = bare(cased)
            if isinstance(cased, (exp.Upper, exp.Lower)):
                names = {column_of(plain), column_of(cased.this)}
                if names == {column} or (column == "VALUE" and names in ({"value"}, {"VALUE"})):
                    return "upper" if isinstance(cased, exp.Upper) else "lower"
    return None


def _similar(tree: exp.Expr) -> str | None:
    """The regular expression of ``SIMILAR TO``, which PostgreSQL keeps as a call; else None."""
    tree = bare(tree)
    named = isinstance(tree, exp.Anonymous) and str(tree.this).lower().endswith("similar_to_escape")
    text = text_of(tree.expressions[0]) if named and len(tree.expressions) == 1 else None
    if text is None:
        return None
    made, listed = "", False
    for letter in text:
        listed = letter == "[" or (listed and letter != "]")
        plain = {"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$"}
        made += letter if listed else plain.get(letter, letter)
    return f"^(?:{made})$"


def _from_like(text: str) -> str:
    """The regular expression of a LIKE pattern, in which a backslash escapes the next character."""
    made = ""
    for part in re.findall(r"\\?.", text, re.DOTALL):
        plain = f"\\{part[-1]}" if part[-1] in _SPECIAL else part[-1]
        made += {"%": ".*", "_": "."}.get(part, plain)
    return f"^{made}$"
