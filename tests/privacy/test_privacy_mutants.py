"""Family 4: the harness catches every known way to get a claim wrong.

Each mutant is paired with the sound query on the same database, which must pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_databases import ADD, ROW, two_tables

from privbench.errors import SchemaError
from privbench.privacy import neighbour, units
from privbench.privacy.data import BOTTOM, NONE, NULL, PrivateDatabase, PrivateTable
from privbench.privacy.queries import (
    Axis,
    Children,
    DependenceScores,
    FanIn,
    FanOut,
    GridHistogram,
    Histogram,
    JointHistogram,
    JointMoments,
    LabelCounts,
    PairScores,
    Presence,
    PublicArray,
    RankedCounts,
    Region,
    RegionMoments,
    Split,
    Total,
    labels,
)
from privbench.privacy.queries.counting import Local, Marginals, View
from privbench.privacy.queries.labels import BLOCKS
from privbench.privacy.query import GRID, Integers, Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.stability import check


def caught(query: Query, database: PrivateDatabase, **given: Any) -> set[str]:
    report = check([query], database, every=True, **given)
    return {violation.reason for violation in report.violations}


# exact margins in a score ------------------------------------------------------------------------


class ExactMargins(PairScores):
    """The prediction is made of the rows' own margins instead of released ones."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        table = Histogram("posts", self.axes).evaluate(data) // GRID
        total = max(int(table.sum()), 1)
        prediction = np.outer(table.sum(1), table.sum(0)) / total
        return np.array([round(float(np.abs(table - prediction).sum()) * GRID)], dtype=np.int64)


def test_exact_margins_in_a_score() -> None:
    """One unit off the diagonal cell of all others: the score goes from 4(n−1)/n to 0."""
    cells = [0] * 20 + [1]
    database = two_tables(range(21), [cells, cells], [2, 2])
    sound = PairScores.of(
        database.spec, "posts", ("a0", "a1"), [(0, 1)], [np.array([[19.0, 1], [1, 0]])]
    )
    assert caught(sound, database) == set()
    mutant = ExactMargins("posts", sound.axes, sound.pairs, sound.predictions, sound.penalties)
    assert "linf" in caught(mutant, database)
    assert check([mutant], database, every=True).worst_ratio > 3.5


class OneLeft(PairScores):
    """The claim of one candidate for all that are left."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        found = super().sensitivity(spec)
        return Sensitivity(found.linf, float(found.linf), found.linf)


def test_the_claim_of_one_candidate_for_all_that_are_left() -> None:
    database = two_tables(range(3), [[0] * 3, [0] * 3, [0] * 3], [2, 2, 2])
    given = ("a0", "a1", "a2"), [(0, 1), (0, 2), (1, 2)], [np.zeros((2, 2))] * 3
    left = PublicArray([0, 2])
    sound = replace(PairScores.of(database.spec, "posts", *given), among=left)
    assert caught(sound, database) == set()
    mutant = replace(OneLeft.of(database.spec, "posts", *given), among=left)
    assert caught(mutant, database) == {"l1", "l2"}


# margins that move against the table --------------------------------------------------------------


class MarginsForFree(DependenceScores):
    """The claim of plain scores, as if the margins' distance could not move as well."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return PairScores.sensitivity(self, spec)


def test_margins_that_move_against_the_table() -> None:
    """A cell that is above its prediction while both of its margins are below theirs."""
    database = two_tables(range(3), [[0] * 3, [0] * 3], [2, 2])
    prediction = np.array([[0.0, 5.0], [5.0, 0.0]])
    given = ("a0", "a1"), [(0, 1)], [prediction]
    sound = DependenceScores.of(database.spec, "posts", *given)
    assert caught(sound, database) == set()
    assert check([sound], database, every=True).worst_ratio == 1.0
    mutant = MarginsForFree.of(database.spec, "posts", *given)
    assert caught(mutant, database) == {"l1", "l2", "linf"}


