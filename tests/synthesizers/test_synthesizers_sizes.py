"""Sizes of tables that hang several keys under few units, at ε = 3."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.privacy import DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.synthesizers.graphical import GraphicalSynthesizer

UNITS = 150


def under(table, parent, *, nullable=False):
    return KeySpec(f"{table}_{parent}", table, parent, "own", nullable=nullable)


KEYS = {
    "teams": (),
    "boards": (under("boards", "teams"),),
    "cards": (under("cards", "boards"),),
    "labels": (under("labels", "cards"),),
    "members": (under("members", "teams"),),
    "notes": (under("notes", "members"),),
    "files": (under("files", "notes", nullable=True),),
}


def make_work(relation="add-remove") -> PrivateDatabase:
    """Every team has 3 boards of 5 cards with 2 labels; of its members one writes all 18 notes.

    Of 450 files two thirds have no note; the others belong to few.
    """
    g = np.random.default_rng(4)
    owners = {
        "boards": np.repeat(np.arange(UNITS), 3),
        "cards": np.repeat(np.arange(3 * UNITS), 5),
        "labels": np.repeat(np.arange(15 * UNITS), 2),
        "members": np.sort(np.append(np.arange(UNITS), g.integers(0, UNITS, 6 * UNITS))),
    }
    first = np.searchsorted(owners["members"], np.arange(UNITS))
    owners["notes"] = np.repeat(first, 18)
    owners["files"] = np.concatenate([np.repeat(np.arange(150), 1), np.full(300, -1)])
    rows = {"teams": UNITS, **{name: len(edges) for name, edges in owners.items()}}
    tables = {
        name: PrivateTable(
            count,
            {"kind": Cells(g.integers(0, 3, count), Domain(3))},
            {KEYS[name][0].name: owners[name]} if KEYS[name] else {},
        )
        for name, count in rows.items()
    }
    specs = {name: TableSpec(name, {}, keys) for name, keys in KEYS.items()}
    return PrivateDatabase(DatabaseSpec(specs, Relation(relation)), tables)


REAL = {
    "boards": 450, "cards": 2250, "labels": 4500, "members": 1050, "notes": 2700, "files": 450,
}  # fmt: skip


@pytest.fixture
def made(begin):
    """``made(seed)``: sizes of a clone that is fitted with this noise."""

    def sizes(seed):
        session, totals, amount = begin(make_work(), 3.0, noise=seed)
        model = GraphicalSynthesizer().fit(session, totals, amount)
        return {name: table.rows for name, table in model.sample(1.0, seed).tables.items()}

    return sizes


def test_levels_do_not_multiply_what_is_off(made):
    """Where fan-outs and first totals alone told sizes, each seed was off by 2 or more somewhere.

    Two seeds in six may be off still: noise like units where there are none is not told from them.
    In half of the seeds noise hides the 300 files without a note, so their size may be half.
    """
    off = []
    for seed in range(1, 7):
        sizes = made(seed)
        off.append([abs(np.log((sizes[name] + 20) / (real + 20))) for name, real in REAL.items()])
    middle = dict(zip(REAL, np.median(off, axis=0), strict=True))
    assert middle.pop("files") < np.log(2.0), off
    assert max(middle.values()) < np.log(1.4), off
    assert (np.max(np.array(off)[:, :-1], axis=1) < np.log(2.0)).sum() >= 4, off


def make_staff() -> PrivateDatabase:
    """Of 3,000 employees 24 manage a department; all have a title, and up to nine salaries."""
    g, staff = np.random.default_rng(5), 3000
    owners = {
        "managers": np.arange(0, staff, staff // 24)[:24],
        "salaries": np.repeat(np.arange(staff), np.arange(staff) % 9 + 1),
        "titles": np.arange(staff),
    }
    keys = {name: (under(name, "staff"),) for name in owners}
    tables = {
        name: PrivateTable(
            len(edges),
            {"kind": Cells(g.integers(0, 6, len(edges)), Domain(6))},
            {keys[name][0].name: edges},
        )
        for name, edges in owners.items()
    }
    tables["staff"] = PrivateTable(staff, {"kind": Cells(g.integers(0, 6, staff), Domain(6))}, {})
    specs = {name: TableSpec(name, {}, keys.get(name, ())) for name in tables}
    return PrivateDatabase(DatabaseSpec(specs, Relation("add-remove")), tables)


def test_a_table_of_few_rows_is_not_swelled_by_noise(begin):
    """Managers were a thousand at ε = 0.5: a mean near one per employee was the likeliest."""
    managers = []
    for seed in range(1, 10):
        session, totals, amount = begin(make_staff(), 0.5, noise=seed)
        model = GraphicalSynthesizer().fit(session, totals, amount)
        sizes = {name: table.rows for name, table in model.sample(1.0, seed).tables.items()}
        managers.append(sizes["managers"])
        assert sizes["titles"] == pytest.approx(3000, rel=0.25)
        assert sizes["salaries"] == pytest.approx(15_000, rel=0.4)
    assert np.median(managers) < 300, managers
