"""Time order: whether rows follow their owners, and whether surrogate keys ascend with dates.

Names say in which column the date stands on which a row began (`rules.named.creation_date`). Each
order is measured by a `Histogram` of three cells: rows that keep it, rows that break it, all
others. These are joint cells of two columns, grouped by a public map: by the released ranges of
both dates, or by the middle fifths of the released one-ways of a date and a key. Each row adds its
weight to one cell, by its own values and those of its owner, which belongs to its unit: so a unit
changes the histogram by its weights. Fifths by ranks of rows would not do, since one unit may
change the ranks of all rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.domain import Domain
from privbench.learning.graphical.columns import HIDDEN, ModelColumn
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Axis, Joined, Owner, PublicArray, Whole
from privbench.privacy.queries import Column as ColumnAxis

KEPT, BROKEN, OTHER = 0, 1, 2
#: Names of the two orders among a table's columns: dates after those of owners, keys by dates.
FOLLOWS, SERIAL = f"{HIDDEN}follows", f"{HIDDEN}serial"
#: Largest share of rows that break an imposed order, and standard deviations of noise added to it.
BROKEN_SHARE, NOISE = 0.02, 2.0
#: Least share of rows kept less broken for keys to follow dates: 1 if all do, 0 by chance.
ORDERED = 0.5


def times_of(spec: DatabaseSpec, table: str) -> list[ModelColumn]:
    """Return the time orders of a table to measure, as columns of three cells."""
    item, own = spec.tables[table], spec.tables[table].own
    order_columns = {
        FOLLOWS: item.created and own and spec.tables[own.parent].created,
        SERIAL: item.created and item.serial,
    }
    return [
        ModelColumn(name, Whole(), Domain(3), "order")
        for name, some in order_columns.items()
        if some
    ]


def order_axis(
    spec: DatabaseSpec, table: str, name: str, shares: Callable[[str], Floats]
) -> Axis | None:
    """Return the axis that measures a time order, by released shares.

    None if cells have no order.
    """
    item, own = spec.tables[table], spec.tables[table].own
    date, serial = item.attributes[item.created], name == SERIAL
    above = item if serial or own is None else spec.tables[own.parent]
    attribute = item.serial if serial else above.created
    other = above.attributes[attribute]
    axis: Axis = ColumnAxis.of(spec, above.name, attribute)
    mine = ColumnAxis.of(spec, table, item.created)
    if serial and date.ordered:
        sides = np.outer(_side(shares(item.created), date), _side(shares(attribute), other))
        in_order, broken = sides > 0, sides < 0
    elif not serial and own is not None and date.edges and other.edges:
        edges, other_edges, axis = np.array(date.edges), np.array(other.edges), Owner(own, axis)
        in_order, broken = edges[:-1, None] >= other_edges[1:], edges[1:, None] <= other_edges[:-1]
    else:
        return None
    groups = np.full((mine.size, axis.size), OTHER)
    inside = groups[: date.values, : other.values]
    inside[in_order & ~broken], inside[broken & ~in_order] = KEPT, BROKEN
    return Joined((mine, axis), PublicArray(groups))


def _side(shares: Floats, domain: Domain) -> Ints:
    """-1, 0 or 1: an ordinary cell lies before the middle fifth of the rows, in it or after it."""
    ordinary = shares[: domain.values]
    middle = (np.cumsum(ordinary) - ordinary / 2) / max(float(ordinary.sum()), 1e-12)
    return np.sign((5 * middle).astype(np.int64) - 2)


def follows(noisy: Floats, sd: float) -> bool:
    """Return whether rows are later than their owners: few of the compared rows break the order."""
    most = BROKEN_SHARE * float(noisy[KEPT] + noisy[BROKEN])
    return float(noisy[BROKEN]) <= max(most, 0.0) + NOISE * sd


def direction(noisy: Floats, sd: float) -> int:
    """Return 1 if keys ascend with dates, -1 if they descend, 0 if neither or if noise hides it."""
    more = float(noisy[KEPT] - noisy[BROKEN])
    least = max(ORDERED * float(noisy[KEPT] + noisy[BROKEN]), 0.0) + 2 * NOISE * sd
    return int(np.sign(more)) if abs(more) > least else 0
