"""Small private databases of every shape, and every query that fits them."""

from dataclasses import replace
from functools import reduce

import numpy as np
from hypothesis import strategies as st
from subsets import WithCodes

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


def table_names(count):
    return [f"t{k}" for k in range(count)]


@st.composite
def specs(draw, relation=ADD):
    """One to five tables: chains, siblings, references anywhere, self-references and cycles.

    OWN keys may promise that each row has an owner, and that each owner has one row. Some tables
    are the elements of arrays in another's rows, under ``unit = "row"`` too.
    """
    count = draw(st.integers(1, 5))
    names = table_names(count)
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
    tables = {
        name: PrivateTable(
            rows[name],
            attributes(rng, rows[name]),
            {
                key.name: np.abs(found) if key.role == "own" and table.elements else found
                for key in table.keys
                for found in [edges(rng, key, rows[name], rows)]
            },
        )
        for name, table in spec.tables.items()
    }
    for name, table in spec.tables.items():
        if table.elements and table.own is not None and rows[name]:
            held = tables[name]._parents
            held[table.own.name] = held[table.own.name] % rows[table.own.parent]
    return PrivateDatabase(spec, tables)


def edges(rng, key, rows, sizes):
    targets = PUBLIC_ROWS if key.role == "public" else sizes[key.parent]
    skewed = np.floor(targets * rng.random(rows) ** 3).astype(np.int64)
    missing = rng.choice([0, NONE, BOTTOM], rows, p=[0.7, 0.2, 0.1])
    return np.where((missing < 0) | (targets == 0), np.minimum(missing, NONE), skewed)


def attributes(rng, rows):
    found = {}
    for k, size in enumerate(SIZES):
        codes = np.floor(size * rng.random(rows) ** 2).astype(np.uint8)
        found[f"c{k}"] = Cells(codes, Domain(size - (k == 2), nullable=k == 2))
    special = np.array([NULL, NAN, NEG_INF, POS_INF])
    grid = rng.integers(-9, 20, rows)
    odd = rng.random(rows) < 0.3
    found["g"] = Grid(np.where(odd, special[rng.integers(0, 4, rows)], grid))
    found["h"] = Grid(np.roll(found["g"]._values, 1))
    found["l"] = Labels(rng.integers(-1, len(LABELS), rows).astype(np.int32), LABELS)
    found["w"] = words(rng.integers(-1, 9, rng.integers(0, 5 * rows + 1)), rows, rng)
    return found


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
    found = []
    for name in spec.tables:
        found += [(name, "g", EDGES), (name, "l", NAMES)]
    return found


def settled(database):
    recoded = database.copy()
    for table, attribute, recoding in recodings(database.spec):
        recoded.recode(table, attribute, recoding)
    return recoded


def queries(spec, seed=0):
    """Every kind of query, on every table and key of a settled spec."""
    rng = np.random.default_rng(seed)
    return [query for name in spec.tables for query in _of_table(spec, name, rng)]


def _of_table(spec, name, rng):
    yield from (q.Total(name), q.Total(name, clip=2))
    yield q.Histogram.of(spec, name, ())
    yield q.Histogram.of(spec, name, ("c0", "c1", ("c2", BINS)))
    yield q.Histogram.of(spec, name, ("g", "l"))
    yield from _of_parent(spec, name, rng)
    yield q.GridHistogram(name, "g", q.PublicArray([-5, 0, 1, 7, 30]))
    yield q.GridHistogram(name, "g", q.PublicArray([3]))
    yield q.GridHistogram(name, "g", q.PublicArray([-5, 0, 1, 7, 30]), 1)
    yield q.GridHistogram(name, "g", q.PublicArray([-5, 0, 1, 7, 30]), 2)
    yield q.OrderTest(name, (("g", "h"),))
    yield q.OrderTest(name, (("g", "h"), ("h", "g")))
    yield q.OrderTest(name, (("g", "h"),), 2)
    joined = q.Joined(q.Histogram.of(spec, name, ("c0", "g")).axes)
    kept = np.arange(joined.size).reshape(-1, spec.tables[name].attributes["g"].size) % 2
    yield q.Histogram(name, (replace(joined, groups=q.PublicArray(kept)),))
    for key in spec.tables[name].keys:
        one = q.Joined((joined.axes[0], q.Refers(key)))
        halves = np.arange(one.size).reshape(-1, 2) % 3 == 1
        yield q.Histogram(name, (replace(one, groups=q.PublicArray(halves.astype(int))),))
    for names in (("c0",), ("c1", ("c2", BINS))):
        yield q.NormedHistogram(name, q.Histogram.of(spec, name, names).axes)
    yield q.LabelCounts(name, "l", votes=True)
    yield q.LabelCounts(name, "l", norm="l1", most=3, votes=True)
    yield q.LabelCounts(name, "l", 2, public=("b", "no such", ""), most=3)
    yield q.LabelCounts(name, "g", 3, "l1", ("1", "2"), 2)
    of_words = {"whole": "l", "without": ("word1", "no such")}
    yield q.WordVotes(name, "w", most=2, votes=True, known=("piece0",), **of_words)
    yield q.WordVotes(name, "w", norm="l1", most=3, votes=True)
    yield q.WordVotes(name, "w", most=64, votes=True)  # of paths of documents
    some, points = ("piece0", "no such", "piece3"), q.PublicArray([97, 98, 101])
    yield q.WordPresence(name, "w", 1, some, points, **of_words)
    yield q.WordPresence(name, "w", 2, some, points, norm="l1")
    yield from (q.RankedCounts(name, "l", votes=True), q.RankedCounts(name, "g", 4))
    yield from _scores(spec, name, rng)
    yield from _subsets(spec, name, rng)
    for key in spec.tables[name].keys:
        yield from _of_key(spec, key)


