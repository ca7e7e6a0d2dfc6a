"""Integrity checks."""

from __future__ import annotations

from collections import Counter

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    if not document.integrity:
        return None
    total = Counter(check.kind for check in document.integrity)
    broken = Counter(check.kind for check in document.integrity if check.violations)
    return {
        "kinds": {kind: (total[kind], broken[kind]) for kind in total},
        "violated": [(i, check) for i, check in enumerate(document.integrity) if check.violations],
    }


SECTION = Section(
    name="integrity",
    title="Does the schema hold?",
    intro="What the source's constraints promise, counted on the clone's rows by query, whether or "
    "not the clone has the constraints itself.",
    values=_values,
)
