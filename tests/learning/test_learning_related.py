"""Pair tables of tables that hang together: what is ruled out stays out."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.learning.denoise import scale_of
from privbench.learning.junction.copulas import copula
from privbench.learning.junction.implied import blocks_of, ruled_out
from privbench.learning.junction.pairs import related
from privbench.rng import generator

NOISES = pytest.mark.parametrize("noise", ["laplace", "gaussian"])
ROWS = 15_000.0
#: Bins in order, then NULL, of both variables: NULL goes with NULL alone.
FIRST, SECOND = 15, 9
BLOCKS = blocks_of(FIRST, FIRST - 1), blocks_of(SECOND, SECOND - 1)
APART = np.not_equal.outer(np.arange(FIRST) == FIRST - 1, np.arange(SECOND) == SECOND - 1)


def table(left=0.0):
    """Counts of questions, whose two numbers go together, and of answers, which have neither."""
    falling = 0.6 ** np.arange(SECOND - 1)
    inner = copula(np.full(FIRST - 1, 1.0), falling / falling.sum() * (FIRST - 1), 0.6)
    out = np.zeros((FIRST, SECOND))
    out[:-1, :-1] = 0.75 * ROWS * inner / inner.sum()
    out[-1, -1] = 0.25 * ROWS
    return (1 - left) * out + left * independent(out)


def independent(counts):
    return np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()


def noisy(counts, sd, noise, seed):
    g = generator(seed, "related")
    draw = g.laplace if noise == "laplace" else g.normal
    return counts + draw(0.0, scale_of(sd, noise), counts.shape)


def margins(counts):
    return counts.sum(axis=1), counts.sum(axis=0)


@NOISES
def test_what_independence_would_fill_and_is_empty_is_ruled_out(noise):
    counts = table()
    for seed in range(10):
        seen = noisy(counts, 80.0, noise, seed)
        found = ruled_out(seen, margins(counts), scale_of(80.0, noise), noise, BLOCKS)
        assert (found == APART).all()


@NOISES
def test_what_is_rare_but_there_or_hidden_is_not_ruled_out(noise):
    rare, few = table(left=0.15), table() / 200
    for seed in range(10):
        seen = noisy(rare, 80.0, noise, seed)
        assert not ruled_out(seen, margins(rare), scale_of(80.0, noise), noise, BLOCKS).any()
        seen = noisy(few, 80.0, noise, seed)
        assert not ruled_out(seen, margins(few), scale_of(80.0, noise), noise, BLOCKS).any()


def test_one_cell_beside_tells_a_block_of_many():
    """Noise of the block's cells would hide whether a tenth is there; the margin does not."""
    counts = table()
    seen = noisy(counts, 80.0, "gaussian", 1)
    seen[-1, :-1] += 60.0
    assert ruled_out(seen, margins(counts), 80.0, "gaussian", BLOCKS)[-1, :-1].all()
    moved = table(left=0.3)
    seen = noisy(moved, 80.0, "gaussian", 1)
    seen[-1, :-1] -= moved[-1, :-1] + 10.0
    assert not ruled_out(seen, margins(moved), 80.0, "gaussian", BLOCKS)[-1, :-1].any()


@NOISES
def test_what_is_ruled_out_stays_empty_where_the_largest_values_meet(noise):
    counts = table()
    ordered = FIRST - 1, SECOND - 1
    for seed in range(10):
        seen, scale = noisy(counts, 80.0, noise, seed), scale_of(80.0, noise)
        found = related(
            seen, independent(counts), margins(counts), scale, noise, BLOCKS, ordered
        )
        assert (found[APART] > 0).all()
        assert found[APART].sum() < 0.001 * found.sum()
        assert found[FIRST - 2, -1] < 0.002 * found[FIRST - 2].sum()


def test_a_cell_that_is_clearly_there_is_not_emptied_with_its_block():
    counts = table()
    counts[3, -1] = 40.0
    seen = noisy(counts, 3.0, "laplace", 1)
    seen[:-1, -1][np.arange(FIRST - 1) != 3] = 0.0
    ordered = FIRST - 1, SECOND - 1
    found = related(seen, independent(counts), margins(counts), 2.0, "laplace", BLOCKS, ordered)
    assert found[3, -1] == pytest.approx(40.0, rel=0.5)
