"""Judge the queries of a workload by the catalog of the database that runs them.

Objects that initdb made are judged by lists that come with privbench. All other objects may have
been made by users: a function is allowed if it belongs to a listed extension or if the operator
allows it by name, an operator if its function is allowed, a type if its CHECKs are.

A replay also allows functions that tell facts of the server (`names.reading`), and judges programs
of users by what they do. A function in SQL is judged by its queries, as a view is; one in PL/pgSQL
if it is a single RETURN of an expression, by that expression; an aggregate by all functions that it
runs. Their names may lead anywhere at each call, so every object of a name has to be allowed, and
policies count for any role. Whoever owns such a function can replace it between this look and the
run, as a view: nothing locks it.

Reading a relation runs code that the query does not show: the definitions of views and policies;
constant parts of expressions in indexes, CHECKs, partition keys and extended statistics, which the
planner evaluates; and CHECKs of domains, which functions such as array_append apply. All of these
are judged before the first query runs. A name without a schema is judged as every object of that
name, so that the search path does not matter; only relations are resolved by the path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from psycopg import conninfo

from privbench.errors import SchemaError
from privbench.pgsql import Node, SqlError, names, statement, statements, tokens
from privbench.pgsql.judge import (
    EXPRESSIONS,
    NotAllowed,
    QualifiedName,
    Scope,
    constant,
    judge,
    shown,
)
from privbench.postgres.connect import Connection, resolved
from privbench.postgres.reading import SEARCH_PATH, begin, reading
from privbench.schema import TableName
from privbench.workload import questions
from privbench.workload.questions import FIRST_USER_OID, ask
from privbench.workload.safety import NONE, Trust, of_extension, query_tree, uncomputed

#: Nodes that the body of a function may consist of: queries with its parameters.
_BODIES = EXPRESSIONS | {"ParamRef", "ReturnStmt"}
#: Functions that servers before PostgreSQL 17 call by name for what is syntax later; a function of
#: a user may have such a name.
_CALLS = {
    "JsonArrayAgg": ("json_arrayagg",),
    "JsonArrayConstructor": ("json_array",),
    "JsonArrayQueryConstructor": ("json_array",),
    "JsonFuncExpr": ("json_exists", "json_query", "json_value"),
    "JsonObjectAgg": ("json_objectagg",),
    "JsonObjectConstructor": ("json_object",),
    "JsonParseExpr": ("json",),
    "JsonScalarExpr": ("json_scalar",),
    "JsonSerializeExpr": ("json_serialize",),
}
#: Views of the server that read files of the server.
_FILES = frozenset({"pg_hba_file_rules", "pg_ident_file_mappings", "pg_file_settings"})


def refuse_computing(
    connection: Connection, tables: Iterable[TableName], *, checks: bool = False
) -> None:
    """Refuse tables for which the planner itself runs functions of users, whoever reads them.

    Partitions and children of the tables are checked too. CHECKs are examined only with ``checks``,
    since the planner does not use them in sessions that read rows (`reading.ROWS`). The catalog is
    queried over another connection to the same server. The SchemaError names the first such table,
    and the function that would run.
    """
    with reading(conninfo.make_conninfo("", **resolved(connection))) as asking:
        database = Database(asking, SEARCH_PATH)
        for name in tables:
            try:
                database.refuse_read(name, checks=checks)
            except NotAllowed as reason:
                raise SchemaError(
                    f"reading it would call a user-defined function, since {reason}.",
                    table=str(name),
                    remedy="Drop what calls it, or leave the table out ([database] exclude).",
                ) from None


class Database:
    """Judges the queries of a workload by the catalog of a database.

    It queries the catalog when it needs to: the connection, which only reads
    (`privbench.postgres.reading`), must stay in the transaction that this object begins. The
    workload will run under the search path ``path``, and may call the functions in ``trust`` in
    addition to the listed ones. What only reads is allowed to queries that are replayed, but not to
    expressions that the planner computes while tables are read (``replays``). Methods refuse with
    `NotAllowed`, which says what is not allowed.
    """

    def __init__(
        self, connection: Connection, path: str, trust: Trust = NONE, *, replays: bool = False
    ) -> None:
        self.connection = connection
        self.trust = trust
        self.replays = replays
        self.known = names.functions() | (names.reading() if replays else frozenset())
        if connection.info.server_version < 140000:
            # They were texts of SQL then, whose operators may have been those of users.
            self.known -= {"col_description", "obj_description", "shobj_description"}
        begin(connection, {"search_path": path})
        schemas = [row.name for row in ask(connection, questions.PATH)]
        begin(connection)
        functions = ask(connection, questions.FUNCTIONS)
        self._code = {row.oid: row for row in functions}
        self.functions = _by_name(functions)
        self.operators = _by_name(ask(connection, questions.OPERATORS))
        types = ask(connection, questions.TYPES)
        self._types = {row.oid: row for row in types}
        self.types = _by_name(types)
        relations = ask(connection, questions.RELATIONS)
        self.relations = {(row.schema, row.name): row for row in relations}
        self._by_oid = {row.oid: row for row in relations}
        self._judged: dict[tuple[str, Any, bool], NotAllowed | None] = {}
        self._schemas = schemas
        self._unnamed = self._unnamed_fault()

    @cached_property
    def own(self) -> dict[str, bool]:
        """Names of the server's own functions, and whether one of that name takes one argument."""
        return {row.name: row.alone for row in ask(self.connection, questions.OWN_FUNCTIONS)}

    def calls_by_field(self, name: str) -> bool:
        """Whether a field of this name may call a function of the server that is not listed."""
        return self.own.get(name, False) and name not in names.functions() - {names.NEXTVAL}

    def judge(self, tree: Node) -> None:
        """Refuse a query that may do more than read; a query that shows a setting is allowed."""
        if self.trust.workload:
            return
        if self._unnamed is not None:
            raise self._unnamed
        scope = CatalogScope(self, self._schemas, texts=self._judged_texts(tree))
        _judge_written(tree, scope, EXPRESSIONS | {"VariableShowStmt"})

    def _judged_texts(self, tree: Node) -> frozenset[str]:
        """Names of functions whose texts, in all their calls, are queries that may be replayed."""
        passing: dict[str, bool] = {}
        for node in tree.walk():
            name = node.names("funcname")[-1] if node.kind == "FuncCall" else ""
            if name in names.running_texts():
                passing[name] = passing.get(name, True) and self._runs_queries(node)
        return frozenset(name for name, fine in passing.items() if fine)

    def _runs_queries(self, call: Node) -> bool:
        try:
            for text in map(constant, call.nodes("args")):
                # Texts within such a text are refused.
                scope = CatalogScope(self, self._schemas)
                _judge_written(query_tree(text or ""), scope, EXPRESSIONS)
        except (SqlError, NotAllowed):
            return False
        return True

    def refuse_read(self, name: TableName, *, checks: bool) -> None:
        """Refuse a table, or one of its partitions and children, as `refuse_computing` does."""
        waiting = [row for row in [self.relations.get((name.schema, name.name))] if row]
        while waiting:
            row = waiting.pop()
            waiting += self._parts(row)
            self._refuse_planned(row, checks=checks)

    def _parts(self, row: Any) -> list[Any]:
        """The partitions and children of a table."""
        return [self._by_oid[p.part] for p in ask(self.connection, questions.PARTS, row.oid)]

    def refuse_function(self, function: Any, *, called: bool = False) -> None:
        """Refuse a function that neither the operator allows nor a listed extension provides.

        In a replay, functions that only read are allowed too, if they are ``called`` by their
        names. Functions that run without being named, as casts and operators do, have to be SQL
        expressions.
        """
        if function.range is not None:
            self.refuse_type(self._types[function.range], named=True)
            return
        reads = called and self.replays
        name, extension = (function.schema, function.name), function.extension
        if name in self.trust.functions or extension in self.trust.extensions:
            return
        listed = names.extension(extension) if extension else None
        if listed is not None and function.name in listed.get("functions", ()):
            if function.language == "sql" and function.body:
                self._refuse_program(function, reads=False)
        elif self.replays and function.name in names.counters(extension):
            return
        elif function.plain and _is_readable(function, reads):
            self._refuse_program(function, reads=reads)
        else:
            whose = f" of the extension {extension}" if extension else ""
            raise NotAllowed(f"it may call {shown(name)}, a function{whose} that is not listed")

    def _refuse_program(self, function: Any, *, reads: bool) -> None:
        """Refuse a function if what it does, under whatever search path, is more than reading."""
        kinds = _BODIES if reads else _BODIES - {"RangeVar"}

        def refuse() -> None:
            try:
                for oid in function.types:
                    self.refuse_type(self._types[oid], named=True)
                if function.aggregate:
                    for row in ask(self.connection, questions.AGGREGATE, function.oid):
                        self.refuse_code(row.code, row.function, "it runs")
                for tree in _bodies(function):
                    _judge_written(tree, CatalogScope(self, None), kinds)
                for tree in self._standard_bodies(function):
                    judge(tree, CatalogScope(self, deep=True), kinds)
            except (SqlError, NotAllowed) as reason:
                why = f"{reason}".rstrip(".")
                name = shown((function.schema, function.name))
                raise NotAllowed(
                    f"it may call {name}, a function that is not listed: {why}"
                ) from None

        self._once(("function", function.oid, reads), refuse)

    def _standard_bodies(self, function: Any) -> list[Node]:
        """The body of a function whose names were resolved when it was made, if it is one."""
        old = self.connection.info.server_version < 140000
        if old or function.language != "sql" or function.body:
            return []
        (row,) = ask(self.connection, questions.STANDARD_BODY, function.oid)
        definition = f"CREATE FUNCTION f() RETURNS void LANGUAGE sql {row.text or ''}"
        return statement(definition).tree.nodes("sql_body")

    def refuse_code(self, code: int, name: str | None, what: str) -> None:
        """Refuse an object, described by ``what``, that runs the function with this OID."""
        function = self._code.get(code)
        if function is None:
            key = ("pg_catalog", name or "")
            computes = name in names.functions() and name != names.NEXTVAL
            if name is None or computes or key in self.trust.functions:
                return
            raise NotAllowed(f"{what} {shown(key)}, which is not listed")
        try:
            self.refuse_function(function)
        except NotAllowed:
            name = shown((function.schema, function.name))
            raise NotAllowed(f"{what} {name}, which is not listed") from None

    def refuse_type(self, row: Any, *, named: bool) -> None:
        """Refuse a type whose values call a function that is not allowed.

        If the query names the type (``named``), values are also made from text, not only read.
        """
        self._once(("type", row.oid, named), lambda: self._refuse_type(row, named=named))

    def _refuse_type(self, row: Any, *, named: bool) -> None:
        whose = shown((row.schema, row.name))
        for code in row.code:
            self.refuse_code(code, None, f"the type {whose} runs")
        for text in row.checks:
            self._refuse_expression(text, f"the domain {whose}", frozenset())
        for oid in (*row.parts, row.base, row.element):
            if oid in self._types:
                self.refuse_type(self._types[oid], named=named)
        if named and row.kind == "b" and not row.is_array and not self._vouched(row.extension):
            raise NotAllowed(f"it names the type {whose}, which is not listed")

    def refuse_relation(self, row: Any, *, deep: bool) -> None:
        """Refuse a relation if reading it calls a function that is not allowed.

        With ``deep`` the definition of another object reads it, with the rights of another role.
        """
        self._once(("relation", row.oid, deep), lambda: self._refuse_relation(row, deep=deep))

    def _once(self, key: tuple[str, Any, bool], refuse: Callable[[], None]) -> None:
        """Judge an object once, and keep the verdict: a NotAllowed, or None if it is allowed.

        While an object is being judged, references to it are allowed, so that cycles end. If it is
        refused in the end, all permissions are forgotten, since some may rest on this one.
        """
        if key not in self._judged:
            self._judged[key] = None
            try:
                refuse()
            except (NotAllowed, RecursionError) as error:
                deep = NotAllowed("it is nested too deeply to be judged")
                # Objects allowed in the meantime may have been allowed because this one was.
                self._judged = {k: why for k, why in self._judged.items() if why is not None}
                self._judged[key] = error if isinstance(error, NotAllowed) else deep
        known = self._judged[key]
        if known is not None:
            raise known

    def _refuse_relation(self, row: Any, *, deep: bool) -> None:
        name = shown((row.schema, row.name))
        if row.oid < FIRST_USER_OID:
            if row.name in _FILES:
                raise NotAllowed(f"it reads {name}, which reads files of the server")
            return
        if row.kind not in ("r", "p", "v", "m", "S"):
            raise NotAllowed(f"it reads {name}, which is neither a table nor a view")
        for column in ask(self.connection, questions.COLUMN_TYPES, row.oid):
            self.refuse_type(self._types[column.type], named=False)
        if row.kind == "v":
            (view,) = ask(self.connection, questions.VIEW, row.oid)
            self._refuse_definition(view.text, f"the view {name}", CatalogScope(self, deep=True))
            return
        for part in self._parts(row):
            self.refuse_relation(part, deep=deep)
        self._refuse_planned(row)
        if row.secured and (deep or ask(self.connection, questions.FILTERED, row.oid)[0].active):
            for policy in ask(self.connection, questions.POLICIES, row.oid):
                self._refuse_expression(policy.text, f"{policy.what} of {name}", frozenset())

    def _refuse_planned(self, row: Any, *, checks: bool = True) -> None:
        """Judge the expressions of which the planner evaluates constant parts.

        The planner never evaluates a function that has a column among its arguments, unless it is
        written in SQL: the planner then inlines its body, which may contain constants.

        With ``checks`` the planner also looks at CHECKs (``constraint_exclusion``).
        """
        name = shown((row.schema, row.name))
        expressions = ask(self.connection, questions.PLANNED, row.oid)
        if self.connection.info.server_version >= 140000:
            expressions += ask(self.connection, questions.STATISTICS, row.oid)
        for item in expressions:
            if not item.text or (item.part == "check" and not checks):
                continue
            # The planner replaces a virtual column by its expression.
            text = "" if row.virtual else item.text
            passing = uncomputed(text, condition=item.part == "condition")
            self._refuse_expression(item.text, f"{item.what} of {name}", passing)

    def _refuse_expression(
        self, text: str | None, what: str, uncomputed: frozenset[QualifiedName]
    ) -> None:
        if text:
            scope = CatalogScope(self, deep=True, uncomputed=uncomputed)
            self._refuse_definition(f"SELECT {text}", what, scope)

    def _refuse_definition(self, text: str, what: str, scope: CatalogScope) -> None:
        """Refuse an object by its definition as the server prints it under a fixed search path."""
        try:
            judge(statement(text).tree, scope)
        except SqlError as error:
            raise NotAllowed(f"{what} cannot be read: {error.message.rstrip('.')}") from None
        except NotAllowed as reason:
            raise NotAllowed(f"{what} is not allowed: {reason}") from None

    def _vouched(self, extension: str | None) -> bool:
        return extension in self.trust.extensions or extension in names.extensions()

    def _unnamed_fault(self) -> NotAllowed | None:
        """The first forbidden function that runs without being named in a query, or None."""
        for row in ask(self.connection, questions.UNNAMED):
            function = self._code.get(row.code)
            if function is not None and self._vouched(function.extension):
                continue
            try:
                self.refuse_code(
                    row.code, row.function, f"any query may use {row.what}, which runs"
                )
            except NotAllowed as reason:
                return reason
        return None


