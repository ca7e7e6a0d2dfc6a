"""``clone``: fit and load in one go."""

import shlex
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path

from privbench.config import Config
from privbench.display import Lines, lines
from privbench.pipeline.fit import fit
from privbench.pipeline.header import Promise
from privbench.pipeline.load import (
    LoadReport,
    check_scale,
    check_workers,
    load,
    refuse_sources,
    rehearse,
)
from privbench.pipeline.losses import Loss, losses, render_losses
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import Catalog, look, require_identity
from privbench.postgres.connect import shown
from privbench.privacy.workers import LOCAL, require_closed
from privbench.sources import staged


@dataclass(frozen=True)
class CloneReport:
    """The guarantee of a clone, and the rows that were written."""

    promise: Promise
    loaded: LoadReport  # what the target holds
    losses: Sequence[Loss] = ()  # losses of tables and columns, found from released numbers alone

    def render(self) -> Lines:
        """Plain text for people."""
        lost = render_losses(self.losses)
        return lines(*filter(None, (self.loaded.render(), lost, self.promise.sentence())))


def clone(
    source: str,
    target: str,
    config: Config,
    *,
    output: str | Path | None = None,
    scale: float = 1.0,
    seed: int | None = None,
    replace: bool = False,
    resume: str | None = None,
    as_role: str | None = None,
    strict: bool = False,
    catalog: Catalog | None = None,
    since: str | Path | None = None,
    resumable: bool = False,
    where: str = LOCAL,
    reporter: Reporter | None = None,
) -> CloneReport:
    """Make a synthetic clone of one database in another: `fit`, then `load`, with their options.

    The load is rehearsed before any budget is spent: the target may not be the source, nor a source
    that has releases, has to be empty and able to hold the schema, and with `strict` may lack
    nothing of it. Without `output` the model is deleted afterwards, unless the load fails. `seed`
    is the seed of the sampling, never of the noise.
    """
    teller = reporter or Reporter()
    check_scale(scale)
    check_workers(where, resumable=resumable)
    require_closed(config.counting.where)
    require_identity(source, config)
    if replace or resumable:
        refuse_sources(target, config.ledger.path, empty=resumable)
    with ExitStack() as stack:
        path = Path(output or Path(tempfile.mkdtemp(prefix="privbench-"), "model.privbench"))
        if output is None:
            stack.callback(shutil.rmtree, path.parent)
        with staged(source, config) as here:
            catalog = catalog or look(here, config)
            if not catalog.rehearsed:
                with teller.stage("rehearse the schema"):
                    catalog = rehearse(
                        here,
                        target,
                        catalog,
                        config,
                        replace=replace,
                        as_role=as_role,
                        strict=strict,
                    )
                for line in catalog.findings:
                    teller.warn(line)
            model = fit(
                here, config, path, reporter=teller, resume=resume, catalog=catalog, since=since
            )
        try:
            loaded = load(
                model,
                target,
                scale=scale,
                seed=seed,
                replace=replace,
                trust_programs=True,
                as_role=as_role,
                resumable=resumable,
                where=where,
                ledger=config.ledger.path,
                reporter=teller,
            )
        except BaseException as error:
            # The budget is spent: the model must outlive a load that failed.
            stack.pop_all()
            words = ["privbench", "load", str(path), shown(target), "--trust-programs"]
            words += ["--scale", str(scale)] if scale != 1.0 else []
            words += ["--seed", str(seed)] if seed is not None else []
            words += ["--resumable", "--load-on", where] if resumable else []
            words += ["--replace"] if replace and not resumable else []
            words += ["--ledger", config.ledger.path] if config.ledger.path else []
            words += ["--as-role", as_role] if as_role else []
            error.add_note(f"To go on: {shlex.join(words + ['--strict'] * strict)}")
            raise
    loaded = replaced(loaded, lost=(*catalog.ddl.left_behind, *loaded.lost))
    return CloneReport(model.promise, loaded, losses(model))
