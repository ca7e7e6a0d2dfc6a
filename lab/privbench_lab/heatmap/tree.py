"""A small circuit of a table, for the query heat map.

The structure is learned from the source's codes like that of a sum-product network: a product node
separates groups of columns that are not associated; if all columns are associated, a sum node
splits the rows by the condition with the highest mutual information with the other columns.
Conditions are plain SQL, so that each database routes and counts its own rows. All of this reads
the source: CONFIDENTIAL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from privbench.arrays import Floats
from privbench.learning.information import mutual_information
from privbench.metrics import canon
from privbench.metrics.correlation import cramers_v
from privbench.metrics.fidelity import CodedColumn
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.postgres.statement import source as from_table
from privbench.schema import Table

#: Columns whose Cramér's V is larger are associated.
DEPENDENT = 0.1
#: Most sum nodes on a path; and the least share of the rows below a child of a sum node.
_SUMS, _LEAST = 2, 0.05
#: Most rows from which the structure is learned; and most places where a column may be split.
_ROWS, _CUTS = 50_000, 16

Kind = Literal["sum", "product", "leaf"]
Codes = Sequence[NDArray[np.unsignedinteger]]


@dataclass(frozen=True, slots=True)
class Split:
    """A condition on one column that routes rows; a row with NULL does not satisfy it."""

    column: CodedColumn
    code: int  # the code it compares with; 0 stands for the condition IS NOT NULL
    # Whether the condition is equality with the code, instead of at least the code.
    equal: bool = False

    def holds(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        """Which of these codes satisfy the condition."""
        return np.asarray(codes == self.code if self.equal else codes >= max(self.code, 1))

    @property
    def value(self) -> str:
        """The value or bound, as text."""
        edges = self.column.plan.edges
        return edges[self.code - 2] if edges else self.column.labels[self.code - 1]

    def condition(self, holds: bool) -> sql.Composable:
        """The condition, or its negation, as SQL with the bare column name; it is never NULL."""
        column = self.column.plan.column
        name, order = sql.Identifier(column.name), canon.order_type(column)
        if self.code == 0:
            return sql.SQL("{} IS NOT NULL" if holds else "{} IS NULL").format(name)
        if self.equal or order is None:
            text = canon.text(column, name)
            test = build("({} = {})", text, sql.Literal(self.value))
        else:
            value, kind = canon.canonical(column, name), sql.SQL(canon.SQL_NAMES[order])
            test = build("({} >= {}::{})", value, sql.Literal(self.value), kind)
        return sql.SQL("{} IS TRUE" if holds else "{} IS NOT TRUE").format(test)

    def text(self, holds: bool) -> str:
        """The condition, or its negation, in words."""
        name = self.column.name
        if self.code == 0:
            return f"{name} is {'not ' if holds else ''}NULL"
        signs = ("=", "≠") if self.equal else ("≥", "<")
        return f"{name} {signs[not holds]} {self.value.removesuffix('T00:00:00')}"


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the circuit."""

    kind: Kind  # sum, product or leaf
    parent: int | None  # place of its parent; None for the root
    columns: tuple[str, ...]  # names of the columns in its scope
    # SQL conditions that a row has to meet from the root on, with bare column names, never NULL.
    route: tuple[sql.Composable, ...]
    when: str  # the last condition of the route in words, if the parent is a sum node
    # In a model's circuit, by column, the codes that rows routed to the node may have; columns that
    # are missing here may have any code.
    codes: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)


class Place(NamedTuple):
    """The place of a new node in the circuit; see `Node` for the fields."""

    parent: int | None = None
    route: tuple[sql.Composable, ...] = ()
    when: str = ""
    codes: Mapping[str, NDArray[np.bool_]] = MappingProxyType({})
    depth: int = 0  # sum nodes above it


