"""The ledger: sums, caps, unit definitions, the rights of its files."""

import json
import math
import multiprocessing
import os
import shutil
import stat

import pytest
from core_toys import CHAIN, ROWS, Counts, Toy

from privbench.errors import BudgetExceeded, LedgerError
from privbench.privacy import (
    Accountant,
    Cap,
    DatabaseSpec,
    Fit,
    Guarantee,
    KeySpec,
    Ledger,
    Measurement,
    Relation,
    SeededNoise,
    TableSpec,
    UnitDefinition,
    open_session,
)

OWNER = UnitDefinition.of(CHAIN)
ROW = UnitDefinition.of(ROWS)
REPLACE = UnitDefinition.of(DatabaseSpec(CHAIN.tables, Relation(neighbours="replace")))
ROW_REPLACE = UnitDefinition.of(DatabaseSpec(ROWS.tables, Relation("replace", "row")))


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger", "shop")


def spend(ledger, epsilon, delta=0.0, definition=OWNER, cap=None, private=True):
    release = ledger.open_release(
        Fit("config", definition, private), Accountant("pure", epsilon, delta), cap=cap
    )
    release.leave()
    return release


def total(ledger, definition):
    shown = {item["id"]: item for item in ledger.show()["definitions"]}
    return Guarantee(shown[definition.id]["epsilon"], shown[definition.id]["delta"])


def test_a_closed_release_counts_as_what_it_spent(tmp_path):
    """One without events costs nothing, and nothing is created before the first write."""
    ledger = Ledger.open(tmp_path, "shop")
    assert ledger.show()["releases"] == []
    assert not ledger.directory.exists()
    for amount in (None, 0.125, 0.5):
        with open_session(Toy(), Accountant("pure", 2.0), tmp_path, "shop") as session:
            if amount is not None:
                session.measure(Counts(), amount, "counts")
        assert total(ledger, OWNER).delta == 0.0
        assert amount is not None or total(ledger, OWNER).epsilon == 0.0
    assert total(ledger, OWNER).epsilon == pytest.approx(0.625)
    assert total(ledger, OWNER).epsilon >= 0.625
    assert [item["state"] for item in ledger.show()["releases"]] == ["closed"] * 3
    assert [item["events"] for item in ledger.show()["releases"]] == [0, 1, 1]


def test_the_cap_refuses_the_next_release(ledger):
    ledger.set_cap(Cap(1.0, 1e-6))
    for _ in range(10):
        spend(ledger, 0.1, 1e-7)
    for epsilon, delta in ((0.001, 0.0), (0.001, 1e-9)):
        with pytest.raises(BudgetExceeded, match="cap"):
            spend(ledger, epsilon, delta)
    shown = ledger.show()["releases"]
    assert [item["state"] for item in shown] == ["open"] * 10
    ledger.set_cap(Cap(2.0))
    spend(ledger, 1.0, 0.5)
    ledger.set_cap(Cap(None, 0.6))
    with pytest.raises(BudgetExceeded, match="delta"):
        spend(ledger, 0.1, 0.2)
    with pytest.raises(BudgetExceeded, match="seeded"):
        spend(ledger, 0.1, private=False)


@pytest.mark.parametrize(("own", "config"), [(1.0, 5.0), (5.0, 1.0), (None, 1.0), (1.0, None)])
def test_the_stricter_cap_wins(ledger, own, config):
    ledger.set_cap(Cap(own))
    spend(ledger, 0.9, cap=Cap(config))
    with pytest.raises(BudgetExceeded):
        spend(ledger, 0.2, cap=Cap(config))


@pytest.fixture
def at(monkeypatch):
    """``at(time)`` sets the ledger's clock."""
    return lambda time: monkeypatch.setattr("privbench.privacy.ledger._now", lambda *_: time)


