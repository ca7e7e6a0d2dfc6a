"""Tables that refer to themselves, and columns that follow from the tree: levels, paths, roots.

Names and types show which columns these are (``trees`` in the list of names, which has the columns
of django-mptt, django-treebeard, awesome_nested_set, ancestry and PostgreSQL's ltree). They are
computed from the synthetic references and reveal nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Mask, Rng
from privbench.encoding.keys.columns import INTEGERS
from privbench.encoding.keys.references import (
    NONE,
    TableRows,
    draw_parents,
    nullable_columns,
    one_to_one,
)
from privbench.encoding.surrogate_text import TEXT_BASES
from privbench.encoding.uniqueness import ranks
from privbench.privacy.units import RowIndex
from privbench.rules.named import creation_date, packaged, whole
from privbench.schema import Column, ForeignKey, Table
from privbench.words import listed, noun, of_person, snake

#: Most levels of a table whose levels rows are placed at, and whose paths are written: a path names
#: every row above its own.
_MOST_LEVELS = 64
#: In tables of fewer rows, drawn values do not tell whether a column holds levels.
_TELLING = 100
#: A level counts from this share of the rows on; and the numbers of rows down to the first level
#: and of roots differ by at most as much.
_USUAL = 0.1
#: Of the rows down to the first level, at most this share lies before it, or of all rows the other.
_BEFORE, _STRAY = 0.25, 0.02
#: Signs between the parts of a path, the likeliest first.
_SEPARATORS = ("/", ".", ">", "|", ",")
#: Columns that a path of words may be made of, the likeliest first.
_LABELS = ("slug", "code", "name", "title", "label")


@dataclass(frozen=True, slots=True)
class Tree:
    """A table's single-column reference to itself, and the columns that depend on the tree."""

    key: ForeignKey
    columns: dict[str, str]  # names of columns by what they are: level, left, right, ...
    label: str  # the column that a path of words is made of, or ""
    date: str  # since when a row is there, or ""

    @property
    def read(self) -> set[str]:
        """Return the columns that must be decoded before the tree's columns are computed."""
        return {*self.columns.values(), self.label, self.date} - {""}


def tree_of(table: Table) -> Tree | None:
    """Return a table's tree, or None if it has no reference to itself.

    Of several references to itself, the one named for the row above is used. Generated columns and
    columns of other keys, except one to the root, are left out, as is a left end without a right
    end.
    """
    selves = [key for key in table.foreign_keys if key.is_self and len(key.columns) == 1]
    up = [key for key in selves if not _has_tree_name("root", key.columns[0])]
    up = up if len(up) == 1 else [key for key in up if _has_tree_name("up", key.columns[0])]
    if len(up) != 1:
        return None
    bound = {name for key in table.foreign_keys for name in (*key.columns, *key.ref_columns)}
    bound |= set(table.primary_columns)
    bound -= {key.columns[0] for key in selves if _has_tree_name("root", key.columns[0])}
    kinds = {}
    for kind in packaged("names")["trees"]:
        matches = [
            column.name
            for column in table.columns
            if _has_tree_name(kind, column.name)
            and column.name not in bound
            and not column.generated
            and _fits(column, kind, table.column(up[0].columns[0]))
        ]
        if len(matches) == 1:
            kinds[kind] = matches[0]
    kinds = _with_both_ends(kinds)
    names = [column.name for column in table.columns if column.type.base in TEXT_BASES]
    label = next((name for name in _LABELS if name in names and "path" in kinds), "")
    return Tree(up[0], kinds, label, creation_date(table))


def _has_tree_name(kind: str, column: str) -> bool:
    """Whether a column's name says that it is of a kind: ``level``, or ``up`` to the row above."""
    return whole(packaged("names")["trees"][kind]).match(snake(column)) is not None


def _with_both_ends(kinds: dict[str, str]) -> dict[str, str]:
    if {"left", "right"} <= kinds.keys():
        return kinds
    return {kind: name for kind, name in kinds.items() if kind not in ("left", "right", "tree")}


