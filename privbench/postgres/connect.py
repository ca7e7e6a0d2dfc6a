"""Open connections by libpq's rules, and identify the database that a connection leads to.

A DSN may be a libpq URI, ``key=value`` pairs, ``service=name``, an SQLAlchemy URL
(``postgresql+psycopg://…``), or empty: PG* variables, the service file and the password file apply
as they do for psql.
"""

import contextlib
import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

import lazy_loader
import psycopg
from psycopg import abc, conninfo, pq, sql
from psycopg.rows import TupleRow

from privbench.errors import ConnectionFailed, PrivacyRefusal, UsageError
from privbench.limits import Element
from privbench.postgres.failures import database_errors, describe

#: Imported when a DSN is an SQLAlchemy URL.
sqlalchemy = lazy_loader.load("sqlalchemy")

Connection = psycopg.Connection[TupleRow]

APPLICATION = "privbench"
#: Begins every statement that reads rows of a source. Captured workloads leave such statements out
#: by the comment, since pg_stat_statements names no application and a log may not.
SELECT = sql.SQL(f"SELECT /* {APPLICATION} */ ")
_SQLALCHEMY = re.compile(r"postgres(?:ql)?\+\w+://")
_HIDDEN = "********"
#: What only a connection string begins with, or has in it.
_STRING = re.compile(r"postgres\w*(?:\+\w+)?://|password\s*=", re.IGNORECASE)
#: A URL that can be cut in one way only: at most one ``@``, and before it nothing that ends a host.
#: libpq takes the rest of a password with an ``@``, ``/`` or ``:`` for a host, a port or a name.
_URL = re.compile(
    r"[\w+]+://(?:[^@/?#\s]*@)?(?:\[[\da-fA-F:.%]*\]|[\w.%-]*)(?::\d*)?"
    r"(?:,[\w.%-]*(?::\d*)?)*(?:/[^@:?#/]*)?(?:\?[^@#]*)?"
)
#: The parameters that are shown, and what their values look like if no password is in them.
_SHOWN = {name: r"[^:/=?#]*" for name in ("user", "dbname", "service")}
_SHOWN |= {"host": r"@?[\w.,/:%-]*", "hostaddr": r"[\da-fA-F.:,%]*", "port": r"[\d,]*"}
_ATTEMPTS = 20  # tries to lift time limits; only limits of a few milliseconds need a second try
#: Seconds between tries to get one of a role's or a server's few connections: a second in all, in
#: which a busy server ends a session that was closed.
_PAUSE = 0.05
#: Seconds to wait for a server, unless the DSN or the environment say otherwise.
_PATIENCE = 20
#: Parameters that say which server and database, and how its server is recognised, to any psql.
_PLACE = (
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
)
#: How often a server looks whether its client is still there, so that a statement ends soon after a
#: command that was killed. Servers know the setting since this version, some platforms refuse it.
CHECKS_CLIENT, CHECKS_SINCE = {"client_connection_check_interval": "1s"}, 140000
#: Time limits of a role or a database that a session lifts for itself, and the versions since which
#: servers know them: connections of a load are idle while another one copies a large table.
_LIMITS = {"statement_timeout": 0, "idle_session_timeout": 140000, "transaction_timeout": 170000}


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a database in the ledger (PRIVACY P27)."""

    # The declared name, else the system identifier with the database's OID, which stay the same if
    # the database is renamed or its address is spelled in another way. None if neither is known: an
    # address is no identity, since one server has many addresses.
    name: str | None
    basis: str  # what the name is made of, or why there is none
    own: str | None = None  # the system identifier, or ? if it may not be read, with the OID

    def __str__(self) -> str:
        return f"{self.name or 'none'} ({self.basis})"

    def required(self) -> str:
        """The name under which the ledger keeps losses.

        Raises:
            PrivacyRefusal: There is no name, so losses of a release could not be found again.
        """
        if self.name is None:
            raise PrivacyRefusal(
                f"the source has no identity for the ledger: {self.basis}.",
                remedy='Declare one under [database] in the config, identity = "NAME", or with '
                "--identity NAME, and keep it for every release, replica, restore and copy"
                + ("." if self == OF_FILES else f"; or {_GRANT}."),
            )
        return self.name


#: The identity of a source that is files: the database that they are copied into is temporary and
#: cannot be recognised again.
OF_FILES = Identity(None, "files are copied, moved and written anew, and no name is declared")
#: The folders of the sockets of servers into which this process has copied files.
COPIES: set[str] = set()
_DECLARED = "declared in the config"
_GRANT = "GRANT EXECUTE ON FUNCTION pg_control_system() to this role"


def libpq_dsn(dsn: str) -> str:
    """Return the DSN as libpq understands it; SQLAlchemy URLs are translated.

    Raises:
        UsageError: Neither libpq nor SQLAlchemy can read it. Its text is not repeated.

    >>> libpq_dsn("postgresql+psycopg://ada@db.example:5433/shop?sslmode=require")
    'sslmode=require host=db.example port=5433 user=ada dbname=shop'
    """
    if _SQLALCHEMY.match(dsn):
        dsn = _from_sqlalchemy(dsn)
    try:
        conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise UsageError(
            "the connection string cannot be read.",
            remedy="Write postgresql://user@host/database, key=value pairs, or service=name; files "
            "(duckdb://, parquet://) are sources of inspect, check, plan, fit, clone, compare and "
            "ledger alone.",
        ) from None
    return dsn


def redact(dsn: str) -> str:
    """Return a DSN for messages: what names the database, with asterisks for its secrets.

    All of it is hidden if it could be parsed in another way, since a password may then be anywhere.

    >>> redact("postgresql://ada:hush@db.example/shop"), redact("postgresql://ada:hu@sh@db/shop")
    ('user=ada password=******** dbname=shop host=db.example', '********')
    """
    parts = conninfo.conninfo_to_dict(libpq_dsn(dsn))
    if not _certain(dsn, parts):
        return _HIDDEN
    secret = _secret_options()
    visible = ((key, value) for key, value in parts.items() if key in secret or key in _SHOWN)
    return _joined({key: _HIDDEN if key in secret else value for key, value in visible})


def _certain(dsn: str, parts: Mapping[str, str | int | None]) -> bool:
    """Whether the DSN can be read in one way, so that no part of a password is shown."""
    if "://" in dsn and not _URL.fullmatch(dsn):
        return False
    return all(re.fullmatch(pattern, str(parts.get(key) or "")) for key, pattern in _SHOWN.items())


def shown(argument: str, *secrets: str) -> str:
    """Return a command-line argument, with the secrets of a connection string hidden.

    A string that cannot be parsed, or in several ways, is hidden as a whole. Names of further
    secret parameters may be given in ``secrets``.

    >>> shown("service=prod"), shown("a b.toml"), shown("host=db password=hush")
    ('service=prod', 'a b.toml', 'password=******** host=db')
    """
    try:
        parts = conninfo.conninfo_to_dict(libpq_dsn(argument))
    except UsageError:
        return _HIDDEN if _STRING.search(argument) else argument
    secret = parts.keys() & {*secrets, *_secret_options()} or not _certain(argument, parts)
    return redact(argument) if secret else argument


def connect(dsn: str, *, autocommit: bool = False, lock_timeout: float = 0) -> Connection:
    """Open a connection that may write to a database of the user's own; a source needs `reading`.

    Statements wait for a lock at most ``lock_timeout`` seconds; 0 means no limit.

    Raises:
        UsageError: The DSN cannot be read.
        ConnectionFailed: The server is unreachable or refused the login; no password is shown.
    """
    connection = opened(dsn)
    with database_errors("setting up the connection"):
        version = connection.info.server_version
        lifted = [f"SET {name} TO 0" for name, since in _LIMITS.items() if version >= since]
        limits = "; ".join([*lifted, f"SET lock_timeout TO {round(lock_timeout * 1000)}"])
        patiently(lambda: connection.execute(limits.encode()))
        if version >= CHECKS_SINCE:
            with contextlib.suppress(psycopg.errors.InvalidParameterValue):
                for name, value in CHECKS_CLIENT.items():
                    connection.execute(sql.SQL("SET {} TO {}").format(sql.SQL(name), value))
        connection.autocommit = autocommit
    return connection


def opened(dsn: str) -> Connection:
    """Return a new connection in autocommit mode, in UTF-8, on which nothing was sent yet."""
    parameters = conninfo.conninfo_to_dict(libpq_dsn(dsn))
    settings: dict[str, str | int | None] = {"fallback_application_name": APPLICATION}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        settings["connect_timeout"] = _PATIENCE
    whole = _joined({**settings, **parameters, "client_encoding": "UTF8"})
    try:
        for _ in range(_ATTEMPTS - 1):
            try:
                return _session(whole)
            except psycopg.OperationalError as error:
                if "too many" not in str(error):
                    raise
                # A server counts a connection for a moment after its client has closed it.
                time.sleep(_PAUSE)
        return _session(whole)
    except psycopg.Error as error:
        if not _certain(dsn, parameters):
            raise ConnectionFailed(
                "cannot connect; neither the connection string nor the reason is shown, as the "
                "string can be read in several ways.",
                remedy="Write @, :, / and ? within its names and its password as %40, %3A, %2F "
                "and %3F.",
            ) from None
        raise ConnectionFailed(
            f"cannot connect to {redact(dsn)}: {_failure_text(error, parameters)}."
        ) from None


def _session(parameters: str) -> Connection:
    # Prepared statements fail behind a pooler.
    return psycopg.connect(parameters, autocommit=True, prepare_threshold=None)


def patiently(run: Callable[[], Element]) -> Element:
    """Run a statement that lifts time limits, and retry it if it was cancelled.

    The time limit of a database or a role applies to the very statement that lifts it.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            return run()
    return run()


