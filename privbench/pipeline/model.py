"""The model file: everything that a clone is made from, and nothing else.

One zip archive: ``header.json`` (schema, specs, codecs, events, promise, hashes), ``arrays/*.npy``,
``public/*.arrow`` for public tables, ``ddl/pre.sql`` and ``ddl/post.sql``. Nothing in it can run
code when it is read: arrays are loaded without pickle, JSON is validated, DDL is checked against an
allow-list before it is executed. It holds no timings, row counts, snapshot ids or host names (P5).
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.errors import ModelError
from privbench.files import replacing
from privbench.postgres.ddl import Ddl
from privbench.schema import Schema

FORMAT = "privbench-model"
VERSION = 1
#: Refuse archives that unpack to more than this many bytes.
MAX_BYTES = 16 * 2**30
_EPOCH = (1980, 1, 1, 0, 0, 0)
#: What reading a damaged archive raises; RuntimeError: encrypted, or an unknown compression.
_UNREADABLE = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    pa.ArrowException,
)

Json = dict[str, Any]


@dataclass(frozen=True)
class Promise:
    """What the release guarantees.

    Attributes:
        epsilon: ε spent, the maximum over root tables.
        delta: δ spent.
        accounting: ``pure`` or ``zcdp``.
        neighbours: ``add-remove`` or ``replace``.
        unit: ``owner`` or ``row``.
        roots: Root tables, whose rows with all they own are the privacy units.
        private: False when the noise was seeded: NOT PRIVATE.
        roles: Who chose the roles: ``declared`` or ``proposed``.
    """

    epsilon: float
    delta: float
    accounting: str
    neighbours: str
    unit: str
    roots: tuple[str, ...]
    private: bool
    roles: str

    def sentence(self) -> str:
        """The promise in one sentence."""
        if not self.private:
            return "NOT PRIVATE: the noise was seeded; this model must not leave the house."
        unit = "one row"
        if self.unit == "owner":
            unit = f"one row of {' or '.join(self.roots)}, with all the rows that it owns"
        delta = f", δ = {self.delta:g}" if self.delta else ""
        change = "added or removed" if self.neighbours == "add-remove" else "replaced"
        roles = " Roles were proposed by the tool and accepted." if self.roles == "proposed" else ""
        return f"ε = {self.epsilon:g}{delta} ({self.accounting}). Unit: {unit}; {change}.{roles}"


@dataclass(frozen=True)
class Model:
    """A released model.

    Attributes:
        schema: The schema of the source.
        promise: The guarantee.
        config: The public config that the fit ran with.
        tables: Per private table, JSON of codecs and column roles.
        synthesizer: Name of the synthesizer.
        state: Its JSON state.
        arrays: Its arrays, by name.
        public: Public tables' rows, verbatim, one Arrow table of strings each.
        events: The frozen events, in order.
        ddl: DDL before and after the rows.
    """

    schema: Schema
    promise: Promise
    config: Json
    tables: dict[str, Json]
    synthesizer: str
    state: Json
    arrays: dict[str, NDArray[Any]]
    events: list[Json]
    ddl: Ddl
    public: dict[str, pa.Table] = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Write the file: whole or not at all.

        Raises:
            ModelError: The file cannot be written.
        """
        members = self._members()
        header = self._header(members)
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as file:
                _write_zip(file, {"header.json": _canonical(header), **members})
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ModelError(f"cannot write the model {target}: {error.strerror}.") from error

    def _members(self) -> dict[str, bytes]:
        members = {
            "ddl/pre.sql": self.ddl.pre_data.encode(),
            "ddl/post.sql": self.ddl.post_data.encode(),
        }
        for index, name in enumerate(sorted(self.arrays)):
            members[f"arrays/{index}.npy"] = _npy(self.arrays[name])
        for index, name in enumerate(sorted(self.public)):
            members[f"public/{index}.arrow"] = _ipc(self.public[name])
        return members

    def _header(self, members: Mapping[str, bytes]) -> Json:
        return {
            "format": FORMAT,
            "version": VERSION,
            "promise": {**vars(self.promise), "roots": list(self.promise.roots)},
            "schema": self.schema.to_json(),
            "config": self.config,
            "tables": self.tables,
            "synthesizer": self.synthesizer,
            "state": self.state,
            "arrays": sorted(self.arrays),
            "public": sorted(self.public),
            "events": self.events,
            "extensions": list(self.ddl.extensions),
            "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        }

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file; hostile content raises, nothing in it is executed.

        Raises:
            ModelError: Not a model, damaged, of another version, or too large.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                return cls._read(archive)
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
    def _read(cls, archive: zipfile.ZipFile) -> Self:
        if sum(item.file_size for item in archive.infolist()) > MAX_BYTES:
            raise ModelError(f"the model unpacks to more than {MAX_BYTES:,} bytes.")
        header = json.loads(archive.read("header.json"))
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ModelError("this is not a model of this version of privbench.")
        members = {name: archive.read(name) for name in header["sha256"]}
        for name, digest in header["sha256"].items():
            if hashlib.sha256(members[name]).hexdigest() != digest:
                raise ModelError(f"the model is damaged: {name} does not match its hash.")
        promise = header["promise"]
        found = cls(
            schema=Schema.from_json(header["schema"]),
            promise=Promise(**{**promise, "roots": tuple(promise["roots"])}),
            config=header["config"],
            tables=header["tables"],
            synthesizer=str(header["synthesizer"]),
            state=header["state"],
            arrays={
                name: np.load(io.BytesIO(members[f"arrays/{index}.npy"]), allow_pickle=False)
                for index, name in enumerate(header["arrays"])
            },
            events=header["events"],
            ddl=Ddl(
                members["ddl/pre.sql"].decode(),
                members["ddl/post.sql"].decode(),
                tuple(str(name) for name in header["extensions"]),
                int(header["schema"]["server_version"]),
            ),
            public={
                name: pa.ipc.open_file(members[f"public/{index}.arrow"]).read_all()
                for index, name in enumerate(header["public"])
            },
        )
        found._check()
        return found

    def _check(self) -> None:
        """Refuse a header whose tables, columns and keys are not those of its schema."""
        names = [*self.tables, *self.public]
        if sorted(names) != sorted(table.key for table in self.schema):
            raise ModelError("the model's tables are not those of its schema.")
        for key, data in self.tables.items():
            table, making = self.schema.table(key), data["making"]
            modelled = {name for name, how in making.items() if how == "modelled"}
            if (
                set(making) != {column.name for column in table.columns}
                or set(data["codecs"]) != modelled
                or data["own"] not in (None, *(item.name for item in table.foreign_keys))
            ):
                raise ModelError("the model does not fit its schema.", table=key)
        for key, rows in self.public.items():
            plain = {c.name for c in self.schema.table(key).columns if not c.generated}
            if set(rows.column_names) != plain:
                raise ModelError("the model does not fit its schema.", table=key)


def require_writable(path: str | Path, *, overwrite: bool = True) -> None:
    """Refuse, before any budget is spent, a path that `Model.save` could not or should not write.

    Args:
        path: The model file.
        overwrite: Whether a file that is there may be replaced.

    Raises:
        ModelError: It is a folder, its folder cannot be made or written, or it is there.
    """
    target = Path(path)
    if not overwrite and target.is_file():
        raise ModelError(f"{target} is there already.", remedy="Use --force to replace it.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise ModelError(f"cannot write the model {target}: {error.strerror}.") from error


def _canonical(data: Json) -> bytes:
    return json.dumps(data, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _write_zip(file: Any, members: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
