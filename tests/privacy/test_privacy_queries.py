"""Each query's statistic against a row-by-row definition, its claim, and what it refuses."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy
from harness import check, statistics
from hypothesis import given, settings
from hypothesis import strategies as st
from private_tables import of_tables, two_tables
from small_databases import (
    ADD,
    BINS,
    EDGES,
    REPLACE,
    ROW,
    WithCodes,
    fill,
    queries,
    recodings,
    renumbered,
    settled,
    specs,
    with_relation,
)
from stability import change

from privbench.domain import Domain
from privbench.errors import PrivacyRefusal, PrivbenchError, SchemaError
from privbench.privacy import queries as q
from privbench.privacy import recoding, units
from privbench.privacy.data import Cells, Grid, Labels
from privbench.privacy.queries import counting, histogram, labels, references, words
from privbench.privacy.queries.references import SHARES, levels, steps
from privbench.privacy.query import GRID
from privbench.privacy.recoding import NEG_INF, NULL, POS_INF, EdgesRecoding
from privbench.privacy.spec import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.units import BOTTOM, single

QUICK = settings(max_examples=30, deadline=None)
SEED = st.integers(0, 2**32)


# Statistics by their definitions.


@given(spec=specs(), seed=SEED)
@QUICK
def test_histograms_that_are_counted_together_are_those_that_are_counted_alone(spec, seed):
    """Those of an axis with itself, too, whose weight lies on the diagonal."""
    database, sets = fill(spec, 12, seed), ((0,), (1, 0), (0, 0), (0, 1), (1, 0, 1))
    for name in spec.tables:
        axes = q.Histogram.of(database.spec, name, ("c0", "c2")).axes
        asked = counting.Marginals(name, axes, sets)
        codes, weights = (
            [axis.codes(database, name) for axis in axes],
            database._units.weights(name),
        )
        for chosen, counts in zip(sets, counting.marginals(database, asked), strict=True):
            cells = np.zeros([axes[place].size for place in chosen], np.int64)
            np.add.at(cells, tuple(codes[place] for place in chosen), weights)
            assert np.array_equal(counts, cells), chosen


@given(spec=specs(), seed=SEED)
@QUICK
def test_histograms_and_totals_count_rows_one_by_one(spec, seed):
    database = fill(spec, 12, seed)
    for name in spec.tables:
        columns = (database._codes(name, column)[0] for column in ("c0", "c2"))
        query = q.Histogram.of(database.spec, name, ("c0", "c2"))
        cells = np.zeros(query.shape, np.int64)
        np.add.at(cells, tuple(columns), database._units.weights(name))
        assert np.array_equal(query.evaluate(database), cells)
        units = Counter(database._units.identity(name).tolist())
        clip = 1 if single(spec, name) else 2
        total = sum(min(rows, clip) for rows in units.values())
        assert q.Total(name, 2).evaluate(database).tolist() == [total]
        # And of other tables, the rows of a row's own unit.
        for other in spec.tables:
            theirs = database._units.identity(other).tolist()
            rows = [theirs.count(unit) for unit in database._units.identity(name).tolist()]
            assert q.UnitRows(other, tuple(range(13))).codes(database, name).tolist() == rows


def test_counting_is_exact_where_floating_point_is_not():
    """2²⁴ weights of GRID − 1: their sum needs 54 bits."""
    rows = 2**24
    index = np.zeros(q.counting._LARGE, dtype=np.intp)
    weights = np.full(q.counting._LARGE, GRID - 1, dtype=np.int64)
    total = np.zeros(1, dtype=np.int64)
    for _ in range(rows // q.counting._LARGE):
        q.counting.add(total, index, weights)
    assert int(total[0]) == rows * (GRID - 1)


def chain():
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
HALF, THIRD = GRID // 2, GRID // 3


@pytest.mark.parametrize(
    ("rows", "table", "axes", "expected"),
    [
        (CHAIN, "users", (q.Children(OWN, (0, 1, 2)),), [0, GRID, GRID]),
        # Posts of user 0 weigh ½ each: one has three links, one none. The two others weigh 1.
        (CHAIN, "posts", (q.Children(DEEP, (0, 1, 2)),), [HALF + GRID, GRID, HALF]),
        # Three links of a post of user 0, who has two posts, and two links without a user.
        (CHAIN, "links", (q.Owner(DEEP, q.Owner(OWN, q.Children(OWN, (0, 1, 2)))),),
         [0, 0, 3 * THIRD, GRID, GRID]),
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


def test_public_arrays_are_values():
    values = np.array([[1, 2], [3, 4]])
    array = q.PublicArray(values)
    values[0, 0] = 9
    assert array.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        array.values[0, 0] = 5
    with pytest.raises(ValueError, match="integers"):
        q.PublicArray([0.5])
    assert len({array, q.PublicArray([[1, 2], [3, 4]])}) == 1
    # Fingerprints of queries rest on their texts.
    assert array.digest.hex() in repr(array)
    assert q.PublicArray.rounded([0.5, np.nan, np.inf], 4).values.tolist() == [2, 0, 2**62]


@pytest.mark.parametrize("kind", [q.PairScores, q.DependenceScores])
def test_scores_are_half_the_distance_less_penalty_and_what_margins_explain(kind):
    database = two_tables([0, 1, 2], [[0, 1, 1], [0, 1, 0]], [2, 2])
    asked = database.spec, "posts", ("a0", "a1"), [(0, 1)]
    table, prediction = np.array([[1, 0], [1, 1]]), np.array([[1.5, 0.0], [0.25, 1.0]])
    margins = max(np.abs((table - prediction).sum(axis)).sum() for axis in (0, 1))
    explained = margins if kind is q.DependenceScores else 0.0
    query = kind.of(*asked, [prediction], penalties=[0.125])
    expected = 0.5 * (np.abs(table - prediction).sum() - explained) - 0.125
    assert query.evaluate(database).tolist() == [round(expected * query.unit)]
    # A prediction of the right shape and the wrong size scores by its margins alone.
    twice = kind.of(*asked, [2 * table]).evaluate(database)
    assert bool(twice[0]) == (kind is q.PairScores)


@pytest.mark.parametrize("kind", [q.PairScores, q.DependenceScores])
def test_scores_of_what_is_left_are_those_of_all(kind):
    """Distances are kept with the database, for each prediction by itself."""
    cells = np.random.default_rng(2).integers(0, 3, (3, 40))
    database = two_tables(range(40), cells, [3, 3, 3])
    pairs, axes = [(0, 1), (0, 2), (1, 2)], ("a0", "a1", "a2")
    for level in (1.0, 5.0):
        predictions = [np.diag([level, 2.0, 3.0]) + k for k in range(3)]
        whole = kind.of(database.spec, "posts", axes, pairs, predictions, penalties=[0.1, 0.2, 0.3])
        every, claim = whole.evaluate(database), whole.sensitivity(database.spec)
        for left in ([2, 0], [1], [0, 1, 2]):
            part = replace(whole, among=q.PublicArray(left))
            assert part.evaluate(database).tolist() == every[left].tolist()
            assert part.shape == (len(left),)
            assert part.sensitivity(database.spec).linf == claim.linf
            assert part.sensitivity(database.spec).l1 * 3 == claim.l1 * len(left)


@pytest.mark.parametrize("limit", [1, 40, 2**24])
def test_kept_pair_tables_are_the_exact_ones(limit, monkeypatch):
    """In any order and number of passes, of each binning, region and database by itself."""
    monkeypatch.setattr(q.scores, "PASS", limit)
    sizes, rng = (5, 3, 7, 4), np.random.default_rng(1)
    axes = [q.Column(f"a{k}", size) for k, size in enumerate(sizes)]
    bins = ([0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1])
    axes += [q.Column("a2", 2, q.PublicArray(binned)) for binned in bins]
    pairs = list(combinations(range(6), 2))
    for rows in (3000, 2000):
        data = two_tables(range(rows), [rng.integers(0, size, rows) for size in sizes], sizes)
        for asked in (pairs[:2], pairs, pairs[::-1], pairs[3:]):
            for region in (None, WithCodes("posts", "a1", (1, 2))):
                tables = q.scores.pair_tables(data, "posts", axes, region, asked)
                for (i, j), table in zip(asked, tables, strict=True):
                    exact = q.Histogram("posts", (axes[i], axes[j]), region).evaluate(data)
                    assert np.array_equal(table, exact)


def test_predictions_of_large_tables_are_scored_exactly():
    """Hundreds of pairs of a table of a billion rows; no distance passes 2⁶²."""
    rows, data = 10**9, two_tables(range(10), [[0] * 10, [1] * 10], [2, 2])
    predictions = [np.full((2, 2), rows / 4)] * 600
    query = q.PairScores.of(data.spec, "posts", ("a0", "a1"), [(0, 1)] * 600, predictions)
    assert (np.abs(query.evaluate(data) - rows * GRID) <= 20 * GRID).all()


POINTS = [-9, -1, 3, 8, 99]


@given(spec=specs(), seed=SEED)
@QUICK
def test_grid_histograms_weigh_rows_as_histograms_do(spec, seed):
    """The same cells as those of a column that is settled by the same edges, under every spec."""
    database = fill(spec, 15, seed)
    edges = EdgesRecoding((-(10**6), *POINTS, 10**6), ("nan", "-inf", "inf"), nullable=True)
    for name in spec.tables:
        ready = database.copy()
        ready.recode(name, "g", edges)
        expected = q.Histogram.of(ready.spec, name, ("g",)).evaluate(ready)[: len(POINTS) + 1]
        counts = q.GridHistogram(name, "g", q.PublicArray(POINTS)).evaluate(database)
        assert counts.tolist() == expected.tolist()


def test_grid_histograms_at_the_ends_of_64_bits():
    """The least and the greatest points: none is lost, none wraps."""
    points = [NEG_INF + 1, 0, 1, POS_INF - 1]
    query = q.GridHistogram("t", "g", q.PublicArray(points))
    counts = query.evaluate(of_tables(t=(4, {"g": Grid(np.array(points))})))
    assert (counts // GRID).tolist() == [0, 1, 1, 1, 1]


def normed_by_hand(units, cells, size, clip):
    """Every unit's counts of cells, divided by their norm; cells below 0 do not count."""
    sums = np.zeros(size)
    for unit in np.unique(units):
        counts = np.bincount(cells[(units == unit) & (cells >= 0)], minlength=size)
        sums += counts / max(float(np.linalg.norm(counts)), clip)
    return (GRID * sums).tolist()


