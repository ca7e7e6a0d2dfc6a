"""Decide whether a syntax tree only computes, by an allow-list of expressions and queries.

A tree passes if every node in it is of a listed kind, and everything that it names (functions,
operators, types, collations, tables, fields) is something that its `Scope` allows. A node that is
not listed is refused, whatever it is: a later PostgreSQL's node, a clause that nobody thought of.

Some functions are called without the syntax of a call. ``(x).name`` and ``alias.name`` call
``name(x)`` if x has no such field, so a field must be a known column and must not have the name of
a function that may not be called. Operators, casts, ``ORDER BY … USING``, TABLESAMPLE and joins by
USING refer to functions too, and each of them is judged here. The scope decides what a name refers
to: it knows the search path under which the statement will run.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from privbench.pgsql import names
from privbench.pgsql.parser import Node

#: A name as it is written: its words, one or several.
QualifiedName = tuple[str, ...]


class NotAllowed(Exception):
    """A part of a tree is not on the allow-list; the message is a clause such as ``it calls …``."""


class Scope:
    """Decides which names a statement may use.

    It allows the server's functions and operators that only compute, without side effects, and
    those in ``known``, by kind (``functions``, …).
    """

    def __init__(
        self, known: Mapping[str, Collection[QualifiedName]] = MappingProxyType({})
    ) -> None:
        self._known = known

    def knows(self, kind: str, name: QualifiedName) -> bool:
        """Return whether the scope allows a name of this kind beyond those of the server."""
        return name in self._known.get(kind, ())

    def function(self, name: QualifiedName) -> bool:
        """Return whether a call of this function only computes."""
        return plain(name) in names.functions() or self.knows("functions", name)

    def sequence(self, name: str) -> bool:
        """Return whether this text names a sequence that may be advanced."""
        return False

    def operator(self, name: QualifiedName) -> bool:
        """Return whether an operator of this name only computes."""
        return plain(name) is not None or self.knows("operators", name)

    def type(self, name: QualifiedName) -> bool:
        """Return whether values may be cast to this type."""
        return plain(name) is not None or self.knows("types", name)

    def collation(self, name: QualifiedName) -> bool:
        """Return whether this collation may be used."""
        return plain(name) is not None or self.knows("collations", name)

    def relation(self, name: QualifiedName) -> bool:
        """Return whether rows may be read from this table or view."""
        return self.knows("relations", name)

    def column(self, name: str) -> bool:
        """Return whether some table that may be read has a column of this name."""
        return self.knows("columns", (name,))

    def calls(self, field: str) -> bool:
        """Return whether a field of this name might call a function that may not be called.

        Under an empty search path it can only call one of `pg_catalog`.
        """
        return names.may_call(field)


#: Kinds of nodes that expressions and queries are made of.
EXPRESSIONS = frozenset(
    """
    A_ArrayExpr A_Const A_Expr A_Indices A_Indirection A_Star Alias BitString BoolExpr Boolean
    BooleanTest CTECycleClause CTESearchClause CaseExpr CaseWhen CoalesceExpr CollateClause
    ColumnDef ColumnRef CommonTableExpr Float FuncCall GroupingFunc GroupingSet Integer
    JoinExpr JsonAggConstructor JsonArgument JsonArrayAgg JsonArrayConstructor
    JsonArrayQueryConstructor JsonBehavior JsonFormat JsonFuncExpr JsonIsPredicate JsonKeyValue
    JsonObjectAgg JsonObjectConstructor JsonOutput JsonParseExpr JsonReturning JsonScalarExpr
    JsonSerializeExpr JsonTable JsonTableColumn JsonTablePathSpec JsonValueExpr List MinMaxExpr
    NamedArgExpr NullTest RangeFunction RangeSubselect RangeTableFunc RangeTableFuncCol
    RangeTableSample RangeVar ResTarget RowExpr SQLValueFunction SelectStmt SortBy String SubLink
    TypeCast TypeName WindowDef WithClause XmlExpr XmlSerialize
    """.split()
)
#: Columns that get their names from PostgreSQL.
_GIVEN = frozenset(
    "array case coalesce ctid exists greatest grouping least nullif ordinality row tableoid xmin"
    " xmax cmin cmax key value lexeme positions weights word ndoc nentry".split()
)
_SAMPLES = {("system",), ("bernoulli",)}
#: The operators by which BETWEEN and NOT BETWEEN compare.
_BETWEEN = (("<=",), (">=",), ("<",), (">",))


def judge(tree: Node, scope: Scope, kinds: frozenset[str] = EXPRESSIONS) -> frozenset[str]:
    """Refuse the tree of an expression or a query that does anything but compute.

    The scope must allow its names, and its nodes must be of the given ``kinds``. Returns the names
    that the statement itself gives to columns.

    Raises:
        NotAllowed: Something is not on the list; the message names the first such part.
    """
    nodes = list(tree.walk())
    known = _result_names(nodes)
    for node in nodes:
        if node.kind not in kinds:
            raise NotAllowed(f"it holds a node of kind {node.kind}")
        check = _CHECKS.get(node.kind)
        if check is not None:
            check(node, scope)
        for field in _fields(node):
            if not (field in known or scope.column(field)) or scope.calls(field):
                raise NotAllowed(f"it selects {field}, which may be a call and is no known column")
    ctes = {str(node.get("ctename")) for node in nodes if node.kind == "CommonTableExpr"}
    for node in nodes:
        if node.kind == "RangeVar":
            _relation(node, scope, ctes)
    return known


def plain(name: QualifiedName) -> str | None:
    """Return the name within `pg_catalog`, for a scope whose search path is empty, or None."""
    if len(name) == 1:
        return name[0]
    return name[1] if len(name) == 2 and name[0] == "pg_catalog" else None


def shown(name: Iterable[str]) -> str:
    """Return a qualified name as text, for messages."""
    return ".".join(name)


def relation_name(node: Node) -> QualifiedName:
    """Return the words of a relation's name that are written."""
    words = [node.get(part) for part in ("catalogname", "schemaname", "relname")]
    return tuple(str(word) for word in words if word)