def test_a_month_has_a_cap_of_its_own(ledger, at):
    """A release counts in the month in which it was opened; the next month begins at zero."""
    ledger.set_cap(Cap(monthly=1.0))
    at("2030-01-01T00:00:00+00:00")
    spend(ledger, 0.75)
    at("2030-01-31T23:59:59+00:00")
    with pytest.raises(BudgetExceeded, match=r"epsilon of 2030-01 would be 1\.25"):
        spend(ledger, 0.5)
    spend(ledger, 0.25)
    at("2030-02-01T00:00:00+00:00")
    spend(ledger, 1.0)
    with pytest.raises(BudgetExceeded, match="2030-02"):
        spend(ledger, 0.1)
    at("2030-03-01T00:00:00+00:00")
    with pytest.raises(BudgetExceeded, match="2030-03"):
        spend(ledger, 0.5, cap=Cap(monthly=0.25))
    with pytest.raises(BudgetExceeded, match=r"total epsilon would be 2\.5"):
        spend(ledger, 0.5, cap=Cap(2.25))
    (shown,) = ledger.show()["definitions"]
    assert shown["months"] == {"2030-01": 1.0, "2030-02": 1.0}
    # A month is not refused for the seeded fit of another.
    ledger.set_cap(Cap())
    spend(ledger, 0.1, private=False)
    at("2030-04-01T00:00:00+00:00")
    with pytest.raises(BudgetExceeded, match=r"epsilon of 2030-04 would be 0\.5"):
        spend(ledger, 0.5, cap=Cap(monthly=0.25))
    with pytest.raises(BudgetExceeded, match="seeded"):
        spend(ledger, 0.1, private=False, cap=Cap(monthly=0.25))


def test_a_resumed_release_counts_in_the_month_of_its_opening(tmp_path, at):
    ledger = Ledger.open(tmp_path, "shop")
    at("2030-01-31T23:00:00+00:00")
    session = open_session(Toy(), Accountant("pure", 1.0), tmp_path, "shop")
    asked = Measurement(Counts(), 0.25, "lost")
    lost = asked.event(CHAIN, asked.method(CHAIN, "pure"), private=True)
    session._release.record([lost])
    session._release.leave()
    ledger.set_cap(Cap(monthly=1.2))
    at("2030-02-01T00:00:00+00:00")
    with pytest.raises(BudgetExceeded, match=r"epsilon of 2030-01 would be 1\.25"):
        open_session(Toy(), Accountant("pure", 1.0), tmp_path, "shop", resume=session.release_id)


def test_identities_do_not_share_a_ledger(tmp_path):
    one, two = (Ledger.open(tmp_path, name) for name in ("shop", "bank"))
    one.set_cap(Cap(1.0))
    spend(one, 1.0)
    spend(two, 3.0)
    assert total(two, OWNER).epsilon == 3.0
    assert one.directory != two.directory
    shutil.copy(one.directory / "ledger.sqlite", two.directory / "ledger.sqlite")
    with pytest.raises(LedgerError, match="not of this database"):
        two.show()


def test_show_of_other_units_counts_what_they_are_promised(ledger):
    """A weaker unit's loss is infinite for a stronger one; add-remove counts twice for replace."""
    spend(ledger, 0.5)
    spend(ledger, 0.25, definition=REPLACE)
    assert total(ledger, REPLACE).epsilon == 1.25
    assert total(ledger, OWNER).epsilon == math.inf
    spend(ledger, 1.0, definition=ROW)
    assert total(ledger, OWNER) == Guarantee(math.inf, 1.0)
    shown = {item["id"]: item for item in ledger.show()["definitions"]}
    _, replaced, row = (item["release"] for item in ledger.show()["releases"])
    assert shown[OWNER.id]["infinite"] == [replaced, row]
    assert "Infinity" in json.dumps(ledger.show())


@pytest.mark.parametrize(("first", "second"), [(ROW, OWNER), (OWNER, REPLACE), (REPLACE, ROW)])
def test_a_capped_ledger_refuses_a_mixture_of_units(ledger, first, second):
    ledger.set_cap(Cap(100.0))
    spend(ledger, 0.1, definition=first)
    with pytest.raises(BudgetExceeded, match="promises its units nothing"):
        spend(ledger, 0.1, definition=second)


