"""What the catalog says of tables and keys, in the form that the rules for roles use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from privbench.schema import Column, ForeignKey, Schema, Table
from privbench.words import (
    calendar_part,
    listed,
    lists,
    noun,
    of_person,
    personal_kinds,
    stem,
    words,
)

#: Codes of countries, currencies, airports and the like are shorter than this.
_LONG = 5
#: Kinds of personal columns that count in a composite primary key, and elsewhere.
_KEYED = frozenset({"person"})
_ALL = frozenset(lists()["personal"])
#: Types of readable keys, and the characters of a UUID as text, which nobody reads.
_TEXTS = frozenset({"text", "varchar", "bpchar"})
_UUID_LENGTH = 36
#: Kinds of keys by type.
_KEYS = {**dict.fromkeys(_TEXTS, "text"), "int4": "number", "int8": "number", "date": "date"}


@dataclass(frozen=True)
class KeyFacts:
    """What the catalog says of one foreign key to another table of the schema."""

    key: ForeignKey
    parent: str  # key of the table it points to
    position: int  # least column number of its columns; orders a table's keys
    not_null: bool  # whether every column is NOT NULL
    is_primary: bool  # whether it covers exactly the primary key (a one-to-one extension)
    first_of_primary: bool  # whether it holds the primary key's first column
    in_primary: bool  # whether all its columns lie in the primary key
    deputy: bool  # whether its columns are named after a second party (editor, manager, parent)
    maker: bool  # whether they are named after who touched the row (``created_by``)
    # Whether they say that the target is a person (``user_id``), whatever it is called.
    to_person: bool
    paired: bool  # whether another key into the same table plays the opposite role (home and away)
    owner: bool  # whether they are called after the target, or by a word for an owner

    @property
    def cascades(self) -> bool:
        """Whether the rows are deleted with their parent."""
        return self.key.on_delete == "c"

    @property
    def released(self) -> bool:
        """Whether, by the catalog, a row stays when its parent is deleted."""
        return self.key.on_delete in "nd" and not self.not_null

    @property
    def columns(self) -> str:
        """The key's columns as text, for messages."""
        return ", ".join(self.key.columns)


@dataclass(frozen=True)
class TableFacts:
    """What the catalog says of one table."""

    table: Table
    noun: tuple[str, ...]  # words of its name, without words that say nothing (`names.noun`)
    keys: tuple[KeyFacts, ...]  # keys to other tables of the schema, by column number
    incoming: int  # how many keys of other tables point to it
    personal: frozenset[str]  # kinds of personal columns
    attributes: tuple[Column, ...]  # columns other than keys and book-keeping ones

    @property
    def name(self) -> str:
        """The table's name as ``schema.table``."""
        return self.table.key

    @property
    def head(self) -> str:
        """The last word of the name."""
        return self.noun[-1] if self.noun else ""

    @property
    def ends(self) -> frozenset[str]:
        """The last word, and the last two words joined: ``credit_card`` is a ``creditcard``."""
        return frozenset({self.head, "".join(self.noun[-2:])})

    @property
    def key_column(self) -> Column | None:
        """The column of the primary key if it has just one, else None."""
        primary = self.table.primary_columns
        return self.table.column(primary[0]) if len(primary) == 1 else None

    @property
    def identifying(self) -> frozenset[str]:
        """The kinds of personal data in its columns that identify a person."""
        kinds = lists()["personal"]
        return frozenset(kind for kind in self.personal if kinds[kind]["identifies"])

    @property
    def marked(self) -> frozenset[str]:
        """The kinds of personal data that show people; an address does not, as shops have one."""
        return self.personal - {"address", "death"}

    @property
    def is_natural(self) -> bool:
        """Whether its primary key is readable: codes, not numbers and no person's name.

        Several columns may form the key (course and term). Such a table lists what others refer to
        by values that people read. It refers to nothing.
        """
        primary = [self.table.column(name) for name in self.table.primary_columns]
        return (
            bool(primary)
            and not self.personal
            and not self.keys
            and not any(personal_kinds(column.name, column.type.category) for column in primary)
            and all(map(_is_code, primary))
        )

    @property
    def is_plain(self) -> bool:
        """Whether it has the shape of a look-up: few columns, none personal, no outgoing key."""
        columns = (column for column in self.table.columns if column.type.category != "B")
        personal = any(personal_kinds(column.name, column.type.category) for column in columns)
        return not (self.keys or personal or len(self.attributes) > 3)

    @property
    def is_junction(self) -> bool:
        """Whether it links tables: two keys in its primary key, or only keys and no referrer."""
        linked = {key.parent for key in self.keys if key.in_primary}
        bare = len(self.keys) >= 2 and not self.attributes and not self.incoming
        return len(linked) >= 2 or bare


