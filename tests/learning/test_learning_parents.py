"""Pair tables of attributes with numbers of children, from rows that own some."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.learning.junction.implied import blocks_of
from privbench.learning.junction.parents import Known, strongest, with_children
from privbench.learning.junction.structure import Components
from privbench.rng import generator

#: Weight of all rows by bin of an attribute, and by group of their number of children.
ALL, CHILDREN = np.array([5000.0, 3000.0, 1500.0, 500.0]), np.array([9000.0, 700.0, 300.0])
#: Rows that own some are weighed among themselves: only those of the last two bins own any.
AMONG = np.array([0.0, 0.0, 600.0, 400.0])


def known(ordered=4):
    return Known(ALL, CHILDREN, blocks_of(4, ordered), ordered)


@pytest.mark.parametrize("ordered", [0, 4])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_table_keeps_its_margins_and_says_who_owns(ordered, noise):
    for seed in range(10):
        noisy = AMONG + generator(seed, "parents").laplace(0, 20.0, 4)
        table = with_children(known(ordered), noisy, 1000.0, 20.0, noise)
        assert (table >= 0).all()
        assert table.sum(axis=1) == pytest.approx(ALL, rel=1e-6)
        assert table.sum(axis=0) == pytest.approx(CHILDREN, rel=1e-6)
        assert table[2:, 1:].sum() / CHILDREN[1:].sum() > 0.95


def test_where_rows_that_own_some_are_like_all_others_noise_says_little_else():
    off = []
    for seed in range(30):
        noisy = ALL / 10.0 + generator(seed, "noise").laplace(0, 60.0, 4)
        table = with_children(known(), noisy, 1000.0, 60.0, "laplace")
        off.append(np.abs(table[:, 1:].sum(axis=1) / 1000.0 - ALL / ALL.sum()).sum() / 2)
    raw = 60.0 * len(ALL) / 1000.0 / 2
    assert np.mean(off) < 0.9 * raw


def test_an_edge_joins_what_is_apart_by_the_pair_that_says_most():
    weak, strong = np.outer([1.0, 2.0], [3.0, 1.0]), np.diag([1.0, 2.0])
    tables = {(1, 3): weak, (2, 3): strong}
    forest = Components(4)
    assert strongest(tables, forest) == (2, 3)
    forest.join((2, 3))
    assert strongest(tables, forest) == (1, 3)
    forest.join((1, 3))
    assert strongest(tables, forest) is None
