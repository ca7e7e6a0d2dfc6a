"""What a computed sum of children adds to a load: CPU and clock, with and without, in one run.

    python benchmarks/computed.py                       2 million orders, 10 million lines
    python benchmarks/computed.py --orders 200000 --runs 3

Makes a hundredth of the rows on an embedded PostgreSQL, fits them twice, the total of an order
computed as the sum of its lines or learned like any column, and loads both models by turns at a
hundred times their size. CPU seconds are those of this process and of the server.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import psycopg
from psycopg.conninfo import make_conninfo

from privbench.config import Config
from privbench.pipeline.fit import fit
from privbench.pipeline.load import load
from privbench.postgres.embedded import any_server

SCALE, LINES = 100, 5
TABLES = """
CREATE TABLE orders (order_id integer PRIMARY KEY, ordered date NOT NULL, status text NOT NULL,
    total numeric(12, 2) NOT NULL);
CREATE TABLE order_line (order_id integer NOT NULL REFERENCES orders, line_no integer,
    qty integer NOT NULL, price numeric(8, 2) NOT NULL, product integer NOT NULL,
    PRIMARY KEY (order_id, line_no));
"""
ROWS = """
INSERT INTO order_line SELECT o, l, 1 + 9 * random() * random(), 2 + 200 * random() * random(),
    1000 * random() FROM generate_series(1, %(orders)s) AS o, generate_series(1, %(lines)s) AS l;
INSERT INTO orders SELECT o, date '2020-01-01' + (1500 * random())::integer,
    CASE WHEN random() < 0.7 THEN 'paid' ELSE 'open' END, sum(l.qty * l.price)
    FROM generate_series(1, %(orders)s) AS o JOIN order_line l ON l.order_id = o GROUP BY o;
"""
CONFIG = """
[database]
identity = "computed"
[privacy]
epsilon = 8
[tables."public.orders"]
own = []
[tables."public.order_line"]
own = ["order_id"]
"""
COMPUTED = """
[computed."public.orders"]
total = \"""(SELECT coalesce(sum(l.qty * l.price), 0) FROM public.order_line l
    WHERE l.order_id = this.order_id)\"""
"""


def cpu(postmaster: int) -> float:
    """CPU seconds of this process, and of a server with its sessions, also those that ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            whole = path.parent.name == str(postmaster)
            if whole or fields[1] == str(postmaster):
                ticks += sum(map(int, fields[11 : 15 if whole else 13]))
    return own.ru_utime + own.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def made(dsn: str, name: str, script: str = "") -> str:
    """A new database."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        connection.execute(f"CREATE DATABASE {name}".encode())
    new = make_conninfo(dsn, dbname=name)
    with psycopg.connect(new) as connection:
        connection.execute(script.encode())
    return new


def main() -> None:
    """Fit twice, load by turns, print both and their ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=1)
    given = parser.parse_args()
    with any_server() as server, tempfile.TemporaryDirectory() as folder:
        with psycopg.connect(server.dsn) as connection:
            stat = Path(f"/proc/{connection.info.backend_pid}/stat").read_text(encoding="ascii")
        postmaster = int(stat.rpartition(")")[2].split()[1])
        numbers = {"orders": given.orders // SCALE, "lines": LINES}
        without_keys = TABLES.replace(" REFERENCES orders", "")
        source = made(server.dsn, "shop", without_keys + ROWS % numbers)
        with psycopg.connect(source) as connection:
            connection.execute(
                "ALTER TABLE order_line ADD FOREIGN KEY (order_id) REFERENCES orders"
            )
        models = {}
        for name, text in (("learned", CONFIG), ("computed", CONFIG + COMPUTED)):
            ledger = f"[ledger]\npath = {str(Path(folder) / name)!r}\n"
            models[name] = fit(source, Config.loads(text + ledger), Path(folder) / f"{name}.model")
        ratios = []
        for _ in range(given.runs):
            spent = {}
            for name, model in models.items():
                target = made(server.dsn, "clone")
                begun = cpu(postmaster), time.monotonic()
                load(model, target, scale=SCALE, seed=1)
                spent[name] = cpu(postmaster) - begun[0], time.monotonic() - begun[1]
                print(f"{name:9} {spent[name][0]:8.1f} CPU s {spent[name][1]:8.1f} s", flush=True)
            check = (
                "SELECT count(*), sum((total <> (SELECT coalesce(sum(qty * price), 0)"
                " FROM order_line l WHERE l.order_id = o.order_id))::int)"
                " FROM (SELECT * FROM orders LIMIT 10000) AS o"
            )
            with psycopg.connect(target) as connection:
                print("orders looked at, and off:", *connection.execute(check).fetchone() or ())
            pairs = zip(spent["computed"], spent["learned"], strict=True)
            ratios.append([one / other for one, other in pairs])
            print("ratio     {:8.2f} CPU   {:8.2f} clock".format(*ratios[-1]), flush=True)
        print(
            "medians   {:8.2f} CPU   {:8.2f} clock".format(*map(median, zip(*ratios, strict=True)))
        )


if __name__ == "__main__":
    main()
