"""What answers tell together, and in which unit."""

import numpy as np
import pytest

from privbench.learning.answers import in_weight, joined, of_lists
from privbench.privacy import (
    Accountant,
    DatabaseSpec,
    KeySpec,
    Relation,
    SeededNoise,
    TableSpec,
    open_session,
)
from privbench.privacy.data import (
    EdgesRecoding,
    Grid,
    Labels,
    LabelsRecoding,
    PrivateDatabase,
    PrivateTable,
)
from privbench.privacy.queries import LabelCounts
from privbench.privacy.questions import Labels as List

#: Codes of texts, −1 for NULL: "a" is in 500 rows, "b" in 300, "c" in one.
CODES = np.repeat([0, 1, 2, -1], [500, 300, 1, 199])
#: Points: 5 is in 600 rows, 7 in 400.
POINTS = np.repeat([5, 7], [600, 400])


@pytest.fixture
def session(tmp_path):
    """A session on 1,000 users of one post each, whose texts and points are released."""
    key = KeySpec("own", "posts", "users", "own")
    spec = DatabaseSpec({"users": TableSpec("users", {}), "posts": TableSpec("posts", {}, (key,))})
    columns = {"l": Labels(CODES, ["a", "b", "c"]), "g": Grid(POINTS)}
    posts = PrivateTable(1000, {"l": Labels(CODES, ["a", "b", "c"])}, {"own": np.arange(1000)})
    tables = {"users": PrivateTable(1000, columns, {}), "posts": posts}
    database = PrivateDatabase(DatabaseSpec(spec.tables, Relation()), tables)
    accountant = Accountant("zcdp", 20.0, 1e-6)
    found = open_session(database, accountant, tmp_path, "t", noise=SeededNoise(1))
    asked = [("users", "l", "no such"), ("users", "g", "4"), ("posts", "l", "no such")]
    lists = [
        List(LabelCounts(table, name, public=(value,)), 0.5, "list", 1e-8)
        for table, name, value in asked
    ]
    found.ask(lists)
    return found


def test_of_lists_gives_counts_of_cells_and_none_of_owned_tables(session):
    session.recode("posts", "l", LabelsRecoding(("a", "b"), nullable=True))
    assert of_lists(session) == {}
    # Counts of a released list are those of its cells.
    session.recode("users", "l", LabelsRecoding(("a", "b", "no such"), nullable=True))
    noisy, sd = of_lists(session)["users", "l"]
    assert noisy[:3] == pytest.approx([500, 300, 0], abs=6)
    assert sd[:3] == pytest.approx([1.0, 1.0, 1.0], rel=0.01)
    assert np.isinf(sd[3:]).all()
    # Points count for the cells that begin with them.
    session.recode("users", "g", EdgesRecoding((0, 5, 6, 7), ("above",)))
    noisy, sd = of_lists(session)["users", "g"]
    assert noisy[1] == pytest.approx(600, abs=6)
    assert np.isinf(sd[[0, 2, 3]]).all()


def test_an_unknown_cell_takes_the_other_answer():
    first = np.array([10.0, 0.0]), np.array([1.0, np.inf])
    second = np.array([20.0, 30.0]), np.array([1.0, 2.0])
    noisy, sd = joined(first, second)
    assert noisy == pytest.approx([15.0, 30.0])
    assert sd == pytest.approx([0.5**0.5, 2.0])


def test_a_marginal_of_units_by_norms_is_scaled_to_what_is_expected():
    expected = np.array([100.0, 50.0, 0.0])
    noisy, sd = in_weight(1.5 * expected + np.array([5.0, -5.0, 8.0]), 8.0, expected)
    assert noisy[:2] == pytest.approx([100, 50], abs=6)
    assert sd == pytest.approx(8 / 1.5, rel=0.04)
    assert in_weight(-expected, 8.0, expected)[1] == 8.0
    assert in_weight(9 * expected, 9.0, expected)[1] == pytest.approx(9 / 3**0.5)
