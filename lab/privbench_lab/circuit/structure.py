"""The structure of a circuit as arrays of nodes, whatever learned it; its samples and its storage.

A circuit (sum-product network) is a directed acyclic graph. A *leaf* is a categorical law over the
codes of one attribute, a *product node* multiplies children over disjoint attributes, a *sum node*
mixes children over the same attributes. Children stand before their parents and the last node is
the root, so the order of the arrays is an order of evaluation.

Building or loading a circuit checks that it is valid: smooth (children of a sum node cover the same
attributes), decomposable (those of a product node different ones) and normalised. Exact inference
rests on that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints
from privbench.domain import Codes, Domain
from privbench.errors import ModelError
from privbench.learning.draw import CHUNK_ROWS, choose, draw

#: Kinds of nodes.
LEAF, PRODUCT, SUM = 0, 1, 2

#: How far sums of weights and laws may be from 1, as they are rounded.
TOLERANCE = 1e-6
#: Deepest circuit that is accepted; evaluation runs level by level.
MAX_DEPTH = 4096

#: Types of the arrays of a model file.
_DTYPES: dict[str, type[np.generic]] = {
    "kind": np.uint8,
    "offsets": np.int64,
    "children": np.int64,
    "weights": np.float64,
    "attribute": np.int32,
    "start": np.int64,
    "probabilities": np.float64,
}


@dataclass(frozen=True, slots=True)
class Layer:
    """The inner nodes of one kind on one level, with their edges laid out one after another."""

    kind: int  # `PRODUCT` or `SUM`
    nodes: Ints  # node indices, shape (k,); every node has at least one child
    starts: Ints  # where each node's edges begin in ``edges``, shape (k,)
    counts: Ints  # number of children of each node, shape (k,)
    edges: Ints  # indices into the circuit's edge arrays


@dataclass(frozen=True, slots=True, eq=False)
class Circuit:
    """A circuit over named attributes.

    A ModelError refuses arrays that do not describe a valid circuit of bounded depth. Index ranges
    are checked before anything walks the graph: nodes only point to earlier nodes.
    """

    domains: dict[str, Domain]  # attribute name to domain; the order numbers the attributes
    kind: NDArray[np.uint8]  # `LEAF`, `PRODUCT` or `SUM` of every node, shape (nodes,)
    offsets: Ints  # Node ``i`` has the edges ``offsets[i] .. offsets[i + 1]``, shape (nodes + 1,).
    children: Ints  # child of every edge, smaller than its parent's index
    weights: Floats  # mixing weight of every edge; 1 below product nodes
    attribute: NDArray[np.int32]  # attribute number of a leaf, −1 for inner nodes
    start: Ints  # where a leaf's law begins in ``probabilities``; leaves may share one
    probabilities: Floats  # the laws of the leaves, one after another
    layers: tuple[Layer, ...] = field(init=False, repr=False)  # inner nodes, lowest level first

    def __post_init__(self) -> None:
        _check_ranges(self)
        object.__setattr__(self, "layers", _layers(self))
        _check_laws(self)
        _check_nodes(self)

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

    def leaves_of(self, name: str) -> Ints:
        """Indices of the leaves over one attribute, which the circuit has to have."""
        if name not in self.domains:
            raise ModelError(f"the circuit has no attribute {name!r}.")
        return np.flatnonzero(self.attribute == self.names.index(name))

    def laws(self, leaves: Ints) -> Floats:
        """Laws of leaves over one attribute, shape (leaves, domain size)."""
        if not len(leaves):
            return np.zeros((0, 0))
        size = self.domains[self.names[int(self.attribute[leaves[0]])]].size
        laws: Floats = self.probabilities[self.start[leaves][:, None] + np.arange(size)]
        return laws

    def sample(self, rows: int, generator: np.random.Generator) -> dict[str, Codes]:
        """Draw rows: codes per attribute, shape (rows,), in the narrowest type.

        Rows that stand on one node are a systematic sample (see `choose`), which removes most of
        the sampling noise of low-order marginals; every row by itself follows the law exactly.
        """
        out: dict[str, Codes] = {
            name: np.zeros(rows, domain.dtype) for name, domain in self.domains.items()
        }
        for first in range(0, rows, CHUNK_ROWS):
            _draw(self, np.arange(first, min(first + CHUNK_ROWS, rows)), generator, out)
        return out

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON object (format, domains) and arrays."""
        domains = [[name, domain.to_json()] for name, domain in self.domains.items()]
        header = {"format": 1, "domains": domains}
        return header, {name: getattr(self, name) for name in _DTYPES}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The circuit that `to_state` wrote; anything else is refused."""
        plain = {name: _array(arrays, name, dtype) for name, dtype in _DTYPES.items()}
        return cls(domains=_domains(header, len(plain["probabilities"])), **plain)


def _levels(circuit: Circuit) -> Ints:
    """Longest distance of every node to a node without children."""
    counts = np.diff(circuit.offsets)
    inner = np.flatnonzero(counts)
    level = np.zeros(circuit.nodes, np.int64)
    starts = circuit.offsets[inner]
    for _ in range(MAX_DEPTH):
        new = np.maximum.reduceat(level[circuit.children], starts) + 1
        if np.array_equal(new, level[inner]):
            break
        level[inner] = new
    else:
        raise ModelError(f"the circuit is deeper than {MAX_DEPTH} levels.")
    return level


def _edges(circuit: Circuit, nodes: Ints) -> tuple[Ints, Ints]:
    """The edges of some nodes, one node's after the other's, and how many each node has."""
    starts = circuit.offsets[nodes]
    counts = circuit.offsets[nodes + 1] - starts
    shift = starts - np.cumsum(counts) + counts
    return np.arange(int(counts.sum())) + np.repeat(shift, counts), counts


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
        edges, sizes = _edges(circuit, nodes)
        starts = np.cumsum(sizes) - sizes
        layers.append(Layer(int(circuit.kind[nodes[0]]), nodes, starts, sizes, edges))
    return tuple(layers)


def _require(condition: bool | np.bool_, message: str) -> None:
    if not condition:
        raise ModelError(f"not a valid circuit: {message}.")


def _check_ranges(circuit: Circuit) -> None:
    """Check lengths and indices; after that, everything else may be computed safely."""
    nodes, edges = len(circuit.kind), len(circuit.children)
    shapes = (len(circuit.attribute), len(circuit.start), len(circuit.offsets) - 1)
    _require(nodes > 0 and shapes == (nodes,) * 3, "array lengths differ")
    _require(len(circuit.weights) == edges, "array lengths differ")
    counts = np.diff(circuit.offsets)
    _require(circuit.offsets[0] == 0 and circuit.offsets[-1] == edges, "edges are not laid out")
    # Within these bounds differences cannot overflow.
    inside = (circuit.offsets >= 0) & (circuit.offsets <= edges)
    _require(inside.all() and (counts >= 0).all(), "edges are not laid out")
    parents = np.repeat(np.arange(nodes), counts)
    _require((circuit.children >= 0).all(), "a child is out of range")
    _require((circuit.children < parents).all(), "a child stands behind its parent")
    _require((circuit.kind <= SUM).all(), "unknown node kind")
    leaf = circuit.kind == LEAF
    _require((counts[leaf] == 0).all(), "a leaf has children")
    _require((counts[circuit.kind == SUM] > 0).all(), "a sum node has no children")
    _require((circuit.attribute[~leaf] == -1).all(), "an inner node has an attribute")
    inside = (circuit.attribute >= 0) & (circuit.attribute < len(circuit.domains))
    _require(inside[leaf].all(), "a leaf's attribute is out of range")
    start, size = _leaf_places(circuit)
    room = len(circuit.probabilities) - size
    _require(((start >= 0) & (start <= room)).all(), "a leaf's law is out of range")


def _leaf_places(circuit: Circuit) -> tuple[Ints, Ints]:
    """Where every leaf's law begins, and its length."""
    leaf = circuit.kind == LEAF
    sizes = np.array([domain.size for domain in circuit.domains.values()] or [0])
    return circuit.start[leaf], sizes[circuit.attribute[leaf]]