class OwnMargins(DependenceScores):
    """The prediction is raked to the rows' own margins instead of released ones."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        table = Histogram("posts", self.axes).evaluate(data) // GRID
        predicted = np.outer(table.sum(1), table.sum(0)) / max(int(table.sum()), 1)
        return np.array([round(float(np.abs(table - predicted).sum()) * GRID)], dtype=np.int64)


def test_own_margins_in_a_score_of_dependence() -> None:
    """One unit off the diagonal cell of all others moves it by almost 4, where 2 is claimed."""
    cells = [0] * 20 + [1]
    database = two_tables(range(21), [cells, cells], [2, 2])
    given = ("a0", "a1"), [(0, 1)], [np.array([[19.0, 1], [1, 0]])]
    sound = DependenceScores.of(database.spec, "posts", *given)
    assert caught(sound, database) == set()
    mutant = OwnMargins("posts", sound.axes, sound.pairs, sound.predictions, sound.penalties)
    assert "linf" in caught(mutant, database)


# √τ for τ ----------------------------------------------------------------------------------------


class RootOfTau(Histogram):
    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        tau = spec.tables["posts"].tau
        claim = super().sensitivity(spec)
        return replace(claim, l2=GRID * math.sqrt(tau))


def test_root_of_tau_for_tau() -> None:
    database = two_tables([0] * 9, [[1] * 9], [2], bound="truncation", tau=4)
    sound = Histogram.of(database.spec, "posts", ("a0",))
    assert caught(sound, database) == set()
    assert caught(RootOfTau("posts", sound.axes), database) == {"l2"}


# rows up to another τ, without dividing by it -----------------------------------------------------


class RowsUpToTau(Histogram):
    """Weights of another τ as numbers of rows: the claim would have to be τ times as large."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        return super().evaluate(data) * (self.tau or 1)


def test_rows_up_to_another_tau() -> None:
    database = two_tables([0] * 9 + [1, 1], [[1] * 11], [2])
    sound = replace(Histogram.of(database.spec, "posts", ("a0",)), tau=4)
    assert caught(sound, database) == set()
    assert {"l1", "l2", "linf"} <= caught(RowsUpToTau("posts", sound.axes, tau=4), database)


def test_another_tau_is_for_whole_tables() -> None:
    axes = Histogram.of(two_tables([0], [[1]], [2]).spec, "posts", ("a0",)).axes
    part = Region("posts").child(Split.by_code("a0", [0, 1]), 1)
    with pytest.raises(SchemaError, match="whole table"):
        Histogram("posts", axes, part, tau=4)
    with pytest.raises(SchemaError, match="at least 1"):
        Histogram("posts", axes, tau=0)
    with pytest.raises(SchemaError, match="own τ"):
        JointHistogram(((Histogram("posts", axes, tau=4), 1.0),))


# weights after a filter --------------------------------------------------------------------------


class WeightsAfterFilter(JointHistogram):
    """A unit's rows share its weight anew within every region (against P16)."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        found = []
        codes = data._codes("posts", "a0")[0]
        identity = data._units.identity("posts")
        for part, _ in self.parts:
            assert part.region is not None
            rows = np.flatnonzero(codes == part.region.path[-1][1])
            _, inverse, sizes = np.unique(identity[rows], return_inverse=True, return_counts=True)
            weights = units.row_weights(sizes[inverse], 1)
            found.append([int(weights.sum())])
        return np.concatenate(found).astype(np.int64)


def test_weights_after_a_filter() -> None:
    database = two_tables([0, 0, 1], [[0, 1, 0]], [2])
    parts = Region("posts").children(Split.by_code("a0", [0, 1]))
    sound = JointHistogram.over(database.spec, "posts", (), parts)
    assert caught(sound, database) == set()
    assert {"l1", "l2"} <= caught(WeightsAfterFilter(sound.parts), database)


# nearest rounding --------------------------------------------------------------------------------


def nearest(sizes: Any, tau: int) -> Any:
    exact = GRID * np.minimum(sizes, tau).astype(np.float64) / (tau * sizes)
    return np.rint(exact).astype(np.int64)


def test_nearest_rounding_instead_of_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six rows of ⌈GRID/6⌉ pass GRID by two grid units; the comparison is exact."""
    owners = [0] * 6
    sound = two_tables(owners, [[0] * 6], [2])
    query = Histogram.of(sound.spec, "posts", ("a0",))
    assert caught(query, sound) == set()
    monkeypatch.setattr(units, "row_weights", nearest)
    assert {"l1", "linf"} <= caught(query, two_tables(owners, [[0] * 6], [2]))


