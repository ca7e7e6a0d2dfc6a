"""Which column an expression of a query is about: through aliases, sub-queries and WITH."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from privbench.schema import Column, Schema, Table, TableName
from privbench.workload.rebind.functions import KEY
from privbench.workload.rebind.marks import Mark, number_of

#: The unit that stands for one that is not known.
UNIT = "day"

_DEPTH = 20
_SAME = frozenset({"neg", "abs"})
_NUMERIC = (
    "length", "round", "floor", "ceil", "extract", "cast int", "cast bigint", "cast smallint",
    "cast decimal", "cast double", "cast real",
)  # fmt: skip
_THROUGH = (
    exp.Paren, exp.Alias, exp.Collate, exp.Distinct, exp.Min, exp.Max, exp.Avg, exp.Sum,
    exp.AnyValue, exp.Filter, exp.Window, exp.WithinGroup, exp.Any, exp.All, exp.Ordered,
)  # fmt: skip
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_CHOICES = (exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Lower: "lower", exp.Upper: "upper", exp.Trim: "trim", exp.Length: "length",
    exp.Abs: "abs", exp.Neg: "neg", exp.Initcap: "initcap", exp.Date: "cast date",
    exp.TsOrDsToDate: "cast date", exp.Round: "round", exp.Floor: "floor", exp.Ceil: "ceil",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operand:
    """A column, and what is done to its values before they are compared.

    Attributes:
        source: Tells the occurrences of one table in a query apart.
        table: The table.
        column: The column.
        steps: Names of functions in `functions.apply`, innermost first.
    """

    source: int
    table: Table
    column: Column
    steps: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers as PostgreSQL sees them."""
        if not self.steps:
            return self.column.type.category == "N"
        return self.steps[-1].startswith(_NUMERIC) or (
            self.steps[-1] in _SAME and replace(self, steps=self.steps[:-1]).numeric
        )

    def then(self, step: str) -> Operand:
        """With one more function around it."""
        return replace(self, steps=(*self.steps, step))


