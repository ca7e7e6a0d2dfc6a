"""Everything a circuit computes, against plain enumeration of all worlds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.circuit import (
    Builder,
    Circuit,
    check,
    log_likelihood,
    marginal,
    most_probable,
    probabilities,
    probability,
    sample,
    sampling,
)
from privbench.circuit.structure import LEAF, PRODUCT
from privbench.domain import Domain
from privbench.rng import generator as make_generator

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


def enumerate_worlds(circuit: Circuit, combine=np.sum):
    """Value of every world by the definition; with np.max: its heaviest induced tree."""
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
            value.append(combine(below, axis=0))
    return value[-1]


def indicator(size, chosen):
    return np.isin(np.arange(size), chosen).astype(float)


@PROFILE
@given(circuits())
def test_worlds_sum_to_one_and_likelihood_is_theirs(circuit):
    check(circuit)
    truth = enumerate_worlds(circuit)
    assert truth.sum() == pytest.approx(1)
    assert np.exp(log_likelihood(circuit, worlds(circuit))) == pytest.approx(truth, abs=1e-12)


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
    assert probability(circuit, weights) == pytest.approx(expected, abs=1e-12)
    if weights:
        batch = {name: np.stack([vector, vector / 2]) for name, vector in weights.items()}
        both = probabilities(circuit, batch)
        assert both == pytest.approx([expected, expected / 2 ** len(weights)], abs=1e-12)


@PROFILE
@given(circuits(), st.data())
def test_marginals(circuit, data):
    truth, table = enumerate_worlds(circuit), worlds(circuit)
    known = data.draw(st.sampled_from(circuit.names))
    vector = indicator(circuit.domains[known].size, [0, 2])
    for mask, given_ in ((np.ones(len(truth)), None), (vector[table[known]], {known: vector})):
        for name, domain in circuit.domains.items():
            expected = np.bincount(table[name], truth * mask, minlength=domain.size)
            assert marginal(circuit, name, given=given_) == pytest.approx(expected, abs=1e-12)
        for first, second in itertools.permutations(circuit.names, 2):
            expected = np.zeros((circuit.domains[first].size, circuit.domains[second].size))
            np.add.at(expected, (table[first], table[second]), truth * mask)
            found = marginal(circuit, first, second, given=given_)
            assert found == pytest.approx(expected, abs=1e-12)


def test_marginal_needs_one_or_two_different_attributes():
    builder = Builder({"a": Domain(2)})
    builder.leaf("a", [1, 1])
    with pytest.raises(ValueError, match="one or two"):
        marginal(builder.build(), "a", "a")


@PROFILE
@given(circuits())
def test_most_probable_is_the_heaviest_induced_tree(circuit):
    trees = enumerate_worlds(circuit, np.max)
    row, log = most_probable(circuit)
    assert np.exp(log) == pytest.approx(trees.max(), abs=1e-12)
    index = np.ravel_multi_index(
        tuple(row[name] for name in circuit.names),
        tuple(domain.size for domain in circuit.domains.values()),
    )
    assert trees[index] == pytest.approx(trees.max(), abs=1e-12)


def test_most_probable_is_exact_where_branches_are_disjoint():
    generator = np.random.default_rng(3)
    domains = {"a": Domain(3), "b": Domain(4), "c": Domain(2)}
    builder = Builder(domains)
    parts = []
    for code in range(3):
        laws = [builder.leaf("b", generator.random(4)), builder.leaf("c", generator.random(2))]
        parts.append(builder.product([builder.leaf("a", np.eye(3)[code]), *laws]))
    builder.sum(parts, generator.random(3))
    circuit = builder.build()
    truth = enumerate_worlds(circuit)
    row, log = most_probable(circuit)
    assert np.exp(log) == pytest.approx(truth.max())
    allowed = worlds(circuit)["a"] != row["a"]
    other, log = most_probable(circuit, {"a": indicator(3, np.setdiff1d(range(3), row["a"]))})
    assert np.exp(log) == pytest.approx(truth[allowed].max())
    assert other["a"] != row["a"]


def chi_square_bound(counts, expected):
    """Pearson's statistic and a bound that it passes once in about a million tries."""
    hold = expected > 0
    assert not counts[~hold].any()
    statistic = ((counts - expected)[hold] ** 2 / expected[hold]).sum()
    freedom = hold.sum() - 1
    return statistic, freedom + 8 * np.sqrt(2 * freedom) + 30


