"""Sources that are files (DuckDB, Parquet), which are copied into a temporary PostgreSQL server.

`Files` are what DuckDB sees, `FileTable` is a table of them, `staged` the copy.
"""

from privbench.sources.files import is_file
from privbench.sources.staging import staged

__all__ = ["is_file", "staged"]
