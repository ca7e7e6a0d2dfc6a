"""Replays of fits with references of the config, on rows that break them in every way."""

from pathlib import Path

import market
import pytest
from sql_files import database_of, sql_of

from privbench.pipeline.progress import Reporter
from privbench_lab.audit import recording
from privbench_lab.audit.checks import replay
from privbench_lab.neighbours.stability import all_units

#: The test of the core that has the rows and the config.
PLACE = str(Path(market.__file__).parent / "test_pipeline_references.py")
source = database_of(sql_of(PLACE, "references"))


@pytest.mark.parametrize(
    "neighbours", ["add-remove", pytest.param("replace", marks=pytest.mark.slow)]
)
def test_replay_of_a_fit_on_rows_that_break_its_references_finds_nothing(
    source, tmp_path, monkeypatch, neighbours
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    toml = sql_of(PLACE, "references.toml")
    given = {"epsilon": 200.0, "delta": 1e-6, "neighbours": neighbours}
    config = market.config(tmp_path / "ledger", toml, **given)
    config = market.learner(config, "independent")
    with recording.bench(source, config, Reporter(), None) as bench:
        tables = bench.rows.spec.tables
        # An element of an array is never a unit of its own.
        roots = {name for name, item in tables.items() if not item.elements}
        assert {root for root, _ in all_units(bench.rows)} == roots
        require_units_of_declared_owners(bench.rows, source)
        found = replay(bench, Reporter(), most=3)
    assert found.findings == []
    assert {"fan-in", "target histogram"} & {row.kind for row in found.rows}
    assert max(row.ratio for row in found.rows) > 0.9


def require_units_of_declared_owners(rows, source):
    """A row whose owner is missing, or has a key that several rows have, is a unit of its own."""
    many, lost = market.ask(
        source,
        "SELECT count(*), count(*) FILTER (WHERE 1 <> (SELECT count(*) FROM person WHERE id = o"
        '.person)) FROM "order" o',
    )[0]
    null, targets = market.ask(
        source,
        "SELECT count(*) FILTER (WHERE gift IS NULL OR gift = 0), count(*) FILTER (WHERE gift > 0"
        " AND gift < 100) FROM line",
    )[0]
    edges = rows._parents(rows.spec.tables["public.order"].own)
    assert (len(edges), int((edges < 0).sum())) == (many, lost)
    assert rows._units.sizes("public.order").max() > 400
    gift = rows._parents(rows.spec.tables["public.line"].key("line_gift_4b107001_reference"))
    assert int((gift == -1).sum()) == null
    assert int((gift >= 0).sum()) == targets
