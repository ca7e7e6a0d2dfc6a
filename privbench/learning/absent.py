"""Tables of which nothing can be told from noise come out empty: post-processing, free of charge.

A fit asks the same of a table whether or not it has rows, and floors what it divides by at one row.
Where all that was released of a table's size is what noise alone would have made, rows drawn from
it would be inventions: their number follows from noise times the number of owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import hypot

import numpy as np

from privbench.learning.assemble import TableModel
from privbench.learning.denoise import Floats, by_precision
from privbench.learning.fanlaw import FanLaw
from privbench.learning.keys import KeyModel
from privbench.privacy import DatabaseSpec, KeySpec, Session
from privbench.privacy.queries import FanOut, Histogram, Presence, Total, UnitRows

#: Standard deviations above zero from which on a number of rows, or that and a number of units
#: together, is told from none: one empty table in 25 comes out with rows. At 1.1 every third does;
#: at 4.4 a table loses its rows unless some 50 owners of 2,000 have some.
SEEN = 2.2
#: The same of the largest of some forty sums of neighbouring buckets.
CLEAR = 3.5
_WIDTHS = (1, 2, 4, 8, 16)

#: Kinds of events that are read.
_COUNTS = frozenset({"total", "fan-out", "presence", "histogram"})

#: A number and the variance of its noise.
Noisy = tuple[float, float]


def told_tables(session: Session, rows: Mapping[str, Noisy]) -> frozenset[str]:
    """Tables of which a release says that they hold rows; reads what was released alone.

    Of a table without owners its number of rows tells; of an owned one its total (with the noise of
    100 rows), and the number of its units by all that counts them.

    Args:
        session: Whose releases are read.
        rows: Released rows of every table.
    """
    spec = session.spec
    return frozenset(
        name
        for name, table in spec.tables.items()
        if (
            _clear(rows[name]) > SEEN
            if table.own is None
            else _is_told(session, table.own, rows[name], rows[table.own.parent])
        )
    )


def _is_told(session: Session, own: KeySpec, rows: Noisy, owners: Noisy) -> bool:
    units: list[Noisy] = []
    root = session.spec.tables[own.parent].own is None
    for step in session.trace:
        query = step.query
        if step.event.kind not in _COUNTS:
            continue
        sd = max(session.noise_scale(query, step.event.amount), 1e-9)
        noisy = np.ravel(np.asarray(step.result, np.float64)) / query.unit
        if query == Total(own.table, 1):
            units.append((float(noisy[0]), sd**2))
        elif isinstance(query, Presence) and query.key == own and noisy[0] > CLEAR * sd:
            return True
        elif isinstance(query, Histogram) and query.table == own.table and not query.region:
            # Every row stands in one cell: the sum is the weight of the units that have rows.
            units.append((float(noisy.sum()), sd**2 * len(noisy)))
            counted = len(query.axes) == 1 and isinstance(query.axes[0], UnitRows)
            if counted and _runs(noisy[1:], sd) > CLEAR:
                return True
        elif isinstance(query, FanOut) and query.key == own:
            if _runs(noisy[1:], sd) > CLEAR:
                return True
            units += [(float(noisy[1:].sum()), sd**2 * (len(noisy) - 1))]
            # Owners that are missing among those that have none.
            units += [(owners[0] - float(noisy[0]), sd**2 + owners[1])] if root else []
    held = _clear(by_precision(units)) if units else 0.0
    return hypot(max(_clear(rows), 0.0), max(held, 0.0)) > SEEN


def _clear(number: Noisy) -> float:
    """How many standard deviations a number stands above zero."""
    return number[0] / float(np.sqrt(max(number[1], 1e-18)))


def _runs(noisy: Floats, sd: float) -> float:
    """How far the largest sum of neighbouring cells stands above zero."""
    sums = np.concatenate([[0.0], np.cumsum(noisy)])
    return max(
        float((sums[width:] - sums[:-width]).max() / np.sqrt(width)) / sd
        for width in _WIDTHS
        if width < len(sums)
    )


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
