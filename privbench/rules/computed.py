"""Columns that names and types say are computed from others, as expressions for the config.

Sums and products have the names of an invoice's amounts in EN 16931 and UBL 2.1: a line's amount is
its quantity by its price (BT-131, BT-129, BT-146), the tax inclusive amount is the tax exclusive
amount and the tax (BT-112, BT-109, BT-110). Nothing here reads rows, so it costs nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

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
    of_child, of_parent = defaultdict[TableName, list[ForeignKey]](list), defaultdict(list)
    for key in (key for table in schema for key in table.foreign_keys):
        if len(key.columns) == 1 and not key.is_self and key.when is None:
            of_child[key.table].append(key)
            of_parent[key.ref_table].append(key)
    for table in schema:
        for column, text in chain(
            _amounts(table),
            _totals(schema, table, of_parent[table.name]),
            _counters(table, of_parent[table.name]),
            _copies(schema, table, of_child[table.name]),
        ):
            yield table, column, text


def _numbers(table: Table) -> dict[str, str]:
    """Columns of numbers by their words."""
    return {
        _MONEY.sub("", " ".join(words(plain_name(c.name, table)))): c.name
        for c in table.columns
        if c.type.category == "N"
    }


def _named(named: dict[str, str], pattern: re.Pattern[str]) -> str:
    """The only column whose words match a pattern, or ''."""
    found = [column for name, column in named.items() if pattern.fullmatch(name)]
    return found[0] if len(found) == 1 else ""


def _product(row: str, named: dict[str, str]) -> str:
    """Quantity by price of a row, or '' without such columns, or with a discount."""
    factors = [_named(named, pattern) for pattern in (_QUANTITY, _PRICE)]
    if not all(factors) or any("discount" in name for name in named):
        return ""
    return " * ".join(f"{row}.{quote(name)}" for name in factors)


def _amounts(table: Table) -> Iterator[tuple[str, str]]:
    named = _numbers(table)
    net, tax, gross = (_named(named, pattern) for pattern in (_NET, _TAX, _GROSS))
    if net and tax and gross:
        named = {name: column for name, column in named.items() if column != gross}
        yield gross, f"this.{quote(net)} + this.{quote(tax)}"
    rest = {n: c for n, c in named.items() if not (_PRICE.fullmatch(n) or _QUANTITY.fullmatch(n))}
    amount, product = net or _named(rest, _AMOUNT), _product("this", named)
    if amount and product:
        yield amount, product


def _totals(schema: Schema, table: Table, keys: Sequence[ForeignKey]) -> Iterator[tuple[str, str]]:
    """Sums of what the rows amount to that refer to a row, as the total of an order's lines."""
    named = _numbers(table) if keys else {}
    total = _named(named, _GROSS) or _named(named, _AMOUNT)
    for key in keys if total else ():
        product = _product("o", _numbers(schema.table(key.table)))
        if product:
            asked = f"coalesce(sum({product}), 0)"
            yield total, _asked(asked, key.table, key.columns, key.ref_columns)


def _counters(table: Table, keys: Sequence[ForeignKey]) -> Iterator[tuple[str, str]]:
    """Numbers of the rows that refer to a row, as ``orders_count`` beside a table of orders."""
    for name, column in _numbers(table).items() if keys else ():
        counted = _COUNT.fullmatch(name)
        what = tuple((counted["after"] or counted["before"]).split()) if counted else ()
        for key in keys:
            if what and noun(key.table.name)[-len(what) :] == what:
                yield column, _asked("count(*)", key.table, key.columns, key.ref_columns)


def _copies(schema: Schema, table: Table, keys: Sequence[ForeignKey]) -> Iterator[tuple[str, str]]:
    """Copies of a parent's column, as ``customer_country`` beside ``customer_id``."""
    for key in keys:
        parent, stem = schema.table(key.ref_table), words(key.columns[0])
        what = noun(key.ref_table.name)
        fronts = {stem[:-1] if stem[-1:] in _KEYS else stem, what, what[-1:]}
        named = {
            (*front, *words(plain_name(column.name, parent))): column
            for column in parent.columns
            for front in fronts
        }
        for column in table.columns:
            copied = named.get(words(column.name))
            if copied is not None and copied.type.sql == column.type.sql:
                asked = f"o.{quote(copied.name)}"
                yield column.name, _asked(asked, parent.name, key.ref_columns, key.columns)


def _asked(what: str, table: TableName, theirs: tuple[str, ...], ours: tuple[str, ...]) -> str:
    """The query of what rows of a table hold that have our value in a column of theirs."""
    where = f"o.{quote(theirs[0])} = this.{quote(ours[0])}"
    return f"(SELECT {what} FROM {table} o WHERE {where})"  # noqa: S608 - a text to be judged
