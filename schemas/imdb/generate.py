"""Make an IMDB-shaped database of any size in an empty PostgreSQL database.

    python schemas/imdb/generate.py postgresql:///imdb --scale 0.1

Scale 1 has the published row counts (62 million rows). The same seed and scale make the same rows.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import psycopg
import pyarrow as pa
import pyarrow.csv as csv
from draw import Batch, Source
from psycopg import sql

DDL = Path(__file__).with_name("imdb.sql")


def statements() -> tuple[str, str]:
    """The tables, and what comes after their rows."""
    text = DDL.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("\\", "BEGIN", "COMMIT"))]
    before, after = "\n".join(lines).split("-- rows")
    return before, after


def write(connection: psycopg.Connection, batch: Batch) -> None:
    """COPY one batch."""
    options = csv.WriteOptions(include_header=False)
    for name, rows in batch.items():
        buffer = pa.BufferOutputStream()
        csv.write_csv(rows, buffer, options)
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(sql.Identifier(name))
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(memoryview(buffer.getvalue()))


@click.command()
@click.argument("dsn")
@click.option("--scale", type=click.FloatRange(min=1e-5), default=0.1, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--if-empty", is_flag=True, help="Leave a database that has the tables as it is.")
def main(dsn: str, scale: float, seed: int, if_empty: bool) -> None:
    """Fill the empty database DSN; all or nothing."""
    began = time.monotonic()
    before, after = statements()
    total = 0
    with psycopg.connect(dsn) as connection:
        if if_empty and connection.execute("SELECT to_regclass('title')").fetchone() != (None,):
            click.echo("the tables are there already")
            return
        connection.execute(before)
        for batch in Source(scale, seed).batches():
            write(connection, batch)
            total += sum(rows.num_rows for rows in batch.values())
        loaded = time.monotonic()
        connection.execute(after)
        connection.execute("ANALYZE")
    done = time.monotonic()
    click.echo(
        f"{total:,} rows; {loaded - began:.0f} s for rows, "
        f"{done - loaded:.0f} s for keys and ANALYZE"
    )


if __name__ == "__main__":
    main()
