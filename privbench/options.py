"""The options of operations, declared once for the command line and for Python's signatures.

A field's default and help are those of its option. A field with the default False becomes a flag, a
field with the default True also gets ``--no-…``, and a tuple can be given more than once.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

Returned = TypeVar("Returned")


def option(default: Any, help: str, *flags: str, **how: Any) -> Any:
    """Declare a field with its help, its names on the command line and further settings for Click.

    ``least`` and ``most`` are the bounds of a number; ``check`` is a function, ``module:name``,
    that refuses wrong values of the command line at once. Without ``flags``, the option has the
    name of the field.
    """
    return field(default=default, metadata={"help": help, "flags": flags, **how})


@dataclass(frozen=True)
class LoadOptions:
    """Options of how a model's clone is written into a database."""

    scale: float = option(1.0, "Size of the clone.")
    seed: int | None = option(None, "Seed of the sampling (not of any noise).", metavar="N")
    replace: bool = option(
        False,
        "Drop what the target holds, in the transaction that loads, unless it has releases in the "
        "ledger.",
    )
    trust_programs: bool = option(
        False,
        "Run all of the model's DDL; without it, functions, triggers, rules and what calls them "
        "are left out and named.",
    )
    schema_only: bool = option(False, "Make the schema, without rows.")
    dry_run: bool = option(False, "Make the schema and undo it: what would stop or be lost shows.")
    one_transaction: bool = option(
        False,
        "Load all or nothing, by one connection; else a large load into an empty target is marked "
        "until it ends, and what was killed goes on when the command is run again.",
    )
    where: str = option(
        "local",
        "Where tables are drawn and copied: local, or by a Dask scheduler as tls://host:port.",
        "--load-on",
        metavar="WHERE",
        check="privbench.privacy.workers:require_closed",
    )
    ledger: str | None = option(
        None,
        "Directory of the ledger: what has releases in it may be a source, and is not written to.",
        metavar="DIR",
    )
    as_role: str | None = option(
        None,
        "Load as this role, which may have no right but on its own objects.",
        metavar="ROLE",
    )


@dataclass(frozen=True)
class ReplayOptions:
    """Options of how queries are run."""

    repeats: int = option(3, "Timed runs a query.", least=1)
    warmup: int | None = option(
        None, "Untimed runs before them.  [default: 1, with --cold 0]", least=0
    )
    timeout: float = option(60.0, "Seconds a run.", metavar="FLOAT", least=0, most=2_000_000)
    #: The backend's caches (catalog, plans, temporary buffers) are then empty; those of the server
    #: and the machine are not.
    cold: bool = option(False, "A new connection before each run, and no warm-up.")
    #: Split as a shell would and run without one.
    command: str | None = option(
        None,
        "Program to run before each run, to empty caches; PRIVBENCH_SIDE names the side.",
        "--before",
        metavar="CMD",
    )
    #: It runs in the run's session, which is read only; the common settings hold again after it.
    statement: str | None = option(
        None, "Statement before each run: 'DISCARD ALL'.", "--before-sql", metavar="SQL"
    )
    functions: tuple[str, ...] = option(
        (),
        "Queries, and views that they read, may call it.",
        "--allow-function",
        metavar="SCHEMA.NAME",
    )
    extensions: tuple[str, ...] = option(
        (),
        "They may call what this extension brings: 'postgis'.",
        "--allow-extension",
        metavar="NAME",
    )
    trust_workload: bool = option(
        False, "Judge none of its queries. They run in READ ONLY transactions all the same."
    )
    skip_refused: bool = option(
        False, "Leave out queries that do more than read, by name, and run the others."
    )
    explain: bool = option(False, "Keep EXPLAIN (ANALYZE, BUFFERS) of every query.")
    #: It shows how much of a discrepancy of run times is the machine's noise.
    floor: bool = option(False, "Run the source against itself in the same rounds.")

    @property
    def untimed(self) -> int:
        """The number of runs of a query before the timed runs."""
        return int(not self.cold) if self.warmup is None else self.warmup

    @property
    def before(self) -> str:
        """What is done before each run, in words; empty for nothing."""
        steps = [
            f"command: {self.command}" if self.command else "",
            "new connection" if self.cold else "",
            f"statement: {self.statement}" if self.statement else "",
        ]
        return "; ".join(filter(None, steps))


@dataclass(frozen=True)
class CompareOptions(ReplayOptions):
    """Options of how a clone is compared with its source."""

    floor: bool = option(True, "Run the source against itself in the same rounds.")
    explain: bool = option(True, "Compare plans and work by EXPLAIN (ANALYZE, BUFFERS).")
    distributions: bool = option(
        True, "Compare values, columns and sets of columns, which reads all rows of both sides."
    )
    baseline: str | Path | None = option(
        None, "comparison.json of an earlier comparison: tells what has changed.", metavar="FILE"
    )
    other_workload: bool = option(False, "Take a baseline of another workload.")
    junit: str | Path | None = option(None, "Gates and checks as JUnit XML.", metavar="FILE")


@dataclass(frozen=True)
class CaptureOptions:
    """Options of how statements of logs are captured."""

    prefix: str | None = option(None, "log_line_prefix of plain logs, if unusual.", metavar="TEXT")
    database: str | None = option(None, "Only this database's statements, of logs.", metavar="NAME")
    samples: int = option(1, "Executions kept a statement, of logs.", least=1)
    seed: int = option(0, "Seed of the samples.")
    sessions: bool = option(False, "Keep all that each session ran, in its order, of logs.")
    writes: bool = option(False, "INSERT, UPDATE and DELETE too, for pgbench on a clone, of logs.")


def with_fields_of(
    kind: type, *names: str
) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """Return a decorator that replaces a function's ``options`` by the fields of their class.

    The decorated function takes the fields with these names (default: all) as keyword arguments. A
    caller that has an object of the class passes it as ``options`` instead.
    """
    own = {item.name: item for item in fields(kind) if not names or item.name in names}

    def decorate(function: Callable[..., Returned]) -> Callable[..., Returned]:
        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Returned:
            if "options" not in given:
                chosen = {name: given.pop(name) for name in own if name in given}
                given["options"] = kind(**chosen)
            return function(*args, **given)

        signature = inspect.signature(function)
        parameters = [item for name, item in signature.parameters.items() if name != "options"]
        parameters += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=item.type
            )
            for name, item in own.items()
        ]
        vars(called)["__signature__"] = signature.replace(parameters=parameters)
        return called

    return decorate
