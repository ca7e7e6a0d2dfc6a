"""Counts under a conjunction: the queries that MSCN's and SAM's formats can hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from privbench.schema import literal
from privbench.workload.formats.base import beyond
from privbench.workload.query import WorkloadQuery, conjuncts, parse

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?\Z")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.GT: ">", exp.LTE: "<=", exp.GTE: ">=",
}  # fmt: skip
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
# Clauses of a SELECT that counts rows under a conjunction, and parts of its joins.
_CLAUSES = frozenset({"expressions", "from_", "joins", "where"})
_JOIN_PARTS = frozenset({"this", "on", "kind"})


@dataclass(frozen=True, slots=True)
class Value:
    """A literal."""

    text: str  # without quotes
    quoted: bool  # whether it stands in quotes
    cast: str = ""  # the type that it is cast to
    by_code: bool = False  # whether it carries ``COLLATE "C"``

    @property
    def sql(self) -> str:
        """Its SQL."""
        text = literal(self.text) if self.quoted else self.text
        cast = f"::{self.cast}" if self.cast else ""
        return f"{text}{cast}" + (' COLLATE "C"' if self.by_code else "")


@dataclass(frozen=True, slots=True)
class Condition:
    """A column compared with a literal; ``between`` is two of them."""

    column: str
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class Conjunction:
    """A query that counts the rows of joined tables that satisfy all conditions."""

    tables: tuple[tuple[str, str], ...]  # name and alias, which may be empty
    joins: tuple[tuple[str, str], ...]  # pairs of equal columns
    conditions: tuple[Condition, ...]  # on columns

    @property
    def sql(self) -> str:
        """The query."""
        tables = ",".join(f"{name} {alias}".rstrip() for name, alias in self.tables)
        where = [f"{left}={right}" for left, right in self.joins]
        where += [f"{item.column}{item.operator}{item.value.sql}" for item in self.conditions]
        conditions = f" WHERE {' AND '.join(where)}" if where else ""
        return f"SELECT COUNT(*) FROM {tables}{conditions};"  # noqa: S608


class _Beyond(Exception):
    """The query is not a count under a conjunction; the message says which part is not."""


def conjunction(query: WorkloadQuery, form: str, *, quotable: bool = False) -> Conjunction:
    """Parse a query into a conjunction; the schema ``public`` is dropped from names of tables.

    Error messages name the format ``form``. If it can hold any name, it is ``quotable``; otherwise
    a name that needs quotes is refused, and the others are left as they are written.
    """
    try:
        return _Reader(quotable).select(parse(query.sql))
    except _Beyond as reason:
        raise beyond(query, form, str(reason)) from None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads syntax trees; names may need quotes where they are `quotable`."""

    quotable: bool

    def select(self, tree: exp.Expr | None) -> Conjunction:
        if not isinstance(tree, exp.Select):
            raise _Beyond("it is no plain SELECT that can be read")
        extra = sorted(name for name, part in tree.args.items() if part and name not in _CLAUSES)
        if extra:
            raise _Beyond(f"it has {extra[0].rstrip('_').upper()}")
        if [item.sql().upper() for item in tree.expressions] != ["COUNT(*)"]:
            raise _Beyond("it selects something else than COUNT(*)")
        source, where = tree.args.get("from_"), tree.args.get("where")
        if source is None:
            raise _Beyond("it has no table")
        joins = tree.args.get("joins") or []
        terms = [term for join in joins for term in _on(join)]
        terms += conjuncts(where.this if where else None)
        edges: list[exp.Expr] = []
        others: list[exp.Expr] = []
        for term in terms:
            if isinstance(term, exp.Boolean) and term.this is True:
                continue
            sides = (term.this, term.args.get("expression"))
            columns = all(isinstance(side, exp.Column) for side in sides)
            (edges if isinstance(term, exp.EQ) and columns else others).append(term)
        return Conjunction(
            tuple(self._table(item.this) for item in (source, *joins)),
            tuple((self._column(edge.this), self._column(edge.expression)) for edge in edges),
            tuple(item for term in others for item in self._conditions(term)),
        )

    def _table(self, node: exp.Expr) -> tuple[str, str]:
        if not isinstance(node, exp.Table) or node.args.get("joins"):
            raise _Beyond("it reads something else than tables")
        alias = node.args.get("alias")
        if alias is not None and alias.columns:
            raise _Beyond("it renames columns")
        names = [self._name(part) for part in node.parts]
        short = names[1:] if len(names) == 2 and names[0] == "public" else names
        return ".".join(short), self._name(alias.this) if alias is not None else ""

    def _name(self, node: object) -> str:
        if not isinstance(node, exp.Identifier):
            raise _Beyond("it has a name that cannot be read")
        if self.quotable:
            if "." in node.name:
                raise _Beyond(f"the name {node.name} holds a dot")
            return node.name if node.quoted else node.name.lower()
        changes = node.quoted and node.name != node.name.lower()
        if changes or not _PLAIN.match(node.name):
            raise _Beyond(f"the name {node.name} needs quotes")
        return node.name

    def _column(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Column):
            raise _Beyond("it compares something else than columns and literals")
        return ".".join(self._name(part) for part in node.parts)

    def _conditions(self, term: exp.Expr) -> Iterator[Condition]:
        if isinstance(term, exp.Between):
            column = self._column(term.this)
            yield Condition(column, ">=", _value(term.args["low"]))
            yield Condition(column, "<=", _value(term.args["high"]))
            return
        operator = _OPERATORS.get(type(term))
        if operator is None:
            raise _Beyond("it has a condition other than a comparison")
        left, right = term.this, term.expression
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, _FLIPPED.get(operator, operator)
        yield Condition(self._column(left), operator, _value(right))


def _on(join: exp.Join) -> Iterator[exp.Expr]:
    extra = [name for name, part in join.args.items() if part and name not in _JOIN_PARTS]
    if extra or join.kind not in ("", "INNER", "CROSS"):
        raise _Beyond("it has a join other than an inner one")
    yield from conjuncts(join.args.get("on"))


def _value(node: exp.Expr) -> Value:
    if isinstance(node, exp.Collate):
        if node.expression.name != "C":
            raise _Beyond(f"it compares in the collation {node.expression.name}")
        return replace(_value(node.this), by_code=True)
    if type(node) is exp.Cast:
        return replace(_value(node.this), cast=node.to.sql("postgres").lower(), by_code=False)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return Value(f"-{node.this.name}", quoted=False)
    if isinstance(node, exp.Literal):
        return Value(node.name, quoted=node.is_string)
    raise _Beyond("it compares a column with something else than a literal")
