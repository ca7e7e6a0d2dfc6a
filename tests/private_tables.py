"""Private databases of arrays, for tests that need no rows of a server."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from privbench.domain import Domain
from privbench.privacy import (
    Accountant,
    Accounting,
    DatabaseSpec,
    KeySpec,
    Relation,
    Session,
    TableSpec,
    open_session,
)
from privbench.privacy.data import (
    Cells,
    PrivateDatabase,
    PrivateTable,
)
from privbench.privacy.noise import NoiseSource
from privbench.privacy.queries import Total

#: Codes and domain of every column.
Columns = dict[str, tuple[np.ndarray, Domain]]
#: Of every key, the parent's row of each row.
Keys = dict[KeySpec, np.ndarray]
#: A session, noisy totals of its tables, and the amount that is left.
Started = tuple[Session, dict[str, float], float]


def private_database(
    tables: Mapping[str, tuple[int, Columns, Keys]], relation: Relation | None = None
) -> PrivateDatabase:
    """A database of tables, each of so many rows, some columns and some keys.

    Rows are there since the date of a column of this name.
    """
    specs = {
        name: TableSpec(name, {}, tuple(keys), created="since" if "since" in columns else "")
        for name, (_, columns, keys) in tables.items()
    }
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


def started(
    database: PrivateDatabase,
    ledger: Path,
    epsilon: float,
    accounting: Accounting = "pure",
    noise: NoiseSource | None = None,
    *,
    share: float = 0.05,
    delta: float = 1e-9,
) -> Started:
    """What a synthesizer's fit begins with; the totals take that share of the budget."""
    accountant = Accountant(accounting, epsilon, delta if accounting == "zcdp" else 0.0)
    session = open_session(database, accountant, ledger, "t", noise=noise)
    each = share * session.amount_total / len(session.spec.tables)
    totals = {
        name: max(float(session.measure(Total(name), each, f"total of {name}")[0]), 1.0)
        for name in session.spec.tables
    }
    return session, totals, (1 - share) * session.amount_total
