"""Family 2: inputs made to break a bound, a rule or the machine."""

import numpy as np
import pyarrow as pa
import pytest
from harness import check
from small_databases import ADD, ROW, fill, queries, recodings, settled, table_names, two_tables

from privbench.domain import Domain
from privbench.privacy import queries as q
from privbench.privacy.data import Cells, Grid, Labels, PrivateDatabase
from privbench.privacy.query import GRID, Query
from privbench.privacy.recoding import NULL, EdgesRecoding, LabelsRecoding
from privbench.privacy.spec import DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.privacy.units import NONE

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
