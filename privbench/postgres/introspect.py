"""Read the catalog into a `Schema`: never rows, never statistics."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, LiteralString

from privbench.errors import AccessDenied, ConfigError, SchemaError
from privbench.postgres import catalog
from privbench.postgres.connect import Connection
from privbench.postgres.implied_checks import bounds_check, narrowed
from privbench.postgres.load_mark import refuse_unfinished
from privbench.postgres.locks import tell_held
from privbench.postgres.patterns import choose
from privbench.postgres.types import Types
from privbench.rules.facts import with_rules
from privbench.rules.parse import stated
from privbench.schema import (
    Check,
    Column,
    Equality,
    ForeignKey,
    Index,
    Schema,
    Table,
    TableName,
    Unique,
    quoted,
)
from privbench.schema import Sequence as SchemaSequence

#: The role's rights on every table and partition: pg_dump locks them all, for which a right on some
#: columns is not enough.
_RIGHTS: LiteralString = """
SELECT n.nspname AS schema, c.relname AS name, current_user::pg_catalog.text AS role,
  pg_catalog.has_schema_privilege(n.oid, 'USAGE') AS usage,
  pg_catalog.has_table_privilege(c.oid, 'SELECT') AS readable,
  pg_catalog.row_security_active(c.oid) AS filtered
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN ROWS FROM (pg_catalog.unnest(%(schemas)s::pg_catalog.text[]),
  pg_catalog.unnest(%(names)s::pg_catalog.text[])) AS wanted(schema, name)
  ON n.nspname = wanted.schema AND c.relname = wanted.name
