"""What of a bundle psql and the reader's server would run: its DDL and its queries, judged.

DDL passes the allow-list of a load (`privbench.pgsql.ddl`), here without anything left out. It
goes through psql, which reads words of its own: a backslash outside of quotes never parses as SQL,
and a colon before a name, which psql may take for a variable, is refused. The text has to be that
of its statements alone, so that no comment is there to deceive whoever reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from privbench.errors import ModelError, UsageError
from privbench.pgsql import SqlError, Statement, statements, tokens
from privbench.pgsql.ddl import allowed
from privbench.pgsql.judge import relation_name
from privbench.workload import Query, Workload
from privbench.workload.safety import check

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Made:
    """What the DDL of a bundle makes: tables that rows may go into, sequences that may be moved."""

    tables: frozenset[Name]
    sequences: frozenset[Name]
    views: frozenset[Name]


def joined(found: Iterable[Statement | str]) -> str:
    """Statements as the text of a file, one after the other."""
    texts = (item if isinstance(item, str) else item.text for item in found)
    return "".join(f"{text};\n" for text in texts)


def judge_ddl(before: str, after: str) -> Made:
    """Judge the DDL of a bundle.

    Raises:
        ModelError: It is not on the allow-list, or psql may read it otherwise than PostgreSQL.
    """
    found = allowed(before, after)
    if found.left_out:
        raise ModelError(f"the schema holds what a load leaves out ({found.left_out[0]}).")
    for text, part in zip((before, after), found.parts, strict=True):
        if text != joined(part):
            raise ModelError("the schema holds more than its statements.")
        refuse_variables(text)
    both = [*found.parts[0], *found.parts[1]]
    return Made(
        frozenset(_relation(item) for item in both if item.tree.kind == "CreateStmt"),
        frozenset(name for item in both for name in _sequences(item)),
        frozenset(
            relation_name(item.tree.nodes("into")[0].nodes("rel")[0])  # type: ignore[misc]
            for item in both
            if item.tree.kind == "CreateTableAsStmt"
        ),
    )


def refuse_variables(text: str) -> None:
    """Refuse what psql may take for one of its variables, ``:name`` and the like.

    Raises:
        ModelError: There is one.
    """
    for colon, after in pairwise(tokens(text)):
        if colon.text == ":" and colon.end == after.start:
            raise ModelError(f"psql would take :{after.text[:63]} for a variable.")


def judge_workload(workload: Workload) -> None:
    """Refuse a workload that does more than read, or that psql may read otherwise.

    Raises:
        ModelError: It does.
    """
    try:
        check(workload)
        # Cut again from the file that psql gets: as many statements, and the same.
        if [item.text for item in statements(queries_text(workload.queries))] != [
            statements(query.sql)[0].text for query in workload
        ]:
            raise ModelError("psql would cut the queries otherwise.")
        refuse_variables(queries_text(workload.queries))
    except (UsageError, SqlError) as error:
        raise ModelError(str(error)) from None


def queries_text(queries: Iterable[Query]) -> str:
    """The queries as a file for psql, one a statement."""
    return joined(statements(query.sql)[0].text for query in queries)


def _relation(item: Statement) -> Name:
    schema, name = relation_name(item.tree.nodes("relation")[0])
    return schema, name


def _sequences(item: Statement) -> Iterator[Name]:
    """Sequences that a statement makes: by itself, or for an identity column."""
    if item.tree.kind == "CreateSeqStmt":
        schema, name = relation_name(item.tree.nodes("sequence")[0])
        yield schema, name
    for node in item.tree.walk():
        if node.kind == "DefElem" and node.get("defname") == "sequence_name":
            (listed,) = node.nodes("arg")
            schema, name = listed.names("items")
            yield schema, name
