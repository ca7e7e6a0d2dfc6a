"""Fit ``shape.json`` to the published answers of queries on the real IMDB tables.

Counts are facts: thousands of queries with their true answers are published with "Learned
Cardinalities" (Kipf et al., CIDR 2019, https://github.com/andreaskipf/learnedcardinalities, MIT).
What they say of how many titles, children and ids there are where is fitted here once, and the
generator reads the result. No row of IMDB is read, none is kept.

    python schemas/imdb/calibrate.py FOLDER_WITH_THE_CSV_FILES
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from fanouts import CHILDREN, GROUPS, fit_fanouts, tile
from numpy.typing import NDArray

Array = NDArray[np.float64]
Query = tuple[frozenset[str], tuple[tuple[str, str, float], ...], float]

HERE = Path(__file__).parent
FILES = ("synthetic.csv", "scale.csv", "job-light.csv")
SWEEPS = 400
BLOCKS = 64
# Where answers leave it open: video games are few, most titles are episodes.
KIND_SHARES = (0.26, 0.04, 0.04, 0.05, 0.005, 0.6)


def read(folder: Path) -> list[Query]:
    """The queries of all files: aliases, predicates, answer."""
    found: dict[tuple[frozenset[str], tuple[tuple[str, str, float], ...]], float] = {}
    for name in FILES:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            tables, _, predicates, card = line.split("#")
            parts = predicates.split(",") if predicates else []
            triples = zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
            key = tuple(sorted((c, o, float(v)) for c, o, v in triples))
            found[frozenset(item.split()[1] for item in tables.split(",")), key] = float(card)
    return [(*key, card) for key, card in found.items()]


def holds(values: Array, operator: str, literal: float) -> Array:
    """1 where a value passes, 0 elsewhere; NaN (NULL) never does."""
    compared = {"<": values < literal, ">": values > literal, "=": values == literal}
    return compared[operator].astype(float)


def scaled(cells: Array, constraints: list[tuple[Array, float]], total: float) -> Array:
    """Cells brought to all constraints by scaling the parts inside and outside in turns."""
    cells = cells * total / cells.sum()
    for _ in range(SWEEPS):
        for inside, answer in constraints:
            held = float((inside * cells).sum())
            if 0 < held < total and 0 < answer < total:
                grown = inside * (answer / held) + (1 - inside) * (total - answer) / (total - held)
                cells = cells * grown
    return cells


def titles(queries: list[Query], facts: dict[str, int]) -> tuple[Array, Array, Array]:
    """Titles by kind and year (the last year is NULL), with both axes' values."""
    kinds = np.array([1.0, 2, 3, 4, 6, 7])
    years = np.array([*range(1880, 2020), np.nan])
    grid = {
        "t.kind_id": np.repeat(kinds[:, None], len(years), 1),
        "t.production_year": np.repeat(years[None, :], len(kinds), 0),
    }
    growth = np.where(np.isnan(years), 3.0, np.exp(0.03 * (np.minimum(years, 2012) - 1960)))
    start = np.outer(KIND_SHARES, growth)
    return (
        scaled(start, _on(queries, frozenset("t"), grid), facts["title"]),
        *(grid[name] for name in grid),
    )


def _on(
    queries: list[Query], aliases: frozenset[str], grid: dict[str, Array]
) -> list[tuple[Array, float]]:
    """Constraints of the queries over these tables whose predicates the grid can say."""
    found = []
    for tables, predicates, card in queries:
        if tables == aliases and predicates and all(name in grid for name, _, _ in predicates):
            inside = np.ones_like(next(iter(grid.values())))
            for name, operator, literal in predicates:
                inside = inside * holds(grid[name], operator, literal)
            found.append((inside, card))
    return found


def children(
    queries: list[Query], facts: dict[str, int], start: Array, kind: Array, year: Array
) -> dict[str, Array]:
    """Rows of every child table by kind and year of their title."""
    grid = {"t.kind_id": kind, "t.production_year": year}
    return {
        alias: scaled(start, _on(queries, frozenset(("t", alias)), grid), facts[table])
        for alias, table in CHILDREN.items()
    }


def codes(queries: list[Query], alias: str, column: str, values: Array, total: float) -> Array:
    """Rows by value of one small column, from that table's own queries."""
    grid = {f"{alias}.{column}": values}
    both = [
        *_on(queries, frozenset((alias,)), grid),
        *_on(queries, frozenset((alias, "t")), grid),
    ]
    return scaled(np.ones_like(values), both, total)


