"""Dump the schema's DDL by pg_dump, without statements that a model must not hold (PRIVACY P4)."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from psycopg import sql

from privbench.errors import AccessDenied, DatabaseError, UsageError
from privbench.pgsql import Node, SqlError, Statement, cut
from privbench.pgsql.ddl import (
    SETTINGS_OF_TABLES,
    STATEMENTS,
    allowed,
    known,
    readable,
    trusted,
)
from privbench.pgsql.judge import QualifiedName, constant, relation_name, shown
from privbench.postgres import binaries
from privbench.postgres.binaries import Program
from privbench.postgres.connect import Connection, environment, major_version
from privbench.postgres.depend import Dependencies
from privbench.postgres.failures import database_errors
from privbench.postgres.locks import lock
from privbench.postgres.reading import TEXTS, WAIT
from privbench.postgres.statement import build
from privbench.schema import Schema, TableName, quoted

_CLASS, _PROC, _EXTENSION = 1259, 1255, 3079
_OPTIONS = (
    "--format=custom",
    "--schema-only",
    "--no-owner",
    "--no-privileges",
    "--no-comments",
    "--no-publications",
    "--no-subscriptions",
    "--no-security-labels",
    "--no-tablespaces",
    "--encoding=UTF8",
)
_ENTRY = re.compile(r"(?P<id>\d+); (?P<catalog>\d+) (?P<oid>\d+) (?P<rest>.*)", re.DOTALL)
#: What pg_dump of current minor releases puts before its text, so that psql refuses meta-commands
#: that a hostile server has put into it.
_RESTRICT = re.compile(r"^\\restrict (\w+)\n", re.MULTILINE)
_CREATE_SCHEMA = "CREATE SCHEMA "
#: Extensions that only watch a server or look after it, as PostgreSQL's documentation says
#: ("Additional Supplied Modules"), and those for foreign tables. A clone misses none.
_NO_LOSS = re.compile(
    r"\S+_fdw|adminpack|amcheck|old_snapshot|pageinspect|pg_(buffercache|freespacemap|prewarm|surgery"
    r"|logicalinspect|stat_statements|visibility|walinspect)|pgrowlocks|pgstattuple"
)
_SECURED = frozenset({"AT_EnableRowSecurity", "AT_ForceRowSecurity", "AT_NoForceRowSecurity"})


@dataclass(frozen=True, slots=True)
class Script:
    """The statements that create a schema, each to be run alone."""

    # The extensions, which come first: name, the PostgreSQL schema that it lives in, which need not
    # be cloned itself (None if the statement names none), and the statement that makes it.
    extensions: tuple[tuple[str, str | None, str], ...]
    objects: tuple[str, ...]  # what must exist before rows are loaded
    constraints: tuple[Statement, ...]  # what is made after the rows
    # Row-level security and its policies, last, since some name roles.
    row_security: tuple[str, ...]
    partitioned: frozenset[TableName]  # tables that have partitions, partitions among them
    # Statements that are not run, since the maker of the schema is not trusted; a line each, with
    # the reason.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ddl:
    """SQL text that creates the schema again in an empty database.

    Every name in it is qualified; it is run with an empty search path (`load.Loader` does).
    """

    pre_data: str  # types, functions, tables: what must be there before rows
    post_data: str  # indexes, constraints, triggers: what is made after them
    # Extensions that its objects need, which the target must offer.
    extensions: tuple[str, ...] = ()
    # Objects of the source that no clone gets, a line each: foreign tables and what is built upon
    # them, and statements that the parser cannot read. The model file does not hold these lines.
    left_behind: tuple[str, ...] = field(default=(), compare=False)

    def script(self, *, trust: bool) -> Script:
        """Return the statements to run: with ``trust`` all of them, else those on the allow-list.

        Raises a ModelError if the text cannot be parsed or `privbench.pgsql.ddl` refuses it.
        """
        return _script(self, trust)

    def overlaps(self) -> list[tuple[str, str]]:
        """Return the EXCLUDE and similar constraints between pairs of rows, each with its table."""
        overlapping = []
        for item in trusted(self.post_data).parts[0]:
            constraints = [node for node in item.tree.walk() if node.kind == "Constraint"]
            if any(
                n.get("contype") == "CONSTR_EXCLUSION" or n.get("without_overlaps")
                for n in constraints
            ):
                table = shown(relation_name(item.tree.nodes("relation")[0]))
                overlapping.append((table, item.text.partition("ADD CONSTRAINT ")[2]))
        return overlapping


@lru_cache(maxsize=2)
def _script(ddl: Ddl, trust: bool) -> Script:
    judged = (trusted if trust else allowed)(ddl.pre_data, ddl.post_data)
    before, after = judged.parts
    return Script(
        extensions=tuple(_extension(statement) for statement in before if _extends(statement)),
        objects=tuple(statement.text for statement in before if not _extends(statement)),
        constraints=tuple(statement for statement in after if not _secures(statement)),
        row_security=tuple(statement.text for statement in after if _secures(statement)),
        partitioned=frozenset(
            TableName(*relation_name(statement.tree.nodes("relation")[0]))
            for statement in before
            if statement.tree.get("partspec")
        ),
        left_out=judged.left_out,
    )


def _extension(statement: Statement) -> tuple[str, str | None, str]:
    name = str(statement.tree.get("extname"))
    options = {str(option.get("defname")): option for option in statement.tree.nodes("options")}
    schema = options["schema"].nodes("arg")[0].get("sval") if "schema" in options else None
    return name, schema, statement.text


def find_pg_dump(minimum: int) -> Program:
    """Return a pg_dump of this major version, or of the next later version that is available.

    Searches PATH, the places where systems put PostgreSQL, and the optional embedded server; raises
    a UsageError if there is none.
    """
    directories = binaries.machine_directories() + binaries.package_directories()
    others = []
    for program in binaries.programs("pg_dump", directories):
        if program.major == minimum:
            return program
        others.append(program)
    fitting = [program for program in others if program.major > minimum]
    if not fitting:
        versions = ", ".join(str(program.major) for program in others) or "none"
        raise UsageError(
            f"the server is PostgreSQL {minimum}, and pg_dump here is: {versions}.",
            remedy=f"Install the client programs of PostgreSQL {minimum} or later.",
        )
    return min(fitting, key=lambda program: program.major)


def dump_ddl(connection: Connection, schema: Schema) -> Ddl:
    """Return the DDL of a schema: its tables, and all else that its PostgreSQL schemas hold.

    Objects that depend on a table that is left out (views, foreign keys, functions) are left out
    too.

    Raises:
        UsageError: No pg_dump of the server's version.
        SchemaError: A table is built upon one that is left out.
        AccessDenied: The role may not read a table, which pg_dump must lock.
    """
    program = find_pg_dump(major_version(connection))
    dependencies = Dependencies(connection, schema)
    with tempfile.TemporaryDirectory(prefix="pb-ddl-") as scratch:
        archive, contents = Path(scratch) / "archive", Path(scratch) / "contents"
        options = [*_OPTIONS, f"--file={archive}"]
        # Within quotes, no character of a pattern is special.
        left_out = (quoted(name.schema, name.name) for name in dependencies.excluded)
        options += [f"--exclude-table={name}" for name in left_out]
        options.append(f"--lock-wait-timeout={round(WAIT.get() * 1000)}")
        if program.major >= 18:
            options.append("--no-statistics")
        for table in schema:
            # pg_dump would wait for the lock without a message.
            lock(connection, build("{}", table.name), table.key)
        _dump([program.path, *options], environment(connection))
        restore = program.path.parent / "pg_restore"
        listed = _run([restore, "--list", archive])
        contents.write_text("".join(_archive_lines(listed, dependencies)), encoding="utf-8")
        common = [restore, f"--use-list={contents}", "--no-owner", "--no-privileges", "--file=-"]
        gone = set[QualifiedName]()
        (pre, before), (post, after) = (
            cleaned(_run([*common, f"--section={section}", archive]), gone)
            for section in ("pre-data", "post-data")
        )
    return Ddl(
        pre_data=pre + _declared(schema),
        post_data=post,
        extensions=dependencies.needed_extensions,
        left_behind=(*dependencies.left_behind, *before, *after),
    )


def _declared(schema: Schema) -> str:
    """Statements that add the rules of the config as CHECK constraints."""
    template = "ALTER TABLE {} ADD CONSTRAINT {} CHECK {};\n"
    return "".join(
        build(template, table.name, check.name, sql.SQL(check.expression)).as_string(None)
        for table in schema
        for check in table.checks
        if check.declared
    )


def _archive_lines(listed: str, dependencies: Dependencies) -> Iterable[str]:
    """Lines of an archive's list of contents whose objects belong to the schema.

    Lines end only at a line feed: a name may hold any other line-break character.
    """
    texts = any(catalog == _PROC for catalog, _ in dependencies.kept)
    for line in listed.split("\n"):
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        item = (int(entry["catalog"]), int(entry["oid"]))
        if entry["rest"].startswith("ROW SECURITY "):
            # For these pg_dump gives the OID of the table, but not that of its catalog.
            item = (_CLASS, item[1])
        # The catalog does not record which extensions the text of a function needs.
        name = entry["rest"].removeprefix("EXTENSION - ").strip()
        wished = texts and item[0] == _EXTENSION and not _NO_LOSS.fullmatch(name)
        # Entries without an object (attachments, ownership of sequences) go with their tables,
        # which pg_dump leaves out.
        if item[1] == 0 or wished or item in dependencies.kept:
            yield f"{line}\n"


def _dump(command: list[Any], variables: dict[str, str]) -> None:
    """Run pg_dump under settings that the source's owner cannot change."""
    settings = {**TEXTS, "statement_timeout": "0"}
    arguments = [f"-c {name}={value}".replace(", ", r",\ ") for name, value in settings.items()]
    # Of two values for one setting the last counts.
    options = " ".join([variables.get("PGOPTIONS", ""), *arguments])
    try:
        _run(command, {**variables, "PGOPTIONS": options})
    except DatabaseError as error:
        # PgBouncer refuses them, or drops them in silence: then `_clean` looks at what was written.
        if "startup parameter" not in str(error):
            raise
        _run(command, variables)


