"""Family 2: inputs made to break a bound, a rule or the machine."""

import numpy as np
import pyarrow as pa
import pytest
from harness import check
from small_databases import ADD, ROW, fill, queries, recodings, settled, table_names, two_tables
from stability import judge, remove_unit

from privbench.domain import Domain
from privbench.postgres.keys import match
from privbench.privacy import queries as q
from privbench.privacy.data import Cells, Grid, Labels, PrivateDatabase, PrivateTable
from privbench.privacy.query import GRID, Query
from privbench.privacy.recoding import NULL, EdgesRecoding, LabelsRecoding
from privbench.privacy.spec import DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.privacy.units import BOTTOM, NONE

MILLION = 10**6


@pytest.fixture(scope="module")
def glutton() -> PrivateDatabase:
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


def test_check_of_a_unit_of_a_million_rows_holds(glutton: PrivateDatabase) -> None:
    table = glutton.spec.tables["posts"]
    asked: list[Query] = [
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


def test_a_million_distinct_strings_count_for_one(glutton: PrivateDatabase) -> None:
    """Nine units with three shared strings each, in equal parts: each counts 1/√3 for each."""
    cells, counts = q.LabelCounts("posts", "l", most=3).evaluate_labels(glutton)
    assert cells.tolist() == [0]
    assert len(counts) == 3
    assert sum(counts.values()) == pytest.approx(3 * GRID * (9 / 3**0.5 - 1), rel=0.3)
    ranked = q.RankedCounts("posts", "l").evaluate(glutton)
    assert ranked.sum() == pytest.approx(10 * GRID, rel=1e-6)
    ready = glutton.copy()
    domain = ready.recode("posts", "l", LabelsRecoding(("17", "no such"), nullable=True))
    found = q.Histogram.of(ready.spec, "posts", ("l",)).evaluate(ready)
    assert domain.size == 4
    assert (found > 0).tolist() == [True, False, True, False]


@pytest.mark.parametrize("relation", [ADD, ROW], ids=str)
def test_empty_tables_answer_every_query(relation: Relation) -> None:
    names = table_names(2)
    keys = (KeySpec("ref0", names[1], names[0], "ref", nullable=True),)
    if relation == ADD:
        keys = (KeySpec("own", names[1], names[0], "own", nullable=True), *keys)
    spec = DatabaseSpec(
        {names[0]: TableSpec(names[0], {}), names[1]: TableSpec(names[1], {}, keys)}, relation
    )
    database = fill(spec, 0, 1)
    ready = settled(database)
    for query in queries(ready.spec):
        if isinstance(query, q.LabelCounts):
            cells, counts = query.evaluate_labels(database)
            assert not cells.any()
            assert counts == {}
        elif "scores" not in query.kind:
            found = query.evaluate(database if query.reads_raw else ready)
            assert found.shape == query.shape
            assert not found.any()
    assert check(queries(ready.spec), database, recodings=recodings(spec)).neighbours == 0


def test_columns_and_keys_that_are_all_null() -> None:
    rows = 30
    database = two_tables(
        [NONE] * rows,
        refs=[NONE] * rows,
        g=Grid(np.full(rows, NULL)),
        l=Labels(np.full(rows, -1), []),
        c=Cells(np.full(rows, 2), Domain(2, nullable=True)),
    )
    table = database.spec.tables["posts"]
    nothing = q.GridHistogram("posts", "g", q.PublicArray([0, 5])).evaluate(database)
    assert nothing.tolist() == [0, 0, 0]
    for attribute in ("l", "g"):
        cells, counts = q.LabelCounts("posts", attribute).evaluate_labels(database)
        assert (cells.tolist(), counts) == ([0], {})
        assert not q.RankedCounts("posts", attribute).evaluate(database).any()
    assert q.Histogram.of(database.spec, "posts", ("c",)).evaluate(database).tolist()[:2] == [0, 0]
    assert q.FanIn(table.key("ref")).evaluate(database).tolist() == [0] * 11
    assert q.Histogram("posts", (q.Refers(table.key("ref")),)).evaluate(database)[1] == 0
    ready = database.copy()
    ready.recode("posts", "g", EdgesRecoding((0, 1), nullable=True))
    ready.recode("posts", "l", LabelsRecoding((), nullable=True))
    found = q.Histogram.of(ready.spec, "posts", ("g", "l")).evaluate(ready)
    assert found[1, 1] == found.sum() > 0


def test_fan_in_of_a_hub_above_the_last_bucket_stays_in_it() -> None:
    """A target of far more edges than the tables reach stays in the last bucket."""
    rows = 5000
    database = two_tables(range(rows), refs=[0] * rows)
    key = database.spec.tables["posts"].key("ref")
    query = q.FanIn(key, buckets=3)
    assert query.evaluate(database).tolist() == [(rows - 1) * GRID, 0, 0, GRID]
    assert check([query], database, units=[("users", 0), ("users", 1)]).ok


#: Names of users, two of them equal, and the names that 504 posts hold as their keys.
USERS = ["ann", "bob", "ann", "eve"]
POSTS = ["ann"] * 500 + ["bob"] * 3 + [None]


def without(database: PrivateDatabase, gone: int) -> PrivateDatabase:
    """The neighbour by definition (P9), from the keys: not what `remove_unit` makes of edges.

    A row goes with the one owner of its key; every other edge into a user who goes is marked, also
    where another user has the same key.
    """
    equal = [[user for user, name in enumerate(USERS) if name == post] for post in POSTS]
    stays = np.array([users != [gone] for users in equal])
    table = database._tables["posts"]
    if database.spec.tables["posts"].own is None:
        stays[:] = True
    edges = [
        NONE if not users else BOTTOM if users != users[:1] or gone in users else users[0]
        for users in equal
    ]
    moved = {name: np.array(edges)[stays] for name in table._parents}
    moved = {name: np.where(e > gone, e - 1, e) for name, e in moved.items()}
    ranks = {"users": np.zeros(len(USERS) - 1, np.int32)}
    ranks["posts"] = database._units.ranks("posts")[stays]
    tables = {
        "users": PrivateTable(len(USERS) - 1, {}, {}),
        "posts": PrivateTable(
            int(stays.sum()),
            {name: item._restrict(stays) for name, item in table._attributes.items()},
            moved,
        ),
    }
    return PrivateDatabase(database.spec, tables, ranks)


@pytest.mark.parametrize("gone", range(len(USERS)))
@pytest.mark.parametrize("role", ["own", "ref"])
def test_rows_under_two_equal_parents_stay_as_they_are_when_either_goes(
    role: str, gone: int
) -> None:
    """Their edges lead to no row before and after it, and a row with such an owner is a unit."""
    edges = match([pa.array(POSTS)], [pa.array(USERS)])
    key = KeySpec("key", "posts", "users", role, nullable=True)  # type: ignore[arg-type]
    spec = DatabaseSpec(
        {"users": TableSpec("users", {}), "posts": TableSpec("posts", {}, (key,), tau=2)}
    )
    codes = Cells(np.arange(len(POSTS)) % 2, Domain(2))
    database = PrivateDatabase(
        spec,
        {
            "users": PrivateTable(len(USERS), {}, {}),
            "posts": PrivateTable(len(POSTS), {"a": codes}, {"key": edges}),
        },
    )
    asked: list[Query] = [
        q.Total("users"),
        q.Total("posts"),
        q.Histogram.of(database.spec, "posts", ("a",)),
        q.Histogram("posts", (q.UnitRows("posts"), q.Column("a", 2))),
    ]
    if role == "own":
        asked.append(q.Histogram("users", (q.Children(key),)))
    else:
        asked += [q.FanIn(key), q.TargetHistogram(key, (q.Column("a", 2),), (q.Whole(),), cap=4)]
        asked.append(q.Histogram("posts", (q.Refers(key, own=True),)))
    neighbour = without(database, gone)
    for query in asked:
        before, after = query.evaluate(database), query.evaluate(neighbour)
        claims = list(judge(query, database.spec, "users", before, after))
        assert all(ratio <= 1 for _, ratio in claims), (query.kind, claims)
        assert (query.evaluate(remove_unit(database, "users", gone)) == after).all()
    assert check(asked, database, every=True).ok
