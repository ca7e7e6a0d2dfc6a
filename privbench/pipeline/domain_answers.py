"""Make lists, ranges and steps of columns from released answers (post-processing, free of charge).

Where noise has hidden a column's labels, or the range or decimals of its numbers, it takes those of
columns of the same name and type. Where it has hidden the range of a date column, that column takes
the range of related dates: a discharge is near its admission, a last change near the last of other
changes. That is a better guess than the years 2000 to 2030. Dates in years without events are
sentinel values: 9999-12-31 means "until now", 0001-01-01 that nothing is known. A sentinel value
that most rows share reveals nothing about where other rows lie, so ranges of sentinel values are
not passed on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from privbench.arrays import Floats
from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, PartNeed, Step
from privbench.encoding.base import Need, ReleasedDomain
from privbench.encoding.scale import scale_of
from privbench.encoding.surrogates import KIND, Surrogates
from privbench.learning.answers import Measured
from privbench.learning.ranges import (
    common_step,
    cut,
    find_cycle,
    find_law,
    find_range,
    find_step,
    find_within,
    within_likely,
)
from privbench.learning.surrogates import surrogates
from privbench.pipeline.domain_error import Size, unnamed
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import GRID, PART, Listed, NoisyResult, Question, Session
from privbench.rules.facts import orders
from privbench.rules.named import DATES
from privbench.schema import Table
from privbench.words import snake

#: Values below zero count as present if their count is above this many standard deviations.
_CLEAR = 2.0
#: A cell holds rows besides those of its listed values if what remains of its count exceeds this
#: many standard deviations.
_LEFT = 4.0
#: Up to this share, numbers that are no dates are values that stand for something else.
_OTHERS = 0.1
#: How many public candidates of a column noise alone may make look present, on the mean.
_BY_CHANCE = 0.02
#: Share of rows without a released label from which on default labels are added.
_REST = 0.05


def released_list(need: CategoriesNeed, listed: Listed, sd: float) -> tuple[str, ...]:
    """Return the sorted labels of a list: those above the threshold, public ones above the noise.

    `sd` is the standard deviation of the list's noise, in counted units.
    """
    clear = -NormalDist().inv_cdf(_BY_CHANCE / max(len(need.public), 1)) * sd * GRID
    public = (
        label for label, count in zip(need.public, listed.cells[1:], strict=True) if count > clear
    )
    return tuple(sorted({*listed.labels, *public}))


def lent_labels(plan: FitPlan, named: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the labels that columns of the same name and type have in other tables.

    This is post-processing. Columns of the same name often hold the same values: nationalities, or
    the date that stands for "until now". Columns whose name suggests that few rows share a value
    are left out.
    """
    kinds = {
        name: (need.attribute, plan.tables[table].table.column(_column(need)).type.sql)
        for name, (table, need) in plan.lists.items()
        if need.grid or not need.own
    }
    known: dict[tuple[str, str], set[str]] = {}
    for name, labels in named.items():
        if name in kinds:
            known.setdefault(kinds[name], set()).update(labels)
    return {
        name: tuple(
            label
            for label in sorted(known.get(kind, ()))
            if len(label) <= (plan.lists[name][1].length or math.inf)
        )
        for name, kind in kinds.items()
    }


def _column(need: CategoriesNeed) -> str:
    return need.attribute.partition(PART)[0]


def with_default(
    need: CategoriesNeed, labels: tuple[str, ...], law: Floats | None, cells: int
) -> tuple[str, ...]:
    """Return the released labels, with default labels for rows whose values are not among them.

    At most twice as many default labels are added as a histogram can distinguish (``cells``). None
    are added if the released labels cover nearly all rows, or if no default label is among them.
    """
    others = law is None or unnamed(law, len(labels)) < _REST or not {*labels} & {*need.default}
    if labels and others:
        return labels
    return tuple(dict.fromkeys((*labels, *need.default[: 2 * cells])))


def measurement_of(session: Session, question: Question, result: NoisyResult) -> Measured:
    """Return the measurement of a question: counts of cells, or of the labels of a list."""
    counts = np.asarray(result.counts if isinstance(result, Listed) else result, np.float64)
    sd = session.noise_scale(question.query, question.amount)
    return Measured(question.query, counts / question.query.unit, max(sd, 1e-9))


