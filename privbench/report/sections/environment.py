"""Under which conditions the figures were taken."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section


def _values(document: ComparisonDocument) -> dict[str, object]:
    return {"replay": document.replay, "workload": document.workload}


SECTION = Section(
    name="environment",
    title="How it was measured",
    intro="Versions and settings, so that the figures can be repeated.",
    values=_values,
)
