"""What queries ask of the columns of single tables: their conditions, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

from psycopg import sql
from sqlglot import exp

from privbench.metrics.heatmap import Predicate
from privbench.pgsql.written import computes
from privbench.schema import Schema, Table
from privbench.workload.query import parse

#: Most characters of a predicate that are shown.
_SHOWN = 80
_CAST = re.compile(r"CAST\(('[^']*') AS [A-Z ]+\)")


def predicates(text: str, schema: Schema) -> dict[str, list[Predicate]]:
    """The predicates of a query by table: the parts of WHERE and ON that all have to hold.

    Only conditions without sub-queries that read columns of one table are taken. Where a table
    occurs twice, the occurrence with more predicates stands for it.

    Args:
        text: The query.
        schema: The source's schema, which says what the names mean.

    Returns:
        Table key to predicates; nothing for a text that is not a plain SELECT.
    """
    tree = parse(text)
    if not isinstance(tree, exp.Select) or tree.args.get("with_") or tree.args.get("with"):
        return {}
    aliases = dict(_aliases(tree, schema))
    found: dict[str, list[Predicate]] = {alias: [] for alias in aliases}
    for condition in _conditions(tree):
        place = _predicate(condition, aliases)
        if place is not None:
            found[place[0]].append(place[1])
    best: dict[str, list[Predicate]] = {}
    for alias, held in found.items():
        key = aliases[alias].key
        if len(held) > len(best.get(key, [])):
            best[key] = held
    return best


def _aliases(tree: exp.Select, schema: Schema) -> Iterator[tuple[str, Table]]:
    clause = tree.args.get("from_") or tree.args.get("from")
    joined = [join.this for join in tree.args.get("joins") or []]
    for table in [clause.this, *joined] if clause else []:
        if isinstance(table, exp.Table):
            known = [item for item in schema if _is(table, item)]
            if len(known) == 1:
                alias = table.args.get("alias")
                yield _name(alias.this if alias else table.this), known[0]


def _is(table: exp.Table, known: Table) -> bool:
    schema = table.args.get("db")
    if schema is not None and _name(schema) != known.name.schema:
        return False
    return _name(table.this) == known.name.name


def _name(found: exp.Expression) -> str:
    """An identifier as PostgreSQL folds it."""
    identifier = found.this if isinstance(found, exp.Column) else found
    text = identifier.name
    quoted = isinstance(identifier, exp.Identifier) and identifier.args.get("quoted")
    return text if quoted else text.lower()


def _conditions(tree: exp.Select) -> Iterator[exp.Expression]:
    """Conditions that every row of the answer meets: WHERE, and ON of inner joins."""
    where = tree.args.get("where")
    inner = [join for join in tree.args.get("joins") or [] if not join.args.get("side")]
    clauses = [where.this] if where else []
    for clause in [*clauses, *(join.args["on"] for join in inner if join.args.get("on"))]:
        yield from _parts(clause)


def _parts(condition: exp.Expression) -> Iterator[exp.Expression]:
    """The parts of a conjunction, brackets around them or not; a loop, since they may be many."""
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren):
            waiting.append(part.this)
        elif isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            yield part


def _predicate(
    condition: exp.Expression, aliases: dict[str, Table]
) -> tuple[str, Predicate] | None:
    """Alias and predicate, or None for a join or for what cannot be placed."""
    columns = list(condition.find_all(exp.Column))
    if not columns or condition.find(exp.Select, exp.AggFunc, exp.Star):
        return None
    owners = {_owner(column, aliases) for column in columns}
    alias = owners.pop()
    if owners or alias is None:
        return None
    names = frozenset(_name(column) for column in columns)
    bare = condition.copy()
    for column in list(bare.find_all(exp.Column)):
        for part in ("table", "db", "catalog"):
            column.set(part, None)
    text = bare.sql(dialect="postgres")
    if not computes(text, ()):
        return None
    return alias, Predicate(names, _shown(text), sql.SQL(text))


def _shown(text: str) -> str:
    """A condition for people: without casts of literals, and not too long."""
    plain = _CAST.sub(r"\1", text)
    return plain if len(plain) <= _SHOWN else f"{plain[: _SHOWN - 1]}…"


def _owner(column: exp.Column, aliases: dict[str, Table]) -> str | None:
    name = _name(column)
    if column.table:
        alias = _name(column.args["table"])
        return alias if alias in aliases and _has(aliases[alias], name) else None
    holders = [alias for alias, table in aliases.items() if _has(table, name)]
    return holders[0] if len(holders) == 1 else None


def _has(table: Table, name: str) -> bool:
    return any(column.name == name for column in table.columns)
