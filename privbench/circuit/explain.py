"""The most probable explanation: the best completion of what is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from privbench.circuit.structure import SUM, Circuit, Floats, Ints


def most_probable(
    circuit: Circuit, given: Mapping[str, ArrayLike] | None = None
) -> tuple[dict[str, int], float]:
    """The code of every attribute in the heaviest induced tree.

    Exact (the most probable row) where at most one child of every sum node supports a row, as
    in a circuit whose sum nodes branch on an attribute's value. For a mixture whose children
    overlap, the exact answer is NP-hard; the result is then the row of the most probable pair of
    row and branches taken, a lower bound.

    Args:
        circuit: The circuit.
        given: Weight vectors of a predicate that the row must satisfy.

    Returns:
        Codes, and the logarithm of the induced tree's mass (−inf: the predicate has none).
    """
    best, codes = _leaves(circuit, given or {})
    choice: Ints = np.zeros(circuit.nodes, np.int64)
    with np.errstate(divide="ignore"):
        weights = np.log(circuit.weights)
    for layer in circuit.layers:
        below = best[circuit.children[layer.edges]]
        if layer.kind == SUM:
            below = below + weights[layer.edges]
            best[layer.nodes] = np.maximum.reduceat(below, layer.starts)
            order = np.lexsort((-below, np.repeat(np.arange(len(layer.nodes)), layer.counts)))
            choice[layer.nodes] = circuit.children[layer.edges[order[layer.starts]]]
        else:
            best[layer.nodes] = np.add.reduceat(below, layer.starts)
    return _walk(circuit, choice, codes), float(best[circuit.root])


def _leaves(circuit: Circuit, given: Mapping[str, ArrayLike]) -> tuple[Floats, Ints]:
    best = np.zeros(circuit.nodes)
    codes = np.zeros(circuit.nodes, np.int64)
    for number, name in enumerate(circuit.names):
        leaves = circuit.leaves_of(number)
        if not len(leaves):
            continue
        laws = circuit.laws(leaves)
        if name in given:
            laws = laws * np.asarray(given[name], np.float64)
        codes[leaves] = laws.argmax(axis=1)
        with np.errstate(divide="ignore"):
            best[leaves] = np.log(laws.max(axis=1))
    return best, codes


def _walk(circuit: Circuit, choice: Ints, codes: Ints) -> dict[str, int]:
    row: dict[str, int] = {}
    stack = [circuit.root]
    while stack:
        node = stack.pop()
        if circuit.attribute[node] >= 0:
            row[circuit.names[circuit.attribute[node]]] = int(codes[node])
        elif circuit.kind[node] == SUM:
            stack.append(int(choice[node]))
        else:
            stack.extend(circuit.children[circuit.offsets[node] : circuit.offsets[node + 1]])
    return {name: row[name] for name in circuit.names if name in row}
