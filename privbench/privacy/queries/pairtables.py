"""Exact pair tables of whole tables: counted once, kept with the private database.

A fit asks for scores of the same pairs dozens of times, each time against other predictions. Rows
do not change between two queries, so the exact tables are kept in the database's cache: bounded in
size, never outside the database, and nothing about them leaves but through a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Axis
from privbench.privacy.queries.counting import Marginals, marginals
from privbench.privacy.queries.regions import Region
from privbench.privacy.query import Integers

#: Cells of the pair tables that are counted in one pass.
PASS = 2**24

#: Positions of two axes.
Pair = tuple[int, int]
_KIND = "pair table"


def pair_tables(
    data: PrivateDatabase,
    table: str,
    axes: Sequence[Axis],
    region: Region | None,
    pairs: Sequence[Pair],
) -> Iterator[Integers]:
    """The weighted pair histograms of a region, flat, in the order of ``pairs``.

    Args:
        data: The database.
        table: The table.
        axes: Axes that the pairs are made of.
        region: The region; tables of all rows are kept.
        pairs: Positions in ``axes``.
    """
    sizes = [axis.size for axis in axes]
    keep = region is None or not region.path
    for chosen in _passes(sizes, pairs):
        keys = [(_KIND, table, axes[i], axes[j]) for i, j in chosen]
        known = [data._cache.find(key) if keep else None for key in keys]
        missing = [pair for pair, found in zip(chosen, known, strict=True) if found is None]
        counted = iter(_count(data, table, axes, region, missing))
        for key, found in zip(keys, known, strict=True):
            counts = next(counted) if found is None else found[0]
            if found is None and keep:
                data._cache.put(key, (counts,))
            yield counts


def _passes(sizes: Sequence[int], pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    chosen: list[Pair] = []
    held = 0
    for i, j in pairs:
        if chosen and held + sizes[i] * sizes[j] > PASS:
            yield chosen
            chosen, held = [], 0
        chosen.append((i, j))
        held += sizes[i] * sizes[j]
    if chosen:
        yield chosen


def _count(
    data: PrivateDatabase,
    table: str,
    axes: Sequence[Axis],
    region: Region | None,
    pairs: Sequence[Pair],
) -> list[Integers]:
    """Several tables at once, of the axes that they need."""
    if not pairs:
        return []
    used = sorted({end for pair in pairs for end in pair})
    place = {end: position for position, end in enumerate(used)}
    sets = tuple((place[i], place[j]) for i, j in pairs)
    asked = Marginals(table, tuple(axes[end] for end in used), sets, region)
    return [counts.ravel() for counts in marginals(data, asked)]
