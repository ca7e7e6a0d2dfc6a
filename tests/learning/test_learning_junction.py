"""The parts of the junction-tree learner that run on released numbers."""

from __future__ import annotations

import json
from itertools import combinations, product

import numpy as np
import pytest

from privbench.circuit import check, marginal, probability
from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.learning.bins import make_bins
from privbench.learning.junction.budget import column_parts, rule, table_parts
from privbench.learning.junction.herd import CANDIDATES, affordable, herd
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.oneway import (
    Raw,
    _refine,
    coarse_cells,
    denoise_one_way,
    weight_of,
)
from privbench.learning.junction.ordered import denoise_ordered
from privbench.learning.junction.pool import cells_of, draw_pool, invert, rake_pool, resample
from privbench.learning.junction.ratios import rake, shrink
from privbench.learning.junction.storage import law_from_arrays, law_to_arrays
from privbench.learning.junction.structure import Components, layout, orders, thin
from privbench.learning.junction.tree import fit_tree
from privbench.learning.junction.unordered import denoise_unordered
from privbench.rng import generator

NOISES = pytest.mark.parametrize("noise", ["laplace", "gaussian"])


def noisy(counts, scale, noise, seed):
    g = generator(seed, "test")
    return counts + getattr(g, "laplace" if noise == "laplace" else "normal")(0, scale, len(counts))


def divergence(real, made):
    """Kullback-Leibler divergence of counts, as the metrics define it."""
    p, q = real / real.sum() + 1e-10, made / made.sum() + 1e-10
    return float((p * np.log(p / q)).sum())


# The budget rule


@pytest.mark.parametrize("columns", [1, 2, 3, 14, 200])
@pytest.mark.parametrize("rows", [1.0, 500.0, 5e4, 1e8])
def test_the_rule_spends_no_more_than_there_is(rows, columns):
    found = rule(rows, 6.0, columns)
    parts = found.one_ways + found.selection + found.tree + found.extra
    assert parts == pytest.approx(1.0)
    assert min(found.one_ways, found.selection, found.tree, found.extra) >= 0
    assert found.edges <= max(columns - 1, 0)
    assert found.edges + sum(found.rounds) <= columns * (columns - 1) // 2
    assert sum(found.of_round(k) for k in range(len(found.rounds))) == pytest.approx(found.extra)
    used = found.each_selection * (found.edges + sum(found.rounds))
    assert used == pytest.approx(found.selection)


def test_the_rule_reads_rows_and_noise_only_through_their_ratio():
    assert rule(1000.0, 2.0, 9) == rule(4000.0, 8.0, 9)
    rich, poor = rule(1e6, 1.0, 9), rule(100.0, 1.0, 9)
    assert rich.one_ways < poor.one_ways
    assert rich.edges > poor.edges
    assert len(rich.rounds) > len(poor.rounds) == 0
    assert rule(1.0, 1e6, 9).edges == 0


@pytest.mark.parametrize("noise", [0.5, 3.0, 14.0, 40.0])
def test_tables_that_hang_together_measure_fewer_pairs(noise):
    alone, joined = (rule(40_000.0, noise, 9, joined=hangs) for hangs in (False, True))
    assert joined.edges == alone.edges
    assert joined.one_ways == alone.one_ways
    assert bool(joined.rounds) == bool(alone.rounds)
    assert sum(joined.rounds) <= sum(alone.rounds)
    if 2.5 < alone.level < 4.5:
        assert joined.rounds == (5,)


def test_shares_sum_to_one():
    sizes = {"a": 2, "b": 10**6, "c": 300}
    parts = column_parts({name: Domain(size) for name, size in sizes.items()})
    assert sum(parts.values()) == pytest.approx(1)
    assert parts["b"] == parts["c"]
    assert sum(table_parts([4, 256, 9])) == pytest.approx(1)


def test_what_queries_do_not_ask_for_gets_little():
    flag, lone = Domain(1, nullable=True), Domain(0, specials=("other",))
    domains = {"flag": flag, "name": lone, "name\x1flength": Domain(49), "file": Domain(39)}
    few = column_parts({**domains, "file": Domain(39, filler=True)})
    assert few["flag"] > 4 * few["name"]
    assert few["flag"] > 2 * max(few["name\x1flength"], few["file"])
    parts = column_parts({**domains, "file": Domain(38, nullable=True, filler=True)})
    assert parts["file"] == pytest.approx(parts["flag"])
    assert column_parts({"name": lone, "other": lone}) == {"name": 0.5, "other": 0.5}