def without(
    need: BoundsNeed, histogram: Measured, labels: Sequence[str], shared: Measured
) -> Measured:
    """Return a histogram without the rows whose values are labels of a list, given with counts.

    A cell that contains a listed value becomes empty if what remains of its count may be noise
    alone. The list gives a unit's rows at least the weight that the histogram gives them, so
    what remains may be too small, but is not too large.
    """
    points = np.array([int(label) for label in labels], np.int64)
    cells = np.searchsorted(need.candidates, points, side="right")
    taken = np.bincount(cells, shared.counts, len(histogram.counts))
    number = np.bincount(cells, minlength=len(histogram.counts))
    noisy = histogram.counts - taken
    hidden = noisy < _LEFT * np.sqrt(histogram.sd**2 + number * shared.sd**2)
    return replace(histogram, counts=np.where((number > 0) & hidden, 0.0, noisy))


def settled(
    need: BoundsNeed | PartNeed,
    answers: Sequence[tuple[Need | None, Measured]],
    cells: int,
    shared: tuple[Sequence[str], Measured] | None = None,
) -> ReleasedDomain:
    """Return the range, step or cycle that measurements of a column determine, or none.

    Each measurement comes with the need that it was made for. Values that many units share (the
    labels `shared` with their counts) get cells of their own, and the range is that of all other
    values: most rows of a column may hold ``9999-12-31`` while the other dates lie within a few
    years.
    """
    if not isinstance(need, BoundsNeed):
        return part(need, [answer for _, answer in answers])
    ranges = [(of, answer) for of, answer in answers if isinstance(of, BoundsNeed)]
    others = [(of, without(of, answer, *shared)) for of, answer in ranges] if shared else []
    return bounds(others, cells) or bounds(ranges, cells) or replace(need.default, cells=cells)


def part(need: PartNeed, answers: Sequence[Measured]) -> Step:
    """Return the step of which nearly all values are multiples, or the shares of weekdays or hours.

    It is empty if noise hides them.
    """
    if not answers:
        return Step(None)
    noisy, sd = answers[0]
    if need.cycle:
        return Step(law=find_cycle(noisy, sd))
    default = need.choices.index(need.default)
    law = find_law(noisy, sd, np.array(need.chances)) if need.chances else ()
    if need.sizes:
        place = common_step(law, need.sizes) if law else None
    else:
        place = find_step(noisy, sd, default)
    return Step(None if place is None else need.choices[place], law)


def bounds(answers: Sequence[tuple[BoundsNeed, Measured]], cells: int) -> Bounds | None:
    """Return a range from one histogram, or from a coarse and a finer one.

    None if noise hides it.
    """
    if not answers:
        return None
    need, (noisy, sd) = answers[0]
    ends = find_range(noisy, sd, narrow=not need.poor_default)
    if ends is None:
        return None
    if (likely := need.likely_cells) is not None:
        ends = within_likely(noisy, sd, ends, likely, whole=need.named)
    ends = _from_zero(need, noisy, sd, *ends)
    for finer, close in answers[1:]:
        rows = float(noisy[ends[0] : ends[1] + 1].sum())
        wide = need.between(*ends, np.ones(len(noisy), np.int64), cells)
        within = _closely(wide, finer, close, rows)
        if within is not None:
            need, (noisy, sd), ends = finer, close, within
    pieces = cut(noisy, sd, *ends, cells, gaps=need.poor_default)
    step = _written(need, noisy, sd, *ends)
    if step is not None:
        # Cells are cut by days or months, and not by integers.
        dates = need.calendars[step]
        released = replace(need, candidates=dates.count(need.candidates)).between(
            *ends, pieces, cells
        )
        lo, hi, *inner = dates.at(np.array([released.lo, released.hi, *released.inner])).tolist()
        return replace(released, lo=lo, hi=hi, inner=tuple(inner), step=step)
    released = need.between(*ends, pieces, cells)
    if need.named and likely is not None and ends[1] == likely[1]:
        # The last cell may reach beyond the end that the column's name suggests: an age of at most
        # 100 has a last cell from 91 to 107.
        high = max(min(released.hi, need.default.hi), released.lo + 1)
        released = replace(
            released, hi=high, inner=tuple(edge for edge in released.inner if edge < high)
        )
    return released


