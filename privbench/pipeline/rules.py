"""Rules of the config as CHECK constraints of the tables that they name.

A rule is public: its owner declares it, and whether the source's rows keep it is never asked. From
here on it is a CHECK like any other: the encoding reads it, the model's DDL makes it, and a load
repairs the rows that break it. Rules are judged as the expressions of a stranger are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from psycopg import pq, sql

from privbench.config import Config
from privbench.errors import ConfigError
from privbench.limits import expression
from privbench.pgsql import Node, SqlError
from privbench.pgsql.judge import NotAllowed, shown
from privbench.pgsql.written import canonical, judged
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.schema import Check, Schema, Table, TableName

#: What the constraints of rules are called, before a number.
PREFIX = "privbench_rule_"


def with_rules(connection: Connection, schema: Schema, config: Config) -> Schema:
    """The schema with the config's rules as CHECKs; the source's server resolves their names."""
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
    # No name twice: tables inherit constraints, and a clone of a clone has those of earlier rules.
    taken = {check.name for table in schema for check in table.checks}
    names = (free for number in count(1) if (free := f"{PREFIX}{number}") not in taken)
    tables = (
        replace(
            table, checks=(*table.checks, *_checks(connection, table, names, rules[table.name]))
        )
        for table in schema
    )
    return replace(schema, tables=tuple(tables))


def _checks(
    connection: Connection, table: Table, names: Iterator[str], rules: Iterable[str]
) -> Iterator[Check]:
    for text, name in zip(rules, names, strict=False):
        try:
            judged(expression(text))
            # In brackets, so that no reader of CHECKs takes its first word for something else.
            whole = expression(f"({canonical(text)})")
            columns = _columns(judged(whole), table)
            _resolve(connection, table, whole)
        except (NotAllowed, SqlError, ValueError) as error:
            raise ConfigError(
                f"the rule {_line(text)!r} cannot be kept: {_line(str(error).rstrip('.'))}.",
                table=table.key,
                remedy="A rule is a condition on the table's columns by PostgreSQL's own functions "
                "and operators, as a CHECK is.",
            ) from None
        yield Check(name, whole, columns, declared=True)


def _resolve(connection: Connection, table: Table, text: str) -> None:
    """Have the server look up what a rule names, and compute its constants, as for a CHECK.

    WHERE takes what a CHECK does, and beside that the queries and system columns that were refused.
    It is planned on columns of NULL: no row is read, nor a statistic of any. What the server says
    where it refuses depends on the rule and the catalog, on no row.
    """
    place = sql.Identifier(table.name.schema, table.name.name)
    resolved = sql.SQL("SELECT FROM {} WHERE {}").format(place, sql.SQL(text))
    columns = sql.SQL(", ").join(
        sql.SQL("NULL::{} AS {}").format(sql.SQL(column.type.sql), sql.Identifier(column.name))
        for column in table.columns
    )
    planned = sql.SQL("EXPLAIN SELECT FROM (SELECT {} OFFSET 0) AS t WHERE {}")
    with database_errors("resolving a rule", table.key), connection.transaction():
        _accepted(connection.pgconn.prepare(b"", resolved.as_bytes(None)))
        _accepted(connection.pgconn.exec_(planned.format(columns, sql.SQL(text)).as_bytes(None)))


def _accepted(result: pq.abc.PGresult) -> None:
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        raise NotAllowed(said.decode(errors="replace"))


def _columns(tree: Node, table: Table) -> tuple[str, ...]:
    """The columns that a rule reads, in the table's order; at least one, and nothing else."""
    read = {node.names("fields") for node in tree.walk() if node.kind == "ColumnRef"}
    known = [column.name for column in table.columns]
    unknown = sorted(read - {(name,) for name in known})
    if unknown or not read:
        what = f"{shown(unknown[0])}, which is no column of the table" if unknown else "no column"
        raise NotAllowed(f"it reads {what}")
    return tuple(name for name in known if (name,) in read)


def _line(text: str) -> str:
    """A text of somebody's as part of one line for people."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]
