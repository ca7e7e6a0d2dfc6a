"""Heavy values of large ordered domains: found by a scan, kept apart."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.learning.junction.budget import rule
from privbench.learning.junction.heavy import apart, heavy_codes, opened
from privbench.learning.junction.oneway import coarse_cells, denoise_one_way, measure_one_ways
from privbench.privacy import DatabaseSpec, TableSpec
from privbench.rng import generator

NOISES = pytest.mark.parametrize("noise", ["laplace", "gaussian"])


def noisy(counts, scale, noise, seed):
    g = generator(seed, "test")
    return counts + getattr(g, "laplace" if noise == "laplace" else "normal")(0, scale, len(counts))


def spiky(rows_on, size=20_000, background=2000, seed=1):
    """Counts per code: a falling background and a few heavy codes."""
    falling = np.exp(-np.arange(size) / (size / 6))
    counts = generator(seed, "spiky").multinomial(background, falling / falling.sum())
    counts = counts.astype(np.float64)
    counts[list(rows_on)] += list(rows_on.values())
    return counts


def scanned(counts, scale, noise, seed=1):
    """The three measurements of a large domain, with noise; the heavy codes and what is found."""
    domain = Domain(len(counts), ordered=True)
    spec = DatabaseSpec({"t": TableSpec("t", {"x": domain})})
    sd = scale * np.sqrt(2.0) if noise == "laplace" else scale
    asked = []

    def measure(query, amount, label):
        of = query.axes[0].bins.values if hasattr(query.axes[0], "bins") else None
        assert of is not None
        exact = np.bincount(of, counts)
        asked.append(label)
        return noisy(exact, scale, noise, seed + len(asked)), sd

    def measure_all(questions):
        return [measure(item.query, item.amount, item.label) for item in questions]

    raw = measure_one_ways(spec, "t", 1.0, rule(1e6, 1.0, 3), measure_all, noise)["x"]
    return asked, raw, denoise_one_way(raw, domain, counts.sum(), noise)


@NOISES
def test_heavy_codes_are_found_and_keep_their_counts(noise):
    truth = {3103: 400.0, 7298: 700.0, 7688: 900.0, 15_024: 500.0}
    counts = spiky(truth)
    asked, raw, found = scanned(counts, 8.0, noise)
    assert [label.split()[0] for label in asked] == ["coarse", "scan", "one-way"]
    assert set(truth) <= set(raw.heavy.tolist())
    assert len(raw.heavy) < 60
    for code in truth:
        assert found[code] == pytest.approx(counts[code], abs=60)
    assert found.sum() == pytest.approx(counts.sum())
    away = np.setdiff1d(np.arange(len(counts)), raw.heavy)
    blocks = np.add.reduceat(counts[away] - found[away], np.arange(0, len(away), 2000))
    assert np.abs(blocks).max() < 200


@NOISES
def test_smooth_and_empty_domains_have_no_heavy_codes(noise):
    smooth = 300 * np.exp(-0.5 * ((np.arange(2000) - 900) / 300) ** 2)
    for counts in (smooth, np.full(2000, 500.0), np.zeros(2000)):
        _, raw, _ = scanned(counts, 8.0, noise)
        assert len(raw.heavy) <= 20


def test_a_scan_opens_cells_with_rows_and_keeps_the_rest():
    domain = Domain(3000, ordered=True, specials=("nan",), nullable=True)
    cell = coarse_cells(domain)
    counts = np.zeros(cell[-1] + 1)
    busy = cell[1510]
    counts[[busy, cell[-1]]] = 900.0
    scan = opened(cell, counts, 10.0, domain)
    inside = cell == busy
    assert np.unique(scan[inside]).size == inside.sum()
    assert scan[-1] - cell[-1] == inside.sum() - 1
    assert np.array_equal(opened(cell, np.zeros_like(counts), 10.0, domain), cell)
    seen = np.zeros(scan[-1] + 1)
    seen[scan[1510]] = 700.0
    heavy = heavy_codes(cell, scan, seen, 10.0, "laplace")
    assert heavy.tolist() == [1510]
    finer = apart(cell, heavy)
    assert (finer == finer[1510]).sum() == 1
    assert finer[-1] == cell[-1] + 2
