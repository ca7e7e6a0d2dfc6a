"""The role of every literal of a query: the column it is compared with, or its other purpose."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from privbench.workload.rebind.columns import Operand, Resolver
from privbench.workload.rebind.literal_marks import LiteralMark, mark_of

LiteralRole = Literal[
    "value", "limit", "offset", "position", "type", "interval", "unit", "format", "zone",
    "count", "constant",
]  # fmt: skip
#: How a value is compared: the literal equals it, bounds it, is a pattern for it, ….
ComparisonShape = Literal[
    "equal", "member", "low", "high", "pattern", "regex", "prefix", "infix", "array"
]

_WRAPPERS = (
    exp.Paren, exp.Collate, exp.Any, exp.All, exp.Array, exp.Lower, exp.Upper, exp.Trim,
    exp.Date, exp.TsOrDsToDate, exp.Values, exp.Cast, exp.TryCast, exp.Neg, exp.Tuple, exp.Escape,
    exp.Case,
)  # fmt: skip
_QUANTIFIERS = frozenset({"any", "some", "all"})
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_CHOICES = (exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)
_ARRAYS = (exp.ArrayContainsAll, exp.ArrayContainedBy, exp.ArrayOverlaps)
_GREATER, _LESS = (exp.GT, exp.GTE), (exp.LT, exp.LTE)
_SHAPES: dict[type[exp.Expr], ComparisonShape] = {
    exp.Like: "pattern", exp.ILike: "pattern", exp.SimilarTo: "pattern",
    exp.RegexpLike: "regex", exp.RegexpILike: "regex",
}  # fmt: skip
#: Names, in sqlglot's trees, of arguments of functions that are not values.
_ARGUMENTS: tuple[LiteralRole, ...] = ("unit", "format", "zone")
_COUNTING: frozenset[LiteralRole] = frozenset({"limit", "offset", "position", "count"})
_CUTS = (exp.Substring, exp.Left, exp.Right, exp.Round, exp.SplitPart, exp.Pad)
_PLACES: dict[type[exp.Expr], LiteralRole] = {
    exp.Limit: "limit", exp.Fetch: "limit", exp.Offset: "offset", exp.DataTypeParam: "type",
    exp.DataType: "type", exp.Interval: "interval", exp.Extract: "unit",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """A placeholder of a query and the role of its literal."""

    mark: LiteralMark
    role: LiteralRole = "constant"  # ``value`` if it is compared with a column, else its other role
    operand: Operand | None = None  # what it is compared with
    shape: ComparisonShape = "equal"  # how it is compared
    negated: bool = False  # whether a minus sign stands before it
    cast: str = ""  # the type that it is cast to, empty without a cast
    place: int = 1  # for the role ``position``: its place in GROUP BY or ORDER BY

    @property
    def counts(self) -> bool:
        """Whether the place takes a number, so that a parameter is written without quotes."""
        if self.role in _COUNTING:
            return True
        return self.operand is not None and self.operand.numeric and self.shape != "array"


def sites(tree: exp.Expr, resolver: Resolver) -> list[Site]:
    """Return the role of every placeholder, in order; one that is not in the tree is a constant."""
    by_number = {site.mark.number: site for site in _positions(tree, resolver.marks)}
    for node in resolver.tree.walk():
        mark = mark_of(node, resolver.marks)
        if mark is not None:
            by_number.setdefault(mark.number, _Climb(mark, node, resolver).site())
    return [by_number.get(mark.number, Site(mark)) for mark in resolver.marks]


def _positions(tree: exp.Expr, marks: Sequence[LiteralMark]) -> Iterator[Site]:
    """Bare numbers in GROUP BY and ORDER BY: each names a column of the result."""
    for holder in tree.find_all(exp.Group, exp.Ordered):
        items = holder.expressions if isinstance(holder, exp.Group) else [holder.this]
        for place, item in enumerate(items, 1):
            mark = mark_of(item, marks)
            if mark is not None and mark.kind != "string":
                yield Site(mark, "position", place=place)


class _Climb:
    """Climbs the tree from a literal to the expression that decides its role."""

    def __init__(self, mark: LiteralMark, node: exp.Expr, resolver: Resolver) -> None:
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
            site = self._placed(child, parent)
            if site is None and not self._passes(child, parent):
                site = self._compared(child, parent)
            if site is not None:
                return site
            child, parent = parent, parent.parent
        return self._plain("constant")

    def _placed(self, child: exp.Expr, parent: exp.Expr) -> Site | None:
        """The site of a literal that, by its place in the tree, is not a value; else None."""
        role = _PLACES.get(type(parent))
        if role is not None:
            return None if role == "unit" and child is not parent.this else self._plain(role)
        for name in _ARGUMENTS:
            if child is parent.args.get(name):
                return self._plain(name)
        if isinstance(parent, _CUTS) and child is not parent.this:
            return self._plain("constant" if child is parent.args.get("delimiter") else "count")
        if isinstance(parent, exp.Escape) and child is parent.expression:
            return self._plain("constant")
        if isinstance(parent, (exp.Cast, exp.TryCast)):
            self._cast = self._cast or parent.to.sql("postgres").lower()
            return self._plain("interval") if self._cast.startswith("interval") else None
        return None

    def _passes(self, child: exp.Expr, parent: exp.Expr) -> bool:
        """Whether the node only hands on the literal's value, so that its own parent decides."""
        self._negated ^= isinstance(parent, exp.Neg)
        self._listed |= isinstance(parent, exp.Array)
        quantifier = isinstance(parent, exp.Anonymous) and parent.name.lower() in _QUANTIFIERS
        self._quantified |= quantifier or isinstance(parent, (exp.Any, exp.All))
        if isinstance(parent, exp.Tuple):
            self._tuple_place = parent.expressions.index(child)
        if isinstance(parent, exp.If):
            return child is not parent.this
        if isinstance(parent, _CHOICES):
            return parent.find(exp.Column) is None
        if isinstance(parent, (*_ARITHMETIC, exp.DPipe)):
            first = child is parent.this
            other = parent.expression if first else parent.this
            return other.find(exp.Column) is None and (first or isinstance(parent, exp.DPipe))
        return quantifier or isinstance(parent, _WRAPPERS)

    def _compared(self, child: exp.Expr, parent: exp.Expr) -> Site:
        """The site of a literal in a comparison: the other operand, and the kind of comparison."""
        first = child is parent.this
        if isinstance(parent, exp.Between):
            low = child is parent.args.get("low")
            other = parent.args.get("low") if first else parent.this
            return self._value(other, "equal" if first else "low" if low else "high")
        if isinstance(parent, exp.In):
            return self._value(parent.this, "equal" if first else "member")
        if isinstance(parent, exp.If) and isinstance(parent.parent, exp.Case):
            return self._value(parent.parent.this, "equal")
        if isinstance(parent, _CHOICES):
            return self._value(parent, "equal")
        if isinstance(parent, exp.StartsWith):
            return self._value(parent.this, "prefix")
        if isinstance(parent, exp.StrPosition) and child is parent.args.get("substr"):
            return self._value(parent.this, "infix")
        if isinstance(parent, (exp.Predicate, *_ARRAYS)) and isinstance(parent, exp.Binary):
            return self._value(
                parent.expression if first else parent.this, self._shape(parent, first)
            )
        return self._plain("constant")

    def _shape(self, parent: exp.Expr, first: bool) -> ComparisonShape:
        if type(parent) in _SHAPES:
            return _SHAPES[type(parent)]
        if self._quantified or self._listed:
            return "member" if self._listed else "array"
        if isinstance(parent, (*_GREATER, *_LESS)):
            return "low" if isinstance(parent, _GREATER) != first else "high"
        return "equal"

    def _value(self, other: exp.Expr | None, shape: ComparisonShape) -> Site:
        if self._tuple_place is not None:
            other = other.this if isinstance(other, exp.Paren) else other
            if isinstance(other, exp.Tuple):
                other = other.expressions[self._tuple_place]
        operand = self._resolver.operand(other)
        if operand is None:
            return self._plain("constant")
        element = (shape == "member" and self._listed) or isinstance(other, (exp.Any, exp.All))
        if element and operand.column.type.category == "A":
            operand = operand.then("element")
        return Site(self._mark, "value", operand, shape, self._negated, self._cast)

    def _plain(self, role: LiteralRole) -> Site:
        return Site(self._mark, role, negated=self._negated, cast=self._cast)
