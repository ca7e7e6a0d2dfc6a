"""Bayesian networks over coded attributes: graph, parameters, samples, and the circuit of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats
from privbench.domain import Domain
from privbench.errors import ConfigError
from privbench_lab.circuit import Builder, Circuit
from privbench_lab.literature.classify import draw

#: Most nodes of a network's circuit; alarm has 30,000. Twice as many take twice the memory.
MOST_NODES = 2**21


@dataclass(frozen=True, slots=True)
class Graph:
    """A directed acyclic graph; a ConfigError for a cycle, or a parent that is no node.

    >>> Graph({"b": ("a",), "a": ()}).order
    ('a', 'b')
    """

    parents: Mapping[str, tuple[str, ...]]  # of every node, in the order of its table's axes

    def __post_init__(self) -> None:
        for name, parents in self.parents.items():
            for parent in parents:
                if parent not in self.parents or parent == name:
                    raise ConfigError(f"{parent!r} is no possible parent.", column=name)
            if len(set(parents)) != len(parents):
                raise ConfigError("a parent is listed twice.", column=name)
        if len(self.order) != len(self.parents):
            left = sorted(set(self.parents) - set(self.order))
            raise ConfigError(f"the graph has a cycle through {', '.join(left)}.")

    @property
    def order(self) -> tuple[str, ...]:
        """Nodes with parents before children; those on a cycle, or below one, are left out."""
        placed: dict[str, None] = {}
        waiting = list(self.parents)
        while ready := [name for name in waiting if set(self.parents[name]) <= placed.keys()]:
            placed.update(dict.fromkeys(ready))
            waiting = [name for name in waiting if name not in placed]
        return tuple(placed)

    def children(self, name: str) -> tuple[str, ...]:
        """Nodes that have a node as a parent."""
        return tuple(child for child, parents in self.parents.items() if name in parents)

    def heights(self) -> dict[str, int]:
        """Length of the longest path from every node to a leaf."""
        found: dict[str, int] = {}
        for name in reversed(self.order):
            found[name] = 1 + max((found[child] for child in self.children(name)), default=-1)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A Bayesian network."""

    domains: Mapping[str, Domain]  # domain of every attribute
    graph: Graph  # the graph over all attributes
    tables: Mapping[str, Floats]  # laws given parents, shape (*parents' sizes, size)

    @classmethod
    def of_counts(
        cls, domains: Mapping[str, Domain], graph: Graph, counts: Mapping[str, Floats]
    ) -> Network:
        """The network of non-negative counts.

        A state of the parents that never occurs gives all values equal probabilities.
        """
        return cls(domains, graph, {name: _normalised(counts[name]) for name in domains})

    def sample(self, rows: int, generator: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        """Independent rows by ancestral sampling: codes of every attribute, shape (rows,)."""
        found: dict[str, NDArray[np.int64]] = {}
        for name in self.graph.order:
            at = tuple(found[parent] for parent in self.graph.parents[name])
            law = np.broadcast_to(self.tables[name][at], (rows, self.domains[name].size))
            found[name] = draw(law, generator)
        return found

    def circuit(self) -> Circuit:
        """The network as a circuit: exact inference in time linear in its size.

        Attributes are assigned one after the other, parents first. There is a sum node for every
        state of the open attributes: those that are assigned and still have children to come. Every
        sum node assigns one attribute, so the most probable state of all attributes is exact as
        well. Too many states at once are a ConfigError.
        """
        sizes = {name: domain.size for name, domain in self.domains.items()}
        order = _narrow(self.graph, sizes)
        builder = Builder(self.domains)
        below: NDArray[np.int64] | None = None
        for place in reversed(range(len(order))):
            name, before = order[place], _open(self.graph, order[:place])
            size, leaves = sizes[name], builder.leaves(name, np.eye(sizes[name]))
            shape = [*(sizes[other] for other in before), size]
            grid = np.indices(shape).reshape(len(shape), -1)
            codes, value = dict(zip((*before, name), grid, strict=True)), grid[-1]
            children = leaves[value]
            if below is not None:
                after = _open(self.graph, order[: place + 1])
                # If no attribute is open, there is one state.
                state = np.ravel_multi_index(
                    [np.zeros_like(value), *(codes[other] for other in after)],
                    [1, *(sizes[other] for other in after)],
                )
                pairs, at = np.unique(state * size + value, return_inverse=True)
                both = np.stack([leaves[pairs % size], below[pairs // size]], axis=1)
                children = builder.products(both)[at]
            weights = self.tables[name][(*(codes[p] for p in self.graph.parents[name]), value)]
            below = builder.sums(children.reshape(-1, size), weights.reshape(-1, size))
        return builder.build()


def _open(graph: Graph, placed: Sequence[str]) -> tuple[str, ...]:
    """The open nodes: placed ones that have a child which is not placed yet."""
    done = set(placed)
    return tuple(name for name in placed if not done.issuperset(graph.children(name)))


def _narrow(graph: Graph, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """An order with parents first, chosen greedily so that open nodes have few joint states."""

    def states(names: Sequence[str]) -> int:
        return math.prod(sizes[name] for name in _open(graph, names))

    placed: list[str] = []
    nodes = 0
    while len(placed) < len(graph.parents):
        left = [name for name in graph.parents if name not in placed]
        ready = [name for name in left if set(graph.parents[name]) <= set(placed)]
        best = min(ready, key=lambda name: (states([*placed, name]), name))
        nodes += states(placed) + states([*placed, best]) * sizes[best]
        if nodes > MOST_NODES:
            raise ConfigError(
                f"the graph's circuit has more than {MOST_NODES} nodes.",
                column=best,
                remedy="Give it fewer parents, or columns with fewer values.",
            )
        placed.append(best)
    return tuple(placed)


def _normalised(counts: Floats) -> Floats:
    mass = np.maximum(counts, 0.0)
    sums = mass.sum(axis=-1, keepdims=True)
    even = np.full_like(mass, 1.0 / mass.shape[-1])
    return np.asarray(np.divide(mass, sums, out=even, where=sums > 0))
