"""Conditions of queries on single tables, and the sets of a column's values that satisfy them.

Such a set consists of runs of places on the column's grid, or in its list, and NULL. A released
model holds cells, not values, so a condition has to be translated to compute its probability.
Comparisons with literals, IN, BETWEEN, IS NULL and what AND, OR and NOT make of them are read
exactly, with SQL's three truth values; any other condition is not read at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import build_scope

from privbench.encoding import Codec
from privbench.encoding.scale import Scale, scale_of
from privbench.pgsql.expressions import bare
from privbench.pgsql.written import computes
from privbench.schema import Table
from privbench.workload.query import conjuncts, parse
from privbench.workload.rebind.columns import ODD, Tables, qualified
from privbench_lab.heatmap.shares import END, FIRST, shares
from privbench_lab.heatmap.tree import Predicate

#: Most characters of a predicate that are shown.
_SHOWN = 80
_CAST = re.compile(r"CAST\(('[^']*') AS [A-Z ]+\)")

Runs = tuple[tuple[int, int], ...]
#: SQL's truth values, so that AND is the least, OR the greatest, and NOT 1 − x.
_TRUE, _UNKNOWN, _FALSE = 1.0, 0.5, 0.0
_ALL: Runs = ((FIRST, END),)
_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE,
    exp.EQ: exp.EQ, exp.NEQ: exp.NEQ,
}  # fmt: skip


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
    aliases = {
        alias: table
        for alias, source in sources
        if isinstance(source, exp.Table) and (table := tables.named(source.name, source.db))
    }
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


class _UnreadError(Exception):
    """The condition is of a kind that cannot be translated."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The places at which a condition holds, and whether it does for NULL."""

    runs: Runs  # half-open runs of places, ascending and separated
    null: float = _UNKNOWN  # the truth value of the condition for NULL

    def both(self, other: Truth) -> Truth:
        """AND."""
        cut = [
            (max(a, c), min(b, d))
            for a, b in self.runs
            for c, d in other.runs
            if max(a, c) < min(b, d)
        ]
        return Truth(_joined(cut), min(self.null, other.null))

    def either(self, other: Truth) -> Truth:
        """OR."""
        return Truth(_joined([*self.runs, *other.runs]), max(self.null, other.null))

    def negated(self) -> Truth:
        """NOT."""
        ends = [FIRST, *(end for run in self.runs for end in run), END]
        gaps = zip(ends[::2], ends[1::2], strict=True)
        return Truth(tuple((a, b) for a, b in gaps if a < b), _TRUE - self.null)


def weights(conditions: Iterable[str], codec: Codec) -> NDArray[np.float64] | None:
    """Weights of a column's codes, 0 to 1, under conditions that all have to hold.

    Conditions are SQL on that column alone, its name without the table's. None where one of them
    cannot be read, else shape (domain size,).
    """
    whole = Truth(_ALL, _TRUE)
    for text in conditions:
        tree = parse(f"SELECT 1 WHERE {text}")
        if tree is None:
            return None
        try:
            whole = whole.both(_truth(tree.args["where"].this, codec))
        except (_UnreadError, ValueError):
            return None
    return shares(codec, whole.runs, null=whole.null == _TRUE)


def _joined(runs: Iterable[tuple[int, int]]) -> Runs:
    found: list[tuple[int, int]] = []
    for first, end in sorted(runs):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return tuple(found)


def _truth(tree: exp.Expr, codec: Codec) -> Truth:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return _truth(tree.left, codec).both(_truth(tree.right, codec))
    if isinstance(tree, exp.Or):
        return _truth(tree.left, codec).either(_truth(tree.right, codec))
    if isinstance(tree, exp.Not):
        return _truth(tree.this, codec).negated()
    if isinstance(tree, exp.Column) and codec.type.base == "bool":
        return _compared(exp.EQ, "true", codec)
    if not _is_column(tree.this):  # ``5 < x``
        if type(tree) in _MIRROR and _is_column(tree.expression):
            return _compared(_MIRROR[type(tree)], _literal(tree.this), codec)
        raise _UnreadError
    if isinstance(tree, exp.Is):
        return _is(tree, codec)
    if isinstance(tree, exp.In):
        return _any([_literal(item) for item in tree.expressions], codec)
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        low, high = _literal(tree.args["low"]), _literal(tree.args["high"])
        return _compared(exp.GTE, low, codec).both(_compared(exp.LTE, high, codec))
    if type(tree) in _MIRROR:
        return _compared(type(tree), _literal(tree.expression), codec)
    raise _UnreadError


def _is(tree: exp.Is, codec: Codec) -> Truth:
    """``IS NULL`` and ``IS TRUE``; versions of sqlglot differ in where they write NOT."""
    said = tree.expression
    if isinstance(said, exp.Null):
        found = Truth((), _TRUE)
    elif isinstance(said, exp.Boolean):
        found = Truth(_compared(exp.EQ, str(said.this).lower(), codec).runs, _FALSE)
    else:
        raise _UnreadError
    return found.negated() if tree.args.get("negate") else found


def _any(values: list[str], codec: Codec) -> Truth:
    if not values:
        raise _UnreadError
    return Truth(_joined(run for text in values for run in _compared(exp.EQ, text, codec).runs))


def _is_column(tree: object) -> bool:
    return isinstance(tree, exp.Expr) and isinstance(tree.unnest(), exp.Column)


def _literal(tree: exp.Expr) -> str:
    """The text of a literal with its sign; casts are removed."""
    tree = bare(tree)
    if isinstance(tree, exp.Neg):
        return f"-{_literal(tree.this)}"
    if isinstance(tree, exp.Boolean):
        return str(tree.this).lower()
    if isinstance(tree, exp.Literal):
        return str(tree.this)
    raise _UnreadError


def _compared(kind: type[exp.Expr], text: str, codec: Codec) -> Truth:
    if kind is exp.NEQ:
        return _compared(exp.EQ, text, codec).negated()
    scale = scale_of(codec.type)
    if scale is not None:
        return Truth(_joined(_on_grid(kind, text, scale)))
    values = codec.listed
    if kind is exp.EQ and values is not None:
        padded = codec.type.base == "bpchar"
        known = [value.rstrip() if padded else value for value in values]
        return Truth(((known.index(text), known.index(text) + 1),) if text in known else ())
    # Texts compare by a collation, which only the server knows.
    raise _UnreadError


def _on_grid(kind: type[exp.Expr], text: str, scale: Scale) -> Iterator[tuple[int, int]]:
    """Grid points for which ``point <kind> literal``; a literal may lie between two points."""
    down, up = scale.parse(text), scale.parse(text, up=True)
    if kind is exp.EQ:
        if down == up:
            yield down, down + 1
    elif kind is exp.LT:
        yield FIRST, up
    elif kind is exp.LTE:
        yield FIRST, down + 1
    elif kind is exp.GT:
        yield down + 1, END
    else:
        yield up, END
