"""The figures of a comparison as samples of OpenMetrics, for ``--metrics``.

They are exact figures of the source: CONFIDENTIAL, and each says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from privbench.metrics import METRICS
from privbench.report.document import ComparisonDocument
from privbench.report.figures import POINTS

_TITLES = {metric.name: metric.title for metric in METRICS}
_PRIVATE = "CONFIDENTIAL, like the report: it reads the source exactly."


def samples(document: ComparisonDocument) -> Iterator[tuple[str, str, dict[str, str], float]]:
    """Name, help, labels and value of every figure and gate.

    A figure ``a.b.p95`` becomes ``a_b`` with ``stat="p95"``; the λ of KLD and TVD and the table
    become labels too. A figure without a value has no sample.
    """
    about = {
        "source": document.source.database,
        "clone": document.clone.database,
        "workload": document.workload.name,
        "workload_digest": document.workload.digest,
    }
    yield "comparison_info", f"{_PRIVATE} What was compared.", about, 1
    for figure, value in document.figures.items():
        if value is not None and math.isfinite(value):
            name, labels = _place(figure)
            title = _TITLES.get(name.split("_")[0], "Comparison of a clone with its source")
            yield name, f"{_PRIVATE} {title}: {name.replace('_', ' ')}.", labels, value
    # The same gate given twice is one sample.
    for condition, failed in {gate.condition: gate.failed for gate in document.gates}.items():
        meaning = f"{_PRIVATE} 1 where the gate failed."
        yield "gate_failed", meaning, {"condition": condition}, int(failed)


def _place(figure: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a figure.

    >>> _place("kld.2[public.users]")
    ('kld', {'ways': '2', 'table': 'public.users'})
    >>> _place("runtime.floor.p95"), _place("plan.agreement")
    (('runtime_floor', {'stat': 'p95'}), ('plan_agreement', {}))
    """
    plain, _, table = figure.partition("[")
    words = plain.split(".")
    labels = {}
    if words[-1] in POINTS:
        labels["stat"] = words.pop()
    elif words[-1].isdigit():
        labels["ways"] = words.pop()
    if table:
        labels["table"] = table.removesuffix("]")
    return "_".join(words), labels
