"""What a clone must keep of any schema, asked of PostgreSQL and pg_dump, not of the tool itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from market import execute
from psycopg import sql
from sql_files import cases

from privbench.config import Config
from privbench.postgres.connect import connect, environment
from privbench.postgres.ddl import find_pg_dump
from privbench.postgres.introspect import introspect
from privbench.roles.references import referenced
from privbench.schema import Table

QUERIES = dict(cases(__file__, "faithful"))
QUERIES = {
    name: text.replace("{user tables}", QUERIES["user tables"]) for name, text in QUERIES.items()
}
_ENTRY = re.compile(
    r"^--\n-- (?:Data for )?Name: (?P<name>.*?); Type: (?P<type>[A-Z ]+); Schema: .*?\n--\n",
    re.MULTILINE | re.DOTALL,
)
#: Kinds of entries that stay behind: rights and who holds them, what people have written about the
#: schema, other servers, and rows with all that follows from them (PRIVACY P4).
LEFT_BEHIND = frozenset(
    {"COMMENT", "SERVER", "FOREIGN TABLE", "FOREIGN DATA WRAPPER"}
    | {"USER MAPPING", "EVENT TRIGGER", "ACL", "DEFAULT ACL", "SECURITY LABEL"}
)
DATA = frozenset({"TABLE DATA", "SEQUENCE SET", "MATERIALIZED VIEW DATA", "STATISTICS DATA"})
#: What holds of the rows of every clone.
KEPT = (
    "FOREIGN KEY and CHECK are added once more",
    "UNIQUE and EXCLUDE are indexed anew",
    "NOT NULL",
    "values of domains are read again from their text",
    "statistics of tables with rows and columns",
    "next numbers of sequences are new",
)
#: Extensions that serve foreign tables alone.
_WRAPPERS = re.compile(r"CREATE EXTENSION IF NOT EXISTS \w+_fdw ")
#: A number of rows in disguise, which stays behind.
_N_DISTINCT = re.compile(r"^ALTER TABLE ONLY .* SET \(n_distinct.*\);$", re.MULTILINE)


@dataclass(frozen=True)
class Dump:
    """A database as pg_dump writes it: text, and entries by kind."""

    text: str
    entries: tuple[tuple[str, str], ...]

    @property
    def schema(self) -> list[str]:
        """The entries that a clone shares with its source, without regard to their order."""
        kept = (
            re.sub(r"\n\n+", "\n", _N_DISTINCT.sub("", body)).strip()
            for kind, body in self.entries
            if kind not in LEFT_BEHIND | DATA
        )
        return sorted(body for body in kept if body and not _WRAPPERS.match(body))


def pg_dump(dsn: str, *options: str) -> str:
    """What pg_dump says; owners it leaves out."""
    with connect(dsn) as connection:
        program = find_pg_dump(connection.info.server_version // 10000)
        variables = {**os.environ, **environment(connection)}
    command = [program.path, "--no-owner", *options]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return done.stdout


def dump(dsn: str) -> Dump:
    """Everything in a database, rows and comments included; owners and rights not."""
    text = pg_dump(dsn, "--no-privileges")
    marks = [*_ENTRY.finditer(text)]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    entries = (
        (mark["type"], _body(text[mark.end() : end])) for mark, end in zip(marks, ends, strict=True)
    )
    return Dump(text, tuple(entries))


def restored(found: Dump, dsn: str) -> Dump:
    """The schema of a dump, dumped once more from an empty database that it was restored into.

    PostgreSQL prints some expressions in other words once it has read its own.
    """
    kept = [body for kind, body in found.entries if kind not in LEFT_BEHIND | DATA]
    execute(dsn, "SET check_function_bodies = off; SET search_path = ''", "\n".join(kept))
    return dump(dsn)


def _body(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if not re.match(r"--|\\|SET default_t", line))


def ask(dsn: str, query: str) -> list[tuple]:
    """All rows of a query, whatever policies say; names are qualified."""
    with connect(dsn) as connection:
        connection.execute("SET row_security = off")
        connection.execute("SET search_path = ''")
        return connection.execute(query.encode()).fetchall()


def counts(dsn: str) -> dict[str, int]:
    """Exact rows of every table that is no partition."""
    queries = [query for (query,) in ask(dsn, QUERIES["counts"])]
    return dict(ask(dsn, " UNION ALL ".join(queries))) if queries else {}


def unvalidated(dsn: str) -> list[tuple[str, str, str]]:
    """Constraints that are not validated."""
    return ask(dsn, QUERIES["constraints that are not validated"])


def failures(dsn: str, *checks: str) -> list[str]:
    """What does not hold of the rows; each check is undone after it was tried."""
    listed = "\nUNION ALL\n".join(QUERIES[check] for check in checks)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET row_security = off; SET search_path = ''")
        connection.execute(QUERIES["failures"].replace("{checks}", listed).encode())
        row = connection.execute("SELECT current_setting('proof.failures')").fetchone()
    return json.loads(row[0])


def require_sound(dsn: str) -> None:
    """Rows keep all constraints, as PostgreSQL judges them anew, and have statistics."""
    assert failures(dsn, *KEPT) == []


def circles(dsn: str) -> list[str]:
    """Self-references by which some row is its own ancestor, so that no root is above it."""
    return failures(dsn, "no row is its own ancestor")


#: Units that own rows of a table, below which noise hides how many rows they own.
FEW_UNITS = 50


def owning_units(dsn: str, config: Config) -> dict[str, int]:
    """How many units own rows of every table; rows without an owner are units by themselves.

    A table that must refer to one that few units own hangs on these few as well.
    """
    with connect(dsn) as connection:
        tables = {table.key: table for table in referenced(introspect(connection), config)}
    found = {key: _units(dsn, table, tables, config) for key, table in tables.items()}
    owned = {key for key in tables if key in config.tables and config.tables[key].own}
    for table in tables.values():
        for key in table.foreign_keys:
            must = all(table.column(name).not_null for name in key.columns)
            if must and str(key.ref_table) in owned:
                found[table.key] = min(found[table.key], found[str(key.ref_table)])
    return {_named(table).as_string(None): found[key] for key, table in tables.items()}


def _named(table: Table) -> sql.Identifier:
    return sql.Identifier(table.name.schema, table.name.name)


def _units(dsn: str, table: Table, tables: dict[str, Table], config: Config) -> int:
    query, place = sql.SQL("FROM {} AS t0").format(_named(table)), 0
    while own := (config.tables[table.key].own if table.key in config.tables else None):
        key = next(key for key in table.foreign_keys if list(key.columns) == list(own))
        table = tables[str(key.ref_table)]
        pairs = [
            sql.SQL("{} = {}").format(
                sql.Identifier(f"t{place}", mine), sql.Identifier(f"t{place + 1}", theirs)
            )
            for mine, theirs in zip(key.columns, key.ref_columns, strict=True)
        ]
        place += 1
        query += sql.SQL(" LEFT JOIN {} AS {} ON {}").format(
            _named(table), sql.Identifier(f"t{place}"), sql.SQL(" AND ").join(pairs)
        )
    units = sql.SQL(QUERIES["units"]).format(sql.Identifier(f"t{place}"), query)
    return int(ask(dsn, units.as_string(None))[0][0])


def unlikely(before: dict[str, int], after: dict[str, int], units: dict[str, int]) -> list[str]:
    """Tables whose size has nothing to do with the source's: the noise of ε = 3 is large here.

    What fewer than `FEW_UNITS` units own may vanish with them, and must not explode. Of 150 rows
    that 150 of 2,000 users own, one fit in a thousand makes more than 700.
    """
    return [
        f"{name}: {before[name]} rows became {after[name]}"
        for name in before
        if not _likely(before[name], after[name], units.get(name, before[name]))
    ]


def _likely(before: int, after: int, units: int) -> bool:
    if units < FEW_UNITS < before:
        return after <= 20 * before + 100
    return before / 20 - 20 <= after <= 10 * before + 300


def leaked(text: str, canaries: Sequence[str]) -> list[str]:
    """Canaries that a text holds, whatever their case."""
    folded = text.lower()
    return [canary for canary in canaries if canary.lower() in folded]