def gather(schema: Schema) -> dict[str, TableFacts]:
    """Return the facts of every table, by its key, in the schema's order."""
    incoming: dict[str, int] = {table.key: 0 for table in schema}
    for table in schema:
        for key in table.foreign_keys:
            if not key.is_self and str(key.ref_table) in incoming:
                incoming[str(key.ref_table)] += 1
    return {table.key: _table_facts(table, incoming) for table in schema}


def _table_facts(table: Table, incoming: Mapping[str, int]) -> TableFacts:
    keys = [
        _key(table, key)
        for key in table.foreign_keys
        if not key.is_self and str(key.ref_table) in incoming and key.when is None
    ]
    primary = table.primary_columns
    called = noun(table.name.name)
    plain = [column for column in table.columns if column.name not in table.key_columns]
    kinds = {
        column.name: personal_kinds(column.name, column.type.category)
        & (_KEYED if column.name in primary else _ALL)
        for column in plain
        if (column.name,) != primary and column.type.category != "B"
    }
    # A dialling code is no person's phone, unless another column shows that the table holds people.
    if not any(columns for name, columns in kinds.items() if not _national(called, name)):
        kinds = {}
    personal = frozenset[str]().union(*kinds.values())
    bookkeeping = listed("columns", "bookkeeping")
    attributes = tuple(
        column
        for column in plain
        if (column.name,) != primary and not set(words(column.name)) <= bookkeeping
    )
    ordered = sorted(_paired(keys), key=lambda item: (item.position, item.key.columns))
    return TableFacts(table, called, tuple(ordered), incoming[table.key], personal, attributes)


def _paired(keys: list[KeyFacts]) -> Iterator[KeyFacts]:
    """The keys, told which of them play opposite roles; the second of a pair is a deputy."""
    first, second = set[ForeignKey](), set[ForeignKey]()
    for one, other in opposites([item.key for item in keys]):
        first.add(one)
        second.add(other)
    for item in keys:
        if item.key in second:
            item = replace(item, deputy=True)
        yield replace(item, paired=item.key in first | second)


def opposites(keys: Sequence[ForeignKey]) -> list[tuple[ForeignKey, ForeignKey]]:
    """Return pairs of keys of one table into the same columns with opposite roles by their names.

    The names differ in a pair of `pairs` in ``words.toml`` and in nothing else.
    """
    pairs = {tuple(pair) for pair in lists()["pairs"]}
    return [
        (one, other)
        for one, other in permutations(keys, 2)
        if (one.ref_table, one.ref_columns) == (other.ref_table, other.ref_columns)
        and _difference(one, other) in pairs
    ]


def _difference(one: ForeignKey, other: ForeignKey) -> tuple[str, ...]:
    """The words that stand in one key's name and in the other's instead, if it is one each."""
    own_words, other_words = (
        [word for name in key.columns for word in words(name)] for key in (one, other)
    )
    if len(own_words) != len(other_words):
        return ()
    differ = {pair for pair in zip(own_words, other_words, strict=True) if pair[0] != pair[1]}
    return differ.pop() if len(differ) == 1 else ()