# NULL for ⊥ --------------------------------------------------------------------------------------


class BottomIsNull(Presence):
    def evaluate(self, data: PrivateDatabase) -> Integers:
        edges, weights = data._parents(self.key), data._units.weights(self.key.table)
        present = edges >= 0
        return np.array([weights[~present].sum(), weights[present].sum()], dtype=np.int64)


def hub(rows: int = 12) -> PrivateDatabase:
    """Everybody's one post refers to user 0."""
    return two_tables(range(rows), refs=[0] * rows)


def test_null_for_bottom_in_a_query() -> None:
    key = hub().spec.tables["posts"].key("ref")
    assert caught(Presence(key), hub()) == set()
    assert "l1" in caught(BottomIsNull(key), hub())


def test_null_for_bottom_in_the_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """SET NULL as a reading of removal: the harness would show what it costs."""
    key = hub().spec.tables["posts"].key("ref")
    monkeypatch.setattr(neighbour, "BOTTOM", NONE)
    assert "l1" in caught(Presence(key), hub())


class OwnTargetOfTheGone(Presence):
    """⊥ counted as a target in the own unit."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        counts = Presence(self.key, own=True).evaluate(data)
        gone = data._units.weights(self.key.table)[data._parents(self.key) == BOTTOM].sum()
        return counts + np.array([0, -gone, gone])


def test_a_target_that_is_gone_is_not_in_the_own_unit() -> None:
    key = hub().spec.tables["posts"].key("ref")
    assert caught(Presence(key, own=True), hub()) == set()
    assert "l1" in caught(OwnTargetOfTheGone(key, own=True), hub())


# hash for random rank ----------------------------------------------------------------------------


def hashed_ranks(identity: Any, edges: Any) -> Any:
    """Rank by a keyed hash of a key column, which holds a reference."""
    digest = (edges.astype(np.int64) + 3) * 2654435761 % 2**32 * 40503 % 2**32
    order = np.lexsort((digest, identity))
    ranks = np.empty(identity.size, dtype=np.int64)
    for unit in np.unique(identity):
        mine = order[identity[order] == unit]
        ranks[mine] = np.arange(mine.size)
    return ranks


class HashedRank(Histogram):
    def evaluate(self, data: PrivateDatabase) -> Integers:
        key = data.spec.tables["posts"].key("ref")
        ranks = hashed_ranks(data._units.identity("posts"), data._parents(key))
        codes = data._codes("posts", "a0")[0][ranks < 1]
        return np.bincount(codes, minlength=2).astype(np.int64) * GRID


def test_hash_for_random_rank() -> None:
    """Two posts each, one refers to the hub: when it goes, the hash picks the other one."""
    owners = [user for user in range(1, 15) for _ in range(2)]
    refs = [0, 5] * 14
    database = two_tables(owners, [[0, 1] * 14], [2], refs=refs, bound="truncation")
    sound = Histogram.of(database.spec, "posts", ("a0",))
    assert caught(sound, database) == set()
    assert {"l1", "linf"} <= caught(HashedRank("posts", sound.axes), database)


def test_ranks_drawn_anew_break_the_coupling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness compares coupled databases: without coupling it reports violations."""
    owners = [user for user in range(40) for _ in range(2)]
    database = two_tables(owners, [[0, 1] * 40], [2], bound="truncation")
    query = Histogram.of(database.spec, "posts", ("a0",))
    assert caught(query, database) == set()

    def uncoupled(spec: Any, tables: Any, ranks: Any = None) -> PrivateDatabase:
        return PrivateDatabase(spec, tables)

    monkeypatch.setattr(neighbour, "PrivateDatabase", uncoupled)
    assert "l1" in caught(query, database)