WHERE c.relkind IN ('r', 'p')
ORDER BY n.nspname, c.relname
"""


def introspect(
    connection: Connection,
    schemas: Sequence[str] | None = None,
    exclude: Sequence[str | TableName] = (),
    tables: Sequence[str | TableName] | None = None,
) -> Schema:
    """Return the schema of a database, as its catalog states it.

    The connection may be in a transaction. Partitions are folded into their root: its leaf
    partitions are listed, and a foreign key of a single partition counts as the root's, but not as
    validated. Children of ordinary inheritance are tables of their own. Objects of extensions,
    temporary and system schemas are left out, and so are foreign keys into tables that are left out
    (`Table.loose` keeps their columns).

    The arguments of `patterns.choose` say which schemas, tables and views are read; schemas of
    which no table is chosen are left out too.

    Raises:
        SchemaError: A named schema or table does not exist, or a partition is chosen without its
            root.
        TargetError: The database is an unfinished load.
    """
    refuse_unfinished(connection)
    with catalog.bare_search_path(connection):
        tell_held(connection)
        return _Reader(connection, schemas, tables, exclude).schema()


def check_access(connection: Connection, schema: Schema) -> None:
    """Check that this role may read all columns and rows of every table of the schema.

    Raises:
        AccessDenied: The role may not; the error holds all missing GRANT statements, or the tables
            whose row-level security would hide rows from this role.
    """
    tables = [name for table in schema for name in (table.name, *table.partitions)]
    parameters = {"schemas": [t.schema for t in tables], "names": [t.name for t in tables]}
    rows = catalog.ask(connection, _RIGHTS, parameters)
    usage = [f"USAGE ON SCHEMA {quoted(row.schema)}" for row in rows if not row.usage]
    select = [f"SELECT ON {quoted(row.schema, row.name)}" for row in rows if not row.readable]
    rights = dict.fromkeys(usage + select)
    missing = [f"GRANT {right} TO {quoted(rows[0].role)};" for right in rights]
    if missing:
        raise AccessDenied(
            f"the role {rows[0].role!r} may not read everything.",
            remedy="Missing: " + " ".join(missing),
        )
    filtered = [f"{row.schema}.{row.name}" for row in rows if row.filtered]
    if filtered:
        raise AccessDenied(
            f"row-level security hides rows from the role {rows[0].role!r}: {', '.join(filtered)}.",
            remedy="Use a role with BYPASSRLS, or the tables' owner: otherwise the clone would "
            "lack these rows, and nothing in it would show that.",
        )


class _Reader:
    """One reading of the catalog."""

    def __init__(
        self,
        connection: Connection,
        schemas: Sequence[str] | None,
        only: Sequence[str | TableName] | None,
        exclude: Sequence[str | TableName],
    ) -> None:
        self.connection = connection
        known = [row.name for row in catalog.ask(connection, catalog.SCHEMAS, {})]
        listed = catalog.ask(connection, catalog.RELATIONS, {})
        relations = [row for row in listed if row.kind in "rpvm"]
        self.names = {row.oid: TableName(row.schema, row.name) for row in relations}
        chosen = choose(self.names.values(), known, schemas, only, exclude)
        self.schemas, self.chosen, self.left_out = chosen
        self.views = self._of_kind(relations, "v")
        self.materialized = self._of_kind(relations, "m")
        tables = [row for row in relations if row.kind in "rp"]
        self.roots = {row.oid: row.root for row in tables if row.is_partition}
        self.tables = {
            row.oid: row
            for row in tables
            if not row.is_partition and self.names[row.oid] in self.chosen
        }
        self._loose: dict[int, set[str]] = defaultdict(set)
        self._periods: dict[int, set[str]] = defaultdict(set)
        self.leaves: dict[int, list[int]] = defaultdict(list)
        for row in tables:
            if row.is_partition:
                self._fold(row)

    def _of_kind(self, relations: Sequence[Any], kind: str) -> tuple[TableName, ...]:
        of_kind = (self.names[row.oid] for row in relations if row.kind == kind)
        return tuple(sorted(self.chosen.intersection(of_kind)))

    def _fold(self, row: Any) -> None:
        name, root = self.names[row.oid], self.names[row.root]
        if row.root in self.tables:
            if name in self.left_out:
                raise SchemaError(
                    "a single partition cannot be left out.",
                    table=str(name),
                    remedy=f"Leave out {root}, which it is a partition of.",
                )
            if row.kind == "r":
                self.leaves[row.root].append(row.oid)
        elif name in self.chosen and root not in self.left_out:
            raise SchemaError(
                f"is a partition of {root}, which is not chosen.",
                table=str(name),
                remedy=f"Choose {root} too.",
            )

    def schema(self) -> Schema:
        """The schema, put together from all parts of the catalog."""
        oids = sorted(self.tables)
        columns = self._ask(catalog.COLUMNS, oids)
        types = Types(self.connection, {row.type for row in columns})
        sequences = self._sequences(columns)
        by_table = self._columns(columns, types, sequences)
        keys = self._foreign_keys()
        checks = self._checks(oids)
        indexes = _by_relation(self._ask(catalog.INDEXES, oids))
        tables = [
            self._table(
                oid,
                indexes[oid],
                columns=tuple(by_table[oid]),
                foreign_keys=tuple(sorted(keys[oid], key=lambda key: key.name)),
                checks=tuple(checks[oid]),
            )
            for oid in oids
        ]
        return Schema(
            tables=tuple(sorted(map(with_rules, narrowed(tables)), key=lambda table: table.name)),
            sequences=tuple(sorted(sequences.values(), key=lambda sequence: sequence.name)),
            enums=self._enums(types, columns),
            extensions=tuple(r.name for r in catalog.ask(self.connection, catalog.EXTENSIONS, {})),
            views=self.views,
            materialized_views=self.materialized,
            schemas=self.schemas,
            server_version=self.connection.info.server_version,
        )

    def _checks(self, oids: Sequence[int]) -> dict[int, list[Check]]:
        """CHECK constraints, and the CHECKs that follow from the bounds of partitions."""
        checks: dict[int, list[Check]] = defaultdict(list)
        for row in self._ask(catalog.CHECKS, oids):
            checks[row.relation].append(Check(row.name, row.expression, tuple(row.columns)))
        for row in self._ask(catalog.PARTITION_BOUNDS, oids):
            check = bounds_check(row)
            if check is not None:
                checks[row.relation].append(check)
        return checks

    def _ask(self, question: Any, oids: Sequence[int]) -> list[Any]:
        return catalog.ask(self.connection, question, {"relations": oids})

    def _enums(self, types: Types, columns: Sequence[Any]) -> dict[str, tuple[str, ...]]:
        used = {types.labels.get(row.type) for row in columns}
        return {
            str(name): labels
            for name, labels in sorted(types.enums.items())
            if name.schema in self.schemas or labels in used
        }

    def _sequences(self, columns: Sequence[Any]) -> dict[int, SchemaSequence]:
        """Sequences of the chosen schemas, and those that fill a chosen column."""
        oids = {row.default_sequence for row in columns if not row.generated}
        by_oid = {}
        for row in catalog.ask(self.connection, catalog.SEQUENCES, {}):
            owned = row.owner in self.tables
            loose = row.owner is None and row.schema in self.schemas
            if owned or loose or row.oid in oids:
                by_oid[row.oid] = SchemaSequence(
                    name=TableName(row.schema, row.name),
                    start=row.start,
                    increment=row.increment,
                    minimum=row.minimum,
                    maximum=row.maximum,
                    cycle=row.cycle,
                    owned_by=(self.names[row.owner], row.owner_column) if owned else None,
                )
        return by_oid

    def _columns(
        self, rows: Sequence[Any], types: Types, sequences: dict[int, SchemaSequence]
    ) -> dict[int, list[Column]]:
        owned = {item.owned_by: item.name for item in sequences.values() if item.owned_by}
        columns: dict[int, list[Column]] = defaultdict(list)
        for row in rows:
            cast = types.cast_of_users(row.type)
            if cast is not None:
                raise SchemaError(
                    f"an implicit cast of its type calls a user-defined function: {cast}.",
                    table=str(self.names[row.relation]),
                    column=row.name,
                    remedy="Drop the cast, make it WITH INOUT or AS ASSIGNMENT, or leave the table "
                    "out: every comparison of such a value may run that function.",
                )
            filler = sequences.get(row.default_sequence)
            sequence = owned.get((self.names[row.relation], row.name))
            columns[row.relation].append(
                Column(
                    name=row.name,
                    position=row.position,
                    type=types.column_type(row.type, row.modifier, row.sql),
                    not_null=row.not_null or types.domain_not_null(row.type),
                    default=row.default,
                    identity=row.identity,
                    generated=row.generated,
                    # The query gives NULL where the collation is the default of the type.
                    collation=row.collation and str(TableName(row.collation_schema, row.collation)),
                    sequence=sequence or (filler.name if filler else None),
                )
            )
        return columns

    def _foreign_keys(self) -> dict[int, list[ForeignKey]]:
        partitions = [oid for oid, root in self.roots.items() if root in self.tables]
        keys: dict[int, dict[tuple[Any, ...], ForeignKey]] = defaultdict(dict)
        rows = self._ask(catalog.FOREIGN_KEYS, [*self.tables, *partitions])
        # A root's own keys come first, so that a partition's copy of one does not replace it.
        for row in sorted(rows, key=lambda row: (row.relation in self.roots, row.name)):
            source = self.roots.get(row.relation, row.relation)
            target = self.roots.get(row.target, row.target)
            if target in self.tables and row.period:
                self._periods[source].update(row.columns[:-1])
            elif target in self.tables:
                key = ForeignKey(
                    name=row.name,
                    table=self.names[source],
                    columns=tuple(row.columns),
                    ref_table=self.names[target],
                    ref_columns=tuple(row.target_columns),
                    unique=row.one_to_one and row.relation not in self.roots,
                    on_delete=row.on_delete,
                    on_update=row.on_update,
                    match=row.match,
                    deferrable=row.deferrable,
                    # Rows of other partitions need not satisfy a constraint of one partition.
                    validated=row.validated and row.relation not in self.roots,
                    equalities=_equalities(self.names[row.relation], row),
                )
                keys[source].setdefault((key.columns, key.ref_table, key.ref_columns), key)
            else:
                self._loose[source].update(row.columns)
        return {oid: list(keys[oid].values()) for oid in self.tables}

    def _table(self, oid: int, indexes: Sequence[Any], **parts: Any) -> Table:
        row = self.tables[oid]
        uniques = [
            Unique(item.name, tuple(item.columns), item.is_primary, item.nulls_not_distinct)
            for item in indexes
            if _is_plain_unique(item)
        ]
        return Table(
            name=self.names[oid],
            primary_key=next((unique for unique in uniques if unique.primary), None),
            uniques=tuple(unique for unique in uniques if not unique.primary),
            indexes=tuple({item.definition: item for item in map(_index, indexes)}.values()),
            kind=row.kind,
            partitions=tuple(sorted(self.names[leaf] for leaf in self.leaves[oid])),
            partition_key=row.partition_key,
            comment=row.comment,
            loose=tuple(sorted(self._loose[oid])),
            periods=tuple(sorted(self._periods[oid])),
            **parts,
        )


def with_equalities(connection: Connection, schema: Schema) -> Schema:
    """Return the schema with the equality operators of declared keys, and which are one-to-one.

    Raises:
        ConfigError: PostgreSQL cannot compare the columns, as it would have to for a foreign key.
        SchemaError: They are compared by an operator of users.
    """
    keys = (key for table in schema for key in (*table.foreign_keys, *table.arrays))
    if not any(key.declared for key in keys):
        return schema
    with catalog.bare_search_path(connection):
        tables = (
            replace(
                table,
                foreign_keys=tuple(_compared(connection, key) for key in table.foreign_keys),
                arrays=tuple(_compared(connection, key, each=True) for key in table.arrays),
            )
            for table in schema
        )
        return replace(schema, tables=tuple(tables))


def _compared(connection: Connection, key: ForeignKey, *, each: bool = False) -> ForeignKey:
    """A declared key with its equalities; ``each`` compares the elements of its column."""
    if not key.declared:
        return key
    parameters = {
        **{"name": key.name, "schema": key.table.schema, "table": key.table.name},
        **{"ref_schema": key.ref_table.schema, "ref_table": key.ref_table.name},
        **{"columns": key.columns, "ref_columns": key.ref_columns, "each": each},
    }
    answers = catalog.ask(connection, catalog.REFERENCE, parameters)
    if not answers or len(answers[0].equalities) < len(key.columns):
        raise ConfigError(
            f"PostgreSQL has no equality of these columns and those of {key.ref_table} that they "
            "refer to, and so would allow no foreign key.",
            table=str(key.table),
            column=", ".join(key.columns),
            remedy="Refer to columns of the same types (of an array's elements by each = true), or "
            "leave the reference out.",
        )
    unique = answers[0].one_to_one and not each
    return replace(key, unique=unique, equalities=_equalities(key.table, answers[0]))


def _equalities(table: TableName, key: Any) -> tuple[Equality, ...]:
    """How a key compares its columns; refused if it is by an operator of users."""
    equalities = []
    for row in key.equalities:
        users = row.pop("users")
        if users is not None:
            raise SchemaError(
                f"its foreign key {key.name} compares keys by a user-defined operator: {users}.",
                table=str(table),
                remedy="Leave the table out: whoever matches its keys runs a user's function.",
            )
        operator, *others = (row.pop(name) for name in ("operator", "collation", "hash"))
        collation, hashed = (names and TableName(*names) for names in others)
        equalities.append(Equality(TableName(*operator), **row, collation=collation, hash=hashed))
    return tuple(equalities)


def _by_relation(rows: Iterable[Any]) -> defaultdict[int, list[Any]]:
    by_relation: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        by_relation[row.relation].append(row)
    return by_relation


def _index(row: Any) -> Index:
    """An index; one of a partition for one value is the table's, for rows of equal values."""
    rules = stated(row.within or "")[0]
    alike = [rule.columns[0] for rule in rules if len(rule.values or ()) == 1]
    more = "".join(f"{quoted(name)} WITH =, " for name in alike)
    return Index(
        name=row.name,
        definition=row.definition.replace("(", f"({more}", 1),
        unique=row.is_unique,
        columns=(*alike, *row.columns),
        predicate=row.predicate,
        has_expressions=row.has_expressions,
    )


def _is_plain_unique(row: Any) -> bool:
    """Whether an index makes a set of plain columns unique in the whole table."""
    whole = row.valid and row.predicate is None and not row.has_expressions
    # A temporal key (WITHOUT OVERLAPS) is an exclusion: equal columns may recur in other periods.
    return bool(row.is_unique and whole and not row.exclusion)
