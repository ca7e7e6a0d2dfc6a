"""Exact inference: likelihood, probability of conjunctive predicates, marginals.

Everything runs level by level over arrays of shape (nodes, batch), in logarithms upward, so that
circuits over hundreds of attributes do not underflow. Cost: linear in the number of edges.

A *weight vector* of an attribute gives every code a weight in [0, 1]: the indicator of a range, of
a list (IN), of one code (equality, NULL), or a fraction for a range that cuts a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.circuit.structure import SUM, Circuit, Floats, Ints

#: Cells of a (nodes, batch) array that one pass may hold.
_CELLS = 2**22


def log_likelihood(circuit: Circuit, rows: Mapping[str, NDArray[np.integer]]) -> Floats:
    """Natural logarithm of the probability of every row.

    Args:
        circuit: The circuit.
        rows: Codes per attribute, each of shape (rows,). Attributes left out are summed out.

    Returns:
        Shape (rows,); −inf where a row has no mass.
    """
    count = len(next(iter(rows.values()))) if rows else 0
    out = np.empty(count)
    for part in _batches(circuit, count):
        logs = np.zeros((circuit.nodes, part.stop - part.start))
        for name, codes in rows.items():
            leaves = circuit.leaves_of(circuit.number(name))
            with np.errstate(divide="ignore"):
                logs[leaves] = np.log(circuit.laws(leaves))[:, codes[part].astype(np.int64)]
        out[part] = upward(circuit, logs)[circuit.root]
    return out


def probability(circuit: Circuit, weights: Mapping[str, ArrayLike]) -> float:
    """Probability of one conjunctive predicate.

    Args:
        circuit: The circuit.
        weights: A weight vector per constrained attribute, shape (domain size,).
    """
    rows = {name: np.asarray(vector, np.float64)[None, :] for name, vector in weights.items()}
    return float(probabilities(circuit, rows)[0])


def probabilities(circuit: Circuit, weights: Mapping[str, Floats]) -> Floats:
    """Probabilities of many conjunctive predicates at once.

    Args:
        circuit: The circuit.
        weights: Weight vectors per attribute, shape (queries, domain size).

    Returns:
        Shape (queries,).
    """
    count = len(next(iter(weights.values()))) if weights else 1
    out = np.empty(count)
    for part in _batches(circuit, count):
        batch = {name: table[part] for name, table in weights.items()}
        logs = leaf_logs(circuit, batch, part.stop - part.start)
        out[part] = np.exp(upward(circuit, logs)[circuit.root])
    return out


def marginal(circuit: Circuit, *names: str, given: Mapping[str, ArrayLike] | None = None) -> Floats:
    """Joint law of one or two attributes.

    Args:
        circuit: The circuit.
        names: One attribute, or two different ones.
        given: Weight vectors of a predicate; the result is then the joint probability of cell and
            predicate (it sums to the predicate's probability).

    Returns:
        Shape (size,) or (size of the first, size of the second).

    Raises:
        ValueError: Not one or two different attributes.
    """
    if not 1 <= len(set(names)) == len(names) <= 2:
        raise ValueError("a marginal has one or two different attributes")
    known = (given or {}).items()
    evidence = {name: np.asarray(vector, np.float64)[None, :] for name, vector in known}
    last = circuit.number(names[-1])
    if len(names) == 1:
        return np.asarray(_conditional_law(circuit, evidence, last, 1)[0])
    first = np.eye(circuit.domains[names[0]].size)
    if names[0] in evidence:
        first = first * evidence[names[0]]
    table = np.empty((len(first), circuit.domains[names[1]].size))
    for part in _batches(circuit, len(first)):
        width = part.stop - part.start
        batch = {name: np.repeat(vector, width, axis=0) for name, vector in evidence.items()}
        batch[names[0]] = first[part]
        table[part] = _conditional_law(circuit, batch, last, width)
    return table


def leaf_logs(circuit: Circuit, weights: Mapping[str, Floats], width: int) -> Floats:
    """Logarithms of the leaves' values under weight vectors; zero for other nodes.

    Returns:
        Shape (nodes, width), to be handed to `upward`.
    """
    logs = np.zeros((circuit.nodes, width))
    for name, table in weights.items():
        leaves = circuit.leaves_of(circuit.number(name))
        if len(leaves):
            with np.errstate(divide="ignore"):
                logs[leaves] = np.log(circuit.laws(leaves) @ table.T)
    return logs


def upward(circuit: Circuit, logs: Floats) -> Floats:
    """Fill in the inner nodes' log values, in place.

    Args:
        circuit: The circuit.
        logs: Shape (nodes, width), with the leaves' values set.

    Returns:
        The same array.
    """
    with np.errstate(divide="ignore"):
        weights = np.log(circuit.weights)
    for layer in circuit.layers:
        below = logs[circuit.children[layer.edges]]
        if layer.kind == SUM:
            below += weights[layer.edges][:, None]
            logs[layer.nodes] = _log_sum(below, layer.starts, layer.counts)
        else:
            logs[layer.nodes] = np.add.reduceat(below, layer.starts, axis=0)
    return logs


def downward(circuit: Circuit, logs: Floats) -> Floats:
    """How much of the root's value flows through every node (its posterior use).

    Args:
        circuit: The circuit.
        logs: What `upward` returned.

    Returns:
        Shape (nodes, width): 1 at a root with positive value, 0 everywhere where it has none.
    """
    flow = np.zeros_like(logs)
    flow[circuit.root] = np.isfinite(logs[circuit.root])
    for layer in reversed(circuit.layers):
        children = circuit.children[layer.edges]
        share = np.repeat(flow[layer.nodes], layer.counts, axis=0)
        if layer.kind == SUM:
            with np.errstate(invalid="ignore"):
                ratio = np.exp(logs[children] - np.repeat(logs[layer.nodes], layer.counts, axis=0))
            share *= np.nan_to_num(ratio, nan=0.0) * circuit.weights[layer.edges][:, None]
        np.add.at(flow, children, share)
    return flow


def _conditional_law(
    circuit: Circuit, evidence: Mapping[str, Floats], number: int, width: int
) -> Floats:
    """Joint probability of every code of one attribute with each predicate, (width, size)."""
    logs = upward(circuit, leaf_logs(circuit, evidence, width))
    flow = downward(circuit, logs)
    leaves = circuit.leaves_of(number)
    laws = circuit.laws(leaves)
    with np.errstate(divide="ignore"):
        use = np.divide(
            flow[leaves],
            np.exp(logs[leaves]),
            out=np.zeros((len(leaves), width)),
            where=np.isfinite(logs[leaves]),
        )
    table = use.T @ laws
    name = circuit.names[number]
    if name in evidence:
        table *= evidence[name]
    return np.asarray(table * np.exp(logs[circuit.root])[:, None])


def _log_sum(values: Floats, starts: Ints, counts: Ints) -> Floats:
    top = np.maximum.reduceat(values, starts, axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    values -= np.repeat(shift, counts, axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.add.reduceat(np.exp(values), starts, axis=0)) + shift)


def _batches(circuit: Circuit, count: int) -> Iterator[slice]:
    """Slices of a batch whose (nodes, slice) array stays small."""
    step = max(1, _CELLS // max(circuit.nodes, len(circuit.children), 1))
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))
