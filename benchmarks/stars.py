"""Star joins of clones: how degrees and fan-ins that meet in one row go together.

    python benchmarks/stars.py "host=/tmp user=postgres dbname=postgres"
    python benchmarks/stars.py DSN --owners 500 --releases 5 --accounting zcdp

Makes a database of owners on a server. The degrees of three tables share a log-normal factor, so
that the correlation of two logarithms is the product of their parts; owners are also referred to
by two keys of one table of matches, in proportion to popularities that share a factor. Clones it
into another database and prints, for every pair of keys, |log of the ratio| of Σ d₁·d₂ on the clone
and the source: the median over the releases. Both databases are dropped afterwards.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from math import log
from pathlib import Path

import numpy as np
import psycopg
from psycopg import conninfo, sql

from privbench.config import Config
from privbench.pipeline import Reporter, fit, load

SOURCE, TARGET = "stars_source", "stars_target"
#: Part of the shared factor in the logarithm of each degree: pairs of visits, orders and calls have
#: correlations of .8, .4 and .4; notes have nothing to do with them.
PARTS = {"visits": 0.894, "orders": 0.894, "calls": 0.447, "notes": 0.0}
#: Keys into owners: table and column.
KEYS = [*((name, "owner") for name in PARTS), ("matches", "winner"), ("matches", "loser")]


def degrees(owners: int, seed: int) -> dict[str, np.ndarray]:
    """Degrees of all owners by table, and rows of the matches that they win and lose."""
    numbers = np.random.default_rng(seed)
    shared, popular = numbers.standard_normal((2, owners))
    found = {}
    for name, part in PARTS.items():
        logs = part * shared + np.sqrt(1 - part**2) * numbers.standard_normal(owners)
        found[name] = np.repeat(np.arange(owners), numbers.poisson(np.exp(0.7 + logs)))
    for name in ("winner", "loser"):
        weight = np.exp(1.2 * (0.9 * popular + 0.44 * numbers.standard_normal(owners)))
        found[name] = numbers.choice(owners, 4 * owners, p=weight / weight.sum())
    return found


def fill(dsn: str, owners: int, seed: int) -> None:
    """Make the tables of the source and their rows."""
    rows = degrees(owners, seed)
    tables = {name: {"owner": rows[name]} for name in PARTS}
    tables["matches"] = {name: rows[name] for name in ("winner", "loser")}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE owners (id integer PRIMARY KEY, kind integer NOT NULL)")
        with connection.cursor().copy("COPY owners FROM STDIN") as lines:
            for owner in range(owners):
                lines.write_row((owner, owner % 3))
        for name, keys in tables.items():
            columns = ", ".join(f"{key} integer NOT NULL REFERENCES owners" for key in keys)
            text = f"CREATE TABLE {name} (id integer PRIMARY KEY, {columns}, kind integer NOT NULL)"
            connection.execute(text.encode())
            with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as lines:
                for number, edges in enumerate(zip(*keys.values(), strict=True)):
                    lines.write_row((number, *map(int, edges), number % 4))


def stars(dsn: str) -> list[float]:
    """Σ d₁·d₂ of every pair of `KEYS`."""
    text = (
        "SELECT coalesce(sum(a.n * b.n), 0) FROM"
        " (SELECT {0} AS k, count(*) AS n FROM {1} GROUP BY 1) AS a JOIN"
        " (SELECT {2} AS k, count(*) AS n FROM {3} GROUP BY 1) AS b USING (k)"
    )
    found = []
    with psycopg.connect(dsn) as connection:
        for (one, first), (other, second) in combinations(KEYS, 2):
            query = sql.SQL(text).format(*map(sql.Identifier, (first, one, second, other)))
            row = connection.execute(query).fetchone()
            found.append(max(float(row[0]) if row else 0.0, 1.0))
    return found


@contextmanager
def database(server: str, name: str) -> Iterator[str]:
    """An empty database of that name, which is dropped afterwards."""
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(drop)
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield conninfo.make_conninfo(server, dbname=name)
        finally:
            connection.execute(drop)


def clone(source: str, server: str, accounting: str, epsilon: float) -> list[float]:
    """Σ d₁·d₂ of every pair of `KEYS` on one clone."""
    with tempfile.TemporaryDirectory() as folder, database(server, TARGET) as target:
        given = {
            "privacy": {"epsilon": epsilon, "accounting": accounting, "delta": 1e-9},
            "ledger": {"path": str(Path(folder, "ledger"))},
            "tables": {
                **{f"public.{name}": {"own": ["owner"]} for name in PARTS},
                "public.matches": {"own": []},
                "public.owners": {"own": []},
            },
        }
        model = str(Path(folder, "model"))
        fit(source, Config.model_validate(given), model, reporter=Reporter())
        load(model, target, reporter=Reporter())
        return stars(target)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", help="DSN; may create databases")
    parser.add_argument("--owners", type=int, default=5000)
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=3.2)
    parser.add_argument("--accounting", choices=("pure", "zcdp"), default="pure")
    options = parser.parse_args(arguments)
    with database(options.server, SOURCE) as source:
        fill(source, options.owners, 1)
        true = stars(source)
        clones = [
            clone(source, options.server, options.accounting, options.epsilon)
            for _ in range(options.releases)
        ]
    for place, ((one, first), (other, second)) in enumerate(combinations(KEYS, 2)):
        errors = [abs(log(found[place] / true[place])) for found in clones]
        name = f"{one}({first}) x {other}({second})"
        print(f"{name:40s} {true[place]:12.0f} {statistics.median(errors):6.2f}")
    every = [abs(log(a / b)) for found in clones for a, b in zip(found, true, strict=True)]
    print(f"{'median':40s} {'':12s} {statistics.median(every):6.2f}")


if __name__ == "__main__":
    main()
