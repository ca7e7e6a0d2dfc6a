"""Gates and integrity checks as JUnit XML, which every CI system shows."""

from __future__ import annotations

from collections.abc import Iterable

from junitparser import Failure, JUnitXml, TestCase, TestSuite

from privbench.report.document import CheckPart, ComparisonDocument, GatePart


def render(document: ComparisonDocument) -> str:
    """The XML text: a suite of gates and a suite of integrity checks."""
    xml = JUnitXml("privbench compare")
    xml.add_testsuite(_suite("gates", map(_gate, document.gates)))
    xml.add_testsuite(_suite("integrity", map(_check, document.integrity)))
    found: bytes = xml.tostring()  # type: ignore[no-untyped-call]
    return found.decode()


def _suite(name: str, cases: Iterable[TestCase]) -> TestSuite:
    suite = TestSuite(name)
    for case in cases:
        suite.add_testcase(case)
    return suite


def _gate(gate: GatePart) -> TestCase:
    case = TestCase(f"fail if {gate.condition}", "privbench.gates")
    if gate.failed:
        figure = "there is no such figure" if gate.figure is None else f"it is {gate.figure:.6g}"
        case.result = [Failure(f"{gate.condition}: {figure}")]
    return case


def _check(check: CheckPart) -> TestCase:
    case = TestCase(f"{check.kind} {check.name}", f"privbench.integrity.{check.table}")
    if check.violations:
        case.result = [Failure(f"{check.violations} violations in the clone")]
    return case
