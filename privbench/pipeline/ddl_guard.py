"""What DDL a model file may bring to a target.

The DDL of a model is SQL that somebody else may have written, so it is read before it is run:
statements are split by sqlglot's tokenizer and each must begin as pg_dump's do. What could carry a
program (functions, procedures, triggers, rules) needs the operator's trust.
"""

from __future__ import annotations

import re

from privbench.errors import ModelError
from privbench.workload.split import statements, tokens

_CREATE = (
    "SCHEMA|EXTENSION|TYPE|DOMAIN|COLLATION|SEQUENCE|UNLOGGED TABLE|TABLE|VIEW|RECURSIVE VIEW|"
    "MATERIALIZED VIEW|STATISTICS|UNIQUE INDEX|INDEX|TEXT SEARCH [A-Z]+"
)
_ALTER = "TABLE|SEQUENCE|INDEX|TYPE|DOMAIN|STATISTICS|VIEW|MATERIALIZED VIEW|TEXT SEARCH [A-Z]+"
_DATA = re.compile(rf"(?:CREATE (?:{_CREATE})|ALTER (?:{_ALTER}))\b")
_PROGRAM = re.compile(
    r"(?:CREATE (?:OR REPLACE )?(?:CONSTRAINT )?(?:FUNCTION|PROCEDURE|AGGREGATE|TRIGGER|RULE|"
    r"OPERATOR|OPERATOR CLASS|OPERATOR FAMILY|CONVERSION|CAST|ACCESS METHOD)|ALTER (?:FUNCTION|"
    r"PROCEDURE|AGGREGATE|OPERATOR|OPERATOR CLASS|OPERATOR FAMILY|CONVERSION))\b"
)
_HEAD = 4


def check(text: str, *, trust: bool) -> None:
    """Refuse DDL that does more than make a schema.

    Args:
        text: DDL of a model file.
        trust: Also let functions, procedures, triggers and rules pass, whatever they do.

    Raises:
        ModelError: A statement is not allowed.

    >>> check("CREATE TABLE a (i int); ALTER TABLE ONLY a ADD PRIMARY KEY (i);", trust=False)
    >>> check("COPY a TO PROGRAM 'sh'", trust=False)
    Traceback (most recent call last):
    ...
    privbench.errors.ModelError: the model's DDL holds a statement that is not allowed (COPY).
    """
    if trust:
        return
    for statement in statements(text):
        head = _head(statement)
        if _DATA.match(head):
            continue
        if _PROGRAM.match(head):
            raise ModelError(
                f"the model's DDL holds a program ({head}).",
                remedy="Read it (unzip -p MODEL ddl/pre.sql), then use --trust-programs.",
            )
        word = head.split(" ", 1)[0]
        raise ModelError(f"the model's DDL holds a statement that is not allowed ({word}).")


def _head(statement: str) -> str:
    """The first words, comments left out."""
    return " ".join(token.text.upper() for token in tokens(statement)[:_HEAD])
