"""Each query's statistic against a row-by-row definition, its claim, and what it refuses."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from small_databases import (
    ADD,
    BINS,
    EDGES,
    REPLACE,
    fill,
    of_tables,
    queries,
    renumbered,
    settled,
    specs,
    two_tables,
    with_relation,
)
from stability import change
from subsets import WithCodes

from privbench.domain import Domain
from privbench.errors import PrivacyRefusal, PrivbenchError, SchemaError
from privbench.privacy import queries as q
from privbench.privacy.data import Cells, Grid, Labels, PrivateDatabase
from privbench.privacy.queries import histogram
from privbench.privacy.queries.references import levels, steps
from privbench.privacy.query import GRID, Query
from privbench.privacy.recoding import NEG_INF, NULL, POS_INF, EdgesRecoding
from privbench.privacy.spec import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.units import BOTTOM, single

QUICK = settings(max_examples=30, deadline=None)
SEED = st.integers(0, 2**32)


def weighted_cells(database: PrivateDatabase, table: str, *names: str) -> Counter[Any]:
    """The weighted joint histogram, one row after the other."""
    weights = database._units.weights(table).tolist()
    columns = [database._codes(table, name)[0].tolist() for name in names]
    found: Counter[Any] = Counter()
    for row, weight in enumerate(weights):
        found[tuple(column[row] for column in columns)] += weight
    return found


@given(spec=specs(), seed=SEED)
@QUICK
def test_histograms_and_totals_count_rows_one_by_one(spec: DatabaseSpec, seed: int) -> None:
    database = fill(spec, 12, seed)
    for name in spec.tables:
        query = q.Histogram.of(database.spec, name, ("c0", "c2"))
        expected = weighted_cells(database, name, "c0", "c2")
        found = query.evaluate(database)
        assert {cell: int(found[cell]) for cell in np.ndindex(*query.shape)} == {
            cell: expected[cell] for cell in np.ndindex(*query.shape)
        }
        units = Counter(database._units.identity(name).tolist())
        clip = 1 if single(spec, name) else 2
        assert q.Total(name, 2).evaluate(database).tolist() == [
            sum(min(n, clip) for n in units.values())
        ]
        # And of other tables, the rows of a row's own unit.
        for other in spec.tables:
            theirs = database._units.identity(other).tolist()
            counts = [theirs.count(unit) for unit in database._units.identity(name).tolist()]
            codes = q.UnitRows(other, tuple(range(13))).codes(database, name)
            assert codes.tolist() == counts


def test_counting_is_exact_where_floating_point_is_not() -> None:
    """2²⁴ weights of GRID − 1: their sum needs 54 bits."""
    rows = 2**24
    index = np.zeros(q.counting._LARGE, dtype=np.intp)
    weights = np.full(q.counting._LARGE, GRID - 1, dtype=np.int64)
    total = np.zeros(1, dtype=np.int64)
    for _ in range(rows // q.counting._LARGE):
        q.counting.add(total, index, weights)
    assert int(total[0]) == rows * (GRID - 1)
    assert (GRID - 1) * q.counting._LARGE < 2**53


def test_blocks_cover_all_rows_of_tables_and_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 3, (2, 1000))
    database = two_tables(rng.integers(-1, 90, 1000), cells, [3, 3], users=90, tau=2)
    region = WithCodes("posts", "a1", (1, 2))
    asked: list[Query] = [
        q.Histogram.of(database.spec, "posts", ("a0", "a1")),
        q.Histogram.of(database.spec, "posts", ("a0",), region),
        q.PairScores.of(database.spec, "posts", ("a0", "a1"), [(0, 1)], [np.ones((3, 3))], region),
    ]
    whole = [query.evaluate(database) for query in asked]
    monkeypatch.setattr(q.counting, "_SMALL", 7)
    monkeypatch.setattr(q.counting, "_LARGE", 13)
    for query, found in zip(asked, whole, strict=True):
        assert np.array_equal(query.evaluate(database), found)
    assert int(whole[1].sum()) == int(whole[0][:, 1:].sum())


def chain() -> PrivateDatabase:
    """users ← posts ← links, one post and one link without an owner."""
    own = KeySpec("own", "posts", "users", "own", nullable=True)
    deep = KeySpec("own", "links", "posts", "own", nullable=True)
    return of_tables(
        users=(2, {"u": Cells(np.array([1, 0]), Domain(2))}),
        posts=(4, {"p": Cells(np.array([0, 1, 2, 2]), Domain(3))}, {own: [0, 0, 1, -1]}),
        links=(5, {}, {deep: [0, 0, 0, 3, BOTTOM]}),
    )


CHAIN = chain()
OWN, DEEP = (CHAIN.spec.tables[name].keys[0] for name in ("posts", "links"))
U, P = q.Column("u", 2), q.Column("p", 3)
NINE = (P, q.Owner(OWN, U))
GROUPS = q.PublicArray([[0, 0, 1], [2, 2, 1], [0, 0, 1]])
EITHER = q.PublicArray([[0, 1, 2, 3], [1, 0, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]])
REFERRING = two_tables([0, 1, -1, -1], refs=[0, 0, -1, BOTTOM])
REFERS = REFERRING.spec.tables["posts"].key("ref")
PUB = KeySpec("pub", "t", "public", "public", nullable=True)
HALF = GRID // 2


@pytest.mark.parametrize(
    ("rows", "table", "axes", "expected"),
    [
        (CHAIN, "users", (q.Children(OWN, (0, 1, 2)),), [0, GRID, GRID]),
        # Posts of user 0 weigh ½ each: one has three links, one none. The two others weigh 1.
        (CHAIN, "posts", (q.Children(DEEP, (0, 1, 2)),), [HALF + GRID, GRID, HALF]),
        # The posts of user 0, in either order, the one of user 1; of the links, those of posts.
        (CHAIN, "users", (q.Joined(tuple(q.Sibling(OWN, P, at) for at in (0, 1)), EITHER),),
         [0, GRID, 0, GRID]),
        (CHAIN, "posts", (q.Sibling(DEEP, q.Whole(), 1),), [HALF, HALF + 2 * GRID]),
        (CHAIN, "posts", NINE, [[0, HALF, 0], [0, HALF, 0], [GRID, 0, GRID]]),
        (CHAIN, "posts", (q.Joined(NINE),), [0, HALF, 0, 0, HALF, 0, GRID, 0, GRID]),
        (CHAIN, "posts", (q.Joined(NINE, GROUPS),), [GRID + HALF, GRID, HALF]),
        (CHAIN, "posts", (q.Column("p", 2, q.PublicArray([1, 0, 0])),), [HALF + 2 * GRID, HALF]),
        (CHAIN, "posts", (), [3 * GRID]),
        (of_tables(t=(3, {})), "t", (), [3 * GRID]),
        # ⊥ counts as a reference, and as one to another unit.
        (REFERRING, "posts", (q.Refers(REFERS),), [GRID, 3 * GRID]),
        (REFERRING, "posts", (q.Refers(REFERS, own=True),), [GRID, 2 * GRID, GRID]),
        (of_tables(t=(4, {}, {PUB: [0, 2, 2, -1]})), "t", (q.PublicTarget(PUB, 3),),
         [GRID, 0, 2 * GRID, GRID]),
    ],
)  # fmt: skip
def test_histogram_of_every_axis_weighs_rows_by_their_cell(rows, table, axes, expected):
    query = q.Histogram(table, axes) if axes else q.Histogram.of(rows.spec, table, ())
    assert query.evaluate(rows).tolist() == expected


def test_codes_of_nested_axes_are_those_of_owners() -> None:
    grand = q.Owner(DEEP, q.Owner(OWN, q.Children(OWN, (0, 1, 2))))
    assert grand.codes(CHAIN, "links").tolist() == [2, 2, 2, 3, 4]
    assert (grand.size, q.Joined(NINE).size) == (5, 9)
    assert q.Joined(NINE).codes(CHAIN, "posts").tolist() == [1, 4, 6, 8]


def test_public_arrays_are_values() -> None:
    values = np.array([[1, 2], [3, 4]])
    held = q.PublicArray(values)
    values[0, 0] = 9
    assert held.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        held.values[0, 0] = 5
    with pytest.raises(ValueError, match="integers"):
        q.PublicArray([0.5])
    assert len({held, q.PublicArray([[1, 2], [3, 4]])}) == 1
    # Fingerprints of queries rest on their texts.
    assert held.digest.hex() in repr(held)
    assert q.PublicArray.rounded([0.5, np.nan, np.inf], 4).values.tolist() == [2, 0, 2**62]


def test_scores_are_half_the_distance_less_penalty_and_what_margins_explain() -> None:
    database = two_tables([0, 1, 2], [[0, 1, 1], [0, 1, 0]], [2, 2])
    given = database.spec, "posts", ("a0", "a1"), [(0, 1)]
    table, prediction = np.array([[1, 0], [1, 1]]), np.array([[1.5, 0.0], [0.25, 1.0]])
    query = q.PairScores.of(*given, [prediction], penalties=[0.125])
    expected = 0.5 * np.abs(table - prediction).sum() - 0.125
    assert query.evaluate(database).tolist() == [round(expected * query.unit)]
    # Scores of dependence leave out what margins explain.
    query = q.DependenceScores.of(*given, [prediction], penalties=[0.125])
    off = [np.abs((table - prediction).sum(axis)).sum() for axis in (0, 1)]
    expected = 0.5 * (np.abs(table - prediction).sum() - max(off)) - 0.125
    assert query.evaluate(database).tolist() == [round(expected * query.unit)]
    # A prediction of the right shape and the wrong size does not score.
    twice = q.DependenceScores.of(*given, [2 * table])
    assert twice.evaluate(database).tolist() == [0]


@pytest.mark.parametrize("kind", [q.PairScores, q.DependenceScores])
def test_scores_of_what_is_left_are_those_of_all(kind: type[q.PairScores]) -> None:
    """Distances are kept with the database, for each prediction by itself."""
    cells = np.random.default_rng(2).integers(0, 3, (3, 40))
    database = two_tables(range(40), cells, [3, 3, 3])
    pairs = [(0, 1), (0, 2), (1, 2)]
    for level in (1.0, 5.0):
        predictions = [np.diag([level, 2.0, 3.0]) + k for k in range(3)]
        axes = ("a0", "a1", "a2")
        whole = kind.of(database.spec, "posts", axes, pairs, predictions, penalties=[0.1, 0.2, 0.3])
        every = whole.evaluate(database)
        for left in ([2, 0], [1], [0, 1, 2]):
            part = replace(whole, among=q.PublicArray(left))
            assert part.evaluate(database).tolist() == every[left].tolist()
            assert part.shape == (len(left),)
            claims = part.sensitivity(database.spec), whole.sensitivity(database.spec)
            assert claims[0].linf == claims[1].linf
            assert claims[0].l1 * 3 == claims[1].l1 * len(left)


@pytest.mark.parametrize("limit", [1, 40, 2**24])
def test_kept_pair_tables_are_the_exact_ones(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order and number of passes, of each binning, region and database by itself."""
    monkeypatch.setattr(q.scores, "PASS", limit)
    sizes, rng = (5, 3, 7, 4), np.random.default_rng(1)
    axes = [q.Column(f"a{k}", size) for k, size in enumerate(sizes)]
    bins = ([0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1])
    axes += [q.Column("a2", 2, q.PublicArray(binned)) for binned in bins]
    pairs = list(combinations(range(6), 2))
    for rows in (3000, 2000):
        cells = [rng.integers(0, size, rows) for size in sizes]
        data = two_tables(range(rows), cells, sizes)
        part = WithCodes("posts", "a1", (1, 2))
        for asked in (pairs[:2], pairs, pairs[::-1], pairs[3:]):
            for region in (None, part):
                found = q.scores.pair_tables(data, "posts", axes, region, asked)
                for (i, j), table in zip(asked, found, strict=True):
                    exact = q.Histogram("posts", (axes[i], axes[j]), region).evaluate(data)
                    assert np.array_equal(table, exact)


