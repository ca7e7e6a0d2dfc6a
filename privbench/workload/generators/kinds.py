"""Kinds of generated workloads, one line in `KINDS` each, and the default plan of each kind.

Formats of other packages may add some (`WorkloadFormat.kinds`).

All are conjunctive queries over tables that are joined along foreign keys; they differ in how
tables, columns, operators and literals are drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from psycopg import sql

from privbench.arrays import Rng
from privbench.errors import UsageError
from privbench.limits import Element
from privbench.rng import generator
from privbench.schema import Schema
from privbench.workload import formats
from privbench.workload.generators.draft import (
    OPERATORS,
    ColumnSample,
    JoinTree,
    Predicate,
    QueryDraft,
    RowTexts,
    draw,
    matches,
    pick,
)
from privbench.workload.generators.rows import RowSource, anchored
from privbench.workload.query import Workload, WorkloadQuery

#: Attempts to draw a query.
TRIES = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a workload: numbers of queries, joins and predicates."""

    queries: int = 400  # how many; fewer where the data does not yield as many different ones
    joins: tuple[int, int] = (0, 3)  # least and most foreign keys that a query follows
    predicates: tuple[int, int] = (1, 6)  # least and most predicates of a query
    operators: tuple[str, ...] = OPERATORS  # operators that predicates may have
    least: int = 1  # queries with smaller answers are left out
    most: int | None = None  # queries with larger answers are left out; None for no limit
    seed: int = 0  # of the draws

    def check(self, schema: Schema) -> None:
        """Refuse a plan or a schema for which no query can be made."""
        if not schema.tables:
            raise UsageError("the schema has no table to query.")
        ranges = {
            "joins": self.joins,
            "predicates": self.predicates,
            "answers": (self.least, self.least if self.most is None else self.most),
        }
        for name, (low, high) in ranges.items():
            if not 0 <= low <= high:
                raise UsageError(f"from {low} to {high} {name} is no range.")


def collect(
    name: str,
    plan: Plan,
    draw: Callable[[int], QueryDraft | None],
    answers: RowSource,
    *,
    stated: bool = True,
) -> Workload:
    """Draw queries until there are enough distinct ones with answers in the plan's range.

    The plan's numbers of joins are used in turn. A draw that fails, or whose answer is outside the
    range, is repeated. Queries state their answers if `RowSource.stated` and ``stated`` are true.
    """
    answered: dict[str, int | None] = {}
    enough = None if stated or plan.most is not None else plan.least
    low, high = plan.joins
    for turn in range(2 * plan.queries):
        if len(answered) == plan.queries:
            break
        for _ in range(TRIES):
            draft = draw(low + turn % (high - low + 1))
            if draft is None or (text := draft.text) in answered:
                continue
            card = answers.count(draft, enough)
            if card is not None and plan.least <= card <= (
                card if plan.most is None else plan.most
            ):
                answered[text] = card if stated and answers.stated else None
                break
    if plan.queries and not answered:
        raise UsageError("no query with an answer was found: are the tables empty?")
    queries = (
        WorkloadQuery(f"g{i}", f"{text};", card)
        for i, (text, card) in enumerate(answered.items(), 1)
    )
    return Workload(name, tuple(queries))


_HEADS, _SHARES = ("count", "group", "top"), (0.7, 0.15, 0.15)
_LIMITS = (10, 100, 1000)


def mscn(rows: RowSource, answers: RowSource, schema: Schema, plan: Plan) -> Workload:
    """Draw counts of joins with predicates drawn independently, in the manner of MSCN.

    After Kipf et al., "Learned Cardinalities: Estimating Correlated Joins with Deep Learning" (CIDR
    2019), section 3.3 and the workloads published with it: as many queries of each number of joins;
    a random connected set of tables, each at most once; of every table a uniformly drawn number of
    its non-key columns; of every column an operator and the value of a random row of that table,
    drawn independently of all others. Empty answers are skipped and no two queries are alike.
    Unlike there, joins follow any foreign key of the schema, and a query has at least as many and
    at most as many predicates as the plan says (in the published training queries: 1 to 6).
    Equality is for whole numbers, days and columns of few values, ranges for whatever has an order.
    """
    rng = generator(plan.seed, "mscn workload")

    def drawn(joins: int) -> QueryDraft | None:
        tree = draw(schema, joins, rng)
        if len(tree.edges) < joins:
            return None
        predicates: list[Predicate] = []
        for place, table in enumerate(tree.tables):
            # Equality is only used with values that are likely to occur again.
            columns = [
                (values, operators)
                for values in rows.values(table)
                if (operators := fitting(plan, values, equal=values.few or values.whole))
            ]
            count = int(rng.integers(len(columns) + 1))
            chosen = rng.choice(len(columns), count, replace=False) if count else ()
            predicates += [_by_itself(place, *columns[int(i)], rng) for i in chosen]
        low, high = plan.predicates
        if len(predicates) < low:
            return None
        if len(predicates) > high:
            predicates = [
                predicates[int(i)] for i in sorted(rng.choice(len(predicates), high, replace=False))
            ]
        return QueryDraft(tree, tuple(predicates))

    return collect("mscn", plan, drawn, answers)


