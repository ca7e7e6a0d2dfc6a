"""Units, weights and ranks against their definitions, row by row."""

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from small_databases import ADD, ROW, fill, specs, two_tables
from stability import all_units, remove_unit

from privbench.domain import Domain
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy import Accountant, NoiseSource, SeededNoise, open_session, queries
from privbench.privacy.data import Cells, Grid, Labels, PrivateDatabase, PrivateTable
from privbench.privacy.query import GRID
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF, EdgesRecoding, LabelsRecoding
from privbench.privacy.spec import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.units import (
    BOTTOM,
    NONE,
    Units,
    bound,
    contribution,
    random_ranks,
    row_weights,
    single,
    system_keys,
)

QUICK = settings(max_examples=60, deadline=None)


def root(database: PrivateDatabase, table: str, row: int) -> tuple[str, int]:
    """The root of a row's unit, found by walking up."""
    own = database.spec.tables[table].own
    if own is None:
        return table, row
    owner = int(database._parents(own)[row])
    return (table, row) if owner < 0 else root(database, own.parent, owner)


@given(spec=st.one_of(specs(), specs(ROW)), seed=st.integers(0, 2**32))
@QUICK
def test_identity_size_and_weight_match_their_definitions(spec: DatabaseSpec, seed: int) -> None:
    database = fill(spec, 9, seed)
    units = database._units
    for name, table in spec.tables.items():
        roots = [root(database, name, row) for row in range(database._rows(name))]
        numbers = [units.number(*found) for found in roots]
        assert units.identity(name).tolist() == numbers
        sizes = [roots.count(found) for found in roots]
        assert units.sizes(name).tolist() == sizes
        tau = bound(spec, name)
        if table.bound == "weights":
            exact = [GRID * min(n, tau) // (tau * n) for n in sizes]
            assert units.weights(name).tolist() == exact
        else:
            assert set(units.weights(name).tolist()) <= {0, GRID}
        sums = {number: 0 for number in numbers}
        for number, weight in zip(numbers, units.weights(name).tolist(), strict=True):
            sums[number] += weight
        assert max(sums.values(), default=0) <= contribution(spec, name)
        # Ranks number the rows of each unit.
        seen: dict[int, list[int]] = {}
        for number, rank in zip(numbers, units.ranks(name).tolist(), strict=True):
            seen.setdefault(number, []).append(rank)
        assert all(sorted(found) == list(range(len(found))) for found in seen.values())


@given(spec=st.one_of(specs(), specs(ROW)), seed=st.integers(0, 2**32), pick=st.integers(0, 10**6))
@QUICK
def test_remove_unit_marks_its_edges_bottom(spec: DatabaseSpec, seed: int, pick: int) -> None:
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
            before, after = (
                getattr(database._units, what)(name),
                getattr(smaller._units, what)(name),
            )
            assert before[stay].tolist() == after.tolist()
        for key in table.keys:
            kept = database._parents(key)[stay].tolist()
            assert smaller._parents(key).tolist() == [
                expected(database, key, target, gone) for target in kept
            ]


def expected(database: PrivateDatabase, key: KeySpec, target: int, gone: tuple[str, int]) -> int:
    if target < 0 or key.role == "public":
        return target
    if root(database, key.parent, target) == gone:
        return BOTTOM
    return sum(root(database, key.parent, row) != gone for row in range(target))


def test_remove_unit_of_a_root_leaves_the_database_as_it_was() -> None:
    database = two_tables([0, 0, 1, -1], [[0, 1, 1, 0]], [2], refs=[1, 0, 0, BOTTOM])
    smaller = remove_unit(database, "users", 0)
    ref = database.spec.tables["posts"].key("ref")
    assert database._parents(ref).tolist() == [1, 0, 0, BOTTOM]
    assert smaller._parents(ref).tolist() == [BOTTOM, BOTTOM]
    assert smaller._rows("posts") == 2
    # Only roots can be removed.
    database = two_tables([0, -1])
    with pytest.raises(SchemaError, match="not the root"):
        remove_unit(database, "posts", 0)
    with pytest.raises(SchemaError, match="no such row"):
        remove_unit(database, "posts", 2)
    assert remove_unit(database, "posts", 1)._rows("posts") == 1


def test_one_to_one_children_are_single() -> None:
    one = KeySpec("o", "b", "a", "own", unique=True)
    many = KeySpec("o", "c", "b", "own")
    last = KeySpec("o", "d", "c", "own", unique=True)
    spec = DatabaseSpec(
        {
            "a": TableSpec("a", {}, tau=4),
            "b": TableSpec("b", {}, (one,), tau=4, bound="truncation"),
            "c": TableSpec("c", {}, (many,), tau=4, bound="truncation"),
            "d": TableSpec("d", {}, (last,), tau=4),
        }
    )
    assert [single(spec, name) for name in "abcd"] == [True, True, False, False]
    assert [bound(spec, name) for name in "abcd"] == [1, 1, 4, 4]
    assert [contribution(spec, name) for name in "abcd"] == [GRID, GRID, 4 * GRID, GRID]


def test_one_row_a_unit_is_enforced_and_no_ranks_are_drawn_where_it_holds() -> None:
    key = KeySpec("o", "b", "a", "own", unique=True)
    spec = DatabaseSpec({"a": TableSpec("a", {}), "b": TableSpec("b", {}, (key,), tau=3)})

    def units(owners: list[int]) -> Units:
        rows = PrivateTable(len(owners), {}, {"o": np.array(owners)})
        database = PrivateDatabase(spec, {"a": PrivateTable(3, {}, {}), "b": rows})
        database.rank_by(drawn)
        return database._units

    def drawn(rows: int, table: str) -> NDArray[np.uint64]:
        asked.append(table)
        return np.arange(rows, dtype=np.uint64)[::-1]

    asked: list[str] = []
    lawful = units([2, 0, 1])
    assert lawful.first("a", 1).tolist() == lawful.first("b", 1).tolist() == [True] * 3
    assert lawful.weights("b").tolist() == [GRID] * 3
    assert asked == []
    first = units([2, 0, 2, BOTTOM, 2, NONE]).first("b", 1)
    assert first.tolist() == [False, True, False, True, True, True]
    assert asked == ["b"]


@given(sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=30), tau=st.integers(1, 50))
@QUICK
def test_weights_are_floors_and_units_stay_within_one(sizes: list[int], tau: int) -> None:
    found = row_weights(np.array(sizes), tau)
    for n, weight in zip(sizes, found.tolist(), strict=True):
        share = Fraction(min(n, tau), tau * n)
        assert Fraction(weight, GRID) <= share < Fraction(weight + 1, GRID)
        assert weight * n <= GRID


