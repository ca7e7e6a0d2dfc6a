"""Arrow arrays: rows as COPY prints them, and plain storage.

The text form is taken, not the binary one: it needs no knowledge of types beyond numbers and
booleans, so no question about types is asked of the server, and every type's own output function
prints its values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pyarrow import csv

from privbench.errors import DatabaseError
from privbench.postgres.connect import Connection
from privbench.postgres.failures import NO_TEXT

#: By the type's OID in ``pg_catalog``, which is the same on every server.
_TYPES: Mapping[int, pa.DataType] = MappingProxyType(
    {
        16: pa.bool_(),
        20: pa.int64(),
        21: pa.int16(),
        23: pa.int32(),
        700: pa.float32(),
        701: pa.float64(),
    }
)
_UNREADABLE = re.compile(r"column #(\d+)")


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


def column_types(connection: Connection, statement: sql.Composable) -> list[pa.DataType]:
    """The Arrow types of what a SELECT gives; what Arrow has no type for is read as text."""
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("{} LIMIT 0").format(statement))
        return [_TYPES.get(column.type_code, pa.string()) for column in cursor.description or ()]


def batch_of(
    block: bytes, types: Sequence[pa.DataType], names: Sequence[str], table: str
) -> pa.RecordBatch:
    """Whole rows of ``COPY … (FORMAT csv)`` as a batch; a cell without quotes and text is NULL.

    Args:
        block: The rows; none of them cut.
        types: The columns' types.
        names: Their names in the batch, which for a reader's own columns tell the table's column.
        table: The table's key, for errors.

    Raises:
        DatabaseError: Bytes are no UTF-8 text, which a database in SQL_ASCII can hold.
    """
    places = [f"c{place}" for place in range(len(types))]
    if not block:
        return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in types], list(names))
    try:
        read = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=places),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict(zip(places, types, strict=True)),
                null_values=[""],
                true_values=["t"],
                false_values=["f"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        found = _UNREADABLE.search(str(error))
        raise _unreadable(table, names[int(found[1])] if found else None) from None
    (batch,) = read.combine_chunks().to_batches()
    return pa.RecordBatch.from_arrays(batch.columns, list(names))


def _unreadable(table: str, column: str | None) -> DatabaseError:
    said = "rows hold bytes that are no UTF-8 text."
    return DatabaseError(said, table=table, column=column, remedy=NO_TEXT)
