"""Small private databases of every shape, and every query that fits them."""

from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from privbench.domain import Domain
from privbench.learning.graphical.columns import children
from privbench.privacy import queries as q
from privbench.privacy.data import (
    Cells,
    Grid,
    Labels,
    PrivateDatabase,
    PrivateTable,
    Words,
)
from privbench.privacy.queries.references import SHARES
from privbench.privacy.recoding import (
    NAN,
    NEG_INF,
    NULL,
    POS_INF,
    EdgesRecoding,
    LabelsRecoding,
)
from privbench.privacy.spec import DatabaseSpec, KeySpec, Relation, TableSpec
from privbench.privacy.units import BOTTOM, NONE

ADD = Relation()
REPLACE = Relation(neighbours="replace")
ROW = Relation(unit="row")
ROW_REPLACE = Relation(neighbours="replace", unit="row")

SIZES = (3, 2, 4)
LABELS = [f"word{k}" for k in range(6)]
EDGES = EdgesRecoding((-3, 0, 4, 9), ("below", "nan"), nullable=True, since="h")
NAMES = LabelsRecoding(("word1", "word4"), nullable=True)
PUBLIC_ROWS = 4
BINS = q.PublicArray([0, 0, 1, 1])


@dataclass(frozen=True)
class WithCodes(q.RowSubset):
    """The rows in which an attribute has one of some codes."""

    table: str
    attribute: str
    codes: tuple[int, ...]

    def rows(self, data):
        codes, _ = data._codes(self.table, self.attribute)
        return np.flatnonzero(np.isin(codes, self.codes))

    @staticmethod
    def overlap(amounts):
        """A row has one code of each attribute: per attribute the code in most subsets counts."""
        whole, by_code = 0.0, dict[str, dict[int, float]]()
        for subset, amount in amounts:
            if not isinstance(subset, WithCodes):
                whole += amount
                continue
            sums = by_code.setdefault(subset.attribute, {})
            for code in subset.codes:
                sums[code] = sums.get(code, 0.0) + amount
        return whole + sum(max(sums.values()) for sums in by_code.values())


@st.composite
def specs(draw, relation=ADD):
    """One to five tables: chains, siblings, references anywhere, self-references and cycles.

    OWN keys may promise that each row has an owner, and that each owner has one row. Some tables
    are the elements of arrays in another's rows, under ``unit = "row"`` too.
    """
    names = [f"t{place}" for place in range(draw(st.integers(1, 5)))]
    tables = {}
    for k, name in enumerate(names):
        keys = []
        parent = draw(st.sampled_from([None, *names[:k]])) if k else None
        elements = parent is not None and draw(st.integers(0, 2)) == 0
        if parent is not None and elements:
            keys.append(KeySpec("own", name, parent, "own"))
        elif parent is not None and relation.unit == "owner":
            nullable, unique = draw(st.booleans()), draw(st.booleans())
            keys.append(KeySpec("own", name, parent, "own", nullable, unique))
        for r in range(draw(st.integers(0, 2))):
            target = draw(st.sampled_from(names))
            keys.append(KeySpec(f"ref{r}", name, target, "ref", nullable=True))
        if draw(st.booleans()):
            keys.append(KeySpec("pub", name, "public", "public", nullable=True))
        bound = draw(st.sampled_from(["weights", "truncation"]))
        tau = draw(st.integers(1, 3))
        tables[name] = TableSpec(name, {}, tuple(keys), bound, tau, elements=elements)
    return DatabaseSpec(tables, relation)


def fill(spec, most, seed):
    """Random rows: skewed owners, hubs, NULL and ⊥ edges, every kind of attribute.

    They keep no promise of their keys: claims hold for all rows, lawful or not.
    """
    rng = np.random.default_rng(seed)
    rows = {name: int(rng.integers(0, most + 1)) for name in spec.tables}
    for name in spec.order():
        own = spec.tables[name].own
        if spec.tables[name].elements and own is not None and not rows[own.parent]:
            rows[name] = 0
    tables = {}
    for name, table in spec.tables.items():
        columns, parents = attributes(rng, rows[name]), {}
        for key in table.keys:
            parents[key.name] = edges(rng, key, rows[name], rows)
            if key.role == "own" and table.elements and rows[name]:
                parents[key.name] = np.abs(parents[key.name]) % rows[key.parent]
        tables[name] = PrivateTable(rows[name], columns, parents)
    return PrivateDatabase(spec, tables)


