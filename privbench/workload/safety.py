"""Judge queries before a replay: they may only read.

A workload runs on the production database, so three things protect the data: this check, a READ
ONLY transaction around every run, and the extended protocol, which takes one statement at a time.

A query is parsed by PostgreSQL's parser, must be one SELECT (VALUES and TABLE count as such) or
SHOW, and may contain only what `privbench.pgsql.judge` lists. The objects that its names refer to
depend on the database: see `privbench.workload.database`. Without a database the text alone is
judged: then functions of users are refused, but it is not known to which object a harmless name
refers.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate

from privbench import display
from privbench.errors import UsageError
from privbench.pgsql import Node, SqlError, names, statement, tokens
from privbench.pgsql.judge import NotAllowed, QualifiedName, Scope, judge, plain
from privbench.workload.query import Refusal, Workload, WorkloadQuery

_REMEDY = (
    "Only SELECT, WITH … SELECT, VALUES, TABLE and SHOW with functions that merely read are "
    "replayed: take it out of the workload, or have it left out (--skip-refused), or allow what it "
    "calls (--allow-function SCHEMA.NAME, --allow-extension NAME), or trust all of the workload "
    "(--trust-workload)."
)
_NO_QUERY = "it is not a query"
#: Characters of a query's text, and of the reason of its refusal, that a message shows.
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Trust:
    """Functions and extensions that the operator allows in addition to the listed ones."""

    functions: frozenset[QualifiedName] = (
        frozenset()
    )  # functions that may be called, as (schema, name)
    # Extensions whose functions may be called, beside the listed ones.
    extensions: frozenset[str] = frozenset()
    workload: bool = False  # Whether no query is judged. Transactions are READ ONLY all the same.
    skip: bool = False  # Whether the others run where queries are refused.

    @classmethod
    def of(
        cls,
        functions: Iterable[str] = (),
        extensions: Iterable[str] = (),
        *,
        workload: bool = False,
        skip: bool = False,
    ) -> Trust:
        """Make it from command-line arguments: functions are written as ``schema.name``."""
        split = [tuple(text.split(".")) for text in functions]
        wrong = next((name for name in split if len(name) != 2 or not all(name)), None)
        if wrong is not None:
            raise UsageError(
                f"{'.'.join(wrong)!r} is not of the form schema.name.",
                remedy="Write --allow-function SCHEMA.NAME, as the catalog spells them.",
            )
        return cls(frozenset(split), frozenset(extensions), workload, skip)


#: Only listed functions and extensions are allowed.
NONE = Trust()


class TextScope(Scope):
    """The scope for judging a text alone, without a database.

    With ``users``, functions of users are allowed, which are judged on the database before they
    run, and functions that read properties of the server. If the ``columns`` of the tables are
    known, no other field may be selected.
    """

    def __init__(
        self, trust: Trust = NONE, *, users: bool = False, columns: Set[str] | None = None
    ) -> None:
        self._trust = trust
        self._users = users
        self._columns = columns

    def collation(self, name: QualifiedName) -> bool:
        """Return True, since collations call no functions."""
        return True

    def column(self, name: str) -> bool:
        """Return whether there may be a column of this name."""
        return self._columns is None or name in self._columns

    def function(self, name: QualifiedName) -> bool:
        """Return whether a function is listed, or allowed by the operator, or judged later."""
        listed = names.functions() | (names.reading() if self._users else frozenset())
        known = plain(name) in listed or name in self._trust.functions
        users = self._users and not (plain(name) and self.calls(name[-1]))
        return known or users or of_extension(name[-1])

    def operator(self, name: QualifiedName) -> bool:
        """Return True for any operator, type or relation: its name does not show what it runs."""
        return True

    type = relation = operator


def of_extension(function: str) -> bool:
    """Return whether a listed extension has a listed function of this name."""
    listed_objects = (names.extension(extension) or {} for extension in names.extensions())
    return any(function in listed.get("functions", ()) for listed in listed_objects)


def check(workload: Workload, judges: Mapping[str, Callable[[Node], object]] | None = None) -> None:
    """Refuse a workload that holds anything except reading queries.

    Without judges queries are judged by their texts alone.

    Raises:
        UsageError: A query cannot be parsed, or is no query, or does more than read; the message
            names every such query.
    """
    refusals_found = refusals(workload, judges or {"": lambda tree: judge(tree, TextScope())})
    if refusals_found:
        raise refused(workload, refusals_found)


def refusals(workload: Workload, judges: Mapping[str, Callable[[Node], object]]) -> list[Refusal]:
    """Return the queries that the judges of the databases refuse, in the order of the workload."""
    result = []
    for query in workload:
        where, why = "", None
        try:
            tree = query_tree(query.sql)
            for side, refuse in judges.items():
                where = f" (on the {side})" if side else ""
                refuse(tree)
        except SqlError as error:
            why = error.message.rstrip(".")
        except NotAllowed as reason:
            why = f"{reason}{where}"
            why += f" but {_kind(query.sql)}" if why == _NO_QUERY else ""
        if why:
            result.append(Refusal(query.id, query.place, why, query.sql))
    return result


def _kind(text: str) -> str:
    """The kind of a statement: its first word, or two (CREATE VIEW)."""
    words = [word.text.upper() for word in tokens(text)[:2]]
    return " ".join(words if words[0] in ("ALTER", "CREATE", "DROP") else words[:1])


def refused(workload: Workload, refusals: Sequence[Refusal]) -> UsageError:
    """Return the error that names all refused queries."""
    head = f"{len(refusals):,} of {len(workload):,} queries are refused, none was run."
    several = [head] if len(refusals) > 1 else []
    return UsageError(
        display.lines(*several, *(line(item, workload.name) for item in refusals), _REMEDY)
    )


def line(item: Refusal, workload: str) -> str:
    """Return a refusal on one line: which query it is, why it is refused, and its text."""
    where = f" ({item.place})" if item.place else ""
    why, text = (_shortened(" ".join(part.split())) for part in (item.reason, item.sql))
    return display.visible(f"query {item.id} of workload {workload}{where}: {why}: {text}")


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


#: A locking clause, and EXPLAIN with its options, in a text of which only `_WORDS` are kept; an x
#: stands for each of the others.
_LOCKING = re.compile(
    r"FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)(?: OF \S+(?: [.,] \S+)*)?"
    r"(?: NOWAIT| SKIP LOCKED)?(?!\S)"
)
_EXPLAIN = re.compile(
    r"EXPLAIN(?: ANALY[SZ]E| VERBOSE| \( (?!SELECT |WITH |VALUES |TABLE |\()[^()]*\))*(?!\S)"
)
_WORDS = re.compile(
    r"ANALY[SZ]E|EXPLAIN|FOR|KEY|LOCKED|NO|NOWAIT|OF|SELECT|SHARE|SKIP|TABLE|UPDATE|VALUES|VERBOSE"
    r"|WITH|[(),.]"
)


def replayed(query: WorkloadQuery) -> tuple[WorkloadQuery, str]:
    """Return a query as it is replayed, and the words of its text that are left out.

    READ ONLY transactions lock no rows, and the lines of a plan are no answer by which two
    databases could be compared: so the query is run without its locking clauses, and without
    EXPLAIN. The remaining text is judged like any text. A text that cannot be parsed stays as it
    is.

    >>> query, words = replayed(WorkloadQuery("q", "SELECT a FROM t FOR UPDATE OF t SKIP LOCKED"))
    >>> query.sql, words
    ('SELECT a FROM t', 'FOR UPDATE OF t SKIP LOCKED')
    """
    text = query.sql
    try:
        tree, words = statement(text).tree, tokens(text)
    except SqlError:
        return query, ""
    marks = [m if _WORDS.fullmatch(m := word.text.upper()) else "x" for word in words]
    line, starts = " ".join(marks), list(accumulate((len(m) + 1 for m in marks), initial=0))
    locks = sum(node.kind == "LockingClause" for node in tree.walk())
    clauses = list(_LOCKING.finditer(line)) if locks else []
    if len(clauses) != locks:  # Some words are none of a clause: substring(a FOR update).
        return query, ""
    if any(inner.kind == "SelectStmt" for inner in tree.nodes("query")):  # of EXPLAIN
        clauses = [item for item in [_EXPLAIN.match(line)] if item] + clauses
    remaining, left_out, end = list[str](), list[str](), 0
    for item in clauses:
        first, last = (words[bisect(starts, at) - 1] for at in item.span())
        remaining.append(text[end : first.start].rstrip(" "))
        left_out.append(" ".join(text[first.start : last.end].split()))
        end = last.end
    return replace(query, sql="".join([*remaining, text[end:]]).strip()), ", ".join(left_out)


def fault(text: str, trust: Trust = NONE) -> str | None:
    """Return why a query is not replayed, by its text and without its values; None if it is."""
    try:
        judge(query_tree(text), TextScope(trust))
    except SqlError:
        return "it cannot be read"
    except NotAllowed as reason:
        return str(reason)
    return None


def query_tree(text: str) -> Node:
    """Return the tree of a text, which must be one query without writes, locks or parameters."""
    tree = statement(text).tree
    if tree.kind not in ("SelectStmt", "VariableShowStmt"):
        raise NotAllowed(_NO_QUERY)
    kinds = {node.kind for node in tree.walk()}
    if kinds & {"LockingClause", "IntoClause"}:
        raise NotAllowed("it writes or locks rows")
    if "ParamRef" in kinds:
        raise NotAllowed("it holds parameters ($1): bind them with 'workload rebind'")
    return tree


def uncomputed(text: str, *, condition: bool) -> frozenset[QualifiedName]:
    """Return functions that have a column among their arguments in all their calls.

    The planner reads the expressions of indexes, CHECKs, partition keys and statistics of every
    table that a query reads, and evaluates their constant parts, but never these functions.

    A scan may evaluate the ``condition`` of an index again, if the query's condition implies it
    but does not contain all of it: ``n > 0`` implies ``n > 0 OR f(n)``.
    """
    always_computed: dict[QualifiedName, bool] = defaultdict(lambda: True)
    try:
        nodes = list(statement(f"SELECT {text}").tree.walk())
    except SqlError:
        return frozenset()
    if condition and any(_chooses(node) for node in nodes):
        return frozenset()
    for node in nodes:
        if node.kind == "FuncCall":
            always_computed[node.names("funcname")] &= any(
                _varies(arg) for arg in node.nodes("args")
            )
    return frozenset(name for name, always in always_computed.items() if always)


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
        return any(map(_varies, args)) and all(_varies(arg) or _is_constant(arg) for arg in args)
    return node.kind == "ColumnRef"


def _is_constant(node: Node) -> bool:
    """Whether an argument is a constant other than NULL."""
    while node.kind == "TypeCast":
        (node,) = node.nodes("arg")
    return node.kind == "A_Const" and not node.get("isnull")
