"""What the repairs of a load keep: constraints that hold, rows lost, rows changed, seconds.

    python benchmarks/repairs.py --models DIR                       every schema of schemas/
    python benchmarks/repairs.py --models DIR --data FOLDER         and databases with a load.sql
    python benchmarks/repairs.py --models DIR --json now.json --against before.json
    python benchmarks/repairs.py --models DIR --against now.json --without compared

Fits each source once, at ε = 3, into DIR, and loads the model that is there with two seeds, so that
two versions of the repairs are given the same rows. Per schema, summed over the seeds: constraints
of the clone, those NOT VALID, rows, rows that repairs deleted and changed, seconds of the load.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, sql

from privbench import pipeline
from privbench.config import Config
from privbench.errors import PrivbenchError
from privbench.postgres.embedded import Server, any_server
from privbench.postgres.repair import uniques
from privbench.rules import values

SCHEMAS = Path(__file__).parents[1] / "schemas"
SEEDS = (1, 2)
_CONSTRAINTS = """
SELECT count(*), count(*) FILTER (WHERE NOT convalidated) FROM pg_constraint k
JOIN pg_namespace n ON n.oid = k.connamespace
WHERE n.nspname !~ '^(pg_|information_schema)'
"""
#: What is tried beyond the one method (columns of rows that keep the rule, NULL, no row), and what
#: goes without it, in two loads of models with a seed: rows, or CHECKs, which are NOT VALID then.
CANDIDATES = {
    "compared": "111_trees: 982 rows and a CHECK; 105_legacy: a CHECK (values that a CHECK names)",
    "column": "16_json: a CHECK (the default, truth values, an empty list)",
    "leaving": "35_partial_unique: 73 rows (columns of rows outside a partial index)",
}
_FIELDS = ("constraints", "not valid", "rows", "lost", "changed", "seconds")


def sources(data: Path | None) -> dict[str, Path]:
    """SQL files by name."""
    found = {p.stem: p for folder in ("zoo", "samples") for p in (SCHEMAS / folder).glob("*.sql")}
    if data is not None:
        found |= {path.parent.name: path for path in data.glob("*/load.sql")}
    return dict(sorted(found.items()))


@contextlib.contextmanager
def database(server: Server, name: str) -> Iterator[str]:
    """An empty database that goes afterwards."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield conninfo.make_conninfo(server.dsn, dbname=name)
    finally:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} (FORCE)").format(sql.Identifier(name)))


def fit(server: Server, path: Path, model: Path) -> None:
    """Fill a source and fit it."""
    with database(server, "source") as dsn, tempfile.TemporaryDirectory() as ledger:
        if path.name == "load.sql":
            command = ["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-f", str(path), dsn]
            subprocess.run(command, cwd=path.parent, check=True, stdout=subprocess.DEVNULL)
        else:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(path.read_bytes())
        base = Config.loads(f"[privacy]\nepsilon = 3\n[ledger]\npath = '{ledger}'")
        pipeline.fit(dsn, pipeline.inspect(dsn, base=base).config, model)


def load(server: Server, model: Path, seed: int) -> dict[str, float]:
    """Load a model and count."""
    with database(server, "clone") as dsn:
        begun = time.perf_counter()
        report = pipeline.load(model, dsn, seed=seed, trust_programs=True)
        seconds = time.perf_counter() - begun
        with psycopg.connect(dsn) as connection:
            ((constraints, loose),) = connection.execute(_CONSTRAINTS).fetchall()
    lost, changed = sum(report.dropped.values()), sum(report.repaired.values())
    values = (constraints, loose, sum(report.rows.values()), lost, changed, seconds)
    return dict(zip(_FIELDS, values, strict=True))


def leave_out(candidate: str) -> None:
    """Repair without one of the candidates."""
    if candidate == "leaving":
        change = uniques._change
        uniques._change = lambda clone, index: change(clone, replace(index, outside=None))
    else:
        name = {"compared": "_compared", "column": "_of_column"}[candidate]
        setattr(values, name, lambda *_: iter(()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--without", choices=CANDIDATES, help="a candidate to leave out")
    chosen = parser.parse_args()
    if chosen.without:
        leave_out(chosen.without)
    before: dict[str, Any] = json.loads(chosen.against.read_text()) if chosen.against else {}
    found: dict[str, Any] = {}
    chosen.models.mkdir(exist_ok=True)
    print(f"{'schema':24}" + "".join(f"{name:>13}" for name in _FIELDS))
    with any_server() as server:
        for name, path in sources(chosen.data).items():
            if chosen.only and name not in chosen.only:
                continue
            model = chosen.models / f"{name}.model"
            try:
                if not model.exists():
                    fit(server, path, model)
                loads = [load(server, model, seed) for seed in SEEDS]
            except (PrivbenchError, psycopg.Error, subprocess.CalledProcessError) as error:
                print(f"{name:24} {' '.join(str(error).split())[:120]}", flush=True)
                continue
            found[name] = {key: sum(item[key] for item in loads) for key in _FIELDS}
            shown = "".join(f"{found[name][key]:>13,.5g}" for key in _FIELDS)
            worse = [
                key
                for key in ("not valid", "lost")
                if name in before and found[name][key] > before[name][key]
            ]
            told = "".join(f"  {key} was {before[name][key]:,}" for key in worse)
            print(f"{name:24}{shown}{told}", flush=True)
            if chosen.json:
                chosen.json.write_text(json.dumps(found, indent=1))
    total = {key: sum(item[key] for item in found.values()) for key in _FIELDS}
    print(f"{'all':24}" + "".join(f"{total[key]:>13,.0f}" for key in _FIELDS))


if __name__ == "__main__":
    main()
