"""The command ``fit``: learn a model file from a live source; a session measures private rows."""

import hashlib
import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from privbench.config import Config
from privbench.display import lines
from privbench.encoding import Codec
from privbench.encoding.filled import refuse_unknown
from privbench.errors import LedgerError, ModelError, PrivacyRefusal
from privbench.pipeline.doctor import check_ledger
from privbench.pipeline.domain_words import release_paths
from privbench.pipeline.domains import release_domains, release_totals
from privbench.pipeline.extract import extract
from privbench.pipeline.header import PrivateColumns, Promise
from privbench.pipeline.incremental import Since
from privbench.pipeline.literals import require_reviewed
from privbench.pipeline.lookups import kinds_of
from privbench.pipeline.losses import finer_units, render_losses, small_tables
from privbench.pipeline.model import Model, require_writable
from privbench.pipeline.planned_events import foresee, settle_accounting
from privbench.pipeline.prepare import FitPlan, prepare, require_decided
from privbench.pipeline.progress import Reporter, Spending
from privbench.pipeline.rehearsal import rehearse_apart
from privbench.pipeline.source import Catalog, look, require_epsilon, require_identity
from privbench.postgres.connect import identity as database_identity
from privbench.postgres.snapshot import Snapshot
from privbench.privacy import (
    Accountant,
    Cap,
    Event,
    Fit,
    Ledger,
    NoiseSource,
    Release,
    SeededNoise,
    Session,
    UnitDefinition,
)
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.error_masking import shielded
from privbench.privacy.workers import LOCAL, Workers, require_closed
from privbench.rules.facts import with_rules
from privbench.rules.hypotheses import told
from privbench.schema import Check
from privbench.sources import staged
from privbench.synthesizers import FittedModel, Synthesizer
from privbench.synthesizers import get as find_synthesizer
from privbench.workload.database import refuse_computing


@dataclass
class Draft:
    """The state of a fit; each stage fills in fields that are empty at first."""

    source: str
    config: Config
    reporter: Reporter
    resume: str | None
    synthesizer: Synthesizer[Any]
    plan: FitPlan
    catalog: Catalog
    accountant: Accountant
    since: Since | None = None  # the earlier release to start from, or None
    # The Dask workers that count rows; open from the extraction to the end of learning.
    counting: ExitStack = field(default_factory=ExitStack)
    release: Release = field(init=False)
    rows: PrivateDatabase = field(init=False)
    public: dict[str, pa.Table] = field(init=False)  # rows of public tables as text, verbatim
    session: Session = field(init=False)
    totals: dict[str, float] = field(init=False)  # noisy rows per table
    codecs: dict[str, dict[str, Codec]] = field(init=False)  # per private table and modelled column
    left: float = field(init=False)  # ε or ρ that the synthesizer may spend per root table
    shown: Mapping[str, Sequence[Check]] = field(init=False)  # rules that rows show, by table
    fitted: FittedModel = field(init=False)


def fit(
    source: str,
    config: Config,
    output: str | Path,
    *,
    reporter: Reporter | None = None,
    resume: str | None = None,
    catalog: Catalog | None = None,
    since: str | Path | None = None,
) -> Model:
    """Learn a model of a database under differential privacy, and write it to a file.

    On the source only SELECT is needed. The config gives roles, domains and the budget with its ε.
    `resume` is the id of a release whose fit was killed. Without it the reporter decides, if there
    is such a release of the same fit, whether to resume it or to open another; it refuses unless
    somebody is asked. If `catalog` is given, the catalog is not read again; a table that has
    changed since is refused when it is locked. If `since` names a
    released model, tables that a noisy test finds unchanged are not measured again, and the promise
    covers both releases. Everything that the reporter receives is CONFIDENTIAL.

    Raises:
        ConfigError: The config cannot be obeyed.
        SchemaError: The schema cannot be honoured.
        DatabaseError: The source refused.
        ModelError: The output cannot be written; found out before any budget is spent.
        PrivacyRefusal: The ledger's cap has no room, or the contract forbids it.
    """
    require_writable(output)
    if since is not None and Path(since).resolve() == Path(output).resolve():
        raise ModelError("the new model cannot take the place of the one that --since names.")
    require_identity(source, config)
    require_closed(config.counting.where)
    with staged(source, config) as here:
        draft = begin(here, config, reporter or Reporter(), resume, catalog, since=since)
        try:
            for name, stage in STAGES:
                with draft.reporter.stage(name):
                    stage(draft)
            model = finish(draft)
            model.save(output)
        except BaseException as error:
            draft.counting.close()
            _give_up(draft, error)
            raise
    draft.session.close()
    return model


