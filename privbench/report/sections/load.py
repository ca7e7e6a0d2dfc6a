"""The workload run by several clients at once."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    if document.load is None:
        return None
    return {
        "load": document.load,
        "sides": [(name, ("load", "sides", name, "latency")) for name in document.load.sides],
        "lines": [
            ("latency, source against clone", ("load", "latency")),
            ("noise floor: source against itself", ("load", "latency_floor")),
        ],
    }


SECTION = Section(
    name="load",
    title="Under load",
    intro="Several clients ran the workload at once, on one side at a time, in turns.",
    values=_values,
)