def test_ranks_are_uniform_and_differ_between_databases() -> None:
    """4,000 units of 3 rows: each of the 6 orders equally often."""
    ranks = random_ranks(np.repeat(np.arange(4000), 3), system_keys(12_000, "")).reshape(-1, 3)
    seen = {order: 0 for order in itertools.permutations(range(3))}
    for order in ranks.tolist():
        seen[tuple(order)] += 1
    assert scipy.stats.chisquare(list(seen.values())).pvalue > 1e-9
    # Ranks differ between databases.
    owners = [0] * 200
    first, second = two_tables(owners), two_tables(owners)
    assert not np.array_equal(first._units.ranks("posts"), second._units.ranks("posts"))
    assert np.array_equal(first._units.ranks("posts"), first.copy()._units.ranks("posts"))


def test_ranks_and_label_counts_of_many_blocks_are_those_of_their_units(monkeypatch) -> None:
    """80,000 rows in blocks of 8,192: unit u has u % 5 rows of the value u % 3."""
    monkeypatch.setattr("privbench.privacy.units._BLOCK", 2**13)
    owners = np.repeat(np.arange(40_000), np.arange(40_000) % 5).astype(np.int32)
    np.random.default_rng(1).shuffle(owners)
    key = KeySpec("o", "b", "a", "own")
    database = PrivateDatabase(
        DatabaseSpec({"a": TableSpec("a", {}), "b": TableSpec("b", {}, (key,))}),
        {
            "a": PrivateTable(40_000, {}, {}),
            "b": PrivateTable(
                owners.size, {"v": Grid(owners.astype(np.int64) % 3 * 10**9)}, {"o": owners}
            ),
        },
    )
    ranks = database._units.ranks("b")
    wanted = np.tile([0, 0, 1, 0, 1, 2, 0, 1, 2, 3], 8_000)
    assert np.array_equal(ranks[np.lexsort((ranks, owners))], wanted)
    _, counts = queries.LabelCounts("b", "v").evaluate_labels(database)
    having = np.unique(owners) % 3
    assert counts == {
        str(value * 10**9): GRID * (np.count_nonzero(having == value) - 1) for value in range(3)
    }