def _check_laws(circuit: Circuit) -> None:
    laws = circuit.probabilities
    _require(np.isfinite(laws).all() and (laws >= 0).all(), "a probability is negative or infinite")
    _require((laws <= 1 + TOLERANCE).all(), "a law is not normalised")
    total = np.concatenate([[0.0], np.cumsum(laws)])
    start, size = _leaf_places(circuit)
    mass = total[start + size] - total[start]
    _require((np.abs(mass - 1) <= TOLERANCE).all(), "a law is not normalised")


def _check_nodes(circuit: Circuit) -> None:
    """Weights, and which attributes the nodes cover."""
    weights, leaf = circuit.weights, np.flatnonzero(circuit.kind == LEAF)
    _require(np.isfinite(weights).all() and (weights >= 0).all(), "a weight is negative")
    scope = np.zeros((circuit.nodes, len(circuit.domains)), bool)
    scope[leaf, circuit.attribute[leaf]] = True
    for layer in circuit.layers:
        edge, below = weights[layer.edges], scope[circuit.children[layer.edges]]
        above = np.logical_or.reduceat(below, layer.starts, axis=0)
        scope[layer.nodes] = above
        # Empty products could be nested so that a row visits 2^depth nodes.
        _require(above.any(axis=1).all() or not circuit.domains, "a node covers no attribute")
        if layer.kind == PRODUCT:
            _require((edge == 1).all(), "an edge below a product node has a weight")
            sizes = np.add.reduceat(below.sum(axis=1), layer.starts)
            _require((sizes == above.sum(axis=1)).all(), "a product node is not decomposable")
        else:
            mass = np.add.reduceat(edge, layer.starts)
            _require((np.abs(mass - 1) <= TOLERANCE).all(), "a sum node is not normalised")
            same = below == np.repeat(above, layer.counts, axis=0)
            _require(same.all(), "a sum node is not smooth")
    _require(scope[circuit.root].all(), "the root does not cover every attribute")


