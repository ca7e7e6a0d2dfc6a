"""Judge SQL before it runs: parse it by PostgreSQL's own parser and allow only listed nodes.

Its concepts are `Statement`, `Token` and `Node`, the results of parsing; a `Scope`, which says
which names may be used; and `judge`, which refuses all other statements.
"""

from privbench.pgsql.parser import (
    SETTINGS,
    Node,
    SqlError,
    Statement,
    Token,
    cut,
    pieces,
    placed_pieces,
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
    "cut",
    "pieces",
    "placed_pieces",
    "statement",
    "statements",
    "tokens",
]
