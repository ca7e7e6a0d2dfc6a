"""The command ``load``: write a model's clone into PostgreSQL, without the source."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from privbench import display
from privbench.config import Config
from privbench.errors import GateFailed, TargetError, UsageError
from privbench.options import LoadOptions, with_fields_of
from privbench.pgsql.computed import Computation
from privbench.pipeline.accounts import ledgers_of
from privbench.pipeline.computed import of_model
from privbench.pipeline.decode import CloneTable
from privbench.pipeline.doctor import check_target
from privbench.pipeline.model import Model
from privbench.pipeline.parallel import Job, copy_tables, copying
from privbench.pipeline.progress import Reporter
from privbench.pipeline.rehearsal import rehearse_expressions
from privbench.pipeline.source import Catalog
from privbench.postgres import target
from privbench.postgres.computed import Computing
from privbench.postgres.load import Loader
from privbench.postgres.load_mark import LoadStep, Mark, is_unfinished
from privbench.postgres.reading import reading
from privbench.postgres.repair import Repair
from privbench.postgres.transaction import TargetTransaction
from privbench.privacy.workers import LOCAL, require_closed
from privbench.sources import is_file

#: Fewer rows are loaded in one transaction, so that small clones are all or nothing: such a load
#: takes a second or two, in which there is little to go on with. With half or double of it, one
#: transaction and several take the same processor time.
LEAST_ROWS = 2**18
#: What is said of a load in several transactions that broke off.
STAYS = (
    "What is loaded stays, and is marked as unfinished: the same load goes on, and with --replace "
    "it begins anew."
)


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
    """Write a model's clone into a database.

    A large clone is loaded into an empty target by several connections (`JOBS`), and the target is
    marked as unfinished until the load ends. If it is killed, the same call goes on with the steps
    that are missing; the rows are the same as if it had not been killed. A small clone, one that
    replaces what the target holds, and one with `one_transaction` are written all or nothing. A
    TargetError is raised if the target may not be written, may be a source, or holds another
    unfinished load.

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
    mark = Mark(loaded.digest, check_scale(options.scale), options.seed, options.trust_programs)
    check_written(target_dsn, options, options.ledger)
    mark, begun, nothing = _standing(mark, target_dsn, options)
    # A schema alone would otherwise end a load of rows that are not there.
    alone = options.one_transaction or options.schema_only
    job = Job(target_dsn, options.as_role, loaded, mark, options.where)
    check_target(
        None,
        target_dsn,
        replace=options.replace or (begun and not alone),
        needed=loaded.ddl.extensions,
        as_role=options.as_role,
    )
    opened = partial(
        Loader,
        target_dsn,
        loaded.schema,
        loaded.ddl,
        replace=options.replace,
        progress=lambda step, rows: teller.advance(step, rows or 0),
        trust=options.trust_programs,
        as_role=options.as_role,
    )
    if options.dry_run:
        with teller.stage("rehearse the schema"), opened() as loader, loader.rehearsal():
            return LoadReport({}, {}, (), (), tuple(loader.lost), loaded.promise.private)
    with teller.stage("sample"):
        tables = [] if options.schema_only else list(job.tables.values())
    large = nothing and sum(item.rows for item in tables) >= LEAST_ROWS
    several = (begun or large or options.where != LOCAL) and not alone
    with teller.stage("load"), opened(mark=mark if several else None) as loader:
        repairs = _write(loader, tables, computed, teller, job)
    lost = repairs["deleted"]
    return LoadReport(
        {item.table.key: item.rows - lost.get(item.table.key, 0) for item in tables},
        {item.table.key: item.dropped + lost.get(item.table.key, 0) for item in tables},
        tuple(item.table.key for item in tables if item.public),
        tuple(repairs["loose"]),
        tuple(loader.lost),
        loaded.promise.private,
        repairs["changed"],
        tuple(
            item.table.key
            for item in tables
            if item.rows + item.dropped and item.rows <= lost.get(item.table.key, 0)
        ),
    )


def _standing(mark: Mark, target_dsn: str, options: LoadOptions) -> tuple[Mark, bool, bool]:
    """The mark of the load that goes on, or else `mark`, with a seed.

    Also returns whether there is such a load, and whether the target holds nothing that could be
    lost: nothing at all, or an unfinished load.
    """
    with reading(target_dsn) as connection:
        begun = None if options.replace else mark.found(connection)
        nothing = is_unfinished(connection) or not target.contents(connection)
    return (begun or mark).seeded(), begun is not None, nothing


def _write(
    loader: Loader,
    tables: list[CloneTable],
    computed: list[Computation],
    teller: Reporter,
    job: Job,
) -> dict[str, Any]:
    """Write all rows, compute columns, repair rows, and finish; returns what repairs have done."""
    repair = set_aside(loader, tables, job.mark.seed)
    filled = [item.without(loader.without_values(item.table)) for item in tables]
    loader.publish()
    try:
        computing = Computing(loader, computed)
        late = [item for item in filled if item.table.name in computing.tables]
        fill(loader, [item for item in filled if item not in late], repair, teller, job)

        def settle(_: TargetTransaction) -> str:
            computing.begin()
            for item in late:
                repair.missing(item.table, item.rows - int(copying(item, teller).work(loader)))
            if computed:
                teller.advance("compute columns", 0)
                computing.finish(sum(item.rows for item in filled))
            for key, count in computing.lost.items():
                repair.missing(loader.table(key), count)
            repair.settle()
            kinds = {"changed": repair.changed, "deleted": repair.deleted, "loose": repair.loose}
            return json.dumps({**kinds, "lost": loader.lost})

        repairs: dict[str, Any] = json.loads(loader.alone(LoadStep("repairs", settle)))
        loader.lost += [line for line in repairs["lost"] if line not in loader.lost]
        loader.finish()
    except BaseException as error:
        if loader.mark is not None:
            error.add_note(STAYS)
        raise
    return repairs


def set_aside(loader: Loader, tables: Sequence[CloneTable], seed: int | None) -> Repair:
    """Drop constraints that rows may break; return the repairs, which restore them."""
    with loader.emptied():
        return Repair(
            loader,
            [item.table for item in tables if not item.public],
            [item.table.key for item in tables if item.torn],
            seed=seed,
        )


def fill(
    loader: Loader,
    tables: list[CloneTable],
    repair: Repair,
    teller: Reporter,
    job: Job | None = None,
) -> None:
    """Copy tables, several at once if the loader has connections for it."""
    for item, copied in copy_tables(loader, tables, teller, job):
        repair.missing(item.table, item.rows - copied)


def refuse_sources(target_dsn: str, ledger: str | None) -> None:
    """Refuse to write into a database that holds something and has releases: it may be a source."""
    with reading(target_dsn) as connection:
        ledgers = target.contents(connection) and ledgers_of(connection, ledger, surely=True)
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
    if options.where != LOCAL and options.one_transaction:
        raise UsageError("workers need a transaction each.", remedy="Omit --one-transaction.")
    refuse_sources(target_dsn, ledger)
