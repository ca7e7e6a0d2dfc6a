"""Is it a circuit? Smooth, decomposable, normalised: what exact inference rests on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbench.circuit.structure import LEAF, PRODUCT, SUM, Circuit
from privbench.errors import ModelError

_TOLERANCE = 1e-6


def check(circuit: Circuit) -> None:
    """Refuse anything that is not a valid circuit.

    Checks, in this order: array shapes and index ranges; leaves and inner nodes distinct; weights
    and laws finite, non-negative and normalised (within 1e-6); product nodes decomposable; sum
    nodes smooth; the root covers every attribute.

    Raises:
        ModelError: The first fault found.
    """
    _check_ranges(circuit)
    _check_laws(circuit)
    _check_weights(circuit)
    _check_scopes(circuit)


def check_graph(circuit: Circuit) -> None:
    """Index ranges alone; everything else may be computed safely afterwards.

    Raises:
        ModelError: The first fault found.
    """
    _check_ranges(circuit)


def scopes(circuit: Circuit) -> NDArray[np.bool_]:
    """Which attributes each node covers, shape (nodes, attributes)."""
    scope = np.zeros((circuit.nodes, len(circuit.domains)), bool)
    leaves = np.flatnonzero(circuit.kind == LEAF)
    scope[leaves, circuit.attribute[leaves]] = True
    for layer in circuit.layers:
        below = scope[circuit.children[layer.edges]]
        scope[layer.nodes] = np.logical_or.reduceat(below, layer.starts, axis=0)
    return scope


def _require(condition: bool | np.bool_, message: str) -> None:
    if not condition:
        raise ModelError(f"not a valid circuit: {message}.")


def _check_ranges(circuit: Circuit) -> None:
    nodes, edges = len(circuit.kind), len(circuit.children)
    shapes = (len(circuit.attribute), len(circuit.start), len(circuit.offsets) - 1)
    _require(nodes > 0 and shapes == (nodes,) * 3, "array lengths differ")
    _require(len(circuit.weights) == edges, "array lengths differ")
    counts = np.diff(circuit.offsets)
    _require(circuit.offsets[0] == 0 and circuit.offsets[-1] == edges, "edges are not laid out")
    _require((counts >= 0).all(), "edges are not laid out")
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
    sizes = np.array([domain.size for domain in circuit.domains.values()] or [0])
    room = len(circuit.probabilities) - sizes[circuit.attribute[leaf]]
    start = circuit.start[leaf]
    _require(((start >= 0) & (start <= room)).all(), "a leaf's law is out of range")


def _check_laws(circuit: Circuit) -> None:
    laws = circuit.probabilities
    _require(np.isfinite(laws).all() and (laws >= 0).all(), "a probability is negative or infinite")
    _require((laws <= 1 + _TOLERANCE).all(), "a law is not normalised")
    total = np.concatenate([[0.0], np.cumsum(laws)])
    leaf = circuit.kind == LEAF
    sizes = np.array([domain.size for domain in circuit.domains.values()] or [0])
    start = circuit.start[leaf]
    mass = total[start + sizes[circuit.attribute[leaf]]] - total[start]
    _require((np.abs(mass - 1) <= _TOLERANCE).all(), "a law is not normalised")


def _check_weights(circuit: Circuit) -> None:
    weights = circuit.weights
    _require(np.isfinite(weights).all() and (weights >= 0).all(), "a weight is negative")
    for layer in circuit.layers:
        edge = weights[layer.edges]
        if layer.kind == PRODUCT:
            _require((edge == 1).all(), "an edge below a product node has a weight")
        else:
            mass = np.add.reduceat(edge, layer.starts)
            _require((np.abs(mass - 1) <= _TOLERANCE).all(), "a sum node is not normalised")


def _check_scopes(circuit: Circuit) -> None:
    scope = scopes(circuit)
    _require(scope[circuit.root].all(), "the root does not cover every attribute")
    for layer in circuit.layers:
        below = scope[circuit.children[layer.edges]]
        if layer.kind == SUM:
            above = np.repeat(scope[layer.nodes], layer.counts, axis=0)
            _require(np.array_equal(below, above), "a sum node is not smooth")
        else:
            sizes = np.add.reduceat(below.sum(axis=1), layer.starts)
            _require(
                np.array_equal(sizes, scope[layer.nodes].sum(axis=1)),
                "a product node is not decomposable",
            )
