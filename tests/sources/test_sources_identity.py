"""Losses of files add up under their declared name, wherever they lie, in any form."""

import shutil
from pathlib import Path

import duckdb
import pytest
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
    with duckdb.connect(str(tmp_path / "a.db")) as connection:
        connection.execute(f"{TABLE}; {ROWS}")
        (tmp_path / "parts").mkdir()
        connection.execute(f"COPY t TO '{tmp_path}/parts/t.parquet'")
    return tmp_path


def config(folder: Path, name: str | None) -> Config:
    found = Config.loads(CONFIG.format(ledger=folder / "ledger"))
    section = found.database.model_copy(update={"identity": name})
    return found.model_copy(update={"database": section})


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
    with duckdb.connect(str(files / "nightly.db")) as connection:
        connection.execute("INSERT INTO t VALUES (-1, 0)")
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
        with connect(target) as connection:
            (row,) = connection.execute("SELECT count(*), min(v), max(v) FROM t").fetchall()
            key = connection.execute(
                "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass"
                " AND contype = 'p'"
            ).fetchall()
        assert key == [("PRIMARY KEY (id)",)]
        assert 400 < row[0] < 600
        assert row[1:] == (0, 4)
