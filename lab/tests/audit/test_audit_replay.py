"""Record and replay: a sound fit passes, and each broken mechanism is named."""

from functools import partial

import broken
import pytest
from foreign_rows import emptied, foreign

from privbench.pipeline.progress import Reporter
from privbench.privacy.accountant import Accountant
from privbench.privacy.queries import Total
from privbench.privacy.questions import Measurement
from privbench_lab.audit import recording
from privbench_lab.audit.checks import Replay, replay

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
def test_a_sound_fit_passes(people, tmp_path, privacy) -> None:
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
def test_broken_noise_is_named(people, tmp_path, noise, words) -> None:
    found = replayed(people, tmp_path, most=1, noise=noise())
    assert any(words in line for line in found.findings), found.findings


def test_a_missing_clip_is_named(people, tmp_path, monkeypatch) -> None:
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
def test_a_draw_that_is_not_its_event_s_is_named(people, tmp_path, monkeypatch, how, words) -> None:
    draw = Measurement.draw

    def changed(self, method, *given):
        return how(partial(draw, self, method), *given)

    monkeypatch.setattr(Measurement, "draw", changed)
    found = replayed(people, tmp_path)
    assert any(words in line for line in found.findings), found.findings


@pytest.mark.parametrize(
    ("stage", "how"),
    [("totals", broken.asked_by_size), pytest.param("learn", broken.no_call, marks=SLOW)],
)
def test_questions_that_follow_exact_rows_are_named(
    people, tmp_path, monkeypatch, stage, how
) -> None:
    broken.change(monkeypatch, stage, how)
    found = replayed(people, tmp_path, most=1)
    assert any("changes the measurements" in line for line in found.findings), found.findings


def test_a_budget_that_is_passed_is_named(people, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Accountant, "charge", lambda self, *events: None)
    found = replayed(people, tmp_path, accounting="pure")
    assert any("more than is claimed" in line for line in found.findings), found.findings


@pytest.mark.parametrize("tell", [broken.sizes, broken.texts])
def test_what_goes_past_the_mechanisms_is_named(people, tmp_path, monkeypatch, tell) -> None:
    broken.leak(monkeypatch, tell)
    found = replayed(people, tmp_path)
    assert any("changes the model beside its mechanisms: state" in x for x in found.findings)


def without_rows(source, folder) -> None:
    """A fit of pairs, and the same draws for a database without a row and for a foreign one."""
    base = broken.config(folder / "never", epsilon=100.0)
    config = base.changed("synthesizer", name="privbench")
    with recording.bench(source, config, Reporter()) as bench:
        first = bench.record()
        assert any(step.query.kind.endswith("scores") for step in first.steps)
        for rows in (emptied(bench.rows), foreign(bench.rows, {})):
            again = bench.replay(first, rows)
            assert recording.same_model(first.model, again.model) == []


def test_candidates_by_exact_spread_show_where_rows_are_gone(people, tmp_path, monkeypatch) -> None:
    """Neighbours have the same columns that vary, and so the same questions."""
    without_rows(people, tmp_path)
    broken.pairs_by_spread(monkeypatch)
    with pytest.raises(recording.Differs):
        without_rows(people, tmp_path)


def test_what_goes_past_the_mechanisms_shows_where_rows_are_gone(
    people, tmp_path, monkeypatch
) -> None:
    broken.leak(monkeypatch, broken.sizes)
    with pytest.raises(AssertionError, match="state"):
        without_rows(people, tmp_path)
