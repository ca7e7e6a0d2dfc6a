"""How often noise makes rows of empty tables, and how many owners a table needs to keep its own."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.synthesizers.independent import IndependentSynthesizer

USERS, RELEASES = 2000, 8
OWNED = {"none": 0, "few": 150}


@pytest.fixture(scope="module")
def database() -> PrivateDatabase:
    """Users of whom 150 have rows in one table and nobody in another; a root table is empty too."""
    g = np.random.default_rng(1)
    keys = {name: KeySpec("user", name, "users", "own") for name in OWNED}
    specs = {"users": TableSpec("users", {}), "alone": TableSpec("alone", {})}
    specs |= {name: TableSpec(name, {}, (key,)) for name, key in keys.items()}
    rows = {"users": USERS, "alone": 0, **{name: 4 * count for name, count in OWNED.items()}}
    tables = {
        name: PrivateTable(
            count,
            {"kind": Cells(g.integers(0, 3, count), Domain(3))},
            {"user": np.repeat(np.arange(count // 4), 4)} if name in OWNED else {},
        )
        for name, count in rows.items()
    }
    return PrivateDatabase(DatabaseSpec(specs), tables)


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_empty_tables_stay_empty_and_others_keep_their_rows(begin, database, accounting):
    sizes, asked = [], set()
    for seed in range(RELEASES):
        session, totals, amount = begin(database, 1.5, accounting, seed + 1)
        model = IndependentSynthesizer().fit(session, totals, amount)
        sizes.append({name: table.rows for name, table in model.sample(1.0, seed).tables.items()})
        asked.add(tuple(step.event.label for step in session.trace))
    filled = {name: sum(size[name] > 0 for size in sizes) for name in sizes[0]}
    # Half of the empty tables may come out with rows, but with few.
    assert filled["none"] + filled["alone"] <= 11
    assert np.median([size["none"] + size["alone"] for size in sizes]) < USERS / 10
    assert filled["users"] == filled["few"] == RELEASES
    # What is asked does not depend on it.
    assert len(asked) == 1
