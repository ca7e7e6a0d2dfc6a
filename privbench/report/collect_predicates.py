"""Conditions of queries on columns of single tables, split into predicates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from psycopg import sql
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import build_scope

from privbench.metrics.heatmap import Predicate
from privbench.pgsql.written import computes
from privbench.schema import Table
from privbench.workload.query import conjuncts, parse
from privbench.workload.rebind.columns import ODD, Tables, qualified

#: Most characters of a predicate that are shown.
_SHOWN = 80
_CAST = re.compile(r"CAST\(('[^']*') AS [A-Z ]+\)")


def predicates(text: str, tables: Tables) -> dict[str, list[Predicate]]:
    """The predicates of a query by table key: the parts of WHERE and ON that all have to hold.

    Only conditions without sub-queries that read columns of one table are taken. Where a table
    occurs twice, the occurrence with more predicates stands for it. A text that is not a plain
    SELECT has none.
    """
    tree = parse(text)
    if not isinstance(tree, exp.Select) or tree.args.get("with_"):
        return {}
    try:
        named = qualified(tree.copy(), tables)
        scope = build_scope(named)
    except (SqlglotError, RecursionError, *ODD):
        return {}
    sources = scope.sources.items() if scope else ()
    places = {
        alias: tables.named(source.name, source.db)
        for alias, source in sources
        if isinstance(source, exp.Table)
    }
    aliases = {alias: table for alias, table in places.items() if table is not None}
    found: dict[str, list[Predicate]] = {alias: [] for alias in aliases}
    for condition in _conditions(named):
        place = _predicate(condition, aliases)
        if place is not None:
            found[place[0]].append(place[1])
    best: dict[str, list[Predicate]] = {}
    for alias, held in found.items():
        key = aliases[alias].key
        if len(held) > len(best.get(key, [])):
            best[key] = held
    return best


def _conditions(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Conditions that every row of the answer meets: WHERE, and ON of inner joins."""
    where = tree.args.get("where")
    inner = [join for join in tree.args.get("joins") or [] if not join.args.get("side")]
    clauses = [where.this] if where else []
    for clause in [*clauses, *(join.args["on"] for join in inner if join.args.get("on"))]:
        yield from conjuncts(clause)


def _predicate(condition: exp.Expr, aliases: dict[str, Table]) -> tuple[str, Predicate] | None:
    """Alias and predicate, or None for a join or for what cannot be placed."""
    columns = list(condition.find_all(exp.Column))
    if not columns or condition.find(exp.Select, exp.AggFunc, exp.Star):
        return None
    alias = columns[0].table
    names = frozenset(column.name for column in columns)
    known = {column.name for column in aliases[alias].columns} if alias in aliases else set[str]()
    if any(column.table != alias for column in columns) or not names <= known:
        return None
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
