"""The values in the DDL, which become part of the release; the owner reviews them once (P4)."""

import hashlib
from collections.abc import Iterable, Sequence

from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pgsql import Token, statements, tokens
from privbench.postgres.ddl import Ddl

_STRINGS = frozenset(["SCONST", "USCONST", "BCONST", "XCONST"])
_NUMBERS = frozenset(["ICONST", "FCONST"])
#: Last words of the names of types that take a length or precision.
_TYPES = frozenset({"VARYING", "VARCHAR", "CHARACTER", "CHAR", "BPCHAR", "NUMERIC", "DECIMAL"})
_TYPES |= {"BIT", "VARBIT", "TIMESTAMP", "TIME", "INTERVAL"}


def literals(ddl: Ddl) -> list[str]:
    """Return the lines of all statements with a string or a number, function bodies included.

    Settings, lengths and precisions of types, sequences that count from 1 by 1 and the names of
    sequences hold no values of rows and are left out. Policies are listed whole, with or without
    literals: no other statement shows their names and roles, which become part of the release too.

    >>> literals(Ddl("CREATE TABLE t (a varchar(9), b int DEFAULT 4);", ""))
    ['CREATE TABLE t (a varchar(9), b int DEFAULT 4)']
    >>> literals(Ddl("CREATE TABLE t (a numeric(10,2));", "ALTER TABLE t CLUSTER ON u;"))
    []
    >>> literals(Ddl("", "CREATE POLICY p ON t TO auditor USING (true);"))
    ['CREATE POLICY p ON t TO auditor USING (true)']
    """
    parts = (ddl.pre_data, ddl.post_data)
    lines = (_literal_lines(statement.text) for part in parts for statement in statements(part))
    return [line for line in lines if line]


def seal(lines: Iterable[str]) -> str:
    """Return a short digest of the listed lines, in any order; the owner approves this digest.

    >>> seal(["a", "b"]) == seal(["b", "a"]) != seal(["a"])
    True
    """
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def require_reviewed(config: Config, lines: Iterable[str]) -> None:
    """Refuse a schema whose literals differ from those approved by ``[privacy] ddl_reviewed``."""
    digest = config.privacy.ddl_reviewed
    if digest is not None and digest != seal(lines):
        raise ConfigError(
            "the values in the schema are not those that [privacy] ddl_reviewed was given for.",
            remedy="Remove that line, run 'privbench check', review the values that it lists, and "
            "add the new line that it prints.",
        )


def _literal_lines(statement: str) -> str:
    """The head of a statement and its lines with literals, joined in one line.

    It is empty if the statement has no literals. A policy is shown whole.
    """
    read = tokens(statement)
    if [token.text.upper() for token in read[:2]] == ["CREATE", "POLICY"]:
        return " ".join(statement[read[0].start : read[-1].end].split())
    counts = "SEQUENCE" in {token.text.upper() for token in read}
    marks = [token for at, token in enumerate(read) if _speaks(read, at, counts=counts)]
    if not marks or read[0].text.upper() == "SET":
        return ""
    head = _lines(statement, read[0].start, read[0].end)
    spans = dict.fromkeys(_lines(statement, token.start, token.end) for token in marks)
    return " ".join(" ".join(text.split()) for text in dict.fromkeys([head, *spans]))


def _lines(text: str, start: int, end: int) -> str:
    """The complete lines that contain the text from `start` to `end`."""
    stop = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : stop if stop >= 0 else len(text)]


def _speaks(read: Sequence[Token], at: int, *, counts: bool) -> bool:
    """Whether a token is a literal that may reveal something."""
    token = read[at]
    if token.kind in _STRINGS:
        return [after.text for after in read[at + 1 : at + 3]] != ["::", "regclass"]
    if token.kind not in _NUMBERS or (counts and token.text == "1"):
        return False
    # A number after a type and an open bracket is its modifier: ``numeric(10,``.
    before = (read[place] for place in range(at - 1, -1, -1))
    for earlier in before:
        if earlier.text == "(":
            name = next(before, None)
            return name is None or name.text.upper().split()[-1] not in _TYPES
        if not (earlier.kind in _NUMBERS or earlier.text in (",", "-")):
            return True
    return True
