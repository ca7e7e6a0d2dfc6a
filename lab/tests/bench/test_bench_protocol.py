"""Protocols: what their cells say, what passes, and that the page of figures follows from them."""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_files import sql_of

from privbench.config import Config
from privbench.errors import ConfigError, UsageError
from privbench.report.measuring import schema_of
from privbench_lab.bench import BenchConfig, bench
from privbench_lab.bench.answers import errors, read_aggregates
from privbench_lab.bench.cell import Outcome
from privbench_lab.bench.config import Job
from privbench_lab.bench.inputs import digest, digests
from privbench_lab.bench.protocol import read_cells, section
from privbench_lab.bench.relations import syntherela_figures
from privbench_lab.bench.results import collect
from privbench_lab.bench.runner import jobs_of

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
TEXT = """
epsilon = [1.0]
seeds = 3
data.shop = { dsn = "service=shop", generate = "joins" }
synthesizers.privbench = {}
[thresholds."shop/privbench/1"]
"qerror.p50" = { least = 1.0, most = 2.0, spread = 0.5 }
"""


def _cells(folder: Path, grid: BenchConfig, values: list[float | None]) -> None:
    for job, value in zip(jobs_of(grid), values, strict=True):
        made = Outcome.failed(job, "no luck")
        if value is not None:
            made = Outcome(job, "ok", {"qerror.p50": value})
        replace(made, protocol=grid.digest).save(job.file(folder))


@pytest.fixture
def protocol(tmp_path):
    (tmp_path / "protocol.toml").write_text(TEXT)
    return BenchConfig.load(tmp_path / "protocol.toml")


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ([1.5, 1.4, 1.6], ""),
        ([2.0, 2.0, 2.5], ""),  # on the limits
        ([2.1, 1.9, 2.2], "median"),
        ([0.9, 0.9, 1.1], "median"),
        ([1.2, 1.5, 1.8], "spread"),
        ([1.5, None, 1.5], "median, spread"),  # a release without a figure
        ([None, None, None], "median, spread"),
    ],
)
def test_a_threshold_judges_the_median_and_the_spread_of_all_releases(
    protocol, tmp_path, values, faults
):
    _cells(tmp_path, protocol, values)
    results = read_cells(protocol, tmp_path)
    assert any(part.failed for part in results.judged()) == bool(faults)
    page = section(results)
    assert f"| **FAIL**: {faults} |" in page if faults else "| PASS |" in page
    assert f"{int('spread' not in faults)} of 1 differences within" in page
    failed = values.count(None)
    assert (f"{failed} of 3 releases failed: no luck" in page) == bool(failed)


def test_cells_of_another_text_are_refused_and_made_anew(protocol, tmp_path):
    _cells(tmp_path, protocol, [1.5, 1.5, 1.5])
    (tmp_path / "protocol.toml").write_text(TEXT.replace("most = 2.0", "most = 3.0"))
    other = BenchConfig.load(tmp_path / "protocol.toml")
    with pytest.raises(UsageError, match="under another text"):
        read_cells(other, tmp_path)
    (tmp_path / "shop~privbench~1~2.json").unlink()
    with pytest.raises(UsageError, match="no cell of shop"):
        read_cells(protocol, tmp_path)


def test_the_page_of_figures_is_what_the_cells_give():
    tool = runpy.run_path(str(BENCHMARKS / "run.py"))
    stored = tool["PAGE"].read_text(encoding="utf-8")
    assert stored == tool["page"](stored), "run: python benchmarks/run.py --page"
    grid = BenchConfig.load(tool["PROTOCOL"])
    judged = re.findall(r"\| (?:PASS|\*\*FAIL\*\*: [a-z, ]+) \|$", stored, re.MULTILINE)
    assert len(judged) == sum(map(len, grid.thresholds.values())) > 0
    for path in tool["CELLS"].glob("*.json"):
        cell = Outcome.read(path)
        assert cell is not None
        assert cell.protocol == grid.digest
        assert cell.inputs.items() >= grid.data[cell.job.data].sha256.items() or cell.message
        assert cell.private


def test_the_protocol_is_of_todays_files_and_judges_every_database():
    grid = BenchConfig.load(BENCHMARKS / "protocol.toml")
    for config in grid.data.values():
        known = digests(config, [BENCHMARKS])
        assert known.items() <= config.sha256.items()
        assert set(config.files()) <= set(config.sha256)
    assert {place.partition("/")[0] for place in grid.thresholds} == set(grid.data)


