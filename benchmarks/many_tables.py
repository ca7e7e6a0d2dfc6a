"""Seconds of a clone of a database with many small tables, with no configuration.

    python benchmarks/many_tables.py "host=/tmp user=postgres dbname=postgres"
    python benchmarks/many_tables.py DSN --tables 1 --columns 1600 --rows 200

Makes two databases on a server, fills one with tables of eight columns in five types (half of the
tables refer to the table before them), clones it into the other, and prints the seconds of every
stage, the CPU seconds of this process and its children (a busy machine stretches the others), the
number of events, and the calls of fsync. Both databases are dropped afterwards.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo, sql

from privbench import pipeline
from privbench.config import Config
from privbench.pipeline.progress import Reporter

SOURCE, TARGET = "many_tables_source", "many_tables_target"
#: What a column holds, over and over.
_KINDS = (
    ("integer", "i % 97"),
    ("text", "'word ' || i % 7"),
    ("date", "'2020-01-01'::date + i % 700"),
    ("numeric(8,2)", "i * 1.25"),
    ("boolean", "i % 3 = 0"),
)


class Watch(Reporter):
    """Keeps the seconds of every stage."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage."""
        started = time.perf_counter()
        with super().stage(name):
            yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def table(number: int, columns: int, rows: int) -> str:
    """SQL of one table and its rows."""
    kinds = [_KINDS[k % len(_KINDS)] for k in range(columns - 1 - number % 2)]
    names = [f"c{k} {kind}" for k, (kind, _) in enumerate(kinds)]
    values = [value for _, value in kinds]
    if number % 2:
        names.append(f"before_id integer REFERENCES t{number - 1}")
        values.append(f"1 + i % {rows}")
    return (
        f"CREATE TABLE t{number} (id integer PRIMARY KEY, {', '.join(names)});"
        f"INSERT INTO t{number} SELECT i, {', '.join(values)} FROM generate_series(1, {rows}) i;"
    )


def clone(server: str, tables: int, columns: int, rows: int, epsilon: float) -> dict[str, Any]:
    """Fill, clone, and tell what it took."""
    source, target = (conninfo.make_conninfo(server, dbname=name) for name in (SOURCE, TARGET))
    with psycopg.connect(source, autocommit=True) as connection:
        for number in range(tables):
            connection.execute(table(number, columns, rows).encode())
    syncs, real = [0], os.fsync

    def counted(descriptor: int) -> None:
        syncs[0] += 1
        real(descriptor)

    os.fsync = counted  # type: ignore[assignment]
    watch, before, started = Watch(), os.times(), time.perf_counter()
    with tempfile.TemporaryDirectory() as ledger:
        base = Config.loads(f"[privacy]\nepsilon = {epsilon}\n[ledger]\npath = '{ledger}'")
        config = pipeline.inspect(source, base=base).config
        model = f"{ledger}/model"
        pipeline.clone(source, target, config, output=model, reporter=watch)
        events = len(pipeline.Model.load(model).events)
    after = os.times()
    return {
        **watch.seconds,
        "wall": time.perf_counter() - started,
        "user": after.user + after.children_user - before.user - before.children_user,
        "system": after.system + after.children_system - before.system - before.children_system,
        "events": events,
        "fsyncs": syncs[0],
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("server", help="DSN of a server on which databases may be made")
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=3.0)
    given = parser.parse_args()
    with psycopg.connect(given.server, autocommit=True) as connection:
        for name in (SOURCE, TARGET):
            named = sql.Identifier(name)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(named))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(named))
        try:
            found = clone(given.server, given.tables, given.columns, given.rows, given.epsilon)
        finally:
            for name in (SOURCE, TARGET):
                statement = sql.SQL("DROP DATABASE {} WITH (FORCE)")
                connection.execute(statement.format(sql.Identifier(name)))
    for name, value in found.items():
        print(
            f"{name:<28} {value:>10.1f}" if isinstance(value, float) else f"{name:<28} {value:>10}"
        )


if __name__ == "__main__":
    main()
