"""The schema's DDL, by pg_dump, cut down to what may travel (PRIVACY P4)."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from privbench.errors import AccessDenied, DatabaseError, UsageError
from privbench.postgres import binaries
from privbench.postgres.binaries import Program
from privbench.postgres.connect import Connection, environment, major_version
from privbench.postgres.depend import Dependencies
from privbench.postgres.failures import database_errors
from privbench.schema import Schema, TableName

_CLASS, _PROC, _EXTENSION = 1259, 1255, 3079
#: What may travel. Not here: comments, rights, owners, foreign servers and tables, user mappings,
#: publications, subscriptions, event triggers, large objects, statistics' data.
ALLOWED = frozenset(
    """
    SCHEMA|EXTENSION|TYPE|SHELL TYPE|DOMAIN|COLLATION|CONVERSION|FUNCTION|PROCEDURE|AGGREGATE
    OPERATOR|OPERATOR CLASS|OPERATOR FAMILY|ACCESS METHOD|TEXT SEARCH PARSER
    TEXT SEARCH DICTIONARY|TEXT SEARCH TEMPLATE|TEXT SEARCH CONFIGURATION
    SEQUENCE|SEQUENCE OWNED BY|TABLE|TABLE ATTACH|DEFAULT|VIEW|MATERIALIZED VIEW|STATISTICS
    CONSTRAINT|CHECK CONSTRAINT|FK CONSTRAINT|INDEX|INDEX ATTACH|RULE|TRIGGER
    ROW SECURITY|POLICY
    """.replace("\n", "|")
    .replace("  ", "")
    .strip()
    .split("|")
)
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
    "--lock-wait-timeout=30000",
)
_ENTRY = re.compile(r"(?P<id>\d+); (?P<catalog>\d+) (?P<oid>\d+) (?P<rest>.*)", re.DOTALL)
_FIRST_OBJECT = re.compile(r"^--\n-- Name: ", re.MULTILINE)
_PSQL = re.compile(r"^\\(?:un)?restrict .*\n", re.MULTILINE)
#: The only column options there are, and both are numbers of rows in disguise.
_N_DISTINCT = re.compile(
    r"^ALTER (?:FOREIGN )?TABLE ONLY .* ALTER COLUMN .* SET \(n_distinct[^;\n]*\);\n", re.MULTILINE
)
#: Entries of row-level security, from their heading to the next.
_ROW_SECURITY = re.compile(
    r"^--\n-- Name: [^\n]*; Type: (?:POLICY|ROW SECURITY); [^\n]*\n--\n.*?(?=^--\n-- Name: |\Z)",
    re.MULTILINE | re.DOTALL,
)
#: Entries of extensions.
_MAKE_EXTENSION = re.compile(
    r"^--\n-- Name: (?P<name>[^\n]*?); Type: EXTENSION; [^\n]*\n--\n+"
    r"(?P<sql>CREATE EXTENSION (?:[^\n]* WITH SCHEMA (?P<space>[^\n]+)|[^\n]*);)\n",
    re.MULTILINE,
)
#: Extensions that serve foreign tables alone, which stay behind.
_WRAPPER = re.compile(r"EXTENSION - \S+_fdw ")
_SCHEMA = re.compile(r"^(-- Name: [^\n]*; Type: SCHEMA; [^\n]*\n--\n+CREATE SCHEMA )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ddl:
    """SQL text that makes the schema again in an empty database.

    Every name in it is qualified; it is run with an empty search path (`load.Loader` does).

    Attributes:
        pre_data: Types, functions, tables: what must be there before rows.
        post_data: Indexes, constraints, triggers: what is made after them.
        extensions: Extensions that its objects need, which the target must offer.
        server_version: Of the server it was taken from, as in ``server_version_num``.
    """

    pre_data: str
    post_data: str
    extensions: tuple[str, ...] = ()
    server_version: int = 0

    @property
    def making_extensions(self) -> list[tuple[str, bool]]:
        """What makes the extensions, one by one, and whether objects need it.

        The others only the text of functions may need. Each makes the PostgreSQL schema that it
        lives in, which need not be one that travels.
        """
        found = _MAKE_EXTENSION.finditer(self.pre_data)
        return [(_with_space(item), item["name"] in self.extensions) for item in found]

    @property
    def extension_schemas(self) -> dict[str, str]:
        """The schema that each extension lives in, as far as the text says."""
        found = [item.groupdict() for item in _MAKE_EXTENSION.finditer(self.pre_data)]
        return {item["name"]: _plain(item["space"]) for item in found if item["space"]}

    @property
    def objects(self) -> str:
        """What must be there before rows, but for extensions."""
        return _MAKE_EXTENSION.sub("", self.pre_data)

    @property
    def constraints(self) -> str:
        """What is made after the rows, but for row-level security."""
        return _ROW_SECURITY.sub("", self.post_data)

    @property
    def row_security(self) -> list[str]:
        """Row-level security and its policies, one by one: some speak of roles."""
        return _ROW_SECURITY.findall(self.post_data)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The DDL that `to_json` wrote."""
        return cls(
            pre_data=str(data["pre_data"]),
            post_data=str(data["post_data"]),
            extensions=tuple(str(name) for name in data["extensions"]),
            server_version=int(data["server_version"]),
        )


