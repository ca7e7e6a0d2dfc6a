"""Do the planner's statistics of text columns agree? Ratios of ``pg_stats``, clone by source.

    python benchmarks/pg_stats.py "service=prod" "service=clone"

One line a column: the number of distinct values, and the share of the most common value and of the
tenth, by rank and not by name. CONFIDENTIAL: it reads both databases.
"""

from __future__ import annotations

import argparse
import math
from statistics import median

import psycopg

_COLUMNS = """
SELECT s.schemaname || '.' || s.tablename, s.attname,
    CASE WHEN s.n_distinct >= 0 THEN s.n_distinct ELSE -s.n_distinct * c.reltuples END,
    s.most_common_freqs, c.reltuples * (1 - s.null_frac)
FROM pg_catalog.pg_stats AS s
JOIN pg_catalog.pg_namespace AS n ON n.nspname = s.schemaname
JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = s.tablename
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = s.attname
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
WHERE t.typcategory = 'S' AND NOT s.inherited AND c.relkind IN ('r', 'p')
    AND s.schemaname NOT IN ('pg_catalog', 'information_schema')
"""
#: Ranks whose shares are compared, from 0.
_RANKS = (0, 9)


def _read(dsn: str) -> dict[tuple[str, str], tuple[float, list[float]]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
        found = connection.execute(_COLUMNS).fetchall()
    return {
        (table, column): (float(distinct), _shares(shares or [], float(distinct), float(rows)))
        for table, column, distinct, shares, rows in found
    }


def _shares(listed: list[float], distinct: float, rows: float) -> list[float]:
    """Shares by rank; those past the list are what the planner takes: equal parts of the rest."""
    rest = (1 - sum(listed)) / max(distinct - len(listed), 1)
    whole = [*listed, *[max(rest, 1 / max(rows, 1))] * (max(_RANKS) + 1)]
    return [whole[rank] for rank in _RANKS if rank < max(distinct, 1)]


def _factor(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def main() -> None:
    """Print the ratios of every text column and the medians of their factors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("clone")
    given = parser.parse_args()
    source, clone = _read(given.source), _read(given.clone)
    sizes, tops = [], []
    print(f"{'column':45} {'distinct':>9} {'clone':>9} {'ratio':>7}  shares by rank, ratios")
    for name in sorted(source.keys() & clone.keys()):
        (one, shares), (other, made) = source[name], clone[name]
        if one == 0 or other == 0:
            print(f"{'.'.join(name):45} {one:9,.0f} {other:9,.0f}   only NULL on a side")
            continue
        ratios = [m / s for s, m in zip(shares, made, strict=False)]
        sizes.append(_factor(other / one))
        tops += [_factor(ratio) for ratio in ratios]
        told = " ".join(f"{ratio:7.2f}" for ratio in ratios)
        print(f"{'.'.join(name):45} {one:9,.0f} {other:9,.0f} {other / one:7.2f}  {told}")
    if sizes:
        mean = math.exp(sum(map(math.log, sizes)) / len(sizes))
        print(f"distinct values: median factor {median(sizes):.2f}, geometric mean {mean:.2f}")
        print(f"shares by rank: median factor {median(tops):.2f}")


if __name__ == "__main__":
    main()
