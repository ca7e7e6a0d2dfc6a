"""Makers of the ready workloads, which use the lab's kinds and formats."""

import os
import shutil
import subprocess
import sys

import pytest
from test_house_workloads import MAKERS, NAMED, ROOT, WORKLOADS

from privbench.config import Config
from privbench.workload.formats import read


@pytest.mark.parametrize("maker", MAKERS, ids=lambda path: path.parent.name)
def test_what_a_maker_names_is_there(maker, parse_line):
    text = maker.read_text(encoding="utf-8")
    named = [item.replace("$schemas", "schemas").rstrip(".") for item in NAMED.findall(text)]
    assert len(named) >= 3
    assert [item for item in named if not (ROOT / item).exists()] == []
    assert any(Config.load(ROOT / item).tables for item in named if item.endswith(".toml"))
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    commands = [line for line in lines if line.startswith("privbench ")]
    assert commands
    for line in commands:
        parse_line(line.replace('"${QUERIES:-', '"').replace('}"', '"'))
    assert os.access(maker, os.X_OK)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_maker_of_imdb_makes_source_and_workload(make_database, tmp_path):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, words in {"python": "", "privbench": "-m privbench"}.items():
        launcher = bin_folder / name
        launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', "utf-8")
        launcher.chmod(0o755)
    light = tmp_path / "light.csv"
    light.write_text(
        "title t,cast_info ci#t.id=ci.movie_id#ci.role_id,=,2,t.kind_id,<,3#12\n", "utf-8"
    )
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "QUERIES": "20",
        "JOB_LIGHT": str(light),
    }
    done = subprocess.run(
        [WORKLOADS / "imdb/make", make_database(), "0.0005", tmp_path / "out"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = read(tmp_path / "out/imdb.sql")
    assert len(made.queries) == 20
    assert all(query.card for query in made.queries)
    assert "role_id" in read(tmp_path / "out/job-light.sql").queries[0].sql
