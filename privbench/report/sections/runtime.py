"""The section on run times in both databases, and their discrepancies beside the noise floor."""

import numpy as np
from markupsafe import Markup, escape

from privbench.display import visible
from privbench.metrics.base import SummaryPart
from privbench.report.document import ComparisonDocument, QueryPart
from privbench.report.sections.charts import (
    CLONE_COLOUR,
    QUIET_COLOUR,
    curve,
    embed,
    short,
    ticks,
)
from privbench.report.text import joins as in_words

_WORK_COLOUR = "#009E73"
#: Queries that are listed.
_SLOWEST = 10


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """Return the values for the section's template; None if the section is empty."""
    timed = [query for query in document.queries if query.runtime is not None]
    if not timed:
        return None
    floors = document.runtime.floor_by_joins
    joins: list[tuple[str, SummaryPart]] = []
    for name, part in document.runtime.by_joins.items():
        joins.append((in_words(name), part))
        if name in floors:
            joins.append(("↳ noise floor", floors[name]))
    slowest = sorted(timed, key=lambda query: -query.weight * (query.source.median or 0))
    return {
        "chart": _scatter(timed),
        "curves": _curves(timed),
        "joins": joins,
        "slowest": slowest[:_SLOWEST],
        "weighted": len({query.weight for query in timed}) > 1,
    }


def _scatter(timed: list[QueryPart]) -> Markup:
    """Source against clone, both in milliseconds on logarithmic scales."""
    x = np.array([max(1e-3, 1000 * (query.source.median or 0)) for query in timed])
    y = np.array([max(1e-3, 1000 * (query.clone.median or 0)) for query in timed])
    low, high = float(min(x.min(), y.min())) / 1.5, float(max(x.max(), y.max())) * 1.5
    lines = [
        {
            "type": "scatter",
            "x": [low, high],
            "y": [low * factor, high * factor],
            "mode": "lines",
            "hoverinfo": "skip",
            "line": {"color": QUIET_COLOUR, "width": 1, "dash": dash},
            "name": "equal" if factor == 1 else "twice, half",
            "showlegend": factor >= 1,
        }
        for factor, dash in ((1.0, "solid"), (2.0, "dot"), (0.5, "dot"))
    ]
    queries = {
        "type": "scatter",
        "x": short(x),
        "y": short(y),
        "mode": "markers",
        "name": "a query",
        "customdata": [str(escape(visible(query.id))) for query in timed],
        "marker": {"color": CLONE_COLOUR, "size": 7, "opacity": 0.6},
        "hovertemplate": "%{customdata}<br>source %{x:.3g} ms<br>clone %{y:.3g} ms<extra></extra>",
    }
    axis = {"type": "log", "range": [float(np.log10(low)), float(np.log10(high))]}
    axis |= ticks(low, high)
    return embed(
        "chart-runtime",
        400,
        [*lines, queries],
        x={"title": {"text": "source, ms"}, **axis},
        y={"title": {"text": "clone, ms"}, **axis},
    )


def _curves(timed: list[QueryPart]) -> Markup:
    """Distributions of discrepancies in per cent, in one chart."""
    curves = {"run time": ([query.runtime or 0.0 for query in timed], CLONE_COLOUR, "solid")}
    floor = [query.floor for query in timed if query.floor is not None]
    work = [query.work.blocks for query in timed if query.work is not None]
    if floor:
        curves["its noise floor"] = (floor, QUIET_COLOUR, "dash")
    if work:
        curves["blocks read"] = (work, _WORK_COLOUR, "solid")
    lines = []
    top = 1.0
    for label, (discrepancies, colour, dash) in curves.items():
        x, share = curve(discrepancies)
        top = max(top, x[-1])
        lines.append(
            {
                "type": "scatter",
                # A value of 0 has no place on a logarithmic axis: it stands at its left end.
                "x": [max(value, 0.1) for value in x],
                "y": share,
                "mode": "lines",
                "name": label,
                "line": {"color": colour, "width": 2.2, "shape": "hv", "dash": dash},
                "hovertemplate": "%{y:.0f} % of the queries: ≤ %{x:.3g} %",
            }
        )
    axis = {"type": "log", "range": [-1, float(np.log10(top * 1.1))], **ticks(0.1, top * 1.1)}
    return embed(
        "chart-discrepancy",
        360,
        lines,
        x={"title": {"text": "discrepancy, %"}, **axis},
        y={"title": {"text": "queries, %"}, "range": [0, 103]},
    )
