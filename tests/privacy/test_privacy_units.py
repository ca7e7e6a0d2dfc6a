"""Units, weights and ranks against their definitions, row by row."""

import itertools
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from private_tables import of_tables, private_database, two_tables
from small_databases import ADD, ROW, fill, specs
from stability import all_units, remove_unit

from privbench.domain import Domain
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy import Accountant, NoiseSource, SeededNoise, open_session, queries
from privbench.privacy.data import Cells, Grid, Labels, PrivateTable
from privbench.privacy.query import GRID
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF, EdgesRecoding, LabelsRecoding
from privbench.privacy.spec import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.units import BOTTOM, NONE, bound, contribution, row_weights, single

QUICK = settings(max_examples=60, deadline=None)
SPECS, SEED = st.one_of(specs(), specs(ROW)), st.integers(0, 2**32)


def root(database, table, row):
    """The root of a row's unit, found by walking up."""
    own = database.spec.tables[table].own
    if own is None:
        return table, row
    owner = int(database._parents(own)[row])
    return (table, row) if owner < 0 else root(database, own.parent, owner)


@given(spec=SPECS, seed=SEED)
@QUICK
def test_identity_size_weight_and_ranks_match_their_definitions(spec, seed):
    database = fill(spec, 9, seed)
    units = database._units
    for name, table in spec.tables.items():
        roots = [root(database, name, row) for row in range(database._rows(name))]
        numbers = [units.number(*one) for one in roots]
        weights, sizes = units.weights(name).tolist(), [roots.count(one) for one in roots]
        assert units.identity(name).tolist() == numbers
        assert units.sizes(name).tolist() == sizes
        if table.bound == "weights":
            tau = bound(spec, name)
            assert weights == [GRID * min(n, tau) // (tau * n) for n in sizes]
        else:
            assert set(weights) <= {0, GRID}
        ranks = units.ranks(name).tolist()
        for unit in set(numbers):
            mine = [row for row, number in enumerate(numbers) if number == unit]
            assert sum(weights[row] for row in mine) <= contribution(spec, name)
            assert sorted(ranks[row] for row in mine) == list(range(len(mine)))


@given(spec=SPECS, seed=SEED, pick=st.integers(0, 10**6))
@QUICK
def test_remove_unit_marks_its_edges_bottom(spec, seed, pick):
    database = fill(spec, 9, seed)
    units = list(all_units(database))
    if not units:
        return
    gone = units[pick % len(units)]
    smaller = remove_unit(database, *gone)
    for name, table in spec.tables.items():
        stay = [r for r in range(database._rows(name)) if root(database, name, r) != gone]
        assert smaller._rows(name) == len(stay)
        for what in ("weights", "ranks", "sizes"):
            before, after = (getattr(d._units, what)(name) for d in (database, smaller))
            assert before[stay].tolist() == after.tolist()
        for key in table.keys:
            targets = database._parents(key)[stay].tolist()
            assert smaller._parents(key).tolist() == [
                moved(database, key, target, gone) for target in targets
            ]


def moved(database, key, target, gone):
    """Where an edge leads when a unit is gone."""
    if target < 0 or key.role == "public":
        return target
    if root(database, key.parent, target) == gone:
        return BOTTOM
    return sum(root(database, key.parent, row) != gone for row in range(target))


def test_one_to_one_children_are_single():
    keys = [
        KeySpec("o", table, parent, "own", unique=unique)
        for table, parent, unique in (("b", "a", True), ("c", "b", False), ("d", "c", True))
    ]
    tables = [
        TableSpec("a", {}, tau=4),
        TableSpec("b", {}, (keys[0],), tau=4, bound="truncation"),
        TableSpec("c", {}, (keys[1],), tau=4, bound="truncation"),
        TableSpec("d", {}, (keys[2],), tau=4),
    ]
    spec = DatabaseSpec({table.name: table for table in tables})
    assert [single(spec, name) for name in "abcd"] == [True, True, False, False]
    assert [bound(spec, name) for name in "abcd"] == [1, 1, 4, 4]
    assert [contribution(spec, name) for name in "abcd"] == [GRID, GRID, 4 * GRID, GRID]


def test_one_row_a_unit_is_enforced_and_no_ranks_are_drawn_where_it_holds():
    asked = []

    def units(owners):
        database = two_tables(owners, users=3, tau=3, unique=True)
        database.rank_by(drawn)
        return database._units

    def drawn(rows, table):
        asked.append(table)
        return np.arange(rows, dtype=np.uint64)[::-1]

    lawful = units([2, 0, 1])
    assert lawful.first("users", 1).tolist() == lawful.first("posts", 1).tolist() == [True] * 3
    assert lawful.weights("posts").tolist() == [GRID] * 3
    assert asked == []
    first = units([2, 0, 2, BOTTOM, 2, NONE]).first("posts", 1)
    assert first.tolist() == [False, True, False, True, True, True]
    assert asked == ["posts"]


@given(sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=30), tau=st.integers(1, 50))
@QUICK
def test_weights_are_floors_and_units_stay_within_one(sizes, tau):
    for n, weight in zip(sizes, row_weights(np.array(sizes), tau).tolist(), strict=True):
        share = Fraction(min(n, tau), tau * n)
        assert Fraction(weight, GRID) <= share < Fraction(weight + 1, GRID)
        assert weight * n <= GRID


