"""Interactive charts as data for plotly.js, and the style that they share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike
from pydantic_core import to_json

from privbench.arrays import Floats

#: Okabe and Ito's colours: distinct for colour-blind readers and in grey print.
SOURCE_COLOUR, CLONE_COLOUR, QUIET_COLOUR = "#0072B2", "#D55E00", "#8A94A3"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
#: Most points of a distribution's curve; of a longer one every n-th point is drawn.
_POINTS = 2000


def embed(
    name: str,
    height: int,
    traces: Sequence[Mapping[str, Any]],
    *,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    **more: object,
) -> Markup:
    """Return a chart as data in the page, which is drawn when it becomes visible.

    ``height`` is in pixels, ``x`` and ``y`` describe the axes, and ``more`` is the rest of the
    layout.
    """
    axis = {"zeroline": False, "ticks": "outside", "automargin": True}
    layout = {
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 16, "b": 52},
        "font": {"family": _FONT, "size": 13},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hoverlabel": {"font": {"family": _FONT}},
        "xaxis": {**axis, **x},
        "yaxis": {**axis, **y},
        **more,
    }
    data = to_json({"data": traces, "layout": layout}, inf_nan_mode="null").decode()
    page = Markup(
        '<div class="chart" id="{name}" style="min-height:{height}px">'
        '<script type="application/json">{data}</script></div>'
    )
    # The JSON is safe: it has no "<" left that could end the element.
    markup = Markup(data.replace("<", "\\u003c"))  # noqa: S704
    return page.format(name=name, height=height, data=markup)


def ticks(low: float, high: float) -> dict[str, Any]:
    """Return plain numbers for a logarithmic axis: 1, 2, 5, 10 … if there is room, or decades."""
    decades = np.log10(high / low)
    steps = (1, 2, 5) if decades <= 3 else (1,)
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    stride = max(1, int(decades // 8))
    values = [s * 10.0**e for e in range(first, last + 1, stride) for s in steps]
    within = [value for value in values if low <= value <= high]
    return {"tickvals": within, "ticktext": [f"{value:,.10g}" for value in within]}


def curve(values: ArrayLike) -> tuple[list[float], list[float]]:
    """Return the sorted values, and for each the share of the values up to it, in per cent."""
    x = np.sort(np.asarray(values, dtype=np.float64))
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(np.int64))
    return short(x[chosen]), short(100.0 * (chosen + 1) / len(x))


def short(values: Floats) -> list[float]:
    """Return the values with four significant digits, which suffice on a screen."""
    return [float(f"{value:.4g}") for value in values]