def test_a_file_that_is_another_is_refused(tmp_path):
    (tmp_path / "shop.sql").write_text("SELECT 1;\n")
    known = {"shop.sql": digest(tmp_path / "shop.sql")}
    data = {"source": {"sql": ["shop.sql"]}, "generate": "joins", "sha256": known}
    raw = {"epsilon": [1.0], "data": {"shop": data}, "synthesizers": {"privbench": {}}}
    assert digests(BenchConfig.of(raw).data["shop"], [tmp_path]) == known
    (tmp_path / "shop.sql").write_text("SELECT 2;\n")
    with pytest.raises(ConfigError, match=r"shop\.sql is another file"):
        digests(BenchConfig.of(raw).data["shop"], [tmp_path / "empty", tmp_path])


FIGURES = st.lists(st.floats(1, 1e9), min_size=2, max_size=2)
ANSWERS = st.dictionaries(st.tuples(st.text(max_size=2)), FIGURES, min_size=1, max_size=5)


@given(source=ANSWERS, clone=ANSWERS)
def test_errors_of_answers_are_relative_to_the_groups_of_the_source(source, clone):
    off = list(errors(source, clone))
    assert len(off) == 2 * len(source)
    assert list(errors(source, source)) == [0.0] * len(off)
    assert list(errors(source, {})) == [1.0] * len(off)
    doubled = {group: [2 * figure for figure in figures] for group, figures in source.items()}
    assert list(errors(source, doubled)) == pytest.approx([1.0] * len(off), abs=1e-5)
    extra = {**clone, ("a group of the clone",): [1.0, 1.0]}
    assert list(errors(source, extra)) == off


def test_aggregate_queries_are_read_by_their_names(tmp_path):
    queries = read_aggregates(BENCHMARKS / "protocol/tpch-queries.sql")
    assert len(queries) == 19
    assert all(query.sql.startswith(("SELECT", "WITH")) for query in queries)
    assert {query.name: query.groups for query in queries}["q07"] == 3
    (tmp_path / "empty.sql").write_text("SELECT 1;\n")
    for path in (tmp_path / "empty.sql", tmp_path / "none.sql"):
        with pytest.raises(ConfigError):
            read_aggregates(path)


@pytest.mark.slow
def test_a_database_that_is_made_is_judged_by_joins_and_aggregates(tmp_path):
    rows = "".join(f"{i},{i % 3},{i % 7}\n" for i in range(400))
    (tmp_path / "write.py").write_text(f"open('item.csv', 'w').write({rows!r})\n")
    (tmp_path / "shop.sql").write_text(sql_of(__file__, "made"))
    (tmp_path / "q.sql").write_text("-- kinds: 1\nSELECT kind, count(*) FROM item GROUP BY 1\n")
    data = {
        "source": {"program": ["write.py"], "sql": ["shop.sql"]},
        "generate": "joins",
        "queries": 20,
        "answers": "q.sql",
        "sha256": {"item.csv": "0" * 64},
    }
    raw = {"epsilon": [8.0], "seeds": 1, "metrics": [], "data": {"shop": data},
           "synthesizers": {"privbench": {}}}  # fmt: skip
    place = Job("shop", "privbench", 8.0, 0)
    found = bench(BenchConfig.of(raw), tmp_path / "out", folder=tmp_path)
    message = Outcome.read(place.file(tmp_path / "out/cells")).message
    assert "item.csv is another file" in message
    data["sha256"] = {"item.csv": message.split()[-1].rstrip(".")}
    raw["thresholds"] = {"shop/privbench/8": {"answers.mean": {"most": 0.2, "spread": 0.0}}}
    found = bench(BenchConfig.of(raw), tmp_path / "out", folder=tmp_path)
    figures = found.lines[0].figures
    assert figures["answers.kinds"].mean == figures["answers.mean"].mean < 0.2
    assert figures["qerror.p50"].mean < 2
    assert [part.failed for part in found.judged()] == [False, False]
    cell = Outcome.read(place.file(tmp_path / "out/cells"))
    assert {"shop.sql", "write.py", "item.csv", "q.sql", "generated workload"} == set(cell.inputs)
    assert {"privbench", "Python", "numpy", "opendp", "PostgreSQL"} <= set(cell.versions)
    assert cell.machine["cores"]
    assert collect(found.grid, [cell], [], {}, []).judged() == found.judged()


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_syntherela_finds_nothing_between_a_database_and_itself(make_database, tmp_path):
    dsn = make_database(statements=sql_of(__file__, "circles"))
    schema = schema_of(dsn, Config())
    figures = syntherela_figures(dsn, dsn, schema, [table.key for table in schema], tmp_path, 1800)
    assert figures["syntherela.c2st.max"] < 0.6
    same = ("shapes", "pairs", "cardinality", "hop1", "hop2")
    assert [figures[f"syntherela.{name}"] for name in same] == pytest.approx([1.0] * len(same))
