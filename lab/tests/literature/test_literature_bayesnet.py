"""Bayesian networks: files, exact circuits, the division of the budget, fits and their scores."""

import gzip
from itertools import product

import numpy as np
import pytest
from sql_files import sql_of

from privbench.domain import Domain
from privbench.errors import ConfigError
from privbench.synthesizers import PlanInput
from privbench_lab.circuit import probabilities
from privbench_lab.literature.bayesnet import BayesnetSynthesizer, shares_of_nodes
from privbench_lab.literature.bayesnet_scores import (
    map_accuracy,
    maximum_likelihood,
    network_of,
    parameter_distance,
)
from privbench_lab.literature.bif import parse_bif, read_bif
from privbench_lab.literature.network import Graph, Network
from privbench_lab.outline import circuits

BIF = sql_of(__file__, "weather.bif")


def weather() -> Network:
    return parse_bif(BIF).network


def columns(rows: int, seed: int = 0):
    network = weather()
    drawn = network.sample(rows, np.random.default_rng(seed))
    return {name: (codes, network.domains[name]) for name, codes in drawn.items()}


def test_a_file_is_read_plain_and_packed(tmp_path):
    for name, write in (("a.bif", open), ("a.bif.gz", gzip.open)):
        path = tmp_path / name
        with write(path, "wt") as file:
            file.write(BIF)
        found = read_bif(path)
        assert found.values["grass"] == ("dry", "damp", "wet")
        assert found.network.graph.parents["grass"] == ("rain", "sprinkler")
        assert found.network.tables["grass"][1, 0].tolist() == [0.1, 0.4, 0.5]
        assert found.network.tables["mood"][0].tolist() == [0.2, 0.8]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[ 3 ]", "[ 2 ]", "not as many"),
        ("(yes, on) 0.0, 0.2, 0.8;", "", "not complete"),
        ("0.2, 0.8; (no)", "0.2; (no)", "another length"),
        ("(yes) 0.1", "(maybe) 0.1", "unknown value"),
        ("rain ) { table", "rain | mood ) { (good)", "cycle"),
        ("table 0.3, 0.7;", "include secrets;", "no row"),
        ("probability ( mood | rain )", "import ( mood | rain )", "where a block should begin"),
        ("{ type discrete [ 2 ] { good, bad }; }", "{ type", "should be"),
        ("0.7; }", "0,7x; }", "no number"),
    ],
)
def test_a_damaged_file_is_refused(old, new, fault):
    assert BIF.count(old) >= 1
    with pytest.raises(ConfigError, match=fault):
        parse_bif(BIF.replace(old, new, 1))


def test_the_circuit_of_a_network_is_exact():
    network = weather()
    circuit = network.circuit()
    names = list(network.domains)
    worlds = np.array(list(product(*(range(network.domains[name].size) for name in names))))
    at = dict(zip(names, worlds.T, strict=True))
    chance = np.ones(len(worlds))
    for name, parents in network.graph.parents.items():
        chance *= network.tables[name][(*(at[parent] for parent in parents), at[name])]
    unit = {name: np.eye(network.domains[name].size)[at[name]] for name in names}
    assert probabilities(circuit, unit) == pytest.approx(chance)
    again = network_of(circuit, network.graph)
    assert parameter_distance(network, again).l1 == pytest.approx(0.0, abs=1e-9)


def test_a_graph_that_is_too_wide_is_refused():
    domains = {f"x{i}": Domain(64) for i in range(6)} | {"y": Domain(2)}
    graph = Graph({name: () for name in domains} | {"y": tuple(f"x{i}" for i in range(6))})
    with pytest.raises(ConfigError, match="more than"):
        Network(domains, graph, {}).circuit()


GRAPH = {"sprinkler": ("rain",), "grass": ("rain", "sprinkler"), "mood": ("rain",)}


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@pytest.mark.parametrize("budget", ["dependent", "independent"])
def test_parameters_are_learned(budget, accounting, table, begin):
    session, totals, amount = begin(table(columns(10000)), 2.0, accounting)
    learner = BayesnetSynthesizer({"parents": GRAPH, "budget": budget})
    planned = {
        e.label: e for e in learner.plan(session.spec, PlanInput(amount, accounting, totals))
    }
    model = learner.fit(session, totals, amount)
    assert 0.95 * session.amount_total < session.spent <= session.amount_total
    assert {step.event.label for step in session.trace[1:]} == set(planned)
    circuit = circuits(model)["t"]
    truth = weather()
    assert parameter_distance(truth, network_of(circuit, truth.graph)).l1 < 0.08
    assert map_accuracy(truth.circuit(), circuit, 20, np.random.default_rng(1)) >= 0.8
    drawn = model.sample(1.0, 1)["t"].codes
    rows = {name: codes.astype(int) for name, codes in drawn.items()}
    made = maximum_likelihood(truth.domains, truth.graph, rows)
    assert np.abs(made.tables["mood"] - truth.tables["mood"]).max() < 0.05


def test_rare_parents_get_more_of_the_budget():
    graph = Graph({"a": (), "b": ("a",), "c": ("a",)})
    counts = {
        "a": np.array([990.0, 10.0]),
        "b": np.array([[500.0, 490.0], [5.0, 5.0]]),
        "c": np.array([[500.0, 490.0], [5.0, 5.0]]),
    }
    sizes = dict.fromkeys("abc", 2)
    for accounting, power in (("pure", 1 / 2), ("zcdp", 2 / 3)):
        found = shares_of_nodes(graph, sizes, counts, accounting)
        assert sum(found.values()) == pytest.approx(1.0)
        assert found["b"] == found["c"] > found["a"]
        # a: height 1, two children, sensitivity 1 / 2; b and c are leaves.
        error_a = np.sqrt(1 + np.array([0.99, 0.01]) ** 2).mean() / 1000
        theta = counts["b"] / counts["b"].sum(axis=1, keepdims=True)
        error_b = (np.sqrt(1 + theta**2) / counts["b"].sum(axis=1, keepdims=True)).mean()
        assert found["a"] / found["b"] == pytest.approx((2 * error_a / error_b) ** power)
