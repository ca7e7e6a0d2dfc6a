"""Read DuckDB files and folders of Parquet files: their tables, and the rows as Arrow batches.

DuckDB reads the files within this process, so nothing in them may run code or reach other files. A
database is attached read-only, and extensions are neither installed nor loaded. Before anything is
read, DuckDB gives up access to all files except the Parquet files of the source, for good. Views
are never read. DuckDB's own messages may quote values, so only the kind of an error is reported.

No type is derived from values (PRIVACY P34): a column from the names of directories is text, which
holds every name, and files that differ are one table only where the config declares its columns.
Each value is converted independently, and becomes NULL if its type cannot hold it.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import lazy_loader
import pyarrow as pa

from privbench.errors import ConnectionFailed, DatabaseError, SchemaError, UsageError
from privbench.schema import ForeignKey, TableName, literal, quoted
from privbench.sources.types import element_type, postgres_type, selected

if TYPE_CHECKING:
    import duckdb
elif find_spec("duckdb"):
    # Of a package that is missing, lazy_loader reads the source of every caller.
    duckdb = lazy_loader.load("duckdb")
else:
    duckdb = None

_DSN = re.compile(r"(duckdb|parquet):(?://)?(.*)", re.DOTALL)
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "memory_limit": "2GB",
}
_ROWS = 1 << 16
#: The most bytes of a name; PostgreSQL truncates longer names.
_LONGEST = 63
#: Begin a pattern in a path that DuckDB reads; each stands for itself within brackets.
_PATTERN = re.compile(r"[*?\[]")
#: The directory name that stands for NULL.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: The name of a list's element in SQL.
_ELEMENT = '"an element"'
_TABLES = """
SELECT schema_name, table_name FROM duckdb_tables()
WHERE database_name = 'source' AND NOT internal ORDER BY ALL
"""
_VIEWS = """
SELECT schema_name, view_name FROM duckdb_views()
WHERE database_name = 'source' AND NOT internal ORDER BY ALL
"""
_CONSTRAINTS = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,
  referenced_column_names
FROM duckdb_constraints() WHERE database_name = 'source' ORDER BY constraint_index
"""


@dataclass(frozen=True)
class FileTable:
    """A table of the source, and its keys."""

    name: TableName  # what it is called in PostgreSQL: DuckDB's schema ``main`` is ``public``
    # The relations that DuckDB selects from, as SQL, one for each file, and their own columns.
    relations: dict[str, dict[str, str]]
    columns: dict[str, str]  # the types of its columns by their names, as DuckDB prints them
    primary: tuple[str, ...] = ()  # columns of the primary key; none if it has none
    unique: tuple[tuple[str, ...], ...] = ()  # columns of every other key
    not_null: tuple[str, ...] = ()  # columns without NULL
    foreign: tuple[ForeignKey, ...] = ()  # without names
    stated: str = ""  # its keys as its Parquet file states them, JSON that nobody has judged

    @property
    def key(self) -> str:
        """The table's name as text."""
        return str(self.name)


def is_file(source: str) -> bool:
    """Return whether a source names a DuckDB file or a folder of Parquet files.

    >>> is_file("duckdb:///data/shop.db"), is_file("parquet:exports"), is_file("service=prod")
    (True, True, False)
    """
    return _DSN.fullmatch(source) is not None


