"""An audit of a fit inside the house: what an attack proves, and what replays contradict."""

from privbench.audit.report import Audit, Effort, audit

__all__ = ["Audit", "Effort", "audit"]
