"""Columns and keys of tables that are read from files, as the files or the config declare them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from privbench.config import SourceConfig, SourceTableConfig
from privbench.errors import ConfigError, SchemaError
from privbench.schema import ForeignKey, TableName
from privbench.sources.files import FileTable, refuse_name
from privbench.sources.types import declared_type

logger = logging.getLogger(__name__)


def settle(tables: Sequence[FileTable], config: SourceConfig | None) -> list[FileTable]:
    """Return the tables with all their keys, without the columns that are left out.

    Columns and a primary key in the config take precedence over those of the file.

    Raises:
        ConfigError: The config names a table or column that is not there, or a foreign key leads to
            columns that are no key.
        SchemaError: There are no tables, the files of one differ and the config does not declare
            its columns, or PostgreSQL does not allow the name of a column.
    """
    known = {table.name: table for table in tables}
    known = {name: _with_stated(table, known) for name, table in known.items()}
    declared = set()
    for text, section in (config or SourceConfig()).tables.items():
        name = TableName.parse(text)
        table = known.get(name, FileTable(name, {}, {}))
        if section.columns:
            declared.add(name)
        if name not in known and not section.columns:
            raise ConfigError(
                "the files hold no such table, although [source.tables] names it.",
                table=str(name),
                remedy="Declare its columns, if it may have no rows and so no file.",
            )
        known[name] = _with_section(table, section)
    if not known:
        raise SchemaError("the source holds no tables.")
    for name, table in known.items():
        if name not in declared:
            _require_equal_columns(table)
    # A declared table without a file stands where it would stand with one.
    return [_settled(known[name], known) for name in sorted(known, key=str)]


def _with_stated(table: FileTable, known: Mapping[TableName, FileTable]) -> FileTable:
    """The table with what its Parquet file states, but for keys into absent tables."""
    if not table.stated:
        return table
    try:
        section = SourceTableConfig.model_validate_json(table.stated)
    except ValidationError:
        fault = "its file states its keys (privbench.keys) in a way that cannot be read."
        raise SchemaError(fault, table=table.key) from None
    foreign = [key for key in section.foreign_keys if TableName.parse(key.table) in known]
    changes = {"columns": {}, "leave_out": [], "foreign_keys": foreign}
    texts = [name for name, kind in table.columns.items() if kind == "VARCHAR"]
    types = {name: section.columns[name] for name in texts if name in section.columns}
    table = replace(table, columns=table.columns | _declared(table, types))
    return _with_section(table, section.model_copy(update=changes))


def _with_section(table: FileTable, section: SourceTableConfig) -> FileTable:
    """The table with the keys and columns that its section of the config states."""
    if section.columns:
        table = replace(table, columns=_declared(table, section.columns))
    _require_columns(table, sorted(section.leave_out))
    columns = table.columns.items()
    foreign = (
        ForeignKey(
            "",
            table.name,
            tuple(key.columns),
            TableName.parse(key.table),
            tuple(key.references),
        )
        for key in section.foreign_keys
    )
    return replace(
        table,
        columns={name: kind for name, kind in columns if name not in section.leave_out},
        primary=tuple(section.primary_key) or table.primary,
        unique=(*table.unique, *map(tuple, section.unique)),
        not_null=(
            *(n for n in table.not_null if n in table.columns and n not in section.leave_out),
            *section.not_null,
        ),
        foreign=(*table.foreign, *foreign),
    )


def _declared(table: FileTable, columns: Mapping[str, str]) -> dict[str, str]:
    """Columns as the config declares them, with their types as DuckDB prints them."""
    types = {}
    for name, text in columns.items():
        kind = declared_type(text)
        if kind is None:
            raise ConfigError(
                f"{text!r} is no type of a column of files.",
                table=table.key,
                column=name,
                remedy="docs/sources.md lists them in the first column of its table.",
            )
        types[name] = kind
        if table.relations and not any(name in there for there in table.relations.values()):
            logger.warning("%s: column %s is in no file, and NULL everywhere", table.key, name)
    return types


def _require_equal_columns(table: FileTable) -> None:
    """Refuse files of different columns, types or order: the first must not decide for all."""
    if len({tuple(columns.items()) for columns in table.relations.values()}) > 1:
        raise SchemaError(
            "its files have different columns or types, or columns in another order.",
            table=table.key,
            remedy='Declare all its columns in the config, columns = {name = "TYPE", …} under '
            f"[source.tables.'{table.key}'].",
        )


def _settled(table: FileTable, known: Mapping[TableName, FileTable]) -> FileTable:
    """The table with duplicate keys removed; a key whose columns the table lacks is refused."""
    for name in table.columns:
        refuse_name(name, table.key, "column")
    foreign = dict.fromkeys(_with_targets(table, key, known) for key in table.foreign)
    unique = dict.fromkeys(columns for columns in table.unique if columns != table.primary)
    for columns in (table.primary, *unique, table.not_null, *(key.columns for key in foreign)):
        _require_columns(table, columns)
    return replace(table, unique=tuple(unique), foreign=tuple(foreign))


def _with_targets(
    table: FileTable, key: ForeignKey, known: Mapping[TableName, FileTable]
) -> ForeignKey:
    """The foreign key, with the columns that it refers to filled in."""
    subject = f"its foreign key on ({', '.join(key.columns)})"
    target = known.get(key.ref_table)
    if target is None:
        raise ConfigError(
            f"{subject} refers to {key.ref_table}, and the files hold no such table.",
            table=table.key,
        )
    references = key.ref_columns or target.primary
    candidates = {frozenset(columns) for columns in (target.primary, *target.unique) if columns}
    if frozenset(references) not in candidates or len(references) != len(key.columns):
        raise ConfigError(
            f"{subject} refers to {key.ref_table} ({', '.join(references)}), which is no key of as "
            "many columns there.",
            table=table.key,
            remedy=f'Declare one: [source.tables."{key.ref_table}"] primary_key = […], or unique.',
        )
    return replace(key, ref_columns=references)


def _require_columns(table: FileTable, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in table.columns:
            raise ConfigError(
                "[source.tables] or a key of the file names it, and there is no such column to "
                "read.",
                table=table.key,
                column=column,
            )
