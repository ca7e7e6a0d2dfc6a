"""Sources that are files: databases of DuckDB, and folders of Parquet files."""

from collections.abc import Mapping
from pathlib import Path

import duckdb


def write(path: Path, statements: str) -> str:
    """A database of what the statements make."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(statements)
    return f"duckdb://{path}"


def export(folder: Path, statements: str) -> str:
    """The tables that the statements make, as a folder of Parquet files."""
    with duckdb.connect() as connection:
        connection.execute(statements)
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            connection.execute(f"COPY {name} TO '{folder}/{name}.parquet'")
    return f"parquet://{folder}"


def layout(folder: Path, files: Mapping[str, str]) -> str:
    """A folder with these files, each of the rows of a query."""
    folder.mkdir(exist_ok=True)
    for name, query in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({query}) TO '{folder}/written' (FORMAT parquet)")
        (folder / "written").rename(path)
    return f"parquet://{folder}"
