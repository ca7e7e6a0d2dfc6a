"""Computed columns of a config: what is refused, what a fit leaves out, what a load fills in."""

from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pyarrow.parquet as papq
import pytest
from market import ask, succeed
from model_files import forge
from sql_files import database_of, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import ConfigError, ModelError
from privbench.pipeline import Model, sampling
from privbench.pipeline.computed import require_resolved
from privbench.postgres import embedded
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect

COMPUTED = {
    "public.purchase": {"total": "this.qty * this.price"},
    "client": {
        "orders": "(SELECT count(*) FROM public.purchase p WHERE p.client_id = this.id"
        " AND p.total > 0)"
    },
}
source = database_of(sql_of(__file__, "computed"))


def configured(folder, computed) -> Config:
    return Config.model_validate(
        {
            "privacy": {"epsilon": 20.0, "seed": 5},
            "ledger": {"path": str(folder / "ledger")},
            "database": {"identity": "computed"},
            "synthesizer": {"name": "independent"},
            "tables": {
                "public.country": {"role": "public"},
                "public.client": {"own": []},
                "public.purchase": {"own": ["client_id"]},
            },
            "computed": computed,
        }
    )


@pytest.fixture(scope="module")
def catalog(source):
    with connect(source) as connection:
        yield connection, introspect(connection)


@pytest.fixture(scope="module")
def model(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    pipeline.fit(source, configured(folder, COMPUTED), folder / "m.privbench")
    return folder / "m.privbench"


def test_clone_has_computed_columns_of_which_the_model_holds_nothing(model, make_database):
    found = Model.load(model)
    for table, column in (("public.purchase", "total"), ("public.client", "orders")):
        assert not found.tables[table].codecs[column].domains
        assert not [event.label for event in found.events if event.label.endswith(column)]
    target = make_database()
    report = pipeline.load(model, target, seed=1, resumable=True)
    assert report.losses == []
    asked = "SELECT count(*), count(*) FILTER (WHERE total = qty * price AND twice = 2 * total)"
    ((rows, right),) = ask(target, f"{asked} FROM purchase")
    assert rows == right > 60
    counted = "(SELECT count(*) FROM purchase p WHERE p.client_id = c.id)"
    assert ask(target, f"SELECT count(*) FROM client c WHERE orders <> {counted}") == [(0,)]


def test_samples_have_computed_columns_of_the_rows_as_drawn(
    model, make_database, tmp_path, monkeypatch
):
    server = SimpleNamespace(dsn=make_database())
    monkeypatch.setattr(sampling, "any_server", lambda: nullcontext(server))
    pipeline.sample(model, tmp_path, seed=1, file_format="parquet")
    found = papq.read_table(tmp_path / "public.purchase.parquet").to_pylist()
    assert list(found[0]) == ["id", "client_id", "qty", "price", "total", "serial"]
    assert all(float(row["total"]) == row["qty"] * float(row["price"]) for row in found)
    counts = Counter(row["client_id"] for row in found)
    clients = papq.read_table(tmp_path / "public.client.parquet").to_pylist()
    assert [row["orders"] for row in clients] == [counts[row["id"]] for row in clients]


def test_sample_without_a_server_names_what_it_leaves_out(model, tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "embedded_programs", list)
    monkeypatch.setattr(embedded, "machine_programs", list)
    lines = pipeline.sample(model, tmp_path, seed=1)
    assert any(
        line.startswith("public.client: left out, since only a load computes orders: there is no")
        for line in lines
    )
    assert (tmp_path / "public.client.csv").read_text("utf-8").startswith('"id","code"\n')


@pytest.mark.parametrize(
    ("table", "column", "text", "said"),
    [
        (
            "shop",
            "total",
            "1",
            "public.shop: .* but the schema has no such table",
        ),
        ("purchase", "sum", "1", "public.purchase.sum: it cannot be computed: .* no such column"),
        ("purchase", "twice", "1", "PostgreSQL itself computes it"),
        ("purchase", "id", "1", "it is a key, or a part of one"),
        ("purchase", "client_id", "1", "it is a key, or a part of one"),
        ("purchase", "serial", "1", "it is a key, or a part of one"),
        ("country", "name", "'x'", "the table is public"),
        ("purchase", "total", "1 +", "it is not one expression of SQL"),
        ("purchase", "total", "this.twice", "it reads this.twice, which is no stored column"),
        ("purchase", "total", "this.sum", "it reads this.sum, which is no stored column"),
        ("purchase", "total", "this.id = 1", "column .total. is of type numeric but expression"),
        ("purchase", "total", "sum(this.price)", "aggregate functions are not allowed"),
        ("purchase", "total", "(SELECT max(c.id) FROM public.nowhere c)", "it reads public.nowh"),
    ],
)
def test_computed_column_that_cannot_be_is_refused(catalog, tmp_path, table, column, text, said):
    config = configured(tmp_path, {table: {column: text}})
    with pytest.raises(ConfigError, match=said):
        require_resolved(*catalog, config)


def test_fit_refuses_what_the_server_does_not_resolve_before_money(source, tmp_path):
    config = configured(tmp_path, {"purchase": {"total": "upper(this.price)"}})
    with pytest.raises(ConfigError, match=r"function upper\(numeric\) does not exist"):
        pipeline.fit(source, config, tmp_path / "m.privbench")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pg_read_file('/etc/passwd')::numeric", "it calls pg_read_file"),
        ("(SELECT count(*) FROM pg_catalog.pg_authid r)", "it reads pg_catalog.pg_authid"),
        ("this.total", "it depends on itself"),
    ],
)
def test_expressions_of_a_forged_model_are_judged_before_the_target_is_touched(
    model, make_database, tmp_path, text, said
):
    def change(_, header):
        header["config"]["computed"]["public.purchase"]["total"] = text

    target = make_database()
    with pytest.raises(ModelError, match=said):
        pipeline.load(forge(model, tmp_path / "forged", change), target)
    assert ask(target, "SELECT count(*) FROM pg_class WHERE relname = 'purchase'") == [(0,)]


SUGGESTED = {
    "public.client": {
        "invoices_count": "(SELECT count(*) FROM public.invoice o WHERE o.client_id = this.id)"
    },
    "public.invoice": {
        "tax_inclusive_amount": 'this.tax_exclusive_amount + this."TaxAmount"',
        "client_country": '(SELECT o."Country" FROM public.client o WHERE o.id = this.client_id)',
    },
    "public.invoice_line": {"line_amount": 'this."Quantity" * this.unit_price'},
    "public.basket": {
        "total_amount": (
            "(SELECT coalesce(sum(o.qty * o.price), 0) FROM public.basket_item o"
            " WHERE o.basket_id = this.id)"
        )
    },
}


def test_inspect_suggests_in_comments_what_names_say_and_takes_it_if_asked(make_database, tmp_path):
    dsn, file = make_database(sql_of(__file__, "suggested")), tmp_path / "c.toml"
    succeed("inspect", dsn, "-o", file)
    assert Config.load(file).computed == {}
    uncommented = file.read_text("utf-8").partition("what is so:")[2].replace("#", "")
    assert Config.loads(uncommented).computed == SUGGESTED
    succeed("inspect", dsn, "--computed", "-o", file)
    assert Config.load(file).computed == SUGGESTED
    assert "computed from other rows in the load" in succeed("check", file, dsn).stdout
