"""SQL that prints column values alike on every server, whatever its DateStyle or TimeZone."""

from typing import Final

from psycopg import sql

from privbench.schema import Column

#: Base types whose values have an order, and the type in which their bins are computed.
_ORDERED: Final = {
    "int2": "numeric", "int4": "numeric", "int8": "numeric", "numeric": "numeric",
    "money": "numeric", "interval": "numeric", "float4": "float8", "float8": "float8",
    "date": "timestamp", "timestamp": "timestamp", "timestamptz": "timestamp", "time": "time",
}  # fmt: skip

#: SQL names of the types of bins. They are keywords of the grammar, so that no type of a user can
#: take their place.
SQL_NAMES: Final = {
    "numeric": "numeric", "float8": "double precision", "timestamp": "timestamp", "time": "time",
}  # fmt: skip

_CANONICAL: Final = {
    # Adding 0 turns -0 into 0.
    "float4": "({} + 0)::double precision",
    "float8": "({} + 0)::double precision",
    "interval": "extract(epoch from {})::numeric",
    "timestamptz": "({} AT TIME ZONE 'UTC')",
}

_LABEL: Final = {
    "numeric": "pg_catalog.trim_scale({})::pg_catalog.text",
    "float8": "({})::pg_catalog.text",
    "timestamp": "pg_catalog.to_json({}) #>> '{{}}'",
    "time": "({})::pg_catalog.text",
}


def order_type(column: Column) -> str | None:
    """Return the type in which a column's bins are computed, or None if its values are unordered.

    An interval is compared in seconds, a time stamp with a time zone in UTC.
    """
    return _ORDERED.get(column.type.base) if column.type.kind == "b" else None


def canonical(column: Column, value: sql.Composable) -> sql.Composable:
    """Return SQL that converts a value of the column's type to its `order_type`."""
    base = column.type.base
    form = _CANONICAL.get(base, "{}::" + SQL_NAMES[_ORDERED[base]])
    return sql.SQL(form).format(value)


def label(order: str, value: sql.Composable) -> sql.Composable:
    """Return SQL that converts a value of an ordered type to text."""
    return sql.SQL(_LABEL[order]).format(value)


def text(column: Column, value: sql.Composable) -> sql.Composable:
    """Return SQL that converts a value of any column to text; equal values give equal text."""
    order = order_type(column)
    if order is None:
        return sql.SQL(column.type.text_form).format(value)
    return label(order, canonical(column, value))