class Files:
    """A source of files, opened for reading, written ``duckdb://PATH`` or ``parquet://PATH``.

    Attributes:
        tables: Its tables, with the keys that a DuckDB file declares.
        views: Views of a DuckDB file, which are not read.

    Raises:
        UsageError: The extra is not installed, or DuckDB would not take a file's path as it is.
        ConnectionFailed: There is no such file or folder, or DuckDB cannot open it.
        SchemaError: PostgreSQL does not allow the name of a table.
    """

    def __init__(self, source: str) -> None:
        match = _DSN.fullmatch(source)
        if match is None:
            raise ValueError("not a source of files")
        self._connection = _connect()
        self.views: tuple[TableName, ...] = ()
        try:
            attach = self._attach if match[1] == "duckdb" else self._list
            self.tables = attach(Path(match[2]).absolute())
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._connection.close()

    def batches(self, table: FileTable) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in any order, in types that `postgres.csvtext` can write."""
        for relation, there in table.relations.items():
            columns = [
                selected(kind, _converted(name, kind, there.get(name)))
                for name, kind in table.columns.items()
            ]
            query = f"SELECT {', '.join(columns)} FROM {relation}"  # noqa: S608
            with _duckdb_errors("its rows cannot be read", table.key):
                yield from self._connection.sql(query).to_arrow_reader(_ROWS)

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(query).fetchall())

    def _attach(self, path: Path) -> list[FileTable]:
        if not path.is_file():
            raise ConnectionFailed(f"there is no file {path}.")
        with _duckdb_errors(
            f"{path} cannot be opened",
            remedy="It must be a DuckDB database, of no later version than the duckdb that is "
            "installed, and nobody may be writing to it.",
        ):
            self._connection.execute(f"ATTACH {literal(str(path))} AS source (READ_ONLY)")
            self._lock([])
            views = self._ask(_VIEWS)
            self.views = tuple(_postgres_name(schema, name) for schema, name in views)
            declared, pairs = self._ask(_CONSTRAINTS), self._ask(_TABLES)
        listed = []
        for schema, name in pairs:
            named, relation = _postgres_name(schema, name), f"source.{quoted(schema, name)}"
            listed.append(_file_table(named, {relation: self._columns(named, relation)}))
        return _with_keys(_checked(listed, path), declared)

    def _list(self, path: Path) -> list[FileTable]:
        if not path.is_dir():
            raise ConnectionFailed(f"there is no folder {path}.")
        parts: dict[str, list[Path]] = {}
        for file in sorted(path.rglob("*.parquet")):
            if file.is_file():
                _refuse_path(file, path)
                parts.setdefault(file.relative_to(path).parts[0], []).append(file)
        with _duckdb_errors(f"{path} cannot be opened"):
            self._lock([path])
        listed = []
        for first, files in sorted(parts.items()):
            stated = self._stated(files[0]) if files[0] == path / first else {}
            text = stated.get("privbench.table")
            plain = TableName("public", first.removesuffix(".parquet"))
            name = TableName.parse(text) if text else plain
            table = _file_table(name, dict(self._file(name, file, path) for file in files))
            listed.append(replace(table, stated=stated.get("privbench.keys", "")))
        return _checked(listed, path)

    def _file(self, table: TableName, file: Path, folder: Path) -> tuple[str, dict[str, str]]:
        """The relation of one Parquet file and its columns, also those that its directories state.

        For all files at once, DuckDB would drop columns that the first lacks and round to its
        types; and it would guess types from the names of directories.
        """
        relation = f"read_parquet({_path(file)}, hive_partitioning = false)"
        stated = _partitions(file.relative_to(folder).parts[1:-1])
        folded = {name.lower() for name in stated}
        described = self._columns(table, relation).items()
        columns = {name: kind for name, kind in described if name.lower() not in folded}
        listed = [quoted(name) for name in columns]
        listed += [f"CAST({value} AS VARCHAR) AS {quoted(name)}" for name, value in stated.items()]
        selection = f"(SELECT {', '.join(listed)} FROM {relation})"  # noqa: S608
        return selection, columns | dict.fromkeys(stated, "VARCHAR")

    def _stated(self, file: Path) -> dict[str, str]:
        """What `sample` or somebody else wrote into a file's metadata."""
        with _duckdb_errors(f"{file} cannot be opened"):
            rows = self._ask(f"SELECT key, value FROM parquet_kv_metadata({_path(file)})")  # noqa: S608
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in rows}

    def _lock(self, folders: Sequence[Path]) -> None:
        """Prevent DuckDB from opening anything outside these folders, whatever a file refers to."""
        allowed = ", ".join(literal(f"{folder}/") for folder in folders)
        self._connection.execute(f"SET allowed_directories = [{allowed}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def _columns(self, table: TableName, relation: str) -> dict[str, str]:
        with _duckdb_errors("it cannot be read", str(table)):
            described = self._ask(f"DESCRIBE SELECT * FROM {relation}")  # noqa: S608
        return {row[0]: row[1] for row in described}


def _path(file: Path) -> str:
    return literal(_PATTERN.sub(r"[\g<0>]", str(file)))


def _connect() -> duckdb.DuckDBPyConnection:
    if duckdb is None:
        raise UsageError(
            "DuckDB, which reads such files, is not installed.",
            remedy="Install it with: pip install 'privbench[duckdb]'.",
        )
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@contextlib.contextmanager
def _duckdb_errors(
    what: str, table: str | None = None, remedy: str | None = None
) -> Iterator[None]:
    """Turn DuckDB's errors into privbench's; their text, which may quote values, is left out."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # a stream of Arrow raises the last
        kind = ConnectionFailed if table is None else DatabaseError
        raise kind(f"{what}: {type(error).__name__}.", table=table, remedy=remedy) from None


def _file_table(name: TableName, relations: dict[str, dict[str, str]]) -> FileTable:
    refuse_name(name.schema, str(name), "schema")
    refuse_name(name.name, str(name), "table")
    return FileTable(name, relations, next(iter(relations.values())))


def _partitions(directories: Iterable[str]) -> dict[str, str]:
    """Columns that directories state as ``name=value``, and their values as SQL, which are texts.

    >>> _partitions(["code=K%2F7", "half", "day=__HIVE_DEFAULT_PARTITION__"])
    {'code': "'K/7'", 'day': 'NULL'}
    """
    pairs = (part.partition("=") for part in directories)
    return {
        # No text of PostgreSQL holds the character NUL, and no statement of DuckDB does.
        unquote(name): "NULL" if value == _NULL else literal(unquote(value).replace("\0", "%00"))
        for name, equals, value in pairs
        if name and equals
    }


def _converted(name: str, kind: str, there: str | None) -> str:
    """DuckDB's SQL for a column as a type; ``there`` is its type in the file, None if it has none.

    A value, also one within a list, becomes NULL if DuckDB's type does not hold it, or if it is a
    text with the character NUL. Whether it does depends on no other value.
    """
    if there is None:
        return f"CAST(NULL AS {kind})"
    if there == kind and not _is_text(kind):
        return quoted(name)
    element = element_type(kind)
    if element is None:
        return _converted_value(quoted(name), kind)
    is_list = element_type(there) is not None
    lists = quoted(name) if is_list else f"TRY_CAST(CAST({quoted(name)} AS VARCHAR) AS VARCHAR[])"
    each = f"[{_converted_value(_ELEMENT, element)} FOR {_ELEMENT} IN {lists}]"
    return f"TRY_CAST({each} AS {kind})"


def _converted_value(value: str, kind: str) -> str:
    text = f"CAST({value} AS VARCHAR)"
    return f"TRY_CAST(CASE WHEN NOT contains({text}, chr(0)) THEN {text} END AS {kind})"


def _is_text(kind: str) -> bool:
    return postgres_type(kind) in ("text", "json", "text[]", "json[]")


def _postgres_name(schema: str, name: str) -> TableName:
    return TableName("public" if schema == "main" else schema, name)


def _with_keys(tables: Sequence[FileTable], rows: Iterable[tuple[Any, ...]]) -> list[FileTable]:
    """The tables with their keys, whose names get the case that they have in their tables."""
    by_name = {_folded(table.name): table for table in tables}

    def columns_of(
        schema: str, name: str, columns: Iterable[str]
    ) -> tuple[FileTable, tuple[str, ...]]:
        table = by_name[_folded(_postgres_name(schema, name))]
        spelled = {column.encode().lower(): column for column in table.columns}
        return table, tuple(spelled[column.encode().lower()] for column in columns)

    for schema, name, kind, names, ref, ref_names in rows:
        table, columns = columns_of(schema, name, names)
        if kind == "PRIMARY KEY":
            table = replace(table, primary=columns)
        elif kind == "UNIQUE":
            table = replace(table, unique=(*table.unique, columns))
        elif kind == "NOT NULL":
            table = replace(table, not_null=(*table.not_null, *columns))
        elif kind == "FOREIGN KEY" and ref:
            target_columns, there = columns_of(schema, ref, ref_names)
            key = ForeignKey("", table.name, columns, target_columns.name, there)
            table = replace(table, foreign=(*table.foreign, key))
        by_name[_folded(table.name)] = table
    return list(by_name.values())


def _folded(name: TableName) -> tuple[bytes, bytes]:
    """A name as DuckDB compares it: small and capital letters of ASCII are the same."""
    return name.schema.encode().lower(), name.name.encode().lower()


def _checked(tables: list[FileTable], path: Path) -> list[FileTable]:
    """The tables; a SchemaError if two have the same name."""
    for name, count in Counter(table.name for table in tables).items():
        if count > 1:
            raise SchemaError(
                f"{path} holds two tables of this name.",
                table=str(name),
                remedy="Rename one: schema 'main' becomes 'public', and both a file t.parquet and "
                "a folder of files, t or t.parquet, are table 't'.",
            )
    return tables


def refuse_name(name: str, table: str, what: str) -> None:
    """Refuse, by a SchemaError, a name that PostgreSQL would truncate or does not allow."""
    if not name or "\0" in name or len(name.encode(errors="surrogateescape")) > _LONGEST:
        raise SchemaError(
            f"the {what} name {name!r} is none that PostgreSQL can have: 1 to {_LONGEST} bytes, "
            "without NUL.",
            table=table,
            remedy="Rename it.",
        )


def _refuse_path(file: Path, folder: Path) -> None:
    """Refuse a file whose path DuckDB would interpret, or that a link puts outside the folder."""
    table = Path(*file.parts[: len(folder.parts) + 1])
    if set("*?[{") & set(str(table)):
        raise UsageError(f"{str(table)!r}: DuckDB would take the path for a pattern.",
                         remedy="Rename it, so that it holds none of * ? [ {.")  # fmt: skip
    for part in file.parent.parts[: len(table.parts)]:
        if "=" in part:
            raise UsageError(
                f"the directory name {part!r} in {str(folder)!r} may state a column's value.",
                remedy="Rename the directory, or reach the folder by a link. If the directory is "
                "a partition of one table, name the folder above it.",
            )
    if not file.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{str(file)!r} is a link that leads out of the folder.",
                         remedy="Put the file itself there.")  # fmt: skip
