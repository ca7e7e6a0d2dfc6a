"""Find columns that seem to be references without a constraint, by names and types alone."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from privbench.config import ReferenceConfig, TargetConfig
from privbench.roles.facts import is_readable
from privbench.roles.references import is_array_of_keys
from privbench.schema import Column, Schema, Table
from privbench.words import listed, noun, of_person, singular, snake, words

#: Base types of keys that PostgreSQL compares by functions of its own.
_KEYS = frozenset({"int2", "int4", "int8", "uuid", "text", "varchar", "bpchar", "numeric"})
#: Most tables that are proposed as types of one reference: each costs a part of the budget.
MOST_TYPES = 6
#: Words of `keys.suffix` that may be those of another key than the primary one.
_OF_ONE = frozenset({"no", "number", "code"})
#: Words of `keys.suffix` that count several things if they stand before them.
_NUMBER = frozenset({"no", "nr", "num", "number"})


def undeclared(schema: Schema, settled: Collection[str] = ()) -> dict[str, list[ReferenceConfig]]:
    """Return the references that columns seem to be, by table, except for ``settled`` tables.

    The column's type must be that of the key, or an array of it, and its name must name the table:
    it ends with the table's words, or is the name of the primary key of one table alone, or of a
    foreign key elsewhere. A table of another schema has to be named with its schema. Or a column
    that is no array has to say that a person owns the row or acts (`_person`). Where several tables
    fit, no reference is proposed.
    """
    references: dict[str, list[ReferenceConfig]] = {}
    people = [table for table in schema if of_person(noun(table.name.name))]
    for table in schema:
        excluded = {*table.key_columns, *table.loose, *table.periods}
        for column in table.columns if table.key not in settled else ():
            alone = table.primary_columns == (column.name,)
            if alone or column.name in excluded or column.generated or _counts(column.name):
                continue
            name, each = column.name, is_array_of_keys(table, column)
            if each:
                column = replace(column, name=name.removesuffix("s"), type=column.type.parts[0])
            if column.type.base not in _KEYS:
                continue
            target = _key_by_name(schema, table, column) or _alike(schema, table, column)
            if each and target and is_readable(schema.table(target[0])):
                continue  # its keys are values of the row that refers, released as labels
            item = None if target or each else _polymorphic_key(schema, table, column)
            target = target if target or item or each else _person(people, table, column)
            if target is not None:
                parent, ref_column, reason = target
                to = TargetConfig(table=parent, columns=[ref_column])
                item = ReferenceConfig(columns=[name], to=to, each=each, reason=reason)
            if item is not None:
                references.setdefault(table.key, []).append(item)
    return references


def _counts(name: str) -> bool:
    """Whether a name says how many things there are.

    >>> _counts("num_invoices"), _counts("numberOfPeople"), _counts("num_client"), _counts("no")
    (True, True, False, False)
    """
    last = snake(name).rpartition("_")[2]
    return bool(_NUMBER & {*words(name)[:1]}) and singular(last) != last


def _polymorphic_key(schema: Schema, table: Table, column: Column) -> ReferenceConfig | None:
    """A key beside a column of types, as frameworks make them: ``x_type`` and ``x_id``.

    The types are the tables of the schema with a key ``id`` of the column's type, by the names that
    classes of them have, or by the labels that a CHECK allows; none if there are many.
    """
    stem, _, end = column.name.rpartition("_")
    beside = next((other for other in table.columns if other.name == f"{stem}_type"), None)
    if end != "id" or beside is None or beside.type.base not in ("text", "varchar"):
        return None
    stated = (rule.values for rule in table.rules if rule.columns == (beside.name,) and rule.values)
    labels = next(stated, ())
    targets = [
        target
        for target in schema
        if target.name.schema == table.name.schema
        and target.primary_columns == ("id",)
        and target.column("id").type.base == column.type.base
        and beside.name not in [other.name for other in target.columns]
    ]
    named = {noun(target.name.name): target for target in targets}
    if labels:
        chosen = {label: named[noun(label)] for label in labels if noun(label) in named}
    else:
        chosen = {"".join(map(str.capitalize, words(one.name.name))): one for one in targets}
    if not chosen or len(chosen) > MOST_TYPES:
        return None
    types = {name: TargetConfig(table=one.key, columns=["id"]) for name, one in chosen.items()}
    reason = "stands beside a column of types; check their names"
    return ReferenceConfig(columns=[column.name], type=f"{stem}_type", types=types, reason=reason)


def _key_by_name(schema: Schema, table: Table, column: Column) -> tuple[str, str, str] | None:
    """The key of the table whose words the column's name ends with; the longest name decides."""
    suffix, whole = listed("keys", "suffix"), words(column.name)
    stem = whole
    while stem and stem[-1] in suffix:
        stem = stem[:-1]
    ending = whole[len(stem) :]
    while stem and stem[0] in suffix:
        stem, ending = stem[1:], (*ending, stem[0])
    if not stem or not ending:
        return None
    named = [
        (len(called), target)
        for target in _near(schema, table, whole)
        if (called := noun(target.name.name)) == stem[-len(called) :]
        and not (target is table and called == stem)
    ]
    longest = max((length for length, _ in named), default=0)
    targets = [target for length, target in named if length == longest]
    name = _key_of(targets[0], column, ending) if len(targets) == 1 else None
    if name is None:
        return None
    return targets[0].key, name, "called after the table, and of its key's type"