def _closely(
    wide: Bounds, need: BoundsNeed, close: Measured, rows: float
) -> tuple[int, int] | None:
    """The cells of the finer histogram that hold nearly all rows of the wider range.

    None if there are none. `rows` is the number of rows in the wider range.
    """
    first = int(np.searchsorted(need.candidates, wide.lo, side="right"))
    last = int(np.searchsorted(need.candidates, wide.hi))
    ends = find_within(close.counts[first : last + 1], close.sd, rows)
    return None if ends is None else (first + ends[0], first + ends[1])


def _written(need: BoundsNeed, noisy: Floats, sd: float, first: int, last: int) -> int | None:
    """The step of the dates as which nearly all numbers within the ends are written, or None.

    Numbers that are no dates lie mostly in the cells between one year's dates and the next's.
    """
    first, last = max(first, 1), min(last, len(need.candidates) - 1)
    lows, highs = need.candidates[first - 1 : last], need.candidates[first : last + 1]
    inside = noisy[first : last + 1]
    for step, dates in need.calendars.items():
        holds_date = dates.holds(lows, highs)
        clear = inside[holds_date].sum() > _LEFT * sd * holds_date.sum() ** 0.5
        rest = inside[~holds_date].sum() - sd * (~holds_date).sum() ** 0.5
        if clear and rest <= _OTHERS * inside.sum():
            return step
    return None


def _from_zero(
    need: BoundsNeed, noisy: Floats, sd: float, first: int, last: int
) -> tuple[int, int]:
    """The first and last cell of a range; it begins at zero if rows below zero may be noise alone.

    If only many neighbouring cells together exceed the noise, the beginning of the range is
    uncertain, and a range of prices should not begin below zero.
    """
    zero = int(np.searchsorted(need.candidates, 0))
    known = zero < len(need.candidates) and need.candidates[zero] == 0
    if need.poor_default or not known or not first <= zero < last:
        return first, last
    below = noisy[first : zero + 1]
    negative = float(below.sum()) > _CLEAR * sd * len(below) ** 0.5
    return (first, last) if negative else (zero + 1, last)


def rest_law(
    need: CategoriesNeed, size: Size, named: int, ranked: Measured | None, heavy: float
) -> Surrogates | None:
    """Return the frequencies, by rank, of the values that are not on a released list.

    They come from the noisy counts by rank, of whose noise the tails are so ``heavy``. If these are
    missing or show nothing, they are default frequencies if the column's name suggests that values
    repeat, else None.
    """
    frequencies = None
    if ranked is not None:
        noisy, sd = ranked
        null = min(max(float(noisy[0]) / size.units, 0.0), 1.0)
        frequencies = surrogates(noisy[1:], max(heavy * sd, 1e-9), size.rows * (1 - null), named)
    return KIND if frequencies is None and need.repeats else frequencies


#: Names of columns whose dates reveal nothing about the other dates of a row.
_APART = re.compile(
    r"(?:^|_)(?:birth\w*|born|dob|death|died|deceased|dod|founded|found(?:ing|ation)|expir\w*)(?:_|$)"
)
#: Dates before the first or from the second on are sentinel values: 9999-12-31 for "open".
_TIMES = ("1800-01-01", "2100-01-01")


