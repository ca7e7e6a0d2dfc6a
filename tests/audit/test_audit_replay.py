"""Record and replay: a sound fit passes, broken mechanisms are named, no other fit is recorded."""

import importlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import broken
import pytest

import privbench
from privbench.audit import recording
from privbench.audit.checks import Replay, replay
from privbench.audit.recording import Recorder
from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pipeline.progress import Reporter
from privbench.privacy import OpenDPNoise, SeededNoise
from privbench.privacy.accountant import Accountant
from privbench.privacy.queries import Total
from privbench.privacy.questions import Measurement

SLOW = pytest.mark.slow


def replayed(source, folder, *, most=1, noise=None, **privacy) -> Replay:
    config = broken.config(folder / "never", **privacy)
    with recording.bench(source, config, Reporter(), noise) as bench:
        found = replay(bench, Reporter(), most=most)
    assert not (folder / "never").exists()
    return found


@pytest.mark.parametrize(
    "privacy",
    [
        {"accounting": "pure"},
        pytest.param({"neighbours": "replace", "accounting": "zcdp"}, marks=SLOW),
    ],
)
def test_a_sound_fit_passes(people, tmp_path, privacy):
    found = replayed(people, tmp_path, most=4, **privacy)
    assert found.findings == []
    assert found.neighbours >= 3
    assert len(found.rows) >= 10
    assert found.cells > 100
    assert 0.9 < max(row.ratio for row in found.rows) <= 1.0
    assert 0.0 < found.loss <= broken.config(tmp_path).privacy.epsilon
    observed = next(row for row in found.rows if row.label == "total public.visit")
    assert observed.claimed == (100.0, 100.0, 100.0)
    assert 95.0 < observed.observed[0] <= 100.0


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (broken.HalfNoise, "all draws together are too small for their laws"),
        (broken.ReusedDraw, "the same draw was used twice"),
        pytest.param(broken.HalfNoiseInOne, "its noise is too small for its law", marks=SLOW),
        pytest.param(broken.Unnoised, "its noise is too small for its law", marks=SLOW),
    ],
)
def test_broken_noise_is_named(people, tmp_path, noise, words):
    found = replayed(people, tmp_path, most=1, noise=noise())
    assert any(words in line for line in found.findings), found.findings


def test_a_missing_clip_is_named(people, tmp_path, monkeypatch):
    clipped = Total.evaluate
    monkeypatch.setattr(
        Total, "evaluate", lambda self, data: clipped(Total(self.table, 10**9), data)
    )
    found = replayed(people, tmp_path)
    assert any(line.startswith("total public.visit: a unit of") for line in found.findings)
    row = next(row for row in found.rows if row.label == "total public.visit")
    assert row.broken == ["l1", "l2", "linf"]
    assert row.observed[0] == 150 > row.claimed[0]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        pytest.param(broken.half_the_scale, "noise was drawn at another scale than", marks=SLOW),
        pytest.param(broken.nudged, "what was released is not what a mechanism drew", marks=SLOW),
        (broken.drawn_twice, "draws belong to no event of the ledger"),
    ],
)
def test_a_draw_that_is_not_its_event_s_is_named(people, tmp_path, monkeypatch, how, words):
    method = Measurement.method

    def changed(self, spec, accounting):
        made = method(self, spec, accounting)
        return replace(made, draw=partial(how, made.draw))

    monkeypatch.setattr(Measurement, "method", changed)
    found = replayed(people, tmp_path)
    assert any(words in line for line in found.findings), found.findings


@pytest.mark.parametrize(
    ("stage", "how"),
    [("totals", broken.asked_by_size), pytest.param("learn", broken.no_call, marks=SLOW)],
)
def test_questions_that_follow_exact_rows_are_named(people, tmp_path, monkeypatch, stage, how):
    broken.change(monkeypatch, stage, how)
    found = replayed(people, tmp_path, most=1)
    assert any("changes the measurements" in line for line in found.findings), found.findings


def test_a_budget_that_is_passed_is_named(people, tmp_path, monkeypatch):
    monkeypatch.setattr(Accountant, "charge", lambda self, *events: None)
    found = replayed(people, tmp_path, accounting="pure")
    assert any("more than is claimed" in line for line in found.findings), found.findings


@pytest.mark.parametrize("tell", [broken.sizes, broken.texts])
def test_what_goes_past_the_mechanisms_is_named(people, tmp_path, monkeypatch, tell):
    broken.leak(monkeypatch, tell)
    found = replayed(people, tmp_path)
    assert any("changes the model beside its mechanisms: state" in x for x in found.findings)


# The recorder cannot come into an ordinary fit.


ROOT = Path(privbench.__file__).parent


def test_nothing_but_the_command_knows_of_the_audit():
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
def test_no_config_asks_for_a_recording(section):
    with pytest.raises(ConfigError):
        Config.loads(section)
