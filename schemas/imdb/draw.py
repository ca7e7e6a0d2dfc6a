"""Rows of the six tables, drawn from ``shape.json`` in batches of titles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fanouts import CHILDREN, GROUPS, KINDS, RATED, RATINGS, YEARS, band, expected
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Batch = dict[str, pa.Table]

HERE = Path(__file__).parent
BATCH = 50_000
INFO_TYPES = 71
FIRST_TYPES = 8  # run time, colour, genre, language, ...: every title has these first
BEST, WORST = 250, 10  # titles in the charts of the best (112) and the worst (113)


class Ids:
    """Ids of companies, people or keywords: blocks by published counts, lognormal inside."""

    def __init__(self, shape: dict[str, Any], rng: np.random.Generator) -> None:
        self.edges = np.array(shape["edges"]) - 1
        rows = np.array(shape["rows"])
        self.share = rows.sum(axis=1) / rows.sum()
        blocks = np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True)
        self.blocks = (blocks + np.arange(len(rows))[:, None]).ravel()
        weight = self._weights(shape, rows.sum(axis=0), rng)
        self.mass = np.concatenate([[0.0], np.cumsum(weight)])

    def _weights(self, shape: dict[str, Any], rows: Array, rng: np.random.Generator) -> Array:
        """Expected rows of every id: published ones as they are, the others share the rest."""
        weight = np.exp(shape["sigma"] * rng.standard_normal(self.edges[-1]))
        known = np.array([int(item) for item in shape["known"]]) - 1
        weight[known] = 0
        block = np.searchsorted(self.edges, known, side="right") - 1
        given = np.bincount(block, list(shape["known"].values()), len(rows))
        rest = np.maximum(rows - given, 0.05 * rows) / np.maximum(
            np.add.reduceat(weight, self.edges[:-1]), 1e-300
        )
        weight *= np.repeat(rest, np.diff(self.edges))
        weight[known] = list(shape["known"].values())
        return weight

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Ints, Ints]:
        """Codes (role, type), from 1, and ids."""
        code = rng.choice(len(self.share), size, p=self.share)
        found = np.searchsorted(self.blocks, code + rng.random(size), side="right")
        block = np.minimum(found, len(self.blocks) - 1) % (len(self.edges) - 1)
        low, high = self.mass[self.edges[block]], self.mass[self.edges[block + 1]]
        point = low + (high - low) * rng.random(size)
        ids = np.searchsorted(self.mass, point, side="right")
        return code + 1, np.clip(ids, self.edges[block] + 1, self.edges[block + 1])


class Source:
    """A seeded database of ``scale`` times the published size.

    Ids of titles run to ``scale`` times the published number; ids of companies, people and keywords
    keep their published ranges, so that a literal of a published query means the same at any scale.
    """

    def __init__(self, scale: float, seed: int) -> None:
        self.scale = scale
        self.rng = np.random.default_rng(seed)
        shape = json.loads((HERE / "shape.json").read_text(encoding="utf-8"))
        self.cells = np.array(shape["titles"])
        self.titles = round(self.cells.sum() * scale)
        self.fanout = np.stack([np.array(shape["fanout"][alias]) for alias in CHILDREN], axis=-1)
        self.laws = np.array([shape["law"][group] for group in GROUPS])
        self.ids = {name: Ids(part, self.rng) for name, part in shape["ids"].items()}
        info = np.array(shape["info_type"])
        info[np.argsort(-info, kind="stable")[INFO_TYPES:]] = 0
        self.first = info[:FIRST_TYPES] / info[:FIRST_TYPES].sum()
        self.later = info[FIRST_TYPES:] / info[FIRST_TYPES:].sum()
        self.later_share = info[FIRST_TYPES:].sum() / info.sum()
        self.bend: float | None = None
        self.next_id = dict.fromkeys(CHILDREN, 1)

    def batches(self) -> Iterator[Batch]:
        """Arrow tables of some titles and all their children, by table name."""
        for start in range(0, self.titles, BATCH):
            size = min(BATCH, self.titles - start)
            cell = self.rng.choice(self.cells.size, size, p=self.cells.ravel() / self.cells.sum())
            kind, year = np.divmod(cell, len(YEARS))
            normal = self.rng.standard_normal((size, 6))
            counts = self._counts(kind, year, normal)
            ids = np.arange(start, start + size) + 1
            years = pa.array(YEARS[year], pa.int16(), mask=YEARS[year] == 0)
            titles = pa.table({"id": ids, "kind_id": KINDS[kind], "production_year": years})
            yield {"title": titles, **self._children(ids, kind, counts, normal[:, 0], start)}

    def _counts(self, kind: Ints, year: Ints, normal: Array) -> Ints:
        mean = self.fanout[kind, band(year)]
        rows = np.empty_like(mean)
        for group, law in enumerate(self.laws):
            mine = (KINDS[kind] == 7) == group
            rows[mine] = expected(mean[mine], law, normal[mine])
        return np.floor(rows + self.rng.random(rows.shape)).astype(np.int64)

    def _children(
        self, ids: Ints, kind: Ints, counts: Ints, popularity: Array, start: int
    ) -> Batch:
        movies = {alias: np.repeat(ids, counts[:, at]) for at, alias in enumerate(CHILDREN)}
        company_type, company = self.ids["company"].draw(self.rng, len(movies["mc"]))
        role, person = self.ids["person"].draw(self.rng, len(movies["ci"]))
        _, keyword = self.ids["keyword"].draw(self.rng, len(movies["mk"]))
        rated = counts[:, RATED] > 0
        movies["mi_idx"], charts = self._charts(
            ids, rated & (KINDS[kind] == 1), popularity, movies["mi_idx"], start
        )
        info = self._info(counts[:, list(CHILDREN).index("mi")])
        columns: dict[str, dict[str, Ints]] = {
            "mc": {"company_id": company, "company_type_id": company_type},
            "ci": {"person_id": person, "role_id": role},
            "mi": {"info_type_id": info},
            "mi_idx": {"info_type_id": charts},
            "mk": {"keyword_id": keyword},
        }
        found = {}
        for alias, table in CHILDREN.items():
            size = len(movies[alias])
            serial = np.arange(size) + self.next_id[alias]
            self.next_id[alias] += size
            found[table] = pa.table({"id": serial, "movie_id": movies[alias], **columns[alias]})
        return found

    def _charts(
        self, ids: Ints, eligible: NDArray[np.bool_], popularity: Array, rated: Ints, start: int
    ) -> tuple[Ints, Ints]:
        """The three ratings of each rated title, then this batch's share of the two charts."""
        share = np.array([start, start + len(ids)]) / self.titles
        movies = ids[eligible][np.argsort(-popularity[eligible], kind="stable")]
        best, worst = (
            int(np.diff(np.round(share * most * self.scale))[0]) for most in (BEST, WORST)
        )
        top, flop = movies[:best], movies[best : best + worst]
        kinds = np.tile([99, 100, 101], len(rated) // RATINGS)
        codes = np.concatenate([kinds, np.full(len(top), 112), np.full(len(flop), 113)])
        return np.concatenate([rated, top, flop]), codes

    def _info(self, counts: Ints) -> Ints:
        """Kinds of information: the more rows a title has, the more of them are trivia and such."""
        rank = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        if self.bend is None:
            bends = np.geomspace(0.1, 1000, 60)
            shares = [(rank / (rank + bend)).mean() for bend in bends]
            self.bend = float(np.interp(-self.later_share, -np.array(shares), bends))
        later = self.rng.random(len(rank)) < rank / (rank + self.bend)
        first = self.rng.choice(FIRST_TYPES, len(rank), p=self.first) + 1
        more = self.rng.choice(len(self.later), len(rank), p=self.later) + FIRST_TYPES + 1
        return np.where(later, more, first)