def test_predictions_of_large_tables_are_scored_exactly() -> None:
    """Hundreds of pairs of a table of a billion rows; no distance passes 2⁶²."""
    rows, data = 10**9, two_tables(range(10), [[0] * 10, [1] * 10], [2, 2])
    pairs = [(0, 1)] * 600
    predictions = [np.full((2, 2), rows / 4)] * 600
    query = q.PairScores.of(data.spec, "posts", ("a0", "a1"), pairs, predictions)
    assert (np.abs(query.evaluate(data) - rows * GRID) <= 20 * GRID).all()


POINTS = [-9, -1, 3, 8, 99]


@given(spec=specs(), seed=SEED)
@QUICK
def test_grid_histograms_weigh_rows_as_histograms_do(spec: DatabaseSpec, seed: int) -> None:
    """The same cells as those of a column that is settled by the same edges, under every spec."""
    database = fill(spec, 15, seed)
    edges = EdgesRecoding((-(10**6), *POINTS, 10**6), ("nan", "-inf", "inf"), nullable=True)
    for name in spec.tables:
        ready = database.copy()
        ready.recode(name, "g", edges)
        expected = q.Histogram.of(ready.spec, name, ("g",)).evaluate(ready)[: len(POINTS) + 1]
        found = q.GridHistogram(name, "g", q.PublicArray(POINTS)).evaluate(database)
        assert found.tolist() == expected.tolist()


