"""The interactive charts, and the look that they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup
from numpy.typing import ArrayLike

#: Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
SOURCE_COLOUR, CLONE_COLOUR, QUIET_COLOUR = "#0072B2", "#D55E00", "#8A94A3"
_INK, _GRID = "#1F2933", "#E4E8EE"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def _embed(figure: go.Figure, name: str, height: int) -> Markup:
    """A figure as HTML; plotly escapes what stands in its JSON."""
    figure.update_layout(
        height=height,
        margin={"l": 60, "r": 20, "t": 16, "b": 52},
        font={"family": _FONT, "size": 13, "color": _INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        hoverlabel={"bgcolor": "white", "font": {"family": _FONT}},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    axis = {"gridcolor": _GRID, "zeroline": False, "linecolor": "#B6BFCB", "ticks": "outside"}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    html = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=name,
        config={"displaylogo": False, "responsive": True, "displayModeBar": False},
    )
    return Markup(html)  # noqa: S704


def ecdf(errors: ArrayLike, name: str) -> Markup:
    """Share of the queries whose Q-error is at most x.

    Args:
        errors: Q-errors, shape (n,), n ≥ 1.
        name: Id of the HTML element.
    """
    x = np.sort(np.asarray(errors, dtype=np.float64))
    share = np.arange(1, len(x) + 1) / len(x)
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=np.concatenate([[1.0], x]).tolist(),
            y=np.concatenate([[0.0], 100 * share]).tolist(),
            mode="lines",
            line={"color": SOURCE_COLOUR, "width": 2.5, "shape": "hv"},
            fill="tozeroy",
            fillcolor="rgba(0,114,178,0.08)",
            hovertemplate="%{y:.0f} % of the queries: Q-error ≤ %{x:.3g}<extra></extra>",
            showlegend=False,
        )
    )
    for point, label in ((50, "median"), (95, "95 %")):
        value = float(np.percentile(x, point))
        figure.add_vline(x=value, line={"color": QUIET_COLOUR, "width": 1, "dash": "dot"})
        figure.add_annotation(
            x=float(np.log10(value)), y=6, text=f"{label}: {value:.3g}", showarrow=False,
            xanchor="left", xshift=4, font={"size": 12, "color": "#52606D"},
            bgcolor="rgba(255,255,255,0.8)",
        )  # fmt: skip
    top = max(2.0, float(x[-1]) * 1.15)
    figure.update_xaxes(
        title="Q-error (1 is exact)", type="log", range=[0, float(np.log10(top))], **ticks(1, top)
    )
    figure.update_yaxes(title="queries, %", range=[0, 103])
    return _embed(figure, name, 340)


def scatter(
    x: list[float], y: list[float], labels: list[str], titles: tuple[str, str], name: str
) -> Markup:
    """Source against clone, both in milliseconds on logarithmic scales.

    Args:
        x: The source's values, at least one, above 0.
        y: The clone's.
        labels: What each point is.
        titles: Of the axes.
        name: Id of the HTML element.
    """
    values = np.array([*x, *y])
    low, high = float(values.min()) / 1.5, float(values.max()) * 1.5
    figure = go.Figure()
    for factor, dash in ((1.0, "solid"), (2.0, "dot"), (0.5, "dot")):
        figure.add_trace(
            go.Scatter(
                x=[low, high], y=[low * factor, high * factor], mode="lines", hoverinfo="skip",
                line={"color": "#B6BFCB", "width": 1, "dash": dash},
                name="equal" if factor == 1 else "twice, half",
                showlegend=factor >= 1,
            )
        )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=x, y=y, mode="markers", name="a query", customdata=labels,
            marker={"color": CLONE_COLOUR, "size": 8, "opacity": 0.65,
                    "line": {"color": "white", "width": 1}},
            hovertemplate="%{customdata}<br>source %{x:.3g} ms<br>clone %{y:.3g} ms<extra></extra>",
        )
    )  # fmt: skip
    bounds = [float(np.log10(low)), float(np.log10(high))]
    marks = ticks(low, high)
    figure.update_xaxes(title=titles[0], type="log", range=bounds, **marks)
    figure.update_yaxes(title=titles[1], type="log", range=bounds, **marks)
    return _embed(figure, name, 400)


def ticks(low: float, high: float) -> dict[str, Any]:
    """Plain numbers on a logarithmic axis: 1, 2, 5, 10 … where there is room, or decades."""
    decades = np.log10(high / low)
    steps = (1, 2, 5) if decades <= 3 else (1,)
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    stride = max(1, int(decades // 8))
    values = [s * 10.0**e for e in range(first, last + 1, stride) for s in steps]
    shown = [value for value in values if low <= value <= high]
    return {"tickvals": shown, "ticktext": [f"{value:,.10g}" for value in shown]}
