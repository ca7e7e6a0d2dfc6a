"""``publish``: a model as a bundle that starts on PostgreSQL, made without the source."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import LiteralString

from privbench import __version__, pipeline
from privbench.errors import UsageError
from privbench.pgsql import Statement
from privbench.pgsql.ddl import allowed
from privbench.pipeline import Model, Reporter
from privbench.pipeline.sampling import file_names
from privbench.postgres import embedded
from privbench.postgres.connect import Connection, major_version
from privbench.postgres.ddl import Ddl, dump_ddl
from privbench.postgres.failures import database_errors
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import ROWS, reading
from privbench.publish import facts
from privbench.publish.accounts import certificate_of
from privbench.publish.checksums import digest, sums_text, walk
from privbench.publish.facts import Bundle, Certificate
from privbench.publish.judging import joined, judge_ddl, judge_workload
from privbench.publish.scripts import rendered
from privbench.publish.signing import sign
from privbench.publish.tabular import (
    copy_out,
    kind_of,
    settle_kinds,
    where_sequences_stand,
    write_parquet,
)
from privbench.schema import Schema, Table, TableName
from privbench.workload import KINDS, Plan, Query, Workload, generate_from_source, write

#: Joins of two or three tables around rows that join: no answer is zero.
_KIND = "joins"
_FILLED: LiteralString = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND c.relispopulated ORDER BY c.oid
"""


@dataclass(frozen=True)
class About:
    """What a publisher says of a bundle; none of it is learned from rows.

    Attributes:
        title: Its name.
        publisher: Who answers for it.
        licence: Under which licence it may be used.
        published: The day, as ``2026-01-31``; None for today.
    """

    title: str = "Synthetic benchmark database"
    publisher: str = "not stated"
    licence: str = "not stated"
    published: str | None = None


@dataclass(frozen=True)
class Published:
    """What was written.

    Attributes:
        folder: The bundle.
        bundle: Its facts.
        certificate: Its guarantee.
        files: Number of files.
        size: Bytes of all files.
    """

    folder: Path
    bundle: Bundle
    certificate: Certificate
    files: int
    size: int

    def render(self) -> str:
        """Plain text for people."""
        rows = sum(table.rows for table in self.bundle.tables)
        promise = self.certificate.promise
        lines = [
            f"{self.folder}: {len(self.bundle.tables)} tables, {rows:,} rows, {self.files} files, "
            f"{self.size:,} bytes; ε = {promise.epsilon:g}, δ = {promise.delta:g}.",
            *(f"PUBLIC, COPIED VERBATIM: {name}" for name in self.certificate.public),
            *self.bundle.lost,
            f"Next: privbench verify {self.folder}",
        ]
        return "\n".join(lines)


