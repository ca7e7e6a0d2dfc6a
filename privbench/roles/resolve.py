"""Determine the OWN key of every table, and refuse roles that the privacy contract forbids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from privbench.config import ColumnConfig, Config, TableConfig
from privbench.errors import ConfigError, SchemaError
from privbench.schema import ForeignKey, Schema, Table, TableName

Owners = dict[str, tuple[str, ...] | None]


def resolve(schema: Schema, config: Config) -> Owners:
    """The columns of every table's OWN key; None for a root and for a public table.

    Tables of which the config says nothing are roots. A config that names what does not exist, or
    gives ``own`` where it cannot stand, is a ConfigError; where ``own`` is no foreign key, or the
    roles break the privacy contract, that is a SchemaError.
    """
    found = sections(schema, config)
    for table in schema:
        _check_columns(table, found[table.key])
        _check_public(schema, table, found)
    keys = {table.key: _own(schema, table, found, config.privacy.unit) for table in schema}
    _check_acyclic(keys)
    return {name: key.columns if key else None for name, key in keys.items()}


def sections(schema: Schema, config: Config) -> dict[str, TableConfig]:
    """The section of every table, found under any spelling of its name; no table may have two."""
    found: dict[str, TableConfig] = {}
    for name, section in config.tables.items():
        key = str(TableName.parse(name))
        if key not in schema:
            raise ConfigError(
                "the config has a section for this table, but the schema has no such table "
                "(or it is excluded).",
                table=key,
                remedy=_did_you_mean(
                    key, [table.key for table in schema], "Take the section out of the config."
                ),
            )
        if key in found:
            raise ConfigError("the config names this table twice.", table=key)
        found[key] = section
    for name, columns in config.computed.items():
        # A load computes these columns from others, so nothing is read or measured for them.
        key = str(TableName.parse(name))
        said = found.get(key, TableConfig())
        skipped = dict.fromkeys(columns, ColumnConfig(kind="skip"))
        found[key] = said.model_copy(update={"columns": {**said.columns, **skipped}})
    return {table.key: found.get(table.key, TableConfig()) for table in schema}


def _did_you_mean(name: str, known: list[str], otherwise: str) -> str:
    close = get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]}?" if close else otherwise


def _check_columns(table: Table, section: TableConfig) -> None:
    known = [column.name for column in table.columns]
    for name in [*section.columns, *(section.own or ())]:
        if name not in known:
            raise ConfigError(
                "the config names this column, but the table has no such column.",
                table=table.key,
                column=name,
                remedy=_did_you_mean(name, known, f"Columns: {', '.join(known)}."),
            )


def _check_public(schema: Schema, table: Table, sections: Mapping[str, TableConfig]) -> None:
    """Refuse a public table that has rules or an owner, or that refers to a private table."""
    section = sections[table.key]
    if section.role != "public":
        return
    for check in table.checks:
        if check.declared:
            raise ConfigError(
                f"the rule {check.expression!r} cannot be kept: a public table is copied verbatim.",
                table=table.key,
                remedy="Take its rules out of the config, or declare it private.",
            )
    if section.own:
        raise ConfigError(
            "a public table has no owner.",
            table=table.key,
            remedy="Take 'own' out of its section, or declare it private.",
        )
    for key in (*table.foreign_keys, *table.arrays):
        parent = str(key.ref_table)
        if parent in schema and sections[parent].role == "private":
            raise SchemaError(
                f"this public table points to the private table {parent}: a verbatim copy would "
                "publish which private rows exist.",
                table=table.key,
                column=", ".join(key.columns),
                remedy=f"Declare {table.key} private, or drop the key column before the clone.",
            )


def _own(
    schema: Schema, table: Table, sections: Mapping[str, TableConfig], unit: str
) -> ForeignKey | None:
    """The OWN key that a table's section names."""
    columns = sections[table.key].own
    if not columns:
        return None
    keys = [key for key in table.foreign_keys if set(key.columns) == set(columns)]
    key = keys[0] if keys else None
    parent = str(key.ref_table) if key else ""
    if unit == "row":
        said, remedy = "unit = 'row' has no OWN keys.", 'Set own = [], or unit = "owner".'
    elif key is None:
        said = "'own' names columns that are not a foreign key of this table."
        known = "; ".join(", ".join(key.columns) for key in table.foreign_keys)
        remedy = f"Its foreign keys: {known}." if known else "It has no foreign key: set own = []."
    elif key.when is not None:
        said = "a reference whose target depends on a type owns nothing."
        remedy = "Name a key with a single target, or set own = []."
    elif len(keys) > 1 and any(other.declared for other in keys):
        said = f"'own' names columns of several references, to {_targets(keys)}."
        remedy = "Leave all but one of these references out of the config, or set own = []."
    elif key.is_self:
        said = "the OWN key points to its own table; keys on cycles are REF."
        remedy = "Leave it out of 'own'."
    elif parent not in schema:
        said = f"the OWN key points to {parent}, which is not part of the clone."
        remedy = "Include that table, or set own = []."
    elif sections[parent].role == "public":
        said = f"the OWN key points to the public table {parent}; public rows own nothing."
        remedy = f"Set own = [], or declare {parent} private."
    else:
        return key
    raise SchemaError(said, table=table.key, column=", ".join(columns), remedy=remedy)


def _targets(keys: Sequence[ForeignKey]) -> str:
    """What keys refer to, as text."""
    return " and ".join(f"{key.ref_table} ({', '.join(key.ref_columns)})" for key in keys)


def _check_acyclic(keys: Mapping[str, ForeignKey | None]) -> None:
    """Refuse OWN keys that form a cycle: they must be a forest."""
    for start in keys:
        line = [start]
        while (key := keys[line[-1]]) is not None and len(line) <= len(keys) + 1:
            line.append(str(key.ref_table))
            if line[-1] == start:
                raise SchemaError(
                    f"the OWN keys form a cycle: {' → '.join(line)}.",
                    table=start,
                    remedy="Set own = [] for one of these tables; its key becomes REF.",
                )
