"""Paths of documents that the schema names: in indexes, CHECKs and generated columns.

Expressions are read as trees by PostgreSQL's own parser. Only these are paths: a column, and then
operators and functions of PostgreSQL that take a constant key or constant keys of it, the last one
to a text. The path's type is that of the cast around it. All of it is the catalog's (P3), so such
paths are public as the schema is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from privbench.config import MAX_PATHS, PathType, path_steps, path_text, require_paths
from privbench.pgsql import Node, SqlError, statement
from privbench.schema import Table

_DOCUMENTS = ("json", "jsonb")
#: Operators that take one key, and those that take several; those with ``>>`` give texts.
_KEY, _KEYS = ("->", "->>"), ("#>", "#>>")
_FUNCTIONS = tuple(f"{base}_extract_path{text}" for base in _DOCUMENTS for text in ("", "_text"))
_TYPES: dict[str, PathType] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "citext", "name"), "text"),
    **dict.fromkeys(("int2", "int4", "int8"), "bigint"),
    **dict.fromkeys(("numeric", "float4", "float8"), "numeric"),
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
}
#: The words of an array of texts as it is printed.
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,"{}\\\s]+)')


def named_paths(table: Table) -> dict[str, dict[str, PathType]]:
    """Return the paths of scalars that a table's expressions name, with types, by column.

    Of two paths of which one leads into the other's value, the longer one stays.
    """
    documents = {c.name for c in table.columns if c.type.base in _DOCUMENTS and not c.generated}
    paths: dict[str, dict[tuple[str, ...], PathType | None]] = {}
    for text in _texts(table) if documents else ():
        try:
            tree = statement(text).tree
        except SqlError:
            continue
        for (column, steps), type_ in _scalars(tree):
            if column in documents and _is_path(steps):
                types = paths.setdefault(column, {})
                known = types.get(steps, "text")
                types[steps] = type_ if known == "text" else known
    return {name: _kept(types) for name, types in paths.items() if _kept(types)}


def _texts(table: Table) -> Iterator[str]:
    yield from (f"SELECT {c.default}" for c in table.columns if c.generated and c.default)
    yield from (f"SELECT {check.expression}" for check in table.checks)
    yield from (index.definition for index in table.indexes if "(" in index.definition)


def _is_path(steps: tuple[str, ...]) -> bool:
    try:
        return path_steps(path_text(steps)) == steps
    except ValueError:
        return False


def _kept(types: dict[tuple[str, ...], PathType | None]) -> dict[str, PathType]:
    """The paths whose types are modelled, without those that lead to an object."""
    inner = {steps[:depth] for steps in types for depth in range(len(steps))}
    scalars = [(s, t) for s, t in types.items() if t is not None and s not in inner][:MAX_PATHS]
    result: dict[str, PathType] = {path_text(steps): type_ for steps, type_ in scalars}
    require_paths(result)
    return result


def _scalars(tree: Node) -> Iterator[tuple[tuple[str, tuple[str, ...]], PathType | None]]:
    """Paths to texts in a tree, with the types that they are cast to; None for any other type."""
    casts: dict[int, PathType | None] = {}
    for node in tree.walk():  # parents come first
        if node.kind == "TypeCast":
            name = node.nodes("typeName")[0].names("names")
            casts[id(node.nodes("arg")[0])] = _TYPES.get(name[-1])
        elif _name(node).endswith((">>", "_text")) and (place := _place(node)):
            yield place, casts.get(id(node), "text")


def _name(node: Node) -> str:
    """The operator or the function of a node that may belong to a path; empty for any other."""
    field = {"A_Expr": "name", "FuncCall": "funcname"}.get(node.kind)
    *space, name = node.names(field) if field else ("",)
    known = name in (*_KEY, *_KEYS, *_FUNCTIONS) and space in ([], ["pg_catalog"])
    return name if known else ""


def _place(node: Node) -> tuple[str, tuple[str, ...]] | None:
    """The column and the keys of a path; None for any other expression."""
    keys: list[str] = []
    while (name := _name(node)) and len(keys) <= MAX_PATHS:
        operands = node.nodes("args") or [*node.nodes("lexpr"), *node.nodes("rexpr")]
        words = [_words(item, name in _KEY) for item in operands[1:]]
        if not words or None in words:
            return None
        keys = [word for some in words if some for word in some] + keys
        node = operands[0]
    column = node.names("fields") if node.kind == "ColumnRef" else ()
    return (column[-1], tuple(keys)) if column and keys else None


def _words(node: Node, whole: bool) -> list[str] | None:
    """The constant texts of an operand: one as it stands, or those of an array; None if others."""
    while node.kind == "TypeCast":
        whole = whole or not node.nodes("typeName")[0].get("arrayBounds")
        node = node.nodes("arg")[0]
    if node.kind == "A_ArrayExpr":
        texts = [_words(item, True) for item in node.nodes("elements")]
        return None if None in texts else [word for some in texts if some for word in some]
    constant = node.get("sval") if node.kind == "A_Const" else None
    if not isinstance(constant, Node):
        return None
    text = str(constant.get("sval", ""))
    if whole:
        return [text]
    words = [quoted or plain for quoted, plain in _WORD.findall(text)]
    rest = _WORD.sub("", text)
    return words if words and rest == "{" + "," * (len(words) - 1) + "}" else None
