"""kill −9 at every step that changes a file: before, half-way, and after."""

import json
import multiprocessing
import os
import shutil
import signal
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from core_toys import Counts, Toy
from system_calls import die_at, killed_at

from privbench.errors import BudgetExceeded, LedgerError, PrivacyRefusal
from privbench.privacy import (
    Accountant,
    Cap,
    Fit,
    Ledger,
    Measurement,
    NoiseSource,
    UnitDefinition,
    open_session,
)
from privbench.privacy.release import Release
from privbench.privacy.store import transaction

AMOUNT = 0.125
#: Questions in the order of a fit: what one list holds is asked as one batch.
BATCHES = [
    [Measurement(Counts(), AMOUNT, "first")],
    [
        Measurement(Counts(values=(1, 2, 3, 4, 5)), AMOUNT, "second"),
        Measurement(Counts(values=(6, 7)), AMOUNT, "third"),
        Measurement(Counts(values=(8, 9, 10)), AMOUNT, "fourth"),
    ],
]
LABELS = ["first", "second", "third", "fourth"]
#: The fit of these tests.
SAME = Fit("", UnitDefinition.of(Toy().spec))


class Telling(NoiseSource):
    """Tells before every draw."""

    def __init__(self, tell):
        self.tell = tell

    def draw(self, method, exact, stream):
        self.tell(("draw", stream, None))
        return super().draw(method, exact, stream)


def fit(path, tell, resume=None):
    with start(path, noise=Telling(tell), resume=resume) as session:
        for batch in BATCHES:
            for question, noisy in zip(batch, session.measure_all(batch), strict=True):
                tell(("used", question.label, noisy.tolist()))


def child(path, pipe, step, how):
    """Run the fit and die at the step-th call that changes a file."""
    die_at(step, how)
    fit(path, lambda message: pipe.send_bytes(json.dumps(message).encode()))
    pipe.send_bytes(b"null")
    os._exit(0)


def sorted_out(told):
    """How many draws were told of, and the results that were used, by their labels."""
    told = list(told)
    draws = sum(kind == "draw" for kind, *_ in told)
    return draws, {label: value for kind, label, value in told if kind == "used"}


@dataclass
class Crash:
    finished: bool
    draws: int
    used: dict


def crash(path, step, how):
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(path, theirs, step, how))
    process.start()
    theirs.close()
    messages = []
    try:
        while True:
            messages.append(json.loads(mine.recv_bytes()))
    except EOFError:
        pass
    process.join(30)
    finished = messages[-1:] == [None]
    if not finished:
        assert process.exitcode == -signal.SIGKILL, messages
    return Crash(finished, *sorted_out(filter(None, messages)))


def crashes(tmp_path, how):
    """Every crash of one kind, or of two by turns, until a run outlives its step."""
    kinds = how.split(" or ")
    for step in range(1, 100):
        path = tmp_path / f"{how}-{step}"
        outcome = crash(path, step, kinds[step % len(kinds)])
        if outcome.finished:
            return
        yield path, outcome
    raise AssertionError("the fit never finished")


