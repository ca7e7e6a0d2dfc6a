"""The recorder cannot come into an ordinary fit."""

import importlib
from pathlib import Path

import broken
import pytest

import privbench
from privbench.audit.recording import Recorder
from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pipeline.progress import Reporter
from privbench.privacy import OpenDPNoise, SeededNoise

ROOT = Path(privbench.__file__).parent


def test_nothing_but_the_command_knows_of_the_audit() -> None:
    outside = [path for path in ROOT.rglob("*.py") if ROOT / "audit" not in path.parents]
    knowing = [path for path in outside if "privbench.audit" in path.read_text(encoding="utf-8")]
    assert [path.relative_to(ROOT).as_posix() for path in knowing] == ["cli/audit.py"]


@pytest.mark.parametrize(("seed", "kind"), [(None, OpenDPNoise), (3, SeededNoise)])
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
