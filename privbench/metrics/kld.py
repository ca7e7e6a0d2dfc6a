"""λ-way KLD and TVD: how far the clone's joint distributions are from the source's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.metrics import cells
from privbench.metrics.base import Metric
from privbench.rng import generator

KLD = Metric(
    name="kld",
    title="λ-way KLD",
    goal="lower",
    low=0.0,
    high=math.inf,
    unit="",
    reads_source=True,
    meaning="How far the joint distributions of 2, 3 or 4 columns are apart (Kullback-Leibler "
    "divergence): 0 is the same distribution.",
    headline="kld.2",
    good=0.1,
    fair=0.4,
)

TVD = Metric(
    name="tvd",
    title="λ-way total variation distance",
    goal="lower",
    low=0.0,
    high=1.0,
    unit="",
    reads_source=True,
    meaning="The share of rows that would have to change for the clone's combinations of columns "
    "to match the source's: 0 is the same distribution, 1 has nothing in common.",
    headline="tvd.2",
    good=0.05,
    fair=0.15,
)

#: Where there are more sets, so many are sampled.
MOST_SETS = 1001
SEED = 20240229


@dataclass(frozen=True, slots=True)
class Coded:
    """One column of both tables in common codes."""

    real: NDArray[np.unsignedinteger[Any]]  # codes of the source's rows, shape (n,)
    clone: NDArray[np.unsignedinteger[Any]]  # codes of the clone's rows, shape (m,)
    size: int  # codes lie in [0, size)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Means over the λ-way sets of columns."""

    kld: float  # natural logarithm
    tvd: float  # in [0, 1]
    sets: int  # sets that were used
    of: int  # sets that there are


def divergence(columns: Sequence[Coded], ways: int) -> Divergence | None:
    """Mean KLD and TVD over the sets of ``ways`` columns, as DESIGN section 5 defines them.

    For a set, p and q are the shares of the source's and the clone's rows in each cell observed in
    either; KLD is Σ (p + c)·ln((p + c)/(q + c)) with c = 10⁻¹⁰, not renormalised; TVD ½·Σ|p − q|.

    Args:
        columns: At least one row of the source; an empty clone has share 0 everywhere.
        ways: λ, at least 1.

    Returns:
        The means, or None where there are fewer columns than λ or no rows in the source.
    """
    if len(columns) < ways or len(columns[0].real) == 0:
        return None
    sets = column_sets(len(columns), ways)
    figures = np.array([_of([columns[i] for i in chosen]) for chosen in sets])
    kld, tvd = figures.mean(axis=0)
    return Divergence(float(kld), float(tvd), len(sets), math.comb(len(columns), ways))


def _of(chosen: Sequence[Coded]) -> tuple[float, float]:
    return cells.distance(
        [column.real for column in chosen],
        [column.clone for column in chosen],
        [column.size for column in chosen],
    )


def column_sets(columns: int, ways: int) -> list[tuple[int, ...]]:
    """The sets of columns, sorted; `MOST_SETS` of them by a fixed seed where there are more."""
    if math.comb(columns, ways) <= MOST_SETS:
        return list(itertools.combinations(range(columns), ways))
    rng = generator(SEED + ways)
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < MOST_SETS:
        drawn.add(tuple(sorted(rng.choice(columns, ways, replace=False).tolist())))
    return sorted(drawn)
