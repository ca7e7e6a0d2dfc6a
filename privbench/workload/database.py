"""Judges the queries of a workload by a database: what they name there, and what runs unnamed.

The catalog tells where names lead. What initdb made is judged by the shipped lists; all else is
somebody's: a function passes where it is a listed extension's or is allowed by name, an operator
where its function does, a type where its CHECKs do.

Reading a relation runs more than the query holds: the definitions of views, policies, constant
parts of expressions in indexes, CHECKs, partition keys and extended statistics, which the planner
computes, and CHECKs of domains, which functions such as array_append apply. All are judged before
the first query runs. Names without a schema are taken for every object of that name, so that no
search path matters; only relations go by the path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from privbench.pgsql import Node, SqlError, names, statement
from privbench.pgsql.judge import Name, NotAllowed, judge, shown
from privbench.postgres.connect import Connection
from privbench.postgres.reading import begin
from privbench.workload import questions
from privbench.workload.questions import FIRST_USER_OID, ask
from privbench.workload.safety import NONE, Trust

#: Views of the server that read its files.
_FILES = frozenset({"pg_hba_file_rules", "pg_ident_file_mappings", "pg_file_settings"})


def powers(connection: Connection) -> tuple[str, tuple[str, ...]]:
    """The role of a connection, and what it may do beyond reading tables.

    Raises:
        DatabaseError: The server refused.
    """
    (row,) = ask(connection, questions.POWERS)
    return str(row.role), tuple(row.powers)


@dataclass(frozen=True, slots=True)
class _Function:
    """A function that initdb did not make; ``extension`` only where a superuser vouches for it."""

    schema: str
    name: str
    language: str
    alone: bool  # whether it can be called with one argument
    range: int | None  # the range type that PostgreSQL made it for
    extension: str | None

    @property
    def key(self) -> Name:
        return self.schema, self.name


class Database:
    """Judges the queries of a workload by the catalog of a database.

    It asks the catalog as it goes: the connection must stay in the transaction that this begins.

    Args:
        connection: One that only reads (`privbench.postgres.reading`).
        path: The search path under which the queries will run.
        trust: What the operator vouches for.

    Raises:
        DatabaseError: The server refused.
    """

    def __init__(self, connection: Connection, path: str, trust: Trust = NONE) -> None:
        self.connection = connection
        self.trust = trust
        begin(connection, {"search_path": path})
        schemas = [row.name for row in ask(connection, questions.PATH)]
        begin(connection)
        self.functions: dict[str, list[_Function]] = defaultdict(list)
        self._code: dict[int, _Function] = {}
        for row in ask(connection, questions.FUNCTIONS):
            found = _Function(
                row.schema, row.name, row.language, row.alone, row.range, row.extension
            )
            self.functions[row.name].append(found)
            self._code[row.oid] = found
        self.fields = {row.name for row in ask(connection, questions.FIELDS)} - names.functions()
        self.operators = _by_name(ask(connection, questions.OPERATORS))
        types = ask(connection, questions.TYPES)
        self._types = {row.oid: row for row in types}
        self.types = _by_name(types)
        relations = ask(connection, questions.RELATIONS)
        self.relations = {(row.schema, row.name): row for row in relations}
        self._by_oid = {row.oid: row for row in relations}
        self._read: dict[tuple[int, bool], NotAllowed | None] = {}
        self._unnamed = self._first(ask(connection, questions.UNNAMED))
        self._scope = _Scope(self, schemas)

    def judge(self, tree: Node) -> None:
        """Refuse a query that may do more than read.

        Raises:
            NotAllowed: With what is not allowed.
            DatabaseError: The server refused.
        """
        if self.trust.workload:
            return
        if self._unnamed is not None:
            raise self._unnamed
        judge(tree, self._scope)
        for node in tree.walk():
            # Where a WITH query has a table's name, either may be meant.
            if node.kind == "CommonTableExpr":
                self._scope.relation((str(node.get("ctename")),))

    def fine(self, function: _Function) -> None:
        """Refuse a function that is neither allowed nor a listed extension's.

        Raises:
            NotAllowed: It is not.
        """
        if function.range is not None:
            self.value(self._types[function.range], named=True)
            return
        extension = function.extension
        if function.key in self.trust.functions or extension in self.trust.extensions:
            return
        listed = names.extension(extension) if extension else None
        if listed is None or function.name not in listed.get("functions", ()):
            whose = f" of the extension {extension}" if extension else ""
            raise NotAllowed(
                f"it may call {shown(function.key)}, a function{whose} that is not listed"
            )

    def runs(self, code: int, name: str | None, what: str) -> None:
        """Refuse what runs a function by its OID.

        Raises:
            NotAllowed: The function is not listed.
        """
        function = self._code.get(code)
        if function is None:
            key = ("pg_catalog", name or "")
            if name is None or name in names.functions() or key in self.trust.functions:
                return
            raise NotAllowed(f"{what} {shown(key)}, which is not listed")
        try:
            self.fine(function)
        except NotAllowed:
            raise NotAllowed(f"{what} {shown(function.key)}, which is not listed") from None

    def value(self, row: Any, *, named: bool, above: frozenset[int] = frozenset()) -> None:
        """Refuse a type whose values call what may not be called.

        Args:
            row: The type.
            named: Whether values are made of text, not only read.
            above: Types that hold it.

        Raises:
            NotAllowed: They do.
        """
        if row.oid in above:
            return
        whose = shown((row.schema, row.name))
        for code in row.code:
            self.runs(code, None, f"the type {whose} runs")
        for text in row.checks:
            self._expression(text, f"the domain {whose}", frozenset())
        for oid in (*row.parts, row.base, row.element):
            if oid in self._types:
                self.value(self._types[oid], named=named, above=above | {row.oid})
        if named and row.kind == "b" and not row.is_array and not self._vouched(row.extension):
            raise NotAllowed(f"it names the type {whose}, which is not listed")

    def reads(self, row: Any, *, deep: bool) -> None:
        """Refuse a relation that runs what is not listed when it is read.

        Args:
            row: The relation.
            deep: Whether a definition reads it, with the rights of another role.

        Raises:
            NotAllowed: It does.
        """
        key = row.oid, deep
        if key not in self._read:
            self._read[key] = None
            try:
                self._relation(row, deep=deep)
            except NotAllowed as reason:
                self._read[key] = reason
        known = self._read[key]
        if known is not None:
            raise known

    def _relation(self, row: Any, *, deep: bool) -> None:
        name = shown((row.schema, row.name))
        if row.oid < FIRST_USER_OID:
            if row.name in _FILES:
                raise NotAllowed(f"it reads {name}, which reads files of the server")
            return
        if row.kind not in ("r", "p", "v", "m", "S"):
            raise NotAllowed(f"it reads {name}, which is neither a table nor a view")
        for column in ask(self.connection, questions.COLUMN_TYPES, row.oid):
            self.value(self._types[column.type], named=False)
        if row.kind == "v":
            (found,) = ask(self.connection, questions.VIEW, row.oid)
            self._definition(found.text, f"the view {name}", _Scope(self, deep=True))
            return
        for part in ask(self.connection, questions.PARTS, row.oid):
            self.reads(self._by_oid[part.part], deep=deep)
        self._planned(row, name)
        if row.secured and (deep or ask(self.connection, questions.FILTERED, row.oid)[0].active):
            for policy in ask(self.connection, questions.POLICIES, row.oid):
                self._expression(policy.text, f"{policy.what} of {name}", frozenset())

    def _planned(self, row: Any, name: str) -> None:
        """Judge the expressions of which the planner computes constant parts.

        A function with a bare column among its arguments is never computed, unless it is written in
        SQL: the planner puts its body in its place, where constants may stand.
        """
        found = ask(self.connection, questions.PLANNED, row.oid)
        if self.connection.info.server_version >= 140000:
            found += ask(self.connection, questions.STATISTICS, row.oid)
        for item in found:
            # A virtual column is no bare column: an expression stands in its place.
            late = _late(item.text) if item.text and not row.virtual else frozenset()
            self._expression(item.text, f"{item.what} of {name}", late)

    def _expression(self, text: str | None, what: str, late: frozenset[Name]) -> None:
        if text:
            self._definition(f"SELECT {text}", what, _Scope(self, deep=True, late=late))

    def _definition(self, text: str, what: str, scope: _Scope) -> None:
        """Judge what the server has written under the path of the tool's own questions."""
        try:
            judge(statement(text).tree, scope)
        except SqlError as error:
            raise NotAllowed(f"{what} cannot be read: {error.message.rstrip('.')}") from None
        except NotAllowed as reason:
            raise NotAllowed(f"{what} is not allowed: {reason}") from None

    def _vouched(self, extension: str | None) -> bool:
        return extension in self.trust.extensions or extension in names.extensions()

    def _first(self, rows: Iterable[Any]) -> NotAllowed | None:
        """The first of what runs unnamed that may not, or None."""
        for row in rows:
            function = self._code.get(row.code)
            if function is not None and self._vouched(function.extension):
                continue
            try:
                self.runs(row.code, row.function, f"any query may use {row.what}, which runs")
            except NotAllowed as reason:
                return reason
        return None