def test_finer_units_count_earlier_losses_twice_under_a_cap(ledger):
    """Their definition is left for good: the larger units are promised nothing any more."""
    ledger.set_cap(Cap(1.25))
    spend(ledger, 0.5)
    with pytest.raises(BudgetExceeded, match=r"would be 1\.5, over the cap"):
        spend(ledger, 0.5, definition=ROW)
    spend(ledger, 0.25, definition=ROW)
    assert total(ledger, ROW).epsilon == 1.25
    ledger.set_cap(Cap(100.0))
    with pytest.raises(BudgetExceeded, match="promises its units nothing"):
        spend(ledger, 0.1)
    spend(ledger, 0.25, definition=ROW)


FLAT = {"t": TableSpec("t", {})}
TAGGED = TableSpec("public.posts", {}, (KeySpec("tag", "public.posts", "public.tags", "own"),))
OTHER = UnitDefinition.of(DatabaseSpec({**CHAIN.tables, "public.posts": TAGGED}))
PUBLISHED = UnitDefinition.of(
    DatabaseSpec({"public.users": CHAIN.tables["public.users"]}), ["public.tags"]
)
NOTHING = Guarantee(math.inf, 1.0)


@pytest.mark.parametrize(
    ("lost", "units", "counts"),
    [
        (OWNER, OWNER, Guarantee(0.5, 1e-9)),
        (OWNER, REPLACE, Guarantee(1.0, (1 + math.exp(0.5)) * 1e-9)),
        (REPLACE, OWNER, NOTHING),
        (ROW, OWNER, NOTHING),
        (OWNER, ROW, Guarantee(1.0, (1 + math.exp(0.5)) * 1e-9)),
        (OWNER, ROW_REPLACE, Guarantee(2.0, sum(map(math.exp, (0, 0.5, 1, 1.5))) * 1e-9)),
        (REPLACE, ROW, NOTHING),
        (REPLACE, ROW_REPLACE, NOTHING),
        (OWNER, OTHER, NOTHING),
        (OTHER, OWNER, NOTHING),
        (PUBLISHED, OWNER, NOTHING),
        (OWNER, PUBLISHED, Guarantee(0.5, 1e-9)),
    ],
)
def test_what_a_loss_counts_for_other_units(lost, units, counts):
    found = lost.counted(Guarantee(0.5, 1e-9), units)
    assert (found.epsilon, found.delta) == pytest.approx((counts.epsilon, counts.delta))


def test_row_units_are_owner_units_where_nothing_is_owned():
    rows = DatabaseSpec(FLAT, Relation(unit="row"))
    assert UnitDefinition.of(DatabaseSpec(FLAT)) == UnitDefinition.of(rows)


def test_a_grown_schema_adds_to_the_same_sum(ledger):
    grown = DatabaseSpec({**CHAIN.tables, "public.new": TableSpec("public.new", {})})
    later = UnitDefinition.of(grown)
    ledger.set_cap(Cap(2.0))
    spend(ledger, 0.5)
    spend(ledger, 1.0, definition=later)
    assert total(ledger, OWNER).epsilon == 1.5
    assert total(ledger, later).epsilon == 1.5
    with pytest.raises(BudgetExceeded):
        spend(ledger, 0.75)


def test_a_fit_without_private_noise_is_stamped_and_infinite(tmp_path):
    given = Toy(), Accountant("pure", 1.0), tmp_path, "shop"
    with open_session(*given, noise=SeededNoise(1)) as session:
        session.measure(Counts(), 0.5, "counts")
        assert not session.private
        assert not session.trace[0].event.private
    ledger = Ledger.open(tmp_path, "shop")
    assert ledger.show()["releases"][0]["private"] is False
    assert total(ledger, OWNER).epsilon == math.inf
    with pytest.raises(BudgetExceeded, match="seeded"):
        spend(ledger, 0.1, cap=Cap(100.0))


