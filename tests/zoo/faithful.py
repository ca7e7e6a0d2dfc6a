"""What a clone must keep of any schema, asked of PostgreSQL and pg_dump, not of the tool itself."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
from market import execute
from psycopg import sql
from sql_files import cases, sql_of

from privbench.config import Config
from privbench.postgres.connect import connect, environment
from privbench.postgres.ddl import find_pg_dump
from privbench.postgres.introspect import introspect
from privbench.roles.references import referenced
from privbench.schema import ForeignKey, Table

QUERIES = dict(cases(__file__, "faithful"))
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
    """The schema of a dump, once more dumped from an empty database that it was restored into.

    PostgreSQL prints some expressions in other words once it has read its own (casts of lists,
    names of NOT NULL constraints of typed tables): a clone must equal what pg_dump would restore.
    """
    kept = [body for kind, body in found.entries if kind not in LEFT_BEHIND | DATA]
    execute(dsn, "SET check_function_bodies = off; SET search_path = ''", "\n".join(kept))
    return dump(dsn)


def _body(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if not re.match(r"--|\\|SET default_t", line))


def _tables(connection: psycopg.Connection, kinds: str = "rpm") -> list[tuple[int, sql.Composable]]:
    found = connection.execute(QUERIES["tables"], [list(kinds)]).fetchall()
    return [(oid, sql.Identifier(schema, name)) for oid, schema, name in found]


def _count(connection: psycopg.Connection, name: sql.Composable, *, only: bool = False) -> int:
    word = sql.SQL("ONLY " if only else "")
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}{}").format(word, name)).fetchone()
    return int(row[0])


def counts(dsn: str) -> dict[str, int]:
    """Exact rows of every table that is no partition."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET row_security = off")
        parts = connection.execute("SELECT oid::bigint FROM pg_class WHERE relispartition")
        leaves = {oid for (oid,) in parts.fetchall()}
        return {
            name.as_string(None): _count(connection, name, only=_is_plain(connection, oid))
            for oid, name in _tables(connection, "rp")
            if oid not in leaves
        }


def _is_plain(connection: psycopg.Connection, oid: int) -> bool:
    row = connection.execute("SELECT relkind = 'r' FROM pg_class WHERE oid = %s", [oid]).fetchone()
    return bool(row[0])


def unvalidated(dsn: str) -> list[tuple[str, str, str]]:
    """Constraints that are not validated."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(QUERIES["constraints that are not validated"]).fetchall()


def broken_constraints(dsn: str) -> list[str]:
    """Constraints that the rows do not keep, by making PostgreSQL judge all rows once more.

    FOREIGN KEY and CHECK are added a second time under another name; UNIQUE and EXCLUDE are
    proved by making their indexes anew; NOT NULL is counted; domains, wherever they stand, are
    proved by reading every value again from its text.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET row_security = off")
        return [
            *_readded(connection),
            *_reindexed(connection),
            *_nulls(connection),
            *_reread(connection),
        ]


def _tried(connection: psycopg.Connection, statement: sql.Composable, what: str) -> Iterator[str]:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement)
    except psycopg.Error as error:
        yield f"{what}: {error.diag.message_primary}"


def _readded(connection: psycopg.Connection) -> Iterator[str]:
    for schema, table, name, definition in connection.execute(QUERIES["constraints"]).fetchall():
        # Without statistics: PostgreSQL 18 cannot plan a merge join on a "char" that has a
        # histogram ("cache lookup failed for collation 0").
        statement = sql.SQL(QUERIES["a constraint once more"]).format(
            sql.Identifier(schema, table), sql.Identifier("proof of the zoo"), sql.SQL(definition)
        )
        yield from _tried(connection, statement, f"{schema}.{table} {name}")


def _reindexed(connection: psycopg.Connection) -> Iterator[str]:
    for oid, name in _tables(connection, "rm"):
        if connection.execute(QUERIES["unique indexes of a table"], [oid]).fetchone() is not None:
            what = f"index of {name.as_string(None)}"
            yield from _tried(connection, sql.SQL("REINDEX TABLE {}").format(name), what)


def _columns(connection: psycopg.Connection, condition: str) -> list[tuple[str, str, str, str]]:
    query = QUERIES["columns"].replace("{condition}", condition)
    return connection.execute(query).fetchall()


def _nulls(connection: psycopg.Connection) -> Iterator[str]:
    for schema, table, column, _ in _columns(connection, "a.attnotnull"):
        row = connection.execute(
            sql.SQL("SELECT count(*) FROM ONLY {} WHERE {} IS NULL").format(
                sql.Identifier(schema, table), sql.Identifier(column)
            )
        ).fetchone()
        if row[0]:
            yield f"{schema}.{table}.{column}: {row[0]} NULLs"


