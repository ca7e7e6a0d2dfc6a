"""What the source's constraints promise, counted on the clone."""

from __future__ import annotations

from collections import Counter

from privbench.report.document import ComparisonDocument


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """What the template needs."""
    if not document.integrity:
        return None
    total = Counter(check.kind for check in document.integrity)
    broken = Counter(check.kind for check in document.integrity if check.violations)
    return {
        "kinds": {kind: (total[kind], broken[kind]) for kind in total},
        "violated": [(i, check) for i, check in enumerate(document.integrity) if check.violations],
    }
