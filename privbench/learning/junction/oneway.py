"""One-way laws of a table's attributes: measured, then denoised."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.learning.answers import Answer, MeasureAll
from privbench.learning.bins import Bins, make_bins
from privbench.learning.denoise import Floats, Noise, by_precision, log_likelihoods, scale_of
from privbench.learning.guard import ALONE, guard
from privbench.learning.junction.budget import COARSE, LARGE, SCAN, Budget, column_parts
from privbench.learning.junction.heavy import apart, heavy_codes, opened
from privbench.learning.junction.ordered import denoise_ordered
from privbench.learning.junction.unordered import denoise_unordered
from privbench.privacy import DatabaseSpec, Measurement
from privbench.privacy.queries import Column, Histogram, PublicArray

Ints = NDArray[np.int64]

#: Fewest ordered cells that are worth a walk.
_WALK = 9
#: Equal cells of the first look at a large domain, and cells per octave beside them.
_EQUAL, _PER_OCTAVE = 64, 4
#: A fine cell of a large domain is to hold this many standard deviations of noise.
_WORTH = 12.0
#: Numbers of bins to ask for, against the most there may be.
_GENEROUS = (2.0, 1.8, 1.6, 1.4, 1.2)


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A noisy histogram of one attribute.

    Attributes:
        cell: Cell of every code, shape (domain size,).
        noisy: Noisy counts per cell.
        sd: Standard deviation of the noise.
        heavy: Codes that are cells of their own because they stand out, ascending.
    """

    cell: Ints
    noisy: Floats
    sd: float
    heavy: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def total(self) -> tuple[float, float]:
        """The histogram's sum and the variance of its noise."""
        return float(self.noisy.sum()), max(self.sd**2 * len(self.noisy), 1e-18)


def measure_one_ways(
    spec: DatabaseSpec,
    table: str,
    amount: float,
    budget: Budget,
    measure_all: MeasureAll,
    noise: Noise,
) -> dict[str, Raw]:
    """Noisy histograms of all attributes of a table; all of them at once, in at most three batches.

    Args:
        spec: What is public.
        table: The table.
        amount: What may be spent on all of them.
        budget: The rule's decision, for the choice of cells.
        measure_all: Asks the session.
        noise: Law of the noise.
    """
    domains = spec.tables[table].attributes
    parts = column_parts(domains)
    steps = {
        name: _steps(spec, table, name, amount * parts[name], budget.refine, noise)
        for name in domains
    }
    return _in_step(steps, measure_all)


#: Asks one measurement after the other.
_Steps = Generator[Measurement, Answer, Raw]


def _in_step(steps: Mapping[str, _Steps], measure_all: MeasureAll) -> dict[str, Raw]:
    """The results of all, by batches of the next question of each."""
    found: dict[str, Raw] = {}
    asked = {name: next(step) for name, step in steps.items()}
    while asked:
        answers = dict(zip(asked, measure_all(list(asked.values())), strict=True))
        asked = {}
        for name, answer in answers.items():
            try:
                asked[name] = steps[name].send(answer)
            except StopIteration as done:
                found[name] = done.value
    return {name: found[name] for name in steps}


def _steps(
    spec: DatabaseSpec, table: str, name: str, amount: float, refine: bool, noise: Noise
) -> _Steps:
    """Measure one attribute: at once, or coarse cells, a scan for heavy values, and fine cells."""
    domain = spec.tables[table].attributes[name]
    label = f"one-way of {table}.{name}"
    if not is_large(domain):
        noisy, sd = yield Measurement(Histogram.of(spec, table, [name]), amount, label)
        return Raw(np.arange(domain.size), noisy, sd)
    cell = coarse_cells(domain)
    query = _query(spec, table, name, cell)
    if not refine:
        noisy, sd = yield Measurement(query, amount, label)
        return Raw(cell, noisy, sd)
    noisy, sd = yield Measurement(query, amount * COARSE, f"coarse {label}")
    scan = opened(cell, noisy, sd * COARSE / SCAN, domain)
    query = _query(spec, table, name, scan)
    seen, seen_sd = yield Measurement(query, amount * SCAN, f"scan {label}")
    heavy = heavy_codes(cell, scan, seen, seen_sd, noise)
    light = noisy - np.bincount(cell[heavy], seen[scan[heavy]], len(noisy))
    rest = 1 - COARSE - SCAN
    finer = apart(_refine(cell, light, sd * COARSE / rest, domain), heavy)
    fine, fine_sd = yield Measurement(_query(spec, table, name, finer), amount * rest, label)
    return Raw(finer, fine, fine_sd, heavy)


