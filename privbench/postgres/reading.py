"""Sessions that only read, on a database whose owner is not trusted.

Every session of the tool on a source, and on a clone that is compared, is opened here. Its first
message is ``BEGIN … READ ONLY``; the second sets what the tool relies on with ``SET LOCAL`` and
shows whether it holds. Both are utility statements: they call no function and no operator, so
nothing that a schema of the database holds can take their place. Only then is a question asked.

The search path is ``pg_catalog, pg_temp``. With an empty one the session's temporary schema would
come before ``pg_catalog`` for tables and types; named last, it cannot hide a catalog. Functions and
types of the tool's questions are qualified all the same. Its operators are not: the path holds
nothing but ``pg_catalog``, which only a superuser of the server can add to, and
``OPERATOR(pg_catalog.=)`` would say no more.

Every transaction is rolled back and no setting outlives it, so a pooler can hand the server's
session to the next client unchanged. Start-up options are not used: PgBouncer refuses
them, or drops them in silence.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType

import psycopg
from psycopg import sql

from privbench import pgsql
from privbench.errors import DatabaseError
from privbench.postgres.connect import (
    CHECKS_CLIENT,
    CHECKS_SINCE,
    Connection,
    ask_one,
    opened,
    patiently,
)
from privbench.postgres.failures import database_errors

#: The search path of the tool's own questions.
SEARCH_PATH = "pg_catalog, pg_temp"
#: Settings under which values are read and printed in the same way on every server.
VALUES = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "xmlbinary": "base64",
    "xmloption": "content",
    "array_nulls": "on",
}
#: Settings under which a text of SQL, and what the catalog tells, is the same on every server. The
#: owner of a database can set others for it and its roles, so every session of the tool sets these,
#: and pg_dump is started with them (`ddl.dump_ddl`).
TEXTS: Mapping[str, str] = MappingProxyType(
    {
        **pgsql.SETTINGS,
        **VALUES,
        "quote_all_identifiers": "off",
        "transform_null_equals": "off",
    }
)
#: Settings for reading the rows of tables: row-level security that would hide rows is an error;
#: views and foreign tables, which may run code of users, are refused; the planner does not use
#: CHECKs.
ROWS = {
    "row_security": "off",
    "restrict_nonsystem_relation_kind": "view, foreign-table",
    "constraint_exclusion": "off",
}

#: Seconds to wait for a table that somebody is altering, dropping or, in a target, using.
WAIT: ContextVar[float] = ContextVar("lock_wait", default=30.0)

_NOTHING: Mapping[str, str] = MappingProxyType({})
_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "search_path": SEARCH_PATH,
        **TEXTS,
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
        "transaction_timeout": "0",
    }
)
#: Settings that are checked before the first query.
_SHOWN = ("transaction_read_only", "search_path", *pgsql.SETTINGS)
#: For each major version, the first minor version with `restrict_nonsystem_relation_kind`.
_RESTRICTS = {12: 20, 13: 16, 14: 13, 15: 8, 16: 4}
#: Settings whose value is a list of names, each quoted by itself.
_LISTS = frozenset({"search_path", "temp_tablespaces", "local_preload_libraries"})
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s,"]+)')


def reading(
    dsn: str,
    settings: Mapping[str, str] = _NOTHING,
    *,
    isolation: psycopg.IsolationLevel = psycopg.IsolationLevel.READ_COMMITTED,
    snapshot: str | None = None,
) -> Connection:
    """Open a connection inside a READ ONLY transaction with the settings that the tool relies on.

    Further settings take precedence over these. The first transaction may see an exported snapshot.
    Roll back or close the connection when the work is done; `begin` opens the next transaction.

    Raises:
        UsageError: The DSN cannot be read.
        DatabaseError: The server, or a pooler before it, does not keep the settings.
    """
    connection = opened(dsn)
    try:
        connection.autocommit = False
        connection.read_only = True
        connection.isolation_level = isolation
        connection.deferrable = False
        begin(connection, settings, snapshot=snapshot)
    except BaseException:
        connection.close()
        raise
    return connection


def begin(
    connection: Connection, settings: Mapping[str, str] = _NOTHING, *, snapshot: str | None = None
) -> None:
    """End a reading connection's transaction, if one is open, and begin the next; see `reading`.

    Time limits of the database and the role also apply to the statements that lift them, so these
    statements are repeated if they were cancelled.
    """
    values = {**_SETTINGS, "lock_timeout": str(round(WAIT.get() * 1000)), **settings}

    def shown(settings: Mapping[str, str]) -> list[str]:
        statement = _statement(connection.info.server_version, tuple(settings.items()), snapshot)
        connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute(statement)
            results = (result for result in cursor.results() if result.description)
            return [str(row[0]) for result in results for row in result]

    with database_errors("beginning to read"):
        try:
            reported = patiently(lambda: shown({**values, **CHECKS_CLIENT}))
        except psycopg.errors.InvalidParameterValue:
            reported = patiently(lambda: shown(values))
    _verify({**values, "transaction_read_only": "on"}, dict(zip(_SHOWN, reported, strict=True)))


def users_path(connection: Connection) -> str:
    """Return the search path that users' queries rely on, with ``pg_catalog`` put first.

    A path that names ``pg_catalog`` behind other schemas would let these replace every function and
    operator of PostgreSQL itself.
    """
    with database_errors("asking for the search path"):
        query = "SELECT s.reset_val FROM pg_catalog.pg_settings s WHERE s.name = 'search_path'"
        (path,) = ask_one(connection, query)
    names = [name for name in _names(path) if not name.startswith("pg_")]
    listed = sql.SQL(", ").join(sql.Identifier(name) for name in ["pg_catalog", *names, "pg_temp"])
    return listed.as_string(None)


def assignment(name: str, value: str) -> sql.Composed:
    """Return ``SET LOCAL`` of one setting: a utility statement, which no function can replace.

    >>> print(assignment("search_path", 'a, "B c"').as_string(None))
    SET LOCAL "search_path" TO 'a', 'B c'
    """
    items = _names(value) if name.lower() in _LISTS else [value]
    values = sql.SQL(", ").join(sql.Literal(item) for item in items or [""])
    return sql.SQL("SET LOCAL {} TO {}").format(sql.Identifier(name), values)


def _names(text: str) -> list[str]:
    """The names in a list, folded as PostgreSQL does it."""
    names = _NAME.findall(text)
    return [quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in names]


@cache
def _statement(version: int, values: tuple[tuple[str, str], ...], snapshot: str | None) -> bytes:
    """The statements that set and show settings, as one message; cached, as timed runs wait."""
    statements = [assignment(name, value) for name, value in values if _known(version, name)]
    if snapshot is not None:
        statements.insert(0, sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
    statements += [sql.SQL("SHOW {}").format(sql.Identifier(name)) for name in _SHOWN]
    return sql.SQL("; ").join(statements).as_bytes(None)


def _known(version: int, name: str) -> bool:
    """Whether a server of this version has a setting; some settings are new."""
    major, minor = divmod(version, 10000)
    if name in CHECKS_CLIENT:
        return version >= CHECKS_SINCE
    if name == "transaction_timeout":
        return major >= 17
    if name == "restrict_nonsystem_relation_kind":
        return minor >= _RESTRICTS.get(major, 0 if major >= 17 else 10000)
    return True


def _verify(expected: Mapping[str, str], reported: Mapping[str, str]) -> None:
    for name, value in reported.items():
        same = (
            _names(value) == _names(expected[name])
            if name == "search_path"
            else (value.lower() == expected[name].lower())
        )
        if not same:
            raise DatabaseError(
                f"the session's setting {name} does not hold: it is {value!r}.",
                remedy="Connect to the server itself, or let the pooler hand one transaction to "
                "one server session.",
            )