@pytest.fixture
def tmp_path(tmp_path):
    """In memory where that is possible: a kill, unlike a power cut, does not see the difference."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    "how",
    [
        "before or torn",
        "after",
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("before", "torn")),
    ],
)
def test_the_ledger_is_consistent_after_a_kill_at_any_step(tmp_path, how):
    steps = 0
    for path, outcome in crashes(tmp_path, how):
        steps += 1
        check_given_up(shutil.copytree(path, tmp_path / "copy", dirs_exist_ok=True), outcome)
        shutil.rmtree(tmp_path / "copy")
        ledger = Ledger.open(path, "shop")
        releases = ledger.show()["releases"]
        assert len(releases) <= 1
        # Whoever runs the same fit again is told of it, unless it is done.
        dead = [item["release"] for item in releases if item["state"] == "open"]
        assert list(ledger.unfinished(SAME, Accountant("pure", 1.0))) == dead
        if not releases:
            assert outcome.draws == 0
            assert outcome.used == {}
            continue
        if releases[0]["state"] == "closed":
            assert set(outcome.used) == set(LABELS)
            assert releases[0]["epsilon"] == pytest.approx(4 * AMOUNT)
            continue
        check_resumed(path, ledger, releases[0], outcome)
    assert steps >= (6 if how == "after" else 30)


def check_resumed(path, ledger, shown, outcome):
    """An open release: reserved in full, resumable, and nothing used is drawn again.

    A batch stands or falls as a whole: all of it is used or lost.
    """
    assert shown["epsilon"] == 1.0
    again = {}
    draws = 0

    def tell(message):
        nonlocal draws
        kind, label, value = message
        if kind == "draw":
            draws += 1
        else:
            again[label] = value

    fit(path, tell, resume=shown["release"])
    assert set(again) == set(LABELS)
    assert list(outcome.used) in ([], LABELS[:1], LABELS)
    for label, value in outcome.used.items():
        assert np.array_equal(again[label], value)
    closed = ledger.show()["releases"][0]
    assert closed["state"] == "closed"
    # Whatever was drawn, in either life, is charged; what was used is never drawn again.
    assert outcome.draws + draws <= closed["events"]
    assert draws <= 4 - len(outcome.used)
    lost = closed["events"] - 4
    assert lost in (0, len(BATCHES[bool(outcome.used)]))
    assert closed["epsilon"] == pytest.approx((4 + lost) * AMOUNT)


def check_given_up(path, outcome):
    """A dead release that is given up costs its events, and no less."""
    ledger = Ledger.open(path, "shop")
    for item in ledger.show()["releases"]:
        if item["state"] == "closed":
            continue
        spent = Ledger.holding(path, item["release"]).abandon(item["release"])
        closed = ledger.show()["releases"][0]
        assert closed["state"] == "closed"
        assert closed["events"] in (0, 1, 4)
        assert closed["events"] >= max(outcome.draws, len(outcome.used))
        assert spent.epsilon <= closed["epsilon"] == pytest.approx(closed["events"] * AMOUNT)


def lose(session, amount, label):
    """An event whose result is lost; the session's release is left."""
    release = session._release
    release.store = lambda drawn: (_ for _ in ()).throw(LedgerError("gone"))
    with pytest.raises(LedgerError):
        session.measure(Counts(), amount, label)
    release.leave()
    return release


def start(path, *, budget=None, **given):
    return open_session(Toy(), budget or Accountant("pure", 1.0), path, "shop", **given)


def lose_one(path):
    """A release with one event whose result was lost."""
    session = start(path)
    session.measure(Counts(), 0.5, "first")
    return lose(session, 0.375, "second").id


def releases(path):
    """State and ε of each release."""
    return [
        (item["state"], item["epsilon"]) for item in Ledger.open(path, "shop").show()["releases"]
    ]


def killed_at_each_step(tmp_path, how, act):
    """Folders of a release that lost an event, each after the action was killed at another step.

    In the last one it was not killed.
    """
    for step in range(1, 20):
        path = tmp_path / f"{how}-{step}"
        release = lose_one(path)
        killed = killed_at(step, how, partial(act, path, release))
        yield path, release
        if not killed:
            return
    raise AssertionError("the action never ended")


def give_up(path, release):
    return Ledger.holding(path, release).abandon(release).epsilon


@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_a_kill_while_a_release_is_given_up_frees_nothing_that_was_spent(tmp_path, how):
    spent, states = pytest.approx(0.875), set()
    for path, release in killed_at_each_step(tmp_path, how, give_up):
        ((state, epsilon),) = releases(path)
        states.add(state)
        assert epsilon == (1.0 if state == "open" else spent)
        if state == "open":
            assert give_up(path, release) == spent
    assert states == ({"closed"} if how == "after" else {"open", "closed"})


def resume_and_leave(path, release):
    start(path, resume=release)._release.leave()


@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_a_kill_while_a_release_is_resumed_leaves_it_to_be_resumed(tmp_path, how):
    """More is reserved for its lost event from the moment on in which it may be asked again."""
    states = set()
    for path, release in killed_at_each_step(tmp_path, how, resume_and_leave):
        states |= {*releases(path)}
        (lost,) = Ledger.open(path, "shop").unfinished(SAME, Accountant("pure", 1.0))[release]
        assert lost.label == "second"
    assert states == {("open", 1.0), ("open", 1.375)} or how == "after"


