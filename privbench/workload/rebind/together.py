"""Synthetic rows that join as a query joins its tables, so that its answer is not empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privbench.schema import Table
from privbench.workload.generators.rows import RowSource
from privbench.workload.generators.values import Row
from privbench.workload.rebind.columns import Operand

#: Two columns of different occurrences of tables that a query sets equal.
Join = tuple[Operand, Operand]

_TRIES = 12
_SEEDS = 2**31


def together(joins: Sequence[Join], rows: RowSource, rng: np.random.Generator) -> dict[int, Row]:
    """One row for each joined occurrence of a table, by its number.

    A random row of one table, then along the joins a random one of the rows that fit. Where that
    meets a dead end, it begins anew from another table; of several beginnings, the one that came
    furthest counts.

    Args:
        joins: What the query sets equal.
        rows: Synthetic rows.
        rng: Decides.

    Returns:
        Nothing for occurrences that no row was found for.
    """
    tables = {side.source: side.table for join in joins for side in join}
    found: dict[int, Row] = {}
    for group in _groups(joins, list(tables)):
        best: dict[int, Row] = {}
        for number in range(_TRIES):
            grown = _grown(group[number % len(group)], tables, joins, rows, rng)
            best = max(best, grown, key=len)
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


def _grown(
    start: int,
    tables: dict[int, Table],
    joins: Sequence[Join],
    rows: RowSource,
    rng: np.random.Generator,
) -> dict[int, Row]:
    """Rows from one occurrence on, as far as they lead."""
    starts = rows.starts(tables[start])
    if not starts:
        return {}
    found = {start: starts[int(rng.integers(len(starts)))]}
    while (reached := _next(joins, found)) is not None:
        asked = _asked(joins, found, reached)
        row = (
            None if asked is None else rows.match(tables[reached], asked, int(rng.integers(_SEEDS)))
        )
        if row is None:
            break
        found[reached] = row
    return found


def _next(joins: Sequence[Join], found: dict[int, Row]) -> int | None:
    """An occurrence that a join leads to from those that have a row."""
    for one, other in joins:
        for known, new in ((one, other), (other, one)):
            if known.source in found and new.source not in found:
                return new.source
    return None


def _asked(joins: Sequence[Join], found: dict[int, Row], reached: int) -> dict[str, str] | None:
    """What every join with a known row asks of the new one; None where a value is NULL."""
    asked: dict[str, str] = {}
    for one, other in joins:
        for known, new in ((one, other), (other, one)):
            if new.source == reached and known.source in found:
                value = found[known.source][known.column.name]
                if value is None:
                    return None
                asked[new.column.name] = value
    return asked
