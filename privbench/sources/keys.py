"""Keys of tables that are read from files, declared in a DuckDB file or in the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from privbench.config import SourceConfig, SourceTableConfig
from privbench.errors import ConfigError
from privbench.schema import TableName
from privbench.sources.files import FileTable, Reference


def settle(tables: Sequence[FileTable], config: SourceConfig | None) -> list[FileTable]:
    """The tables with all their keys, without the columns that are left out.

    A primary key in the config takes precedence over that of the file.

    Raises:
        ConfigError: The config names a table or column that is not there, or a foreign key leads to
            columns that are no key.
    """
    known = {table.name: table for table in tables}
    for text, section in (config or SourceConfig()).tables.items():
        name = TableName.parse(text)
        if name not in known:
            raise ConfigError(
                "the files hold no such table, although [source.tables] names it.", table=str(name)
            )
        known[name] = _with_section(known[name], section)
    return [_settled(table, known) for table in known.values()]


def _with_section(table: FileTable, section: SourceTableConfig) -> FileTable:
    """The table with the keys and columns that its section of the config states."""
    _require_columns(table, sorted(section.leave_out))
    columns = table.columns.items()
    foreign = (
        Reference(tuple(key.columns), TableName.parse(key.table), tuple(key.references))
        for key in section.foreign_keys
    )
    return replace(
        table,
        columns={name: kind for name, kind in columns if name not in section.leave_out},
        primary=tuple(section.primary_key) or table.primary,
        unique=(*table.unique, *map(tuple, section.unique)),
        not_null=(*(n for n in table.not_null if n not in section.leave_out), *section.not_null),
        foreign=(*table.foreign, *foreign),
    )


def _settled(table: FileTable, known: Mapping[TableName, FileTable]) -> FileTable:
    """The table with duplicate keys removed; a key whose columns the table lacks is refused."""
    foreign = dict.fromkeys(_whole(table, key, known) for key in table.foreign)
    unique = dict.fromkeys(columns for columns in table.unique if columns != table.primary)
    for columns in (table.primary, *unique, table.not_null, *(key.columns for key in foreign)):
        _require_columns(table, columns)
    return replace(table, unique=tuple(unique), foreign=tuple(foreign))


def _whole(table: FileTable, key: Reference, known: Mapping[TableName, FileTable]) -> Reference:
    """The foreign key, with the columns that it refers to filled in."""
    said = f"its foreign key on ({', '.join(key.columns)})"
    theirs = known.get(key.table)
    if theirs is None:
        raise ConfigError(
            f"{said} refers to {key.table}, and the files hold no such table.", table=table.key
        )
    references = key.references or theirs.primary
    candidates = {frozenset(columns) for columns in (theirs.primary, *theirs.unique) if columns}
    if frozenset(references) not in candidates or len(references) != len(key.columns):
        raise ConfigError(
            f"{said} refers to {key.table} ({', '.join(references)}), which is no key of as many "
            "columns there.",
            table=table.key,
            remedy=f'Declare one: [source.tables."{key.table}"] primary_key = […], or unique.',
        )
    return replace(key, references=references)


def _require_columns(table: FileTable, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in table.columns:
            raise ConfigError(
                "[source.tables] or a key of the file names it, and there is no such column to "
                "read.",
                table=table.key,
                column=column,
            )