class Resolver:
    """Finds operands in the tree of one query.

    Args:
        tree: The query, its literals marked.
        schema: Its tables.
        marks: The marks.
    """

    def __init__(self, tree: exp.Expr, schema: Schema, marks: Sequence[Mark]) -> None:
        self._schema = schema
        self._marks = marks
        self._scopes = {id(scope.expression): scope for scope in traverse_scope(tree)}

    def operand(self, node: exp.Expr | None, depth: int = 0) -> Operand | None:
        """The column that an expression is about, or None without one."""
        if node is None or depth > _DEPTH:
            return None
        if isinstance(node, exp.Column):
            return self._column(node, self._scope(node), depth)
        if isinstance(node, (exp.JSONExtract, exp.JSONExtractScalar)):
            return self._json(node, depth)
        if isinstance(node, exp.Count):
            return None
        inner, step = self._inner(node)
        if inner is not None:
            found = self.operand(inner, depth + 1)
            return found.then(step) if found and step else found
        if isinstance(node, (*_ARITHMETIC, *_CHOICES, exp.DPipe)):
            return self._first(node, depth)
        if isinstance(node, exp.Func):
            found = self._first(node, depth)
            return found.then("unknown") if found else None
        return None

    def _inner(self, node: exp.Expr) -> tuple[exp.Expr | None, str]:
        """What a function of one value is applied to, and the step that it is."""
        if isinstance(node, (exp.Cast, exp.TryCast)):
            return node.this, f"cast {node.to.sql('postgres').lower()}"
        if type(node) in _FUNCTIONS:
            return node.this, _FUNCTIONS[type(node)]
        if isinstance(node, _THROUGH):
            return node.this, ""
        if isinstance(node, exp.Extract):
            return node.expression, f"extract {self._unit(node.this)}"
        if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
            return node.this, f"trunc {self._unit(node.args.get('unit'))}"
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            return next(iter(node.this.expressions), None), ""
        if isinstance(node, exp.Bracket):
            return node.this, "element"
        return None, ""

    def tables(self) -> list[TableName | str]:
        """Tables that are named, those that the schema does not have as text."""
        found: list[TableName | str] = []
        for scope in self._scopes.values():
            for source in scope.sources.values():
                if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
                    table = self._table(source)
                    found.append(table.name if table else source.name)
        return found

    def joins(self) -> list[tuple[Operand, Operand]]:
        """Columns of two occurrences of tables that the query sets equal, of the same type."""
        found = []
        for scope in self._scopes.values():
            for equal in scope.find_all(exp.EQ):
                sides = (equal.this, equal.expression)
                if all(isinstance(side, exp.Column) for side in sides):
                    one, other = (self.operand(side) for side in sides)
                    if one is not None and other is not None and _joined(one, other):
                        found.append((one, other))
        return found

    def _unit(self, unit: exp.Expr | None) -> str:
        """The unit of a truncation or extraction: a word, or the literal that a mark stands for."""
        number = number_of(unit) if unit is not None else None
        if number is not None:
            return self._marks[number].original.lower() or UNIT
        return unit.name.lower() if unit is not None else UNIT

    def _json(self, node: exp.Expr, depth: int) -> Operand | None:
        """A column of JSON, each key of the path a step that names its mark."""
        found = self.operand(node.this, depth + 1)
        path = node.expression
        holders = path.expressions if isinstance(path, exp.JSONPath) else [path]
        for holder in holders:
            number = number_of(holder)
            if found is not None and number is not None:
                found = found.then(f"{KEY} {number}")
        return found

    def _first(self, node: exp.Expr, depth: int) -> Operand | None:
        found = (self.operand(child, depth + 1) for child in node.iter_expressions())
        return next((operand for operand in found if operand), None)

    def _scope(self, node: exp.Expr) -> Scope | None:
        parent = node.parent
        while parent is not None:
            if id(parent) in self._scopes:
                return self._scopes[id(parent)]
            parent = parent.parent
        return None

    def _column(self, node: exp.Column, scope: Scope | None, depth: int) -> Operand | None:
        name, qualifier = folded(node.this), folded(node.args.get("table"))
        while scope is not None:
            for alias, source in _sources(scope):
                if qualifier in ("", alias):
                    found = self._within(source, name, depth)
                    if found is not None:
                        return found
            if not qualifier and isinstance(scope.expression, exp.Query):
                named = _projection(scope.expression, name)
                if isinstance(named, exp.Alias):
                    return self.operand(named.this, depth + 1)
            scope = scope.parent
        return None

    def _within(self, source: exp.Expr | Scope, name: str, depth: int) -> Operand | None:
        """A column of one item of FROM."""
        if isinstance(source, Scope):
            return self._output(source, name, depth + 1)
        table = self._table(source) if isinstance(source, exp.Table) else None
        if table is None:
            return None
        name = _positional(source, [column.name for column in table.columns], name)
        column = next((column for column in table.columns if column.name == name), None)
        return Operand(id(source), table, column) if column else None

    def _output(self, scope: Scope, name: str, depth: int) -> Operand | None:
        """A column that a sub-query or WITH query gives."""
        query = scope.expression
        if depth > _DEPTH or not isinstance(query, exp.Query):
            return None
        name = _positional(query, query.named_selects, name)
        item = _projection(query, name)
        if item is not None and not item.is_star:
            return self.operand(item, depth + 1)
        left: exp.Expr = query
        while isinstance(left, (exp.SetOperation, exp.Subquery)):
            left = left.this
        inner = self._scopes.get(id(left))
        found = (self._within(source, name, depth) for _, source in _sources(inner))
        return next((operand for operand in found if operand), None)

    def _table(self, node: exp.Table) -> Table | None:
        name, schema = folded(node.this), folded(node.args.get("db"))
        found = [table for table in self._schema if table.name.name == name]
        if schema:
            return next((table for table in found if table.name.schema == schema), None)
        first = next((table for table in found if table.name.schema == "public"), None)
        return first or (found[0] if len(found) == 1 else None)


def _joined(one: Operand, other: Operand) -> bool:
    same = one.column.type.base == other.column.type.base
    return same and one.source != other.source and not one.steps and not other.steps


def _sources(scope: Scope | None) -> list[tuple[str, exp.Expr | Scope]]:
    if scope is None:
        return []
    return [
        (_alias(node) or name, source) for name, (node, source) in scope.selected_sources.items()
    ]


def _alias(node: exp.Expr) -> str:
    alias = node.args.get("alias")
    return folded(alias.this) if isinstance(alias, exp.TableAlias) else folded(node.this)


def folded(node: exp.Expr | None) -> str:
    """A name as PostgreSQL folds it; empty where there is none."""
    if not isinstance(node, exp.Identifier):
        return ""
    return node.name if node.args.get("quoted") else node.name.lower()


def _projection(query: exp.Query, name: str) -> exp.Expr | None:
    return next((item for item in query.selects if item.alias_or_name.lower() == name), None)


def _positional(node: exp.Expr, names: list[str], name: str) -> str:
    """The inner name of a column that an alias list renames: ``AS t (a, b)``."""
    holder = node if isinstance(node, exp.Table) else node.parent
    if holder is not None and isinstance(holder.parent, exp.Lateral):
        holder = holder.parent
    alias = holder.args.get("alias") if holder is not None else None
    if not isinstance(alias, exp.TableAlias):
        return name
    renamed = [folded(column) for column in alias.columns]
    place = renamed.index(name) if name in renamed else len(names)
    return names[place] if place < len(names) else name
