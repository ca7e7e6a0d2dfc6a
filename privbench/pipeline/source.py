"""The source's catalog, read once per command: schema, identity, DDL. Reads no rows.

Rules of the config become CHECK constraints of the tables that they name. A rule is public: the
owner declares it, and nothing tests whether the source's rows satisfy it. From here on it is a
CHECK like any other: the encoding uses it, the model's DDL creates it, and a load repairs the rows
that violate it. Rules are checked as strictly as expressions from an unknown author.

Values in the DDL become part of the release: the owner reviews them once (P4).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from psycopg import pq, sql

from privbench.config import Config
from privbench.errors import ConfigError
from privbench.limits import expression
from privbench.pgsql import Node, SqlError, Token, statements, tokens
from privbench.pgsql.judge import NotAllowed, shown
from privbench.pgsql.written import canonical, judged
from privbench.postgres.connect import OF_FILES, Connection, Identity, identity
from privbench.postgres.ddl import Ddl, dump_ddl
from privbench.postgres.failures import database_errors
from privbench.postgres.introspect import check_access, introspect
from privbench.postgres.reading import reading
from privbench.postgres.statement import build
from privbench.schema import Check, Schema, Table, TableName
from privbench.sources import is_file, staged
from privbench.workload.database import refuse_computing

NO_DDL = Ddl("", "")


@dataclass(frozen=True)
class Catalog:
    """The part of the source's catalog that the config selects."""

    schema: Schema  # the chosen tables
    identity: Identity  # the database's identity for the ledger
    # The tables' DDL, which becomes part of the model; empty where pg_dump was not run.
    ddl: Ddl = NO_DDL

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """Statements of the DDL that hold values, cut to the lines that do."""
        return tuple(literals(self.ddl))


def require_identity(source: str, config: Config) -> None:
    """Refuse a source of files without a declared identity, before the files are copied.

    See `Identity.required`.
    """
    if is_file(source) and config.database.identity is None:
        OF_FILES.required()


def require_epsilon(config: Config) -> Config:
    """The config, if it gives ε; else a `ConfigError`."""
    if config.privacy.epsilon is None:
        raise ConfigError(
            "no ε is given.", remedy="Use --epsilon, or epsilon under [privacy] in the config."
        )
    return config


def look(source: str, config: Config, *, access: bool = True, dump: bool = True) -> Catalog:
    """Read a source's catalog and DDL; see `read_catalog`."""
    with staged(source, config, rows=False) as here, reading(here) as connection:
        return read_catalog(connection, config, access=access, dump=dump)


def read_catalog(
    connection: Connection, config: Config, *, access: bool = True, dump: bool = False
) -> Catalog:
    """Introspect the chosen schemas, with the config's rules as CHECKs; `dump` runs pg_dump too.

    With `access`, also check that every table may be read and that reading it runs no function of
    users.

    Raises:
        AccessDenied: A right is missing; the error names the GRANT.
        ConfigError: A rule of the config cannot become a CHECK.
        SchemaError: A named schema or table does not exist, or reading a table runs a function of
            users.
        UsageError: There is no pg_dump of the server's version.
    """
    chosen = config.database
    schema = introspect(connection, chosen.schemas, chosen.exclude, chosen.tables)
    if access:
        check_access(connection, schema)
        refuse_computing(connection, [table.name for table in schema])
    schema = with_rules(connection, schema, config)
    known = identity(connection, config.database.identity)
    return Catalog(schema, known, dump_ddl(connection, schema) if dump else NO_DDL)


