"""Find the catalog objects that belong to the chosen tables, by ``pg_depend``."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any, LiteralString

from privbench.errors import SchemaError
from privbench.postgres import catalog
from privbench.postgres.connect import Connection
from privbench.schema import Schema, TableName

#: A catalog object: the OID of its catalog, and its own OID.
ObjectAddress = tuple[int, int]

_CLASS = 1259
_NAMESPACE = 2615
_REWRITE = 2618
_EXTENSION = 3079

_EDGES: LiteralString = """
SELECT classid::bigint AS catalog, objid::bigint AS oid, refclassid::bigint AS ref_catalog,
  refobjid::bigint AS ref_oid, deptype::pg_catalog.text AS kind
FROM pg_catalog.pg_depend
WHERE deptype <> 'p' AND objid >= 16384
"""

_OBJECTS: LiteralString = """
WITH objects AS (
  SELECT DISTINCT classid, objid FROM pg_catalog.pg_depend
  WHERE refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND deptype = 'n'
    AND objid >= 16384)
SELECT o.classid::bigint AS catalog, o.objid::bigint AS oid,
  (pg_catalog.parse_ident(i.schema))[1] AS schema  -- it comes quoted where it must be
FROM objects o, LATERAL pg_catalog.pg_identify_object(o.classid, o.objid, 0) i
WHERE i.schema IS NOT NULL
"""

_NAMESPACES: LiteralString = """
SELECT oid::bigint AS oid, nspname AS name FROM pg_catalog.pg_namespace
"""

#: Foreign tables, views, materialised views, routines: objects that reports name.
_KNOWN: LiteralString = """
SELECT i.type AS kind, i.identity AS name
FROM unnest(%(catalogs)s::oid[], %(oids)s::oid[]) AS o(catalog, oid)
LEFT JOIN pg_catalog.pg_class c ON c.oid = o.oid AND o.catalog = 'pg_catalog.pg_class'::regclass,
  LATERAL pg_catalog.pg_identify_object(o.catalog, o.oid, 0) i
