"""Metrics, which say how close a clone is to its source; each has a line in `METRICS`.

The concepts are `Metric` (what a figure means), `Coded` (a column in codes that both databases
share), `TableFidelity`, `CellPlan` (how a column becomes cells) and `SummaryPart` (mean and
quantiles).
"""

from privbench.metrics.base import Grade, Metric
from privbench.metrics.kld import KLD, TVD
from privbench.metrics.qerror import QERROR
from privbench.metrics.values import VALUES
from privbench.metrics.work import PLAN, RUNTIME, WORK

#: Every metric, in the order of reports.
METRICS: tuple[Metric, ...] = (QERROR, RUNTIME, WORK, PLAN, VALUES, KLD, TVD)

__all__ = ["METRICS", "Grade", "Metric"]
