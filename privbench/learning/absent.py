"""Tables of which nothing can be told from noise come out empty: post-processing, free of charge.

A fit asks the same of a table whether or not it has rows, and floors what it divides by at one row.
Where all that was released of its size is what noise makes, its rows would be inventions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import hypot

import numpy as np

from privbench.learning.answers import released
from privbench.learning.assemble import TableModel
from privbench.learning.denoise import by_precision, last_clear
from privbench.learning.fanlaw import FanLaw
from privbench.privacy import DatabaseSpec, KeySpec, Session
from privbench.privacy.queries import FanOut, Histogram, Presence, Total, UnitRows

#: Standard deviations above zero from which on a number of rows, or that and a number of units
#: together, is told from none. A table that is lost costs more than rows of an empty one, of which
#: there are fewer: at 0.7 half of the empty tables come out with a few rows; at 2.2 one in 25 does,
#: but a table that 35 of 864 owners have loses all its rows in two of three releases.
SEEN = 0.7
#: Standard deviations from which on one bucket of units by their rows tells by itself. Half: noise
#: alone passes for rows in every table; double: twenty clear units of one size are lost.
ALONE = 4.0

Noisy = tuple[float, float]  # A number and the variance of its noise.


def told_tables(session: Session, rows: Mapping[str, Noisy]) -> frozenset[str]:
    """Tables that hold rows, by what was released alone, and what rows of theirs must refer to.

    Of a table without owners its number of rows tells; of an owned one its total (with the noise of
    100 rows), and the number of its units by all that counts them.
    """
    found = {
        name
        for name, table in session.spec.tables.items()
        if hypot(_clear(rows[name]), _clear(_units(session, table.own, rows))) > SEEN
    }
    return needed(session.spec, found)


def clipped_totals(session: Session, table: str) -> Noisy:
    """The mean of all released totals of a table, whatever they are clipped to: rows, at most."""
    found: list[Noisy] = []
    for step in session.trace:
        if isinstance(step.query, Total) and step.query.table == table:
            (noisy,), sd = released(session, step)
            found.append((float(noisy), max(sd, 1e-9) ** 2))
    return by_precision(found) if found else (1.0, 1e-18)


def _units(session: Session, own: KeySpec | None, rows: Mapping[str, Noisy]) -> Noisy:
    """Units that have rows in an owned table, by all that counts them; nothing for others."""
    units: list[Noisy] = []
    for step in session.trace if own is not None else ():
        query, table = step.query, step.query.table
        if own is None or not isinstance(query, Total | Histogram | Presence | FanOut):
            continue
        noisy, sd = released(session, step)
        sd = max(sd, 1e-9)
        if isinstance(query, FanOut):
            if query.key == own:
                if last_clear(noisy, sd) > 0:
                    # One bucket stands out by itself.
                    return 1.0, 0.0
                units.append((float(noisy[1:].sum()), sd**2 * (len(noisy) - 1)))
                if session.spec.tables[own.parent].own is None:
                    # Owners that are missing among those that have none.
                    units.append((rows[own.parent][0] - noisy[0], rows[own.parent][1] + sd**2))
        elif isinstance(query, Histogram) and any(
            isinstance(axis, UnitRows) and axis.counted == own.table for axis in query.axes
        ):
            if float(noisy[1:].max(initial=0.0)) > ALONE * sd:
                return 1.0, 0.0
            units.append((float(noisy[1:].sum()), sd**2 * (len(noisy) - 1)))
        elif table == own.table and (query == Total(table, 1) or not isinstance(query, Total)):
            # Every row stands in one cell: the sum is the weight of the units that have rows.
            whole = isinstance(query, Total | Presence) or query.region is None
            units += [(float(noisy.sum()), sd**2 * len(noisy))] if whole else []
    return by_precision(units) if units else (0.0, 0.0)


def _clear(number: Noisy) -> float:
    """How many standard deviations a number stands above zero, at least 0."""
    return max(number[0], 0.0) / float(np.sqrt(max(number[1], 1e-18)))


def needed(spec: DatabaseSpec, present: Iterable[str]) -> frozenset[str]:
    """Some tables, and all that rows of theirs must refer to."""
    found, new = set[str](), set(present)
    while new:
        found |= new
        keys = [key for name in new for key in spec.tables[name].keys if key.role != "public"]
        new = {key.parent for key in keys if key.role == "own" or not key.nullable} - found
    return frozenset(found)


def emptied(model: TableModel) -> TableModel:
    """The model of a table without rows, whatever bucket of children is drawn with an owner."""
    keys = dict(model.keys)
    for name, key in keys.items():
        if key.role == "own" and key.law is not None:
            none = np.zeros_like(key.law.starts)
            law = FanLaw(none, none, key.law.mass, key.law.exponents)
            keys[name] = replace(key, null=0.0, law=law)
    return TableModel(0.0, keys)