def test_ranks_of_a_seeded_fit_are_those_of_its_seed(tmp_path: Path) -> None:
    def ranks(place: str, noise: NoiseSource) -> list[int]:
        database = two_tables([0] * 200)
        with open_session(database, Accountant("pure", 1.0), tmp_path / place, "d", noise=noise):
            return database._units.ranks("posts").tolist()

    first, second, other = (ranks(f"{n}", SeededNoise(n // 2)) for n in range(3))
    assert first == second != other
    assert ranks("private", NoiseSource()) != ranks("again", NoiseSource())


@pytest.mark.parametrize("edge", [NONE, BOTTOM])
def test_a_row_without_the_owner_that_its_key_promises_is_a_unit_that_is_charged(edge) -> None:
    key = KeySpec("o", "b", "a", "own", nullable=False)
    spec = DatabaseSpec({"a": TableSpec("a", {}), "b": TableSpec("b", {}, (key,))})
    rows = {"a": PrivateTable(1, {}, {}), "b": PrivateTable(1, {}, {"o": np.array([edge])})}
    assert set(all_units(PrivateDatabase(spec, rows))) == {("a", 0), ("b", 0)}
    assert queries.Total("b").roots(spec) == {"a", "b"}


def test_attributes_that_do_not_fit_are_refused_without_quoting_them() -> None:
    with pytest.raises(SchemaError, match="another length"):
        PrivateTable(2, {"a": Grid(np.array([777]))}, {})
    with pytest.raises(SchemaError, match="another length"):
        PrivateTable(2, {}, {"k": np.array([1])})
    with pytest.raises(SchemaError, match="outside its domain") as caught:
        Cells(np.array([777]), Domain(5))
    assert "777" not in str(caught.value)
    with pytest.raises(SchemaError, match="outside its dictionary"):
        Labels(np.array([3]), ["a"])
    with pytest.raises(SchemaError, match="duplicates") as caught:
        Labels(np.array([0]), ["secret", "secret"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("edge", [1, -3])
def test_edges_lead_somewhere(edge: int) -> None:
    with pytest.raises(SchemaError, match="leads nowhere"):
        two_tables([edge], users=1)


def test_nothing_private_is_shown_or_pickled() -> None:
    import pickle

    database = two_tables([0, 0], [[1, 0]], [2])
    held = database._tables["posts"]
    for value in (database, held, held._attributes["a0"], database._units):
        assert "private" in repr(value)
        assert not any(char.isdigit() for char in repr(value))
    with pytest.raises(PrivacyRefusal):
        pickle.dumps(database)
    with pytest.raises(PrivacyRefusal):
        pickle.dumps(held._attributes["a0"])


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
def test_edges_recoding(specials: tuple[str, ...], nullable: bool, codes: list[int]) -> None:
    recoding = EdgesRecoding((0, 5, 10), specials, nullable)
    assert recoding.apply(RAW).tolist() == codes
    assert recoding.domain.ordered
    assert recoding.apply(RAW).dtype == np.uint8


@given(
    values=st.lists(st.integers(NULL, POS_INF)),
    edges=st.lists(st.integers(-100, 100), min_size=2, unique=True).map(sorted),
)
@QUICK
def test_edges_recoding_is_total(values: list[int], edges: list[int]) -> None:
    recoding = EdgesRecoding(tuple(edges), ("above",), nullable=True)
    codes = recoding.apply(np.array(values, dtype=np.int64))
    for value, code in zip(values, codes.tolist(), strict=True):
        assert code < recoding.domain.size
        if edges[0] <= value < edges[-1]:
            assert edges[code] <= value < edges[code + 1]


@pytest.mark.parametrize("edges", [(1,), (2, 1), (1, 1), (NULL, 3)])
def test_edges_ascend(edges: tuple[int, ...]) -> None:
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
def test_labels_recoding(other: bool, nullable: bool, codes: list[int]) -> None:
    held = Labels(np.array([1, 0, 2, -1]), ["rare", "x", "y"])
    recoding = LabelsRecoding(("x", "y"), other, nullable)
    assert recoding.apply(held._codes, held._labels).tolist() == codes


def test_recode_settles_the_attribute_and_keeps_the_copy_apart() -> None:
    database = fill(DatabaseSpec({"t": TableSpec("t", {})}, ADD), 9, 3)
    twin = database.copy()
    domain = twin.recode("t", "g", EdgesRecoding((0, 3, 9), nullable=True))
    assert list(twin.spec.tables["t"].attributes) == ["c0", "c1", "c2", "g"]
    assert twin.spec.tables["t"].attributes["g"] == domain
    assert twin.recodings == (("t", "g", EdgesRecoding((0, 3, 9), nullable=True)),)
    assert "g" not in database.spec.tables["t"].attributes
    assert isinstance(database._raw("t", "g"), Grid)
    # Distances are those of a row, of which either point may be none.
    points, base = [5, 5, 5, NULL, POS_INF, NEG_INF], [3, NULL, POS_INF, 3, 3, NULL]
    apart = EdgesRecoding((0, 3, 9), ("-inf", "inf"), nullable=True, since="h")
    assert apart.apply(np.array(points), np.array(base)).tolist() == [0, 4, 4, 4, 3, 2]
    other = database.copy()
    other.recode("t", "g", apart)
    distances = apart.apply(*(database._points("t", name) for name in "gh"))
    assert other._codes("t", "g")[0].tolist() == distances.tolist()
    with pytest.raises(SchemaError, match="coded already"):
        twin.recode("t", "h", replace(apart, since="g"))
    with pytest.raises(SchemaError, match="does not fit"):
        twin.recode("t", "g", EdgesRecoding((0, 3)))
    with pytest.raises(SchemaError, match="does not fit"):
        twin.recode("t", "l", EdgesRecoding((0, 3)))


def test_a_grid_of_a_release_alone_is_let_go() -> None:
    database = fill(DatabaseSpec({"t": TableSpec("t", {})}, ADD), 9, 3)
    twin = database.copy()
    twin.let_go("t", "g")
    with pytest.raises(SchemaError, match="no such attribute"):
        twin._raw("t", "g")
    assert twin.spec == database.spec
    assert isinstance(database._raw("t", "g"), Grid)
    with pytest.raises(SchemaError, match="a modelled attribute stays"):
        twin.let_go("t", "c0")
