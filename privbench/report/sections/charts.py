"""The interactive charts, and the look that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

#: Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
SOURCE_COLOUR, CLONE_COLOUR, QUIET_COLOUR = "#0072B2", "#D55E00", "#8A94A3"
FURTHER_COLOUR = "#009E73"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
#: Points of a distribution's curve; a longer one is thinned evenly.
_POINTS = 2000


def embed(figure: go.Figure, name: str, height: int, figures: str) -> Markup:
    """A figure as data in the page, drawn when it is looked at.

    Args:
        figure: The figure.
        name: Id of the HTML element.
        height: In pixels.
        figures: Places in comparison.json that it shows, as JSON pointers with ``*`` for each.
    """
    figure.update_layout(
        template=None,
        height=height,
        margin={"l": 60, "r": 20, "t": 16, "b": 52},
        font={"family": _FONT, "size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hoverlabel={"font": {"family": _FONT}},
    )
    axis = {"zeroline": False, "ticks": "outside", "automargin": True}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    data = figure.to_json().replace("<", "\\u003c")
    page = Markup(
        '<div class="chart" id="{name}" data-figure="{figures}" style="min-height:{height}px">'
        '<script type="application/json">{data}</script></div>'
    )
    # No "<" is left in the JSON that could end the element.
    shown = Markup(data)  # noqa: S704
    return page.format(name=name, figures=figures, height=height, data=shown)


def ecdf(errors: ArrayLike, name: str, figures: str) -> Markup:
    """Share of the queries whose Q-error is at most x."""
    x, share = _curve(errors)
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=[1.0, *x], y=[0.0, *share], mode="lines",
            line={"color": SOURCE_COLOUR, "width": 2.5, "shape": "hv"},
            fill="tozeroy", fillcolor="rgba(0,114,178,0.08)",
            hovertemplate="%{y:.0f} % of the queries: Q-error ≤ %{x:.3g}<extra></extra>",
            showlegend=False,
        )
    )  # fmt: skip
    for point, label, low in ((50, "median", 6), (95, "95 %", 16)):
        value = float(np.percentile(np.asarray(errors, dtype=np.float64), point))
        figure.add_vline(x=value, line={"color": QUIET_COLOUR, "width": 1, "dash": "dot"})
        figure.add_annotation(
            x=float(np.log10(value)), y=low, text=f"{label}: {value:.3g}", showarrow=False,
            xanchor="left", xshift=4, font={"size": 12},
        )  # fmt: skip
    top = max(2.0, x[-1] * 1.15)
    figure.update_xaxes(
        title="Q-error (1 is exact)", type="log", range=[0, float(np.log10(top))], **ticks(1, top)
    )
    figure.update_yaxes(title="queries, %", range=[0, 103])
    return embed(figure, name, 340, figures)


def ecdfs(
    curves: Mapping[str, tuple[ArrayLike, str, str]], title: str, name: str, figures: str
) -> Markup:
    """Several distributions of discrepancies in per cent, in one chart.

    Args:
        curves: Label to values, shape (n,), colour and dash.
        title: Of the x axis.
        name: Id of the HTML element.
        figures: Where the values stand.
    """
    figure = go.Figure()
    top = 1.0
    for label, (values, colour, dash) in curves.items():
        x, share = _curve(values)
        top = max(top, x[-1])
        figure.add_trace(
            go.Scatter(
                # A value of 0 has no place on a logarithmic axis: it stands at its left end.
                x=[max(value, 0.1) for value in x], y=share, mode="lines", name=label,
                line={"color": colour, "width": 2.2, "shape": "hv", "dash": dash},
                hovertemplate="%{y:.0f} % of the queries: ≤ %{x:.3g} %",
            )
        )  # fmt: skip
    figure.update_xaxes(
        title=title, type="log", range=[-1, float(np.log10(top * 1.1))], **ticks(0.1, top * 1.1)
    )
    figure.update_yaxes(title="queries, %", range=[0, 103])
    return embed(figure, name, 360, figures)


def violins(parts: Mapping[str, ArrayLike], title: str, name: str, figures: str) -> Markup:
    """Distributions of Q-errors side by side, on a logarithmic axis.

    Args:
        parts: Label to Q-errors, each of shape (n,), n ≥ 1.
        title: Of the y axis.
        name: Id of the HTML element.
        figures: Where the values stand.
    """
    figure = go.Figure()
    top = 2.0
    for label, errors in parts.items():
        values = np.asarray(errors, dtype=np.float64)
        top = max(top, float(values.max()) * 1.15)
        # The shape is estimated on the logarithms, as they are drawn.
        figure.add_trace(
            go.Violin(
                y=_short(np.log10(values)), name=f"{label}<br>n = {len(values)}",
                line={"color": SOURCE_COLOUR, "width": 1.4}, fillcolor="rgba(0,114,178,0.18)",
                box={"visible": True, "width": 0.12}, meanline={"visible": False}, spanmode="hard",
                points="outliers", marker={"size": 3, "opacity": 0.6}, showlegend=False,
                scalemode="width", hoverinfo="skip",
            )
        )  # fmt: skip
    marks = ticks(1, top)
    figure.update_yaxes(
        title=title, range=[-0.02, float(np.log10(top))],
        tickvals=[float(np.log10(value)) for value in marks["tickvals"]],
        ticktext=marks["ticktext"],
    )  # fmt: skip
    return embed(figure, name, 320, figures)


def scatter(
    x: list[float],
    y: list[float],
    labels: list[str],
    titles: tuple[str, str],
    name: str,
    figures: str,
) -> Markup:
    """Source against clone, both in milliseconds on logarithmic scales.

    Args:
        x: The source's values, at least one, above 0.
        y: The clone's.
        labels: What each point is.
        titles: Of the axes.
        name: Id of the HTML element.
        figures: Where the values stand.
    """
    values = np.array([*x, *y])
    low, high = float(values.min()) / 1.5, float(values.max()) * 1.5
    figure = go.Figure()
    for factor, dash in ((1.0, "solid"), (2.0, "dot"), (0.5, "dot")):
        figure.add_trace(
            go.Scatter(
                x=[low, high], y=[low * factor, high * factor], mode="lines", hoverinfo="skip",
                line={"color": QUIET_COLOUR, "width": 1, "dash": dash},
                name="equal" if factor == 1 else "twice, half",
                showlegend=factor >= 1,
            )
        )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=_short(np.array(x)), y=_short(np.array(y)), mode="markers", name="a query",
            customdata=labels,
            marker={"color": CLONE_COLOUR, "size": 7, "opacity": 0.6},
            hovertemplate="%{customdata}<br>source %{x:.3g} ms<br>clone %{y:.3g} ms<extra></extra>",
        )
    )  # fmt: skip
    bounds = [float(np.log10(low)), float(np.log10(high))]
    marks = ticks(low, high)
    figure.update_xaxes(title=titles[0], type="log", range=bounds, **marks)
    figure.update_yaxes(title=titles[1], type="log", range=bounds, **marks)
    return embed(figure, name, 400, figures)


def ticks(low: float, high: float) -> dict[str, Any]:
    """Plain numbers on a logarithmic axis: 1, 2, 5, 10 … where there is room, or decades."""
    decades = np.log10(high / low)
    steps = (1, 2, 5) if decades <= 3 else (1,)
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    stride = max(1, int(decades // 8))
    values = [s * 10.0**e for e in range(first, last + 1, stride) for s in steps]
    shown = [value for value in values if low <= value <= high]
    return {"tickvals": shown, "ticktext": [f"{value:,.10g}" for value in shown]}


def _curve(values: ArrayLike) -> tuple[list[float], list[float]]:
    """Values in order and the share of them up to there, in per cent."""
    x = np.sort(np.asarray(values, dtype=np.float64))
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(np.int64))
    return _short(x[kept]), _short(100.0 * (kept + 1) / len(x))


def _short(values: NDArray[np.float64]) -> list[float]:
    """Four significant digits: more than a screen shows."""
    return [float(f"{value:.4g}") for value in values]