def _fits(column: Column, kind: str, up: Column) -> bool:
    base = column.type.base
    if kind == "root":
        return base == up.type.base
    return base in ("text", "varchar", "ltree") if kind == "path" else base in INTEGERS


def shown_tree(work: TableRows, tree: Tree) -> Tree:
    """Return the tree without columns whose drawn values show that they mean something else.

    Examples are levels of logs or skills, paths of files, and columns that are mostly NULL.
    """
    drawn = {kind: work.columns[c] for kind, c in tree.columns.items() if c in work.columns}
    few = {kind for kind, some in drawn.items() if 2 * some.null_count > work.rows} - {"root"}
    kinds = {kind: name for kind, name in tree.columns.items() if kind not in few}
    kinds = _with_both_ends(kinds)
    sure = "left" in kinds or "level" not in drawn.keys() & kinds.keys()
    if not sure and not _are_levels(work, tree, drawn["level"]):
        del kinds["level"]
    column = work.table.column(kinds["path"]) if "path" in drawn.keys() & kinds.keys() else None
    if column and column.type.base != "ltree" and not {"level", "left"} & kinds.keys():
        texts = drawn["path"].cast(pa.string())
        sign = _sign(column, texts)
        if not _are_levels(work, tree, pc.count_substring(pc.utf8_trim(texts, sign), sign)):
            del kinds["path"]
    return replace(tree, columns=kinds)


def _are_levels(work: TableRows, tree: Tree, values: pa.Array) -> bool:
    """Whether levels follow each other, and about as many rows are at the first as are roots."""
    if tree.key.name not in work.parents or work.rows < _TELLING:
        return True
    level = values.filter(pa.array(work.alive)).drop_null().cast(pa.int64())
    steps, sizes = np.unique(np.asarray(level), return_counts=True)
    roots, most = _roots(work, tree), _USUAL * sizes.sum()
    first = _first_level(sizes, roots)
    reached = sizes[: first + 1].sum()
    few_before = reached - sizes[first] <= max(_BEFORE * reached, _STRAY * sizes.sum())
    steady = (np.diff(steps[sizes > most]) == 1).all()
    return bool(abs(reached - roots) <= most and few_before and steady)


def _roots(work: TableRows, tree: Tree) -> int:
    """The number of rows that refer to nothing or to themselves."""
    index = work.parents[tree.key.name]
    ends = (index < 0) | (index >= work.rows) | (index == np.arange(work.rows))
    return int((ends & work.alive).sum())


def _first_level(sizes: RowIndex, roots: int) -> int:
    """The place of the level down to which there are about as many rows as roots."""
    reached = (1.0 + np.cumsum(sizes)) / (1.0 + roots)
    return int(np.argmin(np.maximum(reached, 1.0 / reached)))


def place_rows(work: TableRows, tree: Tree) -> int:
    """Give every row except roots a parent, without cycles.

    As many rows lie at each level as the model drew. The first level is the one with about as many
    rows as have no reference, since noise may put a row before it. A row is chosen as a parent in
    proportion to its references. Where names or references say so, a row and its parent belong to
    the same entity, and the parent is older.

    Returns:
        The first level: 0, 1 or below.
    """
    own, rows = tree.key.name, np.arange(work.rows)
    if own not in work.parents or not work.alive.any() or one_to_one(work.table, tree.key):
        return 0
    index = np.where(work.parents[own] < work.rows, work.parents[own], NONE)
    roots = (index < 0) | ((index == rows) & (not work.may_not_be_own_parent(tree.key)))
    index[(index == rows) | ~work.alive[index]] = NONE
    groups = _groups(work, tree.key, index)
    place, first = _levels(work, tree, roots & work.alive)
    free = place is None
    if place is None:
        _flatten(work, index, roots)
        place, _ = _depths(np.where(index < 0, work.rows, index))
    shallow = int(place.max()) <= _MOST_LEVELS
    if shallow and (groups.any() or not free):
        _share_levels(place, groups, work.rng)
        for level in range(1, int(place.max()) + 1):
            pool, mine = (place == level - 1) & work.alive, (place == level) & work.alive
            lost = np.flatnonzero(mine & ~(pool[index] & (groups[index] == groups) & (index >= 0)))
            index[lost] = NONE
            for among in (groups, np.zeros_like(groups)):
                lost = lost[index[lost] < 0]
                inside = np.where(pool, among, NONE)
                index[lost] = draw_parents(index, inside, among[lost], work.rng)
        index[place == 0] = NONE
    if shallow and tree.date in work.columns and _has_tree_name("up", tree.key.columns[0]):
        index = _in_time(index, place, groups, work.moments(tree.date)[0])
    if not nullable_columns(work.table, tree.key):
        index = np.where(index < 0, rows, index)
    work.parents[own] = index
    return first


