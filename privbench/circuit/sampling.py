"""Sampling rows, unconditionally or given evidence, vectorised over rows.

All rows start at the root; level by level, those that stand on a sum node choose a child, those on
a product node visit all children, and those on a leaf draw a code. Rows that stand on one node are
drawn together and *stratified* (see `draw.uniforms`), which removes most of the sampling noise of
low-order marginals; every row by itself follows the circuit's law exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.circuit.draw import choose, compact, uniforms
from privbench.circuit.inference import leaf_logs, upward
from privbench.circuit.structure import SUM, Circuit, Floats, Ints, Layer, expand
from privbench.domain import Codes

#: Rows drawn at once; bounds memory, whatever the number of rows.
CHUNK = 2**18
#: Cells of the (nodes, configurations) array of a conditional pass.
_CELLS = 2**23


def sample(
    circuit: Circuit,
    rows: int,
    generator: np.random.Generator,
    *,
    given: Mapping[str, NDArray[np.integer]] | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    stratified: bool = True,
) -> dict[str, Codes]:
    """Draw rows.

    Args:
        circuit: The circuit.
        rows: Number of rows.
        generator: From `privbench.rng.generator`.
        given: Known codes of some attributes, one per row. A row whose known codes have no mass
            keeps them and draws the rest unconditionally.
        weights: Weight vectors of a predicate that every row must satisfy.
        stratified: Whether rows that stand on one node are stratified.

    Returns:
        Codes per attribute, shape (rows,), in the narrowest type.

    Raises:
        ValueError: Negative number of rows, or the predicate has no mass.
    """
    if rows < 0:
        raise ValueError("the number of rows is negative")
    out: dict[str, Codes] = {
        name: np.zeros(rows, domain.dtype) for name, domain in circuit.domains.items()
    }
    for part in _parts(rows):
        known = {name: codes[part] for name, codes in (given or {}).items()}
        drawn = _draw(circuit, part.stop - part.start, generator, known, weights or {}, stratified)
        for name, codes in drawn.items():
            out[name][part] = codes
    return out


def _parts(rows: int) -> Iterator[slice]:
    for first in range(0, rows, CHUNK):
        yield slice(first, min(first + CHUNK, rows))


@dataclass(slots=True)
class _Walk:
    """Rows on their way down: evidence, and who stands where.

    Attributes:
        logs: Log values of the nodes under each configuration of evidence, or None without any.
        config: Configuration of every row.
    """

    circuit: Circuit
    generator: np.random.Generator
    stratified: bool
    weights: Mapping[str, ArrayLike]
    logs: Floats | None
    config: Ints
    layer_of: Ints
    waiting: dict[int, list[tuple[Ints, Ints]]] = field(default_factory=dict)
    leaves: dict[int, list[tuple[Ints, Ints]]] = field(default_factory=dict)

    def push(self, rows: Ints, nodes: Ints) -> None:
        """Let rows wait on nodes, whatever levels these are on."""
        place = self.layer_of[nodes]
        for level in np.unique(place):
            hold = place == level
            pair = (rows, nodes) if hold.all() else (rows[hold], nodes[hold])
            self.waiting.setdefault(int(level), []).append(pair)

    def take(self, level: int) -> tuple[Ints, Ints]:
        """Rows that wait on a level, and on which nodes."""
        pairs = self.waiting.pop(level, [])
        if not pairs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _draw(
    circuit: Circuit,
    rows: int,
    generator: np.random.Generator,
    given: Mapping[str, NDArray[np.integer]],
    weights: Mapping[str, ArrayLike],
    stratified: bool,
) -> dict[str, Codes]:
    out: dict[str, Codes] = {
        name: np.zeros(rows, domain.dtype) for name, domain in circuit.domains.items()
    }
    for some, config, logs in _configurations(circuit, rows, given, weights):
        walk = _Walk(circuit, generator, stratified, weights, logs, config, _layer_of(circuit))
        _descend(walk, len(some))
        for number, pairs in walk.leaves.items():
            name = circuit.names[number]
            if name not in given:
                position, codes = _draw_leaves(walk, number, pairs)
                out[name][some[position]] = codes
    for name, codes in given.items():
        out[name] = codes.astype(circuit.domains[name].dtype)
    return out


def _configurations(
    circuit: Circuit,
    rows: int,
    given: Mapping[str, NDArray[np.integer]],
    weights: Mapping[str, ArrayLike],
) -> Iterator[tuple[Ints, Ints, Floats | None]]:
    """Rows, their configuration of evidence, and node values, in blocks that fit in memory."""
    everyone = np.arange(rows)
    if not given and not weights:
        yield everyone, np.zeros(rows, np.int64), None
        return
    config = np.zeros(rows, np.int64)
    kinds = 1
    for name, codes in given.items():
        size = circuit.domains[name].size
        distinct, config = compact(config * size + codes.astype(np.int64), kinds * size)
        kinds = len(distinct)
    shown = np.zeros(kinds, np.int64)
    shown[config] = everyone
    step = max(1, _CELLS // circuit.nodes)
    for first in range(0, kinds, step):
        last = min(first + step, kinds)
        logs = _evidence_logs(circuit, given, weights, shown[first:last])
        hold = (config >= first) & (config < last)
        yield everyone[hold], config[hold] - first, logs


def _evidence_logs(
    circuit: Circuit,
    given: Mapping[str, NDArray[np.integer]],
    weights: Mapping[str, ArrayLike],
    shown: Ints,
) -> Floats:
    width = len(shown)
    shared = {name: np.asarray(vector, np.float64)[None, :] for name, vector in weights.items()}
    vectors = {name: np.repeat(vector, width, axis=0) for name, vector in shared.items()}
    logs = leaf_logs(circuit, vectors, width)
    if weights and not np.isfinite(upward(circuit, logs.copy())[circuit.root]).any():
        raise ValueError("the predicate has no mass")
    for name, codes in given.items():
        leaves = circuit.leaves_of(circuit.number(name))
        with np.errstate(divide="ignore"):
            logs[leaves] = np.log(circuit.laws(leaves))[:, codes[shown].astype(np.int64)]
    return upward(circuit, logs)


def _layer_of(circuit: Circuit) -> Ints:
    """Index of every node's layer; −1 for nodes without children."""
    place = np.full(circuit.nodes, -1, np.int64)
    for level, layer in enumerate(circuit.layers):
        place[layer.nodes] = level
    return place


