"""The plan of a generated workload, and the loop that collects its queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from privbench.errors import UsageError
from privbench.schema import Schema
from privbench.workload.generators.draft import OPERATORS, Draft
from privbench.workload.generators.rows import Answers
from privbench.workload.query import Query, Workload

#: Draws that a query may take.
TRIES = 20

#: Draws a query with that many joins, or None where the draw failed.
Drawer = Callable[[int], Draft | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a workload.

    Attributes:
        queries: How many; fewer where the data does not yield as many different ones.
        joins: Least and most foreign keys that a query follows.
        predicates: Least and most predicates of a query.
        operators: What predicates may ask.
        least: Queries with smaller answers are left out.
        most: Queries with larger answers are left out; None for no limit.
        seed: Of the draws.
    """

    queries: int = 400
    joins: tuple[int, int] = (0, 3)
    predicates: tuple[int, int] = (1, 6)
    operators: tuple[str, ...] = OPERATORS
    least: int = 1
    most: int | None = None
    seed: int = 0

    def check(self, schema: Schema) -> None:
        """Refuse what no query can be made of.

        Raises:
            UsageError: The schema has no table, a range is upside down, or an operator unknown.
        """
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

    Args:
        name: The workload's.
        plan: What it is to be like.
        draw: Draws one query.
        answers: Says which have an answer.
        count: Whether to count, and state, the answers; otherwise one row is enough.

    Raises:
        UsageError: No query with an answer was found.
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