class _Scope:
    """What names lead to in a database (`privbench.pgsql.judge.Scope`).

    Args:
        database: The database.
        path: Schemas in which relations without one are looked for, in order.
        deep: Whether definitions are judged, in which names without a schema are `pg_catalog`'s.
            Operators are not all written there, so they are taken for any of their name.
        late: Functions that pass because they are never computed.
    """

    def __init__(
        self,
        database: Database,
        path: Sequence[str] = ("pg_catalog",),
        *,
        deep: bool = False,
        late: frozenset[Name] = frozenset(),
    ) -> None:
        self._database = database
        self._path = path
        self._deep = deep
        self._late = late

    def function(self, name: Name) -> bool:
        """Listed functions of the server and of listed extensions, and allowed ones."""
        if len(name) > 2:
            return False
        written, name = name, ("pg_catalog", *name) if self._deep and len(name) == 1 else name
        found = _named(self._database.functions, name)
        if written in self._late and all(function.language != "sql" for function in found):
            return True
        for function in found:
            self._database.fine(function)
        for row in _named(self._database.types, name):
            # A call with one argument may be a cast to the type of that name.
            self._database.value(row, named=True)
        allowed = self._database.trust.functions
        if name[0] != "pg_catalog" and len(name) == 2:
            return bool(found) or name in allowed or self._lacking(name)
        last = name[-1]
        if last in names.functions() or ("pg_catalog", last) in allowed:
            return True
        return last not in names.others() and (bool(found) or self._lacking(name))

    def _lacking(self, name: Name) -> bool:
        """Whether one side lacks what an extension or the operator's word would let pass."""
        return any(name[-1] == allowed[-1] for allowed in self._database.trust.functions) or any(
            name[-1] in (names.extension(extension) or {}).get("functions", ())
            for extension in names.extensions()
        )

    def sequence(self, name: str) -> bool:
        """No sequence is moved."""
        return False

    def operator(self, name: Name) -> bool:
        """The server's operators, and others whose functions pass."""
        for row in _named(self._database.operators, name):
            what = f"it may use the operator {row.schema}.{row.name}, which runs"
            self._database.runs(row.code, row.function, what)
        return True

    def type(self, name: Name) -> bool:
        """The server's types, and others that call nothing when a value is made."""
        found = _named(self._database.types, name)
        for row in found:
            self._database.value(row, named=True)
        return bool(found) or len(name) == 1 or names.is_system(name[0])

    def collation(self, name: Name) -> bool:
        """Any: collations call nothing."""
        return True

    def relation(self, name: Name) -> bool:
        """Relations whose reading runs nothing that is not listed.

        One that does not exist passes: the server itself refuses it.
        """
        for schema in self._path if len(name) == 1 else name[-2:-1]:
            row = self._database.relations.get((schema, name[-1]))
            if row is not None:
                self._database.reads(row, deep=self._deep)
                break
        return len(name) < 3

    def column(self, name: str) -> bool:
        """Any: what is neither a column nor a call is refused by the server."""
        return True

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
                database.fine(function)
        for row in database.types.get(field, ()):
            database.value(row, named=True)
        return False


def _by_name(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.name].append(row)
    return found


def _named(kinds: dict[str, list[Any]], name: Name) -> list[Any]:
    """What a name may lead to, whatever the search path."""
    schema = name[-2] if len(name) > 1 else None
    return [row for row in kinds.get(name[-1], ()) if schema in (None, row.schema)]


def _late(text: str) -> frozenset[Name]:
    """Functions that have a bare column among their arguments wherever they are called."""
    late: dict[Name, bool] = defaultdict(lambda: True)
    try:
        tree = statement(f"SELECT {text}").tree
    except SqlError:
        return frozenset()
    for node in tree.walk():
        if node.kind == "FuncCall":
            late[node.names("funcname")] &= any(_is_column(arg) for arg in node.nodes("args"))
    return frozenset(name for name, always in late.items() if always)


def _is_column(node: Node) -> bool:
    """Whether an argument is a column as it stands, or cast."""
    while node.kind == "TypeCast":
        (node,) = node.nodes("arg")
    return node.kind == "ColumnRef"
