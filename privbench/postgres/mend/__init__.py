"""Synthetic rows that break the schema's rules, mended while they are loaded.

PostgreSQL itself judges the rows, so any expression will do. All of it is post-processing of
synthetic rows, in the transaction of the load; no rule that a schema can hold makes a load fail
after the budget is spent.
"""

from privbench.postgres.mend.flow import Mended, Mending

__all__ = ["Mended", "Mending"]