def test_abandon_settles_what_was_drawn(tmp_path):
    session = open_session(Toy(), Accountant("pure", 1.0), tmp_path, "shop")
    session.measure(Counts(), 0.25, "counts")
    ledger = Ledger.open(tmp_path, "shop")
    with pytest.raises(LedgerError, match="another process"):
        ledger.abandon(session.release_id)
    session._release.leave()
    assert ledger.abandon(session.release_id).epsilon == pytest.approx(0.25)
    assert total(ledger, OWNER).epsilon == pytest.approx(0.25)
    with pytest.raises(LedgerError, match="closed"):
        ledger.abandon(session.release_id)
    with pytest.raises(LedgerError, match="no release"):
        ledger.abandon("00000000-0000-0000-0000-000000000000")


def test_files_are_the_owners_alone_and_name_nothing(ledger):
    spend(ledger, 1.0)
    assert stat.S_IMODE(os.stat(ledger.directory).st_mode) == 0o700
    for path in ledger.directory.iterdir():
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert "shop" not in str(path.relative_to(ledger.directory.parent))


def test_a_directory_that_cannot_be_made_is_said(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(LedgerError, match="cannot use"):
        spend(Ledger.open(blocker, "shop"), 1.0)


OF_LINES = b'{"check":"0","entry":{"format":1,"identity":"shop","type":"ledger"}}\n'


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("lines", [OF_LINES, b"", b"This ledger was converted"])
def test_a_ledger_of_lines_is_refused_and_not_forgotten(ledger, tmp_path, lines, beside):
    """Whether or not there is a newer file beside it, and also for databases of other names."""
    if beside:
        spend(ledger, 0.5)
    ledger.directory.mkdir(parents=True, exist_ok=True)
    path = ledger.directory / "ledger.jsonl"
    path.write_bytes(lines)
    other = Ledger.open(tmp_path / "ledger", "other")
    calls = (ledger.show, other.show, lambda: spend(ledger, 0.1), lambda: spend(other, 0.1))
    for call in (*calls, lambda: ledger.set_cap(Cap(1.0))):
        with pytest.raises(LedgerError, match="was not converted") as error:
            call()
        assert str(path) in str(error.value)
        assert "ledger show" in str(error.value.remedy)
    assert path.read_bytes() == lines
    assert (ledger.directory / "ledger.sqlite").exists() == beside


def test_a_converted_ledger_goes_on_and_needs_its_newer_file(ledger):
    """The note that the conversion left tells a converted ledger from one that was lost."""
    note = b"This ledger was converted; its entries are in ledger.sqlite.\n"
    spend(ledger, 0.5)
    (ledger.directory / "ledger.jsonl").write_bytes(note)
    spend(ledger, 0.25)
    assert total(ledger, OWNER).epsilon == pytest.approx(0.75)
    (ledger.directory / "ledger.sqlite").unlink()
    for left in ("ledger.jsonl", None):
        with pytest.raises(LedgerError, match="is damaged"):
            ledger.show()
        if left:
            (ledger.directory / left).unlink()


def _fit_under_cap(path, start, results):
    start.wait()
    try:
        spend(Ledger.open(path, "shop"), 1.0, cap=Cap(2.5))
        results.put("passed")
    except BudgetExceeded:
        results.put("refused")


def test_fits_at_once_cannot_share_the_last_of_a_cap(tmp_path):
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(4), context.Queue()
    fits = [
        context.Process(target=_fit_under_cap, args=(tmp_path, start, results)) for _ in range(4)
    ]
    for fit in fits:
        fit.start()
    answers = sorted(results.get(timeout=60) for _ in fits)
    for fit in fits:
        fit.join(60)
    assert answers == ["passed", "passed", "refused", "refused"]
    assert total(Ledger.open(tmp_path, "shop"), OWNER).epsilon == 2.0
