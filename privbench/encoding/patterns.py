"""CHECKs that a text matches a pattern or lies between two others: texts that do not are made anew.

Post-processing of synthetic values; patterns are the schema's, and public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as exp

from privbench.encoding.checks import case_of, column_limits, length_limits, pattern_of
from privbench.encoding.checktree import conjuncts
from privbench.encoding.regex import EXTRA, Node, Unknown, parse
from privbench.encoding.spans import span_patterns
from privbench.schema import Check, Column, Table

#: Special in a regular expression, plain in LIKE.
_SPECIAL = ".^$*+?()[]{}|\\"
#: Rounds in which distinct texts are drawn.
_DRAWS = 4
#: Characters of a text of which nothing but its case is demanded.
_WORD = 8


@dataclass(frozen=True)
class Pattern:
    """What a text must match.

    Attributes:
        regex: A regular expression for Arrow.
        fold: Whether case does not count.
        tree: Makes texts.
        length: Greatest length of the column's texts.
        wider: Makes more texts where the first tree has too few, or None.
        case: The case that is all that is demanded, ``upper`` or ``lower``, or None.
    """

    regex: str
    fold: bool
    tree: Node
    length: int | None
    wider: Node | None = None
    case: str | None = None

    def mend(self, texts: pa.Array, rng: np.random.Generator) -> pa.Array:
        """The texts; those that do not match are replaced, or change their case; NULL stays."""
        if self.case is not None:
            return (pc.utf8_upper if self.case == "upper" else pc.utf8_lower)(texts)
        bad = pc.fill_null(pc.invert(self._matches(texts)), False)
        rows = np.flatnonzero(bad.to_numpy(zero_copy_only=False))
        if not len(rows):
            return texts
        whole = pa.concat_arrays([texts.cast(pa.string()), self.make(len(rows), rng)])
        places = np.arange(len(texts))
        places[rows] = len(texts) + np.arange(len(rows))
        return whole.take(pa.array(places))

    def make(self, rows: int, rng: np.random.Generator) -> pa.Array:
        """Texts that match, shape (rows,)."""
        made = self.tree.make(rows, EXTRA, rng)
        if self.length is None:
            return made
        short = self.tree.make(rows, 0, rng)
        return pc.if_else(pc.less_equal(pc.utf8_length(made), self.length), made, short)

    def distinct(self, rows: int, rng: np.random.Generator) -> pa.Array:
        """Different texts that match, up to `rows` of them."""
        found = self.make(rows, rng).unique()
        for _ in range(_DRAWS):
            if len(found) >= rows:
                break
            found = pa.concat_arrays([found, self.make(2 * rows, rng)]).unique()
        if len(found) < rows and self.wider is not None:
            more = replace(self, tree=self.wider, wider=None).distinct(rows, rng)
            more = more.filter(self._matches(more))
            if self.length is not None:
                more = more.filter(pc.less_equal(pc.utf8_length(more), self.length))
            found = pa.concat_arrays([found, more]).unique()
        return found.slice(0, rows)

    def _matches(self, texts: pa.Array) -> pa.Array:
        try:
            return pc.match_substring_regex(
                texts.cast(pa.string()), self.regex, ignore_case=self.fold
            )
        except pa.ArrowInvalid:  # not an expression for Arrow: all are made anew
            return pc.if_else(texts.is_valid(), False, None)


def column_pattern(table: Table, column: Column) -> Pattern | None:
    """The first pattern, else the case, that a CHECK demands of a text column, or None.

    >>> from privbench.rng import generator
    >>> from privbench.schema import ColumnType, TableName
    >>> zip_ = Column("zip", 1, ColumnType("text", "text", category="S"))
    >>> check = Check("c", "(zip ~ '^[0-9]{5}$'::text)")
    >>> table = Table(TableName("public", "t"), (zip_,), checks=(check,))
    >>> len(column_pattern(table, zip_).make(1, generator(1))[0].as_py())
    5
    """
    if column.type.category != "S":
        return None
    texts = [(check.expression, column.name) for check in table.checks]
    texts += [(text, "VALUE") for text in column.type.domain_checks]
    limits = column_limits(table, column)
    _, greatest = length_limits(limits, column.type.length)
    for expression, name in texts:
        found = _pattern(expression, name, greatest)
        if found is not None:
            return found
    for expression, name in texts:
        case = case_of(expression, name)
        if case is not None:
            return _cased(case, greatest)
    found_spans = span_patterns(limits)
    if found_spans is None:
        return None
    stays, made, more = found_spans
    return Pattern(stays, False, parse(made), greatest, parse(more))


def is_understood(check: Check, table: Table) -> bool:
    """Whether a CHECK demands a pattern or a case of one column alone, and it is kept."""
    if len(check.columns) != 1:
        return False
    text, names = check.expression, (*check.columns, "VALUE")
    if any(pattern_of(text, name, alone=True) and _pattern(text, name, None) for name in names):
        return True
    found = column_pattern(table, table.column(check.columns[0]))
    case = None if found is None or len(conjuncts(text)) != 1 else found.case
    return case is not None and case in {case_of(text, name) for name in names}


@lru_cache(maxsize=1024)
def _pattern(expression: str, name: str, length: int | None) -> Pattern | None:
    found = pattern_of(expression, name)
    if found is None:
        return None
    kind, text = found
    regex = _from_like(text) if kind in (exp.Like, exp.ILike) else text
    try:
        return Pattern(regex, kind in (exp.ILike, exp.RegexpILike), parse(regex), length)
    except Unknown:
        return None


@lru_cache
def _cased(case: str, length: int | None) -> Pattern:
    """Texts of one case: words that are numbered, as many as a key may need."""
    letters, others = ("A-Z", "a-z") if case == "upper" else ("a-z", "A-Z")
    size = _WORD if length is None else max(min(length, _WORD), 1)
    tree = parse(f"^[{letters}][{letters}0-9]{{{size - 1}}}$" if size > 1 else f"^[{letters}]$")
    return Pattern(f"^[^{others}]*$", False, tree, length, case=case)


def _from_like(text: str) -> str:
    """The regular expression of a LIKE pattern."""
    made, escaped = "", False
    for letter in text:
        if letter == "\\" and not escaped:
            escaped = True
            continue
        if letter in "%_" and not escaped:
            made += "." if letter == "_" else ".*"
        else:
            made += f"\\{letter}" if letter in _SPECIAL else letter
        escaped = False
    return f"^{made}$"
