"""Single-table shoot-out: synthesizers on one coded table, for several ε and seeds.

    python benchmarks/single_table.py TABLE.csv DOMAIN.json --ordered age,hours-per-week
    python benchmarks/single_table.py ... --epsilon 3.2,0.8,0.1 --seeds 5 --judge judge.py
    python benchmarks/single_table.py ... --peers mst,aim,privbayes --peer-python ENV/bin/python

TABLE.csv holds integer codes, DOMAIN.json the number of codes of every column, or an object with
``size``, ``ordered`` and ``nullable`` (the last code is NULL) as `code_csv.py` writes it;
``--ordered`` names further columns whose codes follow an order. Every fit goes through a session
with OpenDP noise and a ledger of its own in a temporary directory; no PostgreSQL is needed. Prints
medians over seeds: λ-way KLD for λ = 2, 3, 4, 2-way TVD, mean Q-error, CPU seconds of fit and of
sampling.

Figures are this project's own measures, or those of an external script given by ``--judge`` that
takes two CSV files and prints one JSON object with ``kld``, ``tvd`` and ``qerror``. Peers are run
by the package dpmm in a Python environment of its own, each under a time limit; ``--peer-delta`` is
theirs, our own synthesizers run under pure ε. The output is computed from private rows:
CONFIDENTIAL.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privbench.domain import Domain
from privbench.metrics.kld import Coded, divergence
from privbench.metrics.qerror import qerrors
from privbench.privacy import Accountant, Accounting, DatabaseSpec, TableSpec, open_session
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Total
from privbench.rng import generator
from privbench.synthesizers import get

TABLE = "table"
#: Part of ε for the table's noisy size.
TOTAL = 0.01
DELTA = 1e-9
_QUERIES, _QUERY_SEED = 1000, 20240229
_HEADINGS = ("KLD2", "KLD3", "KLD4", "TVD2", "Q mean", "fit s", "sample s")


@dataclass(frozen=True, slots=True)
class Table:
    """A coded table with its public domains."""

    rows: pd.DataFrame
    domains: dict[str, Domain]

    def database(self, neighbours: str = "add-remove") -> PrivateDatabase:
        """The private database of this one table."""
        cells = {name: Cells(self.rows[name].to_numpy(), d) for name, d in self.domains.items()}
        spec = DatabaseSpec({TABLE: TableSpec(TABLE, {})})
        return PrivateDatabase(spec, {TABLE: PrivateTable(len(self.rows), cells, {})})


def read(path: Path, domain: Path, ordered: str) -> Table:
    """The table and its domains."""
    rows = pd.read_csv(path)
    names = {name for name in ordered.split(",") if name}
    sizes = json.loads(domain.read_text())
    if not names <= set(rows.columns):
        sys.exit(f"no such columns: {sorted(names - set(rows.columns))}")
    return Table(rows, {name: _domain(sizes[name], name in names) for name in rows.columns})


def _domain(size: int | dict[str, Any], ordered: bool) -> Domain:
    if isinstance(size, int):
        return Domain(size, ordered)
    nullable = bool(size["nullable"])
    return Domain(int(size["size"]) - nullable, ordered or bool(size["ordered"]), (), nullable)


def clone(table: Table, name: str, epsilon: float, accounting: Accounting, seed: int) -> Outcome:
    """Fit and sample with one of our synthesizers."""
    with tempfile.TemporaryDirectory() as ledger:
        started = time.process_time()
        accountant = Accountant(accounting, epsilon, DELTA if accounting == "zcdp" else 0.0)
        session = open_session(table.database(), accountant, ledger, "benchmark")
        amount = session.amount_total
        total = float(session.measure(Total(TABLE), TOTAL * amount, "total")[0])
        totals = {TABLE: max(total, 1.0)}
        model = get(name)().fit(session, totals, (1 - TOTAL) * amount)
        fitted = time.process_time()
        codes = model.sample(1.0, seed).tables[TABLE].codes
        sampled = time.process_time()
        session.close()
    return Outcome(pd.DataFrame(codes), fitted - started, sampled - fitted)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A synthetic table and the CPU seconds it took."""

    rows: pd.DataFrame
    fit: float
    sample: float


