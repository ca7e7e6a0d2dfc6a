"""Synthetic rows that join as a query joins its tables, so that its answer is not empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privbench.workload.generators.rows import RowSource, joined
from privbench.workload.generators.values import Row
from privbench.workload.rebind.columns import Operand

#: Two columns of different occurrences of tables that a query sets equal.
Join = tuple[Operand, Operand]

# Beginnings that are tried: half as many lose some rows of queries with many joins.
_TRIES = 12


def together(joins: Sequence[Join], rows: RowSource, rng: np.random.Generator) -> dict[int, Row]:
    """One row for each joined occurrence of a table, by its number.

    Tables that hang together get rows that join (`joined`). Where that meets a dead end, it begins
    anew from another table; of several beginnings, the one that came furthest counts.

    Args:
        joins: What the query sets equal.
        rows: Synthetic rows.
        rng: Decides.

    Returns:
        Nothing for occurrences that no row was found for.
    """
    tables = {side.source: side.table for join in joins for side in join}
    links = [
        ((one.source, one.column.name), (other.source, other.column.name)) for one, other in joins
    ]
    found: dict[int, Row] = {}
    for group in _groups(joins, list(tables)):
        best: dict[int, Row] = {}
        for number in range(_TRIES):
            start = group[number % len(group)]
            best = max(best, joined(tables, links, start, rows, rng), key=len)
            if len(best) == len(group):
                break
        found |= best
    return found


def _groups(joins: Sequence[Join], sources: Sequence[int]) -> list[list[int]]:
    """Occurrences that hang together."""
    groups = [[source] for source in sources]
    for one, other in joins:
        first = next(group for group in groups if one.source in group)
        second = next(group for group in groups if other.source in group)
        if first is not second:
            first += second
            groups.remove(second)
    return groups