def _result_names(nodes: list[Node]) -> frozenset[str]:
    """Names that the statement itself gives to columns."""
    names = set(_GIVEN)
    for node in nodes:
        for field in ("name", "colname", "aliasname"):
            word = node.get(field)
            if isinstance(word, str):
                names.add(word)
        for field in ("colnames", "aliascolnames", "aliases", "names", "funcname"):
            names.update(node.names(field))
        if node.kind == "ColumnRef" and len(node.nodes("fields")) == 1:
            names.update(node.names("fields"))
    return frozenset(names)


def _fields(node: Node) -> list[str]:
    """The names of fields that a node selects, each of which may be a function call."""
    if node.kind == "ColumnRef":
        return [word for word in node.names("fields")[1:] if word != "*"]
    if node.kind == "A_Indirection":
        return [str(n.get("sval", "")) for n in node.nodes("indirection") if n.kind == "String"]
    return []


def _relation(node: Node, scope: Scope, ctes: set[str]) -> None:
    name = relation_name(node)
    # Under an empty search path, only the server's own relations are found without a schema. Their
    # names have a common prefix, with which no WITH query may hide one of them.
    if len(name) == 1 and name[0] in ctes and not names.is_system(name[0]):
        return
    if not scope.relation(name):
        raise NotAllowed(f"it reads {shown(name)}")


def _call(node: Node, scope: Scope) -> None:
    name = node.names("funcname")
    if plain(name) == names.NEXTVAL:
        args = node.nodes("args")
        if not (len(args) == 1 and scope.sequence(constant(args[0]) or "")):
            raise NotAllowed("it calls nextval for something else than a sequence of its own")
    elif not scope.function(name):
        raise NotAllowed(f"it calls {shown(name)}")


def constant(node: Node) -> str | None:
    """Return the text of a constant string, also where it is cast to regclass, or None."""
    if node.kind == "TypeCast" and plain(node.nodes("typeName")[0].names("names")) == "regclass":
        node = node.nodes("arg")[0]
    string = node.nodes("sval") if node.kind == "A_Const" else []
    return str(string[0].get("sval", "")) if string else None


def operators(scope: Scope, used: Iterable[QualifiedName]) -> None:
    """Refuse operators that may do more than compute; the NotAllowed names the first of them."""
    for name in used:
        if not scope.operator(name):
            raise NotAllowed(f"it uses the operator {shown(name)}")


def _operator(node: Node, scope: Scope) -> None:
    between = str(node.get("kind", "")).startswith(("AEXPR_BETWEEN", "AEXPR_NOT_BETWEEN"))
    operators(scope, _BETWEEN if between else [node.names("name")])


def _equality(node: Node, scope: Scope) -> None:
    """Judge the = of USING, natural joins and CASE, in which no operator is written."""
    if node.get("usingClause") or node.get("isNatural") or node.get("arg"):
        operators(scope, [("=",)])


def _type(node: Node, scope: Scope) -> None:
    """Refuse a type that may not be named, or is written as ``table.column%TYPE``."""
    name = node.names("names")
    if node.get("pct_type") or node.get("typeOid") or not scope.type(name):
        raise NotAllowed(f"it names the type {shown(name)}")


def _collation(node: Node, scope: Scope) -> None:
    name = node.names("collname")
    if not scope.collation(name):
        raise NotAllowed(f"it names the collation {shown(name)}")


def _sample(node: Node, scope: Scope) -> None:
    if node.names("method") not in _SAMPLES:
        raise NotAllowed(f"it samples by {shown(node.names('method'))}")


def _sublink(node: Node, scope: Scope) -> None:
    used = node.names("operName")
    operators(scope, [used] if used else [("=",)] if node.get("testexpr") else [])


def _sort(node: Node, scope: Scope) -> None:
    used = node.names("useOp")
    operators(scope, [used] if used else [])


_CHECKS: dict[str, Callable[[Node, Scope], None]] = {
    "A_Expr": _operator,
    "CaseExpr": _equality,
    "CollateClause": _collation,
    "FuncCall": _call,
    "JoinExpr": _equality,
    "RangeTableSample": _sample,
    "SortBy": _sort,
    "SubLink": _sublink,
    "TypeName": _type,
}
