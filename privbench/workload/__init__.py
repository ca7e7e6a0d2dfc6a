"""Workloads: read, write, generate and replay them.

Its concepts are `Query`, `Workload`, `WorkloadFormat`, `Trust` (what queries may call), `Replay`.

Names are imported when they are first used: a fit checks its tables and generates no workload.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
