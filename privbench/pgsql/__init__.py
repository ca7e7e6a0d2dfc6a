"""SQL that is judged before it runs: PostgreSQL's own parser, and what trees may hold."""

from privbench.pgsql.parser import (
    SETTINGS,
    Node,
    SqlError,
    Statement,
    Token,
    pieces,
    statement,
    statements,
    tokens,
)

__all__ = [
    "SETTINGS",
    "Node",
    "SqlError",
    "Statement",
    "Token",
    "pieces",
    "statement",
    "statements",
    "tokens",
]