def lend_ranges(
    tables: Iterable[Table],
    released: Mapping[tuple[str, str], ReleasedDomain],
    limits: Mapping[tuple[str, str], tuple[int, int]],
) -> dict[tuple[str, str], ReleasedDomain]:
    """Return the released ranges, with those that noise has hidden filled in from other columns.

    A column of numbers takes the ranges and decimals of columns of the same name and type. A hidden
    range of dates becomes the hull of the ranges of the columns whose names say that their dates
    come just before or after; else the hull of all ranges of its table; else that of all tables. It
    stays within the limits that CHECKs, config and type allow, and remains marked as hidden. The
    keys of all mappings are table and attribute.
    """
    tables = list(tables)
    filled = dict(released) | dict(_of_namesakes(tables, released, limits))
    for base in DATES:
        ranges = {table.key: _given(table, base, released) for table in tables}
        everywhere = [item for some in ranges.values() for item in some]
        for table in tables:
            hidden = [
                (name, bounds)
                for name, bounds, _ in _columns(table, base, released)
                if not bounds.released
            ]
            pairs = [order.columns for order in orders(table)]
            here = ranges[table.key]
            for name, old in hidden:
                near = [item for item in here if any({name, item[0]} == {*pair} for pair in pairs)]
                lent = _hull(near or here or everywhere, limits.get((table.key, name)))
                if lent is not None:
                    filled[table.key, name] = replace(old, lo=lent[0], hi=lent[1])
    return filled


def _of_namesakes(
    tables: Iterable[Table],
    released: Mapping[tuple[str, str], ReleasedDomain],
    limits: Mapping[tuple[str, str], tuple[int, int]],
) -> Iterator[tuple[tuple[str, str], ReleasedDomain]]:
    """Ranges and decimals of numbers that noise has hidden, by columns of one name or calendar."""
    types = {
        (table.key, column.name): (column.type.sql, column.dated)
        for table in tables
        for column in table.columns
        if column.type.base not in DATES
    }
    known: dict[tuple[str, str], list[tuple[str, ReleasedDomain]]] = {}
    hidden = []
    for (table, name), item in released.items():
        column, _, part = name.partition(PART)
        type_, dated = types.get((table, column), ("", ""))
        kind = f"{dated}{PART}{part}" if dated else name, type_
        if isinstance(item, Bounds | Step) and kind[1]:
            if item.released if isinstance(item, Bounds) else item.choice is not None:
                known.setdefault(kind, []).append((table, item))
            else:
                hidden.append(((table, name), kind, item))
    for place, kind, item in hidden:
        some = known.get(kind, [])
        if isinstance(item, Bounds):
            ranges = [(t, b) for t, b in some if isinstance(b, Bounds)]
            lent = _hull(ranges, limits.get(place))
            if lent is not None:
                step = ranges[0][1].step
                # Numbers but dates may be smaller than those of one name: `milliseconds` of a stop
                # and of a race.
                low = min(item.lo, lent[0]) if step is None else lent[0]
                yield place, replace(item, lo=low, hi=max(lent[1], item.lo + 1), step=step)
        elif some:
            choices = (step.choice for _, step in some if isinstance(step, Step))
            yield place, Step(max(choice for choice in choices if choice is not None))


def _hull(some: list[tuple[str, Bounds]], limits: tuple[int, int] | None) -> tuple[int, int] | None:
    """The hull of some ranges, cut to the limits; None if there is no range or nothing is left."""
    if not some:
        return None
    low, high = min(item.lo for _, item in some), max(item.hi for _, item in some)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return (low, high) if low < high else None


def _columns(
    table: Table, base: str, released: Mapping[tuple[str, str], ReleasedDomain]
) -> Iterator[tuple[str, Bounds, tuple[int, int]]]:
    """The columns of a base type: name, range, and the first and last plausible time."""
    for item in table.columns:
        bounds, scale = released.get((table.key, item.name)), scale_of(item.type)
        if item.type.base != base or _APART.search(snake(item.name)):
            continue
        if isinstance(bounds, Bounds) and scale is not None:
            yield item.name, bounds, (scale.parse(_TIMES[0]), scale.parse(_TIMES[1]))


def _given(
    table: Table, base: str, released: Mapping[tuple[str, str], ReleasedDomain]
) -> list[tuple[str, Bounds]]:
    """Released ranges of columns, without sentinel values.

    If some ranges hold no sentinel value, only these are returned. Otherwise ranges are cut to
    plausible times, and may still be much too wide.
    """
    items = [item for item in _columns(table, base, released) if item[1].released]
    plain = [(n, b) for n, b, times in items if times[0] <= b.lo and b.hi <= times[1]]
    rest = [
        (n, replace(b, lo=max(b.lo, times[0]), hi=min(b.hi, times[1])))
        for n, b, times in items
        if b.lo < times[1] and b.hi > times[0]
    ]
    return plain or rest
