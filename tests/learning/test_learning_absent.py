"""Tables of which nothing can be told from noise come out empty."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.learning.absent import emptied, needed
from privbench.learning.assemble import TableModel, expected_units
from privbench.learning.attach import own_edges
from privbench.learning.fanlaw import law_from_counts
from privbench.learning.keys import KeyModel
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec


def table(name: str, **keys: tuple[str, str, bool]) -> TableSpec:
    """A table with its keys: name → (target, role, whether it may be NULL)."""
    made = (KeySpec(key, name, to, role, null, False) for key, (to, role, null) in keys.items())
    return TableSpec(name, {}, tuple(made))


SPEC = DatabaseSpec(
    {
        item.name: item
        for item in (
            table("shop"),
            table("city"),
            table("user", city=("city", "ref", True), shop=("shop", "ref", False)),
            table("order", user=("user", "own", False)),
            table("line", order=("order", "own", False)),
        )
    }
)


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ((), ()),
        (("city",), ("city",)),
        (("user",), ("user", "shop")),
        (("line",), ("line", "order", "user", "shop")),
    ],
)
def test_rows_keep_what_they_must_refer_to(told, kept):
    assert needed(SPEC, told) == frozenset(kept)


def test_an_empty_table_has_no_rows_whatever_bucket_its_owners_have():
    starts = np.array([0, 1, 3])
    law = law_from_counts(np.array([1.0, 4.0, 5.0]), starts, np.array([0, 2, 9]))
    tables = {
        name: TableModel(
            50.0,
            {
                key.name: KeyModel.of(key, law=law, null=7.0 * key.nullable)
                for key in SPEC.tables[name].keys
            },
        )
        for name in SPEC.tables
    }
    drawn = {name: emptied(table) if name != "user" else table for name, table in tables.items()}
    assert drawn["city"].rows == 0.0
    edges = own_edges(drawn["order"].own, 9, 1.0, np.random.default_rng(1), np.arange(9) % 3)
    assert len(edges) == 0
    assert expected_units(drawn) == {"city": 0.0, "shop": 0.0, "user": 50.0, "order": 0, "line": 0}
    assert expected_units(tables)["order"] == pytest.approx(45.0)
