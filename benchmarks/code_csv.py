"""Code a CSV file to small integers by a public declaration, for `single_table.py`.

    python benchmarks/code_csv.py TABLE.csv benchmarks/posts.toml CODED.csv DOMAIN.json

The declaration holds one section for every column to keep. It says what the cells are, and nothing
in it may come from the rows:

    [Kind]                  a list of values; whatever is not listed is one more cell
    values = ["1", "2"]

    [Score]                 numbers or dates: equal cells between two ends
    min = -20
    max = 60
    bins = 80

    [Views]                 or cells between declared edges
    edges = [0, 1, 2, 5, 10, 100]

What lies beyond the ends counts as the end cells. ``nullable = true`` adds a cell for empty fields;
without it a column with empty fields is refused. The domains say which columns are ordered.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Codes = NDArray[np.int64]


def code(column: pd.Series[str], name: str, declared: dict[str, Any]) -> tuple[Codes, int]:
    """Codes of one column, and how many there are besides NULL's.

    Args:
        column: Text of every field; empty ones are missing.
        name: The column's name, for messages.
        declared: Its section of the declaration.
    """
    known = set(declared) - {"nullable"}
    if known == {"values"}:
        values = [str(value) for value in declared["values"]]
        found = pd.Index(values).get_indexer(pd.Index(column))
        return np.where(found < 0, len(values), found).astype(np.int64), len(values) + 1
    if known not in ({"edges"}, {"min", "max", "bins"}):
        sys.exit(f"{name}: give values, or edges, or min, max and bins")
    ends = declared["edges"] if "edges" in known else [declared["min"], declared["max"]]
    dated = not isinstance(ends[0], int | float)
    points = _seconds(column) if dated else pd.to_numeric(column).to_numpy(np.float64)
    marks = _seconds(pd.Series([str(end) for end in ends])) if dated else np.array(ends, float)
    if "bins" in known:
        marks = np.linspace(marks[0], marks[1], int(declared["bins"]) + 1)
    cells = np.searchsorted(marks, points, side="right") - 1
    return np.clip(cells, 0, len(marks) - 2).astype(np.int64), len(marks) - 1


def _seconds(column: pd.Series[str]) -> NDArray[np.float64]:
    times = pd.to_datetime(column).to_numpy("datetime64[s]")
    return np.asarray(times.astype(np.int64), np.float64)


def main() -> None:
    """Code the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("table", "declaration", "coded", "domain"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    declared = tomllib.loads(options.declaration.read_text(encoding="utf-8"))
    rows = pd.read_csv(options.table, dtype=str, usecols=list(declared))
    coded, domains = {}, {}
    for name, section in declared.items():
        codes, size = code(rows[name], name, section)
        missing = rows[name].isna().to_numpy()
        nullable = bool(section.get("nullable", False))
        if missing.any() and not nullable:
            sys.exit(f"{name}: has empty fields; say nullable = true")
        coded[name] = np.where(missing, size, codes)
        domains[name] = {"size": size + nullable, "ordered": "values" not in section}
        domains[name]["nullable"] = nullable
    pd.DataFrame(coded).to_csv(options.coded, index=False)
    options.domain.write_text(json.dumps(domains, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
