"""This comparison against an earlier one."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.document_work import ChangePart
from privbench.report.sections.base import Section

_SHOWN = 30
# Ends of the figures that a reader looks at first; all of them are in comparison.json.
_SHORT = (".p50", ".p95", ".2", ".3", ".4", ".agreement", ".violations", ".max_difference")


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    drift = document.drift
    if drift is None:
        return None
    names = [name for name, part in drift.figures.items() if _is_shown(name, part)]
    return {
        "drift": drift,
        "names": names,
        "regressions": drift.regressions[:_SHOWN],
    }


def _is_shown(name: str, part: ChangePart) -> bool:
    return name.endswith(_SHORT) and part.change is not None


SECTION = Section(
    name="drift",
    title="Against the baseline",
    intro="What has changed since an earlier comparison.",
    values=_values,
)
