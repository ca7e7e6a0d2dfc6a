"""The model file, which holds everything that a clone is made from, and nothing else.

It is one zip archive: ``header.json`` (schema, specs, codecs, events, promise, hashes),
``arrays/*.npy``, ``public/*.csv`` for public tables, ``ddl/pre.sql`` and ``ddl/post.sql``. Nothing
in it can run code when it is read: `archive` reads members within limits, `header` checks what they
say, DDL is checked against an allow-list before it is executed. It holds no timings, row counts,
snapshot ids or host names (P5).
"""

import errno
import hashlib
import json
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from numpy.typing import NDArray

from privbench.display import lines, table
from privbench.errors import ModelError
from privbench.files import file_errors, replacing
from privbench.pipeline import archive, header
from privbench.pipeline.archive import Archive
from privbench.pipeline.header import PrivateColumns, Promise
from privbench.postgres.ddl import Ddl
from privbench.privacy import Event
from privbench.schema import Schema

#: Errors that parts of a hostile or damaged model raise if they do not fit together.
UNFIT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    pa.ArrowException,
)
#: Errors that reading a damaged archive raises; zipfile raises RuntimeError for an encrypted
#: member or an unknown compression.
_UNREADABLE = (
    *UNFIT,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    RuntimeError,
    StopIteration,
)


@dataclass(frozen=True)
class Model:
    """A released model."""

    schema: Schema  # the schema of the source
    promise: Promise
    config: dict[str, Any]  # the public config that the fit ran with
    tables: dict[str, PrivateColumns]  # per private table, how its columns are made
    synthesizer: str
    state: dict[str, Any]  # the synthesizer's state as JSON
    arrays: dict[str, NDArray[Any]]
    events: tuple[Event, ...]  # the frozen events, in order
    ddl: Ddl  # DDL before and after the rows
    # The rows of public tables, verbatim: an Arrow table of strings for each.
    public: dict[str, pa.Table] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The promise, and rows of tables, which were released."""
        counts: dict[str, float] = {name: rows.num_rows for name, rows in self.public.items()}
        with suppress(*UNFIT):  # the state of a stranger's model
            for law in self.state["tables"]:
                counts[law["name"]] = float(law["rows"] + law.get("free", 0))
        rows = [(name, f"{count:,.0f}") for name, count in sorted(counts.items())]
        return lines(self.promise.sentence(), *table(rows, "1"))

    def save(self, path: str | Path) -> None:
        """Write the file; it appears complete or not at all."""
        members = self._members()
        head = self._head(members)
        target = Path(path)
        with file_errors(f"cannot write the model {target}", ModelError):
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as file:
                archive.write(file, {archive.HEADER: head, **members})
                file.flush()
                os.fsync(file.fileno())

    @property
    def digest(self) -> str:
        """Return a hash of everything that the model holds."""
        return hashlib.sha256(self._head(self._members())).hexdigest()

    def _members(self) -> dict[str, bytes]:
        members = {
            archive.PRE: self.ddl.pre_data.encode(),
            archive.POST: self.ddl.post_data.encode(),
        }
        for name, place in _places("arrays", sorted(self.arrays), "npy").items():
            members[place] = archive.array_bytes(self.arrays[name])
        for name, place in _places("public", sorted(self.public), "csv").items():
            members[place] = archive.table_bytes(self.public[name])
        return members

    def _head(self, members: Mapping[str, bytes]) -> bytes:
        data = {
            "format": header.VERSION[0],
            "version": header.VERSION[1],
            "promise": vars(self.promise),
            "schema": self.schema.to_json(),
            "config": self.config,
            "tables": {
                key: {
                    "own": private.own,
                    "making": private.making,
                    "codecs": {name: codec.to_json() for name, codec in private.codecs.items()},
                }
                for key, private in self.tables.items()
            },
            "synthesizer": self.synthesizer,
            "state": self.state,
            "arrays": sorted(self.arrays),
            "public": sorted(self.public),
            "events": [event.to_json() for event in self.events],
            "extensions": list(self.ddl.extensions),
            "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        }
        return json.dumps(data, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model file; hostile content raises an error, and nothing in it is executed.

        Raises:
            ModelError: The file is no model, is damaged or too large, or has another version.
        """
        try:
            with Path(path).open("rb") as file:
                return cls._read(Archive(file))
        except ModelError:
            raise
        except FileNotFoundError as error:
            raise ModelError(f"there is no model at {path}.") from error
        except _UNREADABLE as error:
            raise ModelError(
                f"{path} is not a readable model ({type(error).__name__}).",
                remedy="Fit it again, or fetch it again.",
            ) from error

    @classmethod
    def _read(cls, members: Archive) -> Self:
        head = header.parse(members.read(archive.HEADER))
        digests, schema = head.sha256, head.schema_
        arrays = _places("arrays", head.arrays, "npy")
        public = _places("public", head.public, "csv")
        expected = {archive.PRE, archive.POST, *arrays.values(), *public.values()}
        if set(digests) != expected or members.names != {archive.HEADER, *expected}:
            raise ModelError("the model's members are not those of its header.")
        numbers = {
            name: archive.read_array(members.read(place, digests[place]))
            for name, place in arrays.items()
        }
        if 8 * sum(array.size for array in numbers.values()) > archive.MAX_BYTES:
            raise ModelError(f"the model unpacks to more than {archive.MAX_BYTES:,} bytes.")
        pre, post = (members.read(name, digests[name]) for name in (archive.PRE, archive.POST))
        return cls(
            schema=schema,
            promise=head.promise,
            config=head.config,
            tables=head.tables,
            synthesizer=head.synthesizer,
            state=head.state,
            arrays=numbers,
            events=head.events,
            ddl=Ddl(pre.decode(), post.decode(), head.extensions),
            public={
                name: _public(schema, name, members.read(place, digests[place]))
                for name, place in public.items()
            },
        )


def _places(kind: str, names: list[str], suffix: str) -> dict[str, str]:
    """The archive members of arrays or public tables, by their names in the header, in order."""
    if names != sorted(set(names)):
        raise ModelError(f"the model's {kind} are not in order.")
    return {name: f"{kind}/{index}.{suffix}" for index, name in enumerate(names)}


def _public(schema: Schema, key: str, data: bytes) -> pa.Table:
    """The rows of a public table, with the columns that the schema gives it."""
    names = [column.name for column in schema.table(key).columns if not column.generated]
    try:
        return archive.read_table(data, names)
    except pa.ArrowException as error:
        raise ModelError("the rows in the model are no texts.", table=key) from error


def require_writable(path: str | Path, *, overwrite: bool = True) -> None:
    """Refuse, before any budget is spent, a path that `Model.save` could not write.

    Without `overwrite` an existing file is refused too.
    """
    target = Path(path)
    if not overwrite and target.is_file():
        raise ModelError(f"{target} is there already.", remedy="Use --force to replace it.")
    with file_errors(f"cannot write the model {target}", ModelError):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=target.parent):
            pass
