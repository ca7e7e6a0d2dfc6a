"""The results as one self-contained HTML page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle, groupby, product
from typing import Any

import plotly.graph_objects as go
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from privbench.report.templates import template
from privbench_lab.bench.config import REAL
from privbench_lab.bench.published import Printed
from privbench_lab.bench.results import Figure, Line, Results

#: Figures of the first table with their titles; a grid may lack some. All other figures are in a
#: second table, which is folded.
TITLES = {
    "auroc.mean": "AUROC, mean of models",
    "auroc.no_mlp": "AUROC without MLP",
    "gap.auroc.gb": "AUROC of gradient boosting behind real rows",
    "auprc.mean": "AUPRC, mean of models",
    "f1.mean": "F1, mean of models",
    "rmse.mean": "RMSE, mean of models",
    "sra.auroc": "SRA by AUROC",
    "pmse.ratio": "pMSE ratio",
    "ks.statistic": "KS of numbers",
    "kld.2": "2-way KLD",
    "tvd.2": "2-way TVD",
    "qerror.mean": "Q-error, mean",
    "qerror.p50": "Q-error, median",
    "qerror.p75": "Q-error, third quartile",
    "qerror.p95": "Q-error, 95th percentile",
    "qerror.clone_zero": "queries with no row in the clone",
    "loglik.test": "log-likelihood of test rows",
    "loglik.zero": "share of test rows without mass",
    "params.l1": "L1 of parameters",
    "params.kl": "KL of parameters",
    "map.accuracy": "MAP accuracy",
    "retention.keys": "retention over keys",
    "rows.max_difference": "sizes off by, %",
    "integrity.violations": "rows that break a constraint",
    "answers.mean": "error of aggregates, mean of queries",
    "answers.p50": "error of aggregates, median query",
    "syntherela.c2st": "SyntheRela: C2ST, mean of tables",
    "syntherela.c2st.max": "SyntheRela: C2ST, worst table",
    "syntherela.shapes": "SyntheRela: columns",
    "syntherela.pairs": "SyntheRela: pairs of columns",
    "syntherela.cardinality": "SyntheRela: numbers of referring rows",
    "syntherela.hop1": "SyntheRela: pairs over one reference",
    "seconds.fit": "fit, s",
}
#: Figures that are drawn over ε.
_CURVES = ("auroc.mean", "auprc.mean", "pmse.ratio", "kld.2", "qerror.mean", "loglik.test",
           "params.l1", "map.accuracy")  # fmt: skip
#: Okabe and Ito's colours without yellow, which colour-blind readers can distinguish. More lines
#: repeat the colours with other dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6b7280")
_DASHES = ("solid", "dash", "dot", "dashdot")
#: A figure's axis is logarithmic where the largest is more than so many times the least.
_WIDE = 50


def render(results: Results) -> str:
    """The whole page; every value is escaped."""
    page = template("page.html.j2", "privbench_lab.bench", ".").render(
        results=results,
        grid=results.grid,
        parts=[_part(results, name) for name in results.grid.data],
        titles=TITLES,
        shown=shown,
        printed=printed,
        others=_other_methods,
        style=Markup(template("style.css.j2").render()),  # noqa: S704 - our own file
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - the library as it is
    )
    return page + "\n"


def shown(figure: Figure | None) -> str:
    """A mean with its scatter; nothing where there is none."""
    if figure is None:
        return ""
    return short(figure.mean) + (f" ± {short(figure.sd)}" if figure.sd is not None else "")


def printed(results: Results, line: Line) -> str:
    """The text of the figures that papers have printed for the same method, data and ε."""
    return "; ".join(
        _named(part) + (" (doubtful)" if "DOUBTFUL" in part.note else "")
        for part in results.printed_for(line).values()
    )


def _named(part: Printed) -> str:
    return f"{TITLES.get(part.metric, part.metric)} {short(part.value)}"


def _other_methods(results: Results, data: str) -> list[tuple[str, str, str]]:
    """Printed figures of methods that the grid does not run: method, ε, figures."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part in results.printed:
        if part.data == data and part.synthesizer is None:
            at = "" if part.epsilon is None else f"{part.epsilon:g}"
            found[f"{part.method} (paper {part.paper})", at].append(_named(part))
    return [(method, at, "; ".join(texts)) for (method, at), texts in found.items()]


def _part(results: Results, name: str) -> dict[str, Any]:
    """The page's part on one data set."""
    lines = [line for line in results.lines if line.data == name]
    has = {metric for line in lines for metric in line.figures}
    curves = [
        (TITLES[metric], drawn)
        for metric in _CURVES
        if (drawn := _draw(results, lines, metric)) is not None
    ]
    first = [metric for metric in TITLES if metric in has]
    others = sorted(has - set(first))
    return {"name": name, "lines": lines, "first": first, "others": others, "curves": curves}


def _draw(results: Results, lines: Sequence[Line], metric: str) -> Markup | None:
    """A plot of a metric's means over ε, with error bars; None with fewer than two values of ε.

    An error bar is one standard deviation. A dashed line shows the real rows, and rings show the
    figures that a paper printed for the same method. The HTML needs plotly.js on its page.
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