def resolved(connection: Connection) -> dict[str, str]:
    """Return the libpq parameters of the server this connection leads to, secrets included.

    Service files, PG* variables and lists of hosts are resolved, so that a second connection made
    from these parameters reaches the same server.
    """
    info = connection.info
    parameters = {key: str(value) for key, value in info.get_parameters().items()}
    for key in ("service", "target_session_attrs", "load_balance_hosts"):
        parameters.pop(key, None)
    if "hostaddr" in parameters:
        parameters["hostaddr"] = info.hostaddr
    parameters |= {
        "host": info.host,
        "port": str(info.port),
        "user": info.user,
        "dbname": info.dbname,
    }
    if info.password:
        parameters["password"] = info.password
    return {key: value for key, value in parameters.items() if value}


def psql(connection: Connection, statement: str) -> str:
    """Return a command line that runs a statement in the same database; it holds no secret."""
    parts = resolved(connection)
    known = {key: parts[key] for key in _PLACE if key in parts}
    return shlex.join(["psql", _joined(known), "-c", statement])


def environment(connection: Connection) -> dict[str, str]:
    """Return PG* variables with which a PostgreSQL program connects to the same database.

    A program's arguments can be seen by every user of the machine; its environment cannot.
    """
    known = {option.keyword.decode(): option.envvar for option in pq.Conninfo.get_defaults()}
    return {
        variable.decode(): value
        for key, value in resolved(connection).items()
        if (variable := known.get(key)) is not None
    }


