"""The events of a junction-tree fit of a whole database, described without data."""

from __future__ import annotations

from collections.abc import Iterator

from privbench.learning.junction.byrows import PART
from privbench.learning.junction.context import BINS, MOST, lifted
from privbench.learning.junction.planning import largest_axes, planned_queries
from privbench.learning.junction.pullfit import planned_pulls
from privbench.learning.keyasks import bounds_of
from privbench.learning.keys import own_keys
from privbench.learning.shares import key_item
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Axis, Children, Refers
from privbench.synthesizers.base import PlanInput, PlannedEvent
from privbench.synthesizers.common import amounts, faint, planned_keys
from privbench.synthesizers.junction_parents import parents_axes, parents_part, planned_parents
from privbench.synthesizers.junction_rows import may_count_rows, planned_by_rows
from privbench.synthesizers.junction_rules import (
    PULLS,
    ROWS,
    budget_of,
    counts_rows,
    has_links,
    has_pulls,
    joint_fan_outs,
    joint_part,
    key_part,
    may_stay_inside,
    released_weight,
)
from privbench.synthesizers.junction_sizes import rows_label, units_by_rows


def planned_table(
    spec: DatabaseSpec, table: str, amount: float, plan: PlanInput, target: str = ""
) -> list[PlannedEvent]:
    """The events of a table's rows; pair tables are planned at their largest.

    Attributes of owned tables are planned by rows as well; where owners turn out to be about alike
    that is not measured, and its part goes to the other events.
    """
    rows = released_weight(spec, table, plan)
    given = list(_given(spec, table))[:MOST]
    more = _more(spec, table)
    late = [axis for axis in more if not isinstance(axis, Children)]
    left, by_rows = amount, []
    if may_count_rows(spec, table):
        by_rows = list(planned_by_rows(spec, table, (*largest_axes(spec, table, BINS), *late)))
        left = amount * (1.0 - PART)
    among = left * parents_part(spec, table)
    left -= among
    budget = budget_of(spec, table, left, rows, len(given), plan, target)
    planned = planned_queries(spec, table, budget, given, more)
    events = [(label, query, left * part) for label, query, part in planned]
    if among > 0:
        axes = [*parents_axes(spec, table, budget.bins), *late]
        events += [
            (name, query, among * part) for name, query, part in planned_parents(spec, table, axes)
        ]
    events += [(label, query, amount * part) for label, query, part in by_rows]
    return [PlannedEvent.of(label, query, spec, spent, plan) for label, query, spent in events]


def _given(spec: DatabaseSpec, table: str) -> Iterator[Axis]:
    for level, ancestor in enumerate(spec.ancestors(table), 1):
        for axis in (*largest_axes(spec, ancestor, BINS), *_more(spec, ancestor)):
            yield lifted(spec, table, level, axis)


def _more(spec: DatabaseSpec, table: str) -> list[Axis]:
    """Axes of a table's rows that are no attributes."""
    links = [key for key in spec.tables[table].keys if has_links(spec, key)]
    return [
        *(Children(key, bounds_of(key)) for key in own_keys(spec, table)),
        *(Refers(key, own=may_stay_inside(spec, key)) for key in links),
    ]


def planned_links(spec: DatabaseSpec, plan: PlanInput) -> list[PlannedEvent]:
    """The events of all keys."""
    given, few = amounts(spec, plan), faint(spec, plan)
    events = planned_keys(
        spec, plan, lambda key: may_stay_inside(spec, key), lambda key: key_part(spec, key, few)
    )
    for table in spec.tables.values():
        for number, key in enumerate(own_keys(spec, table.name)):
            if number:
                first = own_keys(spec, table.name)[0]
                label = f"fan-outs of {first.table}.{first.name} and {key.table}.{key.name}"
                query = joint_fan_outs(table.name, first, key)
                amount = given[key_item(key)] * joint_part(key, few)
                events.append(PlannedEvent.of(label, query, spec, amount, plan))
        for key in table.keys:
            if counts_rows(spec, key, few):
                query, amount = units_by_rows(key.table), given[key_item(key)] * ROWS
                events.append(PlannedEvent.of(rows_label(key), query, spec, amount, plan))
            if has_pulls(spec, key, few):
                axes = (*largest_axes(spec, key.parent, BINS), *_more(spec, key.parent))
                amount = given[key_item(key)] * PULLS
                inside = may_stay_inside(spec, key)
                for label, pull, part in planned_pulls(spec, key, axes, outside=inside):
                    events.append(PlannedEvent.of(label, pull, spec, amount * part, plan))
    return events
