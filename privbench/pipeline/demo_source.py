"""The demonstration's source: a seeded clinic that looks like somebody's production database.

Nine tables with what real ones have: skew, correlation inside a table and across tables, NULLs,
dates and timestamps, enums, CHECKs, free text, numerics, booleans, a composite key, a junction
table, a self-reference, a unique natural key, a one-to-one key, a generated column, a view and
indexes. All of it is made up here; no row describes a real person.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from importlib import resources
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv
from psycopg import sql

from privbench.errors import ConnectionFailed, TargetError, UsageError
from privbench.pipeline import demo_people as people
from privbench.pipeline import demo_visits as visits
from privbench.pipeline.demo_draw import Columns

#: Fewer rows than this leave no room for the look-up tables and a few units.
LEAST_ROWS = 2_000

#: Share of all rows per table; `encounter_diagnosis` takes what is left.
SHARES = {
    "staff": 0.005,
    "patient": 0.12,
    "encounter": 0.28,
    "patient_allergy": 0.05,
    "invoice": 0.22,
}


def create(dsn: str, rows: int = 200_000, seed: int = 7) -> dict[str, int]:
    """Make the clinic in an empty database.

    Args:
        dsn: An empty database that may be written.
        rows: Rows of all tables together, at least `LEAST_ROWS`.
        seed: The same seed gives the same database.

    Returns:
        Number of rows per table.

    Raises:
        UsageError: Too few rows were asked for.
        ConnectionFailed: The server is unreachable.
        TargetError: The tables could not be made (they exist, or a right is missing).
    """
    tables = generate(rows, seed)
    try:
        connection = psycopg.connect(dsn)
    except psycopg.OperationalError as error:
        raise ConnectionFailed(f"cannot connect to the demonstration's server: {error}.") from error
    with connection:
        try:
            _write(connection, tables)
        except psycopg.Error as error:
            raise TargetError(
                f"the demonstration's source could not be made: {error.diag.message_primary}.",
                remedy="It needs an empty database of its own.",
            ) from error
    return {name: _rows(columns) for name, columns in tables.items()}


def generate(rows: int = 200_000, seed: int = 7) -> dict[str, Columns]:
    """The clinic's rows, parents before children.

    Args:
        rows: Rows of all tables together.
        seed: A public seed.

    Returns:
        Per table its columns; each column an array of the table's length (numpy, or Arrow where
        there are NULLs or text).

    Raises:
        UsageError: Too few rows were asked for.
    """
    if rows < LEAST_ROWS:
        raise UsageError(f"the demonstration needs at least {LEAST_ROWS} rows, not {rows}.")
    tables = people.lookups(seed)
    sizes = {name: max(round(rows * share), 12) for name, share in SHARES.items()}
    codes = tables["diagnosis_code"]["code"]
    tables["staff"] = people.staff(sizes["staff"], seed)
    folk = people.draw_people(sizes["patient"], seed)
    tables["patient"] = people.patient(folk, seed)
    seen = visits.draw_visits(sizes["encounter"], folk, tables["staff"], seed)
    tables["encounter"] = visits.encounter(seen, seed)
    tables["patient_allergy"] = visits.allergies(sizes["patient_allergy"], folk, seed)
    tables["invoice"] = visits.invoices(sizes["invoice"], seen, folk, seed)
    tables["encounter_diagnosis"] = visits.diagnoses(rows - _total(tables), seen, folk, codes, seed)
    return tables


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _total(tables: Mapping[str, Columns]) -> int:
    return sum(map(_rows, tables.values()))


def _write(connection: psycopg.Connection[Any], tables: Mapping[str, Columns]) -> None:
    ddl = resources.files("privbench.pipeline").joinpath("data/demo_schema.sql").read_bytes()
    with connection.cursor() as cursor, connection.transaction():
        cursor.execute(ddl)
        for name, columns in tables.items():
            _copy(cursor, name, columns)
        for name in ("staff", "patient", "encounter", "invoice"):
            _advance(cursor, name)
    connection.autocommit = True
    connection.execute("VACUUM (ANALYZE)")


def _copy(cursor: psycopg.Cursor[Any], name: str, columns: Columns) -> None:
    buffer = io.BytesIO()
    options = pacsv.WriteOptions(include_header=False)
    pacsv.write_csv(pa.table(columns), buffer, options)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
        sql.Identifier(name), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with cursor.copy(statement) as copy:
        copy.write(buffer.getbuffer())


def _advance(cursor: psycopg.Cursor[Any], name: str) -> None:
    """Set the identity's sequence past the rows."""
    cursor.execute(
        sql.SQL("SELECT setval(pg_get_serial_sequence(%s, 'id'), max(id)) FROM {}").format(
            sql.Identifier(name)
        ),
        [name],
    )
