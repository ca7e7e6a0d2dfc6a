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


def ruled(counts, noise, seed, sd=80.0):
    """What is ruled out in a noisy table; counts are noisy, margins known."""
    seen = noisy(counts, sd, noise, seed)
    return ruled_out(seen, margins(counts), scale_of(sd, noise), noise, BLOCKS)


@NOISES
def test_what_independence_would_fill_and_is_empty_is_ruled_out(noise):
    found = [ruled(table(), noise, seed) for seed in range(20)]
    assert not any((mask & ~APART).any() for mask in found)
    assert sum((mask == APART).all() for mask in found) >= 18


@NOISES
def test_what_is_rare_but_there_or_hidden_is_not_ruled_out(noise):
    rare, few = table(left=0.2), table() / 200
    assert not any(ruled(rare, noise, seed).any() for seed in range(20))
    assert not any(ruled(few, noise, seed).any() for seed in range(20))


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
    ordered, scale = (FIRST - 1, SECOND - 1), scale_of(80.0, noise)
    wrong, large = [], []
    for seed in range(9):
        seen = noisy(counts, 80.0, noise, seed)
        found = related(seen, independent(counts), margins(counts), scale, noise, BLOCKS, ordered)
        assert (found[APART] > 0).all()
        wrong.append(found[APART].sum() / found.sum())
        large.append(found[FIRST - 2, -1] / found[FIRST - 2].sum())
    assert np.median(wrong) < 0.0005
    assert np.median(large) < 0.0005


def test_a_cell_that_is_clearly_there_is_not_emptied_with_its_block():
    counts = table()
    counts[3, -1] = 40.0
    seen = noisy(counts, 3.0, "laplace", 1)
    seen[:-1, -1][np.arange(FIRST - 1) != 3] = 0.0
    ordered = FIRST - 1, SECOND - 1
    found = related(seen, independent(counts), margins(counts), 2.0, "laplace", BLOCKS, ordered)
    assert found[3, -1] == pytest.approx(40.0, rel=0.5)
