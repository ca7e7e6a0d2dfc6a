"""Runs of small grids: what is done stays done, and what fails is one line."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from filelock import FileLock
from market import fail, succeed
from sql_files import sql_of

from privbench.config import Config
from privbench.errors import UsageError
from privbench.pipeline.progress import Reporter
from privbench.report.measuring import schema_of
from privbench_lab.bench import BenchConfig, bench, peers
from privbench_lab.bench.config import DataConfig
from privbench_lab.bench.databases import retention
from privbench_lab.bench.peers import Peer, PeerFailed
from privbench_lab.bench.runner import prepare
from privbench_lab.bench.table import read_table
from privbench_lab.literature.proofs import Proof

TABLE = "n,c,y\n" + "".join(f"{i % 9},{'pqr'[i % 3]},{int(i % 9 > 4)}\n" for i in range(300))
GRID = sql_of(__file__, "grid.toml")
PRINTED = sql_of(__file__, "printed.csv")


@pytest.fixture
def folder(tmp_path):
    for name, text in (("toy.csv", TABLE), ("grid.toml", GRID), ("printed.csv", PRINTED)):
        (tmp_path / name).write_text(text)
    return tmp_path


class _Stops(Reporter):
    """Presses Ctrl-C after the first cell, once, and keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.pressed = False
        self.say = self.warn = self.lines.append  # type: ignore[method-assign]

    def advance(self, what: str, done: int, total: int | None = None) -> None:
        if not self.pressed:
            self.pressed = True
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_grid_that_was_broken_off_goes_on(folder):
    teller, out = _Stops(), folder / "out"
    with pytest.raises(KeyboardInterrupt):
        bench(folder / "grid.toml", out, reporter=teller)
    kept = {path.name: path.read_text() for path in (out / "cells").glob("*.json")}
    assert len(kept) == 1
    with FileLock(out / ".lock"), pytest.raises(UsageError, match="another run writes to"):
        bench(folder / "grid.toml", out, reporter=teller)
    (out / "cells" / "toy~independent~2~1.json").write_text('{"half')  # not a whole outcome
    found = bench(folder / "grid.toml", out, reporter=teller)
    assert "1 of 4 cells are done already" in teller.lines
    for name, text in kept.items():
        assert (out / "cells" / name).read_text() == text
    by_place = {line.place: line for line in found.lines}
    own = by_place["toy/independent/2"]
    assert own.figures["auroc.gnb"].n == 2
    assert own.figures["auroc.gnb"].sd is not None
    assert by_place["toy/real"].figures["auroc.gnb"].mean > 0.95
    assert own.figures["gap.auroc.gnb"].mean > 0.1
    assert {"kld.2", "tvd.2", "loglik.test", "seconds.fit"} <= set(own.figures)
    # One line for each mistake, and the rest of the grid went on.
    assert sum("other.nothing: the target is missing." in line for line in teller.lines) == 2
    assert sum("no synthesizer or peer 'nobody'" in line for line in teller.lines) == 2
    assert by_place["toy/nobody/2"].figures == {}
    page = (out / "bench.html").read_text()
    assert "CONFIDENTIAL" in page
    assert "AUROC, mean of models 0.625" in page
    assert "Others (paper X)" in page
    assert not re.search(r"(src|href)\s*=\s*[\"']?\s*(https?:)?//|@import|url\(", page)
    rows = pd.read_parquet(out / "results.parquet")
    assert set(rows["data"]) == {"toy"}
    whole = json.loads((out / "results.json").read_text())
    assert whole["proofs"]["independent"]["verdict"] == "sound"

    # Other rows: cells are made anew. A gate over what they give fails or passes.
    (folder / "toy.csv").write_text(TABLE.replace("p,", "r,"))
    line = ["bench", folder / "grid.toml", "-o", out]
    gates = ["--fail-if", "auroc.gnb[toy/real] < 0.9", "--fail-if", "kld.2[toy/independent/2] > 9"]
    succeed(*line, *gates)
    assert all((out / "cells" / name).read_text() != text for name, text in kept.items())
    # Where there is no figure a gate must not pass.
    fail(1, "", *line, "--fail-if", "auroc.gnb[toy/nobody/2] > 0.1")
    fail(2, "", *line, "--fail-if", "speed.most[toy/real] > 1")


@pytest.mark.slow
def test_a_browser_draws_every_curve_and_asks_for_nothing(folder, browse):
    grid = GRID.replace("epsilon = [2.0]", "epsilon = [1.0, 2.0]").replace("seeds = 2", "seeds = 1")
    (folder / "grid.toml").write_text(grid)
    bench(folder / "grid.toml", folder / "out")
    seen = browse(folder / "out" / "bench.html", 'count(".halves h3")')
    assert seen["wrong"] == seen["loaded"] == []
    assert seen["asked"] == ["/"]
    assert seen["drawn"] == seen["charts"] > 0


def test_a_grid_of_which_nothing_can_run_is_refused(folder):
    text = GRID.replace('target = "y"', 'target = "gone"')
    (folder / "grid.toml").write_text(text)
    fail(2, "", "bench", folder / "grid.toml", "-o", folder / "out")


@pytest.fixture
def table(folder):
    return read_table("toy", DataConfig(train="toy.csv", target="y"), folder)