class Grower:
    """Adds nodes from the root down."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, kind: Kind, columns: tuple[str, ...], at: Place) -> Place:
        """Add a node; gives the place of its children."""
        self.nodes.append(Node(kind, at.parent, columns, at.route, at.when, at.codes))
        return at._replace(parent=len(self.nodes) - 1, when="")


def learn(columns: Sequence[CodedColumn]) -> list[Node]:
    """The circuit of one or more columns by the source's codes; parents before their children."""
    rows = len(columns[0].real)
    step = max(1, rows // _ROWS)
    learner = _Learner(columns, [column.real[::step] for column in columns])
    every = np.arange(len(learner.codes[0]))
    learner.grow(every, tuple(range(len(columns))), Place())
    return learner.nodes


class _Learner(Grower):
    """Learns the circuit of some columns from codes."""

    def __init__(self, columns: Sequence[CodedColumn], codes: Codes) -> None:
        super().__init__()
        self.columns, self.codes = columns, codes
        # Codes that only the clone has are removed, to save memory.
        compact = [np.unique(column, return_inverse=True) for column in codes]
        self.occurring = [codes for codes, _ in compact]
        self.places = [place for _, place in compact]

    def grow(self, rows: NDArray[np.intp], scope: tuple[int, ...], at: Place) -> None:
        """Add the node over some rows and columns, and all that is below it."""
        groups = self._groups(rows, scope)
        splits = len(groups) == 1 < len(scope) and at.depth < _SUMS
        split = self._split(rows, scope) if splits else None
        kind: Kind = "leaf" if len(scope) == 1 else "product" if split is None else "sum"
        below = self.add(kind, tuple(self.columns[i].name for i in scope), at)
        if split is not None:
            number, cut = split
            held = cut.holds(self.codes[number][rows])
            for side in (False, True):
                route = (*at.route, cut.condition(side))
                inside = Place(below.parent, route, cut.text(side), depth=at.depth + 1)
                self.grow(rows[held == side], scope, inside)
        elif kind == "product":
            for group in groups if len(groups) > 1 else [(column,) for column in scope]:
                self.grow(rows, group, below)

    def _groups(self, rows: NDArray[np.intp], scope: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Groups of columns; columns of different groups are not associated."""
        groups = [{column} for column in scope]
        for place, one in enumerate(scope):
            for other in scope[:place]:
                if cramers_v(self.places[one][rows], self.places[other][rows]) > DEPENDENT:
                    joined = [group for group in groups if group & {one, other}]
                    groups = [group for group in groups if group not in joined]
                    groups.append(set().union(*joined))
        return sorted(tuple(sorted(group)) for group in groups)

    def _split(self, rows: NDArray[np.intp], scope: tuple[int, ...]) -> tuple[int, Split] | None:
        """The condition with the highest mutual information with the other columns."""
        best: tuple[float, int, Split] | None = None
        for number in scope:
            tables = [
                _contingency(
                    self.places[number][rows],
                    self.places[other][rows],
                    (len(self.occurring[number]), len(self.occurring[other])),
                )
                for other in scope
                if other != number
            ]
            counts = np.zeros(self.columns[number].size)
            counts[self.occurring[number]] = tables[0].sum(axis=1)
            for cut in _cuts(self.columns[number], counts):
                held = cut.holds(self.occurring[number])
                information = sum(
                    mutual_information(np.stack([table[of].sum(axis=0) for of in (held, ~held)]))
                    for table in tables
                )
                if best is None or information > best[0]:
                    best = (information, number, cut)
        return None if best is None else (best[1], best[2])


def _cuts(column: CodedColumn, counts: Floats) -> Iterator[Split]:
    """Conditions on a column that leave enough rows on both sides."""
    total = counts.sum()
    splits = [Split(column, 0), *_places(column, counts)]
    for split in splits:
        rows = counts[split.holds(np.arange(len(counts), dtype=np.uint32))].sum()
        if _LEAST * total <= rows <= (1 - _LEAST) * total:
            yield split


def _places(column: CodedColumn, counts: Floats) -> list[Split]:
    """Quantiles of an ordered column, frequent values of another; all of them occur in the rows."""
    if not column.ordered:
        often = 1 + np.argsort(-counts[1:], kind="stable")[:_CUTS]
        return [Split(column, code, equal=True) for code in often.tolist()]
    lowest = 2 if column.plan.edges else 1
    present = 1 + np.flatnonzero(counts[1:])
    below = np.cumsum(counts[present]) - counts[present]
    ranks = below[-1:] * np.linspace(0, 1, _CUTS) if len(present) else np.zeros(0)
    places = np.unique(np.searchsorted(below, ranks))
    return [Split(column, code) for code in present[places[1:]].tolist() if code >= lowest]


#: Beyond this many rows a random sample is counted.
MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition of a query on one table."""

    columns: frozenset[str]  # the columns that it reads
    text: str  # for people
    condition: sql.Composable  # as SQL, with bare column names


@dataclass(frozen=True, slots=True)
class Heat:
    """Counts or probabilities at the nodes, of one database or of a model."""

    # Rows routed to each node, or in a model the probability of that, shape (nodes,).
    rows: NDArray[np.int64] | Floats
    # For each query, the share of them that satisfy its predicates in the node's scope; NaN
    # where no row is routed there.
    shares: list[Floats]


def count(
    connection: Connection,
    table: Table,
    nodes: Sequence[Node],
    queries: Sequence[Sequence[Predicate]],
    share: float = 1.0,
) -> Heat:
    """Route the rows of one side, or a share of them, and count them, in one scan of the table.

    Nodes are those of a circuit, and queries have their predicates on the table.
    """
    # Each condition gets a name, so that it is evaluated only once for each row.
    selected: dict[str, sql.Composable] = {}

    def named(condition: sql.Composable) -> sql.Composable:
        text = condition.as_string(None)
        name = sql.Identifier(f"c{[*selected, text].index(text)}")
        selected[text] = build("({}) IS TRUE AS {}", condition, name)
        return name

    wanted = [[named(condition) for condition in node.route] for node in nodes]
    groups = [wanted]
    for query in queries:
        met = [[p for p in query if p.columns <= set(node.columns)] for node in nodes]
        tests = [[named(p.condition) for p in inside] for inside in met]
        groups.append([[*route, *test] for route, test in zip(wanted, tests, strict=True)])
    with database_errors("counting rows for the heat map", table.key):
        row = connection.execute(_query(table, selected, groups, share)).fetchone()
    found = np.array(row, dtype=np.int64).reshape(len(groups), len(nodes))
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = [np.asarray(counts / found[0], dtype=np.float64) for counts in found[1:]]
    return Heat(found[0], shares)


def _query(
    table: Table,
    selected: Mapping[str, sql.Composable],
    groups: Sequence[Sequence[Sequence[sql.Composable]]],
    share: float,
) -> sql.Composed:
    counts = [
        build("pg_catalog.count(*) FILTER (WHERE {})", sql.SQL(" AND ").join(tests))
        if tests
        else sql.SQL("pg_catalog.count(*)")
        for group in groups
        for tests in group
    ]
    sample = build(" TABLESAMPLE BERNOULLI ({}) REPEATABLE (1)", 100 * share)
    # OFFSET 0 keeps the planner from evaluating a condition anew for every count.
    return SELECT + build(
        "{} FROM (SELECT {} FROM {}{} OFFSET 0) AS routed",
        counts,
        selected.values() or 1,
        from_table(table),
        sample if share < 1 else sql.SQL(""),
    )


def _contingency(
    one: NDArray[np.integer], other: NDArray[np.integer], shape: tuple[int, int]
) -> Floats:
    """Counts of the pairs of codes, of the given shape."""
    codes = one.astype(np.int64) * shape[1]
    codes += other
    return np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
