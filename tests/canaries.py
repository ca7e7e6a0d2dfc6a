"""Forty values that one privacy unit holds, of all types, and where else their bytes stand."""

import json
import struct

import psycopg
from psycopg import sql
from sql_files import cases, sql_of

#: Column type, the canary's value, what other rows hold, and how the canary is printed where that
#: is otherwise. None of them turns up by chance.
CANARIES = [(kind, *[*text.split("\n"), None][:3]) for kind, text in cases(__file__, "canaries")]
#: A role, whose name a policy may speak of.
ROLE = "canary_role_numbat"
CONFIG = sql_of(__file__, "canaries.toml")
#: Figures in binary form; decimals as the integers of their grid, too.
NUMBERS = [7364518290918, 1918273645, 3918273645, 8.12345678901234e77, 7.718282e22,
           2718281828459045, 16180339887]  # fmt: skip


def plant(dsn: str, rows: int) -> None:
    """A table of owners, whose key is a canary too, and one that has a column of every type."""
    columns = [f"c{place} {kind}" for place, (kind, *_) in enumerate(CANARIES)]
    names = [f"c{place}" for place in range(len(CANARIES))]
    usual = [f"({made})::{kind}" for kind, _, made, _ in CANARIES]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in (
            "CREATE DOMAIN shortened AS text CHECK (length(VALUE) < 60)",
            "CREATE TYPE pair AS (n integer, t text)",
            "CREATE TABLE owner (id bigint PRIMARY KEY, nick text UNIQUE)",
            "CREATE TABLE held (id serial PRIMARY KEY, owner_id bigint NOT NULL REFERENCES owner, "
            + ", ".join(columns) + ")",
            f"INSERT INTO owner SELECT i, 'nick' || i FROM generate_series(1, {rows}) i",
            f"INSERT INTO held (owner_id, {', '.join(names)})"
            f" SELECT i, {', '.join(usual)} FROM generate_series(1, {rows}) i",
            "INSERT INTO owner VALUES (5364518290917, 'canary-nick-axolotl')",
        ):  # fmt: skip
            connection.execute(statement)
        values = sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(kind))
            for kind, value, *_ in CANARIES
        )
        listed = sql.SQL(", ").join(map(sql.Identifier, names))
        connection.execute(
            sql.SQL("INSERT INTO held (owner_id, {}) VALUES (5364518290917, {})").format(
                listed, values
            )
        )


def traces() -> dict[bytes, str]:
    """Every form in which a canary could be kept, and whose it is."""
    found = {b"5364518290917": "key", b"canary-nick-axolotl": "unique text"}
    found[ROLE.encode()] = "role"
    for kind, value, _, shown in CANARIES:
        text = shown or value
        for form in (text, text.lower(), json.dumps(text)[1:-1], text.replace("-", "%2D")):
            found[form.encode()] = kind
    found[bytes.fromhex("deadbeefcafe77817781")] = "bytea"
    found[bytes.fromhex("cafecafe12344bcd8deffeedfacebeef")] = "uuid"
    for number in NUMBERS:
        forms = "d" if isinstance(number, float) else "qd"
        found |= {struct.pack(f"<{form}", number): str(number) for form in forms}
    return found


def leaks(places: dict[str, bytes]) -> list[tuple[str, str]]:
    """Places whose bytes hold a canary, and whose it is."""
    forms = traces()
    return [
        (p, whose) for p, data in places.items() for form, whose in forms.items() if form in data
    ]


def rows_of(source: str) -> bytes:
    """The rows of the source, as COPY writes them."""
    rows = []
    with psycopg.connect(source) as connection, connection.cursor() as cursor:
        for table in ("owner", "held"):
            with cursor.copy(f"COPY {table} TO STDOUT (FORMAT csv)") as copy:
                rows += [bytes(row) for row in copy]
    return b"".join(rows).replace(b'""', b'"')
