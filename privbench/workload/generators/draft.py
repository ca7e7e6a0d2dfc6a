"""A generated query before it becomes text: joined tables, values, predicates, output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from psycopg import sql

from privbench.arrays import Rng
from privbench.encoding.surrogate_text import words
from privbench.limits import Element
from privbench.postgres.connect import SELECT
from privbench.postgres.statement import build
from privbench.schema import Column, ForeignKey, Schema, Table

#: One row of a table, by column: the values as PostgreSQL prints them, None for NULL.
RowTexts = dict[str, str | None]

#: Types whose values are printed in ISO format, whatever the session's DateStyle.
DATES = frozenset({"date", "timestamp", "timestamptz"})
_WHOLE = frozenset({"int2", "int4", "int8", "date"})
# Types whose texts sort as their values do.
_ORDERED = DATES | {"int2", "int4", "int8", "numeric", "float4", "float8", "time"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
# Most characters of a literal; longer values would make queries unreadable.
_LONGEST = 64
# Least share and number of sampled texts that match a pattern.
_SHARE, _LEAST = 0.02, 5
# Beyond this many distinct values in the sample an equality hardly ever holds on a clone.
_FEW = 64


@dataclass(frozen=True, slots=True)
class ColumnSample:
    """Values of one column, from which literals are taken."""

    column: Column
    # One text for each sampled row, in no order; None for NULL.
    texts: tuple[str | None, ...]
    ordered: bool  # whether ranges make sense
    few: bool  # whether equality makes sense on another database of the same distribution
    patterns: tuple[str, ...] = ()  # of LIKE, ``word%`` and ``%word%``, that many texts match

    @classmethod
    def of(cls, column: Column, texts: Sequence[str | None]) -> ColumnSample:
        """Return the sample of a column, with what its values are good for."""
        known = {text for text in texts if text is not None}
        few = 0 < len(known) <= _FEW and 2 * len(known) <= max(len(texts), 2)
        few &= len(max(known, key=len, default="")) <= _LONGEST
        patterns = _patterns(texts) if column.type.category == "S" and not few else ()
        return cls(column, tuple(texts), column.type.base in _ORDERED, few, patterns)

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers or days, for which equality makes sense."""
        return self.column.type.base in _WHOLE

    @property
    def is_text(self) -> bool:
        """Whether the values are strings."""
        return self.column.type.category == "S"

    def place(self, text: str) -> tuple[float, str]:
        """Return a sort key for a value in the column's order; strings sort by code points."""
        return (float(text), "") if self.column.type.category == "N" else (0.0, text)

    def literal(self, text: str) -> sql.Composable:
        """Return the text, or its beginning, as a literal of the column's type."""
        if self.column.type.category == "N" and _NUMBER.match(text):
            return sql.SQL(text)
        if self.column.type.category == "D":
            return build("{}::{}", sql.Literal(text), sql.SQL(self.column.type.sql))
        return sql.Literal(text[:_LONGEST])


def _patterns(texts: Sequence[str | None]) -> tuple[str, ...]:
    """Patterns of frequent words, but for those that fill texts."""
    some, filler = [text for text in texts if text], frozenset(words())
    least = max(_SHARE * len(some), _LEAST)
    frequencies = Counter(word for text in some for word in {text[0], *text.split()} - filler)
    plain = [
        word for word, rows in frequencies.items() if rows >= least and not {*word} & {*"%_\\"}
    ]
    patterns = [one for word in sorted(plain) for one in (f"{word}%", f"%{word}%")[: len(word)]]
    return tuple(one for one in patterns if sum(matches(one, text) for text in some) >= least)


def matches(pattern: str, text: str) -> bool:
    """Return whether a text matches one of `ColumnSample.patterns`."""
    return pattern[1:-1] in text if pattern[0] == "%" else text.startswith(pattern[:-1])


def judged(table: Table, rows: Sequence[RowTexts]) -> list[ColumnSample]:
    """Return the columns of a table that predicates may use, with their values in some rows.

    Keys and columns of composite types are left out.
    """
    keys = table.key_columns | set(table.primary_columns)
    keys |= {unique.columns[0] for unique in table.unique_sets if len(unique.columns) == 1}
    samples = [
        ColumnSample.of(column, [row[column.name] for row in rows])
        for column in table.columns
        if column.name not in keys and (column.type.category in "NDTBS" or column.type.kind == "e")
    ]
    suited = [values for values in samples if values.ordered or values.few or values.patterns]
    return [values for values in suited if any(text is not None for text in values.texts)]


def pick(items: Sequence[Element], rng: Rng) -> Element:
    """Return a random item."""
    return items[int(rng.integers(len(items)))]