def begin(
    source: str,
    config: Config,
    reporter: Reporter,
    resume: str | None = None,
    catalog: Catalog | None = None,
    *,
    dump: bool = True,
    since: str | Path | None = None,
) -> Draft:
    """Check everything that can be checked before a row is read or budget is spent.

    Without `dump`, pg_dump is not run for the DDL, and no event is foreseen: such a draft serves
    only for plans.
    """
    privacy = require_epsilon(config).privacy
    assert privacy.epsilon is not None
    synthesizer = find_synthesizer(config.synthesizer.name)(config.synthesizer.options)
    dump = dump or privacy.ddl_reviewed is not None
    catalog = catalog or look(source, config, dump=dump)
    for line in catalog.ddl.left_behind:
        reporter.warn(line)
    catalog.identity.required()
    if dump:
        check_ledger(config, catalog.identity)
    if dump and not catalog.rehearsed:
        catalog = rehearse_apart(catalog, config, reporter)
        for line in catalog.findings:
            reporter.warn(line)
    if privacy.ddl_reviewed is not None:
        require_reviewed(config, catalog.literals)
    plan = prepare(catalog.schema, config)
    require_decided(plan)
    for item in plan.private:
        for column in item.table.columns:
            refuse_unknown(item.table.key, column)
    with Snapshot(source) as snapshot:
        if not snapshot.all_text:
            _hold(snapshot, plan)
            snapshot.require_text(plan.schema)
    earlier = None if since is None else Since.read(since, plan, synthesizer)
    plan = earlier.plan if earlier else plan
    listed = plan.lists or plan.words or plan.documents.words
    accountant = Accountant(
        settle_accounting(plan, earlier.accounting(privacy) if earlier else privacy),
        privacy.epsilon,
        privacy.delta,
        # If no lists of categories can be released, no part of δ is set aside for them; a fit that
        # starts from an earlier release takes over its domains.
        threshold_delta=None if listed and earlier is None else 0.0,
    )
    if dump:
        # The plan refuses options that do not fit the database.
        foresee(plan, synthesizer, accountant, {})
    return Draft(source, config, reporter, resume, synthesizer, plan, catalog, accountant, earlier)


def _extract(draft: Draft) -> None:
    """Read the rows from one snapshot; the source is not needed afterwards.

    Paths of documents are read and released first: what else is read depends on them.
    """
    workers, where = None, draft.config.counting.where
    if where != LOCAL:
        workers = draft.counting.enter_context(Workers(where))
    with Snapshot(draft.source) as snapshot:
        # Databases may be renamed, and an address may lead to another server.
        if database_identity(snapshot.connection).own != draft.catalog.identity.own:
            raise PrivacyRefusal(
                "the connection string leads to another database than before, whose ledger this "
                "release is in.",
                remedy="Run the command again.",
            )
        _hold(snapshot, draft.plan)

        def read(plan: FitPlan) -> PrivateDatabase:
            draft.rows, draft.public = shielded(
                lambda: extract(snapshot, plan, draft.reporter, workers),
                "the source's rows could not be read",
            )
            return draft.rows

        reads_documents = draft.plan.documents.words and draft.since is None
        data = read(draft.plan.documents if reads_documents else draft.plan)
        draft.session = Session(data, draft.accountant, draft.release, _noise(draft.config))
        if reads_documents:
            _totals(draft)
            draft.plan = release_paths(draft.session, draft.plan, draft.totals)
            draft.session.read_again(read(draft.plan))


def _hold(snapshot: Snapshot, plan: FitPlan) -> None:
    """Lock the tables; refuse any that changed since consent or whose reading calls user code."""
    snapshot.hold(plan.schema)
    refuse_computing(snapshot.connection, [table.name for table in plan.schema])


