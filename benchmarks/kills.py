"""`kill -9` at random points of `fit` and `load`, and what is left afterwards.

    python benchmarks/kills.py SOURCE TARGET
    python benchmarks/kills.py SOURCE TARGET -c CONFIG.toml --points 50 --seed 7 --scale 20

TARGET is a database of its own whose contents are dropped. A fit and a load in one transaction run
unbroken first, for their seconds and rows. Then half of the points fall on fits, at a random part
of the seconds that the last whole one took (the machine may have other work): no model may be left
or a whole one, the ledger may count no less than the model says, and the resumed fit has to end.
The other half fall on loads by two connections, from the seconds of a `--dry-run` on: the target
has to be empty, whole, or marked as unfinished, and the same command has to go on at once and to
give the rows of the unbroken load, value by value. Loads of fewer than 262,144 rows are one
transaction: choose a scale beyond that. The whole process group is killed. Exits with 1 if anything
of that does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from privbench.config import Config
from privbench.pipeline import Model

PRIVBENCH = [sys.executable, "-m", "privbench"]
#: Fits of the same release differ by rounding alone.
ROUNDING = 1e-9
#: Tables of users, without those that extensions own.
TABLES = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_'
"""
#: Steps that an unfinished load has done, beside the schema.
STEPS = """SELECT count(*) - 1 FROM "privbench unfinished load".steps"""
MARK = "privbench unfinished load.steps"
#: Clients of this database, this one included.
SESSIONS = """
SELECT count(*) FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
"""


