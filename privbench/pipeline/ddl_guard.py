"""What DDL a model file may bring to a target.

The DDL of a model is SQL that somebody else may have written, so it is read before it is run:
statements are split by sqlglot's tokenizer and each must begin as pg_dump's do. What could carry a
program (functions, procedures, triggers, rules) needs the operator's trust, and so does a call of a
function that acts on the server. A text that PostgreSQL splits otherwise than sqlglot cannot slip
through: the loader sends each statement by itself, by the protocol that takes one at a time.
"""

from __future__ import annotations

import re

from privbench.errors import ModelError
from privbench.workload.safety import acting
from privbench.workload.split import statements, tokens

_CREATE = (
    "SCHEMA|EXTENSION|TYPE|DOMAIN|COLLATION|SEQUENCE|UNLOGGED TABLE|TABLE|VIEW|RECURSIVE VIEW|"
    "MATERIALIZED VIEW|STATISTICS|UNIQUE INDEX|INDEX|POLICY|TEXT SEARCH [A-Z]+"
)
_ALTER = "TABLE|SEQUENCE|INDEX|TYPE|DOMAIN|STATISTICS|VIEW|MATERIALIZED VIEW|TEXT SEARCH [A-Z]+"
_DATA = re.compile(rf"(?:CREATE (?:{_CREATE})|ALTER (?:{_ALTER}))\b")
_PROGRAM = re.compile(
    r"(?:CREATE (?:OR REPLACE )?(?:CONSTRAINT )?(?:FUNCTION|PROCEDURE|AGGREGATE|TRIGGER|RULE|"
    r"OPERATOR|OPERATOR CLASS|OPERATOR FAMILY|CONVERSION|CAST|ACCESS METHOD)|ALTER (?:FUNCTION|"
    r"PROCEDURE|AGGREGATE|OPERATOR|OPERATOR CLASS|OPERATOR FAMILY|CONVERSION))\b"
)
#: Settings that pg_dump writes between tables, and no others.
_SETTING = re.compile(r"SET DEFAULT_TABLESPACE = |SET DEFAULT_TABLE_ACCESS_METHOD = [A-Z0-9_]+")
_HEAD = 4
_REMEDY = "Read it (unzip -p MODEL ddl/pre.sql ddl/post.sql), then use --trust-programs."


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
        _check(statement)


def _check(statement: str) -> None:
    words = [token.text.upper() for token in tokens(statement)]
    head = " ".join(words[:_HEAD])
    if len(words) == _HEAD and _SETTING.fullmatch(head):
        return
    if _PROGRAM.match(head):
        raise ModelError(f"the model's DDL holds a program ({head}).", remedy=_REMEDY)
    if not _DATA.match(head):
        raise ModelError(f"the model's DDL holds a statement that is not allowed ({words[0]}).")
    calls = [name for name in acting(statement) if name.lower() != "nextval"]
    if calls:
        raise ModelError(
            f"the model's DDL calls {calls[0]}, which acts on the server.", remedy=_REMEDY
        )
