"""Convert Arrow columns to the CSV of COPY, and back: NULL is an empty cell, empty text ``""``."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_ROWS = 1 << 16
#: Bytes that are parsed at a time, as many as possible: at the border of two blocks Arrow loses the
#: second character of a line break ``\r\n``.
_LONGEST = 2**31 - 1
_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="needed")
_QUOTED = csv.WriteOptions(include_header=False, quoting_style="all_valid")


def read_csv(text: pa.Buffer, types: Sequence[pa.DataType]) -> pa.Table:
    """Parse a text of one or more whole rows; columns are named c0, c1 and so on.

    Raises an ArrowInvalid if the text does not have these columns or is not UTF-8.
    """
    names = [f"c{place}" for place in range(len(types))]
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(
            use_threads=False, block_size=min(len(text) + 1, _LONGEST), column_names=names
        ),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict(zip(names, types, strict=True)),
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def stops_psql(text: bytes) -> bool:
    r"""Return whether psql before version 18 takes a line of the rows for their end.

    >>> stops_psql(b'"a\n\\.\nb"\n'), stops_psql(b'"a\\.\nb"\n')
    (True, False)
    """
    return any(line in text for line in (b"\n\\.\n", b"\n\\.\r\n")) or text.endswith(b"\n\\.")


def csv_blocks(batches: Iterable[pa.RecordBatch | pa.Table], columns: int) -> Iterator[pa.Buffer]:
    """Yield the rows as blocks of whole lines.

    For arguments and errors see `parts` and `csv_block`.
    """
    return map(csv_block, parts(batches, columns))


def parts(batches: Iterable[pa.RecordBatch | pa.Table], columns: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of limited size.

    Raise a ValueError for a wrong number of columns.
    """
    for batch in batches:
        if batch.num_columns != columns:
            raise ValueError(f"{columns} columns were announced and {batch.num_columns} came")
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        yield from table.to_batches(max_chunksize=_ROWS)


def csv_block(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the rows as CSV; raise an ArrowException if a type has no text form here."""
    arrays = [_column(array) for array in batch.columns]
    textual = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
    block = _written(textual, _OPTIONS)
    # Servers before PostgreSQL 18 take a line ``\\.`` without quotes for the end of all rows.
    lone = len(arrays) == 1 and b"\\.\n" in memoryview(block).tobytes()
    return _written(textual, _QUOTED) if lone else block


def _written(batch: pa.RecordBatch, options: csv.WriteOptions) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    csv.write_csv(batch, sink, options)
    return sink.getvalue()


def _column(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        return _column(array.dictionary_decode())
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    if pa.types.is_binary(array.type):
        texts = [None if value is None else f"\\x{value.hex()}" for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_list(array.type):
        return _array_literal(array)
    return array


def _array_literal(array: pa.Array) -> pa.Array:
    """Lists in PostgreSQL's array form ``{"a",NULL}``."""
    values = _column(array.flatten()).cast(pa.string())
    for special in ("\\", '"'):
        values = pc.replace_substring(values, special, "\\" + special)
    quoted = pc.binary_join_element_wise('"', values, '"', "").fill_null("NULL")
    joined = pc.binary_join(_relisted(array, quoted), ",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _relisted(array: pa.Array, values: pa.Array) -> pa.Array:
    """A list array with the lengths and NULLs of this one, but with the given values."""
    lengths = np.asarray(pc.list_value_length(array).fill_null(0))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    field = pa.list_(pa.field("element", values.type))
    return pa.ListArray.from_arrays(offsets, values, field, mask=array.is_null())
