"""Sources that are files (DuckDB, Parquet): copied into a PostgreSQL that is thrown away."""

from privbench.sources.files import is_file
from privbench.sources.staging import staged

__all__ = ["is_file", "staged"]