@given(spec=specs(), seed=SEED, clip=st.integers(1, 3))
@QUICK
def test_units_of_normed_histograms_add_their_counts_at_norm_one(spec, seed, clip):
    database = fill(spec, 15, seed)
    ready = settled(database)
    for name in spec.tables:
        units = ready._units.identity(name)
        axes = q.Histogram.of(ready.spec, name, ("c1", ("c2", BINS))).axes
        cells = axes[0].codes(ready, name).astype(int) * 2 + axes[1].codes(ready, name)
        counts = q.NormedHistogram(name, axes).evaluate(ready).ravel().tolist()
        assert counts == pytest.approx(normed_by_hand(units, cells, 4, 1), abs=2**10)
        values = database._raw(name, "g")._values
        cells = np.searchsorted(POINTS, values, side="right")
        cells[(values <= NEG_INF) | (values == POS_INF)] = -1
        counts = q.GridHistogram(name, "g", q.PublicArray(POINTS), clip).evaluate(database)
        expected = normed_by_hand(units, cells, len(POINTS) + 1, clip)
        assert counts.tolist() == pytest.approx(expected, abs=2**10)


@QUICK
@given(rows=st.lists(st.integers(1, 2**20), min_size=1, max_size=6))
def test_what_a_unit_adds_to_a_normed_histogram_never_passes_its_norm(rows):
    """In exact integers, also of units of millions of rows."""
    counts = np.zeros(len(rows), np.int64)
    cells = np.repeat(np.arange(len(rows)), rows)
    histogram._add(counts, np.zeros(len(cells), np.int64), cells, 1)
    assert 0.99 * GRID**2 < sum(int(value) ** 2 for value in counts) <= GRID**2


