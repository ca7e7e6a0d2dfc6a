"""Counting queries of one table, evaluated on frames: conjunctions of comparisons and lists.

The literature's workloads of single tables hold nothing else. They are read by sqlglot; what is
no such query is refused by its number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sqlglot
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from privbench.errors import ConfigError

Test = Callable[[Any, Any], Any]
_TESTS: dict[type, Test] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Atom:
    """One comparison of a column with a literal: texts by code points, numbers by size."""

    column: str
    test: Test
    value: str


#: A conjunction.
Query = tuple[Atom, ...]


def read_queries(path: Path, columns: list[str]) -> list[Query]:
    """Queries of a file of lines ``SQL`` or ``count||SQL`` or ``SQL||count``.

    Raises:
        ConfigError: No such file, or a query that is no conjunction over these columns.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the workload {path} cannot be read.") from error
    found = []
    for number, line in enumerate(lines, 1):
        parts = [part for part in line.split("||") if "select" in part.lower()]
        if not parts:
            continue
        try:
            atoms = tuple(_atoms(parts[0]))
        except (SqlglotError, ValueError) as error:
            what = f"{path}, line {number}: not a conjunction of comparisons with literals."
            raise ConfigError(what) from error
        for atom in atoms:
            if atom.column not in columns:
                raise ConfigError(f"{path}, line {number}: no column {atom.column!r}.")
        found.append(atoms)
    return found


def _atoms(text: str) -> Iterator[Atom]:
    tree = sqlglot.parse_one(text, dialect="postgres")
    where = tree.args.get("where")
    counted = tree.expressions[0] if isinstance(tree, exp.Select) else None
    if not isinstance(counted, exp.Count) or tree.args.get("joins"):
        raise ValueError("not a counting query of one table")
    if where is None:
        return
    this = where.this
    for part in this.flatten() if isinstance(this, exp.And) else [this]:
        part = part.unnest()
        test, left, right = (
            _TESTS.get(type(part)),
            part.args.get("this"),
            part.args.get("expression"),
        )
        if isinstance(right, exp.Collate):
            right = right.this
        sign = "-" if isinstance(right, exp.Neg) else ""
        right = right.this if isinstance(right, exp.Neg) else right
        if test is None or not isinstance(left, exp.Column) or not isinstance(right, exp.Literal):
            raise ValueError("not a comparison of a column with a literal")
        yield Atom(left.name, test, sign + str(right.this))


def count(query: Query, rows: pd.DataFrame) -> int:
    """Rows for which all comparisons hold; NULL never does."""
    hits: NDArray[np.bool_] = np.ones(len(rows), np.bool_)
    for atom in query:
        values = rows[atom.column]
        known = values.notna().to_numpy()
        value = float(atom.value) if is_numeric_dtype(values.dtype) else atom.value
        hits &= known
        hits[hits] = atom.test(values.to_numpy()[hits], value).astype(bool)
    return int(hits.sum())
