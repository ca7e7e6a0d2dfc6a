"""Exact inference: likelihood of rows, probability of conjunctive predicates.

Everything runs level by level over arrays of shape (nodes, batch), in logarithms, so that circuits
over hundreds of attributes do not underflow. Cost: linear in the number of edges.

A *weight vector* of an attribute gives every code a weight in [0, 1]: the indicator of a range, of
a list (IN), of one code (equality, NULL), or a fraction for a range that cuts a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints
from privbench_lab.circuit.structure import SUM, Circuit

#: Most cells of the (nodes, batch) array of one pass; a limit on memory alone.
_CELLS = 2**22


def log_likelihood(circuit: Circuit, rows: Mapping[str, NDArray[np.integer]]) -> Floats:
    """Natural logarithm of the probability of every row, −inf where a row has no mass.

    ``rows`` are codes per attribute, each of shape (rows,); attributes left out are summed out.
    """
    return _roots(circuit, rows, lambda laws, codes: laws[:, codes.astype(np.int64)])


def probabilities(circuit: Circuit, weights: Mapping[str, Floats]) -> Floats:
    """Probabilities of conjunctive predicates, shape (queries,).

    ``weights`` are vectors per constrained attribute, of shape (queries, domain size).
    """
    return np.asarray(np.exp(_roots(circuit, weights, lambda laws, table: laws @ table.T)))


def marginal(circuit: Circuit, name: str) -> Floats:
    """Law of one attribute, shape (domain size,)."""
    return probabilities(circuit, {name: np.eye(circuit.domains[name].size)})


def _roots(
    circuit: Circuit,
    batch: Mapping[str, NDArray[Any]],
    value: Callable[[Floats, NDArray[Any]], Floats],
) -> Floats:
    """Logarithms of the root's value for a batch of codes or weights, along its first axis.

    The values of leaves of an attribute, shape (leaves, width), follow from their laws and a part
    of the batch.
    """
    count = len(next(iter(batch.values()))) if batch else 1
    out, step = np.empty(count), max(1, _CELLS // max(circuit.nodes, len(circuit.children)))
    with np.errstate(divide="ignore"):
        weights = np.log(circuit.weights)[:, None]
        for first in range(0, count, step):
            part = slice(first, first + step)
            logs = np.zeros((circuit.nodes, min(step, count - first)))
            for name, known in batch.items():
                leaves = circuit.leaves_of(name)
                logs[leaves] = np.log(value(circuit.laws(leaves), known[part]))
            for layer in circuit.layers:
                below = logs[circuit.children[layer.edges]]
                if layer.kind == SUM:
                    below += weights[layer.edges]
                    logs[layer.nodes] = _log_sum(below, layer.starts, layer.counts)
                else:
                    logs[layer.nodes] = np.add.reduceat(below, layer.starts, axis=0)
            out[part] = logs[circuit.root]
    return out


def _log_sum(values: Floats, starts: Ints, counts: Ints) -> Floats:
    top = np.maximum.reduceat(values, starts, axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    values -= np.repeat(shift, counts, axis=0)
    return np.asarray(np.log(np.add.reduceat(np.exp(values), starts, axis=0)) + shift)
