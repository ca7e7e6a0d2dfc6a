"""The command ``doctor``: is everything ready for a fit and a load? No rows are read."""

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from psycopg import pq

from privbench import __version__
from privbench.config import Config
from privbench.display import Lines, lines, table
from privbench.errors import AccessDenied, GateFailed, LedgerError, PrivbenchError
from privbench.pipeline.source import read_catalog
from privbench.postgres import catalog, target
from privbench.postgres.connect import Connection, Identity, identity, major_version
from privbench.postgres.ddl import find_pg_dump
from privbench.postgres.depend import Dependencies
from privbench.postgres.load_mark import refuse_unfinished
from privbench.postgres.reading import reading
from privbench.postgres.snapshot import ALL_TEXT
from privbench.privacy import Ledger
from privbench.sources import is_file

#: Facts of a session in one row; the catalog of roles and of settings is readable by everybody.
_FACTS = """
SELECT pg_catalog.pg_backend_pid() AS pid, pg_catalog.pg_is_in_recovery() AS standby,
  pg_catalog.current_setting('hot_standby_feedback') AS feedback, current_user::text AS role,
  r.rolsuper AS super,
  pg_catalog.current_setting('server_encoding') AS encoding,
  pg_catalog.current_setting('server_version') AS version,
  pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') OR EXISTS (
    SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'public'
    AND pg_catalog.has_schema_privilege(n.oid, 'CREATE')) AS create,
  pg_catalog.pg_database_size(pg_catalog.current_database()) AS size
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
_EXTENSIONS = "SELECT e.extname AS name FROM pg_catalog.pg_extension e ORDER BY 1"
#: What a clone has otherwise, and what becomes of it.
_OTHERWISE = """
SELECT o.name, o.becomes FROM (VALUES
  (EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata), 'large objects',
   'No clone has any; columns of their numbers get numbers that name none.'),
  (EXISTS (SELECT FROM pg_catalog.pg_foreign_server), 'foreign servers',
   'They, their tables and views upon these stay behind.'),
  (EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus'), 'Citus',
   'Not tested with it: distributed tables become plain ones.'),
  (EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'timescaledb'), 'TimescaleDB',
   'Chunks are not read, so that hypertables would be empty: copy them into plain tables.')
) AS o(there, name, becomes) WHERE o.there
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check and its result."""

    # ``ok``, ``note`` (works, but read it) or ``bad`` (a fit or a load will be refused).
    verdict: Literal["ok", "note", "bad"]
    what: str  # what was checked
    said: str  # what was found
    remedy: str = ""  # the way out; empty if none is needed


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All results of the checks, in order."""

    findings: tuple[Finding, ...]

    def render(self) -> Lines:
        """Return the results as plain text, one line each."""
        cells = [
            (item.verdict, item.what, f"{item.said} {item.remedy}".rstrip())
            for item in self.findings
        ]
        return lines(*table(cells, indent=0))

    def require_sound(self) -> None:
        """Raise the error of the first check that failed, if any."""
        bad = [item for item in self.findings if item.verdict == "bad"]
        if bad:
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            raise GateFailed(f"{bad[0].what}: {bad[0].said}{more}", remedy=bad[0].remedy or None)


def doctor(source: str | None, target_dsn: str | None, config: Config) -> Diagnosis:
    """Check the machine, and the source and the target if they are named; both are only read.

    A server that cannot be reached is a finding, not an error.
    """
    findings = [*_machine(), *_told(("source", _source(source, config)))]
    reached = source if all(item.what != "source" for item in findings) else None
    if target_dsn is not None:
        findings += _told(("target", _target(target_dsn, reached, config)))
    return Diagnosis(tuple(findings))


def check_target(
    source: str | None,
    target_dsn: str,
    *,
    replace: bool,
    needed: tuple[str, ...] = (),
    as_role: str | None = None,
) -> None:
    """Refuse a target that a load would refuse, before the user is asked or rows are sampled.

    These are checks of `doctor`. The extensions ``needed`` must be available.
    """
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(reading(target_dsn))
        plain = source and not is_file(source)
        other = stack.enter_context(reading(str(source))) if plain else None
        for _, findings in _target_checks(connection, other, needed, replace, as_role):
            tuple(findings)


