"""The file of a ledger: a SQLite database to which entries are only added.

Entries are in *parts*: the ledger's own part (named ``""``: openings, closings, caps), and for each
release a part that is named by its id (its events and results). Every entry has a seal: a hash of
the previous seal in its part and of its own text. So an entry that was changed, swapped or removed
before others is detected. ``PRAGMA quick_check`` finds damage to the rest of the file. Nothing in
the file can show that the last entries of a part are missing, as in a file that was restored from
an older copy. Seals are not signatures: whoever may write the file can compute them.

A transaction counts whole or not at all, wherever the process is killed or the power fails. It is
durable once it has returned: ``synchronous = EXTRA`` waits for the folder as well, in which the
deletion of the rollback journal is the commit. There is no write-ahead log, which needs memory that
is shared between processes and therefore fails on network file systems.

Nothing in the file is trusted: any table except the expected one is refused before an entry is
read.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock, Timeout

from privbench.errors import LedgerError, ReleaseInUse

FILE = "ledger.sqlite"

#: "PvLg" in ASCII: the application id by which ``file`` and this module recognise a ledger.
_APPLICATION = 0x50764C67
_VERSION = 1
_TABLE = (
    "CREATE TABLE entries (part TEXT NOT NULL, number INTEGER NOT NULL, entry TEXT NOT NULL,"
    " seal TEXT NOT NULL, PRIMARY KEY (part, number)) WITHOUT ROWID"
)

#: Seconds to wait for another process, whose transactions take milliseconds.
WAIT = 60

_UNUSABLE = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}


class Book:
    """A ledger's file, read and written within a transaction."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._sound = False

    def parts(self) -> set[str]:
        """Return the names of the parts that have entries."""
        return {part for (part,) in self._connection.execute("SELECT DISTINCT part FROM entries")}

    def read(self, part: str = "") -> list[dict[str, Any]]:
        """Return all entries of a part, in order."""
        if not self._sound:
            self._sound = self._connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
        if not self._sound:
            raise damaged(self.path)
        entries, seal = [], ""
        rows = "SELECT number, entry, seal FROM entries WHERE part = ? ORDER BY number"
        for place, (number, text, stored_seal) in enumerate(
            self._connection.execute(rows, (part,))
        ):
            seal = sealed(seal, str(text).encode())
            if (number, stored_seal) != (place, seal):
                raise damaged(self.path)
            entries.append(json.loads(text))
        return entries

    def append(self, entry: dict[str, Any], part: str = "") -> int:
        """Add an entry, which counts once the transaction is committed.

        Returns how many entries the part had before.
        """
        last = "SELECT number, seal FROM entries WHERE part = ? ORDER BY number DESC LIMIT 1"
        number, seal = self._connection.execute(last, (part,)).fetchone() or (-1, "")
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)
        row = (part, number + 1, text, sealed(seal, text.encode()))
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
        return int(number) + 1


def make(folder: Path) -> None:
    """Create a ledger without entries if there is none; the caller holds the folder's lock.

    The file gets its name only once it is complete, so a file without bytes must be damaged.
    """
    path = folder / FILE
    if there(path):
        return
    try:
        # The file is made in a folder that only its owner can enter, so nobody can open it before
        # its permissions are set; SQLite gives the same permissions to its journal.
        with TemporaryDirectory(dir=folder, prefix=".new-") as place:
            new = Path(place) / FILE
            with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                for statement in (
                    "PRAGMA synchronous = EXTRA",
                    "BEGIN",
                    f"PRAGMA application_id = {_APPLICATION}",
                    f"PRAGMA user_version = {_VERSION}",
                    _TABLE,
                    "COMMIT",
                ):
                    connection.execute(statement)
            new.chmod(0o600)
            new.replace(path)
        sync_folder(folder)
    except OSError as error:
        raise unusable(path, error.strerror) from None
    except sqlite3.Error as error:
        raise unusable(path, error) from None


@contextmanager
def transaction(folder: Path) -> Iterator[Book]:
    """Give one exclusive transaction on the ledger that `make` has created in a folder.

    An exception rolls it back. Waits for other processes.
    """
    path = folder / FILE
    try:
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, WAIT, 0, None, uri=True)) as connection:
            for pragma in ("trusted_schema = OFF", "synchronous = EXTRA", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            _verify(path, connection)
            yield Book(path, connection)
            connection.execute("COMMIT")
    except OSError as error:
        raise unusable(path, error.strerror) from None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite's message about a malformed schema quotes the schema, which need not be text.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            raise LedgerError(f"another process holds the ledger {path}.") from None
        raise (unusable(path, str(error)) if code in _UNUSABLE else damaged(path)) from None


def _verify(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that is anything but a ledger."""

    def ask(question: str) -> list[Any]:
        return connection.execute(question).fetchall()

    pragmas = [ask(f"PRAGMA {name}")[0][0] for name in ("application_id", "user_version")]
    schema = ask("SELECT type, name, tbl_name, sql FROM sqlite_master")
    if schema and pragmas[0] != _APPLICATION:
        raise LedgerError(f"the file {path} is no ledger.", remedy="Move it away.")
    elif pragmas[1] > _VERSION:
        raise LedgerError(
            f"the ledger file {path} was written by a later version of privbench.",
            remedy="Use that version or a newer one.",
        )
    elif pragmas != [_APPLICATION, _VERSION] or schema != [("table", "entries", "entries", _TABLE)]:
        raise damaged(path)
    elif ask("PRAGMA journal_mode") != [("delete",)]:
        raise LedgerError(
            f"the ledger file {path} was switched to a write-ahead log.",
            remedy=f"Switch it back: sqlite3 {path} 'PRAGMA journal_mode = DELETE'.",
        )


def lock(path: Path, wait: float, what: str) -> FileLock:
    """Take a lock between processes, held until it is released or the process ends."""
    file_lock = FileLock(str(path), timeout=wait, mode=0o600, thread_local=False)
    with usable(path):
        try:
            file_lock.acquire()
        except Timeout:
            raise ReleaseInUse(f"{what} is being written by another process.") from None
    return file_lock


def sync_folder(path: Path) -> None:
    """Make a new name in a folder durable; in the ledger's own folder SQLite does that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def there(path: Path) -> bool:
    """Return whether a path exists; a dangling symbolic link counts as existing.

    A LedgerError is raised if the user may not find out, since a privacy loss could be missed.
    """
    with usable(path):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def sealed(previous: str, text: bytes) -> str:
    """Return the seal of an entry, from the previous seal and the entry's text."""
    return hashlib.sha256(previous.encode() + b"\n" + text).hexdigest()[:24]


def damaged(path: Path) -> LedgerError:
    """Return the error for a file whose entries cannot all be trusted.

    A guess could miss a loss.
    """
    return LedgerError(
        f"the ledger file {path} is damaged.",
        remedy="Restore it from a copy: what it has lost would be spent a second time.",
    )


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn errors of the system into a `LedgerError` on a file, within this context."""
    try:
        yield
    except OSError as error:
        raise unusable(path, error.strerror) from None


def unusable(path: Path, reason: object) -> LedgerError:
    """Return the error for a file that cannot be read or written."""
    return LedgerError(
        f"cannot use the ledger file {path}: {reason}.",
        remedy="Give [ledger] path a directory that this user may write, with room left.",
    )