def peer(
    table: Table, name: str, epsilon: float, seed: int, options: argparse.Namespace
) -> Outcome | None:
    """A peer's table, or None where it failed or ran out of time."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "in.csv"), Path(folder, "domain.json"), Path(folder, "out.csv")
        table.rows.to_csv(paths[0], index=False)
        paths[1].write_text(json.dumps({n: d.size for n, d in table.domains.items()}))
        script = Path(__file__).with_name("peer_dpmm.py")
        command = [options.peer_python, str(script), *map(str, paths), name]
        command += [str(epsilon), str(options.peer_delta), str(seed)]
        environment = {**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"}
        try:
            ran = subprocess.run(
                command, timeout=options.peer_limit, env=environment, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            print(f"{name}: stopped after {options.peer_limit} s", flush=True)
            return None
        if ran.returncode:
            print(f"{name}: failed: {ran.stderr.strip().splitlines()[-1:]}", flush=True)
            return None
        seconds = json.loads(ran.stdout.strip().splitlines()[-1])
        return Outcome(pd.read_csv(paths[2]), seconds["fit"], seconds["sample"])


def figures(table: Table, rows: pd.DataFrame, judge: Path | None) -> list[float]:
    """KLD for λ = 2, 3, 4, 2-way TVD and mean Q-error."""
    if judge is None:
        return _own_figures(table, rows)
    with tempfile.TemporaryDirectory() as folder:
        real, made = Path(folder, "real.csv"), Path(folder, "synthetic.csv")
        table.rows.to_csv(real, index=False)
        rows.to_csv(made, index=False)
        ran = subprocess.run(
            [sys.executable, str(judge), str(real), str(made)],
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(ran.stdout)
    return [found["kld"][way] for way in "234"] + [found["tvd"]["2"], found["qerror"]["mean"]]


def _own_figures(table: Table, rows: pd.DataFrame) -> list[float]:
    columns = [
        Coded(
            table.rows[name].to_numpy().astype(np.uint32),
            rows[name].to_numpy().astype(np.uint32),
            domain.size,
        )
        for name, domain in table.domains.items()
    ]
    found = [divergence(columns, ways) for ways in (2, 3, 4)]
    klds = [float("nan") if part is None else part.kld for part in found]
    tvd = float("nan") if found[0] is None else found[0].tvd
    answers = np.array(list(_cardinalities(table, rows)))
    return [*klds, tvd, float(qerrors(answers[:, 0], answers[:, 1]).mean())]


def _cardinalities(table: Table, rows: pd.DataFrame) -> Iterator[tuple[int, int]]:
    """Answers of both tables to conjunctive queries around random real rows."""
    numbers = generator(_QUERY_SEED, "queries")
    real, made = table.rows.to_numpy().T, rows[list(table.domains)].to_numpy().T
    ordered = [domain.ordered and domain.size > 20 for domain in table.domains.values()]
    for _ in range(_QUERIES):
        anchor = int(numbers.integers(real.shape[1]))
        chosen = numbers.permutation(len(real))[: int(numbers.integers(1, len(real) + 1))]
        hits = [np.ones(side.shape[1], bool) for side in (real, made)]
        for column in chosen:
            kind = int(numbers.integers(3)) if ordered[column] else 0
            test = (np.equal, np.less_equal, np.greater_equal)[kind]
            for hit, side in zip(hits, (real, made), strict=True):
                hit &= test(side[column], real[column, anchor])
        yield int(hits[0].sum()), int(hits[1].sum())


def main() -> None:
    """Run the shoot-out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("domain", type=Path)
    parser.add_argument("--ordered", default="", help="columns whose codes follow an order")
    parser.add_argument("--epsilon", default="3.2,0.8,0.1")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--accounting", choices=("pure", "zcdp"), default="pure")
    parser.add_argument("--synthesizers", default="privbench,independent,privbench-paper")
    parser.add_argument("--judge", type=Path, help="external script for the figures")
    parser.add_argument("--peers", default="", help="of dpmm: mst, aim, privbayes")
    parser.add_argument("--peer-python", default="python3.10", help="Python with dpmm installed")
    parser.add_argument("--peer-delta", type=float, default=1e-12)
    parser.add_argument("--peer-limit", type=float, default=1800.0, help="seconds for each fit")
    options = parser.parse_args()
    table = read(options.table, options.domain, options.ordered)
    print(f"{len(table.rows)} rows, {len(table.domains)} columns, {options.accounting}")
    print(f"{'synthesizer':18s}{'ε':>6s}" + "".join(f"{name:>9s}" for name in _HEADINGS))
    for epsilon in (float(part) for part in options.epsilon.split(",")):
        for name in (part for part in options.synthesizers.split(",") if part):
            runs = (
                clone(table, name, epsilon, options.accounting, seed)
                for seed in range(options.seeds)
            )
            _line(table, name, epsilon, runs, options.judge)
        for name in (part for part in options.peers.split(",") if part):
            tries = (peer(table, name, epsilon, seed, options) for seed in range(options.seeds))
            _line(table, name, epsilon, tries, options.judge)


def _line(
    table: Table, name: str, epsilon: float, runs: Iterator[Outcome | None], judge: Path | None
) -> None:
    found = [
        [*figures(table, run.rows, judge), run.fit, run.sample] for run in runs if run is not None
    ]
    if found:
        medians = np.median(np.array(found), axis=0)
        shown = "".join(f"{value:9.4f}" for value in medians[:5])
        print(f"{name:18s}{epsilon:6g}{shown}{medians[5]:9.2f}{medians[6]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
