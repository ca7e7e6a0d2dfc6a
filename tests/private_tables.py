"""Private databases of arrays, for tests that need no rows of a server."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privbench.domain import Domain
from privbench.privacy import DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable

#: Codes and domain of every column.
Columns = dict[str, tuple[np.ndarray, Domain]]
#: Of every key, the parent's row of each row.
Keys = dict[KeySpec, np.ndarray]


def private_database(
    tables: Mapping[str, tuple[int, Columns, Keys]], relation: Relation | None = None
) -> PrivateDatabase:
    """A database of tables, each of so many rows, some columns and some keys."""
    specs = {name: TableSpec(name, {}, tuple(keys)) for name, (_, _, keys) in tables.items()}
    held = {
        name: PrivateTable(
            rows,
            {column: Cells(codes, domain) for column, (codes, domain) in columns.items()},
            {key.name: np.asarray(edges, np.int64) for key, edges in keys.items()},
        )
        for name, (rows, columns, keys) in tables.items()
    }
    return PrivateDatabase(DatabaseSpec(specs, relation or Relation()), held)


def single_table(columns: Columns, relation: Relation | None = None) -> PrivateDatabase:
    """A database of one table ``t``."""
    rows = len(next(iter(columns.values()))[0]) if columns else 0
    return private_database({"t": (rows, columns, {})}, relation)