def _levels(work: TableRows, tree: Tree, roots: Mask) -> tuple[RowIndex | None, int]:
    """Levels of rows from 0 on, if they are known and few, and the first one's number.

    Far fewer roots than its rows are a level above it.
    """
    name = tree.columns.get("level")
    if name not in work.columns:
        return None, 0
    values = work.columns[name].cast(pa.int64())
    level = np.asarray(values.fill_null(pc.min(values).as_py() or 0))
    steps, sizes = np.unique(level[work.alive], return_counts=True)
    if not 1 < len(steps) <= _MOST_LEVELS:
        return None, min(int(steps.min(initial=1)), 1)
    count = int(roots.sum())
    top = _first_level(sizes[:-1], count) if count else 0
    place, first = np.maximum(np.searchsorted(steps, level) - top, 0), int(steps[top])
    if 0 < 2 * count < sizes[top] and first > 0:
        place, first = np.where(roots, 0, place + 1), first - 1
    return place, min(first, 1)


def _groups(work: TableRows, up: ForeignKey, index: RowIndex) -> RowIndex:
    """What a row shares with that above: a thing by names, an owner if most did, or nothing."""
    owners, below = work.parents.get(work.own or ""), np.flatnonzero(index >= 0)
    entities = [
        work.parents[key.name]
        for key in work.table.foreign_keys
        if key.name in work.referred
        and len(key.columns) == 1
        and work.table.column(key.columns[0]).not_null
        and _has_tree_name("up", up.columns[0])
        and not of_person(noun(key.ref_table.name))
        and listed("tables", "lookup").isdisjoint(noun(key.ref_table.name)[-1:])
    ]
    if owners is not None and 2 * (owners[below] == owners[index[below]]).sum() > len(below):
        entities = entities or [owners]
    groups = max(entities, key=lambda one: int(one.max()), default=np.zeros(work.rows, np.int64))
    return np.unique(groups, return_inverse=True)[1]


def _share_levels(place: RowIndex, groups: RowIndex, rng: Rng) -> None:
    """Exchange levels of rows, so that each group has a row of the level above each of its own."""
    for level in range(int(place.max()), 0, -1):
        above, mine = (rng.permutation(np.flatnonzero(place == at)) for at in (level - 1, level))
        bare = mine[~np.isin(groups[mine], groups[above])]
        bare, spare = bare[ranks(groups[bare]) == 0], above[ranks(groups[above]) > 0]
        count = min(len(bare), len(spare))
        place[bare[:count]], place[spare[:count]] = level - 1, level