def labels_by_hand(database, name, query):
    """X of every value, from rows one by one; where no unit has more values than count."""
    column, units = database._raw(name, "l"), database._units
    words, alone = column._labels.to_pylist(), single(database.spec, name)
    rows = defaultdict(Counter)
    of_rows = (units.identity(name), units.ranks(name), column._codes)
    for unit, rank, code in zip(*(part.tolist() for part in of_rows), strict=True):
        if code >= 0 and not (alone and rank):
            rows[unit][words[code]] += 1
    sums = Counter()
    for of_unit in rows.values():
        if query.votes and not alone:
            of_unit = dict.fromkeys(of_unit, 1)
        power = 1 if query.norm == "l1" else 2
        size = sum(h**power for h in of_unit.values()) ** (1 / power)
        size = query.clip if alone else max(size, query.clip)
        for word, h in of_unit.items():
            sums[word] += h / size
    return sums


NORM = st.sampled_from(["l1", "l2"])


@given(spec=specs(), seed=SEED, clip=st.integers(1, 4), norm=NORM, votes=st.booleans())
@QUICK
def test_units_count_by_their_rows_or_votes_at_norm_one(spec, seed, clip, norm, votes):
    database = fill(spec, 15, seed)
    for name in spec.tables:
        query = q.LabelCounts(name, "l", clip, norm, ("word1", "no such"), votes=votes)
        cells, counts = query.evaluate_labels(database)
        expected = labels_by_hand(database, name, query)
        # Roots are rounded up to 16 fractional bits, so that weights are a little too small.
        assert cells[1] == pytest.approx(GRID * expected["word1"], abs=2**17)
        assert cells[1] <= GRID * expected["word1"] + 1
        assert cells[2] == 0
        left = {w: GRID * (x - 1) for w, x in expected.items() if x > 1.001 and w != "word1"}
        clear = {word: count for word, count in counts.items() if word in left}
        assert clear == pytest.approx(left, abs=2**17)
        assert all(count < 2**21 for word, count in counts.items() if word not in left)
        # Ranked, the same counts are sorted, and summed in blocks.
        ranked = q.RankedCounts(name, "l", clip, votes=votes)
        expected = labels_by_hand(database, name, replace(query, norm="l1"))
        falling = np.sort([GRID * x for x in expected.values()])[::-1]
        sums = [sum(falling[a:b]) for a, b in ((0, 1), (1, 2), (2, 4))]
        blocks = ranked.evaluate(database)
        assert blocks[1:4].tolist() == pytest.approx(sums, abs=64)
        assert blocks[1:].sum() == pytest.approx(falling.sum(), abs=64)