# fan-in ------------------------------------------------------------------------------------------


class DropsBeforeTheCut(FanIn):
    """NULL and ⊥ edges are dropped first, then sixteen are kept."""

    def _edges(self, data: PrivateDatabase) -> Any:
        edges = data._parents(self.key)
        identity = data._units.identity(self.key.table)
        valid = np.flatnonzero(edges >= 0)
        ranks = hashed_ranks(identity[valid], data._units.ranks(self.key.table)[valid])
        kept = edges[valid][ranks < 16]
        return np.bincount(kept, minlength=data._rows(self.key.parent)).astype(np.int64)


def test_dropping_null_edges_before_the_cut() -> None:
    """When the hub goes, each user's sixteen edges to one other target all come to count."""
    owners, refs = [], []
    for user in range(1, 61):
        owners += [user] * 40
        refs += [0] * 24 + [user + 60] * 16
    database = two_tables(owners, refs=refs, users=121)
    key = database.spec.tables["posts"].key("ref")
    assert caught(FanIn(key), database) == set()
    assert "l1" in caught(DropsBeforeTheCut(key), database)


class ClosedForm(FanIn):
    """1 + 16·log₂(17/16), which forgets that hubs between buckets 1 and 2 move both."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        claim = super().sensitivity(spec)
        return replace(claim, l1=math.ceil(GRID * (1 + 16 * math.log2(17 / 16))))


def hubs_of_sixteen() -> PrivateDatabase:
    """User 0 refers to sixteen hubs of sixteen other edges each, and is a hub of 48 edges."""
    owners, refs = [0] * 16, list(range(1, 17))
    for target in (0, 0, *range(17)):
        owners += list(range(max(owners) + 1, max(owners) + 17))
        refs += [target] * 16
    return two_tables(owners, refs=refs)


def test_the_closed_form_of_the_fan_in_sensitivity_is_too_small() -> None:
    database = hubs_of_sixteen()
    key = database.spec.tables["posts"].key("ref")
    report = check([FanIn(key)], database, units=[("users", 0)])
    assert report.ok
    assert report.worst_ratio > 0.9999
    assert "l1" in caught(ClosedForm(key), database)


class SourceOnly(FanIn):
    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        return spec.roots(self.key.table)


def test_a_reference_is_charged_to_both_ends() -> None:
    key = KeySpec("ref", "tags", "users", "ref", nullable=True)
    spec = DatabaseSpec({"tags": TableSpec("tags", {}, (key,)), "users": TableSpec("users", {})})
    tables = {
        "tags": PrivateTable(4, {}, {"ref": np.array([0, 0, 1, -1])}),
        "users": PrivateTable(2, {}, {}),
    }
    database = PrivateDatabase(spec, tables)
    assert caught(FanIn(key), database) == set()
    assert caught(SourceOnly(key), database) == {"roots"}


# the rest ----------------------------------------------------------------------------------------


class Unclipped(Total):
    def evaluate(self, data: PrivateDatabase) -> Integers:
        return np.array([data._rows("posts")], dtype=np.int64)


def test_a_total_without_its_clip() -> None:
    database = two_tables([0] * 9)
    assert caught(Total("posts", clip=5), database) == set()
    assert "l1" in caught(Unclipped("posts", clip=5), database)


class OneForAll(JointHistogram):
    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return self.parts[0][0].sensitivity(spec)


def test_overlapping_regions_as_if_they_were_disjoint() -> None:
    database = two_tables([0, 1], [[0, 1]], [2])
    whole = Histogram.of(database.spec, "posts", ("a0",))
    inside = replace(whole, region=Region("posts").child(Split.by_code("a0", [0, 1]), 0))
    parts = ((whole, 1.0), (inside, 1.0))
    assert caught(JointHistogram(parts), database) == set()
    assert {"l1", "l2"} <= caught(OneForAll(parts), database)


class Uncentred(RegionMoments):
    """Coordinates 0..1 under the claim for −½..½."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        table = super().evaluate(data)
        table[..., 1:] += table[..., :1] // 2
        return table


