"""Executed plans as trees, read from EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from pydantic import Field

from privbench.arrays import Floats
from privbench.metrics.base import Part
from privbench.metrics.qerror import qerrors

_STRATEGIES = {"Hashed": "HashAggregate", "Sorted": "GroupAggregate", "Mixed": "MixedAggregate"}
_JOINS = ("Hash Join", "Merge Join", "Nested Loop")


class NodePart(Part):
    """One node of an executed plan."""

    operator: str  # as EXPLAIN's text form names it: ``Hash Left Join``, ``Parallel Seq Scan``
    relation: str | None  # alias of the table (or name of the CTE), where the node reads one
    index: str | None  # the index, where the node reads one
    estimate: float  # rows that the planner expected, a loop
    rows: float  # rows that came, a loop (a mean over loops)
    loops: int  # how often the node ran; 0 where it never did
    # Time in it and below it, all loops together (parallel workers share theirs).
    milliseconds: float | None
    blocks: int  # shared blocks hit or read in it and below it
    # The nodes below it, in the plan's order.
    children: list[NodePart] = Field(default_factory=list)

    @property
    def total(self) -> float:
        """The node's rows over all loops."""
        return self.rows * self.loops

    def walk(self) -> Iterator[NodePart]:
        """Yield this node and all nodes below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def estimates(self) -> Floats:
        """Return the Q-error of the planner's estimate in every executed node, root first."""
        ran = [node for node in self.walk() if node.loops > 0]
        return qerrors([node.rows for node in ran], [node.estimate for node in ran])


class WorkPart(Part):
    """The work of one run of a query: its plan and the blocks that it touched."""

    shared: int  # shared blocks hit or read; what planning read is not counted
    local: int  # blocks of temporary tables hit or read
    temp: int  # blocks of temporary files read or written
    rows: float  # rows through all nodes: Σ rows × loops
    planning: float | None  # milliseconds of planning
    execution: float | None  # milliseconds of execution, with the cost of measuring every node
    estimate: float  # mean Q-error of the planner's row estimates over the nodes that ran
    plan: NodePart  # the plan's root

    @property
    def spill(self) -> int:
        """The number of local and temporary blocks."""
        return self.local + self.temp


def read(explained: Any) -> WorkPart | None:
    """Parse the output of EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON).

    None if the query did not run.
    """
    if not explained or "Actual Loops" not in explained[0]["Plan"]:
        return None
    whole = explained[0]
    top = whole["Plan"]
    root = _node(top)
    return WorkPart(
        shared=_blocks(top, "Shared Hit", "Shared Read"),
        local=_blocks(top, "Local Hit", "Local Read"),
        temp=_blocks(top, "Temp Read", "Temp Written"),
        rows=sum(node.total for node in root.walk()),
        planning=whole.get("Planning Time"),
        execution=whole.get("Execution Time"),
        estimate=float(np.mean(root.estimates())),
        plan=root,
    )


def _node(plan: dict[str, Any]) -> NodePart:
    loops = int(plan.get("Actual Loops", 0))
    each = plan.get("Actual Total Time")
    return NodePart(
        operator=_operator(plan),
        relation=plan.get("Alias") or plan.get("CTE Name"),
        index=plan.get("Index Name"),
        estimate=float(plan["Plan Rows"]),
        rows=float(plan.get("Actual Rows", 0)),
        loops=loops,
        milliseconds=None if each is None else float(each) * loops,
        blocks=_blocks(plan, "Shared Hit", "Shared Read"),
        children=[_node(child) for child in plan.get("Plans", ())],
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


def same(one: NodePart, other: NodePart) -> bool:
    """Return whether two plans have the same operators and join order; indexes may differ."""
    return (
        one.operator == other.operator
        and one.relation == other.relation
        and len(one.children) == len(other.children)
        and all(map(same, one.children, other.children))
    )


def join_order(node: NodePart) -> Hashable:
    """Return the join order of a plan, whatever its operators, as nested sets of aliases.

    Two plans have equal values if they join the same relations in the same order; the order of the
    two sides of a join does not count.
    """
    below = [order for order in map(join_order, node.children) if order is not None]
    if not below:
        return node.relation
    if len(below) == 1:
        return below[0]
    return (
        frozenset(below) if "Join" in node.operator or "Nested Loop" in node.operator else (*below,)
    )


def operator_qerrors(one: NodePart, other: NodePart) -> Floats:
    """Return the Q-error of each node's rows over all loops, for two plans that are the `same`."""
    pairs = list(zip(one.walk(), other.walk(), strict=True))
    return qerrors(np.array([a.total for a, _ in pairs]), np.array([b.total for _, b in pairs]))
