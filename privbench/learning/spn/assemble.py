"""LeafGen's last step: a grown network as a circuit."""

from __future__ import annotations

from collections.abc import Mapping

from privbench.circuit import Builder, Circuit
from privbench.domain import Domain
from privbench.learning.bins import Bins
from privbench.learning.spn.node import Node


def to_circuit(root: Node, bins: Mapping[str, Bins], domains: Mapping[str, Domain]) -> Circuit:
    """The circuit of a grown network.

    A leaf's law is its region's histogram of bins times the table's law within each bin.
    """
    builder = Builder(domains)
    add_node(root, bins, builder)
    return builder.build()


def add_node(node: Node, bins: Mapping[str, Bins], builder: Builder) -> int:
    """Add a network to a circuit that is being built; returns the id of its root."""
    if node.parts:
        return builder.product([add_node(part, bins, builder) for part in node.parts])
    if node.children:
        below = [add_node(child, bins, builder) for child in node.children]
        return builder.sum(below, [child.rows for child in node.children])
    leaves = [builder.leaf(name, bins[name].spread(node.counts[name])) for name in node.scope]
    return leaves[0] if len(leaves) == 1 else builder.product(leaves)