def publish(
    model: str | Path,
    output: str | Path,
    *,
    about: About | None = None,
    database: str | None = None,
    workload: str | Path | None = None,
    queries: int = 100,
    scale: float = 1.0,
    seed: int | None = None,
    key: str | Path | None = None,
    reporter: Reporter | None = None,
) -> Published:
    """Write a bundle: schema, rows, workload, certificate, and what starts and describes them.

    The clone is loaded into a database first, where its rows are made to keep every rule of the
    schema, and everything in the bundle is read from there or from the model. Programs of the
    model (functions, triggers) are left out, as a load without trust leaves them out.

    Args:
        model: The model file.
        output: A folder that is empty or does not exist.
        about: What the publisher says of it.
        database: DSN of an empty database for the clone; None for an embedded server.
        workload: Queries whose text is declared public: their literals are bound anew to rows of
            the clone, their weights and answers dropped. None to generate some.
        queries: How many to generate; 0 for none.
        scale: Size of the clone.
        seed: Seed of the sampling, not of any noise.
        key: A private key of OpenSSH to sign with.
        reporter: Told of stages.

    Raises:
        PrivacyRefusal: The model is NOT PRIVATE.
        ModelError: The model is damaged, or its schema holds what no bundle may hold.
        UsageError: The folder, the workload or the key cannot be used, or there is no server.
        DatabaseError: The server refused.
    """
    teller, folder = reporter or Reporter(), Path(output)
    found = Model.load(model)
    certificate_of(found, Path(model), "")  # What is not private is refused before any work.
    _require_empty(folder)
    scratch = Path(tempfile.mkdtemp(dir=_parent(folder), prefix=".privbench-"))
    try:
        with ExitStack() as stack:
            if database is None:
                database = stack.enter_context(_server()).dsn
            report = pipeline.load(model, database, scale=scale, seed=seed, reporter=teller)
            with teller.stage("export"):
                connection = stack.enter_context(reading(database, ROWS))
                made = _export(scratch, found, connection, about or About(), report.losses)
            with teller.stage("workload"):
                made = _add_workload(scratch, made, connection, database, workload, queries)
                version = connection.info.parameter_status("server_version") or ""
        certificate = certificate_of(found, Path(model), version.split()[0])
        with teller.stage("finish"):
            _finish(scratch, made, certificate, Path(key) if key else None)
            size = sum((scratch / path).stat().st_size for path in walk(scratch))
        if folder.exists():
            folder.rmdir()
        os.replace(scratch, folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return Published(folder, made.bundle, certificate, len(walk(folder)), size)


@dataclass(frozen=True)
class _Made:
    """What a bundle is made of so far."""

    bundle: Bundle
    ddl: Ddl
    schema: Schema
    workload: Workload | None = None


def _server() -> embedded.Server:
    if embedded.embedded_programs():
        return embedded.embedded_server()
    return embedded.machine_server()


def _export(
    folder: Path, model: Model, connection: Connection, about: About, losses: list[str]
) -> _Made:
    """Schema and rows of the clone."""
    schema = introspect(connection)
    dumped = dump_ddl(connection, schema)
    ddl, without = _travelling(dumped)
    made = judge_ddl(ddl.pre_data, ddl.post_data)
    (folder / "schema").mkdir()
    (folder / facts.BEFORE).write_bytes(ddl.pre_data.encode())
    (folder / facts.AFTER).write_bytes(ddl.post_data.encode())
    folders = file_names([table.name for table in schema], "csv")
    names = {table: path.removesuffix(".csv") for table, path in folders.items()}
    sequences = where_sequences_stand(
        connection,
        [
            (item.name.schema, item.name.name)
            for item in schema.sequences
            if (item.name.schema, item.name.name) in made.sequences
        ],
    )
    with database_errors("reading materialised views"):
        filled = connection.execute(_FILLED).fetchall()
    data = {
        "format": "privbench-bundle",
        "version": facts.VERSION,
        "title": about.title,
        "publisher": about.publisher,
        "licence": about.licence,
        "published": about.published or datetime.now(UTC).date().isoformat(),
        "privbench": __version__,
        "server": major_version(connection),
        "extensions": list(ddl.extensions),
        "tables": [
            _table(folder, names[table.name], table, schema, connection, table.key in model.public)
            for table in schema
        ],
        "sequences": [
            {"schema": space, "name": name, "value": value, "called": called}
            for space, name, value, called in sequences
        ],
        "views": [
            {"schema": space, "name": name} for space, name in filled if (space, name) in made.views
        ],
        "workload": "none",
        "lost": [" ".join(line.split())[:1000] for line in (*losses, *without)],
    }
    return _Made(_checked(data), ddl, schema)


def _checked(data: dict[str, object]) -> Bundle:
    try:
        return Bundle.model_validate(data)
    except ValueError as error:
        said = str(error).splitlines()
        raise UsageError(f"the bundle cannot be described: {' '.join(said[1:3])[:300]}.") from None


def _travelling(ddl: Ddl) -> tuple[Ddl, list[str]]:
    """The DDL without what the reader's server need not know: roles, extensions nobody needs."""
    before, after = allowed(ddl.pre_data, ddl.post_data).parts
    spaces = {
        item.schema for item in ddl.script(trust=False).extensions if item.needed and item.schema
    }
    made = {str(s.tree.get("schemaname")) for s in before if s.tree.kind == "CreateSchemaStmt"}
    first = [
        f'CREATE SCHEMA IF NOT EXISTS "{space.replace(chr(34), chr(34) * 2)}"'
        for space in sorted(spaces - made - {"public"})
    ]
    kept = [
        item
        for item in before
        if item.tree.kind != "CreateExtensionStmt" or item.tree.get("extname") in ddl.extensions
    ]
    roles = [item for item in after if _speaks_of_roles(item)]
    rest = [item for item in after if item not in roles]
    lines = [f"left out, since it speaks of a role: {' '.join(s.text.split())[:200]}" for s in roles]
    return replace(ddl, pre_data=joined([*first, *kept]), post_data=joined(rest)), lines


def _speaks_of_roles(item: Statement) -> bool:
    return item.tree.kind == "CreatePolicyStmt" and any(
        node.kind == "RoleSpec" and node.get("roletype") != "ROLESPEC_PUBLIC"
        for node in item.tree.walk()
    )


def _table(
    folder: Path,
    name: str,
    table: Table,
    schema: Schema,
    connection: Connection,
    public: bool,
) -> dict[str, object]:
    """A table's files, and what the bundle says of it."""
    columns = [column for column in table.columns if not column.generated]
    names = [column.name for column in columns]
    kinds, chunks, rows = [], [], 0
    place = folder / "data" / name
    if columns:
        place.mkdir(parents=True)
        chunks = copy_out(
            connection, table, names, (place / f"{number:05d}.csv" for number in count(1))
        )
        rows = sum(chunks)
        files = [place / f"{number + 1:05d}.csv" for number in range(len(chunks))]
        kinds = settle_kinds(files, names, [kind_of(column) for column in columns])
        for file in files:
            write_parquet(file, file.with_suffix(".parquet"), names, kinds)
    else:
        rows = _count(connection, table.name)
    known = {item.name for item in schema}
    keys = [key for key in table.foreign_keys if key.ref_table in known]
    primary = table.primary_key.columns if table.primary_key else ()
    return {
        "schema": table.name.schema,
        "name": table.name.name,
        "folder": name,
        "public": public,
        "columns": [
            {"name": c.name, "type": c.type.sql, "kind": kind, "required": c.not_null}
            for c, kind in zip(columns, kinds, strict=True)
        ],
        "primary_key": list(primary) if set(primary) <= set(names) else [],
        "foreign_keys": [
            {
                "columns": list(key.columns),
                "schema": key.ref_table.schema,
                "table": key.ref_table.name,
                "ref_columns": list(key.ref_columns),
            }
            for key in keys
            if set(key.columns) <= set(names)
        ],
        "rows": rows,
        "chunks": chunks,
    }


def _count(connection: Connection, name: TableName) -> int:
    from psycopg import sql

    statement = sql.SQL("SELECT pg_catalog.count(*) FROM {}")
    with database_errors("counting rows", str(name)):
        row = connection.execute(
            statement.format(sql.Identifier(name.schema, name.name))
        ).fetchone()
    return int(row[0]) if row else 0


def _add_workload(
    folder: Path,
    made: _Made,
    connection: Connection,
    database: str,
    given: str | Path | None,
    queries: int,
) -> _Made:
    """The workload, generated from the clone's rows or bound anew to them."""
    lost = list(made.bundle.lost)
    if given is not None:
        bound = pipeline.rebind(given, on=database)
        lost += [f"of the workload, {len(bound.left_out)} queries could not be bound anew"] * bool(
            bound.left_out
        )
        texts, origin = [Query("", query.sql) for query in bound.workload], "declared public"
    elif queries:
        plan: Plan = replace(KINDS[_KIND].plan, queries=queries)
        try:
            drawn = generate_from_source(connection, _KIND, made.schema, plan)
        except UsageError as error:
            lost.append(f"no workload: {error.message}")
            return replace(made, bundle=made.bundle.model_copy(update={"lost": lost}))
        texts, origin = list(drawn), "generated"
    else:
        return made
    numbered = tuple(replace(query, id=f"q{place}") for place, query in enumerate(texts, 1))
    whole = Workload("workload", numbered)
    judge_workload(whole)
    (folder / "workload").mkdir()
    write(whole, folder / facts.WORKLOAD, "native")
    bundle = made.bundle.model_copy(update={"workload": origin, "lost": lost})
    return replace(made, bundle=bundle, workload=whole)


def _finish(folder: Path, made: _Made, certificate: Certificate, key: Path | None) -> None:
    """The texts that follow from the others, checksums, the signature, and rights to read."""
    (folder / facts.BUNDLE).write_bytes(facts.text(made.bundle))
    (folder / facts.CERTIFICATE).write_bytes(facts.text(certificate))
    digests = {path: digest(folder, path) for path in walk(folder)}
    rows = {path: value for path, value in digests.items() if path.startswith("data/")}
    texts = rendered(made.bundle, certificate, made.ddl, made.workload, rows)
    for path, text in texts.items():
        (folder / path).write_bytes(text)
        digests[path] = digest(folder, path)
    sums = sums_text(digests)
    (folder / facts.SUMS).write_bytes(sums)
    if key is not None:
        (folder / facts.SIGNATURE).write_bytes(sign(sums, key))
    for place in _all(folder):
        place.chmod(0o755 if place.is_dir() else 0o644)


def _all(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def _parent(folder: Path) -> Path:
    parent = folder.resolve().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {parent}: {error.strerror}.") from error
    return parent


def _require_empty(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is no folder.", remedy="Name a new one.")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", remedy="Name a new one.")
