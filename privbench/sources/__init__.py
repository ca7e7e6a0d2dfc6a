"""Sources that are files (DuckDB, Parquet), which are copied into a temporary PostgreSQL server."""

from privbench.sources.files import is_file
from privbench.sources.staging import staged

__all__ = ["is_file", "staged"]
