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
    Attribute,
    Cells,
    Grid,
    Labels,
    PrivateDatabase,
    PrivateTable,
    Words,
)
from privbench.privacy.noise import NoiseSource
from privbench.privacy.queries import Total
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF
from privbench.privacy.units import BOTTOM

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


def emptied(rows: PrivateDatabase) -> PrivateDatabase:
    """The database without a row: the neighbour of a neighbour, and so on, of any."""
    return foreign(rows, {}, most=0)


def foreign(
    rows: PrivateDatabase, public: Mapping[str, int], *, most: int = 90, seed: int = 1
) -> PrivateDatabase:
    """A database of the same spec that has nothing to do with these rows, lawful or not.

    ``public`` are the numbers of rows of the public tables.
    """
    rng = np.random.default_rng(seed)
    counts = {name: int(rng.integers(most // 2, most + 1)) for name in rows.spec.tables}
    tables = {}
    for name, table in rows.spec.tables.items():
        held, count = rows._tables[name], counts[name]
        tables[name] = PrivateTable(
            count,
            {place: _foreign(item, rng, count) for place, item in held._attributes.items()},
            {
                key.name: rng.integers(BOTTOM, (counts | public).get(key.parent, 0), count)
                for key in table.keys
            },
        )
    return PrivateDatabase(rows.spec, tables)


def _foreign(attribute: Attribute, rng: np.random.Generator, count: int) -> Attribute:
    if isinstance(attribute, Cells):
        return Cells(rng.integers(attribute.domain.size, size=count), attribute.domain)
    labels = Labels(rng.integers(-1, 9, count), [f"foreign {number}" for number in range(9)])
    if isinstance(attribute, Labels):
        return labels
    if isinstance(attribute, Words):
        firsts = rng.integers(-1, 200, count).astype(np.int32)
        return Words(labels, np.arange(1, count + 1), firsts)
    special = np.array([NULL, NAN, NEG_INF, POS_INF])[rng.integers(0, 4, count)]
    return Grid(np.where(rng.random(count) < 0.2, special, rng.integers(-(2**50), 2**50, count)))
