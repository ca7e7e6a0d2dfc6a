"""Tests of the rules that rows may show, which become CHECKs of the model (`rules.shown`)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.encoding import Codec
from privbench.encoding.ordered import OrderedReader
from privbench.pipeline.domain_error import Noise, Size
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import Measurement, Purse, Query, Session, noise_sd
from privbench.privacy.queries import Column, Histogram, Joined, OrderTest, PublicArray, Whole
from privbench.rules.shown import RuleGroup, combination_check, groups, order_check
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
_Cells = NDArray[Any]


class RuleTests:
    """The tests of a fit of budget ``whole``, ε or ρ."""

    def __init__(
        self, plan: FitPlan, noise: Noise, whole: float, sizes: Mapping[str, Size]
    ) -> None:
        self._spec = spec = plan.spec
        self._purses = [Purse(SHARE / 2 * whole) for _ in range(2)]  # the second for halves
        self._weights = {name: size.weight for name, size in sizes.items()}
        self._groups, self._amounts = list[RuleGroup](), dict[str, float]()
        self.charged: list[Measurement] = []
        self.shown = defaultdict[str, list[Check]](list)
        for item in plan.private:
            readers = item.readers.items() if item.section.shown else ()
            grids = {n for n, r in readers if isinstance(r, OrderedReader) and not r.range.settled}
            self._groups += groups(item.table, grids, {name for name, _ in readers})
        self._groups.sort(key=lambda group: group.near)
        load = Counter(spec.top(group.table) for group in self._groups)
        most = {name: int(weight / _UNITS) for name, weight in self._weights.items()}
        self._left = most, {name: most[name] - load[name] for name in most}
        for name in {group.table for group in self._groups}:
            one = noise_sd(Histogram(name, (Whole(),)), spec, 1.0, noise.accounting)
            weight = self._weights[name] * noise.deviation(1.0) / one
            share = SHARE * whole / (4 * load[spec.top(name)])
            best, worst = (noise.amount(part * weight) for part in (_BEST, _WORST))
            # Else tests would take as much as one-ways of few units need, and tell little.
            asked = worst <= share * max(load[spec.top(name)] / _GROUPS, 1)
            self._amounts[name] = sorted((share, best, worst))[1] if asked else math.inf

    def first(self) -> list[Measurement]:
        """The first tests."""
        for group in self._groups:
            self._ask(None, group, Histogram(group.table, (Column("", 2),)))
        return self.charged

    def _ask(
        self, session: Session | None, group: RuleGroup, query: Query, new: int = 1
    ) -> tuple[_Cells, float] | None:
        """Noisy shares of the weight and their noise, if there is budget."""
        table, top = group.table, self._spec.top(group.table)
        amount, weight = self._amounts[table], self._weights[table]
        again = group not in self._groups
        left, purse = self._left[again], self._purses[again]
        if left[top] < new or not purse.take(query.roots(self._spec), amount):
            return None
        left[top] -= new
        item = Measurement(query, amount, f"rule {table}: {', '.join(group.columns)}")
        self.charged.append(item)
        if session is None:
            return None
        (counts,), noise = session.measure_all([item]), session.noise_scale(query, amount)
        return counts / weight, noise / weight

    def orders(self, session: Session, codecs: Mapping[str, dict[str, Any]]) -> None:
        """Test orders and distances, before dates are recoded; near dates become distances."""
        left = [group for group in self._groups[::-1] if group.orders]
        while left:
            group = left.pop()
            pairs, furthest, held = group.orders, None, codecs[group.table]
            if group.near:
                near = {b: held[b].distances(held[a]) for a, b in pairs}
                pairs = tuple(pair for pair in pairs if near[pair[1]])
                furthest = max((near[b].recoding.edges[-1] for _, b in pairs), default=0)
            query = OrderTest(group.table, pairs, furthest)
            found = self._ask(session, group, query) if pairs else None
            if found is None:
                continue
            cells, noise = found
            both = max(cells.sum(), 0.0)
            if noise > _SPARE * _WORST * both:
                continue  # Too few rows have both dates: names alone say what they say.
            most, share = _BROKEN + 2 * noise / both, cells[0] / both
            if share >= most and group.halves:
                left += group.halves[::-1]
                continue
            if group.near:
                held.update((name, near[name]) for _, name in pairs if share < most)
                continue
            step = -1 if share > max(most, 0.5) else 1
            few = share if step == 1 else 1 - share
            if few >= most and not group.said:
                continue  # Dates that come in either order have none.
            checks = (order_check(pair[::step], few * (few >= most)) for pair in group.orders)
            self.shown[group.table] += checks

    def combinations(self, session: Session, codecs: Mapping[str, Mapping[str, Codec]]) -> None:
        """Test combinations, after columns are recoded."""
        first = [group for group in self._groups[::-1] if not group.orders]
        left = [*first]
        while left:
            group = left.pop()
            table = group.table
            axes, values = _axes(group, codecs[table])
            found = self._ask(session, group, Histogram(table, axes)) if axes else None
            if found is None:
                continue
            shares, noise = found
            frequent, most = np.zeros(shares.shape, np.bool_), _BROKEN + 2 * noise
            some = tuple(slice(len(each)) for each in values)
            least = noise * max(3.0, math.sqrt(2 * math.log(10 * shares.size)))
            frequent[some] = shares[some] > least
            cells = np.argwhere(frequent)
            if shares[frequent].sum() > _LIKELY and np.ptp(cells, axis=0).all():
                kept = _kept(group, frequent)
                if broken_if_independent(shares, kept, len(group.labels)) <= _TELLING * most:
                    # The labels say nothing, but columns may be NULL together.
                    alone = RuleGroup(table, nulls=group.nulls)
                    if group.labels and group.nulls[1:] and alone not in first:
                        left.append(alone)
                    continue
                axis = Joined(axes, PublicArray(kept.astype(int)))
                found = self._ask(session, group, Histogram(table, (axis,)), new=0)
                if found and found[0][0] < most:
                    rows = [[v[c] for v, c in zip(values, cell, strict=True)] for cell in cells]
                    self.shown[table].append(combination_check(group, rows))
                    continue
            left += group.halves[::-1]


def _axes(
    group: RuleGroup, codecs: Mapping[str, Codec]
) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
    """The axes of a group's columns, if they have labels and few cells; and literals."""
    axes, values = list[Column](), list[tuple[str, ...]]()
    for name in group.columns:
        # Each attribute of a column has a code of NULL.
        attribute, domain = next(iter(codecs[name].domains.items()), ("", Domain(1)))
        null = (np.arange(domain.size) == domain.null_code).astype(int)
        bins = PublicArray(null) if name in group.nulls else None
        values.append(
            codecs[name].listed or () if bins is None else ("false", "true")[: 2 * null.any()]
        )
        axes.append(Column(attribute, 2 if bins else domain.size, bins))
    few = len(axes) > 1 and all(values) and math.prod(axis.size for axis in axes) <= _CELLS
    return tuple(axes) if few else (), values


