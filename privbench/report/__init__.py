"""Comparison reports: JSON, HTML, Markdown, JUnit, and gates.

Its concepts are `ComparisonDocument` (all results), `QueryPart` (one query on both databases),
`Gate` (a condition on a figure), `Headline` (a figure that is shown first) and `ReportSection` (a
section of the page).
"""

from privbench.report.compare import compare
from privbench.report.document import ComparisonDocument
from privbench.report.gates import enforce
from privbench.report.headlines import summary

__all__ = ["ComparisonDocument", "compare", "enforce", "summary"]
