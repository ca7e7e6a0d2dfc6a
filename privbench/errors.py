"""Every error that privbench raises on purpose, and the exit code that each one means.

::

    PrivbenchError            5  internal
    ├── GateFailed            1  a --fail-if gate or a comparison failed
    ├── UsageError            2  the command line cannot be obeyed
    │   ├── ConfigError       2  the config file is wrong
    │   ├── SchemaError       2  the schema and the config do not fit
    │   └── ModelError        2  the model file cannot be read
    ├── DatabaseError         3  the database refused
    │   ├── ConnectionFailed  3  unreachable, or the login failed
    │   ├── AccessDenied      3  a GRANT is missing
    │   └── TargetError       3  the target may not be written
    └── PrivacyRefusal        4  the privacy contract forbids it
        ├── BudgetExceeded    4  the ledger's cap, or the fit's own budget
        └── LedgerError       4  the ledger is damaged or belongs to another fit
            └── ReleaseInUse  4  another process holds the release

A message says what is wrong, where (table, column), and the way out. It never holds a value read
from a private row. As a text it is one line, whatever the names in it are.
"""

from typing import ClassVar

from privbench.display import visible


class PrivbenchError(Exception):
    """An error that privbench raises on purpose; base class of all others.

    Args:
        message: What is wrong, in one sentence.
        table: The table that the error is about, as ``schema.table``.
        column: The column that the error is about.
        remedy: What the user can do about it.
    """

    exit_code: ClassVar[int] = 5

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        column: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.column = column
        self.remedy = remedy

    def __str__(self) -> str:
        where = ".".join(part for part in (self.table, self.column) if part)
        text = f"{where}: {self.message}" if where else self.message
        return visible(f"{text} {self.remedy}" if self.remedy else text)


class GateFailed(PrivbenchError):
    """A gate on a comparison was not met."""

    exit_code = 1


class UsageError(PrivbenchError):
    """The command cannot be obeyed as given."""

    exit_code = 2


class ConfigError(UsageError):
    """The config file is wrong."""


class SchemaError(UsageError):
    """The live schema and the config do not fit, or the schema cannot be honoured."""


class ModelError(UsageError):
    """The model file cannot be read, or is not a model."""


class DatabaseError(PrivbenchError):
    """The database refused a request."""

    exit_code = 3


class ConnectionFailed(DatabaseError):
    """The server is unreachable, or the login failed."""


class AccessDenied(DatabaseError):
    """The role lacks a privilege; the remedy names the GRANT."""


class TargetError(DatabaseError):
    """The target database may not be written."""


class PrivacyRefusal(PrivbenchError):
    """The privacy contract forbids the request."""

    exit_code = 4


class BudgetExceeded(PrivacyRefusal):
    """The release would exceed the cap of the ledger or the budget of the fit."""


class LedgerError(PrivacyRefusal):
    """The ledger is damaged, or belongs to another database or fit."""


class ReleaseInUse(LedgerError):
    """Another running process holds the release or the ledger's lock."""