@pytest.mark.parametrize("stratified", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_samples_follow_the_law(seed, stratified):
    domains = {"a": Domain(3), "b": Domain(2), "c": Domain(3)}
    circuit = random_circuit(domains, np.random.default_rng(seed), 4)
    truth = enumerate_worlds(circuit)
    rows = sample(circuit, 40_000, make_generator(seed), stratified=stratified)
    index = np.ravel_multi_index(tuple(rows[name] for name in domains), (3, 2, 3))
    counts = np.bincount(index, minlength=len(truth))
    statistic, bound = chi_square_bound(counts, truth * 40_000)
    assert statistic < bound
    wrong = np.roll(truth, 1) * 40_000
    if (wrong > 0).all() and not np.allclose(wrong, truth * 40_000, rtol=0.2):
        assert chi_square_bound(counts, wrong)[0] > bound


@pytest.mark.parametrize("seed", range(4))
def test_conditional_samples_follow_the_conditional_law(seed):
    domains = {"a": Domain(3), "b": Domain(2), "c": Domain(3)}
    circuit = random_circuit(domains, np.random.default_rng(seed), 4)
    truth = enumerate_worlds(circuit).reshape(3, 2, 3)
    vector = np.array([0.5, 0, 1.0])
    known = np.repeat([0, 1], 20_000)
    possible = (truth * vector).sum(axis=(0, 2)) > 0
    known = np.where(possible[known], known, int(possible.argmax()))
    rows = sample(circuit, 40_000, make_generator(seed), given={"b": known}, weights={"c": vector})
    assert np.array_equal(rows["b"], known)
    for code in np.unique(known):
        law = (truth * vector)[:, code]
        chosen = rows["b"] == code
        counts = np.zeros((3, 3))
        np.add.at(counts, (rows["a"][chosen], rows["c"][chosen]), 1)
        expected = law / law.sum() * chosen.sum()
        statistic, bound = chi_square_bound(counts.ravel(), expected.ravel())
        assert statistic < bound


def test_stratified_margins_are_exact_up_to_one():
    circuit = random_circuit({"a": Domain(3)}, np.random.default_rng(5), 0)
    rows = sample(circuit, 1000, make_generator(1))
    counts = np.bincount(rows["a"], minlength=3)
    assert np.abs(counts - 1000 * marginal(circuit, "a")).max() <= 1


def test_evidence_without_mass_keeps_the_codes():
    builder = Builder({"a": Domain(2), "b": Domain(2)})
    builder.product([builder.leaf("a", [1, 0]), builder.leaf("b", [1, 1])])
    circuit = builder.build()
    rows = sample(circuit, 10, make_generator(1), given={"a": np.ones(10, int)})
    assert rows["a"].tolist() == [1] * 10
    assert set(rows["b"].tolist()) == {0, 1}
    with pytest.raises(ValueError, match="no mass"):
        sample(circuit, 10, make_generator(1), weights={"a": [0, 1]})


def test_many_configurations_of_evidence_in_blocks(monkeypatch):
    monkeypatch.setattr(sampling, "_CELLS", 1)
    domains = {"a": Domain(3), "b": Domain(2)}
    builder = Builder(domains)
    parts = [
        builder.product([builder.leaf("a", np.eye(3)[i]), builder.leaf("b", [i == 1, i != 1])])
        for i in range(3)
    ]
    builder.sum(parts, [1, 1, 1])
    known = np.arange(999) % 3
    rows = sample(builder.build(), 999, make_generator(1), given={"a": known})
    assert np.array_equal(rows["b"], (known != 1).astype(int))
