"""The section on Q-error: its distribution, by joins, and by size of the true answer."""

import numpy as np
from markupsafe import Markup

from privbench.metrics import qerror
from privbench.metrics.base import joins_label
from privbench.report.document import ComparisonDocument
from privbench.report.sections.charts import (
    QUIET_COLOUR,
    SOURCE_COLOUR,
    curve,
    embed,
    short,
    ticks,
)
from privbench.report.text import joins as in_words

_SIZES = {"small": "smallest", "middle": "middle", "large": "largest"}


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """Return the values for the section's template; None if the section is empty."""
    answered = [query for query in document.queries if query.qerror is not None]
    if not answered:
        return None
    errors = [query.qerror or 1.0 for query in answered]
    thirds = qerror.thirds([query.source.rows or 0 for query in answered])
    by_joins = [joins_label(query.joins) for query in answered]
    by_third = [qerror.THIRDS[place] for place in thirds]
    joins = {name: in_words(name) for name in document.qerror.by_joins}
    sizes = {name: f"{_SIZES[name]} third" for name in document.qerror.by_third}
    return {
        "chart": _chart(errors),
        "joins_chart": _violins(_grouped(errors, by_joins, joins), "joins"),
        "thirds_chart": _violins(_grouped(errors, by_third, sizes), "thirds"),
        "joins": [(label, document.qerror.by_joins[name]) for name, label in joins.items()],
        "thirds": [(label, document.qerror.by_third[name]) for name, label in sizes.items()],
    }


def _grouped(
    errors: list[float], names: list[str], labels: dict[str, str]
) -> dict[str, list[float]]:
    """Errors by the label of their group; groups without any are left out."""
    pairs = list(zip(errors, names, strict=True))
    groups = {labels[name]: [e for e, group in pairs if group == name] for name in labels}
    return {label: group for label, group in groups.items() if group}


def _chart(errors: list[float]) -> Markup:
    """Share of the queries whose Q-error is at most x."""
    x, share = curve(errors)
    line = {
        "type": "scatter",
        "x": [1.0, *x],
        "y": [0.0, *share],
        "mode": "lines",
        "line": {"color": SOURCE_COLOUR, "width": 2.5, "shape": "hv"},
        "fill": "tozeroy",
        "fillcolor": "rgba(0,114,178,0.08)",
        "hovertemplate": "%{y:.0f} % of the queries: Q-error ≤ %{x:.3g}<extra></extra>",
        "showlegend": False,
    }
    marks, labels = [], []
    for point, label, low in ((50, "median", 6), (95, "95 %", 16)):
        value = float(np.percentile(errors, point))
        dots = {"color": QUIET_COLOUR, "width": 1, "dash": "dot"}
        place = {"x0": value, "x1": value, "y0": 0, "y1": 1, "yref": "y domain"}
        marks.append({"type": "line", "line": dots, **place})
        labels.append(
            {
                "x": float(np.log10(value)),
                "y": low,
                "text": f"{label}: {value:.3g}",
                "showarrow": False,
                "xanchor": "left",
                "xshift": 4,
                "font": {"size": 12},
            }
        )
    top = max(2.0, x[-1] * 1.15)
    range_ = {"type": "log", "range": [0, float(np.log10(top))], **ticks(1, top)}
    return embed(
        "chart-qerror",
        340,
        [line],
        x={"title": {"text": "Q-error (1 is exact)"}, **range_},
        y={"title": {"text": "queries, %"}, "range": [0, 103]},
        shapes=marks,
        annotations=labels,
    )


def _violins(parts: dict[str, list[float]], name: str) -> Markup:
    """Distributions of Q-errors side by side, on a logarithmic axis."""
    violins = []
    top = 2.0
    for label, errors in parts.items():
        top = max(top, max(errors) * 1.15)
        violins.append(
            {
                "type": "violin",
                # The shape is estimated on the logarithms, as they are drawn.
                "y": short(np.log10(errors)),
                "name": f"{label}<br>n = {len(errors)}",
                "line": {"color": SOURCE_COLOUR, "width": 1.4},
                "fillcolor": "rgba(0,114,178,0.18)",
                "box": {"visible": True, "width": 0.12},
                "meanline": {"visible": False},
                "spanmode": "hard",
                "points": "outliers",
                "marker": {"size": 3, "opacity": 0.6},
                "showlegend": False,
                "scalemode": "width",
                "hoverinfo": "skip",
            }
        )
    marks = ticks(1, top)
    axis = {
        "title": {"text": "Q-error"},
        "range": [-0.02, float(np.log10(top))],
        "tickvals": [float(np.log10(value)) for value in marks["tickvals"]],
        "ticktext": marks["ticktext"],
    }
    return embed(f"chart-qerror-{name}", 320, violins, x={}, y=axis)
