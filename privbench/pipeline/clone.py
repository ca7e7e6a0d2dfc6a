"""The command ``clone``, which runs `fit` and then `load`."""

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
from privbench.options import LoadOptions, with_fields_of
from privbench.pipeline.fit import fit
from privbench.pipeline.header import Promise
from privbench.pipeline.load import (
    STAYS,
    LoadReport,
    check_scale,
    check_written,
    load,
    rehearse,
)
from privbench.pipeline.losses import Loss, losses, render_losses
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import Catalog, look, require_identity
from privbench.postgres.connect import shown
from privbench.privacy.workers import LOCAL, TRUST_NETWORK, require_closed
from privbench.sources import staged


@dataclass(frozen=True)
class CloneReport:
    """The guarantee of a clone, and the numbers of rows that were written."""

    promise: Promise
    loaded: LoadReport  # what the target holds
    losses: Sequence[Loss] = ()  # losses of tables and columns, found from released numbers alone

    def render(self) -> Lines:
        """Return the report as plain text."""
        lost = render_losses(self.losses)
        return lines(*filter(None, (self.loaded.render(), lost, self.promise.sentence())))


@with_fields_of(LoadOptions, "scale", "seed", "replace", "one_transaction", "where", "as_role")
def clone(
    source: str,
    target: str,
    config: Config,
    *,
    output: str | Path | None = None,
    resume: str | None = None,
    strict: bool = False,
    catalog: Catalog | None = None,
    since: str | Path | None = None,
    reporter: Reporter | None = None,
    options: LoadOptions,
) -> CloneReport:
    """Make a synthetic clone of one database in another: `fit`, then `load`, with their options.

    The load is rehearsed before any budget is spent: the target may not be the source, nor a source
    that has releases, has to be empty and able to hold the schema, and with `strict` may lack
    nothing of it. Without `output` the model is deleted afterwards, unless the load fails. `seed`
    is the seed of the sampling, never of the noise.
    """
    teller = reporter or Reporter()
    check_scale(options.scale)
    require_closed(config.counting.where)
    require_identity(source, config)
    check_written(target, options, config.ledger.path)
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
                        replace=options.replace,
                        as_role=options.as_role,
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
                reporter=teller,
                options=replaced(options, trust_programs=True, ledger=config.ledger.path),
            )
        except BaseException as error:
            # The budget is spent: the model must outlive a load that failed.
            stack.pop_all()
            words = ["privbench", "load", str(path), shown(target), "--trust-programs"]
            words += ["--scale", str(options.scale)] if options.scale != 1.0 else []
            words += ["--seed", str(options.seed)] if options.seed is not None else []
            words += ["--one-transaction"] if options.one_transaction else []
            if options.where != LOCAL:
                words += ["--load-on", options.where, *["--trust-network"] * TRUST_NETWORK.get()]
            marked = STAYS in getattr(error, "__notes__", ())
            words += ["--replace"] if options.replace and not marked else []
            words += ["--ledger", config.ledger.path] if config.ledger.path else []
            words += ["--as-role", options.as_role] if options.as_role else []
            error.add_note(f"To go on: {shlex.join(words + ['--strict'] * strict)}")
            raise
    loaded = replaced(loaded, lost=(*catalog.ddl.left_behind, *loaded.lost))
    return CloneReport(model.promise, loaded, losses(model))
