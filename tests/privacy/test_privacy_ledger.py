"""The ledger: sums, caps, unit definitions, the rights of its files."""

import json
import math
import multiprocessing
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
GROWN = UnitDefinition.of(DatabaseSpec({**CHAIN.tables, "public.new": TableSpec("public.new", {})}))


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger", "shop")


def spend(ledger, epsilon, delta=0.0, definition=OWNER, cap=None, private=True):
    """Open a release, and leave it as a fit that died does."""
    fit = Fit("config", definition, private)
    ledger.open_release(fit, Accountant("pure", epsilon, delta), cap=cap).leave()


def total(ledger, definition=OWNER):
    """What the units of a definition are promised by all releases."""
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
        assert amount is not None or total(ledger) == Guarantee(0.0, 0.0)
    assert total(ledger) == Guarantee(pytest.approx(0.625), 0.0)
    assert total(ledger).epsilon >= 0.625
    states = [(item["state"], item["events"]) for item in ledger.show()["releases"]]
    assert states == [("closed", 0), ("closed", 1), ("closed", 1)]


NOTHING = "promises its units nothing"
#: Steps on one ledger: a cap that is set, the time, and releases of ε, the last of which says why
#: it is refused.
CAPS = {
    "the sum of ε and that of δ": [
        Cap(1.0, 1e-6), *[(0.1, {"delta": 1e-7})] * 10,
        (0.001, {}, "cap"), (0.001, {"delta": 1e-9}, "cap"),
    ],
    "δ alone": [Cap(None, 0.6), (1.0, {"delta": 0.5}), (0.1, {"delta": 0.2}, "delta")],
    "a fit without private noise": [Cap(100.0), (0.1, {"private": False}, "seeded")],
    "after a fit without private noise": [
        (0.1, {"private": False}), (0.1, {"cap": Cap(100.0)}, "seeded")],
    **{
        f"the stricter of {ours} and {theirs}": [
            Cap(ours), (0.9, {"cap": Cap(theirs)}), (0.2, {"cap": Cap(theirs)}, "cap")]
        for ours, theirs in ((1.0, 5.0), (5.0, 1.0), (None, 1.0), (1.0, None))
    },
    "months, which begin at zero": [
        Cap(monthly=1.0),
        "2030-01-01T00:00:00+00:00", (0.75, {}),
        "2030-01-31T23:59:59+00:00", (0.5, {}, r"epsilon of 2030-01 would be 1\.25"), (0.25, {}),
        "2030-02-01T00:00:00+00:00", (1.0, {}), (0.1, {}, "2030-02"),
        "2030-03-01T00:00:00+00:00", (0.5, {"cap": Cap(monthly=0.25)}, "2030-03"),
        (0.5, {"cap": Cap(2.25)}, r"total epsilon would be 2\.5"),
    ],
    "a month after the seeded fit of another": [
        "2030-03-01T00:00:00+00:00", (0.1, {"private": False}),
        "2030-04-01T00:00:00+00:00", (0.5, {"cap": Cap(monthly=0.25)}, r"2030-04 would be 0\.5"),
        (0.1, {"private": False, "cap": Cap(monthly=0.25)}, "seeded"),
    ],
    "rows after owners": [
        Cap(1.25), (0.5, {}), (0.5, {"definition": ROW}, r"would be 1\.5, over the cap"),
        (0.25, {"definition": ROW}), Cap(100.0), (0.1, {}, NOTHING), (0.25, {"definition": ROW}),
    ],
    "owners after rows": [Cap(100.0), (0.1, {"definition": ROW}), (0.1, {}, NOTHING)],
    "replace after add-remove": [Cap(100.0), (0.1, {}), (0.1, {"definition": REPLACE}, NOTHING)],
    "rows after replace": [
        Cap(100.0), (0.1, {"definition": REPLACE}), (0.1, {"definition": ROW}, NOTHING)],
    "a schema that has grown": [
        Cap(2.0), (0.5, {}), (1.0, {"definition": GROWN}), (0.75, {}, r"2\.25")],
}  # fmt: skip


