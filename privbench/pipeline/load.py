"""The command ``load``: write a model's clone into PostgreSQL, without the source."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from privbench import display
from privbench.config import Config
from privbench.errors import GateFailed, TargetError, UsageError
from privbench.options import LoadOptions, with_fields_of
from privbench.pgsql.computed import Computation
from privbench.pipeline.accounts import ledgers_of
from privbench.pipeline.computed import of_model
from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.doctor import check_target
from privbench.pipeline.model import Model
from privbench.pipeline.parallel import Job, copy_parts
from privbench.pipeline.progress import Reporter
from privbench.pipeline.rehearsal import rehearse_expressions
from privbench.pipeline.source import Catalog
from privbench.postgres import target
from privbench.postgres.computed import Computing
from privbench.postgres.load import Loader
from privbench.postgres.load_mark import Mark
from privbench.postgres.reading import reading
from privbench.postgres.repair import Repair
from privbench.privacy.workers import LOCAL, require_closed
from privbench.sources import is_file


@dataclass(frozen=True)
class LoadReport:
    """What a clone contains: rows of each table, repairs, and what the schema lost."""

    rows: dict[str, int]  # rows per table
    dropped: dict[str, int]  # rows per table for which no valid key was left, or that broke a rule
    public: tuple[str, ...]  # tables that were copied verbatim
    # CHECKs that most synthetic rows violate; the clone has them as NOT VALID.
    loose: tuple[str, ...] = ()
    # Other parts of the schema that the clone lacks, a line each: data of materialised views,
    # policies of roles that the target does not know, extensions, foreign tables.
    lost: tuple[str, ...] = ()
    private: bool = True  # False when the model's noise was seeded: NOT PRIVATE (P24)
    # Rows per table that were changed so that they keep every rule.
    repaired: Mapping[str, int] = field(default_factory=dict)
    # Tables for which the model drew rows, of which none is left, whatever the cause.
    emptied: tuple[str, ...] = ()

    def render(self) -> display.Lines:
        """Return the report as plain text; the first line is the alarm, if there is one."""
        rows = [(name, f"{count:,}", self._remark(name)) for name, count in self.rows.items()]
        total = sum(self.rows.values())
        seeded = [] if self.private else ["NOT PRIVATE: the noise of this clone was seeded."]
        head = f"{len(self.rows)} tables, {total:,} rows:"
        known = bool(self.alarm)
        first, lost = self.losses[:known], self.losses[known:]
        return display.lines(*first, *seeded, head, *display.table(rows, "1"), *lost)

    @property
    def alarm(self) -> str:
        """A line, shown first, on tables that are empty by mistake; '' if there are none."""
        listed = ", ".join(self.emptied)
        return f"EMPTY, although rows were drawn for it: {listed}" if listed else ""

    @property
    def losses(self) -> list[str]:
        """The parts of the schema that the clone does not keep, a line each."""
        loose = [f"NOT VALID, since synthetic rows break it: CHECK {name}" for name in self.loose]
        return [*filter(None, [self.alarm]), *loose, *self.lost]

    def require_whole(self) -> None:
        """Refuse a clone that lacks any part of the schema; see `require_nothing`."""
        require_nothing(self.losses)

    def _remark(self, name: str) -> str:
        if name in self.public:
            return "PUBLIC: COPIED VERBATIM"
        changed, lost = self.repaired.get(name, 0), self.dropped.get(name, 0)
        remarks = [f"{changed:,} changed to keep a rule"] if changed else []
        remarks += [f"{lost:,} more had no valid key left or broke a rule"] if lost else []
        return f"({'; '.join(remarks)})" if remarks else ""


@with_fields_of(LoadOptions)
def load(
    model: str | Path | Model,
    target_dsn: str,
    *,
    reporter: Reporter | None = None,
    options: LoadOptions,
) -> LoadReport:
    """Write a model's clone into a database: all or nothing, unless it is resumable.

    A resumable load copies parts of large tables in transactions of their own, `JOBS` at once, and
    marks the target as unfinished until it ends. If it is killed, the same call continues with the
    missing parts; the rows are the same as if it had not been killed. If no seed is given, it draws
    one and stores it in the target. A TargetError is raised if the target may not be written, may
    be a source, or holds another unfinished load.

    Args:
        model: The model file, or the model that a fit has just made.
        target_dsn: An empty database.
        reporter: Receives progress.
        options: Given by name. The load switches to `as_role` before it runs any statement of the
            model. Without `ledger` the ledgers in the user's state directory are asked.
    """
    teller = reporter or Reporter()
    if isinstance(model, Model):
        loaded = model
    else:
        with teller.stage("read the model"):
            loaded = Model.load(model)
    loaded.ddl.script(trust=options.trust_programs)
    computed = [] if options.schema_only else of_model(loaded)
    scale, seed = check_scale(options.scale), options.seed
    check_written(target_dsn, options, options.ledger)
    job = None
    if options.resumable and not (options.schema_only or options.dry_run):
        new_mark = Mark(loaded.digest, scale, seed, options.trust_programs)
        mark = _mark(new_mark, target_dsn, replace=options.replace)
        job, seed = Job(target_dsn, options.as_role, loaded, mark, options.where), mark.seed
    opened = partial(
        Loader,
        target_dsn,
        loaded.schema,
        loaded.ddl,
        replace=options.replace,
        progress=lambda step, rows: teller.advance(step, rows or 0),
        trust=options.trust_programs,
        as_role=options.as_role,
        mark=job.mark if job else None,
    )
    check_target(
        None,
        target_dsn,
        replace=options.replace or job is not None,
        needed=loaded.ddl.extensions,
        as_role=options.as_role,
    )
    if options.dry_run:
        with teller.stage("rehearse the schema"), opened() as loader, loader.rehearsal():
            return LoadReport({}, {}, (), (), tuple(loader.lost), loaded.promise.private)
    with teller.stage("sample"):
        if job:
            tables = list(job.tables.values())
        else:
            tables = [] if options.schema_only else decode(loaded, scale=scale, seed=seed)
    with teller.stage("load"), opened() as loader:
        repair = _write(loader, tables, computed, teller, seed, job)
    lost = repair.deleted
    return LoadReport(
        {item.table.key: item.rows - lost.get(item.table.key, 0) for item in tables},
        {item.table.key: item.dropped + lost.get(item.table.key, 0) for item in tables},
        tuple(item.table.key for item in tables if item.public),
        repair.loose,
        tuple(loader.lost),
        loaded.promise.private,
        repair.changed,
        tuple(
            item.table.key
            for item in tables
            if item.rows + item.dropped and item.rows <= lost.get(item.table.key, 0)
        ),
    )


def _mark(mark: Mark, target_dsn: str, *, replace: bool) -> Mark:
    """The mark of the load that is resumed; if there is none, a new load begins with `mark`."""
    if not replace:
        with reading(target_dsn) as connection:
            mark = mark.found(connection) or mark
    return mark.seeded()


def _write(
    loader: Loader,
    tables: list[CloneTable],
    computed: list[Computation],
    teller: Reporter,
    seed: int | None,
    job: Job | None,
) -> Repair:
    """Write all rows, compute columns, repair rows, and finish; returns the repairs."""
    repair = set_aside(loader, tables, seed)
    filled = [item.without(loader.without_values(item.table)) for item in tables]
    loader.publish()
    try:
        computing = Computing(loader, computed)
        apart = [item for item in filled if item.table.name not in computing.tables]
        there = copy_parts(loader, job, apart, repair, teller) if job else []
        computing.begin()
        fill(loader, [item for item in filled if item not in there], repair, teller)
        if computed:
            teller.advance("compute columns", 0)
            computing.finish(sum(item.rows for item in filled))
        for key, count in computing.lost.items():
            repair.missing(loader.table(key), count)
        if there:
            # Repairs depend on the physical order of rows, and parts were stored as they arrived.
            unsettled = repair.unsettled()
            fill(loader, [i for i in there if i.table.key in unsettled], repair, teller)
        repair.settle()
        loader.finish()
    except BaseException as error:
        if job:
            advice = "What is loaded stays, and is marked as unfinished. To go on, run the command"
            error.add_note(f"{advice} again, without --replace.")
        raise
    return repair


def set_aside(loader: Loader, tables: Sequence[CloneTable], seed: int | None) -> Repair:
    """Drop constraints that rows may break; return the repairs, which restore them."""
    with loader.emptied():
        return Repair(
            loader,
            [item.table for item in tables if not item.public],
            [item.table.key for item in tables if item.torn],
            seed=seed,
        )


def fill(loader: Loader, tables: list[CloneTable], repair: Repair, teller: Reporter) -> None:
    """Copy tables in the loader's own transaction."""
    for item in tables:
        if item.columns:
            copied = loader.copy_table(item.table, item.columns, _reported(item, teller))
            repair.missing(item.table, item.rows - copied)
    for item in tables:
        if not item.columns:
            loader.add_rows(item.table, item.rows)


