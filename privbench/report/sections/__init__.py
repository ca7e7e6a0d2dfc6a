"""Sections of the HTML report: a template, a `Section`, and a line in `SECTIONS` each."""

from __future__ import annotations

from privbench.report.sections import (
    columns,
    correlations,
    fanouts,
    heatmap,
    plain,
    qerror,
    runtime,
)
from privbench.report.sections.base import Section

#: In the order of the page.
SECTIONS: tuple[Section, ...] = (
    plain.HEADLINE,
    plain.DRIFT,
    qerror.SECTION,
    plain.WORST,
    runtime.SECTION,
    plain.LOAD,
    plain.WORK,
    plain.TABLES,
    columns.SECTION,
    correlations.SECTION,
    fanouts.SECTION,
    heatmap.SECTION,
    plain.STATISTICS,
    plain.INTEGRITY,
    plain.QUERIES,
    plain.ENVIRONMENT,
)
