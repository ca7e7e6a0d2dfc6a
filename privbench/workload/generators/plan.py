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


def collect(
    name: str, plan: Plan, draw: Drawer, answers: Answers, *, stated: bool = True
) -> Workload:
    """Draw until there are enough different queries with answers in the plan's range.

    Numbers of joins take turns; a draw that fails, or whose answer does not fit, is tried again.

    Answers are stated if those of the source are, unless they are not to be ``stated`` at all.
    """
    found: dict[str, int | None] = {}
    enough = None if stated or plan.most is not None else plan.least
    low, high = plan.joins
    for turn in range(2 * plan.queries):
        if len(found) == plan.queries:
            break
        for _ in range(TRIES):
            draft = draw(low + turn % (high - low + 1))
            if draft is None or (text := draft.text) in found:
                continue
            card = answers.count(draft, enough)
            if card is not None and plan.least <= card <= (
                card if plan.most is None else plan.most
            ):
                found[text] = card if stated and answers.stated else None
                break
    if plan.queries and not found:
        raise UsageError("no query with an answer was found: are the tables empty?")
    made = (Query(f"g{i}", f"{text};", card) for i, (text, card) in enumerate(found.items(), 1))
    return Workload(name, tuple(made))
