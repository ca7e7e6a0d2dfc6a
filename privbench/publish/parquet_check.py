"""Check in a separate process that a bundle's Parquet files hold the rows of its CSV files.

A damaged Parquet file can crash its reader, and a small one can unpack to more bytes than fit into
memory. So files are read in this process, under limits of memory and time, and if it dies, the
bundle is refused. The input is JSON: the folder, and for every chunk its paths, rows, names and
kinds. Before each step the process prints the fault that explains its death there, and at the end
``done``.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq

from privbench.errors import ModelError
from privbench.publish.records import Bundle
from privbench.publish.tabular import read_chunk

#: Bytes of memory and seconds of processor time for all files, which are read one after the other.
#: A chunk of `publish` needs a tenth of the memory; half of it would suffice except for rows of a
#: hundred megabytes.
_MEMORY, _SECONDS = 6 * 2**30, 3600


def compare(folder: Path, bundle: Bundle) -> None:
    """Refuse a bundle whose CSV and Parquet rows differ, or cannot be read.

    The message begins with the file's name.
    """
    chunks = []
    for table in bundle.tables:
        columns = [(column.name, column.kind) for column in table.columns]
        files = zip(table.files("csv"), table.files("parquet"), table.chunks, strict=True)
        chunks += [[*chunk, *zip(*columns, strict=True)] for chunk in files]
    process = subprocess.run(
        [sys.executable, "-P", "-m", "privbench.publish.parquet_check"],
        input=json.dumps([str(folder.resolve()), chunks]).encode(),
        capture_output=True,
        check=False,
    )
    output = process.stdout.decode(errors="replace").splitlines()
    if not output or output[-1] != "done":
        raise ModelError(output[-1] if output else "the files of rows cannot be read.")


def _serve() -> None:
    _limit(resource.RLIMIT_AS, _MEMORY)
    _limit(resource.RLIMIT_CPU, _SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    folder, chunks = json.load(sys.stdin)
    for csv, parquet, rows, names, kinds in chunks:
        _expect(f"{csv}: it cannot be read as CSV of its table.")
        try:
            table = read_chunk(Path(folder, csv), names, kinds)
        except ModelError as error:
            _expect(f"{csv}: {error}", False)
        _expect(f"{csv}: it holds another number of rows than stated.", table.num_rows == rows)
        _expect(f"{parquet}: it cannot be read as Parquet.")
        file = papq.ParquetFile(Path(folder, parquet), memory_map=False)
        _expect(
            f"{parquet}: its columns or rows are not as many or not of the kind of {csv}.",
            file.metadata.num_rows == rows,
            file.schema_arrow.remove_metadata().equals(table.schema),
        )
        read = file.read(use_threads=False)
        same = (_comparable(read[name]).equals(_comparable(table[name])) for name in names)
        _expect(f"{parquet}: its rows are not those of {csv}.", *same)
    _expect("done")


def _limit(kind: int, most: int) -> None:
    """Limit a resource, which may be limited to less already."""
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _expect(fault: str, *holds: bool) -> None:
    """Print the fault and exit if a condition fails; without conditions, print it beforehand.

    The caller takes the last line printed for the fault if the process then dies.
    """
    if not all(holds) or not holds:
        print(fault, flush=True)
    if not all(holds):
        sys.exit(1)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a form that equals itself, which a column with NaN does not."""
    return column.cast(pa.string()) if pa.types.is_floating(column.type) else column


if __name__ == "__main__":
    _serve()
