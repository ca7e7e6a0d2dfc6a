"""Columns that names and types say are computed from others, as expressions for the config.

Sums and products have the names of an invoice's amounts in EN 16931 and UBL 2.1: a line's amount is
its quantity by its price (BT-131, BT-129, BT-146), the tax inclusive amount is the tax exclusive
amount and the tax (BT-112, BT-109, BT-110). Nothing here reads rows, so it costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from privbench.rules.named import plain_name
from privbench.schema import ForeignKey, Schema, Table, TableName, quote
from privbench.words import noun, words

_NET = re.compile(r"net|sub ?total|tax exclusive")
_TAX = re.compile(r"tax|vat")
_GROSS = re.compile(r"(grand )?total|gross|tax inclusive")
_AMOUNT = re.compile(r"amount|total|net|(?:line|extended)(?: total| price| extension)?")
_QUANTITY = re.compile(r"(?:\w+ )*(?:quantity|qty)")
_PRICE = re.compile(r"(?:unit |net |item )?price")
#: What may stand before or after the name of an amount.
_MONEY = re.compile(r" (?:amount|amt|value|sum|due)$")
_COUNT = re.compile(r"(?:n|num|number|number of|count|nr) (?P<after>.+)|(?P<before>.+) count")
_KEYS = (("id",), ("key",), ("code",), ("no",))


def proposed(schema: Schema) -> Iterator[tuple[Table, str, str]]:
    """Tables, columns of them, and the expressions that their names suggest."""
    for table in schema:
        yield from _amounts(table)
        yield from _totals(schema, table)
        yield from _counters(schema, table)
        yield from _copies(schema, table)


def _numbers(table: Table) -> dict[str, str]:
    """Columns of numbers by their words."""
    return {
        _MONEY.sub("", " ".join(words(plain_name(c.name, table)))): c.name
        for c in table.columns
        if c.type.category == "N"
    }


def _amounts(table: Table) -> Iterator[tuple[Table, str, str]]:
    named = _numbers(table)
    amounts = [_named(named, pattern) for pattern in (_NET, _TAX, _GROSS)]
    if all(amounts):
        net, tax, gross = amounts
        named = {name: column for name, column in named.items() if column != gross}
        yield table, gross, f"this.{quote(net)} + this.{quote(tax)}"
    factors = [_named(named, pattern) for pattern in (_QUANTITY, _PRICE)]
    if all(factors) and not any("discount" in name for name in named):
        quantity, price = factors
        rest = {name: column for name, column in named.items() if column not in factors}
        if amount := amounts[0] or _named(rest, _AMOUNT):
            yield table, amount, f"this.{quote(quantity)} * this.{quote(price)}"


def _totals(schema: Schema, table: Table) -> Iterator[tuple[Table, str, str]]:
    """Sums of what the rows amount to that refer to a row, as the total of an order's lines."""
    total = _named(_numbers(table), _GROSS) or _named(_numbers(table), _AMOUNT)
    for key in _keys(schema) if total else ():
        named = _numbers(schema.table(key.table))
        factors = [_named(named, pattern) for pattern in (_QUANTITY, _PRICE)]
        if key.ref_table == table.name and all(factors):
            what = " * ".join(f"o.{quote(name)}" for name in factors)
            asked = f"coalesce(sum({what}), 0)"
            yield table, total, _asked(asked, key.table, key.columns, key.ref_columns)


def _named(named: dict[str, str], pattern: re.Pattern[str]) -> str:
    """The only column whose words match a pattern, or ''."""
    found = [column for name, column in named.items() if pattern.fullmatch(name)]
    return found[0] if len(found) == 1 else ""


def _counters(schema: Schema, table: Table) -> Iterator[tuple[Table, str, str]]:
    """Numbers of the rows that refer to a row, as ``orders_count`` beside a table of orders."""
    for name, column in _numbers(table).items():
        counted = _COUNT.fullmatch(name)
        what = tuple((counted["after"] or counted["before"]).split()) if counted else ()
        for key in _keys(schema):
            if what and key.ref_table == table.name and noun(key.table.name)[-len(what) :] == what:
                yield table, column, _asked("count(*)", key.table, key.columns, key.ref_columns)


def _copies(schema: Schema, table: Table) -> Iterator[tuple[Table, str, str]]:
    """Copies of a parent's column, as ``customer_country`` beside ``customer_id``."""
    for key in _keys(schema):
        parent, stem, what = (
            schema.table(key.ref_table),
            words(key.columns[0]),
            noun(key.ref_table.name),
        )
        fronts = (stem[:-1] if stem[-1:] in _KEYS else stem, what, what[-1:])
        named = {
            (*front, *words(plain_name(c.name, parent))): c
            for c in parent.columns
            for front in fronts
        }
        for column in table.columns if key.table == table.name else ():
            copied = named.get(words(column.name))
            if copied is not None and copied.type.sql == column.type.sql:
                asked = f"o.{quote(copied.name)}"
                yield table, column.name, _asked(asked, parent.name, key.ref_columns, key.columns)


def _asked(what: str, table: TableName, theirs: tuple[str, ...], ours: tuple[str, ...]) -> str:
    """The query of what rows of a table hold that have our value in a column of theirs."""
    where = f"o.{quote(theirs[0])} = this.{quote(ours[0])}"
    return f"(SELECT {what} FROM {table} o WHERE {where})"  # noqa: S608 - a text to be judged


def _keys(schema: Schema) -> list[ForeignKey]:
    """Keys of one column to another table."""
    found = [key for table in schema for key in table.foreign_keys if key.when is None]
    return [key for key in found if len(key.columns) == 1 and not key.is_self]