def _query(spec: DatabaseSpec, table: str, name: str, cell: Ints) -> Histogram:
    return Histogram.of(spec, table, [Column.of(spec, table, name, PublicArray(cell))])


def is_large(domain: Domain) -> bool:
    """Whether an attribute is measured on cells of several codes."""
    return domain.ordered and domain.values > LARGE


def coarse_cells(domain: Domain) -> Ints:
    """A public grid: equal cells, and cells that grow with the distance from the first code.

    Special cells and NULL stay by themselves.
    """
    steps = np.arange(np.log2(domain.values) * _PER_OCTAVE + 1)
    octaves = np.floor(2 ** (steps / _PER_OCTAVE)).astype(np.int64)
    equal = np.linspace(0, domain.values, _EQUAL, endpoint=False).astype(np.int64)
    starts = np.unique(np.concatenate([[0], octaves, equal]))
    starts = starts[starts < domain.values]
    return _cells_from(starts, domain)


def _cells_from(starts: Ints, domain: Domain) -> Ints:
    marks = np.zeros(domain.size, np.int64)
    marks[starts] = 1
    marks[domain.values :] = 1
    return np.cumsum(marks) - 1


def _refine(cell: Ints, noisy: Floats, sd: float, domain: Domain) -> Ints:
    """Cut cells in equal parts that still hold enough rows each."""
    ordinary = int(cell[domain.values - 1]) + 1
    starts = np.flatnonzero(np.diff(cell[: domain.values], prepend=-1))
    widths = np.diff(np.append(starts, domain.values))
    pieces = np.clip(np.floor(noisy[:ordinary] / (_WORTH * sd)), 1, np.minimum(widths, 64))
    cuts = [
        start + width * np.arange(count) // count
        for start, width, count in zip(starts, widths, pieces.astype(np.int64), strict=True)
    ]
    return _cells_from(np.concatenate(cuts), domain)


def weight_of(raws: Mapping[str, Raw], start: float | None, start_sd: float) -> float:
    """Inverse-variance mean of the sums of all histograms and of an earlier total, at least 1."""
    found = [raw.total for raw in raws.values()]
    if start is not None:
        found.append((start, max(start_sd**2, 1e-18)))
    return max(by_precision(found)[0], 1.0)


def denoise_one_way(raw: Raw, domain: Domain, total: float, noise: Noise) -> Floats:
    """Counts per code, shape (domain size,), non-negative, summing to ``total``.

    Ordinary codes of an ordered domain are denoised as a sequence, special codes and NULL by
    themselves; unordered codes all together. Empty tails and special cells stay empty (`guard`).
    """
    scale = max(scale_of(raw.sd, noise), 1e-9)
    widths = np.bincount(raw.cell).astype(np.float64)
    ordinary = int(raw.cell[domain.values - 1]) + 1 if domain.values else 0
    if domain.ordered and ordinary >= _WALK:
        counts = _sequence(raw, domain, scale, total, noise, widths)
    else:
        counts = _with_nulls(raw, domain, scale, total, noise)
    spread = counts[raw.cell] / widths[raw.cell]
    return guard(spread, raw.noisy[raw.cell], raw.sd, domain)