def check_ledger(config: Config, known: Identity) -> None:
    """Refuse a source whose losses a ledger could not record, before anything is read."""
    tuple(_ledger(config, known.required(), known.own))


def _told(*checks: tuple[str, Iterable[Finding]]) -> Iterator[Finding]:
    """What checks find; one that fails is bad."""
    for what, findings in checks:
        try:
            yield from findings
        except PrivbenchError as error:
            yield Finding("bad", what, str(error))


def _passed(
    what: str, text: str, check: Callable[..., Any], *given: Any
) -> tuple[str, Iterator[Finding]]:
    """A check by a function that raises."""

    def findings() -> Iterator[Finding]:
        check(*given)
        yield Finding("ok", what, text)

    return what, findings()


def _finding(sound: bool, what: str, text: str, remedy: str) -> Finding:
    """A finding: ``ok`` if it is sound, else a note with a remedy."""
    return Finding("ok", what, text) if sound else Finding("note", what, text, remedy)


def _facts(connection: Connection) -> Any:
    (row,) = catalog.ask(connection, _FACTS, {})
    return row


def _machine() -> Iterator[Finding]:
    libpq = pq.version()
    yield Finding(
        "ok",
        "versions",
        f"privbench {__version__}, Python {platform.python_version()}, OpenDP {version('opendp')}, "
        f"psycopg {version('psycopg')}, libpq {libpq // 10000}.{libpq % 10000}.",
    )
    room = shutil.disk_usage(tempfile.gettempdir()).free
    text = f"{_size(room)} free in {tempfile.gettempdir()}."
    remedy = "Set TMPDIR to a larger place."
    yield _finding(room > 2**30, "space for temporary files", text, remedy)


def _server(side: str, connection: Connection, facts: Any) -> Iterator[Finding]:
    """Checks of either side: version, standby, pooler, encoding."""
    yield Finding("ok", f"{side}: server", f"PostgreSQL {facts.version}, as {facts.role!r}.")
    alone = connection.info.backend_pid == facts.pid
    between = "a pooler stands in between: the session is not that of the connection."
    remedy = "Reading works in transaction mode; give a load a connection to the server itself."
    yield _finding(alone, f"{side}: pooler", "none was found." if alone else between, remedy)
    if side == "source" and facts.standby:
        text = f"a standby, hot_standby_feedback = {facts.feedback}."
        remedy = "A long read may be cancelled: set hot_standby_feedback = on, or a longer "
        remedy += "max_standby_streaming_delay."
        yield _finding(facts.feedback == "on", "source: standby", text, remedy)
    remedy = "Texts that have no form in UTF-8 are refused, by table and column, before budget is "
    remedy += "spent."
    whole = facts.encoding in ALL_TEXT
    yield _finding(whole, f"{side}: encoding", f"{facts.encoding}.", remedy)


def _source(source: str | None, config: Config) -> Iterator[Finding]:
    """Rights, pg_dump, space, extensions, identity and ledger."""
    if source is None:
        yield from _told(("ledger", _ledger(config, None, None)))
        return
    with reading(source) as connection:
        facts = _facts(connection)
        yield from _server("source", connection, facts)
        text = "a superuser: more than is needed." if facts.super else "no superuser."
        yield _finding(not facts.super, "source: role", text, "SELECT on the tables is enough.")
        text, major = "all tables can be read whole.", major_version(connection)
        yield from _told(
            _passed("source: rights", text, read_catalog, connection, config),
            _passed("source: pg_dump", f"there is one for {major}.", find_pg_dump, major),
        )
        room = shutil.disk_usage(tempfile.gettempdir()).free
        text = f"{_size(facts.size)} in the database, {_size(room)} free for temporary files."
        remedy = "A clone or a bundle on this machine may not fit."
        yield _finding(room > facts.size, "source: size", text, remedy)
        names = ", ".join(row.name for row in catalog.ask(connection, _EXTENSIONS, {}))
        yield Finding("ok", "source: extensions", f"{names or 'none'}.")
        for row in catalog.ask(connection, _OTHERWISE, {}):
            yield Finding("note", f"source: {row.name}", "there are some.", row.becomes)
        yield from _told(("source: identity", _identity(connection, config)))


