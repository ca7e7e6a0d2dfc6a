"""What may be replayed: queries that only read.

A workload runs on the production database, so three things stand between it and the data: this
check of the text, a READ ONLY transaction around every run, and the extended protocol, which takes
one statement at a time.
"""

from __future__ import annotations

import itertools
import re

from sqlglot import TokenType, exp

from privbench.errors import UsageError
from privbench.workload.query import Query, Workload, parse
from privbench.workload.split import statements, tokens

_OPENERS = {TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.TABLE}
_WRITERS = (exp.DML, exp.DDL, exp.Into, exp.Lock, exp.Command, exp.Copy, exp.Set)
_WRITING_WORDS = {
    TokenType.INSERT,
    TokenType.UPDATE,
    TokenType.DELETE,
    TokenType.MERGE,
    TokenType.INTO,
    TokenType.TRUNCATE,
}
# Functions that act on the server, on files, on other sessions or on settings: a READ ONLY
# transaction does not stop them.
_ACTING = re.compile(
    r"""(pg_terminate_|pg_cancel_|pg_reload_|pg_rotate_|pg_switch_|pg_promote|pg_create_|pg_drop_
    |pg_backup_|pg_start_|pg_stop_|pg_read_|pg_ls_|pg_stat_reset|pg_notify|pg_logical_
    |pg_replication_|pg_wal_replay_|pg_import_|pg_export_|pg_(try_)?advisory_|pg_log_
    |set_config|setval|nextval|dblink|lo_(import|export|unlink|put|creat|from_bytea|open|truncate)
    |query_to_xml|pg_file_)""",
    re.VERBOSE | re.IGNORECASE,
)
_REMEDY = "Only SELECT, WITH … SELECT, VALUES and TABLE are replayed: take it out of the workload."


def check(workload: Workload) -> None:
    """Refuse a workload that holds anything but reading queries.

    Raises:
        UsageError: A query writes, locks, calls a function that acts on the server, or is not a
            query; the message names the first such query.
    """
    for query in workload:
        found = fault(query)
        if found:
            raise UsageError(f"query {query.id} of workload {workload.name}: {found}.",
                             remedy=_REMEDY)  # fmt: skip


def fault(query: Query) -> str | None:
    """Why a query is not replayed, without a word of its text; None where it only reads.

    Raises:
        UsageError: The text holds a string, name or comment without an end.
    """
    if len(statements(query.sql)) != 1:
        return "it is not exactly one statement"
    kinds = [token.token_type for token in tokens(query.sql)]
    opener = next((kind for kind in kinds if kind is not TokenType.L_PAREN), None)
    if opener not in _OPENERS:
        return "it is not a query"
    calls = acting(query.sql)
    if calls:
        return f"it calls {calls[0]}, which acts on the server"
    tree = parse(query.sql)
    if tree is None:
        # The text is beyond sqlglot: judge it by its words.
        return "it may write" if _WRITING_WORDS & set(kinds) else None
    return "it writes or locks rows" if _writes(tree) else None


def acting(sql: str) -> list[str]:
    """Names of functions that the text calls and that act on the server, in order."""
    return [
        name.text
        for name, bracket in itertools.pairwise(tokens(sql))
        if bracket.token_type is TokenType.L_PAREN and _ACTING.match(name.text)
    ]


def _writes(tree: exp.Expression) -> bool:
    return any(not isinstance(node, exp.Query) for node in tree.find_all(*_WRITERS))