def _scores(spec, name, rng):
    axes = ("c0", "c1", "c2")
    sizes = [spec.tables[name].attributes[axis].size for axis in axes]
    pairs = [(0, 1), (0, 2), (1, 2)]
    predictions = [rng.random((sizes[i], sizes[j])) * 4 for i, j in pairs]
    for kind in (q.PairScores, q.DependenceScores):
        whole = kind.of(spec, name, axes, pairs, predictions, penalties=[0.1, 0.2, 0.3])
        yield whole
        yield replace(whole, among=q.PublicArray([2, 0]))


def subset_scores(
    kind,
    spec,
    name,
    rng,
    region,
):
    axes = ("c0", "c1", "c2") if rng.random() < 0.5 else ("c1", "c2")
    sizes = [spec.tables[name].attributes[axis].size for axis in axes]
    pairs = [(i, j) for i in range(len(axes)) for j in range(i + 1, len(axes))]
    predictions = [rng.random((sizes[i], sizes[j])) for i, j in pairs]
    return kind.of(spec, name, axes, pairs, predictions, region)


def _subsets(spec, name, rng):
    low, high, odd = (WithCodes(name, "c2", codes) for codes in ((0, 1), (2, 3), (1, 3)))
    yield q.Histogram.of(spec, name, ("c1",), odd)
    yield q.Joint(tuple(q.Histogram.of(spec, name, ("c1", "c2"), part) for part in (low, high)))
    parts = (low, high, odd, WithCodes(name, "c0", (0,)), None)
    yield q.Joint(tuple(q.Histogram.of(spec, name, ("c1",), part) for part in parts))
    for kind in (q.PairScores, q.DependenceScores):
        yield q.Joint(tuple(subset_scores(kind, spec, name, rng, part) for part in parts))


def _of_parent(spec, name, rng):
    """Context that units give: sizes, fan-outs together, and a region of rows."""
    other = list(spec.tables)[rng.integers(len(spec.tables))]
    yield q.Histogram.of(
        spec, name, ("c1", q.UnitRows(name, (0, 1, 2)), q.UnitRows(other, (0, 1, 3)))
    )
    own = children(spec, name)
    group = q.Joined(
        (q.Column("c1", 2), q.UnitRows(name, (0, 1, 2))), q.PublicArray([[0, 1, 1], [0, 2, 2]])
    )
    for key in own:
        yield q.Histogram.of(spec, key.table, ("c0", q.Owner(key, group)))
    if len(own) > 1:
        yield q.Histogram.of(spec, name, tuple(q.Children(key, (0, 1, 2, 5)) for key in own))
    keys = [
        key
        for table in spec.tables.values()
        for key in table.keys
        if key.parent == name and key.role != "public"
    ]
    if keys:
        two = tuple(keys[:2])
        held = [(two, (clip,) * len(two)) for clip in (1, 2)]
        held += [((key, key), (3, 3)) for key in keys[-2:]]
        held += [((keys[0], keys[-1]), clips) for clips in ((40, 1), (5, 3))]
        held.append(((keys[-1],), (2,)))
        yield from (q.CrossMoment(name, *degrees) for degrees in held)
    inner = WithCodes(name, "c0", tuple(np.flatnonzero(rng.integers(0, 2, 3)).tolist()))
    for key in own:
        yield q.Histogram.of(spec, name, ("c2", q.Children(key, (0, 1, 2))), inner)


