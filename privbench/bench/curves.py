"""Figures over ε as curves, and how figures are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle, groupby, product

import plotly.graph_objects as go
from markupsafe import Markup

from privbench.bench.config import REAL
from privbench.bench.results import Line, Results

#: Okabe and Ito's colours without yellow, told apart by colour-blind readers; then other dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6b7280")
_DASHES = ("solid", "dash", "dot", "dashdot")
#: A figure's axis is logarithmic where the largest is more than so many times the least.
_WIDE = 50


def draw(results: Results, lines: Sequence[Line], metric: str) -> Markup | None:
    """A figure's means with bars of a standard deviation over ε; None with fewer than two ε.

    Real rows are a dashed line, printed figures of the same method rings. The page has to hold
    plotly.js.
    """
    lines = [line for line in lines if metric in line.figures]
    steps = sorted({line.epsilon for line in lines if line.epsilon is not None})
    if len(steps) < 2:
        return None
    figure, values, looks = go.Figure(), [], cycle(product(_DASHES, _COLOURS))
    for name, group in groupby(lines, key=lambda line: line.synthesizer):
        own = list(group)
        found = [line.figures[metric] for line in own]
        if name == REAL:
            look = {"dash": "dash", "width": 1, "color": "#8A94A3"}
            figure.add_hline(y=found[0].mean, line=look)
            continue
        values += [part.mean for part in found]
        dash, colour = next(looks)
        figure.add_scatter(
            x=[line.epsilon for line in own],
            y=[part.mean for part in found],
            error_y={"array": [part.sd or 0.0 for part in found], "thickness": 1},
            line={"color": colour, "dash": dash},
            name=name,
        )
        printed = [(line.epsilon, results.printed_for(line).get(metric)) for line in own]
        if rings := [(at, part.value) for at, part in printed if part is not None]:
            x, y = zip(*rings, strict=True)
            ring = {"symbol": "circle-open", "size": 12, "color": colour}
            label = f"{name}, printed"
            figure.add_scatter(x=x, y=y, mode="markers", marker=ring, name=label, showlegend=False)
    figure.update_xaxes(title="ε", type="log", tickvals=steps, ticktext=[f"{at:g}" for at in steps])
    if min(values) > 0 and max(values) > _WIDE * min(values):
        figure.update_yaxes(type="log")
    figure.update_layout(template=None, height=320, margin={"l": 50, "r": 10, "t": 10, "b": 40})
    # Plotly writes data as JSON in which no "<" is left.
    drawn = figure.to_html(full_html=False, include_plotlyjs=False)
    return Markup(drawn)  # noqa: S704


def short(value: float) -> str:
    """Three significant digits, whole numbers from a thousand on.

    >>> short(0.91234), short(12.3456), short(123456.0), short(0.00012)
    ('0.912', '12.3', '123,456', '0.00012')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < math.inf else f"{value:.3g}"