def run(*command: str, kill_after: float | None = None) -> tuple[int, float]:
    """Run a command of privbench, perhaps until it is killed; its exit code and seconds.

    Raises:
        SystemExit: It failed, and was not killed.
    """
    started = time.perf_counter()
    with subprocess.Popen(
        [*PRIVBENCH, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _, said = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, said = process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"{command[0]} ended with {process.returncode}:\n{said.decode()[-2000:]}")
    return process.returncode, time.perf_counter() - started


def rows(target: str, what: str = "count(*)") -> dict[str, int]:
    """A number of the rows of every table, once the session that was killed is gone."""
    with psycopg.connect(target, autocommit=True) as connection:
        for _ in range(600):
            if connection.execute(SESSIONS).fetchone() == (1,):
                break
            time.sleep(0.05)
        else:
            sys.exit("the killed session, or another client, is still connected to the target.")
        found = {}
        for schema, name in connection.execute(TABLES).fetchall():
            asked = sql.SQL("SELECT {} FROM {} AS r").format(
                sql.SQL(what), sql.Identifier(schema, name)
            )
            ((number,),) = connection.execute(asked).fetchall()
            found[f"{schema}.{name}"] = int(number)
        return found


#: Of all values of all rows, in any order.
VALUES = "coalesce(sum(hashtextextended(r::text, 0)), 0)"


class Trial:
    """Fits and loads of one source, and what went wrong with them.

    Args:
        given: The command line.
        folder: Where models and ledgers are kept.
    """

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        config = ["-c", given.config] if given.config else []
        declared = Config.load(given.config).database.identity if given.config else None
        self._identity = declared or "kills"
        self._fit = ["fit", given.source, *config, "--epsilon", str(given.epsilon), "--yes"]
        self._fit += ["--identity", self._identity, "--pay-again"]
        self._target, self._folder, self._epsilon = given.target, folder, given.epsilon
        self.model = folder / "unbroken.privbench"
        self.found: Counter[str] = Counter()
        self.faults: list[str] = []
        _, self.fitting = self._fitted("unbroken")
        self._load = ["load", str(self.model), self._target, "--seed", "1"]
        self._load += ["--scale", str(given.scale), "--jobs", "2"]
        run(*self._load, "--replace", "--one-transaction")
        self.rows = rows(self._target, VALUES)
        self._clear()
        _, self.loading = run(*self._load)
        _, self.starting = run(*self._load, "--replace", "--dry-run")

    def _fitted(self, name: str, *more: str, kill_after: float | None = None) -> tuple[int, float]:
        places = ["--ledger", str(self._folder / name), "-o", f"{self._folder / name}.privbench"]
        return run(*self._fit, *places, *more, kill_after=kill_after)

    def _releases(self, name: str) -> list[dict[str, Any]]:
        """The releases in the ledger of a fit."""
        folder = self._folder / name
        if not folder.exists():
            return []
        command = [*PRIVBENCH, "ledger", "show", "--identity", self._identity]
        shown = subprocess.run(
            [*command, "--ledger", str(folder), "--json"], capture_output=True, check=True
        )
        releases: list[dict[str, Any]] = json.loads(shown.stdout)["releases"]
        return releases

    def expect(self, holds: bool, fault: str) -> None:
        """Note a fault."""
        if not holds:
            self.faults.append(fault)

    def killed_fit(self, number: int, moment: float) -> None:
        """Kill a fit, look at what it left, and resume it."""
        name = f"fit{number}"
        output = self._folder / f"{name}.privbench"
        code, _ = self._fitted(name, kill_after=moment)
        left = self._releases(name)
        state = left[0]["state"] if left else "no release"
        self.found[f"fit: {state}{', model whole' if output.exists() else ''}"] += 1
        self.expect(len(left) <= 1, f"{name}: {len(left)} releases")
        # What is under way counts whole: nobody knows what of it was drawn.
        reserved = all(item["epsilon"] >= self._epsilon * (1 - ROUNDING) for item in left)
        self.expect(reserved or state == "closed", f"{name}: the open release counts less than ε")
        self.expect(code != 0 or output.exists(), f"{name}: ended without a model")
        if output.exists():
            Model.load(output)
        else:
            again = ["--resume", left[0]["release"]] if left else []
            _, self.fitting = self._fitted(name, *again)
        spent = Model.load(output).promise.epsilon
        (release,) = self._releases(name)
        whole = release["state"] == "closed" or code != 0
        self.expect(whole, f"{name}: the release is {release['state']}")
        enough = release["epsilon"] >= spent * (1 - ROUNDING)
        self.expect(enough, f"{name}: the ledger has ε {release['epsilon']}, the model {spent}")

    def killed_load(self, number: int, moment: float) -> None:
        """Kill a load, look at what it left, and run the same command."""
        self._clear()
        code, seconds = run(*self._load, kill_after=moment)
        left = rows(self._target)
        if MARK in left:
            with psycopg.connect(self._target, autocommit=True) as connection:
                ((steps,),) = connection.execute(STEPS).fetchall()
            state = f"unfinished, {'some' if steps else 'no'} steps done"
        else:
            state = "whole" if left else "empty"
        if not code:
            self.loading = seconds
        self.found[f"load: {state}"] += 1
        print(f"  {number}: a load killed after {moment:.1f} s: {state}", flush=True)
        if state != "whole":
            run(*self._load)
        self.expect(rows(self._target, VALUES) == self.rows, f"load {number}: other rows")

    def _clear(self) -> None:
        """Drop what the target holds."""
        with psycopg.connect(self._target, autocommit=True) as connection:
            for schema in {name.split(".")[0] for name in [*self.rows, MARK]}:
                drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
                connection.execute(drop)


def main() -> None:
    """Run the trial and print what was found."""
    parser = argparse.ArgumentParser(description="Kill fits and loads at random points.")
    parser.add_argument("source", help="DSN of the source")
    parser.add_argument("target", help="DSN of a database whose contents are dropped")
    parser.add_argument("-c", "--config")
    parser.add_argument("--epsilon", type=float, default=3.2)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="chooses the points")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the clones")
    given = parser.parse_args()
    numbers = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(given, Path(folder))
        print(f"unbroken: fit {trial.fitting:.1f} s, load {trial.loading:.1f} s", flush=True)
        for number in range(given.points):
            if number % 2:
                moment = numbers.uniform(0.9 * trial.starting, 1.05 * trial.loading)
                trial.killed_load(number, moment)
            else:
                trial.killed_fit(number, numbers.uniform(0, trial.fitting))
        for what, count in sorted(trial.found.items()):
            print(f"{count:4d}  {what}")
    print(f"{given.points} points, {len(trial.faults)} faults")
    for fault in trial.faults:
        print(f"  {fault}")
    sys.exit(bool(trial.faults))


if __name__ == "__main__":
    main()
