"""A query before it is text: joined tables, predicates, and what is asked of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from psycopg import sql

from privbench.workload.generators.joins import JoinTree
from privbench.workload.generators.values import Values

#: Operators that take a value, in the order in which they are drawn from.
OPERATORS = ("=", "<", ">", "<=", ">=", "between")
_TESTS = {"is null": "IS NULL", "is not null": "IS NOT NULL"}


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
        literals = [self._literal(text) for text in self.texts]
        if self.operator == "between":
            return sql.SQL("{} BETWEEN {} AND {}").format(column, *literals)
        return sql.SQL("{} {} {}").format(column, sql.SQL(self.operator), *literals)

    def _literal(self, text: str) -> sql.Composable:
        literal = self.values.literal(text)
        if self.values.is_text and self.operator != "=":
            return sql.SQL('{} COLLATE "C"').format(literal)
        return literal


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
    def tail(self) -> sql.Composable:
        """FROM and WHERE."""
        aliases = self.tree.aliases
        return self.tree.tail([item.condition(aliases[item.table]) for item in self.predicates])

    @property
    def text(self) -> str:
        """The query's SQL, without a semicolon."""
        return _text("SELECT {} {}{}", self.head or sql.SQL("COUNT(*)"), self.tail, self.foot)

    @property
    def counting(self) -> str:
        """The SQL that counts the rows that the conditions leave."""
        return _text("SELECT pg_catalog.count(*) {}", self.tail)

    @property
    def probe(self) -> str:
        """The SQL that says whether the conditions leave a row."""
        return _text("SELECT EXISTS (SELECT 1 {})", self.tail)


def _text(form: str, *parts: sql.Composable) -> str:
    # Without a connection: the text is the same wherever it is made.
    return sql.SQL(form).format(*parts).as_string(None)
