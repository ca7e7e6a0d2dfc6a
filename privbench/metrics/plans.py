"""Plans that ran: what EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) says, as a tree."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from privbench.metrics.qerror import qerrors
from privbench.metrics.summary import Floats

_STRATEGIES = {"Hashed": "HashAggregate", "Sorted": "GroupAggregate", "Mixed": "MixedAggregate"}
_JOINS = ("Hash Join", "Merge Join", "Nested Loop")


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a plan that ran; figures are a loop's unless said otherwise."""

    operator: str  # as EXPLAIN's text form names it
    relation: str | None  # alias of the table (or name of the CTE) that it reads
    index: str | None  # index that it reads
    estimate: float  # rows that the planner expected
    rows: float  # rows that came, the mean over the loops
    loops: int  # how often it ran; 0 where it never did
    milliseconds: float | None  # time in it and below it, all loops together; None without timing
    blocks: int  # shared blocks hit or read in it and below it, all loops together
    children: tuple[Node, ...]  # the nodes below it

    @property
    def total(self) -> float:
        """Rows over all loops."""
        return self.rows * self.loops

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One run of a query as the server saw it."""

    root: Node  # the plan
    shared: int  # shared blocks hit or read; what planning read is not counted
    local: int  # blocks of temporary tables hit or read
    temp: int  # blocks of temporary files read or written
    planning: float | None  # milliseconds
    execution: float | None  # milliseconds

    @property
    def rows(self) -> float:
        """Rows through all nodes."""
        return sum(node.total for node in self.root.walk())

    @property
    def spill(self) -> int:
        """Local and temporary blocks."""
        return self.local + self.temp

    def estimates(self) -> Floats:
        """Q-error of the planner's estimate in every node that ran, root first."""
        ran = [node for node in self.root.walk() if node.loops > 0]
        return qerrors([node.rows for node in ran], [node.estimate for node in ran])


def read(explained: Any) -> PlanRun | None:
    """What EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) gave; None for nothing, or a plan not run."""
    if not explained or "Actual Loops" not in explained[0]["Plan"]:
        return None
    whole = explained[0]
    top = whole["Plan"]
    return PlanRun(
        root=_node(top),
        shared=_blocks(top, "Shared Hit", "Shared Read"),
        local=_blocks(top, "Local Hit", "Local Read"),
        temp=_blocks(top, "Temp Read", "Temp Written"),
        planning=whole.get("Planning Time"),
        execution=whole.get("Execution Time"),
    )


def _node(plan: dict[str, Any]) -> Node:
    loops = int(plan.get("Actual Loops", 0))
    each = plan.get("Actual Total Time")
    return Node(
        operator=_operator(plan),
        relation=plan.get("Alias") or plan.get("CTE Name"),
        index=plan.get("Index Name"),
        estimate=float(plan["Plan Rows"]),
        rows=float(plan.get("Actual Rows", 0)),
        loops=loops,
        milliseconds=None if each is None else float(each) * loops,
        blocks=_blocks(plan, "Shared Hit", "Shared Read"),
        children=tuple(_node(child) for child in plan.get("Plans", ())),
    )


def _blocks(plan: dict[str, Any], *kinds: str) -> int:
    return sum(int(plan.get(f"{kind} Blocks", 0)) for kind in kinds)


def _operator(plan: dict[str, Any]) -> str:
    name = str(plan["Node Type"])
    if name == "Aggregate":
        name = _STRATEGIES.get(plan.get("Strategy", ""), name)
        partial = plan.get("Partial Mode", "Simple")
        name = name if partial == "Simple" else f"{partial} {name}"
    join = plan.get("Join Type", "Inner")
    if name in _JOINS and join != "Inner":
        name = f"{name} {join} Join" if name == "Nested Loop" else f"{name[:-5]} {join} Join"
    return f"Parallel {name}" if plan.get("Parallel Aware") else name


def same(one: Node, other: Node) -> bool:
    """Whether two plans have the same operators and join order; indexes may differ by name."""
    return (
        one.operator == other.operator
        and one.relation == other.relation
        and len(one.children) == len(other.children)
        and all(map(same, one.children, other.children))
    )


def join_order(node: Node) -> Hashable:
    """Which relations a plan joins first, whatever its operators: nested sets of aliases.

    Two plans have one value where they join the same relations in the same order; which of two
    joined sides comes first does not count.
    """
    below = [found for found in map(join_order, node.children) if found is not None]
    if not below:
        return node.relation
    if len(below) == 1:
        return below[0]
    return (
        frozenset(below) if "Join" in node.operator or "Nested Loop" in node.operator else (*below,)
    )


def operator_qerrors(one: Node, other: Node) -> Floats:
    """Q-error of the rows over all loops of each node of two plans that are the `same`."""
    pairs = list(zip(one.walk(), other.walk(), strict=True))
    return qerrors(np.array([a.total for a, _ in pairs]), np.array([b.total for _, b in pairs]))
