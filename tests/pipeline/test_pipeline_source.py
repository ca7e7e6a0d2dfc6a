"""The source is not needed once its rows are extracted."""

from __future__ import annotations

import market
import psycopg
import pytest
from integrity import whole
from psycopg import conninfo

from privbench import pipeline
from privbench.pipeline.fit import STAGES, begin, finish
from privbench.pipeline.progress import Reporter


@pytest.mark.parametrize("name", market.BY_NAME)
def test_fit_after_extract_needs_no_source(server, make_database, tmp_path, name):
    source = market.create(make_database())
    config = market.learner(market.config(tmp_path / "ledger", epsilon=50.0), name)
    draft = begin(source, config, Reporter())
    names = [stage for stage, _ in STAGES]
    assert names.index("extract") < names.index("totals")
    for stage, step in STAGES:
        step(draft)
        if stage == "extract":
            database = conninfo.conninfo_to_dict(source)["dbname"]
            market.execute(server.dsn, f"DROP DATABASE {database} WITH (FORCE)")
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(source)
    model = finish(draft)
    model.save(tmp_path / "m")
    assert draft.session is not None
    assert draft.session.close().epsilon <= 50.0
    target = make_database()
    assert pipeline.load(tmp_path / "m", target).rows["public.customer"] > 20
    whole(target)
