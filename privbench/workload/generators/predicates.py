"""Predicates of drawn queries: which operators fit a column, and conditions that hold for rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from privbench.schema import Table
from privbench.workload.generators.draft import Draft, JoinTree, Predicate
from privbench.workload.generators.plan import Plan
from privbench.workload.generators.rows import RowSource
from privbench.workload.generators.values import Row, Values, pick

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

    Args:
        tree: The tables.
        anchor: A row of each.
        rows: Where the tables' values come from.
        plan: How many predicates there are to be, a uniformly drawn number.
        rng: Draws.
        operators: Of each column; a column without one is not asked.
        make: Makes the predicates, at most one a column.
    """
    usable = [
        (place, values, text, allowed)
        for place, (table, row) in enumerate(zip(tree.tables, anchor, strict=True))
        for values in rows.values(table)
        if (text := values.short(row[values.column.name])) is not None
        and (allowed := operators(values, text))
    ]
    low, high = plan.predicates
    if len(usable) < low:
        return None
    wanted = min(len(usable), low + int(rng.integers(high - low + 1)))
    chosen = rng.choice(len(usable), wanted, replace=False) if wanted else ()
    return Draft(tree, tuple(make(*usable[int(i)], rng) for i in chosen))


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
