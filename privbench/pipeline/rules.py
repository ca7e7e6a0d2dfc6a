"""Rules of the config, which become CHECK constraints of the tables that they name.

A rule is public: the owner declares it, and nothing tests whether the source's rows satisfy it. It
is then a CHECK like any other: the encoding uses it, the model's DDL creates it, and a load repairs
the rows that violate it. Rules are checked as strictly as expressions from an unknown author.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from psycopg import pq, sql

from privbench.config import Config
from privbench.display import one_line
from privbench.errors import ConfigError
from privbench.pgsql import SqlError
from privbench.pgsql.judge import NotAllowed
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.rules.facts import declared_check, with_rules
from privbench.schema import Check, Schema, Table, TableName

#: Names of the constraints that rules become: this prefix and a number.
PREFIX = "privbench_rule_"


def with_declared(connection: Connection, schema: Schema, config: Config) -> Schema:
    """Return the schema with the config's rules as CHECKs; the source's server resolves names."""
    rules: dict[TableName, list[str]] = defaultdict(list)
    for key, texts in config.rules.items():
        rules[TableName.parse(key)] += texts
    for name in rules:
        if name not in schema:
            raise ConfigError(
                "[rules] names this table, but the schema has no such table (or it is excluded).",
                table=str(name),
                remedy="Take its rules out of the config.",
            )
    # Names must be unique: tables inherit constraints, and a clone of a clone already has the
    # constraints of earlier rules.
    existing = {check.name for table in schema for check in table.checks}
    names = (free for number in count(1) if (free := f"{PREFIX}{number}") not in existing)
    tables = (
        with_rules(replace(table, checks=(*table.checks, *checks))) if checks else table
        for table in schema
        for checks in [tuple(_checks(connection, table, names, rules[table.name]))]
    )
    return replace(schema, tables=tuple(tables))


def _checks(
    connection: Connection, table: Table, names: Iterator[str], rules: Iterable[str]
) -> Iterator[Check]:
    for text, name in zip(rules, names, strict=False):
        try:
            check = declared_check(text, name, table)
            _resolve(connection, table, check.expression)
        except (NotAllowed, SqlError, ValueError) as error:
            raise ConfigError(
                f"the rule {one_line(text)!r} cannot be kept: {one_line(str(error).rstrip('.'))}.",
                table=table.key,
                remedy="A rule is a condition on the table's columns by PostgreSQL's own functions "
                "and operators, as a CHECK is.",
            ) from None
        yield check


def _resolve(connection: Connection, table: Table, text: str) -> None:
    """Let the server resolve the names in a rule and evaluate its constants, as for a CHECK.

    The rule is planned as a WHERE condition, which allows everything that a CHECK allows, and also
    sub-queries and system columns, which were refused before. The query is planned on columns of
    NULL, so that neither rows nor their statistics are read. The message of a server that refuses
    depends on the rule and the catalog, not on rows.
    """
    rule = sql.SQL(text)
    resolved = build("SELECT FROM {} WHERE {}", table.name, rule)
    columns = [build("NULL::{} AS {}", sql.SQL(c.type.sql), c.name) for c in table.columns]
    planned = build("EXPLAIN SELECT FROM (SELECT {} OFFSET 0) AS t WHERE {}", columns, rule)
    with database_errors("resolving a rule", table.key), connection.transaction():
        accepted(connection.pgconn.prepare(b"", resolved.as_bytes(None)))
        accepted(connection.pgconn.exec_(planned.as_bytes(None)))


def accepted(result: pq.abc.PGresult) -> None:
    """Raise a NotAllowed with the server's message if it refuses a statement."""
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        raise NotAllowed(message.decode(errors="replace"))
