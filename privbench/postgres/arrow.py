"""Arrow arrays as ADBC hands them over, brought back to plain storage types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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
        return relisted(array, storage_array(array.flatten()))
    return array


def relisted(array: pa.Array, values: pa.Array) -> pa.Array:
    """A list array like this one, NULL lists included, with other values.

    Args:
        array: A list array, sliced or not.
        values: One value for each of ``array.flatten()``.
    """
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    field = pa.list_(pa.field("element", values.type))
    return pa.ListArray.from_arrays(offsets, values, field, mask=array.is_null())


def plain_batch(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The batch under these names, every column in its storage type."""
    arrays = [storage_array(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def empty_batch(schema: pa.Schema, names: Sequence[str]) -> pa.RecordBatch:
    """A batch of no rows under these names."""
    arrays = [pa.array([], storage_type(field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