@pytest.fixture
def run_peer(table, monkeypatch):
    """``run_peer(script, limit=60.0)``: what a peer of this script makes, in this environment."""
    monkeypatch.setattr(peers, "environment", lambda *_: Path(sys.executable))

    def run(script: str, limit: float = 60.0) -> Any:
        proof, seeded = Proof("broken", "a copy", "here"), "seed" in script
        peer = Peer("here", "", ("3.11", "3.99"), (), proof, script, seeded=seeded)
        return peers.run(peer, table, 1.5, 0.0, 0, cells=5, limit=limit)

    return run


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("raise RuntimeError('no luck')", "crashed: RuntimeError: no luck"),
        ("import time; time.sleep(60)", "stopped after 1 s"),
        ("made = rows.drop(columns='y').assign(z=1, w=2)", "gave no column"),
        ("made = rows.assign(n='x')", "gave what is no code in column 'n'"),
    ],
)
def test_a_peer_that_fails_is_one_line(run_peer, script, said):
    with pytest.raises(PeerFailed) as error:
        run_peer(script, 1.0 if "sleep" in script else 60.0)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_peer_gets_codes_and_gives_rows(run_peer, table, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hush")
    script = "import os; assert 'hush' not in os.environ.values()\n"
    script += "assert epsilon == 1.5 and target == 'y' and (rows.max() < pd.Series(sizes)).all()\n"
    script += "assert ordered == {'n'} and sizes['n'] <= 5\nmade = rows.to_numpy() + 0.2"
    made = run_peer(script)
    assert made.rows["c"].tolist() == table.train["c"].tolist()
    assert made.rows["n"].between(0, 8).all()
    assert made.private
    assert not run_peer(f"seed\n{script}").private


def test_peers_are_refused_where_they_would_protect_less(folder):
    text = GRID.replace("seeds = 2", 'seeds = 1\nneighbours = "replace"')
    (folder / "grid.toml").write_text(text.replace("[synthesizers.nobody]", "[synthesizers.mst]"))
    prepared = prepare(BenchConfig.load(folder / "grid.toml"), [folder], Reporter())
    assert any("'mst': the noise of peers is" in line for line in prepared.lines)
    assert {job.synthesizer for job in prepared.jobs} == {"real", "independent"}


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_behind_and_goes_on(folder, request):
    # Not beneath the test's own folder: the path of a Unix socket has about 100 bytes at most.
    held = tempfile.TemporaryDirectory()
    request.addfinalizer(held.cleanup)
    scratch, out = Path(held.name), folder / "out"
    (folder / "grid.toml").write_text(GRID.replace("seeds = 2", "seeds = 9"))
    command = [sys.executable, "-m", "privbench", "bench", folder / "grid.toml", "-o", out]
    started = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(scratch)})
    while not (list(out.glob("cells/*.json")) and list(scratch.glob("pb-cell-*"))):
        assert started.poll() is None
        time.sleep(0.01)
    started.kill()
    started.wait()
    kept = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    ends = time.monotonic() + 30
    while any(path.is_file() for path in scratch.rglob("*")):
        assert time.monotonic() < ends
        time.sleep(0.1)
    assert subprocess.run(command, check=False).returncode == 0
    assert len(list(out.glob("cells/*.json"))) == 18 > len(kept)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())


def test_every_peer_has_pins_a_script_and_a_verdict():
    for peer in peers.peers().values():
        compile(peer.script, peer.name, "exec")
        assert peer.proof.reason
        assert peer.seeded == ("seed=seed" in peer.script)
        assert all("==" in pin or pin in ("packaging", "scikit-learn") for pin in peer.pins)


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(peers.peers()))
def test_peers_run(table, name):
    made = peers.run(peers.peers()[name], table, 1.0, 1e-6, 0, cells=5, limit=1800)
    assert list(made.rows.columns) == list(table.columns)
    assert len(made.rows) > 0


@pytest.mark.slow
def test_a_whole_database_is_judged_by_joins_sizes_and_retention(make_database, tmp_path):
    dsn = make_database(statements=sql_of(__file__, "owners"))
    (tmp_path / "w.sql").write_text(
        "SELECT COUNT(*) FROM owner o, item i WHERE i.owner = o.id AND o.kind = 1 AND i.size > 6;\n"
    )
    (tmp_path / "c.toml").write_text(
        '[tables."public.owner"]\nown = []\n[tables."public.item"]\nown = ["owner"]\n'
    )
    grid = BenchConfig.of(
        {
            "epsilon": [8.0],
            "seeds": 1,
            "metrics": [],
            "data": {"shop": {"dsn": dsn, "workload": "w.sql", "config": "c.toml"}},
            "synthesizers": {"privbench": {}, "independent": {}, "mst": {}},
        }
    )
    found = bench(grid, tmp_path / "out", folder=tmp_path)
    lines = {line.synthesizer: line for line in found.lines}
    assert lines["privbench"].failures == {}
    figures = {name: part.mean for name, part in lines["privbench"].figures.items()}
    assert 1 <= figures["qerror.p50"] < 2
    assert figures["rows.max_difference"] < 20
    assert figures["retention.keys"] > 0.5
    assert lines["independent"].figures["retention.keys"].mean < figures["retention.keys"]
    assert lines["mst"].figures == {}


def test_retention_reads_dates_that_python_lacks(make_database):
    dsn = make_database(statements=sql_of(__file__, "odd_dates"))
    assert retention(dsn, dsn, schema_of(dsn, Config())) == {"retention.keys": 1.0}
