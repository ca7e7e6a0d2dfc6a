"""Natural keys of private look-ups: the values of the columns that refer to them are released.

A currency, the day or the state of an order is a fact about the row that has it. So a column that
refers to a look-up by a readable key is modelled as a column of labels or dates, and not as a
reference: the rows of the look-up are never read for it, and a row keeps its value if the look-up's
row is removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from privbench.config import TableConfig
from privbench.errors import ConfigError
from privbench.roles.classes import PERSON_LIKE
from privbench.roles.facts import is_calendar, is_readable, refers_by_label
from privbench.roles.propose import propose
from privbench.schema import Schema, Table

_REMEDY = "Take 'natural' out of its section: its keys are then surrogates."


def with_natural_keys(
    schema: Schema,
    sections: Mapping[str, TableConfig],
    owners: Mapping[str, tuple[str, ...] | None],
) -> Schema:
    """Return the schema, with foreign keys marked whose columns hold values, not references.

    ``owners`` has the columns of every table's OWN key.

    Raises:
        ConfigError: A table has no natural key, or one that may not be released.
    """
    lookups = {name for name, section in sections.items() if section.natural}
    if not lookups:
        return schema
    proposed = propose(schema).tables
    for name in sorted(lookups):
        table = schema.table(name)
        owned = [
            other.key
            for other in schema
            for key in other.foreign_keys
            if key.ref_table == table.name and {*key.columns} == {*(owners[other.key] or ())}
        ]
        reason = _refusal(table, sections[name], owners[name], owned)
        kind = proposed[name].kind
        if reason is None and kind in PERSON_LIKE:
            reason = f"it seems to hold people or organisations ({kind.label})."
        if reason is None and proposed[name].secretive:
            reason = f"its keys may be secrets ({kind.label})."
        if reason is not None:
            raise ConfigError(f"'natural' cannot stand here: {reason}", table=name, remedy=_REMEDY)
    calendars = {name for name in lookups if is_calendar(schema.table(name))}
    marked = list[Table]()
    for table in schema:
        keys = tuple(
            replace(key, natural=True)
            if str(key.ref_table) in lookups
            and sections[table.key].role == "private"
            and not _skipped(sections[table.key], key.columns)
            and refers_by_label(table, key, schema.table(key.ref_table))
            else key
            for key in table.foreign_keys
        )
        dated = dict.fromkeys(table.primary_columns, table.key)
        dated |= {key.columns[0]: str(key.ref_table) for key in keys if key.natural}
        columns = (
            replace(column, dated=dated[column.name])
            if dated.get(column.name) in calendars
            else column
            for column in table.columns
        )
        marked.append(replace(table, columns=tuple(columns), foreign_keys=keys))
    return replace(schema, tables=tuple(marked))


def _refusal(
    table: Table, section: TableConfig, own: Sequence[str] | None, owned: Sequence[str]
) -> str | None:
    """Why the values of a table's key may not be released, or None."""
    if section.role == "public":
        return "a public table is copied verbatim, with its keys."
    if own:
        return f"its rows are owned through {', '.join(own)}."
    if owned:
        return f"it owns rows of {', '.join(owned)}."
    if not is_readable(table):
        return (
            "its primary key is not one text or date without a reference, or says who somebody is."
        )
    return None


def _skipped(section: TableConfig, columns: Sequence[str]) -> bool:
    return any(name in section.columns and section.columns[name].kind == "skip" for name in columns)
