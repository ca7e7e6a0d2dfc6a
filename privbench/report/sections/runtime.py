"""Run times and work on both sides."""

from __future__ import annotations

from privbench.report.document import ComparisonDocument, QueryPart
from privbench.report.sections.base import Section
from privbench.report.sections.charts import (
    CLONE_COLOUR,
    FURTHER_COLOUR,
    QUIET_COLOUR,
    ecdfs,
    scatter,
)
from privbench.report.sections.qerror import joins_label


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    timed = [query for query in document.queries if query.runtime is not None]
    if not timed:
        return None
    chart = scatter(
        [max(1e-3, 1000 * (query.source.median or 0)) for query in timed],
        [max(1e-3, 1000 * (query.clone.median or 0)) for query in timed],
        [query.id for query in timed],
        ("source, ms", "clone, ms"),
        "chart-runtime",
        "/queries/*/source/median /queries/*/clone/median",
    )
    floors = document.runtime.floor_by_joins
    joins: list[tuple[str, tuple[str, ...]]] = []
    for name in document.runtime.by_joins:
        joins.append((joins_label(name), ("runtime", "by_joins", name)))
        if name in floors:
            joins.append(("↳ noise floor", ("runtime", "floor_by_joins", name)))
    return {
        "chart": chart,
        "curves": _curves(timed),
        "lines": [
            ("source against clone", ("runtime", "overall")),
            ("by weight", ("runtime", "weighted")),
            ("noise floor: source against itself", ("runtime", "floor")),
        ],
        "joins": joins,
    }


def _curves(timed: list[QueryPart]) -> object:
    curves = {"run time": ([query.runtime or 0.0 for query in timed], CLONE_COLOUR, "solid")}
    floor = [query.floor for query in timed if query.floor is not None]
    work = [query.work.blocks for query in timed if query.work is not None]
    if floor:
        curves["its noise floor"] = (floor, QUIET_COLOUR, "dash")
    if work:
        curves["blocks read"] = (work, FURTHER_COLOUR, "solid")
    places = "/queries/*/runtime /queries/*/floor /queries/*/work/blocks"
    return ecdfs(curves, "discrepancy, %", "chart-discrepancy", places)


SECTION = Section(
    name="runtime",
    title="Do queries take as long?",
    intro="Median run time of each query on both sides. A point on the solid line takes as long on "
    "the clone as on the source; between the dotted lines it takes at most twice or half as long. "
    "The curves show the share of queries whose discrepancy is at most x, beside what the "
    "machine’s own noise gives.",
    values=_values,
)
