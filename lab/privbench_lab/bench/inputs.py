"""Files of a grid's data sets: where they lie, and their SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from privbench.errors import ConfigError
from privbench_lab.bench.config import BenchConfig, DataConfig, SourceConfig

#: Fields of a data set that name files, and are no part of a cell's key: the digests are.
FILES = ("train", "test", "domain", "workload", "bif", "config", "answers")


def locate(name: str, folders: Sequence[Path]) -> Path:
    """Where a file or folder of this name lies: in the first of the folders that has it."""
    paths = [folder / name for folder in folders]
    return next((path for path in paths if path.exists()), paths[0])


def located(grid: BenchConfig, folders: Sequence[Path]) -> BenchConfig:
    """The grid with the places of its files instead of their names."""

    def place(name: str) -> str:
        return str(locate(name, folders).absolute())

    def settled(data: DataConfig) -> DataConfig:
        names = {field: getattr(data, field) for field in FILES}
        places: dict[str, object] = {field: place(n) for field, n in names.items() if n is not None}
        if data.source is not None:
            places["source"] = _settled(data.source)
        return data.model_copy(update=places)

    def _settled(source: SourceConfig) -> SourceConfig:
        program = [place(word) if word.endswith(".py") else word for word in source.program]
        rows = None if source.rows is None else place(source.rows)
        sql = [place(name) for name in source.sql]
        return source.model_copy(update={"sql": sql, "rows": rows, "program": program})

    data = {name: settled(config) for name, config in grid.data.items()}
    return grid.model_copy(update={"data": data})


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(data: DataConfig, folders: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of the files of a data set that are there, by the names that the grid gives them.

    A ConfigError names the first that is not the one that the grid means.
    """
    names = sorted({*data.files(), *data.sha256})
    paths = {name: locate(name, folders) for name in names}
    present = {name: digest(path) for name, path in paths.items() if path.is_file()}
    require(data.sha256, present)
    return present


def require(expected: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Refuse digests that are not the expected ones; files that are missing are not judged."""
    for name in sorted(present.keys() & expected.keys()):
        if present[name] != expected[name]:
            raise ConfigError(f"{name} is another file: its SHA-256 is {present[name]}.")
