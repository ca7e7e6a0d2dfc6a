"""Everything a circuit computes, against plain enumeration of all worlds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench.rng import generator as make_generator
from privbench_lab.circuit import Builder, Circuit, log_likelihood, marginal, probabilities
from privbench_lab.circuit.structure import LEAF, PRODUCT

PROFILE = settings(max_examples=40, deadline=None)


@st.composite
def circuits(draw):
    """A random smooth, decomposable circuit in which nodes may be shared."""
    count = draw(st.integers(1, 4))
    domains = {f"x{i}": Domain(draw(st.integers(1, 3))) for i in range(count)}
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_circuit(domains, generator, draw(st.integers(0, 3)))


def random_circuit(domains, generator, depth):
    builder = Builder(domains)
    pool = {}

    def law(size):
        return generator.random(size) * (generator.random(size) < 0.8)

    def node(scope, depth):
        key = frozenset(scope)
        if key in pool and generator.random() < 0.2:
            return int(generator.choice(pool[key]))
        if depth > 0 and (len(scope) > 1 or generator.random() < 0.5):
            if len(scope) > 1 and generator.random() < 0.5:
                cut = int(generator.integers(1, len(scope)))
                made = builder.product([node(scope[:cut], depth - 1), node(scope[cut:], depth - 1)])
            else:
                children = [node(scope, depth - 1) for _ in range(int(generator.integers(1, 4)))]
                made = builder.sum(children, law(len(children)))
        elif len(scope) == 1:
            made = builder.leaf(scope[0], law(domains[scope[0]].size))
        else:
            made = builder.product([builder.leaf(name, law(domains[name].size)) for name in scope])
        pool.setdefault(key, []).append(made)
        return made

    builder.product([node(list(domains), depth)])
    return builder.build()


def worlds(circuit: Circuit):
    """Every row there is, codes per attribute."""
    sizes = [range(domain.size) for domain in circuit.domains.values()]
    rows = np.array(list(itertools.product(*sizes)), np.int64).reshape(-1, len(sizes))
    return {name: rows[:, i] for i, name in enumerate(circuit.names)}


def enumerate_worlds(circuit: Circuit):
    """Value of every world by the definition."""
    table = worlds(circuit)
    one = np.ones(len(next(iter(table.values()))))
    value = []
    for node in range(circuit.nodes):
        edges = range(circuit.offsets[node], circuit.offsets[node + 1])
        below = [circuit.weights[edge] * value[circuit.children[edge]] for edge in edges]
        if circuit.kind[node] == LEAF:
            name = circuit.names[circuit.attribute[node]]
            value.append(circuit.probabilities[circuit.start[node] + table[name]])
        elif circuit.kind[node] == PRODUCT:
            value.append(np.prod([one, *below], axis=0))
        else:
            value.append(np.sum(below, axis=0))
    return value[-1]


@PROFILE
@given(circuits())
def test_worlds_sum_to_one_and_likelihood_and_marginals_are_theirs(circuit):
    truth, table = enumerate_worlds(circuit), worlds(circuit)
    assert truth.sum() == pytest.approx(1)
    assert np.exp(log_likelihood(circuit, table)) == pytest.approx(truth, abs=1e-12)
    for name, domain in circuit.domains.items():
        expected = np.bincount(table[name], truth, minlength=domain.size)
        assert marginal(circuit, name) == pytest.approx(expected, abs=1e-12)


@PROFILE
@given(circuits(), st.data())
def test_probability_of_predicates(circuit, data):
    truth, table = enumerate_worlds(circuit), worlds(circuit)
    weights, mask = {}, np.ones(len(truth))
    for name, domain in circuit.domains.items():
        if data.draw(st.booleans()):
            fractions = data.draw(
                st.lists(st.floats(0, 1), min_size=domain.size, max_size=domain.size)
            )
            weights[name] = np.array(fractions)
            mask = mask * weights[name][table[name]]
    expected = (truth * mask).sum()
    batch = {name: np.stack([vector, vector / 2]) for name, vector in weights.items()}
    both = [expected, expected / 2 ** len(weights)] if weights else [1.0]
    assert probabilities(circuit, batch) == pytest.approx(both, abs=1e-12)


def chi_square_bound(counts, expected):
    """Pearson's statistic and a bound that it passes once in about a million tries."""
    hold = expected > 0
    assert not counts[~hold].any()
    statistic = ((counts - expected)[hold] ** 2 / expected[hold]).sum()
    freedom = hold.sum() - 1
    return statistic, freedom + 8 * np.sqrt(2 * freedom) + 30


@pytest.mark.parametrize("seed", range(4))
def test_samples_follow_the_law(seed):
    domains = {"a": Domain(3), "b": Domain(2), "c": Domain(3)}
    circuit = random_circuit(domains, np.random.default_rng(seed), 4)
    truth = enumerate_worlds(circuit)
    rows = circuit.sample(40_000, make_generator(seed))
    index = np.ravel_multi_index(tuple(rows[name] for name in domains), (3, 2, 3))
    counts = np.bincount(index, minlength=len(truth))
    statistic, bound = chi_square_bound(counts, truth * 40_000)
    assert statistic < bound
    wrong = np.roll(truth, 1) * 40_000
    if (wrong > 0).all() and not np.allclose(wrong, truth * 40_000, rtol=0.2):
        assert chi_square_bound(counts, wrong)[0] > bound


def test_stratified_margins_are_exact_up_to_one():
    circuit = random_circuit({"a": Domain(3)}, np.random.default_rng(5), 0)
    rows = circuit.sample(1000, make_generator(1))
    counts = np.bincount(rows["a"], minlength=3)
    assert np.abs(counts - 1000 * marginal(circuit, "a")).max() <= 1
