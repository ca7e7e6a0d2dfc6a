"""An audit of a fit inside the house: what an attack proves, and what replays contradict."""

from __future__ import annotations

from pathlib import Path

from privbench.audit.report import Audit, Effort
from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pipeline.progress import Reporter

__all__ = ["Audit", "Effort", "audit"]


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
        reporter: Told of stages.

    Raises:
        ConfigError: The config cannot be obeyed.
        TargetError: The scratch database is the source or not empty.
        PrivbenchError: Whatever `fit` refuses.
    """
    from privbench.audit.report import run
    from privbench.audit.scratch import scratch_copy, set_apart

    teller = reporter or Reporter()
    if config.privacy.epsilon is None:
        raise ConfigError("no ε is given.", remedy="Use --epsilon or [privacy] epsilon.")
    mine = set_apart(config)
    with scratch_copy(source, scratch, mine, teller) as copy:
        found = run(copy, mine, effort or Effort(), teller, root)
    found.save(Path(output))
    return found
