"""The session: what it charges, draws, hides and replays."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
from core_toys import CHAIN, Counts, LabelToy, Toy, release_labels

from privbench.domain import Domain
from privbench.errors import BudgetExceeded, LedgerError, PrivacyRefusal, PrivbenchError
from privbench.privacy import (
    GRID,
    Accountant,
    DatabaseSpec,
    Fit,
    KeySpec,
    Ledger,
    Measurement,
    NoiseSource,
    SeededNoise,
    Session,
    TableSpec,
    UnitDefinition,
    noise_sd,
    open_session,
)
from privbench.privacy.events import fingerprint
from privbench.privacy.queries import PublicArray

USERS = "public.users"
BOTH = pytest.mark.parametrize("accounting", ["pure", "zcdp"])
#: Mechanisms of vectors and of selections.
VECTOR = {"pure": "discrete_laplace", "zcdp": "discrete_gaussian"}
SELECTION = {"pure": "noisy_max", "zcdp": "noisy_max_gumbel"}


class Recorder(NoiseSource):
    """Keeps the scale and the draw of every call of a mechanism, by the name of its stream."""

    def __init__(self):
        self.calls = {}

    def draw(self, method, exact, stream):
        drawn = super().draw(method, exact, stream)
        self.calls[stream] = SimpleNamespace(scale=method.scale, drawn=copy.copy(drawn))
        return drawn


def start(tmp_path, epsilon=1.0, delta=None, accounting="pure", data=None, **options):
    least = 1e-9 if accounting == "zcdp" else 0.0
    accountant = Accountant(accounting, epsilon, least if delta is None else delta)
    return open_session(data or Toy(), accountant, tmp_path, "shop", **options)


def test_measure_returns_counted_units_of_the_querys_shape(tmp_path):
    session = start(tmp_path, 50.0)
    grid = Counts(values=(3 * GRID, 0, 5 * GRID // 2), unit=GRID, l1=GRID, l2=GRID, linf=GRID)
    noisy = session.measure(grid, 40.0, "weights")
    assert noisy.dtype == np.float64
    assert noisy == pytest.approx([3.0, 0.0, 2.5], abs=1.0)
    step = session.trace[0]
    assert step.query is grid
    assert (step.result / GRID == noisy).all()
    assert step.event.roots == (USERS,)
    assert (step.event.loss, step.event.amount) == ("epsilon", 40.0)


@BOTH
def test_noise_scale_is_the_spread_of_what_is_released(tmp_path, accounting):
    session = start(tmp_path, accounting=accounting)
    query = Counts(values=(0,) * 20_000, unit=4, l1=8, l2=6.0, linf=8)
    amount = session.amount_total / 2
    noisy = session.measure(query, amount, "zeros")
    assert session.trace[0].event.mechanism == VECTOR[accounting]
    stated = session.noise_scale(query, amount)
    assert noisy.std() == pytest.approx(stated, rel=0.05)
    assert stated == noise_sd(query, CHAIN, amount, accounting)


@BOTH
def test_a_selection_finds_a_clear_winner_of_a_vector(tmp_path, accounting):
    session = start(tmp_path, 20.0, accounting=accounting)
    quarter = session.amount_total / 4
    assert session.select(Counts(values=(0, 1, 10_000, 5)), quarter, "best") == 2
    assert session.trace[0].event.mechanism == SELECTION[accounting]
    with pytest.raises(PrivacyRefusal, match="vector"):
        session.select(Counts(values=()), quarter, "best")
    assert session.spent == pytest.approx(quarter)


@BOTH
def test_labels_that_are_common_are_released_sorted_with_cells_in_one_draw(tmp_path, accounting):
    recorder = Recorder()
    session = start(tmp_path, 2.0, 1e-6, accounting, noise=recorder)
    amount, delta = session.amount_total / 2, session.delta_total / 2
    released = release_labels(session, LabelToy(), amount, delta, "names")
    event = session.trace[0].event
    assert released.labels == ("also", "common")
    assert all(count >= event.threshold > 10 for count in released.counts)
    assert abs(released.cells[0] - 500) < 12 * event.scale * 2**0.5
    assert (event.shape, event.delta) == ((), delta)
    assert session.guarantee().delta > 0
    cells, labels = recorder.calls.values()
    assert cells.scale == labels.scale == event.scale
    assert tuple(cells.drawn) == released.cells
    assert labels.drawn == dict(zip(released.labels, released.counts, strict=True))


@pytest.mark.parametrize(
    ("ask", "refusal", "said"),
    [
        (lambda s: release_labels(s, LabelToy(), 0.5, 0.0, "names"), PrivacyRefusal, "delta = 0"),
        (lambda s: release_labels(s, Counts(), 0.5, 1e-6, "names"), PrivacyRefusal, "over labels"),
        (lambda s: release_labels(s, LabelToy(), 0.5, 1e-6, "names"), BudgetExceeded, "delta"),
        (lambda s: s.ask([Measurement(Counts(), 0.6, label) for label in ("first", "second")]),
         BudgetExceeded, "'second'"),
        (lambda s: s.measure(Counts(), 1.5, "too much"), BudgetExceeded, "too much"),
        *((lambda s, amount=amount: s.measure(Counts(), amount, "counts"), PrivacyRefusal, "")
          for amount in (0.0, -0.5, math.nan, math.inf)),
    ],
)  # fmt: skip
def test_a_refused_question_charges_draws_and_reads_nothing(tmp_path, ask, refusal, said):
    recorder, data = Recorder(), Toy()
    session = start(tmp_path, data=data, noise=recorder)
    with pytest.raises(refusal, match=said or None):
        ask(session)
    assert session.trace == session._release.events == []
    assert len(recorder.calls) == data.evaluated == 0
    assert session.spent == session.guarantee().epsilon == 0
    # The whole budget is left.
    session.measure(Counts(), session.remaining(USERS), "all")
    assert session.guarantee().epsilon == pytest.approx(1.0)
    assert session.guarantee().epsilon <= 1.0


def test_an_error_on_private_rows_tells_nothing_and_stays_spent(tmp_path):
    """One of a recoding costs nothing."""
    session = start(tmp_path)
    assert session.recode(USERS, "age", "public map") == Domain(3)
    for act, spent in (
        (lambda: session.recode(USERS, "age", "fail"), 0.0),
        (lambda: session.measure(Counts(secret="SECRET row"), 0.5, "counts"), 0.5),
    ):
        with pytest.raises(PrivbenchError) as caught:
            act()
        assert "SECRET" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert session.spent == session.guarantee().epsilon == spent
        assert session.trace == []


@pytest.mark.parametrize("wrong", [np.zeros(7, np.int64), np.zeros(3)], ids=["shape", "floats"])
def test_a_statistic_must_be_integers_of_its_public_shape(tmp_path, wrong):
    class Odd(Counts):
        def evaluate(self, data):
            return wrong

    session = start(tmp_path)
    with pytest.raises(PrivbenchError, match="could not be computed"):
        session.measure(Odd(), 0.5, "counts")
    assert session.spent == 0.5


def test_events_are_charged_to_every_root_that_reaches_the_table(tmp_path):
    key = KeySpec("owner", "public.posts", USERS, "own", nullable=True)
    tables = {**CHAIN.tables, "public.posts": TableSpec("public.posts", {}, (key,))}
    session = start(tmp_path, data=Toy(DatabaseSpec(tables)))
    session.measure(Counts(), 0.75, "users")
    session.measure(Counts(table="public.posts"), 0.25 - 1e-6, "posts")
    assert session.trace[1].event.roots == ("public.posts", USERS)
    assert session.remaining(USERS) == pytest.approx(0.0, abs=1e-5)
    assert session.remaining("public.posts") == pytest.approx(0.75, abs=1e-5)
    session.measure(Counts(table="public.tags"), 0.9, "tags")


def test_events_of_a_batch_are_numbered_in_the_order_of_the_questions(tmp_path):
    session = start(tmp_path)
    session.measure_all([Measurement(Counts(), 0.1, label) for label in "abc"])
    events = session._release.events
    assert [(event.id, event.label) for event in events] == [(0, "a"), (1, "b"), (2, "c")]


def test_the_ledger_and_the_session_must_agree(tmp_path):
    fit, accountant = Fit("config", UnitDefinition.of(CHAIN), private=True), Accountant("pure", 1.0)
    release = Ledger.open(tmp_path, "shop").open_release(fit, accountant)
    with pytest.raises(PrivacyRefusal, match="seeded"):
        Session(Toy(), accountant, release, SeededNoise(1))
    with pytest.raises(PrivacyRefusal, match="accountant"):
        Session(Toy(), Accountant("zcdp", 1.0, 1e-9), release)
    Session(Toy(), accountant, release).measure(Counts(), 0.5, "counts")
    with pytest.raises(PrivacyRefusal, match="accountant"):
        Session(Toy(), accountant, release)


def test_a_session_draws_no_more_once_closed_and_stays_open_once_failed(tmp_path):
    with start(tmp_path) as session:
        session.measure(Counts(), 0.5, "counts")
    with pytest.raises(LedgerError, match="closed"):
        session.measure(Counts(), 0.25, "counts")
    with pytest.raises(RuntimeError), start(tmp_path / "failed") as session:  # noqa: PT012
        session.measure(Counts(), 0.5, "counts")
        raise RuntimeError
    (shown,) = Ledger.open(tmp_path / "failed", "shop").show()["releases"]
    assert (shown["state"], shown["epsilon"]) == ("open", 1.0)


def run(session):
    """A fit whose later steps depend on earlier releases."""
    amount = session.amount_total / 4
    first = session.measure(Counts(values=tuple(range(1000))), amount, "counts")
    best = session.select(Counts(values=(1, 50, 3)), amount, "best")
    labels = release_labels(session, LabelToy(), amount, session.delta_total, "labels")
    last = session.measure(Counts(values=(best, len(labels.labels))), amount, "last")
    return [first.tolist(), best, labels, last.tolist()]


@BOTH
def test_resume_replays_results_without_reading_or_charging_again(tmp_path, accounting):
    first = start(tmp_path, 2.0, 1e-6, accounting, config_hash="c")
    before = run(first)
    first._release.leave()
    recorder, data = Recorder(), Toy()
    options = {"config_hash": "c", "resume": first.release_id, "noise": recorder, "data": data}
    again = start(tmp_path, 2.0, 1e-6, accounting, **options)
    assert run(again) == before
    assert len(recorder.calls) == data.evaluated == 0
    assert again.spent == first.spent
    assert [step.event for step in again.trace] == [step.event for step in first.trace]
    assert len(again._release.events) == 4
    assert again.close() == first.guarantee()


def test_a_seeded_fit_resumes_to_what_it_would_have_been(tmp_path):
    whole = start(tmp_path / "whole", noise=SeededNoise(5))
    results = [whole.measure(Counts(), 0.25, str(i)).tolist() for i in range(3)]
    broken = start(tmp_path / "broken", noise=SeededNoise(5))
    broken.measure(Counts(), 0.25, "0")
    with pytest.raises(PrivbenchError):
        broken.measure(Counts(secret="x"), 0.25, "1")
    broken._release.leave()
    again = start(tmp_path / "broken", noise=SeededNoise(5), resume=broken.release_id)
    assert [again.measure(Counts(), 0.25, str(i)).tolist() for i in range(3)] == results


@pytest.mark.parametrize(
    ("query", "amount"),
    [(Counts(), 0.26), (Counts(values=(3, 2, 1)), 0.25)],
    ids=["amount", "rows"],
)
def test_a_fit_that_asks_for_something_else_cannot_resume(tmp_path, query, amount):
    first = start(tmp_path)
    first.measure(Counts(), 0.25, "one")
    first._release.leave()
    again = start(tmp_path, resume=first.release_id)
    with pytest.raises(LedgerError, match="cannot be resumed"):
        again.measure(query, amount, "one")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        ((1, (2, 3)), ((1, 2), 3)),
        (None, 0),
        (1, 1.0),
        (b"a", b"b"),
        (Domain(3), Domain(3, ordered=True)),
        (PublicArray([1, 2]), PublicArray([2, 1])),
        (PublicArray(range(6)), PublicArray(np.arange(6).reshape(2, 3))),
    ],
)
def test_fingerprints_tell_contents_apart(one, other):
    assert fingerprint(Counts(values=one)) == fingerprint(Counts(values=copy.deepcopy(one)))
    assert fingerprint(Counts(values=one)) != fingerprint(Counts(values=other))
    with pytest.raises(TypeError, match="unhashable"):
        fingerprint(Counts(values=[one]))


@pytest.mark.parametrize(
    "changed",
    [
        {"config_hash": "other"},
        {"epsilon": 2.0},
        {"noise": SeededNoise(1)},
        {"accounting": "zcdp"},
        {"public": ("public.countries",)},
    ],
)
def test_resume_requires_the_same_fit(tmp_path, changed):
    first = start(tmp_path)
    first._release.leave()
    with pytest.raises(LedgerError, match="another fit"):
        start(tmp_path, resume=first.release_id, **changed)


def test_resume_of_what_runs_is_closed_or_is_no_release_is_refused(tmp_path):
    """Ids are looked up, never opened."""
    first = start(tmp_path)
    with pytest.raises(LedgerError, match="another process"):
        start(tmp_path, resume=first.release_id)
    first.close()
    with pytest.raises(LedgerError, match="closed"):
        start(tmp_path, resume=first.release_id)
    for wrong in ("../../etc/passwd", "", "x"):
        with pytest.raises(LedgerError, match="no release"):
            start(tmp_path, resume=wrong)
