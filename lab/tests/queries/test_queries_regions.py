"""Regions, splits and moments: their rows, their claims, and mutants of them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Mutants, check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab_queries import queries
from private_tables import two_tables
from small_databases import (
    ADD,
    REPLACE,
    ROW,
    ROW_REPLACE,
    fill,
    recodings,
    renumbered,
    settled,
    specs,
    with_relation,
)

from privbench.arrays import Ints
from privbench.errors import SchemaError
from privbench.privacy import queries as q
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.query import GRID, Query
from privbench.privacy.spec import DatabaseSpec
from privbench_lab import queries as lab
from privbench_lab.neighbours.stability import change
from privbench_lab.queries.regions import overlap, rows_of

SEED = st.integers(0, 2**32)
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
SLOW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@given(seed=SEED, parts=st.integers(1, 5))
@QUICK
def test_splits_assign_the_nearest_part_ties_to_the_lowest(seed: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, 50).astype(np.uint8) for size in (4, 3)]
    luts = [rng.integers(-3, 4, (size, parts)) for size in (4, 3)]
    split = lab.Split.of({"a": luts[0], "b": luts[1]})
    costs = luts[0][columns[0]] + luts[1][columns[1]]
    expected = [min(range(parts), key=lambda k, row=row: (row[k], k)) for row in costs.tolist()]
    assert split.assign(columns).tolist() == expected


def test_regions_partition_the_rows() -> None:
    rng = np.random.default_rng(5)
    database = two_tables([-1] * 300, rng.integers(0, 4, (2, 300)), [4, 4])
    first = lab.Split.of({"a0": rng.integers(0, 9, (4, 3)), "a1": rng.integers(0, 9, (4, 3))})
    second = lab.Split.by_code("a1", [0, 1, 0, 1])
    leaves = [
        leaf for part in lab.Region("posts").children(first) for leaf in part.children(second)
    ]
    rows = [rows_of(database, leaf) for leaf in leaves]
    assert sorted(np.concatenate(rows).tolist()) == list(range(300))  # type: ignore[arg-type]
    joint = q.Joint(tuple(q.Histogram.of(database.spec, "posts", ("a0",), leaf) for leaf in leaves))
    assert joint.sensitivity(database.spec).l1 == GRID
    whole = q.Histogram.of(database.spec, "posts", ("a0",)).evaluate(database)
    found = joint.split(joint.evaluate(database))
    for part, piece in zip(joint.parts, found, strict=True):
        assert np.array_equal(piece, part.evaluate(database))
    assert np.array_equal(sum(found), whole)
    assert (joint.kind, joint.unit) == ("joint histogram", GRID)


@given(seed=SEED)
@QUICK
def test_overlap_is_the_largest_sum_over_rows(seed: int) -> None:
    """Against every row of a table that has all combinations of codes."""
    rng = np.random.default_rng(seed)
    codes = np.indices((2, 2, 3)).reshape(3, -1)
    splits = [lab.Split.by_code(f"a{k}", list(range(size))) for k, size in enumerate((2, 2, 3))]
    database = two_tables([-1] * 12, codes.tolist(), [2, 2, 3])
    regions = [lab.Region("posts")]
    for _ in range(8):
        base = regions[rng.integers(len(regions))]
        used = {split for split, _ in base.path}
        free = [split for split in splits if split not in used]
        if free:
            split = free[rng.integers(len(free))]
            regions.append(base.child(split, int(rng.integers(split.parts))))
    amounts = rng.integers(1, 5, len(regions)).tolist()
    holds = np.zeros(12)
    for region, amount in zip(regions, amounts, strict=True):
        rows = rows_of(database, region)
        holds[slice(None) if rows is None else rows] += amount
    claimed = overlap((r, float(a)) for r, a in zip(regions, amounts, strict=True))
    assert claimed >= holds.max()
    assert overlap([(r, 1.0) for r in regions[:1]]) == 1.0


def test_moments_are_sums_of_rounded_products() -> None:
    database = two_tables([0, 0, 0, 1], [[0, 3, 1, 2]], [4], tau=1)
    split = lab.Split.by_code("a0", [0, 1, 0, 1])
    query = lab.RegionMoments.of(database.spec, ("a0",), lab.Region("posts"), split)
    weights = database._units.weights("posts").tolist()
    line = [round(-(2**15) + code * 2**16 / 3) for code in range(4)]
    sums = [[0, 0], [0, 0]]
    for code, weight in zip([0, 3, 1, 2], weights, strict=True):
        sums[code % 2][0] += weight
        sums[code % 2][1] += int(math.copysign(weight * abs(line[code]) // 2**16, line[code]))
    assert query.evaluate(database).tolist() == sums
    counts, means = query.means(query.evaluate(database) / GRID)
    assert counts.shape == (2,)
    assert means[0, 0] == pytest.approx((-0.5 / 3 + 1 / 6) / (4 / 3), abs=1e-4)


def test_splits_and_regions_are_values() -> None:
    one, two = lab.Split.by_code("a", [0, 1]), lab.Split.by_code("a", [0, 1])
    assert one == two
    assert hash(lab.Region("t").child(one, 1)) == hash(lab.Region("t").child(two, 1))
    assert lab.Split.by_code("a", [1, 0]) != one


OWNED = two_tables([0], [[0], [0]], [2, 2], refs=[0], bound="truncation", tau=3).spec
WEIGHED = two_tables([0], [[0], [0]], [2, 2], refs=[0]).spec
HALVES = lab.Split.by_code("a0", [0, 1])
MOMENTS = lab.RegionMoments.of(WEIGHED, ("a0",), lab.Region("posts"), HALVES)


@pytest.mark.parametrize(
    ("query", "l1", "l2", "linf"),
    [
        (MOMENTS, 1.5, math.sqrt(1.25), 1),
        (q.Joint((MOMENTS, MOMENTS)), 3, math.sqrt(2.5), 1),
    ],
)
def test_claims(query: Query, l1: float, l2: float, linf: float) -> None:
    claim = query.sensitivity(WEIGHED)
    found = claim.l1 / GRID, claim.l2 / GRID, claim.linf / GRID
    assert found == pytest.approx((l1, l2, linf), abs=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lab.Split((), ()), "one table of costs"),
        (lambda: lab.Split.of({"a": np.zeros((2, 2), int), "b": np.zeros((2, 3), int)}), "parts"),
        (lambda: lab.Split.of({"a": np.full((2, 2), 2**62 + 1)}), "too large"),
        (lambda: lab.Region("t", ((HALVES, 2),)), "does not have"),
        (lambda: lab.RegionMoments.of(OWNED, ("a0",), lab.Region("posts"), HALVES, [[0, 0.6]]),
         "½"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        make()


#: As for the queries of the core; see `test_privacy_stability`.
EXAMPLES = [
    (ADD, 6, [7]), (REPLACE, 12, [7]), (ROW, 6, [7]), (ROW_REPLACE, 12, [7]),
    (ADD, 2, [120]), (REPLACE, 2, [120]),
    *(pytest.param(relation, 150, [3, 12, 60], marks=pytest.mark.slow)
      for relation in (ADD, REPLACE, ROW, ROW_REPLACE)),
]  # fmt: skip


@pytest.mark.parametrize(("relation", "examples", "sizes"), EXAMPLES, ids=str)
def test_every_claim_holds_when_a_unit_goes(relation, examples, sizes):
    @given(data=st.data(), seed=st.integers(0, 2**32), most=st.sampled_from(sizes))
    @settings(QUICK, max_examples=examples)
    def holds(data: st.DataObject, seed: int, most: int) -> None:
        database = fill(data.draw(specs(relation)), most, seed)
        asked = queries(settled(database).spec, seed)
        report = check(asked, database, recodings=recodings(database.spec), every=most < 60)
        assert report.ok, "\n".join(map(str, report.violations[:5]))

    holds()


#: Kinds of queries to whose cells every unit adds, whoever else there is.
ADDING = {"histogram", "joint histogram", "lengths of rows"}


@given(spec=specs(ADD), seed=SEED)
@QUICK
def test_sensitivity_is_ordered_and_twice_as_large_under_replace(spec, seed):
    added = settled(fill(spec, 3, seed)).spec
    replaced = with_relation(added, REPLACE)
    for query in queries(added):
        one, other = query.sensitivity(added), query.sensitivity(replaced)
        twice = 2 * one.l1, 2 * one.l2, 2 * one.linf
        if query.kind not in ADDING:
            assert (other.l1, other.l2, other.linf) == pytest.approx(twice), query.kind
        assert 0 < one.linf <= one.l2 * (1 + 1e-12)
        assert one.l2 <= one.l1 * (1 + 1e-12)
        assert hash(query) == hash(query)
        assert query.roots(added) <= set(spec.tables)
        assert "\n" not in repr(query.columns)


@given(spec=specs(), seed=SEED)
@QUICK
def test_statistics_do_not_depend_on_row_order_or_numbering(spec: DatabaseSpec, seed: int) -> None:
    """Same rows, same random ranks, another physical order."""
    database = fill(spec, 12, seed)
    one, other = settled(database), settled(renumbered(database, seed + 1))
    for query in queries(one.spec):
        assert change(query.evaluate(one), query.evaluate(other)).l1 == 0, query.kind


mutants = Mutants()


@mutants.of(lambda: two_numbers(), lambda d: moments(d, "a0", "a1"), "l1")
class Uncentred(lab.RegionMoments):
    """Coordinates 0..1 under the claim for −½..½."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        table = super().evaluate(data)
        table[..., 1:] += table[..., :1] // 2
        return table


def two_numbers() -> PrivateDatabase:
    return two_tables([0, 1], [[3, 0], [3, 0]], [4, 4])


def moments(database: PrivateDatabase, *names: str) -> lab.RegionMoments:
    split = lab.Split.by_code("a0", [0, 0, 0, 0])
    return lab.RegionMoments.of(database.spec, names, lab.Region("posts"), split)


def eight_numbers() -> PrivateDatabase:
    """Two units at opposite corners, one of which takes the place of the other."""
    return two_tables([0, 1], [[3, 0]] * 8, [4] * 8, relation=REPLACE)


@mutants.of(eight_numbers, lambda d: moments(d, *(f"a{k}" for k in range(8))), "l2")
class SignedAdds(lab.RegionMoments):
    """√2 for 2 in L2 under replace, which holds only where rows add without a sign."""

    adds = True


@pytest.mark.parametrize("mutant", list(mutants), ids=str)
def test_mutants_are_caught(mutant: Any) -> None:
    mutant.must_be_caught()
