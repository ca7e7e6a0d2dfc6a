"""Family 4: the harness catches every known way to get a claim wrong.

Each mutant stands with the sound query on the same database, which must pass (see `harness`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import stability
from harness import Mutants, caught, check
from small_databases import ADD, REPLACE, of_tables, texts, two_tables
from subsets import WithCodes

from privbench.arrays import Ints
from privbench.domain import Domain
from privbench.errors import SchemaError
from privbench.privacy import UnitDefinition, units
from privbench.privacy import queries as q
from privbench.privacy.data import Cells, Grid, Labels, PrivateDatabase, PrivateTable
from privbench.privacy.queries import labels
from privbench.privacy.queries.counting import Marginals, View, local
from privbench.privacy.queries.histogram import root_down
from privbench.privacy.queries.labels import BLOCKS
from privbench.privacy.query import GRID, Sensitivity
from privbench.privacy.recoding import NULL
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import BOTTOM, NONE

mutants = Mutants()


def posts(*names: Any, **given: Any) -> Any:
    """Makes a histogram of posts."""
    return lambda d: replace(q.Histogram.of(d.spec, "posts", names), **given)


def scores(kind: type[q.PairScores], prediction: Any, **given: Any) -> Any:
    """Makes scores of pairs of the columns a0 to a2, each with the same prediction."""

    def made(d: PrivateDatabase) -> q.PairScores:
        names = tuple(d.spec.tables["posts"].attributes)
        pairs = [(i, j) for j in range(len(names)) for i in range(j)]
        whole = kind.of(d.spec, "posts", names, pairs, [np.array(prediction, float)] * len(pairs))
        return replace(whole, **given)

    return made


def ref(database: PrivateDatabase) -> KeySpec:
    """The reference from posts to users."""
    return database.spec.tables["posts"].key("ref")


def owned(database: PrivateDatabase, table: str) -> KeySpec:
    """The OWN key of a table."""
    return database.spec.tables[table].key("own")


def off_the_diagonal() -> PrivateDatabase:
    """One unit off the diagonal cell of all others."""
    cells = [0] * 20 + [1]
    return two_tables(range(21), [cells, cells], [2, 2])


# exact margins in a score ------------------------------------------------------------------------


@mutants.of(off_the_diagonal, scores(q.PairScores, [[19, 1], [1, 0]]), "linf")
class ExactMargins(q.PairScores):
    """The prediction is made of the rows' own margins: the score goes from 4(n−1)/n to 0."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        table = q.Histogram("posts", self.axes).evaluate(data) // GRID
        total = max(int(table.sum()), 1)
        prediction = np.outer(table.sum(1), table.sum(0)) / total
        return np.array([round(float(np.abs(table - prediction).sum()) * GRID)], dtype=np.int64)


@mutants.of(
    lambda: two_tables(range(3), [[0] * 3] * 3, [2, 2, 2]),
    scores(q.PairScores, np.zeros((2, 2)), among=q.PublicArray([0, 2])),
    "l1",
    "l2",
)
class OneLeft(q.PairScores):
    """The claim of one candidate for all that are left."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        found = super().sensitivity(spec)
        return Sensitivity(found.linf, float(found.linf), found.linf)


# margins that move against the table --------------------------------------------------------------


@mutants.of(
    lambda: two_tables(range(3), [[0] * 3, [0] * 3], [2, 2]),
    scores(q.DependenceScores, [[0, 5], [5, 0]]),
    "l1",
    "l2",
    "linf",
)
class MarginsForFree(q.DependenceScores):
    """The claim of plain scores, as if the margins' distance could not move as well."""

    most = q.PairScores.most
    moved = q.PairScores.moved


def test_the_claim_for_margins_that_move_against_the_table_is_reached() -> None:
    """A cell that is above its prediction while both of its margins are below theirs."""
    database = two_tables(range(3), [[0] * 3, [0] * 3], [2, 2])
    sound = scores(q.DependenceScores, [[0, 5], [5, 0]])(database)
    assert check([sound], database, every=True).worst_ratio == 1.0


@mutants.of(off_the_diagonal, scores(q.DependenceScores, [[19, 1], [1, 0]]), "linf")
class OwnMargins(q.DependenceScores):
    """The prediction is raked to the rows' own margins: it moves by almost 4, not by 2."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        table = q.Histogram("posts", self.axes).evaluate(data) // GRID
        predicted = np.outer(table.sum(1), table.sum(0)) / max(int(table.sum()), 1)
        return np.array([round(float(np.abs(table - predicted).sum()) * GRID)], dtype=np.int64)


# orders in time -----------------------------------------------------------------------------------


@mutants.of(
    lambda: two_tables([0] * 40 + [*range(1, 41)], [[*range(80)], [*range(80)]], [80, 80]),
    lambda d: q.Histogram.of(
        d.spec,
        "posts",
        [q.Joined((q.Column("a0", 80), q.Column("a1", 80)), q.PublicArray(np.eye(80, dtype=int)))],
    ),
    "l1",
    "linf",
)
class FifthsByRanks(q.Histogram):
    """Fifths by exact ranks of rows: one unit of many rows moves those of all others."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        codes = data._codes("posts", "a0")[0]
        ranks = np.argsort(np.argsort(codes))
        fifth = 5 * ranks // max(len(ranks), 1)
        return np.bincount(fifth > 0, data._units.weights("posts"), 2).astype(np.int64)


# √τ for τ ----------------------------------------------------------------------------------------


@mutants.of(
    lambda: two_tables([0] * 9, [[1] * 9], [2], bound="truncation", tau=4), posts("a0"), "l2"
)
class RootOfTau(q.Histogram):
    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        tau = spec.tables["posts"].tau
        claim = super().sensitivity(spec)
        return replace(claim, l2=GRID * math.sqrt(tau))