class CatalogScope(Scope):
    """Judges names by the objects of a database.

    Relations without a schema are looked up in the schemas of the path, in order. Without a path,
    as in the text of a function, which may be called under any path, they may be any relation of
    that name, and may be read with the rights of the function's owner. In definitions of objects
    (``deep``), names without a schema are those of `pg_catalog`, and an operator may be any
    operator of that name. Functions that the planner never evaluates (``uncomputed``) are allowed,
    and functions that run ``texts``, all of which were judged.
    """

    def __init__(
        self,
        database: Database,
        path: Sequence[str] | None = ("pg_catalog",),
        *,
        deep: bool = False,
        uncomputed: frozenset[QualifiedName] = frozenset(),
        texts: frozenset[str] = frozenset(),
    ) -> None:
        self._database = database
        self._path = path
        self._deep = deep
        self._uncomputed = uncomputed
        self._texts = texts

    def collation(self, name: QualifiedName) -> bool:
        """Return True, since collations call no functions."""
        return True

    def column(self, name: str) -> bool:
        """Return True; the server refuses what is neither a column nor a call."""
        return True

    def function(self, name: QualifiedName) -> bool:
        """Return whether a function may be called.

        Allowed are listed functions of the server and of listed extensions, functions that the user
        allowed, and names that no function has: the server itself refuses those.
        """
        if len(name) > 2:
            return False
        written, name = name, ("pg_catalog", *name) if self._deep and len(name) == 1 else name
        functions = _objects_named(self._database.functions, name)
        if written in self._uncomputed and not any(
            f.language == "sql" or f.defaults for f in functions
        ):
            return True
        self.refuse_users(name)
        allowed = self._database.trust.functions
        last = name[-1]
        if name[0] != "pg_catalog" and len(name) == 2:
            return bool(functions) or name in allowed or self._lacking(name) or self._absent(last)
        if last in self._database.known or last in self._texts or ("pg_catalog", last) in allowed:
            return True
        known = bool(functions) or self._lacking(name) or self._absent(last)
        return last not in names.others() and known

    def _absent(self, name: str) -> bool:
        """Whether no function of the database has this name, in whatever schema."""
        database = self._database
        return database.replays and name not in database.own and name not in database.functions

    def refuse_users(self, name: QualifiedName) -> None:
        """Refuse a name that may call a user-defined function, directly or through a type."""
        for function in _objects_named(self._database.functions, name):
            runner = names.running_texts().get(name[-1]) if name[-1] in self._texts else None
            if runner is None or function.extension != runner:
                self._database.refuse_function(function, called=True)
        for row in _objects_named(self._database.types, name):
            # A call with one argument may be a cast to the type of that name.
            self._database.refuse_type(row, named=True)

    def _lacking(self, name: QualifiedName) -> bool:
        """Whether a name that this database lacks may be called on the other database."""
        allowed = {function[-1] for function in self._database.trust.functions}
        return name[-1] in allowed or of_extension(name[-1])

    def operator(self, name: QualifiedName) -> bool:
        """Return whether an operator is the server's, or its functions are allowed."""
        for row in _objects_named(self._database.operators, name):
            what = f"it may use the operator {row.schema}.{row.name}, which runs"
            self._database.refuse_code(row.code, row.function, what)
        return True

    def type(self, name: QualifiedName) -> bool:
        """Return whether a type is the server's, or calls only allowed functions for a value."""
        types = _objects_named(self._database.types, name)
        for row in types:
            self._database.refuse_type(row, named=True)
        return bool(types) or len(name) == 1 or names.is_system(name[0])

    def relation(self, name: QualifiedName) -> bool:
        """Return whether reading a relation runs only functions that are allowed.

        A relation that does not exist is allowed here: the server itself refuses it.
        """
        known, free = self._database.relations, self._path is None
        path = dict.fromkeys(schema for schema, _ in known) if self._path is None else self._path
        for schema in path if len(name) == 1 else name[-2:-1]:
            row = known.get((schema, name[-1]))
            if row is not None:
                self._database.refuse_relation(row, deep=self._deep or free)
                if not free:
                    break
        return len(name) < 3

    def calls(self, field: str) -> bool:
        """Return whether a field of this name may be a forbidden call or a forbidden cast.

        This is never so in a definition that the server printed, which prints every call as a call.
        """
        if self._deep:
            return False
        database = self._database
        if database.calls_by_field(field) and ("pg_catalog", field) not in database.trust.functions:
            return True
        for function in database.functions.get(field, ()):
            if function.alone:
                database.refuse_function(function)
        for row in database.types.get(field, ()):
            database.refuse_type(row, named=True)
        return False