def test_uncentred_coordinates() -> None:
    database = two_tables([0, 1], [[3, 0], [3, 0]], [4, 4])
    split = Split.by_code("a0", [0, 0, 0, 0])
    given = (database.spec, "posts", ("a0", "a1"), [Region("posts")], [split])
    assert caught(RegionMoments.of(*given), database) == set()
    assert "l1" in caught(Uncentred.of(*given), database)


class LargestPart(JointMoments):
    """Parts over the same rows as if these were different ones."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return max((part.sensitivity(spec) for part in self.parts), key=lambda claim: claim.l1)


def test_moments_of_the_same_rows_as_if_they_were_disjoint() -> None:
    database = two_tables([0, 1], [[3, 0], [3, 0]], [4, 4])
    split = Split.by_code("a0", [0, 0, 0, 0])
    parts = tuple(
        RegionMoments.of(database.spec, "posts", (name,), [Region("posts")], [split])
        for name in ("a0", "a1")
    )
    assert caught(JointMoments(parts), database) == set()
    assert {"l1", "l2"} <= caught(LargestPart(parts), database)


class AllLabels(LabelCounts):
    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Integers, dict[str, int]]:
        return LabelCounts(self.source, self.attribute).evaluate_labels(data)


def labelled(values: Sequence[int] = (1, 1, 1, 9)) -> PrivateDatabase:
    from privbench.privacy.data import Grid, Labels

    base = two_tables([0, 0, 0, 1])
    words = Labels(np.array([0, 1, 2, 0]), ["x", "y", "z"])
    table = PrivateTable(
        4, {"l": words, "g": Grid(np.array(values))}, {"own": np.array([0, 0, 0, 1])}
    )
    return PrivateDatabase(base.spec, {"users": PrivateTable(2, {}, {}), "posts": table})


def shared_labels() -> PrivateDatabase:
    """Two units that hold the same three values."""
    from privbench.privacy.data import Labels

    owners = [0, 0, 0, 1, 1, 1]
    words = Labels(np.array([0, 1, 2, 0, 1, 2]), ["x", "y", "z"])
    table = PrivateTable(6, {"l": words}, {"own": np.array(owners)})
    return PrivateDatabase(
        two_tables(owners).spec, {"users": PrivateTable(2, {}, {}), "posts": table}
    )


def test_labels_without_a_limit_per_unit() -> None:
    assert caught(LabelCounts("posts", "l", most=2), shared_labels()) == set()
    assert "l0" in caught(AllLabels("posts", "l", most=2), shared_labels())


class RowsOfLabels(LabelCounts):
    """Rows at full weight, not units: one unit lifts a value of its own above 1."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Integers, dict[str, int]]:
        held = data._raw(self.source, self.attribute)
        counts = np.bincount(held._codes[held._codes >= 0]) - 1  # type: ignore[union-attr]
        found = {str(code): GRID * int(count) for code, count in enumerate(counts) if count > 0}
        return np.zeros(self.shape, np.int64), found


