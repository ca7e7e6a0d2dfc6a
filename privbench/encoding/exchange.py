"""Values of two columns brought in order by exchanging them between rows.

Both columns keep their values, and so the mean distance is what their means say: only who has which
value changes, and only where the order is wrong.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.encoding.sequels import sequels
from privbench.encoding.workbench import Workbench, finite

Indices = NDArray[np.int64]

#: Rounds of exchanges, and good rows that take part for each bad one.
_ROUNDS, _HELPERS = 16, 3
#: Fewest rows of which medians say anything.
_FEWEST = 8


def order_sequels(work: Workbench) -> None:
    """Bring dates in the order that their columns' names tell (`sequels`).

    Which of the two really comes first is told by their synthetic values: names of arrivals and
    departures tell either.
    """
    for low, high in sequels(work.table):
        if low in work.columns and high in work.columns:
            _bring(work, low, high, strict=False, told=False)


def exchange(work: Workbench, low: str, high: str, *, strict: bool) -> None:
    """Bring two columns in an order that a CHECK demands, as far as exchanges do.

    Args:
        work: The table in the making.
        low: The column with the lesser values.
        high: The column with the greater values.
        strict: Whether equal values are out of order.
    """
    _bring(work, low, high, strict=strict, told=True)


def _bring(work: Workbench, low: str, high: str, *, strict: bool, told: bool) -> None:
    name = next((name for name in (high, low) if _is_free(work, name)), None)
    one, other = work.pool(low), work.pool(high)
    if name is None or one is None or other is None or one.values or other.values:
        return
    if one.scale is None or one.scale != other.scale:
        return
    usable = finite(work.columns[low]) & finite(work.columns[high]) & work.alive
    rows = np.flatnonzero(usable)
    left = one.to_points(work.columns[low])[rows]
    right = other.to_points(work.columns[high])[rows] - (one.scale.step if strict else 0)
    if not told and (len(rows) < _FEWEST or np.median(left) > np.median(right)):
        return
    order = uncross(left, right, work.rng)
    places = np.arange(work.rows)
    if name == high:
        places[rows] = rows[order]
    else:
        places[rows[order]] = rows
    work.columns[name] = work.columns[name].take(pa.array(places))


def _is_free(work: Workbench, name: str) -> bool:
    tied = {column for item in work.table.unique_sets for column in item.columns}
    return name not in tied | work.table.key_columns | work.fixed


def uncross(left: Indices, right: Indices, rng: np.random.Generator) -> Indices:
    """Which row's greater value every row takes.

    Two rows of which one has the lesser value on the left and the greater on the right exchange the
    right ones, if either is out of order: that never adds to what all rows are out of order by.

    Args:
        left: Values that should not exceed those on the right, of shape (rows,).
        right: Values, of shape (rows,).
        rng: Chooses partners.

    Returns:
        A permutation of the rows, so that ``left <= right[order]`` as far as that was found.

    >>> uncross(np.array([1, 5]), np.array([9, 2]), np.random.default_rng(0)).tolist()
    [1, 0]
    """
    order = np.arange(len(left))
    for _ in range(_ROUNDS):
        bad = left > right[order]
        if not bad.any():
            return order
        some, rest = np.flatnonzero(bad), np.flatnonzero(~bad)
        helpers = rng.choice(rest, min(len(rest), _HELPERS * len(some)), replace=False)
        mixed = rng.permutation(np.concatenate([some, helpers]))
        one, two = mixed[: len(mixed) // 2], mixed[len(mixed) // 2 : len(mixed) // 2 * 2]
        first, second = right[order[one]], right[order[two]]
        crossed = (left[one] < left[two]) & (first > second)
        crossed |= (left[one] > left[two]) & (first < second)
        crossed &= bad[one] | bad[two]
        one, two = one[crossed], two[crossed]
        order[one], order[two] = order[two], order[one]
    return _sorted(left, right, order)


def _sorted(left: Indices, right: Indices, order: Indices) -> Indices:
    """What is still out of order is sorted together with the rows that are farthest apart."""
    gap = right[order] - left
    ranked = np.argsort(gap, kind="stable")
    bad = int((gap < 0).sum())
    helpers = bad
    while bad + helpers < len(left):
        group = np.concatenate([ranked[:bad], ranked[-helpers:]])
        rows = group[np.argsort(left[group], kind="stable")]
        taken = order[group][np.argsort(right[order[group]], kind="stable")]
        if (left[rows] <= right[taken]).all():
            order[rows] = taken
            return order
        helpers *= 2
    return _matched(left, right)


def _matched(left: Indices, right: Indices) -> Indices:
    """As many rows in order as there can be: each takes the least greater value that is left."""
    rows, values = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    turn = np.arange(len(rows))
    first = np.searchsorted(right[values], left[rows], side="left")
    place = turn + np.maximum.accumulate(first - turn)
    found = place < len(values)
    order = np.empty(len(rows), dtype=np.int64)
    order[rows[found]] = values[place[found]]
    order[rows[~found]] = np.delete(values, place[found])
    return order
