"""Columns that are computed from others by their names and types, as expressions for the config.

Sums and products have the names of an invoice's amounts in EN 16931 and UBL 2.1: a line's amount is
its quantity by its price (BT-131, BT-129, BT-146), the tax inclusive amount is the tax exclusive
amount and the tax (BT-112, BT-109, BT-110). Nothing here reads rows, so it costs nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from privbench.display import quote
from privbench.pgsql.computed import ROW
from privbench.rules.named import plain_name
from privbench.schema import ForeignKey, Schema, Table, TableName
from privbench.words import noun, stem, words

_NET = re.compile(r"net|sub ?total|tax exclusive")
_TAX = re.compile(r"tax|vat")
_GROSS = re.compile(r"(grand )?total|gross|tax inclusive")
_AMOUNT = re.compile(r"amount|total|net|(?:line|extended)(?: total| price| extension)?")
_QUANTITY = re.compile(r"(?:\w+ )*(?:quantity|qty)")
_PRICE = re.compile(r"(?:unit |net |item )?price")
#: What may stand before or after the name of an amount.
_MONEY = re.compile(r" (?:amount|amt|value|sum|due)$")
_COUNT = re.compile(r"(?:n|num|number|number of|count|nr) (?P<after>.+)|(?P<before>.+) count")


def proposed(schema: Schema) -> Iterator[tuple[Table, str, str]]:
    """Yield tables, columns of them, and the expressions that their names suggest."""
    below = defaultdict[TableName, list[ForeignKey]](list)
    for table in schema:
        for key in _plain_keys(table):
            below[key.ref_table].append(key)
    for table in schema:
        numbers = _numbers(table)
        for column, text in chain(
            _amounts(numbers),
            _of_children(schema, numbers, below[table.name]),
            _copies(schema, table),
        ):
            yield table, column, text


def _plain_keys(table: Table) -> list[ForeignKey]:
    """Keys of one column to another table, whatever the row."""
    keys = table.foreign_keys
    return [key for key in keys if len(key.columns) == 1 and not (key.is_self or key.when)]


def _numbers(table: Table) -> dict[str, str]:
    """Columns of numbers by their words."""
    return {
        _MONEY.sub("", " ".join(words(plain_name(c.name, table)))): c.name
        for c in table.columns
        if c.type.category == "N"
    }


def _matching_column(numbers: dict[str, str], pattern: re.Pattern[str]) -> str:
    """The only column whose words match a pattern, or ''."""
    matching = [column for name, column in numbers.items() if pattern.fullmatch(name)]
    return matching[0] if len(matching) == 1 else ""


def _product(row: str, numbers: dict[str, str]) -> str:
    """Quantity by price of a row, or '' without such columns, or with a discount."""
    factors = [_matching_column(numbers, pattern) for pattern in (_QUANTITY, _PRICE)]
    if not all(factors) or any("discount" in name for name in numbers):
        return ""
    return " * ".join(f"{row}.{quote(name)}" for name in factors)


def _amounts(numbers: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Net and tax, quantity and price of a row."""
    net, tax, gross = (_matching_column(numbers, pattern) for pattern in (_NET, _TAX, _GROSS))
    summed = gross if net and tax else ""
    if summed:
        yield gross, f"{ROW}.{quote(net)} + {ROW}.{quote(tax)}"
    factor = re.compile(f"{_PRICE.pattern}|{_QUANTITY.pattern}")
    rest = {n: c for n, c in numbers.items() if c != summed and not factor.fullmatch(n)}
    amount, product = net or _matching_column(rest, _AMOUNT), _product(ROW, numbers)
    if amount and product:
        yield amount, product


def _of_children(
    schema: Schema, numbers: dict[str, str], keys: Sequence[ForeignKey]
) -> Iterator[tuple[str, str]]:
    """Totals and numbers of the rows that refer to a row: of an order's lines, of its invoices."""
    total = _matching_column(numbers, _GROSS) or _matching_column(numbers, _AMOUNT)
    counters = {
        column: match for name, column in numbers.items() if (match := _COUNT.fullmatch(name))
    }
    for key in keys:
        below = key.table, key.columns, key.ref_columns
        product = _product("o", _numbers(schema.table(key.table)))
        if total and product:
            yield total, _asked(f"coalesce(sum({product}), 0)", *below)
        for column, match in counters.items():
            what = (match["after"] or match["before"]).split()
            if [*noun(key.table.name)[-len(what) :]] == what:
                yield column, _asked("count(*)", *below)


def _copies(schema: Schema, table: Table) -> Iterator[tuple[str, str]]:
    """Copies of a parent's column, as ``customer_country`` beside ``customer_id``."""
    for key in _plain_keys(table):
        parent, called = schema.table(key.ref_table), noun(key.ref_table.name)
        fronts = {stem(key.columns[0]), called, called[-1:]}
        named = {
            (*front, *words(plain_name(column.name, parent))): column
            for column in parent.columns
            for front in fronts
        }
        for column in table.columns:
            copied = named.get(words(column.name))
            if copied is not None and copied.type.sql == column.type.sql:
                copied_column = f"o.{quote(copied.name)}"
                yield column.name, _asked(copied_column, parent.name, key.ref_columns, key.columns)


def _asked(
    what: str, table: TableName, child_columns: tuple[str, ...], own_columns: tuple[str, ...]
) -> str:
    """The query of what rows of a table hold that have our value in a column of theirs."""
    where = f"o.{quote(child_columns[0])} = {ROW}.{quote(own_columns[0])}"
    return f"(SELECT {what} FROM {table} o WHERE {where})"  # noqa: S608 - a text to be judged
