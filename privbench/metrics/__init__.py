"""Metrics: how close a clone is to its source. One line in `METRICS` each.

`Metric` (what a figure means), `Coded` (a column in common codes), `TableFidelity`, `CellPlan`
(how a column becomes cells), `SummaryPart` (mean and quantiles).
"""

from privbench.metrics.base import Grade, Metric
from privbench.metrics.kld import KLD, TVD
from privbench.metrics.qerror import QERROR
from privbench.metrics.values import VALUES
from privbench.metrics.work import PLAN, RUNTIME, WORK

#: Every metric, in the order of reports.
METRICS: tuple[Metric, ...] = (QERROR, RUNTIME, WORK, PLAN, VALUES, KLD, TVD)

__all__ = ["METRICS", "Grade", "Metric"]