def _identity(connection: Connection, config: Config) -> Iterator[Finding]:
    known = identity(connection, config.database.identity)
    name = known.required()
    remedy = 'Restores and copies have another: declare identity = "NAME" under [database] early.'
    declared = config.database.identity is not None
    yield _finding(declared, "source: identity", f"{known}.", remedy)
    yield from _told(("ledger", _ledger(config, name, known.own)))


def _ledger(config: Config, name: str | None, own: str | None) -> Iterator[Finding]:
    """Whether the ledger's folder can be written, and which releases it has of this database."""
    ledger = Ledger.open(config.ledger.path, name or "doctor", own, config.ledger.apart_from)
    if name is not None:
        ledger.require_one_name()
    state = ledger.show()
    folder = Path(state["path"])
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "may not be written" if there.is_dir() else "is no folder"
        remedy = "Give [ledger] path a directory that this user may write."
        raise LedgerError(f"{there} {why}.", remedy=remedy)
    waiting = [item["release"] for item in state["releases"] if item["state"] == "open"]
    cap = state["cap"]["epsilon"]
    text = f"{folder}: {len(state['releases'])} releases"
    text += "" if name is None else f" of this database, cap ε {'none' if cap is None else cap}"
    remedy = f"Unfinished: {', '.join(waiting)}; resume or abandon."
    yield _finding(not waiting, "ledger", f"{text}.", remedy)


def _target(target_dsn: str, source: str | None, config: Config) -> Iterator[Finding]:
    """Whether a load may write to the target, and whether it matches the source."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(reading(target_dsn))
        facts, needed = _facts(connection), tuple[str, ...]()
        yield from _server("target", connection, facts)
        other = stack.enter_context(reading(source)) if source else None
        if other:
            yield from _beside(connection, facts, other)
            schema = read_catalog(other, config, access=False).schema
            needed = Dependencies(other, schema).needed_extensions
        yield from _told(*_target_checks(connection, other, needed, None, None))


def _target_checks(
    connection: Connection,
    source: Connection | None,
    needed: tuple[str, ...],
    replace: bool | None,
    as_role: str | None,
) -> Iterator[tuple[str, Iterator[Finding]]]:
    """The checks of a target, each with its name."""
    text = "it is another database, and no standby."
    yield _passed("target: not the source", text, target.refuse_source, connection, source)
    yield "target: role", _role(connection, as_role)
    if not replace:
        text = "none in the way."
        yield _passed("target: unfinished load", text, refuse_unfinished, connection)
    yield "target: contents", _contents(connection, replace)
    text, refuse = "all that are needed are at hand.", target.refuse_missing_extensions
    yield _passed("target: extensions", text, refuse, connection, needed, {})


def _role(connection: Connection, as_role: str | None) -> Iterator[Finding]:
    if as_role:
        target.become(connection, as_role)
    facts = _facts(connection)
    if not (facts.super or facts.create):
        text = "permission denied: the role may create nothing here, in schema public neither."
        raise AccessDenied(text, remedy=f'GRANT CREATE ON DATABASE … TO "{facts.role}".')
    text = "a superuser: what a model brings runs with all its rights."
    text = text if facts.super else "may create tables, and is no superuser."
    remedy = "Load with --as-role, or as another role."
    yield _finding(not facts.super, "target: role", text, remedy)


def _contents(connection: Connection, replace: bool | None) -> Iterator[Finding]:
    objects = target.contents(connection)
    if replace is False:
        target.refuse_contents(objects)
    text = f"{len(objects)} objects." if objects else "empty."
    yield _finding(not objects, "target: contents", text, "A load is refused without --replace.")


def _beside(connection: Connection, facts: Any, source: Connection) -> Iterator[Finding]:
    """What differs between the servers of target and source."""
    there = _facts(source)
    if major_version(connection) < major_version(source):
        text = f"older than the source ({there.version})."
        remedy = "It may not know all of the schema: take one of the source's version or later."
        yield Finding("note", "target: version", text, remedy)
    if facts.encoding != there.encoding:
        text = f"{facts.encoding}, where the source has {there.encoding}."
        yield Finding("note", "target: encoding differs", text, "UTF8 takes every text.")


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"