def test_grid_histograms_at_the_ends_of_64_bits_and_of_blocks() -> None:
    """More rows than one block, the least and the greatest points: none is lost, none wraps."""
    rows = 2**18 + 3
    values = np.full(rows, 2**63 - 2)
    values[-3:] = NEG_INF + 1, 0, POS_INF - 1
    assert NEG_INF < values[-3] < values[-1] < POS_INF
    values[:-3] = np.arange(rows - 3) % 2
    query = q.GridHistogram("t", "g", q.PublicArray([NEG_INF + 1, 0, 1, POS_INF - 1]))
    expected = [0, 1, 2**17 + 1, 2**17, 1]
    found = query.evaluate(of_tables(t=(rows, {"g": Grid(values)})))
    assert (found // GRID).tolist() == expected


def normed_by_hand(units: Any, cells: Any, size: int, clip: int) -> list[float]:
    """Every unit's counts of cells, divided by their norm; cells below 0 do not count."""
    found = np.zeros(size)
    for unit in np.unique(units):
        mine = cells[(units == unit) & (cells >= 0)]
        counts = np.bincount(mine, minlength=size)
        found += counts / max(float(np.linalg.norm(counts)), clip)
    return [GRID * value for value in found.tolist()]


@given(spec=specs(), seed=SEED, clip=st.integers(1, 3))
@QUICK
def test_units_of_normed_histograms_add_their_counts_at_norm_one(
    spec: DatabaseSpec, seed: int, clip: int
) -> None:
    database = fill(spec, 15, seed)
    ready = settled(database)
    for name in spec.tables:
        units = ready._units.identity(name)
        axes = q.Histogram.of(ready.spec, name, ("c1", ("c2", BINS))).axes
        cells = axes[0].codes(ready, name).astype(int) * 2 + axes[1].codes(ready, name)
        found = q.NormedHistogram(name, axes).evaluate(ready).ravel().tolist()
        assert found == pytest.approx(normed_by_hand(units, cells, 4, 1), abs=2**10)
        values = database._raw(name, "g")._values  # type: ignore[union-attr]
        held = np.searchsorted(POINTS, values, side="right")
        held[(values <= NEG_INF) | (values == POS_INF)] = -1
        points = q.GridHistogram(name, "g", q.PublicArray(POINTS), clip)
        wanted = normed_by_hand(units, held, len(POINTS) + 1, clip)
        assert points.evaluate(database).tolist() == pytest.approx(wanted, abs=2**10)


def test_units_are_counted_alike_in_a_dense_table_and_by_sorting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    database = two_tables(rng.integers(0, 40, 600), [rng.integers(0, 9, 600)], [9])
    query = q.NormedHistogram("posts", q.Histogram.of(database.spec, "posts", ("a0",)).axes)
    dense = query.evaluate(database).tolist()
    monkeypatch.setattr(histogram, "_DENSE", 0)
    assert query.evaluate(database).tolist() == dense
    assert sum(dense) > 40 * GRID


@QUICK
@given(rows=st.lists(st.integers(1, 2**20), min_size=1, max_size=6))
def test_what_a_unit_adds_to_a_normed_histogram_never_passes_its_norm(rows: list[int]) -> None:
    """In exact integers, also of units of millions of rows."""
    found = np.zeros(len(rows), np.int64)
    cells = np.repeat(np.arange(len(rows)), rows)
    histogram._add(found, np.zeros(len(cells), np.int64), cells, 1)
    squares = sum(int(value) ** 2 for value in found)
    assert squares <= GRID**2
    assert squares > 0.99 * GRID**2


def by_hand(database: PrivateDatabase, name: str, query: q.LabelCounts) -> dict[str, float]:
    """X of every value, from rows one by one; where no unit has more values than count."""
    held = database._raw(name, "l")
    words = held._labels.to_pylist()
    alone, units = single(database.spec, name), database._units
    rows: dict[int, dict[str, int]] = {}
    for unit, rank, code in zip(
        units.identity(name).tolist(), units.ranks(name).tolist(), held._codes.tolist(), strict=True
    ):
        if code >= 0 and not (alone and rank):
            of_unit = rows.setdefault(unit, {})
            of_unit[words[code]] = of_unit.get(words[code], 0) + 1
    found: dict[str, float] = {}
    for of_unit in rows.values():
        if query.votes and not alone:
            of_unit = dict.fromkeys(of_unit, 1)
        power = 1 if query.norm == "l1" else 2
        size = sum(h**power for h in of_unit.values()) ** (1 / power)
        size = query.clip if alone else max(size, query.clip)
        for word, h in of_unit.items():
            found[word] = found.get(word, 0.0) + h / size
    return found


@given(
    spec=specs(),
    seed=SEED,
    clip=st.integers(1, 4),
    norm=st.sampled_from(["l1", "l2"]),
    votes=st.booleans(),
)
@QUICK
def test_units_count_by_their_rows_or_votes_at_norm_one(spec, seed, clip, norm, votes):
    database = fill(spec, 15, seed)
    for name in spec.tables:
        query = q.LabelCounts(name, "l", clip, norm, ("b", "no such"), votes=votes)
        cells, counts = query.evaluate_labels(database)
        wanted = by_hand(database, name, query)
        # Roots are rounded up to 16 fractional bits, so that weights are a little too small.
        assert cells[1] == pytest.approx(GRID * wanted.get("b", 0.0), abs=2**17)
        assert cells[1] <= GRID * wanted.get("b", 0.0) + 1
        assert cells[2] == 0
        left = {w: GRID * (x - 1) for w, x in wanted.items() if x > 1.001 and w != "b"}
        clear = {word: count for word, count in counts.items() if word in left}
        assert clear == pytest.approx(left, abs=2**17)
        assert all(count < 2**21 for word, count in counts.items() if word not in left)


@given(spec=specs(), seed=SEED, clip=st.integers(1, 3), votes=st.booleans())
@QUICK
def test_ranked_counts_are_those_of_values(
    spec: DatabaseSpec, seed: int, clip: int, votes: bool
) -> None:
    database = fill(spec, 15, seed)
    for name in spec.tables:
        ranked = q.RankedCounts(name, "l", clip, votes=votes).evaluate(database)
        wanted = by_hand(database, name, q.LabelCounts(name, "l", clip, "l1", votes=votes))
        falling = np.sort([GRID * x for x in wanted.values()])[::-1]
        assert ranked[1] == pytest.approx(sum(falling[:1]), abs=64)
        assert ranked[2] == pytest.approx(sum(falling[1:2]), abs=64)
        assert ranked[3] == pytest.approx(sum(falling[2:4]), abs=64)
        assert ranked[1:].sum() == pytest.approx(falling.sum(), abs=64)


def test_values_of_one_unit_alone_are_never_counted_and_nulls_where_it_has_one_row() -> None:
    words = Labels(np.array([0, 0, 0, 1, 1]), ["mine", "ours"])
    rows = two_tables([0, 0, 0, 1, 2], l=words)
    assert q.LabelCounts("posts", "l").evaluate_labels(rows)[1] == {"ours": GRID}
    # Nulls count where a unit has one row.
    words = Labels(np.array([0, -1, -1, 0]), ["x"])
    alone, owned = of_tables(users=(4, {"l": words})), two_tables([0, 0, 1, 2], l=words)
    assert q.LabelCounts("users", "l").evaluate_labels(alone)[0][0] == 2 * GRID
    assert q.RankedCounts("users", "l").evaluate(alone)[0] == 2 * GRID
    assert q.LabelCounts("posts", "l").evaluate_labels(owned)[0].tolist() == [0]
    # The unit of a row with a value and one without counts in full for the value.
    assert q.RankedCounts("posts", "l").evaluate(owned)[:2].tolist() == [0, 2 * GRID]


def test_a_vote_counts_for_a_label_that_few_rows_of_heavy_units_hold() -> None:
    words = Labels(np.tile([0] * 19 + [1], 100), ["common", "rare"])
    rows = two_tables(np.repeat(np.arange(100), 20).tolist(), l=words)
    for norm, votes, least, most in (
        ("l2", True, 70, 70), ("l1", True, 50, 50), ("l2", False, 4, 5), ("l1", False, 4, 4),
    ):  # fmt: skip
        query = q.LabelCounts("posts", "l", norm=norm, public=("rare",), votes=votes)
        assert least <= query.evaluate_labels(rows)[0][1] // GRID <= most
    # One vote a label and unit is lighter than a whole unit, so no list names one unit's labels.
    alone = Labels(np.array([0, 1, 1]), ["x", "y"])
    mine = two_tables([0, 0, 0], l=alone)
    assert q.LabelCounts("posts", "l", votes=True).evaluate_labels(mine)[1] == {}


def test_which_of_a_units_values_count_is_random() -> None:
    words = Labels(np.tile(np.arange(3), 6000), ["a", "b", "c"])
    rows = two_tables(np.repeat(np.arange(6000), 3).tolist(), l=words)
    _, counts = q.LabelCounts("posts", "l", most=1).evaluate_labels(rows)
    units = [count // GRID for count in counts.values()]
    assert sum(units) == 6000 - 3
    assert scipy.stats.chisquare(units).pvalue > 1e-9
    with pytest.raises(PrivbenchError, match="threshold"):
        q.LabelCounts("posts", "l").evaluate(rows)


def test_points_of_a_grid_are_labels_in_digits() -> None:
    points = Grid(np.array([-7, -7, -7, NULL, NEG_INF, POS_INF]))
    rows = two_tables([0, 0, 1, 2, 2, 3], g=points)
    query = q.LabelCounts("posts", "g")
    assert query.evaluate_labels(rows)[1] == {"-7": GRID}
    cells, others = replace(query, public=("-7", "none")).evaluate_labels(rows)
    assert (cells[1:].tolist(), others) == ([2 * GRID, 0], {})
    # Millions of points become no text, but for those that are left.
    assert query._held(rows)[1].type == "int64"


@pytest.mark.parametrize("scale", [2, 16])
def test_steps_are_the_largest_over_all_counts(scale: int) -> None:
    whole, part = levels(scale, 4)
    vectors = np.zeros((whole.size, 7), dtype=np.int64)
    rows = np.arange(whole.size)
    vectors[rows, whole] = GRID - part
    vectors[rows, whole + 1] += part
    changes = np.abs(np.diff(vectors, axis=0))
    step = steps(scale, 4)
    assert step.l1 == changes.sum(axis=1).max()
    assert step.linf == changes.max()
    exact = math.sqrt((changes.astype(float) ** 2).sum(axis=1).max())
    assert step.l2 == pytest.approx(exact, rel=1e-12)
    x = np.log2(1 + rows / scale)
    assert np.abs(whole + part / GRID - x).max() < 1e-8


def test_fan_in_counts_sixteen_kept_edges_by_bucket() -> None:
    database = two_tables([0] * 3 + [1] * 16 + [-1] * 2, refs=[1] * 3 + [2] * 16 + [2, -1], users=3)
    key = database.spec.tables["posts"].key("ref")
    query = q.FanIn(key, buckets=2)
    found = query.evaluate(database)
    x1, x2 = math.log2(1 + 3 / 16), math.log2(1 + 17 / 16)
    expected = [1 + 1 - x1, x1 + 2 - x2, x2 - 1]
    users = [value / GRID for value in found.tolist()]
    assert users == pytest.approx(expected, abs=1e-6)
    assert query.marks(database.spec) == (0, 16, 48)
    assert int(found.sum()) == 3 * GRID
    # 64 rows, half of them NULL: about 8 edges count, never all 32 nor always 16.
    kept = []
    for _ in range(60):
        database = two_tables([0] * 64, refs=[1] * 32 + [-1] * 32, users=2)
        key = database.spec.tables["posts"].key("ref")
        kept.append(int(q.FanIn(key)._edges(database)[1]))
    assert max(kept) <= 16
    assert 6.5 < np.mean(kept) < 9.5


OWNED = two_tables([0], [[0], [0]], [2, 2], refs=[0], bound="truncation", tau=3).spec
WEIGHED = two_tables([0], [[0], [0]], [2, 2], refs=[0]).spec
TAG = KeySpec("ref", "tags", "users", "ref", nullable=True)
LOOP = KeySpec("ref", "tags", "tags", "ref", nullable=True)
TAGS = DatabaseSpec({"tags": TableSpec("tags", {}, (TAG,)), "users": TableSpec("users", {})})
LOOPS = DatabaseSpec({"tags": TableSpec("tags", {}, (LOOP,))})
NAMED = KeySpec("tag", "posts", "tags", "public")
FILED = DatabaseSpec({"posts": TableSpec("posts", {}, (NAMED,))})
REF = WEIGHED.tables["posts"].key("ref")
EDGE = 2 * math.log2(17 / 16)
ALONE = 2 * math.log2(3 / 2)
POSTS, USERS = q.Histogram("posts", (q.Column("a0", 2),)), q.Histogram.of(OWNED, "users", ())
GRIDS = q.GridHistogram("users", "g", q.PublicArray([0, 1]))
PAIR = (OWNED, "posts", ("a0", "a1"), [(0, 1)], [np.zeros((2, 2))])
SCORES, DEPENDENCE = q.PairScores.of(*PAIR), q.DependenceScores.of(*PAIR)
ROOT = math.sqrt(2)
ONES, ZEROS = (WithCodes("posts", "a0", (code,)) for code in (1, 0))


class Anything(q.RowSubset):
    """Rows of which nothing is known: a row may lie in all such subsets, and in others."""

    table = "posts"

    def rows(self, data: PrivateDatabase) -> Any:
        raise NotImplementedError


ANY = Anything()
#: Kinds of queries to whose cells every unit adds, whoever else there is.
ADDING = {
    "histogram", "joint histogram", "grid histogram", "normed grid histogram",
    "normed histogram", "label counts", "ranked counts", "total", "cross moment", "word votes",
    "word presence", "order test", "presence pairs",
}  # fmt: skip
NORMED = q.GridHistogram("posts", "g", q.PublicArray(range(8)), 1)
SETS = q.PresencePairs("posts", (q.Column("a0", 4),), 3)
LISTS = [q.LabelCounts("posts", "l", most=most) for most in (5, 4)]


@pytest.mark.parametrize(
    ("spec", "query", "l1", "l2", "linf"),
    [
        (WEIGHED, POSTS, 1, 1, 1),
        (OWNED, POSTS, 3, 3, 3),
        (with_relation(OWNED, REPLACE), POSTS, 6, 3 * ROOT, 3),
        (with_relation(WEIGHED, REPLACE), POSTS, 2, ROOT, 1),
        (with_relation(WEIGHED, REPLACE), q.Joint((POSTS, POSTS)), 4, 2, 1),
        (with_relation(WEIGHED, REPLACE), GRIDS, 2, ROOT, 1),
        (WEIGHED, q.RankedCounts("posts", "l"), 1, 1, 1),
        (with_relation(WEIGHED, REPLACE), q.RankedCounts("posts", "l"), 2, ROOT, 1),
        (OWNED, USERS, 1, 1, 1),
        (with_relation(OWNED, REPLACE), USERS, 2, ROOT, 1),
        (OWNED, GRIDS, 1, 1, 1),
        (with_relation(OWNED, REPLACE), GRIDS, 2, ROOT, 1),
        (WEIGHED, SCORES, 1, 1, 1),
        (with_relation(WEIGHED, REPLACE), SCORES, 2, 2, 2),
        (WEIGHED, DEPENDENCE, 2, 2, 2),
        (with_relation(WEIGHED, REPLACE), DEPENDENCE, 4, 4, 4),
        (WEIGHED, q.Joint((POSTS, replace(POSTS, region=ONES), POSTS)), 3, math.sqrt(3), 1),
        (WEIGHED, q.Joint((replace(POSTS, region=ONES), replace(POSTS, region=ZEROS))), 1, 1, 1),
        (WEIGHED, q.Joint((replace(POSTS, region=ONES), replace(POSTS, region=ANY))), 2, ROOT, 1),
        (WEIGHED, q.FanIn(REF), 1 + 16 * EDGE, 1 + 16 * EDGE / ROOT, 1 + 8 * EDGE),
        (TAGS, q.FanIn(TAG), ALONE, 1, 1),
        (with_relation(TAGS, REPLACE), q.FanIn(TAG), 2 * ALONE, 2, 2),
        (LOOPS, q.FanIn(LOOP), 1 + ALONE, 1 + ALONE / ROOT, 1 + ALONE / 2),
        (WEIGHED, NORMED, 3, 1, 1),
        (with_relation(WEIGHED, REPLACE), NORMED, 6, ROOT, 1),
        (WEIGHED, SETS, 3, 1, 1),
        (with_relation(WEIGHED, REPLACE), SETS, 6, ROOT, 1),
        (WEIGHED, replace(SETS, norm="l1"), 1, 1, 1),
        (FILED, replace(SETS, public=NAMED), 3, 1, 1),
        (with_relation(FILED, REPLACE), replace(SETS, public=NAMED), 6, 2, 2),
        (WEIGHED, LISTS[0], 3, 1, 1),
        (with_relation(WEIGHED, REPLACE), LISTS[1], 4, ROOT, 1),
        (WEIGHED, replace(LISTS[0], norm="l1"), 1, 1, 1),
        (with_relation(WEIGHED, REPLACE), replace(LISTS[0], norm="l1"), 2, ROOT, 1),
        (WEIGHED, replace(LISTS[0], source="users"), 1, 1, 1),
    ],
)
def test_claims(spec: DatabaseSpec, query: Query, l1: float, l2: float, linf: float) -> None:
    claim = query.sensitivity(spec)
    found = claim.l1 / GRID, claim.l2 / GRID, claim.linf / GRID
    assert found == pytest.approx((l1, l2, linf), abs=1e-6)
    if isinstance(query, q.LabelCounts):
        times = 2 if spec.relation == REPLACE else 1
        assert claim.l0 == (1 if query.table == "users" else times * query.most)
    if isinstance(query, q.FanIn):
        assert query.roots(spec) == spec.roots(query.key.table) | spec.roots(query.key.parent)


WIDE = q.Histogram("users", (q.Column("u", 2**13), q.Column("u", 2**13)))
RAW = fill(DatabaseSpec({"t": TableSpec("t", {})}), 9, 3)
SETTLED = settled(RAW)


def pairs(*predictions: Any) -> q.PairScores:
    return q.PairScores.of(OWNED, "posts", ("a0", "a1"), [(0, 1)], predictions)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: q.Children(REF), "OWN"),
        (lambda: q.Owner(REF, U), "OWN"),
        (lambda: q.Sibling(REF, P, 0), "OWN"),
        (lambda: q.FanIn(OWN), "REF"),
        (lambda: q.PublicTarget(REF, 3), "public"),
        (lambda: replace(SETS, public=OWN).sensitivity(WEIGHED), "public"),
        (lambda: replace(SETS, public=NAMED).sensitivity(WEIGHED), "public"),
        (lambda: q.Children(OWN, (1, 2)), "ascend"),
        (lambda: q.Histogram("posts", (q.Children(OWN),)).evaluate(CHAIN), "not the parent"),
        (lambda: q.Histogram("users", (q.Owner(OWN, U),)).evaluate(CHAIN), "no key"),
        (lambda: q.Histogram("users", (q.Column("u", 3),)).evaluate(CHAIN), "does not fit"),
        (lambda: q.Histogram.of(CHAIN.spec, "users", ("nothing",)), "not settled"),
        (lambda: q.Histogram("users", (q.Column("u", 2**16), q.Column("u", 2**16))), "too large"),
        (lambda: q.Histogram("t", (q.Column("a", 2),), WithCodes("u", "a", ())), "another table"),
        (lambda: q.Column.of(CHAIN.spec, "posts", "p", q.PublicArray([1, 0])), "bins do not fit"),
        (lambda: q.Joined(()), "joined axes"),
        (lambda: q.Joined((q.Column("p", 2**13), q.Column("p", 2**13))), "joined axes"),
        (lambda: q.Joined(NINE, q.PublicArray([0, 1])), "groups"),
        (lambda: q.Joined(NINE, q.PublicArray([[0, 0, 1], [2, 2, 1], [0, 0, -1]])), "groups"),
        (lambda: q.Histogram("users", (q.Refers(REF),)).evaluate(CHAIN), "no key"),
        (lambda: q.Histogram("users", (q.PublicTarget(NAMED, 3),)).evaluate(CHAIN), "no key"),
        (lambda: q.Joint((WIDE,) * 64), "too large"),
        (lambda: q.Joint(()), "parts"),
        (lambda: q.Joint((POSTS, USERS)), "parts"),
        (lambda: q.Joint((POSTS, SCORES)), "parts"),
        (lambda: pairs(), "one prediction"),
        (lambda: pairs(np.zeros((2, 3))), "does not fit"),
        (lambda: pairs(np.full((2, 2), 1e30)), "too large"),
        (lambda: pairs(np.full((2, 2), 10**9)), "too large"),
        (lambda: replace(SCORES, among=q.PublicArray(np.zeros(0, np.int64))), "left"),
        (lambda: q.LabelCounts("posts", "l", public=("a", "a")), "distinct"),
        (lambda: q.Histogram("t", (q.Column("g", EDGES.domain.size),)).evaluate(RAW), "settled"),
        (lambda: q.GridHistogram("t", "g", q.PublicArray([1])).evaluate(SETTLED), "coded already"),
        (lambda: q.LabelCounts("t", "l").evaluate_labels(SETTLED), "coded already"),
        *(
            (lambda points=points: q.GridHistogram("t", "g", q.PublicArray(points)), "grid points")
            for points in ([], [1, 1], [2, 1], [NULL], [NEG_INF, 0], [[0, 1]])
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((SchemaError, PrivacyRefusal), match=message):
        make()


@given(spec=specs(ADD), seed=SEED)
@QUICK
def test_sensitivity_is_ordered_and_twice_as_large_under_replace(spec, seed):
    """Of what does not only add; queries are hashable, and say in one line what they read."""
    added = settled(fill(spec, 3, seed)).spec
    replaced = with_relation(added, REPLACE)
    for query in queries(added):
        one, other = query.sensitivity(added), query.sensitivity(replaced)
        twice = 2 * one.l1, 2 * one.l2, 2 * one.linf
        if query.kind not in ADDING:
            assert (other.l1, other.l2, other.linf) == pytest.approx(twice), query.kind
        assert 0 < one.linf <= one.l2 * (1 + 1e-12)
        assert one.l2 <= one.l1 * (1 + 1e-12)
        assert isinstance(one.l1, int)
        assert hash(query) == hash(query)
        assert query.kind
        assert query.unit >= 1
        assert query.roots(added) <= set(spec.tables)
        assert "\n" not in repr(query.columns)


@given(spec=specs(), seed=SEED)
@QUICK
def test_statistics_do_not_depend_on_row_order_or_numbering(spec: DatabaseSpec, seed: int) -> None:
    """Same rows, same random ranks, another physical order."""
    database = fill(spec, 12, seed)
    raw = database, renumbered(database, seed + 1)[0]
    ready = settled(raw[0]), settled(raw[1])
    for query in queries(ready[0].spec):
        if isinstance(query, q.LabelCounts):
            one, other = (query.evaluate_labels(side) for side in raw)
        else:
            one, other = (query.evaluate(side) for side in (raw if query.reads_raw else ready))
        assert change(one, other).l1 == 0, query.kind


def test_truncated_rows_are_a_uniform_choice() -> None:
    """In distribution: with fresh ranks each of a unit's rows is kept equally often."""
    owners = np.repeat(np.arange(5000), 4).tolist()
    database = two_tables(owners, [np.tile(np.arange(4), 5000).tolist()], [4], bound="truncation")
    counts = q.Histogram.of(database.spec, "posts", ("a0",)).evaluate(database) // GRID
    assert counts.sum() == 5000
    assert scipy.stats.chisquare(counts).pvalue > 1e-9
