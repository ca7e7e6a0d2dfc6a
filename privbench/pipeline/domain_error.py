"""The expected errors of queries on a column: the objective of `domain_budget`.

Reads no rows: everything follows from the plan and from numbers that are released by then.

A query selects a value of a column, or a range of values. Let R be the number of rows of its table,
W the weight of its units, and σ the noise of an event that gets an amount ρ (or ε). The expected
|log Q-error| of such a query is taken to be:

* For a list: Σ_r s_r·[p_r·min(0.8 σ/c_r, l_r) + (1 − p_r)·l_r], summed over blocks r of ranks. Here
  s_r is the share of the rows whose value is in the block, c_r the count of each value of the
  block, l_r = log R·c_r/W the error if the value is not released, and p_r = Φ((c_r − T)/σ) the
  probability that it is released, where T is the list's threshold. Only a third of the queries on
  numbers select a single number, and their error without a list is that within a histogram's cell.
  The counts c_r come from `RankedCounts`, combined with default frequencies, so that noise alone
  never decides.
* For a range: log R − 1 if W < 8 σ, a quarter of that at 16 σ, a fortieth at 40 σ, and about half
  of the latter from 640 σ on, where the ends of the range are certain. If the column's name
  suggests a range, it is a third of this. For a step it is a third as well, and a step of decimals
  needs half as much weight; for an integer's step it is a part of that (`_ROUND`).
* For a cycle of m places: `_CYCLE` times 0.4·m·σ/W, at most 1, which is the distance that noise of
  σ makes between two laws (TVD).
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from privbench.arrays import Floats
from privbench.encoding import BoundsNeed, CategoriesNeed, PartNeed
from privbench.learning.denoise import falling, normal_below
from privbench.privacy import Accounting
from privbench.privacy.queries.labels import BLOCKS, block_ends

#: Default shares of the rows that hold values of ranks 1, 2, 3–4, 5–8, …: for texts, for columns in
#: which few rows share a value (such as names), and for numbers and times.
_TEXTS = (0.35, 0.15, 0.15, 0.12, 0.10, 0.06, 0.04, 0.03)
_NAMES = (0.05, 0.03, 0.04, 0.05, 0.06, 0.06, 0.06, 0.06)
_NUMBERS = (0.12, 0.04, 0.04, 0.04, 0.04, 0.04)
#: The share of queries that select a single number; and the number of cells by which numbers are
#: distinguished without a list.
_NAMED, _CELLS = 1 / 3, 64.0
#: Weights of a table, in noise scales of a range's histogram, and the range's error at each. At 40
#: the range's last cell, with a tenth of the rows, may be mistaken for noise, or be joined with
#: empty cells beyond it: a range of dates up to 2025 was released as reaching 2048. Errors fall
#: slowly beyond 40, so that a small table's budget goes to its lists.
_SCALES, _ERRORS = (8.0, 16.0, 40.0, 160.0, 640.0), (1.0, 0.25, 0.025, 0.018, 0.012)
#: The same for a step, which is one of some ten cells that has nearly all rows: it was found in 99
#: of 100 simulations at 8, and beside a second one with three rows in ten in 9 of 10 at 16.
_STEP_SCALES, _STEP_ERRORS = (4.0, 8.0, 16.0, 40.0), (1.0, 0.25, 0.025, 0.015)
#: An integer's step is worth this many times less than a step of decimals or times: lists name
#: what many units share, and narrow ranges have a cell for every integer. With 1, all steps
#: together take 2.3 times as much budget in stats5, a fifth of which lists lose; with half, 1.7
#: times. Double: no difference beyond scatter.
_ROUND = 8.0
#: The error of a query on hours or weekdays where their law is unknown, times the share of such
#: queries. Hours and weekdays are off by .08 (TVD) with 943 users and by .02 in tables of 10,000
#: units and more. Half: .11 and .02. Double: .07 and .02, for half as much budget again, which
#: ranges lose.
_CYCLE = 0.25


# noise of events of sensitivity 1, in the continuous limit; amounts are ε or ρ by the accounting


def deviations(accounting: Accounting, amounts: Floats) -> Floats:
    """Return the standard deviation at each amount of budget; infinite at 0."""
    with np.errstate(divide="ignore"):
        if accounting == "pure":
            return np.asarray(math.sqrt(2) / amounts, np.float64)
        return np.asarray(np.sqrt(0.5 / amounts), np.float64)


def deviation(accounting: Accounting, amount: float) -> float:
    """Return the standard deviation at one amount of budget."""
    return float(deviations(accounting, np.array([amount]))[0])


def amount_for(accounting: Accounting, sd: float) -> float:
    """Return the amount of budget that gives a standard deviation."""
    return math.sqrt(2) / sd if accounting == "pure" else 0.5 / sd**2


def margin_of(accounting: Accounting, delta: float, values: int) -> float:
    """Return by how many standard deviations a threshold exceeds what one unit adds.

    It is infinite if no δ is left for the threshold.
    """
    if not delta:
        return math.inf
    if accounting == "pure":
        return max(math.log(values / (2 * delta)), 1.0) / math.sqrt(2)
    return max(-NormalDist().inv_cdf(delta / values), 1.0)


@dataclass(frozen=True, slots=True)
class Size:
    """The estimated numbers of rows and units of one table."""

    rows: float
    units: float  # units that have rows in it
    weight: float  # weight of all rows in histograms
    clip: int = 1  # C of the weights that lists count by


#: Values in every block of ranks of a law, which is the count of each of them, descending.
_VALUES = np.diff(block_ends(), prepend=0).astype(np.float64)


def believed(
    need: CategoriesNeed, units: float, noisy: Floats | None = None, sd: float = math.inf
) -> Floats:
    """Return the counts by rank of a column: a weighted mean of measured and default frequencies.

    `units` is the weight of all values, `noisy` the released sums of the blocks, if there are any,
    and `sd` the standard deviation of their noise.
    """
    expected = _NUMBERS if need.grid else _NAMES if need.own else _TEXTS
    prior = np.zeros(BLOCKS)
    prior[: len(expected)] = units * np.array(expected)
    sums = prior
    if noisy is not None:
        trust = 1 / (1 + (4 * sd / max(units, 1.0)) ** 2)
        sums = trust * noisy + (1 - trust) * prior
    counts = np.maximum(falling(sums / _VALUES, _VALUES), 1e-9)
    return np.asarray(counts * min(1.0, units / float((counts * _VALUES).sum())))


def unnamed(law: Floats, labels: int) -> float:
    """Return the share of the rows whose values rank after the first `labels`, in whole blocks."""
    weights = _VALUES * law
    begun = np.append(0.0, np.cumsum(_VALUES)[:-1]) < labels
    return float(weights[~begun].sum() / weights.sum())


def list_loss(need: CategoriesNeed, law: Floats, size: Size, margin: float, sd: Floats) -> Floats:
    """Return the expected error of a list at every noise; see the module's docstring.

    `margin` says how many standard deviations a threshold lies above one unit.
    """
    share = law * _VALUES / size.units
    values = _CELLS if need.grid else size.rows
    lost = np.log(np.maximum(law / size.units * min(values, size.rows), 1.0))
    noise = np.minimum(sd, 1e12)[:, None]
    named = normal_below((law - 2) / noise - margin)
    error = named * np.minimum(0.8 * noise / law, lost) + (1 - named) * lost
    return np.asarray((_NAMED if need.grid else 1.0) * (share * error).sum(axis=1), np.float64)


def range_loss(need: BoundsNeed | PartNeed, size: Size, sd: Floats) -> Floats:
    """Return the expected error of a range, a step or a cycle, at every noise."""
    if isinstance(need, PartNeed) and need.cycle:
        places = len(need.choices) + 1
        return _CYCLE * np.minimum(0.4 * places * sd / size.weight, 1.0)
    lost, scales = max(math.log(max(size.rows, 1.0)) - 1.0, 0.5), size.weight / np.minimum(sd, 1e12)
    if isinstance(need, PartNeed):
        lost /= 3 * _ROUND if need.sizes else 3
        scales = scales / 2 if need.chances else scales  # Few rows may have a date.
        return np.asarray(lost * np.interp(scales, _STEP_SCALES, _STEP_ERRORS), np.float64)
    lost /= 3 if need.named else 1
    return np.asarray(lost * np.interp(scales, _SCALES, _ERRORS), np.float64)


def total_loss(columns: int, size: Size, first: float, sd: Floats) -> Floats:
    """Return the expected error of a table's size from two noisy totals, times its columns.

    ``first`` is the standard deviation of the first total's noise, ``sd`` has that of the second
    one at each amount of budget that is considered. The error is relative, on a log scale.
    """
    with np.errstate(divide="ignore"):
        both = (first**-2 + sd**-2.0) ** -0.5
    return np.asarray(max(columns, 1) * np.log1p(0.8 * both / size.rows), np.float64)
