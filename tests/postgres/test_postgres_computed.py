"""Computed columns: filled in a load from other rows, in order, whatever fails."""

import pyarrow as pa
import pytest
from market import ask
from plans import plan
from sql_files import cases, sql_of

from privbench.pgsql.computed import computations
from privbench.postgres import computed
from privbench.postgres.computed import Computing
from privbench.postgres.load import Loader

ROWS = {
    "customer": pa.table({"id": [1, 2, 3], "country": ["DE", "AT", "CH"]}),
    "bill": pa.table(
        {"id": [1, 2, 3], "customer_id": [1, 1, 2], "gross": [9, 9, 9], "note": ["7", "x", None]}
    ),
    "line": pa.table({"bill_id": [1, 1, 2], "qty": [2, 3, 1], "price": ["1.50", "2.00", "10.005"]}),
}
TEXTS = {
    ("bill", "net"): "(SELECT sum(l.qty * l.price) FROM public.line l WHERE l.bill_id = this.id)",
    ("bill", "gross"): "this.net * 1.1",
    ("bill", "country"): (
        "(SELECT c.country FROM public.customer c WHERE c.id = this.customer_id) -- its owner's"
    ),
    ("customer", "bills"): "(SELECT count(*) FROM public.bill b WHERE b.customer_id = this.id)",
}
ASKED = (
    "SELECT id, country, net::float8, gross::float8, halves, entered FROM bill ORDER BY id",
    "SELECT id, bills FROM customer ORDER BY id",
)


def load(target, plan, texts, rows=ROWS):
    """Load the rows, and compute columns from expressions by table and column."""
    names = {
        (t.name.schema, t.name.name): [c.name for c in t.columns if not c.generated]
        for t in plan[0]
    }
    places = {(("public", table), column): text for (table, column), text in texts.items()}
    with Loader(target, *plan) as loader:
        computing = Computing(loader, computations(places, names))
        computing.begin()
        for name, table in rows.items():
            loader.copy_table(name, table.column_names, table.to_batches())
        computing.finish(9)
        loader.finish()
    return computing.lost, loader.lost


@pytest.fixture(scope="module")
def bills(make_database):
    return plan(make_database(sql_of(__file__, "bills")))


def test_columns_are_computed_in_order_and_schema_and_storage_stay(bills, make_database):
    target = make_database()
    _, told = load(target, bills, TEXTS)
    # No line of the third bill: its sum is NULL, which the column does not take.
    assert ask(target, ASKED[0]) == [
        (1, "DE", 9.0, 9.9, 20, 1),
        (2, "DE", 10.01, 11.01, 22, 2),
        (3, "AT", 7.0, 7.7, 15, 3),
    ]
    assert ask(target, ASKED[1]) == [(1, 2), (2, 1), (3, 0)]
    assert ask(target, "SELECT sum(owed)::float8 FROM owed") == [(28.61,)]
    assert told == [
        "public.bill.net is not computed for 1 rows, which have NULL, its default or a constant "
        "there"
    ]
    assert plan(target)[1] == bills[1]
    # No version of a row is left behind, and nothing of the staging.
    asked = "SELECT pg_relation_size('bill') / 8192, count(*) FROM bill"
    assert ask(target, asked) == [(1, 3)]
    assert ask(target, "SELECT count(*) FROM pg_class WHERE relname LIKE 'privbench%'") == [(0,)]


def test_expressions_that_fail_leave_stand_ins_each_for_itself_and_never_stop_a_load(
    make_database, bills
):
    target = make_database()
    texts = {
        # No number; too long; several rows; no operator of these types, which no row has.
        ("bill", "net"): "this.note::numeric",
        ("bill", "country"): "repeat('x', this.id)",
        ("bill", "gross"): (
            "(SELECT 7 + l.qty FROM public.line l WHERE l.bill_id = this.id AND this.id > 0)"
        ),
        ("customer", "bills"): "this.country = this.id",
    }
    _, told = load(target, bills, texts)
    asked = "SELECT net::int, country, gross::int FROM bill ORDER BY id"
    assert ask(target, asked) == [(7, "x", 9), (7, "xx", 8), (7, None, 9)]
    assert ask(target, "SELECT DISTINCT bills FROM customer") == [(-1,)]
    assert [line.partition(" rows, which")[0] for line in told] == [
        f"public.{column} is not computed for {failed}"
        for column, failed in (
            ("bill.net", 2),
            ("bill.country", 1),
            ("bill.gross", 2),
            ("customer.bills", 3),
        )
    ]


def test_groups_give_what_an_aggregate_gives_for_every_row(make_database):
    line = ["bill_id", "qty", "price", "this"]
    columns = {("public", "bill"): ["id", "customer_id", "net"], ("public", "line"): line}
    place = ("public", "bill"), "net"
    target = make_database(
        "CREATE TABLE bill (id int, customer_id int, net int);"
        "INSERT INTO bill VALUES (1, 3), (1, 1), (2, NULL), (NULL, 2), (7, 7), (9, 1);"
        "CREATE TABLE line (bill_id bigint, qty int, price numeric);"
        "INSERT INTO line SELECT nullif(i % 5, 0), i % 4, i % 6 FROM generate_series(1, 40) i"
    )
    for kind, text in cases(__file__, "grouped"):
        (item,) = computations({place: text}, columns)
        assert bool(item.groups) == (kind == "grouped"), text
        if item.groups:
            join, value = item.groups
            found = ask(target, f"SELECT {text}\n, {value} FROM bill this {join}")
            assert len(found) == 6
            assert all(one == other for one, other in found), text
            assert len({one for one, _ in found}) > 1


def test_expressions_that_take_too_long_leave_stand_ins(make_database, bills, monkeypatch):
    monkeypatch.setattr(computed, "PATIENCE", 0.2)
    target, many = make_database(), {"bill_id": [1] * 3000, "qty": [1] * 3000}
    endless = "(SELECT count(*) FROM public.line a, public.line b, public.line c)"
    texts = {("bill", "net"): endless, ("customer", "bills"): "this.id"}
    _, told = load(target, bills, texts, {**ROWS, "line": pa.table(many)})
    assert ask(target, "SELECT DISTINCT net::int FROM bill") == [(7,)]
    assert len(told) == 2
    assert "public.bill.net is not computed for all rows in the time that all" in told[0]
    assert ask(target, "SHOW statement_timeout") == [("0",)]
