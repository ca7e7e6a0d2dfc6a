"""Whether the Parquet files of a bundle hold the rows of its CSV files, in a process of its own.

A spoilt Parquet file can crash its reader, and a small one can unpack to more than any memory
holds. So it is read here, under limits of memory and time, and the end of this process is only a
refusal. What comes in is JSON: the folder, and of every chunk the paths, names, kinds and rows; what
goes out is the first fault, or nothing.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq

from privbench.errors import ModelError, PrivbenchError
from privbench.publish.facts import Bundle
from privbench.publish.tabular import read_chunk

#: Bytes of memory and seconds of processor, for all files together: a chunk of `publish` needs a
#: tenth of the memory, and a second is enough for some million cells.
_MEMORY, _SECONDS = 6 * 2**30, 3600


def compare(folder: Path, bundle: Bundle) -> None:
    """Refuse a bundle whose two forms of the rows differ, or cannot be read.

    Raises:
        ModelError: They do; the message begins with the file's name.
    """
    asked = [
        [csv, parquet, [c.name for c in table.columns], [c.kind for c in table.columns], rows]
        for table in bundle.tables
        for csv, parquet, rows in zip(
            table.files("csv"), table.files("parquet"), table.chunks, strict=True
        )
    ]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "privbench.publish.twins"],
        input=json.dumps([str(folder.resolve()), asked]).encode(),
        capture_output=True,
        check=False,
    )
    said = done.stdout.decode(errors="replace").splitlines()
    if done.returncode == 0 and said == ["done"]:
        return
    # The last line begun is the file at which the process ended.
    raise ModelError(said[-1] if said else "the files of rows cannot be read.")


def _serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder, asked = json.load(sys.stdin)
    for csv, parquet, names, kinds, rows in asked:
        print(f"{csv}: it cannot be read as CSV of its table", flush=True)
        table = read_chunk(Path(folder, csv), names, kinds)
        if table.num_rows != rows:
            sys.exit(print(f"{csv}: it has {table.num_rows:,} rows, and {rows:,} are stated"))
        print(f"{parquet}: it cannot be read as Parquet", flush=True)
        fault = _differs(Path(folder, parquet), table)
        if fault:
            sys.exit(print(f"{parquet}: {fault}"))
    print("\ndone")


def _differs(path: Path, table: pa.Table) -> str | None:
    """How a Parquet file differs from rows, or None."""
    file = papq.ParquetFile(path, memory_map=False)
    if file.metadata.num_rows != table.num_rows:
        return "it has another number of rows than the CSV file"
    if file.schema_arrow.remove_metadata() != table.schema:
        return "its columns are not those of the table"
    found = file.read(use_threads=False)
    for name in table.column_names:
        if not _plain(found[name]).equals(_plain(table[name])):
            return "its rows are not those of the CSV file"
    return None


def _plain(column: Any) -> Any:
    """A column that equals itself: NaN does not."""
    whole = pa.chunked_array(column.chunks, column.type)
    return whole.cast(pa.string()) if pa.types.is_floating(column.type) else whole


if __name__ == "__main__":
    try:
        _serve()
    except (PrivbenchError, pa.ArrowException, MemoryError, OSError, ValueError, LookupError):
        sys.exit(1)