def _reread(connection: psycopg.Connection) -> Iterator[str]:
    for schema, table, column, type_ in _columns(connection, QUERIES["of types that are made"]):
        statement = sql.SQL("SELECT count({}::text::{}) FROM ONLY {}").format(
            sql.Identifier(column), sql.SQL(type_), sql.Identifier(schema, table)
        )
        yield from _tried(connection, statement, f"{schema}.{table}.{column}")


def unanalysed(dsn: str) -> list[str]:
    """Tables with rows and columns, but without statistics."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET row_security = off")
        return [
            name.as_string(None)
            for oid, name in _tables(connection)
            if connection.execute(QUERIES["whether a table is populated"], [oid]).fetchone()[0]
            and _count(connection, name)
            and not _has_statistics(connection, oid)
        ]


def _has_statistics(connection: psycopg.Connection, oid: int) -> bool:
    row = connection.execute("SELECT 1 FROM pg_statistic WHERE starelid = %s LIMIT 1", [oid])
    return row.fetchone() is not None


def stale_sequences(dsn: str) -> list[str]:
    """Sequences whose next number a row of the column that they fill holds already."""
    with psycopg.connect(dsn) as connection:
        owned = connection.execute(sql_of(__file__, "sequences_of_columns")).fetchall()
        stale = []
        for sequence, schema, table, column in owned:
            row = connection.execute(
                sql.SQL("SELECT count(*) FROM {} WHERE {} = nextval({})").format(
                    sql.Identifier(schema, table), sql.Identifier(column), sql.Literal(sequence)
                )
            ).fetchone()
            connection.rollback()
            if row[0]:
                stale.append(sequence)
        return stale


def circles(dsn: str) -> list[str]:
    """Self-references by which some row is its own ancestor, so that no root is above it.

    A root refers to nothing, or to itself where it must refer to something. Where every row must
    refer to another one that nobody else refers to, circles are all that there can be.
    """
    with connect(dsn) as connection:
        connection.execute("SET row_security = off")
        return [
            f"{table.key}: {key.name}"
            for table in introspect(connection)
            for key in table.foreign_keys
            if key.is_self and key.validated and _goes_round(connection, table, key)
        ]


def _goes_round(connection: psycopg.Connection, table: Table, key: ForeignKey) -> bool:
    free = any(not table.column(name).not_null for name in key.columns)
    if not free and any({*item.columns} <= {*key.columns} for item in table.unique_sets):
        return False
    names = [sql.SQL(", ").join(map(sql.Identifier, k)) for k in (key.ref_columns, key.columns)]
    query = sql.SQL("SELECT ROW({})::text, ROW({})::text, num_nulls({}) > 0 FROM {}")
    found = connection.execute(query.format(*names, names[1], _named(table))).fetchall()
    below: dict[str, list[str]] = {}
    level = []
    for row, above, none in found:
        if none or (row == above and not free):
            level.append(row)
        else:
            below.setdefault(above, []).append(row)
    count = 0
    while level:
        count += len(level)
        level = [row for above in level for row in below.get(above, ())]
    return count < len(found)


#: Units that own rows of a table, below which noise hides how many rows they own.
FEW_UNITS = 50


def owning_units(dsn: str, config: Config) -> dict[str, int]:
    """How many units own rows of every table; rows without an owner are units by themselves.

    A table that must refer to one that few units own hangs on these few as well.
    """
    with connect(dsn) as connection:
        tables = {table.key: table for table in referenced(introspect(connection), config)}
        connection.execute("SET row_security = off")
        found = {key: _units(connection, table, tables, config) for key, table in tables.items()}
    owned = {key for key in tables if key in config.tables and config.tables[key].own}
    for table in tables.values():
        for key in table.foreign_keys:
            must = all(table.column(name).not_null for name in key.columns)
            if must and str(key.ref_table) in owned:
                found[table.key] = min(found[table.key], found[str(key.ref_table)])
    return {_named(table).as_string(None): found[key] for key, table in tables.items()}


def _named(table: Table) -> sql.Identifier:
    return sql.Identifier(table.name.schema, table.name.name)


def _units(
    connection: psycopg.Connection, table: Table, tables: dict[str, Table], config: Config
) -> int:
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
    return int(connection.execute(units).fetchone()[0])


def unlikely(before: dict[str, int], after: dict[str, int], units: dict[str, int]) -> list[str]:
    """Tables whose size has nothing to do with the source's: the noise of ε = 3 is large here.

    Sizes are promised of tables that at least `FEW_UNITS` units own. Whatever five of 1,500 users
    own may vanish with them by the meaning of differential privacy: one user more or less must
    hardly show, and so five hardly do. Of such tables only this is asked, that they do not explode.
    Of 150 rows that 150 of 2,000 users own, one fit in a thousand makes more than 700.
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
