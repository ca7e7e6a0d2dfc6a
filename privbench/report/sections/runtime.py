"""Run times on both sides."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section
from privbench.report.sections.charts import scatter


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    timed = [query for query in document.queries if query.runtime is not None]
    if not timed:
        return None
    chart = scatter(
        [1000 * (query.source.median or 0) for query in timed],
        [1000 * (query.clone.median or 0) for query in timed],
        [query.id for query in timed],
        ("source, ms", "clone, ms"),
        "chart-runtime",
    )
    lines = {"source against clone": document.runtime.overall}
    if document.runtime.floor is not None:
        lines["noise floor: source against itself"] = document.runtime.floor
    return {"chart": chart, "lines": lines, "runtime": document.runtime}


SECTION = Section(
    name="runtime",
    title="Do queries take as long?",
    intro="Median run time of each query on both sides. A point on the solid line takes as long on "
    "the clone as on the source; between the dotted lines it takes at most twice or half as long.",
    values=_values,
)
