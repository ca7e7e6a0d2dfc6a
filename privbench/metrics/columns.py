"""Which columns of a table are compared, and how their values become cells.

A column with at most 256 distinct values in the source keeps its values. A column with more values,
of a type with an order, is cut into bins: the config's public ones, or else 64 of equal mass in the
source. Other columns with many values are free text, and are left out, as are columns that a fit
fills with placeholders. All of this reads the source: CONFIDENTIAL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from psycopg import sql

from privbench.config import ColumnConfig, Config, TableConfig
from privbench.encoding.base import PLACEHOLDER
from privbench.encoding.documents import DOCUMENTS
from privbench.encoding.registry import table_coverage
from privbench.metrics import canon
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.postgres.statement import source as from_table
from privbench.schema import Column, Table, TableName

#: Distinct values beyond which a column is binned or left out.
FEW = 256
#: Most cells of a column that are shown; of values without an order, rarer ones are joined in one.
CELLS = 40
#: Bins where the config names none.
BINS = 64
#: Why columns are left out that a fit fills with placeholders.
PLACEHOLDERS = "placeholders, of which no value is measured"
Binning = Literal["values", "public bins", "source quantiles", "equal widths", "logarithmic widths"]


@dataclass(frozen=True, slots=True)
class CellPlan:
    """The cells into which one column is divided: its values, or bins."""

    column: Column
    how: Binning  # by value, or by which bins
    edges: tuple[str, ...] = ()  # lower edges of the bins as text, ascending; empty by value

    @property
    def expression(self) -> sql.Composable:
        """Return SQL for the value as text, or for the bin's number (0 below the first edge)."""
        name = sql.Identifier(self.column.name)
        order = canon.order_type(self.column)
        if not self.edges or order is None:
            return canon.text(self.column, name)
        return build(
            "pg_catalog.width_bucket({}, ARRAY[{}]::{}[])",
            canon.canonical(self.column, name),
            map(sql.Literal, self.edges),
            sql.SQL(canon.SQL_NAMES[order]),
        )

    @property
    def bin_labels(self) -> tuple[str, ...]:
        """The labels of the bins, from number 0 on."""
        edges = [edge.removesuffix("T00:00:00") for edge in self.edges]
        inner = [f"{low} – {high}" for low, high in pairwise(edges)]
        return (f"< {edges[0]}", *inner, f"≥ {edges[-1]}")


def section(config: Config | None, table: Table) -> TableConfig:
    """Return a table's section of the config, however the config spells the table's name."""
    sections = config.tables.items() if config is not None else ()
    by_name = {TableName.parse(name): section for name, section in sections}
    return by_name.get(table.name, TableConfig())


def is_public(config: Config | None, table: Table) -> bool:
    """Return whether the config declares the table public."""
    return section(config, table).role == "public"


def plan(
    connection: Connection, table: Table, config: Config | None, distinct: Mapping[str, float]
) -> tuple[list[CellPlan], dict[str, str]]:
    """Decide which columns of a table are compared and how, from the source's rows.

    Returns the plans, and by column the reasons why the others are not compared. The config may
    have public bins; `distinct` are the columns' numbers of distinct values.
    """
    known = section(config, table).columns
    delta = (config or Config()).privacy.delta
    lines = [] if is_public(config, table) else table_coverage(table, known, delta)
    placeholders = {line.column for line in lines if line.how.startswith(PLACEHOLDER)}
    cells: list[CellPlan] = []
    left_out: dict[str, str] = {}
    for column in table.columns:
        column_config = known.get(column.name)
        reason = key_kind(table, column.name)
        if reason is None and column_config is not None and column_config.kind in ("text", "skip"):
            reason = (
                "free text by the config"
                if column_config.kind == "text"
                else "skipped by the config"
            )
        if reason is None and column.name in placeholders:
            reason = PLACEHOLDERS
        if reason is None and column.type.base in DOCUMENTS and not is_public(config, table):
            reason = "documents, of which paths are measured"
        few = distinct.get(column.name, 0) <= FEW
        decided = reason or _cells(connection, table, column, column_config, few)
        if isinstance(decided, str):
            left_out[column.name] = decided
        else:
            cells.append(decided)
    return cells, left_out


def key_kind(table: Table, column: str) -> str | None:
    """Return which kind of key the column is part of, or None.

    Key columns are not compared, since a clone's keys are generated.
    """
    if column in table.primary_columns:
        return "primary key"
    if column in table.key_columns:
        return "foreign key"
    if any(unique.columns == (column,) for unique in table.uniques):
        return "unique key"
    return None


def _cells(
    connection: Connection, table: Table, column: Column, known: ColumnConfig | None, few: bool
) -> CellPlan | str:
    with database_errors("looking at a column", table.key):
        if few:
            return CellPlan(column, "values")
        order = canon.order_type(column)
        if order is None:
            return f"more than {FEW} distinct values without an order"
        how: Binning = "source quantiles"
        query = _quantiles(table, column, order)
        if known is not None and known.min is not None and known.max is not None:
            how, query = "public bins", _public_edges(column, order, known)
        row = connection.execute(query).fetchone()
        return CellPlan(column, how, tuple(row[0]) if row and row[0] else ())


def count(connection: Connection, query: sql.Composed) -> int:
    """Return the number that a counting query returns."""
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def _quantiles(table: Table, column: Column, order: str) -> sql.Composed:
    """Bins of equal mass in the source."""
    shares = "{" + ",".join(str(i / BINS) for i in range(BINS)) + "}"
    return SELECT + build(
        "pg_catalog.array_agg({label} ORDER BY v) FROM (SELECT DISTINCT pg_catalog.unnest("
        "pg_catalog.percentile_disc({shares}::double precision[])"
        " WITHIN GROUP (ORDER BY {value})) AS v"
        " FROM {table} WHERE {name} IS NOT NULL) AS q",
        label=canon.label(order, sql.Identifier("v")),
        shares=sql.Literal(shares),
        value=canon.canonical(column, sql.Identifier(column.name)),
        name=column.name,
        table=from_table(table),
    )


def _public_edges(column: Column, order: str, known: ColumnConfig) -> sql.Composed:
    """Equal bins over the declared range; the last one also holds values above the range."""
    kind = sql.SQL(column.type.sql)
    low, high = (
        canon.canonical(column, build("{}::{}", sql.Literal(str(end)), kind))
        for end in (known.min, known.max)
    )
    return build(
        "SELECT pg_catalog.array_agg({label} ORDER BY v) FROM (SELECT {low} + ({high} - {low})"
        " * (i::numeric / {bins}) AS v FROM pg_catalog.generate_series(0, {bins} - 1) AS i) AS e",
        label=canon.label(order, sql.Identifier("v")),
        low=low,
        high=high,
        bins=known.bins or BINS,
    )