def _key_of(target: Table, column: Column, ending: tuple[str, ...]) -> str | None:
    """The key that a column's name means: of the same name or ending, else the primary key."""
    single = [unique.columns[0] for unique in target.unique_sets if len(unique.columns) == 1]
    endings = (words(column.name), ending)
    chosen = [name for name in single if words(name) in endings]
    if not _OF_ONE & {*ending}:
        chosen += [name for name in single if target.primary_columns == (name,)]
    kind = column.type.base
    return next((name for name in chosen if target.column(name).type.base == kind), None)


def _alike(schema: Schema, table: Table, column: Column) -> tuple[str, str, str] | None:
    """The key that has the column's name, or to which foreign keys of that name lead."""
    name = column.name.lower()
    keys = {
        (str(key.ref_table), key.ref_columns[0]): "a column of this name is a foreign key elsewhere"
        for other in schema
        for key in other.foreign_keys
        if len(key.columns) == 1 and key.columns[0].lower() == name and len(words(name)) > 1
    }
    if not keys:
        keys = {
            (target.key, target.primary_columns[0]): "has the name and type of the table's key"
            for target in schema
            if len(words(name)) > 1 and [*map(str.lower, target.primary_columns)] == [name]
        }
    near = {target.key: target for target in _near(schema, table, words(name))}
    if len(keys) != 1 or table.key in {key for key, _ in keys}:
        return None
    (((key, ref_column), reason),) = keys.items()
    same = key in near and near[key].column(ref_column).type.base == column.type.base
    return (key, ref_column, reason) if same else None


def _person(people: Sequence[Table], table: Table, column: Column) -> tuple[str, str, str] | None:
    """The key of the one table of people, for a column that names who owns the row or acts.

    Numbers have to end as keys do, and stay within their schema; a UUID is the key of nothing else.
    """
    name_words, suffix = words(column.name), listed("keys", "suffix")
    core, uuid = [word for word in name_words if word not in suffix], column.type.base == "uuid"
    acts = core[1:] == ["by"] and core[0] in listed("keys", "act")
    owns = len(core) == 1 and core[0] in listed("keys", "owner") - listed("tables", "proxy")
    ending = {*name_words[len(core) :]}
    near = column.type.category == "N" and ending and not ending & _OF_ONE
    same = [
        (target.key, *target.primary_columns)
        for target in people
        if (uuid or (near and target.name.schema == table.name.schema))
        and [target.column(key).type.base for key in target.primary_columns] == [column.type.base]
    ]
    if not (acts or owns) or len(same) != 1 or same[0][0] == table.key:
        return None
    ((parent, key),) = same
    return parent, key, "names a person, and has the type of their key"


def _near(schema: Schema, table: Table, whole: tuple[str, ...]) -> Iterator[Table]:
    """The tables of the same schema, and of other schemas whose words are in the name."""
    for target in schema:
        away = target.name.schema
        if away == table.name.schema or (words(away) and {*words(away)} <= {*whole}):
            yield target
