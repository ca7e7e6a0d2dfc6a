"""DuckDB files and folders of Parquet files: which tables they hold, and their rows as Arrow.

DuckDB reads the files within this process, so nothing in them may run code or reach other files. A
database is attached read-only, and extensions are neither installed nor loaded. Before anything is
read, DuckDB gives up access to all files except the Parquet files of the source, for good. Views
are never read. DuckDB's own messages may quote values, so only the kind of an error is reported.
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

import lazy_loader
import pyarrow as pa

from privbench.errors import ConnectionFailed, DatabaseError, SchemaError, UsageError
from privbench.schema import TableName, literal, quoted
from privbench.sources.types import postgres_type, selected

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


Columns = tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """A foreign key."""

    columns: Columns
    table: TableName  # the table that it refers to
    references: Columns  # columns there


@dataclass(frozen=True)
class FileTable:
    """A table, and its keys."""

    name: TableName  # what it is called in PostgreSQL: DuckDB's schema ``main`` is ``public``
    relation: str  # the relation that DuckDB selects from, as SQL
    columns: dict[str, str]  # the types of its columns by their names, as DuckDB prints them
    primary: Columns = ()  # columns of the primary key; none if it has none
    unique: tuple[Columns, ...] = ()  # columns of every other key
    not_null: Columns = ()  # columns without NULL
    foreign: tuple[Reference, ...] = ()

    @property
    def key(self) -> str:
        """The table's name as text."""
        return str(self.name)


def is_file(source: str) -> bool:
    """Whether a source is named as a DuckDB file or a folder of Parquet files.

    >>> is_file("duckdb:///data/shop.db"), is_file("parquet:exports"), is_file("service=prod")
    (True, True, False)
    """
    return _DSN.fullmatch(source) is not None


