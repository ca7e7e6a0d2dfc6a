"""What answers tell together and in which unit, and the law of values without a name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from private_tables import private_database

from privbench.encoding.surrogates import times
from privbench.learning.answers import Measured, of_lists
from privbench.learning.surrogates import surrogates
from privbench.privacy import Accountant, KeySpec, LabelRelease, SeededNoise, open_session
from privbench.privacy.data import Grid, Labels
from privbench.privacy.queries import LabelCounts
from privbench.privacy.queries.labels import BLOCKS, block_ends
from privbench.privacy.recoding import EdgesRecoding, LabelsRecoding

#: Codes of texts, −1 for NULL: "a" is in 500 rows, "b" in 300, "c" in one.
CODES = np.repeat([0, 1, 2, -1], [500, 300, 1, 199])
#: Points: 5 is in 600 rows, 7 in 400.
POINTS = np.repeat([5, 7], [600, 400])


@pytest.fixture
def session(tmp_path):
    """A session on 1,000 users of one post each, whose texts and points are released."""
    texts, own = Labels(CODES, ["a", "b", "c"]), KeySpec("own", "posts", "users", "own")
    users = (1000, {"l": texts, "g": Grid(POINTS)})
    database = private_database({"users": users, "posts": (1000, {"l": texts}, {own: range(1000)})})
    accountant = Accountant("zcdp", 20.0, 1e-6)
    asking = open_session(database, accountant, tmp_path, "t", noise=SeededNoise(1))
    columns = [("users", "l", "no such"), ("users", "g", "4"), ("posts", "l", "no such")]
    asking.ask([
        LabelRelease(LabelCounts(table, name, public=(value,)), 0.5, "list", 1e-8)
        for table, name, value in columns
    ])  # fmt: skip
    return asking


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
    first = Measured(None, np.array([10.0, 0.0]), np.array([1.0, np.inf]))
    noisy, sd = first.join(Measured(None, np.array([20.0, 30.0]), np.array([1.0, 2.0])))
    assert noisy == pytest.approx([15.0, 30.0])
    assert sd == pytest.approx([0.5**0.5, 2.0])


def test_a_marginal_of_units_by_norms_is_scaled_to_what_is_expected():
    expected = np.array([100.0, 50.0, 0.0])
    counts = 1.5 * expected + np.array([5.0, -5.0, 8.0])
    noisy, sd = Measured(None, counts, 8.0).in_weight(expected)
    assert noisy[:2] == pytest.approx([100, 50], abs=6)
    assert sd == pytest.approx(8 / 1.5, rel=0.04)
    assert Measured(None, -expected, 8.0).in_weight(expected).sd == 8.0
    scaled = Measured(None, 9 * expected, 9.0).in_weight(expected)
    assert scaled.sd == pytest.approx(9 / 3**0.5)


ROWS = 5000
ZIPF = np.maximum(np.rint(ROWS / np.arange(1, 301) / (1 / np.arange(1, 301)).sum()), 1)
#: Counts of values, and by which factor their number may be off.
LAWS = {
    "all different": (np.ones(ROWS), 1.04),
    "few": (np.array([4000.0, 800, 200]), 1.04),
    "even": (np.full(12, 400.0), 1.04),
    "zipf": (ZIPF, 1.25),
}


def _noisy(counts, seed):
    """What `RankedCounts` tells of a column where every unit has one row."""
    falling = np.append(0, np.cumsum(np.sort(counts)[::-1]))
    ends = np.minimum(block_ends(), len(counts))
    sums = np.diff(falling[ends], prepend=0).astype(np.float64)
    return sums + 20.0 * np.random.default_rng(seed).standard_normal(BLOCKS)


@pytest.mark.parametrize("law", LAWS)
def test_the_number_of_values_and_the_shares_of_ranks_are_kept(law):
    counts, factor = LAWS[law]
    sizes, tops = [], []
    for seed in range(15):
        found = surrogates(_noisy(counts, seed), 20.0, counts.sum(), 0)
        assert found is not None
        made = np.sort(times(found, int(counts.sum())))[::-1]
        assert made.sum() == counts.sum()
        sizes.append(len(made) / len(counts))
        ranks = [rank for rank in (0, 9, 99) if rank < min(len(made), len(counts))]
        tops += [made[rank] / counts[rank] for rank in ranks if counts[rank] > 60]
    assert max(np.median(sizes), 1 / np.median(sizes)) < factor
    assert np.exp(np.median(np.abs(np.log(tops or [1])))) < 1.2


def test_nothing_is_left_where_labels_are_all_there_is_and_noise_alone_is_no_law():
    for law, named in (("few", 3), ("even", 12)):
        assert surrogates(_noisy(LAWS[law][0], 1), 20.0, ROWS, named) == ()
    rest = surrogates(_noisy(ZIPF, 1), 20.0, ROWS, 10)
    assert 0 < sum(count for count, _ in rest) <= 2 * len(ZIPF)
    found = [surrogates(_noisy(np.zeros(1), seed), 20.0, 90.0, 0) for seed in range(60)]
    assert sum(law is not None for law in found) <= 3


@given(
    st.lists(st.floats(-200, 5000), min_size=BLOCKS, max_size=BLOCKS),
    st.floats(1, 100),
    st.floats(1, 1e6),
    st.integers(0, 40),
)
@settings(max_examples=30, deadline=None)
def test_blocks_are_sound_whatever_was_released(noisy, sd, rows, named):
    found = surrogates(np.array(noisy), sd, rows, named)
    if found:
        assert sum(share for _, share in found) == pytest.approx(1.0)
        assert all(count >= 0 and share > 0 for count, share in found)
        assert times(found, 1000).sum() == 1000
        assert (times(found, 1000) > 0).all()
