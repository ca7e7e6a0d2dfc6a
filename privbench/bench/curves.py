"""Figures over ε as curves, and how figures are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from markupsafe import Markup

#: Okabe and Ito's colours without yellow, told apart by colour-blind readers; then other dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6b7280")
_DASHES = ("solid", "dash", "dot", "dashdot")
#: A figure's axis is logarithmic where the largest is more than so many times the least.
_WIDE = 50


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve.

    Attributes:
        name: For the legend.
        points: ε, mean and standard deviation, ascending ε.
        printed: ε and figures that a paper has printed of the same method.
    """

    name: str
    points: Sequence[tuple[float, float, float | None]]
    printed: Sequence[tuple[float, float]] = ()


def draw(curves: Sequence[Curve], real: float | None) -> Markup:
    """Means with bars of a standard deviation over ε; the real rows' figure as a dashed line.

    Printed figures are rings. The page has to hold plotly.js.
    """
    figure = go.Figure()
    values = [mean for curve in curves for _, mean, _ in curve.points]
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        x, y, sd = zip(*curve.points, strict=True)
        bars = {"array": [value or 0.0 for value in sd], "thickness": 1}
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=x, y=y, error_y=bars, line=line, name=curve.name)
        if curve.printed:
            x, y = zip(*curve.printed, strict=True)
            ring = {"symbol": "circle-open", "size": 12, "color": colour}
            name = f"{curve.name}, printed"
            figure.add_scatter(x=x, y=y, mode="markers", marker=ring, name=name, showlegend=False)
    if real is not None:
        figure.add_hline(y=real, line={"dash": "dash", "width": 1, "color": "#8A94A3"})
    steps = sorted({at for curve in curves for at, _, _ in curve.points})
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
