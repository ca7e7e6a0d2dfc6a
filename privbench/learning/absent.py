"""Tables of which nothing can be told from noise come out empty: post-processing, free of charge.

A fit asks the same of a table whether or not it has rows, and floors what it divides by at one row.
Where all that was released of a table's size is what noise alone would have made, rows drawn from
it would be inventions: their number follows from noise times the number of owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from privbench.learning.assemble import TableModel
from privbench.learning.denoise import Floats
from privbench.learning.fanlaw import FanLaw
from privbench.learning.keys import KeyModel
from privbench.privacy import DatabaseSpec

#: What is this many standard deviations above zero is told from it. A histogram is looked at some
#: forty times, so that one empty table in 50 comes out with rows; at 1.8 most do, and at 7 a table
#: loses its rows unless 55 owners of 2,000 have some.
CLEAR = 3.5
#: The same of the number of rows of a table without owners, which is looked at once.
SEEN = 2.0


def owners_seen(noisy: Floats, sd: float, owners: tuple[float, float] | None = None) -> float:
    """How far owners that have rows stand out, in standard deviations; at least 0.

    By one bucket, by neighbouring ones together, or by the owners that are missing among those
    that have none.

    Args:
        noisy: Noisy number of owners per bucket, the first of those that have none.
        sd: Standard deviation of the noise.
        owners: Number of owners by other releases and the variance of that, if known.

    >>> owners_seen(np.array([90.0, 3.0, 3.0, 0.0]), 1.0).__round__(2)
    4.24
    >>> owners_seen(np.array([90.0, 0.0, 0.0, 0.0]), 1.0, (96.0, 3.0))
    3.0
    """
    sums, sd = np.concatenate([[0.0], np.cumsum(noisy[1:])]), max(sd, 1e-9)
    found = [
        float((sums[width:] - sums[:-width]).max()) / (sd * width**0.5)
        for width in (1, 2, 4, 8, 16)
        if width < len(noisy)
    ]
    if owners is not None:
        found.append((owners[0] - float(noisy[0])) / (owners[1] + sd * sd) ** 0.5)
    return max(found, default=0.0)


def needed(spec: DatabaseSpec, present: Iterable[str]) -> frozenset[str]:
    """Tables that hold rows: those told from noise, and all that rows of theirs must refer to."""
    found: set[str] = set()
    new = set(present)
    while new:
        found |= new
        keys = [key for name in new for key in spec.tables[name].keys if key.role != "public"]
        new = {key.parent for key in keys if key.role == "own" or not key.nullable} - found
    return frozenset(found)


def without_rows(
    tables: Mapping[str, TableModel], spec: DatabaseSpec, present: Iterable[str]
) -> dict[str, TableModel]:
    """The models of all tables, where those that are not told from noise have no rows.

    Args:
        tables: Models by table.
        spec: What is public.
        present: Tables of which something is told from noise.
    """
    kept = needed(spec, present)
    return {name: model if name in kept else _emptied(model) for name, model in tables.items()}


def _emptied(model: TableModel) -> TableModel:
    keys = {name: _childless(key) for name, key in model.keys.items()}
    return TableModel(0.0, keys)


def _childless(key: KeyModel) -> KeyModel:
    """An OWN key by which nobody owns a row, whatever bucket is drawn with an owner."""
    if key.role != "own" or key.law is None:
        return key
    zero = np.zeros_like(key.law.starts)
    return replace(key, null=0.0, law=FanLaw(zero, zero, key.law.mass, key.law.exponents))
