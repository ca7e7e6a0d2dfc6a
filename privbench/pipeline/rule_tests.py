"""Test privately whether rows satisfy likely rules, which become CHECKs (`rules.hypotheses`)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.encoding import Codec
from privbench.encoding.ordered import OrderedReader
from privbench.learning.answers import measured
from privbench.pipeline.domain_error import Size, amount_for, deviation
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import Accounting, Measurement, Purse, Query, Session, noise_sd
from privbench.privacy.queries import (
    Axis,
    Column,
    Histogram,
    Joined,
    OrderTest,
    PublicArray,
    Refers,
    Whole,
)
from privbench.rules.facts import movable_keys
from privbench.rules.hypotheses import RuleGroup, combination_check, groups, order_check
from privbench.schema import Check

#: The largest part of the budget; and units of a tree for each of its groups.
SHARE, _UNITS = 0.1, 100
#: Groups that a tree's budget can tell at least, else none is asked. With the groups of 874 drivers
#: asked as far as the budget went, counts of the joins of f1 were off by 5.8 instead of 5.0.
_GROUPS = 4
#: The least and largest noise of a test, as parts of its table's weight.
_BEST, _WORST = 1 / 100, 1 / 40
#: How much larger noise may be for the rows that have both dates, of which a fifth may lack one.
_SPARE = 1.25
#: Rows that may break a rule, beside two standard deviations.
_BROKEN = 0.02
#: The weight that frequent combinations have, and how much more often than it may be independent
#: columns break the rule; and most cells.
_LIKELY, _TELLING, _CELLS = 0.5, 2.0, 2**13


class RuleTests:
    """The private tests of likely rules in a fit with the budget ``whole``, ε or ρ."""

    def __init__(
        self, plan: FitPlan, accounting: Accounting, whole: float, sizes: Mapping[str, Size]
    ) -> None:
        self._spec = spec = plan.spec
        self._weights = {name: size.weight for name, size in sizes.items()}
        self._groups, self._amounts = list[RuleGroup](), dict[str, float]()
        self._edges = dict[str, Mapping[str, Axis]]()  # whether references are NULL
        self._decided = dict[tuple[str, str], tuple[str, ...]]()  # NULLs of columns, by labels
        self.charged: list[Measurement] = []
        self.shown = defaultdict[str, list[Check]](list)
        for table, readers in ((i.table, i.readers) for i in plan.private if i.section.shown):
            known = readers.items()
            grids = {n for n, r in known if isinstance(r, OrderedReader) and not r.range.settled}
            alone = {key.name: key.columns[0] for key in movable_keys(table)}
            keys = [key for key in spec.tables[table.key].keys if key.name in alone]
            edges = {alone[key.name]: Refers(key) for key in keys if key.role != "own"}
            self._edges[table.key] = edges
            self._groups += groups(table, grids, readers, edges)
        load = Counter(spec.top(group.table) for group in self._groups)
        for name in {group.table for group in self._groups}:
            one = noise_sd(Histogram(name, (Whole(),)), spec, 1.0, accounting)
            weight = self._weights[name] * deviation(accounting, 1.0) / one
            share = SHARE * whole / (4 * load[spec.top(name)])
            best, worst = (amount_for(accounting, part * weight) for part in (_BEST, _WORST))
            # Else tests would take as much as one-ways of few units need, and tell little.
            useful = worst <= share * max(load[spec.top(name)] / _GROUPS, 1)
            self._amounts[name] = sorted((share, best, worst))[1] if useful else math.inf
        # Groups of which names say more go first, and distances last.
        ordered = sorted(self._groups, key=lambda group: (not group.said, group.near))
        first = Purse(SHARE / 2 * whole)
        self._left = {name: int(weight / _UNITS) for name, weight in self._weights.items()}
        self._groups = [group for group in ordered if self._take(group, first)]
        # Halves of orders, and of combinations.
        self._purses = [Purse(SHARE / 4 * whole) for _ in range(2)]

    def first(self) -> list[Measurement]:
        """Return the measurements of the first tests."""
        two = (Column("", 2),)
        return [self._measurement(group, Histogram(group.table, two)) for group in self._groups]

    def _take(self, group: RuleGroup, purse: Purse) -> bool:
        """Take what a group needs, if there is as much."""
        top, query = self._spec.top(group.table), Histogram(group.table, (Whole(),))
        amount = self._amounts[group.table] * (1 if group.orders else 2)
        affordable = self._left[top] > 0 and purse.take(query.roots(self._spec), amount)
        self._left[top] -= affordable
        return affordable

    def _more(self, *groups: RuleGroup) -> list[RuleGroup]:
        """Those groups for which there is room after the first ones, the first of them last."""
        rest = [group for group in groups if group.columns[1:] and group not in self._groups]
        return [g for g in rest if self._take(g, self._purses[not g.orders])][::-1]

    def _measurement(self, group: RuleGroup, query: Query) -> Measurement:
        label = f"rule {group.table}: {', '.join(group.columns)}"
        self.charged.append(Measurement(query, self._amounts[group.table], label))
        return self.charged[-1]

    def _ask(self, session: Session, group: RuleGroup, query: Query) -> tuple[NDArray[Any], float]:
        """Noisy shares of the weight and their noise."""
        (found,) = measured(session, [self._measurement(group, query)])
        weight = self._weights[group.table]
        return found.counts / weight, found.sd / weight

    def orders(self, session: Session, codecs: Mapping[str, dict[str, Any]]) -> None:
        """Test orders of and distances between columns, before dates are recoded.

        Dates that are always near each other become distances.
        """
        left = [group for group in self._groups[::-1] if group.orders]
        while left:
            group = left.pop()
            pairs, furthest, table_codecs = group.orders, None, codecs[group.table]
            if group.near:
                near = {b: table_codecs[b].distances(table_codecs[a]) for a, b in pairs}
                pairs = tuple(pair for pair in pairs if near[pair[1]])
                furthest = max((near[b].recoding.edges[-1] for _, b in pairs), default=0)
            if not pairs:
                continue
            cells, noise = self._ask(session, group, OrderTest(group.table, pairs, furthest))
            both = max(cells.sum(), 0.0)
            if noise > _SPARE * _WORST * both:
                continue  # Too few rows have both dates: names alone say what they say.
            most, share = _BROKEN + 2 * noise / both, cells[0] / both
            if share >= most and group.halves:
                left += self._more(*group.halves)
                continue
            if group.near:
                table_codecs.update((name, near[name]) for _, name in pairs if share < most)
                continue
            step = -1 if share > max(most, 0.5) else 1
            few = share if step == 1 else 1 - share
            if few >= most and not group.said:
                continue  # Dates that come in either order have none.
            checks = (order_check(pair[::step], few * (few >= most)) for pair in group.orders)
            self.shown[group.table] += checks

    def combinations(self, session: Session, codecs: Mapping[str, Mapping[str, Codec]]) -> None:
        """Test which combinations of values occur, after columns are recoded."""
        left = [group for group in self._groups[::-1] if not group.orders]
        while left:
            left += self._more(*self._combination(session, left.pop(), codecs))

    def _combination(
        self, session: Session, group: RuleGroup, codecs: Mapping[str, Mapping[str, Codec]]
    ) -> tuple[RuleGroup, ...]:
        """Test which combinations are frequent, and whether rows keep to them; or what to test."""
        table, labels = group.table, group.labels
        free = [n for n in group.columns if self._decided.get((table, n), labels) == labels]
        axes, values = _axes(group.part(free), codecs[table], self._edges[table])
        if len(axes) < 2 or math.prod(axis.size for axis in axes.values()) > _CELLS:
            return ()
        group = group.part(axes)
        shares, noise = self._ask(session, group, Histogram(table, (*axes.values(),)))
        frequent, most = np.zeros(shares.shape, np.bool_), _BROKEN + 2 * noise
        some = tuple(slice(len(each)) for each in values.values())
        least = noise * max(3.0, math.sqrt(2 * math.log(10 * shares.size)))
        frequent[some] = shares[some] > least
        shares = shares * frequent
        if shares.sum() <= _LIKELY:
            return group.halves
        alone = group != (nulls := replace(group, labels=())) and nulls in self._groups
        rare = _rare(group, frequent) if shares.sum() < 1 - most else ()
        group, shares, frequent, others = _dependent(group, shares, frequent, most)
        if not group.columns[1:] or (alone and not group.labels):
            return others, *rare
        frequent_cells = PublicArray(_kept(group, frequent).astype(int))
        joined = Joined(tuple(axes[name] for name in group.columns), frequent_cells)
        (broken, _), _ = self._ask(session, group, Histogram(table, (joined,)))
        if broken >= most:
            return *group.halves, others, *rare
        listed, cells = [values[name] for name in group.columns], np.argwhere(frequent)
        rows = [[v[c] for v, c in zip(listed, cell, strict=True)] for cell in cells]
        self.shown[table].append(combination_check(group, rows))
        self._decided |= dict.fromkeys([(table, n) for n in group.nulls], group.labels)
        return others, *rare


def _axes(
    group: RuleGroup, codecs: Mapping[str, Codec], edges: Mapping[str, Axis]
) -> tuple[dict[str, Axis], dict[str, tuple[str, ...]]]:
    """The axes of a group's columns and their literals, of those that have any."""
    axes, values = dict[str, Axis](), dict[str, tuple[str, ...]]()
    for name in group.columns:
        if name not in codecs:
            axes[name], values[name] = edges[name], ("true", "false")
            continue
        # Each attribute of a column has a code of NULL.
        attribute, domain = next(iter(codecs[name].domains.items()), ("", Domain(1)))
        null = (np.arange(domain.size) == domain.null_code).astype(int)
        bins = PublicArray(null) if name in group.nulls else None
        some = codecs[name].listed if bins is None else ("false", "true") * bool(null.any())
        if some:
            values[name] = some
            axes[name] = Column(attribute, 2 if bins else domain.size, bins)
    return axes, values


