"""Gates: conditions on a comparison's figures under which an internal pipeline stops.

A gate says when to fail: ``qerror.p95 > 5``. Gates read the source, so they may stop pipelines of
the data's owner, never decide over a publication (P2).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self

from privbench.errors import GateFailed, UsageError
from privbench.report.document import ComparisonDocument, GatePart

_GATE = re.compile(
    r"""\s*(?P<figure>[a-z]\w*(?:\.\w+)+(?:\[[^\]]+\])?)
    \s*(?P<sign><=|>=|==|!=|<|>)
    \s*(?P<limit>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*%?\s*\Z""",
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


@dataclass(frozen=True, slots=True)
class Gate:
    """Fail if ``figure sign limit``."""

    figure: str
    sign: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a gate.

        Raises:
            UsageError: The text is not a gate.

        >>> Gate.parse("qerror.p95 > 5")
        Gate(figure='qerror.p95', sign='>', limit=5.0)
        """
        found = _GATE.match(text)
        if found is None:
            raise UsageError(
                f"{text!r} is not a gate.",
                remedy="Write: figure, one of < <= > >= == !=, and a number: qerror.p95 > 5",
            )
        return cls(found["figure"], found["sign"], float(found["limit"]))

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {self.limit:g}"

    def check(self, figures: Mapping[str, float | None]) -> GatePart:
        """Hold the gate against figures; a figure without a value fails it.

        Raises:
            UsageError: There is no figure of that name.
        """
        if self.figure not in figures:
            raise UsageError(f"there is no figure {self.figure!r}.", remedy=self._advice(figures))
        value = figures[self.figure]
        if value is None or math.isnan(value):
            return GatePart(condition=str(self), figure=None, failed=True)
        failed = _SIGNS[self.sign](value, self.limit)
        return GatePart(condition=str(self), figure=value, failed=failed)

    def _advice(self, figures: Mapping[str, float | None]) -> str:
        near = get_close_matches(self.figure, figures, n=3, cutoff=0.5)
        plain = sorted(name for name in figures if "[" not in name)
        return f"Figures: {', '.join(near or plain)}."


def parse(texts: Sequence[str]) -> list[Gate]:
    """Read several gates.

    Raises:
        UsageError: A text is not a gate.
    """
    return [Gate.parse(text) for text in texts]


def enforce(document: ComparisonDocument) -> None:
    """Stop if a gate failed.

    Raises:
        GateFailed: At least one did; the message names each, without its figure.
    """
    failed = [gate.condition for gate in document.gates if gate.failed]
    if failed:
        raise GateFailed(
            f"{len(failed)} of {len(document.gates)} gates failed: {'; '.join(failed)}."
        )