# Graphs


def random_graph(count, seed):
    g = generator(seed, "graph")
    edges = [(int(g.integers(v)), v) for v in range(1, count)]
    others = [pair for pair in combinations(range(count), 2) if pair not in edges]
    extras = [others[k] for k in g.permutation(len(others))[: count // 2]]
    return edges, extras


@pytest.mark.parametrize("seed", range(5))
def test_layouts_are_chordal(seed):
    edges, extras = random_graph(9, seed)
    for order in orders(edges, 9):
        assert sorted(order) == list(range(9))
        found = layout(order, edges + extras, [3] * 9)
        place = {name: k for k, name in enumerate(order)}
        for first, second in edges + extras:
            early, late = sorted((first, second), key=place.__getitem__)
            assert early in found.near[late]
        for name in range(9):
            assert set(found.near[name]) <= set(found.family[name])
            above = found.above(name)
            if above is not None:
                assert set(found.family[name]) - {above} <= set(found.family[above])


def test_thin_keeps_cliques_small_and_the_tree_whole():
    edges, _ = random_graph(8, 1)
    extras = [pair for pair in combinations(range(8), 2) if pair not in edges]
    found, kept = thin(orders(edges, 8), edges, extras, [30] * 8)
    assert found.fits
    assert kept[: len(edges)] == edges
    assert len(edges) < len(kept) < len(edges) + len(extras)


def test_components():
    forest = Components(4)
    forest.join((0, 1))
    forest.join((2, 3))
    assert forest.apart((1, 2))
    forest.join((1, 3))
    assert not any(forest.apart(pair) for pair in combinations(range(4), 2))


# The tree and its circuit


def random_law(sizes, edges, extras, seed, wide=()):
    """A fitted law, the exact pair tables of a random joint law, and that law."""
    joint = generator(seed, "joint").dirichlet(np.full(int(np.prod(sizes)), 0.3)).reshape(sizes)
    tables = {}
    for pair in [*edges, *extras, *wide]:
        gone = tuple(k for k in range(len(sizes)) if k not in pair)
        tables[tuple(sorted(pair))] = 500.0 * joint.sum(axis=gone)
    shares = [
        joint.sum(axis=tuple(k for k in range(len(sizes)) if k != j)) for j in range(len(sizes))
    ]
    found, kept = thin(orders(edges, len(sizes)), edges, list(extras), sizes)
    tree = fit_tree(found, shares, {tuple(sorted(p)): tables[tuple(sorted(p))] for p in kept})
    domains = {f"a{j}": Domain(size) for j, size in enumerate(sizes)}
    bins = tuple(make_bins(500.0 * share, Domain(len(share)), 99, 0.0) for share in shares)
    return TableLaw(domains, bins, tree, tables, 500.0), joint


def table_of(tree):
    """The joint law of a tree by enumeration, shape of its bins."""
    out = np.ones(tree.sizes)
    for cell in product(*map(range, tree.sizes)):
        for name in range(len(tree.sizes)):
            near = tuple(cell[other] for other in tree.layout.near[name])
            out[cell] *= tree.laws[name][(*near, cell[name])]
    return out


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_reproduces_its_tables_and_its_circuit_is_exact(seed):
    sizes, edges = [3, 2, 4, 3], [(0, 1), (1, 2), (0, 3)]
    law, joint = random_law(sizes, edges, [(0, 2)] if seed % 2 else [], seed)
    whole = table_of(law.tree)
    assert whole.sum() == pytest.approx(1)
    for pair in edges:
        gone = tuple(k for k in range(4) if k not in pair)
        assert np.abs(whole.sum(axis=gone) - joint.sum(axis=gone)).max() < 2e-3
    circuit = law.circuit()
    check(circuit)
    for pair in combinations(range(4), 2):
        gone = tuple(k for k in range(4) if k not in pair)
        exact = marginal(circuit, f"a{pair[0]}", f"a{pair[1]}")
        assert np.abs(exact - whole.sum(axis=gone)).max() < 1e-9
    chance = probability(circuit, {"a0": [1, 0, 1], "a2": [0, 1, 1, 0], "a3": [0, 0, 1]})
    assert chance == pytest.approx(whole[[0, 2]][:, :, 1:3][..., 2].sum())


def test_components_without_tables_are_independent():
    law, joint = random_law([3, 2, 2], [(0, 1)], [], 7)
    found = layout((0, 1, 2), [(0, 1)], [3, 2, 2])
    shares = [joint.sum(axis=(1, 2)), joint.sum(axis=(0, 2)), joint.sum(axis=(0, 1))]
    tree = fit_tree(found, shares, law.tables)
    alone = TableLaw(law.domains, law.bins, tree, law.tables, 500.0)
    exact = marginal(alone.circuit(), "a0", "a2")
    assert np.abs(exact - np.outer(shares[0], shares[2])).max() < 1e-9


# Pools


def test_pools_follow_the_law_closely():
    law, _ = random_law([3, 2, 4, 3], [(0, 1), (1, 2), (0, 3)], [], 3)
    pool = draw_pool(law.tree, 4096, generator(1, "pool"))
    whole = table_of(law.tree)
    for pair in [(0, 1), (1, 2), (0, 3)]:
        gone = tuple(k for k in range(4) if k not in pair)
        made = np.bincount(cells_of(pool.bins, pair, law.tree.sizes), minlength=12)[:12]
        exact = whole.sum(axis=gone).ravel()
        error = np.abs(made[: exact.size] / 4096 - exact).sum()
        assert error < 0.5 * np.sqrt(2 * exact * (1 - exact) / np.pi / 4096).sum()


def test_what_is_left_of_a_coordinate_is_uniform():
    numbers = (np.arange(6000) + 0.5) / 6000
    found = invert(np.array([[0.2, 0.0, 0.8], [0.5, 0.5, 0.0]]), np.arange(6000) % 2, numbers)
    assert not (found[::2] == 1).any()
    assert not (found[1::2] == 2).any()
    assert np.bincount(found[::2]).tolist() == pytest.approx([600, 0, 2400], abs=2)
    quarters = np.histogram(numbers, 4, (0, 1))[0]
    assert np.abs(quarters - 1500).max() < 10


def test_raking_meets_targets_and_resampling_keeps_them():
    g = generator(5, "rake")
    first, second = g.integers(0, 4, 8000), g.integers(0, 3, 8000)
    targets = [np.array([10.0, 20, 30, 40]), np.array([50.0, 30, 20])]
    weights = rake_pool(np.stack([first, second]).astype(np.uint16), targets, 8)
    for codes, target in zip([first, second], targets, strict=True):
        assert np.bincount(codes, weights) == pytest.approx(target, rel=1e-3)
    chosen = resample(weights, 1000, g)
    assert np.bincount(first[chosen]) == pytest.approx(targets[0] * 10, abs=40)


def choices(weights, rows, seed):
    """Candidates for every row, as a law draws them."""
    chosen = resample(weights, CANDIDATES * rows, generator(seed, "herd"))
    return chosen.reshape(CANDIDATES, rows)


def test_herding_beats_resampling():
    g = generator(2, "herd")
    values = np.stack([g.integers(0, 5, 8000), g.integers(0, 6, 8000), g.integers(0, 40, 8000)], 1)
    weights = np.where(values[:, 0] == values[:, 1] % 5, 3.0, 1.0)
    sizes = [5, 6, 40]
    herded = herd(values, weights, choices(weights, 1000, 3), sizes)
    drawn = resample(weights, 1000, generator(3, "drawn"))
    assert herded.shape == (1000,)

    def error(rows):
        total = 0.0
        for i, j in combinations(range(3), 2):
            cells = values[:, i] * sizes[j] + values[:, j]
            due = np.bincount(cells, weights, minlength=sizes[i] * sizes[j])
            held = np.bincount(cells[rows], minlength=len(due))
            total += np.abs(held / 1000 - due / due.sum()).sum()
        return total

    assert error(herded) < 0.5 * error(drawn)


def test_herding_gives_rare_cells_about_what_is_due_to_them():
    g = generator(5, "herd")
    law = 1.0 / np.arange(1, 61) ** 1.5
    values = np.stack([g.choice(60, 16_000, p=law / law.sum()) for _ in range(4)], 1)
    herded = values[herd(values, np.ones(16_000), choices(np.ones(16_000), 2000, 6), [60] * 4)]
    due, held = 0.0, 0
    for i, j in combinations(range(4), 2):
        counts = np.bincount(values[:, i] * 60 + values[:, j], minlength=3600) / 8
        rare = counts < 1
        due += counts[rare].sum()
        held += np.bincount(herded[:, i] * 60 + herded[:, j], minlength=3600)[rare].sum()
    # A row's own square in full would give them 0.73 of that, none of it 1.14 times as much.
    assert held == pytest.approx(due, rel=0.12)


def test_herding_is_for_small_tables():
    assert affordable(48_842, [9] * 14)
    assert not affordable(10**6, [9] * 14)
    assert not affordable(0, [9] * 14)
    assert not affordable(500, [9] * 200)
    assert not affordable(500, [9])


# Denoising


@NOISES
@pytest.mark.parametrize("kind", ["smooth", "spiky", "every fifth"])
def test_ordered_counts_beat_clipping(noise, kind):
    place = np.arange(90)
    truth = 400 * np.exp(-0.5 * ((place - 35) / 14) ** 2) + 0.5
    if kind == "spiky":
        truth[[3, 50, 77]] += 900
    if kind == "every fifth":
        truth[::5] *= 6
    errors = []
    for seed in range(4):
        seen = noisy(truth, 30.0, noise, seed)
        found = denoise_ordered(seen, 30.0, truth.sum(), noise)
        clipped = np.maximum(seen, 0) * (truth.sum() / np.maximum(seen, 0).sum())
        assert found.min() >= 0
        assert found.sum() == pytest.approx(truth.sum())
        errors.append([np.abs(side - truth).sum() for side in (found, clipped)])
    mine, theirs = np.mean(errors, axis=0)
    assert mine < (0.9 if kind == "spiky" else 0.75) * theirs


@NOISES
def test_unordered_counts_beat_clipping(noise):
    truth = np.sort(2000 * generator(1, "truth").dirichlet(np.full(40, 0.4)))
    errors = []
    for seed in range(6):
        seen = noisy(truth, 25.0, noise, seed)
        found = denoise_unordered(seen, 25.0, truth.sum(), noise)
        clipped = np.maximum(seen, 0) * (truth.sum() / np.maximum(seen, 0).sum())
        assert found.min() >= 0
        assert found.sum() == pytest.approx(truth.sum())
        errors.append([divergence(truth, side) for side in (found, clipped)])
    mine, theirs = np.mean(errors, axis=0)
    assert mine < 0.5 * theirs


@NOISES
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("total", [1.0, 300.0])
def test_odd_histograms_are_denoised(noise, scale, total):
    for size in (1, 2, 9, 60, 3000):
        for seen in (np.zeros(size), np.full(size, -3 * scale), np.eye(1, size)[0] * total):
            for found in (
                denoise_ordered(seen, scale, total, noise),
                denoise_unordered(seen, scale, total, noise),
            ):
                assert np.isfinite(found).all()
                assert found.min() >= 0
                assert found.sum() == pytest.approx(total, rel=1e-6)


@NOISES
def test_pair_tables_are_shrunk_toward_the_prediction(noise):
    g = generator(4, "pairs")
    margins = 4000 * g.dirichlet(np.ones(12)), 4000 * g.dirichlet(np.ones(10))
    base = np.outer(*margins) / 4000
    truth = rake(base * g.lognormal(0, 0.4, base.shape), *margins, 20)
    seen = noisy(truth.ravel(), 12.0, noise, 1).reshape(truth.shape)
    found = rake(shrink(seen, base, 12.0, noise), *margins, 8)
    error = np.abs(found - truth).sum()
    assert found.min() >= 0
    assert error < 0.8 * np.abs(base - truth).sum()
    assert error < 0.8 * np.abs(rake(np.maximum(seen, 1e-9), *margins, 20) - truth).sum()


def test_clear_cells_follow_the_measurement():
    seen = np.array([[5e5, 0.0], [0.0, 5e5]])
    found = shrink(seen, np.full((2, 2), 2.5e5), 1.0, "laplace")
    assert found[0, 0] == pytest.approx(5e5)
    assert found[0, 1] <= 2.5e3


# One-ways


def test_large_domains_are_cut_on_a_public_grid_and_refined():
    domain = Domain(5000, ordered=True, specials=("nan",), nullable=True)
    cell = coarse_cells(domain)
    assert (np.diff(cell) >= 0).all()
    assert cell[-1] == cell[-2] + 1 == cell[-3] + 2
    assert 60 < cell[-1] < 160
    counts = np.zeros(cell[-1] + 1)
    heavy = cell[2500]
    counts[heavy] = 10_000.0
    finer = _refine(cell, counts, 10.0, domain)
    assert np.unique(finer[cell == heavy]).size == min((cell == heavy).sum(), 64)
    assert finer[-1] - cell[-1] == np.unique(finer[cell == heavy]).size - 1


def test_special_cells_and_null_keep_their_counts():
    domain = Domain(40, ordered=True, specials=("nan",), nullable=True)
    truth = np.append(np.full(40, 20.0), [0.0, 600.0])
    raw = Raw(np.arange(42), noisy(truth, 5.0, "laplace", 3), 5.0 * np.sqrt(2))
    found = denoise_one_way(raw, domain, truth.sum(), "laplace")
    assert found.sum() == pytest.approx(truth.sum())
    assert found[41] == pytest.approx(600, abs=25)
    assert found[40] == 0
    assert np.abs(found[:40] - 20).mean() < 3


def test_totals_are_weighed_by_their_noise():
    raws = {
        "a": Raw(np.arange(2), np.array([60.0, 40.0]), 1e3),
        "b": Raw(np.arange(1), np.array([300.0]), 1e3),
    }
    assert weight_of(raws, 200.0, 1e-3) == pytest.approx(200, abs=0.1)
    assert 100 < weight_of(raws, None, 0.0) < 300
    assert weight_of({"a": Raw(np.arange(1), np.array([-50.0]), 1.0)}, None, 0.0) == 1.0


# Stored laws


def stored(law):
    header, arrays = law_to_arrays(law)
    return json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()}


def test_laws_round_trip():
    law, _ = random_law([3, 2, 4, 3], [(0, 1), (1, 2), (0, 3)], [(0, 2)], 1, wide=[(2, 3)])
    assert law.wide
    again = law_from_arrays(*stored(law))
    assert again.wide
    first, second = (side.sample(300, generator(1, "x")) for side in (law, again))
    for name in first:
        assert np.array_equal(first[name], second[name])


FAULTS = {
    "format": lambda h, a: h.update(format=9),
    "order": lambda h, a: h.update(order=[0, 0, 1, 2]),
    "order text": lambda h, a: h.update(order=["x"]),
    "pair": lambda h, a: h["pairs"].append([0, 99, True]),
    "pair twice": lambda h, a: h["pairs"].append(h["pairs"][0]),
    "pair turned": lambda h, a: h["pairs"].__setitem__(0, [1, 0, True]),
    "rows": lambda h, a: h.update(rows=float("nan")),
    "domain": lambda h, a: h["domains"][0][1].update(values=2**40),
    "domain twice": lambda h, a: h["domains"].__setitem__(1, h["domains"][0]),
    "no header": lambda h, a: h.clear(),
    "bin": lambda h, a: a["of"].__setitem__(0, 200),
    "laws": lambda h, a: a["laws"].__setitem__(0, 7.0),
    "nan": lambda h, a: a["laws"].__setitem__(0, np.nan),
    "short": lambda h, a: a.update(laws=a["laws"][:-1]),
    "table": lambda h, a: a["tables"].__setitem__(0, -1.0),
    "type": lambda h, a: a.update(counts=a["counts"].astype(np.float32)),
    "gone": lambda h, a: a.pop("tables"),
    "mass": lambda h, a: a["counts"].fill(0.0),
    "inside": lambda h, a: a["inside"].__setitem__(0, 0.5),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_laws_are_refused(fault):
    law, _ = random_law([3, 2, 4, 3], [(0, 1), (1, 2), (0, 3)], [(0, 2)], 1)
    header, arrays = stored(law)
    FAULTS[fault](header, arrays)
    with pytest.raises(ModelError):
        law_from_arrays(header, arrays)
