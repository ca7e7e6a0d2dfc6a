"""The figures that a reader sees first, and the gates."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.headlines import headlines
from privbench.report.sections.base import Section


def _values(document: ComparisonDocument) -> dict[str, object]:
    replay = document.replay
    return {
        "headlines": headlines(document),
        "timeouts": replay.timeouts,
        "errors": replay.errors,
        "troubled": any([*replay.timeouts.values(), *replay.errors.values(), replay.truncated]),
    }


SECTION = Section(
    name="headline",
    title="At a glance",
    intro="How close the clone is to its source, each figure with what it means.",
    values=_values,
)
