"""Sampling rows, vectorised over rows.

All rows start at the root; level by level, those that stand on a sum node choose a child, those on
a product node visit all children, and those on a leaf draw a code. Rows that stand on one node are
drawn together and *stratified* (see `draw`), which removes most of the sampling noise of low-order
marginals; every row by itself follows the circuit's law exactly.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privbench.circuit.draw import PART, draw
from privbench.circuit.structure import SUM, Circuit, Ints
from privbench.domain import Codes


def sample(circuit: Circuit, rows: int, generator: np.random.Generator) -> dict[str, Codes]:
    """Draw rows.

    Args:
        circuit: The circuit.
        rows: Number of rows.
        generator: From `privbench.rng.generator`.

    Returns:
        Codes per attribute, shape (rows,), in the narrowest type.
    """
    out: dict[str, Codes] = {
        name: np.zeros(rows, domain.dtype) for name, domain in circuit.domains.items()
    }
    for first in range(0, rows, PART):
        _draw(circuit, np.arange(first, min(first + PART, rows)), generator, out)
    return out


def _draw(
    circuit: Circuit, rows: Ints, generator: np.random.Generator, out: Mapping[str, Codes]
) -> None:
    """Draw some rows into ``out``."""
    level_of = np.full(circuit.nodes, -1)
    for level, layer in enumerate(circuit.layers):
        level_of[layer.nodes] = level
    # Rows that wait on the nodes of every level; those on leaves come last.
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
    first, counts = circuit.offsets[kinds], np.diff(circuit.offsets)[kinds]
    place = np.arange(int(counts.max()))
    edges = np.minimum(first[:, None] + place, (first + counts - 1)[:, None])
    weights = np.where(place < counts[:, None], circuit.weights[edges], 0.0)
    return np.asarray(circuit.children[edges[group, draw(weights, group, generator)]])
