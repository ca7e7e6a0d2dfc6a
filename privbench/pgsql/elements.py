"""Judge the elements of a model's DDL: options, methods, columns, constraints."""

import re
from collections.abc import Callable

from privbench.errors import ModelError
from privbench.pgsql.created_objects import Made
from privbench.pgsql.judge import (
    EXPRESSIONS,
    NotAllowed,
    QualifiedName,
    judge,
    operators,
    relation_name,
    shown,
)
from privbench.pgsql.parser import Node

_METHODS = frozenset(["", "heap", "btree", "hash", "gist", "gin", "spgist", "brin"])
#: Kinds of nodes that statements are made of, beside those of expressions.
_PARTS = EXPRESSIONS | frozenset(
    """
    AlterTableCmd Constraint DefElem IndexElem PartitionBoundSpec PartitionCmd PartitionElem
    PartitionRangeDatum PartitionSpec ReplicaIdentityStmt StatsElem
    """.split()
)
#: Options of tables, indexes, views, sequences and of what CREATE … (name = value) defines.
_OPTIONS = re.compile(
    r"""fillfactor|parallel_workers|autovacuum_\w+|log_autovacuum_min_duration|toast_tuple_target
    |vacuum_\w+|user_catalog_table|deduplicate_items|buffering|fastupdate|gin_pending_list_limit
    |pages_per_range|autosummarize|length|col\d+|lists|m|ef_construction|siglen|numranges
    |values_per_range|n_distinct_per_range|false_positive_rate
    |security_barrier|security_invoker|check_option
    |as|start|increment|minvalue|maxvalue|cache|cycle|owned_by|sequence_name""",
    re.VERBOSE,
)


def named(tree: Node, part: str) -> QualifiedName:
    """Return the qualified name of the relation in a field of a statement."""
    return relation_name(tree.nodes(part)[0])


def own(objects: Made, kind: str, name: QualifiedName) -> None:
    """Refuse a name unless the model's DDL has made an object of this kind and name."""
    if not objects.knows(kind, name):
        raise NotAllowed(f"it is about {shown(name)}, which the model does not make")


def plainly_kept(tree: Node) -> None:
    """Refuse temporary relations and tablespaces."""
    persistence = {n.get("relpersistence", "p") for n in tree.children() if n.kind == "RangeVar"}
    places = [tree.get(name) for name in ("tablespacename", "tableSpaceName", "tableSpace")]
    if persistence - {"p", "u"} or any(places):
        raise ModelError("the model's DDL makes a temporary table, or names a tablespace.")


def method(name: object, objects: Made) -> None:
    """Refuse access methods other than the server's own and those of listed extensions."""
    methods = {method for _, method in objects.found.get("methods", ())}
    if name not in _METHODS | methods:
        raise NotAllowed(f"it names the access method {name}")


def opclass(name: QualifiedName, objects: Made) -> bool:
    """Return whether a named operator class is the server's or a listed extension's."""
    return not name or objects.offers("opclasses", name)


def _element(node: Node, objects: Made) -> None:
    name = node.names("opclass")
    if not opclass(name, objects):
        raise NotAllowed(f"it names the operator class {shown(name)}")
    collation = node.names("collation")
    if collation and not objects.collation(collation):
        raise NotAllowed(f"it names the collation {shown(collation)}")


def _constraint(node: Node, objects: Made) -> None:
    method(node.get("access_method", ""), objects)
    if node.get("indexspace"):
        raise ModelError("the model's DDL names a tablespace.")
    for pair in node.nodes("exclusions"):
        _, used = pair.nodes("items")
        operators(objects, [used.names("items")])


def _option(node: Node, objects: Made) -> None:
    name = str(node.get("defname"))
    if node.get("defnamespace") not in (None, "toast") or not _OPTIONS.fullmatch(name):
        raise NotAllowed(f"it sets the option {name}")


_CHECKS: dict[str, Callable[[Node, Made], None]] = {
    "Constraint": _constraint,
    "DefElem": _option,
    "IndexElem": _element,
    "PartitionElem": _element,
}


def listed(option: Node) -> QualifiedName:
    """Return the words of an option's value, which the parser took for a type, a list or a text."""
    words: list[str] = []
    for node in option.nodes("arg"):
        if node.kind == "TypeName":
            words += node.names("names")
        elif node.kind == "List":
            words += node.names("items")
        else:
            words.append(str(node.get("sval", node.get("fval", ""))))
    return tuple(words)


def elements(tree: Node, objects: Made, *kinds: str) -> None:
    """Judge all elements of a statement, and record the columns that it names.

    Raises:
        NotAllowed: Something in it is not listed.
        ModelError: It holds something that pg_dump never writes.
    """
    columns = judge(tree, objects, _PARTS | {tree.kind, *kinds})
    objects.add("columns", *((name,) for name in columns))
    for node in tree.walk():
        check = _CHECKS.get(node.kind)
        if check is not None:
            check(node, objects)
