"""One bundle for all tests of this folder."""

import shutil
from datetime import date

import market
import pytest

from privbench.publish import publish, tabular
from privbench.publish.making import About


@pytest.fixture(scope="session")
def model(make_database, tmp_path_factory):
    """A model of the market, the region being public."""
    source = market.create(make_database(), 60)
    return market.fitted_model(source, tmp_path_factory.mktemp("model"), epsilon=20.0)


@pytest.fixture(scope="session")
def original(model, make_database, tmp_path_factory):
    """The bundle of that model; not to be changed."""
    folder = tmp_path_factory.mktemp("published") / "bundle"
    about = About("The |market|", "A publisher", "CC0-1.0", date(2026, 1, 31))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabular, "CHUNK_ROWS", 25)
        publish(model, folder, about=about, database=make_database(), queries=12)
    return folder


@pytest.fixture
def bundle(original, tmp_path):
    """A copy of it."""
    return shutil.copytree(original, tmp_path / "bundle")
