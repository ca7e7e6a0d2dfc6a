"""Lets the attacks use the market of the pipeline's tests, and helpers of this folder."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "pipeline")]


@pytest.fixture(scope="session")
def honest(make_database, tmp_path_factory):
    """Honest models by synthesizer, that attacks are made of."""
    import market

    from privbench import pipeline

    folder, source = tmp_path_factory.mktemp("honest"), make_database()
    market.create(source, 20)
    found = {}
    for name in ("privbench-paper", "privbench"):
        config = market.learner(market.config(folder / "ledger", epsilon=50.0), name)
        pipeline.fit(source, config, folder / name)
        found[name] = folder / name
    return found


@pytest.fixture
def model(honest):
    """An honest model file."""
    return honest["privbench-paper"]
