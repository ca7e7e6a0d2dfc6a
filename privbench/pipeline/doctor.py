"""``doctor``: is everything in place for a fit and a load? Reads catalogs and settings, no rows."""

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
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
from privbench.postgres.reading import reading
from privbench.postgres.snapshot import ALL_TEXT
from privbench.postgres.unfinished import refuse_unfinished
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
#: What a clone does not have, or has otherwise: by what shows it, and what becomes of it.
_OTHERWISE = """
SELECT o.name, o.becomes FROM (VALUES
  (EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata), 'large objects',
   'They belong to no table, so a clone has none; columns of their numbers get numbers of none.'),
  (EXISTS (SELECT FROM pg_catalog.pg_foreign_server), 'foreign servers',
   'They and their tables stay behind, and views upon these: nothing is read from them.'),
  (EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus'), 'Citus',
   'Distributed tables are read through this server and become plain ones; not tested with it.'),
  (EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'timescaledb'), 'TimescaleDB',
   'Rows of hypertables lie in chunks, which are not read: the tables would be empty in a clone. '
   'Copy them into plain or partitioned tables and leave them out (-T).')
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
    error: PrivbenchError | None = None  # what a fit or a load fails with, if it is bad


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, in order."""

    findings: tuple[Finding, ...]

    def render(self) -> Lines:
        """Plain text for people, a line each."""
        found = [
            (item.verdict, item.what, f"{item.said} {item.remedy}".rstrip())
            for item in self.findings
        ]
        return lines(*table(found, indent=0))

    def require_sound(self) -> None:
        """Fail where something is bad, with the first such finding."""
        bad = [item for item in self.findings if item.verdict == "bad"]
        if bad:
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            raise GateFailed(f"{bad[0].what}: {bad[0].said}{more}", remedy=bad[0].remedy or None)


def doctor(source: str | None, target_dsn: str | None, config: Config) -> Diagnosis:
    """Check the machine, and the source and the target if they are named; both are only read.

    A server that cannot be reached is a finding, not an error.
    """
    found, reached = [*_machine()], None
    try:
        if source is None:
            found += _ledger(config, None, None)
        else:
            with reading(source) as connection:
                facts, reached = _facts(connection), source
                found += [*_server("source", connection, facts)]
                found += [*_source(connection, facts, config)]
    except PrivbenchError as error:
        found.append(_bad("source", error))
    try:
        if target_dsn is not None:
            with reading(target_dsn) as connection:
                found += [*_server("target", connection, _facts(connection))]
                found += [*_target(connection, reached, config)]
    except PrivbenchError as error:
        found.append(_bad("target", error))
    return Diagnosis(tuple(found))


def check_target(
    source: str | None,
    target_dsn: str,
    config: Config | None = None,
    *,
    replace: bool,
    needed: tuple[str, ...] = (),
    as_role: str | None = None,
) -> None:
    """Refuse a target that a load would refuse, before anything is asked or sampled.

    These are the checks of `doctor`; ledgers are not read. The extensions ``needed`` have to be at
    hand. Without ``replace`` the target has to be empty.
    """
    with reading(target_dsn) as connection:
        one = source if source and not is_file(source) else None
        _require(_target(connection, one, config, replace, needed, as_role))


def check_ledger(config: Config, known: Identity) -> None:
    """Refuse a source whose losses a ledger could not keep, before anything is read or asked."""
    _require(_ledger(config, known.required(), known.own))


def _require(found: Iterable[Finding]) -> None:
    for item in found:
        if item.error is not None:
            raise item.error


def _bad(what: str, error: PrivbenchError) -> Finding:
    where = ".".join(part for part in (error.table, error.column) if part)
    return Finding("bad", what, f"{where}: {error.message}" if where else error.message,
                   error.remedy or "", error)  # fmt: skip


def _finding(sound: bool, what: str, said: str, remedy: str) -> Finding:
    """A finding: ``ok`` if it is sound, else a note with a remedy."""
    return Finding("ok", what, said) if sound else Finding("note", what, said, remedy)


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
    said = f"{_size(room)} free in {tempfile.gettempdir()}."
    remedy = "Set TMPDIR to a larger place."
    yield _finding(room > 2**30, "space for temporary files", said, remedy)


def _server(side: str, connection: Connection, facts: Any) -> Iterator[Finding]:
    """Checks of either side: version, standby, pooler, encoding."""
    yield Finding("ok", f"{side}: server", f"PostgreSQL {facts.version}, as {facts.role!r}.")
    alone = connection.info.backend_pid == facts.pid
    between = "a pooler stands in between: the session is not that of the connection."
    remedy = "Reading works in transaction mode; give a load a connection to the server itself."
    yield _finding(alone, f"{side}: pooler", "none was found." if alone else between, remedy)
    if side == "source" and facts.standby:
        said = f"a standby, hot_standby_feedback = {facts.feedback}."
        remedy = "A long read may be cancelled: set hot_standby_feedback = on, or a longer "
        remedy += "max_standby_streaming_delay."
        yield _finding(facts.feedback == "on", "source: standby", said, remedy)
    remedy = "Texts that have no form in UTF-8 are refused, by table and column, before budget is "
    remedy += "spent."
    whole = facts.encoding in ALL_TEXT
    yield _finding(whole, f"{side}: encoding", f"{facts.encoding}.", remedy)


