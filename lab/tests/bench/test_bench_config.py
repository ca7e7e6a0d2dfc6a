"""Grids: what is refused, with the place and the reason; what the full grid changes."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sql_files import cases

from privbench.errors import ConfigError
from privbench_lab.bench import BenchConfig
from privbench_lab.bench.config import DataConfig
from privbench_lab.bench.counting import counts, read_queries
from privbench_lab.bench.results import collect
from privbench_lab.bench.table import Table, coarse, read_table

GRID: dict[str, Any] = {
    "epsilon": [1.0],
    "data": {"a": {"train": "a.csv", "target": "y"}},
    "synthesizers": {"independent": {}},
}
PAPERS = sorted((Path(__file__).parents[3] / "benchmarks/papers").glob("*.toml"))


@pytest.mark.parametrize(("said", "change"), cases(__file__, "bad_grids.txt"))
def test_a_bad_grid_is_refused_by_its_place(said, change):
    with pytest.raises(ConfigError) as error:
        BenchConfig.of({**GRID, **json.loads(change)}, name="g.toml")
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "hush" not in str(error.value)


def test_secrets_of_a_database_stay_out_of_results():
    data = {"a": {"dsn": "postgresql://ada:hush@db.example/shop", "workload": "w.sql"}}
    grid = BenchConfig.of({**GRID, "data": data})
    assert "hush" in str(grid.data["a"].dsn)
    written = json.dumps(collect(grid, [], [], {}, []).to_json())
    assert "db.example" in written
    assert "hush" not in written


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_ready_grids_are_grids(path):
    small, full = BenchConfig.load(path), BenchConfig.load(path, full=True)
    assert set(small.data) <= set(full.data)
    assert set(small.synthesizers) <= set(full.synthesizers)


def _table(folder: Path, text: str, **given: Any) -> Table:
    (folder / "a.csv").write_text(text)
    return read_table("a", DataConfig(train="a.csv", **given), folder)


ROWS = "n,x,c,y\n" + "".join(f"{i % 7},{i / 8},{'pq'[i % 2]},{i % 3}\n" for i in range(40))


@pytest.mark.parametrize(("said", "given"), cases(__file__, "bad_tables.txt"))
def test_a_data_set_that_does_not_fit_is_refused(tmp_path, said, given):
    with pytest.raises(ConfigError) as error:
        _table(tmp_path, ROWS, **json.loads(given))
    assert said in str(error.value)


def test_codes_keep_values_and_the_split_is_one(tmp_path):
    first, again = (_table(tmp_path, ROWS, target="y") for _ in range(2))
    pd.testing.assert_frame_equal(first.test, again.test)
    both = pd.concat([first.train, first.test])
    assert len(both) == 40
    assert len(first.test) == 10
    back = first.values(first.codes(first.train), seed=1)
    for name in ("n", "c", "y"):
        assert back[name].tolist() == first.train[name].tolist()
    cells = coarse(first, 3)
    assert all(domain.size <= 3 for domain in cells.domains.values())
    made = cells.values(cells.codes(first.train), seed=1)
    assert made["x"].between(0, 39 / 8).all()


def test_null_keeps_a_code_of_its_own_and_targets_without_value_go(tmp_path):
    text = ROWS.replace("q", "?") + "?,?,p,1\n1,1,p,?\n"
    table = _table(tmp_path, text, target="y", null=["?"], test_share=0.05)
    both = pd.concat([table.train, table.test])
    assert len(both) == 41
    back = table.values(table.codes(both), seed=None)
    assert back.isna().sum().tolist() == both.isna().sum().tolist()
    assert both["c"].isna().sum() == 20


QUERIES = [
    (
        "SELECT COUNT(*) FROM t WHERE n >= 3 AND c = 'p' COLLATE \"C\"",
        lambda r: (r.n >= 3) & (r.c == "p"),
    ),
    ("7||SELECT COUNT(*) FROM t WHERE x < -1 OR NOT n = 2", lambda r: (r.x < -1) | (r.n != 2)),
    ("SELECT COUNT(*) FROM other;", lambda r: r.n > -1),
    ("SELECT COUNT(*) FROM T WHERE n >= 3", lambda r: r.n >= 3),
    ("SELECT COUNT(*) FROM Rows", lambda r: r.n > -1),
]


def test_counting_queries_are_answered_on_frames(tmp_path):
    table = _table(tmp_path, ROWS)
    (tmp_path / "w.sql").write_text("\n".join(text for text, _ in QUERIES))
    found = read_queries(tmp_path / "w.sql", table.train)
    wanted = [int(rule(table.train).sum()) for _, rule in QUERIES]
    assert counts(found, table.train).tolist() == wanted


@pytest.mark.parametrize(
    "text",
    ["SELECT n FROM t", "SELECT COUNT(*), 1 FROM t", "SELECT COUNT(*) FROM t WHERE z = 1",
     "SELECT COUNT(*) FROM t WHERE load_extension('x') = 1", "ATTACH 'x.db' AS x; -- select",
     "SELECT COUNT(*) FROM t; DROP TABLE rows", "DELETE FROM rows -- select",
     "SELECT COUNT(* FROM"],
)  # fmt: skip
def test_other_queries_are_refused_by_their_line(tmp_path, text):
    table = _table(tmp_path, ROWS)
    (tmp_path / "w.sql").write_text(f"\n{text}\n")
    with pytest.raises(ConfigError, match="line 2"):
        read_queries(tmp_path / "w.sql", table.train)
    assert not (tmp_path / "x.db").exists()
