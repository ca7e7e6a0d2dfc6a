"""Natural keys of private look-ups: their values are those of the rows that refer to them."""

import market
import numpy as np
import pyarrow as pa
import pytest
from fits import contents, private_rows
from psycopg import sql
from sql_files import cases, database_of, sql_of
from stability import remove_unit

from privbench import pipeline
from privbench.config import Config
from privbench.encoding.ordered import OrderedReader
from privbench.encoding.text import LookupReader
from privbench.pipeline.lookups import kinds_of, labels_of_lookups
from privbench.privacy import PART

TOML = sql_of(__file__, "lookups.toml")
#: The row of each look-up that goes in the tests of neighbours.
GOES = {
    "currency": "code = 'EUR'",
    "state": "state = 'DONE'",
    "dim_date": "date_key = 20220301",
    "calendar": "day = '2020-03-01'",
    "months": "month = '2022-03'",
}
ROWS = sql_of(__file__, "lookups")

source = database_of(ROWS)


def test_kinds_of_public_rows_are_columns_of_few_values():
    rows = np.arange(60)
    columns = rows, rows % 4, rows % 7, rows // 30, [None] * 60
    table = pa.table({str(at): pa.array(held).cast("string") for at, held in enumerate(columns)})
    assert len({*zip(kinds_of(table), rows % 4, rows // 30, strict=True)}) == 8
    assert len({*kinds_of(table)}) == 8
    assert kinds_of(table.slice(0, 0)).tolist() == []


def configured(folder, toml=TOML, **given) -> Config:
    given = {"epsilon": 200.0, "delta": 1e-6, **given}
    return market.config(folder, toml, "independent", **given)


def told(table):
    """What every attribute and key tells of every row, by name."""
    keys = {name: edges.tolist() for name, edges in table._parents.items()}
    return keys | {name: contents(held) for name, held in table._attributes.items()}


@pytest.fixture(scope="module")
def neighbours(make_database):
    """Databases without the row of a look-up."""
    found = {}
    for table, key in GOES.items():
        found[table, key] = make_database(ROWS)
        market.execute(
            found[table, key],
            f"SET session_replication_role = replica; DELETE FROM {table} WHERE {key}",
        )
    return found


def moved(source, neighbours):
    """Columns of rows that stay that are another after a row of a look-up has gone."""
    found, whole = set(), private_rows(source, configured(None))
    for (table, key), dsn in neighbours.items():
        gone = np.flatnonzero(np.array(market.ask(source, f"SELECT {key} FROM {table}"))[:, 0])
        left = remove_unit(whole, f"public.{table}", int(gone[0]))
        after = private_rows(dsn, configured(None))
        for name, before in left._tables.items():
            then = told(after._tables[name])
            found |= {f"{name}.{item}" for item, rows in told(before).items() if then[item] != rows}
    return found


def test_rows_keep_their_labels_when_the_rows_of_a_look_up_go(source, neighbours):
    """The neighbour is made in the server; no key of the claims leads to it but a unique one."""
    assert moved(source, neighbours) == set()
    tables = private_rows(source, configured(None)).spec.tables.values()
    keys = [key for table in tables for key in table.keys]
    assert [(key.table, key.parent) for key in keys] == [
        ("public.closing", "public.dim_date"),
        ("public.orders", "public.customer"),
    ]


def test_mutant_that_reads_dates_through_the_calendar_moves_rows(source, neighbours, monkeypatch):
    def select(reader, identifier):
        text = "CASE WHEN {0} IN (SELECT t.date_key FROM public.dim_date t) THEN {0} END"
        selected = old(reader, identifier)
        if reader.name in ("ordered", "shipped"):
            selected = [(sql.SQL(text).format(identifier), alias) for _, alias in selected]
        return selected

    old = OrderedReader.select
    monkeypatch.setattr(OrderedReader, "select", select)
    found = moved(source, neighbours)
    assert {name.partition(PART)[0] for name in found} == {
        "public.orders.ordered",
        "public.orders.shipped",
    }


@pytest.mark.parametrize("otherwise", ["NULL", "'none'"])
def test_mutants_that_read_labels_through_the_look_up_move_rows(
    source, neighbours, monkeypatch, otherwise
):
    def select(reader, identifier):
        target = {"currency": ("currency", "code"), "state": ("state", "state")}[reader.name]
        text = sql.SQL(
            "CASE WHEN {0} IN (SELECT t.{1} FROM public.{2} t) THEN {0}::text ELSE {3} END"
        )
        key, table = map(sql.Identifier, reversed(target))
        return [(text.format(identifier, key, table, sql.SQL(otherwise)), reader.alias())]

    monkeypatch.setattr(LookupReader, "select", select)
    columns = {"public.customer.currency", "public.orders.currency", "public.orders.state"}
    assert moved(source, neighbours) == columns


COUNTED, *WRONG = cases(__file__, "lookups_counts.txt")


def test_clone_has_the_values_of_natural_keys(source, make_database, tmp_path):
    """A look-up has a row for each label, even if it is drawn with fewer rows."""
    path = tmp_path / "m.privbench"
    model = pipeline.fit(source, configured(tmp_path / "ledger"), path)
    codecs = {name: made.codecs for name, made in model.tables.items()}
    tables = [model.schema.table(name) for name in model.tables]
    labels = labels_of_lookups(tables, codecs)
    assert labels["public.currency"] == ("1", "EUR", "USD")
    assert labels["public.state"] == ("DONE", "NEW", "PAID")
    for scale in (0.02, 1.0):
        target = make_database()
        assert pipeline.load(path, target, seed=1, scale=scale).loose == ()
        for what, asked in WRONG:
            assert market.one(target, asked) == 0, what
        for name, key in (("currency", "code"), ("state", "state")):
            found = {row[0].strip() for row in market.ask(target, f"SELECT {key} FROM {name}")}
            assert found >= {*labels[f"public.{name}"]}
    for rows in COUNTED[1].splitlines():
        true, made = (market.one(dsn, f"SELECT count(*) FROM {rows}") for dsn in (source, target))
        assert 0.8 <= made / true <= 1.25, (rows, true, made)


def test_without_delta_no_label_is_released(source, tmp_path):
    config = configured(tmp_path / "ledger", delta=0.0)
    model = pipeline.fit(source, config, tmp_path / "m.privbench")
    assert model.tables["public.orders"].codecs["state"].listed == ()
    pipeline.sample(tmp_path / "m.privbench", tmp_path / "rows", seed=1)


def test_inspect_proposes_the_natural_keys_of_look_ups(source):
    found = pipeline.inspect(source)
    config = found.plan.config
    assert {name for name, said in config.tables.items() if said.natural} == {
        f"public.{name}" for name in GOES
    }
    assert "natural = true" in config.dumps()
    text = str(found.render())
    assert "values of customer.currency, orders.currency may be released" in text
    assert "values of orders.ordered, orders.shipped may be released" in text
    opened = pipeline.inspect(source, lookups="public").plan.config
    assert not any(said.natural for said in opened.tables.values())
