"""Turn errors of psycopg and libpq into errors that are safe to show.

PostgreSQL puts row values into many messages (``invalid input syntax for type integer: "…"``, ``Key
(ssn)=(…) already exists``), so a message is passed on only for SQLSTATE classes whose messages
consist of names and settings. Other errors are described by the SQLSTATE, the table, the column and
the constraint.
"""

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg import errors

from privbench.errors import AccessDenied, ConnectionFailed, DatabaseError
from privbench.schema import TableName

#: Connection, feature, transaction state, login, catalog, name, permission, resources, locks,
#: operator intervention, system: messages of these classes hold names and settings only.
_SAFE_CLASSES = frozenset({"08", "0A", "25", "28", "3D", "3F", "42", "53", "55", "57", "58"})
#: The remedy for bytes that cannot be decoded as text.
NO_TEXT = (
    "The database is in an encoding, such as SQL_ASCII, that takes bytes which are no UTF-8: "
    "repair them, or leave the table out."
)
#: Remedies by kind of error. A SerializationFailure means that a standby's recovery has cancelled a
#: read.
_REMEDIES: dict[type[psycopg.Error], str] = {
    errors.UntranslatableCharacter: NO_TEXT,
    errors.CharacterNotInRepertoire: NO_TEXT,
    errors.OutOfMemory: "Many tables in one transaction need many locks: raise "
    "max_locks_per_transaction.",
    errors.SerializationFailure: "On a standby set hot_standby_feedback = on, or a longer "
    "max_standby_streaming_delay.",
}
_CUT_OFF = ("08", "57P")
_NAMES = {
    errors.UntranslatableCharacter: "a character has no equivalent in UTF-8",
    errors.CharacterNotInRepertoire: "bytes are no UTF-8 text",
    errors.SerializationFailure: "the reading conflicts with what the standby takes over",
    errors.QueryCanceled: "the statement was cancelled or passed its time-out",
    errors.LockNotAvailable: "a lock was not granted in time",
    errors.UniqueViolation: "a unique constraint is violated",
    errors.ForeignKeyViolation: "a foreign key is violated",
    errors.CheckViolation: "a CHECK constraint is violated",
    errors.NotNullViolation: "a NOT NULL constraint is violated",
    errors.ExclusionViolation: "an exclusion constraint is violated",
}


def describe(error: psycopg.Error) -> str:
    """Return the server's message without any value from a row."""
    state = error.sqlstate or ""
    named = next((text for kind, text in _NAMES.items() if isinstance(error, kind)), None)
    if named is None and state[:2] in _SAFE_CLASSES:
        named = error.diag.message_primary
    if named is None:
        named = f"the server reported {type(error).__name__}"
    constraint = error.diag.constraint_name
    return (
        f"{named}{f', constraint {constraint!r}' if constraint else ''} (SQLSTATE {state or '?'})"
    )


def translate(error: psycopg.Error, what: str, table: str | None = None) -> DatabaseError:
    """Return the privbench error for an error of psycopg.

    ``what`` is a noun phrase for the action that failed: ``reading the catalog``. The error's table
    is the one that the server names, else the given one.
    """
    state = error.sqlstate or ""
    diag = error.diag
    if diag.schema_name and diag.table_name:
        table = str(TableName(diag.schema_name, diag.table_name))
    message = f"{what}: {describe(error)}."
    if isinstance(error, errors.InsufficientPrivilege):
        return AccessDenied(message, table=table, column=diag.column_name)
    if state.startswith(_CUT_OFF) and not isinstance(error, errors.QueryCanceled):
        return ConnectionFailed(message, table=table)
    if not state and isinstance(error, psycopg.OperationalError):
        return ConnectionFailed(f"{what}: the connection was lost.", table=table)
    remedy = next((text for kind, text in _REMEDIES.items() if isinstance(error, kind)), None)
    return DatabaseError(message, table=table, column=diag.column_name, remedy=remedy)


@contextlib.contextmanager
def database_errors(what: str, table: str | None = None) -> Iterator[None]:
    """Turn psycopg's errors into privbench's, and cut the chain that would show row values."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, what, table) from None
    except UnicodeDecodeError:
        raise DatabaseError(
            f"{what}: bytes are no UTF-8 text.", table=table, remedy=NO_TEXT
        ) from None