def find_pg_dump(minimum: int) -> Program:
    """A pg_dump of this major version, else of the next later one at hand.

    Looks in PATH, where systems put PostgreSQL, and in the optional embedded one.

    Raises:
        UsageError: There is none that new; the message says what was found.
    """
    found = binaries.find(
        "pg_dump", binaries.machine_directories() + binaries.package_directories()
    )
    fitting = [program for program in found if program.major >= minimum]
    if not fitting:
        versions = ", ".join(str(program.major) for program in found) or "none"
        raise UsageError(
            f"the server is PostgreSQL {minimum}, and pg_dump here is: {versions}.",
            remedy=f"Install the client programs of PostgreSQL {minimum} or later.",
        )
    return min(fitting, key=lambda program: program.major)


def dump_ddl(connection: Connection, schema: Schema, *, snapshot: str | None = None) -> Ddl:
    """The DDL of a schema: its tables, and what else its PostgreSQL schemas hold.

    Objects built upon a table that is left out (views, foreign keys, functions) are left out too.

    Args:
        connection: To the database; tells pg_dump where to go, and answers what depends on what.
        schema: What `introspect` said.
        snapshot: An exported snapshot that pg_dump shall see.

    Raises:
        UsageError: No pg_dump of the server's version.
        SchemaError: A table is built upon one that is left out.
        AccessDenied: The role may not read a table, which pg_dump must lock.
        DatabaseError: pg_dump failed.
    """
    program = find_pg_dump(major_version(connection))
    dependencies = Dependencies(connection, schema)
    with tempfile.TemporaryDirectory(prefix="pb-ddl-") as scratch:
        archive, contents = Path(scratch) / "archive", Path(scratch) / "contents"
        options = [*_OPTIONS, *_excluded(dependencies.excluded), f"--file={archive}"]
        if program.major >= 18:
            options.append("--no-statistics")
        if snapshot:
            options.append(f"--snapshot={snapshot}")
        _run([program.path, *options], environment(connection))
        restore = program.path.parent / "pg_restore"
        listed = _run([restore, "--list", archive])
        contents.write_text("".join(_allowed(listed, dependencies)), encoding="utf-8")
        common = [restore, f"--use-list={contents}", "--no-owner", "--no-privileges", "--file=-"]
        pre, post = (
            _clean(_run([*common, f"--section={section}", archive]))
            for section in ("pre-data", "post-data")
        )
    return Ddl(
        pre_data=pre,
        post_data=post,
        extensions=dependencies.needed_extensions,
        server_version=connection.info.server_version,
    )


def _excluded(names: Iterable[TableName]) -> list[str]:
    """Options for the relations left out; within quotes nothing in a pattern is special."""
    quoted = (
        ".".join('"' + part.replace('"', '""') + '"' for part in (name.schema, name.name))
        for name in names
    )
    return [f"--exclude-table={pattern}" for pattern in quoted]


def _allowed(listed: str, dependencies: Dependencies) -> Iterable[str]:
    """Lines of an archive's list of contents that may travel."""
    texts = any(catalog == _PROC for catalog, _ in dependencies.kept)
    for line in listed.splitlines(keepends=True):
        entry = _ENTRY.match(line)
        if entry is None or not _may_travel(entry["rest"]):
            continue
        item = (int(entry["catalog"]), int(entry["oid"]))
        if entry["rest"].startswith("ROW SECURITY "):
            # pg_dump gives the table's OID, and no catalog.
            item = (_CLASS, item[1])
        # What functions call by its text, the catalog does not know.
        wished = texts and item[0] == _EXTENSION and not _WRAPPER.search(entry["rest"])
        # Entries without an object (attachments, ownership of sequences) go with their tables,
        # which pg_dump was told to leave out.
        if item[1] == 0 or wished or item in dependencies.kept:
            yield line


def _may_travel(rest: str) -> bool:
    """Whether an entry ``KIND schema name owner`` is of an allowed kind."""
    words = rest.split(" ")
    kinds = [" ".join(words[:count]) for count in (4, 3, 2, 1)]
    longest = next((kind for kind in kinds if kind in ALLOWED or kind in _FORBIDDEN), None)
    return longest in ALLOWED


#: Kinds that begin with the name of an allowed one.
_FORBIDDEN = frozenset(
    {
        "TABLE DATA",
        "MATERIALIZED VIEW DATA",
        "SEQUENCE SET",
        "STATISTICS DATA",
        "PUBLICATION TABLE",
        "FOREIGN TABLE",
        "FOREIGN DATA WRAPPER",
        "USER MAPPING",
        "SERVER",
        "SUBSCRIPTION TABLE",
    }
)


def _run(command: list[Any], variables: dict[str, str] | None = None) -> str:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    done = subprocess.run(  # noqa: S603
        [str(part) for part in command],
        env={**inherited, **(variables or {}), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        with database_errors("reading what pg_dump wrote"):
            return done.stdout.decode()
    said = " ".join(done.stderr.decode(errors="replace").split())
    name = Path(command[0]).name
    kind = AccessDenied if "permission denied" in said else DatabaseError
    raise kind(f"{name} failed: {said[:600]}")


def _with_space(found: re.Match[str]) -> str:
    space = found["space"]
    if space is None or space.startswith("pg_"):
        return str(found["sql"])
    return f"CREATE SCHEMA IF NOT EXISTS {space};\n{found['sql']}"


def _plain(identifier: str) -> str:
    """A name without its quotes."""
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier


def _clean(text: str) -> str:
    """The objects alone: session settings and psql's own commands go."""
    first = _FIRST_OBJECT.search(text)
    if first is None:
        return ""
    text = _N_DISTINCT.sub("", _PSQL.sub("", text[first.start() :]))
    # The target may have the schema for an extension's sake.
    return _SCHEMA.sub(r"\1IF NOT EXISTS ", text).strip() + "\n"