def _of_targets(spec, key):
    """Attributes of both ends of a reference: columns, fan-outs, owners' columns."""
    yield q.TargetHistogram.of(spec, key, (), ())
    yield q.TargetHistogram.of(spec, key, ("c0",), ("c1",), cap=2)
    source, target = spec.tables[key.table].own, spec.tables[key.parent].own
    near = ["c1"] if source is None else [q.Owner(source, q.Column("c1", SIZES[1]))]
    far = [q.Children(child, (0, 1, 3)) for child in children(spec, key.parent)]
    far += [] if target is None else [q.Owner(target, q.Column("c0", SIZES[0]))]
    yield q.TargetHistogram.of(spec, key, (*near, q.Refers(key)), far, outside=True)
    score = reduce(
        np.add.outer, [np.arange(part.size) for part in (q.Column("c0", SIZES[0]), *far)]
    )
    whole = q.Joined((q.Column("c0", SIZES[0]), *far), q.PublicArray(np.maximum(score - 1, 0)))
    yield q.TargetHistogram.of(spec, key, (), [whole], cap=4, outside=True)
    yield q.FanIn(key, buckets=3)


def _of_key(spec, key):
    if key.role == "public":
        yield q.Histogram(key.table, (q.PublicTarget(key, PUBLIC_ROWS),))
        if spec.tables[key.table].own is None:
            yield q.PresencePairs(key.table, (q.Column("c2", SIZES[2]),), 3, "l2", key)
            yield q.PresencePairs(key.table, (q.Column("c0", SIZES[0]),), 2, "l1", key)
        return
    yield q.Histogram(key.table, (q.Refers(key),))
    yield q.Histogram(key.table, (q.Refers(key, own=True),))
    if key.role == "own":
        yield q.Histogram.of(spec, key.parent, ("c0", q.Children(key, (0, 1, 2, 4))))
        after = q.Joined(
            (q.Column("c0", SIZES[0]), q.Owner(key, q.Column("c0", SIZES[0]))),
            q.PublicArray([[2, 1, 1, 2], [0, 2, 1, 2], [0, 0, 2, 2]]),
        )
        yield q.Histogram.of(spec, key.table, (after,))
        pair = tuple(q.Sibling(key, q.Column("c0", SIZES[0]), place) for place in (0, 1))
        same = q.PublicArray(np.eye(SIZES[0] + 1, dtype=np.int64))
        yield q.Histogram.of(spec, key.parent, pair)
        yield q.Histogram.of(spec, key.parent, ("c1", q.Joined(pair, same)))
        dates = tuple(q.Sibling(key, q.Column("c1", SIZES[1]), place) for place in (0, 1))
        falls = np.indices((SIZES[1] + 1,) * 2 + (SIZES[0] + 1,) * 2)
        falls = (falls[0] < falls[1]) == (falls[2] > falls[3])
        order = q.Joined((*dates, *pair), q.PublicArray(falls.astype(np.int64)))
        yield q.Histogram.of(spec, key.parent, (order,))
        yield q.PresencePairs(key.table, (q.Column("c2", SIZES[2]),), 3)
        yield q.PresencePairs(key.table, (q.Column("c0", SIZES[0]),), 2, "l1")
        deep = q.Owner(key, q.Children(key, (0, 1, 3)))
        yield q.Histogram.of(spec, key.table, ("c1", deep))
        above = spec.tables[key.parent].own
        if above is not None:
            yield q.Histogram.of(
                spec, key.table, (q.Owner(key, q.Owner(above, q.Children(above))), q.Refers(key))
            )
    else:
        yield from (q.FanIn(key), q.FanIn(key, buckets=1), q.FanIn(key, outside=True))
        yield from _of_targets(spec, key)


def renumbered(database, seed):
    """The same rows in another physical order, edges following; with the order of each table."""
    rng = np.random.default_rng(seed)
    spec = database.spec
    order = {name: rng.permutation(database._rows(name)) for name in spec.tables}
    tables = {}
    for name, table in spec.tables.items():
        held, at = database._tables[name], order[name]
        parents = {}
        for key in table.keys:
            moved = held._parents[key.name][at]
            if key.role != "public" and order[key.parent].size:
                place = np.argsort(order[key.parent])
                moved = np.where(moved >= 0, place[np.maximum(moved, 0)], moved)
            parents[key.name] = moved
        tables[name] = PrivateTable(
            at.size, {name: of._restrict(at) for name, of in held._attributes.items()}, parents
        )
    ranks = {name: database._units.ranks(name)[at] for name, at in order.items()}
    return PrivateDatabase(spec, tables, ranks), order


def with_relation(spec, relation):
    return replace(spec, relation=relation)
