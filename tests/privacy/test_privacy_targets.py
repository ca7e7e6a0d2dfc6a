"""Attributes of the rows that references lead to: definition, sharp claims and mutants."""

import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from harness import Mutants, check
from hypothesis import given, settings
from hypothesis import strategies as st
from small_databases import ADD, ROW, fill, of_tables, settled, specs, two_tables

from privbench.arrays import Ints
from privbench.domain import Domain
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy.data import Cells, PrivateDatabase
from privbench.privacy.queries import TargetHistogram, TargetScores
from privbench.privacy.queries.references import SHARES
from privbench.privacy.query import GRID, PublicArray, Sensitivity
from privbench.privacy.spec import DatabaseSpec, KeySpec, Relation
from privbench.privacy.units import NONE, row_weights, single

QUICK = settings(max_examples=30, deadline=None)
SEED = st.integers(0, 2**32)


def by_definition(database: PrivateDatabase, query: TargetHistogram) -> Ints:
    """Row by row, with exact fractions."""
    key, units = query.key, database._units
    spec = database.spec.tables[key.table]
    most = 1 if single(database.spec, key.table) else 16
    tau = 1 if single(database.spec, key.table) else spec.tau
    near = [axis.codes(database, key.table).tolist() for axis in query.source]
    far = [axis.codes(database, key.parent).tolist() for axis in query.target]
    mine, theirs = units.identity(key.table), units.identity(key.parent)
    incoming: dict[int, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    for row, edge in enumerate(database._parents(key).tolist()):
        if units.ranks(key.table)[row] >= most or edge < 0:
            continue
        if query.outside and mine[row] == theirs[edge]:
            continue
        n = min(int((mine == mine[row]).sum()), most)
        cell = (*(axis[row] for axis in near), *(axis[edge] for axis in far))
        incoming[int(theirs[edge])][cell] += GRID * min(n, tau) // (tau * n)
    found = np.zeros(query.shape, dtype=np.int64)
    for held in incoming.values():
        whole = sum(held.values())
        factor = min(Fraction(1), Fraction(query.cap * GRID, whole))
        for cell, weight in held.items():
            found[cell] += math.floor(weight * factor)
    return found


@given(data=st.data(), seed=SEED, cap=st.sampled_from([1, 2, 5]), outside=st.booleans())
@QUICK
def test_targets_count_every_row(data: st.DataObject, seed: int, cap: int, outside: bool) -> None:
    spec = data.draw(specs(data.draw(st.sampled_from([ADD, ROW]))))
    database = settled(fill(spec, 40, seed))
    for key in (key for table in spec.tables.values() for key in table.keys if key.role == "ref"):
        query = TargetHistogram.of(
            database.spec, key, ("c0", "c2"), ("c1",), cap=cap, outside=outside
        )
        assert np.array_equal(query.evaluate(database), by_definition(database, query))


def worst_case(cap: int = 1) -> PrivateDatabase:
    """User 0 sends sixteen edges to sixteen full targets, and is a full target itself.

    Cell 0 holds the others' edges into the sixteen, cell 1 all edges from and into user 0.
    """
    owners, refs, cells = [0] * 16, list(range(1, 17)), [1] * 16
    for target in range(17):
        for _ in range(cap):
            owners.append(max(owners) + 1)
            refs.append(target)
            cells.append(int(target == 0))
    return two_tables(owners, [cells], [2], refs=refs, users=max(owners) + 1)


@pytest.mark.parametrize("cap", [1, 3])
def test_the_claim_for_targets_is_reached(cap: int) -> None:
    database = worst_case(cap)
    key = database.spec.tables["posts"].key("ref")
    query = TargetHistogram.of(database.spec, key, ("a0",), (), cap=cap)
    claim = query.sensitivity(database.spec)
    assert claim.l1 == pytest.approx(GRID * (cap + 32 * cap / (16 * cap + 1)))
    report = check([query], database, every=True)
    assert report.ok
    assert report.worst_ratio > 0.9999


def apart(sources: int, relation: Relation = ADD) -> PrivateDatabase:
    """Rows of a root table that refer to one row of another root table, in two cells."""
    key = KeySpec("ref", "tags", "posts", "ref", nullable=True)
    cells = Cells(np.array([1] + [0] * (sources - 1)), Domain(2))
    tags = (sources, {"c": cells}, {key: [0] * sources})
    return of_tables(relation, tags=tags, posts=(1, {}))


@pytest.mark.parametrize("relation", [ADD, ROW], ids=str)
@pytest.mark.parametrize("sources", [1, 2, 5])
def test_sensitivity_of_disjoint_roots_is_one(sources: int, relation: Relation) -> None:
    database = apart(sources, relation)
    key = database.spec.tables["tags"].key("ref")
    query = TargetHistogram.of(database.spec, key, ("c",), ())
    claim = query.sensitivity(database.spec)
    assert claim.l1 == pytest.approx(GRID)
    assert claim.l2 == pytest.approx(GRID)
    report = check([query], database, every=True)
    assert report.ok
    assert report.worst_ratio > 0.9999
    assert query.roots(database.spec) == {"tags", "posts"}


def scores(database: PrivateDatabase, *, cap: int = 1) -> TargetScores:
    """The score of the first attribute of a referring table and the whole target.

    No row is expected in its last cell.
    """
    table = database.spec.tables.get("tags") or database.spec.tables["posts"]
    column = next(iter(table.attributes))
    pair = TargetHistogram.of(database.spec, table.key("ref"), (column,), (), cap=cap)
    shares = [SHARES] + [0] * (pair.shape[0] - 1)
    return TargetScores(pair.key, (pair,), (PublicArray(shares),), PublicArray([0]))


@given(data=st.data(), seed=SEED)
@settings(max_examples=10, deadline=None)
def test_scores_of_targets_keep_their_claim(data: st.DataObject, seed: int) -> None:
    spec = data.draw(specs(data.draw(st.sampled_from([ADD, ROW]))))
    database, queries = settled(fill(spec, 20, seed)), list[TargetScores]()
    for key in (key for table in spec.tables.values() for key in table.keys if key.role == "ref"):
        pair = TargetHistogram.of(database.spec, key, ("c0",), ("c1",), cap=2)
        half = PublicArray([SHARES // pair.shape[0]] * pair.shape[0])
        queries.append(TargetScores(key, (pair, pair), (half, half), PublicArray([0, GRID])))
        counts = pair.evaluate(database) / GRID
        off = np.abs(counts - half.values[:, None] / SHARES * counts.sum(axis=0)).sum()
        found = queries[-1].evaluate(database) / GRID
        assert np.allclose(found, [off, off - 1.0])
    assert check(queries, database).ok


@pytest.mark.parametrize("relation", [ADD, ROW], ids=str)
def test_the_claim_for_scores_of_targets_is_reached(relation: Relation) -> None:
    """A target goes of which all references lie where none was expected."""
    database = apart(1, relation)
    report = check([scores(database)], database, every=True)
    assert report.ok
    assert report.worst_ratio > 0.9999


mutants = Mutants()


@mutants.of(lambda: apart(1), scores, "linf")
class HalvedScores(TargetScores):
    """The claim of a score against a prediction, though the targets' margin is exact."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        claim = super().sensitivity(spec)
        return replace(claim, l1=claim.l1 // 2, l2=claim.l2 / 2, linf=claim.linf // 2)


@mutants.of(lambda: two_tables(range(12), [[1] * 12], [2], refs=[0] * 12), scores, "linf")
class ScoresWithoutACap(TargetScores):
    """A hub counts every edge into it."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        pairs = tuple(replace(pair, cap=64) for pair in self.pairs)
        return TargetScores(self.key, pairs, self.shares, self.penalties).evaluate(data)


def whole(*columns: str) -> Any:
    """Makes a histogram of the references of posts."""
    return lambda d: TargetHistogram.of(d.spec, d.spec.tables["posts"].key("ref"), columns, ())


@mutants.of(lambda: two_tables(range(12), refs=[0] * 12), whole(), "l1", "linf")
class Uncapped(TargetHistogram):
    """A hub counts every edge into it."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        return TargetHistogram(self.key, self.source, self.target, 64).evaluate(data)


def posts_that_refer_to_posts() -> PrivateDatabase:
    """User 0 owns five posts that are referred to by two users' posts each."""
    owners = [0] * 5 + list(range(1, 11))
    database = two_tables(owners, refs=[NONE] * 5 + [k // 2 for k in range(10)])
    table = database.spec.tables["posts"]
    keys = table.key("own"), replace(table.key("ref"), parent="posts")
    spec = DatabaseSpec({**database.spec.tables, "posts": replace(table, keys=keys)})
    return PrivateDatabase(spec, database._tables)


@mutants.of(posts_that_refer_to_posts, whole(), "l1")
class CappedByRow(TargetHistogram):
    """Each target row is capped, not each target unit."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        kept, weights = self._kept(data)
        edges = data._parents(self.key)[kept]
        counts = np.bincount(edges, weights, minlength=data._rows(self.key.parent))
        return np.array([[int(np.minimum(counts, GRID).sum())]], dtype=np.int64)


@mutants.of(worst_case, whole("a0"), "l1")
class OneLipschitz(TargetHistogram):
    """Scaling taken for a contraction: κ + 1."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return replace(super().sensitivity(spec), l1=(self.cap + 1) * GRID)


def hub_of_pairs() -> PrivateDatabase:
    """When the hub goes, the other edge of each of its referrers would weigh more."""
    owners = np.repeat(np.arange(1, 40), 2)
    refs = np.stack([np.zeros(39), np.arange(40, 79)], 1).ravel().astype(int)
    return two_tables(owners.tolist(), refs=refs.tolist(), users=79)


@mutants.of(hub_of_pairs, whole(), "l1")
class WeightsOfValidEdges(TargetHistogram):
    """A unit's weight is shared among the rows whose edge is valid: it moves with the hubs."""

    def _kept(self, data: PrivateDatabase) -> tuple[Any, Any]:
        rows, _ = super()._kept(data)
        identity = data._units.identity(self.key.table)[rows]
        _, inverse, sizes = np.unique(identity, return_inverse=True, return_counts=True)
        return rows, row_weights(sizes[inverse], 1)


def hub_of_many() -> PrivateDatabase:
    """When the hub goes, all edges of each of its referrers to another target come to count."""
    owners, refs = [], []
    for user in range(1, 31):
        owners += [user] * 40
        refs += [0] * 24 + [user + 30] * 16
    return two_tables(owners, refs=refs, users=61)


@mutants.of(hub_of_many, whole(), "l1")
class DropsBeforeTheCut(TargetHistogram):
    """NULL and ⊥ edges are dropped first, then sixteen rows are kept."""

    def _kept(self, data: PrivateDatabase) -> tuple[Any, Any]:
        valid = np.flatnonzero(data._parents(self.key) >= 0)
        units = data._units
        identity, ranks = units.identity(self.key.table)[valid], units.ranks(self.key.table)[valid]
        order = np.lexsort((ranks, identity))
        _, first, counts = np.unique(identity[order], return_index=True, return_counts=True)
        kept = valid[order][np.arange(valid.size) - np.repeat(first, counts) < 16]
        return kept, np.full(kept.size, GRID // 16, dtype=np.int64)


@pytest.mark.parametrize("mutant", list(mutants), ids=str)
def test_mutants_are_caught(mutant: Any) -> None:
    mutant.must_be_caught()


def test_target_histogram_of_what_it_cannot_count_is_refused() -> None:
    database = two_tables([0], refs=[0])
    table = database.spec.tables["posts"]
    with pytest.raises(PrivacyRefusal, match="REF"):
        TargetHistogram.of(database.spec, table.key("own"), (), ())
    for cap in (0, 65):
        with pytest.raises(SchemaError, match="cap"):
            TargetHistogram.of(database.spec, table.key("ref"), (), (), cap=cap)
    with pytest.raises(SchemaError, match="axis"):
        TargetHistogram(table.key("ref"), (), ())
    one = scores(two_tables([0], [[0]], [2], refs=[0]))
    for part in ({"shares": (PublicArray([SHARES, 1]),)}, {"shares": ()}, {"pairs": ()}):
        with pytest.raises(SchemaError, match=r"shares|axis"):
            replace(one, **part)
