"""The command ``publish``: make a bundle that starts on PostgreSQL from a model, with no source."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, LiteralString

from psycopg import sql
from psycopg.rows import dict_row
from pydantic import TypeAdapter, ValidationError

from privbench import __version__, display, pipeline
from privbench.errors import PrivacyRefusal, UsageError
from privbench.files import file_errors
from privbench.limits import Element, faults
from privbench.pgsql import Statement
from privbench.pgsql.ddl import Allowed, allowed
from privbench.pipeline import Model, Reporter
from privbench.pipeline.sampling import file_names
from privbench.postgres.connect import Connection, major_version
from privbench.postgres.ddl import Ddl, dump_ddl
from privbench.postgres.embedded import any_server
from privbench.postgres.failures import database_errors
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import ROWS, reading
from privbench.publish import planner, records
from privbench.publish.accounts import certificate_of
from privbench.publish.checksums import digest, sums_text, walk
from privbench.publish.judging import joined, judge_ddl, judge_workload
from privbench.publish.records import Bundle, Certificate, PlainText, PublishedStatistics
from privbench.publish.scripts import rendered
from privbench.publish.signing import sign
from privbench.publish.tabular import copy_out, write_parquet
from privbench.schema import Schema, Table, quoted
from privbench.workload import KINDS, Workload, WorkloadQuery, generate_from_source, read, write

#: Kind of the workload: joins drawn around rows that join, so that no answer is zero.
_KIND = "joins"
_FILLED: LiteralString = """
SELECT n.nspname AS schema, c.relname AS name FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND c.relispopulated ORDER BY c.oid
"""
_MOVED: LiteralString = """
SELECT schemaname AS schema, sequencename AS name, last_value AS value, true AS called
FROM pg_catalog.pg_sequences WHERE last_value IS NOT NULL ORDER BY 1, 2
"""


@dataclass(frozen=True)
class About:
    """What the publisher states about a bundle; none of it is computed from rows."""

    title: PlainText = "Synthetic benchmark database"
    publisher: PlainText = "not stated"
    licence: PlainText = "not stated"
    published: date = field(default_factory=lambda: datetime.now(UTC).date())


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
    statistics: bool = False,
    key: str | Path | None = None,
    reporter: Reporter | None = None,
) -> display.Lines:
    """Write a bundle: schema, rows, workload, certificate, scripts to start it, and metadata.

    The clone is loaded into a database first, where its rows are made to keep every rule of the
    schema, and everything in the bundle is read from there or from the model. Programs of the
    model (functions, triggers) are left out, as a load without trust leaves them out. Returns what
    was written, for people.

    Args:
        model: The model file.
        output: A folder that is empty or does not exist.
        about: What the publisher states about the bundle.
        database: DSN of an empty database for the clone; None for an embedded server.
        workload: Queries whose text is declared public: their literals are bound anew to rows of
            the clone, their weights and answers dropped. None to generate some.
        queries: How many to generate; 0 for none.
        scale: Size of the clone.
        seed: Seed of the sampling, not of any noise.
        statistics: Add the planner's statistics of the clone at the source's size, whatever the
            scale of the rows, for a database that may be empty.
        key: A private key of OpenSSH to sign with.
        reporter: Receives progress.

    Raises:
        PrivacyRefusal: The model is NOT PRIVATE, or the workload CONFIDENTIAL.
        ModelError: The model is damaged, or its schema holds what no bundle may hold.
        UsageError: The folder, the workload, the key or `about` cannot be used, or there is no
            server.
        DatabaseError: The server refused.
    """
    by_publisher = vars(about or About())
    _checked(About, by_publisher)
    teller, folder = reporter or Reporter(), Path(output)
    with teller.stage("read the model"):
        loaded = Model.load(model)
    with _describing():
        certificate = certificate_of(loaded, Path(model), "")
    queries_given = read(workload) if workload is not None else None
    if queries_given is not None:
        _refuse_confidential(queries_given)
    with ExitStack() as stack:
        scratch = stack.enter_context(_replacing_folder(folder))
        with teller.stage("start PostgreSQL"):
            dsn = database or stack.enter_context(any_server()).dsn
        if statistics:
            way = "Leave out --database, to use the embedded server, or --statistics."
            planner.require_version(dsn, way)
        report = pipeline.load(loaded, dsn, scale=scale, seed=seed, reporter=teller)
        connection = stack.enter_context(reading(dsn, ROWS))
        with teller.stage("export"):
            schema = introspect(connection)
            ddl, lost = _ddl(connection, schema)
            judged = judge_ddl(ddl.pre_data, ddl.post_data)
            data = _described(connection, scratch, schema, ddl, judged, {*loaded.public}, teller)
            needed = min(loaded.schema.server_version // 10000, major_version(connection))
        gathered = None
        if statistics:
            whole = dsn if scale == 1 else stack.enter_context(any_server()).dsn
            if whole != dsn:
                pipeline.load(loaded, whole, seed=seed, reporter=teller)
            with reading(whole, ROWS) as other:
                gathered = planner.gathered(other, judged.made()["tables"])
        with teller.stage("workload"):
            bound, origin, why = _workload(connection, dsn, schema, queries_given, queries, judged)
        version = connection.info.parameter_status("server_version") or ""
        certificate = certificate.model_copy(
            update={"versions": {**certificate.versions, "postgresql": version.split()[0]}}
        )
        lines = [
            display.visible(line)[:1000] for line in (*_loss_lines(report.losses), *lost, *why)
        ]
        facts = {"workload": origin, "statistics": statistics, "lost": lines, "server": needed}
        bundle = _checked(Bundle, {**data, **by_publisher, **facts})
        with teller.stage("finish"):
            _finish(scratch, bundle, certificate, ddl, bound, gathered, Path(key) if key else None)
    files = walk(folder)
    size = sum((folder / path).stat().st_size for path in files)
    promise = certificate.promise
    return display.lines(
        f"{folder}: {len(bundle.tables)} tables, {bundle.rows:,} rows, {len(files)} files, "
        f"{size:,} bytes; ε = {promise.epsilon:g}, δ = {promise.delta:g}.",
        *(f"PUBLIC, COPIED VERBATIM: {name}" for name in certificate.public),
        *bundle.lost,
        f"Next: privbench verify {folder}",
    )


@contextmanager
def _replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder next to `folder`, which replaces it once it is complete.

    Everybody may read the folder.
    """
    with file_errors(f"cannot use {folder}"):
        if folder.is_symlink() or (folder.exists() and any(folder.iterdir())):
            raise UsageError(f"{folder} is not empty.", remedy="Name a new folder.")
        parent = folder.resolve().parent
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=parent, prefix=".privbench-"))
    try:
        yield scratch
        for place in (scratch, *scratch.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
        if folder.exists():
            folder.rmdir()
        os.replace(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _ddl(connection: Connection, schema: Schema) -> tuple[Ddl, list[str]]:
    """The DDL of a clone for a bundle, and one line for every policy that is left out.

    Policies that name roles are left out, since the reader's server need not have these roles; so
    are extensions that the clone does not need.
    """
    dumped = dump_ddl(connection, schema)
    before, after = allowed(dumped.pre_data, dumped.post_data).parts
    created = {str(s.tree.get("schemaname")) for s in before if s.tree.kind == "CreateSchemaStmt"}
    extensions = dumped.script(trust=False).extensions
    spaces = {space or "public" for name, space, _ in extensions if name in dumped.extensions}
    first = [
        f"CREATE SCHEMA IF NOT EXISTS {quoted(space)}"
        for space in sorted(spaces - created - {"public"})
    ]
    allowed_statements = [
        item
        for item in before
        if item.tree.kind != "CreateExtensionStmt" or item.tree.get("extname") in dumped.extensions
    ]
    rest = [item for item in after if not _speaks_of_roles(item)]
    reason = "left out, since it speaks of a role: policy"
    lost = [f"{reason} {s.tree.get('policy_name')}" for s in after if _speaks_of_roles(s)]
    return Ddl(joined([*first, *allowed_statements]), joined(rest)), lost


def _loss_lines(losses: Sequence[str]) -> list[str]:
    """The losses of the load, without the names of roles and server messages that they quote."""
    plain = [line for line in losses if not line.startswith("left out, since ")]
    cited = len(losses) - len(plain)
    summary_line = (
        f"left out by the load: {cited} policies of roles, or extensions that the server lacks"
    )
    return [*plain, summary_line] if cited else plain


def _speaks_of_roles(item: Statement) -> bool:
    return item.tree.kind == "CreatePolicyStmt" and any(
        node.kind == "RoleSpec" and node.get("roletype") != "ROLESPEC_PUBLIC"
        for node in item.tree.walk()
    )


def _described(
    connection: Connection,
    folder: Path,
    schema: Schema,
    ddl: Ddl,
    judged: Allowed,
    public: set[str],
    teller: Reporter,
) -> dict[str, Any]:
    """Write schema and rows; returns the fields of ``bundle.json`` that describe them."""
    (folder / "schema").mkdir()
    (folder / records.BEFORE).write_bytes(ddl.pre_data.encode())
    (folder / records.AFTER).write_bytes(ddl.post_data.encode())
    files, known = file_names([table.name for table in schema], "csv"), judged.made()
    with database_errors("reading sequences and materialised views"):
        cursor = connection.cursor(row_factory=dict_row)
        sequences, views = (cursor.execute(query).fetchall() for query in (_MOVED, _FILLED))
    tables = []
    for place, table in enumerate(schema, 1):
        teller.advance(f"export {table.key}", place, len(schema.tables))
        written = _write_table(connection, folder, files[table.name][:-4], table)
        tables.append(written | {"public": table.key in public})
    return {
        "format": "privbench-bundle",
        "version": 1,
        "privbench": __version__,
        "tables": tables,
        "sequences": [s for s in sequences if (s["schema"], s["name"]) in known["sequences"]],
        "views": [view for view in views if (view["schema"], view["name"]) in known["views"]],
    }


def _write_table(connection: Connection, folder: Path, name: str, table: Table) -> dict[str, Any]:
    """Write a table's files; returns the fields of ``bundle.json`` that describe them."""
    columns = [column for column in table.columns if not column.generated]
    names, kinds, chunks = [column.name for column in columns], list[str](), list[int]()
    if columns:
        place = folder / "data" / name
        place.mkdir(parents=True)
        chunks = copy_out(connection, table, names, place)
        kinds = write_parquet([place / f"{n + 1:05d}.csv" for n in range(len(chunks))], columns)
    count = sql.SQL("SELECT pg_catalog.count(*) FROM {}")
    with database_errors("counting rows", table.key):
        counted = count.format(sql.Identifier(table.name.schema, table.name.name))
        rows = connection.execute(counted).fetchall()[0][0]
    primary = table.primary_columns
    return {
        **asdict(table.name),
        "folder": name,
        "columns": [
            {"name": c.name, "type": c.type.sql, "kind": kind}
            for c, kind in zip(columns, kinds, strict=True)
        ],
        "primary_key": list(primary) if set(primary) <= set(names) else [],
        "rows": rows,
        "chunks": chunks,
    }


def _checked(kind: type[Element], data: dict[str, Any]) -> Element:
    with _describing():
        return TypeAdapter(kind).validate_python(data)


@contextmanager
def _describing() -> Iterator[None]:
    """Refuse what no bundle may hold, such as names with line breaks."""
    try:
        yield
    except ValidationError as error:
        raise UsageError(f"the bundle cannot be described: {faults(error)[0]}.") from None


def _workload(
    connection: Connection,
    dsn: str,
    schema: Schema,
    published: Workload | None,
    queries: int,
    judged: Allowed,
) -> tuple[Workload | None, str, list[str]]:
    """The workload of a bundle: the given one, bound to the clone, or one generated from the clone.

    Gives the workload, or None; its origin; and what is missing from the bundle, one line each.
    """
    if published is None and not queries:
        return None, "none", []
    why: list[str] = []
    if published is not None:
        bound = pipeline.rebind(published, on=dsn)
        _refuse_confidential(bound.workload)
        queries_found, origin = (
            [WorkloadQuery("", query.sql) for query in bound.workload],
            "declared public",
        )
        if bound.left_out:
            why = [f"of the workload, {len(bound.left_out)} queries that cannot be bound anew"]
    else:
        plan = replace(KINDS[_KIND].plan, queries=queries)
        try:
            queries_found, origin = (
                [*generate_from_source(connection, _KIND, schema, plan)],
                "generated",
            )
        except UsageError as error:
            return None, "none", [f"a workload: {error.message}"]
    numbered = (replace(query, id=f"q{place}") for place, query in enumerate(queries_found, 1))
    whole = Workload("workload", tuple(numbered))
    judge_workload(whole, judged.columns)
    return whole, origin, why


def _refuse_confidential(workload: Workload) -> None:
    if workload.confidential:
        raise PrivacyRefusal(
            f"the workload {workload.name!r} is CONFIDENTIAL: it comes from private rows.",
            remedy="Bind it to the clone first (privbench workload rebind), or have one generated.",
        )


def _finish(
    folder: Path,
    bundle: Bundle,
    certificate: Certificate,
    ddl: Ddl,
    workload: Workload | None,
    statistics: PublishedStatistics | None,
    key: Path | None,
) -> None:
    """Write the texts that follow from the facts, then the checksums and the signature."""
    if workload is not None:
        (folder / "workload").mkdir()
        write(workload, folder / records.WORKLOAD, "native")
    digests = {path: digest(folder, path) for path in walk(folder)}
    rows = {path: value for path, value in digests.items() if path.startswith("data/")}
    texts = {
        records.BUNDLE: records.text(bundle),
        records.CERTIFICATE: records.text(certificate),
        **({} if statistics is None else {records.STATISTICS: records.text(statistics)}),
        **rendered(bundle, certificate, ddl, workload, statistics, rows),
    }
    for path, text in texts.items():
        (folder / path).write_bytes(text)
        digests[path] = digest(folder, path)
    sums = sums_text(digests)
    (folder / records.SUMS).write_bytes(sums)
    if key is not None:
        (folder / records.SIGNATURE).write_bytes(sign(sums, key))
