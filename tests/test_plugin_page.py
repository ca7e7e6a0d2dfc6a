"""The synthesizer of its tutorial, run as it stands there, and lookup by name."""

import re
import sys
import tomllib
from pathlib import Path

import market
import pytest
from integrity import whole
from packages import install

from privbench import plugin, plugins, synthesizers
from privbench.errors import ConfigError, ModelError
from privbench.pipeline import Model

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "tutorials" / "own-synthesizer.md").read_text(encoding="utf-8")


def _block(language):
    (text,) = re.findall(rf"```{language} title=[^\n]*\n(.*?)```", PAGE, flags=re.S)
    return text


@pytest.fixture
def chain(tmp_path, monkeypatch):
    """The page's package, installed as its pyproject says."""
    project = tomllib.loads(_block("toml"))["project"]
    folder = tmp_path / "site"
    folder.mkdir()
    modules = {"privbench_chain": _block("python")}
    install(folder, project["name"], project["entry-points"], modules)
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("privbench_chain", None)


def test_the_pages_synthesizer_plans_fits_and_clones(chain, make_database, tmp_path):
    source, target = market.create(make_database(), 60), make_database()
    config = market.config(tmp_path / "ledger", epsilon=20.0)
    (tmp_path / "c.toml").write_text(config.dumps())
    chosen = ("--synthesizer", "chain")
    planned = market.succeed("plan", tmp_path / "c.toml", source, *chosen, "--json").stdout
    assert "public.customer: " in planned
    given = ("-c", tmp_path / "c.toml", *chosen, "-o", tmp_path / "m", "--yes")
    market.succeed("-q", "clone", source, target, *given)
    whole(target)
    assert market.one(target, "SELECT count(*) FROM customer") > 20
    model = Model.load(tmp_path / "m")
    assert model.synthesizer == "chain"
    assert model.promise.epsilon <= 20
    learner = synthesizers.get("chain")
    assert learner.load(model.state, model.arrays).units
    damaged = {name: -array if name.startswith("attributes/") else array
               for name, array in model.arrays.items()}  # fmt: skip
    with pytest.raises(ModelError, match="chain is damaged"):
        learner.load(model.state, damaged)


def test_the_page_needs_nothing_but_the_public_module():
    imports = re.findall(r"^(?:from|import) (privbench[\w.]*)", _block("python"), flags=re.M)
    assert imports == ["privbench.plugin"]
    assert all(hasattr(plugin, name) for name in plugin.__all__)


def test_a_model_of_a_synthesizer_that_is_not_installed_is_refused(chain, tmp_path, monkeypatch):
    for name in ("dpspn of nobody", "os:system", "privbench_chain:ChainSynthesizer"):
        with pytest.raises(ConfigError, match="pip install privbench-lab"):
            synthesizers.get(name)
    assert "privbench_chain" not in sys.modules


def test_two_packages_of_one_name_and_one_that_cannot_be_imported_are_said(chain):
    group = plugins.SYNTHESIZERS
    install(chain, "other", {group: {"chain": "other:It", "odd": "nowhere:It"}})
    install(chain, "ending", {group: {"ends": "ends:It"}}, {"ends": "raise SystemExit(0)"})
    with pytest.raises(ConfigError, match="other and privbench-chain both name 'chain'"):
        plugins.load(plugins.SYNTHESIZERS, "chain")
    with pytest.raises(ConfigError, match=r"'odd' cannot be loaded.*Install other again"):
        synthesizers.get("odd")
    with pytest.raises(ConfigError, match="'ends' cannot be loaded: SystemExit"):
        synthesizers.get("ends")
