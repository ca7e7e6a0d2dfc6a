"""Natural keys of private look-ups: their values are those of the rows that refer to them."""

import market
import numpy as np
import pyarrow as pa
import pytest
from psycopg import sql
from sql_files import database_of, sql_of
from stability import remove_unit

from privbench import pipeline
from privbench.config import Config
from privbench.encoding.ordered import OrderedReader
from privbench.encoding.text import LookupReader
from privbench.errors import ConfigError
from privbench.pipeline.extract import extract
from privbench.pipeline.lookups import kinds_of, labels_of_lookups
from privbench.pipeline.prepare import prepare
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import read_catalog
from privbench.postgres.snapshot import Snapshot
from privbench.privacy import PART
from privbench.privacy.data import Cells, Grid, Labels, Words

TOML = """
[tables.currency]
own = []
natural = true
[tables.state]
own = []
natural = true
[tables.dim_date]
own = []
natural = true
[tables.calendar]
own = []
natural = true
[tables.months]
own = []
natural = true
[tables.closing]
own = []
[tables.customer]
own = []
[tables.orders]
own = ["customer_id"]
"""
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
    return market.learner(market.config(folder, toml, **given), "independent")


def read(dsn):
    """The private rows of a database."""
    with Snapshot(dsn) as snapshot:
        schema = read_catalog(snapshot.connection, configured(None)).schema
        return extract(snapshot, prepare(schema, configured(None)), Reporter())[0]


def told(table):
    """What an attribute or a key tells of every row, by name."""
    found = {name: edges.tolist() for name, edges in table._parents.items()}
    for name, held in table._attributes.items():
        if isinstance(held, Words):
            values = [*held._words._labels.to_pylist(), None]
            words = [values[code] for code in held._words._codes]
            found[name] = [words, held._ends.tolist(), held._firsts.tolist()]
        elif isinstance(held, Labels):
            values = [*held._labels.to_pylist(), None]
            found[name] = [values[code] for code in held._codes]
        elif isinstance(held, Grid):
            found[name] = np.asarray(held._values).tolist()
        else:
            assert isinstance(held, Cells)
            found[name] = held._codes.tolist()
    return found


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
    found, whole = set(), read(source)
    for (table, key), dsn in neighbours.items():
        gone = np.flatnonzero(np.array(market.ask(source, f"SELECT {key} FROM {table}"))[:, 0])
        left = remove_unit(whole, f"public.{table}", int(gone[0]))
        after = read(dsn)
        for name, before in left._tables.items():
            then = told(after._tables[name])
            found |= {f"{name}.{item}" for item, rows in told(before).items() if then[item] != rows}
    return found


def test_rows_keep_their_labels_when_the_rows_of_a_look_up_go(source, neighbours):
    """The neighbour is made in the server; no key of the claims leads to it but a unique one."""
    assert moved(source, neighbours) == set()
    keys = [key for table in read(source).spec.tables.values() for key in table.keys]
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