# weights after a filter --------------------------------------------------------------------------


@mutants.of(
    lambda: two_tables([0, 0, 1], [[0, 1, 0]], [2]),
    lambda d: q.Joint(
        tuple(
            q.Histogram.of(d.spec, "posts", (), half)
            for half in (WithCodes("posts", "a0", (code,)) for code in (0, 1))
        )
    ),
    "l1",
    "l2",
)
class WeightsAfterFilter(q.Joint):
    """A unit's rows share its weight anew within every region (against P16)."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        found = []
        codes = data._codes("posts", "a0")[0]
        identity = data._units.identity("posts")
        for part in self.parts:
            rows = np.flatnonzero(codes == part.region.codes[0])
            _, inverse, sizes = np.unique(identity[rows], return_inverse=True, return_counts=True)
            weights = units.row_weights(sizes[inverse], 1)
            found.append([int(weights.sum())])
        return np.concatenate(found).astype(np.int64)


# siblings ----------------------------------------------------------------------------------------


def pair_of(key: KeySpec, axis: q.Axis) -> tuple[q.Axis, ...]:
    return q.Sibling(key, axis, 0), q.Sibling(key, axis, 1)


@mutants.of(
    lambda: two_tables([0] * 6 + [1, 1], [[0, 0, 1, 1, 2, 2, 0, 1]], [3]),
    lambda d: q.Histogram("users", pair_of(owned(d, "posts"), q.Column("a0", 3))),
    "l1",
    "l2",
)
class SiblingsAfterFilter(q.Histogram):
    """Two siblings are drawn anew among the rows of every cell: a unit has a pair in each."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        codes, owners = data._codes("posts", "a0")[0], data._parents(owned(data, "posts"))
        held = np.bincount(owners * 3 + codes, minlength=6).reshape(2, 3)
        pairs = np.diag(np.append((held > 1).sum(axis=0), 0))
        return np.asarray(pairs * GRID, np.int64)


@mutants.of(
    lambda: two_tables([0] * 6 + [1, 1], [[0, 0, 1, 1, 2, 2, 0, 1]], [3]),
    lambda d: q.Histogram("users", (q.Joined(pair_of(owned(d, "posts"), q.Column("a0", 3))),)),
    "l1",
    "l2",
)
class EveryStep(q.Histogram):
    """Every two neighbours in time of an owner count, not one pair."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        codes, owners = data._codes("posts", "a0")[0], data._parents(owned(data, "posts"))
        here = np.flatnonzero(np.diff(owners) == 0)
        steps = np.bincount(4 * codes[here] + codes[here + 1], minlength=16)
        return np.asarray(steps * GRID, np.int64)


def posts_of_two_links() -> PrivateDatabase:
    """A user of five posts, each with two links, and one of one."""
    own, deep = KeySpec("own", "posts", "users", "own"), KeySpec("own", "links", "posts", "own")
    posts, links = [0] * 5 + [1], np.repeat(np.arange(6), 2)
    return of_tables(users=(2, {}), posts=(6, {}, {own: posts}), links=(12, {}, {deep: links}))


@mutants.of(
    posts_of_two_links,
    lambda d: q.Histogram("posts", pair_of(owned(d, "links"), q.Whole())),
    "l1",
    "l2",
    "linf",
)
class OwnersOfWeightOne(q.Histogram):
    """Owners that are owned themselves count whole, however many their unit has."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        first, second = (axis.codes(data, "posts") for axis in self.axes)
        return np.bincount(2 * first + second, minlength=4).reshape(2, 2) * GRID


# rules of rows ----------------------------------------------------------------------------------


def dated() -> PrivateDatabase:
    """A unit with two posts in order and two that are not."""
    own = KeySpec("own", "posts", "users", "own")
    dates = {"a": Grid(np.array([1, 1, 9, 9])), "b": Grid(np.array([5, 5, 2, 2]))}
    return of_tables(users=(2, {}), posts=(4, dates, {own: [0] * 4}))


@mutants.of(dated, lambda d: q.OrderTest("posts", (("a", "b"),)), "l1", "l2")
class RowsWeighedApart(q.OrderTest):
    """Rows that keep a rule and rows that break it are weighed after they are told apart."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        whole = super().evaluate(data)
        _, sizes = data._units.members(self.source)
        return np.where(whole > 0, int((sizes > 0).sum()) * GRID, 0)


def combined(database: PrivateDatabase) -> q.Histogram:
    """Rows whose two columns are equal, and others."""
    joined = q.Joined(q.Histogram.of(database.spec, "posts", ("a0", "a1")).axes)
    return q.Histogram("posts", (replace(joined, groups=q.PublicArray(np.eye(2, dtype=int))),))


@mutants.of(off_the_diagonal, combined, "l1", "l2", "linf")
class RuleOfExactRows(q.Histogram):
    """The combinations that keep the rule are those that twenty rows have, exactly counted."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        (joined,) = self.axes
        counts = q.Histogram(self.source, joined.axes).evaluate(data)
        kept = int(counts[counts >= 20 * GRID].sum())
        return np.array([int(counts.sum()) - kept, kept])


# units by their norms ----------------------------------------------------------------------------


def normed(d: PrivateDatabase) -> q.NormedHistogram:
    """A normed histogram of posts."""
    return q.NormedHistogram("posts", q.Histogram.of(d.spec, "posts", ("a0",)).axes)