def _objects_named(kinds: Mapping[str, Sequence[Any]], name: QualifiedName) -> list[Any]:
    """Objects that a name may refer to under any search path."""
    schema = name[-2] if len(name) > 1 else None
    return [row for row in kinds.get(name[-1], ()) if schema in (None, row.schema)]


def _judge_written(tree: Node, scope: CatalogScope, kinds: frozenset[str]) -> None:
    """Refuse a query that may do more than read, as somebody has written it."""
    judge(tree, scope, kinds)
    for node in tree.walk():
        for name in _CALLS.get(node.kind, ()):
            scope.refuse_users((name,))
        # If a WITH query has a table's name, the name may refer to either.
        if node.kind == "CommonTableExpr":
            scope.relation((str(node.get("ctename")),))


def _is_readable(function: Any, reads: bool) -> bool:
    """Whether what a function does can be judged, as far as it may also be more than compute."""
    if not reads:
        return bool(function.language == "sql" and function.body and not function.types)
    return function.aggregate or function.language in ("sql", "plpgsql")


def _bodies(function: Any) -> list[Node]:
    """The queries of a function in SQL, or the one expression that a function in PL/pgSQL returns.

    Any other function in PL/pgSQL is refused (NotAllowed). Its scanner is that of SQL, and it reads
    an expression up to the first semicolon as the rest of a SELECT.
    """
    if function.language == "sql":
        return [item.tree for item in statements(function.body)]
    if function.language != "plpgsql":
        return []
    words = tokens(function.body)
    kinds = [word.text.upper() for word in words]
    end = len(words) - (kinds[-1:] == [";"])
    if not (
        kinds[:2] == ["BEGIN", "RETURN"]
        and kinds[end - 2 : end] == [";", "END"]
        and kinds[2 : end - 2].count(";") == 0
        and kinds[2] not in ("NEXT", "QUERY")
    ):
        raise NotAllowed("it is more than one RETURN of an expression")
    text = function.body[words[2].start : words[end - 2].start]
    return [statement(f"SELECT {text}").tree]


def _by_name(rows: Iterable[Any]) -> dict[str, list[Any]]:
    by_name: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        by_name[row.name].append(row)
    return by_name
