"""The results as one HTML page that needs nothing else."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from privbench.bench.config import REAL
from privbench.bench.curves import draw, short
from privbench.bench.published import Printed
from privbench.bench.results import Figure, Line, Results
from privbench.report.templates import template

#: Figures of the first table, those that a grid has, and what they are called; all others stand in
#: a folded one.
_TITLES = {
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
    "qerror.p95": "Q-error, 95th percentile",
    "loglik.test": "log-likelihood of test rows",
    "loglik.zero": "share of test rows without mass",
    "params.l1": "L1 of parameters",
    "params.kl": "KL of parameters",
    "map.accuracy": "MAP accuracy",
    "retention.keys": "retention over keys",
    "rows.max_difference": "sizes off by, %",
    "seconds.fit": "fit, s",
}
_CURVES = ("auroc.mean", "auprc.mean", "pmse.ratio", "kld.2", "qerror.mean", "loglik.test",
           "params.l1", "map.accuracy")  # fmt: skip


@dataclass(frozen=True)
class Part:
    """What the page says of one data set."""

    name: str
    lines: list[Line]
    first: list[str]
    others: list[str]
    curves: list[tuple[str, Markup]]


def render(results: Results) -> str:
    """The whole page; every value is escaped."""
    page = template("page.html.j2", "privbench.bench", ".").render(
        results=results,
        grid=results.grid,
        parts=[_part(results, name) for name in results.grid.data],
        titles=_TITLES,
        shown=shown,
        printed=printed,
        others=_other_methods,
        real=REAL,
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
    """What papers have printed of the same method, data and ε."""
    return "; ".join(
        _named(part) + (" (doubtful)" if "DOUBTFUL" in part.note else "")
        for part in results.printed_for(line).values()
    )


def _named(part: Printed) -> str:
    return f"{_TITLES.get(part.metric, part.metric)} {short(part.value)}"


def _other_methods(results: Results, data: str) -> list[tuple[str, str, str]]:
    """Printed figures of methods that the grid does not run: method, ε, figures."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part in results.printed:
        if part.data == data and part.synthesizer is None:
            at = "" if part.epsilon is None else f"{part.epsilon:g}"
            found[f"{part.method} (paper {part.paper})", at].append(_named(part))
    return [(method, at, "; ".join(texts)) for (method, at), texts in found.items()]


def _part(results: Results, name: str) -> Part:
    lines = [line for line in results.lines if line.data == name]
    has = {metric for line in lines for metric in line.figures}
    curves = [
        (_TITLES[metric], drawn)
        for metric in _CURVES
        if (drawn := draw(results, lines, metric)) is not None
    ]
    first = [metric for metric in _TITLES if metric in has]
    return Part(name, lines, first, sorted(has - set(first)), curves)
