"""What every literal of a query is for: what it is compared with, or why it stands there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from privbench.workload.rebind.columns import Operand, Resolver
from privbench.workload.rebind.functions import KEY
from privbench.workload.rebind.marks import Mark, number_of

Role = Literal[
    "value", "key", "limit", "offset", "position", "type", "interval", "unit", "format", "zone",
    "count", "constant",
]  # fmt: skip
#: How a value is compared: the literal equals it, bounds it, is a pattern for it, ….
Shape = Literal[
    "equal", "member", "low", "high", "pattern", "regex", "prefix", "infix", "array", "ratio"
]

_WRAPPERS = (
    exp.Paren, exp.Collate, exp.Any, exp.All, exp.Array, exp.Lower, exp.Upper, exp.Trim,
    exp.Date, exp.TsOrDsToDate, exp.Values,
)  # fmt: skip
_QUANTIFIERS = frozenset({"any", "some", "all"})
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_CHOICES = (exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)
_ARRAYS = (exp.ArrayContainsAll, exp.ArrayContainedBy, exp.ArrayOverlaps)
_GREATER, _LESS = (exp.GT, exp.GTE), (exp.LT, exp.LTE)
_SHAPES: dict[type[exp.Expr], Shape] = {
    exp.Like: "pattern", exp.ILike: "pattern", exp.SimilarTo: "pattern",
    exp.RegexpLike: "regex", exp.RegexpILike: "regex",
}  # fmt: skip
_JSON = (exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBContains)
_COUNTING: frozenset[Role] = frozenset({"limit", "offset", "position", "count"})
_CUTS = (exp.Substring, exp.Left, exp.Right, exp.Round, exp.SplitPart, exp.Pad)
_PLACES: dict[type[exp.Expr], Role] = {
    exp.Limit: "limit", exp.Fetch: "limit", exp.Offset: "offset", exp.DataTypeParam: "type",
    exp.DataType: "type", exp.Interval: "interval", exp.Extract: "unit",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """A mark and what it is for.

    Attributes:
        mark: The mark.
        role: ``value``: it is compared with a column; else what it is instead.
        operand: What it is compared with, or the JSON column that the key is for.
        shape: How it is compared.
        negated: Whether a minus sign stands before it.
        cast: The type that it is cast to, empty without a cast.
        place: Of a position: which one of its list.
    """

    mark: Mark
    role: Role = "constant"
    operand: Operand | None = None
    shape: Shape = "equal"
    negated: bool = False
    cast: str = ""
    place: int = 1

    @property
    def counts(self) -> bool:
        """Whether a number is wanted here, so that a parameter's is written without quotes."""
        if self.role in _COUNTING:
            return True
        return self.operand is not None and self.operand.numeric and self.shape != "array"


def sites(tree: exp.Expr, marks: Sequence[Mark], resolver: Resolver) -> list[Site]:
    """The site of every mark, in order; a mark that the tree does not show is a constant."""
    found = {site.mark.number: site for site in _positions(tree, marks)}
    for node in resolver.tree.walk():
        number = number_of(node)
        if number is not None and number < len(marks):
            found.setdefault(number, _Climb(marks[number], node, resolver).site())
    return [found.get(mark.number, Site(mark)) for mark in marks]


def _positions(tree: exp.Expr, marks: Sequence[Mark]) -> Iterator[Site]:
    """Bare numbers in GROUP BY and ORDER BY: each names a column of the result."""
    for holder in tree.find_all(exp.Group, exp.Ordered):
        items = holder.expressions if isinstance(holder, exp.Group) else [holder.this]
        for place, item in enumerate(items, 1):
            number = number_of(item)
            if number is not None and number < len(marks) and marks[number].kind != "string":
                yield Site(marks[number], "position", place=place)


