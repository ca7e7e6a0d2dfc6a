"""Which objects of a database a query may name, and a definition that the query reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privbench.pgsql import Node, SqlError, names, statement
from privbench.pgsql.judge import Name, plain
from privbench.workload.safety import of_extension

if TYPE_CHECKING:
    from privbench.workload.database import Database


class Scope:
    """Judges names by the objects of a database (`privbench.pgsql.judge.Scope`).

    Args:
        database: The database.
        path: Schemas in which relations without one are looked for, in order.
        deep: Whether definitions are judged, in which names without a schema are `pg_catalog`'s.
            Operators are not all written there, so they are taken for any of their name.
        uncomputed: Functions that pass because they are never computed.
    """

    def __init__(
        self,
        database: Database,
        path: Sequence[str] = ("pg_catalog",),
        *,
        deep: bool = False,
        uncomputed: frozenset[Name] = frozenset(),
    ) -> None:
        self._database = database
        self._path = path
        self._deep = deep
        self._uncomputed = uncomputed

    def function(self, name: Name) -> bool:
        """Listed functions of the server and of listed extensions, and allowed ones."""
        if len(name) > 2:
            return False
        written, name = name, ("pg_catalog", *name) if self._deep and len(name) == 1 else name
        found = _named(self._database.functions, name)
        if written in self._uncomputed and not any(
            f.language == "sql" or f.defaults for f in found
        ):
            return True
        self.refuse_users(name)
        allowed = self._database.trust.functions
        if name[0] != "pg_catalog" and len(name) == 2:
            return bool(found) or name in allowed or self._lacking(name)
        last = name[-1]
        if last in names.functions() or ("pg_catalog", last) in allowed:
            return True
        return last not in names.others() and (bool(found) or self._lacking(name))

    def refuse_users(self, name: Name) -> None:
        """Refuse a name that leads to a function of users, or to a type that runs one.

        Raises:
            NotAllowed: It does.
        """
        for function in _named(self._database.functions, name):
            self._database.refuse_function(function)
        for row in _named(self._database.types, name):
            # A call with one argument may be a cast to the type of that name.
            self._database.refuse_type(row, named=True)

    def _lacking(self, name: Name) -> bool:
        """Whether one side lacks what an extension or the operator's word would let pass."""
        allowed = {function[-1] for function in self._database.trust.functions}
        return name[-1] in allowed or of_extension(name[-1])

    def sequence(self, name: str) -> bool:
        """No sequence is moved."""
        return False

    def collation(self, name: Name) -> bool:
        """Any: collations call nothing."""
        return True

    def column(self, name: str) -> bool:
        """Any: what is neither a column nor a call is refused by the server."""
        return True

    def operator(self, name: Name) -> bool:
        """The server's operators, and others whose functions pass."""
        for row in _named(self._database.operators, name):
            what = f"it may use the operator {row.schema}.{row.name}, which runs"
            self._database.refuse_code(row.code, row.function, what)
        return True

    def type(self, name: Name) -> bool:
        """The server's types, and others that call nothing when a value is made."""
        found = _named(self._database.types, name)
        for row in found:
            self._database.refuse_type(row, named=True)
        return bool(found) or len(name) == 1 or names.is_system(name[0])

    def relation(self, name: Name) -> bool:
        """Relations whose reading runs nothing that is not listed.

        One that does not exist passes: the server itself refuses it.
        """
        for schema in self._path if len(name) == 1 else name[-2:-1]:
            row = self._database.relations.get((schema, name[-1]))
            if row is not None:
                self._database.refuse_relation(row, deep=self._deep)
                break
        return len(name) < 3

    def calls(self, field: str) -> bool:
        """Whether a function or a type of this name may be neither called nor cast to.

        In a definition the server has written each call as one.
        """
        if self._deep:
            return False
        database = self._database
        if field in database.fields and ("pg_catalog", field) not in database.trust.functions:
            return True
        for function in database.functions.get(field, ()):
            if function.alone:
                database.refuse_function(function)
        for row in database.types.get(field, ()):
            database.refuse_type(row, named=True)
        return False


def _named(kinds: Mapping[str, Sequence[Any]], name: Name) -> list[Any]:
    """What a name may lead to, whatever the search path."""
    schema = name[-2] if len(name) > 1 else None
    return [row for row in kinds.get(name[-1], ()) if schema in (None, row.schema)]


def uncomputed(text: str, *, condition: bool) -> frozenset[Name]:
    """Functions that have a column among their arguments wherever they are called.

    The planner reads the expressions of indexes, CHECKs, partition keys and statistics of every
    table that a query reads, and computes what of them is constant: never these functions.

    Args:
        text: An expression.
        condition: Whether it is an index's. A scan may compute that again, on rows of which a query
            implies it without naming all of it: ``n > 0`` implies ``n > 0 OR f(n)``.
    """
    found: dict[Name, bool] = defaultdict(lambda: True)
    try:
        nodes = list(statement(f"SELECT {text}").tree.walk())
    except SqlError:
        return frozenset()
    if condition and any(_chooses(node) for node in nodes):
        return frozenset()
    for node in nodes:
        if node.kind == "FuncCall":
            found[node.names("funcname")] &= any(_varies(arg) for arg in node.nodes("args"))
    return frozenset(name for name, always in found.items() if always)


def _chooses(node: Node) -> bool:
    """Whether a part of a condition may be enough for the whole."""
    if node.kind == "BoolExpr":
        return bool(node.get("boolop") != "AND_EXPR")
    return node.kind == "A_Expr" and node.get("kind") != "AEXPR_OP"


def _varies(node: Node) -> bool:
    """Whether no planner can take an expression for a constant.

    It is a column, or a listed function of one whose other arguments cannot be NULL: most
    functions of NULL are NULL.
    """
    while node.kind == "TypeCast":
        (node,) = node.nodes("arg")
    if node.kind == "FuncCall" and plain(node.names("funcname")) in names.functions():
        args = node.nodes("args")
        return any(map(_varies, args)) and all(_varies(arg) or _text(arg) for arg in args)
    return node.kind == "ColumnRef"


def _text(node: Node) -> bool:
    """Whether an argument is a constant other than NULL."""
    while node.kind == "TypeCast":
        (node,) = node.nodes("arg")
    return node.kind == "A_Const" and not node.get("isnull")