#: Operators that take a value, in the fixed order from which they are drawn.
OPERATORS = ("=", "<", ">", "<=", ">=", "between", "like", "ilike")


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables joined by foreign keys."""

    tables: tuple[Table, ...]  # in the order in which they were reached
    # ``edges[i]`` is the key by which ``tables[i + 1]`` was reached from an earlier table, with the
    # places of the referencing and of the referenced table.
    edges: tuple[tuple[ForeignKey, int, int], ...] = ()

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
    def links(self) -> list[tuple[tuple[int, str], tuple[int, str]]]:
        """The columns that the joins set equal, those of the child first."""
        return [
            ((child, column), (parent, target))
            for key, child, parent in self.edges
            for column, target in zip(key.columns, key.ref_columns, strict=True)
        ]


def draw(schema: Schema, joins: int, rng: Rng, *, repeats: bool = False) -> JoinTree:
    """Draw connected tables: start at a random one and follow random foreign keys to new ones.

    Fewer than ``joins`` keys are followed if the schema has no more. Without ``repeats`` each table
    occurs once. With ``repeats`` each key is followed at most once, and always adds an occurrence
    of a table, which may be in the tree already: a post with its owner and its editor has users
    twice, and self-references are followed too.
    """
    graph = [
        key
        for table in schema
        for key in table.foreign_keys
        # The join along a key that leads to several tables would have to name the type.
        if key.ref_table in schema and (repeats or not key.is_self) and key.when is None
    ]
    ends = {name for key in graph for name in (key.table, key.ref_table)}
    starts = [table for table in schema if joins == 0 or table.name in ends]
    tables = [pick(starts or list(schema), rng)]
    edges: list[tuple[ForeignKey, int, int]] = []
    while len(edges) < joins and (steps := _steps(graph, tables, edges, repeats)):
        key, child, parent = pick(steps, rng)
        new = key.table if child == len(tables) else key.ref_table
        edges.append((key, child, parent))
        tables.append(schema.table(new))
    return JoinTree(tuple(tables), tuple(edges))


def _steps(
    graph: list[ForeignKey],
    tables: list[Table],
    edges: list[tuple[ForeignKey, int, int]],
    repeats: bool,
) -> list[tuple[ForeignKey, int, int]]:
    """The edges, in either direction, that lead from a table of the tree to one more table."""
    present, used = {table.name for table in tables}, {key for key, _, _ in edges}
    new = len(tables)
    steps = []
    for key in graph:
        if key in used if repeats else {key.table, key.ref_table} <= present:
            continue
        for place, table in enumerate(tables):
            if table.name == key.table:
                steps.append((key, place, new))
            if table.name == key.ref_table:
                steps.append((key, new, place))
    return steps


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on one column."""

    table: int  # place of the column's table in the tree
    values: ColumnSample  # the column
    operator: str  # one of `OPERATORS`, or ``is null`` or ``is not null``
    # Its literals: two for ``between``, none for tests for NULL, else one.
    texts: tuple[str, ...] = ()

    def condition(self, alias: str) -> sql.Composable:
        """Return the condition on the table under that alias.

        Strings are ordered by code points.
        """
        by_code = self.values.is_text and self.texts and self.operator != "="
        form: LiteralString = '{} COLLATE "C"' if by_code else "{}"
        column = build(form, sql.Identifier(alias, self.values.column.name))
        literals = [sql.SQL(" AND ").join(map(self.values.literal, self.texts))][: len(self.texts)]
        return sql.SQL(" ").join([column, sql.SQL(self.operator.upper()), *literals])


@dataclass(frozen=True, slots=True)
class QueryDraft:
    """A query to be written."""

    tree: JoinTree  # its tables and joins
    predicates: tuple[Predicate, ...]  # all of which hold
    head: sql.Composable | None = None  # the select list; None: COUNT(*)
    foot: sql.Composable = field(default_factory=lambda: sql.SQL(""))  # what follows WHERE

    @property
    def text(self) -> str:
        """Return the query's SQL, without a semicolon."""
        head = self.head or sql.SQL("COUNT(*)")
        # No connection is passed, so that the text does not depend on a server's settings.
        return build("SELECT {} {}{}", head, self._tail, self.foot).as_string(None)

    def counting(self, enough: int | None = None) -> str:
        """Return SQL that counts the rows that satisfy the conditions, up to ``enough`` of them."""
        limit = sql.SQL("" if enough is None else " LIMIT {}").format(sql.Literal(enough))
        rest = sql.SQL("pg_catalog.count(*) FROM (SELECT 1 {}{}) AS found")
        return (SELECT + rest.format(self._tail, limit)).as_string(None)

    @property
    def _tail(self) -> sql.Composable:
        """FROM and WHERE: the tables under their aliases, their joins and the predicates."""
        aliases = self.tree.aliases
        named = zip(self.tree.tables, aliases, strict=True)
        tables = [build("{} AS {}", table.name, alias) for table, alias in named]
        joins = [
            sql.SQL(" = ").join(sql.Identifier(aliases[place], name) for place, name in link)
            for link in self.tree.links
        ]
        conditions = [*joins, *(item.condition(aliases[item.table]) for item in self.predicates)]
        where = sql.SQL(" WHERE ") if conditions else sql.SQL("")
        return build("FROM {}{}{}", tables, where, sql.SQL(" AND ").join(conditions))