def joins(rows: RowSource, answers: RowSource, schema: Schema, plan: Plan) -> Workload:
    """Draw counts of joins whose predicates all hold for one tuple of rows that join.

    Such workloads measure Q-error over many tables: the answer of a query is at least one, however
    many tables and predicates it has. Each foreign key is followed at most once; a table that is
    reached by two of them occurs twice.

    Equality is only used with values that other rows have too. Joins lead to rows with many
    children, whose values are often unique, and an equality with such a value would select a single
    row.
    """
    rng = generator(plan.seed, "counting workload")

    def operators(values: ColumnSample, text: str) -> list[str]:
        common = values.few and values.texts.count(text) > 1
        return fitting(plan, values, text, equal=common)

    def drawn(joins: int) -> QueryDraft | None:
        tree = draw(schema, joins, rng, repeats=True)
        # Many rows have no children: if the walk along the tree fails, another row is tried.
        tries = (anchored(tree, rows, rng) for _ in range(TRIES))
        anchor = next((draft for draft in tries if draft is not None), None)
        start = None if anchor is None else (tree, anchor)
        return around(start, rows, plan, rng, operators)

    return collect("counting", plan, drawn, answers)


def mixed(rows: RowSource, answers: RowSource, schema: Schema, plan: Plan) -> Workload:
    """Draw joins with COUNT, GROUP BY, or ORDER BY and LIMIT; literals come from random rows.

    The rows of each table are drawn independently. The number of joins is random; queries with few
    joins are more frequent, since fewer of them fail.
    """
    rng = generator(plan.seed, "workload")

    def predicate(place: int, values: ColumnSample) -> Predicate:
        operators = fitting(plan, values, equal=values.few)
        if pick(values.texts, rng) is None or not operators:
            return Predicate(place, values, "is null" if rng.random() < 0.5 else "is not null")
        return _by_itself(place, values, operators, rng)

    def drawn(_joins: int) -> QueryDraft | None:
        least, most = plan.joins
        tree = draw(schema, least + int(rng.integers(most - least + 1)), rng)
        columns = [
            (i, values) for i, table in enumerate(tree.tables) for values in rows.values(table)
        ]
        chosen = _some(columns, plan, rng) if columns and plan.predicates[1] else []
        if chosen is None:
            return None
        draft = QueryDraft(tree, tuple(predicate(*column) for column in chosen))
        return _headed(draft, columns, rng)

    return collect("generated", plan, drawn, answers, stated=False)


def _headed(draft: QueryDraft, columns: list[tuple[int, ColumnSample]], rng: Rng) -> QueryDraft:
    """Add a select list with grouping or sorting to a query, or leave it as a count."""
    kind = _HEADS[int(rng.choice(len(_HEADS), p=_SHARES))]
    usable = [
        sql.Identifier(draft.tree.aliases[place], values.column.name)
        for place, values in columns
        if (values.few if kind == "group" else values.ordered)
    ]
    if kind == "count" or not usable:
        return draft
    by = pick(usable, rng)
    if kind == "group":
        head = sql.SQL("{}, COUNT(*)").format(by)
        return replace(draft, head=head, foot=sql.SQL(" GROUP BY {}").format(by))
    limit = sql.Literal(int(rng.choice(_LIMITS)))
    foot = sql.SQL(" ORDER BY {} DESC LIMIT {}").format(by, limit)
    return replace(draft, head=by, foot=foot)