def _dependent(
    group: RuleGroup, shares: NDArray[Any], frequent: NDArray[Any], most: float
) -> tuple[RuleGroup, NDArray[Any], NDArray[Any], RuleGroup]:
    """The columns that have a part in a rule, with their cells; and NULLs of no label to test."""
    names, free, apart = group.columns, list[int](), list[int]()
    for axis in range(shares.ndim):
        label = group.nulls and axis < len(group.labels)
        if broken_if_independent(shares, frequent, axis) <= (_TELLING if label else 1) * most:
            free.append(axis)
        elif group.labels and group.nulls and not label and 0 not in free:
            rest = tuple({*range(1, shares.ndim)} - {axis})
            if broken_if_independent(shares.sum(rest), frequent.sum(rest) > 0, 0) <= most:
                apart.append(axis)
    gone = (*free, *apart)
    some = group.part([name for axis, name in enumerate(names) if axis not in gone])
    others = RuleGroup(group.table, nulls=tuple(names[axis] for axis in apart))
    return some, shares.sum(gone), frequent.sum(gone) > 0, others


def _rare(group: RuleGroup, frequent: NDArray[Any]) -> tuple[RuleGroup, ...]:
    """What to test of columns that have one value in frequent cells."""
    cells = zip(group.columns, np.nonzero(frequent), strict=True)
    rest = group.part({*group.labels, *(name for name, some in cells if not np.ptp(some))})
    return group.halves if rest == group else (rest,) * bool(group.labels)


def _kept(group: RuleGroup, mask: NDArray[Any]) -> NDArray[Any]:
    """The cells that keep the rule; another first label has the NULLs of a named one."""
    named = mask.any(axis=tuple(range(1, mask.ndim)), keepdims=True)
    others = mask.any(axis=tuple(range(len(group.labels))), keepdims=True)
    return mask | (~named & (others | (not group.nulls))) if group.labels else mask


def broken_if_independent(shares: NDArray[Any], allowed: NDArray[Any], axis: int) -> float:
    """Return the share of rows that would break a rule if one column were independent.

    >>> shares = np.multiply.outer([0.5, 0.5], [[0.9, 0.0], [0.0, 0.1]])
    >>> [round(broken_if_independent(shares, shares > 0, axis), 2) for axis in (0, 1)]
    [0.0, 0.18]
    """
    own = shares.sum(axis=tuple({*range(shares.ndim)} - {axis}), keepdims=True)
    return float((own * shares.sum(axis, keepdims=True))[~allowed].sum() / shares.sum() ** 2)
