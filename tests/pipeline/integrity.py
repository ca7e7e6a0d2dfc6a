"""What a clone must keep, asked of PostgreSQL itself, without the tool's own code."""

from __future__ import annotations

import os
import re
import subprocess

import psycopg
from market import TABLES, ask, one

from privbench.postgres.connect import connect, environment
from privbench.postgres.ddl import find_pg_dump


def pg_dump(dsn: str, *options: str) -> str:
    """What pg_dump says, without comments and its random tokens."""
    with connect(dsn) as connection:
        program = find_pg_dump(connection.info.server_version // 10000)
        variables = environment(connection)
    done = subprocess.run(
        [program.path, "--no-owner", *options],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    return "\n".join(line for line in lines if line and not re.match(r"--|\\", line))


def schema_of(dsn: str) -> str:
    """The schema as pg_dump writes it."""
    return pg_dump(dsn, "--schema-only")


def checked_keys(dsn: str) -> int:
    """How many foreign keys PostgreSQL vouches for when they are made once more."""
    with psycopg.connect(dsn) as connection:
        keys = connection.execute(
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid)"
            " FROM pg_constraint WHERE contype = 'f' AND convalidated"
        ).fetchall()
        for table, definition in keys:
            connection.execute(f"ALTER TABLE {table} ADD {definition}".encode())
        connection.rollback()
    return len(keys)


def unkept(dsn: str) -> list[tuple[object, ...]]:
    """Constraints and indexes that PostgreSQL does not vouch for."""
    return ask(
        dsn,
        "SELECT conname FROM pg_constraint WHERE NOT convalidated UNION ALL"
        " SELECT indexrelid::regclass::text FROM pg_index WHERE NOT (indisvalid AND indisready)",
    )


def unanalysed(dsn: str) -> list[str]:
    """Tables with rows but without statistics."""
    return [
        name
        for name in TABLES
        if one(dsn, f"SELECT count(*) FROM {name}")
        and not one(dsn, f"SELECT count(*) FROM pg_stats WHERE tablename = '{name}'")
    ]


def insert_everywhere(dsn: str) -> None:
    """New rows whose keys come from sequences; fails where a sequence lies behind a key."""
    with psycopg.connect(dsn) as connection:
        for _ in range(3):
            customer = connection.execute(
                "INSERT INTO customer (region, tier, email, credit)"
                " SELECT code, 'gold', gen_random_uuid() || '@new', 1 FROM region LIMIT 1"
                " RETURNING id"
            ).fetchone()
            purchase = connection.execute(
                "INSERT INTO purchase (customer_id, placed, paid) VALUES (%s, now(), true)"
                " RETURNING id",
                customer,
            ).fetchone()
            connection.execute(
                "INSERT INTO product (title, price, status) VALUES ('x', 1, 'ended')"
            )
            connection.execute(
                "INSERT INTO line (purchase_id, number, quantity, price) VALUES (%s, 1, 1, 1)",
                purchase,
            )
            connection.execute("INSERT INTO refund (purchase_id, number) VALUES (%s, 1)", purchase)
        connection.rollback()


def whole(dsn: str) -> None:
    """Everything at once."""
    assert checked_keys(dsn) == 6
    assert not unkept(dsn)
    kept = "SELECT count(*) FROM pg_constraint WHERE conrelid > 0 AND contype IN ('p', 'u', 'c')"
    assert one(dsn, f"{kept} AND connamespace = 'public'::regnamespace") >= 12
    assert not unanalysed(dsn)
    assert ask(dsn, "SELECT count(*) FROM spending")
    insert_everywhere(dsn)
