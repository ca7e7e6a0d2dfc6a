"""The structure of a circuit: nodes in arrays, apart from how they were learned and how they run.

A circuit (sum-product network) is a directed acyclic graph. A *leaf* is a categorical law over the
codes of one attribute, a *product node* multiplies children over disjoint attributes, a *sum node*
mixes children over the same attributes. Children stand before their parents and the last node is
the root, so the order of the arrays is an order of evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.errors import ModelError

LEAF: Final = 0
PRODUCT: Final = 1
SUM: Final = 2

#: Deepest circuit that is accepted; evaluation runs level by level.
MAX_DEPTH: Final = 4096

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layer:
    """The inner nodes of one kind on one level, with their edges laid out one after another.

    Attributes:
        kind: `PRODUCT` or `SUM`.
        nodes: Node indices, shape (k,); every node has at least one child.
        starts: Where each node's edges begin in ``edges``, shape (k,).
        counts: Number of children of each node, shape (k,).
        edges: Indices into the circuit's edge arrays.
    """

    kind: int
    nodes: Ints
    starts: Ints
    counts: Ints
    edges: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Circuit:
    """A circuit over named attributes.

    Attributes:
        domains: Attribute name to domain; the order numbers the attributes.
        kind: `LEAF`, `PRODUCT` or `SUM` of every node, shape (nodes,).
        offsets: Node ``i`` has the edges ``offsets[i] .. offsets[i + 1]``, shape (nodes + 1,).
        children: Child of every edge, smaller than its parent's index.
        weights: Mixing weight of every edge; 1 below product nodes.
        attribute: Attribute number of a leaf, −1 for inner nodes.
        start: Where a leaf's law begins in ``probabilities``; leaves may share one.
        probabilities: The laws of the leaves, one after another.
        layers: Inner nodes by level, lowest first; computed.

    Raises:
        ModelError: The arrays do not describe an acyclic graph of bounded depth.
    """

    domains: dict[str, Domain]
    kind: NDArray[np.uint8]
    offsets: Ints
    children: Ints
    weights: Floats
    attribute: NDArray[np.int32]
    start: Ints
    probabilities: Floats
    layers: tuple[Layer, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", _layers(self))

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    @property
    def root(self) -> int:
        """Index of the root."""
        return len(self.kind) - 1

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in order."""
        return tuple(self.domains)

    def number(self, name: str) -> int:
        """The number of an attribute.

        Raises:
            ModelError: The circuit has no such attribute.
        """
        try:
            return self.names.index(name)
        except ValueError:
            raise ModelError(f"the circuit has no attribute {name!r}.") from None

    def leaves_of(self, number: int) -> Ints:
        """Indices of the leaves over one attribute."""
        return np.flatnonzero(self.attribute == number)

    def laws(self, leaves: Ints) -> Floats:
        """Laws of leaves over one attribute, shape (leaves, domain size)."""
        if not len(leaves):
            return np.zeros((0, 0))
        size = self.domains[self.names[int(self.attribute[leaves[0]])]].size
        laws: Floats = self.probabilities[self.start[leaves][:, None] + np.arange(size)]
        return laws


def expand(starts: Ints, counts: Ints) -> Ints:
    """The concatenation of ``arange(start, start + count)`` for every pair.

    >>> expand(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    total = int(counts.sum())
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return np.asarray(np.arange(total) + shift, np.int64)


def _levels(circuit: Circuit) -> Ints:
    """Longest distance of every node to a node without children."""
    counts = np.diff(circuit.offsets)
    inner = np.flatnonzero(counts)
    level = np.zeros(circuit.nodes, np.int64)
    starts = circuit.offsets[inner]
    for _ in range(MAX_DEPTH):
        if not len(inner):
            break
        new = np.maximum.reduceat(level[circuit.children], starts) + 1
        if np.array_equal(new, level[inner]):
            break
        level[inner] = new
    else:
        raise ModelError(f"the circuit is deeper than {MAX_DEPTH} levels.")
    return level


def _layers(circuit: Circuit) -> tuple[Layer, ...]:
    counts = np.diff(circuit.offsets)
    level = _levels(circuit)
    key = np.where(counts > 0, 2 * level + (circuit.kind == SUM), -1)
    order = np.argsort(key, kind="stable")
    bounds = np.flatnonzero(np.diff(key[order], prepend=-2))
    layers = []
    for nodes in np.split(order, bounds[1:]):
        if not len(nodes) or key[nodes[0]] < 0:
            continue
        sizes = counts[nodes]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        edges = expand(circuit.offsets[nodes], sizes)
        layers.append(Layer(int(circuit.kind[nodes[0]]), nodes, starts, sizes, edges))
    return tuple(layers)
