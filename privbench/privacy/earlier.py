"""Converts ledgers of earlier versions, which were files of JSON lines, to SQLite databases.

An earlier version kept ``ledger.jsonl`` (openings, closings, caps) and ``<release>.jsonl`` (events
and results), with the same seals line by line. A last line without its newline, or with bytes that
the disk never wrote (zeros), is *torn*: its fsync had not returned, nothing was done on the
strength of it, and it is left out. Anything else that does not fit its seal is damage.

The conversion has three steps; a kill after any of them loses nothing:

1. ``ledger.jsonl`` is copied to ``ledger.jsonl.kept``;
2. all entries go into the database, in one transaction;
3. a note replaces the content of ``ledger.jsonl``: earlier versions cannot read it and stop,
   instead of starting a second ledger beside the first.

The files of releases stay as they are; those of closed releases are never read again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from filelock import FileLock, Timeout

from privbench import files
from privbench.errors import LedgerError, ReleaseInUse
from privbench.privacy.standing import Standing
from privbench.privacy.store import (
    FILE,
    WAIT,
    Entry,
    damaged,
    make,
    sealed,
    there,
    transaction,
    usable,
)

_NOTE = f"This ledger was converted; its entries are in {FILE}.\n".encode()
_LINE = re.compile(rb'\{"check":"(?P<check>[0-9a-f]{24})","entry":(?P<entry>\{.*\})\}')


def convert(folder: Path) -> None:
    """Convert a folder's ledger, unless that was done before or the folder has none.

    The ledger must not be in use by an earlier version, and no earlier version may have written to
    it after its conversion.
    """
    old, kept, new = folder / "ledger.jsonl", folder / "ledger.jsonl.kept", folder / FILE
    if not there(old):
        # A ledger is made before its first release is locked, so if there are locks of releases and
        # no ledger, the ledger was lost.
        if any(folder.glob("*-*.lock")) and not there(new):
            raise damaged(new)
        return
    with ExitStack() as stack:
        stack.callback(lock(folder).release)
        data = _read(old)
        if data == _NOTE:
            if not there(new):
                raise damaged(new)
            return
        entries = list(_entries(old))
        try:
            accounts = Standing(entries[1:]).accounts.values()
        except (AttributeError, KeyError, TypeError, ValueError):
            raise damaged(old) from None
        opened = [account for account in accounts if account.spent is None]
        for account in opened:
            stack.callback(lock_release(folder, account.id).release)
        make(folder)
        with transaction(folder) as book:
            if book.read() and _read(kept) != data:
                raise LedgerError(
                    f"{old} is a ledger of an earlier version beside the newer {FILE}.",
                    remedy="If it is a copy that was put back, move it away.",
                )
            if not book.read():
                _replace(kept, data)
                for entry in entries:
                    book.append(entry)
                for account in opened:
                    for batch in _batches(folder / f"{account.id}.jsonl", account.header):
                        book.append(batch, account.id)
        _replace(old, _NOTE)


def lock(folder: Path) -> FileLock:
    """Take the lock of a folder; wait for other processes.

    Under that of a ledger its file is made, under that of all ledgers releases are opened.
    """
    return _lock(folder / "ledger.lock", WAIT, f"the ledger in {folder}")


def lock_release(folder: Path, release_id: str) -> FileLock:
    """Take the lock that a release holds from its opening to its closing; do not wait for it."""
    return _lock(folder / f"{release_id}.lock", 0, f"release {release_id}")


def _lock(path: Path, wait: float, what: str) -> FileLock:
    """A lock between processes, held until it is released or the process ends."""
    held = FileLock(str(path), timeout=wait, mode=0o600, thread_local=False)
    with usable(path):
        try:
            held.acquire()
        except Timeout:
            raise ReleaseInUse(f"{what} is being written by another process.") from None
    return held


def _batches(path: Path, header: Entry) -> Iterator[Entry]:
    """A release's events and results as batches; old files have a line for each of them."""
    for entry in _entries(path):
        kind = entry.pop("type")
        if kind == "release" and entry != header:
            raise damaged(path)
        if kind == "event":
            yield {"type": "events", "events": [entry["event"]]}
        elif kind == "result":
            yield {"type": "results", "results": [entry]}
        elif kind != "release":
            yield {"type": kind, **entry}


def _entries(path: Path) -> Iterator[Entry]:
    """All whole entries of a file of lines; a torn last line is left out."""
    data, end, seal = _read(path), 0, ""
    while end < len(data):
        stop = data.find(b"\n", end)
        line = data[end:stop] if stop >= 0 else data[end:]
        if stop < 0 or (b"\0" in line and not data[stop + 1 :].strip(b"\0")):
            return
        match = _LINE.fullmatch(line)
        seal = sealed(seal, match["entry"]) if match else ""
        if not match or seal != match["check"].decode():
            raise damaged(path)
        yield json.loads(match["entry"])
        end = stop + 1


def _replace(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all, and wait until the disk holds it."""
    with usable(path), files.replacing(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> bytes:
    with usable(path):
        return path.read_bytes() if there(path) else b""
