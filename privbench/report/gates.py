"""Gates: conditions on a comparison's figures under which an internal pipeline stops.

A gate says when to fail. It compares a figure with a number, another figure, or a multiple of one::

    qerror.p95 > 5
    runtime.p50 > 2 * runtime.floor.p50

A gate on a ``query`` figure, such as ``query.qerror > 100``, is checked for every query, and fails
if one query fails it. Gates read the source, so they may stop pipelines of the data's owner, but
never decide on a publication (P2).
"""

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self

from privbench.errors import GateFailed, UsageError
from privbench.report.document import GatePart, QueryPart
from privbench.report.text import few

_FIGURE = r"[a-z]\w*(?:\.\w+)+(?:\[[^\]]+\])?"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_GATE = re.compile(
    rf"""\s*(?P<figure>{_FIGURE})
    \s*(?P<sign><=|>=|==|!=|<|>)
    \s*(?:(?P<limit>{_NUMBER})\s*%?|(?:(?P<factor>{_NUMBER})\s*\*\s*)?(?P<other>{_FIGURE}))
    \s*\Z""",
    re.VERBOSE,
)
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
#: Figures of single queries.
QUERY_FIGURES: dict[str, Callable[[QueryPart], float | None]] = {
    "query.qerror": lambda query: query.qerror,
    "query.runtime": lambda query: query.runtime,
    "query.blocks": lambda query: query.work.blocks if query.work else None,
    "query.rows": lambda query: query.work.rows if query.work else None,
    "query.seconds": lambda query: query.clone.median,
}
_NAMED = 3
#: Suffixes of names of figures that are joined as one in an error's list of known names.
_POINT = re.compile(r"\.(mean|p\d\d|max)\Z")


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate that fails if ``figure sign limit``.

    With ``other``, if ``figure sign limit * other``.
    """

    figure: str
    sign: str
    limit: float
    other: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a gate from its text.

        >>> Gate.parse("qerror.p95 > 5")
        Gate(figure='qerror.p95', sign='>', limit=5.0, other=None)
        >>> Gate.parse("runtime.p50 > 2 * runtime.floor.median").other
        'runtime.floor.p50'
        """
        match = _GATE.match(re.sub(r"\.median\b", ".p50", text))
        if match is None:
            raise UsageError(
                f"{text!r} is not a gate.",
                remedy="Write: figure, one of < <= > >= == !=, and a number, or a number times a"
                " figure: qerror.p95 > 5, runtime.p50 > 2 * runtime.floor.p50",
            )
        limit = match["limit"] or match["factor"] or "1"
        return cls(match["figure"], match["sign"], float(limit), match["other"])

    def __str__(self) -> str:
        if self.other is None:
            return f"{self.figure} {self.sign} {self.limit:g}"
        factor = "" if self.limit == 1 else f"{self.limit:g} * "
        return f"{self.figure} {self.sign} {factor}{self.other}"

    def require(
        self, known: Collection[str], of_queries: Collection[str] = frozenset(QUERY_FIGURES)
    ) -> None:
        """Refuse a gate with unknown figures."""
        figures = [(self.figure, {*of_queries, *known})]
        if self.other is not None:
            figures.append((self.other, set(known)))
        for name, choice in figures:
            if name not in choice:
                raise UsageError(f"there is no figure {name!r}.", remedy=_advice(name, choice))

    def check(
        self, figures: Mapping[str, float | None], queries: Sequence[QueryPart] = ()
    ) -> GatePart:
        """Check the gate by its figures; it fails if a figure has no value.

        A gate over queries leaves out queries that the source itself could not answer.
        """
        self.require(figures)
        limit: float | None = self.limit
        if self.other is not None:
            base = figures[self.other]
            limit = None if base is None else self.limit * base
        if self.figure in QUERY_FIGURES:
            return self._over(queries, limit)
        value = _finite(figures[self.figure])
        return GatePart(
            condition=str(self), figure=value, failed=self._fails(value, limit), limit=limit
        )

    def _fails(self, value: float | None, limit: float | None) -> bool:
        if value is None or limit is None or math.isnan(limit):
            return True
        return _SIGNS[self.sign](value, limit)

    def _over(self, queries: Sequence[QueryPart], limit: float | None) -> GatePart:
        pick = QUERY_FIGURES[self.figure]
        judged = [
            (query.id, _finite(pick(query))) for query in queries if query.source.status == "ok"
        ]
        failed = [(name, value) for name, value in judged if self._fails(value, limit)]
        downward = self.sign in ("<", "<=")
        failed.sort(key=lambda item: _badness(item[1], downward))
        values = [value for _, value in failed or judged if value is not None]
        worst = (min if downward else max)(values, default=None)
        return GatePart(
            condition=str(self),
            figure=worst,
            failed=bool(failed) or not judged,
            limit=limit,
            queries=[name for name, _ in failed],
        )


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _badness(value: float | None, downward: bool) -> float:
    """Sorts the worst first; a missing figure is the worst."""
    if value is None:
        return -math.inf
    return value if downward else -value


def _advice(name: str, choice: Collection[str]) -> str:
    near = get_close_matches(name, choice, n=3, cutoff=0.5)
    plain = sorted({_POINT.sub(".…", each) for each in choice if "[" not in each})
    return f"Figures: {', '.join(near or plain)}."


def parse(texts: Sequence[str]) -> list[Gate]:
    """Parse several gates."""
    return [Gate.parse(text) for text in texts]


def enforce(gates: Iterable[GatePart]) -> None:
    """Raise a GateFailed if a gate failed."""
    gates = list(gates)
    failed = [_described(gate) for gate in gates if gate.failed]
    if failed:
        raise GateFailed(f"{len(failed)} of {len(gates)} gates failed: {'; '.join(failed)}.")


def _described(gate: GatePart) -> str:
    if not gate.queries:
        return gate.condition
    return f"{gate.condition} ({few(gate.queries, _NAMED)})"
