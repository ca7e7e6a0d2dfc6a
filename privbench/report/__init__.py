"""Comparison reports: JSON, HTML, Markdown, JUnit, and gates.

Its concepts are `ComparisonDocument`, `QueryPart`, `Gate` (a condition on a figure), `Headline` and
`ReportSection`.
"""

from privbench.report.compare import compare
from privbench.report.document import ComparisonDocument
from privbench.report.gates import enforce
from privbench.report.headlines import summary

__all__ = ["ComparisonDocument", "compare", "enforce", "summary"]