def fill_bins(counts: Floats, domain: Domain, most: int, least: float) -> Bins:
    """As many bins as fit: heavy codes leave `make_bins` fewer than it may make.

    Args:
        counts: Released, non-negative counts per code.
        domain: The attribute's domain.
        most: Largest number of bins.
        least: Least mass of a bin.
    """
    tries = (make_bins(counts, domain, round(most * factor), least) for factor in _GENEROUS)
    fitting = (bins for bins in tries if bins.size <= most)
    return next(fitting, None) or make_bins(counts, domain, most, least)


def _sequence(
    raw: Raw, domain: Domain, scale: float, total: float, noise: Noise, widths: Floats
) -> Floats:
    """Ordinary cells as a sequence; special and heavy ones by themselves."""
    noisy = raw.noisy
    lone = np.arange(len(noisy)) > raw.cell[domain.values - 1]
    lone[raw.cell[raw.heavy]] = True
    even = None if (widths[~lone] == 1).all() else widths[~lone]
    if not lone.any():
        return denoise_ordered(noisy, scale, total, noise, even)
    counts = np.empty(len(noisy))
    counts[lone] = lone_counts(noisy[lone], scale, total, noise)
    counts[_unlikely(raw, domain)] = 0.0
    counts[lone] *= min(1.0, (total - 1e-9) / max(counts[lone].sum(), 1e-9))
    inside = max(total - float(counts[lone].sum()), 1e-9)
    counts[~lone] = denoise_ordered(noisy[~lone], scale, inside, noise, even)
    return counts


def _unlikely(raw: Raw, domain: Domain) -> NDArray[np.bool_]:
    """Special cells that noise alone may fill: `guard` empties them."""
    special = np.zeros(len(raw.noisy), bool)
    special[raw.cell[domain.values : domain.values + len(domain.specials)]] = True
    return special & (raw.noisy <= ALONE * raw.sd)


def _with_nulls(raw: Raw, domain: Domain, scale: float, total: float, noise: Noise) -> Floats:
    """Unordered cells together, NULL by itself."""
    if domain.null_code is None or len(raw.noisy) < 3:
        return denoise_unordered(raw.noisy, scale, total, noise)
    lone = np.arange(len(raw.noisy)) == raw.cell[domain.null_code]
    counts = np.empty(len(raw.noisy))
    counts[lone] = np.minimum(lone_counts(raw.noisy[lone], scale, total, noise), total - 1e-9)
    rest = total - float(counts[lone].sum())
    counts[~lone] = denoise_unordered(raw.noisy[~lone], scale, rest, noise)
    return counts


def lone_counts(noisy: Floats, scale: float, total: float, noise: Noise) -> Floats:
    """Posterior means of counts of cells that have nothing to do with others: NULL, NaN, above.

    Half of all such cells are empty; in the others every count is as likely. Without that, noise
    alone would make a fair part of a small table NULL.

    Args:
        noisy: Noisy counts, shape (cells,).
        scale: Scale of the noise.
        total: The most that a cell may hold.
        noise: Law of the noise.

    >>> lone_counts(np.array([40.0, 900.0]), 20.0, 1000.0, "laplace").round().tolist()
    [10.0, 900.0]
    """
    near = noisy[:, None] + scale * np.linspace(-12.0, 12.0, 97)
    far = np.broadcast_to(np.linspace(0.0, total, 129), (len(noisy), 129))
    grid = np.sort(np.clip(np.concatenate([near, far], axis=1), 0.0, total), axis=1)
    steps = np.gradient(grid, axis=1) / max(total, 1e-12)
    logs = log_likelihoods((noisy[:, None] - grid) / scale, noise)
    empty = log_likelihoods(noisy / scale, noise)
    top = np.maximum(logs.max(axis=1), empty)
    some = np.exp(logs - top[:, None]) * steps
    return np.asarray((some * grid).sum(axis=1) / (some.sum(axis=1) + np.exp(empty - top)))