def edges(rng, key, rows, sizes):
    targets = PUBLIC_ROWS if key.role == "public" else sizes[key.parent]
    skewed = np.floor(targets * rng.random(rows) ** 3).astype(np.int64)
    missing = rng.choice([0, NONE, BOTTOM], rows, p=[0.7, 0.2, 0.1])
    return np.where((missing < 0) | (targets == 0), np.minimum(missing, NONE), skewed)


def attributes(rng, rows):
    columns = {}
    for k, size in enumerate(SIZES):
        codes = np.floor(size * rng.random(rows) ** 2).astype(np.uint8)
        columns[f"c{k}"] = Cells(codes, Domain(size - (k == 2), nullable=k == 2))
    special = np.array([NULL, NAN, NEG_INF, POS_INF])
    grid = rng.integers(-9, 20, rows)
    odd = rng.random(rows) < 0.3
    points = np.where(odd, special[rng.integers(0, 4, rows)], grid)
    labels = Labels(rng.integers(-1, len(LABELS), rows).astype(np.int32), LABELS)
    texts = words(rng.integers(-1, 9, rng.integers(0, 5 * rows + 1)), rows, rng)
    return {**columns, "g": Grid(points), "h": Grid(np.roll(points, 1)), "l": labels, "w": texts}


def words(codes, rows, rng):
    """Texts of these words, from none to many a row; some of those without any are NULL."""
    ends = np.sort(rng.integers(0, len(codes) + 1, rows))
    ends[-1:] = len(codes)
    codes = codes[: len(codes) if rows else 0]
    empty = np.diff(ends, prepend=0) == 0
    firsts = np.where(empty & (rng.random(rows) < 0.5), -1, rng.integers(97, 103, rows))
    labels = Labels(codes, [f"piece{k}" for k in range(9)])
    return Words(labels, ends.astype(np.int64), firsts.astype(np.int32))


def texts(*rows):
    """The words of texts."""
    split = [row.split() for row in rows]
    known = sorted({word for row in split for word in row})
    codes = np.array([known.index(word) for row in split for word in row], np.int64)
    ends = np.cumsum([len(row) for row in split]).astype(np.int64)
    return Words(Labels(codes, known), ends, np.array([ord(row[0]) for row in rows], np.int32))


def recodings(spec):
    return [(name, *recoding) for name in spec.tables for recoding in (("g", EDGES), ("l", NAMES))]


def settled(database):
    recoded = database.copy()
    for recoding in recodings(database.spec):
        recoded.recode(*recoding)
    return recoded


def queries(spec, seed=0):
    """Every kind of query, on every table and key of a settled spec."""
    rng = np.random.default_rng(seed)
    return [query for name in spec.tables for query in _of_table(spec, name, rng)]


C0, C1, C2 = (q.Column(f"c{place}", size) for place, size in enumerate(SIZES))
GRID = q.PublicArray([-5, 0, 1, 7, 30])
OTHER = {"whole": "l", "without": ("word1", "no such")}


