"""Learned circuits: their conditions and counts against plain Python on the rows."""

from collections.abc import Callable, Iterator

import numpy as np
import psycopg
import pytest
from psycopg import sql
from sql_files import database_of

from privbench.metrics.columns import CellPlan
from privbench.metrics.fidelity import CodedColumn
from privbench.postgres.introspect import introspect
from privbench.schema import Column, ColumnType, Table
from privbench_lab.heatmap import tree
from privbench_lab.heatmap.tree import Predicate

#: 1,000 rows: weight follows price (NULL in every tenth row), colour is on its own.
goods = database_of(
    "CREATE TABLE goods (price integer, weight integer, colour text);"
    "INSERT INTO goods SELECT CASE WHEN i % 10 > 0 THEN i % 50 END, i % 50 / 2 + i % 3,"
    " (ARRAY['red', 'it''s {blue} %s'])[1 + i / 7 % 2] FROM generate_series(1, 1000) i"
)


def _coded(table: Table, rows: list[tuple[object, ...]]) -> list[CodedColumn]:
    columns = []
    for i, column in enumerate(table.columns):
        values = sorted({row[i] for row in rows if row[i] is not None})  # type: ignore[type-var]
        numbers = {value: number for number, value in enumerate(values, 1)}
        codes = np.array([numbers.get(row[i], 0) for row in rows], dtype=np.uint8)
        size = len(values) + 1
        plan = CellPlan(column, "values")
        columns.append(CodedColumn(codes, codes, size, plan, tuple(map(str, values))))
    return columns


def test_rows_are_routed_and_counted(goods):
    """Against the same done with plain Python on the rows."""
    with psycopg.connect(goods, autocommit=True) as connection:
        table = introspect(connection).table("public.goods")
        rows = connection.execute("SELECT price, weight, colour FROM goods").fetchall()
        nodes = tree.learn(_coded(table, rows))
        assert nodes[0].kind == "product"
        assert {node.columns for node in nodes if node.parent == 0} == {
            ("price", "weight"),
            ("colour",),
        }
        assert any(node.kind == "sum" for node in nodes)
        cheap = Predicate(frozenset({"price"}), "price < 20", sql.SQL("price < 20"))
        red = Predicate(frozenset({"colour"}), "red", sql.SQL("colour = 'red'"))
        heat = tree.count(connection, table, nodes, [[cheap, red], [red]])
    tests: dict[str, Callable[[tuple[object, ...]], bool]] = {
        "price": lambda row: isinstance(row[0], int) and row[0] < 20,
        "colour": lambda row: row[2] == "red",
    }
    for place, node in enumerate(nodes):
        words = [nodes[at].when for at in _way(nodes, place)]
        routed = [row for row in rows if all(_meets(row, when) for when in words if when)]
        met = [test for name, test in tests.items() if name in node.columns]
        kept = [row for row in routed if all(test(row) for test in met)]
        assert heat.rows[place] == len(routed) > 0
        assert heat.shares[0][place] == pytest.approx(len(kept) / len(routed))
    assert heat.shares[1][0] == pytest.approx(sum(row[2] == "red" for row in rows) / 1000)


def _way(nodes: list[tree.Node], place: int | None) -> Iterator[int]:
    while place is not None:
        yield place
        place = nodes[place].parent


def _meets(row: tuple[object, ...], when: str) -> bool:
    """Whether a row is one of those that a condition in words speaks of."""
    name, sign, bound = when.split(" ", 2)
    value = row[["price", "weight", "colour"].index(name)]
    if sign == "is":
        return (value is None) is (bound == "NULL")
    if sign in "=≠":
        return (value == bound) is (sign == "=")
    return (isinstance(value, int) and value >= int(bound)) is (sign == "≥")


def test_conditions_of_bins_and_of_nulls():
    kind = ColumnType("integer", "int4")
    column = Column("n", 1, kind)
    none, plan = np.zeros(0, np.uint8), CellPlan(column, "public bins", ("10", "20", "30"))
    binned = CodedColumn(none, none, 5, plan, ())
    cut = tree.Split(binned, 3)
    assert cut.text(True) == "n ≥ 20"
    assert cut.text(False) == "n < 20"
    assert cut.holds(np.arange(5, dtype=np.uint8)).tolist() == [False] * 3 + [True] * 2
    null = tree.Split(binned, 0)
    assert (null.text(False), null.condition(False).as_string(None)) == ("n is NULL", '"n" IS NULL')
    assert null.holds(np.arange(3, dtype=np.uint8)).tolist() == [False, True, True]