def _flatten(work: TableRows, index: RowIndex, roots: Mask) -> None:
    """Arrange rows that others refer to, those to which most of these do first.

    So trees are as flat as numbers of references let them be. Other rows keep their references.
    """
    targets = index[index >= 0]
    lost = np.flatnonzero(~roots & (index < 0))
    index[lost] = work.rng.choice(
        targets if len(targets) else np.flatnonzero(work.alive), len(lost)
    )
    inner = work.rng.permutation(np.unique(index[index >= 0]))
    above = np.bincount(index[inner][~roots[inner]], minlength=work.rows)
    inner = inner[np.lexsort((-above[inner], ~roots[inner]))]
    first = max(int(roots[inner].sum()), 1)
    last = np.arange(first, len(inner)) - 1
    slots = np.repeat(np.arange(len(inner)), above[inner])[: len(last)]
    index[inner[:first]] = NONE
    index[inner[first:]] = inner[np.minimum(slots, last)]


def _in_time(index: RowIndex, place: RowIndex, groups: RowIndex, when: RowIndex) -> RowIndex:
    """What rows refer to once they change places in groups, so that none is younger."""
    time = np.argsort(np.argsort(when, kind="stable"))
    order = np.lexsort((time, groups))
    for level in range(1, int(place.max()) + 1):
        mine = np.flatnonzero((place == level) & (index >= 0))
        time[mine] = np.maximum(time[mine], time[index[mine]])
    moved = np.full(len(index) + 1, NONE)
    moved[np.lexsort((place, time, groups))] = order
    result = np.empty_like(index)
    result[moved[:-1]] = moved[index]
    return result


def with_tree(
    table: Table, tree: Tree, columns: dict[str, pa.Array], parents: dict[str, RowIndex], first: int
) -> tuple[dict[str, pa.Array], dict[str, RowIndex]]:
    """Return columns and parents with the columns computed from the tree.

    Roots have level ``first``. ``parents`` must have no cycles; a negative number or the row itself
    means no parent.
    """
    index = parents[tree.key.name]
    rows = len(index)
    # Roots stand below one more row.
    above = np.where((index < 0) | (index == np.arange(rows)), rows, index)
    depth, top = _depths(above)
    computed: dict[str, np.ndarray] = {}
    if "level" in tree.columns:
        computed["level"] = depth + first
    if "children" in tree.columns:
        computed["children"] = np.bincount(above, minlength=rows + 1)[:rows]
    if "left" in tree.columns:
        computed |= _nested(above, depth, "tree" in tree.columns)
    result, parents = dict(columns), dict(parents)
    for kind, values in computed.items():
        name = tree.columns[kind]
        old = columns.get(name)
        type_ = pa.int64() if old is None else old.type
        result[name] = pa.array(values, pa.int64()).cast(type_, safe=False)
    if root := tree.columns.get("root", ""):
        key = next((key for key in table.foreign_keys if key.columns == (root,)), tree.key)
        drawn = parents.get(key.name, index)
        nulls = columns[root].null_count if root in columns else np.count_nonzero(drawn < 0)
        if not table.column(root).not_null and 2 * nulls > np.count_nonzero(depth == 0):
            top = np.where(depth == 0, NONE, top)
        result[root] = columns[key.ref_columns[0]].take(pa.array(top, mask=top < 0))
        if key != tree.key:
            parents[key.name] = top
    if "path" in tree.columns and int(depth.max(initial=0)) < _MOST_LEVELS:
        path = _paths(table, tree, columns, above, depth)
        if path is not None:
            result[tree.columns["path"]] = path
    return result, parents


def _depths(above: RowIndex) -> tuple[RowIndex, RowIndex]:
    """Number of rows above each, and its root; ``above`` is the number of rows for a root."""
    rows = len(above)
    jump, top = np.append(above, rows), np.arange(rows + 1)
    depth = np.append((above < rows).astype(np.int64), 0)
    for _ in range(rows.bit_length()):
        # Every round doubles the number of generations that are passed.
        depth = depth + depth[jump]
        top = np.where(jump < rows, top[jump], top)
        jump = jump[jump]
    return depth[:rows], top[:rows]


