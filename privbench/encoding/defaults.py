"""Text that the schema gives where none is said: a public label."""

from __future__ import annotations

import re

from privbench.schema import Column

#: A string literal, perhaps cast to a type; escapes and expressions are none.
_LITERAL = re.compile(r"'((?:[^'\\]|'')*)'(?:::[^':()]+(?:\(\d+\))?)?\Z")


def default_label(column: Column, least: int, greatest: int) -> str | None:
    """The literal that a column of text has by default; None without one of fitting length.

    Rows that take it are to be expected, and it travels with the DDL.

    Args:
        column: The column.
        least: Least length of a text.
        greatest: Greatest length.

    >>> from privbench.schema import ColumnType
    >>> zone = Column("zone", 1, ColumnType("text", "text"), default="'It''s UTC'::text")
    >>> default_label(zone, 0, 128), default_label(zone, 0, 3)
    ("It's UTC", None)
    """
    found = _LITERAL.match(column.default or "")
    if found is None or column.generated:
        return None
    text = found[1].replace("''", "'")
    if column.type.base == "bpchar":
        text = text.rstrip(" ")
    return text if least <= len(text) <= greatest else None
