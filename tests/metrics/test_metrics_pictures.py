"""Associations, fan-outs and heat maps against other ways to compute them."""

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import psycopg
import pytest
from psycopg import sql
from scipy.stats import chi2_contingency, spearmanr
from scipy.stats import contingency as reference
from sql_files import database_of, sql_of

from privbench.metrics import heattree
from privbench.metrics.columns import CellPlan
from privbench.metrics.correlation import association, cramers_v, spearman
from privbench.metrics.fanout import fanout
from privbench.metrics.fidelity import CodedColumn
from privbench.metrics.heattree import Predicate
from privbench.metrics.kld import Coded
from privbench.postgres.introspect import introspect
from privbench.schema import Column, ColumnType, Table


def test_an_association_of_equal_sides_has_no_difference():
    """x and y ordered and tied, z their kin by a permutation, w alone; code 0 (NULL) in y."""
    rng = np.random.default_rng(5)
    x = 1 + rng.integers(0, 9, 3000)
    y = np.where(np.arange(3000) % 17, np.clip(x + rng.integers(-2, 3, 3000), 1, 9), 0)
    z = np.array([0, 4, 1, 3, 2, 4, 1, 3, 2, 4])[x]
    codes = [held.astype(np.uint8) for held in (x, y, z, 1 + rng.integers(0, 5, 3000))]
    found = association([Coded(held, held, 10) for held in codes], [True, True, False, False])
    assert found.mean_difference == 0
    assert found.real[0, 1] > 0.7
    assert found.real[0, 2] == found.real[2, 0] > 0.9
    assert found.real[0, 3] < 0.02
    other = [Coded(held, np.roll(held, i * 7), 10) for i, held in enumerate(codes)]
    lost = association(other, [True, True, False, False])
    assert lost.mean_difference is not None
    assert lost.mean_difference > 0.3


def test_made_up_texts_take_no_more_room_than_their_rows():
    """Two columns of 60,000 values each: a table of their pairs would be 29 GB."""
    rng = np.random.default_rng(8)
    one, other = (1 + rng.permutation(60_000) for _ in range(2))
    tracemalloc.start()
    assert abs(spearman(one, other)) < 0.02
    assert np.isnan([cramers_v(np.ones_like(one), other), spearman(np.ones_like(one), one)]).all()
    assert 0 <= cramers_v(one // 2, other // 3) <= 1
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("values", [3, 40, 900])
def test_associations_are_the_definitions_however_pairs_are_counted(values):
    rng = np.random.default_rng(values)
    x = rng.integers(1, values, 4000)
    y = np.where(rng.random(4000) < 0.5, x, rng.integers(1, values, 4000))
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic)
    table = reference.crosstab(x, y).count
    n, (k, m) = table.sum(), table.shape
    phi = chi2_contingency(table, correction=False).statistic / n - (k - 1) * (m - 1) / (n - 1)
    room = min(size - (size - 1) ** 2 / (n - 1) for size in (k, m)) - 1
    assert cramers_v(x, y) == pytest.approx(np.sqrt(min(1, max(0, phi) / room)))


def test_children_are_counted_in_buckets(make_database):
    dsn = make_database(sql_of(__file__, "forum"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        schema = introspect(connection)
        child, parent = schema.table("public.children"), schema.table("public.parents")
        with psycopg.connect(dsn) as other:
            other.execute("DELETE FROM children WHERE parent > 2")
            found = fanout(connection, other, child.foreign_keys[0], child, parent)
            assert found.labels == ["0", "1", "2", "3–4", "5–8", "9–16"]
            assert (found.real.parents, found.real.mean, found.real.max) == (10, 3.2, 9)
            assert found.real.shares == [0.3, 0.1, 0.1, 0.2, 0.2, 0.1]
            assert found.clone.shares == [0.8, 0.1, 0.1, 0, 0, 0]
            assert found.tvd == pytest.approx(0.5)
            other.execute("TRUNCATE children, parents")
            empty = fanout(other, other, child.foreign_keys[0], child, parent)
            assert (empty.clone.mean, empty.labels, empty.tvd) == (0.0, ["0"], 0)


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
        nodes = heattree.learn(_coded(table, rows))
        assert nodes[0].kind == "product"
        assert {node.columns for node in nodes if node.parent == 0} == {
            ("price", "weight"),
            ("colour",),
        }
        assert any(node.kind == "sum" for node in nodes)
        cheap = Predicate(frozenset({"price"}), "price < 20", sql.SQL("price < 20"))
        red = Predicate(frozenset({"colour"}), "red", sql.SQL("colour = 'red'"))
        heat = heattree.count(connection, table, nodes, [[cheap, red], [red]])
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


def _way(nodes: list[heattree.Node], place: int | None) -> Iterator[int]:
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
    cut = heattree.Split(binned, 3)
    assert cut.text(True) == "n ≥ 20"
    assert cut.text(False) == "n < 20"
    assert cut.holds(np.arange(5, dtype=np.uint8)).tolist() == [False] * 3 + [True] * 2
    null = heattree.Split(binned, 0)
    assert (null.text(False), null.condition(False).as_string(None)) == ("n is NULL", '"n" IS NULL')
    assert null.holds(np.arange(3, dtype=np.uint8)).tolist() == [False, True, True]