#: Names of the constraints that rules become: this prefix and a number.
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
    # Names must be unique: tables inherit constraints, and a clone of a clone already has the
    # constraints of earlier rules.
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
            # The brackets keep readers of CHECKs from taking the first word for a keyword.
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
        _accepted(connection.pgconn.prepare(b"", resolved.as_bytes(None)))
        _accepted(connection.pgconn.exec_(planned.as_bytes(None)))


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
    """A text of unknown origin, made safe to be shown as part of one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


_STRINGS = frozenset(["SCONST", "USCONST", "BCONST", "XCONST"])
_NUMBERS = frozenset(["ICONST", "FCONST"])
#: Last words of the names of types that take a length or precision.
_TYPES = frozenset({"VARYING", "VARCHAR", "CHARACTER", "CHAR", "BPCHAR", "NUMERIC", "DECIMAL"})
_TYPES |= {"BIT", "VARBIT", "TIMESTAMP", "TIME", "INTERVAL"}


def literals(ddl: Ddl) -> list[str]:
    """The lines of all statements that hold a string or a number, function bodies included.

    Settings, lengths and precisions of types, sequences that count from 1 by 1 and the names of
    sequences hold no values of rows and are left out. Policies are listed whole, with or without
    literals: no other statement shows their names and roles, which become part of the release too.

    >>> literals(Ddl("CREATE TABLE t (a varchar(9), b int DEFAULT 4);", ""))
    ['CREATE TABLE t (a varchar(9), b int DEFAULT 4)']
    >>> literals(Ddl("CREATE TABLE t (a numeric(10,2));", "ALTER TABLE t CLUSTER ON u;"))
    []
    >>> literals(Ddl("", "CREATE POLICY p ON t TO auditor USING (true);"))
    ['CREATE POLICY p ON t TO auditor USING (true)']
    """
    parts = (ddl.pre_data, ddl.post_data)
    found = (_said(statement.text) for part in parts for statement in statements(part))
    return [line for line in found if line]


def seal(lines: Iterable[str]) -> str:
    """A short digest of the listed lines, in any order; the owner's sign-off holds for it alone.

    >>> seal(["a", "b"]) == seal(["b", "a"]) != seal(["a"])
    True
    """
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def require_reviewed(config: Config, lines: Iterable[str]) -> None:
    """Refuse a schema whose literals differ from those that ``[privacy] ddl_reviewed`` approves."""
    given = config.privacy.ddl_reviewed
    if given is not None and given != seal(lines):
        raise ConfigError(
            "the values in the schema are not those that [privacy] ddl_reviewed was given for.",
            remedy="Remove that line, run 'privbench check', review the values that it lists, and "
            "add the new line that it prints.",
        )


def _said(statement: str) -> str:
    """The head of a statement and its lines with literals, joined in one line.

    It is empty if the statement has no literals. A policy is shown whole.
    """
    read = tokens(statement)
    if [token.text.upper() for token in read[:2]] == ["CREATE", "POLICY"]:
        return " ".join(statement[read[0].start : read[-1].end].split())
    counts = "SEQUENCE" in {token.text.upper() for token in read}
    marks = [token for at, token in enumerate(read) if _speaks(read, at, counts=counts)]
    if not marks or read[0].text.upper() == "SET":
        return ""
    head = _lines(statement, read[0].start, read[0].end)
    spans = dict.fromkeys(_lines(statement, token.start, token.end) for token in marks)
    return " ".join(" ".join(text.split()) for text in dict.fromkeys([head, *spans]))


def _lines(text: str, start: int, end: int) -> str:
    """The complete lines that contain the text from `start` to `end`."""
    stop = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : stop if stop >= 0 else len(text)]


def _speaks(read: Sequence[Token], at: int, *, counts: bool) -> bool:
    """Whether a token is a literal that may reveal something."""
    token = read[at]
    if token.kind in _STRINGS:
        return [after.text for after in read[at + 1 : at + 3]] != ["::", "regclass"]
    if token.kind not in _NUMBERS or (counts and token.text == "1"):
        return False
    # A number after a type and an open bracket is its modifier: ``numeric(10,``.
    before = (read[place] for place in range(at - 1, -1, -1))
    for earlier in before:
        if earlier.text == "(":
            name = next(before, None)
            return name is None or name.text.upper().split()[-1] not in _TYPES
        if not (earlier.kind in _NUMBERS or earlier.text in (",", "-")):
            return True
    return True
