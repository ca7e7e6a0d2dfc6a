"""Sources that are files (DuckDB, Parquet), which are copied into a temporary PostgreSQL server.

The concepts are `Files` (an opened source), `FileTable` (one of its tables) and `staged` (makes the
copy).
"""

from privbench.sources.files import is_file
from privbench.sources.staging import staged

__all__ = ["is_file", "staged"]
