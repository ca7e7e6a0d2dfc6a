"""The flat table of named figures that gates and short reports read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from privbench.metrics.fidelity import WAYS, TableFidelity, overall
from privbench.metrics.summary import SummaryPart
from privbench.report.document import ComparisonDocument, TablePart

#: What a figure with a spread is followed by.
POINTS = ("mean", "p50", "p75", "p90", "p95", "p99", "max")
_SPREADS = (
    "qerror",
    "qerror.weighted",
    "qerror.rebound",
    "runtime",
    "runtime.floor",
    "runtime.weighted",
    "work.blocks",
    "work.blocks.weighted",
    "work.rows",
    "work.spill",
    "plan.operators",
    "plan.estimates.source",
    "plan.estimates.clone",
    "plan.planning",
    "plan.execution",
    "stats.n_distinct",
    "stats.null_frac",
    "stats.mcv",
    "stats.correlation",
    "stats.avg_width",
    "load.latency",
    "load.latency.floor",
)
_PLAIN = (
    "qerror.clone_zero",
    "qerror.rebound.clone_zero",
    "replay.timeouts",
    "replay.errors",
    "replay.unstable",
    "runtime.beyond_floor",
    "work.missing",
    "plan.agreement",
    "plan.join_order",
    "load.throughput",
    "load.throughput.floor",
    "integrity.violations",
    "rows.max_difference",
)


def names(tables: Iterable[str], left_out: tuple[str, ...] = ()) -> frozenset[str]:
    """Every figure that a comparison of these tables may have.

    Args:
        tables: Their names.
        left_out: What the names of figures that are not measured begin with.
    """
    spread = {f"{kind}.{p}" for kind in _SPREADS for p in POINTS}
    ways = {f"{kind}.{way}" for kind in ("kld", "tvd") for way in WAYS}
    by_table = {f"{name}[{table}]" for table in tables for name in ways}
    found = spread | ways | by_table | set(_PLAIN)
    return frozenset(name for name in found if not name.startswith(left_out))


def collect(
    document: ComparisonDocument, fidelity: Iterable[TableFidelity]
) -> dict[str, float | None]:
    """The figures of a comparison by name; None for a figure that could not be had."""
    found: dict[str, float | None] = dict.fromkeys(
        sorted(names(part.name for part in document.tables))
    )
    for name, part in _summaries(document).items():
        if part is not None:
            found |= {f"{name}.{point}": getattr(part, point) for point in POINTS}
    return {**found, **_overall(list(fidelity)), **_by_table(document.tables), **_plain(document)}


def _summaries(document: ComparisonDocument) -> Mapping[str, SummaryPart | None]:
    runtime, work, plans = document.runtime, document.work, document.plans
    statistics, load = document.statistics, document.load
    found = {
        "qerror": document.qerror.overall,
        "qerror.weighted": document.qerror.weighted,
        "qerror.rebound": document.rebound.qerror.overall if document.rebound else None,
        "runtime": runtime.overall,
        "runtime.floor": runtime.floor,
        "runtime.weighted": runtime.weighted,
    }
    if work is not None:
        found |= {f"work.{kind}": getattr(work, kind) for kind in ("blocks", "rows", "spill")}
        found["work.blocks.weighted"] = work.blocks_weighted
    if plans is not None:
        found |= {f"plan.{k}": getattr(plans, k) for k in ("operators", "planning", "execution")}
        found["plan.estimates.source"] = plans.source_estimates
        found["plan.estimates.clone"] = plans.clone_estimates
    if statistics is not None:
        kinds = ("n_distinct", "null_frac", "mcv", "correlation", "avg_width")
        found |= {f"stats.{kind}": getattr(statistics, kind) for kind in kinds}
    if load is not None:
        found |= {"load.latency": load.latency, "load.latency.floor": load.latency_floor}
    return found


def _plain(document: ComparisonDocument) -> dict[str, float | None]:
    replay, work, plans, load = document.replay, document.work, document.plans, document.load
    return {
        "qerror.clone_zero": float(document.qerror.clone_zero),
        "qerror.rebound.clone_zero": (
            float(document.rebound.qerror.clone_zero) if document.rebound else None
        ),
        "replay.timeouts": float(sum(replay.timeouts.values())),
        "replay.errors": float(sum(replay.errors.values())),
        "replay.unstable": float(replay.unstable),
        "runtime.beyond_floor": document.runtime.beyond_floor,
        "work.missing": float(work.missing) if work else None,
        "plan.agreement": plans.same if plans else None,
        "plan.join_order": plans.same_join_order if plans else None,
        "load.throughput": load.throughput if load else None,
        "load.throughput.floor": load.throughput_floor if load else None,
        "integrity.violations": float(sum(check.violations for check in document.integrity)),
        "rows.max_difference": max((_rows(part) for part in document.tables), default=None),
    }


def _overall(fidelity: list[TableFidelity]) -> dict[str, float]:
    found: dict[str, float] = {}
    for way in WAYS:
        means = overall(fidelity, way)
        if means is not None:
            found[f"kld.{way}"], found[f"tvd.{way}"] = means
    return found


def _by_table(parts: list[TablePart]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        for way, figures in part.divergence.items():
            found[f"kld.{way}[{part.name}]"] = figures.kld
            found[f"tvd.{way}[{part.name}]"] = figures.tvd
    return found


def _rows(part: TablePart) -> float:
    """Difference of a table's row counts in per cent of the source's, floored at one row."""
    return 100.0 * abs(part.source_rows - (part.clone_rows or 0)) / max(part.source_rows, 1)
