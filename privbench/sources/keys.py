"""Keys of tables that are read from files: those that a DuckDB file declares, and the config's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

from privbench.config import SourceConfig
from privbench.errors import ConfigError
from privbench.schema import TableName
from privbench.sources.files import FileTable, Keys, Reference


def settle(
    tables: Sequence[FileTable], declared: Mapping[TableName, Keys], config: SourceConfig | None
) -> dict[TableName, Keys]:
    """The keys of every table; what the config says of a primary key goes before the file's word.

    Raises:
        ConfigError: The config names a table or column that is not there, or a foreign key leads to
            columns that are no key.
    """
    keys = {table.name: deepcopy(declared.get(table.name, Keys())) for table in tables}
    known = {table.name: set(table.columns) for table in tables}
    sections = {
        TableName.parse(name): item for name, item in (config or SourceConfig()).tables.items()
    }
    for name, section in sections.items():
        if name not in keys:
            raise ConfigError(
                "[source.tables] names it, and the files hold no such table.", table=str(name)
            )
        mine = keys[name]
        mine.leave_out = frozenset(section.leave_out)
        mine.primary = tuple(section.primary_key) or mine.primary
        mine.unique += [tuple(columns) for columns in section.unique]
        mine.not_null += section.not_null
        mine.foreign += [
            Reference(tuple(item.columns), TableName.parse(item.table), tuple(item.references))
            for item in section.foreign_keys
        ]
    for name, mine in keys.items():
        if missing := mine.leave_out - known[name]:
            raise _no_column(name, min(missing))
        known[name] -= mine.leave_out
    for name, mine in keys.items():
        _settle_table(name, mine, keys, known)
    return keys


def _settle_table(
    name: TableName,
    mine: Keys,
    keys: Mapping[TableName, Keys],
    known: Mapping[TableName, set[str]],
) -> None:
    foreign = [_whole(name, key, keys, known) for key in mine.foreign]
    mine.foreign[:] = dict.fromkeys(foreign)
    mine.unique[:] = dict.fromkeys(columns for columns in mine.unique if columns != mine.primary)
    mine.not_null[:] = dict.fromkeys(mine.not_null)
    named = (mine.primary, *mine.unique, mine.not_null, *(key.columns for key in mine.foreign))
    for columns in named:
        for column in columns:
            if column not in known[name]:
                raise _no_column(name, column)


def _whole(
    name: TableName,
    key: Reference,
    keys: Mapping[TableName, Keys],
    known: Mapping[TableName, set[str]],
) -> Reference:
    """The foreign key with the columns that it refers to."""
    said = f"its foreign key on ({', '.join(key.columns)})"
    theirs = keys.get(key.table)
    if theirs is None:
        raise ConfigError(
            f"{said} refers to {key.table}, and the files hold no such table.", table=str(name)
        )
    references = key.references or theirs.primary
    candidates = {frozenset(columns) for columns in (theirs.primary, *theirs.unique) if columns}
    if frozenset(references) not in candidates or len(references) != len(key.columns):
        raise ConfigError(
            f"{said} refers to {key.table} ({', '.join(references)}), which is no key of as many "
            "columns there.",
            table=str(name),
            remedy=f'Declare one: [source.tables."{key.table}"] primary_key = […], or unique.',
        )
    return Reference(key.columns, key.table, references)


def _no_column(table: TableName, column: str) -> ConfigError:
    return ConfigError(
        "[source.tables] or a key of the file names it, and there is no such column to read.",
        table=str(table),
        column=column,
    )
