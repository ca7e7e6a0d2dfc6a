"""A model's zip archive: members by names that the tool makes, within caps, read without running.

The sizes that an archive states are checked before anything is unpacked, and no member is unpacked
beyond the size that it states. Arrays are plain numbers, whose shape has to be that of their bytes;
public tables are uncompressed Arrow batches of text, validated to the last offset.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
from collections.abc import Mapping
from math import prod
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.errors import ModelError
from privbench.pipeline.header import MAX_COLUMNS, MAX_HEADER

#: Refuse archives that unpack to more than this many bytes.
MAX_BYTES = 16 * 2**30
MAX_DDL, MAX_MEMBERS = 32 * 2**20, 2**16
#: Rows of a public table without columns: nothing else bounds their number.
MAX_EMPTY_ROWS = 1_000_000
HEADER, PRE, POST = "header.json", "ddl/pre.sql", "ddl/post.sql"

_EPOCH = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(
    r"header\.json|ddl/(?:pre|post)\.sql|arrays/(?:0|[1-9]\d*)\.npy|public/(?:0|[1-9]\d*)\.arrow"
)
_CAPS = {HEADER: MAX_HEADER, PRE: MAX_DDL, POST: MAX_DDL}
_KINDS, _MAX_AXES = "biuf", 4
_ENCRYPTED = 0x1
#: The end of an archive, of 22 bytes, and what an archive of more than 4 GiB has before it.
_END, _END64, _LOCATOR64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
#: Bytes of the directory for each member, at most: a name, and sizes beyond 4 GiB.
_ENTRY = 46 + 64 + 32


def array_member(index: int) -> str:
    """Where the index-th array is, by name."""
    return f"arrays/{index}.npy"


def public_member(index: int) -> str:
    """Where the index-th public table is, by name."""
    return f"public/{index}.arrow"


class Archive:
    """The members of an archive that has been found to be within its caps.

    Args:
        file: The file; stays open for as long as members are read.

    Raises:
        ModelError: Too large, or with members that no model has.
    """

    def __init__(self, file: BinaryIO) -> None:
        _check_end(file)
        self._zip = zipfile.ZipFile(file)
        members = self._zip.infolist()
        names = [item.filename for item in members]
        if len(set(names)) < len(names):
            raise ModelError("the model holds a member twice.")
        if sum(item.file_size for item in members) > MAX_BYTES:
            raise ModelError(f"the model unpacks to more than {MAX_BYTES:,} bytes.")
        for item in members:
            cap = _CAPS.get(item.filename, MAX_BYTES)
            if not _NAME.fullmatch(item.filename) or item.flag_bits & _ENCRYPTED:
                raise ModelError("the model holds a member that no model has.")
            if item.file_size > cap:
                raise ModelError(f"the model's {item.filename} has more than {cap:,} bytes.")
        self.names = frozenset(names)

    def read(self, name: str, digest: str | None = None) -> bytes:
        """A member's bytes, at most as many as it states.

        Args:
            name: Its name.
            digest: Its SHA-256, from the header.

        Raises:
            ModelError: It is missing, or not what the header says.
        """
        if name not in self.names:
            raise ModelError(f"the model is damaged: it lacks {name}.")
        with self._zip.open(name) as member:
            data = member.read(self._zip.getinfo(name).file_size)
        if len(data) != self._zip.getinfo(name).file_size:
            raise ModelError(f"the model is damaged: {name} is shorter than it says.")
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise ModelError(f"the model is damaged: {name} does not match its hash.")
        return data


def _check_end(file: BinaryIO) -> None:
    """Refuse a directory of so many members that reading it would fill the memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - 98, 0))
    tail = file.read(98)
    file.seek(0)
    if tail[-22:-18] != _END or tail[-2:] != b"\0\0":
        raise zipfile.BadZipFile("no end of an archive")
    length = struct.unpack("<L", tail[-10:-6])[0]
    if tail[-42:-38] == _LOCATOR64 and tail[-98:-94] == _END64:
        length = max(length if length < 2**32 - 1 else 0, struct.unpack("<Q", tail[-58:-50])[0])
    if length > MAX_MEMBERS * _ENTRY:
        raise ModelError(f"the model has more than {MAX_MEMBERS:,} members.")


def write(file: BinaryIO, members: Mapping[str, bytes]) -> None:
    """Write an archive whose bytes follow from its members."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)


def array_bytes(array: NDArray[Any]) -> bytes:
    """An array as ``.npy``."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def read_array(data: bytes) -> NDArray[Any]:
    """The array that `array_bytes` wrote.

    Raises:
        ModelError: Not plain numbers, or not as many as its shape says.
        ValueError: Not an array.
    """
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise ModelError("an array of the model is of another version.")
    shape, turned, kind = np.lib.format.read_array_header_1_0(buffer)
    body = data[buffer.tell() :]
    plain = kind.kind in _KINDS and kind.itemsize <= 8 and kind.isnative and not turned
    if not plain or len(shape) > _MAX_AXES or any(size < 0 for size in shape):
        raise ModelError("an array of the model is not one of plain numbers.")
    if prod(shape) * kind.itemsize != len(body):
        raise ModelError("an array of the model has another shape than it says.")
    return np.frombuffer(bytearray(body), kind).reshape(shape)


def table_bytes(table: pa.Table) -> bytes:
    """A table of texts as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_table(data: bytes, columns: int) -> pa.Table:
    """The table that `table_bytes` wrote.

    Args:
        data: The stream.
        columns: How many columns it has to have.

    Raises:
        ModelError: Other types than text, compressed, or with values that are not there.
        pyarrow.ArrowException: Not a stream.
    """
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    schema = pa.ipc.read_schema(next(messages))
    plain = all(field.type == pa.string() for field in schema)
    if not plain or len(schema) != columns or columns > MAX_COLUMNS:
        raise ModelError("a public table of the model is not one of texts.")
    batches = []
    for message in messages:
        if message.type != "record batch" or _is_packed(message.metadata.to_pybytes()):
            raise ModelError("a public table of the model is packed in another way.")
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        batches.append(batch)
    table = pa.Table.from_batches(batches, schema)
    table.validate(full=True)
    if not columns and table.num_rows > MAX_EMPTY_ROWS:
        raise ModelError("a public table of the model has too many rows without a column.")
    if any(pc.any(pc.match_substring(column, "\0")).as_py() for column in table.columns):
        raise ModelError("a public table of the model holds a zero byte.")
    return table


def _is_packed(metadata: bytes) -> bool:
    """Whether a batch's metadata (a flat buffer) names a compression: its third field is set.

    Raises:
        struct.error: Not such a buffer.
    """
    message = struct.unpack_from("<I", metadata)[0]
    batch = _field(metadata, message, 2)
    if batch is None:
        return True
    return _field(metadata, batch + struct.unpack_from("<I", metadata, batch)[0], 3) is not None


def _field(buffer: bytes, table: int, index: int) -> int | None:
    """Where a field of a table of a flat buffer is; None if it is not set."""
    fields = table - struct.unpack_from("<i", buffer, table)[0]
    if fields < 0 or struct.unpack_from("<H", buffer, fields)[0] < 6 + 2 * index:
        return None
    offset = struct.unpack_from("<H", buffer, fields + 4 + 2 * index)[0]
    return table + offset if offset else None