@mutants.of(lambda: two_tables([0] * 9, [[1] * 9], [2]), normed, "l2", "linf")
class RootOfRows(q.NormedHistogram):
    """The root of a unit's rows for their norm: nine rows in one cell add three."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        codes = data._codes("posts", "a0")[0]
        each = np.floor(GRID / np.sqrt(data._units.sizes("posts").astype(np.float64)))
        return np.bincount(codes, each, self.shape[0]).astype(np.int64)


@mutants.of(lambda: two_tables([0] * 4, [[0, 1, 2, 3]], [4]), normed, "l1")
class WeightsOfNorms(q.NormedHistogram):
    """The L1 claim of weights, for rows in four cells."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return replace(super().sensitivity(spec), l1=GRID)


@mutants.of(lambda: two_tables([0] * 9 + [1], [[0, 1, 2] * 3 + [3]], [4]), normed, "l2")
class NormsOfCells(q.NormedHistogram):
    """A unit's rows of each cell are divided by their own norm, as if cells were parts."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        pair = np.stack([data._units.identity("posts"), data._codes("posts", "a0")[0]])
        _, cells = np.unique(pair, axis=1)[..., :]
        return np.bincount(cells, minlength=self.shape[0]).astype(np.int64) * GRID


# sets --------------------------------------------------------------------------------------------


def sets(d: PrivateDatabase) -> q.PresencePairs:
    """Sets of two cells of the posts of each user."""
    return q.PresencePairs("posts", (q.Column("a0", 3),), 2)


def of_members(owners: Any, cells: Any) -> Ints:
    """Presences of two cells in owners of weight 1; negative owners and cells do not count."""
    held = np.zeros((owners.max(initial=0) + 1, 2), np.int64)
    known = (owners >= 0) & (cells >= 0) & (cells < 2)
    held[owners[known], cells[known]] = 1
    entries = np.maximum(held.sum(1) * (held.sum(1) + 1) // 2, 1)
    return (held.T @ (held * root_down(GRID**2 // entries)[:, None]))[np.triu_indices(2)]


@mutants.of(lambda: two_tables([0, 0, 1], [[0, 1, 0]], [3]), sets, "l2")
class PairsNormedApart(q.PresencePairs):
    """Single cells and pairs are divided by norms of their own, as if they were two events."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        found = q.PresencePairs.evaluate(self, data)
        return np.where([True, False, True], found * 3**0.5 / 2**0.5, found * 3**0.5).astype(int)


def chain() -> PrivateDatabase:
    """One person's nine users have two posts each, in two cells."""
    own = {KeySpec("own", "users", "people", "own"): [0] * 9}
    posted = {KeySpec("own", "posts", "users", "own"): [user for user in range(9) for _ in "ab"]}
    cells = {"a0": Cells(np.array([0, 1] * 9), Domain(3))}
    return of_tables(people=(1, {}), users=(9, {}, own), posts=(18, cells, posted))


@mutants.of(chain, sets, "l1", "l2", "linf")
class PresentInOwnersOfWeightOne(q.PresencePairs):
    """Owners that are no roots count for 1 each."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        owners = data._parents(data.spec.tables["posts"].key("own"))
        return of_members(owners, data._codes("posts", "a0")[0])


@mutants.of(
    lambda: two_tables(np.repeat(range(1, 13), 2), [[0, 1] * 12], [3], refs=[0, 5] * 12),
    sets,
    "l1",
    "l2",
    "linf",
)
class PairsThroughBottom(q.PresencePairs):
    """The cell is the target's: when it goes, ⊥ is dropped, and with it the pairs of all units."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        owners = data._parents(data.spec.tables["posts"].key("own"))
        return of_members(owners, np.minimum(data._parents(ref(data)), 1))


@mutants.of(
    lambda: two_tables(
        [0] * 9 + [*range(1, 10)], [[0] * 9 + [1] * 9], [3], refs=[*range(1, 10)] * 2
    ),
    sets,
    "l1",
    "l2",
    "linf",
)
class SetsOfTargets(q.PresencePairs):
    """Rows that refer to one row count as its set: a unit of nine references changes nine sets."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        return of_members(data._parents(ref(data)), data._codes("posts", "a0")[0])


def films() -> PrivateDatabase:
    """A public film has a row, or a genre, of its own for each of three cells; another has one."""
    key = {KeySpec("film", "genres", "films", "public"): [0, 0, 0, 1]}
    return of_tables(genres=(4, {"a0": Cells(np.array([0, 1, 2, 0]), Domain(4))}, key))


def sets_of_films(d: PrivateDatabase) -> q.PresencePairs:
    """Sets of three cells of each film."""
    return q.PresencePairs(
        "genres", (q.Column("a0", 4),), 3, "l2", d.spec.tables["genres"].key("film")
    )


@mutants.of(films, sets_of_films, "l2")
class PairsOfPublicOwnersUnnormed(q.PresencePairs):
    """Public owners count for 1 in every entry: a row that goes takes as many as its owner has."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        owners = data._parents(data.spec.tables["genres"].key("film"))
        held = np.zeros((2, 3), np.int64)
        held[owners, data._codes("genres", "a0")[0]] = 1
        return (held.T @ held)[np.triu_indices(3)] * GRID


# nearest rounding --------------------------------------------------------------------------------


def nearest(sizes: Any, tau: int) -> Any:
    exact = GRID * np.minimum(sizes, tau).astype(np.float64) / (tau * sizes)
    return np.rint(exact).astype(np.int64)