@pytest.fixture
def at(monkeypatch):
    """``at(time)`` sets the ledger's clock."""
    return lambda time: monkeypatch.setattr("privbench.privacy.ledger._now", lambda *_: time)


@pytest.mark.parametrize("case", CAPS)
def test_a_cap_refuses_the_release_that_would_pass_it(ledger, at, case):
    for step in CAPS[case]:
        match step:
            case Cap():
                ledger.set_cap(step)
            case str():
                at(step)
            case (epsilon, given):
                spend(ledger, epsilon, **given)
            case (epsilon, given, said):
                before = ledger.show()["releases"]
                with pytest.raises(BudgetExceeded, match=said):
                    spend(ledger, epsilon, **given)
                assert ledger.show()["releases"] == before


def test_months_are_shown(ledger, at):
    for month in ("2030-01", "2030-02"):
        at(f"{month}-28T00:00:00+00:00")
        spend(ledger, 1.0)
    (shown,) = ledger.show()["definitions"]
    assert shown["months"] == {"2030-01": 1.0, "2030-02": 1.0}


def test_a_resumed_release_counts_in_the_month_of_its_opening(tmp_path, at):
    ledger, given = (
        Ledger.open(tmp_path, "shop"),
        (Toy(), Accountant("pure", 1.0), tmp_path, "shop"),
    )
    at("2030-01-31T23:00:00+00:00")
    session = open_session(*given)
    asked = Measurement(Counts(), 0.25, "lost")
    session._release.record([asked.event(CHAIN, asked.method(CHAIN, "pure"), private=True)])
    session._release.leave()
    ledger.set_cap(Cap(monthly=1.2))
    at("2030-02-01T00:00:00+00:00")
    with pytest.raises(BudgetExceeded, match=r"epsilon of 2030-01 would be 1\.25"):
        open_session(*given, resume=session.release_id)


def test_identities_do_not_share_a_ledger(tmp_path):
    one, two = (Ledger.open(tmp_path, name) for name in ("shop", "bank"))
    one.set_cap(Cap(1.0))
    spend(one, 1.0)
    spend(two, 3.0)
    assert total(two).epsilon == 3.0
    shutil.copy(one.directory / "ledger.sqlite", two.directory / "ledger.sqlite")
    with pytest.raises(LedgerError, match="not of this database"):
        two.show()


def test_what_is_shown_counts_a_weaker_units_loss_as_infinite(ledger):
    spend(ledger, 0.5)
    spend(ledger, 0.25, definition=REPLACE)
    assert total(ledger, REPLACE).epsilon == 1.25
    spend(ledger, 1.0, definition=GROWN)
    spend(ledger, 1.0, definition=ROW)
    assert total(ledger) == Guarantee(math.inf, 1.0)
    shown = {item["id"]: item for item in ledger.show()["definitions"]}
    _, replaced, _, row = (item["release"] for item in ledger.show()["releases"])
    assert shown[OWNER.id]["infinite"] == [replaced, row]
    assert "Infinity" in json.dumps(ledger.show())


TAGGED = TableSpec("public.posts", {}, (KeySpec("tag", "public.posts", "public.tags", "own"),))
OTHER = UnitDefinition.of(DatabaseSpec({**CHAIN.tables, "public.posts": TAGGED}))
PUBLISHED = UnitDefinition.of(
    DatabaseSpec({"public.users": CHAIN.tables["public.users"]}), ["public.tags"]
)
ONCE, NEVER = Guarantee(0.5, 1e-9), Guarantee(math.inf, 1.0)
TWICE = Guarantee(1.0, (1 + math.exp(0.5)) * 1e-9)


