"""Q-error: distribution, by joins, by size of the true answer."""

from __future__ import annotations

import numpy as np

from privbench.report.document import ComparisonDocument, QueryPart
from privbench.report.sections.base import Section
from privbench.report.sections.charts import ecdf, violins

_THIRDS = {"small": "smallest third", "middle": "middle third", "large": "largest third"}
_PLACE = "/queries/*/qerror"
#: Re-bound queries that are shown; all of them are in comparison.json.
_SHOWN = 20


def _values(document: ComparisonDocument) -> dict[str, object] | None:
    answered = [query for query in document.queries if query.qerror is not None]
    if not answered:
        return None
    joins, thirds = document.qerror.by_joins, document.qerror.by_third
    by_joins, by_third = _by_joins(answered, list(joins)), _by_third(answered)
    return {
        "chart": ecdf(_errors(answered), "chart-qerror", _PLACE),
        "joins_chart": violins(by_joins, "Q-error", "chart-qerror-joins", _PLACE),
        "thirds_chart": violins(by_third, "Q-error", "chart-qerror-thirds", _PLACE),
        "lines": [("Q-error", ("qerror", "overall")), ("by weight", ("qerror", "weighted"))],
        "rebound": _rebound(document),
        "joins": [(joins_label(name), ("qerror", "by_joins", name)) for name in joins],
        "thirds": [(_THIRDS[name], ("qerror", "by_third", name)) for name in thirds],
    }


def _rebound(document: ComparisonDocument) -> list[tuple[int, int]]:
    """Places of some re-bound queries, and of the same as written; the most wrong ones first."""
    place = {query.id: i for i, query in enumerate(document.queries)}
    changed = document.rebound.queries if document.rebound else []
    found = [(i, place[query.id]) for i, query in enumerate(changed)]
    return sorted(found, key=lambda pair: -(document.queries[pair[1]].qerror or 0))[:_SHOWN]


def _errors(queries: list[QueryPart]) -> list[float]:
    return [query.qerror for query in queries if query.qerror is not None]


def _by_joins(queries: list[QueryPart], names: list[str]) -> dict[str, list[float]]:
    groups: dict[str, list[QueryPart]] = {name: [] for name in names}
    for query in queries:
        groups["?" if query.joins is None else str(query.joins)].append(query)
    return {joins_label(name): _errors(group) for name, group in groups.items() if group}


def _by_third(queries: list[QueryPart]) -> dict[str, list[float]]:
    """The thirds of the metric: equal true answers stay together."""
    true = np.array([query.source.rows or 0 for query in queries], dtype=np.float64)
    thirds = 3 * np.searchsorted(np.sort(true), true, side="left") // len(true)
    groups = {
        label: _errors([query for query, k in zip(queries, thirds, strict=True) if k == third])
        for third, label in enumerate(_THIRDS.values())
    }
    return {label: group for label, group in groups.items() if group}


def joins_label(name: str) -> str:
    """A number of joins in words."""
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
