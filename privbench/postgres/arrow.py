"""Arrow arrays as ADBC hands them over, brought back to plain storage types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def storage_type(kind: pa.DataType) -> pa.DataType:
    """The plain type beneath an extension type, lists of such types included.

    >>> str(storage_type(pa.list_(pa.uuid())))
    'list<element: fixed_size_binary[16]>'
    """
    if isinstance(kind, pa.BaseExtensionType):
        return storage_type(kind.storage_type)
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", storage_type(kind.value_type)))
    return kind


def storage_array(array: pa.Array) -> pa.Array:
    """The plain array beneath an extension array, lists of such arrays included."""
    if isinstance(array, pa.ExtensionArray):
        return storage_array(array.storage)
    if pa.types.is_list(array.type):
        offsets = array.offsets
        values = storage_array(array.values)
        return pa.ListArray.from_arrays(
            offsets, values, storage_type(array.type), mask=array.is_null()
        )
    return array


def plain_batch(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The batch under these names, every column in its storage type."""
    arrays = [storage_array(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def empty_batch(schema: pa.Schema, names: Sequence[str]) -> pa.RecordBatch:
    """A batch of no rows under these names."""
    arrays = [pa.array([], storage_type(field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
