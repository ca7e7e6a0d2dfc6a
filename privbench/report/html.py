"""The report as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from privbench.report.document import ComparisonDocument
from privbench.report.sections import SECTIONS
from privbench.report.templates import template


def render(document: ComparisonDocument) -> str:
    """The whole page.

    Every value is escaped; scripts and styles are inline, so the page works offline.
    """
    shown = [(section, section.render(document)) for section in SECTIONS]
    page = template("page.html.j2").render(
        document=document,
        sections=[(section, body) for section, body in shown if body is not None],
        # The library is trusted text of a dependency, not data.
        plotly=Markup(get_plotlyjs()),  # noqa: S704
    )
    return page + "\n"