def _descend(walk: _Walk, rows: int) -> None:
    walk.push(np.arange(rows), np.full(rows, walk.circuit.root))
    for level in range(len(walk.circuit.layers) - 1, -1, -1):
        some, nodes = walk.take(level)
        if not len(some):
            continue
        if walk.circuit.layers[level].kind == SUM:
            walk.push(some, _choose_child(walk, walk.circuit.layers[level], some, nodes))
        else:
            _visit_children(walk, some, nodes)
    some, nodes = walk.take(-1)
    numbers = walk.circuit.attribute[nodes]
    for number in range(len(walk.circuit.domains)):
        hold = numbers == number
        if hold.any():
            walk.leaves[number] = [(some[hold], nodes[hold])]


def _visit_children(walk: _Walk, rows: Ints, nodes: Ints) -> None:
    circuit = walk.circuit
    counts = circuit.offsets[nodes + 1] - circuit.offsets[nodes]
    for position in range(int(counts.max())):
        hold = counts > position
        if not hold.all():
            rows, nodes, counts = rows[hold], nodes[hold], counts[hold]
        walk.push(rows, circuit.children[circuit.offsets[nodes] + position])


def _choose_child(walk: _Walk, layer: Layer, rows: Ints, nodes: Ints) -> Ints:
    circuit = walk.circuit
    width = 1 if walk.logs is None else walk.logs.shape[1]
    kinds, group = compact(nodes * width + walk.config[rows], circuit.nodes * width)
    node, config = kinds // width, kinds % width
    counts = circuit.offsets[node + 1] - circuit.offsets[node]
    edges = expand(circuit.offsets[node], counts)
    starts = np.cumsum(counts) - counts
    weights = circuit.weights[edges]
    if walk.logs is not None:
        weights = _posterior(walk.logs, circuit.children[edges], weights, starts, counts, config)
    numbers = uniforms(group, len(kinds), walk.generator, walk.stratified)
    return circuit.children[edges[choose(weights, starts, counts, group, numbers)]]


def _posterior(
    logs: Floats, children: Ints, weights: Floats, starts: Ints, counts: Ints, config: Ints
) -> Floats:
    """Mixing weights given evidence; the prior's where the evidence has no mass."""
    value = logs[children, np.repeat(config, counts)]
    top = np.repeat(np.maximum.reduceat(value, starts), counts)
    with np.errstate(invalid="ignore"):
        scaled = weights * np.nan_to_num(np.exp(value - top), nan=0.0)
    empty = np.repeat(np.add.reduceat(scaled, starts), counts) <= 0
    mass = np.repeat(np.add.reduceat(np.where(empty, weights, scaled), starts), counts)
    return np.asarray(np.where(empty, weights, scaled) / mass)


def _draw_leaves(
    walk: _Walk, number: int, pairs: list[tuple[Ints, Ints]]
) -> tuple[Ints, NDArray[np.integer]]:
    circuit = walk.circuit
    rows, nodes = pairs[0]
    leaves, group = compact(nodes, circuit.nodes)
    laws = circuit.laws(leaves)
    name = circuit.names[number]
    if name in walk.weights:
        masked = laws * np.asarray(walk.weights[name], np.float64)
        laws = np.where(masked.sum(axis=1, keepdims=True) > 0, masked, laws)
    size = laws.shape[1]
    numbers = uniforms(group, len(leaves), walk.generator, walk.stratified)
    starts = size * np.arange(len(leaves))
    counts = np.full(len(leaves), size)
    return rows, choose(laws.ravel(), starts, counts, group, numbers) - starts[group]