class Files:
    """A source that is opened for reading, written ``duckdb://PATH`` or ``parquet://PATH``.

    Attributes:
        tables: Its tables, with the keys that a DuckDB file declares.
        views: Views of a DuckDB file, which are not read.

    Raises:
        UsageError: The extra is not installed, or DuckDB would not take a file's path as it is.
        ConnectionFailed: There is no such file or folder, or DuckDB cannot open it.
        SchemaError: PostgreSQL does not allow the name of a column.
    """

    def __init__(self, source: str) -> None:
        found = _DSN.fullmatch(source)
        if found is None:
            raise ValueError("not a source of files")
        self._connection = _connect()
        self.views: tuple[TableName, ...] = ()
        try:
            attach = self._attach if found[1] == "duckdb" else self._list
            self.tables = attach(Path(found[2]).absolute())
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._connection.close()

    def batches(self, table: FileTable) -> Iterator[pa.RecordBatch]:
        """The rows of a table in any order, in types that `postgres.csvtext` can write."""
        columns = [selected(kind, quoted(name)) for name, kind in table.columns.items()]
        query = f"SELECT {', '.join(columns)} FROM {table.relation}"  # noqa: S608
        with _duckdb_errors("its rows cannot be read", table.key):
            reader = self._connection.sql(query).to_arrow_reader(_ROWS)
            while True:
                try:
                    yield reader.read_next_batch()
                except StopIteration:
                    return

    def with_nul(self, table: FileTable) -> str | None:
        """The first column with a text that holds the character NUL (code 0); None without one."""
        for name, kind in table.columns.items():
            if postgres_type(kind) in ("text", "json", "text[]", "json[]"):
                text = f"contains(CAST({quoted(name)} AS VARCHAR), chr(0))"
                query = f"SELECT 1 FROM {table.relation} WHERE {text} LIMIT 1"  # noqa: S608
                with _duckdb_errors("its rows cannot be read", table.key):
                    if self._ask(query):
                        return name
        return None

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
            self.views = tuple(_named(schema, name) for schema, name in views)
            declared, pairs = self._ask(_CONSTRAINTS), self._ask(_TABLES)
        listed = [
            self._table(_named(schema, name), f"source.{quoted(schema, name)}")
            for schema, name in pairs
        ]
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
            name = TableName("public", first.removesuffix(".parquet"))
            texts = [literal(str(file)) for file in files]
            table = self._table(name, f"read_parquet([{', '.join(texts)}])")
            # For all files at once, DuckDB would drop columns that the first lacks, and round to
            # its types.
            alone = [f"read_parquet({text}, hive_partitioning = false)" for text in texts]
            if len({frozenset(self._columns(name, item).items()) for item in alone}) > 1:
                raise SchemaError("its files have different columns or types.", table=str(name))
            listed.append(table)
        return _checked(listed, path)

    def _lock(self, folders: Sequence[Path]) -> None:
        """Prevent DuckDB from opening anything outside these folders, whatever a file refers to."""
        allowed = ", ".join(literal(f"{folder}/") for folder in folders)
        self._connection.execute(f"SET allowed_directories = [{allowed}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def _table(self, name: TableName, relation: str) -> FileTable:
        _refuse_name(name.schema, str(name), "schema")
        _refuse_name(name.name, str(name), "table")
        columns = self._columns(name, relation)
        for column in columns:
            _refuse_name(column, str(name), "column")
        return FileTable(name, relation, columns)

    def _columns(self, name: TableName, relation: str) -> dict[str, str]:
        with _duckdb_errors("it cannot be read", str(name), "All its files need the same columns."):
            described = self._ask(f"DESCRIBE SELECT * FROM {relation}")  # noqa: S608
        return {row[0]: row[1] for row in described}


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


def _named(schema: str, name: str) -> TableName:
    return TableName("public" if schema == "main" else schema, name)


def _with_keys(tables: Sequence[FileTable], rows: Iterable[tuple[Any, ...]]) -> list[FileTable]:
    """The tables with their keys, whose names get the case that they have in their tables."""
    # Names are joined by NUL, which no name holds, as quoted names would differ with their case.
    found = {"\0".join((table.name.schema, table.name.name)): table for table in tables}

    def place(name: TableName) -> str:
        return _spelled("\0".join((name.schema, name.name)), found)

    def columns_of(schema: str, name: str, columns: Iterable[str]) -> tuple[FileTable, Columns]:
        table = found[place(_named(schema, name))]
        return table, tuple(_spelled(item, table.columns) for item in columns)

    for schema, name, kind, names, ref, ref_names in rows:
        table, columns = columns_of(schema, name, names)
        if kind == "PRIMARY KEY":
            table = replace(table, primary=columns)
        elif kind == "UNIQUE":
            table = replace(table, unique=(*table.unique, columns))
        elif kind == "NOT NULL":
            table = replace(table, not_null=(*table.not_null, *columns))
        elif kind == "FOREIGN KEY" and ref:
            theirs, there = columns_of(schema, ref, ref_names)
            key = Reference(columns, theirs.name, there)
            table = replace(table, foreign=(*table.foreign, key))
        found[place(table.name)] = table
    return list(found.values())


def _spelled(name: str, names: Iterable[str]) -> str:
    same = [other for other in names if other.lower() == name.lower()]
    return name if name in same else same[0]


def _checked(tables: list[FileTable], path: Path) -> list[FileTable]:
    """The tables; a SchemaError if there are none, or if two have the same name."""
    if not tables:
        raise SchemaError(f"{path} holds no tables.")
    for name, count in Counter(table.name for table in tables).items():
        if count > 1:
            raise SchemaError(
                f"{path} holds two tables of this name.",
                table=str(name),
                remedy="Rename one: schema 'main' becomes 'public', and both a file t.parquet and "
                "a folder of files, t or t.parquet, are table 't'.",
            )
    return tables


def _refuse_name(name: str, table: str, what: str) -> None:
    if not name or "\0" in name or len(name.encode(errors="surrogateescape")) > _LONGEST:
        raise SchemaError(
            f"the {what} name {name!r} is none that PostgreSQL can have: 1 to {_LONGEST} bytes, "
            "without NUL.",
            table=table,
            remedy="Rename it.",
        )


def _refuse_path(file: Path, folder: Path) -> None:
    """Refuse a file whose path DuckDB would interpret, or that a link puts outside the folder."""
    if set("*?[{") & set(str(file)):
        raise UsageError(f"{str(file)!r}: DuckDB would take the path for a pattern.",
                         remedy="Rename it, so that it holds none of * ? [ {.")  # fmt: skip
    for part in file.parent.parts[: len(folder.parts) + 1]:
        if "=" in part:
            raise UsageError(
                f"DuckDB would take the directory name {part!r} in {str(folder)!r} for a column.",
                remedy="Rename the directory, or reach the folder by a link. If the directory is "
                "a partition of one table, name the folder above it.",
            )
    if not file.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{str(file)!r} is a link that leads out of the folder.",
                         remedy="Put the file itself there.")  # fmt: skip