def test_values_of_one_unit_alone_are_never_counted_and_nulls_where_it_has_one_row():
    words = Labels(np.array([0, 0, 0, 1, 1]), ["mine", "ours"])
    rows = two_tables([0, 0, 0, 1, 2], l=words)
    assert q.LabelCounts("posts", "l").evaluate_labels(rows)[1] == {"ours": GRID}
    # A vote is lighter than a whole unit.
    assert q.LabelCounts("posts", "l", votes=True).evaluate_labels(rows)[1] == {"ours": GRID}
    words = Labels(np.array([0, -1, -1, 0]), ["x"])
    alone, owned = of_tables(users=(4, {"l": words})), two_tables([0, 0, 1, 2], l=words)
    assert q.LabelCounts("users", "l").evaluate_labels(alone)[0][0] == 2 * GRID
    assert q.RankedCounts("users", "l").evaluate(alone)[0] == 2 * GRID
    assert q.LabelCounts("posts", "l").evaluate_labels(owned)[0].tolist() == [0]
    # The unit of a row with a value and one without counts in full for the value.
    assert q.RankedCounts("posts", "l").evaluate(owned)[:2].tolist() == [0, 2 * GRID]


@pytest.mark.parametrize(
    ("norm", "votes", "units"),
    [("l2", True, 70), ("l1", True, 50), ("l2", False, 5), ("l1", False, 4)],
)
def test_a_vote_counts_for_a_label_that_few_rows_of_heavy_units_hold(norm, votes, units):
    """Of a hundred units, each with 19 rows of a common label and one of a rare one."""
    words = Labels(np.tile([0] * 19 + [1], 100), ["common", "rare"])
    rows = two_tables(np.repeat(np.arange(100), 20), l=words)
    query = q.LabelCounts("posts", "l", norm=norm, public=("rare",), votes=votes)
    assert query.evaluate_labels(rows)[0][1] / GRID == pytest.approx(units, abs=1)