def _of_table(spec, name, rng):
    def histogram(*axes, of=name, region=None):
        return q.Histogram.of(spec, of, axes, region)

    yield from (q.Total(name), q.Total(name, clip=2))
    yield from (histogram(), histogram("c0", "c1", ("c2", BINS)), histogram("g", "l"))
    yield from _of_units(spec, name, rng, histogram)
    for clip in (None, 1, 2):
        yield q.GridHistogram(name, "g", GRID, clip)
    yield q.GridHistogram(name, "g", q.PublicArray([3]))
    yield q.OrderTest(name, (("g", "h"),))
    yield q.OrderTest(name, (("g", "h"), ("h", "g")))
    yield q.OrderTest(name, (("g", "h"),), 2)
    yield _grouped(name, histogram("c0", "g").axes, lambda cells: cells % 2)
    for key in spec.tables[name].keys:
        yield _grouped(name, (C0, q.Refers(key)), lambda cells: cells % 3 == 1)
    for axes in (histogram("c0").axes, histogram("c1", ("c2", BINS)).axes):
        yield q.NormedHistogram(name, axes)
    yield q.LabelCounts(name, "l", votes=True)
    yield q.LabelCounts(name, "l", norm="l1", most=3, votes=True)
    yield q.LabelCounts(name, "l", 2, public=("b", "no such", ""), most=3)
    yield q.LabelCounts(name, "g", 3, "l1", ("1", "2"), 2)
    yield q.WordVotes(name, "w", most=2, votes=True, known=("piece0",), **OTHER)
    yield q.WordVotes(name, "w", norm="l1", most=3, votes=True)
    yield q.WordVotes(name, "w", most=64, votes=True)  # of paths of documents
    some, points = ("piece0", "no such", "piece3"), q.PublicArray([97, 98, 101])
    yield q.WordPresence(name, "w", 1, some, points, **OTHER)
    yield q.WordPresence(name, "w", 2, some, points, norm="l1")
    yield from (q.RankedCounts(name, "l", votes=True), q.RankedCounts(name, "g", 4))
    yield from _scores(spec, name, rng)
    low, high, odd = (WithCodes(name, "c2", codes) for codes in ((0, 1), (2, 3), (1, 3)))
    yield histogram("c1", region=odd)
    yield q.Joint(tuple(histogram("c1", "c2", region=part) for part in (low, high)))
    parts = (low, high, odd, WithCodes(name, "c0", (0,)), None)
    yield q.Joint(tuple(histogram("c1", region=part) for part in parts))
    for kind in (q.PairScores, q.DependenceScores):
        yield q.Joint(tuple(subset_scores(kind, spec, name, rng, part) for part in parts))
    for key in spec.tables[name].keys:
        yield from _of_key(spec, key, histogram)


def _grouped(name, axes, groups):
    """A histogram of joined axes, whose cells are grouped."""
    joined = q.Joined(axes)
    cells = np.arange(joined.size).reshape([axis.size for axis in axes])
    groups = q.PublicArray(groups(cells).astype(np.int64))
    return q.Histogram(name, (replace(joined, groups=groups),))


def _scores(spec, name, rng):
    axes, pairs = ("c0", "c1", "c2"), [(0, 1), (0, 2), (1, 2)]
    predictions = [rng.random((SIZES[i], SIZES[j])) * 4 for i, j in pairs]
    for kind in (q.PairScores, q.DependenceScores):
        whole = kind.of(spec, name, axes, pairs, predictions, penalties=[0.1, 0.2, 0.3])
        yield whole
        yield replace(whole, among=q.PublicArray([2, 0]))


def subset_scores(kind, spec, name, rng, region):
    axes = ("c0", "c1", "c2") if rng.random() < 0.5 else ("c1", "c2")
    sizes = [spec.tables[name].attributes[axis].size for axis in axes]
    pairs = list(combinations(range(len(axes)), 2))
    predictions = [rng.random((sizes[i], sizes[j])) for i, j in pairs]
    return kind.of(spec, name, axes, pairs, predictions, region)


def _of_units(spec, name, rng, histogram):
    """Context that units give: sizes, fan-outs together, a region of rows, and degrees."""
    other = list(spec.tables)[rng.integers(len(spec.tables))]
    rows = q.UnitRows(name, (0, 1, 2))
    yield histogram("c1", rows, q.UnitRows(other, (0, 1, 3)))
    own = children(spec, name)
    group = q.Joined((C1, rows), q.PublicArray([[0, 1, 1], [0, 2, 2]]))
    inner = WithCodes(name, "c0", tuple(np.flatnonzero(rng.integers(0, 2, 3)).tolist()))
    for key in own:
        yield histogram("c0", q.Owner(key, group), of=key.table)
        yield histogram("c2", q.Children(key, (0, 1, 2)), region=inner)
    if len(own) > 1:
        yield histogram(*(q.Children(key, (0, 1, 2, 5)) for key in own))
    every = (key for table in spec.tables.values() for key in table.keys)
    keys = [key for key in every if key.parent == name and key.role != "public"]
    if keys:
        first, last = keys[0], keys[-1]
        for clip in (1, 2):
            yield q.CrossMoment(name, tuple(keys[:2]), (clip,) * len(keys[:2]))
        for key in keys[-2:]:
            yield q.CrossMoment(name, (key, key), (3, 3))
        for clips in ((40, 1), (5, 3)):
            yield q.CrossMoment(name, (first, last), clips)
        yield q.CrossMoment(name, (last,), (2,))