def _source(connection: Connection, facts: Any, config: Config) -> Iterator[Finding]:
    """Rights, pg_dump, space, extensions, identity and ledger."""
    said = "a superuser: more than is needed." if facts.super else "no superuser."
    yield _finding(not facts.super, "source: role", said, "SELECT on the tables is enough.")
    try:
        source = read_catalog(connection, config)
        said = f"all {len(source.schema.tables)} tables can be read whole."
        yield Finding("ok", "source: rights", said)
    except PrivbenchError as error:
        yield _bad("source: rights", error)
    try:
        program = find_pg_dump(major_version(connection))
        yield Finding("ok", "source: pg_dump", f"{program.path} (PostgreSQL {program.major}).")
    except PrivbenchError as error:
        yield _bad("source: pg_dump", error)
    room = shutil.disk_usage(tempfile.gettempdir()).free
    said = f"{_size(facts.size)} in the database, {_size(room)} free for temporary files."
    remedy = "A clone or a bundle on this machine may not fit."
    yield _finding(room > facts.size, "source: size", said, remedy)
    names = ", ".join(row.name for row in catalog.ask(connection, _EXTENSIONS, {}))
    yield Finding("ok", "source: extensions", f"{names or 'none'}.")
    for row in catalog.ask(connection, _OTHERWISE, {}):
        yield Finding("note", f"source: {row.name}", "there are some.", row.becomes)
    known = identity(connection, config.database.identity)
    try:
        name = known.required()
        remedy = (
            'Restores and copies have another: declare identity = "NAME" under [database] early.'
        )
        declared = config.database.identity is not None
        yield _finding(declared, "source: identity", f"{known}.", remedy)
        yield from _ledger(config, name, known.own)
    except PrivbenchError as error:
        yield _bad("source: identity", error)


def _ledger(config: Config, name: str | None, own: str | None) -> Iterator[Finding]:
    """Whether the ledger's folder can be written, and which releases it has of this database."""
    try:
        ledger = Ledger.open(config.ledger.path, name or "doctor", own, config.ledger.apart_from)
        if name is not None:
            ledger.require_one_name()
        state = ledger.show()
    except PrivbenchError as error:
        yield _bad("ledger", error)
        return
    folder = Path(state["path"])
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "may not be written" if there.is_dir() else "is no folder"
        remedy = "Give [ledger] path a directory that this user may write."
        yield _bad("ledger", LedgerError(f"{there} {why}.", remedy=remedy))
        return
    waiting = [item["release"] for item in state["releases"] if item["state"] == "open"]
    cap = state["cap"]["epsilon"]
    said = f"{folder}: {len(state['releases'])} releases"
    said += "" if name is None else f" of this database, cap ε {'none' if cap is None else cap}"
    remedy = f"Unfinished: {', '.join(waiting)}; resume or abandon."
    yield _finding(not waiting, "ledger", f"{said}.", remedy)


def _target(
    connection: Connection,
    source: str | None,
    config: Config | None,
    replace: bool | None = None,
    needed: tuple[str, ...] = (),
    as_role: str | None = None,
) -> Iterator[Finding]:
    """Checks of the target: whether a load may write to it, and whether it matches the source.

    Without knowing whether a load is to ``replace`` what is there, that is a note. With a config,
    the extensions that are needed are those of the source.
    """
    facts = _facts(connection)
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(reading(source)) if source else None
        try:
            target.refuse_source(connection, other)
        except PrivbenchError as error:
            yield _bad("target: not the source", error)
        if facts.super:
            said = "a superuser: what a model brings runs with all its rights."
            yield Finding("note", "target: role", said, "Load with --as-role, or as another role.")
        elif facts.create or as_role:
            yield Finding("ok", "target: role", "may create tables, and is no superuser.")
        else:
            remedy = f'GRANT CREATE ON DATABASE … TO "{facts.role}".'
            said = "permission denied: the role may create nothing here, in schema public neither."
            yield _bad("target: role", AccessDenied(said, remedy=remedy))
        held = target.contents(connection)
        try:
            if not replace:
                refuse_unfinished(connection)
            if replace is False:
                target.refuse_contents(held)
            said = f"{len(held)} objects." if held else "empty."
            yield _finding(not held, "target: contents", said, "--replace drops them.")
        except PrivbenchError as error:
            yield _bad("target: contents", error)
        if other and config:
            yield from _beside(connection, facts, other)
            needed = Dependencies(
                other, read_catalog(other, config, access=False).schema
            ).needed_extensions
        try:
            target.refuse_missing_extensions(connection, needed, {})
            yield Finding("ok", "target: extensions", "all that are needed are at hand.")
        except PrivbenchError as error:
            yield _bad("target: extensions", error)


def _beside(connection: Connection, facts: Any, source: Connection) -> Iterator[Finding]:
    """What differs between the servers of target and source."""
    there = _facts(source)
    if major_version(connection) < major_version(source):
        said = f"older than the source ({there.version})."
        remedy = "It may not know all of the schema: take one of the source's version or later."
        yield Finding("note", "target: version", said, remedy)
    if facts.encoding != there.encoding:
        said = f"{facts.encoding}, where the source has {there.encoding}."
        yield Finding("note", "target: encoding differs", said, "UTF8 takes every text.")


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"