class NormalisedApart(LabelCounts):
    """A unit's values are normalised one by one, so that each weighs 1."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Integers, dict[str, int]]:
        held, found = data._raw(self.source, self.attribute), dict[str, int]()
        identity = data._units.identity(self.source)
        for code, word in enumerate(held._labels.to_pylist()):  # type: ignore[union-attr]
            units = len(np.unique(identity[held._codes == code]))  # type: ignore[union-attr]
            found |= {word: GRID * (units - 1)} if units > 1 else {}
        return np.zeros(self.shape, np.int64), found


class PresentCandidates(LabelCounts):
    """Public candidates are cells only where a row has them."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Integers, dict[str, int]]:
        cells, counts = super().evaluate_labels(data)
        return cells[np.append(True, cells[1:] > 0)], counts


class DrawnTwice(LabelCounts):
    """A candidate that rows hold is a public cell and a label of the threshold too."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Integers, dict[str, int]]:
        cells, _ = super().evaluate_labels(data)
        return cells, LabelCounts(self.source, self.attribute).evaluate_labels(data)[1]


class CellsAfterwards(LabelCounts):
    """Values are merged into one public cell after they were normalised, not before."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Integers, dict[str, int]]:
        single = LabelCounts(self.source, self.attribute, public=("x", "y", "z"))
        values = single.evaluate_labels(data)[0]
        return np.array([values[0], values[1:].sum()]), {}


@pytest.mark.parametrize(
    ("mutant", "database", "claims"),
    [
        (RowsOfLabels("posts", "l"), "one", {"linf", "l2"}),
        (NormalisedApart("posts", "l"), "shared", {"l2"}),
        (PresentCandidates("posts", "l", public=("z", "no such")), "shared", {"shape"}),
        (DrawnTwice("posts", "l", public=("x", "y", "z")), "shared", {"l2"}),
        (CellsAfterwards("posts", "l", public=("any",)), "shared", {"l2", "linf"}),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, LabelCounts) else "",
)
def test_labels_that_a_unit_moves_too_far(
    mutant: LabelCounts, database: str, claims: set[str]
) -> None:
    rows = labelled_by_one() if database == "one" else shared_labels()
    plain = LabelCounts("posts", "l", public=mutant.public)
    assert caught(plain, rows) == set()
    assert claims <= caught(mutant, rows)


def test_a_root_that_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three weights of 1/√3 pass 1 then."""

    def rounded_down(squares: Integers) -> Integers:
        return np.floor(np.sqrt(squares.astype(np.float64)) * 2**8).astype(np.int64) << 8

    monkeypatch.setattr(labels, "_root_up", rounded_down)
    query = LabelCounts("posts", "l", public=("x", "y", "z"))
    assert "l2" in caught(query, shared_labels())


class BlocksOfL2(RankedCounts):
    """Sums over blocks of weights of norm 1 in L2: a unit's rare values fall into one block."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        cells = LabelCounts("posts", "l", public=("x", "y", "z")).evaluate_labels(data)[0]
        falling = np.sort(cells[1:])[::-1]
        return np.append([0, falling[0], falling[1:].sum()], np.zeros(BLOCKS - 2, np.int64))


class OfTheFirstRow(RankedCounts):
    """Ranks of values are kept as they came: a value's place moves when a unit goes."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        held = data._raw(self.source, self.attribute)
        codes = held._codes  # type: ignore[union-attr]
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        return np.append(0, np.resize(GRID * counts[np.argsort(first)], BLOCKS))


def test_ranked_counts() -> None:
    assert caught(RankedCounts("posts", "l"), shared_labels()) == set()
    assert caught(RankedCounts("posts", "l"), labelled_by_one()) == set()
    assert {"l1", "l2"} <= caught(BlocksOfL2("posts", "l"), shared_labels())
    assert "l1" in caught(OfTheFirstRow("posts", "l"), labelled())


def labelled_by_one() -> PrivateDatabase:
    """One unit that holds one value in four rows."""
    from privbench.privacy.data import Labels

    words = Labels(np.zeros(4, np.int64), ["x"])
    table = PrivateTable(4, {"l": words}, {"own": np.zeros(4, np.int64)})
    return PrivateDatabase(
        two_tables([0, 0, 0, 0]).spec, {"users": PrivateTable(1, {}, {}), "posts": table}
    )


class UnweightedGrid(GridHistogram):
    """Every row counts 1, however many rows its unit has."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        values = data._raw("posts", "g")._values  # type: ignore[union-attr]
        cells = np.searchsorted(self.points.values, values, side="right")
        return np.bincount(cells, minlength=self.shape[0]).astype(np.int64) * GRID