def blocks(
    queries: list[Query], alias: str, ids: str, column: str | None, values: Array, size: int,
    weights: Array,
) -> tuple[NDArray[np.int64], Array]:  # fmt: skip
    """Edges of blocks of ids, and rows by (value, block), from a table's own range queries."""
    name = f"{alias}.{ids}"
    usable = [
        query for query in queries
        if query[0] in (frozenset((alias,)), frozenset((alias, "t")))
        and query[1]
        and all(item[0] in (name, f"{alias}.{column}") for item in query[1])
        and not any(item[0] == name and item[1] == "=" for item in query[1])
    ]  # fmt: skip
    seen = {value + (op == ">") for _, items, _ in usable for n, op, value in items if n == name}
    # Every bound of a range is an edge while fitting: the published answers then agree exactly.
    edges = np.unique(np.array([1, *seen, size + 1], dtype=np.int64))
    cells = np.outer(weights / weights.sum(), np.diff(edges))
    constraints = []
    for _, items, card in usable:
        inside = np.ones_like(cells)
        for n, op, value in items:
            axis = edges[None, :-1] if n == name else values[:, None]
            inside = inside * holds(axis, op, value)
        constraints.append((inside, card))
    cells = scaled(cells, constraints, float(weights.sum()))
    kept = np.arange(0, len(edges) - 1, max(1, len(seen) // BLOCKS))
    return np.append(edges[kept], size + 1), np.add.reduceat(cells, kept, axis=1)


def known(queries: list[Query], alias: str, ids: str) -> dict[int, float]:
    """Rows of single ids that a query asked for."""
    name = f"{alias}.{ids}"
    return {
        int(items[0][2]): card for tables, items, card in queries
        if tables in (frozenset((alias,)), frozenset((alias, "t")))
        and len(items) == 1 and items[0][:2] == (name, "=")
    }  # fmt: skip


def spread(queries: list[Query], alias: str, ids: str, mean: float) -> float:
    """σ of the lognormal weight of one id: drawn rows fall on an id of median mean·exp(σ²/2)."""
    cards = list(known(queries, alias, ids).values())
    return float(np.sqrt(max(2 * np.log(np.median(cards) / mean), 0.0)))


def main(folder: str) -> None:
    """Write ``shape.json``."""
    facts = json.loads((HERE / "facts.json").read_text(encoding="utf-8"))
    rows, queries = facts["rows"], read(Path(folder))
    counted, kind, year = titles(queries, rows)
    owned = children(queries, rows, counted, kind, year)
    roles = np.arange(1.0, 12)
    role_rows = codes(queries, "ci", "role_id", roles, rows["cast_info"])
    info = np.arange(1.0, 111)
    types = np.array([1.0, 2])
    type_rows = codes(queries, "mc", "company_type_id", types, rows["movie_companies"])
    ids = {
        "person": blocks(queries, "ci", "person_id", "role_id", roles, 4061926, role_rows),
        "company": blocks(
            queries, "mc", "company_id", "company_type_id", types, 234997, type_rows
        ),
        "keyword": blocks(
            queries, "mk", "keyword_id", None, np.ones(1), 134170,
            np.array([float(rows["movie_keyword"])]),
        ),
    }  # fmt: skip
    means = {"person": ("ci", 8.9), "company": ("mc", 11.1), "keyword": ("mk", 33.7)}
    shape = {
        "titles": counted.round(1).tolist(),
        "fanout": {alias: tile(owned[alias], counted).round(4).tolist() for alias in CHILDREN},
        "info_type": codes(
            queries, "mi", "info_type_id", info, rows["movie_info"]
        ).round(1).tolist(),
        "ids": {
            name: {
                "edges": edges.tolist(),
                "rows": cells.round(1).tolist(),
                "sigma": round(spread(queries, means[name][0], f"{name}_id", means[name][1]), 3),
                "known": {
                    **known(queries, means[name][0], f"{name}_id"),
                    **facts["estimated_rows_of_ids"].get(name, {}),
                },
            }
            for name, (edges, cells) in ids.items()
        },
    }  # fmt: skip
    shape["law"] = fit_fanouts(queries, shape, facts)
    (HERE / "shape.json").write_text(json.dumps(shape, separators=(",", ":")) + "\n", "utf-8")
    print({group: shape["law"][group] for group in GROUPS})


if __name__ == "__main__":
    main(sys.argv[1])