def _run(command: list[Any], variables: dict[str, str] | None = None) -> str:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    process = subprocess.run(  # noqa: S603
        [str(part) for part in command],
        env={**inherited, **(variables or {}), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if process.returncode == 0:
        with database_errors("reading what pg_dump wrote"):
            return process.stdout.decode()
    output = " ".join(process.stderr.decode(errors="replace").split())
    name = Path(command[0]).name
    kind = AccessDenied if "permission denied" in output else DatabaseError
    raise kind(f"{name} failed: {output[:600]}")


def cleaned(text: str, gone: set[QualifiedName]) -> tuple[str, list[str]]:
    """Return pg_dump's text without the statements that a model must not hold (`_travels`).

    Statements that the parser cannot read, and what depends on them, are left out too, with a line
    on each; the names of such views are added to ``gone``.

    Raises:
        DatabaseError: The text states that it was written under other settings than `TEXTS`, so it
            would be read as another text than it is.
    """
    listed, unread = readable(dumped(text), gone)
    for tree in (item.tree for item in listed if item.tree.kind == "VariableSetStmt"):
        name = str(tree.get("name")).lower()
        values = [constant(node) for node in tree.nodes("args")]
        if name in TEXTS and values != [TEXTS[name]]:
            raise DatabaseError(
                f"the source was dumped under another setting of {name}, which a pooler or the "
                "server keeps.",
                remedy="Connect to the server itself, or set it back there: "
                f"ALTER DATABASE … RESET {name}.",
            )
    return "".join(f"{_again(item)};\n" for item in listed if _travels(item.tree)), unread


def dumped(text: str) -> list[Statement]:
    r"""Return the statements of pg_dump's text.

    Its first and last line may be psql's commands ``\restrict KEY`` and ``\unrestrict KEY`` with
    the same key. Any other psql command is no SQL, and the text is then refused.
    """
    begin = _RESTRICT.search(text)
    if begin is not None:
        last = f"\n\\unrestrict {begin[1]}\n"
        inside, statements_text, after = text[begin.end() - 1 :].rpartition(last)
        if statements_text:
            text = text[: begin.start()] + inside[1:] + "\n" + after
    try:
        return known(cut(text))
    except SqlError as error:
        raise DatabaseError(f"pg_dump's text cannot be read: {error.message}") from None


def _travels(tree: Node) -> bool:
    """Whether a model may hold a statement: never comments, rights, statistics, foreign servers."""
    if tree.kind == "VariableSetStmt":
        return tree.get("name") in SETTINGS_OF_TABLES
    # The only column options are numbers of distinct values, which were computed from rows.
    options = {str(command.get("subtype")) for command in tree.nodes("cmds")} <= {"AT_SetOptions"}
    return tree.kind in STATEMENTS and not (tree.kind == "AlterTableStmt" and options)


def _again(statement: Statement) -> str:
    """The text of a statement; CREATE SCHEMA gets IF NOT EXISTS, as an extension may make it."""
    if statement.tree.kind != "CreateSchemaStmt" or not statement.text.startswith(_CREATE_SCHEMA):
        return statement.text
    return f"{_CREATE_SCHEMA}IF NOT EXISTS {statement.text.removeprefix(_CREATE_SCHEMA)}"


def _extends(statement: Statement) -> bool:
    return statement.tree.kind == "CreateExtensionStmt"


def _secures(statement: Statement) -> bool:
    """Whether a statement is part of row-level security."""
    commands = {str(command.get("subtype")) for command in statement.tree.nodes("cmds")}
    return statement.tree.kind == "CreatePolicyStmt" or bool(commands & _SECURED)
