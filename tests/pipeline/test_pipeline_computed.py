"""Computed columns of a config: what is refused, what a fit leaves out, what a load fills in."""

import sys
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pyarrow.parquet as papq
import pytest
from market import ask, succeed
from model_files import forge
from sql_files import cases, database_of, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import ConfigError, ModelError
from privbench.pipeline import Model, sampling
from privbench.pipeline.computed import require_resolved
from privbench.postgres import embedded
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect

source = database_of(sql_of(__file__, "computed"))


def configured(folder, computed=None) -> Config:
    """The config of the database above, or one of other computed columns."""
    config = Config.loads(sql_of(__file__, "computed.toml", ledger=folder / "ledger"))
    return config if computed is None else config.model_copy(update={"computed": computed})


@pytest.fixture(scope="module")
def catalog(source):
    with connect(source) as connection:
        yield connection, introspect(connection)


@pytest.fixture(scope="module")
def model(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    pipeline.fit(source, configured(folder), folder / "m.privbench")
    return folder / "m.privbench"


def test_clone_has_computed_columns_of_which_the_model_holds_nothing(
    model, make_database, monkeypatch
):
    """In several transactions, too."""
    found = Model.load(model)
    for table, column in (("public.purchase", "total"), ("public.client", "orders")):
        assert not found.tables[table].codecs[column].domains
        assert not [event.label for event in found.events if event.label.endswith(column)]
    target = make_database()
    monkeypatch.setattr(sys.modules["privbench.pipeline.load"], "LEAST_ROWS", 1)
    report = pipeline.load(model, target, seed=1)
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


@pytest.mark.parametrize(("said", "line"), cases(__file__, "computed_refused.txt"))
def test_computed_column_that_cannot_be_is_refused(catalog, tmp_path, said, line):
    (place, text) = line.split(" = ", 1)
    table, column = place.split(".")
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


SUGGESTED = Config.loads(sql_of(__file__, "suggested.toml")).computed


def test_inspect_suggests_in_comments_what_names_say_and_takes_it_if_asked(make_database, tmp_path):
    dsn, file = make_database(sql_of(__file__, "suggested")), tmp_path / "c.toml"
    succeed("inspect", dsn, "-o", file)
    assert Config.load(file).computed == {}
    uncommented = file.read_text("utf-8").partition("what is so:")[2].replace("#", "")
    assert Config.loads(uncommented).computed == SUGGESTED
    succeed("inspect", dsn, "--computed", "-o", file)
    assert Config.load(file).computed == SUGGESTED
    assert "computed from other rows in the load" in succeed("check", file, dsn).stdout
