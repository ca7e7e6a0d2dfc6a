"""How many children a title has in each table, all five together.

A title has one hidden popularity. In every table its expected number of rows is lognormal around
the mean of its kind and years, and correlated with that popularity; numbers are rounded up or down
at random, which keeps the mean. Below a least number there are none at all: a title has many
keywords or no keyword. A row of `movie_info_idx` needs a rating, and a title has one if
its own mixture of popularity and chance is high enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

Array = NDArray[np.float64]

CHILDREN = {
    "mc": "movie_companies",
    "ci": "cast_info",
    "mi": "movie_info",
    "mi_idx": "movie_info_idx",
    "mk": "movie_keyword",
}
KINDS = np.array([1, 2, 3, 4, 6, 7])
YEARS = np.array([*range(1880, 2020), 0])
GROUPS = ("work", "episode")
RATED = list(CHILDREN).index("mi_idx")
RATINGS = 3
_BANDS = [0, 20, 35, 50, 65, 75, 85, 95, 105, 112, 118, 123, 127, 131, 132, 133, 134, 135, 140, 141]


def band(year: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of the years' band; `year` is an index into `YEARS`."""
    return np.searchsorted(_BANDS, year, side="right") - 1


def tile(rows: Array, titles: Array) -> Array:
    """Mean rows of a title by kind and band of years."""
    return np.add.reduceat(rows, _BANDS[:-1], axis=1) / np.add.reduceat(titles, _BANDS[:-1], axis=1)


def expected(mean: Array, law: Array, normal: Array) -> Array:
    """Expected rows of each title in each table, given its chances.

    Args:
        mean: (titles, 5) mean rows of the titles' kind and years.
        law: (5, 5) σ, correlation with popularity, largest and least number, lift of the mean.
        normal: (titles, 6) standard normals: popularity first.
    """
    sigma, load, most, least, lift = law
    mixed = load * normal[:, :1] + np.sqrt(1 - load**2) * normal[:, 1:]
    rows = np.minimum(mean * lift * np.exp(sigma * mixed - sigma**2 / 2), most)
    rows = np.where(rows < least, 0.0, rows)
    share = np.clip(mean[:, RATED] / RATINGS, 1e-9, 1 - 1e-9)
    rated = mixed[:, RATED] > -special.ndtri(share)
    rows[:, RATED] = RATINGS * rated
    return rows


class _Fit:
    """Simulated titles, and the published joins that they should answer alike."""

    def __init__(self, queries: list[Any], shape: dict[str, Any], facts: dict[str, Any]) -> None:
        titles = np.array(shape["titles"])
        rng = np.random.default_rng(7)
        size = 1 << 16
        cell = rng.choice(titles.size, size, p=titles.ravel() / titles.sum())
        kind, year = np.divmod(cell, len(YEARS))
        self.kind, self.year = KINDS[kind], np.where(YEARS[year] == 0, np.nan, YEARS[year])
        self.mean = np.stack(
            [np.array(shape["fanout"][alias])[kind, band(year)] for alias in CHILDREN], axis=1
        )
        points = stats.qmc.Sobol(6, rng=rng).random(size)
        self.normal = special.ndtri(np.clip(points, 1e-6, 1 - 1e-6))
        self.each = titles.sum() / size
        self.distinct = np.array([facts["titles_with_rows"][name] for name in CHILDREN.values()])
        self.rows = np.array([facts["rows"][name] for name in CHILDREN.values()])
        self.joins = [found for query in queries if (found := self._join(query))]

    def _join(self, query: Any) -> tuple[NDArray[np.bool_], list[int], float] | None:
        aliases, predicates, card = query
        inside = np.ones(len(self.kind), dtype=bool)
        for name, operator, literal in predicates:
            if name == "mi_idx.info_type_id" and operator == "=" and 99 <= literal <= 101:
                card = card * RATINGS
                continue
            if not name.startswith("t."):
                return None
            value = self.kind if name == "t.kind_id" else self.year
            inside &= {"<": value < literal, ">": value > literal, "=": value == literal}[operator]
        if len(aliases) < 3 or "t" not in aliases or inside.sum() < 500:
            return None
        return inside, [list(CHILDREN).index(alias) for alias in aliases - {"t"}], card

    def unpack(self, point: Array) -> Array:
        """(2, 5, 5) laws of both groups; the lift keeps the means in spite of the limits."""
        sigma, load, most, least = np.split(point, [10, 20, 25])
        laws = np.zeros((2, 5, 5))
        laws[:, 0] = np.exp(sigma).reshape(2, 5)
        laws[:, 1] = np.tanh(load).reshape(2, 5)
        laws[:, 2] = np.exp(most)
        laws[:, 3] = np.exp(least)
        laws[:, 4] = 1
        for group in range(2):
            mine = (self.kind == 7) == group
            for _ in range(3):  # a lift moves titles over the limits
                got = expected(self.mean[mine], laws[group], self.normal[mine]).mean(axis=0)
                lift = laws[group, 4] * self.mean[mine].mean(axis=0) / np.maximum(got, 1e-3)
                laws[group, 4] = np.clip(lift, 0.5, 2.5)
        return laws

    def simulate(self, laws: Array) -> Array:
        rows = np.empty_like(self.mean)
        for group in range(2):
            mine = (self.kind == 7) == group
            rows[mine] = expected(self.mean[mine], laws[group], self.normal[mine])
        return rows

    def errors(self, point: Array) -> Array:
        rows = self.simulate(self.unpack(point))
        present = np.minimum(rows, 1).sum(axis=0) * self.each
        found = [
            np.log((1 + rows[inside][:, columns].prod(axis=1).sum() * self.each) / card)
            / np.sqrt(len(columns) - 1)
            for inside, columns, card in self.joins
        ]
        total = np.log((1 + rows.sum(axis=0) * self.each) / self.rows)
        return np.array([*found, *(8 * np.log((1 + present) / self.distinct)), *(8 * total)])


def fit_fanouts(queries: list[Any], shape: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """Laws of both groups under which joins have the published answers as nearly as may be."""
    fit = _Fit(queries, shape, facts)
    start = np.concatenate(
        [np.log(np.tile([1.2, 1.0, 0.8, 1.0, 2.0], 2)), np.full(10, 0.6),
         np.log([100.0, 1000, 600, 3, 400]), np.log([0.1, 0.1, 0.1, 0.1, 4.0])]
    )  # fmt: skip
    low = np.concatenate([np.full(10, np.log(0.2)), np.full(10, -1), np.full(5, 0), np.full(5, -3)])
    high = np.concatenate([np.full(10, np.log(3)), np.full(10, 3), np.full(5, 9), np.full(5, 2.3)])
    best = optimize.least_squares(
        fit.errors, start, bounds=(low, high), loss="soft_l1", diff_step=2e-2, max_nfev=20
    )
    error = np.abs(best.fun[: len(fit.joins)])
    print(f"{len(fit.joins)} joins, Q-error median {np.exp(np.median(error)):.2f},"
          f" worst {np.exp(error.max()):.1f}")  # fmt: skip
    return {
        name: law.round(4).tolist() for name, law in zip(GROUPS, fit.unpack(best.x), strict=True)
    }