def _by_itself(place: int, values: ColumnSample, operators: list[str], rng: Rng) -> Predicate:
    """A predicate with values of random rows, drawn independently of all other predicates."""
    operator = pick(operators, rng)
    if operator.endswith("like"):
        return Predicate(place, values, operator, (pick(values.patterns, rng),))
    known = [text for text in values.texts if text is not None]
    chosen = rng.choice(len(known), 2 if operator == "between" else 1)
    texts = sorted((known[int(i)] for i in chosen), key=values.place)
    return Predicate(place, values, operator, tuple(texts))


def fitting(plan: Plan, values: ColumnSample, text: str | None = None, *, equal: bool) -> list[str]:
    """Return the plan's operators that suit a column and a value; ``=`` if ``equal`` is true."""
    like = any(text is None or matches(pattern, text) for pattern in values.patterns)
    suits = {"=": equal, "like": like, "ilike": like}
    ranged = values.ordered or (like and "like" in plan.operators)
    return [operator for operator in plan.operators if suits.get(operator, ranged)]


def around(
    start: tuple[JoinTree, Sequence[RowTexts]] | None,
    rows: RowSource,
    plan: Plan,
    rng: Rng,
    operators: Callable[[ColumnSample, str], list[str]],
    *,
    exact: bool = False,
) -> QueryDraft | None:
    """Return a count whose predicates hold for rows that join, or None.

    ``start`` holds joined tables and their anchor, which is a row of each. None is returned if
    ``start`` is None, or too few columns can have a predicate. A column has at most one predicate,
    and none if no operator fits it. Bounds are values of random rows, as in MSCN. They are the
    anchor's own values if random ones would exclude the anchor, or if ``exact`` is true.
    """
    if start is None:
        return None
    tree, anchor = start

    def holding(place: int, values: ColumnSample, text: str, allowed: list[str]) -> Predicate:
        operator = pick(allowed, rng)
        if operator.endswith("like"):
            patterns = [one for one in values.patterns if matches(one, text)]
            return Predicate(place, values, operator, (pick(patterns, rng),))
        if exact or operator == "=":
            return Predicate(place, values, operator, (text,))
        count = 1 + (operator == "between")
        bounds = [text, *(pick(values.texts, rng) or text for _ in range(count))]
        low, high = (pole(bounds, key=values.place) for pole in (min, max))
        texts = {"between": (low, high), ">=": (low,)}.get(operator, (high,))
        return Predicate(place, values, operator, texts)

    usable = [
        (place, values, text, allowed)
        for place, (table, row) in enumerate(zip(tree.tables, anchor, strict=True))
        for values in rows.values(table)
        if (text := row[values.column.name]) is not None and (allowed := operators(values, text))
    ]
    chosen = _some(usable, plan, rng)
    return None if chosen is None else QueryDraft(tree, tuple(holding(*each) for each in chosen))


def _some(items: Sequence[Element], plan: Plan, rng: Rng) -> list[Element] | None:
    """Draw as many items as a query has predicates, a uniform number; None if there are too few."""
    low, high = plan.predicates
    if len(items) < low:
        return None
    count = min(len(items), low + int(rng.integers(high - low + 1)))
    return [items[int(i)] for i in rng.choice(len(items), count, replace=False)] if count else []


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of workload."""

    make: Callable[[RowSource, RowSource, Schema, Plan], Workload]
    plan: Plan  # its default plan; a kind without joins here never has any
    # Operators of its predicates; those of the plan if none are given.
    operators: tuple[str, ...] = ()


_USUAL = ("=", *OPERATORS[3:])
#: Those of the core; see `kinds` for all.
KINDS: dict[str, WorkloadKind] = {
    "mscn": WorkloadKind(mscn, Plan(operators=("=", "<", ">")), OPERATORS),
    "joins": WorkloadKind(joins, Plan(operators=_USUAL, most=10**8)),
    "mixed": WorkloadKind(mixed, Plan(100, predicates=(1, 4), operators=_USUAL)),
}


def kinds() -> dict[str, WorkloadKind]:
    """Return all kinds, those of installed formats too."""
    added = [item for name in formats.names() for item in formats.by_name(name).kinds.items()]
    return {**{name: kind for name, kind in added if isinstance(kind, WorkloadKind)}, **KINDS}
