"""Options and inputs that users of pg_dump, psql and pgbench look for."""

import os
import subprocess
import sys

import market
import pytest
from integrity import whole
from market import fail, succeed
from sql_files import database_of

from privbench import pipeline
from privbench.config import Config
from privbench.pipeline import Model
from privbench.workload import read


def tables(dsn):
    listed = "SELECT relnamespace::regnamespace || '.' || relname FROM pg_class"
    rows = market.ask(dsn, f"{listed} WHERE relkind = 'r' AND oid >= 16384 ORDER BY 1")
    return [name for (name,) in rows]


shop = database_of(
    "CREATE SCHEMA side; CREATE TABLE side.a (i int PRIMARY KEY, b bool);"
    "CREATE TABLE ware (i int PRIMARY KEY, b bool); CREATE TABLE junk (i int PRIMARY KEY);"
    "CREATE TABLE sale (i int PRIMARY KEY, ware int REFERENCES ware);"
    "INSERT INTO ware SELECT i, i % 2 = 0 FROM generate_series(1, 200) i"
)


@pytest.fixture(scope="module")
def shop_model(shop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    words = ("--epsilon", 5, "--yes", "--ledger", folder / "ledger", "-j", 2, "-n", "public", "-T")
    succeed("fit", shop, *words, "public.junk", "-o", folder / "m")
    return folder / "m"


def test_schemas_and_tables_are_chosen_on_the_command_line(
    shop, shop_model, make_database, tmp_path
):
    assert [table.key for table in Model.load(shop_model).schema] == ["public.sale", "public.ware"]
    target = make_database()
    words = ("--epsilon", 5, "--yes", "--ledger", tmp_path, "--schema", "side")
    succeed("clone", shop, target, *words)
    assert tables(target) == ["side.a"]
    fail(2, "there is no schema 'none'", "clone", shop, make_database(), *words[:-1], "none")
    fail(2, "public.none", "fit", shop, *words[:-2], "-T", "public.none", "-o", tmp_path / "m")


def test_keys_into_a_table_that_is_left_out_are_said_and_not_read(shop, make_database, tmp_path):
    target = make_database()
    words = ("--epsilon", 5, "--yes", "--ledger", tmp_path, "-t", "sal?", "-t", "ware", "-T", "W*")
    done = succeed("clone", shop, target, *words)
    said = "Keys of tables that are left out, so NULL or a constant in the clone: public.sale.ware."
    assert done.stderr.count(said) == 1
    assert tables(target) == ["public.sale"]
    assert market.one(target, "SELECT count(ware) FROM sale") == 0


def test_a_table_that_nobody_may_read_safely_can_be_left_out(make_database, tmp_path):
    dsn = make_database(
        "CREATE TYPE odd AS ENUM ('a'); CREATE TABLE bad (i int PRIMARY KEY, o odd);"
        "CREATE TABLE good (i int PRIMARY KEY);"
        "CREATE FUNCTION f(odd) RETURNS int LANGUAGE sql AS 'SELECT 1';"
        "CREATE CAST (odd AS int) WITH FUNCTION f(odd) AS IMPLICIT"
    )
    words = ("--epsilon", 5, "--yes", "--ledger", tmp_path, "-o", tmp_path / "m")
    fail(2, "an implicit cast", "fit", dsn, *words)
    succeed("fit", dsn, *words, "-T", "bad")


def test_a_load_is_tried_and_made_without_rows(shop_model, make_database):
    target = make_database()
    tried = succeed("load", shop_model, target, "--dry-run")
    assert tried.stdout == "Nothing was written: --dry-run.\n"
    assert tables(target) == []
    succeed("load", shop_model, target, "--schema-only")
    assert tables(target) == ["public.sale", "public.ware"]
    assert market.one(target, "SELECT count(*) FROM ware") == 0
    fail(3, "not empty", "load", shop_model, target, "--dry-run")


def test_files_of_a_sample_are_replaced_by_force(shop_model, tmp_path):
    folder = tmp_path / "files"
    succeed("sample", shop_model, "-o", folder)
    (folder / "public.ware.csv").write_text("old")
    succeed("sample", shop_model, "-o", tmp_path / "some", "-n", "pub*", "-T", "sale")
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["public.ware.csv"]
    fail(2, "is not empty. Name a new one, or use --force.", "sample", shop_model, "-o", folder)
    assert (folder / "public.ware.csv").read_text() == "old"
    succeed("sample", shop_model, "-o", folder, "--force")
    assert (folder / "public.ware.csv").read_text().startswith('"i","b"\n')


def test_a_table_is_made_larger_with_all_that_it_owns(model, make_database, tmp_path):
    def sizes(*words):
        target = make_database()
        done = succeed("load", model, target, "--seed", 1, *words)
        whole(target)
        return done, market.counts(target)

    _, plain = sizes()
    done, larger = sizes("--scale-table", "customer=3", "--scale-table", "public.line=2")
    assert "public.customer × 3, public.purchase × 3, " in done.stderr
    assert "references into larger ones spread" in done.stderr
    factors = {name: larger[name] / plain[name] for name in plain}
    assert factors["customer"] == pytest.approx(3, rel=0.02)
    assert factors["purchase"] == pytest.approx(3, rel=0.05)
    assert factors["line"] == pytest.approx(6, rel=0.1)
    assert factors["product"] == factors["region"] == 1
    succeed("sample", model, "-o", tmp_path / "none", "--format", "parquet", "--scale", 1e-6)
    config = Config.loads("[database]\nidentity = 'nothing'")
    assert pipeline.look(f"parquet:{tmp_path / 'none'}", config).schema.table("line").foreign_keys
    words = ("sample", model, "-o", tmp_path / "files", "--scale-table")
    fail(2, "public.none, which is not a private table", *words, "none=2")
    fail(2, "--scale-table takes TABLE=N, not 'customer=nan'", *words, "customer=nan")


def test_a_table_of_one_row_for_each_owner_grows_with_its_owner_alone(make_database, tmp_path):
    dsn = make_database(
        "CREATE TABLE person (id int PRIMARY KEY, age int);"
        "CREATE TABLE passport (id int PRIMARY KEY REFERENCES person, kind int);"
        "INSERT INTO person SELECT i, i % 9 FROM generate_series(1, 200) i;"
        "INSERT INTO passport SELECT i, i % 3 FROM generate_series(1, 90) i;"
    )
    more = '[database]\nidentity = "x"\n[tables."public.passport"]\nown = ["id"]'
    config = market.config(tmp_path / "ledger", more, epsilon=50.0)
    pipeline.fit(dsn, market.learner(config, "independent"), tmp_path / "m")
    words = ("sample", tmp_path / "m", "-o", tmp_path / "files", "--scale-table")
    fail(2, "public.passport: has at most one row for each of", *words, "passport=2")
    assert "public.passport × 2" in succeed(*words, "person=2").stderr


def test_a_line_of_a_string_is_no_command_of_psql(tmp_path):
    path = tmp_path / "w.sql"
    path.write_text("\\x\nSELECT '\n\\x';\n")
    assert [query.sql.strip(" ;\n") for query in read(path, "sql")] == ["SELECT '\n\\x'"]


def test_a_workload_comes_from_standard_input_or_a_pipe(shop, tmp_path, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "1")
    words = ["-q", "run", "-", "--on", shop, "-o", tmp_path / "r.json"]
    done = subprocess.run(
        [sys.executable, "-m", "privbench", *words],
        input="SELECT count(*) FROM ware;",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("1 queries: 1 ended, 0 failed")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", f"echo 'SELECT 1;' > {pipe}"])
    assert len(read(pipe)) == 1
    writer.wait(10)
