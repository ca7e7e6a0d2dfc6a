"""Figures of the systems of other papers that are judged by their models instead of their rows.

    python benchmarks/literature.py density FOLDER [--epsilon 0.1 1 10] [--option columns=random]
    python benchmarks/literature.py network FILE.bif.gz [--epsilon 1 2 3]

``density`` reads ``ts.data.gz`` and ``test.data.gz`` of zeros and ones and prints the mean
log-likelihood of the test rows under `dpspn`. ``network`` draws 10,000 rows from a network, learns
its parameters with both divisions of the budget, and prints their distance from the parameters of
maximum likelihood, and how often the most probable explanation is the same. Noise is seeded: what
is fitted here is NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privbench.circuit import Circuit
from privbench.domain import Domain
from privbench.literature.bayesnet import BayesnetSynthesizer
from privbench.literature.bayesnet_scores import (
    map_accuracy,
    maximum_likelihood,
    network_of,
    parameter_distance,
)
from privbench.literature.bif import read_bif
from privbench.literature.classify import mean_log_likelihood
from privbench.literature.dpspn import DpspnSynthesizer
from privbench.privacy import Accountant, DatabaseSpec, SeededNoise, TableSpec, open_session
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Total
from privbench.synthesizers import Synthesizer

Rows = Mapping[str, NDArray[np.integer]]


def fit(
    learner: Synthesizer,
    rows: Rows,
    domains: Mapping[str, Domain],
    epsilon: float,
    seed: int,
    accounting: str,
) -> Circuit:
    """The circuit of one table; 2 % of the budget go to its size."""
    cells = {name: Cells(codes, domains[name]) for name, codes in rows.items()}
    count = len(next(iter(rows.values())))
    spec = DatabaseSpec({"t": TableSpec("t", {})})
    data = PrivateDatabase(spec, {"t": PrivateTable(count, cells, {})})
    accountant = (
        Accountant("pure", epsilon) if accounting == "pure" else Accountant("zcdp", epsilon, 1e-6)
    )
    with tempfile.TemporaryDirectory() as ledger:
        session = open_session(data, accountant, ledger, "literature", noise=SeededNoise(seed))
        amount = session.amount_total
        (total,) = session.measure(Total("t"), 0.02 * amount, "total of t")
        model = learner.fit(session, {"t": max(float(total), 1.0)}, 0.98 * amount)
    return model.circuits["t"]


def density(folder: Path, args: argparse.Namespace) -> Iterator[str]:
    """One line per ε."""
    parts = []
    for name in ("ts", "test"):
        with gzip.open(folder / f"{name}.data.gz", "rt") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
        parts.append({f"x{i}": column for i, column in enumerate(table.T)})
    train, test = parts
    domains = {name: Domain(2) for name in train}
    learner = DpspnSynthesizer(dict(option.split("=", 1) for option in args.option))
    for epsilon in args.epsilon:
        found = [
            mean_log_likelihood(fit(learner, train, domains, epsilon, seed, args.accounting), test)
            for seed in range(1, args.seeds + 1)
        ]
        yield f"{folder.name} ε = {epsilon:g}: {np.mean(found):.3f} ± {np.std(found):.3f}"


def network(path: Path, args: argparse.Namespace) -> Iterator[str]:
    """One line per ε and division of the budget."""
    truth = read_bif(path).network
    rows = truth.sample(10_000, np.random.default_rng(0))
    exact = maximum_likelihood(truth.domains, truth.graph, rows)
    reference = exact.circuit()
    for epsilon in args.epsilon:
        for budget in ("independent", "dependent"):
            learner = BayesnetSynthesizer({"bif": str(path), "budget": budget})
            found = []
            for seed in range(1, args.seeds + 1):
                circuit = fit(learner, rows, truth.domains, epsilon, seed, args.accounting)
                distance = parameter_distance(exact, network_of(circuit, truth.graph))
                random = np.random.default_rng(seed)
                accuracy = map_accuracy(reference, circuit, args.queries, random)
                found.append((distance.l1, distance.kl, accuracy))
            l1, kl, accuracy = np.mean(found, axis=0)
            yield (
                f"{path.name} ε = {epsilon:g} {budget}: "
                f"L1 {l1:.4f}, KL {kl:.4f}, MAP {accuracy:.3f}"
            )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["density", "network"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--accounting", choices=["pure", "zcdp"], default="pure")
    parser.add_argument("--option", nargs="*", default=[])
    args = parser.parse_args()
    for line in (density if args.what == "density" else network)(args.path, args):
        print(line, flush=True)


if __name__ == "__main__":
    main()
