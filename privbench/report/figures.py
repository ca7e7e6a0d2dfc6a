"""The named figures of a comparison as one flat table, which gates and short reports read."""

from collections.abc import Iterable, Sequence
from typing import Any

from privbench.metrics.base import SummaryPart, summarise
from privbench.metrics.fidelity import FEW_ROWS, WAYS
from privbench.metrics.values import KINDS
from privbench.report.document import ComparisonDocument, TablePart

#: Suffixes of the names of the figures that summarise a distribution.
POINTS = ("mean", "p50", "p75", "p90", "p95", "p99", "max")
#: Figures that summarise a distribution, and the places of the summaries in the document.
_SPREADS = {
    "qerror": "qerror.overall",
    "qerror.patterns": "qerror.patterns",
    "qerror.limited": "qerror.limited",
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
    """Return the figures that a comparison of these tables may have, without excluded prefixes."""
    spread = {f"{kind}.{p}" for kind in (*_SPREADS, *KINDS) for p in POINTS}
    ways = {f"{kind}.{way}" for kind in ("kld", "tvd") for way in WAYS}
    by_table = {f"{name}[{table}]" for table in tables for name in ways}
    figures = {*spread, *ways, *by_table, *_PLAIN, *_MADE}
    return frozenset(name for name in figures if not name.startswith(left_out))


def collect(document: ComparisonDocument) -> dict[str, float | None]:
    """Return the figures of a comparison by name; None for a figure that could not be computed."""
    values: dict[str, float | None] = dict.fromkeys(
        sorted(names(part.name for part in document.tables))
    )
    spreads = {name: _at(document, place) for name, place in _SPREADS.items()}
    for name, summary in (spreads | _values(document.tables)).items():
        if summary is not None:
            values |= {f"{name}.{point}": getattr(summary, point) for point in POINTS}
    for name, place in _PLAIN.items():
        value = _at(document, place)
        values[name] = None if value is None else float(value)
    values["replay.timeouts"] = float(sum(document.replay.timeouts.values()))
    values["replay.errors"] = float(sum(document.replay.errors.values()))
    values["integrity.violations"] = float(sum(check.violations for check in document.integrity))
    tables = document.tables
    values["rows.max_difference"] = max(map(rows_apart, counted(tables)), default=None)
    for way in map(str, WAYS):
        known = learned(table for table in tables if way in table.divergence)
        parts = [table.divergence[way] for table in known]
        if sets := sum(part.sets for part in parts):
            values[f"kld.{way}"] = sum(part.kld * part.sets for part in parts) / sets
            values[f"tvd.{way}"] = sum(part.tvd * part.sets for part in parts) / sets
    for part in tables:
        for number, figures in part.divergence.items():
            values[f"kld.{number}[{part.name}]"] = figures.kld
            values[f"tvd.{number}[{part.name}]"] = figures.tvd
    return values


def learned(tables: Iterable[TablePart]) -> list[TablePart]:
    """Return the tables that a fit learns; small ones are left out, unless all are small."""
    some = [table for table in tables if not table.public]
    return [table for table in some if table.source_rows >= FEW_ROWS] or some


def counted(tables: Sequence[TablePart]) -> list[TablePart]:
    """Return tables whose numbers of rows are compared: the learned ones and the public ones."""
    return [*learned(tables), *(table for table in tables if table.public)]


def _values(tables: Iterable[TablePart]) -> dict[str, SummaryPart | None]:
    """Without a rule none is broken."""
    errors = [(kind, error) for table in learned(tables) for error, kind, _ in table.errors]
    measured = dict(errors)
    if "values.nulls" in measured:
        rules = ("values.order", "values.identity")
        errors += [(kind, 0.0) for kind in rules if kind not in measured]
    return {kind: summarise(error for each, error in errors if each == kind) for kind in KINDS}


def _at(document: ComparisonDocument, place: str) -> Any:
    """The value at a place of the document; None where a part above it is missing."""
    value: Any = document
    for step in place.split("."):
        value = None if value is None else getattr(value, step)
    return value


def rows_apart(part: TablePart) -> float:
    """Return the difference of a table's row counts in per cent of the source's (at least one)."""
    return 100.0 * abs(part.source_rows - (part.clone_rows or 0)) / max(part.source_rows, 1)
