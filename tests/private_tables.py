"""Private databases of arrays, for tests that need no rows of a server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

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
    tables: Mapping[str, tuple[Any, ...]], relation: Relation | None = None, **given: Any
) -> PrivateDatabase:
    """A database of tables: their numbers of rows, their columns, and parents by their keys.

    A column is an attribute, or codes and their domain. Rows are there since the date of a column
    of this name. What else is ``given`` is said of each table.
    """
    specs, rows_of = {}, {}
    for name, (rows, columns, *more) in tables.items():
        keys = more[0] if more else {}
        created = "since" if "since" in columns else ""
        specs[name] = TableSpec(name, {}, tuple(keys), created=created, **given)
        attributes = {
            column: Cells(*values) if isinstance(values, tuple) else values
            for column, values in columns.items()
        }
        parents = {key.name: np.asarray(edges, np.int64) for key, edges in keys.items()}
        rows_of[name] = PrivateTable(rows, attributes, parents)
    return PrivateDatabase(DatabaseSpec(specs, relation or Relation()), rows_of)


def of_tables(relation: Relation | None = None, **tables: tuple[Any, ...]) -> PrivateDatabase:
    """The same of tables by their names, in which a unit's only row weighs 1."""
    return private_database(tables, relation, tau=1)


def two_tables(
    owners: Sequence[int],
    cells: Sequence[Sequence[int]] = (),
    sizes: Sequence[int] = (),
    *,
    users: int | None = None,
    refs: Sequence[int] | None = None,
    bound: Literal["weights", "truncation"] = "weights",
    tau: int = 1,
    relation: Relation | None = None,
    unique: bool = False,
    **attributes: Attribute,
) -> PrivateDatabase:
    """Users who own posts; posts have the given cells and attributes, and refer by ``ref``.

    If ``unique``, the schema says that each user has one post at most.
    """
    count = max(owners, default=-1) + 1 if users is None else users
    keys = {KeySpec("own", "posts", "users", "own", nullable=True, unique=unique): owners}
    if refs is not None:
        keys[KeySpec("ref", "posts", "users", "ref", nullable=True)] = refs
    columns = {
        f"a{place}": (np.array(codes, np.int64), Domain(size))
        for place, (codes, size) in enumerate(zip(cells, sizes, strict=True))
    }
    tables = {"users": (count, {}), "posts": (len(owners), {**columns, **attributes}, keys)}
    return private_database(tables, relation, bound=bound, tau=tau)


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
