"""Which statements of a server make a workload: reads of users' tables."""

from __future__ import annotations

import re

from sqlglot import exp

from privbench.errors import UsageError
from privbench.workload.capture.normal import bound
from privbench.workload.query import Query, parse
from privbench.workload.safety import fault

_OPENER = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:select|with|values|table)\b", re.IGNORECASE | re.DOTALL
)
_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*([a-z]{2,12})\b", re.IGNORECASE | re.DOTALL)
_WORDS_OF_THE_SYSTEM = re.compile(r"\b(?:pg_catalog\.|information_schema\.|from\s+pg_)", re.I)
# pg_stat_statements puts parameters where PostgreSQL takes none: values stand for them.
_MOST_PARAMETERS = 1 << 16
_CATALOGS = frozenset({"pg_catalog", "information_schema"})

NO_QUERY = "it is not a query"
UNREADABLE = "it cannot be read"
CATALOG = "it reads the system catalogs"
NO_TABLE = "it reads no table"


def opens_like_a_query(text: str) -> bool:
    """Whether the first word may begin a query; cheap."""
    return _OPENER.match(text) is not None


def no_query(text: str) -> str:
    """Why a statement that is no query is left out, with its kind: INSERT, SET, ….

    >>> no_query(" insert into t values (1)")
    'it is not a query but INSERT'
    """
    word = _WORD.match(text)
    return f"{NO_QUERY} but {word[1].upper()}" if word else NO_QUERY


def reason_against(text: str) -> str | None:
    """Why a statement is left out of a captured workload, or None where it belongs into it."""
    if not opens_like_a_query(text):
        return no_query(text)
    try:
        found = fault(Query("captured", bound(text, ["0"] * _MOST_PARAMETERS)), users=True)
    except UsageError:
        return UNREADABLE
    if found is not None:
        return found
    tree = parse(text)
    if tree is None:
        # A server reads more than sqlglot does: the text goes by its words.
        return CATALOG if _WORDS_OF_THE_SYSTEM.search(text) else None
    tables = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    if any(_of_the_system(table) for table in tables):
        return CATALOG
    return None if tables else NO_TABLE


def _of_the_system(table: exp.Table) -> bool:
    return table.db in _CATALOGS or (not table.db and table.name.lower().startswith("pg_"))
