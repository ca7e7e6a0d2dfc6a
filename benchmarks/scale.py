"""Seconds per stage and peak memory of `privbench` on one big table, against its number of rows.

    python benchmarks/scale.py                          36 million × 3, then 6 million × 30
    python benchmarks/scale.py --shapes 4000000x3,500000x30 --parts 4,2,1

Makes coded tables of correlated, skewed columns (no PostgreSQL) at a half, a quarter … of each
size, each in a process of its own, fits and samples them, and prints per stage the CPU seconds of
all threads (a busy machine stretches the others), their ratio at every step, and the exponent e of
seconds ∝ rows^e fitted to all of them. 1 is linear; below 1 a fixed part still weighs. Stages:

    make      the rows themselves, not privbench's work
    hold      codes into the private database
    ask       everything that reads private rows: counting, scores, noise, ledger
    learn     the rest of the fit, from released numbers alone
    sample    as many rows as were released
    fit       ask and learn
    wall      seconds on the clock of fit and sample
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.privacy import Accountant, DatabaseSpec, Session, TableSpec, open_session
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Total
from privbench.rng import generator
from privbench.synthesizers import get

TABLE = "table"
STAGES = ("make", "hold", "ask", "learn", "sample")
#: Sizes of domains, over and over; True for ordered ones.
_KINDS = ((90, True), (12, False), (40, True), (5, False), (2, False), (100, True))
_TOTAL, _BLOCK, _CLASSES = 0.01, 2**20, 8


def make(rows: int, columns: int) -> dict[str, tuple[NDArray[np.uint8], Domain]]:
    """Codes that depend on one another through a hidden class, skewed, in blocks."""
    numbers = generator(1, "scale", str(columns))
    kinds = [_KINDS[k % len(_KINDS)] for k in range(columns)]
    domains = [Domain(size, ordered) for size, ordered in kinds]
    powers = numbers.uniform(0.5, 4.0, (columns, _CLASSES))
    codes = [np.empty(rows, np.uint8) for _ in domains]
    for first in range(0, rows, _BLOCK):
        held = min(_BLOCK, rows - first)
        hidden = numbers.integers(0, _CLASSES, held)
        for column, domain in enumerate(domains):
            drawn = domain.size * numbers.random(held) ** powers[column][hidden]
            codes[column][first : first + held] = drawn
    return {f"c{k}": pair for k, pair in enumerate(zip(codes, domains, strict=True))}


class Clock:
    """Seconds and the peak of the process's memory, stage by stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*STAGES, "wall"), 0.0)
        self.peaks = dict.fromkeys(STAGES, 0.0)

    def run(self, stage: str, work: Callable[[], Any]) -> Any:
        """Do the work and add to its stage."""
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        begun, walled = time.process_time(), time.perf_counter()
        found = work()
        self.seconds[stage] += time.process_time() - begun
        if stage in ("learn", "sample"):
            self.seconds["wall"] += time.perf_counter() - walled
        self.peaks[stage] = max(self.peaks[stage], _peak())
        return found

    def watch(self, session: Session) -> None:
        """Count what the session does as ``ask``."""
        for name in ("measure", "select"):
            setattr(session, name, self._timed(getattr(session, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            begun = time.process_time()
            found = call(*given)
            self.seconds["ask"] += time.process_time() - begun
            return found

        return timed


def _peak() -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return float("nan")


def one(rows: int, columns: int, epsilon: float) -> dict[str, Any]:
    """Fit and sample one table; what it took."""
    clock = Clock()
    made = clock.run("make", lambda: make(rows, columns))

    def hold() -> PrivateDatabase:
        cells = {name: Cells(codes, domain) for name, (codes, domain) in made.items()}
        spec = DatabaseSpec({TABLE: TableSpec(TABLE, {})})
        return PrivateDatabase(spec, {TABLE: PrivateTable(rows, cells, {})})

    database = clock.run("hold", hold)
    with tempfile.TemporaryDirectory() as ledger:
        session = open_session(database, Accountant("pure", epsilon, 0.0), ledger, "benchmark")
        clock.watch(session)

        def fit() -> Any:
            total = float(session.measure(Total(TABLE), _TOTAL * epsilon, "total")[0])
            rest = (1 - _TOTAL) * epsilon
            return get("privbench")().fit(session, {TABLE: max(total, 1.0)}, rest)

        model = clock.run("learn", fit)
        session.close()
    clock.seconds["learn"] -= clock.seconds["ask"]
    clock.peaks["ask"] = clock.peaks["learn"]
    drawn = clock.run("sample", lambda: model.sample(1.0, 1).tables[TABLE].rows)
    return {"rows": rows, "drawn": drawn, "seconds": clock.seconds, "peaks": clock.peaks}


def exponent(rows: list[int], seconds: list[float]) -> float:
    """Slope of log seconds over log rows."""
    return float(np.polyfit(np.log(rows), np.log(np.maximum(seconds, 1e-6)), 1)[0])


def report(found: list[dict[str, Any]], columns: int) -> None:
    """Print one shape's figures."""
    rows = [item["rows"] for item in found]
    print(f"\n{columns} columns; {os.cpu_count()} CPUs")
    print(f"{'stage':8s}" + "".join(f"{f'{n:,} rows':>26s}" for n in rows) + f"{'exponent':>10s}")
    for stage in (*STAGES, "fit", "wall"):
        parts = ("ask", "learn") if stage == "fit" else (stage,)
        seconds = [sum(item["seconds"][part] for part in parts) for item in found]
        peaks = [max(item["peaks"].get(part, math.nan) for part in parts) for item in found]
        ratios = ["", *(f" ×{b / max(a, 1e-6):.2f}" for a, b in pairwise(seconds))]
        shown = "".join(
            f"{f'{value:.2f} s{ratio}{_memory(peak)}':>26s}"
            for value, ratio, peak in zip(seconds, ratios, peaks, strict=True)
        )
        print(f"{stage:8s}{shown}{exponent(rows, seconds):>10.2f}", flush=True)


def _memory(peak: float) -> str:
    return "" if math.isnan(peak) else f" {peak:.0f} MiB"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", default="36000000x3,6000000x30")
    parser.add_argument("--parts", default="8,4,2,1", help="rows are divided by these, in turn")
    parser.add_argument("--epsilon", type=float, default=3.2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        rows, columns = (int(part) for part in options.one.split("x"))
        one(10_000, columns, options.epsilon)  # Compiled code is loaded before the clock runs.
        print(json.dumps(one(rows, columns, options.epsilon)))
        return
    for shape in options.shapes.split(","):
        rows, columns = (int(part) for part in shape.split("x"))
        found = []
        for part in (int(part) for part in options.parts.split(",")):
            command = [sys.executable, __file__, "--one", f"{rows // part}x{columns}"]
            command += ["--epsilon", str(options.epsilon)]
            ran = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append(json.loads(ran.stdout.splitlines()[-1]))
        report(found, columns)


if __name__ == "__main__":
    main()
