"""Claims are reached, and the harness catches every known way to get one wrong.

Each mutant stands with the sound query on the same database, which must pass (see `harness`).
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import stability
from harness import Mutants, caught, check
from private_tables import of_tables, two_tables
from small_databases import ADD, REPLACE, ROW, WithCodes, texts

from privbench.domain import Domain
from privbench.errors import SchemaError
from privbench.privacy import UnitDefinition, units
from privbench.privacy import queries as q
from privbench.privacy.data import Cells, Grid, Labels, PrivateDatabase, PrivateTable
from privbench.privacy.queries import labels
from privbench.privacy.queries.counting import View, local
from privbench.privacy.queries.histogram import root_down
from privbench.privacy.queries.labels import BLOCKS
from privbench.privacy.queries.references import SHARES
from privbench.privacy.query import GRID, Sensitivity
from privbench.privacy.recoding import NULL
from privbench.privacy.spec import KeySpec
from privbench.privacy.units import BOTTOM, NONE

mutants = Mutants()


# What mutants read.


def codes(data):
    """Codes of posts in their first column."""
    return data._codes("posts", "a0")[0]


def key(data, table="posts", name="ref"):
    """A key of a table."""
    return data.spec.tables[table].key(name)


def edges(data, table="posts", name="ref"):
    """Parents by a key of the rows of a table."""
    return data._parents(key(data, table, name))


def counts(codes, size, weights=None):
    """How many rows have each code, on the grid; or the sums of their weights."""
    if weights is None:
        return np.bincount(codes, minlength=size) * GRID
    return np.bincount(codes, weights, size).astype(np.int64)


def first_of_valid(data, key):
    """The first sixteen of a unit's posts whose edge is neither NULL nor ⊥."""
    valid = np.flatnonzero(data._parents(key) >= 0)
    identity, ranks = (of("posts")[valid] for of in (data._units.identity, data._units.ranks))
    order = np.lexsort((ranks, identity))
    _, first, sizes = np.unique(identity[order], return_index=True, return_counts=True)
    return valid[order][np.arange(valid.size) - np.repeat(first, sizes) < 16]


# Databases.


def off_the_diagonal():
    """One unit off the diagonal cell of all others."""
    cells = [0] * 20 + [1]
    return two_tables(range(21), [cells, cells], [2, 2])


def equal_rows(columns=2):
    """Three units of one row each, all in one cell."""
    return two_tables(range(3), [[0] * 3] * columns, [2] * columns)


def hub(rows=12):
    """Everybody's one post refers to user 0."""
    return two_tables(range(rows), [[1] * rows], [2], refs=[0] * rows)


def hub_with_others(users, edges=40, to_hub=24):
    """Each user refers to user 0, and otherwise to a user to whom nobody else does."""
    owners, refs = [], []
    for user in range(1, users + 1):
        owners += [user] * edges
        refs += [0] * to_hub + [user + users] * (edges - to_hub)
    return two_tables(owners, refs=refs, users=2 * users + 1)


def hubs_of_sixteen():
    """User 0 refers to sixteen hubs of sixteen other edges each, and is a hub of 48 edges."""
    owners, refs = [0] * 16, list(range(1, 17))
    for target in (0, 0, *range(17)):
        owners += range(max(owners) + 1, max(owners) + 17)
        refs += [target] * 16
    return two_tables(owners, refs=refs)


def full_targets(cap=1):
    """User 0 sends sixteen edges to sixteen full targets, and is a full target itself.

    Cell 0 holds the others' edges into the sixteen, cell 1 all edges from and into user 0.
    """
    targets = np.repeat(np.arange(17), cap)
    owners = [0] * 16 + list(range(1, 17 * cap + 1))
    cells = [1] * 16 + (targets == 0).tolist()
    return two_tables(owners, [cells], [2], refs=[*range(1, 17), *targets])


