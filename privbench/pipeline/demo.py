"""``demo``: source, clone, workload, report, on an embedded PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import conninfo, sql

from privbench import report
from privbench.config import Config
from privbench.pipeline import demo_source
from privbench.pipeline.clone import CloneReport, clone
from privbench.pipeline.inspection import inspect
from privbench.pipeline.progress import Reporter
from privbench.postgres.embedded import embedded_server
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import ROWS, reading
from privbench.workload import KINDS, Workload, generate_from_source
from privbench.workload.formats import write


@dataclass(frozen=True)
class DemoReport:
    """What the demonstration made.

    Attributes:
        folder: Where it is.
        clone: What was cloned.
        summary: The comparison in a few lines.
    """

    folder: Path
    clone: CloneReport
    summary: str

    def render(self) -> str:
        """Plain text for people."""
        return "\n".join(
            [
                self.clone.render(),
                "",
                self.summary,
                "",
                f"Report (CONFIDENTIAL): {self.folder / 'report.html'}",
                f"Model:                 {self.folder / 'clinic.privbench'}",
                f"Workload:              {self.folder / 'workload.sql'}",
            ]
        )


def demo(
    out: str | Path,
    *,
    rows: int = 200_000,
    epsilon: float = 3.2,
    synthesizer: str | None = None,
    queries: int = 60,
    seed: int = 7,
    reporter: Reporter | None = None,
) -> DemoReport:
    """Run the whole flow on a made-up clinic.

    Args:
        out: Folder for the model, the workload, the report and the demonstration's ledger.
        rows: Rows of the source.
        epsilon: ε of the release.
        synthesizer: Learner; None means the config's default.
        queries: Queries to generate and replay.
        seed: Seed of the source and of the workload, never of the noise.
        reporter: Told of stages.
    """
    teller = reporter or Reporter()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with teller.stage("start PostgreSQL"):
        server = embedded_server()
    with server:
        source, target = _databases(server.dsn)
        with teller.stage("make the source"):
            demo_source.create(source, rows, seed)
        config = _config(source, folder, epsilon, synthesizer)
        made = clone(source, target, config, output=folder / "clinic.privbench", reporter=teller)
        with teller.stage("generate a workload"):
            workload = _workload(source, queries, seed)
            write(workload, folder / "workload.sql")
        with teller.stage("compare"):
            document = report.compare(
                source, target, workload, config, folder, repeats=1, timeout=20.0
            )
    return DemoReport(folder, made, report.summary(document))


def _databases(dsn: str) -> tuple[str, str]:
    """Two empty databases."""
    names = ("clinic", "clinic_clone")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    source, target = (conninfo.make_conninfo(dsn, dbname=name) for name in names)
    return source, target


def _config(source: str, folder: Path, epsilon: float, synthesizer: str | None) -> Config:
    base = Config().with_privacy(epsilon=epsilon)
    ledger = base.ledger.model_copy(update={"path": str(folder / "ledger")})
    base = base.model_copy(update={"ledger": ledger})
    if synthesizer is not None:
        section = base.synthesizer.model_copy(update={"name": synthesizer})
        base = base.model_copy(update={"synthesizer": section})
    # A clinic's own lists hold nothing confidential: its owner would say so too.
    return inspect(source, base=base, lookups="public").config


def _workload(source: str, queries: int, seed: int) -> Workload:
    with reading(source, ROWS) as connection:
        plan = replace(KINDS["mixed"].plan, queries=queries, seed=seed)
        return generate_from_source(connection, "mixed", introspect(connection), plan)