def test_ranks_are_uniform_and_differ_between_databases():
    """4,000 units of 3 rows: each of the 6 orders equally often."""
    owners = np.repeat(np.arange(4000), 3)
    first, second = (two_tables(owners)._units.ranks("posts") for _ in range(2))
    assert not np.array_equal(first, second)
    orders = list(map(tuple, first.reshape(-1, 3).tolist()))
    seen = [orders.count(order) for order in itertools.permutations(range(3))]
    assert scipy.stats.chisquare(seen).pvalue > 1e-9


def test_ranks_of_a_seeded_fit_are_those_of_its_seed(tmp_path):
    def ranks(place, noise):
        database = two_tables([0] * 200)
        with open_session(database, Accountant("pure", 1.0), tmp_path / place, "d", noise=noise):
            return database._units.ranks("posts").tolist()

    first, second, other = (ranks(f"{n}", SeededNoise(n // 2)) for n in range(3))
    assert first == second != other
    assert ranks("private", NoiseSource()) != ranks("again", NoiseSource())


@pytest.mark.parametrize("edge", [NONE, BOTTOM])
def test_a_row_without_the_owner_that_its_key_promises_is_a_unit_that_is_charged(edge):
    key = KeySpec("o", "b", "a", "own", nullable=False)
    rows = of_tables(a=(1, {}), b=(1, {}, {key: [edge]}))
    assert set(all_units(rows)) == {("a", 0), ("b", 0)}
    assert queries.Total("b").roots(rows.spec) == {"a", "b"}


SECRET = "777"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PrivateTable(2, {"a": Grid(np.array([777]))}, {}), "another length"),
        (lambda: PrivateTable(2, {}, {"k": np.array([777])}), "another length"),
        (lambda: Cells(np.array([777]), Domain(5)), "outside its domain"),
        (lambda: Labels(np.array([777]), [SECRET]), "outside its dictionary"),
        (lambda: Labels(np.array([0]), [SECRET, SECRET]), "duplicates"),
        (lambda: two_tables([777], users=1), "leads nowhere"),
        (lambda: two_tables([-3], users=1), "leads nowhere"),
    ],
)
def test_attributes_that_do_not_fit_are_refused_without_quoting_them(make, said):
    with pytest.raises(SchemaError, match=said) as caught:
        make()
    assert SECRET not in str(caught.value)


def test_nothing_private_is_shown_or_pickled():
    database = two_tables([0, 0], [[1, 0]], [2])
    posts = database._tables["posts"]
    for value in (database, posts, posts._attributes["a0"], database._units):
        assert "private" in repr(value)
        assert not any(char.isdigit() for char in repr(value))
    for value in (database, posts._attributes["a0"]):
        with pytest.raises(PrivacyRefusal):
            pickle.dumps(value)


RAW = np.array([NULL, NAN, NEG_INF, -9, 0, 4, 5, 9, 10, 99, POS_INF])


