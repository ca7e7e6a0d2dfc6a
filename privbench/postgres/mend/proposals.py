"""Values that might keep a CHECK, read from the CHECK itself: tried where no row keeps it.

``gross = net + tax`` proposes ``net + tax`` for ``gross``; ``array_length(a, 1) = 3`` proposes
arrays of three; and a column's default is proposed for it. Nothing is known to be right: PostgreSQL
judges every proposal.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import expressions as exp

from privbench.pgsql.written import computes
from privbench.postgres.mend.parsed import parsed
from privbench.schema import ColumnType, Table

#: Proposals for one CHECK.
MOST = 48
#: Longest array that is proposed.
_LONGEST = 1000

_TURNED = {exp.LT: "- 1", exp.GT: "+ 1", exp.LTE: "", exp.GTE: "", exp.EQ: "", exp.Is: ""}
#: The same for times; PostgreSQL refuses what does not fit the type.
_DAYS = {exp.LT: "- interval '1 day'", exp.GT: "+ interval '1 day'"}
_OPPOSITE = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}
_DOCUMENTS = ("'{}'", "'[]'", "'[0]'", "'\"\"'", "'0'", "'true'")
_TEXTS = (
    "upper({0})",
    "lower({0})",
    "initcap({0})",
    "btrim({0})",
    "replace({0}, ' ', '')",
    "{0} || 'x'",
    "'x'",
)
_NUMBERS = ("abs({0})", "-{0}", "{0} + 1", "{0} - 1", "2 * {0}", "2 * {0} + 1")


def proposals(
    table: Table, expression: str, columns: tuple[str, ...], *, apart: bool = False
) -> list[tuple[str, str]]:
    """What to try: a column and the SQL expression that it might be set to.

    Args:
        table: The table.
        expression: The CHECK; in a domain's, ``VALUE`` stands for the first of `columns`.
        columns: Columns that may change.
        apart: Only what may keep different rows different: no constants.

    >>> from privbench.schema import Column, TableName
    >>> names = [Column(name, 1, ColumnType("integer", "int4")) for name in "ab"]
    >>> table = Table(TableName("public", "t"), tuple(names))
    >>> proposals(table, "(a = (b + 1))", ("a",))[0]
    ('a', '(b + 1)')
    """
    tree = parsed(expression)
    if tree is None:
        return []
    if columns:
        tree = tree.transform(_named, columns[0])
    found = [*_compared(tree, columns), *_literal(tree, columns)]
    words = [node.this for node in tree.find_all(exp.Literal) if node.is_string]
    literals = [node.this for node in tree.find_all(exp.Literal) if not node.is_string]
    sizes = [int(text) for text in literals if text.isdigit()]
    for name in columns:
        column = table.column(name)
        if column.default is not None and column.sequence is None and not column.generated:
            found.append((name, column.default))
        if column.type.category == "A":
            found += [(name, text) for text in _parts(tree)]
        found += [(name, text) for text in _of_type(column.type, name, sizes, words)]
    if apart:
        found = [(name, text) for name, text in found if _speaks_of(text, name)]
    sources = [expression, *(column.default for column in table.columns if column.default)]
    few = list(dict.fromkeys(found))[:MOST]
    return [(name, text) for name, text in few if computes(text, sources)]


def _speaks_of(text: str, name: str) -> bool:
    """Whether an expression reads a column, which the catalog quotes only where it must."""
    tree = parsed(text)
    return tree is not None and any(item.name == name for item in tree.find_all(exp.Column))


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="postgres")


def _named(node: exp.Expr, column: str) -> exp.Expr:
    """The column that a domain's VALUE stands for."""
    if isinstance(node, exp.Column) and node.name.upper() == "VALUE" and not node.this.quoted:
        return exp.column(exp.to_identifier(column, quoted=True))
    return node