def _open(draft: Draft) -> None:
    """Reserve the budget in the ledger, before a row is read."""
    config, limits = draft.config, draft.config.ledger
    definition = UnitDefinition.of(
        draft.plan.spec, tuple(item.table.key for item in draft.plan.public)
    )
    known = draft.catalog.identity
    draft.reporter.say(f"identity of the database, for the ledger: {known}")
    ledger = Ledger.open(config.ledger.path, known.required(), known.own, config.ledger.apart_from)
    for other in ledger.others:
        draft.reporter.say(f"counted with it: the ledger of {other.identity} in {other.directory}")
    cap = Cap(limits.cap_epsilon, limits.cap_delta, limits.max_epsilon_per_month)
    draft.reporter.spending = spending = Spending(
        ledger, cap, draft.accountant, [*draft.plan.spec.tables]
    )
    sizes_shown = bool(config.privacy.sizes_shown)
    what = Fit(config_hash(draft), definition, _noise(config).private, sizes_shown)
    if draft.resume is None:
        draft.resume = _resumed(draft, ledger.unfinished(what, draft.accountant))
    release = ledger.open_release(
        what,
        draft.accountant,
        cap=cap,
        resume=draft.resume,
        agree=lambda resumed: _agree(draft, resumed),
    )
    draft.release = spending.release = release
    again, up = draft.reporter.again("--resume", release.id), _abandon(draft, release.id)
    resuming = f"to go on after a crash: `{again}`; " if again else ""
    draft.reporter.say(f"release {release.id} ({resuming}to give it up: `{up}`)")


def _resumed(draft: Draft, unfinished: Mapping[str, Sequence[Event]]) -> str | None:
    """The unfinished release of the same fit that is resumed, or None if another is opened."""
    if not unfinished:
        return None
    error = PrivacyRefusal(
        f"the same fit broke off before, and holds its budget: release {', '.join(unfinished)}. "
        "Another release would hold as much again."
    )
    error.add_note(f"To open another beside it: {draft.reporter.again('--another')}")
    for release, lost in unfinished.items():
        if lost:
            error.add_note(_price(draft, release, lost))
        _advise(draft, error, release, lost)
    return draft.reporter.choose(error, [*unfinished])


def _agree(draft: Draft, release: Release) -> None:
    """Ask whether a release is resumed that costs more than was asked for."""
    try:
        draft.reporter.exceed(_price(draft, release.id, release.lost))
    except BaseException as error:
        _advise(draft, error, release.id, release.lost)
        raise


def _price(draft: Draft, release: str, lost: Sequence[Event]) -> str:
    whole = draft.accountant.terms.reserved(lost)
    text = f"{len(lost)} answers were lost when release {release} was broken off, and"
    if math.isinf(whole.epsilon):
        return f"{text} paying for them again would pass its last limit: it cannot be resumed"
    return (
        f"{text} are paid for again: it costs up to ε = {whole.epsilon:.4g}, "
        f"δ = {whole.delta:.3g}, where ε = {draft.accountant.requested.epsilon:.4g} was asked for"
    )


def _advise(draft: Draft, error: BaseException, release: str, lost: Sequence[Event]) -> None:
    """Note on an error how a release is given up and, last, how it is resumed if it can be."""
    options = ["--resume", release, *(["--pay-again"] if lost else [])]
    error.add_note(f"To give it up: {_abandon(draft, release)}")
    possible = math.isfinite(draft.accountant.terms.reserved(lost).epsilon)
    if possible and (again := draft.reporter.again(*options)):
        error.add_note(f"To go on: {again}")


def _abandon(draft: Draft, release: str) -> str:
    path = draft.config.ledger.path
    where = [] if path is None else ["--ledger", path]
    return shlex.join(["privbench", "ledger", "abandon", release, *where])


def _noise(config: Config) -> NoiseSource:
    seed = config.privacy.seed
    return NoiseSource() if seed is None else SeededNoise(seed)


def _totals(draft: Draft) -> None:
    """Release the totals, and warn of tables that are too small before more is spent."""
    if hasattr(draft, "totals"):
        return
    draft.totals = totals = release_totals(draft.session, draft.plan)
    spec = draft.plan.spec
    first, _, least = foresee(draft.plan, draft.synthesizer, draft.accountant, totals)
    noise = {event.label: event.noise_sd for event in first}
    units, rows = dict(totals), dict(totals)
    for name, table in spec.tables.items():
        # The total of an owned table may be mostly noise, so it gets the benefit of two standard
        # deviations; it has at most as many units as its root.
        more = 2 * noise[f"total {name}"] if table.own else 0.0
        units[name] = min(totals[name] + more, totals[spec.top(name)])
        rows[name] = totals[name] - more
    if losses := small_tables(draft.plan, units, least):
        stop = f"Ctrl-C and `{_abandon(draft, draft.release.id)}` give back the rest."
        draft.reporter.warn(
            lines(render_losses(losses), f"Only the totals are spent so far: {stop}")
        )
    # A release after another one keeps its units.
    if not draft.since and (text := finer_units(draft.plan, units, rows, least)):
        error = PrivacyRefusal("finer units would make tables useful.")
        error.add_note(text)
        draft.reporter.offer(error, text)


