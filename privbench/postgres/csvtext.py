"""Arrow columns as the CSV text that COPY reads: NULL is nothing, an empty text is ``""``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from privbench.postgres.arrow import relisted, storage_array

_ROWS = 1 << 16
_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="needed")


def csv_blocks(batches: Iterable[pa.RecordBatch | pa.Table], columns: int) -> Iterator[pa.Buffer]:
    """The rows as blocks of whole lines; arguments and errors as of `parts` and `csv_block`."""
    return map(csv_block, parts(batches, columns))


def parts(batches: Iterable[pa.RecordBatch | pa.Table], columns: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches that are not too large to be written at once.

    Args:
        batches: Record batches or tables with the columns in COPY's order.
        columns: How many columns there must be.

    Raises:
        ValueError: A batch has another number of columns.
    """
    for batch in batches:
        if batch.num_columns != columns:
            raise ValueError(f"{columns} columns were announced and {batch.num_columns} came")
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        yield from table.to_batches(max_chunksize=_ROWS)


def csv_block(batch: pa.RecordBatch) -> pa.Buffer:
    """The rows as lines of CSV.

    Raises:
        pyarrow.ArrowException: A column's type has no text form here.
    """
    sink = pa.BufferOutputStream()
    csv.write_csv(_textual(batch), sink, _OPTIONS)
    return sink.getvalue()


def _textual(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [_column(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])


def _column(array: pa.Array) -> pa.Array:
    array = storage_array(array)
    if pa.types.is_dictionary(array.type):
        return _column(array.dictionary_decode())
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    if pa.types.is_duration(array.type):
        microseconds = array.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(microseconds, "microseconds", " ")
    if _is_bytes(array.type):
        return _hexadecimal(array)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _array_literal(array)
    return array


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _hexadecimal(array: pa.Array) -> pa.Array:
    """Bytes in bytea's hex form; 16-byte values of a uuid column read that form too."""
    prefix = "" if pa.types.is_fixed_size_binary(array.type) else "\\x"
    plain = array.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(plain.buffers()[1], dtype=np.int64)
    offsets = offsets[plain.offset : plain.offset + len(plain) + 1]
    data = bytes(plain.buffers()[2] or b"")[offsets[0] : offsets[-1]]
    text = pa.LargeStringArray.from_buffers(
        len(plain), pa.py_buffer((offsets - offsets[0]) * 2), pa.py_buffer(data.hex().encode())
    )
    joined = pc.binary_join_element_wise(
        pa.scalar(prefix, pa.large_string()), text, pa.scalar("", pa.large_string())
    )
    return pc.if_else(array.is_valid(), joined, pa.scalar(None, pa.large_string()))


def _array_literal(array: pa.Array) -> pa.Array:
    """Lists in PostgreSQL's array form ``{"a",NULL}``."""
    values = _column(array.flatten()).cast(pa.string())
    for special in ("\\", '"'):
        values = pc.replace_substring(values, special, "\\" + special)
    quoted = pc.binary_join_element_wise('"', values, '"', "").fill_null("NULL")
    joined = pc.binary_join(relisted(array, quoted), ",")
    return pc.binary_join_element_wise("{", joined, "}", "")