def _compared(tree: exp.Expr, columns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The other side of every comparison with a column."""
    for node in tree.find_all(*_TURNED):
        kind = type(node)
        for mine, other, how in (
            (node.left, node.right, kind),
            (node.right, node.left, _OPPOSITE.get(kind, kind)),
        ):
            text = other.sql(dialect="postgres")
            name = _column(mine)
            if name in columns:
                yield name, f"{text} {_TURNED[how]}".strip()
                if how in _DAYS:
                    yield name, f"{text} {_DAYS[how]}"
            yield from _solved(mine, text, columns)


def _solved(tree: exp.Expr, value: str, columns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A sum that is to have a value, solved for each of its columns: ``a + b = c``."""
    terms = list(_terms(tree, ""))
    for place, (sign, term) in enumerate(terms):
        name = _column(term)
        if len(terms) > 1 and name in columns:
            rest = " ".join(
                f"{'+' if other else '-'} ({text.sql(dialect='postgres')})"
                for number, (other, text) in enumerate(terms)
                if number != place
            )
            yield name, f"{sign}(({value}) {rest})"


def _terms(tree: exp.Expr, sign: str) -> Iterator[tuple[str, exp.Expr]]:
    """The terms of a sum, each with ``-`` where it is taken away."""
    tree = tree.unnest()
    if isinstance(tree, (exp.Add, exp.Sub)):
        yield from _terms(tree.left, sign)
        turned = isinstance(tree, exp.Sub)
        yield from _terms(tree.right, ("" if sign else "-") if turned else sign)
    else:
        yield sign, tree


def _parts(tree: exp.Expr) -> Iterator[str]:
    """Arrays that a CHECK speaks of, and their beginnings."""
    for node in tree.find_all(exp.Array):
        text = node.sql(dialect="postgres")
        size = f"1 + floor(random() * {max(len(node.expressions), 1)})::int"
        yield from (f"({text})[1:{size}]", text)


def _column(tree: exp.Expr) -> str | None:
    tree = tree.unnest()
    while isinstance(tree, exp.Cast):
        tree = tree.this.unnest()
    return tree.name if isinstance(tree, exp.Column) else None


def _literal(tree: exp.Expr, columns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every literal, for every column."""
    for node in tree.find_all(exp.Literal):
        for name in columns:
            yield name, node.sql(dialect="postgres")


def _fields(words: list[str]) -> Iterator[str]:
    """Fields of documents: all that a CHECK names, then one with each other word as its value."""
    texts = [exp.Literal.string(word).sql(dialect="postgres") for word in dict.fromkeys(words)]
    for value in ("'x'", "1", "true"):
        if texts:
            yield ", ".join(f"{text}, {value}" for text in texts)
    yield from (f"{key}, {value}" for key in texts[:4] for value in texts if value != key)


def _of_type(type_: ColumnType, name: str, sizes: list[int], words: list[str]) -> Iterator[str]:
    """Simple values of the type, and simple changes."""
    column = _quoted(name)
    if type_.category == "A":
        for size in dict.fromkeys((*sizes, 1, 2, 0)):
            if size > _LONGEST:
                continue
            yield f"array_fill({column}[1], ARRAY[{size}])"
    elif type_.base in ("json", "jsonb"):
        yield from _DOCUMENTS
        yield from (f"{type_.base}_build_object({pairs})" for pairs in _fields(words))
    elif type_.base == "bytea":
        for size in (size for size in sizes if size <= _LONGEST):
            yield f"substring(sha256({column}) || repeat('x', {size})::bytea from 1 for {size})"
    elif type_.category == "S":
        yield from (text.format(column) for text in _TEXTS)
        short = [size for size in sizes if size <= _LONGEST]
        yield from (f"left({column}, {size})" for size in short)
        yield from (f"rpad({column}, {size}, 'x')" for size in short)
    elif type_.category == "N":
        yield from (text.format(column) for text in _NUMBERS)
        yield from (f"{column} * {size}" for size in sizes if size)
        yield from (f"{column} - {column} % {size}" for size in sizes if size)
    elif type_.kind == "e":
        yield from (exp.Literal.string(label).sql(dialect="postgres") for label in type_.labels)
