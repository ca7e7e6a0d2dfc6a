"""Judge SQL before it runs: parse it by PostgreSQL's own parser and allow only listed nodes.

`Statement`, `Token` and `Node` are what is read, a `Scope` says which names may be used, `judge`
refuses the rest.
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
