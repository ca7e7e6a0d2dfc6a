"""An audit as a whole: copy the rows, run every part, collect the findings, write the page."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from psycopg import conninfo

from privbench import __version__
from privbench.config import Config
from privbench.display import json_visible
from privbench.errors import ConfigError, GateFailed, TargetError, UsageError
from privbench.files import file_errors, make_folder, write_text
from privbench.pgsql.ddl import trusted
from privbench.pipeline.doctor import check_target
from privbench.pipeline.fit import fit
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import look
from privbench.postgres import target
from privbench.postgres.connect import connect, resolved
from privbench.postgres.ddl import Ddl
from privbench.postgres.embedded import any_server
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.reading import reading
from privbench.postgres.snapshot import Snapshot
from privbench.privacy.workers import require_closed
from privbench.report.templates import template
from privbench.workload.database import refuse_computing
from privbench_lab.audit.attacks import Risks, attack, features, scores
from privbench_lab.audit.bounds import Allowed, Bound, allowed, lower_bound
from privbench_lab.audit.canaries import Planter, readable
from privbench_lab.audit.checks import Replay, Row, replay
from privbench_lab.audit.recording import Differs, apart_from, bench, same_model


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of an audit: canaries per fit, fits with canaries, neighbours of a recorded fit.

    ``inference`` is whether records are held out and anonymeter attacks them.
    """

    canaries: int = 60
    fits: int = 2
    neighbours: int = 8
    inference: bool = True

    def __post_init__(self) -> None:
        if min(self.canaries, self.fits, self.neighbours) < 1:
            raise UsageError("an audit takes at least one canary, one fit and one neighbour.")


