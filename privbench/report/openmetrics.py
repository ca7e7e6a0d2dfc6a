"""The figures of a comparison as OpenMetrics text, for Prometheus' textfile collector and the like.

The text holds exact figures of the source: CONFIDENTIAL (P1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from privbench.metrics import METRICS
from privbench.report.document import ComparisonDocument
from privbench.report.figures import POINTS

_TABLE = re.compile(r"(?P<name>[^\[]+)(?:\[(?P<table>.+)\])?\Z", re.DOTALL)
_TITLES = {metric.name: metric.title for metric in METRICS}
_PREFIX = "privbench_"


def render(document: ComparisonDocument) -> str:
    """The text, ``# EOF`` included.

    A figure ``a.b.p95`` becomes a gauge ``privbench_a_b`` with ``stat="p95"``; the λ of KLD and TVD
    and the table become labels too. A figure without a value has no sample.
    """
    families: dict[str, list[str]] = {}
    for figure, value in document.figures.items():
        if value is not None and math.isfinite(value):
            name, labels = _place(figure)
            families.setdefault(name, []).append(f"{_PREFIX}{name}{_labels(labels)} {value!r}")
    lines = [line for name in families for line in (*_head(name), *families[name])]
    return "\n".join([*_about(document), *lines, *_gates(document), "# EOF"]) + "\n"


def _head(name: str) -> Iterable[str]:
    title = _TITLES.get(name.split("_")[0], "Comparison of a clone with its source")
    return (
        f"# TYPE {_PREFIX}{name} gauge",
        f"# HELP {_PREFIX}{name} {_escape(title)}: {name.replace('_', ' ')}.",
    )


def _place(figure: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a figure.

    >>> _place("kld.2[public.users]")
    ('kld', {'ways': '2', 'table': 'public.users'})
    >>> _place("runtime.floor.p95"), _place("plan.agreement")
    (('runtime_floor', {'stat': 'p95'}), ('plan_agreement', {}))
    """
    found = _TABLE.match(figure)
    plain, table = (found["name"], found["table"]) if found else (figure, None)
    words = plain.split(".")
    labels = {}
    if words[-1] in POINTS:
        labels["stat"] = words.pop()
    elif words[-1].isdigit():
        labels["ways"] = words.pop()
    if table:
        labels["table"] = table
    return "_".join(words), labels


def _about(document: ComparisonDocument) -> list[str]:
    about = {
        "version": document.privbench,
        "source": document.source.database,
        "clone": document.clone.database,
        "workload": document.workload.name,
        "workload_digest": document.workload.digest,
    }
    return [
        f"# TYPE {_PREFIX}comparison info",
        f"# HELP {_PREFIX}comparison CONFIDENTIAL: exact figures of the source.",
        f"{_PREFIX}comparison_info{_labels(about)} 1",
        f"# TYPE {_PREFIX}created_seconds gauge",
        f"# UNIT {_PREFIX}created_seconds seconds",
        f"{_PREFIX}created_seconds {document.created.timestamp()!r}",
    ]


def _gates(document: ComparisonDocument) -> list[str]:
    if not document.gates:
        return []
    # The same gate given twice is one sample.
    failed = {gate.condition: gate.failed for gate in document.gates}
    return [
        f"# TYPE {_PREFIX}gate_failed gauge",
        f"# HELP {_PREFIX}gate_failed 1 where the gate failed.",
        *(
            f"{_PREFIX}gate_failed{_labels({'condition': condition})} {int(value)}"
            for condition, value in failed.items()
        ),
    ]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
