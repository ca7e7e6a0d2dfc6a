"""The recorder cannot come into an ordinary fit."""

import importlib
from pathlib import Path

import broken
import pytest

import privbench
from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pipeline.progress import Reporter
from privbench.privacy import NoiseSource, SeededNoise
from privbench_lab.audit.recording import Recorder

ROOT = Path(privbench.__file__).parent


def test_the_core_imports_nothing_of_the_lab() -> None:
    files = [*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi"), *ROOT.rglob("*.j2")]
    knowing = [path for path in files if "privbench_lab" in path.read_text(encoding="utf-8")]
    assert knowing == []


@pytest.mark.parametrize(("seed", "kind"), [(None, NoiseSource), (3, SeededNoise)])
def test_an_ordinary_fit_draws_from_opendp_or_a_seed(people, tmp_path, monkeypatch, seed, kind):
    for name in ("PRIVBENCH_AUDIT", "PRIVBENCH_RECORD", "PRIVBENCH_NOISE", "PRIVBENCH_DEBUG"):
        monkeypatch.setenv(name, "1")
    fit = importlib.import_module("privbench.pipeline.fit")
    draft = fit.begin(people, broken.config(tmp_path, seed=seed), Reporter())
    for _, stage in fit.STAGES[:2]:
        stage(draft)
    assert type(draft.session._noise) is kind is not Recorder
    draft.session.close()


@pytest.mark.parametrize("section", ["[audit]\nrecord = true", "[privacy]\nrecord = true"])
def test_no_config_asks_for_a_recording(section) -> None:
    with pytest.raises(ConfigError):
        Config.loads(section)