@dataclass
class Audit:
    """The findings of an audit. CONFIDENTIAL: computed from private rows."""

    promise: str  # the guarantee of the audited fits, in one sentence
    synthesizer: str  # name of the synthesizer
    risk: Allowed  # the success of attackers that (ε, δ) allows
    root: str  # the root table in which canaries are planted
    marked: tuple[str, ...]  # the columns in which canaries differ from other rows
    bound: Bound  # the lower bound on ε that the canaries prove
    replayed: Replay  # result of the replay on neighbours
    # Parts of the model that differ with and without planted units, although all draws are equal.
    beside: list[str]
    inference: Risks  # success of the attacks of anonymeter
    effort: Effort  # what the audit ran
    # When the audit was made, and by which version.
    made: str = field(
        default_factory=lambda: f"privbench {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    )

    @property
    def findings(self) -> list[str]:
        """Everything that contradicts the guarantee, a line each; empty where nothing does."""
        lines = list(self.replayed.findings)
        lines += [f"planted units change the model beside its mechanisms: {p}" for p in self.beside]
        if self.bound.epsilon > self.risk.epsilon:
            lines.append(
                f"canaries prove an ε of {self.bound.epsilon:.3g} or more; {self.risk.epsilon:.3g} "
                "is claimed"
            )
        return lines

    def require_sound(self) -> None:
        """Raise `GateFailed` with the first finding, if there is any."""
        if found := self.findings:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise GateFailed(f"the audit contradicts the guarantee: {found[0]}{more}.")

    def lines(self) -> Iterator[str]:
        """The result in a few lines."""
        yield self.promise
        yield (
            f"canaries: ε ≥ {self.bound.epsilon:.3g} with 95 % confidence ({self.bound.correct} of "
            f"{self.bound.guesses} guesses right; all right would prove {self.bound.possible:.3g})"
        )
        yield (
            f"replay: {len(self.replayed.rows)} events on {self.replayed.neighbours} neighbours; "
            f"largest loss of a tested pair ε = {self.replayed.loss:.3g}"
        )
        yield f"noise: {self.replayed.cells} draws held against their laws"
        yield f"inference: {self.inference.line()}"
        yield from (f"FOUND: {line}" for line in self.findings)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        found = {"confidential": True, "findings": self.findings, **asdict(self)}
        for row in found["replayed"]["rows"]:
            if math.isinf(row["ratio"]):
                row["ratio"] = None  # Nothing was claimed; JSON has no infinity.
        found["inference"]["attacks"] = [each._asdict() for each in self.inference.attacks]
        return found

    def save(self, folder: Path) -> None:
        """Write ``audit.html`` and ``audit.json``; UsageError if the folder cannot be written."""
        with file_errors(f"cannot write {folder}"):
            make_folder(folder)
            text = json_visible(json.dumps(self.to_json(), indent=1, ensure_ascii=False))
            write_text(folder / "audit.json", text + "\n")
            write_text(folder / "audit.html", self.page())

    def page(self) -> str:
        """The page; every value is escaped."""
        style = Markup(template("style.css.j2").render())  # noqa: S704 - our own file
        page = template("page.html.j2", "privbench_lab.audit", ".")
        return page.render(audit=self, kinds=by_kind(self.replayed.rows), style=style) + "\n"


def by_kind(rows: list[Row]) -> list[tuple[Row, int]]:
    """The worst event of each table, kind of query and mechanism, and the number of such events."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.table, row.kind, row.mechanism), []).append(row)
    return [
        (max(some, key=lambda row: (len(row.broken), row.ratio)), len(some))
        for _, some in sorted(found.items())
    ]


def audit(
    source: str,
    config: Config,
    output: str | Path,
    *,
    scratch: str | None = None,
    root: str | None = None,
    effort: Effort | None = None,
    reporter: Reporter | None = None,
) -> Audit:
    """Audit what a fit of a database would release, and write ``audit.html`` and ``audit.json``.

    The source is only read. Rows are copied into a scratch database, where units are planted and
    removed, and every fit goes into a ledger that is thrown away. The result is computed from
    private rows: CONFIDENTIAL, and never part of a release or a reason for one.

    Args:
        source: DSN of the source.
        config: Roles, domains, budget; ``privacy.epsilon`` must be set.
        output: Folder for the page and the JSON.
        scratch: DSN of an empty database, which is emptied again; None starts a server.
        root: Root table whose units are planted; None takes the one that owns most tables.
        effort: How much to try.
        reporter: Receives progress.

    Raises:
        ConfigError: The config cannot be obeyed.
        UsageError: The folder cannot be written, or there is no PostgreSQL to start.
        TargetError: The scratch database is the source or not empty.
        PrivbenchError: An error of `fit`.
    """
    teller = reporter or Reporter()
    if config.privacy.epsilon is None:
        raise ConfigError("no ε is given.", remedy="Use --epsilon or [privacy] epsilon.")
    require_closed(config.counting.where)
    folder = Path(output)
    with file_errors(f"cannot write {folder}"):
        make_folder(folder)  # A folder that cannot be written is found before the long work.
    teller.say(f"results go to {output}")
    with scratch_copy(source, scratch, config, teller) as copy:
        found = _parts(copy, config, effort or Effort(), teller, root)
    found.save(folder)
    return found


def _parts(
    scratch: str, config: Config, effort: Effort, reporter: Reporter, root: str | None = None
) -> Audit:
    """Run all parts; the one that holds out units comes last, since it deletes them."""
    with reporter.stage("plant canaries"):
        planter = Planter(scratch, config, root)
    with reporter.stage("record and replay"), bench(scratch, config, Reporter()) as rows:
        replayed = replay(rows, reporter, most=effort.neighbours)
    with reporter.stage("replay without planted units"):
        promise, beside = _beside(scratch, config, planter)
    with reporter.stage("fits with canaries"):
        bound = _attack(scratch, config, planter, effort, reporter)
    risks = Risks("was not asked for")
    if effort.inference:
        with reporter.stage("inference by anonymeter"):
            risks = attack(scratch, config, planter)
    epsilon, delta = config.privacy.epsilon, config.privacy.delta
    assert epsilon is not None
    marked = tuple(f"{table}.{column}" for table, column in planter.places)
    return Audit(promise, config.synthesizer.name, allowed(epsilon, delta), str(planter.root),
                 marked, bound, replayed, beside, risks, effort)  # fmt: skip


def _beside(scratch: str, config: Config, planter: Planter) -> tuple[str, list[str]]:
    """Replay a fit with canaries on the rows without them: equal draws must give equal models."""
    with planter.planted(np.ones(3, np.bool_)), bench(scratch, config, Reporter()) as full:
        recording = full.record()
    with planter.planted(np.zeros(3, np.bool_)), bench(scratch, config, Reporter()) as bare:
        try:
            parts = same_model(recording.model, bare.replay(recording, bare.rows).model)
        except Differs as error:
            parts = [str(error)]
    return recording.model.promise.sentence(), parts


def _attack(
    scratch: str, config: Config, planter: Planter, effort: Effort, reporter: Reporter
) -> Bound:
    """Fit rows with canaries, each in or out by a coin, and compute the bound from guesses."""
    parts, coins = [], []
    with apart_from(config) as (apart, folder):
        model = folder / "model"
        for number in range(effort.fits):
            tossed = np.array([secrets.randbits(1) for _ in range(effort.canaries)], np.bool_)
            with planter.planted(tossed) as planted:
                fit(scratch, apart, model)
            parts.append(features(model, planted))
            coins.append(tossed)
            reporter.advance("fits with canaries", number + 1, effort.fits)
    return lower_bound(scores(parts), np.concatenate(coins), config.privacy.delta)


@contextmanager
def scratch_copy(
    source: str, scratch: str | None, config: Config, reporter: Reporter
) -> Iterator[str]:
    """Copy the chosen tables with their rows; yields the copy's DSN, and drops the copy at the end.

    A TargetError is raised if the scratch database is the source, a standby, or not empty.
    """
    with ExitStack() as stack:
        if scratch is None:
            with reporter.stage("start PostgreSQL"):
                scratch = stack.enter_context(any_server()).dsn
        with reading(scratch) as connection:
            # A service or a list of hosts may lead to another server the next time, and all of its
            # tables would be dropped at the end. So the address is resolved once.
            dsn = conninfo.make_conninfo("", **resolved(connection))
        try:
            check_target(source, dsn, replace=False)
            with reporter.stage("copy the source into the scratch database"):
                _copy(source, dsn, config, reporter)
        except TargetError as error:
            if "--replace" in (error.remedy or ""):
                # The error's own remedy names an option that an audit does not have.
                error.remedy = "Create an empty database and name that with --scratch."
            raise
        # The copy is one transaction: before it is committed there is nothing of ours to drop.
        with reading(dsn) as connection:
            stack.callback(_drop, dsn, target.contents(connection))
        yield dsn


def _copy(source: str, scratch: str, config: Config, reporter: Reporter) -> None:
    catalog = look(source, config)
    with Snapshot(source) as snapshot:
        snapshot.hold(catalog.schema)
        refuse_computing(snapshot.connection, [table.name for table in catalog.schema])
        ddl = without_triggers(catalog.ddl)
        with Loader(scratch, catalog.schema, ddl, source=snapshot.connection) as loader:
            for table in catalog.schema:
                columns, expressions = readable(table)
                rows = snapshot.stream(table, expressions) if columns else ()
                loader.copy_table(table, columns, rows)
                reporter.advance(f"copied {table.key}", 1)
            loader.finish()


def without_triggers(ddl: Ddl) -> Ddl:
    """The DDL without triggers and rules, which inserting a canary would fire.

    A trigger could write elsewhere, even into the source. And rows of other units that it writes do
    not belong to the planted unit, so that the two databases would not be neighbours.
    """
    kept = [
        found.text
        for found in trusted(ddl.post_data).parts[0]
        if not any(
            node.kind in ("CreateTrigStmt", "RuleStmt")
            or re.search("Trig|Rule", str(node.get("subtype", "")))
            for node in found.tree.walk()
        )
    ]
    return replace(ddl, post_data="".join(f"{text};\n" for text in kept))


def _drop(dsn: str, made: list[tuple[str, str]]) -> None:
    """Drop the copy, which holds private rows, but no objects that others have created."""
    with connect(dsn) as connection, database_errors("dropping the copy in the scratch database"):
        target.drop_contents(connection, made)
