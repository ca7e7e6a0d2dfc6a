"""Extract values from a CHECK's text, which a repair tries in rows that break the CHECK.

``(gross = (net + tax))`` gives ``(net + tax)`` for ``gross``. PostgreSQL's parser judges each value
(`privbench.pgsql.written`): it does no more than the CHECK and the columns' own expressions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from sqlglot import expressions as exp

from privbench.pgsql.expressions import bare, expression_tree
from privbench.pgsql.written import computes
from privbench.schema import Column, Table

#: Values of one column that are tried at most: half as many end some lists of labels too soon.
MOST = 16
#: A CHECK with more characters than this is not searched for values to try, as that takes time with
#: the square of its length. Lists of some hundred labels are shorter.
_READ = 20_000
_COMPARING = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.ArrayContainedBy, exp.ArrayContainsAll),
)
#: A step beyond an open bound, by category of the column's type.
_STEPS = {"N": "1", "D": "interval '1 day'", "T": "interval '1 hour'"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value to try in a row that breaks a CHECK."""

    column: str
    text: str  # SQL of the value
    reads: frozenset[str] = frozenset()  # columns that the value itself is computed from
    equal: bool = False  # whether the CHECK says that the column equals it


def values(
    table: Table, text: str, columns: Collection[str], stands_for: str | None = None
) -> list[Value]:
    """Return values to try in a row that breaks a CHECK, by column.

    ``text`` is the CHECK as the target's catalog prints it. In a domain's CHECK, VALUE means the
    column ``stands_for``.

    >>> from privbench.schema import Column, ColumnType, TableName
    >>> names = [Column(name, 1, ColumnType("integer", "int4", category="N")) for name in "abc"]
    >>> table = Table(TableName("public", "t"), tuple(names))
    >>> found = values(table, "((a = (b + c)) OR (a > 7))", ["a"])
    >>> [item.text for item in found][:3]
    ['(b + c)', '7', '(7) + 1']
    """
    tree = _parsed(text, stands_for)
    compared = list(_compared(tree, table))
    sources = [text, *(column.default for column in table.columns if column.default)]
    candidates: list[Value] = []
    for name in columns:
        own = [item for item in compared if item.column == name]
        own += _of_column(table.column(name))
        judged = (item for item in dict.fromkeys(own) if computes(item.text, sources))
        candidates += islice(judged, MOST)
    return candidates


def _parsed(text: str, stands_for: str | None) -> exp.Expr:
    """The tree of a CHECK, with a column in place of VALUE; NULL where sqlglot cannot read it."""
    tree = expression_tree(text) if len(text) <= _READ else None
    if tree is None:
        return exp.null()
    if stands_for is not None:
        for column in tree.find_all(exp.Column):
            column.set("this", exp.to_identifier(stands_for, quoted=True))
    return tree


def _of_column(column: Column) -> Iterator[Value]:
    """The default, truth values, an empty list."""
    plain = column.sequence is None and not column.generated
    texts = [column.default] if column.default and plain else []
    texts += {"bool": ["true", "false"], "jsonb": ["'[]'"]}.get(column.type.base, [])
    yield from (Value(column.name, text) for text in texts)


def _compared(tree: exp.Expr, table: Table) -> Iterator[Value]:
    """The other side of every comparison with a column; each item of a list."""
    known = {column.name: column for column in table.columns}
    for node in tree.find_all(*_COMPARING, bfs=False):
        for mine, other, less in ((node.left, node.right, exp.LT), (node.right, node.left, exp.GT)):
            side = bare(mine)
            column = known.get(side.name) if isinstance(side, exp.Column) else None
            if column is None:
                continue
            listed = bare(other.this) if isinstance(other, exp.Any) else None
            items = listed.expressions if isinstance(listed, exp.Array) else [other]
            for item in items:
                value = item.sql("postgres")
                named = {found.name for found in item.find_all(exp.Column)}
                reads = frozenset(named.intersection(known))
                equal = isinstance(node, exp.EQ) and listed is None
                yield Value(column.name, value, reads, equal)
                step = _STEPS.get(column.type.category)
                if isinstance(node, (exp.LT, exp.GT)) and step:
                    sign = "-" if isinstance(node, less) else "+"
                    yield Value(column.name, f"({value}) {sign} {step}", reads)