def _is_code(column: Column) -> bool:
    """Whether a column of a primary key holds codes that people read, by its type and name."""
    kind, name_words = column.type, words(column.name)
    if kind.category == "N":
        return not {*name_words[-1:]}.isdisjoint(listed("columns", "calendar"))
    numbered = not {*name_words[-1:], *name_words[:1]}.isdisjoint(listed("keys", "numbered"))
    return kind.category in "DE" or (kind.category == "S" and (is_short(column) or not numbered))


def is_short(column: Column) -> bool:
    """Return whether a text column is too short for a name or a person's number."""
    return column.type.base in ("bpchar", "varchar") and (column.type.length or _LONG) < _LONG


def _national(table: tuple[str, ...], column: str) -> bool:
    """Whether a column of a table of countries is a dialling code or a format of postal codes."""
    of_countries = len(table) == 1 and table[0] in listed("tables", "words", "country")
    return of_countries and set(words(column)) <= listed("columns", "national")


def _key(table: Table, key: ForeignKey) -> KeyFacts:
    primary = table.primary_columns
    name_words = [word for name in key.columns for word in words(name)]
    target = set(words(key.ref_table.name))
    own_words = [word for word in name_words if word not in target]
    core = tuple(word for word in name_words if word not in listed("keys", "suffix"))
    goal = noun(key.ref_table.name)
    done_by = "by" in own_words and not {*own_words} & listed("keys", "act")
    named = len(key.columns) == 1 and core in (goal, goal[-1:])
    return KeyFacts(
        key=key,
        parent=str(key.ref_table),
        position=min(table.column(name).position for name in key.columns),
        not_null=all(table.column(name).not_null for name in key.columns),
        is_primary=set(key.columns) == set(primary),
        first_of_primary=bool(primary) and primary[0] in key.columns,
        in_primary=set(key.columns) <= set(primary),
        deputy=done_by or bool({*own_words} & listed("keys", "deputy")),
        maker=bool({*own_words} & listed("keys", "maker")),
        to_person=len(key.columns) == 1 and of_person(stem(key.columns[0])),
        paired=False,
        owner=named or bool(set(own_words) & listed("keys", "owner")),
    )


def is_readable(table: Table) -> bool:
    """Return whether the primary key is one text or date, no reference, and no name of a person."""
    key = _lone_key(table)
    return is_calendar(table) or (
        key is not None
        and key.type.base in _TEXTS
        and key.type.length != _UUID_LENGTH
        and not personal_kinds(key.name, key.type.category) & _ALL
    )


def _lone_key(table: Table) -> Column | None:
    """The primary key if it is one column, no reference, and without a default."""
    columns = [table.column(name) for name in table.primary_columns]
    if len(columns) != 1 or columns[0].name in table.key_columns:
        return None
    (key,) = columns
    return None if key.generated or key.default is not None or key.identity else key


def is_calendar(table: Table) -> bool:
    """Return whether the primary key is a date, or a number or text that is a date by names.

    The key is called so, and two other columns hold parts of a date.
    """
    key = _lone_key(table)
    if key is None or key.type.base not in _KEYS:
        return False
    called = stem(key.name)[-1] in listed("calendar", "names")
    parts = {calendar_part(column.name) for column in table.columns if column is not key} - {""}
    return called and (len(parts) > 1 or key.type.base == "date")


def refers_by_label(table: Table, key: ForeignKey, target: Table) -> bool:
    """Return whether a validated foreign key is one text or date column that is in no other key.

    Several rows may have the same value. Values of a declared reference may have no target, so that
    they name no row of the look-up.
    """
    if key.is_self or not key.validated or key.ref_columns != target.primary_columns:
        return False
    (name,) = key.columns
    column = table.column(name)
    return (
        _KEYS.get(column.type.base) == _KEYS.get(target.column(key.ref_columns[0]).type.base)
        and not column.generated
        and not any(unique.columns == (name,) for unique in table.unique_sets)
        and sum(name in other.columns for other in table.foreign_keys) == 1
    )
