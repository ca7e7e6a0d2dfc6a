"""The flat table of named figures that gates and short reports read."""

from collections.abc import Collection, Iterable
from typing import Any

from privbench.metrics.fidelity import WAYS, TableFidelity, overall
from privbench.report.document import ComparisonDocument, TablePart

#: Suffixes of the names of the figures that summarise a distribution.
POINTS = ("mean", "p50", "p75", "p90", "p95", "p99", "max")
#: Figures that summarise a distribution, and the places of the summaries in the document.
_SPREADS = {
    "qerror": "qerror.overall",
    "qerror.patterns": "qerror.patterns",
    "qerror.weighted": "qerror.weighted",
    "runtime": "runtime.overall",
    "runtime.floor": "runtime.floor",
    "runtime.weighted": "runtime.weighted",
    "work.blocks": "work.blocks",
    "work.blocks.weighted": "work.blocks_weighted",
    "work.rows": "work.rows",
    "work.spill": "work.spill",
    "plan.operators": "plans.operators",
    "plan.estimates.source": "plans.source_estimates",
    "plan.estimates.clone": "plans.clone_estimates",
    "plan.planning": "plans.planning",
    "plan.execution": "plans.execution",
    "stats.n_distinct": "statistics.n_distinct",
    "stats.null_frac": "statistics.null_frac",
    "stats.mcv": "statistics.mcv",
    "stats.correlation": "statistics.correlation",
    "stats.avg_width": "statistics.avg_width",
}
#: Figures that are one number of the document.
_PLAIN = {
    "qerror.clone_zero": "qerror.clone_zero",
    "replay.unstable": "replay.unstable",
    "runtime.beyond_floor": "runtime.beyond_floor",
    "work.missing": "work.missing",
    "plan.agreement": "plans.same",
    "plan.join_order": "plans.same_join_order",
}
#: Figures that are made of several numbers of the document.
_MADE = ("replay.timeouts", "replay.errors", "integrity.violations", "rows.max_difference")


def names(tables: Iterable[str], left_out: tuple[str, ...] = ()) -> frozenset[str]:
    """Every figure that a comparison of these tables may have; some prefixes are left out."""
    spread = {f"{kind}.{p}" for kind in _SPREADS for p in POINTS}
    ways = {f"{kind}.{way}" for kind in ("kld", "tvd") for way in WAYS}
    by_table = {f"{name}[{table}]" for table in tables for name in ways}
    found = {*spread, *ways, *by_table, *_PLAIN, *_MADE}
    return frozenset(name for name in found if not name.startswith(left_out))


def collect(
    document: ComparisonDocument, fidelity: Collection[TableFidelity]
) -> dict[str, float | None]:
    """The figures of a comparison by name; None for a figure that could not be computed."""
    found: dict[str, float | None] = dict.fromkeys(
        sorted(names(part.name for part in document.tables))
    )
    for name, place in _SPREADS.items():
        summary = _at(document, place)
        if summary is not None:
            found |= {f"{name}.{point}": getattr(summary, point) for point in POINTS}
    for name, place in _PLAIN.items():
        value = _at(document, place)
        found[name] = None if value is None else float(value)
    found["replay.timeouts"] = float(sum(document.replay.timeouts.values()))
    found["replay.errors"] = float(sum(document.replay.errors.values()))
    found["integrity.violations"] = float(sum(check.violations for check in document.integrity))
    found["rows.max_difference"] = max(map(_rows, document.tables), default=None)
    for way in WAYS:
        means = overall(fidelity, way)
        if means is not None:
            found[f"kld.{way}"], found[f"tvd.{way}"] = means
    for part in document.tables:
        for number, figures in part.divergence.items():
            found[f"kld.{number}[{part.name}]"] = figures.kld
            found[f"tvd.{number}[{part.name}]"] = figures.tvd
    return found


def _at(document: ComparisonDocument, place: str) -> Any:
    """The value at a place of the document; None where a part above it is missing."""
    found: Any = document
    for step in place.split("."):
        found = None if found is None else getattr(found, step)
    return found


def _rows(part: TablePart) -> float:
    """Difference of a table's row counts in per cent of the source's, floored at one row."""
    return 100.0 * abs(part.source_rows - (part.clone_rows or 0)) / max(part.source_rows, 1)
