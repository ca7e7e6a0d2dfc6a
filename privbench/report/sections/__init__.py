"""Sections of the HTML report; each is a template with a line in `SECTIONS`, or a plug-in.

A template sets its section's ``title`` and ``intro``. Values that it needs besides the document are
computed by the function that `SECTIONS` names.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from privbench.report.document import ComparisonDocument
from privbench.report.headlines import headlines
from privbench.report.section_plugins import installed
from privbench.report.sections import (
    columns,
    correlations,
    fanouts,
    lists,
    qerror,
    runtime,
)
from privbench.report.templates import template

#: Functions for the values that the templates need besides the document; a section is left out if
#: its function returns None. They are in the page's order.
SECTIONS: dict[str, Callable[[ComparisonDocument], dict[str, object] | None]] = {
    "headline": lambda document: {"headlines": headlines(document)},
    "drift": lambda document: _if(document.drift),
    "qerror": qerror.values,
    "worst": lists.worst,
    "runtime": runtime.values,
    "work": lambda document: _if(document.work and document.plans),
    "tables": lambda document: _if(document.tables),
    "values": lists.values,
    "columns": columns.values,
    "correlations": correlations.values,
    "fanouts": fanouts.values,
    "integrity": lists.integrity,
    "queries": lists.queries,
    "environment": lambda document: {},
}


def sections(document: ComparisonDocument) -> Iterator[dict[str, str]]:
    """Yield the sections that have something to show.

    Each has a name, which is its anchor, a title, an intro of one or two sentences, and a body.
    """
    added = [plugin for plugin in installed() if plugin.name in document.sections]
    for name, values in SECTIONS.items():
        context = values(document)
        if context is not None:
            yield _section(name, template(f"{name}.html.j2"), document, context)
        for plugin in added:
            if plugin.follows == name:
                yield _section(plugin.name, plugin.template(), document, plugin.values(document))


def _section(
    name: str, template: Template, document: ComparisonDocument, values: dict[str, object]
) -> dict[str, str]:
    module: Any = template.make_module({"document": document, **values})
    # Safe because the template has escaped every value.
    body = Markup(module)  # noqa: S704
    return {"name": name, "title": module.title, "intro": module.intro, "body": body}


def _if(part: object) -> dict[str, object] | None:
    """No further values; None where the document lacks the part that the section shows."""
    return {} if part else None
