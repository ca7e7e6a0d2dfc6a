"""Public knowledge in CHECK constraints: bounds, lists and lengths of single columns.

Only simple constraints over one column are understood; whatever else a CHECK says is left to
`unread_checks`, which `check` shows with table and constraint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import expressions as exp

from privbench.encoding.checktree import (
    array_of,
    bare,
    column_of,
    conjuncts,
    is_not_null,
    is_null,
    not_null_part,
    text_of,
    texts_of,
    untrimmed,
)
from privbench.encoding.orders import order_of
from privbench.schema import Check, Column, Table


@dataclass(frozen=True, slots=True)
class Limits:
    """What CHECK constraints say of one column.

    Attributes:
        low: Lower bound as a literal.
        low_open: Whether the bound itself is excluded.
        high: Upper bound as a literal.
        high_open: Whether the bound itself is excluded.
        values: Allowed values as literals, or None.
        min_length: Least length of a text.
        max_length: Greatest length of a text.

    Several constraints on one column are kept one after another (`more`), since literals can only
    be compared by the family that owns the type.
    """

    low: str | None = None
    low_open: bool = False
    high: str | None = None
    high_open: bool = False
    values: tuple[str, ...] | None = None
    min_length: int = 0
    max_length: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None


@dataclass(frozen=True, slots=True)
class _Fact:
    column: str
    limits: Limits


def column_limits(table: Table, column: Column) -> tuple[Limits, ...]:
    """All that single-column CHECKs of the table and of the column's domain say of a column.

    >>> from privbench.schema import ColumnType, TableName
    >>> age = Column("age", 1, ColumnType("integer", "int4"))
    >>> adults = Table(TableName("public", "t"), (age,), checks=(Check("c", "(age >= 18)"),))
    >>> column_limits(adults, age)[0].low
    '18'
    """
    found: list[Limits] = []
    for check in table.checks:
        facts, _ = _facts(check.expression)
        found += [fact.limits for fact in facts if fact.column == column.name]
    for expression in column.type.domain_checks:
        facts, _ = _facts(expression)
        found += [fact.limits for fact in facts if fact.column.upper() == "VALUE"]
    return tuple(found)


def pattern_of(
    expression: str, column: str, *, alone: bool = False
) -> tuple[type[exp.Expr], str] | None:
    """The kind and text of a pattern (``~``, ``~*``, LIKE, ILIKE) that a CHECK demands of a column.

    Args:
        expression: The CHECK.
        column: The column's name, or ``VALUE`` in a domain.
        alone: Whether the CHECK may say nothing else.
    """
    parts = conjuncts(expression)
    if alone and len(parts) != 1:
        return None
    for part in parts:
        tree = not_null_part(part)
        if isinstance(tree, (exp.RegexpLike, exp.RegexpILike, exp.Like, exp.ILike)):
            name, text = column_of(tree.this), _similar(tree.expression) or text_of(tree.expression)
            if text is not None and (name == column or (name or "").upper() == column == "VALUE"):
                return type(tree), text
    return None


def case_of(expression: str, column: str) -> str | None:
    """The case, ``upper`` or ``lower``, that a CHECK demands of a whole column; else None.

    >>> case_of("((code)::text = upper((code)::text))", "code")
    'upper'
    """
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


def unread_checks(table: Table) -> tuple[Check, ...]:
    """CHECK constraints, domains' included, of which some part is not understood.

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
    """The facts in an expression, and whether they (and orders) are all that it says."""
    parts = conjuncts(expression)
    facts: list[_Fact] = []
    whole = bool(parts)
    for part in parts:
        fact = _fact(part)
        if fact is None:
            whole = whole and (is_not_null(part) or order_of(part) is not None)
        else:
            facts.append(fact)
    return tuple(facts), whole


def _fact(tree: exp.Expr) -> _Fact | None:
    if isinstance(tree, exp.Or):
        return _or_fact(tree)
    if isinstance(tree, (exp.Column, exp.Not)) and (
        name := column_of(tree.find(exp.Column) or tree)
    ):
        return _truth(tree, name)
    if isinstance(tree, exp.Between):
        name, low, high = (
            column_of(tree.this),
            text_of(tree.args["low"]),
            text_of(tree.args["high"]),
        )
        return _Fact(name, Limits(low=low, high=high)) if name and low and high else None
    if isinstance(tree, exp.In):
        name = column_of(tree.this)
        values = texts_of(tree.expressions)
        return _Fact(name, Limits(values=values)) if name and values else None
    if isinstance(tree, (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return _comparison(tree)
    if isinstance(tree, exp.NEQ) and text_of(tree.right) == "":
        name = column_of(untrimmed(tree.left))
        return _Fact(name, Limits(min_length=1)) if name else None
    return None


def _truth(tree: exp.Expr, name: str) -> _Fact | None:
    """``flag`` and ``NOT flag``."""
    if column_of(tree) == name:
        return _Fact(name, Limits(values=("true",)))
    negated = isinstance(tree, exp.Not) and column_of(tree.this) == name
    return _Fact(name, Limits(values=("false",))) if negated else None


def _or_fact(tree: exp.Or) -> _Fact | None:
    """``x IS NULL OR fact(x)`` says the fact; ``x = 1 OR x = 2`` is a list."""
    left, right = tree.left.unnest(), tree.right.unnest()
    for null, other in ((left, right), (right, left)):
        if is_null(null):
            fact = _fact(other)
            return fact if fact and fact.column == column_of(null.this) else None
    one, two = _fact(left), _fact(right)
    if one and two and one.column == two.column and one.limits.values and two.limits.values:
        return _Fact(one.column, Limits(values=one.limits.values + two.limits.values))
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
        return _Fact(name, Limits(values=values)) if values else None
    value = text_of(right)
    return None if value is None else _Fact(name, _bound(kind, value))


def _bound(kind: type[exp.Expr], value: str) -> Limits:
    if kind is exp.EQ:
        return Limits(values=(value,))
    if kind in (exp.GT, exp.GTE):
        return Limits(low=value, low_open=kind is exp.GT)
    return Limits(high=value, high_open=kind is exp.LT)


def _length(tree: exp.Expr, kind: type[exp.Expr], value: str | None) -> _Fact | None:
    plain = untrimmed(tree.this)
    name = column_of(plain)
    if name is None or value is None or not value.isdigit():
        return None
    number = int(value)
    if plain is not bare(tree.this) and kind not in (exp.GT, exp.GTE):
        return None
    if kind is exp.EQ:
        return _Fact(name, Limits(min_length=number, max_length=number))
    if kind in (exp.GT, exp.GTE):
        return _Fact(name, Limits(min_length=number + (kind is exp.GT)))
    return _Fact(name, Limits(max_length=number - (kind is exp.LT)))


def length_limits(limits: tuple[Limits, ...], declared: int | None) -> tuple[int, int | None]:
    """Least and greatest length of a text from all that is known.

    >>> length_limits((Limits(min_length=2), Limits(max_length=9)), 5)
    (2, 5)
    """
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


def ends(limits: tuple[Limits, ...]) -> tuple[Limits, ...]:
    """Only the constraints that bound an end."""
    return tuple(
        replace(item, values=None)
        for item in limits
        if item.low is not None or item.high is not None
    )
