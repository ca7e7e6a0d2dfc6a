"""What may be replayed: queries that only read.

A workload runs on the production database, so three things stand between it and the data: this
check, a READ ONLY transaction around every run, and the extended protocol, which takes one
statement at a time.

A query is parsed by PostgreSQL's parser, must be one SELECT (VALUES and TABLE are), and may hold
nothing but what `privbench.pgsql.judge` lists. What its names lead to depends on the database: see
`privbench.workload.database`. Where none is at hand, the text alone is judged: then functions of
users are refused, but what a harmless name stands for is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from privbench.errors import UsageError
from privbench.pgsql import Node, SqlError, names, statement
from privbench.pgsql.judge import Name, NotAllowed, judge, plain
from privbench.workload.query import Query, Workload

_REMEDY = (
    "Only SELECT, WITH … SELECT, VALUES and TABLE with functions that merely compute are replayed: "
    "take it out of the workload, or allow what it calls (--allow-function SCHEMA.NAME, "
    "--allow-extension NAME), or trust all of the workload (--trust-workload)."
)


@dataclass(frozen=True, slots=True)
class Trust:
    """What the operator allows beyond the lists.

    Attributes:
        functions: Functions that may be called, as (schema, name).
        extensions: Extensions whose functions may be called, beside the listed ones.
        workload: Whether nothing is judged. Transactions are READ ONLY all the same.
    """

    functions: frozenset[Name] = frozenset()
    extensions: frozenset[str] = frozenset()
    workload: bool = False

    @classmethod
    def of(
        cls,
        functions: Iterable[str] = (),
        extensions: Iterable[str] = (),
        *,
        workload: bool = False,
    ) -> Trust:
        """From what the command line says.

        Raises:
            UsageError: A function is not written as ``schema.name``.
        """
        split = [tuple(text.split(".")) for text in functions]
        wrong = next((name for name in split if len(name) != 2 or not all(name)), None)
        if wrong is not None:
            raise UsageError(
                f"{'.'.join(wrong)!r} is not of the form schema.name.",
                remedy="Write --allow-function SCHEMA.NAME, as the catalog spells them.",
            )
        return cls(frozenset(split), frozenset(extensions), workload)


#: Nothing beyond the lists.
NONE = Trust()


class Text:
    """The scope of a text alone, without a database (`privbench.pgsql.judge.Scope`).

    Args:
        trust: What the operator allows beyond the lists.
        users: Let functions of users pass: nothing runs before a database is asked.
    """

    def __init__(self, trust: Trust = NONE, *, users: bool = False) -> None:
        self._trust = trust
        self._users = users

    def function(self, name: Name) -> bool:
        """Functions that only compute: the server's, those of listed extensions, allowed ones."""
        known = plain(name) in names.functions() or name in self._trust.functions
        users = self._users and not (plain(name) and self.calls(name[-1]))
        return known or users or of_extension(name[-1])

    def sequence(self, name: str) -> bool:
        """No sequence is moved."""
        return False

    def operator(self, name: Name) -> bool:
        """Any: an operator's name does not show what it runs."""
        return True

    def type(self, name: Name) -> bool:
        """Any, likewise."""
        return True

    def collation(self, name: Name) -> bool:
        """Any: collations call nothing."""
        return True

    def relation(self, name: Name) -> bool:
        """Any, likewise."""
        return True

    def column(self, name: str) -> bool:
        """Any, likewise."""
        return True

    def calls(self, field: str) -> bool:
        """The names of functions of `pg_catalog` that are not listed."""
        return names.may_call(field)


def of_extension(function: str) -> bool:
    """Whether a listed extension has a listed function of this name."""
    found = (names.extension(extension) or {} for extension in names.extensions())
    return any(function in listed.get("functions", ()) for listed in found)


def check(workload: Workload) -> None:
    """Refuse a workload that holds anything but reading queries, by its text alone.

    Raises:
        UsageError: A query cannot be parsed, or is no query, or does more than read; the message
            names the first such query.
    """
    check_on(workload, {"": lambda tree: judge(tree, Text())})


def check_on(workload: Workload, judges: Mapping[str, Callable[[Node], object]]) -> None:
    """Refuse a workload that holds anything but reading queries, on any of several databases.

    Args:
        workload: Its queries.
        judges: One for each database, by what it is called; it raises `NotAllowed`.

    Raises:
        UsageError: As `check`.
    """
    for query in workload:
        where, found = "", None
        try:
            tree = _query(query.sql)
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


def fault(query: Query, trust: Trust = NONE, *, users: bool = False) -> str | None:
    """Why a query is not replayed, by its text alone and without a value of it; None if it is.

    Args:
        query: The query.
        trust: What the operator allows beyond the lists.
        users: Let functions of users pass: nothing runs before a database is asked.

    Raises:
        UsageError: PostgreSQL's parser does not take the text.
    """
    try:
        judge(_query(query.sql), Text(trust, users=users))
    except SqlError as error:
        raise UsageError(f"the text cannot be read: {error.message}") from None
    except NotAllowed as reason:
        return str(reason)
    return None


def _query(text: str) -> Node:
    """The tree of a text that is one query.

    Raises:
        SqlError: It cannot be parsed, or is not one statement.
        NotAllowed: It is no query, locks rows, makes a table or holds parameters.
    """
    tree = statement(text).tree
    if tree.kind != "SelectStmt":
        raise NotAllowed("it is not a query")
    kinds = {node.kind for node in tree.walk()}
    if kinds & {"LockingClause", "IntoClause"}:
        raise NotAllowed("it writes or locks rows")
    if "ParamRef" in kinds:
        raise NotAllowed("it holds parameters ($1): bind them with 'workload rebind'")
    return tree
