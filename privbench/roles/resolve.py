"""Determine the OWN key of every table, and refuse roles that the privacy contract forbids."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from privbench.config import ColumnConfig, Config, TableConfig
from privbench.errors import ConfigError, SchemaError
from privbench.schema import ForeignKey, Schema, Table, TableName


def resolve(schema: Schema, config: Config) -> dict[str, tuple[str, ...] | None]:
    """Return the columns of every table's OWN key; None for a root and for a public table.

    Tables that the config does not mention are roots. A config that names what does not exist, or
    gives ``own`` for a table that cannot be owned, is a ConfigError; where ``own`` is no foreign
    key, or the roles break the privacy contract, a SchemaError is raised.
    """
    by_table = sections(schema, config)
    for table in schema:
        _check_columns(table, by_table[table.key])
        _check_public(schema, table, by_table)
    keys = {table.key: _own(schema, table, by_table, config.privacy.unit) for table in schema}
    for name in keys:
        _tops(keys, name)
    return {name: own[0].columns if own else None for name, own in keys.items()}


def sections(schema: Schema, config: Config) -> dict[str, TableConfig]:
    """Return the config's section of every table, under any spelling; refuse two for one table."""
    by_key: dict[str, TableConfig] = {}
    for name, section in config.tables.items():
        key = _key(schema, name)
        if key in by_key:
            raise ConfigError("the config names this table twice.", table=key)
        by_key[key] = section
    for name, columns in config.computed.items():
        # A load computes these columns from others, so nothing is read or measured for them.
        earlier = by_key.get(key := _key(schema, name), TableConfig())
        skipped = dict.fromkeys(columns, ColumnConfig(kind="skip"))
        by_key[key] = earlier.model_copy(update={"columns": {**earlier.columns, **skipped}})
    return {table.key: by_key.get(table.key, TableConfig()) for table in schema}


def _key(schema: Schema, name: str) -> str:
    """The key of a table that a config names, under any spelling of its name."""
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
    return key


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
) -> Sequence[ForeignKey]:
    """The OWN key that a table's section names; one for each type of a key by types."""
    columns = sections[table.key].own
    if not columns:
        return ()
    keys = [key for key in table.foreign_keys if set(key.columns) == set(columns)]
    key = keys[0] if keys else None
    parent = str(key.ref_table) if key else ""
    if unit == "row":
        fault, remedy = "unit = 'row' has no OWN keys.", 'Set own = [], or unit = "owner".'
    elif key is None:
        fault = "'own' names columns that are not a foreign key of this table."
        known = "; ".join(", ".join(key.columns) for key in table.foreign_keys)
        remedy = f"Its foreign keys: {known}." if known else "It has no foreign key: set own = []."
    elif len({other.when and other.when[0] for other in keys}) > 1 or (
        key.when is None and len(keys) > 1 and any(other.declared for other in keys)
    ):
        fault = f"'own' names columns of several references, to {_targets(keys)}."
        remedy = "Leave all but one of these references out of the config, or set own = []."
    elif any(other.is_self for other in keys):
        fault = "the OWN key points to its own table; keys on cycles are REF."
        remedy = "Leave it out of 'own'."
    elif parent not in schema:
        fault = f"the OWN key points to {parent}, which is not part of the clone."
        remedy = "Include that table, or set own = []."
    elif sections[parent].role == "public":
        fault = f"the OWN key points to the public table {parent}; public rows own nothing."
        remedy = f"Set own = [], or declare {parent} private."
    else:
        return keys if key.when else [key]
    raise SchemaError(fault, table=table.key, column=", ".join(columns), remedy=remedy)


def _targets(keys: Sequence[ForeignKey]) -> str:
    """What keys refer to, as text."""
    return " and ".join(f"{key.ref_table} ({', '.join(key.ref_columns)})" for key in keys)


def _tops(owners: Mapping[str, Sequence[ForeignKey]], table: str, *below: str) -> set[str]:
    """The roots of the trees that a table's rows may lie in; OWN keys must be a forest."""
    line = (*below, table)
    if table in below:
        cycle = " → ".join(line[below.index(table) :])
        raise SchemaError(
            f"the OWN keys form a cycle: {cycle}.",
            table=table,
            remedy="Set own = [] for one of these tables; its key becomes REF.",
        )
    above = [_tops(owners, str(key.ref_table), *line) for key in owners[table]]
    tops = set[str]().union(*above) or {table}
    if len(tops) > 1:
        raise SchemaError(
            "'own' names a key by types, and their tables are not of one tree, but of those of "
            f"{', '.join(sorted(tops))}.",
            table=table,
            column=", ".join(owners[table][0].columns),
            remedy="Name another key, let one tree own these tables, or set own = [].",
        )
    return tops