def test_which_of_a_units_values_count_is_random():
    words = Labels(np.tile(np.arange(3), 6000), ["a", "b", "c"])
    rows = two_tables(np.repeat(np.arange(6000), 3), l=words)
    _, counts = q.LabelCounts("posts", "l", most=1).evaluate_labels(rows)
    units = [count // GRID for count in counts.values()]
    assert sum(units) == 6000 - 3
    assert scipy.stats.chisquare(units).pvalue > 1e-9


def test_points_of_a_grid_are_labels_in_digits():
    points = Grid(np.array([-7, -7, -7, NULL, NEG_INF, POS_INF]))
    rows = two_tables([0, 0, 1, 2, 2, 3], g=points)
    query = q.LabelCounts("posts", "g")
    assert query.evaluate_labels(rows)[1] == {"-7": GRID}
    cells, others = replace(query, public=("-7", "none")).evaluate_labels(rows)
    assert (cells[1:].tolist(), others) == ([2 * GRID, 0], {})


# References.


@pytest.mark.parametrize("scale", [2, 16])
def test_steps_are_the_largest_over_all_counts(scale):
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
    assert np.abs(whole + part / GRID - np.log2(1 + rows / scale)).max() < 1e-8


def test_fan_in_counts_sixteen_kept_edges_by_bucket():
    database = two_tables([0] * 3 + [1] * 16 + [-1] * 2, refs=[1] * 3 + [2] * 16 + [2, -1], users=3)
    query = q.FanIn(database.spec.tables["posts"].key("ref"), buckets=2)
    x1, x2 = math.log2(1 + 3 / 16), math.log2(1 + 17 / 16)
    users = query.evaluate(database) / GRID
    assert users == pytest.approx([1 + 1 - x1, x1 + 2 - x2, x2 - 1], abs=1e-6)
    assert query.marks(database.spec) == (0, 16, 48)
    # 64 rows, half of them NULL: about 8 edges count, never all 32 nor always 16.
    kept = []
    for _ in range(60):
        database = two_tables([0] * 64, refs=[1] * 32 + [-1] * 32, users=2)
        kept.append(int(query._edges(database)[1]))
    assert max(kept) <= 16
    assert 6.5 < np.mean(kept) < 9.5


def targets_by_hand(database, query):
    """References row by row, with exact fractions."""
    key, units = query.key, database._units
    alone = single(database.spec, key.table)
    most, tau = (1, 1) if alone else (16, database.spec.tables[key.table].tau)
    near = [axis.codes(database, key.table).tolist() for axis in query.source]
    far = [axis.codes(database, key.parent).tolist() for axis in query.target]
    mine, theirs = units.identity(key.table), units.identity(key.parent)
    incoming = defaultdict(Counter)
    for row, edge in enumerate(database._parents(key).tolist()):
        if units.ranks(key.table)[row] >= most or edge < 0:
            continue
        if query.outside and mine[row] == theirs[edge]:
            continue
        n = min(int((mine == mine[row]).sum()), most)
        cell = (*(axis[row] for axis in near), *(axis[edge] for axis in far))
        incoming[int(theirs[edge])][cell] += GRID * min(n, tau) // (tau * n)
    counts = np.zeros(query.shape, dtype=np.int64)
    for cells in incoming.values():
        factor = min(Fraction(1), Fraction(query.cap * GRID, sum(cells.values())))
        for cell, weight in cells.items():
            counts[cell] += math.floor(weight * factor)
    return counts


def ref_keys(spec):
    return [key for table in spec.tables.values() for key in table.keys if key.role == "ref"]


@given(data=st.data(), seed=SEED, cap=st.sampled_from([1, 2, 5]), outside=st.booleans())
@QUICK
def test_targets_count_every_row(data, seed, cap, outside):
    spec = data.draw(specs(data.draw(st.sampled_from([ADD, ROW]))))
    database = settled(fill(spec, 40, seed))
    for key in ref_keys(spec):
        asked = database.spec, key, ("c0", "c2"), ("c1",)
        query = q.TargetHistogram.of(*asked, cap=cap, outside=outside)
        assert np.array_equal(query.evaluate(database), targets_by_hand(database, query))


@given(data=st.data(), seed=SEED)
@settings(max_examples=10, deadline=None)
def test_scores_of_targets_are_distances_from_shares_of_the_margin(data, seed):
    spec = data.draw(specs(data.draw(st.sampled_from([ADD, ROW]))))
    database, scores = settled(fill(spec, 20, seed)), []
    for key in ref_keys(spec):
        pair = q.TargetHistogram.of(database.spec, key, ("c0",), ("c1",), cap=2)
        half = q.PublicArray([SHARES // pair.shape[0]] * pair.shape[0])
        scores.append(q.TargetScores(key, (pair, pair), (half, half), q.PublicArray([0, GRID])))
        counts = pair.evaluate(database) / GRID
        off = np.abs(counts - half.values[:, None] / SHARES * counts.sum(axis=0)).sum()
        assert np.allclose(scores[-1].evaluate(database) / GRID, [off, off - 1.0])
    assert check(scores, database).ok


# What a statistic may not depend on.


@given(spec=specs(), seed=SEED)
@QUICK
def test_statistics_do_not_depend_on_row_order_or_numbering(spec, seed):
    """Same rows, same random ranks, another physical order."""
    database = fill(spec, 12, seed)
    asked = queries(settled(database).spec)
    first, second = (
        statistics(asked, rows, recodings(spec))
        for rows in (database, renumbered(database, seed + 1))
    )
    for query, one, other in zip(asked, first, second, strict=True):
        assert change(one, other).l1 == 0, query.kind


@given(spec=specs(), seed=SEED)
@QUICK
def test_statistics_do_not_depend_on_how_many_rows_are_read_at_once(spec, seed):
    """Same rows, same ranks; tables of a few rows in blocks of two to seven."""

    def counted():
        database = fill(spec, 40, seed)
        database.rank_by(lambda rows, _: np.arange(rows, dtype=np.uint64)[::-1] * 7919 % 4093)
        asked = queries(settled(database).spec)
        return asked, statistics(asked, database, recodings(spec))

    asked, whole = counted()
    with pytest.MonkeyPatch.context() as patch:
        for module in (histogram, labels, recoding, references, units, words):
            patch.setattr(module, "_BLOCK", 2)
        patch.setattr(units, "_PARTS", 1000)
        patch.setattr(q.counting, "_SMALL", 3)
        patch.setattr(q.counting, "_LARGE", 7)
        patch.setattr(q.scores, "PASS", 1)
        patch.setattr(histogram, "_DENSE", 0)
        _, parts = counted()
    for query, one, other in zip(asked, whole, parts, strict=True):
        assert change(one, other).l1 == 0, query.kind


# Claims.


OWNED = two_tables([0], [[0], [0]], [2, 2], refs=[0], bound="truncation", tau=3).spec
WEIGHED = two_tables([0], [[0], [0]], [2, 2], refs=[0]).spec
SWAPPED = with_relation(WEIGHED, REPLACE)
TAG = KeySpec("ref", "tags", "users", "ref", nullable=True)
LOOP = KeySpec("ref", "tags", "tags", "ref", nullable=True)
TAGS = DatabaseSpec({"tags": TableSpec("tags", {}, (TAG,)), "users": TableSpec("users", {})})
LOOPS = DatabaseSpec({"tags": TableSpec("tags", {}, (LOOP,))})
NAMED = KeySpec("tag", "posts", "tags", "public")
FILED = DatabaseSpec({"posts": TableSpec("posts", {}, (NAMED,))})
REF = WEIGHED.tables["posts"].key("ref")
EDGE, ALONE, ROOT = 2 * math.log2(17 / 16), 2 * math.log2(3 / 2), math.sqrt(2)
POSTS, USERS = q.Histogram("posts", (q.Column("a0", 2),)), q.Histogram.of(OWNED, "users", ())
GRIDS = q.GridHistogram("users", "g", q.PublicArray([0, 1]))
PAIR = (OWNED, "posts", ("a0", "a1"), [(0, 1)], [np.zeros((2, 2))])
SCORES, DEPENDENCE = q.PairScores.of(*PAIR), q.DependenceScores.of(*PAIR)
ONES, ZEROS = (WithCodes("posts", "a0", (code,)) for code in (1, 0))


class Anything(q.RowSubset):
    """Rows of which nothing is known: a row may lie in all such subsets, and in others."""

    table = "posts"

    def rows(self, data):
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
RANKS = q.RankedCounts("posts", "l")
TARGETS = q.TargetHistogram.of(WEIGHED, REF, ("a0",), ())


def in_parts(*regions):
    """A histogram of each of these subsets; of all rows for None."""
    return q.Joint(tuple(replace(POSTS, region=region) for region in regions))


@pytest.mark.parametrize(
    ("spec", "query", "l1", "l2", "linf"),
    [
        (WEIGHED, POSTS, 1, 1, 1),
        (OWNED, POSTS, 3, 3, 3),
        (with_relation(OWNED, REPLACE), POSTS, 6, 3 * ROOT, 3),
        (SWAPPED, POSTS, 2, ROOT, 1),
        (SWAPPED, in_parts(None, None), 4, 2, 1),
        (SWAPPED, GRIDS, 2, ROOT, 1),
        (WEIGHED, RANKS, 1, 1, 1),
        (SWAPPED, RANKS, 2, ROOT, 1),
        (OWNED, USERS, 1, 1, 1),
        (with_relation(OWNED, REPLACE), USERS, 2, ROOT, 1),
        (OWNED, GRIDS, 1, 1, 1),
        (WEIGHED, SCORES, 1, 1, 1),
        (SWAPPED, SCORES, 2, 2, 2),
        (WEIGHED, DEPENDENCE, 2, 2, 2),
        (SWAPPED, DEPENDENCE, 4, 4, 4),
        (WEIGHED, in_parts(None, ONES, None), 3, math.sqrt(3), 1),
        (WEIGHED, in_parts(ONES, ZEROS), 1, 1, 1),
        (WEIGHED, in_parts(ONES, ANY), 2, ROOT, 1),
        (WEIGHED, q.FanIn(REF), 1 + 16 * EDGE, 1 + 16 * EDGE / ROOT, 1 + 8 * EDGE),
        (TAGS, q.FanIn(TAG), ALONE, 1, 1),
        (with_relation(TAGS, REPLACE), q.FanIn(TAG), 2 * ALONE, 2, 2),
        (LOOPS, q.FanIn(LOOP), 1 + ALONE, 1 + ALONE / ROOT, 1 + ALONE / 2),
        (WEIGHED, TARGETS, 1 + 32 / 17, 2.331025, 2),
        (WEIGHED, replace(TARGETS, cap=3), 3 + 96 / 49, 4.385352, 4),
        (TAGS, q.TargetHistogram.of(TAGS, TAG, (), ()), 1, 1, 1),
        (WEIGHED, NORMED, 3, 1, 1),
        (SWAPPED, NORMED, 6, ROOT, 1),
        (WEIGHED, SETS, 3, 1, 1),
        (SWAPPED, SETS, 6, ROOT, 1),
        (WEIGHED, replace(SETS, norm="l1"), 1, 1, 1),
        (FILED, replace(SETS, public=NAMED), 3, 1, 1),
        (with_relation(FILED, REPLACE), replace(SETS, public=NAMED), 6, 2, 2),
        (WEIGHED, LISTS[0], 3, 1, 1),
        (SWAPPED, LISTS[1], 4, ROOT, 1),
        (WEIGHED, replace(LISTS[0], norm="l1"), 1, 1, 1),
        (SWAPPED, replace(LISTS[0], norm="l1"), 2, ROOT, 1),
        (WEIGHED, replace(LISTS[0], source="users"), 1, 1, 1),
    ],
)
def test_claims(spec, query, l1, l2, linf):
    claim = query.sensitivity(spec)
    assert np.divide([claim.l1, claim.l2, claim.linf], GRID) == pytest.approx(
        (l1, l2, linf), abs=1e-6
    )
    if isinstance(query, q.LabelCounts):
        times = 2 if spec.relation == REPLACE else 1
        assert claim.l0 == (1 if query.table == "users" else times * query.most)
    if isinstance(query, q.FanIn | q.TargetHistogram):
        assert query.roots(spec) == spec.roots(query.key.table) | spec.roots(query.key.parent)


WIDE = q.Histogram("users", (q.Column("u", 2**13), q.Column("u", 2**13)))
RAW = fill(DatabaseSpec({"t": TableSpec("t", {})}), 9, 3)
SETTLED = settled(RAW)
SHARED = q.TargetScores(REF, (TARGETS,), (q.PublicArray([SHARES, 0]),), q.PublicArray([0]))


def pairs(*predictions):
    return q.PairScores.of(OWNED, "posts", ("a0", "a1"), [(0, 1)], predictions)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: q.Children(REF), "OWN"),
        (lambda: q.Owner(REF, U), "OWN"),
        (lambda: q.Sibling(REF, P, 0), "OWN"),
        (lambda: q.FanIn(OWN), "REF"),
        (lambda: replace(TARGETS, key=OWN), "REF"),
        (lambda: replace(TARGETS, cap=0), "cap"),
        (lambda: replace(TARGETS, cap=65), "cap"),
        (lambda: replace(TARGETS, target=()), "axis"),
        (lambda: replace(SHARED, shares=(q.PublicArray([SHARES, 1]),)), "shares"),
        (lambda: replace(SHARED, shares=()), "shares"),
        (lambda: replace(SHARED, pairs=()), "axis"),
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
        (lambda: q.LabelCounts("t", "l").evaluate(RAW), "threshold"),
        (lambda: q.Histogram("t", (q.Column("g", EDGES.domain.size),)).evaluate(RAW), "settled"),
        (lambda: q.GridHistogram("t", "g", q.PublicArray([1])).evaluate(SETTLED), "coded already"),
        (lambda: q.LabelCounts("t", "l").evaluate_labels(SETTLED), "coded already"),
        *(
            (lambda points=points: q.GridHistogram("t", "g", q.PublicArray(points)), "grid points")
            for points in ([], [1, 1], [2, 1], [NULL], [NEG_INF, 0], [[0, 1]])
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises((SchemaError, PrivacyRefusal, PrivbenchError), match=message):
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