def test_nearest_rounding_instead_of_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six rows of ⌈GRID/6⌉ pass GRID by two grid units; the comparison is exact."""
    owners = [0] * 6
    sound = two_tables(owners, [[0] * 6], [2])
    query = q.Histogram.of(sound.spec, "posts", ("a0",))
    assert caught(query, sound) == set()
    monkeypatch.setattr(units, "row_weights", nearest)
    assert {"l1", "linf"} <= caught(query, two_tables(owners, [[0] * 6], [2]))


# NULL for ⊥ --------------------------------------------------------------------------------------


def presence(own: bool = False) -> Any:
    """Makes a histogram of whether posts refer."""
    return lambda d: q.Histogram("posts", (q.Refers(ref(d), own),))


@mutants.of(lambda: hub(), presence(), "l1")
class BottomIsNull(q.Histogram):
    def evaluate(self, data: PrivateDatabase) -> Ints:
        edges, weights = data._parents(ref(data)), data._units.weights("posts")
        present = edges >= 0
        return np.array([weights[~present].sum(), weights[present].sum()], dtype=np.int64)


def hub(rows: int = 12) -> PrivateDatabase:
    """Everybody's one post refers to user 0."""
    return two_tables(range(rows), refs=[0] * rows)


def test_null_for_bottom_in_the_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """SET NULL as a reading of removal: the harness would show what it costs."""
    monkeypatch.setattr(stability, "BOTTOM", NONE)
    assert "l1" in caught(presence()(hub()), hub())


@mutants.of(hub, presence(own=True), "l1")
class OwnTargetOfTheGone(q.Histogram):
    """⊥ counted as a target in the own unit."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        counts = q.Histogram.evaluate(self, data)
        gone = data._units.weights("posts")[data._parents(ref(data)) == BOTTOM].sum()
        return counts + np.array([0, -gone, gone])


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


@mutants.of(
    lambda: two_tables(
        [user for user in range(1, 15) for _ in range(2)],
        [[0, 1] * 14],
        [2],
        refs=[0, 5] * 14,
        bound="truncation",
    ),
    posts("a0"),
    "l1",
    "linf",
)
class HashedRank(q.Histogram):
    """Two posts each, one refers to the hub: when it goes, the hash picks the other one."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        key = data.spec.tables["posts"].key("ref")
        ranks = hashed_ranks(data._units.identity("posts"), data._parents(key))
        codes = data._codes("posts", "a0")[0][ranks < 1]
        return np.bincount(codes, minlength=2).astype(np.int64) * GRID


def test_ranks_drawn_anew_break_the_coupling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness compares coupled databases: without coupling it reports violations."""
    owners = [user for user in range(40) for _ in range(2)]
    database = two_tables(owners, [[0, 1] * 40], [2], bound="truncation")
    query = q.Histogram.of(database.spec, "posts", ("a0",))
    assert caught(query, database) == set()

    def uncoupled(spec: Any, tables: Any, ranks: Any = None) -> PrivateDatabase:
        return PrivateDatabase(spec, tables)

    monkeypatch.setattr(stability, "PrivateDatabase", uncoupled)
    assert "l1" in caught(query, database)


# fan-in ------------------------------------------------------------------------------------------


@mutants.of(lambda: referrers_of_a_hub(), lambda d: q.FanIn(ref(d)), "l1")
class DropsBeforeTheCut(q.FanIn):
    """NULL and ⊥ edges are dropped first, then sixteen are kept."""

    def _edges(self, data: PrivateDatabase) -> Any:
        edges = data._parents(self.key)
        identity = data._units.identity(self.key.table)
        valid = np.flatnonzero(edges >= 0)
        ranks = hashed_ranks(identity[valid], data._units.ranks(self.key.table)[valid])
        kept = edges[valid][ranks < 16]
        return np.bincount(kept, minlength=data._rows(self.key.parent)).astype(np.int64)


def referrers_of_a_hub() -> PrivateDatabase:
    """When the hub goes, each user's sixteen edges to one other target all come to count."""
    owners, refs = [], []
    for user in range(1, 61):
        owners += [user] * 40
        refs += [0] * 24 + [user + 60] * 16
    return two_tables(owners, refs=refs, users=121)


# arrays of keys ----------------------------------------------------------------------------------


def arrays() -> PrivateDatabase:
    """Seventeen rows of a unit have arrays of eight keys, each of a target of its own."""
    owners, targets = [row for row in range(17) for _ in range(8)], range(136)
    keys = {
        KeySpec("row", "elements", "rows", "own"): owners,
        KeySpec("key", "elements", "targets", "ref"): targets,
    }
    own = {KeySpec("own", "rows", "people", "own"): [0] * 17}
    held = {"rows": (17, {}, own), "elements": (136, {}, keys)}
    made = of_tables(people=(1, {}), targets=(136, {}), **held)
    table = replace(made.spec.tables["elements"], elements=True)
    spec = replace(made.spec, tables={**made.spec.tables, "elements": table})
    return PrivateDatabase(spec, made._tables)


def rows_of_sixteen(data: PrivateDatabase) -> Any:
    """The elements of the first sixteen rows of each unit."""
    spec = data.spec.tables["elements"]
    assert spec.own is not None
    return data._units.ranks("rows")[data._parents(spec.own)] < 16


@mutants.of(arrays, lambda d: q.FanIn(d.spec.tables["elements"].key("key")), "l1", "l2", "linf")
class SixteenRows(q.FanIn):
    """Sixteen rows of a unit count with all of their elements, not sixteen elements."""

    def _edges(self, data: PrivateDatabase) -> Any:
        edges = data._parents(self.key)[rows_of_sixteen(data)]
        return np.bincount(edges[edges >= 0], minlength=data._rows(self.key.parent))


