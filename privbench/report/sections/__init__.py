"""Sections of the HTML report, one file, one template and one line in `SECTIONS` each."""

from __future__ import annotations

from privbench.report.sections import (
    columns,
    environment,
    headline,
    integrity,
    qerror,
    runtime,
    tables,
    worst,
)
from privbench.report.sections.base import Section

#: In the order of the page.
SECTIONS: tuple[Section, ...] = (
    headline.SECTION,
    qerror.SECTION,
    worst.SECTION,
    runtime.SECTION,
    tables.SECTION,
    columns.SECTION,
    integrity.SECTION,
    environment.SECTION,
)
