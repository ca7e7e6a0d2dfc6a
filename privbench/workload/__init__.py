"""Read, write, generate and replay workloads.

Its concepts are `WorkloadQuery` (the text of a query), `Workload` (a list of queries),
`WorkloadFormat` (a file format), `Trust` (what queries may call) and `Replay` (the results of
running a workload).

Names are imported when they are first used: a fit checks its tables and generates no workload.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