def _draw(
    circuit: Circuit, rows: Ints, generator: np.random.Generator, out: Mapping[str, Codes]
) -> None:
    """Draw some rows into ``out``: from the root down, all rows on the nodes of a level at once."""
    level_of = np.full(circuit.nodes, -1)
    for level, layer in enumerate(circuit.layers):
        level_of[layer.nodes] = level
    # For every level, rows with the node each has reached; rows that reached leaves come last.
    waiting: list[list[tuple[Ints, Ints]]] = [[] for _ in range(len(circuit.layers) + 1)]

    def push(some: Ints, nodes: Ints) -> None:
        levels = level_of[nodes]
        for level in np.unique(levels):
            waiting[level].append((some[levels == level], nodes[levels == level]))

    push(rows, np.full(len(rows), circuit.root))
    for level in reversed(range(len(circuit.layers))):
        if waiting[level]:
            some, nodes = (np.concatenate(part) for part in zip(*waiting[level], strict=True))
            counts = circuit.offsets[nodes + 1] - circuit.offsets[nodes]
            if circuit.layers[level].kind == SUM:
                push(some, _chosen(circuit, nodes, generator))
                continue
            for place in range(int(counts.max())):
                hold = counts > place
                push(some[hold], circuit.children[circuit.offsets[nodes[hold]] + place])
    if waiting[-1]:
        some, nodes = (np.concatenate(part) for part in zip(*waiting[-1], strict=True))
        for number, name in enumerate(circuit.names):
            hold = circuit.attribute[nodes] == number
            leaves, law = np.unique(nodes[hold], return_inverse=True)
            out[name][some[hold]] = draw(circuit.laws(leaves), law, generator)


def _chosen(circuit: Circuit, nodes: Ints, generator: np.random.Generator) -> Ints:
    """A child of the sum node that each row stands on."""
    kinds, group = np.unique(nodes, return_inverse=True)
    edges, counts = _edges(circuit, kinds)
    drawn = choose(circuit.weights[edges], counts, group, generator)
    return np.asarray(circuit.children[edges[drawn]])


def _array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    value = arrays.get(name)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype != np.dtype(dtype):
        raise ModelError(f"not a valid circuit: array {name!r} is missing or of another type.")
    return value


def _domains(header: Mapping[str, Any], most: int) -> dict[str, Domain]:
    """The domains of a header.

    Every attribute has a leaf, so domains with more cells than there are probabilities are refused.
    """
    try:
        if header["format"] != 1:
            raise ModelError("the circuit was written in another format.")
        pairs = [(str(name), Domain.from_json(data)) for name, data in header["domains"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError("not a valid circuit: the header is damaged.") from error
    domains = dict(pairs)
    fit = len(domains) == len(pairs) and all(d.size <= most for d in domains.values())
    _require(fit, "the header is damaged")
    return domains