class _Climb:
    """The way from a literal up to what it meets."""

    def __init__(self, mark: Mark, node: exp.Expr, resolver: Resolver) -> None:
        self._mark = mark
        self._node = node
        self._resolver = resolver
        self._negated = False
        self._cast = ""
        self._tuple_place: int | None = None
        self._quantified = False
        self._listed = False

    def site(self) -> Site:
        child, parent = self._node, self._node.parent
        while parent is not None:
            found = self._met(child, parent)
            if found is not None:
                return found
            child, parent = parent, parent.parent
        return self._plain("constant")

    def _met(self, child: exp.Expr, parent: exp.Expr) -> Site | None:
        """The site that is decided here; None where the way goes on."""
        role = self._special(child, parent)
        if role is not None:
            return role
        if isinstance(parent, (exp.Cast, exp.TryCast)):
            self._cast = self._cast or parent.to.sql("postgres").lower()
            return self._plain("interval") if self._cast.startswith("interval") else None
        if isinstance(parent, exp.Neg):
            self._negated = not self._negated
            return None
        if isinstance(parent, exp.Tuple):
            self._tuple_place = parent.expressions.index(child)
            return None
        if isinstance(parent, exp.Escape):
            return self._plain("constant") if child is parent.expression else None
        result = isinstance(parent, exp.If) and child is not parent.this
        if result or self._wraps(parent):
            return None
        if isinstance(parent, _ARITHMETIC):
            other = parent.expression if child is parent.this else parent.this
            carries = child is parent.this and other.find(exp.Column) is None
            return None if carries else self._plain("constant")
        if isinstance(parent, exp.DPipe):
            other = parent.expression if child is parent.this else parent.this
            return self._plain("constant") if other.find(exp.Column) else None
        return self._compared(child, parent)

    def _wraps(self, parent: exp.Expr) -> bool:
        self._quantified |= isinstance(parent, (exp.Any, exp.All)) or _quantifier(parent)
        self._listed |= isinstance(parent, exp.Array)
        return isinstance(parent, _WRAPPERS) or _quantifier(parent) or self._passes(parent)

    def _passes(self, parent: exp.Expr) -> bool:
        """Whether a choice among constants gives the literal on: what it gives is compared."""
        if isinstance(parent, _CHOICES):
            return parent.find(exp.Column) is None
        return isinstance(parent, exp.Case)

    def _special(self, child: exp.Expr, parent: exp.Expr) -> Site | None:
        role = _PLACES.get(type(parent))
        if role == "unit" and child is not parent.this:
            return None
        if role is not None:
            return self._plain(role)
        if child is parent.args.get("unit"):
            return self._plain("unit")
        if child is parent.args.get("format"):
            return self._plain("format")
        if child is parent.args.get("zone"):
            return self._plain("zone")
        if isinstance(parent, _CUTS) and child is not parent.this:
            return self._plain("constant" if child is parent.args.get("delimiter") else "count")
        if isinstance(parent, exp.JSONPath):
            return self._key(child, parent)
        if isinstance(parent, _JSON) and child is parent.expression:
            return Site(self._mark, "key", self._resolver.operand(parent.this))
        return None

    def _key(self, child: exp.Expr, path: exp.JSONPath) -> Site:
        """A key within a path: of what the keys before it lead to."""
        outer = path.parent
        operand = self._resolver.operand(outer.this) if outer is not None else None
        for holder in path.expressions[: path.expressions.index(child)]:
            number = number_of(holder)
            if operand is not None and number is not None:
                operand = operand.then(f"{KEY} {number}")
        return Site(self._mark, "key", operand)

    def _compared(self, child: exp.Expr, parent: exp.Expr) -> Site:
        if isinstance(parent, exp.Between):
            return self._between(child, parent)
        if isinstance(parent, exp.In):
            shape: Shape = "equal" if child is parent.this else "member"
            return self._value(parent.this, shape)
        if isinstance(parent, exp.If) and isinstance(parent.parent, exp.Case):
            return self._value(parent.parent.this, "equal")
        if isinstance(parent, _CHOICES):
            return self._value(parent, "equal")
        if isinstance(parent, exp.StartsWith):
            return self._value(parent.this, "prefix")
        if isinstance(parent, exp.StrPosition) and child is parent.args.get("substr"):
            return self._value(parent.this, "infix")
        if isinstance(parent, (exp.Predicate, *_ARRAYS)) and isinstance(parent, exp.Binary):
            other = parent.expression if child is parent.this else parent.this
            return self._value(other, self._shape(child, parent))
        return self._plain("constant")

    def _shape(self, child: exp.Expr, parent: exp.Expr) -> Shape:
        if type(parent) in _SHAPES:
            return _SHAPES[type(parent)]
        if self._quantified and not self._listed:
            return "array"
        if self._listed:
            return "member"
        if isinstance(parent, (*_GREATER, *_LESS)):
            return "low" if isinstance(parent, _GREATER) == (child is parent.expression) else "high"
        return "equal"

    def _between(self, child: exp.Expr, parent: exp.Between) -> Site:
        if child is parent.this:
            return self._value(parent.args.get("low"), "equal")
        return self._value(parent.this, "low" if child is parent.args.get("low") else "high")

    def _value(self, other: exp.Expr | None, shape: Shape) -> Site:
        if isinstance(other, exp.Paren) and self._tuple_place is not None:
            other = other.this
        if isinstance(other, exp.Tuple) and self._tuple_place is not None:
            other = other.expressions[self._tuple_place]
        operand = self._resolver.operand(other)
        if operand is None:
            return self._plain("constant")
        element = (shape == "member" and self._listed) or isinstance(other, (exp.Any, exp.All))
        if element and operand.column.type.category == "A":
            operand = operand.then("element")
        return Site(self._mark, "value", operand, shape, self._negated, self._cast)

    def _plain(self, role: Role) -> Site:
        return Site(self._mark, role, negated=self._negated, cast=self._cast)


def _quantifier(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _QUANTIFIERS
