"""Family 2: inputs made to break a bound, a rule or the machine."""

import numpy as np
import pyarrow as pa
import pytest
from harness import check
from private_tables import of_tables, two_tables
from stability import judge, remove_unit

from privbench.domain import Domain
from privbench.postgres.keys import match
from privbench.privacy import queries as q
from privbench.privacy.data import Cells, Grid, Labels, PrivateDatabase, PrivateTable
from privbench.privacy.query import GRID
from privbench.privacy.recoding import NULL, EdgesRecoding, LabelsRecoding
from privbench.privacy.spec import KeySpec
from privbench.privacy.units import BOTTOM, NONE

MILLION = 10**6


@pytest.fixture(scope="module")
def glutton():
    """User 0 owns 10⁶ rows with 10⁶ distinct strings; users 1 to 9 own ten each."""
    owners = np.concatenate([np.zeros(MILLION, np.int32), np.repeat(np.arange(1, 10), 10)])
    rows = np.arange(owners.size)
    return two_tables(
        owners,
        [rows % 7],
        [7],
        refs=np.full(owners.size, 5),
        tau=2,
        g=Grid(rows * 10**6),
        # Strings of its own for the one, three that they share for the others.
        l=Labels(np.where(owners, MILLION + rows % 3, rows), pa.array(rows.astype(str))),
    )


def test_claims_hold_when_a_unit_of_a_million_rows_goes(glutton):
    table = glutton.spec.tables["posts"]
    asked = [
        q.Total("posts"),
        q.Histogram.of(glutton.spec, "posts", ("a0",)),
        q.GridHistogram("posts", "g", q.PublicArray([0, 10**9, 10**12])),
        q.LabelCounts("posts", "l", most=3),
        q.RankedCounts("posts", "l"),
        q.Histogram("users", (q.Children(table.key("own")),)),
        q.FanIn(table.key("ref")),
        q.Histogram("posts", (q.Refers(table.key("ref")),)),
    ]
    report = check(asked, glutton, units=[("users", 0), ("users", 5)])
    assert report.ok
    assert report.worst[0] == 1.0
    assert report.worst[1] > 0.13
    assert report.worst[3] > 0.3


def test_a_million_distinct_strings_count_for_one(glutton):
    """Nine units with three shared strings each, in equal parts: each counts 1/√3 for each."""
    cells, counts = q.LabelCounts("posts", "l", most=3).evaluate_labels(glutton)
    assert cells.tolist() == [0]
    assert len(counts) == 3
    assert sum(counts.values()) == pytest.approx(3 * GRID * (9 / 3**0.5 - 1), rel=0.3)
    ranked = q.RankedCounts("posts", "l").evaluate(glutton)
    assert ranked.sum() == pytest.approx(10 * GRID, rel=1e-6)


def test_columns_and_keys_that_are_all_null():
    rows = 30
    database = two_tables(
        [NONE] * rows,
        refs=[NONE] * rows,
        g=Grid(np.full(rows, NULL)),
        l=Labels(np.full(rows, -1), []),
    )
    ref = database.spec.tables["posts"].key("ref")
    for attribute in ("l", "g"):
        cells, counts = q.LabelCounts("posts", attribute).evaluate_labels(database)
        assert (cells.tolist(), counts) == ([0], {})
    for query in (
        q.GridHistogram("posts", "g", q.PublicArray([0, 5])),
        q.RankedCounts("posts", "l"),
        q.RankedCounts("posts", "g"),
        q.FanIn(ref),
    ):
        assert not query.evaluate(database).any()
    assert q.Histogram("posts", (q.Refers(ref),)).evaluate(database)[1] == 0
    database.recode("posts", "g", EdgesRecoding((0, 1), nullable=True))
    database.recode("posts", "l", LabelsRecoding((), nullable=True))
    cells = q.Histogram.of(database.spec, "posts", ("g", "l")).evaluate(database)
    assert cells[1, 1] == cells.sum() > 0


def test_fan_in_of_a_hub_above_the_last_bucket_stays_in_it():
    rows = 5000
    database = two_tables(range(rows), refs=[0] * rows)
    query = q.FanIn(database.spec.tables["posts"].key("ref"), buckets=3)
    assert query.evaluate(database).tolist() == [(rows - 1) * GRID, 0, 0, GRID]
    assert check([query], database, units=[("users", 0), ("users", 1)]).ok


#: Names of users, two of them equal, and the names that 504 posts hold as their keys.
USERS = ["ann", "bob", "ann", "eve"]
POSTS = ["ann"] * 500 + ["bob"] * 3 + [None]


def without(database, gone):
    """The neighbour by definition (P9), from the keys: not what `remove_unit` makes of edges.

    A row goes with the one owner of its key; every other edge into a user who goes is marked, also
    where another user has the same key.
    """
    equal = [[user for user, name in enumerate(USERS) if name == post] for post in POSTS]
    owned = database.spec.tables["posts"].own is not None
    stays = np.array([not owned or users != [gone] for users in equal])
    edges = np.array([
        NONE if not users else BOTTOM if len(users) > 1 or gone in users else users[0]
        for users in equal
    ])  # fmt: skip
    edges = np.where(edges > gone, edges - 1, edges)[stays]
    codes = database._tables["posts"]._attributes["a"]._restrict(stays)
    tables = {
        "users": PrivateTable(len(USERS) - 1, {}, {}),
        "posts": PrivateTable(int(stays.sum()), {"a": codes}, {"key": edges}),
    }
    ranks = {"users": np.zeros(len(USERS) - 1, np.int32)}
    ranks["posts"] = database._units.ranks("posts")[stays]
    return PrivateDatabase(database.spec, tables, ranks)


@pytest.mark.parametrize("gone", range(len(USERS)))
@pytest.mark.parametrize("role", ["own", "ref"])
def test_rows_under_two_equal_parents_stay_as_they_are_when_either_goes(role, gone):
    """Their edges lead to no row before and after it, and a row with such an owner is a unit."""
    key = KeySpec("key", "posts", "users", role, nullable=True)
    codes = Cells(np.arange(len(POSTS)) % 2, Domain(2))
    edges = match([pa.array(POSTS)], [pa.array(USERS)])
    posts = (len(POSTS), {"a": codes}, {key: edges})
    database = of_tables(users=(len(USERS), {}), posts=posts)
    column = q.Column("a", 2)
    asked = [
        q.Total("users"),
        q.Total("posts"),
        q.Histogram("posts", (q.UnitRows("posts"), column)),
    ]
    if role == "own":
        asked.append(q.Histogram("users", (q.Children(key),)))
    else:
        asked.append(q.FanIn(key))
        asked.append(q.Histogram("posts", (q.Refers(key, own=True),)))
        asked.append(q.TargetHistogram(key, (column,), (q.Whole(),), cap=4))
    neighbour = without(database, gone)
    for query in asked:
        before, after = query.evaluate(database), query.evaluate(neighbour)
        claims = list(judge(query, database.spec, "users", before, after))
        assert all(ratio <= 1 for _, ratio in claims), (query.kind, claims)
        assert (query.evaluate(remove_unit(database, "users", gone)) == after).all()
    assert check(asked, database, every=True).ok