@pytest.mark.parametrize(
    ("lost", "units", "counts"),
    [
        (OWNER, OWNER, ONCE),
        (OWNER, REPLACE, TWICE),
        (REPLACE, OWNER, NEVER),
        (ROW, OWNER, NEVER),
        (OWNER, ROW, TWICE),
        (OWNER, ROW_REPLACE, Guarantee(2.0, sum(map(math.exp, (0, 0.5, 1, 1.5))) * 1e-9)),
        (REPLACE, ROW, NEVER),
        (REPLACE, ROW_REPLACE, NEVER),
        (OWNER, OTHER, NEVER),
        (OTHER, OWNER, NEVER),
        (PUBLISHED, OWNER, NEVER),
        (OWNER, PUBLISHED, ONCE),
        (OWNER, GROWN, ONCE),
        (GROWN, OWNER, ONCE),
    ],
)
def test_what_a_loss_counts_for_other_units(lost, units, counts):
    promised = lost.counted(ONCE, units)
    assert (promised.epsilon, promised.delta) == pytest.approx((counts.epsilon, counts.delta))


def test_row_units_are_owner_units_where_nothing_is_owned():
    flat = {"t": TableSpec("t", {})}
    rows = DatabaseSpec(flat, Relation(unit="row"))
    assert UnitDefinition.of(DatabaseSpec(flat)) == UnitDefinition.of(rows)


def test_a_fit_without_private_noise_is_stamped_and_infinite(tmp_path):
    given = Toy(), Accountant("pure", 1.0), tmp_path, "shop"
    with open_session(*given, noise=SeededNoise(1)) as session:
        session.measure(Counts(), 0.5, "counts")
        assert not session.private
        assert not session.trace[0].event.private
    ledger = Ledger.open(tmp_path, "shop")
    assert ledger.show()["releases"][0]["private"] is False
    assert total(ledger).epsilon == math.inf


def test_abandon_settles_what_was_drawn(tmp_path):
    session = open_session(Toy(), Accountant("pure", 1.0), tmp_path, "shop")
    session.measure(Counts(), 0.25, "counts")
    ledger = Ledger.open(tmp_path, "shop")
    with pytest.raises(LedgerError, match="another process"):
        ledger.abandon(session.release_id)
    session._release.leave()
    assert ledger.abandon(session.release_id).epsilon == pytest.approx(0.25)
    assert total(ledger).epsilon == pytest.approx(0.25)
    with pytest.raises(LedgerError, match="closed"):
        ledger.abandon(session.release_id)
    with pytest.raises(LedgerError, match="no release"):
        ledger.abandon("00000000-0000-0000-0000-000000000000")


def test_files_are_the_owners_alone_and_name_nothing(ledger):
    spend(ledger, 1.0)
    assert stat.S_IMODE(ledger.directory.stat().st_mode) == 0o700
    for path in ledger.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "shop" not in str(path.relative_to(ledger.directory.parent))


def test_a_directory_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot use"):
        spend(Ledger.open(tmp_path / "file", "shop"), 1.0)


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
    spend(ledger, 0.5)
    note = ledger.directory / "ledger.jsonl"
    note.write_bytes(b"This ledger was converted; its entries are in ledger.sqlite.\n")
    spend(ledger, 0.25)
    assert total(ledger).epsilon == pytest.approx(0.75)
    (ledger.directory / "ledger.sqlite").unlink()
    for _ in range(2):
        with pytest.raises(LedgerError, match="is damaged"):
            ledger.show()
        note.unlink(missing_ok=True)


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
    given = tmp_path, start, results
    fits = [context.Process(target=_fit_under_cap, args=given) for _ in range(4)]
    for fit in fits:
        fit.start()
    answers = sorted(results.get(timeout=60) for _ in fits)
    for fit in fits:
        fit.join(60)
    assert answers == ["passed", "passed", "refused", "refused"]
    assert total(Ledger.open(tmp_path, "shop")).epsilon == 2.0
