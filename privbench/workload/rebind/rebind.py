"""Bind the literals of a workload anew: from the values of users to those of synthetic rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from privbench.errors import UsageError
from privbench.pgsql import SqlError, statement
from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.capture.normal import bound as with_values
from privbench.workload.generators.rows import RowSource
from privbench.workload.query import Query, Workload, parse
from privbench.workload.rebind import neutral
from privbench.workload.rebind.choose import Chooser, Columns
from privbench.workload.rebind.columns import Resolver, Tables
from privbench.workload.rebind.marks import Mark, Marked, mark
from privbench.workload.rebind.server import Planner
from privbench.workload.rebind.sites import Site, sites
from privbench.workload.rebind.together import Join, together
from privbench.workload.safety import NONE, Trust, fault


@dataclass(frozen=True, slots=True)
class Bound:
    """What became of one query's literals.

    Attributes:
        query: The new query.
        drawn: How many literals were drawn from a column.
        kept: How many stayed, being structure: limits, positions, units, small numbers.
        neutral: How many met no column and are constants of their type now.
    """

    query: Query
    drawn: int
    kept: int
    neutral: int


@dataclass(frozen=True, slots=True)
class Rebinding:
    """A workload bound anew.

    Attributes:
        workload: The queries that could be bound.
        bound: One a query of the workload.
        left_out: Why, by the ids of the others.
    """

    workload: Workload
    bound: tuple[Bound, ...]
    left_out: dict[str, str]


class LeftOut(Exception):
    """A query cannot be bound; the message holds none of its text."""


def rebind(
    workload: Workload,
    schema: Schema,
    rows: RowSource,
    *,
    seed: int = 0,
    planner: Planner | None = None,
    trust: Trust = NONE,
) -> Rebinding:
    """Replace every literal and parameter of a workload.

    One that is compared with a column becomes a value of that column in a synthetic row; rows of
    tables that the query joins join too, where there are such. One that
    meets no column stays if it is on a list of structural constants, or becomes a neutral constant
    of its type. Names that a query gives itself (of tables, columns, WITH queries, windows) become
    ``n1``, ``n2``, …, but for short ones and usual words. Comments and stated answers are dropped.
    What cannot be bound is left out.

    Args:
        workload: Queries with the literals of users.
        schema: Of the clone.
        rows: Synthetic rows.
        seed: Of the draws.
        planner: The clone's server, which tells types and checks the new queries.
        trust: What the operator vouches for, of what the queries would run.

    Raises:
        UsageError: No query could be bound.
    """
    binder = _Binder(schema, Columns(rows), seed, planner, trust)
    bound: list[Bound] = []
    left_out: dict[str, str] = {}
    for query in workload:
        try:
            bound.append(binder.bind(query))
        except LeftOut as reason:
            left_out[query.id] = str(reason)
        except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
            # Of an odd text: no reason to lose the others. Its message may hold a literal.
            left_out[query.id] = f"it cannot be bound ({type(error).__name__})"
    if not bound:
        reasons = "; ".join(sorted(set(left_out.values()))[:3])
        raise UsageError(f"no query of the workload can be bound: {reasons}.")
    queries = tuple(item.query for item in bound)
    return Rebinding(Workload(workload.name, queries), tuple(bound), left_out)


class _Binder:
    def __init__(
        self,
        schema: Schema,
        columns: Columns,
        seed: int,
        planner: Planner | None,
        trust: Trust,
    ) -> None:
        self._schema = schema
        self._tables = Tables(schema)
        self._known = _names(schema)
        self._columns = columns
        self._seed = seed
        self._planner = planner
        self._trust = trust

    def bind(self, query: Query) -> Bound:
        """Bind one query.

        Raises:
            LeftOut: It cannot be bound.
        """
        marked = self._marked(query)
        found, joins = self._sites(marked)
        own = together(joins, self._columns.rows, generator(self._seed, "rebind joins", query.id))
        rng = generator(self._seed, "rebind", query.id)
        drawn = Chooser(self._columns, rng, own).choose(found)
        kept = {
            site.mark.number: text
            for site in found
            if site.mark.number not in drawn and (text := neutral.kept(site)) is not None
        }
        rest = [s for s in found if s.mark.number not in drawn and s.mark.number not in kept]
        types = self._types(marked, found, drawn | {n: [text] for n, text in kept.items()})
        constants = {s.mark.number: [self._constant(s, types)] for s in rest}
        values = drawn | {n: [text] for n, text in kept.items()} | constants
        text = marked.render(lambda one: _written(found[one.number], values[one.number], types))
        text = text.strip()
        self._sound(text)
        why = self._planner.fault(text) if self._planner else None
        if why is not None:
            raise LeftOut(f"the clone refuses it: {why}")
        if any(not neutral.tells_nothing(name) for name in marked.stayed - _types(marked)):
            raise LeftOut("it holds names that the schema does not have")
        made = Query(query.id, text, weight=query.weight)
        return Bound(made, len(drawn), len(kept), len(constants))

    def _marked(self, query: Query) -> Marked:
        try:
            marked = mark(query.sql, self._known)
            tree = parse(marked.text)
            if tree is not None:
                given = neutral.given_names(tree, self._known)
                marked = mark(query.sql, self._known, given, _called(marked.text))
        except (UsageError, SqlError) as error:
            raise LeftOut("it cannot be read") from error
        # Not the query's own text: the marks stand where PostgreSQL takes no parameter.
        self._sound(marked.text)
        return marked

    def _sound(self, text: str) -> None:
        """Refuse what no server shall see.

        Raises:
            LeftOut: It is no query, or does more than read.
        """
        try:
            why = fault(Query("", text), self._trust)
        except UsageError as error:
            raise LeftOut("it cannot be read") from error
        if why is not None:
            raise LeftOut(why)

    def _sites(self, marked: Marked) -> tuple[list[Site], list[Join]]:
        tree = parse(marked.text)
        if not isinstance(tree, exp.Query):
            raise LeftOut("it cannot be parsed")
        try:
            resolver = Resolver(tree, self._tables, marked.marks)
            missing = [name for name in resolver.tables() if isinstance(name, str)]
            found, joins = sites(tree, marked.marks, resolver), resolver.joins()
        except (SqlglotError, RecursionError) as error:
            raise LeftOut("its columns cannot be told") from error
        if missing and self._planner is None:
            raise LeftOut(f"the schema has no table {missing[0]}")
        return found, joins

    def _types(
        self, marked: Marked, found: Sequence[Site], settled: dict[int, list[str]]
    ) -> dict[int, str]:
        """Types of what is to be a constant, by the number of the mark, as the server infers them.

        None without a server, nor where a literal's type is written beside it.
        """
        asked = [
            site.mark.number
            for site in found
            if site.mark.number not in settled
            and site.role == "constant"
            and site.mark.kind in ("string", "parameter")
            and not site.cast
        ]
        if not asked or self._planner is None:
            return {}

        def put(one: Mark) -> str:
            if one.number in asked:
                return f"${asked.index(one.number) + 1}"
            site = found[one.number]
            return _written(site, settled.get(one.number) or [neutral.constant(site)], {})

        text = marked.render(put)
        self._sound(with_values(text, ["0"] * len(asked)))
        return dict(zip(asked, self._planner.types(text), strict=False))

    def _constant(self, site: Site, types: Mapping[int, str]) -> str:
        type_name = types.get(site.mark.number)
        name = type_name or site.cast
        labels = self._schema.enums.get(name) or self._schema.enums.get(f"public.{name}")
        return labels[0] if labels else neutral.constant(site, type_name)


def _written(site: Site, values: Sequence[str], types: Mapping[int, str]) -> str:
    """New values in the place of a literal."""
    bare = site.mark.kind == "parameter" and (
        site.counts or neutral.numeric(types.get(site.mark.number, ""))
    )
    return ", ".join(site.mark.written(value, bare=bare) for value in values)


def _called(text: str) -> set[str]:
    """Functions that a query calls, as PostgreSQL reads it."""
    tree = statement(text).tree
    return {node.names("funcname")[-1] for node in tree.walk() if node.kind == "FuncCall"}


def _types(marked: Marked) -> set[str]:
    """Types that a query names."""
    tree = parse(marked.text)
    return {node.sql("postgres").lower() for node in tree.find_all(exp.DataType)} if tree else set()


def _names(schema: Schema) -> Collection[str]:
    """Every name of the schema: it is published with the clone."""
    found = {"public", "pg_catalog", *schema.schemas, *schema.extensions}
    for table in schema:
        found |= {table.name.schema, table.name.name}
        found |= {column.name for column in table.columns}
        found |= {part.name for part in table.partitions}
    found |= {name.name for name in (*schema.views, *schema.materialized_views)}
    found |= {name.name for name in (sequence.name for sequence in schema.sequences)}
    return frozenset(found)
