"""Losses of files add up under their declared name, wherever they lie, in any form."""

import shutil
from pathlib import Path

import pytest
from duckdb_files import export, write
from market import ask
from sql_files import sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import BudgetExceeded, PrivacyRefusal
from privbench.postgres.connect import connect, identity
from privbench.sources import staged

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)"
ROWS = "INSERT INTO t SELECT i, i % 5 FROM range(500) r (i)"
CONFIG = sql_of(__file__, "files.toml")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "parts").mkdir()
    for make, place in ((write, tmp_path / "a.db"), (export, tmp_path / "parts")):
        make(place, f"{TABLE}; {ROWS}")
    return tmp_path


def config(folder: Path, name: str | None) -> Config:
    return Config.loads(CONFIG.format(ledger=folder / "ledger")).changed("database", identity=name)


def test_a_copy_of_files_is_no_database_of_its_own(files):
    source = f"duckdb://{files}/a.db"
    for name, copies in ((None, 1), ("shop", 2)):
        found = set()
        for _ in range(copies):
            with staged(source, config(files, name)) as dsn, connect(dsn) as connection:
                found.add(identity(connection, name))
        assert [(item.name, item.own) for item in found] == [(name, None)]


@pytest.mark.parametrize("form", ["duckdb://{}/a.db", "parquet://{}/parts"])
def test_files_without_a_name_spend_nothing(files, form):
    source, unnamed = form.format(files), config(files, None)
    with pytest.raises(PrivacyRefusal, match="--identity NAME"):
        pipeline.fit(source, unnamed, files / "m.privbench")
    with pytest.raises(PrivacyRefusal):
        pipeline.clone(source, "dbname=never_asked", unnamed)
    with pytest.raises(PrivacyRefusal):
        pipeline.ledger_show(source, None, str(files / "ledger"))
    # A fit of a copy that the caller made is refused too.
    with staged(source, unnamed) as dsn, pytest.raises(PrivacyRefusal):
        pipeline.fit(dsn, unnamed, files / "m.privbench")
    assert not (files / "ledger").exists()
    assert not (files / "m.privbench").exists()


def test_releases_add_up_over_paths_and_forms_until_the_cap(files):
    named = config(files, "shop")
    shutil.copy(files / "a.db", files / "nightly.db")
    write(files / "nightly.db", "INSERT INTO t VALUES (-1, 0)")
    sources = [f"duckdb://{files}/a.db", f"duckdb://{files}/nightly.db", f"parquet://{files}/parts"]
    for number, source in enumerate(sources, start=1):
        pipeline.fit(source, named, files / f"{number}.privbench")
        for asked in ("", *sources):
            state = pipeline.ledger_show(asked, "shop", str(files / "ledger")).state
            assert [item["epsilon"] for item in state["definitions"]] == [pytest.approx(number)]
    with pytest.raises(BudgetExceeded):
        pipeline.fit(sources[0], named, files / "4.privbench")
    assert len(list((files / "ledger").rglob("ledger.sqlite"))) == 1


def test_a_clone_of_files_is_that_of_their_tables(files, make_database):
    for source in (f"duckdb://{files}/a.db", f"parquet://{files}/parts"):
        target = make_database()
        pipeline.clone(source, target, config(files, "shop"))
        keys = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p'"
        assert ask(target, f"{keys} AND conrelid = 't'::regclass") == [("PRIMARY KEY (id)",)]
        ((rows, *ends),) = ask(target, "SELECT count(*), min(v), max(v) FROM t")
        assert 400 < rows < 600
        assert ends == [0, 4]
