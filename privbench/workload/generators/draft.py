"""A query before it becomes text: tables joined along foreign keys, predicates and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from psycopg import sql

from privbench.schema import ForeignKey, Schema, Table
from privbench.workload.generators.values import Values, pick

#: Operators that take a value, in the order in which they are drawn from.
OPERATORS = ("=", "<", ">", "<=", ">=", "between")
_TESTS = {"is null": "IS NULL", "is not null": "IS NOT NULL"}

#: Two columns that a query sets equal, each with the number of its table in the query.
Link = tuple[tuple[int, str], tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Edge:
    """One foreign key followed by a query.

    Attributes:
        key: The foreign key.
        child: Place, in the tree's tables, of the one that holds the key.
        parent: Place of the one that it refers to.
    """

    key: ForeignKey
    child: int
    parent: int


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables joined by foreign keys.

    Attributes:
        tables: In the order in which they were reached.
        edges: One less than tables: the key that reached ``tables[i + 1]``, from an earlier one.
    """

    tables: tuple[Table, ...]
    edges: tuple[Edge, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        """A name for each table: its first letter, numbered where letters clash."""
        names: list[str] = []
        for table in self.tables:
            letter = next((c for c in table.name.name.lower() if c.isalpha()), "t")
            number = sum(name.startswith(letter) for name in names)
            names.append(f"{letter}{number + 1}" if number else letter)
        return tuple(names)

    @property
    def links(self) -> list[Link]:
        """The columns that are equal, those of the child first."""
        return [
            ((edge.child, column), (edge.parent, target))
            for edge in self.edges
            for column, target in zip(edge.key.columns, edge.key.ref_columns, strict=True)
        ]

    def tail(self, predicates: Sequence[sql.Composable]) -> sql.Composable:
        """FROM and WHERE: the tables under their aliases, their joins and the predicates."""
        aliases = self.aliases
        tables = sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(
                sql.Identifier(table.name.schema, table.name.name), sql.Identifier(alias)
            )
            for table, alias in zip(self.tables, aliases, strict=True)
        )
        joins = [
            sql.SQL(" = ").join(sql.Identifier(aliases[place], name) for place, name in link)
            for link in self.links
        ]
        conditions = [*joins, *predicates]
        if not conditions:
            return sql.SQL("FROM {}").format(tables)
        return sql.SQL("FROM {} WHERE {}").format(tables, sql.SQL(" AND ").join(conditions))


def draw(
    schema: Schema, joins: int, rng: np.random.Generator, *, repeats: bool = False
) -> JoinTree:
    """Draw a connected set of tables.

    Starts at a random table and takes a random foreign key from what it has to what it has not.

    Args:
        schema: With at least one table.
        joins: Keys to follow; fewer where the schema offers no more.
        rng: Draws.
        repeats: Each key is followed at most once, and always to a further table, be it one that
            is there already: a post with its owner and its editor has users twice, and
            self-references are followed too. Otherwise each table occurs once.
    """
    graph = [
        key
        for table in schema
        for key in table.foreign_keys
        if key.ref_table in schema and (repeats or not key.is_self)
    ]
    ends = {name for key in graph for name in (key.table, key.ref_table)}
    starts = [table for table in schema if joins == 0 or table.name in ends]
    tables = [pick(starts or list(schema), rng)]
    edges: list[Edge] = []
    while len(edges) < joins and (steps := _steps(graph, tables, edges, repeats)):
        step = pick(steps, rng)
        new = step.key.table if step.child == len(tables) else step.key.ref_table
        edges.append(step)
        tables.append(schema.table(new))
    return JoinTree(tuple(tables), tuple(edges))


def _steps(
    graph: list[ForeignKey], tables: list[Table], edges: list[Edge], repeats: bool
) -> list[Edge]:
    """Edges from a table that is there, in either direction, to one more table."""
    held, used = {table.name for table in tables}, {edge.key for edge in edges}
    new = len(tables)
    found = []
    for key in graph:
        if key in used if repeats else {key.table, key.ref_table} <= held:
            continue
        for place, table in enumerate(tables):
            if table.name == key.table:
                found.append(Edge(key, place, new))
            if table.name == key.ref_table:
                found.append(Edge(key, new, place))
    return found


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on one column.

    Attributes:
        table: Place of the column's table in the tree.
        values: The column.
        operator: One of `OPERATORS`, or ``is null`` or ``is not null``.
        texts: Its literals: two of ``between``, none of the tests for NULL, else one.
    """

    table: int
    values: Values
    operator: str
    texts: tuple[str, ...] = ()

    def condition(self, alias: str) -> sql.Composable:
        """The condition on the table under that alias; strings are ordered by code points."""
        column = sql.Identifier(alias, self.values.column.name)
        if self.operator in _TESTS:
            return sql.SQL("{} {}").format(column, sql.SQL(_TESTS[self.operator]))
        by_code = self.values.is_text and self.operator != "="
        form = sql.SQL('{} COLLATE "C"' if by_code else "{}")
        literals = [form.format(self.values.literal(text)) for text in self.texts]
        if self.operator == "between":
            return sql.SQL("{} BETWEEN {} AND {}").format(column, *literals)
        return sql.SQL("{} {} {}").format(column, sql.SQL(self.operator), *literals)


@dataclass(frozen=True, slots=True)
class Draft:
    """A query to be written.

    Attributes:
        tree: Its tables and joins.
        predicates: All of which hold.
        head: What is asked of the rows; None counts them.
        foot: What follows the conditions.
    """

    tree: JoinTree
    predicates: tuple[Predicate, ...]
    head: sql.Composable | None = None
    foot: sql.Composable = field(default_factory=lambda: sql.SQL(""))

    @property
    def text(self) -> str:
        """The query's SQL, without a semicolon."""
        return self._text("SELECT {} {}{}", self.head or sql.SQL("COUNT(*)"), self._tail, self.foot)

    @property
    def counting(self) -> str:
        """The SQL that counts the rows that the conditions leave."""
        return self._text("SELECT pg_catalog.count(*) {}", self._tail)

    @property
    def probe(self) -> str:
        """The SQL that says whether the conditions leave a row."""
        return self._text("SELECT EXISTS (SELECT 1 {})", self._tail)

    @property
    def _tail(self) -> sql.Composable:
        aliases = self.tree.aliases
        return self.tree.tail([item.condition(aliases[item.table]) for item in self.predicates])

    @staticmethod
    def _text(form: str, *parts: sql.Composable) -> str:
        # Without a connection: the text is the same wherever it is made.
        return sql.SQL(form).format(*parts).as_string(None)
