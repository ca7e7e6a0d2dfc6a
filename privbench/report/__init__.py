"""Comparison reports: JSON, HTML, Markdown, JUnit, and gates."""

from __future__ import annotations

from privbench.report.compare import compare
from privbench.report.document import ComparisonDocument
from privbench.report.gates import Gate, enforce
from privbench.report.headlines import summary

__all__ = ["ComparisonDocument", "Gate", "compare", "enforce", "summary"]
