"""An append-only file of JSON lines that survives a crash at any byte.

Every line carries a check: a hash of the check before it and of its own text. A line counts once
`Journal.append` has returned, that is, once it is whole and fsynced. What may be found after a
crash:

* a last line without its newline, or with bytes that the disk never wrote (zeros): *torn*. The
  fsync had not returned, so nothing was done on the strength of it; it is cut off before the next
  append;
* anything else that does not fit its check: damage, and `LedgerError`. Guessing would forget a
  loss.

The caller holds a lock for as long as it appends.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from privbench.errors import LedgerError

Entry = dict[str, Any]

_LINE = re.compile(rb'\{"check":"(?P<check>[0-9a-f]{24})","entry":(?P<entry>\{.*\})\}')


class Journal:
    """One file; entries are JSON objects."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0
        self._check = ""
        self._broken = False

    def first(self) -> Entry | None:
        """The first whole entry, if there is one.

        Raises:
            LedgerError: It is damaged, or the file cannot be read.
        """
        return next(iter(Journal(self.path)._whole(1)), None)

    def read(self) -> list[Entry]:
        """All whole entries; a torn last line is left out.

        Raises:
            LedgerError: A line before the last is damaged, or the file cannot be read.
        """
        return self._whole(None)

    def _whole(self, most: int | None) -> list[Entry]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise _failure("read", self.path, error) from None
        self._end, self._check = 0, ""
        entries: list[Entry] = []
        while self._end < len(data) and len(entries) != most:
            stop = data.find(b"\n", self._end)
            line = data[self._end : stop] if stop >= 0 else data[self._end :]
            if stop < 0 or (b"\0" in line and not data[stop + 1 :].strip(b"\0")):
                break
            entries.append(self._parse(line))
            self._end = stop + 1
        return entries

    @property
    def empty(self) -> bool:
        """Whether the last `read` found no entry and none was appended since."""
        return self._end == 0

    def append(self, entry: Entry) -> None:
        """Write one entry and wait until the disk holds it.

        Raises:
            LedgerError: It cannot be written; the entry then counts or not as the disk decides,
                and this object refuses further appends.
        """
        if self._broken:
            raise LedgerError(f"the ledger file {self.path} failed before.")
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        check = _chain(self._check, text)
        line = b'{"check":"%b","entry":%b}\n' % (check.encode(), text)
        self._broken = True
        try:
            created = not self.path.exists()
            self._write(line)
            if created:
                sync_directory(self.path.parent)
        except OSError as error:
            raise _failure("write", self.path, error) from None
        self._broken = False
        self._end, self._check = self._end + len(line), check

    def _write(self, line: bytes) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, self._end)
            os.lseek(descriptor, self._end, os.SEEK_SET)
            left = memoryview(line)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _parse(self, line: bytes) -> Entry:
        match = _LINE.fullmatch(line)
        if match is None:
            raise self._damage()
        check = _chain(self._check, match["entry"])
        if check != match["check"].decode():
            raise self._damage()
        self._check = check
        entry: Entry = json.loads(match["entry"])
        return entry

    def _damage(self) -> LedgerError:
        return LedgerError(
            f"the ledger file {self.path} is damaged after byte {self._end}.",
            remedy="Restore it from a copy: what it has lost would be spent a second time.",
        )


def sync_directory(path: Path) -> None:
    """Make a new name in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _chain(previous: str, text: bytes) -> str:
    return hashlib.sha256(previous.encode() + b"\n" + text).hexdigest()[:24]


def _failure(verb: str, path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        f"cannot {verb} the ledger file {path}: {error.strerror}.",
        remedy="Give [ledger] path a directory that this user may write.",
    )