def _domains(draft: Draft) -> None:
    settle = draft.since.domains if draft.since else release_domains
    released = settle(draft.session, draft.plan, draft.totals)
    draft.codecs, draft.totals, draft.left, draft.shown = released
    for table, checks in draft.shown.items():
        for check in checks:
            draft.reporter.say(f"rows of {table} show: {told(check)}")


def _learn(draft: Draft) -> None:
    measured = draft.session, draft.totals, draft.left
    draft.counting.callback(setattr, draft.rows, "counter", None)
    public = {name: kinds_of(rows) for name, rows in draft.public.items()}
    with draft.counting:
        if draft.since is None:
            draft.fitted = draft.synthesizer.fit(*measured, public_kinds=public)
        else:
            fitted = draft.since.refit(*measured, draft.plan, draft.public)
            draft.fitted = fitted
            anew = ", ".join(draft.since.anew(fitted)) or "nothing"
            draft.reporter.say(f"tables that are learned anew: {anew}")


#: The stages of a fit, in order.
STAGES: tuple[tuple[str, Callable[[Draft], None]], ...] = (
    ("open the ledger", _open),
    ("extract", _extract),
    ("totals", _totals),
    ("domains", _domains),
    ("learn", _learn),
)


def finish(draft: Draft) -> Model:
    """Return the model of a draft whose stages are done."""
    state, arrays = draft.fitted.to_state()
    privacy, spec = draft.config.privacy, draft.plan.spec
    promised, roles = draft.session.guarantee(), privacy.roles
    sizes_shown = bool(privacy.sizes_shown)
    level = draft.release.level()
    # Events whose answers were lost in a crash are included, since they are paid for as well.
    events = tuple(draft.release.events)
    if draft.since is not None:
        draft.reporter.say(
            f"this release by itself: ε = {promised.epsilon:.4g}, δ = {promised.delta:.3g}"
        )
        events, promised, level = draft.since.composed(draft.release)
        earlier = draft.since.model.promise.roles
        roles = "proposed" if "proposed" in (roles, earlier) else roles
        sizes_shown |= draft.since.model.promise.sizes_shown
    promise_sizes = (
        with_rules(replace(table, checks=(*table.checks, *draft.shown.get(table.key, ()))))
        for table in draft.plan.schema
    )
    tables = {}
    for item in draft.plan.private:
        key, own = item.table.key, spec.tables[item.table.key].own
        name = item.owners[0].name if item.owners else own.name if own else None
        tables[key] = PrivateColumns(name, item.making, draft.codecs[key])
    return Model(
        schema=replace(draft.plan.schema, tables=tuple(promise_sizes)),
        promise=Promise(
            epsilon=promised.epsilon,
            delta=promised.delta,
            accounting=draft.accountant.accounting,
            neighbours=privacy.neighbours,
            unit=privacy.unit,
            roots=tuple(sorted({root for name in spec.tables for root in spec.roots(name)})),
            private=draft.session.private,
            roles=roles,
            sizes_shown=sizes_shown,
            rho=level.rho,
            conversion=level.delta,
        ),
        config=_public_config(draft.plan.config),
        tables=tables,
        synthesizer=draft.synthesizer.name,
        state=state,
        arrays=arrays,
        events=events,
        ddl=draft.catalog.ddl,
        public=dict(draft.public),
    )


def _give_up(draft: Draft, error: BaseException) -> None:
    """After a failure, close the release if it has no events; else leave it open, to be resumed.

    The error gets a note that says how to resume the release or to give it up.
    """
    if not hasattr(draft, "release"):
        return
    if not draft.release.events:
        # If the ledger cannot be written, the release stays open; the first error says why.
        with suppress(LedgerError):
            draft.release.close()
            return
    draft.release.leave()
    _advise(draft, error, draft.release.id, draft.release.lost)


def _public_config(config: Config) -> dict[str, Any]:
    """The config that becomes part of the model: without the addresses of ledger and workers."""
    return config.model_dump(mode="json", exclude={"ledger", "counting"}, exclude_none=True)


def config_hash(draft: Draft) -> str:
    """Return a hash of what a resumed fit must share with the interrupted one (P25)."""
    shared = {
        "config": _public_config(draft.config),
        "schema": draft.catalog.schema.to_json(),
        **({"since": draft.since.model.digest} if draft.since else {}),
    }
    text = json.dumps(shared, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
