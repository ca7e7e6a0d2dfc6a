"""What a section of the HTML report is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from privbench.report.document import ComparisonDocument
from privbench.report.templates import template
from privbench.report.trace import Trace


@dataclass(frozen=True, slots=True)
class Section:
    """One section."""

    name: str  # its anchor, and its template's name
    title: str  # its heading
    intro: str  # one or two sentences that say what it shows
    # What the template needs besides the document, or None to leave the section out.
    values: Callable[[ComparisonDocument], dict[str, object] | None]

    def render(self, document: ComparisonDocument, fig: Trace) -> Markup | None:
        """The section's HTML, or None where there is nothing to show."""
        values = self.values(document)
        if values is None:
            return None
        page = template(f"{self.name}.html.j2")
        # Safe because the template has escaped every value.
        return Markup(page.render(document=document, fig=fig, **values))  # noqa: S704
