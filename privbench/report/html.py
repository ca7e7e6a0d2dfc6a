"""The report as one HTML page that loads nothing else, neither from the network nor from files."""

import base64
import gzip
from functools import cache
from importlib.util import find_spec

from privbench.report.document import ComparisonDocument
from privbench.report.sections import sections
from privbench.report.sections.columns import drawn
from privbench.report.sections.fanouts import drawn as drawn_keys
from privbench.report.templates import template


def render(document: ComparisonDocument) -> str:
    """Return the whole page.

    Every value is escaped; scripts and styles are inline, so the page works offline. Without plotly
    it has no charts and says so: its tables hold the same figures.
    """
    page = template("page.html.j2").render(
        document=document,
        sections=list(sections(document)),
        plotly=_library() if find_spec("plotly") else "",
        cells=_cells(document),
    )
    return page + "\n"


@cache
def _library() -> str:
    """plotly.js, compressed: it is three times smaller, and the page appears before unpacking."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def _cells(document: ComparisonDocument) -> dict[str, object]:
    """Data of the pictures' tooltips, by place in the document: labels and values of both sides."""
    cells: dict[str, object] = {}
    chosen = drawn(document)
    for i, table in enumerate(document.tables):
        for j, column in enumerate(table.columns if table.name in chosen else ()):
            shares = (_rounded_shares(column.real), _rounded_shares(column.clone))
            cells[f"/tables/{i}/columns/{j}"] = [column.labels, *shares]
    for i, key in drawn_keys(document):
        shares = (_rounded_shares(key.real.shares), _rounded_shares(key.clone.shares))
        cells[f"/views/fanouts/{i}"] = [key.labels, *shares]
    for i, part in enumerate(document.views.correlations):
        if part.table in chosen:
            cells[f"/views/correlations/{i}"] = [part.columns, part.real, part.clone]
    return cells


def _rounded_shares(shares: list[float]) -> list[float]:
    """Round shares to three significant digits, which suffice for bars."""
    return [float(f"{share:.3g}") for share in shares]
