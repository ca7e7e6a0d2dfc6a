"""Every ready workload has a configuration, a script that makes it, and files that parse."""

import re
from pathlib import Path

import psycopg
import pytest

from privbench.workload.formats import read

ROOT = Path(__file__).parents[1]
WORKLOADS = ROOT / "workloads"
MAKERS = sorted(WORKLOADS.glob("*/make"))
FILES = sorted(path for path in WORKLOADS.glob("*/*") if path.suffix in (".sql", ".json"))
NAMED = re.compile(r"\b(?:schemas|workloads)/[\w./-]+|\$schemas/[\w./-]+")


def test_every_folder_has_a_maker_and_stands_in_the_readme():
    folders = {path.name for path in WORKLOADS.iterdir() if path.is_dir()}
    assert {path.parent.name for path in MAKERS} == folders == {"adult", "stats", "imdb"}
    text = (WORKLOADS / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}/make`" in text for name in folders)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_are_workloads(path):
    assert len(read(path).queries) == 400


def test_queries_of_imdb_run_on_its_tables(make_database):
    ddl = (ROOT / "schemas/imdb/imdb.sql").read_text(encoding="utf-8")
    found = read(WORKLOADS / "imdb/queries.sql")
    with psycopg.connect(make_database()) as connection:
        connection.execute(re.sub(r"(?m)^\\.*$", "", ddl).encode())
        for query in found.queries:
            connection.execute(f"EXPLAIN {query.sql}".encode())