def _of_targets(spec, key):
    """Attributes of both ends of a reference: columns, fan-outs, owners' columns."""

    def targets(near, far, **given):
        return q.TargetHistogram.of(spec, key, near, far, **given)

    yield from (targets((), ()), targets(("c0",), ("c1",), cap=2))
    pair = targets(("c0",), ("c1",), cap=2)
    even = q.PublicArray([SHARES // SIZES[0]] * SIZES[0])
    one = q.PublicArray([SHARES] + [0] * (SIZES[0] - 1))
    yield q.TargetScores(key, (pair, pair), (even, one), q.PublicArray([0, 5]))
    source, target = spec.tables[key.table].own, spec.tables[key.parent].own
    near = "c1" if source is None else q.Owner(source, C1)
    far = [q.Children(child, (0, 1, 3)) for child in children(spec, key.parent)]
    far += [] if target is None else [q.Owner(target, C0)]
    yield targets((near, q.Refers(key)), far, outside=True)
    score = reduce(np.add.outer, [np.arange(part.size) for part in (C0, *far)])
    whole = q.Joined((C0, *far), q.PublicArray(np.maximum(score - 1, 0)))
    yield targets((), [whole], cap=4, outside=True)
    yield q.FanIn(key, buckets=3)


def _of_key(spec, key, histogram):
    if key.role == "public":
        yield histogram(q.PublicTarget(key, PUBLIC_ROWS))
        if spec.tables[key.table].own is None:
            yield q.PresencePairs(key.table, (C2,), 3, "l2", key)
            yield q.PresencePairs(key.table, (C0,), 2, "l1", key)
        return
    yield from (histogram(q.Refers(key)), histogram(q.Refers(key, own=True)))
    if key.role == "ref":
        yield from (q.FanIn(key), q.FanIn(key, buckets=1), q.FanIn(key, outside=True))
        yield from _of_targets(spec, key)
        return
    yield histogram("c0", q.Children(key, (0, 1, 2, 4)), of=key.parent)
    after = q.PublicArray([[2, 1, 1, 2], [0, 2, 1, 2], [0, 0, 2, 2]])
    yield histogram(q.Joined((C0, q.Owner(key, C0)), after))
    pair, dates = (tuple(q.Sibling(key, axis, at) for at in (0, 1)) for axis in (C0, C1))
    same = q.PublicArray(np.eye(SIZES[0] + 1, dtype=np.int64))
    yield histogram(*pair, of=key.parent)
    yield histogram("c1", q.Joined(pair, same), of=key.parent)
    falls = np.indices((SIZES[1] + 1,) * 2 + (SIZES[0] + 1,) * 2)
    falls = (falls[0] < falls[1]) == (falls[2] > falls[3])
    order = q.Joined((*dates, *pair), q.PublicArray(falls.astype(np.int64)))
    yield histogram(order, of=key.parent)
    yield q.PresencePairs(key.table, (C2,), 3)
    yield q.PresencePairs(key.table, (C0,), 2, "l1")
    yield histogram("c1", q.Owner(key, q.Children(key, (0, 1, 3))))
    above = spec.tables[key.parent].own
    if above is not None:
        yield histogram(q.Owner(key, q.Owner(above, q.Children(above))), q.Refers(key))


def renumbered(database, seed):
    """The same rows in another physical order, edges following."""
    rng = np.random.default_rng(seed)
    order = {name: rng.permutation(database._rows(name)) for name in database.spec.tables}
    tables = {}
    for name, at in order.items():
        table, parents = database._tables[name], {}
        for key in database.spec.tables[name].keys:
            edges = table._parents[key.name][at]
            if key.role != "public" and order[key.parent].size:
                place = np.argsort(order[key.parent])
                edges = np.where(edges >= 0, place[np.maximum(edges, 0)], edges)
            parents[key.name] = edges
        columns = {column: item._restrict(at) for column, item in table._attributes.items()}
        tables[name] = PrivateTable(at.size, columns, parents)
    ranks = {name: database._units.ranks(name)[at] for name, at in order.items()}
    return PrivateDatabase(database.spec, tables, ranks)


def with_relation(spec, relation):
    return replace(spec, relation=relation)
