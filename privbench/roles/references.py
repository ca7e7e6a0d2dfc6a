"""References in the config: keys that only the application knows become keys of the schema.

A reference is a `ForeignKey` like any other for all code that reads, releases or generates rows. No
constraint is made of it, and nothing relies on rows having targets: a value without a target is
treated as for a foreign key that rows violate.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count
from uuid import UUID

from privbench.config import Config, ReferenceConfig, TargetConfig
from privbench.errors import ConfigError
from privbench.limits import MAX_NAME
from privbench.schema import Column, ForeignKey, Schema, Table, TableName

#: Bits of integers without their sign; and types of texts.
_BITS = {"int2": 15, "int4": 31, "int8": 63}
_TEXTS = frozenset({"text", "varchar", "bpchar"})
#: Types of elements that may be keys.
_ELEMENTS = frozenset({*_BITS, *_TEXTS, "uuid"})


def referenced(schema: Schema, config: Config) -> Schema:
    """Return the schema with the config's references added as keys, if it lacks them.

    Raises:
        ConfigError: A reference names what does not exist, leads to columns that are no key, stands
            on a generated column, or is a foreign key of the database already.
    """
    declared = {TableName.parse(name): item.references for name, item in config.tables.items()}
    tables = (
        _with_keys(schema, table, declared[table.name]) if declared.get(table.name) else table
        for table in schema
    )
    return replace(schema, tables=tuple(tables))


def _with_keys(schema: Schema, table: Table, references: Sequence[ReferenceConfig]) -> Table:
    keys, arrays = [*table.foreign_keys], [*table.arrays]
    declared = set[tuple[object, ...]]()
    for item in references:
        for when, to in targets(item):
            target = _target(schema, table, item, to)
            target_columns = tuple(to.columns) or target.primary_columns
            _check(table, item, target, target_columns)
            _check_array(table, item)
            chosen = arrays if item.each else keys
            place = tuple(item.columns), target.name, target_columns, when
            same = [k for k in chosen if (k.columns, k.ref_table, k.ref_columns, k.when) == place]
            again = item.each and any(k.columns == place[0] for k in arrays if k not in same)
            if place in declared or again or any(not key.declared for key in same):
                already = (
                    "declared" if place in declared or again else "a foreign key of the database"
                )
                fault = f"the reference is {already} already."
                raise _refused(table, item, fault, "Take it out of the config.")
            declared.add(place)
            if not same:
                none = tuple(_none(table, item, value) for value in item.none)
                plain = (
                    not none and target_columns == target.primary_columns and len(item.columns) == 1
                )
                apart = [] if plain else [target_columns, none]
                words = [*item.columns, *(when or ())[1:]]
                name = next(_names(table, words, apart, {key.name for key in keys + arrays}))
                key = ForeignKey(name, table.name, *place[:3], validated=False, declared=True)
                chosen.append(replace(key, none=none, when=when))
    keys, arrays = (sorted(chosen, key=lambda key: key.name) for chosen in (keys, arrays))
    return replace(table, foreign_keys=tuple(keys), arrays=tuple(arrays))


def targets(item: ReferenceConfig) -> Iterator[tuple[tuple[str, str] | None, TargetConfig]]:
    """Yield what the key of a row refers to; for several tables, with the column and value.

    The column's value selects the table.
    """
    if item.to is not None:
        yield None, item.to
    for name, target in item.types.items():
        yield (str(item.type), name), target


def _names(
    table: Table, words: Sequence[str], apart: Sequence[object], used: set[str]
) -> Iterator[str]:
    """Free names for a key; the first follows from the table, these words and ``apart`` alone.

    The ledger knows an owner by the name of its key and its table. So keys that give rows other
    owners, by other columns or other values that mean none, need other names.
    """
    whole = "_".join([table.name.name, *words]).encode()
    digest = sha256(json.dumps([*words, *apart]).encode()).hexdigest()[:8]
    for number in count(1):
        end = "_reference" + (str(number) if number > 1 else "")
        if apart or len(whole) + len(end) > MAX_NAME:
            end = f"_{digest}{end}"
        name = whole[: MAX_NAME - len(end)].decode(errors="ignore") + end
        if name not in used:
            yield name


def _target(schema: Schema, table: Table, item: ReferenceConfig, to: TargetConfig) -> Table:
    name = TableName.parse(to.table)
    if name in schema:
        return schema.table(name)
    fault = f"the reference leads to {name}, and there is no such table (or it is excluded)."
    raise _refused(table, item, fault, "Take it out of the config, or include that table.")


def _check(
    table: Table, item: ReferenceConfig, target: Table, target_columns: Sequence[str]
) -> None:
    """Refuse a reference that cannot be a key."""
    columns = {column.name: column for column in table.columns}
    for name in [*item.columns, *([] if item.type is None else [item.type])]:
        if name not in columns:
            known = ", ".join(columns)
            fault = f"the reference names {name}, and there is no such column."
            raise _refused(table, item, fault, f"Columns: {known}.")
        if columns[name].generated:
            fault, remedy = "a generated column cannot hold a reference.", "Take it out."
            raise _refused(table, item, fault, remedy)
    sets = [unique.columns for unique in target.unique_sets]
    if {*target_columns} not in map(set, sets) or len(target_columns) != len({*item.columns}):
        raise _refused(
            table,
            item,
            f"the reference leads to {target.key} ({', '.join(target_columns)}), which is no "
            "primary key or UNIQUE set of as many columns.",
            f"Its keys: {'; '.join(', '.join(names) for names in sets)}."
            if sets
            else "Take it out of the config.",
        )
    if any("\0" in name for name in item.types):
        raise _refused(table, item, "a type has a name that no text holds.", "Take it out.")
    if item.none and len(item.columns) > 1:
        raise _refused(table, item, "'none' is for references of one column.", "Take it out.")


def is_array_of_keys(table: Table, column: Column) -> bool:
    """Return whether the elements of a column may be keys: an array, of no domain and in no key."""
    keys = {*table.key_columns, *(name for item in table.unique_sets for name in item.columns)}
    kind = column.type
    plain = kind.category == "A" and kind.domain is None and kind.element in _ELEMENTS
    return plain and column.name not in keys


def _check_array(table: Table, item: ReferenceConfig) -> None:
    """Refuse a reference of an array's elements that cannot be honoured."""
    column = table.column(item.columns[0])
    if item.each and not is_array_of_keys(table, column):
        fault = (
            "'each' is for arrays of integers, UUIDs and texts that are in no key, and no domain; "
            f"the type is {column.type.sql}."
        )
        raise _refused(table, item, fault, "Take 'each' out, or leave the reference out.")


def _none(table: Table, item: ReferenceConfig, value: str | int) -> str:
    """A value that refers to nothing, as the server prints it; refused if it is no such value."""
    kind = table.column(item.columns[0]).type
    text = str(value)
    try:
        if kind.base in _BITS:
            text = str(int(value))
            fits = -1 <= int(value) >> _BITS[kind.base] <= 0
        elif kind.base == "uuid":
            text, fits = str(UUID(text)), True
        else:
            fits = kind.base in _TEXTS and len(text) <= (kind.length or len(text))
            fits &= "\0" not in text
    except ValueError:
        fits = False
    if fits:
        return text.rstrip(" ") if kind.base == "bpchar" else text
    fault = f"'none' has {value!r}, which no column of type {kind.sql} holds, or only as another."
    raise _refused(table, item, fault, "'none' has values of integers, texts and UUIDs.")


def _refused(table: Table, item: ReferenceConfig, fault: str, remedy: str) -> ConfigError:
    return ConfigError(fault, table=table.key, column=", ".join(item.columns), remedy=remedy)
