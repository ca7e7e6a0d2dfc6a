"""Replace the literals of a workload, which are values of users, by values of synthetic rows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq
from sqlglot import exp
from sqlglot.errors import SqlglotError

from privbench.errors import UsageError
from privbench.limits import Element
from privbench.pgsql import SqlError, statement
from privbench.pgsql.judge import NotAllowed
from privbench.postgres.connect import Connection
from privbench.postgres.failures import describe
from privbench.postgres.reading import assignment, users_path
from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload.capture.gather import bound as with_values
from privbench.workload.generators.rows import RowSource
from privbench.workload.query import Workload, WorkloadQuery, parse
from privbench.workload.rebind import neutral
from privbench.workload.rebind.choose import Chooser, together
from privbench.workload.rebind.columns import ODD, Operand, Resolver, Tables
from privbench.workload.rebind.literal_marks import LiteralMark, Marked, mark
from privbench.workload.rebind.literal_roles import Site, sites
from privbench.workload.safety import NONE, Trust, fault


@dataclass(frozen=True, slots=True)
class Rebinding:
    """A workload with new literals."""

    workload: Workload  # the queries whose literals could be replaced
    # By id of such a query, how many of its literals were ``drawn`` from a column, stayed (were
    # ``kept``, as limits, positions, units and small numbers are) or became ``neutral`` constants
    # of their type, as they are compared with no column.
    literals: dict[str, Counter[str]]
    left_out: dict[str, str]  # for each query that was left out: its id and the reason


class Planner:
    """Checks queries on the clone's server without running them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._path = users_path(connection)

    def types(self, text: str) -> list[str]:
        """Return the types of ``$1``, ``$2``, … as the server infers them.

        Empty where it cannot.
        """
        try:
            oids = self._safely(lambda: self._described(text))
        except psycopg.Error:
            return []
        rows = self._connection.execute(
            "SELECT pg_catalog.format_type(o.oid, NULL)"
            " FROM pg_catalog.unnest(%s::pg_catalog.oid[]) WITH ORDINALITY AS o(oid, place)"
            " ORDER BY o.place",
            [oids],
        )
        return [str(name) for (name,) in rows.fetchall()]

    def fault(self, text: str) -> str | None:
        """Return why the server would not run a query, in words without literals.

        None if it would.
        """
        try:
            self._safely(lambda: self._connection.execute(f"EXPLAIN {text}".encode()))
        except psycopg.Error as error:
            return describe(error)
        return None

    def _described(self, text: str) -> list[int]:
        """Type OIDs of the statement's parameters, by an unnamed prepared statement."""
        server = self._connection.pgconn
        for result in (server.prepare(b"", text.encode()), server.describe_prepared(b"")):
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise psycopg.errors.error_from_result(result)
        return [result.param_type(place) for place in range(result.nparams)]

    def _safely(self, ask: Callable[[], Element]) -> Element:
        with self._connection.transaction(force_rollback=True):
            self._connection.execute(assignment("search_path", self._path))
            return ask()


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

    A literal that is compared with a column becomes a value of that column in a synthetic row. If
    the query joins tables, the rows are chosen so that they join, if there are such rows. A literal
    that is compared with no column stays if it is on a list of structural constants, and otherwise
    becomes a neutral constant of its type. Names that a query itself defines (of tables, columns,
    WITH queries, windows) become ``n1``, ``n2``, …, except short names, common words and key words
    of SQL. Comments and stated answers are dropped. Queries that cannot be bound are left out; a
    UsageError is raised if no query can be bound.

    ``schema`` and ``rows`` are those of the clone. The clone's server, if ``planner`` is given,
    resolves types and checks the new queries.
    """
    binder = _Binder(schema, Tables(schema), Chooser(rows), seed, planner, trust)
    bound: list[WorkloadQuery] = []
    literals: dict[str, Counter[str]] = {}
    left_out: dict[str, str] = {}
    for query in workload:
        try:
            made, literals[query.id] = binder.bind(query)
            bound.append(made)
        except NotAllowed as reason:
            left_out[query.id] = str(reason)
        except ODD as error:
            # An unusual text should not stop the others. The error's message may hold a literal, so
            # only its type is shown.
            left_out[query.id] = f"it cannot be bound ({type(error).__name__})"
    if not bound:
        reasons = "; ".join(sorted(set(left_out.values()))[:3])
        raise UsageError(f"no query of the workload can be bound: {reasons}.")
    return Rebinding(Workload(workload.name, tuple(bound)), literals, left_out)


@dataclass(frozen=True, slots=True)
class _Binder:
    """Binds one query after another; see `rebind`."""

    schema: Schema
    tables: Tables
    chooser: Chooser
    seed: int
    planner: Planner | None
    trust: Trust

    def bind(self, query: WorkloadQuery) -> tuple[WorkloadQuery, Counter[str]]:
        """Bind one query; see `Rebinding`."""
        marked, tree = self._marked(query)
        sites_found, joins = self._sites(marked, tree)
        own = together(joins, self.chooser.rows, generator(self.seed, "rebind joins", query.id))
        rng = generator(self.seed, "rebind", query.id)
        drawn = self.chooser.choose(sites_found, own, rng)
        unchanged = {
            site.mark.number: [text]
            for site in sites_found
            if site.mark.number not in drawn and (text := neutral.kept(site)) is not None
        }
        settled = drawn | unchanged
        types = self._types(marked, sites_found, settled)
        constants = {
            site.mark.number: [self._constant(site, types)]
            for site in sites_found
            if site.mark.number not in settled
        }
        values = settled | constants
        text = marked.render(
            lambda one: _written(sites_found[one.number], values[one.number], types)
        )
        text = text.strip()
        self._sound(text)
        why = self.planner.fault(text) if self.planner else None
        if why is not None:
            raise NotAllowed(f"the clone refuses it: {why}")
        named = {node.sql("postgres").lower() for node in tree.find_all(exp.DataType)}
        if any(not neutral.tells_nothing(name) for name in marked.stayed - named):
            raise NotAllowed("it holds names that the schema does not have")
        rebound = WorkloadQuery(query.id, text, weight=query.weight)
        return rebound, Counter(drawn=len(drawn), kept=len(unchanged), neutral=len(constants))

    def _marked(self, query: WorkloadQuery) -> tuple[Marked, exp.Query]:
        """The query with marks and neutral names, and its tree."""
        try:
            marked = mark(query.sql, self.tables.names)
            tree = parse(marked.text)
            if tree is not None:
                defined = neutral.given_names(tree, self.tables.names)
                nodes = statement(marked.text).tree.walk()
                called = {n.names("funcname")[-1] for n in nodes if n.kind == "FuncCall"}
                marked = mark(query.sql, self.tables.names, defined, called)
        except SqlError as error:
            raise NotAllowed("it cannot be read") from error
        # The marked text is checked, not the query's own, which may have parameters in places where
        # PostgreSQL takes none.
        self._sound(marked.text)
        tree = parse(marked.text)
        if not isinstance(tree, exp.Query):
            raise NotAllowed("it cannot be parsed")
        return marked, tree

    def _sound(self, text: str) -> None:
        """Refuse a text that must not be sent to any server."""
        why = fault(text, self.trust)
        if why is not None:
            raise NotAllowed(why)

    def _sites(
        self, marked: Marked, tree: exp.Query
    ) -> tuple[list[Site], list[tuple[Operand, Operand]]]:
        try:
            resolver = Resolver(tree, self.tables, marked.marks)
            missing = resolver.unknown()
            placed, joins = sites(tree, resolver), resolver.joins()
        except (SqlglotError, RecursionError) as error:
            raise NotAllowed("it is not clear which columns it names") from error
        if missing and self.planner is None:
            raise NotAllowed(f"the schema has no table {missing}")
        return placed, joins

    def _types(
        self, marked: Marked, sites: Sequence[Site], settled: dict[int, list[str]]
    ) -> dict[int, str]:
        """Types that the server infers for literals that become constants, by number of mark."""
        numbers = [
            site.mark.number
            for site in sites
            if site.mark.number not in settled
            and site.role == "constant"
            and site.mark.kind in ("string", "parameter")
            and not site.cast
        ]
        if not numbers or self.planner is None:
            return {}

        def put(one: LiteralMark) -> str:
            if one.number in numbers:
                return f"${numbers.index(one.number) + 1}"
            site = sites[one.number]
            return _written(site, settled.get(one.number) or [neutral.constant(site)], {})

        text = marked.render(put)
        self._sound(with_values(text, ["0"] * len(numbers)))
        return dict(zip(numbers, self.planner.types(text), strict=False))

    def _constant(self, site: Site, types: Mapping[int, str]) -> str:
        type_name = types.get(site.mark.number)
        name = type_name or site.cast
        labels = self.schema.enums.get(name) or self.schema.enums.get(f"public.{name}")
        return labels[0] if labels else neutral.constant(site, type_name)


def _written(site: Site, values: Sequence[str], types: Mapping[int, str]) -> str:
    """The SQL text that replaces a literal by new values."""
    number = site.counts or neutral.numeric(types.get(site.mark.number, ""))
    bare = site.mark.kind == "parameter" and number
    return ", ".join(site.mark.written(value, bare=bare) for value in values)