def major_version(connection: Connection) -> int:
    """The server's major version."""
    return connection.info.server_version // 10000


def identity(connection: Connection, declared: str | None = None) -> Identity:
    """Return the identity of a database, which does not depend on its address or name.

    Restores and copies declare it. Nothing that a database's owner can set is part of it: neither
    settings nor comments nor names.
    """
    if connection.info.host in COPIES:
        return OF_FILES if declared is None else Identity(declared, _DECLARED)
    system, oid = _place(connection)
    own = f"{system or '?'}:{oid}"
    if declared is not None:
        return Identity(declared, _DECLARED, own)
    if system is not None:
        return Identity(own, "system identifier and the database's OID", own)
    why = "pg_control_system() may not be executed, and no name is declared"
    return Identity(None, why, own)


def same_database(one: Connection, other: Connection) -> bool:
    """Return whether two connections lead to one database or to replicas of it.

    Asks for the system identifier and the database's OID. Where the identifier may not be read, an
    advisory lock under a random key, which only transactions of one database share, decides.
    """
    if one is other:
        return True
    if _advisory_conflict(one, other):
        return True
    place = _place(one)
    return place[0] is not None and place == _place(other)


def ask_one(
    connection: Connection, query: LiteralString | sql.Composed, values: abc.Params | None = None
) -> tuple[Any, ...]:
    """Return the only row of a query's result; errors are psycopg's."""
    (row,) = connection.execute(query, values).fetchall()
    return row


def _place(connection: Connection) -> tuple[str | None, int]:
    """The system identifier, if this role may read it, and the database's OID."""
    with database_errors("asking which database it is"):
        allowed, oid = ask_one(
            connection,
            "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE'),"
            " d.oid::pg_catalog.int8 FROM pg_catalog.pg_database d"
            " WHERE d.datname = pg_catalog.current_database()",
        )
        query = "SELECT c.system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system() c"
        return ask_one(connection, query)[0] if allowed else None, oid


def _advisory_conflict(one: Connection, other: Connection) -> bool:
    """Whether an advisory lock that one connection holds is refused to the other."""
    key = [secrets.randbits(62)]
    # Locks of transactions are used: behind a pooler, locks of a session would stay.
    with database_errors("comparing two databases"), one.transaction(), other.transaction():
        one.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s::pg_catalog.int8)", key)
        statement = "SELECT pg_catalog.pg_try_advisory_xact_lock(%s::pg_catalog.int8)"
        return not ask_one(other, statement, key)[0]


def _from_sqlalchemy(dsn: str) -> str:
    try:
        url = sqlalchemy.make_url(dsn)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise UsageError("the SQLAlchemy URL cannot be read.") from None
    parts = {"host": url.host, "port": url.port, "user": url.username, "dbname": url.database}
    parts["password"] = url.password
    query = {key: value for key, value in url.query.items() if isinstance(value, str)}
    try:
        return _joined(query | {key: value for key, value in parts.items() if value is not None})
    except psycopg.ProgrammingError:
        raise UsageError("the SQLAlchemy URL has a parameter that libpq does not know.") from None


def _joined(parts: Mapping[str, str | int | None]) -> str:
    return conninfo.make_conninfo(
        "", **{key: str(value) for key, value in parts.items() if value is not None}
    )


def _secret_options() -> frozenset[str]:
    options = pq.Conninfo.get_defaults()
    return frozenset(option.keyword.decode() for option in options if option.dispchar == b"*")


def _failure_text(error: psycopg.Error, parameters: Mapping[str, str | int | None]) -> str:
    text = describe(error) if error.sqlstate else " ".join(str(error).split()).rstrip(".")
    for key in _secret_options():
        value = parameters.get(key)
        if value:
            text = text.replace(str(value), _HIDDEN)
    return text
