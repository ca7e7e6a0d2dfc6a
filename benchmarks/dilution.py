"""How much noisier are one-ways of one commit than of another? Ratios of standard deviations.

    python benchmarks/dilution.py CHECKOUT CHECKOUT DSN... [--epsilon 3.2] [--lookups public]

Fits a model of each database with the code of either checkout, by the interpreter that runs this
program, and reads from the models the noise of every column's one-way as recorded. What a new
measurement takes from all others is thereby compared at domains as they are released, which `plan`
can only guess. One line a database: the columns that both models measure, the median standard
deviations, and the quantiles of their ratios, second by first; then the share of the budget by kind
of event. Standard deviations are those of the noise, in privacy units of add/remove.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from zipfile import ZipFile

#: Beginning of the labels of events that measure the one-way of a column.
ONE_WAY = "one-way of "


def events(checkout: str, dsn: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The recorded events of a model that the code of a checkout fits."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "model"))
        command = [sys.executable, "-m", "privbench", "fit", dsn, "--yes", "-o", model]
        command += ["--epsilon", options.epsilon, "--delta", options.delta]
        command += ["--lookups", options.lookups, "--ledger", str(Path(folder, "ledger"))]
        environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve())}
        subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True)
        with ZipFile(model) as archive:
            found: list[dict[str, Any]] = json.loads(archive.read("header.json"))["events"]
            return found


def deviations(found: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The standard deviation of the noise of each column's one-way."""
    root = {"discrete_laplace": 2**0.5}
    return {
        event["label"]: event["scale"] / event["unit"] * root.get(event["mechanism"], 1.0)
        for event in found
        if event["label"].startswith(ONE_WAY)
    }


def shares(found: Sequence[dict[str, Any]]) -> Counter[str]:
    """The share of the charges of all events by kind; one-ways and pairs are apart."""
    spent: Counter[str] = Counter()
    for event in found:
        spent[" ".join(event["label"].split()[:2]).removesuffix(" of")] += event["amount"]
    return Counter({kind: amount / spent.total() for kind, amount in spent.items()})


def lines(dsn: str, options: argparse.Namespace) -> Iterator[str]:
    """The report on one database."""
    before, after = (events(checkout, dsn, options) for checkout in options.checkouts)
    old, new = deviations(before), deviations(after)
    both = sorted(old.keys() & new.keys())
    ratios = [new[label] / old[label] for label in both]
    tenths = quantiles(ratios, n=10) if len(ratios) > 1 else ratios * 9
    yield f"{dsn}: {len(old)} and {len(new)} columns, {len(both)} in both"
    middle = [median(some[label] for label in both) for some in (old, new)]
    part = f"  sd {middle[0]:.2f} and {middle[1]:.2f}, ratio {middle[1] / middle[0]:.3f}"
    yield f"{part}; by column {tenths[0]:.3f} {median(ratios):.3f} {tenths[8]:.3f}"
    one, other = shares(before), shares(after)
    for kind in sorted(one | other, key=lambda kind: -abs(other[kind] - one[kind]))[:8]:
        yield f"    {kind:30s} {one[kind]:7.4f} {other[kind]:7.4f}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", nargs=2, metavar="CHECKOUT")
    parser.add_argument("sources", nargs="+", metavar="DSN")
    parser.add_argument("--epsilon", default="3.2")
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--lookups", default="public", choices=("private", "public"))
    options = parser.parse_args()
    for dsn in options.sources:
        for line in lines(dsn, options):
            print(line, flush=True)


if __name__ == "__main__":
    main()
