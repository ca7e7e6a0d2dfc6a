"""Gates and integrity checks as JUnit XML, which every CI system shows.

A gate over queries has a case of its own and one for each query that failed it.
"""

from collections.abc import Iterable, Iterator

from junitparser import Failure, JUnitXml, TestCase, TestSuite

from privbench.display import visible
from privbench.metrics.integrity import CheckPart
from privbench.report.document import ComparisonDocument, GatePart, QueryPart
from privbench.report.gates import QUERY_FIGURES, Gate

#: Most queries of one gate that get a case: a clone that is wrong everywhere needs no list.
_MOST = 100


def render(document: ComparisonDocument) -> str:
    """Return the XML text: suites of gates, of queries that failed a gate, of integrity checks."""
    xml = JUnitXml("privbench compare")
    xml.add_testsuite(_suite("gates", map(_gate, document.gates)))
    if any(gate.queries for gate in document.gates):
        xml.add_testsuite(_suite("queries", _queries(document)))
    xml.add_testsuite(_suite("integrity", map(_check, document.integrity)))
    written: bytes = xml.tostring()  # type: ignore[no-untyped-call]
    return written.decode()


def _suite(name: str, cases: Iterable[TestCase]) -> TestSuite:
    suite = TestSuite(name)
    for case in cases:
        # Every text of a case, with characters that XML cannot hold escaped.
        case.name, case.classname = visible(case.name), visible(case.classname)
        for failure in case.result:
            failure.message = visible(failure.message)
            failure.text = visible(failure.text or "", keep=" \n\t")
        suite.add_testcase(case)
    return suite


def _gate(gate: GatePart) -> TestCase:
    case = TestCase(f"fail if {gate.condition}", "privbench.gates")
    if gate.failed:
        case.result = [Failure(f"{gate.condition}: {_is(gate.figure)}{_of(gate)}")]
    return case


def _is(figure: float | None) -> str:
    return "there is no such figure" if figure is None else f"it is {figure:.6g}"


def _of(gate: GatePart) -> str:
    if not gate.queries:
        return ""
    return f" at worst; failed by {len(gate.queries)} of the queries, see their cases"


def _queries(document: ComparisonDocument) -> Iterator[TestCase]:
    known = {query.id: query for query in document.queries}
    for gate in document.gates:
        for name in gate.queries[:_MOST]:
            figure = QUERY_FIGURES[Gate.parse(gate.condition).figure](known[name])
            yield _query(gate, known[name], figure)


def _query(gate: GatePart, query: QueryPart, figure: float | None) -> TestCase:
    case = TestCase(f"query {query.id}: fail if {gate.condition}", "privbench.queries")
    failure = Failure(f"query {query.id}: {gate.condition}: {_is(figure)}")
    failure.text = f"{query.sql}\n{_answers(query)}"
    case.result = [failure]
    return case


def _answers(query: QueryPart) -> str:
    sides = {"source": query.source, "clone": query.clone}
    return "\n".join(
        f"{name}: {answer.status}, answer {answer.rows}, median seconds {answer.median}"
        for name, answer in sides.items()
    )


def _check(check: CheckPart) -> TestCase:
    case = TestCase(f"{check.kind} {check.name}", f"privbench.integrity.{check.table}")
    if check.violations:
        case.result = [Failure(f"{check.violations} violations in the clone")]
    return case
