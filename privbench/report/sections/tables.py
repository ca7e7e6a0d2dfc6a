"""Row counts and λ-way divergence, table by table."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    if not document.tables:
        return None
    return {
        "tables": document.tables,
        "ways": ("2", "3", "4"),
        "sampled": any(
            part.sets < part.of for table in document.tables for part in table.divergence.values()
        ),
    }


SECTION = Section(
    name="tables",
    title="Tables: size and joint distributions",
    intro="Rows of each table on both sides, and how far the distributions of every 2, 3 and 4 "
    "columns taken together are apart: λ-way KLD, and below it the total variation distance. "
    "Both are 0 for equal distributions; single values matter less than how they compare with an "
    "earlier clone of the same source.",
    values=_values,
)
