"""Makes one release of a table by an installed synthesizer, through a session that accounts it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from privbench.privacy import (
    Accountant,
    DatabaseSpec,
    NoiseSource,
    Relation,
    SeededNoise,
    TableSpec,
    open_session,
)
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Total
from privbench.synthesizers import get
from privbench_lab.bench.config import BenchConfig, DataConfig
from privbench_lab.bench.table import TABLE, Table, coarse
from privbench_lab.circuit import Circuit
from privbench_lab.outline import circuits

#: Part of the budget for the table's noisy size, whose standard deviation is then about 140 rows at
#: ε = 1 under pure accounting; with half of it 280, with twice 70: less than 1 % of ten thousand
#: rows.
TOTAL = 0.01
#: A placeholder for the data set when options are checked before any data set is read.
ANY_DATA = DataConfig(bif="network.bif", target="target")


@dataclass(frozen=True)
class Made:
    """Synthetic rows, the time that they took, and the model behind them."""

    rows: pd.DataFrame  # synthetic rows, about as many as training rows; the number is noisy too
    fit: float  # seconds of the fit
    sample: float  # seconds of sampling
    private: bool  # whether noise was drawn from the operating system's entropy
    table: Table  # the table in the codes that the synthesizer was fitted on
    circuit: Circuit | None = None  # the released model for exact inference, if it has one


def options_for(options: Mapping[str, Any], data: DataConfig) -> dict[str, Any]:
    """Options in which ``@target`` and ``@bif`` stand for the data set's target and network."""
    known = {"@target": data.target, "@bif": data.bif}

    def filled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return options_for(value, data)
        return known.get(value, value) if isinstance(value, str) else value

    return {key: filled(value) for key, value in options.items()}


def release(table: Table, grid: BenchConfig, name: str, epsilon: float, seed: int) -> Made:
    """Fit and sample once, with noise from the operating system; the seed is for sampling.

    The ledger is temporary: every cell of a grid is a release of its own, made only to be scored.
    """
    settings = grid.synthesizers[name]
    binned = table if settings.cells is None else coarse(table, settings.cells)
    accounting = grid.accounting_of(name)
    delta = grid.delta if accounting == "zcdp" else 0.0
    synthesizer = get(grid.use_of(name))(options_for(settings.options, table.config))
    database = database_of(binned, grid.neighbours)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="pb-bench-") as ledger:
        accountant = Accountant(accounting, epsilon, delta, threshold_delta=0.0)
        noise = SeededNoise(seed) if settings.seeded else NoiseSource()
        session = open_session(database, accountant, ledger, "bench", noise=noise)
        amount = session.amount_total
        total = float(session.measure(Total(TABLE), TOTAL * amount, "total")[0])
        totals = {TABLE: max(total, 1.0)}
        model = synthesizer.fit(session, totals, (1 - TOTAL) * amount)
        fitted = time.perf_counter()
        codes = model.sample(settings.scale, seed)[TABLE].codes
        private = session.private
        session.close()
    rows = binned.values(codes, seed)
    sampled = time.perf_counter()
    circuit = circuits(model).get(TABLE)
    return Made(rows, fitted - started, sampled - fitted, private, binned, circuit)


def database_of(table: Table, neighbours: Literal["add-remove", "replace"]) -> PrivateDatabase:
    """The private database of this one table; every row is a privacy unit."""
    domains, codes = table.domains, table.codes(table.train)
    cells = {name: Cells(codes[name], domain) for name, domain in domains.items()}
    spec = DatabaseSpec({TABLE: TableSpec(TABLE, domains)}, Relation(neighbours=neighbours))
    return PrivateDatabase(spec, {TABLE: PrivateTable(len(table.train), cells, {})})