#: What is counted in source and clone.
COUNTED = [
    "SELECT count(*) FROM orders WHERE currency = 'EUR'",
    "SELECT count(*) FROM orders WHERE currency = '1'",
    "SELECT count(*) FROM orders JOIN state USING (state) WHERE state = 'DONE'",
    "SELECT count(*) FROM orders WHERE state IS NULL",
    "SELECT count(*) FROM customer c JOIN currency k ON k.code = c.currency WHERE k.code = 'USD'",
    "SELECT count(*) FROM orders WHERE ordered BETWEEN 20220301 AND 20220630",
    "SELECT count(*) FROM orders WHERE shipped IS NULL",
    "SELECT count(*) FROM orders JOIN dim_date ON date_key = shipped WHERE year = 2023",
    "SELECT count(*) FROM orders WHERE billed LIKE '2022%'",
    "SELECT count(*) FROM customer WHERE since BETWEEN '2020-02-01' AND '2020-08-31'",
    "SELECT count(*) FROM closing JOIN dim_date USING (date_key)",
    "SELECT count(*) FROM dim_date WHERE is_weekend",
    "SELECT count(*) FROM dim_date WHERE season = 'summer' AND year = 2021",
    "SELECT count(*) FROM calendar WHERE weekend = 'Y'",
    "SELECT count(*) FROM months",
]
#: Rows of calendars whose columns are not those of their date, days between others that are not
#: there, and orders that were shipped before they were made.
WRONG = [
    "SELECT count(*) FROM dim_date WHERE date_key::text <> to_char(full_date, 'YYYYMMDD') OR"
    " year <> extract(year FROM full_date) OR month_name <> to_char(full_date, 'FMMonth') OR"
    " dow <> extract(dow FROM full_date) OR is_weekend <> (extract(isodow FROM full_date) > 5)",
    "SELECT max(full_date) - min(full_date) + 1 - count(*) FROM dim_date",
    "SELECT count(*) FROM orders WHERE shipped < ordered",
    "SELECT count(*) FROM calendar WHERE year_quarter <> to_char(day::date, 'YYYY\"Q\"Q') OR"
    " (weekend = 'Y') <> (extract(isodow FROM day::date) > 5)",
    "SELECT max(day::date) - min(day::date) + 1 - count(*) FROM calendar",
    "SELECT count(*) FROM months WHERE year <> left(month, 4)::int"
    " OR quarter <> extract(quarter FROM to_date(month, 'YYYY-MM'))",
]


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
        assert [market.one(target, asked) for asked in WRONG] == [0] * len(WRONG)
        for name, key in (("currency", "code"), ("state", "state")):
            found = {row[0].strip() for row in market.ask(target, f"SELECT {key} FROM {name}")}
            assert found >= {*labels[f"public.{name}"]}
    for asked in COUNTED:
        true, made = market.one(source, asked), market.one(target, asked)
        assert 0.8 <= made / true <= 1.25, (asked, true, made)


def test_without_delta_no_label_is_released(source, tmp_path):
    config = configured(tmp_path / "ledger", delta=0.0)
    model = pipeline.fit(source, config, tmp_path / "m.privbench")
    assert model.tables["public.orders"].codecs["state"].listed == ()
    pipeline.sample(tmp_path / "m.privbench", tmp_path / "rows", seed=1)


#: Configs that ask for the values of keys which no config may release, and what they are told.
REFUSED = {
    "customer": ("", "not one text or date"),
    "person": ("CREATE TABLE person (code text PRIMARY KEY, name text)", "people"),
    "entry": ("CREATE TABLE entry (email text PRIMARY KEY)", "says who somebody is"),
    "session": ("CREATE TABLE session (token text PRIMARY KEY)", "may be secrets"),
    "shop": (
        "CREATE TABLE shop (shop_code text PRIMARY KEY, town text);"
        " CREATE TABLE sale (id integer PRIMARY KEY, shop_code text NOT NULL REFERENCES shop)",
        "owns rows of public.sale",
    ),
    "copied": ("CREATE TABLE copied (code text PRIMARY KEY)", "copied verbatim"),
    "part": ("CREATE TABLE part (code char(3) PRIMARY KEY REFERENCES currency)", "a reference"),
    "owned": (
        "CREATE TABLE owned (code text PRIMARY KEY, customer_id integer REFERENCES customer)",
        "owned through customer_id",
    ),
}
MORE = {
    "shop": "[tables.sale]\nown = ['shop_code']\n",
    "copied": "[tables.copied]\nrole = 'public'\nnatural = true",
    "owned": "[tables.owned]\nown = ['customer_id']\nnatural = true",
}


def test_check_refuses_natural_keys_of_what_is_no_look_up(source, make_database):
    dsn = make_database(ROWS)
    market.execute(dsn, *[ddl for ddl, _ in REFUSED.values() if ddl])
    for table, (_, said) in REFUSED.items():
        toml = MORE.get(table, "")
        if "natural" not in toml:
            toml += f"[tables.{table}]\nown = []\nnatural = true\n"
        with pytest.raises(ConfigError, match=said) as caught:
            pipeline.check(Config.loads(toml), dsn)
        assert caught.value.table == f"public.{table}"
        assert "Take 'natural' out" in str(caught.value)


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
