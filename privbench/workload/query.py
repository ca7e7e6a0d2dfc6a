"""Queries and workloads: the SQL texts, and properties that follow from the text alone."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, NamedTuple

from pydantic import Field, with_config
from sqlglot import exp

from privbench.pgsql.expressions import expression_tree


@with_config(extra="forbid", strict=True)
@dataclass(frozen=True, slots=True)
class WorkloadQuery:
    """One query of a workload; reading a file checks it by the types of these fields."""

    id: str  # unique within its workload; stable from one reading to the next
    sql: str  # the text exactly as given; this text is what runs
    # The answer that the workload's file states, where it states one.
    card: Annotated[int, Field(ge=0)] | None = None
    # How often it runs, in proportion to the others.
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    # The text with ``$1``, ``$2``, … in place of values, where it is known.
    template: str | None = None
    # The values in `sql` in the places of ``$1``, ``$2``, …, as PostgreSQL prints them; None for
    # NULL.
    parameters: tuple[str | None, ...] = ()
    draws: tuple[str, ...] = ()  # how pgbench draws each of them, ``name = expression``
    # ``file:line`` where it was read, for messages; in no file, and no part of the query.
    place: Annotated[str, Field(max_length=0)] = field(default="", compare=False)

    @property
    def facts(self) -> "QueryFacts":
        """Facts found from the text alone.

        >>> WorkloadQuery("q", "SELECT count(*) FROM a, b JOIN c USING (x) WHERE a.i = b.i").facts
        QueryFacts(tables=3, joins=2, limited=False)
        >>> WorkloadQuery("q", "WITH w AS (SELECT * FROM a) SELECT * FROM w LIMIT 9").facts
        QueryFacts(tables=1, joins=0, limited=True)
        """
        return _facts(self.sql)


class QueryFacts(NamedTuple):
    """What is found from a query's text; None where sqlglot cannot read it."""

    tables: int | None = None  # references each time they occur, but none to WITH queries
    joins: int | None = None  # of any form, also by comma
    limited: bool = False  # whether LIMIT or FETCH FIRST bounds the rows that it answers with


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Refusal:
    """A query that is not replayed, and why."""

    id: str
    place: str  # ``file:line``, where it is known
    reason: str  # why, a clause
    sql: str  # its text


@dataclass(frozen=True, slots=True)
class Workload:
    """A named list of queries in the order in which they run."""

    name: str  # what it is called in reports
    queries: tuple[WorkloadQuery, ...]  # their ids differ
    confidential: bool = False  # whether literals or answers come from private rows

    def __iter__(self) -> Iterator[WorkloadQuery]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def digest(self) -> str:
        """SHA-256 over ids and texts: two workloads with one digest run the same queries.

        Stated answers, weights and templates are not included, since they change no query that
        runs.
        """
        sha = hashlib.sha256()
        for query in self.queries:
            sha.update(f"{len(query.id)}:{query.id}{len(query.sql)}:{query.sql}".encode())
        return sha.hexdigest()


def united(workloads: Sequence[Workload]) -> Workload:
    """Join several workloads into one; if there are several, ids begin with the workload's name.

    Workloads of the same name are numbered. The result is confidential if one of them is.
    """
    if len(workloads) == 1:
        return workloads[0]
    names: list[str] = []
    for item in workloads:
        same = sum(name.partition("~")[0] == item.name for name in names)
        names.append(f"{item.name}~{same + 1}" if same else item.name)
    queries = (
        replace(query, id=f"{name}/{query.id}")
        for name, item in zip(names, workloads, strict=True)
        for query in item
    )
    return Workload(workloads[0].name, tuple(queries), any(item.confidential for item in workloads))


#: The syntax tree of one PostgreSQL statement, or None where sqlglot cannot read it.
parse = lru_cache(maxsize=4096)(expression_tree)


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the operands of AND, without parentheses; in a loop, since they may be many."""
    waiting = [condition] if condition is not None else []
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            yield part


@lru_cache(maxsize=4096)
def _facts(sql: str) -> QueryFacts:
    tree = parse(sql)
    if tree is None:
        return QueryFacts()
    named = {cte.alias for cte in tree.find_all(exp.CTE)}
    tables = sum(
        bool(table.name) and (bool(table.db) or table.name not in named)
        for table in tree.find_all(exp.Table)
    )
    count = [type(part.unalias()) for part in getattr(tree, "selects", ())] == [exp.Count]
    limited = tree.args.get("limit") is not None and not (count and not tree.args.get("group"))
    return QueryFacts(tables, len(list(tree.find_all(exp.Join))), limited)
