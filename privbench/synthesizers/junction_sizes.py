"""How many rows owned tables have: what is measured of that, and drawn rows against it.

Where units are few, the first total of an owned table drowns in the noise of its clip of 100, and
what fan-outs leave open multiplies from level to level. So units are counted by their number of
rows on each level (`junction_rules.counts_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbench.domain import Codes
from privbench.learning.crowds import Crowds, Ints, Told, doubt
from privbench.learning.denoise import Floats, Noise
from privbench.learning.fanlaw import FanLaw
from privbench.learning.keyasks import Answers
from privbench.learning.keyfit import TOTAL_CLIP, measured_null, ownerless, parents_of
from privbench.learning.keys import KeyModel
from privbench.learning.shares import key_item
from privbench.learning.unitrows import UNIT_BOUNDS, Evidence, UnitCounts, factor_of
from privbench.privacy import KeySpec
from privbench.privacy.queries import Histogram, UnitRows
from privbench.privacy.units import bound
from privbench.synthesizers.common import Fitting
from privbench.synthesizers.junction_rules import ROWS

#: By how much a drawn number of rows may be off by itself, at most (its logarithm): where units
#: tell it, and where the first total alone does, which is mostly noise.
_OFF, _UNTOLD = 1.0, 0.5


@dataclass(frozen=True, slots=True)
class Size:
    """What is known of the number of rows that an OWN key's owners have.

    Attributes:
        told: The total that the fit began with.
        units: What units by their number of rows tell, where they are measured.
        doubt: Relative standard deviation of what the fan-out tells, by its noise.
    """

    told: Told
    units: UnitCounts | None
    doubt: float


def rows_label(key: KeySpec) -> str:
    """Label of the event of `units_by_rows`."""
    return f"rows of {key.table}"


def units_by_rows(table: str) -> Histogram:
    """Units by their number of rows in a table; a row of n weighs 1/n, so that units count once."""
    return Histogram(table, (UnitRows(table, UNIT_BOUNDS),), tau=1)


def first_total(fitting: Fitting, key: KeySpec, null: float) -> Told:
    """What the total that the fit began with tells of rows that have an owner."""
    sizes = fitting.sizes(key.table)
    sd = sizes.sd.get(key.table, 0.0)
    return Told(max(sizes.rows[key.table] - null, 0.0), sd, float(TOTAL_CLIP))


def measure_rows(
    fitting: Fitting, key: KeySpec, answers: Answers, identity: Ints, part: float
) -> Evidence:
    """Measure the units of an OWN key's table by their number of rows.

    Args:
        fitting: Session and amounts.
        key: The key.
        answers: What was measured of its fan-out.
        identity: Unit of every row of the owners' table, shape (rows,).
        part: Part of that table that these rows are.
    """
    amount = fitting.amounts[key_item(key)] * ROWS
    noisy, sd = fitting.measure(units_by_rows(key.table), amount, rows_label(key))
    crowds = crowds_of(identity, part, bound(fitting.spec, key.parent))
    units, beside = float(crowds.units.sum()), ownerless(fitting.spec, key, answers)
    told = first_total(fitting, key, measured_null(fitting.spec, key, answers))
    return Evidence(crowds, told, UnitCounts.of(noisy, sd, max(units, 1.0), beside, fitting.noise))


def size_of(
    fitting: Fitting,
    key: KeySpec,
    model: KeyModel,
    answers: Answers,
    parents: float,
    evidence: Evidence | None,
) -> Size:
    """What is known of a size.

    Args:
        fitting: Gives the first total.
        key: The OWN key.
        model: The key's model.
        answers: What was measured of it.
        parents: Released weight of the owners' rows.
        evidence: What `measure_rows` gave, if that was asked.
    """
    told = first_total(fitting, key, model.null) if evidence is None else evidence.told
    units, off, law = None if evidence is None else evidence.units, 0.0, model.law
    whole = parents_of(key, answers)
    if whole is not None and law is not None:
        # That is the sum of all buckets, each with the same noise.
        sd = float((whole[1] / len(law.mass)) ** 0.5)
        off = doubt(law.mass, law.means(), parents, sd)
    return Size(told, units, off)


def excess(
    law: FanLaw, buckets: Codes, crowd: tuple[Ints, float, int], size: Size, noise: Noise
) -> float:
    """Factor from the drawn number of children toward what is known of it.

    Args:
        law: The law of the numbers of children.
        buckets: Drawn bucket of every row of the owners' table, shape (rows,).
        crowd: Unit of every such row, part of their table that they are, and its τ.
        size: What is known.
        noise: Law of the noise.
    """
    identity, part, tau = crowd
    loose = float(crowds_of(identity, part, tau).loose(law.mass[None, :], law.means())[0])
    off = min(float(np.hypot(loose, size.doubt)), _UNTOLD if size.units is None else _OFF)
    children = children_of(law.means()[buckets], identity)
    return factor_of(children, part, size.told, size.units, off, noise)


def crowds_of(identity: Ints, part: float, tau: int) -> Crowds:
    """How rows stand in units, from the unit of every row."""
    units = np.unique(identity, return_counts=True)[1]
    return Crowds.of(np.repeat(units, units), part, tau)


def children_of(counts: Ints | Floats, identity: Ints) -> Floats:
    """Number of children of every unit that has rows, from that of every row."""
    _, place = np.unique(identity, return_inverse=True)
    return np.asarray(np.bincount(place, counts), np.float64)
