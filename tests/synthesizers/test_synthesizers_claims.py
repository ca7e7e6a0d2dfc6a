"""Brute force: every statistic of a fit of one table, on every neighbour of every tiny table.

A fit on one table names its queries, predictions included. Each of them is then evaluated on *all*
tables of at most three rows, and every two neighbours among them are compared exactly with the
claim: queries are public values, so a claim has to hold on all data, not only on the fitted rows.
"""

import math
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from private_tables import single_table, started

from privbench.domain import Domain
from privbench.privacy import Relation, SeededNoise
from privbench.privacy.queries import Histogram, PairScores
from privbench.synthesizers.graphical import GraphicalSynthesizer

#: NULL, a special cell, and a domain that is measured on a coarse grid and refined.
DOMAINS = {
    "kind": Domain(2, nullable=True),
    "many": Domain(600, ordered=True, specials=("above",), nullable=True),
    "bit": Domain(2),
}
CODES = {"kind": (0, 1, 2), "many": (0, 411, 601), "bit": (0, 1)}
ROWS = tuple(product(*CODES.values()))
MOST = 3
#: ε that pays for every stage.
AMPLE = {"pure": 1e6, "zcdp": 5e3}
NEIGHBOURS = pytest.mark.parametrize("neighbours", ["add-remove", "replace"])


def tables():
    """Every table of at most `MOST` rows, in every order that matters: none."""
    found = []
    for rows in range(MOST + 1):
        found += combinations_with_replacement(range(len(ROWS)), rows)
    return found


def build(kinds, neighbours):
    values = np.array([ROWS[kind] for kind in kinds], np.int64).reshape(-1, len(CODES))
    columns = dict(zip(DOMAINS, zip(values.T, DOMAINS.values(), strict=True), strict=True))
    return single_table(columns, Relation(neighbours))


@cache
def every(neighbours):
    return {kinds: build(kinds, neighbours) for kinds in tables()}


@cache
def pairs(neighbours):
    """Places in `tables` of every two neighbours."""
    place = {kinds: number for number, kinds in enumerate(tables())}
    found = [(place[one], place[other]) for one, other in _pairs(neighbours)]
    return np.array([one for one, _ in found]), np.array([other for _, other in found])


def _pairs(neighbours):
    """Every two neighbours: with and without a row; or with one row for another."""
    without = [
        (kinds, kinds[:at] + kinds[at + 1 :])
        for kinds in tables()
        for at in range(len(kinds))
        if kinds.index(kinds[at]) == at
    ]
    if neighbours == "add-remove":
        return without
    above = {}
    for whole, part in without:
        above.setdefault(part, []).append(whole)
    return [
        (one, other)
        for wholes in above.values()
        for place, one in enumerate(wholes)
        for other in wholes[place + 1 :]
    ]


def queries(kinds, neighbours, accounting, folder, seed=1):
    """What a fit of one table asks for, with a budget that pays for every stage."""
    begun = started(
        build(kinds, neighbours),
        folder,
        AMPLE[accounting],
        accounting,
        SeededNoise(seed),
        share=0.02,
    )
    GraphicalSynthesizer().fit(*begun)
    begun[0].close()
    return [step.query for step in begun[0].trace]


def worst(query, neighbours):
    """The largest change over the claim, in each norm, over all neighbours."""
    databases = every(neighbours)
    seen = np.stack([query.evaluate(database).ravel() for database in databases.values()])
    one, other = pairs(neighbours)
    # A few hundred cells of at most four times the grid: sums are exact in 64 bits.
    moved = np.abs(seen[one] - seen[other])
    claim = query.sensitivity(next(iter(databases.values())).spec)
    squares = (moved.astype(np.float64) ** 2).sum(axis=1)
    if claim.linf == 0:
        return dict.fromkeys(("l1", "l2", "linf"), math.inf if moved.any() else 0.0)
    return {
        "l1": int(moved.sum(axis=1).max()) / claim.l1,
        "l2": float(np.sqrt(squares.max())) / claim.l2,
        "linf": int(moved.max()) / claim.linf,
    }


FITTED = {"no rows": (), "one row": (3,), "nothing but NULL": (16, 16), "three kinds": (0, 7, 17)}


@NEIGHBOURS
@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_no_claim_is_passed_on_any_neighbour_of_any_tiny_table(neighbours, accounting, tmp_path):
    asked = {}
    for number, kinds in enumerate(FITTED.values()):
        folder = tmp_path / str(number)
        asked |= dict.fromkeys(queries(kinds, neighbours, accounting, folder, number))
    assert {query.kind for query in asked} >= {"total", "histogram", "pair scores"}
    assert len(pairs(neighbours)[0]) > 1000
    reached = {}
    for query in asked:
        found = worst(query, neighbours)
        assert max(found.values()) <= 1 + 1e-12, (query.kind, query.columns, found)
        reached[query.kind] = max(reached.get(query.kind, 0.0), *found.values())
    # Every claim is tight, so that less would fail; totals stay as they are under replace.
    if neighbours == "replace":
        assert reached.pop("total") == 0
    assert all(ratio > 0.99 for ratio in reached.values()), reached


@NEIGHBOURS
def test_a_fit_of_every_stage_was_replayed(neighbours, tmp_path):
    """The queries above include one-ways, measured twice, selections and pair tables."""
    asked = queries(FITTED["three kinds"], neighbours, "pure", tmp_path)
    histograms = [query for query in asked if isinstance(query, Histogram)]
    assert sum(query.columns == ("many",) for query in histograms) == 2
    assert any(len(query.axes) == 2 for query in histograms)
    assert any(isinstance(query, PairScores) for query in asked)


class HalfTheClaim(PairScores):
    """As if a row moved half of what it moves."""

    def sensitivity(self, spec):
        claim = super().sensitivity(spec)
        return replace(claim, linf=claim.linf // 2)


@NEIGHBOURS
def test_brute_force_catches_a_score_with_half_its_sensitivity(neighbours, tmp_path):
    asked = queries(FITTED["three kinds"], neighbours, "pure", tmp_path)
    score = next(query for query in asked if isinstance(query, PairScores))
    mutant = HalfTheClaim(score.source, score.axes, score.pairs, score.predictions, score.penalties)
    assert worst(score, neighbours)["linf"] <= 1
    assert worst(mutant, neighbours)["linf"] > 1.5
