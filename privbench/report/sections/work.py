"""Work and plans: what EXPLAIN (ANALYZE, BUFFERS) saw on both sides."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument
from privbench.report.sections.base import Section
from privbench.report.sections.qerror import joins_label


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    if document.work is None or document.plans is None:
        return None
    return {
        "work": [
            ("shared blocks, hit or read", ("work", "blocks")),
            ("↳ by weight", ("work", "blocks_weighted")),
            ("rows through all plan nodes", ("work", "rows")),
            ("local and temporary blocks", ("work", "spill")),
            ("planning time", ("plans", "planning")),
            ("execution time, on the server", ("plans", "execution")),
        ],
        "estimates": [
            ("rows of matched nodes, source against clone", ("plans", "operators")),
            ("planner’s estimates on the source", ("plans", "source_estimates")),
            ("planner’s estimates on the clone", ("plans", "clone_estimates")),
        ],
        "joins": [(joins_label(name), name) for name in document.plans.same_by_joins],
    }


SECTION = Section(
    name="work",
    title="Does the server do the same work?",
    intro="Run times wobble; the blocks that a query touches and the rows that pass through its "
    "plan hardly do. Every query was explained once on each side while it ran.",
    values=_values,
)
