"""Forty values that one privacy unit holds, of all types, and where else their bytes stand."""

import json
import struct

import psycopg
from psycopg import sql

#: Column type, the canary's value, what other rows hold, and how the canary is printed where that
#: is otherwise. None of them turns up by chance.
CANARIES = [
    ("text", "Canary-Quetzal-7781", "'note ' || i", None),
    ("varchar(40)", "kestrel.canary@hidden.example", "'c' || i || '@shop.example'", None),
    ("char(24)", "canary wombat bravo zulu", "'padded ' || i", None),
    ("name", "canary_name_zyzzyva", "'name_' || i", None),
    ("shortened", "canary-domain-okapi", "'short ' || i % 3", None),
    ("pair", '(918273001,"canary composite")', "'(' || i || ',x)'", "canary composite"),
    ("bigint", "7364518290918", "i * 1000", None),
    ("integer", "1918273645", "i * 7 % 90", None),
    ("oid", "3918273645", "i", None),
    ("numeric", "31415926535.89793238", "i * 3.5", None),
    ("numeric(16,4)", "271828182845.9045", "i * 1.25", None),
    ("money", "$161,803,398.87", "(i * 3)::text", None),
    ("real", "7.718282e+22", "i * 0.5", None),
    ("double precision", "8.12345678901234e+77", "i * 0.25", None),
    ("date", "1234-05-06", "date '2015-01-01' + i * 5 % 900", None),
    ("timestamp", "1235-06-07 04:03:02.123457", "timestamp '2015-01-01' + i * interval '7h'", None),
    ("timestamptz", "1236-07-08 05:04:03.234568+00", "timestamptz '2015-01-01 00:00+00'", None),
    ("time", "03:14:15.926535", "time '08:00' + i * interval '1 minute'", None),
    ("timetz", "02:17:18.281828+13:45", "timetz '08:00+00'", None),
    ("interval", "1618 years 3 mons 3 days 09:08:07.654321", "i * interval '1 hour'", None),
    ("uuid", "cafecafe-1234-4bcd-8def-feedfacebeef", "gen_random_uuid()", None),
    ("bytea", "\\xdeadbeefcafe77817781", "decode(md5(i::text), 'hex')", "deadbeefcafe77817781"),
    ("varbit", "110010101111111011001010111111101011101010111110", "B'1010'", None),
    ("inet", "198.51.100.217/27", "'10.0.0.1'", None),
    ("cidr", "203.0.113.208/29", "'10.0.0.0/8'", None),
    ("macaddr", "de:ad:be:ef:77:81", "'00:00:00:00:00:01'", None),
    ("macaddr8", "de:ad:be:ef:77:81:ca:fe", "'00:00:00:00:00:00:00:01'", None),
    ("json", '{"canary": "json-ibex"}', "'{\"a\": 1}'", "json-ibex"),
    ("jsonb", '{"canary": "jsonb-lynx"}', "'{\"a\": 1}'", "jsonb-lynx"),
    ("jsonpath", '$."canaryjsonpath"', "'$.a'", "canaryjsonpath"),
    ("text[]", "{canary-array-stoat,b}", "'{a,b}'", "canary-array-stoat"),
    ("bigint[]", "{7364518290919,7364518290920}", "'{1,2}'", "7364518290919"),
    ("int8range", "[7364518290921,7364518290922)", "'[1,2)'", "7364518290921"),
    ("daterange", "[1237-08-09,1237-08-10)", "'[2015-01-01,2015-02-01)'", "1237-08-09"),
    ("int8multirange", "{[7364518290923,7364518290924)}", "'{[1,2)}'", "7364518290923"),
    ("tsvector", "'canarylexem':7", "'''word'':1'", "canarylexem"),
    ("tsquery", "'canaryquery'", "'''word'''", "canaryquery"),
    ("point", "(918273.645,546372.819)", "'(1,2)'", "918273.645"),
    ("circle", "<(12345.678,1),918273.646>", "'<(1,2),3>'", "918273.646"),
    ("pg_lsn", "DEADBEEF/77817781", "'0/1'", None),
]
#: A role, whose name a policy may speak of.
ROLE = "canary_role_numbat"
CONFIG = """
[database]
identity = "canaries"
[privacy]
epsilon = 3.0
delta = 1e-9
[tables."public.owner"]
own = []
[tables."public.held"]
own = ["owner_id"]
"""
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
