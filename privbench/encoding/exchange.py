"""Values of two columns brought in order by exchanging them between rows.

Both columns keep their values, and so the mean distance is what their means say: only who has which
value changes, and only where the order is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.encoding.checks import conditional_orders
from privbench.encoding.sequels import sequels
from privbench.encoding.workbench import Workbench, finite

Indices = NDArray[np.int64]

#: Rounds of exchanges, and good rows that take part for each bad one.
_ROUNDS, _HELPERS = 16, 3
#: Largest shares of rows out of order: where names tell either order, and where they tell one.
_EITHER, _AGAINST = 0.35, 0.65


def order_sequels(work: Workbench) -> None:
    """Bring dates in the order that their columns' names tell (`sequels`).

    Where names tell either (arrivals and departures), most synthetic rows must have that order
    already; where they tell one, most must not have the other. What a CHECK demands of some rows
    holds of the others too, as far as it goes.
    """
    pairs = [pair for pair in sequels(work.table) if set(pair) <= set(work.columns)]
    # All are decided before the first moves: what has moved tells nothing.
    told = [pair for pair in pairs if _agrees(work, *pair, either=pair[::-1] in pairs)]
    demanded = [pair for pair in conditional_orders(work.table) if set(pair) <= set(work.columns)]
    demanded = [pair for pair in demanded if pair[::-1] not in demanded]
    told = [pair for pair in told if pair[::-1] not in demanded]
    for low, high in in_turn(list(dict.fromkeys((*told, *demanded)))):
        both = _points(work, low, high)
        if both is None:
            continue
        rows, left, right = both
        _bring(work, low, high, rows, uncross(left, right, work.rng))
        _follow(work, low, high)


def _agrees(work: Workbench, low: str, high: str, *, either: bool) -> bool:
    """Whether two columns can be brought in an order, and are not mostly in the other."""
    both = _points(work, low, high)
    if both is None:
        return False
    _, left, right = both
    return float((left > right).mean()) <= (_EITHER if either else _AGAINST)


def in_turn(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs in an order in which a column has moved before another is brought in line with it.

    >>> in_turn([("ship", "arrive"), ("order", "ship")])
    [('order', 'ship'), ('ship', 'arrive')]
    """
    before: dict[str, set[str]] = {}
    for low, high in pairs:
        before.setdefault(low, set())
        if (high, low) not in pairs:
            before.setdefault(high, set()).add(low)
    try:
        turn = {name: place for place, name in enumerate(TopologicalSorter(before).static_order())}
    except CycleError:
        return list(pairs)
    return sorted(pairs, key=lambda pair: turn[pair[0]])


def exchange(work: Workbench, low: str, high: str, *, strict: bool) -> None:
    """Bring two columns in an order that a CHECK demands, as far as exchanges do.

    Args:
        work: The table in the making.
        low: The column with the lesser values.
        high: The column with the greater values.
        strict: Whether equal values are out of order.
    """
    both = _points(work, low, high)
    pool = work.pool(low)
    if both is not None and pool is not None and pool.scale is not None:
        rows, left, right = both
        step = pool.scale.step if strict else 0
        _bring(work, low, high, rows, uncross(left, right - step, work.rng))


def _points(work: Workbench, low: str, high: str) -> tuple[Indices, Indices, Indices] | None:
    """Rows that have both values, and these; None where there is nothing to be moved."""
    one, other = work.pool(low), work.pool(high)
    if one is None or other is None or one.values or other.values or not _free(work, low, high):
        return None
    if one.scale is None or one.scale != other.scale:
        return None
    rows = np.flatnonzero(finite(work.columns[low]) & finite(work.columns[high]) & work.alive)
    left, right = one.to_points(work.columns[low]), other.to_points(work.columns[high])
    return (rows, left[rows], right[rows]) if len(rows) else None


def _free(work: Workbench, low: str, high: str) -> str | None:
    """The column whose values may move: the greater one, if nothing hangs on it."""
    tied = {column for item in work.table.unique_sets for column in item.columns}
    tied |= work.table.key_columns | work.fixed
    return next((name for name in (high, low) if name not in tied), None)


def _bring(work: Workbench, low: str, high: str, rows: Indices, order: Indices) -> None:
    name = _free(work, low, high)
    assert name is not None
    places = np.arange(work.rows)
    if name == high:
        places[rows] = rows[order]
    else:
        places[rows[order]] = rows
    work.columns[name] = work.columns[name].take(pa.array(places))


def _follow(work: Workbench, low: str, high: str) -> None:
    """Rows that no exchange could mend: as far apart as others are."""
    name, both = _free(work, low, high), _points(work, low, high)
    pool = None if name is None else work.pool(name)
    if both is None or pool is None:
        return
    rows, left, right = both
    bad, gaps = left > right, np.sort((right - left)[left <= right])
    if not bad.any():
        return
    drawn = work.rng.choice(gaps, int(bad.sum())) if len(gaps) else np.zeros(int(bad.sum()))
    points, moved = pool.to_points(work.columns[pool.column.name]), np.zeros(work.rows, np.bool_)
    points[rows[bad]] = left[bad] + drawn if name == high else right[bad] - drawn
    moved[rows[bad]] = True
    work.move(pool, moved, points)


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
        helpers = rest[:0]
        if len(rest):
            helpers = rest[np.unique(rng.integers(len(rest), size=_HELPERS * len(some)))]
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
    """What is still out of order is sorted together with the rows that are farthest apart.

    As few of these as bring all in order; where none do, as many as are out of order.
    """
    gap = right[order] - left
    ranked = np.argsort(gap, kind="stable")
    bad = int((gap < 0).sum())
    if not bad:
        return order

    def matched(helpers: int) -> tuple[Indices, Indices]:
        some = bad + helpers < len(left)
        group = np.concatenate([ranked[:bad], ranked[-helpers:]]) if some else ranked
        rows = group[np.argsort(left[group], kind="stable")]
        return rows, order[group][np.argsort(right[order[group]], kind="stable")]

    helpers = bad
    fewest = rows, taken = matched(helpers)
    while (left[rows] > right[taken]).any():
        if bad + helpers >= len(left):
            rows, taken = fewest
            break
        helpers *= 2
        rows, taken = matched(helpers)
    order[rows] = taken
    return order