def _reported(item: CloneTable, teller: Reporter) -> Iterator[pa.Table]:
    rows_done = 0
    for batch in item.batches():
        yield batch
        rows_done += batch.num_rows
        teller.advance(f"load {item.table.key}", rows_done, item.rows)


def refuse_sources(target_dsn: str, ledger: str | None, *, empty: bool = False) -> None:
    """Refuse to write into a database that has releases, since it may be a source.

    With `empty`, an empty database is checked too: a resumable load continues in a database with
    its mark, and anybody who may write there can make that mark.
    """
    with reading(target_dsn) as connection:
        full = empty or target.contents(connection)
        ledgers = full and ledgers_of(connection, ledger, surely=True)
    if ledgers:
        raise TargetError(
            "nothing is written: the target has releases in the ledger, so that it may be the "
            f"source of a model ({', '.join(map(str, ledgers))}).",
            remedy="Name another database. If all that it holds may go, drop and create it anew.",
        )


def rehearse(
    source: str,
    target_dsn: str,
    catalog: Catalog,
    config: Config,
    *,
    replace: bool,
    as_role: str | None = None,
    strict: bool = False,
) -> Catalog:
    """Create the empty schema in the target and roll back; refuse early what a load would refuse.

    Missing extensions, rights and roles, and features that an older server lacks, are found here,
    before any budget is spent. With `strict`, any part of the schema that the target would lack is
    refused as well. The options are those of `load`. Returns the catalog with the formats that the
    schema's expressions need (`rehearse_expressions`).
    """
    with (
        contextlib.nullcontext() if is_file(source) else reading(source) as connection,
        Loader(
            target_dsn,
            catalog.schema,
            catalog.ddl,
            replace=replace,
            source=connection,
            as_role=as_role,
        ) as loader,
        loader.rehearsal(),
    ):
        rehearsed = rehearse_expressions(loader, catalog, config)
        if strict:
            require_nothing([*catalog.ddl.left_behind, *loader.lost, *rehearsed.findings])
        return rehearsed


def require_nothing(losses: Sequence[str]) -> None:
    """Raise an error with the first loss if the clone lacks a part of the schema (``--strict``)."""
    if losses:
        raise GateFailed(
            f"the clone does not keep everything of the schema, as --strict demands: {losses[0]}"
            f"{f' (and {len(losses) - 1} more)' if len(losses) > 1 else ''}"
        )


def check_scale(scale: float) -> float:
    """Return the scale of a clone; raise a UsageError if it is not a valid one."""
    if not 0 < scale <= 1e6:
        raise UsageError("--scale must lie above 0 and be at most 1,000,000.")
    return scale


def check_written(target_dsn: str, options: LoadOptions, ledger: str | None) -> None:
    """Refuse workers that no load may have, and a target that has releases."""
    require_closed(options.where)
    if options.where != LOCAL and not options.resumable:
        raise UsageError("workers load part by part.", remedy="Say so with --resumable.")
    if options.replace or options.resumable:
        refuse_sources(target_dsn, ledger, empty=options.resumable)
