"""Read and write a model's zip archive, whose members have fixed names and limited sizes.

Reading runs no code. The sizes that an archive states are checked before anything is unpacked, and
no member is unpacked beyond the size that it states. Arrays hold plain numbers, and their shape has
to match the number of their bytes. Public tables are CSV, not Arrow files, since Arrow files state
offsets and compressions of their own, and a damaged file can crash the reader.
"""

import hashlib
import io
import os
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.errors import ModelError
from privbench.pipeline.header import MAX_HEADER
from privbench.postgres.csvtext import csv_blocks, read_csv

#: Refuse archives that unpack to more than this many bytes, or half of the machine's memory: a file
#: of a thousandth of that size can.
MAX_BYTES = min(16 * 2**30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
MAX_DDL, MAX_MEMBERS = 32 * 2**20, 2**16
#: Rows of a public table without columns: nothing else bounds their number.
MAX_EMPTY_ROWS = 1_000_000
#: Parts of a public table that may be shorter than 65,536 bytes; each takes kilobytes of memory.
_SHORT_PARTS = 64
HEADER, PRE, POST = "header.json", "ddl/pre.sql", "ddl/post.sql"

_EPOCH = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(
    r"header\.json|ddl/(?:pre|post)\.sql|arrays/(?:0|[1-9]\d*)\.npy|public/(?:0|[1-9]\d*)\.csv"
)
_CAPS = {HEADER: MAX_HEADER, PRE: MAX_DDL, POST: MAX_DDL}
#: The first bytes of an ``.npy`` file of version 1.0, and its header: plain numbers, up to 4 axes.
_MAGIC = b"\x93NUMPY\1\0"
_ARRAY = re.compile(
    rb"\{'descr': '(?P<kind>\|b1|[|<][iu][1248]|<f[248])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>(?:\d{1,18}(?:, ?(?:\d{1,18})?){0,4})?)\), \} *\n"
)
_ENCRYPTED = 0x1
#: Signatures of the end record of an archive (22 bytes), and of the two records that precede it in
#: an archive of more than 4 GiB.
_END, _END64, _LOCATOR64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
#: Most bytes of the directory for each member: fixed fields, a name, and sizes beyond 4 GiB.
_ENTRY = 46 + 64 + 32


class Archive:
    """The members of an archive, whose numbers and sizes are within the limits.

    The file stays open for as long as members are read.
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
        """Return a member's bytes, no more than it states; refuse them if their SHA-256 differs."""
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
    """Refuse an archive whose directory has so many members that reading it would fill the memory.

    The size of the directory is read from the end record of the archive.
    """
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
    """Write an archive whose bytes depend on its members alone."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)


def array_bytes(array: NDArray[Any]) -> bytes:
    """Return an array in the ``.npy`` format."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def read_array(data: bytes) -> NDArray[Any]:
    """Return the array that ``.npy`` bytes hold; its stated size is checked before allocation."""
    end = 10 + int.from_bytes(data[8:10], "little")
    head = _ARRAY.fullmatch(data[10:end])
    if data[:8] != _MAGIC or head is None:
        raise ModelError("an array of the model is not one of plain numbers.")
    kind = np.dtype(head["kind"].decode())
    shape = tuple(int(size) for size in head["shape"].split(b",") if size)
    if prod(shape) * kind.itemsize != len(data) - end:
        raise ModelError("an array of the model has another number of numbers than it says.")
    return np.frombuffer(bytearray(data[end:]), kind).reshape(shape)


def table_bytes(table: pa.Table) -> bytes:
    """Return a table of texts as parts of CSV, each preceded by its size.

    For a table without columns it is only the number of rows.
    """
    if not table.num_columns:
        return str(table.num_rows).encode()
    parts = map(bytes, csv_blocks([table.combine_chunks()], table.num_columns))
    return b"".join(b"%d\n%b" % (len(part), part) for part in parts if part)


def read_table(data: bytes, names: Sequence[str]) -> pa.Table:
    """Return the table from bytes that `table_bytes` wrote, with these column names."""
    if not names:
        rows = int(data)
        if not 0 <= rows <= MAX_EMPTY_ROWS:
            raise ModelError("a public table of the model has too many rows without a column.")
        return pa.Table.from_struct_array(pa.nulls(rows, pa.struct([])))
    if b"\0" in data:
        raise ModelError("a public table of the model holds what is no text.")
    texts = [pa.string() for _ in names]
    buffer, tables = io.BytesIO(data), list[pa.Table]()
    while line := buffer.readline():
        part = buffer.read(size := int(line))
        if not 0 < size == len(part):
            raise ModelError("a public table of the model has fewer bytes than it says.")
        # A part has 65,536 rows of a byte or more, unless a column of more than 2 GiB ends there.
        if len(tables) > _SHORT_PARTS + len(data) // 2**16:
            raise ModelError("a public table of the model has more parts than rows need.")
        tables.append(read_csv(pa.py_buffer(part), texts).rename_columns(list(names)))
    return (
        pa.concat_tables(tables)
        if tables
        else pa.schema([*zip(names, texts, strict=True)]).empty_table()
    )
