"""The report in a few lines of plain text, for terminals."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.headlines import headlines
from privbench.report.text import number


def summary(document: ComparisonDocument) -> str:
    """One line a headline (title, figure, verdict, a further figure), then one a gate.

    It holds exact figures of the source: CONFIDENTIAL.
    """
    found = headlines(document)
    title = max(len(line.title) for line in found)
    value = max(len(line.value) for line in found)
    lines = [
        f"{line.title:<{title}}  {line.value:>{value}}  {line.grade or '':<4}  {line.aside}"
        for line in found
    ]
    for what, counts in (
        ("failed", document.replay.errors),
        ("timed out", document.replay.timeouts),
    ):
        worst = max(counts.values(), default=0)
        if worst:
            lines.append(f"{worst} of {document.workload.queries} queries {what}: see the report")
    lines += [
        f"gate {'FAILED' if gate.failed else 'passed'}: fail if {gate.condition}"
        f" (it is {number(gate.figure)})"
        for gate in document.gates
    ]
    return "\n".join(line.rstrip() for line in lines)
