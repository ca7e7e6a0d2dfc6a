"""What is asked of keys and tables, and for which part: rules of the catalog and of totals."""

from __future__ import annotations

from collections.abc import Set

from privbench.errors import ConfigError
from privbench.learning.junction.budget import NOTHING, Budget, aimed, rule
from privbench.learning.keyasks import bounds_of
from privbench.learning.keys import own_keys
from privbench.learning.shares import key_item
from privbench.privacy import DatabaseSpec, KeySpec, noise_sd
from privbench.privacy.queries import Children, Histogram
from privbench.privacy.units import single
from privbench.synthesizers.base import PlanInput

#: Part of an OWN key's amount for the joint histogram with another one of the same owner, and the
#: same where units are few.
JOINT, FEW_JOINT = 0.45, 0.15
#: Part of an OWN key's amount for a total of its rows (`counts_rows`).
ROWS = 0.4
#: Part of a REF key's amount for the rows that it refers to.
PULLS = 0.5


def joint_fan_outs(table: str, first: KeySpec, second: KeySpec) -> Histogram:
    """The joint histogram of two fan-outs of a table."""
    return Histogram(table, tuple(Children(key, bounds_of(key)) for key in (first, second)))


def may_stay_inside(spec: DatabaseSpec, key: KeySpec) -> bool:
    """Whether a REF key's references may lead into the row's own unit."""
    if key.role != "ref" or spec.relation.unit == "row":
        return False
    top, other = spec.top(key.table), spec.top(key.parent)
    alone = key.table == key.parent and spec.tables[key.table].own is None
    return top == other and not alone


def has_links(spec: DatabaseSpec, key: KeySpec) -> bool:
    """Whether where a key's references lead is a variable of its rows."""
    return key.role == "ref" and (key.nullable or may_stay_inside(spec, key))


def has_pulls(spec: DatabaseSpec, key: KeySpec, few: Set[str]) -> bool:
    """Whether it is measured which rows a key refers to; not where units are few."""
    if key.role != "ref" or spec.relation.unit == "row" or key_item(key) in few:
        return False
    target = spec.tables[key.parent]
    more = any(has_links(spec, other) for other in target.keys) or own_keys(spec, key.parent)
    return bool(target.attributes) or bool(more)


def counts_rows(spec: DatabaseSpec, key: KeySpec, few: Set[str]) -> bool:
    """Whether the number of rows of an OWN key's table is measured once more.

    It is where units are few, so that noise hides it: of owners that are owned themselves, which
    weigh less than one each, and of rows that may have no owner.
    """
    if key.role != "own" or key_item(key) not in few or spec.relation.unit == "row":
        return False
    deep = spec.tables[key.parent].own is not None
    return (deep or key.nullable) and not single(spec, key.table)


def joint_part(key: KeySpec, few: Set[str]) -> float:
    """Part of an OWN key's amount for the joint histogram with another one of the same owner."""
    return FEW_JOINT if key_item(key) in few else JOINT


def key_part(spec: DatabaseSpec, key: KeySpec, few: Set[str]) -> float:
    """Part of a key's amount that is for its fan-out, or fan-in, and NULL share."""
    if key.role == "own":
        rest = 1.0 - ROWS if counts_rows(spec, key, few) else 1.0
        return rest if own_keys(spec, key.parent)[0] == key else rest - joint_part(key, few)
    return 1.0 - PULLS if has_pulls(spec, key, few) else 1.0


def target_in(spec: DatabaseSpec, table: str, target: str) -> str:
    """The attribute of a table that a target names, by its name or as table.column; or none."""
    names = spec.tables[table].attributes
    return next((name for name in names if target in (name, f"{table}.{name}")), "")


def check_target(spec: DatabaseSpec, target: str) -> None:
    """Refuse a target that is nowhere.

    Raises:
        ConfigError: No table has such an attribute.
    """
    if target and not any(target_in(spec, table, target) for table in spec.tables):
        raise ConfigError(
            f"privbench: the target {target!r} is no modelled column.", remedy="Give table.column."
        )


def budget_of(
    spec: DatabaseSpec,
    table: str,
    amount: float,
    rows: float,
    given: int,
    start: PlanInput,
    target: str = "",
) -> Budget:
    """The rule's decision for one table.

    Args:
        spec: What is public.
        table: The table.
        amount: What may be spent on its rows.
        rows: Released weight of its rows.
        given: Number of given attributes.
        start: Gives the accounting.
        target: A column that rows are to tell from the others, or none.
    """
    columns = len(spec.tables[table].attributes)
    if not columns:
        return NOTHING
    noise = noise_sd(Histogram.of(spec, table, []), spec, amount / columns, start.accounting)
    children = len(own_keys(spec, table))
    more = children + sum(has_links(spec, key) for key in spec.tables[table].keys)
    joined = bool(children) or spec.tables[table].own is not None
    found = rule(rows, noise, columns + more, given, joined=joined)
    name = target_in(spec, table, target)
    return aimed(found, name, columns, columns + more) if name else found


def released_weight(spec: DatabaseSpec, table: str, start: PlanInput) -> float:
    """Weight of a table's rows as far as totals tell: of an owned table, at most its owners'."""
    return min(start.rows(table), start.rows(spec.top(table)))
