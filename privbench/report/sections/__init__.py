"""Sections of the HTML report, one file, one template and one line in `SECTIONS` each."""

from __future__ import annotations

from privbench.report.sections import (
    columns,
    correlations,
    drift,
    environment,
    fanouts,
    headline,
    heatmap,
    integrity,
    load,
    qerror,
    queries,
    runtime,
    statistics,
    tables,
    work,
    worst,
)
from privbench.report.sections.base import Section

#: In the order of the page.
SECTIONS: tuple[Section, ...] = (
    headline.SECTION,
    drift.SECTION,
    qerror.SECTION,
    worst.SECTION,
    runtime.SECTION,
    load.SECTION,
    work.SECTION,
    tables.SECTION,
    columns.SECTION,
    correlations.SECTION,
    fanouts.SECTION,
    heatmap.SECTION,
    statistics.SECTION,
    integrity.SECTION,
    queries.SECTION,
    environment.SECTION,
)
