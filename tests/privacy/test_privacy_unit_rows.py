"""The number of rows in a row's unit: definition, claims and mutants."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import caught
from hypothesis import given, settings
from hypothesis import strategies as st
from small_databases import fill, specs, two_tables

from privbench.domain import Domain
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.privacy.queries import Histogram, UnitRows
from privbench.privacy.spec import DatabaseSpec, KeySpec, TableSpec

QUICK = settings(max_examples=30, deadline=None)
SEED = st.integers(0, 2**32)


def links(bound: Any = "weights", tau: int = 1) -> PrivateDatabase:
    """User 0 owns eight posts, three of them with links; user 1 one with, user 2 one without."""
    own = KeySpec("own", "posts", "users", "own")
    deep = KeySpec("own", "links", "posts", "own")
    see = KeySpec("see", "links", "posts", "ref", nullable=True)
    spec = DatabaseSpec(
        {
            "users": TableSpec("users", {}),
            "posts": TableSpec("posts", {}, (own,), bound, tau),
            "links": TableSpec("links", {}, (deep, see)),
        }
    )
    cells = Cells(np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1]), Domain(2))
    tables = {
        "users": PrivateTable(3, {}, {}),
        "posts": PrivateTable(10, {"c": cells}, {"own": np.array([0] * 8 + [1, 2])}),
        "links": PrivateTable(
            6, {}, {"own": np.array([2, 2, 5, 7, 8, 8]), "see": np.array([9, 9, 9, 9, 9, 3])}
        ),
    }
    return PrivateDatabase(spec, tables)


def test_unit_rows_count_the_own_unit() -> None:
    database = links()
    assert UnitRows("links", (0, 1, 4)).codes(database, "users").tolist() == [2, 1, 0]
    assert UnitRows("links", (0, 1, 4)).codes(database, "posts").tolist() == [2] * 8 + [1, 0]
    assert UnitRows("posts", (0, 1, 2)).codes(database, "posts").tolist() == [2] * 8 + [1, 1]
    assert UnitRows("users", (0, 1)).codes(database, "links").tolist() == [1] * 6
    asked = Histogram.of(database.spec, "posts", ("c", UnitRows("links", (0, 1, 4))))
    assert caught(asked, database) == set()


@given(data=st.data(), seed=SEED)
@QUICK
def test_unit_rows_in_any_database(data: st.DataObject, seed: int) -> None:
    database = fill(data.draw(specs()), 12, seed)
    names = list(database.spec.tables)
    for name in names:
        for other in names:
            theirs = database._units.identity(other).tolist()
            counts = [theirs.count(unit) for unit in database._units.identity(name).tolist()]
            codes = UnitRows(other, tuple(range(13))).codes(database, name)
            assert codes.tolist() == counts


class RowsThatRefer(UnitRows):
    """The number of rows that refer to the row: other units' doing."""

    def read(self, data: PrivateDatabase, table: str) -> Any:
        edges = data._parents(data.spec.tables["posts"].key("ref"))
        counts = np.bincount(edges[edges >= 0], minlength=data._rows(table))
        return np.minimum(counts, self.size - 1).astype(np.uint16), None


def test_rows_that_refer_are_no_rows_of_the_unit() -> None:
    owners, refs = [0] * 20, list(range(1, 21))
    database = two_tables(owners, refs=refs, users=21)
    for axis, reasons in (
        (UnitRows("posts", (0, 1, 2)), set()),
        (RowsThatRefer("posts", (0, 1, 2)), {"l1", "l2", "linf"}),
    ):
        query = Histogram("users", (axis,))
        assert caught(query, database, units=[("users", 0)]) == reasons
