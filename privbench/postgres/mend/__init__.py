"""Synthetic rows that break the schema's rules, mended while they are loaded.

PostgreSQL itself judges the rows, so any expression will do. All of it is post-processing of
synthetic rows, in the transaction of the load. Not mended: domains with a CHECK within an array or
a composite type, and rows for which an incomplete set of hash partitions has no place.
"""

from privbench.postgres.mend.flow import Mended, Mending

__all__ = ["Mended", "Mending"]
