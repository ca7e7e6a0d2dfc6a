"""Re-binding: replace the literals of a workload by values of synthetic rows."""

from privbench.workload.rebind.rebind import Planner, Rebinding, rebind

__all__ = ["Planner", "Rebinding", "rebind"]
