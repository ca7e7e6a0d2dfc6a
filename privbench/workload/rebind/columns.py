"""Find the column that an expression refers to, through aliases, sub-queries and WITH.

sqlglot's optimizer qualifies every column with its table, expands stars and aliases, and infers
types. This module follows a qualified column to its table, and lists the functions around it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from privbench.schema import Column, Schema, Table
from privbench.workload.rebind.literal_marks import LiteralMark, mark_of

#: Errors that sqlglot raises for unusual texts, besides its own.
ODD = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError)
#: The unit that is assumed if a query's unit is not known.
UNIT = "day"

# Depth to which nested sub-queries are followed; without a limit a recursive WITH would never end.
_DEPTH = 20
#: Types by PostgreSQL's category of types, which shows whether a value is a number.
_TYPES = {"N": "numeric", "S": "text", "D": "timestamp", "B": "boolean"}
_NUMERIC = tuple(exp.DataType.NUMERIC_TYPES)
_THROUGH = (
    exp.Paren, exp.Alias, exp.Collate, exp.Distinct, exp.Min, exp.Max, exp.Avg, exp.Sum,
    exp.AnyValue, exp.Filter, exp.Window, exp.WithinGroup, exp.Any, exp.All, exp.Ordered,
)  # fmt: skip
_FIRST = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Coalesce, exp.Nullif,
    exp.Greatest, exp.Least,
)  # fmt: skip
#: Names of functions in `choose.apply` that differ from sqlglot's names.
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Neg: "neg", exp.Date: "cast date", exp.TsOrDsToDate: "cast date",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operand:
    """A column, and the functions that are applied to its values before they are compared."""

    source: int  # A number for each occurrence of a table in a query
    table: Table
    column: Column
    steps: tuple[str, ...] = ()  # names of functions in `choose.apply`, innermost first
    numeric: bool = False  # whether the compared values are numbers to PostgreSQL

    def then(self, step: str) -> Operand:
        """Return this operand with one more function around it."""
        return replace(self, steps=(*self.steps, step))


class Tables:
    """The tables of a schema, as queries name them.

    Attributes:
        names: Every name of the schema; these names are published with the clone.
        mapping: The columns of the tables in the form that sqlglot's optimizer takes.
    """

    def __init__(self, schema: Schema) -> None:
        names = {"public", "pg_catalog", *schema.schemas, *schema.extensions}
        for table in schema:
            names |= {table.name.schema, table.name.name}
            names |= {column.name for column in table.columns}
            names |= {part.name for part in table.partitions}
        names |= {name.name for name in (*schema.views, *schema.materialized_views)}
        names |= {sequence.name.name for sequence in schema.sequences}
        self.names = frozenset(names)
        self._tables: dict[str, list[Table]] = {}
        for each in schema:
            self._tables.setdefault(each.name.name, []).append(each)
        columns: dict[str, dict[str, object]] = defaultdict(dict)
        for each in schema:
            columns[each.name.schema][each.name.name] = {
                column.name: _TYPES.get(column.type.category, "unknown") for column in each.columns
            }
        self.mapping = MappingSchema(dict(columns), dialect="postgres", normalize=False)

    def named(self, name: str, schema: str = "") -> Table | None:
        """Return the table with this name; without a schema, that in public, else the only one."""
        tables = self._tables.get(name, [])
        if schema:
            return next((table for table in tables if table.name.schema == schema), None)
        first = next((table for table in tables if table.name.schema == "public"), None)
        return first or (tables[0] if len(tables) == 1 else None)


def qualified(tree: exp.Query, tables: Tables) -> exp.Expr:
    """Qualify every column of a tree with its table's name, and fold names as PostgreSQL does.

    The tree is changed. A SqlglotError is raised if it is not clear which columns the tree names.
    """
    tree = normalize_identifiers(tree, dialect="postgres")
    # sqlglot has no search path, so `Tables.named` finds the tables.
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and not source.db:
                table = tables.named(source.name)
                if table is not None:
                    source.set("db", exp.to_identifier(table.name.schema, quoted=True))
    return qualify(
        tree, dialect="postgres", schema=tables.mapping, allow_partial_qualification=True,
        validate_qualify_columns=False, quote_identifiers=False,
    )  # fmt: skip


class Resolver:
    """Finds operands in the tree of one query.

    Attributes:
        marks: The marks that stand for the query's literals.
        tree: The query as sqlglot's optimizer writes it, without positions in GROUP BY, ORDER BY
            and DISTINCT ON: these are marks, which the optimizer would take for positions.
    """

    def __init__(self, tree: exp.Query, tables: Tables, marks: Sequence[LiteralMark]) -> None:
        tree = tree.copy()
        for literal in list(tree.find_all(exp.Literal)):
            holder = literal.parent
            holder = holder.parent if isinstance(holder, exp.Tuple) else holder
            if isinstance(holder, (exp.Group, exp.Ordered, exp.Distinct)):
                literal.replace(exp.Null())
        named = qualified(tree, tables)
        self.tree = annotate_types(named, schema=tables.mapping, dialect="postgres")
        self._tables = tables
        self.marks = marks
        self._scopes = {id(scope.expression): scope for scope in traverse_scope(self.tree)}

    def operand(self, node: exp.Expr | None) -> Operand | None:
        """Return the operand that an expression refers to, or None if it refers to no column."""
        operand = self._operand(node, 0)
        if operand is None or node is None:
            return None
        return replace(operand, numeric=node.is_type(*_NUMERIC))

    def unknown(self) -> str | None:
        """Return the first table in the query that the schema does not have, or None."""
        sources = (each for scope in self._scopes.values() for each in scope.sources.values())
        tables = (
            t for t in sources if isinstance(t, exp.Table) and isinstance(t.this, exp.Identifier)
        )
        missing = (t.name for t in tables if self._tables.named(t.name, t.db) is None)
        return next(missing, None)

    def joins(self) -> list[tuple[Operand, Operand]]:
        """Return columns of the same type, of two table occurrences, that the query sets equal."""
        pairs = []
        for equal in self.tree.find_all(exp.EQ):
            sides = (equal.this, equal.expression)
            if all(isinstance(side, exp.Column) for side in sides):
                one, other = (self.operand(side) for side in sides)
                if one is not None and other is not None and _joined(one, other):
                    pairs.append((one, other))
        return pairs

    def _operand(self, node: exp.Expr | None, depth: int) -> Operand | None:
        if node is None or depth > _DEPTH:
            return None
        if isinstance(node, exp.Column):
            return self._column(node, depth + 1)
        if isinstance(node, exp.Count):
            return None
        inner, step = self._inner(node)
        if inner is not None:
            operand_found = self._operand(inner, depth + 1)
            return operand_found.then(step) if operand_found and step else operand_found
        if isinstance(node, (*_FIRST, exp.Func)):
            parts = (self._operand(child, depth + 1) for child in node.iter_expressions())
            operand_found = next((operand for operand in parts if operand), None)
            if operand_found is None or isinstance(node, _FIRST) or not isinstance(node, exp.Func):
                return operand_found
            return operand_found.then(node.sql_name().lower())
        return None

    def _inner(self, node: exp.Expr) -> tuple[exp.Expr | None, str]:
        """The argument of a function of one value, and the function as a step."""
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
        return (node.this, "element") if isinstance(node, exp.Bracket) else (None, "")

    def _unit(self, unit: exp.Expr | None) -> str:
        """The unit of a truncation or extraction: a word, or the literal that a mark stands for."""
        mark = mark_of(unit, self.marks)
        if mark is not None:
            return mark.original.lower() or UNIT
        return unit.name.lower() if unit is not None else UNIT

    def _column(self, node: exp.Column, depth: int) -> Operand | None:
        """The operand of a column, which an item of FROM in this or an outer query provides."""
        parent: exp.Expr | None = node
        while parent is not None and id(parent) not in self._scopes:
            parent = parent.parent
        scope = self._scopes.get(id(parent))
        while scope is not None and node.table not in scope.sources:
            scope = scope.parent
        source = scope.sources[node.table] if scope else None
        if isinstance(source, Scope):
            query = source.expression
            if isinstance(query, exp.Lateral):
                query = query.this.unnest()
            name = node.name
            if isinstance(query, exp.Query):
                renamed = dict(zip(source.outer_columns, query.named_selects, strict=False))
                name = renamed.get(name, name)
                item = next((item for item in query.selects if item.alias_or_name == name), None)
                return self._operand(item, depth)
        table = (
            self._tables.named(source.name, source.db) if isinstance(source, exp.Table) else None
        )
        column = next((c for c in table.columns if c.name == node.name), None) if table else None
        return Operand(id(source), table, column) if table and column else None


def _joined(one: Operand, other: Operand) -> bool:
    same = one.column.type.base == other.column.type.base
    return same and one.source != other.source and not one.steps and not other.steps


def folded(node: exp.Expr | None) -> str:
    """Return a name as PostgreSQL folds it; empty if there is none."""
    if not isinstance(node, exp.Identifier):
        return ""
    return node.name if node.args.get("quoted") else node.name.lower()