def _generations(depth: RowIndex) -> Iterator[RowIndex]:
    """The rows of every depth, in ascending order, roots first."""
    order = np.argsort(depth, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


def _nested(above: RowIndex, depth: RowIndex, trees: bool) -> dict[str, RowIndex]:
    """Left and right ends of nested sets from 1 on; with ``trees`` each root starts anew."""
    rows = len(above)
    size = np.ones(rows + 1, np.int64)
    generations = list(_generations(depth))
    for some in reversed(generations):
        np.add.at(size, above[some], size[some])
    left, number = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    for some in generations:
        siblings = some[np.argsort(above[some], kind="stable")]
        group = above[siblings]
        before = np.cumsum(2 * size[siblings]) - 2 * size[siblings]
        new = np.append(True, group[1:] != group[:-1])
        start = before[new][np.cumsum(new) - 1]
        root = depth[siblings] == 0
        left[siblings] = left[group] + 1 + np.where(root & trees, 0, before - start)
        number[siblings] = np.where(root, np.arange(len(siblings)) + 1, number[group])
    ends = {"left": left[:rows], "right": left[:rows] + 2 * size[:rows] - 1}
    return ends | ({"tree": number[:rows]} if trees else {})


def _paths(
    table: Table, tree: Tree, columns: dict[str, pa.Array], above: RowIndex, depth: RowIndex
) -> pa.Array | None:
    """Paths of keys, or of labels where the model's paths are of words; None if they are too long.

    The sign between the parts, and at both ends, is that of most of the model's paths.
    """
    column = table.column(tree.columns["path"])
    old = columns.get(column.name)
    texts = pa.array([], pa.string()) if old is None else old.cast(pa.string()).drop_null()
    sign = _sign(column, texts)
    lead, end = (
        sign if _most(at_end(texts, sign)) else "" for at_end in (pc.starts_with, pc.ends_with)
    )
    keys = columns[tree.key.ref_columns[0]].cast(pa.string())
    unique = any(column.name in item.columns for item in table.unique_sets)
    parts = [keys]
    if tree.label in columns and not unique and _most(pc.match_substring_regex(texts, r"\pL")):
        label = columns[tree.label].cast(pa.string())
        if column.type.base == "ltree":
            label = pc.replace_substring_regex(label, r"[^\pL\pN_]+", "_")
        label = pc.replace_substring(label, sign, "_")
        parts.insert(0, pc.coalesce(label, keys))
    for part in parts:
        path = pc.binary_join_element_wise(lead, _joined(part, above, depth, sign), end, "")
        longest = pc.max(pc.utf8_length(path)).as_py() or 0
        if column.type.length is None or longest <= column.type.length:
            return path if old is None else path.cast(old.type)
    return None


def _sign(column: Column, texts: pa.Array) -> str:
    """The sign between the parts of paths: the one that most have."""
    counts = [pc.sum(pc.match_substring(texts, sign)).as_py() or 0 for sign in _SEPARATORS]
    return "." if column.type.base == "ltree" else _SEPARATORS[int(np.argmax(counts))]


def _most(answers: pa.Array) -> bool:
    """Whether more than half of some answers are yes."""
    return 2 * (pc.sum(answers).as_py() or 0) > len(answers)


def _joined(part: pa.Array, above: RowIndex, depth: RowIndex, sign: str) -> pa.Array:
    """Every row's parts from its root down, with a sign between two."""
    rows = len(above)
    order: list[RowIndex] = []
    levels: list[pa.Array] = []
    place = np.zeros(rows, np.int64)  # of a row of the generation before, within it
    for some in _generations(depth):
        own = part.take(pa.array(some))
        if levels:
            before = levels[-1].take(pa.array(place[above[some]]))
            own = pc.binary_join_element_wise(before, own, sign)
        place[some] = np.arange(len(some))
        order.append(some)
        levels.append(own)
    back = np.argsort(np.concatenate(order)) if order else np.zeros(0, np.int64)
    return pa.concat_arrays(levels).take(pa.array(back)) if levels else part
