"""Orders in time: rows after their owners, and surrogate keys in the order of their rows' dates.

Names say since which date a row is there (`rules.named.creation_date`). Each order is asked for by
a `Histogram` of three cells: rows that keep it, rows that break it, all others. These are joint
cells of two columns, grouped by a public map: by the released ranges of both dates, or by the
middle fifths of the released one-ways of a date and a key. Each row adds its weight to one cell,
by its own values and those of its owner, which is of its unit: so a unit moves it by its weights.
Fifths by ranks of rows would not do: one unit may move the ranks of all.
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
    """The orders of a table to ask for, as columns of three cells for the budget."""
    item, own = spec.tables[table], spec.tables[table].own
    asked = {
        FOLLOWS: item.created and own and spec.tables[own.parent].created,
        SERIAL: item.created and item.serial,
    }
    return [ModelColumn(name, Whole(), Domain(3), "order") for name, some in asked.items() if some]


def order_axis(
    spec: DatabaseSpec, table: str, name: str, shares: Callable[[str], Floats]
) -> Axis | None:
    """The axis of an order, by released ``shares`` of attributes; None for cells without order."""
    item, own = spec.tables[table], spec.tables[table].own
    date, serial = item.attributes[item.created], name == SERIAL
    above = item if serial or own is None else spec.tables[own.parent]
    attribute = item.serial if serial else above.created
    other = above.attributes[attribute]
    axis: Axis = ColumnAxis.of(spec, above.name, attribute)
    mine = ColumnAxis.of(spec, table, item.created)
    if serial and date.ordered:
        sides = np.outer(_side(shares(item.created), date), _side(shares(attribute), other))
        kept, broken = sides > 0, sides < 0
    elif not serial and own is not None and date.edges and other.edges:
        edges, theirs, axis = np.array(date.edges), np.array(other.edges), Owner(own, axis)
        kept, broken = edges[:-1, None] >= theirs[1:], edges[1:, None] <= theirs[:-1]
    else:
        return None
    groups = np.full((mine.size, axis.size), OTHER)
    inside = groups[: date.values, : other.values]
    inside[kept & ~broken], inside[broken & ~kept] = KEPT, BROKEN
    return Joined((mine, axis), PublicArray(groups))


def _side(shares: Floats, domain: Domain) -> Ints:
    """-1, 0 or 1: an ordinary cell lies before the middle fifth of the rows, in it or after it."""
    held = shares[: domain.values]
    middle = (np.cumsum(held) - held / 2) / max(float(held.sum()), 1e-12)
    return np.sign((5 * middle).astype(np.int64) - 2)


def follows(noisy: Floats, sd: float) -> bool:
    """Whether rows come after their owners, as names say: few of those compared break it."""
    most = BROKEN_SHARE * float(noisy[KEPT] + noisy[BROKEN])
    return float(noisy[BROKEN]) <= max(most, 0.0) + NOISE * sd


def direction(noisy: Floats, sd: float) -> int:
    """1 if keys ascend with dates, -1 if they descend, 0 if they do neither or noise hides it."""
    more = float(noisy[KEPT] - noisy[BROKEN])
    least = max(ORDERED * float(noisy[KEPT] + noisy[BROKEN]), 0.0) + 2 * NOISE * sd
    return int(np.sign(more)) if abs(more) > least else 0
