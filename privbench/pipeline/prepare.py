"""Make the plan of a fit from schema and config: roles, keys, readers. All of it is public.

Everything that can be refused is refused here, before any budget is spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from privbench import roles
from privbench.config import ColumnConfig, Config, TableConfig
from privbench.display import quote
from privbench.encoding import (
    CategoriesNeed,
    ColumnReader,
    ColumnRole,
    CoverageLine,
    calendar,
    reader,
    role_of,
    serial_reader,
    table_coverage,
)
from privbench.encoding.base import Need
from privbench.encoding.documents import DocumentReader, PathReader
from privbench.encoding.formats import without_formats
from privbench.errors import ConfigError, SchemaError
from privbench.pipeline.computed import texts
from privbench.privacy import PART, DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.rules.named import creation_date
from privbench.schema import ROW, ForeignKey, Schema, Table
from privbench.words import own_words


@dataclass(frozen=True)
class TablePlan:
    """The plan of one table; `making`, `keys` and `readers` are empty for public tables."""

    table: Table
    section: TableConfig  # its section of the config
    making: dict[str, ColumnRole]  # how each column's values come about
    keys: tuple[KeySpec, ...]  # foreign keys that are references, with their roles
    readers: Mapping[str, ColumnReader]  # of the modelled columns
    elements: tuple[KeySpec, ...] = ()  # the keys that `Table.arrays` hold, in their order
    # The keys of an OWN key by types, which itself leads to the root of their targets' tree.
    owners: tuple[ForeignKey, ...] = ()

    @property
    def public(self) -> bool:
        """Whether the table is copied verbatim."""
        return self.section.role == "public"

    def specs(self) -> Iterator[TableSpec]:
        """Yield the `TableSpec` of the table and of its arrays of keys, without attributes."""
        named = {self.table.elements(key): key for key in self.table.arrays}
        tables = {self.table.key: self.keys}
        for name, key in zip(named, self.elements, strict=True):
            tables[name] = (KeySpec(ROW, name, self.table.key, "own"), replace(key, table=name))
        date = creation_date(self.table)
        # The date of a calendar is a reference, and no attribute of the row; of a range its
        # beginning is one.
        parts = {date, f"{date}{PART}lower"} if date not in self.table.key_columns else set()
        read = self.readers[date].attributes if date in self.readers else ()
        created = next((name for name in read if name in parts), "")
        serial = next((name for name in self.readers if self.making[name] == "minted"), "")
        for name, keys in tables.items():
            bound = self.section.bound, self.section.tau, self.section.weight
            times = ("", "") if name in named else (created, serial)
            yield TableSpec(name, {}, keys, *bound, name in named, *times)

    def coverage(self, delta: float) -> list[CoverageLine]:
        """Return how every column is made, and why."""
        if not self.public:
            return table_coverage(self.table, self.section.columns, delta)
        why, columns = "PUBLIC TABLE: COPIED VERBATIM", self.table.columns
        return [CoverageLine(self.table.key, column.name, "verbatim", why) for column in columns]


@dataclass(frozen=True)
class FitPlan:
    """The plan of a fit: the plans of all tables, with the public spec of the database."""

    schema: Schema  # the live schema
    config: Config  # the config, roles settled
    tables: Mapping[str, TablePlan]  # a plan per table
    spec: DatabaseSpec  # tables, keys and relation; attributes come with the data

    @property
    def private(self) -> tuple[TablePlan, ...]:
        """The plans of the private tables."""
        return tuple(plan for plan in self.tables.values() if not plan.public)

    @property
    def public(self) -> tuple[TablePlan, ...]:
        """The plans of the public tables."""
        return tuple(plan for plan in self.tables.values() if plan.public)

    def needs(self) -> Iterator[tuple[str, str, Need]]:
        """Yield every (table, column, need) that must be released, in table and column order."""
        for item in self.private:
            for name, column in item.readers.items():
                for need in column.needs:
                    yield item.table.key, name, need

    @cached_property
    def lists(self) -> dict[str, tuple[str, CategoriesNeed]]:
        """Return every list of values that columns need, with its table, by `need_key`."""
        return {
            need_key(table, need): (table, need)
            for table, _, need in self.needs()
            if isinstance(need, CategoriesNeed)
        }

    @property
    def words(self) -> list[str]:
        """Return the table of every list of words, which need δ."""
        return [
            item.table.key
            for item in self.private
            for reader in item.readers.values()
            if reader.words is not None and reader.words.listed
        ]

    @cached_property
    def documents(self) -> FitPlan:
        """Return the plan that reads only those paths of documents that are to be released."""
        tables = {}
        for key, item in self.tables.items():
            releasing = [
                r for r in item.readers.values() if isinstance(r, DocumentReader) and r.asks
            ]
            readers = {r.name: PathReader(key, r.column, len(releasing)) for r in releasing}
            tables[key] = replace(item, readers=readers)
        return replace(self, tables=tables)

    def coverage(self) -> list[CoverageLine]:
        """Return how every column of every table is made, and why."""
        delta, how = self.config.privacy.delta, "computed from other rows in the load"
        lines = [line for plan in self.tables.values() for line in plan.coverage(delta)]
        computed = texts(self.config)
        return [
            replace(line, how=how, why="[computed]: never read")
            if line.column in computed.get(line.table, ())
            else line
            for line in lines
        ]


def need_key(table: str, need: Need) -> str:
    """Return a key for a need, unique over all tables: the table and the attribute."""
    return f"{table}{PART}{need.attribute}"


def prepare(schema: Schema, config: Config) -> FitPlan:
    """Decide roles and readers; tables without ``own`` become roots (see `require_decided`)."""
    settings = roles.sections(schema, config)
    # Formats may have been chosen before a table was declared public.
    tables = (without_formats(t) if settings[t.key].role == "public" else t for t in schema)
    schema = replace(schema, tables=tuple(tables))
    owners = roles.resolve(schema, config)
    with own_words(config.words):
        schema = roles.with_natural_keys(schema, settings, owners)
    plans = {
        table.key: _plan_table(schema, table, settings, owners.get(table.key), config.privacy.delta)
        for table in schema
    }
    relation = Relation(config.privacy.neighbours, config.privacy.unit)
    spec = _spec(plans, relation)
    for name, plan in plans.items():
        if plan.owners:
            own, *others = plan.keys
            plans[name] = replace(plan, keys=(replace(own, parent=spec.top(name)), *others))
    return FitPlan(schema, config, plans, _spec(plans, relation))


def _spec(plans: Mapping[str, TablePlan], relation: Relation) -> DatabaseSpec:
    specs = (spec for plan in plans.values() if not plan.public for spec in plan.specs())
    return DatabaseSpec({spec.name: spec for spec in specs}, relation)


def require_decided(plan: FitPlan) -> None:
    """Refuse a config that leaves the privacy unit of a table undecided (P13).

    If a table without ``own`` were taken as a root, each of its rows would be a privacy unit, and
    the records that own the rows would silently lose their protection. For tables that refer to no
    other private table there is nothing to decide. Keys into a table that is left out would be
    modelled like any other value, so the config has to name these columns.
    """
    for item in plan.private:
        for name in item.table.loose:
            # Bounds and cells around a key that many rows hold would reveal which row they refer
            # to, and nothing would be charged for it to that record.
            if name in item.readers and name not in item.section.columns:
                raise ConfigError(
                    "the column holds keys of a table that is left out.",
                    table=item.table.key,
                    column=name,
                    remedy='Give it kind = "skip", or include that table; another kind declares '
                    "that its values may be modelled.",
                )
    if plan.config.privacy.unit == "row":
        return
    open_ = [
        item.table.key
        for item in plan.private
        if item.section.own is None
        and any(key.role != "public" and key.parent != key.table for key in item.keys)
    ]
    if open_:
        raise ConfigError(
            f"the config does not say who owns the rows of {', '.join(open_)}.",
            remedy="Give each an 'own' (own = [] makes every row a privacy unit of its own), or "
            "start from what 'privbench inspect SOURCE -o FILE' proposes.",
        )


def _plan_table(
    schema: Schema,
    table: Table,
    settings: Mapping[str, TableConfig],
    own: tuple[str, ...] | None,
    delta: float,
) -> TablePlan:
    section = settings[table.key]
    if section.role == "public":
        return TablePlan(table, section, {}, (), {})
    making = {column.name: role_of(table, column) for column in table.columns}
    readers = {
        column.name: reader(
            column, table, section.columns.get(column.name, ColumnConfig()), delta=delta
        )
        for column in table.columns
        if making[column.name] == "modelled"
    }
    key = serial_reader(table, section.columns)
    if key is not None:
        readers[key.name] = key
    _require_apart(table, readers)
    # Of several keys on the same columns the first one owns.
    owners = [key for key in table.foreign_keys if own and {*key.columns} == {*own}]
    typed = owners if owners and owners[0].when else []
    keys = tuple(
        _key(schema, table, key, key in owners[:1] and not typed, settings)
        for key in table.foreign_keys
        if not key.natural
    )
    if typed:
        # The ledger knows the units by it: another column of types gives rows other owners.
        by = quote(typed[0].when[0]) if typed[0].when else ""
        name = "; ".join(f"{key.name}→{key.ref_table}" for key in typed)
        name = f"{quote(typed[0].columns[0])} by {by}: {name}"
        first = KeySpec(name, table.key, str(typed[0].ref_table), "own", nullable=True, loose=True)
        keys = (first, *keys)
    arrays = (_key(schema, table, key, False, settings) for key in table.arrays)
    elements = tuple(replace(key, nullable=False, loose=False) for key in arrays)
    return TablePlan(table, section, making, keys, readers, elements, tuple(typed))


def _require_apart(table: Table, readers: Mapping[str, ColumnReader]) -> None:
    """Refuse a column that is called as a part of another one."""
    names = dict[str, str]()
    for name, item in readers.items():
        for part in item.attributes:
            if part in names:
                raise SchemaError(
                    f"its name is that of a part of the column {names[part]}.",
                    table=table.key,
                    column=name,
                    remedy='Rename it, or use kind = "skip".',
                )
            names[part] = name


def _key(
    schema: Schema, table: Table, key: ForeignKey, own: bool, settings: Mapping[str, TableConfig]
) -> KeySpec:
    def refused(what: str, remedy: str) -> SchemaError:
        message = f"foreign key {key.name} {what}"
        return SchemaError(message, table=table.key, column=", ".join(key.columns), remedy=remedy)

    if key.ref_table not in schema:
        raise refused(
            f"points to {key.ref_table}, which is not part of the clone.",
            "Include that table, or exclude this one too.",
        )
    parent = schema.table(key.ref_table)
    # A key that refers to a single partition is unique in that partition alone; in the whole table
    # two units may hold the same values, and the choice of the target would depend on both of them
    # (P7, P9).
    if not any(set(item.columns) == set(key.ref_columns) for item in parent.unique_sets):
        raise refused(
            f"points into a partition of {parent.key} by columns that are not unique in the whole "
            "table.",
            f"Make them unique in {parent.key}, or exclude {table.key}.",
        )
    # Keys are made before PostgreSQL computes a generated column.
    for side, names in ((table, key.columns), (parent, key.ref_columns)):
        for name in names:
            if side.column(name).generated:
                raise refused(
                    f"stands on a generated column, {side.key}.{name}, which cannot be honoured.",
                    "Leave one of the tables out.",
                )
    nullable = any(not table.column(name).not_null for name in key.columns)
    public = settings[parent.key].role == "public"
    role: Literal["own", "ref", "public"] = "public" if public else "own" if own else "ref"
    nullable |= not key.validated
    # Rows of another partition than that of the key need not satisfy it; those of its own must.
    loose = key.declared or not (key.validated or table.partitions)
    ordered = public and calendar(parent) is not None
    return KeySpec(key.name, table.key, parent.key, role, nullable, key.unique, loose, ordered)
