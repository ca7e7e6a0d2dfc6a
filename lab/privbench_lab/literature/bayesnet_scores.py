"""How far a Bayesian network is from a reference: parameters and most probable explanations.

Nothing here is differentially private: the reference is the maximum-likelihood network of the
source's rows, or the network from which they were drawn. In the first case the distance is
CONFIDENTIAL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats
from privbench.domain import Domain
from privbench_lab.circuit import Circuit, probabilities
from privbench_lab.literature.network import Graph, Network

#: Most attributes of a query for the most probable explanation: their states are enumerated.
_MOST = 3


def maximum_likelihood(
    domains: Mapping[str, Domain], graph: Graph, rows: Mapping[str, NDArray[np.integer]]
) -> Network:
    """The network of relative counts, without noise.

    A state of the parents that never occurs gives all values equal probabilities.
    """
    counts = {}
    for name, parents in graph.parents.items():
        shape = tuple(domains[other].size for other in (*parents, name))
        index = np.ravel_multi_index([rows[other] for other in (*parents, name)], shape)
        counts[name] = np.bincount(index, minlength=math.prod(shape)).reshape(shape).astype(float)
    return Network.of_counts(domains, graph, counts)


def network_of(circuit: Circuit, graph: Graph) -> Network:
    """The network of a graph with parameters computed from a circuit."""
    tables = {
        name: _joint(circuit, (*parents, name), {}) for name, parents in graph.parents.items()
    }
    return Network.of_counts(circuit.domains, graph, tables)


@dataclass(frozen=True, slots=True)
class Distance:
    """Mean distance of laws: L1 in [0, 2], and Kullback-Leibler in nats."""

    l1: float
    kl: float


def parameter_distance(reference: Network, other: Network) -> Distance:
    """Mean distance of parameters: over the states of a node's parents, then over all nodes.

    States of parents without mass in the reference are left out, as it has no parameters for them.
    """
    l1, kl = [], []
    circuit = reference.circuit()
    for name, parents in reference.graph.parents.items():
        seen = _joint(circuit, parents, {}).ravel() > 0
        p = reference.tables[name].reshape(len(seen), -1)[seen]
        q = other.tables[name].reshape(len(seen), -1)[seen]
        l1.append(float(np.abs(p - q).sum(axis=1).mean()))
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(p > 0, p * np.log(p / q), 0.0)
        kl.append(float(terms.sum(axis=1).mean()))
    return Distance(float(np.mean(l1)), float(np.mean(kl)))


def map_accuracy(
    reference: Circuit, other: Circuit, queries: int, generator: np.random.Generator
) -> float:
    """Part of random queries for which both circuits name the same most probable state.

    A query has 1 to `_MOST` attributes. The evidence is a random number of the others, from none to
    all, with the values of a row drawn from the reference. States are enumerated, so both answers
    are exact.
    """
    names = list(reference.domains)
    drawn = reference.sample(queries, generator)
    same = 0
    for query in range(queries):
        order = [names[i] for i in generator.permutation(len(names))]
        free = int(generator.integers(1, min(_MOST, len(names)) + 1))
        known = int(generator.integers(0, len(names) - free + 1))
        given = {name: int(drawn[name][query]) for name in order[free : free + known]}
        states = [_joint(circuit, order[:free], given) for circuit in (reference, other)]
        same += int(states[0].argmax() == states[1].argmax())
    return same / queries


def _joint(circuit: Circuit, names: Sequence[str], given: Mapping[str, int]) -> Floats:
    """Joint probabilities of the evidence and all states of some attributes, one axis for each."""
    shape = tuple(circuit.domains[name].size for name in names)
    if not names:
        return np.ones(shape)
    states = np.indices(shape).reshape(len(shape), -1)
    weights = {name: np.eye(size)[at] for name, size, at in zip(names, shape, states, strict=True)}
    for name, code in given.items():
        weights[name] = np.eye(circuit.domains[name].size)[np.full(states.shape[1], code)]
    return probabilities(circuit, weights).reshape(shape)