def posts_that_refer_to_posts():
    """User 0 owns five posts that are referred to by two users' posts each."""
    owners, refs = [0] * 5 + list(range(1, 11)), [NONE] * 5 + [row // 2 for row in range(10)]
    own = KeySpec("own", "posts", "users", "own", nullable=True)
    ref = KeySpec("ref", "posts", "posts", "ref", nullable=True)
    return of_tables(users=(11, {}), posts=(15, {}, {own: owners, ref: refs}))


def apart(sources, relation=ADD):
    """Rows of a root table that refer to one row of another root table, in two cells."""
    ref = KeySpec("ref", "tags", "posts", "ref", nullable=True)
    cells = Cells(np.array([1] + [0] * (sources - 1)), Domain(2))
    tags = (sources, {"c": cells}, {ref: [0] * sources})
    return of_tables(relation, tags=tags, posts=(1, {}))


def posts_of_two_links():
    """A user of five posts, each with two links, and one of one."""
    own, deep = KeySpec("own", "posts", "users", "own"), KeySpec("own", "links", "posts", "own")
    posts, links = [0] * 5 + [1], np.repeat(np.arange(6), 2)
    return of_tables(users=(2, {}), posts=(6, {}, {own: posts}), links=(12, {}, {deep: links}))


def arrays():
    """Seventeen rows of a unit have arrays of eight keys, each of a target of its own."""
    keys = {
        KeySpec("row", "elements", "rows", "own"): np.repeat(np.arange(17), 8),
        KeySpec("key", "elements", "targets", "ref"): range(136),
    }
    own = {KeySpec("own", "rows", "people", "own"): [0] * 17}
    tables = {"rows": (17, {}, own), "elements": (136, {}, keys)}
    database = of_tables(people=(1, {}), targets=(136, {}), **tables)
    table = replace(database.spec.tables["elements"], elements=True)
    spec = replace(database.spec, tables={**database.spec.tables, "elements": table})
    return PrivateDatabase(spec, database._tables)


def threads():
    """One user with 6 posts of 5 comments and 4 votes each, and one with a post of one each."""
    owners = {"posts": [0] * 6 + [1]}
    owners["comments"], owners["votes"] = ([*np.repeat(range(6), n), 6] for n in (5, 4))
    parents = {"posts": "users", "comments": "posts", "votes": "posts"}
    keys = {name: KeySpec("own", name, parent, "own") for name, parent in parents.items()}
    tables = {name: (len(owners[name]), {}, {key: owners[name]}) for name, key in keys.items()}
    return of_tables(users=(2, {}), **tables)


START, END = (KeySpec(name, "trips", "places", "ref", nullable=True) for name in ("start", "end"))


def both_ends():
    """Five trips that refer to one place by two keys each."""
    return of_tables(trips=(5, {}, dict.fromkeys((START, END), [0] * 5)), places=(9, {}))


def both_ends_of_many():
    """A person has a trip from each of 16 places back to it, as four others have."""
    places, people = np.repeat(range(16), 5), [trip * (trip % 5 > 0) for trip in range(80)]
    own = KeySpec("own", "trips", "people", "own")
    edges = {own: people, START: places, END: places}
    return of_tables(people=(80, {}), trips=(80, {}, edges), places=(16, {}))


def dated():
    """A unit with two posts in order and two that are not."""
    dates = {"a": Grid(np.array([1, 1, 9, 9])), "b": Grid(np.array([5, 5, 2, 2]))}
    return two_tables([0] * 4, users=2, **dates)


def chain():
    """One person's nine users have two posts each, in two cells."""
    own = {KeySpec("own", "users", "people", "own"): [0] * 9}
    posted = {KeySpec("own", "posts", "users", "own"): np.repeat(range(9), 2)}
    cells = {"a0": Cells(np.array([0, 1] * 9), Domain(3))}
    return of_tables(people=(1, {}), users=(9, {}, own), posts=(18, cells, posted))


def films():
    """A public film has a row, or a genre, of its own for each of three cells; another has one."""
    film = {KeySpec("film", "posts", "films", "public"): [0, 0, 0, 1]}
    return of_tables(posts=(4, {"a0": Cells(np.array([0, 1, 2, 0]), Domain(4))}, film))


def against_unique():
    """User 0 has nine posts, all of one word, where the schema promises one."""
    owners, refs = [0] * 9 + [1, 2, 3, 4], [*range(1, 10), 1, 1, 1, 1]
    words = Labels(np.array([0] * 9 + [1] * 4), ["mine", "ours"])
    cells = [[1] * 9 + [0] * 4]
    return two_tables(owners, cells, [2], refs=refs, users=10, unique=True, l=words)


def labelled(values=(1, 1, 1, 9)):
    """Two units that share one label, and points of a grid."""
    words = Labels(np.array([0, 1, 2, 0]), ["x", "y", "z"])
    return two_tables([0, 0, 0, 1], l=words, g=Grid(np.array(values)))


def shared_labels():
    """Two units that hold the same three values."""
    words = Labels(np.array([0, 1, 2, 0, 1, 2]), ["x", "y", "z"])
    return two_tables([0, 0, 0, 1, 1, 1], l=words)


def shared_words():
    """Three units that hold the same words, user 0 in four posts; each word twice in a post."""
    return two_tables([0, 0, 0, 0, 1, 2], w=texts(*["a b a c d"] * 6))


def unlike_units():
    """Two units of three rows each, each in a cell of its own."""
    return two_tables([0, 0, 0, 1, 1, 1], [[0] * 3 + [1] * 3], [2], tau=3, relation=REPLACE)


# Sound queries.


def histogram(*names, **changes):
    """Makes a histogram of posts."""
    return lambda d: replace(q.Histogram.of(d.spec, "posts", names), **changes)


def scores(kind, prediction, **changes):
    """Makes scores of pairs of the columns of posts, each with the same prediction."""

    def query(d):
        names = tuple(d.spec.tables["posts"].attributes)
        pairs = [(i, j) for j in range(len(names)) for i in range(j)]
        whole = kind.of(d.spec, "posts", names, pairs, [np.array(prediction, float)] * len(pairs))
        return replace(whole, **changes)

    return query


def targets(*columns, cap=1):
    """Makes a histogram of the references of the first table that has some."""

    def query(d):
        ref = next(k for t in d.spec.tables.values() for k in t.keys if k.role == "ref")
        return q.TargetHistogram.of(d.spec, ref, columns, (), cap=cap)

    return query


def target_scores(d):
    """The score of the first attribute of a referring table and the whole target.

    No row is expected in its last cell.
    """
    table = d.spec.tables.get("tags") or d.spec.tables["posts"]
    pair = targets(next(iter(table.attributes)))(d)
    shares = q.PublicArray([SHARES] + [0] * (pair.shape[0] - 1))
    return q.TargetScores(pair.key, (pair,), (shares,), q.PublicArray([0]))


def fan_in(d):
    return q.FanIn(key(d))


def presence(own=False):
    """Makes a histogram of whether posts refer."""
    return lambda d: q.Histogram("posts", (q.Refers(key(d), own),))


def siblings(joined=False):
    """Makes a histogram of two posts of a user."""

    def query(d):
        axis = q.Column("a0", 3)
        pair = tuple(q.Sibling(key(d, name="own"), axis, place) for place in (0, 1))
        return q.Histogram("users", (q.Joined(pair),) if joined else pair)

    return query


def equal_columns(groups):
    """Makes a histogram of rows by whether two columns are equal."""

    def query(d):
        joined = q.Joined(q.Histogram.of(d.spec, "posts", ("a0", "a1")).axes)
        return q.Histogram("posts", (replace(joined, groups=q.PublicArray(groups)),))

    return query


def normed(d):
    return q.NormedHistogram("posts", q.Histogram.of(d.spec, "posts", ("a0",)).axes)


def sets(d):
    """Sets of two cells of the posts of each user."""
    return q.PresencePairs("posts", (q.Column("a0", 3),), 2)


def sets_of_films(d):
    """Sets of three cells of each film."""
    return q.PresencePairs("posts", (q.Column("a0", 4),), 3, "l2", key(d, name="film"))


def moments(*clips, source="posts"):
    """Makes a moment of the first keys into a table, one for each clip."""

    def query(d):
        every = (key for table in d.spec.tables.values() for key in table.keys)
        return q.CrossMoment(source, tuple(key for key in every if key.parent == source), clips)

    return query


def regions(d):
    """A histogram of the rows of each cell."""
    parts = (WithCodes("posts", "a0", (code,)) for code in (0, 1))
    return q.Joint(tuple(q.Histogram.of(d.spec, "posts", (), part) for part in parts))


def part_and_whole(d):
    """A histogram of all posts and one of a part of them."""
    whole = histogram("a0")(d)
    return q.Joint((whole, replace(whole, region=WithCodes("posts", "a0", (0,)))))


def listed(**given):
    """Makes counts of labels."""
    return lambda d: q.LabelCounts("posts", "l", **given)


def ranked(**given):
    return lambda d: q.RankedCounts("posts", "l", **given)


def votes(**given):
    """Makes votes for words."""
    return lambda d: q.WordVotes("posts", "w", votes=True, **given)


def words(norm="l2"):
    """Makes a histogram of units by the words that they have."""
    known, points = ("a", "b", "c"), q.PublicArray([97])
    return lambda d: q.WordPresence("posts", "w", 1, known, points, norm=norm)


def grid(d):
    return q.GridHistogram("posts", "g", q.PublicArray([0, 5, 9]))


# Claims are reached.

#: User 0, a hub, refers to sixteen users to whom nobody else does.
ONE_HUB = two_tables([0] * 16 + list(range(17, 65)), refs=list(range(1, 17)) + [0] * 48)
TRUNCATED = two_tables([0] * 40 + [1], [[0] * 40 + [1]], [2], bound="truncation", tau=5)
REACHED = {
    "a table above a prediction that both margins fall short of": (
        equal_rows(), scores(q.DependenceScores, [[0, 5], [5, 0]])),
    "a hub that refers to targets of its own": (ONE_HUB, fan_in),
    "two units of unlike cells that change places": (unlike_units(), histogram("a0")),
    "a heavy unit under truncation": (TRUNCATED, histogram("a0")),
    "a heavy unit in a total": (TRUNCATED, lambda d: q.Total("posts", clip=7)),
    "one histogram twice": (TRUNCATED, lambda d: q.Joint((histogram("a0")(d),) * 2)),
    **{f"full targets of cap {cap}": (full_targets(cap), targets("a0", cap=cap)) for cap in (1, 3)},
    **{
        f"{sources} rows of one target, {relation.unit} units": (
            apart(sources, relation), targets("c"))
        for sources in (1, 2, 5) for relation in (ADD, ROW)
    },
    **{
        f"a target of unexpected references, {relation.unit} units": (
            apart(1, relation), target_scores)
        for relation in (ADD, ROW)
    },
}  # fmt: skip


@pytest.mark.parametrize("case", REACHED)
def test_a_claim_holds_and_is_reached(case):
    database, sound = REACHED[case]
    units = [("users", 0)] if database is ONE_HUB else None
    report = check([sound(database)], database, units=units, every=units is None)
    assert report.ok
    assert report.worst_ratio > 0.9999


# Margins and predictions.


@mutants.of(off_the_diagonal, scores(q.PairScores, [[19, 1], [1, 0]]), "linf")
@mutants.of(off_the_diagonal, scores(q.DependenceScores, [[19, 1], [1, 0]]), "linf")
def exact_margins(query, data):
    """The prediction is made of the rows' own margins: the score goes from 4(n−1)/n to 0."""
    table = q.Histogram("posts", query.axes).evaluate(data) // GRID
    prediction = np.outer(table.sum(1), table.sum(0)) / max(int(table.sum()), 1)
    return np.array([round(float(np.abs(table - prediction).sum()) * GRID)], dtype=np.int64)


@mutants.of(
    lambda: equal_rows(3),
    scores(q.PairScores, np.zeros((2, 2)), among=q.PublicArray([0, 2])),
    "l1", "l2", method="sensitivity",
)  # fmt: skip
def claim_of_one_candidate_for_all(query, spec):
    claim = query.sensitivity(spec)
    return Sensitivity(claim.linf, float(claim.linf), claim.linf)


@mutants.of(equal_rows, scores(q.DependenceScores, [[0, 5], [5, 0]]), "l1", "l2", "linf")
class MarginsForFree(q.DependenceScores):
    """The claim of plain scores, as if the margins' distance could not move as well."""

    most = q.PairScores.most
    moved = q.PairScores.moved


# Bounds of contributions.


@mutants.of(
    lambda: two_tables([0] * 40 + [*range(1, 41)], [[*range(80)], [*range(80)]], [80, 80]),
    equal_columns(np.eye(80, dtype=int)),
    "l1", "linf",
)  # fmt: skip
def fifths_by_exact_ranks(query, data):
    """One unit of many rows moves the fifths of all others."""
    ranks = np.argsort(np.argsort(codes(data)))
    return counts(5 * ranks // max(len(ranks), 1) > 0, 2, data._units.weights("posts"))


@mutants.of(
    lambda: two_tables([0] * 9, [[1] * 9], [2], bound="truncation", tau=4),
    histogram("a0"), "l2", method="sensitivity",
)  # fmt: skip
def root_of_tau(query, spec):
    return replace(query.sensitivity(spec), l2=GRID * math.sqrt(spec.tables["posts"].tau))


@mutants.of(lambda: two_tables([0, 0, 1], [[0, 1, 0]], [2]), regions, "l1", "l2")
def weights_after_the_filter(query, data):
    """A unit's rows share its weight anew within every region (against P16)."""
    sums = []
    for part in query.parts:
        rows = np.flatnonzero(codes(data) == part.region.codes[0])
        identity = data._units.identity("posts")[rows]
        _, inverse, sizes = np.unique(identity, return_inverse=True, return_counts=True)
        sums.append(units.row_weights(sizes[inverse], 1).sum())
    return np.array(sums, np.int64)


@mutants.of(lambda: two_tables([0] * 9), lambda d: q.Total("posts", clip=5), "l1")
@mutants.of(against_unique, lambda d: q.Total("posts"), "l1", "l2", "linf")
def total_without_a_clip(query, data):
    """Also where the schema says that a unit has one row."""
    return np.array([data._rows("posts")])


@mutants.of(unlike_units, histogram("a0"), "l2", method="sensitivity")
def claim_of_one_unit_for_two_that_change_places(query, spec):
    claim = query.sensitivity(spec)
    return replace(claim, l2=claim.l2 / math.sqrt(2))


@mutants.of(
    lambda: two_tables([0, 1], [[0, 1]], [2]), part_and_whole, "l1", "l2", method="sensitivity"
)
@mutants.of(
    lambda: two_tables([0, 1], [[3, 0], [3, 0]], [4, 4]),
    lambda d: q.Joint((histogram("a0")(d), histogram("a1")(d))),
    "l1", "l2", method="sensitivity",
)  # fmt: skip
def claim_of_one_part_for_all(query, spec):
    """As if parts were over different rows."""
    return max((part.sensitivity(spec) for part in query.parts), key=lambda claim: claim.l1)


def test_only_the_number_of_units_is_public_under_replace():
    database = two_tables([0] * 5 + [1], relation=REPLACE)
    owned, roots = q.Total("posts"), q.Total("users")
    assert roots.sensitivity(database.spec) == Sensitivity(0, 0.0, 0)
    assert caught(roots, database) == caught(owned, database) == set()
    # A row whose owner is missing is a unit of its own, but not every row of its table is one.
    assert owned.sensitivity(database.spec).l1 == 100


@mutants.of(
    lambda: two_tables([0] * 5 + [1], relation=REPLACE), lambda d: q.Total("posts"),
    "l1", "l2", "linf", method="sensitivity",
)  # fmt: skip
def public_number_of_owned_rows(query, spec):
    return q.Total("users").sensitivity(spec)


# Siblings.

SIX_AND_TWO = [[0, 0, 1, 1, 2, 2, 0, 1]]


@mutants.of(lambda: two_tables([0] * 6 + [1, 1], SIX_AND_TWO, [3]), siblings(), "l1", "l2")
def siblings_after_the_filter(query, data):
    """Two siblings are drawn anew among the rows of every cell: a unit has a pair in each."""
    rows = np.bincount(edges(data, name="own") * 3 + codes(data), minlength=6).reshape(2, 3)
    return np.diag(np.append((rows > 1).sum(axis=0), 0)) * GRID


@mutants.of(
    lambda: two_tables([0] * 6 + [1, 1], SIX_AND_TWO, [3]), siblings(joined=True), "l1", "l2"
)
def every_two_neighbours_in_time(query, data):
    """Not one pair of an owner."""
    here = np.flatnonzero(np.diff(edges(data, name="own")) == 0)
    return counts(4 * codes(data)[here] + codes(data)[here + 1], 16)


@mutants.of(
    posts_of_two_links,
    lambda d: q.Histogram(
        "posts", tuple(q.Sibling(key(d, "links", "own"), q.Whole(), at) for at in (0, 1))
    ),
    "l1", "l2", "linf",
)  # fmt: skip
def owners_of_weight_one(query, data):
    """Owners that are owned themselves count whole, however many their unit has."""
    first, second = (axis.codes(data, "posts") for axis in query.axes)
    return counts(2 * first + second, 4).reshape(2, 2)


# Rules of rows.


@mutants.of(dated, lambda d: q.OrderTest("posts", (("a", "b"),)), "l1", "l2")
def rows_weighed_after_they_are_told_apart(query, data):
    _, sizes = data._units.members("posts")
    return np.where(query.evaluate(data) > 0, int((sizes > 0).sum()) * GRID, 0)


@mutants.of(off_the_diagonal, equal_columns(np.eye(2, dtype=int)), "l1", "l2", "linf")
def rule_of_exact_rows(query, data):
    """The combinations that keep the rule are those that twenty rows have, exactly counted."""
    table = q.Histogram("posts", query.axes[0].axes).evaluate(data)
    kept = int(table[table >= 20 * GRID].sum())
    return np.array([int(table.sum()) - kept, kept])


# Units by their norms.


@mutants.of(lambda: two_tables([0] * 9, [[1] * 9], [2]), normed, "l2", "linf")
def root_of_rows(query, data):
    """The root of a unit's rows for their norm: nine rows in one cell add three."""
    each = np.floor(GRID / np.sqrt(data._units.sizes("posts")))
    return counts(codes(data), query.shape[0], each)


@mutants.of(lambda: two_tables([0] * 4, [[0, 1, 2, 3]], [4]), normed, "l1", method="sensitivity")
def claim_of_weights_for_norms(query, spec):
    return replace(query.sensitivity(spec), l1=GRID)


@mutants.of(lambda: two_tables([0] * 9 + [1], [[0, 1, 2] * 3 + [3]], [4]), normed, "l2")
def norms_of_cells(query, data):
    """A unit's rows of each cell are divided by their own norm, as if cells were parts."""
    pair = np.stack([data._units.identity("posts"), codes(data)])
    return counts(np.unique(pair, axis=1)[1], query.shape[0])


# Sets.


def of_members(owners, cells):
    """Presences of two cells in owners of weight 1; negative owners and cells do not count."""
    members = np.zeros((owners.max(initial=0) + 1, 2), np.int64)
    known = (owners >= 0) & (cells >= 0) & (cells < 2)
    members[owners[known], cells[known]] = 1
    entries = np.maximum(members.sum(1) * (members.sum(1) + 1) // 2, 1)
    return (members.T @ (members * root_down(GRID**2 // entries)[:, None]))[np.triu_indices(2)]


@mutants.of(lambda: two_tables([0, 0, 1], [[0, 1, 0]], [3]), sets, "l2")
def pairs_normed_apart(query, data):
    """Single cells and pairs are divided by norms of their own, as if they were two events."""
    presences = query.evaluate(data)
    return np.where([True, False, True], presences * 1.5**0.5, presences * 3**0.5).astype(int)


@mutants.of(chain, sets, "l1", "l2", "linf")
def owners_that_are_no_roots_count_for_one(query, data):
    return of_members(edges(data, name="own"), codes(data))


@mutants.of(
    lambda: two_tables(np.repeat(range(1, 13), 2), [[0, 1] * 12], [3], refs=[0, 5] * 12),
    sets, "l1", "l2", "linf",
)  # fmt: skip
def pairs_through_bottom(query, data):
    """The cell is the target's: when it goes, ⊥ is dropped, and with it the pairs of all units."""
    return of_members(edges(data, name="own"), np.minimum(edges(data), 1))


@mutants.of(
    lambda: two_tables(
        [0] * 9 + [*range(1, 10)], [[0] * 9 + [1] * 9], [3], refs=[*range(1, 10)] * 2
    ),
    sets, "l1", "l2", "linf",
)  # fmt: skip
def sets_of_targets(query, data):
    """Rows that refer to one row count as its set: a unit of nine references changes nine sets."""
    return of_members(edges(data), codes(data))


@mutants.of(films, sets_of_films, "l2")
def pairs_of_public_owners_without_a_norm(query, data):
    """Public owners count for 1 in every entry: a row that goes takes as many as its owner has."""
    members = np.zeros((2, 3), np.int64)
    members[edges(data, name="film"), codes(data)] = 1
    return (members.T @ members)[np.triu_indices(3)] * GRID


# ⊥, ranks and references.


@mutants.of(hub, presence(), "l1")
def bottom_is_null(query, data):
    return counts(edges(data) >= 0, 2, data._units.weights("posts"))


@mutants.of(hub, presence(own=True), "l1")
def bottom_is_a_target_in_the_own_unit(query, data):
    gone = data._units.weights("posts")[edges(data) == BOTTOM].sum()
    return query.evaluate(data) + np.array([0, -gone, gone])


@mutants.of(
    lambda: two_tables(
        np.repeat(range(1, 15), 2), [[0, 1] * 14], [2], refs=[0, 5] * 14, bound="truncation"
    ),
    histogram("a0"), "l1", "linf",
)  # fmt: skip
def rank_by_the_hash_of_a_reference(query, data):
    """Two posts each, one refers to the hub: when it goes, the hash picks the other one."""
    identity = data._units.identity("posts")
    digest = (edges(data).astype(np.int64) + 3) * 2654435761 % 2**32 * 40503 % 2**32
    order = np.lexsort((digest, identity))
    _, first = np.unique(identity[order], return_index=True)
    return counts(codes(data)[order][first], 2)


@mutants.of(lambda: hub_with_others(60), fan_in, "l1", method="_edges")
def edges_dropped_before_the_cut(query, data):
    """NULL and ⊥ edges are dropped first, then sixteen are kept."""
    kept = first_of_valid(data, query.key)
    return np.bincount(edges(data)[kept], minlength=data._rows("users"))


@mutants.of(hubs_of_sixteen, fan_in, "l1", method="sensitivity")
def closed_form_of_a_fan_in(query, spec):
    """1 + 16·log₂(17/16), which forgets that an edge moves two buckets."""
    return replace(query.sensitivity(spec), l1=math.ceil(GRID * (1 + 16 * math.log2(17 / 16))))


@mutants.of(against_unique, fan_in, "l1", "l2", method="_edges")
def every_edge_of_a_unit_of_one_row_by_the_schema(query, data):
    return units.tally(edges(data), data._rows("users"))


TAGS = KeySpec("ref", "tags", "users", "ref", nullable=True)


@mutants.of(
    lambda: of_tables(tags=(4, {}, {TAGS: [0, 0, 1, -1]}), users=(2, {})),
    lambda d: q.FanIn(TAGS), "roots", method="roots",
)  # fmt: skip
def reference_charged_to_its_source_alone(query, spec):
    return spec.roots("tags")


def rows_of_sixteen(data):
    """Whether an element is in one of the first sixteen rows of its unit."""
    return data._units.ranks("rows")[edges(data, "elements", "row")] < 16


ELEMENTS = arrays().spec.tables["elements"].key("key")


@mutants.of(arrays, lambda d: q.FanIn(ELEMENTS), "l1", "l2", "linf", method="_edges")
def sixteen_rows_for_sixteen_elements(query, data):
    kept = edges(data, "elements", "key")[rows_of_sixteen(data)]
    return np.bincount(kept[kept >= 0], minlength=data._rows("targets"))


@mutants.of(arrays, lambda d: q.TargetHistogram.of(d.spec, ELEMENTS, (), ()), "l1", "l2", "linf")
def elements_of_the_weight_of_their_row(query, data):
    """So that arrays count by their lengths."""
    chosen = rows_of_sixteen(data) & (edges(data, "elements", "key") >= 0)
    return np.array([[int(chosen.sum()) * (GRID // 16)]])


def test_elements_stand_in_a_row():
    """So none is the root of a unit, and a unit is what it is without arrays."""
    database = arrays()
    assert database.spec.roots("elements") == {"people", "rows"}
    owners = UnitDefinition.of(database.spec).owners
    assert [name for name, _ in owners] == ["people", "rows", "targets"]
    parents = database._tables["elements"]._parents
    for missing in (NONE, BOTTOM):
        outside = PrivateTable(136, {}, {**parents, "row": np.full(136, missing)})
        with pytest.raises(SchemaError, match="stands in no row"):
            PrivateDatabase(database.spec, {**database._tables, "elements": outside})


# Attributes of targets.


@mutants.of(lambda: apart(1), target_scores, "linf", method="sensitivity")
def claim_of_a_released_margin(query, spec):
    """The claim of a score against a prediction, though the targets' margin is exact."""
    claim = query.sensitivity(spec)
    return replace(claim, l1=claim.l1 // 2, l2=claim.l2 / 2, linf=claim.linf // 2)


@mutants.of(hub, target_scores, "linf")
def scores_without_a_cap(query, data):
    """A hub counts every edge into it."""
    pairs = tuple(replace(pair, cap=64) for pair in query.pairs)
    return replace(query, pairs=pairs).evaluate(data)


@mutants.of(hub, targets(), "l1", "linf")
def targets_without_a_cap(query, data):
    return replace(query, cap=64).evaluate(data)


@mutants.of(posts_that_refer_to_posts, targets(), "l1")
def cap_of_each_target_row(query, data):
    """Not of each target unit."""
    kept, weights = query._kept(data)
    sums = np.bincount(edges(data)[kept], weights, minlength=data._rows("posts"))
    return np.array([[int(np.minimum(sums, GRID).sum())]], dtype=np.int64)


@mutants.of(full_targets, targets("a0"), "l1", method="sensitivity")
def scaling_taken_for_a_contraction(query, spec):
    """κ + 1."""
    return replace(query.sensitivity(spec), l1=(query.cap + 1) * GRID)


@mutants.of(lambda: hub_with_others(39, 2, 1), targets(), "l1", method="_kept")
def weights_of_valid_edges(query, data):
    """A unit's weight is shared among the rows whose edge is valid: it moves with the hubs."""
    rows, _ = query._kept(data)
    identity = data._units.identity("posts")[rows]
    _, inverse, sizes = np.unique(identity, return_inverse=True, return_counts=True)
    return rows, units.row_weights(sizes[inverse], 1)


@mutants.of(lambda: hub_with_others(30), targets(), "l1", method="_kept")
def targets_dropped_before_the_cut(query, data):
    kept = first_of_valid(data, query.key)
    return kept, np.full(kept.size, GRID // 16)


# Cross moments of degrees.


def products(query, data):
    """The product of the degrees of each row, without a clip."""
    rows = data._rows(query.source)
    degrees = (np.bincount(e[e >= 0], minlength=rows) for e in map(data._parents, query.keys))
    return math.prod(degrees)


@mutants.of(threads, moments(2, 2), "l1", "l2")
def moment_without_clips(query, data):
    weights = data._units.weights(query.source).astype(np.int64)
    return np.array([int((weights * products(query, data) // query._product).sum())])


@mutants.of(threads, moments(2, 2), "l1", "l2")
def moment_clipped_after_the_sum(query, data):
    most = 2 * query._product * data._rows(query.source)
    return np.array([GRID * min(int(products(query, data).sum()), most) // query._product])


@mutants.of(threads, moments(5, 4), "l1", "l2")
def moment_without_weights(query, data):
    """Every row of a deeper parent counts 1, however many its unit has."""
    clipped = np.minimum(products(query, data), query._product)
    return np.array([GRID * int(clipped.sum()) // query._product])


@mutants.of(both_ends_of_many, moments(5, 5, source="places"), "l1", "l2", method="_moved")
def claim_of_one_key_for_rows_with_both(query, spec, root):
    return query._moved(spec, root) // (1 if root == "places" else 2)


@mutants.of(both_ends, moments(5, 5, source="places"), "roots", method="roots")
def references_charged_to_the_parents_alone(query, spec):
    return spec.roots("places")


@mutants.of(both_ends, moments(5, 5, source="places"), "l1", "l2")
def edges_of_duplicate_parents(query, data):
    """An edge counts in every parent row that has its key: here all places have the same one."""
    each = math.prod(min(int((data._parents(key) >= 0).sum()), 5) for key in query.keys)
    weight = int(data._units.weights("places").sum())
    return np.array([weight * each // query._product])


# One row a unit, believed from the schema.


@mutants.of(against_unique, listed(), "l1", "l2", "linf", method="_counts")
@mutants.of(against_unique, ranked(), "l1", "l2", "linf", method="_counts")
def every_row_counts_for_its_label(query, data, cells_of, size, norm, most):
    return counts(cells_of(np.arange(data._rows("posts"))), size)


@mutants.of(against_unique, histogram("a0"), "l1", "l2", "linf")
def every_row_weighs_one(query, data):
    return counts(codes(data), 2)


# Lists of labels.

EACH = {"public": ("x", "y", "z")}


@mutants.of(shared_labels, listed(most=2), "l0", method="evaluate_labels")
def all_labels_of_a_unit(query, data):
    return replace(query, most=64).evaluate_labels(data)


@mutants.of(
    lambda: two_tables([0] * 4, l=Labels(np.zeros(4, np.int64), ["x"])),
    listed(), "linf", "l2", method="evaluate_labels",
)  # fmt: skip
def labels_of_rows(query, data):
    """Rows at full weight, not units: one unit lifts a value of its own above 1."""
    others = data._rows("posts") - 1
    return np.zeros(1, np.int64), {"x": GRID * others} if others > 0 else {}


@mutants.of(shared_labels, listed(votes=True), "l2", method="evaluate_labels")
def votes_normalised_one_by_one(query, data):
    """So that each weighs 1."""
    voters = len(np.unique(data._units.identity("posts")))
    names = "xyz" if voters > 1 else ""
    return np.zeros(1, np.int64), dict.fromkeys(names, GRID * (voters - 1))


@mutants.of(shared_labels, listed(public=("z", "no such")), "shape", method="evaluate_labels")
def candidates_that_a_row_has(query, data):
    """Public candidates are cells only where they are present."""
    cells, labels = query.evaluate_labels(data)
    return cells[np.append(True, cells[1:] > 0)], labels


@mutants.of(shared_labels, listed(**EACH), "l2", method="evaluate_labels")
def candidates_drawn_twice(query, data):
    """A candidate that rows hold is a public cell and a label of the threshold too."""
    return query.evaluate_labels(data)[0], listed()(data).evaluate_labels(data)[1]


@mutants.of(shared_labels, listed(public=("any",)), "l2", "linf", method="evaluate_labels")
def cells_merged_after_the_norm(query, data):
    values = listed(**EACH)(data).evaluate_labels(data)[0]
    return np.array([values[0], values[1:].sum()]), {}


@mutants.of(shared_labels, listed(norm="l1", votes=True, **EACH), "l1", method="evaluate_labels")
def roots_under_noise_for_sums(query, data):
    """A unit's k votes weigh 1/√k under noise that is scaled to their sum."""
    return replace(query, norm="l2").evaluate_labels(data)


@mutants.of(shared_labels, ranked(votes=True), "l1", "l2")
def blocks_of_votes_of_norm_l2(query, data):
    """A unit's rare values fall into one block."""
    cells = listed(votes=True, **EACH)(data).evaluate_labels(data)[0]
    falling = np.sort(cells[1:])[::-1]
    return np.append([0, falling[0], falling[1:].sum()], np.zeros(BLOCKS - 2, np.int64))


@mutants.of(labelled, ranked(), "l1")
def ranks_in_the_order_of_rows(query, data):
    """A value's place moves when a unit goes."""
    values = data._raw("posts", "l")._codes
    _, first, rows = np.unique(values, return_index=True, return_counts=True)
    return np.append(0, np.resize(GRID * rows[np.argsort(first)], BLOCKS))


# Words of texts.


@mutants.of(shared_words, votes(most=2), "l0", "l2", method="evaluate_labels")
def votes_for_every_word(query, data):
    cells, words = replace(query, most=64).evaluate_labels(data)
    return cells, {word: count * 2 for word, count in words.items()}


@mutants.of(shared_words, votes(), "l2", "linf", method="evaluate_labels")
def votes_of_rows(query, data):
    cells, _ = query.evaluate_labels(data)
    return cells, {"a": GRID * max(data._rows("posts") - 1, 0)}


@mutants.of(shared_words, words(), "l2", method="_tally")
def words_without_a_norm(query, cells, pair, *_):
    np.add.at(cells, np.unique(pair) % cells.size, GRID)


@mutants.of(shared_words, words("l1"), "l1")
def words_of_norm_l2_under_noise_for_sums(query, data):
    return replace(query, norm="l2").evaluate(data)


def test_a_word_that_one_unit_alone_holds_is_never_listed():
    """However many of its rows do, whatever else they hold: no noise could bring it up."""
    mine = [f"secret w{row}" for row in range(10_000)]
    database = two_tables([0] * 10_000 + [1, 2], w=texts(*mine, "ours", "ours"))
    for norm in ("l2", "l1"):
        query = votes(norm=norm)(database)
        assert query.evaluate_labels(database)[1] == {"ours": GRID}
        assert caught(query, database) == set()


# Points of a grid.


@mutants.of(labelled, grid, "l1", "linf")
def grid_without_weights(query, data):
    values = data._raw("posts", "g")._values
    return counts(np.searchsorted(query.points.values, values, side="right"), query.shape[0])


@mutants.of(lambda: labelled([1, 1, NULL, 9]), grid, "l1")
def nulls_in_the_lowest_cell(query, data):
    """At full weight, on top of their unit's other rows."""
    cells = query.evaluate(data)
    cells[0] += GRID * np.count_nonzero(data._raw("posts", "g")._values == NULL)
    return cells


# What a fan-out counts.


class RowsThatRefer(q.UnitRows):
    """The number of rows that refer to the row: other units' doing."""

    def read(self, data, table):
        of_row = edges(data)
        degrees = np.bincount(of_row[of_row >= 0], minlength=data._rows(table))
        return np.minimum(degrees, self.size - 1).astype(np.uint16), None


@mutants.of(
    lambda: two_tables([0] * 20, refs=range(1, 21), users=21),
    lambda d: q.Histogram("users", (q.UnitRows("posts", (0, 1, 2)),)),
    "l1", "l2", "linf",
)  # fmt: skip
def rows_that_refer_for_rows_of_the_unit(query, data):
    return q.Histogram("users", (RowsThatRefer("posts", (0, 1, 2)),)).evaluate(data)


@mutants.of(
    hubs_of_sixteen,
    lambda d: q.Histogram("users", (q.Children(key(d, name="own")),)),
    "l1",
)
def fan_out_of_a_reference(query, data):
    """Along a REF key, one unit moves all its targets."""
    forced = q.Children(replace(key(data), role="own"))
    return q.Histogram("users", (forced,)).evaluate(data)


@pytest.mark.parametrize("mutant", mutants, ids=str)
def test_mutants_are_caught(mutant):
    mutant.must_be_caught()


# Steps that queries share.


def nearest(sizes, tau):
    """Weights rounded to the nearest step of the grid, not down."""
    return np.rint(GRID * np.minimum(sizes, tau) / (tau * sizes)).astype(np.int64)


def root_down_to_eight_bits(squares):
    """Roots rounded down: three weights of 1/√3 pass 1 then."""
    return np.floor(np.sqrt(squares.astype(float)) * 2**8).astype(np.int64) << 8


def uncoupled(spec, tables, ranks=None):
    """A neighbour whose rows have other ranks."""
    return PrivateDatabase(spec, tables)


#: The step that is changed, on which database and query that shows, and how.
STEPS = {
    "weights are rounded to the nearest": (
        units, "row_weights", nearest,
        lambda: two_tables([0] * 6, [[0] * 6], [2]), histogram("a0"), {"l1", "linf"}),
    "an edge to a target that went is NULL": (
        stability, "BOTTOM", NONE, hub, presence(), {"l1"}),
    "ranks of a neighbour are drawn anew": (
        stability, "PrivateDatabase", uncoupled,
        lambda: two_tables(np.repeat(range(40), 2), [[0, 1] * 40], [2], bound="truncation"),
        histogram("a0"), {"l1"}),
    "more rows of a unit count than norms are exact for": (
        labels, "ROWS", 2**40,
        lambda: two_tables(
            [0] * 2**16 + [1] * 300, l=Labels(np.repeat([0, 1], [2**16, 300]), ["mine", "ours"])),
        listed(), {"l1", "l2", "linf"}),
    "roots are rounded down": (
        labels, "_root_up", root_down_to_eight_bits, shared_labels, listed(**EACH), {"l2"}),
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_wrong_steps_of_sound_queries_are_caught(step, monkeypatch):
    module, name, wrong, database, sound, reasons = STEPS[step]
    assert caught(sound(database()), database()) == set()
    monkeypatch.setattr(module, name, wrong)
    assert reasons <= caught(sound(database()), database())


class WeighsParts:
    """Weights are taken within each part of so many rows, not over all rows of a unit."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, data, asked):
        identity = data._units.identity(asked.table).astype(np.int64)
        part = identity * identity.size + np.arange(identity.size) // self.rows
        _, place, sizes = np.unique(part, return_inverse=True, return_counts=True)
        reads = [axis.read(data, asked.table) for axis in asked.axes]
        weights = GRID // sizes[place], None
        view = View(reads, [axis.size for axis in asked.axes], weights)
        return view.count(asked.sets)


@pytest.mark.parametrize("rows", [1, 4])
def test_counters_that_weigh_rows_by_their_part_are_caught(rows):
    database = two_tables([0] * 30 + [1, 2, 3], [[0, 1] * 16 + [1]], [2])
    query = histogram("a0")(database)
    database.counter = local
    assert caught(query, database) == set()
    database.counter = WeighsParts(rows)
    assert caught(query, database) == {"l1", "l2", "linf"}