def test_a_release_whose_price_is_refused_reserves_no_more(tmp_path):
    def refuse(release):
        assert [event.label for event in release.lost] == ["second"]
        raise KeyboardInterrupt

    release, ledger = lose_one(tmp_path), Ledger.open(tmp_path, "shop")
    given = {"resume": release}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            ledger.open_release(SAME, Accountant("pure", 1.0), agree=refuse, **given)
        assert releases(tmp_path) == [("open", 1.0)]
    ledger.open_release(SAME, Accountant("pure", 1.0), **given).leave()
    assert releases(tmp_path) == [("open", 1.375)]


def test_a_lost_event_stays_spent_beside_a_full_budget(tmp_path):
    session = start(tmp_path, resume=lose_one(tmp_path))
    assert releases(tmp_path) == [("open", 1.375)]
    session.measure(Counts(), 0.5, "first")
    session.measure(Counts(), 0.375, "second")
    session.measure(Counts(), session.remaining("public.users"), "third")
    assert session.close().epsilon == pytest.approx(1.375)
    assert releases(tmp_path) == [("closed", pytest.approx(1.375))]
    assert Ledger.open(tmp_path, "shop").show()["releases"][0]["events"] == 4


def test_a_lost_event_needs_room_under_the_cap(tmp_path):
    release = lose_one(tmp_path)
    with pytest.raises(BudgetExceeded, match="cap"):
        start(tmp_path, resume=release, cap=Cap(1.2))
    start(tmp_path, resume=release, cap=Cap(1.4)).close()


def test_a_release_that_lost_too_much_is_refused_and_given_up_at_a_level(tmp_path):
    """A release goes on within levels that are in the ledger before its first event, or ends."""
    ledger, again = Ledger.open(tmp_path, "shop"), {}
    terms = Accountant("zcdp", 1.0, 1e-9).terms

    def level(share):
        return terms.level(Fraction(share) * Fraction(terms.cap)).epsilon

    def resume():
        return start(tmp_path, budget=Accountant("zcdp", 1.0, 1e-9), **again)

    session = resume()
    for share, spent, reserved in [(0.12, 1 / 8, 9 / 8), (0.48, 3 / 4, 2), (0.7, 3 / 2, None)]:
        release = lose(session, share * terms.cap, "lost")
        assert release.loss().epsilon == pytest.approx(level(spent))
        again["resume"] = release.id
        if reserved:
            session = resume()
            assert releases(tmp_path) == [("open", level(reserved))]
    with transaction(ledger.directory) as book:
        opened = next(entry for entry in book.read() if entry["type"] == "opened")
    assert tuple(opened["levels"]) == terms.levels
    assert max(terms.levels) == 2
    before = ledger.show()
    with pytest.raises(PrivacyRefusal, match="answers were lost") as refused:
        resume()
    way_out = f"privbench ledger abandon {release.id} --ledger {tmp_path}`"
    assert way_out in str(refused.value)
    assert ledger.show() == before
    assert ledger.abandon(release.id).epsilon == level(3 / 2)
    assert releases(tmp_path) == [("closed", pytest.approx(level(3 / 2)))]
    again.clear()
    resume().close()


def record_late(monkeypatch):
    """A mutant: the event reaches the disk with its result, after the draw."""
    record, store = Release.record, Release.store
    held = []
    monkeypatch.setattr(Release, "record", lambda self, events: held.append(events))

    def late(self, drawn):
        record(self, held.pop())
        store(self, drawn)

    monkeypatch.setattr(Release, "store", late)


def store_late(monkeypatch):
    """A mutant: a result is used before it is on disk."""
    store, close = Release.store, Release.close
    held = []
    monkeypatch.setattr(Release, "store", lambda self, drawn: held.append(drawn))

    def late(self):
        for drawn in held:
            store(self, drawn)
        held.clear()
        return close(self)

    monkeypatch.setattr(Release, "close", late)


def results_apart(monkeypatch):
    """A mutant: the results of a batch reach the disk one by one, each used at once."""
    store = Release.store

    def apart(self, drawn):
        for pair in drawn:
            store(self, [pair])

    monkeypatch.setattr(Release, "store", apart)


@pytest.mark.parametrize("mutant", [record_late, store_late, results_apart])
def test_the_check_catches_a_wrong_order(tmp_path, monkeypatch, mutant):
    mutant(monkeypatch)
    for path, outcome in crashes(tmp_path, "before"):
        ledger = Ledger.open(path, "shop")
        for shown in ledger.show()["releases"]:
            try:
                check_resumed(path, ledger, shown, outcome)
            except AssertionError:
                return
    pytest.fail("the mutant was not caught")
