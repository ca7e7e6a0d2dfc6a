"""The plan of a generated workload, predicates by it, and the loop that collects its queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privbench.errors import UsageError
from privbench.schema import Schema, Table
from privbench.workload.generators.draft import (
    OPERATORS,
    Draft,
    Item,
    JoinTree,
    Predicate,
    Row,
    Values,
    pick,
)
from privbench.workload.generators.rows import Answers, RowSource
from privbench.workload.query import Query, Workload

#: Draws that a query may take.
TRIES = 20

#: Draws a query with that many joins, or None where the draw failed.
Drawer = Callable[[int], Draft | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a workload."""

    queries: int = 400  # how many; fewer where the data does not yield as many different ones
    joins: tuple[int, int] = (0, 3)  # least and most foreign keys that a query follows
    predicates: tuple[int, int] = (1, 6)  # least and most predicates of a query
    operators: tuple[str, ...] = OPERATORS  # what predicates may ask
    least: int = 1  # queries with smaller answers are left out
    most: int | None = None  # queries with larger answers are left out; None for no limit
    seed: int = 0  # of the draws

    def check(self, schema: Schema) -> None:
        """Refuse what no query can be made of."""
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
        unknown = sorted(set(self.operators) - set(OPERATORS))
        if unknown or not self.operators:
            raise UsageError(
                f"there is no operator {', '.join(unknown) or '(none given)'}.",
                remedy=f"Operators: {', '.join(OPERATORS)}.",
            )


def collect(
    name: str, plan: Plan, draw: Drawer, answers: Answers, *, count: bool = True
) -> Workload:
    """Draw until there are enough different queries with answers in the plan's range.

    Numbers of joins take turns; a draw that fails, or whose answer does not fit, is tried again.

    Answers are counted, and stated; without ``count`` one row is enough.
    """
    found: dict[str, int | None] = {}
    low, high = plan.joins
    for turn in range(2 * plan.queries):
        if len(found) == plan.queries:
            break
        for _ in range(TRIES):
            draft = draw(low + turn % (high - low + 1))
            if draft is None or (text := draft.text) in found:
                continue
            if not count and (plan.least, plan.most) == (1, None):
                fits, card = answers.holds(draft), None
            else:
                card = answers.count(draft)
                most = card if plan.most is None else plan.most
                fits = card is not None and most is not None and plan.least <= card <= most
            if fits:
                found[text] = card if answers.stated and draft.head is None else None
                break
    if plan.queries and not found:
        raise UsageError("no query with an answer was found: are the tables empty?")
    made = (Query(f"g{i}", f"{text};", card) for i, (text, card) in enumerate(found.items(), 1))
    return Workload(name, tuple(made))


#: What may be asked of a column so that a value of it passes.
Operators = Callable[[Values, str], list[str]]
#: A predicate on a column of the table at a place that holds for a value, by one of the operators.
Maker = Callable[[int, Values, str, list[str], np.random.Generator], Predicate]


def fitting(operators: Sequence[str], *, equal: bool, ranged: bool) -> list[str]:
    """Those of the operators that make sense: equality if it does, the others if ranges do."""
    return [operator for operator in operators if (equal if operator == "=" else ranged)]


def at_value(
    place: int, values: Values, text: str, operators: list[str], rng: np.random.Generator
) -> Predicate:
    """A comparison with the value `text` itself."""
    return Predicate(place, values, pick(operators, rng), (text,))


def holding(
    place: int, values: Values, text: str, operators: list[str], rng: np.random.Generator
) -> Predicate:
    """A condition on a column that holds for the value `text`.

    Bounds are values of random rows, as in MSCN, or `text` where they would exclude it.
    """
    operator = pick(operators, rng)
    if operator == "=":
        return Predicate(place, values, operator, (text,))
    bounds = [text, *(pick(values.texts, rng) or text for _ in range(1 + (operator == "between")))]
    low, high = (pole(bounds, key=values.place) for pole in (min, max))
    if operator == "between":
        return Predicate(place, values, operator, (low, high))
    return Predicate(place, values, operator, (low if operator == ">=" else high,))


def around(
    tree: JoinTree,
    anchor: Sequence[Row],
    rows: RowSource,
    plan: Plan,
    rng: np.random.Generator,
    operators: Operators,
    make: Maker = holding,
) -> Draft | None:
    """A count whose predicates hold for rows that join; None where they have too few columns.

    ``anchor`` is a row of each table. There is at most one predicate a column, and none on a column
    without operators.
    """
    usable = [
        (place, values, text, allowed)
        for place, (table, row) in enumerate(zip(tree.tables, anchor, strict=True))
        for values in rows.values(table)
        if (text := values.short(row[values.column.name])) is not None
        and (allowed := operators(values, text))
    ]
    chosen = some(usable, plan, rng)
    if chosen is None:
        return None
    return Draft(tree, tuple(make(*each, rng) for each in chosen))


def some(items: Sequence[Item], plan: Plan, rng: np.random.Generator) -> list[Item] | None:
    """As many of the items as a query has predicates, a uniform number; None of too few."""
    low, high = plan.predicates
    if len(items) < low:
        return None
    wanted = min(len(items), low + int(rng.integers(high - low + 1)))
    return [items[int(i)] for i in rng.choice(len(items), wanted, replace=False)] if wanted else []


def around_one(
    tables: Sequence[Table],
    rows: RowSource,
    plan: Plan,
    rng: np.random.Generator,
    operators: Operators,
    make: Maker = holding,
) -> Draft | None:
    """As `around`, for a random row of a random one of the tables."""
    table = pick(tables, rng)
    starts = rows.starts(table)
    if not starts:
        return None
    return around(JoinTree((table,)), [pick(starts, rng)], rows, plan, rng, operators, make)
