"""The flat table of named figures that gates and short reports read."""

from __future__ import annotations

from collections.abc import Iterable

from privbench.metrics.fidelity import WAYS, TableFidelity, overall
from privbench.report.document import (
    CheckPart,
    QErrorPart,
    ReplayPart,
    RuntimePart,
    TablePart,
)
from privbench.report.document_base import SummaryPart

_POINTS = ("mean", "p50", "p75", "p90", "p95", "p99", "max")
_PLAIN = (
    "qerror.clone_zero",
    "replay.timeouts",
    "replay.errors",
    "integrity.violations",
    "rows.max_difference",
)


def names(tables: Iterable[str]) -> frozenset[str]:
    """Every figure that a comparison of these tables may have."""
    spread = {f"{kind}.{p}" for kind in ("qerror", "runtime", "runtime.floor") for p in _POINTS}
    ways = {f"{kind}.{way}" for kind in ("kld", "tvd") for way in WAYS}
    by_table = {f"{name}[{table}]" for table in tables for name in ways}
    return frozenset(spread | ways | by_table | set(_PLAIN))


def collect(
    qerror: QErrorPart,
    runtime: RuntimePart,
    replay: ReplayPart,
    tables: Iterable[TablePart],
    fidelity: Iterable[TableFidelity],
    integrity: Iterable[CheckPart],
) -> dict[str, float | None]:
    """The figures of a comparison by name; None for a figure that could not be had."""
    parts = list(tables)
    found = dict.fromkeys(sorted(names(part.name for part in parts)))
    return {
        **found,
        **_spread("qerror", qerror.overall),
        **_spread("runtime", runtime.overall),
        **_spread("runtime.floor", runtime.floor),
        **_overall(list(fidelity)),
        **_by_table(parts),
        "qerror.clone_zero": float(qerror.clone_zero),
        "replay.timeouts": float(sum(replay.timeouts.values())),
        "replay.errors": float(sum(replay.errors.values())),
        "integrity.violations": float(sum(check.violations for check in integrity)),
        "rows.max_difference": max((_rows(part) for part in parts), default=None),
    }


def _spread(name: str, summary: SummaryPart | None) -> dict[str, float]:
    if summary is None:
        return {}
    return {f"{name}.{point}": getattr(summary, point) for point in _POINTS}


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
