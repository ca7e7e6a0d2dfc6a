"""Q-error: distribution, by joins, by size of the true answer."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section
from privbench.report.sections.charts import ecdf


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    errors = [query.qerror for query in document.queries if query.qerror is not None]
    if not errors:
        return None
    thirds = {"small": "smallest third", "middle": "middle third", "large": "largest third"}
    return {
        "chart": ecdf(errors, "chart-qerror"),
        "parts": document.qerror,
        "joins": {_joins(name): part for name, part in document.qerror.by_joins.items()},
        "thirds": {thirds[name]: part for name, part in document.qerror.by_third.items()},
    }


def _joins(name: str) -> str:
    if name == "?":
        return "joins unknown"
    return {"0": "one table", "1": "1 join"}.get(name, f"{name} joins")


SECTION = Section(
    name="qerror",
    title="Do queries give the same answers?",
    intro="The Q-error of a query is how many times the clone's answer is larger or smaller than "
    "the true one. The curve shows the share of queries that stay within a given Q-error: the "
    "sooner it reaches 100 %, the better.",
    values=_values,
)
