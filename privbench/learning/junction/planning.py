"""The events of a table's fit, described without data: what `plan` prints.

Which pairs are chosen, and how many bins they have, is known only in the fit; pair tables are
planned at the most bins that the budget allows, over the attributes with the most codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, zip_longest

import numpy as np

from privbench.domain import Domain
from privbench.learning.junction.budget import COARSE, SCAN, Budget, column_parts, table_parts
from privbench.learning.junction.oneway import coarse_cells, is_large
from privbench.learning.junction.structure import star_of
from privbench.privacy import DatabaseSpec, Query
from privbench.privacy.queries import Axis, Column, Histogram, PairScores, PublicArray

#: An event: label, query, part of the table's amount.
Planned = tuple[str, Query, float]


def planned_queries(
    spec: DatabaseSpec, table: str, budget: Budget, given: Sequence[Axis], more: Sequence[Axis]
) -> Iterator[Planned]:
    """The queries of a table's fit, with their parts of its amount.

    Args:
        spec: What is public.
        table: The table.
        budget: The rule's decision for it.
        given: Axes that are given for the table's rows, at their largest.
        more: Axes of its rows that are no attributes.
    """
    yield from _one_ways(spec, table, budget)
    own = largest_axes(spec, table, budget.bins)
    axes = (*given, *own, *more)
    pairs = sorted(
        (pair for pair in combinations(range(len(axes)), 2) if pair[1] >= len(given)),
        key=lambda p: -axes[p[0]].size * axes[p[1]].size,
    )
    stages = [("tree", budget.edges, budget.tree)]
    stages += [
        (f"round {number + 1}", chosen, budget.of_round(number))
        for number, chosen in enumerate(budget.rounds)
    ]
    for what, chosen, part in stages:
        if not chosen or not pairs:
            continue
        star = []
        if budget.star and what == "tree":
            names = spec.tables[table].attributes
            star = star_of({n: k for k, n in enumerate(names, len(given))}, budget.target)
        pairs = [pair for pair in pairs if pair not in star]
        scores, step = _scores(table, axes, pairs), "edge" if what == "tree" else "choice"
        for number in range(len(star), chosen):
            yield f"{what} {step} {number + 1} of {table}", scores, budget.each_selection
        free = chosen - len(star)
        batch, pairs = [*star, *pairs[:free]], pairs[free:]
        parts = table_parts([axes[i].size * axes[j].size for i, j in batch])
        for number, ((i, j), share) in enumerate(zip(batch, parts, strict=True)):
            label = f"{what} pair {number + 1} of {table}"
            yield label, Histogram(table, (axes[i], axes[j])), part * share


def largest_axes(spec: DatabaseSpec, table: str, most: int) -> tuple[Axis, ...]:
    """Axes of a table's attributes with as many bins as they may get."""
    domains = spec.tables[table].attributes
    return tuple(_largest(name, domain, most) for name, domain in domains.items())


def _one_ways(spec: DatabaseSpec, table: str, budget: Budget) -> Iterator[Planned]:
    """Batch by batch, as the fit asks: the first question of every column, then every second."""
    domains = spec.tables[table].attributes
    parts = column_parts(domains)
    columns = [
        _one_way(spec, table, name, budget.one_ways * parts[name], budget.refine)
        for name in domains
    ]
    for batch in zip_longest(*columns):
        yield from (planned for planned in batch if planned is not None)


def _one_way(
    spec: DatabaseSpec, table: str, name: str, part: float, refine: bool
) -> Iterator[Planned]:
    domain, label = spec.tables[table].attributes[name], f"one-way of {table}.{name}"
    if is_large(domain) and not refine:
        yield label, _coarse(spec, table, name, domain), part
    elif is_large(domain):
        query = _coarse(spec, table, name, domain)
        yield f"coarse {label}", query, part * COARSE
        yield f"scan {label}", Histogram.of(spec, table, [name]), part * SCAN
        yield label, query, part * (1 - COARSE - SCAN)
    else:
        yield label, Histogram.of(spec, table, [name]), part


def _coarse(spec: DatabaseSpec, table: str, name: str, domain: Domain) -> Histogram:
    cells = PublicArray(coarse_cells(domain))
    return Histogram.of(spec, table, [Column.of(spec, table, name, cells)])


def _largest(name: str, domain: Domain, most: int) -> Column:
    bins = np.arange(domain.size) * min(most, domain.size) // domain.size
    return Column(name, int(bins.max()) + 1, PublicArray(bins))


def _scores(table: str, axes: tuple[Axis, ...], pairs: list[tuple[int, int]]) -> PairScores:
    shapes = [(axes[i].size, axes[j].size) for i, j in pairs]
    empty = {shape: PublicArray(np.zeros(shape, np.int64)) for shape in shapes}
    free = PublicArray(np.zeros(len(pairs), np.int64))
    return PairScores(table, axes, tuple(pairs), tuple(empty[shape] for shape in shapes), free)
