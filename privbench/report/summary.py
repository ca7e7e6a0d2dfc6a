"""The report in a few lines of plain text, for terminals."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.text import headlines


def summary(document: ComparisonDocument) -> str:
    """One line a headline: title, figure, verdict, a further figure."""
    found = headlines(document)
    title = max(len(line.title) for line in found)
    value = max(len(line.value) for line in found)
    lines = (
        f"{line.title:<{title}}  {line.value:>{value}}  {line.grade or '':<4}  {line.aside}"
        for line in found
    )
    return "\n".join(line.rstrip() for line in lines)
