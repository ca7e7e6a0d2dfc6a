"""An audit of a fit by the data's owner: lower bounds on ε from attacks, and mechanism replays."""

from privbench_lab.audit.report import Audit, Effort, audit

__all__ = ["Audit", "Effort", "audit"]
