"""Who gets how much of the budget: public shares per table and key.

Within a tree of ownership, 18 parts go to fan-outs, 6.5 to every reference (at most 26 to all of
them) and 70.5 to rows (whatever is missing falls to the others); rows of a table weigh
``weight·√(d·R̂/m̂)`` with d attributes, R̂ noisy rows and m̂ noisy units, R̂ at least m̂.
`privbench.privacy.allocate` then turns shares into
amounts, so that trees that no reference joins each get the full budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import sqrt

from privbench.privacy import DatabaseSpec, KeySpec

#: Parts of a tree's budget.
FAN_OUTS, REFERENCES, ROWS = 18.0, 6.5, 70.5
#: Most parts for all references that meet in one tree.
MOST_REFERENCES = 26.0

#: Public share and charged root tables per item.
Shares = dict[str, tuple[float, frozenset[str]]]


def rows_item(table: str) -> str:
    """Name of the item for a table's attributes."""
    return f"rows {table}"


def key_item(key: KeySpec) -> str:
    """Name of the item for a foreign key."""
    return f"key {key.table} {key.name}"


def shares(
    spec: DatabaseSpec, totals: Mapping[str, float], factors: Mapping[str, float] | None = None
) -> Shares:
    """Shares of every table with attributes and of every key.

    Args:
        spec: The public description.
        totals: Noisy rows per table (P17); floored at 1 here.
        factors: Factors on the shares of some items, from what was released; missing means 1.
    """
    found = {**_key_shares(spec), **_row_shares(spec, totals)}
    raised = factors or {}
    return {name: (share * raised.get(name, 1.0), at) for name, (share, at) in found.items()}


def _key_shares(spec: DatabaseSpec) -> Shares:
    items: Shares = {}
    own = [key for table in spec.tables.values() for key in table.keys if key.role == "own"]
    tops = Counter(spec.top(key.table) for key in own)
    for key in own:
        roots = spec.roots(key.parent) | (spec.roots(key.table) if key.nullable else frozenset())
        items[key_item(key)] = (FAN_OUTS / tops[spec.top(key.table)], roots)
    links = [key for table in spec.tables.values() for key in table.keys if key.role != "own"]
    crowds = Counter(tree for key in links for tree in _trees(spec, key))
    for key in links:
        crowd = max(crowds[tree] for tree in _trees(spec, key))
        items[key_item(key)] = (min(REFERENCES, MOST_REFERENCES / crowd), key_roots(spec, key))
    return items


def key_roots(spec: DatabaseSpec, key: KeySpec) -> frozenset[str]:
    """Root tables that measurements of a REF key or a key to a public table are charged to."""
    roots = spec.roots(key.table)
    return roots | spec.roots(key.parent) if key.role == "ref" else roots


def column_shares(sizes: Mapping[str, int]) -> dict[str, float]:
    """Share of every attribute, ∝ min(m, 1000)^⅓ with m cells; they sum to 1."""
    raw = {name: min(size, 1000) ** (1 / 3) for name, size in sizes.items()}
    total = sum(raw.values())
    return {name: value / total for name, value in raw.items()}


def _row_shares(spec: DatabaseSpec, totals: Mapping[str, float]) -> Shares:
    raw: dict[str, float] = {}
    for name, table in spec.tables.items():
        if table.attributes:
            units = max(totals.get(spec.top(name), 1.0), 1.0)
            # A total that noise made small, or negative, leaves a table its share all the same.
            rows = max(totals.get(name, units), units)
            raw[name] = table.weight * sqrt(len(table.attributes) * rows / units)
    load: dict[str, float] = {}
    for name, value in raw.items():
        load[spec.top(name)] = load.get(spec.top(name), 0.0) + value
    return {
        rows_item(name): (ROWS * value / load[spec.top(name)], spec.roots(name))
        for name, value in raw.items()
    }


def _trees(spec: DatabaseSpec, key: KeySpec) -> set[str]:
    ends = [key.table] if key.role == "public" else [key.table, key.parent]
    return {spec.top(end) for end in ends}
