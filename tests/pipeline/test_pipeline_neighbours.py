"""Ranges of dates that noise has hidden are those of dates nearby."""

import re

import pytest
from sql_files import cases

from privbench.encoding.bounds import Bounds
from privbench.pipeline.domain_answers import lend_ranges
from privbench.rules.facts import with_rules
from privbench.schema import Column, ColumnType, Table, TableName

TYPES = {
    "date": ColumnType("date", "date", category="D"),
    "int": ColumnType("integer", "int4", category="N"),
}
#: A column, its type, its range (``?``: noise hides the true one), and what CHECKs allow.
_COLUMN = re.compile(r"(\w+) (date|int) (\d+)\.\.(\d+)(\?)?(?: within (\d+)\.\.(\d+))?")


def read(text):
    """Tables, their ranges, and the limits of these."""
    tables, ranges, limits = [], {}, {}
    for line in text.splitlines():
        name, _, listed = line.partition(": ")
        columns = []
        for item in listed.split("; "):
            column, kind, low, high, hidden, *ends = _COLUMN.fullmatch(item).groups()
            place = f"public.{name}", column
            columns.append(Column(column, len(columns) + 1, TYPES[kind]))
            ranges[place] = Bounds(int(low), int(high), cells=16, released=not hidden)
            if ends[0]:
                limits[place] = tuple(map(int, ends))
        tables.append(with_rules(Table(TableName("public", name), tuple(columns))))
    return tables, ranges, limits


@pytest.mark.parametrize(("title", "text"), cases(__file__, "lent_ranges.txt"))
def test_lend_ranges_takes_what_lies_nearby(title, text):
    given, _, changed = text.partition("\n=")
    tables, ranges, limits = read(given)
    assert lend_ranges(tables, ranges, limits) == {**ranges, **read(changed.lstrip())[1]}
