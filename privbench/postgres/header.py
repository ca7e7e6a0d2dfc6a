"""A model's header against the tables that its DDL has made.

The header is a text that somebody else may have written. What it says of types, defaults and
generated columns never becomes SQL: the target's own catalog says these anew, and of the header
only names stay, which must be those of tables and columns that the load has made.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from privbench.errors import ModelError
from privbench.schema import Schema, Table

_REMEDY = "The file is damaged or forged: fit the model again."


def as_made(told: Schema, made: Schema) -> Schema:
    """The header's schema with columns, kinds and sequences as the target's catalog states them.

    Args:
        told: What the header says.
        made: What `introspect` says of the target, after the DDL of the tables.

    Raises:
        ModelError: The header speaks of a table or column that the DDL does not make.
    """
    known = {table.name: table for table in made}
    tables = []
    for table in told:
        if table.name not in known:
            raise ModelError(
                "is in the model's header, but its DDL does not make it.",
                table=table.key,
                remedy=_REMEDY,
            )
        tables.append(_as_made(table, known[table.name]))
        for key in table.foreign_keys:
            target = known.get(key.ref_table)
            if target is None:
                raise ModelError(
                    f"refers to {key.ref_table}, which the model's DDL does not make.",
                    table=table.key,
                    remedy=_REMEDY,
                )
            _refuse_unknown(target, key.ref_columns, {column.name for column in target.columns})
    return replace(told, tables=tuple(tables), sequences=made.sequences)


def _as_made(told: Table, made: Table) -> Table:
    columns = {column.name: column for column in made.columns}
    keys = [name for key in told.foreign_keys for name in key.columns]
    keys += [name for unique in told.unique_sets for name in unique.columns]
    _refuse_unknown(told, [column.name for column in told.columns], columns)
    _refuse_unknown(told, keys, columns)
    _refuse_unknown(told, columns, {column.name for column in told.columns})
    for column in told.columns:
        if column.generated != columns[column.name].generated:
            raise ModelError(
                "the model's header and its DDL disagree on whether it is generated.",
                table=told.key,
                column=column.name,
                remedy=_REMEDY,
            )
    return replace(
        told, columns=tuple(columns[column.name] for column in told.columns), kind=made.kind
    )


def _refuse_unknown(table: Table, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise ModelError(
                "the model's header and its DDL disagree on whether there is such a column.",
                table=table.key,
                column=name,
                remedy=_REMEDY,
            )