WHERE c.relkind IN ('f', 'v', 'm') OR o.catalog = 'pg_catalog.pg_proc'::regclass
ORDER BY i.type, i.identity
"""

_EXTENSIONS: LiteralString = """
SELECT oid::bigint AS oid, extname AS name FROM pg_catalog.pg_extension WHERE oid >= 16384
"""


class Dependencies:
    """The dependency graph of one database, as far as it concerns one schema.

    Attributes:
        excluded: Names of relations that are not part of the schema.
        kept: Objects that the schema is made of or needs.
        needed_extensions: Names of the extensions that the schema needs.
        left_behind: A line each for the foreign tables of the chosen schemas, which are never
            cloned, and for the views and functions there that depend on such tables or other
            objects that are not cloned.

    Raises:
        SchemaError: A chosen table depends on one that is left out, or a partition of it is a
            foreign table.
    """

    def __init__(self, connection: Connection, schema: Schema) -> None:
        edges = catalog.ask(connection, _EDGES, {})
        self._needs: dict[ObjectAddress, set[ObjectAddress]] = defaultdict(set)
        self._dependents: dict[ObjectAddress, set[ObjectAddress]] = defaultdict(set)
        self._parts: dict[ObjectAddress, set[ObjectAddress]] = defaultdict(set)
        self._members: set[ObjectAddress] = set()
        for edge in edges:
            self._add((edge.catalog, edge.oid), (edge.ref_catalog, edge.ref_oid), edge.kind)
        relations = catalog.ask(connection, catalog.RELATIONS, {})
        self._names = {(_CLASS, row.oid): TableName(row.schema, row.name) for row in relations}
        chosen = _chosen(relations, schema)
        outside = self._names.keys() - chosen
        dropped = self._built_upon(outside)
        _refuse_foreign_partitions(relations, schema)
        tables = {(_CLASS, row.oid) for row in relations if row.kind in "rp"}
        for item in sorted(dropped & chosen & tables):
            raise SchemaError(
                "is built upon a table or type that is left out.",
                table=str(self._names[item]),
                remedy="Leave it out too, or choose what it needs.",
            )
        inside = self._start(connection, schema)
        start = inside - dropped
        self.kept = _closure(start, [self._needs, self._parts], dropped)
        self.excluded = tuple(sorted(self._names[item] for item in outside))
        # Views that are not chosen are not reported as left behind.
        views = {(_CLASS, row.oid) for row in relations if row.kind in "vm"} & outside
        self.left_behind = _left_behind(connection, (inside & dropped) - self._members - views)
        extensions = catalog.ask(connection, _EXTENSIONS, {})
        self.needed_extensions = tuple(
            sorted(row.name for row in extensions if (_EXTENSION, row.oid) in self.kept)
        )

    def _add(self, dependent: ObjectAddress, reference: ObjectAddress, kind: str) -> None:
        self._needs[dependent].add(reference)
        if kind in "aiPS":
            self._parts[reference].add(dependent)
        if kind == "e":
            self._members.add(dependent)
        else:
            self._dependents[reference].add(dependent)

    def _built_upon(self, outside: Set[ObjectAddress]) -> set[ObjectAddress]:
        # A view's query is a rule that is part of the view: if it is left out, so is the view.
        views = {rule: self._needs[rule] for rule in self._needs if rule[0] == _REWRITE}
        whole = {
            rule: {view for view in needed if rule in self._parts[view]}
            for rule, needed in views.items()
        }
        return _closure(outside, [self._dependents, whole], set())

    def _start(self, connection: Connection, schema: Schema) -> set[ObjectAddress]:
        objects = catalog.ask(connection, _OBJECTS, {})
        namespaces = catalog.ask(connection, _NAMESPACES, {})
        inside = {(row.catalog, row.oid) for row in objects if row.schema in schema.schemas}
        own = {(_NAMESPACE, row.oid) for row in namespaces if row.name in schema.schemas}
        return (inside | own) - self._members


def _left_behind(connection: Connection, objects: Set[ObjectAddress]) -> tuple[str, ...]:
    items = sorted(objects)
    listed = {"catalogs": [item for item, _ in items], "oids": [oid for _, oid in items]}
    rows = catalog.ask(connection, _KNOWN, listed) if items else []
    return tuple(
        f"stays behind: {row.kind} {row.name}"
        + ("" if row.kind == "foreign table" else ", built upon what stays behind")
        for row in rows
    )


def _refuse_foreign_partitions(relations: Iterable[Any], schema: Schema) -> None:
    """Refuse a table with a partition on another server, which a clone cannot have."""
    names = {row.oid: TableName(row.schema, row.name) for row in relations}
    chosen = {table.name for table in schema}
    for row in relations:
        root = names.get(row.root)
        if row.kind == "f" and root in chosen:
            raise SchemaError(
                f"its partition {names[row.oid]} is a foreign table, whose rows lie elsewhere.",
                table=str(root),
                remedy="Leave the table out (exclude), or detach that partition.",
            )


def _chosen(relations: Iterable[Any], schema: Schema) -> set[ObjectAddress]:
    """The schema's tables, their partitions, its views and its sequences."""
    names = {table.name for table in schema}
    names |= {*schema.views, *schema.materialized_views}
    names |= {sequence.name for sequence in schema.sequences}
    rows = [row for row in relations if row.kind != "f"]
    chosen = {row.oid for row in rows if TableName(row.schema, row.name) in names}
    return {(_CLASS, row.oid) for row in rows if row.oid in chosen or row.root in chosen}


def _closure(
    start: Iterable[ObjectAddress],
    graphs: list[Mapping[ObjectAddress, Set[ObjectAddress]]],
    barred: Set[ObjectAddress],
) -> set[ObjectAddress]:
    """All objects that are reached from the start along the graphs without a barred object."""
    reached = set(start)
    todo = list(reached)
    while todo:
        item = todo.pop()
        for graph in graphs:
            new = graph.get(item, set()) - reached - barred
            reached |= new
            todo += new
    return reached
