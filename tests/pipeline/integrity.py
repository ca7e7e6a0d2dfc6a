"""What a clone must keep, asked of PostgreSQL itself, without the tool's own code."""

from __future__ import annotations

import os
import re
import subprocess

import psycopg
from market import TABLES, ask, one
from psycopg import sql

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


def orphans(dsn: str) -> dict[str, int]:
    """Per foreign key, rows whose reference leads nowhere."""
    found = {}
    with psycopg.connect(dsn) as connection:
        keys = connection.execute(
            "SELECT conname, conrelid::regclass::text, confrelid::regclass::text,"
            " (SELECT array_agg(a.attname ORDER BY k.n)"
            "  FROM unnest(conkey) WITH ORDINALITY k(c, n)"
            "  JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.c),"
            " (SELECT array_agg(a.attname ORDER BY k.n)"
            "  FROM unnest(confkey) WITH ORDINALITY k(c, n)"
            "  JOIN pg_attribute a ON a.attrelid = confrelid AND a.attnum = k.c)"
            " FROM pg_constraint WHERE contype = 'f' AND convalidated"
        ).fetchall()
        for name, child, parent, ours, theirs in keys:
            pairs = list(zip(ours, theirs, strict=True))
            given = sql.SQL(" AND ").join(
                sql.SQL("c.{} IS NOT NULL").format(sql.Identifier(a)) for a, _ in pairs
            )
            equal = sql.SQL(" AND ").join(
                sql.SQL("c.{} = p.{}").format(sql.Identifier(a), sql.Identifier(b))
                for a, b in pairs
            )
            query = sql.SQL(
                "SELECT count(*) FROM {} c WHERE {} AND NOT EXISTS (SELECT FROM {} p WHERE {})"
            ).format(sql.Identifier(child), given, sql.Identifier(parent), equal)
            found[name] = connection.execute(query).fetchone()[0]
    return found


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
    lost = orphans(dsn)
    assert not {name: count for name, count in lost.items() if count}
    assert len(lost) == 6
    assert not unkept(dsn)
    kept = "SELECT count(*) FROM pg_constraint WHERE conrelid > 0 AND contype IN ('p', 'u', 'c')"
    assert one(dsn, f"{kept} AND connamespace = 'public'::regnamespace") >= 12
    assert not unanalysed(dsn)
    assert ask(dsn, "SELECT count(*) FROM spending")
    insert_everywhere(dsn)
