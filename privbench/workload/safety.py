"""Judge queries before a replay: they may only read.

A workload runs on the production database, so three things protect the data: this check, a READ
ONLY transaction around every run, and the extended protocol, which takes one statement at a time.

A query is parsed by PostgreSQL's parser, must be one SELECT (VALUES and TABLE count as such), and
may contain only what `privbench.pgsql.judge` lists. The objects that its names refer to depend on
the database: see `privbench.workload.database`. Without a database the text alone is judged: then
functions of users are refused, but it is not known to which object a harmless name refers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privbench.errors import UsageError
from privbench.pgsql import Node, SqlError, names, statement
from privbench.pgsql.judge import Name, NotAllowed, judge, plain
from privbench.pgsql.judge import Scope as Naming
from privbench.workload.query import Workload

if TYPE_CHECKING:
    from privbench.workload.database import Database

_REMEDY = (
    "Only SELECT, WITH … SELECT, VALUES and TABLE with functions that merely compute are replayed: "
    "take it out of the workload, or allow what it calls (--allow-function SCHEMA.NAME, "
    "--allow-extension NAME), or trust all of the workload (--trust-workload)."
)


@dataclass(frozen=True, slots=True)
class Trust:
    """Functions and extensions that the operator allows in addition to the listed ones."""

    functions: frozenset[Name] = frozenset()  # functions that may be called, as (schema, name)
    # Extensions whose functions may be called, beside the listed ones.
    extensions: frozenset[str] = frozenset()
    workload: bool = False  # Whether no query is judged. Transactions are READ ONLY all the same.

    @classmethod
    def of(
        cls,
        functions: Iterable[str] = (),
        extensions: Iterable[str] = (),
        *,
        workload: bool = False,
    ) -> Trust:
        """Make it from command-line arguments: functions are written as ``schema.name``."""
        split = [tuple(text.split(".")) for text in functions]
        wrong = next((name for name in split if len(name) != 2 or not all(name)), None)
        if wrong is not None:
            raise UsageError(
                f"{'.'.join(wrong)!r} is not of the form schema.name.",
                remedy="Write --allow-function SCHEMA.NAME, as the catalog spells them.",
            )
        return cls(frozenset(split), frozenset(extensions), workload)


#: Only listed functions and extensions are allowed.
NONE = Trust()


class _Names(Naming):
    """Rules of both scopes that need no look-up."""

    def collation(self, name: Name) -> bool:
        """Any collation is allowed, since collations call no functions."""
        return True

    def column(self, name: str) -> bool:
        """Any column is allowed; the server refuses what is neither a column nor a call."""
        return True


class Text(_Names):
    """The scope for judging a text alone, without a database.

    With ``users`` functions of users are allowed: they are judged on the database before they run.
    If the ``columns`` of the tables are known, no other field may be selected.
    """

    def __init__(
        self, trust: Trust = NONE, *, users: bool = False, columns: Set[str] | None = None
    ) -> None:
        self._trust = trust
        self._users = users
        self._columns = columns

    def column(self, name: str) -> bool:
        """Whether there may be a column of this name."""
        return self._columns is None or name in self._columns

    def function(self, name: Name) -> bool:
        """Whether a function is listed, or allowed by the operator, or left to the database."""
        known = plain(name) in names.functions() or name in self._trust.functions
        users = self._users and not (plain(name) and self.calls(name[-1]))
        return known or users or of_extension(name[-1])

    def operator(self, name: Name) -> bool:
        """Any operator, type or relation is allowed: its name does not show what it runs."""
        return True

    type = relation = operator


def of_extension(function: str) -> bool:
    """Whether a listed extension has a listed function of this name."""
    found = (names.extension(extension) or {} for extension in names.extensions())
    return any(function in listed.get("functions", ()) for listed in found)


def check(workload: Workload, judges: Mapping[str, Callable[[Node], object]] | None = None) -> None:
    """Refuse a workload that holds anything but reading queries.

    ``judges`` has, by name, a function for each database that will run the workload; it raises
    `NotAllowed`. Without judges queries are judged by their texts alone.

    Raises:
        UsageError: A query cannot be parsed, or is no query, or does more than read; the message
            names the first such query.
    """
    judges = judges or {"": lambda tree: judge(tree, Text())}
    for query in workload:
        where, found = "", None
        try:
            tree = query_tree(query.sql)
            for side, refuse in judges.items():
                where = f" (on the {side})" if side else ""
                refuse(tree)
        except SqlError as error:
            found = error.message.rstrip(".")
        except NotAllowed as reason:
            found = f"{reason}{where}"
        if found:
            raise UsageError(
                f"query {query.id} of workload {workload.name}: {found}.", remedy=_REMEDY
            )


def fault(text: str, trust: Trust = NONE) -> str | None:
    """Why a query is not replayed, judged by its text and without its values; None if it is."""
    try:
        judge(query_tree(text), Text(trust))
    except SqlError:
        return "it cannot be read"
    except NotAllowed as reason:
        return str(reason)
    return None


def query_tree(text: str) -> Node:
    """The tree of a text, which must be one query without writes, locks or parameters."""
    tree = statement(text).tree
    if tree.kind != "SelectStmt":
        raise NotAllowed("it is not a query")
    kinds = {node.kind for node in tree.walk()}
    if kinds & {"LockingClause", "IntoClause"}:
        raise NotAllowed("it writes or locks rows")
    if "ParamRef" in kinds:
        raise NotAllowed("it holds parameters ($1): bind them with 'workload rebind'")
    return tree


class Scope(_Names):
    """Judges names by the objects of a database.

    Relations without a schema are looked up in the schemas of the path, in order. In definitions of
    objects (``deep``), names without a schema are those of `pg_catalog`, and an operator may be any
    operator of that name. Functions that the planner never evaluates (``uncomputed``) are allowed.
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
        """Whether a function may be called.

        That holds for listed functions of the server and of listed extensions, and for functions
        that the user allowed.
        """
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
        """Refuse a name that may call a user-defined function, directly or through a type."""
        for function in _named(self._database.functions, name):
            self._database.refuse_function(function)
        for row in _named(self._database.types, name):
            # A call with one argument may be a cast to the type of that name.
            self._database.refuse_type(row, named=True)

    def _lacking(self, name: Name) -> bool:
        """Whether a name that this database lacks may be called on the other database."""
        allowed = {function[-1] for function in self._database.trust.functions}
        return name[-1] in allowed or of_extension(name[-1])

    def operator(self, name: Name) -> bool:
        """Whether an operator is the server's, or its functions are allowed."""
        for row in _named(self._database.operators, name):
            what = f"it may use the operator {row.schema}.{row.name}, which runs"
            self._database.refuse_code(row.code, row.function, what)
        return True

    def type(self, name: Name) -> bool:
        """Whether a type is the server's, or calls only allowed functions when a value is made."""
        found = _named(self._database.types, name)
        for row in found:
            self._database.refuse_type(row, named=True)
        return bool(found) or len(name) == 1 or names.is_system(name[0])

    def relation(self, name: Name) -> bool:
        """Whether reading a relation runs only functions that are allowed.

        A relation that does not exist is allowed here: the server itself refuses it.
        """
        for schema in self._path if len(name) == 1 else name[-2:-1]:
            row = self._database.relations.get((schema, name[-1]))
            if row is not None:
                self._database.refuse_relation(row, deep=self._deep)
                break
        return len(name) < 3

    def calls(self, field: str) -> bool:
        """Whether a field of this name may be a call of a forbidden function, or a forbidden cast.

        This is never so in a definition that the server printed, which prints every call as a call.
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
    """Objects that a name may refer to under any search path."""
    schema = name[-2] if len(name) > 1 else None
    return [row for row in kinds.get(name[-1], ()) if schema in (None, row.schema)]


def uncomputed(text: str, *, condition: bool) -> frozenset[Name]:
    """Functions that have a column among their arguments in all their calls.

    The planner reads the expressions of indexes, CHECKs, partition keys and statistics of every
    table that a query reads, and evaluates their constant parts, but never these functions.

    A scan may evaluate the ``condition`` of an index again, if the query's condition implies it
    but does not contain all of it: ``n > 0`` implies ``n > 0 OR f(n)``.
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
    """Whether a part of a condition may imply the whole condition."""
    if node.kind == "BoolExpr":
        return bool(node.get("boolop") != "AND_EXPR")
    return node.kind == "A_Expr" and node.get("kind") != "AEXPR_OP"


def _varies(node: Node) -> bool:
    """Whether no planner can take an expression for a constant.

    That holds for a column, and for a listed function of a column whose other arguments cannot be
    NULL, since most functions of NULL are NULL.
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