@mutants.of(
    arrays, lambda d: q.TargetHistogram.of(d.spec, d.spec.tables["elements"].key("key"), (), ()),
    "l1", "l2", "linf",
)  # fmt: skip
class WeightsOfRows(q.TargetHistogram):
    """Each element weighs what its row does, so that arrays count by their lengths."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        chosen = rows_of_sixteen(data) & (data._parents(self.key) >= 0)
        return np.array([[int(chosen.sum()) * (GRID // 16)]])


def test_elements_stand_in_a_row() -> None:
    """So none is the root of a unit, and a unit is what it is without arrays."""
    database = arrays()
    assert database.spec.roots("elements") == {"people", "rows"}
    owners = UnitDefinition.of(database.spec).owners
    assert [name for name, _ in owners] == ["people", "rows", "targets"]
    key, held = database.spec.tables["elements"].own, database._tables["elements"]
    assert key is not None
    for missing in (NONE, BOTTOM):
        parents = {**held._parents, key.name: np.full(136, missing)}
        tables = {**database._tables, "elements": PrivateTable(136, {}, parents)}
        with pytest.raises(SchemaError, match="stands in no row"):
            PrivateDatabase(database.spec, tables)


@mutants.of(lambda: hubs_of_sixteen(), lambda d: q.FanIn(ref(d)), "l1")
class ClosedForm(q.FanIn):
    """1 + 16·log₂(17/16), which forgets that an edge moves two buckets."""

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


def test_the_claim_for_a_fan_in_is_reached() -> None:
    """User 0, a hub of 48 edges, refers to sixteen users to whom nobody else refers."""
    owners, refs = [0] * 16 + list(range(17, 65)), list(range(1, 17)) + [0] * 48
    database = two_tables(owners, refs=refs)
    report = check([q.FanIn(ref(database))], database, units=[("users", 0)])
    assert report.ok
    assert report.worst_ratio > 0.9999


class SourceOnly(q.FanIn):
    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        return spec.roots(self.key.table)


def two_roots() -> PrivateDatabase:
    """Tags that refer to users; both are roots."""
    key = KeySpec("ref", "tags", "users", "ref", nullable=True)
    return of_tables(tags=(4, {}, {key: [0, 0, 1, -1]}), users=(2, {}))


def test_a_reference_is_charged_to_both_ends() -> None:
    database = two_roots()
    key = database.spec.tables["tags"].key("ref")
    assert caught(q.FanIn(key), database) == set()
    assert caught(SourceOnly(key), database) == {"roots"}


# cross moments of degrees -------------------------------------------------------------------------


def stars(*clips: int, source: str = "posts") -> Any:
    """Makes a moment of the first keys into a table, one for each clip."""

    def made(d: PrivateDatabase) -> q.CrossMoment:
        every = (key for table in d.spec.tables.values() for key in table.keys)
        keys = [key for key in every if key.parent == source]
        return q.CrossMoment(source, tuple(keys), clips)

    return made


def threads() -> PrivateDatabase:
    """One user with 6 posts of 5 comments and 4 votes each, and one with a post of one each."""
    owners = {"posts": [0] * 6 + [1]}
    owners["comments"] = [post for post in range(6) for _ in range(5)] + [6]
    owners["votes"] = [post for post in range(6) for _ in range(4)] + [6]
    parents = {"posts": "users", "comments": "posts", "votes": "posts"}
    keys = {name: KeySpec("own", name, parent, "own") for name, parent in parents.items()}
    held = {name: (len(owners[name]), {}, {key: owners[name]}) for name, key in keys.items()}
    return of_tables(users=(2, {}), **held)


class Unclipped(q.CrossMoment):
    """Products of degrees as they are, over the product of the clips."""

    def products(self, data: PrivateDatabase) -> Ints:
        rows = data._rows(self.source)
        found = np.ones(rows, np.int64)
        for key in self.keys:
            edges = data._parents(key)
            found = found * np.bincount(edges[edges >= 0], minlength=rows)
        return found

    def evaluate(self, data: PrivateDatabase) -> Ints:
        weights = data._units.weights(self.source).astype(np.int64)
        return np.array([int((weights * self.products(data) // self._product).sum())])


mutants.of(threads, stars(2, 2), "l1", "l2")(Unclipped)


@mutants.of(threads, stars(2, 2), "l1", "l2")
class ClippedAfterTheSum(Unclipped):
    """The sum over a table is clipped, instead of the degrees of each row."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        whole = int(self.products(data).sum())
        most = 2 * self._product * data._rows(self.source)
        return np.array([GRID * min(whole, most) // self._product])


@mutants.of(threads, stars(5, 4), "l1", "l2")
class WithoutWeights(Unclipped):
    """Every row of a deeper parent counts 1, however many its unit has."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        products = np.minimum(self.products(data), self._product)
        return np.array([GRID * int(products.sum()) // self._product])


def both_ends() -> PrivateDatabase:
    """Five rows that refer to one user by two keys each."""
    keys = [KeySpec(name, "trips", "users", "ref", nullable=True) for name in ("start", "end")]
    return of_tables(trips=(5, {}, dict.fromkeys(keys, [0] * 5)), users=(9, {}))


def both_ends_of_many() -> PrivateDatabase:
    """A person has a trip from each of 16 places back to it, as four others have."""
    keys = [KeySpec(name, "trips", "places", "ref", nullable=True) for name in ("start", "end")]
    own = KeySpec("own", "trips", "people", "own")
    places = [place for place in range(16) for _ in range(5)]
    people = [0 if trip % 5 == 0 else trip for trip in range(80)]
    edges = {own: people, **dict.fromkeys(keys, places)}
    return of_tables(people=(80, {}), trips=(80, {}, edges), places=(16, {}))


@mutants.of(both_ends_of_many, stars(5, 5, source="places"), "l1", "l2")
class OneKeyOfTwo(q.CrossMoment):
    """The claim of a unit with edges of one key, where its rows have edges of both."""

    def _moved(self, spec: DatabaseSpec, root: str) -> int:
        return super()._moved(spec, root) // (1 if root == "places" else 2)


@mutants.of(both_ends, stars(5, 5, source="users"), "roots")
class OneTreeOfTwo(q.CrossMoment):
    """References are charged to the parents' tree alone."""

    def roots(self, spec: DatabaseSpec) -> frozenset[str]:
        return spec.roots(self.source)


@mutants.of(both_ends, stars(5, 5, source="users"), "l1", "l2")
class EdgesOfDuplicates(Unclipped):
    """An edge counts in every parent row that has its key: here all users have the same one."""

    def products(self, data: PrivateDatabase) -> Ints:
        edges = [int((data._parents(key) >= 0).sum()) for key in self.keys]
        each = math.prod(min(number, 5) for number in edges)
        return np.full(data._rows("users"), each, np.int64)


# the rest ----------------------------------------------------------------------------------------


@mutants.of(lambda: two_tables([0] * 9), lambda d: q.Total("posts", clip=5), "l1")
class Unclipped(q.Total):
    def evaluate(self, data: PrivateDatabase) -> Ints:
        return np.array([data._rows("posts")], dtype=np.int64)


# one row a unit, believed -------------------------------------------------------------------------


def against_unique() -> PrivateDatabase:
    """User 0 has nine posts, all of one word, where the schema promises one."""
    words = Labels(np.array([0] * 9 + [1] * 4), ["mine", "ours"])
    cells = [[1] * 9 + [0] * 4]
    refs = [*range(1, 10), 1, 1, 1, 1]
    owners = [0] * 9 + [1, 2, 3, 4]
    return two_tables(owners, cells, [2], refs=refs, users=10, unique=True, l=words)


@mutants.of(against_unique, lambda d: q.Total("posts"), "l1", "l2", "linf")
class OneRowByTheSchema(q.Total):
    """No clip, since a unit has one row."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        return np.array([data._rows("posts")], dtype=np.int64)


class _Believed:
    """Every row counts, since a unit has one row."""

    def _counts(self, data: PrivateDatabase, cells: Any, size: int, norm: Any, most: int) -> Ints:
        return np.bincount(cells, minlength=size).astype(np.int64) * GRID


@mutants.of(against_unique, lambda d: q.LabelCounts("posts", "l"), "l1", "l2", "linf")
class BelievedLabels(_Believed, q.LabelCounts):
    pass


@mutants.of(against_unique, lambda d: q.RankedCounts("posts", "l"), "l1", "l2", "linf")
class BelievedRanks(_Believed, q.RankedCounts):
    pass


@mutants.of(against_unique, posts("a0"), "l1", "l2", "linf")
class WholeWeight(q.Histogram):
    """Every row weighs 1, since a unit has one row."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        return np.bincount(data._codes("posts", "a0")[0], minlength=2).astype(np.int64) * GRID


@mutants.of(against_unique, lambda d: q.FanIn(ref(d)), "l1", "l2")
class EveryEdge(q.FanIn):
    """Every edge counts, since a unit has one row."""

    def _edges(self, data: PrivateDatabase) -> Any:
        return units.tally(data._parents(self.key), data._rows(self.key.parent))


def test_lists_without_the_cut_to_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms are exact for as many rows as count; the squares of more do not fit 64 bits."""
    owners = [0] * 2**16 + [1] * 300
    words = Labels(np.array([0] * 2**16 + [1] * 300), ["mine", "ours"])
    database = two_tables(owners, l=words)
    query = q.LabelCounts("posts", "l")
    assert caught(query, database) == set()
    monkeypatch.setattr(labels, "ROWS", 2**40)
    assert {"l1", "l2", "linf"} <= caught(query, database)


@mutants.of(lambda: two_tables([0, 1], [[0, 1]], [2]), lambda d: overlapping(d), "l1", "l2")
class OneForAll(q.Joint):
    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return self.parts[0].sensitivity(spec)


def overlapping(database: PrivateDatabase) -> q.Joint:
    """A histogram of all posts and one of a part of them."""
    whole = q.Histogram.of(database.spec, "posts", ("a0",))
    inside = replace(whole, region=WithCodes("posts", "a0", (0,)))
    return q.Joint((whole, inside))


@mutants.of(
    lambda: two_tables([0, 0, 0, 1, 1, 1], [[0] * 3 + [1] * 3], [2], tau=3, relation=REPLACE),
    posts("a0"),
    "l2",
)
class OneUnitAlone(q.Histogram):
    """The L2 claim of one unit for the two that change places."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        claim = super().sensitivity(spec)
        return replace(claim, l2=claim.l2 / math.sqrt(2))


def test_the_claim_for_histograms_under_replace_is_reached() -> None:
    """Two units of three rows each, each in a cell of its own: √2 in L2, not 2."""
    database = two_tables([0, 0, 0, 1, 1, 1], [[0] * 3 + [1] * 3], [2], tau=3, relation=REPLACE)
    report = check([posts("a0")(database)], database, every=True)
    assert report.ok
    assert report.worst_ratio > 0.9999


class OfOwnedRows(q.Total):
    """The price of a public number for a table whose rows units own."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return q.Total("users").sensitivity(spec)


def test_only_the_number_of_units_is_public_under_replace() -> None:
    database = two_tables([0] * 5 + [1], relation=REPLACE)
    assert q.Total("users").sensitivity(database.spec) == Sensitivity(0, 0.0, 0)
    assert caught(q.Total("users"), database) == caught(q.Total("posts"), database) == set()
    assert caught(OfOwnedRows("posts"), database) == {"l1", "l2", "linf"}
    # A row whose owner is missing is a unit of its own, but not every row of its table is one.
    assert q.Total("posts").sensitivity(database.spec).l1 == 100


@mutants.of(
    lambda: two_tables([0, 1], [[3, 0], [3, 0]], [4, 4]),
    lambda d: q.Joint((posts("a0")(d), posts("a1")(d))),
    "l1",
    "l2",
)
class LargestPart(q.Joint):
    """Parts over the same rows as if these were different ones."""

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return max((part.sensitivity(spec) for part in self.parts), key=lambda claim: claim.l1)


@mutants.of(lambda: shared_labels(), lambda d: q.LabelCounts("posts", "l", most=2), "l0")
class AllLabels(q.LabelCounts):
    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        return q.LabelCounts(self.source, self.attribute).evaluate_labels(data)


def labelled(values: Sequence[int] = (1, 1, 1, 9)) -> PrivateDatabase:
    words = Labels(np.array([0, 1, 2, 0]), ["x", "y", "z"])
    return two_tables([0, 0, 0, 1], l=words, g=Grid(np.array(values)))


def shared_labels() -> PrivateDatabase:
    """Two units that hold the same three values."""
    words = Labels(np.array([0, 1, 2, 0, 1, 2]), ["x", "y", "z"])
    return two_tables([0, 0, 0, 1, 1, 1], l=words)


def labelled_by_one() -> PrivateDatabase:
    """One unit that holds one value in four rows."""
    return two_tables([0, 0, 0, 0], l=Labels(np.zeros(4, np.int64), ["x"]))


@mutants.of(labelled_by_one, lambda d: q.LabelCounts("posts", "l"), "linf", "l2")
class RowsOfLabels(q.LabelCounts):
    """Rows at full weight, not units: one unit lifts a value of its own above 1."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        held = data._raw(self.source, self.attribute)
        counts = np.bincount(held._codes[held._codes >= 0]) - 1  # type: ignore[union-attr]
        found = {str(code): GRID * int(count) for code, count in enumerate(counts) if count > 0}
        return np.zeros(self.shape, np.int64), found


@mutants.of(shared_labels, lambda d: q.LabelCounts("posts", "l", votes=True), "l2")
class NormalisedApart(q.LabelCounts):
    """A unit's votes are normalised one by one, so that each weighs 1."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        held, found = data._raw(self.source, self.attribute), dict[str, int]()
        identity = data._units.identity(self.source)
        for code, word in enumerate(held._labels.to_pylist()):  # type: ignore[union-attr]
            units = len(np.unique(identity[held._codes == code]))  # type: ignore[union-attr]
            found |= {word: GRID * (units - 1)} if units > 1 else {}
        return np.zeros(self.shape, np.int64), found


@mutants.of(shared_labels, lambda d: q.LabelCounts("posts", "l", public=("z", "no such")), "shape")
class PresentCandidates(q.LabelCounts):
    """Public candidates are cells only where a row has them."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        cells, counts = super().evaluate_labels(data)
        return cells[np.append(True, cells[1:] > 0)], counts


@mutants.of(shared_labels, lambda d: q.LabelCounts("posts", "l", public=("x", "y", "z")), "l2")
class DrawnTwice(q.LabelCounts):
    """A candidate that rows hold is a public cell and a label of the threshold too."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        cells, _ = super().evaluate_labels(data)
        return cells, q.LabelCounts(self.source, self.attribute).evaluate_labels(data)[1]


@mutants.of(shared_labels, lambda d: q.LabelCounts("posts", "l", public=("any",)), "l2", "linf")
class CellsAfterwards(q.LabelCounts):
    """Values are merged into one public cell after they were normalised, not before."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        single = q.LabelCounts(self.source, self.attribute, public=("x", "y", "z"))
        values = single.evaluate_labels(data)[0]
        return np.array([values[0], values[1:].sum()]), {}


# words of texts ----------------------------------------------------------------------------------


def shared_words() -> PrivateDatabase:
    """Three units that hold the same words, user 0 in four posts; each word twice in a post."""
    return two_tables([0, 0, 0, 0, 1, 2], w=texts(*["a b a c d"] * 6))


def of_words(database: PrivateDatabase) -> q.WordPresence:
    return q.WordPresence("posts", "w", 1, ("a", "b", "c"), q.PublicArray([97]))


@mutants.of(shared_words, lambda d: q.WordVotes("posts", "w", most=2, votes=True), "l0", "l2")
class AllWords(q.WordVotes):
    """Votes without the cut: one for every word of a text."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        whole = q.WordVotes("posts", "w", most=64, votes=True).evaluate_labels(data)
        return whole[0], {word: count * 2 for word, count in whole[1].items()}


@mutants.of(shared_words, lambda d: q.WordVotes("posts", "w", votes=True), "l2", "linf")
class VotesOfRows(q.WordVotes):
    """A word has a vote of every row, not of every unit."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        cells, _ = super().evaluate_labels(data)
        return cells, {"a": GRID * max(data._rows("posts") - 1, 0)}


@mutants.of(shared_words, of_words, "l2")
class PresenceOfRows(q.WordPresence):
    """Every word of a unit counts in full: no unit is divided by its norm."""

    def _tally(self, found: Ints, pair: Any, *_: Any) -> None:
        np.add.at(found, np.unique(pair) % found.size, GRID)


@mutants.of(shared_words, lambda d: replace(of_words(d), norm="l1"), "l1")
class RootsOfPresence(q.WordPresence):
    """A unit counts by its L2 norm under noise that is scaled to its sum."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        return of_words(data).evaluate(data)


def test_a_word_that_one_unit_alone_holds_is_never_listed() -> None:
    """However many of its rows do, whatever else they hold: no noise could bring it up."""
    mine = [f"secret w{row}" for row in range(10_000)]
    database = two_tables([0] * 10_000 + [1, 2], w=texts(*mine, "ours", "ours"))
    for norm in ("l2", "l1"):
        query = q.WordVotes("posts", "w", norm=norm, votes=True)
        assert query.evaluate_labels(database)[1] == {"ours": GRID}
        assert caught(query, database) == set()


def test_a_root_that_is_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three weights of 1/√3 pass 1 then."""

    def rounded_down(squares: Ints) -> Ints:
        return np.floor(np.sqrt(squares.astype(np.float64)) * 2**8).astype(np.int64) << 8

    monkeypatch.setattr(q.labels, "_root_up", rounded_down)
    query = q.LabelCounts("posts", "l", public=("x", "y", "z"))
    assert "l2" in caught(query, shared_labels())


@mutants.of(
    shared_labels,
    lambda d: q.LabelCounts("posts", "l", norm="l1", public=("x", "y", "z"), votes=True),
    "l1",
)
class RootsForSums(q.LabelCounts):
    """A unit's k votes weigh 1/√k under noise that is scaled to their sum."""

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        query = q.LabelCounts("posts", "l", public=("x", "y", "z"), votes=True)
        return query.evaluate_labels(data)


@mutants.of(shared_labels, lambda d: q.RankedCounts("posts", "l", votes=True), "l1", "l2")
class BlocksOfL2(q.RankedCounts):
    """Sums over blocks of votes of norm 1 in L2: a unit's rare values fall into one block."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        query = q.LabelCounts("posts", "l", public=("x", "y", "z"), votes=True)
        cells = query.evaluate_labels(data)[0]
        falling = np.sort(cells[1:])[::-1]
        return np.append([0, falling[0], falling[1:].sum()], np.zeros(BLOCKS - 2, np.int64))


@mutants.of(labelled, lambda d: q.RankedCounts("posts", "l"), "l1")
class OfTheFirstRow(q.RankedCounts):
    """Ranks of values are kept as they came: a value's place moves when a unit goes."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        held = data._raw(self.source, self.attribute)
        codes = held._codes  # type: ignore[union-attr]
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        return np.append(0, np.resize(GRID * counts[np.argsort(first)], BLOCKS))


@mutants.of(
    labelled, lambda d: q.GridHistogram("posts", "g", q.PublicArray([0, 5, 9])), "l1", "linf"
)
class UnweightedGrid(q.GridHistogram):
    """Every row counts 1, however many rows its unit has."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        values = data._raw("posts", "g")._values  # type: ignore[union-attr]
        cells = np.searchsorted(self.points.values, values, side="right")
        return np.bincount(cells, minlength=self.shape[0]).astype(np.int64) * GRID


@mutants.of(
    lambda: labelled([1, 1, NULL, 9]),
    lambda d: q.GridHistogram("posts", "g", q.PublicArray([0, 5, 9])),
    "l1",
)
class NullsToo(q.GridHistogram):
    """NULL counts at full weight in the lowest cell, on top of its unit's other rows."""

    def evaluate(self, data: PrivateDatabase) -> Ints:
        found = q.GridHistogram.evaluate(self, data)
        values = data._raw("posts", "g")._values  # type: ignore[union-attr]
        found[0] += GRID * np.count_nonzero(values == NULL)
        return found


class RowsThatRefer(q.UnitRows):
    """The number of rows that refer to the row: other units' doing."""

    def read(self, data: PrivateDatabase, table: str) -> Any:
        edges = data._parents(ref(data))
        counts = np.bincount(edges[edges >= 0], minlength=data._rows(table))
        return np.minimum(counts, self.size - 1).astype(np.uint16), None


@pytest.mark.parametrize(
    ("kind", "reasons"), [(q.UnitRows, set()), (RowsThatRefer, {"l1", "l2", "linf"})]
)
def test_rows_that_refer_are_no_rows_of_the_unit(kind: type[q.UnitRows], reasons: set[str]) -> None:
    database = two_tables([0] * 20, refs=list(range(1, 21)), users=21)
    query = q.Histogram("users", (kind("posts", (0, 1, 2)),))
    assert caught(query, database, units=[("users", 0)]) == reasons


def test_a_reference_as_if_it_were_owned() -> None:
    """A fan-out along a REF key is refused; forced, one unit moves all its targets."""
    database = hubs_of_sixteen()
    forced: q.Axis = q.Children(replace(ref(database), role="own"))
    assert database.spec.relation == ADD
    assert "l1" in caught(q.Histogram("users", (forced,)), database)


# counters --------------------------------------------------------------------------------------


class WeighsParts:
    """Weights are taken within each part of the rows, not over all rows of a unit.

    With parts of one row it forgets them: every row counts whole.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __call__(self, data: PrivateDatabase, asked: Marginals) -> list[Ints]:
        identity = data._units.identity(asked.table).astype(np.int64)
        part = identity * identity.size + np.arange(identity.size) // self.rows
        _, place, sizes = np.unique(part, return_inverse=True, return_counts=True)
        reads = [axis.read(data, asked.table) for axis in asked.axes]
        view = View(reads, [axis.size for axis in asked.axes], GRID // sizes[place])
        return view.count(asked.sets)


@pytest.mark.parametrize("rows", [1, 4])
def test_counters_that_weigh_rows_by_their_part(rows: int) -> None:
    database = two_tables([0] * 30 + [1, 2, 3], [[0, 1] * 16 + [1]], [2])
    query = q.Histogram.of(database.spec, "posts", ("a0",))
    database.counter = local
    assert caught(query, database) == set()
    database.counter = WeighsParts(rows)
    assert caught(query, database) == {"l1", "l2", "linf"}


@pytest.mark.parametrize("mutant", list(mutants), ids=str)
def test_mutants_are_caught(mutant: Any) -> None:
    mutant.must_be_caught()
