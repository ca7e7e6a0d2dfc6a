"""The stability harness over a whole fit of a live source: is every claim true of these rows?

A fit is run as ever, but into a ledger of its own that is thrown away with all that was released;
then every query that it asked is evaluated again on neighbours of the rows that were read. The
result is computed from private rows: CONFIDENTIAL.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from privbench.config import Config, CountingConfig, LedgerConfig
from privbench.pipeline.fit import STAGES, begin
from privbench.pipeline.progress import Reporter
from privbench.privacy import Query
from privbench.privacy.data import PrivateDatabase, Recoding
from privbench.privacy.neighbour import Unit, all_units, remove_unit, telling_units, worst_hub
from privbench.privacy.stability import StabilityReport, check
from privbench.rng import generator


@dataclass(frozen=True)
class Trace:
    """What a fit asked, and of which rows.

    Attributes:
        queries: Every query, in order.
        labels: What each was for.
        rows: The rows as they were before the fit.
        recodings: What the fit made of raw attributes.
    """

    queries: tuple[Query, ...]
    labels: tuple[str, ...]
    rows: PrivateDatabase
    recodings: tuple[tuple[str, str, Recoding], ...]


def trace(source: str, config: Config, reporter: Reporter | None = None) -> Trace:
    """Run the stages of a fit and keep its queries; nothing that was released is kept.

    Args:
        source: DSN of the source.
        config: The config; its ledger is left alone.
        reporter: Told of stages.

    Raises:
        PrivbenchError: Whatever `fit` raises.
    """
    with tempfile.TemporaryDirectory(prefix="privbench-") as ledger:
        # Neighbours are counted here, when workers and snapshot are gone.
        update = {"ledger": LedgerConfig(path=ledger), "counting": CountingConfig()}
        apart = config.model_copy(update=update)
        draft = begin(source, apart, reporter or Reporter())
        for name, stage in STAGES:
            with draft.reporter.stage(name):
                stage(draft)
            if name == "extract":
                rows = draft.data.database.copy()
        draft.session.close()
    steps = draft.session.trace
    return Trace(
        tuple(step.query for step in steps),
        tuple(step.event.label for step in steps),
        rows,
        draft.data.database.recodings,
    )


def check_trace(
    traced: Trace, *, most: int = 1, ordinary: int = 10, gone: int = 2, seed: int = 0
) -> StabilityReport:
    """Check every claim of a trace on neighbours of its rows.

    Neighbours are made from the rows as they are, and again from the rows without the units that
    most references lead into, so that there are ⊥ edges on both sides.

    Args:
        traced: The trace.
        most: Units of each telling kind: the heaviest, hubs, the most referring, per root table.
        ordinary: Further units, at random.
        gone: Hubs that are taken out for the second round; 0 means no second round.
        seed: Chooses the further units.

    Returns:
        The report over both rounds; CONFIDENTIAL.
    """
    report = StabilityReport(len(traced.queries), worst=[0.0] * len(traced.queries))
    for number, rows in enumerate(_rounds(traced.rows, gone)):
        chosen = dict.fromkeys(telling_units(rows, most))
        chosen |= dict.fromkeys(_ordinary(rows, ordinary, seed + number))
        report.add(check(traced.queries, rows, recodings=traced.recodings, units=list(chosen)))
    return report


def _rounds(rows: PrivateDatabase, gone: int) -> Iterator[PrivateDatabase]:
    yield rows
    for _ in range(gone):
        hub = worst_hub(rows)
        if hub is None:
            return
        rows = remove_unit(rows, *hub)
    if gone:
        yield rows


def _ordinary(rows: PrivateDatabase, count: int, seed: int) -> list[Unit]:
    """Units at random; the choice is of no consequence outside this report."""
    units = list(all_units(rows))
    picked = generator(seed, "ordinary units").permutation(len(units))[:count]
    return [units[at] for at in picked.tolist()]
