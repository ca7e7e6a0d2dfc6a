"""The budget rule of the junction-tree learner: public, general, and all of it here.

Everything follows from one number, the *level*: log₂ of how far rows stand above the noise. Let
σ be the standard deviation of a histogram that gets a d-th of the table's amount (d attributes).
Then ``level = log₂(n̂ / (124·σ))``; it grows by 1 when rows or ε double, and it is 0 where about
124 rows hide in the noise of one cell. Since σ comes from the query's own sensitivity, one rule
serves pure ε and zCDP, add/remove and replace, weights and truncation. Only n̂ is read, never n.

Poor levels spend nearly all on one-ways and few tree edges; rich ones on pairs, in rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np

from privbench.domain import Domain
from privbench.privacy import PART

#: Pairs that are chosen before the next look at the model.
BATCH = 5
#: Ordered domains with more ordinary cells than this are measured on coarser cells first.
LARGE = 500
#: Most cells of a clique, and of all cliques of one table together.
CLIQUE, CLIQUES = 50_000, 1_000_000
#: Level from which on a large domain is measured three times: coarsely, code by code in search of
#: heavy values, and on finer cells.
REFINE = 2.5
#: Parts of a large domain's amount for the first two.
COARSE, SCAN = 0.2, 0.4

#: Level below which no pair is worth measuring.
HOPELESS = -4.0

#: Weight of attributes that only shape made-up values, against a column's, and of one cell that
#: holds all rows: it tells their number, as do all others.
SHAPING, LONE = 0.1, 0.1
#: Cells of a flag, which sizes of made-up values may be worth: queries ask whether there are any.
_FLAG = 2

_PIVOT = 124.0
#: Level from which on tables that hang together measure a second round.
_LATER = 3.5


@dataclass(frozen=True, slots=True)
class Budget:
    """What a table's fit measures, as parts of the table's amount.

    Attributes:
        level: See the module's docstring.
        one_ways: Part for one-way histograms.
        selection: Part for all selections of pairs.
        tree: Part for the pair tables of the tree.
        extra: Part for the pair tables of all rounds.
        edges: Edges of the tree (a forest where fewer than attributes − 1).
        rounds: Pairs chosen in each round.
        bins: Most bins of an attribute inside pair tables.
        penalty: Price of a cell in a selection's score, in noise scales.
        target: An attribute whose pairs with all others are the first edges; none if empty.
        star: Number of these edges, which nobody has to choose.
    """

    level: float
    one_ways: float
    selection: float
    tree: float
    extra: float
    edges: int
    rounds: tuple[int, ...]
    bins: int
    penalty: float
    target: str = ""
    star: int = 0

    @property
    def refine(self) -> bool:
        """Whether large ordered domains are measured twice."""
        return self.level >= REFINE

    @property
    def each_selection(self) -> float:
        """Part for one selection."""
        return self.selection / max(self.edges - self.star + sum(self.rounds), 1)

    def of_round(self, number: int) -> float:
        """Part for the pair tables of one round."""
        return self.extra * self.rounds[number] / sum(self.rounds)


#: The budget of a table without attributes: nothing is measured.
NOTHING = Budget(HOPELESS, 1.0, 0.0, 0.0, 0.0, 0, (), 16, 0.05)


def rule(
    rows: float, noise: float, columns: int, given: int = 0, *, joined: bool = False
) -> Budget:
    """The budget of one table.

    Joins are ruled by the few rows with many children. They are far below the noise of any one
    table, so tables that own rows or are owned measure fewer pairs, and these better.

    Args:
        rows: Released weight of the table's rows, n̂.
        noise: Standard deviation, in rows, of a histogram with a ``columns``-th of the amount.
        columns: Number of attributes, at least 1.
        given: Number of attributes that are given.
        joined: Whether the table's rows own others or are owned.

    >>> rule(48_842, 6.1875, 14).edges
    13
    """
    level = log2(max(rows / (_PIVOT * noise), 2**-12))
    pairs = columns * (columns - 1) // 2 + columns * given
    edges = int(np.clip(round(3 + 3.5 * max(level, -0.5)), 2, 4096))
    edges = 0 if level < HOPELESS else min(edges, max(columns - (not given), 0))
    if not edges:
        return Budget(level, 1.0, 0.0, 0.0, 0.0, 0, (), 16, 0.05)
    most = int(np.clip(round(level) - 2, 0, 12))
    most = min(most, max(round(level - _LATER), 1)) if joined else most
    rounds = _rounds(most, pairs - edges)
    one_ways = float(np.clip(0.9 - 0.085 * level, 0.45, 0.92))
    selection = float(np.clip(min(0.04 + 0.01 * level, 0.16 - 0.02 * level), 0.03, 0.08))
    rest = 1.0 - one_ways - selection
    tree = rest * (_tree_part(level) if rounds else 1.0)
    bins = 16 if level < 5.5 else (20 if level < 8 else 32)
    penalty = 0.05 if level < 3 else (0.1 if joined else 0.2)
    return Budget(level, one_ways, selection, tree, rest - tree, edges, rounds, bins, penalty)


#: Part for one-ways and for selections where there is a target. With a tenth or four tenths for
#: one-ways, the AUROC of a classifier on synthetic rows of car is .01 higher and .02 lower.
_AIMED, _AIMED_SELECTION = 0.2, 0.05


def aimed(budget: Budget, target: str, attributes: int, columns: int) -> Budget:
    """The budget of a table whose rows are to tell one attribute from the others.

    The target's pair with every other attribute is an edge, whether or not it would be chosen, and
    what whole columns are like is worth less. From level 1 on as many further pairs follow as join
    the others in a tree, fewer down to level 0, and none below: there they take from the first.

    Args:
        budget: What `rule` says.
        target: The attribute.
        attributes: Number of attributes.
        columns: Number of attributes and of all else that is drawn with a row.
    """
    star = attributes - 1
    if not budget.edges or not star:
        return budget
    edges = max(star, min(budget.edges, columns - 1))
    left = star * (star - 1) // 2
    more = min(max(round(min(budget.level, 1.0) * (star - 1)), sum(budget.rounds), 0), left)
    rounds = _rounds(-(-more // BATCH), more)
    selection = _AIMED_SELECTION if rounds or edges > star else 0.0
    rest = 1.0 - _AIMED - selection
    extra = rest * more / (more + edges)
    return replace(
        budget,
        one_ways=_AIMED,
        selection=selection,
        tree=rest - extra,
        extra=extra,
        edges=edges,
        rounds=rounds,
        target=target,
        star=star,
    )


def _rounds(most: int, left: int) -> tuple[int, ...]:
    full, last = divmod(min(most * BATCH, left), BATCH)
    return (BATCH,) * full + ((last,) if last else ())


def _tree_part(level: float) -> float:
    return 0.65 if level < 4 else (0.5 if level < 6.5 else 0.35)


def column_parts(domains: Mapping[str, Domain]) -> dict[str, float]:
    """Part of the one-way amount for every attribute, ∝ min(m, 300)^0.42 with m cells.

    What only shapes made-up values weighs a tenth, and so does a single cell. Where such a value
    may be NULL, it gets what a flag gets at least.
    """
    raw = {name: _weight(name, domain) for name, domain in domains.items()}
    total = sum(raw.values())
    return {name: value / total for name, value in raw.items()}


def _weight(name: str, domain: Domain) -> float:
    if domain.size == 1:
        return LONE
    plain: float = min(domain.size, 300) ** 0.42
    if _shapes(name):
        return SHAPING * plain
    if domain.filler:
        return max(SHAPING * plain, _FLAG**0.42 if domain.nullable else 0.0)
    return plain


def is_made_up(attribute: str, domain: Domain) -> bool:
    """Whether an attribute says nothing that queries ask for: it only shapes made-up values."""
    return _shapes(attribute) or (domain.filler and not domain.nullable)


def _shapes(attribute: str) -> bool:
    """Whether an attribute only shapes text that is made up."""
    return attribute.rpartition(PART)[1:] in ((PART, "length"), (PART, "shape"))


def table_parts(cells: Sequence[int]) -> list[float]:
    """Part of a batch's amount for every pair table, ∝ √cells."""
    raw = np.sqrt(np.asarray(cells, np.float64))
    return [float(part) for part in raw / raw.sum()]
