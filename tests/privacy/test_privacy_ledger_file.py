"""The file of a ledger: damaged, foreign, forged or full, it is refused in one line."""

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from core_toys import Counts, Toy
from sql_files import cases
from system_calls import seen_calls

from privbench.errors import LedgerError
from privbench.privacy import Accountant, Cap, Ledger, open_session
from privbench.privacy.store import FILE, make, transaction

ENTRIES = [{"n": place, "text": "é" * 900 * place, "float": 0.1 * place} for place in range(5)]


@pytest.fixture
def written(tmp_path):
    """A file with two parts, one of which fills several pages."""
    make(tmp_path)
    for entry in ENTRIES:
        with transaction(tmp_path) as book:
            book.append(entry)
            book.append({"of": entry["n"]}, "release")
    return tmp_path


def alter(folder, *statements):
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def read(folder, part=""):
    with transaction(folder) as book:
        return book.read(part)


def test_entries_are_read_as_they_were_written_and_undone_by_an_exception(written):
    assert read(written) == ENTRIES
    assert read(written, "release") == [{"of": place} for place in range(5)]
    assert read(written, "nobody") == []

    # An exception undoes the transaction.
    def broken():
        with transaction(written) as book:
            book.append({"n": 5})
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert read(written) == ENTRIES


def test_a_ledger_that_another_holds_is_waited_for_and_said_to_be_held(written, monkeypatch):
    monkeypatch.setattr("privbench.privacy.store.WAIT", 0.1)
    with transaction(written), pytest.raises(LedgerError, match="another process holds"):
        read(written)
    assert read(written) == ENTRIES


def test_a_changed_byte_is_found_or_changes_nothing(written):
    whole = (written / FILE).read_bytes()
    found = 0
    header = [(place, bit) for place in range(100) for bit in (1, 128)]
    for place, bit in [*header, *zip(range(100, len(whole), 61), itertools.cycle((1, 128)))]:
        changed = bytes([whole[place] ^ bit])
        (written / FILE).write_bytes(whole[:place] + changed + whole[place + 1 :])
        try:
            assert read(written) == ENTRIES
            assert read(written, "release") == [{"of": number} for number in range(5)]
        except LedgerError:
            found += 1
        for left in written.glob(FILE + "-*"):
            left.unlink()
    assert found > 100


@pytest.mark.parametrize("length", [0, 1, 50, 100, 4096, 5000, -4096])
def test_a_file_that_was_cut_off_is_damaged(written, length):
    whole = (written / FILE).read_bytes()
    (written / FILE).write_bytes(whole[:length])
    with pytest.raises(LedgerError, match="is damaged"):
        read(written)


@pytest.mark.parametrize(("message", "statement"), cases(__file__, "altered"))
def test_a_database_that_was_altered_is_refused(written, message, statement):
    alter(written, statement)
    if message == "nothing":
        assert read(written) == []
        return
    with pytest.raises(LedgerError, match=message):
        read(written)


@pytest.mark.parametrize("content", [b"mine", b"\0" * 4096, b"SQLite format 3\0" * 10, "mine"])
def test_a_file_of_another_kind_is_left_alone(tmp_path, content):
    if isinstance(content, bytes):
        (tmp_path / FILE).write_bytes(content)
    else:
        alter(tmp_path, f"CREATE TABLE {content} (x)")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(LedgerError, match="is damaged" if content == before else "is no ledger"):
        read(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize(
    "lost",
    [
        "file",
        "part = ''",
        "part = '' AND number > 0",
        "part = '' AND number = 0",
        "part <> '' AND number = (SELECT max(number) FROM entries WHERE part <> '')",
    ],
)
def test_a_ledger_that_lost_entries_does_not_begin_anew(tmp_path, lost):
    """Also under a running fit, whose entries must follow those that it has written."""
    session = open_session(Toy(), Accountant("pure", 1.0), tmp_path, "shop")
    session.measure(Counts(), 0.25, "first")
    ledger = Ledger.open(tmp_path, "shop")
    if lost == "file":
        (ledger.directory / FILE).unlink()
    else:
        alter(ledger.directory, f"DELETE FROM entries WHERE {lost}")

    def use():
        if "<>" in lost:
            session.measure(Counts(), 0.25, "second")
        else:
            Ledger.open(tmp_path, "shop").show()

    with pytest.raises(LedgerError, match="is damaged"):
        use()


def test_a_ledger_of_which_nothing_is_known_is_not_passed_over(tmp_path, monkeypatch):
    """A folder of another user's; what it holds may count."""
    Ledger.open(tmp_path, "shop").set_cap(Cap(1.0))
    real = Path.lstat

    def refused(path):
        if path.name.startswith("ledger."):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "lstat", refused)
    with pytest.raises(LedgerError, match="Permission denied"):
        Ledger.open(tmp_path, "other").show()


def test_a_commit_waits_for_the_folder(written):
    """The deletion of the journal is the commit: until the folder has it, a power cut undoes it."""
    with seen_calls() as calls, transaction(written) as book:
        book.append({"n": 5})
    assert calls[-2:] == ["unlink", "openDirectory"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda opened: {"type": "opened", "release": opened["release"]},
        lambda opened: {**opened, "release": "../x"},  # Files are named by it.
    ],
)
def test_entries_of_no_sense_are_damage(tmp_path, spoil):
    open_session(Toy(), Accountant("pure", 1.0), tmp_path, "shop").close()
    ledger = Ledger.open(tmp_path, "shop")
    with transaction(ledger.directory) as book:
        opened = next(entry for entry in book.read() if entry["type"] == "opened")
        book.append(spoil(opened))
    with pytest.raises(LedgerError, match="is damaged"):
        ledger.show()


def test_a_release_that_could_not_write_once_writes_no_more(tmp_path):
    session = open_session(Toy(), Accountant("pure", 1.0), tmp_path, "shop")
    session.measure(Counts(), 0.125, "first")
    folder = Ledger.open(tmp_path, "shop").directory
    (folder / FILE).rename(folder / "away")
    (folder / FILE).mkdir()
    with pytest.raises(LedgerError, match="cannot use"):
        session.measure(Counts(), 0.125, "second")
    (folder / FILE).rmdir()
    (folder / "away").rename(folder / FILE)
    with pytest.raises(LedgerError, match="is closed"):
        session.measure(Counts(), 0.125, "third")
    assert Ledger.open(tmp_path, "shop").abandon(session.release_id).epsilon == 0.125