def _kept(group: RuleGroup, mask: _Cells) -> _Cells:
    """The cells that keep the rule; another first label has the NULLs of a named one."""
    named = mask.any(axis=tuple(range(1, mask.ndim)), keepdims=True)
    others = mask.any(axis=tuple(range(len(group.labels))), keepdims=True)
    return mask | (~named & (others | (not group.nulls))) if group.labels else mask


def broken_if_independent(shares: _Cells, kept: _Cells, labels: int) -> float:
    """The share of rows that would break a rule of independent columns.

    The first ``labels`` axes are independent of those of NULLs, or all axes of each other: columns
    that are NULL together say nothing of a label beside them.

    >>> shares = np.multiply.outer([0.5, 0.5], [[0.9, 0.0], [0.0, 0.1]])
    >>> round(broken_if_independent(shares, shares > 0.4, 1), 2)
    0.1
    """
    found, places = np.maximum(shares, 0.0), {*range(shares.ndim)}
    parts = [{place} for place in places]
    if 0 < labels < shares.ndim:
        parts = [{*range(labels)}, {*range(labels, shares.ndim)}]
    margins = (found.sum(axis=tuple(places - p), keepdims=True) / found.sum() for p in parts)
    return float(math.prod(margins, start=np.ones(()))[~kept].sum())
