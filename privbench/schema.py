"""A PostgreSQL schema as frozen data: what the catalog states, and nothing from rows.

All of it is public knowledge by contract. It is plain data: `privbench.postgres` fills it from
``pg_catalog``, everything else reads it. The types of its fields limit what a model of unknown
origin may hold there (`privbench.limits`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, LiteralString, Self

from pydantic import Field

from privbench.display import quote
from privbench.errors import SchemaError
from privbench.limits import (
    MAX_LABELS,
    MAX_PARTITIONS,
    MAX_PARTS,
    MAX_RULES,
    Bigint,
    ColumnTuple,
    Expression,
    Label,
    PartTuple,
    PgName,
    SchemaName,
    Share,
    Text,
    TypeModifier,
    TypeText,
)


def quoted(*name: str) -> str:
    """Return a name in SQL, qualified or not, with every part quoted.

    >>> quoted("public", 'a"b')
    '"public"."a""b"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in name)


def literal(text: str) -> str:
    """Return a text as an SQL string constant.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A schema-qualified table name.

    >>> str(TableName("public", "users")), str(TableName("Shop", "Order Items"))
    ('public.users', '"Shop"."Order Items"')
    >>> TableName.parse('users'), TableName.parse('"Shop"."Order Items"').name
    (TableName(schema='public', name='users'), 'Order Items')
    """

    schema: SchemaName
    name: PgName

    def __str__(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"

    @classmethod
    @lru_cache(maxsize=1 << 14)
    def parse(cls, text: str) -> Self:
        """Read ``table``, ``schema.table`` or quoted forms; no schema means ``public``."""
        parts = re.findall(r'"((?:[^"]|"")+)"|([^."]+)', text)
        names = [quoted.replace('""', '"') if quoted else plain for quoted, plain in parts]
        if len(names) == 1:
            return cls("public", names[0])
        if len(names) == 2:
            return cls(names[0], names[1])
        raise SchemaError(f"{text!r} is not a table name.", remedy="Write schema.table.")


@dataclass(frozen=True, slots=True)
class Rule:
    """A fact about a table's rows that the schema states, as `privbench.rules` reads it.

    The kind says which of the fields state the fact. Literals are texts, since only the family that
    owns a type can compare them. For an ``expression`` nothing more is known than its text.
    """

    kind: Literal[
        "bounds", "values", "length", "size", "pattern", "case", "order", "differs", "unique",
        "combination", "expression",
    ]  # fmt: skip
    # The columns, of an order the lesser one first; ``VALUE`` stands for a domain's value.
    columns: ColumnTuple[PgName]
    source: Literal["check", "domain", "partition", "reference", "index", "name", "config"]
    text: Expression  # what states it, in full
    low: Text | None = None  # literals of the ends of bounds
    high: Text | None = None
    strict: bool = False  # whether ends are excluded; of an order, whether equal values are
    # Literals of all values that are allowed.
    values: Annotated[tuple[Text, ...], Field(max_length=MAX_LABELS)] | None = None
    shortest: Bigint = 0  # length of a text, or size of another value
    longest: Bigint | None = None
    pattern: Text | None = None  # a regular expression
    fold: bool = False  # whether the case of letters does not count, of a pattern or in an index
    case: Literal["upper", "lower"] | None = None  # the only case that letters have
    broken: Share = 0.0  # of an order, the share of rows that break it
    rows: PartTuple[ColumnTuple[Text]] = ()  # combinations of literals; true for NULL
    nulls: ColumnTuple[PgName] = ()  # the columns that count by NULL


#: All rules of a table, or of a type.
TableRules = Annotated[tuple[Rule, ...], Field(max_length=MAX_RULES)]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The exact type of a column."""

    # As ``format_type`` prints it, with modifiers: ``numeric(10,2)``, ``varchar(20)[]``.
    sql: TypeText
    base: PgName  # name of the base type after unwrapping domains: ``int4``, ``text``, ``_int4``
    # ``pg_type.typtype`` of the unwrapped type: b base, e enum, c composite, r range, m multirange,
    # p pseudo.
    kind: Annotated[str, Field(pattern="^[a-zA-Z]$")] = "b"
    # ``pg_type.typcategory`` of the unwrapped type (A array, B boolean, N number ...).
    category: Annotated[str, Field(pattern="^[a-zA-Z]$")] = "U"
    # Labels of an enum in their order.
    labels: Annotated[tuple[Label, ...], Field(max_length=MAX_LABELS)] = ()
    length: TypeModifier | None = None  # declared length of char(n), varchar(n), bit(n)
    # Declared precision of numeric, time, timestamp, interval.
    precision: TypeModifier | None = None
    scale: TypeModifier | None = None  # declared scale of numeric
    domain: TableName | None = None  # the domain's name where the column's type is a domain
    # CHECK expressions of the domain and of the domains beneath it.
    domain_checks: ColumnTuple[Expression] = ()
    rules: TableRules = ()  # what these CHECKs state
    element: PgName | None = None  # base name of an array's element type
    extension: PgName | None = None  # the extension that owns the type
    # Types within: an array's element, a range's bound, the columns of a composite type.
    parts: ColumnTuple[ColumnType] = ()

    @property
    def text_form(self) -> LiteralString:
        """SQL that prints a value, in place of ``{0}``, by its type's output function.

        A cast of a user's type to text may be a function of users; ``format`` calls no cast. Casts
        of PostgreSQL's own types, and of domains over them, are its own.
        """
        if self.kind == "b" and self.category != "A" and self.extension is None:
            return "{0}::pg_catalog.text"
        return "CASE pg_catalog.num_nulls({0}) WHEN 0 THEN pg_catalog.format('%s', {0}) END"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``not_null`` is also true for a domain's NOT NULL."""

    name: PgName
    position: Annotated[int, Field(ge=1, le=32767)]
    type: ColumnType
    not_null: bool = False
    default: Expression | None = None
    identity: Literal["", "a", "d"] = ""
    generated: Literal["", "s", "v"] = ""
    collation: Text | None = None
    sequence: TableName | None = None
    # Found by a rehearsal of the schema's expressions where the type alone does not say how values
    # are made: templates of literals (`privbench.encoding.placeholders`), of elements for an array;
    # and the fewest elements.
    templates: ColumnTuple[Text] = ()
    least: Annotated[int, Field(ge=0, le=1024)] = 0
    # The calendar that it is the key of, or refers to by its date (`roles.natural`); '' for none.
    dated: Text = ""


@dataclass(frozen=True, slots=True)
class Unique:
    """A PRIMARY KEY, a UNIQUE constraint or a unique index over plain columns."""

    name: PgName
    columns: ColumnTuple[PgName]
    primary: bool = False
    nulls_not_distinct: bool = False


@dataclass(frozen=True, slots=True)
class Equality:
    """The operator by which a foreign key compares a column with the referenced column."""

    operator: TableName  # its schema and name
    parent: TypeText  # its left operand: the type of the column that is referred to, or of all such
    child: TypeText  # its right operand
    source: PgName | None  # ``pg_catalog`` if it is PostgreSQL's own, or its extension, or None
    collation: TableName | None = None  # under which it compares, where the types have collations
    folds: bool = False  # whether different texts may be equal under that collation
    hash: TableName | None = None  # a hash function of 64 bits that agrees with the operator


#: The key by which each element of an array of keys leads to the row that it stands in.
ROW = "row"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key; ``columns[i]`` refers to ``ref_columns[i]``.

    A ``declared`` key is a reference of the config. Neither the source nor its clones have such a
    constraint, so that rows of both may refer to nothing (`dangles`); it is never ``validated``.
    """

    name: PgName
    table: TableName
    columns: ColumnTuple[PgName]
    ref_table: TableName
    ref_columns: ColumnTuple[PgName]
    on_delete: Literal["a", "r", "c", "n", "d"] = "a"
    on_update: Literal["a", "r", "c", "n", "d"] = "a"
    match: Literal["s", "f", "p"] = "s"
    # Whether a UNIQUE that compares as the key does lets each referenced row have one row only.
    unique: bool = False
    deferrable: bool = False
    validated: bool = True
    # The equality operator of each column, by which rows are read; never released.
    equalities: ColumnTuple[Equality] = ()
    declared: bool = False
    none: ColumnTuple[Text] = ()  # values of a declared key's column that refer to nothing, as text
    natural: bool = False  # whether its column holds values of its own row, and is no reference
    # A column of type names and one of them: of a declared key that rows of this type alone have.
    when: tuple[PgName, Text] | None = None

    @property
    def is_self(self) -> bool:
        """Whether the key refers to its own table."""
        return self.table == self.ref_table


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint; ``expression`` is what ``pg_get_expr`` prints.

    A ``declared`` CHECK is no constraint of the source: it is a rule of the config, which clones
    have as a constraint, or a format that a rehearsal has found, which no database has.
    """

    name: PgName
    expression: Expression
    columns: ColumnTuple[PgName] = ()
    declared: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """An index as ``pg_get_indexdef`` prints it, or an EXCLUDE constraint."""

    name: PgName
    definition: Expression
    unique: bool = False
    columns: ColumnTuple[PgName] = ()
    predicate: Expression | None = None
    has_expressions: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence and the column that owns it; never its position."""

    name: TableName
    start: Bigint = 1
    increment: Bigint = 1
    minimum: Bigint = 1
    maximum: Bigint = 2**63 - 1
    cycle: bool = False
    owned_by: tuple[TableName, PgName] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Partitions are folded into their root, which is the table that is modelled."""

    name: TableName
    columns: ColumnTuple[Column]
    primary_key: Unique | None = None
    uniques: PartTuple[Unique] = ()
    foreign_keys: PartTuple[ForeignKey] = ()
    # Declared references of array columns: every element is a key (`elements`).
    arrays: ColumnTuple[ForeignKey] = ()
    checks: PartTuple[Check] = ()
    indexes: PartTuple[Index] = ()
    kind: Literal["r", "p"] = "r"  # ``pg_class.relkind``: r ordinary, p partitioned
    # Leaf partitions of a partitioned table.
    partitions: Annotated[tuple[TableName, ...], Field(max_length=MAX_PARTITIONS)] = ()
    partition_key: Expression | None = None  # ``pg_get_partkeydef`` of a partitioned table
    rules: TableRules = ()  # what its CHECKs, indexes and names state; its columns' types have more
    # The table's comment; read for hints by `privbench.roles`, never released.
    comment: str | None = None
    # Columns of foreign keys that are left out because their target is left out; never released.
    loose: tuple[str, ...] = ()
    # Columns of PERIOD foreign keys except the period: the load gives rows their targets, and only
    # their NULLs are measured; never released.
    periods: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The table's name in config, specs, models and reports."""
        return str(self.name)

    def column(self, name: str) -> Column:
        """Return the column with this name; raise a `SchemaError` if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError("no such column.", table=self.key, column=name)

    def foreign_key(self, name: str) -> ForeignKey:
        """Return the foreign key with this constraint name.

        Raise a `SchemaError` if there is none.
        """
        for key in self.foreign_keys:
            if key.name == name:
                return key
        raise SchemaError(f"no foreign key {name!r}.", table=self.key)

    @property
    def primary_columns(self) -> tuple[str, ...]:
        """The columns of the primary key; empty if the table has none."""
        return self.primary_key.columns if self.primary_key else ()

    @property
    def unique_sets(self) -> tuple[Unique, ...]:
        """The primary key, then the other unique sets of columns."""
        return ((self.primary_key,) if self.primary_key else ()) + self.uniques

    @property
    def key_columns(self) -> frozenset[str]:
        """The columns that are part of a foreign key."""
        return frozenset(name for key in self.foreign_keys for name in key.columns)

    def elements(self, key: ForeignKey) -> str:
        """Return the name of the table of an array's elements, which this table's rows own."""
        return f"{self.key}.{quote(key.columns[0])}"

    @property
    def natural_columns(self) -> frozenset[str]:
        """Columns that refer to a look-up and hold labels or dates (`ForeignKey.natural`)."""
        return frozenset(key.columns[0] for key in self.foreign_keys if key.natural)

    @property
    def pinned_columns(self) -> frozenset[str]:
        """Columns of a self-reference that refer to themselves.

        In ``FOREIGN KEY (tenant, parent) REFERENCES itself (tenant, id)`` the tenant of a row is
        its own value, which its parent has to share.
        """
        pairs = [
            (key, pair)
            for key in self.foreign_keys
            for pair in zip(key.columns, key.ref_columns, strict=True)
        ]
        free = {child for key, (child, parent) in pairs if not key.is_self or child != parent}
        return frozenset(child for _, (child, _) in pairs) - free


@dataclass(frozen=True, slots=True)
class Schema:
    """Everything the catalog states about the chosen PostgreSQL schemas, tables sorted by name."""

    tables: PartTuple[Table]
    sequences: PartTuple[Sequence] = ()
    enums: Annotated[dict[Text, tuple[Label, ...]], Field(max_length=MAX_PARTS)] = field(
        default_factory=dict
    )
    extensions: ColumnTuple[PgName] = ()
    views: PartTuple[TableName] = ()
    materialized_views: PartTuple[TableName] = ()
    schemas: PartTuple[SchemaName] = ("public",)
    server_version: Annotated[int, Field(ge=0, le=10_000_000)] = 0

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    def __contains__(self, key: object) -> bool:
        return any(table.key == key or table.name == key for table in self.tables)

    def table(self, key: str | TableName) -> Table:
        """Return the table with this key (``schema.table``) or name.

        Raise a `SchemaError` if none.
        """
        name = TableName.parse(key) if isinstance(key, str) else key
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(table.key for table in self.tables[:8])
        raise SchemaError(f"there is no table {name}.", remedy=f"Tables: {known} …")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a model's header; comments are left out (P4).

        Whether a CHECK was declared by the config is left out too: the model's DDL has all as
        constraints. Rules have only the fields that state something.
        """
        data: dict[str, Any] = _without_blanks(asdict(self))
        for table in data["tables"]:
            for name in ("comment", "loose", "periods"):
                del table[name]
            for key in (*table["foreign_keys"], *table["arrays"]):
                del key["equalities"]
            for check in table["checks"]:
                check.pop("declared")
            for column in table["columns"]:  # as in models of versions without a rehearsal
                for name in ("templates", "least", "dated"):
                    if not column[name]:
                        del column[name]
            for key in (*table["foreign_keys"], *table["arrays"]):
                for name in ("unique", "declared", "none", "natural", "when"):
                    if not key[name]:  # as in models of versions that did not state it
                        del key[name]
            if not table["arrays"]:
                del table["arrays"]
        return data


def _without_blanks(value: Any) -> Any:
    """A JSON value, its rules without fields that state nothing, those of the config as CHECKs."""
    if isinstance(value, dict):
        if {"kind", "source", "text"} <= value.keys():
            value = {name: item for name, item in value.items() if item not in (None, False, ())}
            value["source"] = value["source"].replace("config", "check")
        return {name: _without_blanks(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_blanks(item) for item in value]
    return value
