"""A model's zip archive: members by names that the tool makes, within caps, read without running.

The sizes that an archive states are checked before anything is unpacked, and no member is unpacked
beyond the size that it states. Arrays are plain numbers, whose shape has to be that of their bytes;
public tables are such arrays too: Arrow's own files state offsets and packings of their own, and a
spoilt one can crash its reader.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.errors import ModelError
from privbench.pipeline.header import MAX_HEADER

#: Refuse archives that unpack to more than this many bytes.
MAX_BYTES = 16 * 2**30
MAX_DDL, MAX_MEMBERS = 32 * 2**20, 2**16
#: Rows of a public table without columns: nothing else bounds their number.
MAX_EMPTY_ROWS = 1_000_000
HEADER, PRE, POST = "header.json", "ddl/pre.sql", "ddl/post.sql"

_EPOCH = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(
    r"header\.json|ddl/(?:pre|post)\.sql|arrays/(?:0|[1-9]\d*)\.npy|public/(?:0|[1-9]\d*)\.npy"
)
_CAPS = {HEADER: MAX_HEADER, PRE: MAX_DDL, POST: MAX_DDL}
#: How ``.npy`` files of version 1.0 begin, and say what they hold: plain numbers of up to 4 axes.
_MAGIC = b"\x93NUMPY\1\0"
_ARRAY = re.compile(
    rb"\{'descr': '(?P<kind>\|b1|[|<][iu][1248]|<f[248])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>(?:\d{1,18}(?:, ?(?:\d{1,18})?){0,4})?)\), \} *\n"
)
#: Rows of a block of a public table.
_BLOCK = 2**16
_ENCRYPTED = 0x1
#: The end of an archive, of 22 bytes, and what an archive of more than 4 GiB has before it.
_END, _END64, _LOCATOR64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
#: Bytes of the directory for each member, at most: a name, and sizes beyond 4 GiB.
_ENTRY = 46 + 64 + 32


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
    found = _next_array(buffer)
    if buffer.tell() != len(data):
        raise ModelError("an array of the model has more numbers than it says.")
    return found


def _next_array(buffer: io.BytesIO) -> NDArray[Any]:
    """The array at a place of some bytes; nothing is taken before its size is known to be there."""
    start = buffer.read(10)
    head = _ARRAY.fullmatch(buffer.read(int.from_bytes(start[8:], "little")))
    if start[:8] != _MAGIC or head is None:
        raise ModelError("an array of the model is not one of plain numbers.")
    kind = np.dtype(head["kind"].decode())
    shape = tuple(int(size) for size in head["shape"].split(b",") if size)
    size = prod(shape) * kind.itemsize
    if size > buffer.getbuffer().nbytes - buffer.tell():
        raise ModelError("an array of the model has fewer numbers than it says.")
    return np.frombuffer(bytearray(buffer.read(size)), kind).reshape(shape)


def table_bytes(table: pa.Table) -> bytes:
    """A table of texts: block by block its rows, then of each column the ends, NULLs and bytes."""
    made = []
    for block in table.combine_chunks().to_batches(max_chunksize=_BLOCK):
        made.append(np.array([block.num_rows]))
        for column in block.columns:
            plain = pc.fill_null(column.cast(pa.string()), "")
            ends = np.zeros(1, np.int32)
            if len(plain):
                ends = np.frombuffer(plain.buffers()[1], np.int32)
                ends = ends[plain.offset : plain.offset + len(plain) + 1]
            known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
            text = np.frombuffer(plain.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
            made += [ends - ends[0], known, text]
    return b"".join(array_bytes(array) for array in made)


def read_table(data: bytes, names: Sequence[str]) -> pa.Table:
    """The table that `table_bytes` wrote. Nothing of the file's own tells Arrow where to look.

    Args:
        data: Its bytes.
        names: Its columns.

    Raises:
        ModelError: Not such a table, or not of text.
        ValueError: Not arrays, or not UTF-8.
    """
    buffer, rows = io.BytesIO(data), 0
    columns: list[list[pa.Array]] = [[pa.array([], pa.string())] for _ in names]
    while buffer.tell() < len(data):
        count = _next_array(buffer)
        if count.shape != (1,) or count.dtype != np.int64 or not 0 <= count[0] <= _BLOCK:
            raise ModelError("a public table of the model has no such number of rows.")
        rows += int(count[0])
        for column in columns:
            column.append(_texts(buffer, int(count[0])))
        if not names and rows > MAX_EMPTY_ROWS:
            raise ModelError("a public table of the model has too many rows without a column.")
    if not names:
        return pa.Table.from_struct_array(pa.nulls(rows, pa.struct([])))
    table = pa.table([pa.chunked_array(column) for column in columns], list(names))
    table.validate(full=True)
    return table


def _texts(buffer: io.BytesIO, rows: int) -> pa.Array:
    ends, known, text = (_next_array(buffer) for _ in range(3))
    kinds = (ends.dtype.str, known.dtype.str, text.dtype.str)
    if kinds != ("<i4", "|b1", "|u1") or text.ndim != 1:
        raise ModelError("a public table of the model is not one of texts.")
    if ends.shape != (rows + 1,) or known.shape != (rows,) or ends[0] or ends[-1] != len(text):
        raise ModelError("a public table of the model has other texts than it says.")
    if (ends[1:] < ends[:-1]).any() or (known.view(np.uint8) > 1).any() or not text.all():
        raise ModelError("a public table of the model holds what is no text.")
    mask = pa.array(known).buffers()[1]
    made = pa.Array.from_buffers(pa.string(), rows, [mask, pa.py_buffer(ends), pa.py_buffer(text)])
    made.validate(full=True)
    return made
