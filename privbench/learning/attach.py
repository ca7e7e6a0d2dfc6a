"""How synthetic rows are attached to parents by what a model knows of a foreign key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from privbench.circuit.draw import choose, uniforms
from privbench.domain import Codes
from privbench.errors import ModelError
from privbench.learning.denoise import Floats
from privbench.learning.fanlaw import Ints
from privbench.learning.keys import INSIDE, KeyModel
from privbench.learning.pulls import attraction, popularity
from privbench.learning.synthetic import NULL

#: Most rows of one synthetic table, and of all of a level of owners: eight numbers of each row fit
#: into the memory of this machine.
MAX_ROWS = min(2**36, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 64)
#: Power of pulls, which are measured where references lead elsewhere, inside a row's own unit.
_HELD = 0.5


def own_edges(
    key: KeyModel,
    owners: int,
    scale: float,
    generator: np.random.Generator,
    buckets: Codes | None = None,
) -> Ints:
    """Owner of every row of an owned table, −1 for rows without one; sorted by owner.

    Args:
        key: The OWN key.
        owners: Number of rows of the owner's table.
        scale: Factor on the number of rows without an owner.
        generator: Source of randomness.
        buckets: Bucket of every owner's number of rows, or None to draw it.
    """
    if key.law is None:
        raise ModelError("an OWN key in the model has no fan-out law.", table=key.parent)
    if buckets is None:
        counts = key.law.draw(owners, generator)
    else:
        counts = key.law.within(buckets, generator)
    if key.unique:
        counts = np.minimum(counts, 1)
    if counts.sum() > MAX_ROWS:
        raise ModelError(f"more than {MAX_ROWS} rows are asked of one table.")
    without = round(key.null * scale) if key.nullable else 0
    return np.concatenate([np.repeat(np.arange(owners), counts), np.full(without, NULL, np.int64)])


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the rows of a key's two ends stand.

    Attributes:
        rows: Unit of every referring row.
        targets: Unit of every row of the referenced table; None for public tables.
        links: Code of every referring row's `link_variable`, or None where rows do not tell.
        codes: Variables of the rows of the referenced table.
    """

    rows: Ints
    targets: Ints | None = None
    links: Codes | None = None
    codes: Mapping[str, Codes] = field(default_factory=dict)


def attach(
    key: KeyModel,
    rows: int,
    targets: int,
    generator: np.random.Generator,
    places: Places | None = None,
) -> Ints:
    """Target of every row by a REF key or a key to a public table.

    Rows that refer into their own unit take one of its rows, by pulls that count half. The others
    hit targets in proportion to a popularity that follows the fan-in law (REF), or to their
    released frequency (public); with ``unique``, each at most once.

    Args:
        key: The key.
        rows: Number of referring rows.
        targets: Number of rows of the referenced table.
        generator: Source of randomness.
        places: Units of both ends, and which rows refer where.

    Returns:
        int64, shape (rows,); −1 is NULL.
    """
    edges = np.full(rows, NULL, np.int64)
    chosen = _linked(key, rows, targets, generator, places)
    if not len(chosen):
        return edges
    weights = _popularity(key, targets, generator, places.codes if places else {})
    if key.unique:
        edges[chosen] = _one_each(chosen, weights, generator, places)
        return edges
    if places is not None and places.links is not None and places.targets is not None:
        inside = chosen[places.links[chosen] == INSIDE]
        pulls = attraction(key.pulls, places.codes, targets) ** _HELD
        edges[inside] = _within(places.rows[inside], places.targets, pulls, generator)
        chosen = chosen[edges[chosen] == NULL]
    one = np.zeros(len(chosen), np.int64)
    numbers = uniforms(one, 1, generator, stratified=True)
    edges[chosen] = choose(weights, np.zeros(1, np.int64), np.array([targets]), one, numbers)
    return edges


def _linked(
    key: KeyModel,
    rows: int,
    targets: int,
    generator: np.random.Generator,
    places: Places | None,
) -> Ints:
    """Rows that refer to something, ascending."""
    if not targets:
        return np.zeros(0, np.int64)
    if not key.nullable:
        return np.arange(rows)
    if places is not None and places.links is not None:
        found = np.flatnonzero(places.links)
        linked = len(found)
    else:
        linked = round(rows * (1 - min(key.null, 1.0)))
        found = np.arange(rows)
    linked = min(linked, targets) if key.unique else linked
    return np.sort(generator.permutation(found)[:linked])


def _within(units: Ints, targets: Ints, pulls: Floats, generator: np.random.Generator) -> Ints:
    """A target in each of some units by weight, −1 where a unit has none; shape of ``units``."""
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    place = np.searchsorted(ordered[starts], units)
    found = np.full(len(units), NULL, np.int64)
    there = np.flatnonzero(np.isin(units, ordered))
    if not len(there):
        return found
    counts = np.diff(np.append(starts, len(ordered)))
    weights = pulls[order] / np.repeat(np.maximum.reduceat(pulls[order], starts), counts)
    numbers = generator.random(len(there))
    found[there] = order[choose(weights, starts, counts, place[there], numbers)]
    return found


def _popularity(
    key: KeyModel, targets: int, generator: np.random.Generator, codes: Mapping[str, Codes]
) -> Floats:
    weights = np.ones(targets)
    if key.targets is not None and len(key.targets) == targets:
        weights = key.targets.copy()
    elif key.unique and key.pulls:
        weights = attraction(key.pulls, codes, targets)
    elif key.law is not None:
        counts = key.law.draw(targets, generator)
        drawn = attraction(key.pulls, codes, targets)
        weights = popularity(counts, drawn, generator.exponential(size=targets), key.counted)
    return weights if weights.sum() > 0 else np.ones(targets)


def _one_each(
    chosen: Ints,
    weights: Floats,
    generator: np.random.Generator,
    places: Places | None,
) -> Ints:
    """A target for each of some rows, none twice; rows that refer into their own unit first."""
    edges = np.full(len(chosen), NULL, np.int64)
    if places is not None and places.links is not None and places.targets is not None:
        inside = np.flatnonzero(places.links[chosen] == INSIDE)
        found = _within_once(places.rows[chosen[inside]], places.targets, generator)
        edges[inside] = found
        weights = weights.copy()
        weights[found[found >= 0]] = 0.0
    left = np.flatnonzero(edges == NULL)
    if len(left):
        edges[left] = _distinct(weights, len(left), generator)
    return edges


def _within_once(units: Ints, targets: Ints, generator: np.random.Generator) -> Ints:
    """A random target in each of some units, none twice, −1 where a unit has no more."""
    shuffled = generator.permutation(len(targets))
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    rows = np.argsort(units, kind="stable")
    held, ordered = units[rows], targets[order]
    place = np.searchsorted(ordered, held, side="left")
    place += np.arange(len(held)) - np.searchsorted(held, held, side="left")
    found = np.full(len(units), NULL, np.int64)
    kept = place < np.searchsorted(ordered, held, side="right")
    found[rows[kept]] = order[place[kept]]
    return found


def _distinct(weights: Floats, count: int, generator: np.random.Generator) -> Ints:
    """Weighted draws without replacement (the largest of exponential races), random order."""
    with np.errstate(divide="ignore", over="ignore"):
        keys = generator.exponential(size=len(weights)) / weights
    first = np.argpartition(keys, count - 1)[:count]
    return np.asarray(generator.permutation(first), np.int64)
