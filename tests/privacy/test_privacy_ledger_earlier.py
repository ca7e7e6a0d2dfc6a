"""Ledgers of an earlier version, as it wrote them: converted once, and nothing is forgotten."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from core_toys import Counts, Toy
from filelock import FileLock
from system_calls import killed_at

from privbench import files
from privbench.errors import BudgetExceeded, LedgerError
from privbench.privacy import Accountant, Ledger, Measurement, open_session

WRITTEN = Path(__file__).parent / "data" / "earlier_ledger"
OPEN = "de43deca-0b66-49f5-8731-fb31d00026de"
QUESTIONS = [
    Measurement(Counts(), 0.25, "first"),
    Measurement(Counts(values=(5, 6)), 0.125, "second"),
]


@pytest.fixture
def base(tmp_path):
    return shutil.copytree(WRITTEN, tmp_path / "ledger")


@pytest.fixture
def folder(base):
    (found,) = base.iterdir()
    return found


def check(base):
    """All that the earlier version knew: a closed release, a cap, an open one with a lost event."""
    shown = Ledger.open(base, "shop").show()
    assert [item["state"] for item in shown["releases"]] == ["closed", "open"]
    assert shown["cap"] == {"epsilon": 3.0, "delta": None, "monthly": None}
    assert shown["definitions"][0]["epsilon"] == 1.1250000000000002


def lines(entries):
    """Entries as the earlier version sealed them."""
    found, seal = b"", ""
    for entry in entries:
        text = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
        seal = hashlib.sha256(seal.encode() + b"\n" + text).hexdigest()[:24]
        found += b'{"check":"%b","entry":%b}\n' % (seal.encode(), text)
    return found


def entries(path):
    return [json.loads(line)["entry"] for line in path.read_bytes().splitlines()]


def test_nothing_is_forgotten_and_the_old_file_is_kept(base, folder):
    before = (folder / "ledger.jsonl").read_bytes()
    for _ in range(2):
        check(base)
    assert (folder / "ledger.jsonl.kept").read_bytes() == before
    with pytest.raises(BudgetExceeded):
        open_session(Toy(), Accountant("pure", 2.0), base, "shop")


@pytest.mark.parametrize("single", [False, True])
def test_an_open_release_is_given_up_and_not_resumed(base, folder, single):
    """Also where its events have a line each, as before there were batches.

    Its fingerprints of queries are others than today's, so its answers cannot be used again.
    """
    path = folder / f"{OPEN}.jsonl"
    if single:
        old = []
        for entry in entries(path):
            kind = entry["type"].removesuffix("s")
            if kind in ("event", "result"):
                old += [
                    {"type": kind, **({"event": item} if kind == "event" else item)}
                    for item in entry[f"{kind}s"]
                ]
            else:
                old.append(entry)
        path.write_bytes(lines(old))
    with (
        pytest.raises(LedgerError, match="Start a new release"),
        open_session(Toy(), Accountant("pure", 1.0), base, "shop", resume=OPEN) as session,
    ):
        session.measure_all(QUESTIONS)
    assert Ledger.holding(base, OPEN).abandon(OPEN).epsilon == pytest.approx(0.5)


def test_a_torn_last_line_is_left_out(base, folder):
    """Cut anywhere, or of zeros: its fsync had not returned, so nothing was drawn."""
    paths = [folder / f"{OPEN}.jsonl", folder / "ledger.jsonl"]
    whole = paths[0].read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for stop in (last, last + 1, (last + len(whole)) // 2, len(whole) - 1, len(whole)):
        tails = [b'{"check":"ab', b"\0" * 50, b'{"check":"ab\0\0"}\n\0\0', b"\0\n\0\0"]
        for place, tail in enumerate(tails if stop == len(whole) else [b""]):
            copy = shutil.copytree(base, base.parent / f"{stop} {place}")
            for path in paths:
                kept = whole[:stop] if path is paths[0] else path.read_bytes()
                (copy / folder.name / path.name).write_bytes(kept + tail)
            check(copy)
            spent = Ledger.holding(copy, OPEN).abandon(OPEN).epsilon
            assert spent == pytest.approx(0.5 if stop == len(whole) else 0.375)


@pytest.mark.parametrize("name", ["ledger.jsonl", f"{OPEN}.jsonl"])
def test_a_damaged_file_is_not_converted(base, folder, name):
    whole = (folder / name).read_bytes()
    for place in range(0, whole.rstrip(b"\n").rfind(b"\n"), 37):
        changed = bytes([whole[place] ^ 1])
        if b"\n" in (changed, whole[place : place + 1]):
            continue
        (folder / name).write_bytes(whole[:place] + changed + whole[place + 1 :])
        with pytest.raises(LedgerError, match=f"{name} is damaged"):
            check(base)
    first, *rest = entries(folder / name)
    one, two, three, *more = whole.splitlines(keepends=True)
    orders = [[two, three], [one, three], [one, three, two]]
    of_another = lines([{**first, "config_hash": "of another"}, *rest])
    moved = [b"".join([*order, *more]) for order in orders]
    for changed in (*moved, *([of_another] if name != "ledger.jsonl" else [])):
        (folder / name).write_bytes(changed)
        with pytest.raises(LedgerError, match=f"{name} is damaged"):
            check(base)
    (folder / name).write_bytes(whole)
    check(base)


def test_conversion_beside_earlier_versions_neither_overtakes_nor_forgets(base, folder):
    """Not while they write a release, nor where they put their file back.

    They find no empty ledger: they would begin anew and spend twice. What is in its place they
    refuse as damaged.
    """
    with FileLock(folder / f"{OPEN}.lock"), pytest.raises(LedgerError, match="another process"):
        check(base)
    check(base)
    placeholder = (folder / "ledger.jsonl").read_bytes()
    assert not placeholder.startswith(b"{")
    (folder / "ledger.jsonl").write_bytes(lines(entries(folder / "ledger.jsonl.kept")[:-1]))
    with pytest.raises(LedgerError, match="beside the newer"):
        check(base)
    (folder / "ledger.jsonl").unlink()
    check(base)
    (folder / "ledger.jsonl").write_bytes(placeholder)
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(LedgerError, match="is damaged"):
        check(base)


@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_a_kill_at_any_step_of_a_conversion_loses_nothing(base, tmp_path, how):
    for step in range(1, 60):
        copy = shutil.copytree(base, tmp_path / f"copy{step}")
        killed = killed_at(step, how, lambda copy=copy: Ledger.open(copy, "shop").show())
        check(copy)
        assert Ledger.holding(copy, OPEN).abandon(OPEN).epsilon == pytest.approx(0.5)
        shutil.rmtree(copy)
        if not killed:
            return
    raise AssertionError("it was never converted")


@pytest.mark.parametrize("count", [1, 2])
def test_a_conversion_that_stops_between_its_files_goes_on(base, monkeypatch, count):
    """After the old file was copied, and after all entries are in the database."""
    real, done = files.replacing, []

    def stopping(path):
        done.append(path)
        if len(done) == count:
            raise OSError(28, "No space left on device")
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "replacing", stopping)
        with pytest.raises((LedgerError, OSError), match="No space left"):
            check(base)
    check(base)
    assert Ledger.holding(base, OPEN).abandon(OPEN).epsilon == pytest.approx(0.5)