class NullsToo(GridHistogram):
    """NULL counts at full weight in the lowest cell, on top of its unit's other rows."""

    def evaluate(self, data: PrivateDatabase) -> Integers:
        found = GridHistogram.evaluate(self, data)
        values = data._raw("posts", "g")._values  # type: ignore[union-attr]
        found[0] += GRID * np.count_nonzero(values == NULL)
        return found


def test_a_grid_histogram_without_weights() -> None:
    given = ("posts", "g", PublicArray([0, 5, 9]))
    assert caught(GridHistogram(*given), labelled()) == set()
    assert {"l1", "linf"} <= caught(UnweightedGrid(*given), labelled())


def test_a_grid_histogram_with_nulls_beside() -> None:
    given = ("posts", "g", PublicArray([0, 5, 9]))
    database = labelled([1, 1, NULL, 9])
    assert caught(GridHistogram(*given), database) == set()
    assert "l1" in caught(NullsToo(*given), database)


class AsIfOwned(FanOut):
    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return Sensitivity(GRID, float(GRID), GRID)


def test_fan_out_by_row_with_the_claim_for_units() -> None:
    key = KeySpec("ref", "b", "a", "ref", nullable=True)
    spec = DatabaseSpec({"a": TableSpec("a", {}), "b": TableSpec("b", {}, (key,))}, ROW)
    tables = {
        "a": PrivateTable(2, {}, {}),
        "b": PrivateTable(3, {}, {"ref": np.array([0, 0, 1])}),
    }
    database = PrivateDatabase(spec, tables)
    assert caught(FanOut(key), database) == set()
    assert {"l1", "l2"} <= caught(AsIfOwned(key), database)


def test_a_reference_as_if_it_were_owned() -> None:
    """A fan-out along a REF key is refused; forced, one unit moves all its targets."""
    database = hubs_of_sixteen()
    key = database.spec.tables["posts"].key("ref")
    forced: Axis = Children(replace(key, role="own"))
    assert database.spec.relation == ADD
    assert "l1" in caught(Histogram("users", (forced,)), database)


# counters --------------------------------------------------------------------------------------


class WeighsParts:
    """Weights are taken within each part of the rows, not over all rows of a unit.

    With parts of one row it forgets them: every row counts whole.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def count(self, data: PrivateDatabase, asked: Marginals) -> list[Integers]:
        identity = data._units.identity(asked.table).astype(np.int64)
        part = identity * identity.size + np.arange(identity.size) // self.rows
        _, place, sizes = np.unique(part, return_inverse=True, return_counts=True)
        reads = [axis.read(data, asked.table) for axis in asked.axes]
        view = View(reads, [axis.size for axis in asked.axes], GRID // sizes[place])
        return view.count(asked.sets)


@pytest.mark.parametrize("rows", [1, 4])
def test_counters_that_weigh_rows_by_their_part(rows: int) -> None:
    database = two_tables([0] * 30 + [1, 2, 3], [[0, 1] * 16 + [1]], [2])
    query = Histogram.of(database.spec, "posts", ("a0",))
    database.counter = Local()
    assert caught(query, database) == set()
    database.counter = WeighsParts(rows)
    assert caught(query, database) == {"l1", "l2", "linf"}