@pytest.mark.parametrize(
    ("specials", "nullable", "codes"),
    [
        ((), False, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
        ((), True, [2, 2, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
        (("below", "above"), False, [0, 0, 2, 2, 0, 0, 1, 1, 3, 3, 3]),
        (("nan", "inf", "-inf"), True, [5, 2, 4, 0, 0, 0, 1, 1, 1, 1, 3]),
    ],
)
def test_edges_recoding(specials, nullable, codes):
    recoding = EdgesRecoding((0, 5, 10), specials, nullable)
    assert recoding.apply(RAW).tolist() == codes
    assert recoding.domain.ordered
    assert recoding.apply(RAW).dtype == np.uint8


@given(
    values=st.lists(st.integers(NULL, POS_INF)),
    edges=st.lists(st.integers(-100, 100), min_size=2, unique=True).map(sorted),
)
@QUICK
def test_edges_recoding_is_total(values, edges):
    recoding = EdgesRecoding(tuple(edges), ("above",), nullable=True)
    codes = recoding.apply(np.array(values, dtype=np.int64)).tolist()
    assert max(codes, default=0) < recoding.domain.size
    for value, code in zip(values, codes, strict=True):
        if edges[0] <= value < edges[-1]:
            assert edges[code] <= value < edges[code + 1]


@pytest.mark.parametrize("edges", [(1,), (2, 1), (1, 1), (NULL, 3)])
def test_edges_ascend(edges):
    with pytest.raises(ValueError, match="edges"):
        EdgesRecoding(edges)


@pytest.mark.parametrize(
    ("other", "nullable", "codes"),
    [
        (True, True, [0, 2, 1, 3]),
        (True, False, [0, 2, 1, 2]),
        (False, True, [0, 2, 1, 2]),
        (False, False, [0, 0, 1, 0]),
    ],
)
def test_labels_recoding(other, nullable, codes):
    column = Labels(np.array([1, 0, 2, -1]), ["rare", "x", "y"])
    recoding = LabelsRecoding(("x", "y"), other, nullable)
    assert recoding.apply(column._codes, column._labels).tolist() == codes


@pytest.fixture
def mixed():
    """A table with columns of every kind."""
    return fill(DatabaseSpec({"t": TableSpec("t", {})}, ADD), 9, 3)


def test_recode_settles_the_attribute_and_keeps_the_copy_apart(mixed):
    copy, recoding = mixed.copy(), EdgesRecoding((0, 3, 9), nullable=True)
    domain = copy.recode("t", "g", recoding)
    assert list(copy.spec.tables["t"].attributes) == ["c0", "c1", "c2", "g"]
    assert copy.spec.tables["t"].attributes["g"] == domain
    assert copy.recodings == (("t", "g", recoding),)
    assert "g" not in mixed.spec.tables["t"].attributes
    assert isinstance(mixed._raw("t", "g"), Grid)
    for column, wrong, said in (
        ("h", replace(recoding, since="g"), "coded already"),
        ("g", EdgesRecoding((0, 3)), "does not fit"),
        ("l", EdgesRecoding((0, 3)), "does not fit"),
    ):
        with pytest.raises(SchemaError, match=said):
            copy.recode("t", column, wrong)


def test_distances_are_those_of_a_row_of_which_either_point_may_be_none():
    points, base = [5, 5, 5, NULL, POS_INF, NEG_INF], [3, NULL, POS_INF, 3, 3, NULL]
    recoding = EdgesRecoding((0, 3, 9), ("-inf", "inf"), nullable=True, since="h")
    columns = {"g": Grid(np.array(points)), "h": Grid(np.array(base))}
    rows = private_database({"t": (6, columns)})
    rows.recode("t", "g", recoding)
    assert rows._codes("t", "g")[0].tolist() == [0, 4, 4, 4, 3, 2]


def test_a_grid_of_a_release_alone_is_let_go(mixed):
    copy = mixed.copy()
    copy.let_go("t", "g")
    with pytest.raises(SchemaError, match="no such attribute"):
        copy._raw("t", "g")
    assert copy.spec == mixed.spec
    assert isinstance(mixed._raw("t", "g"), Grid)
    with pytest.raises(SchemaError, match="a modelled attribute stays"):
        copy.let_go("t", "c0")
