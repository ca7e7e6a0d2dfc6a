"""Columns that follow from a table's references to itself: levels, paths, nested sets, children.

Names and types say which they are (``trees`` in the list of names, which has the columns of
django-mptt, django-treebeard, awesome_nested_set, ancestry and PostgreSQL's ltree). They are made
of the synthetic references and reveal nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.encoding.keys.columns import INTEGERS
from privbench.encoding.keys.references import NONE, TableRows, nullable_columns
from privbench.encoding.surrogate_text import TEXT_BASES
from privbench.privacy.units import RowIndex
from privbench.rules.named import packaged, whole
from privbench.schema import Column, ForeignKey, Table
from privbench.words import snake

#: Most levels of a table whose levels rows are placed at, and whose paths are written: a path names
#: every row above its own.
_MOST_LEVELS = 64
#: In tables of fewer rows, drawn values do not tell whether a column holds levels.
_TELLING = 100
#: A level counts from this share of the rows on; and the numbers of rows down to the first level
#: and of roots differ by at most as much.
_USUAL = 0.1
#: Of the rows down to the first level, at most this share lies before it.
_BEFORE = 0.25
#: Signs between the parts of a path, the likeliest first.
_SEPARATORS = ("/", ".", ">", "|", ",")
#: Columns that a path of words may be made of, the likeliest first.
_LABELS = ("slug", "code", "name", "title", "label")


@dataclass(frozen=True, slots=True)
class Tree:
    """A table's reference to itself by a single column, and the columns that follow from it."""

    key: ForeignKey
    columns: dict[str, str]  # names of columns by what they are: level, left, right, ...
    label: str | None  # the column that a path of words is made of

    @property
    def read(self) -> set[str]:
        """Columns that have to be decoded whole before the tree's columns are made."""
        return {*self.columns.values()} | ({self.label} if self.label else set())


def tree_of(table: Table) -> Tree | None:
    """The columns of a table that follow from its only reference to itself, or None.

    Columns of foreign keys and generated ones are left out, as is a left end without a right one.
    """
    selves = [key for key in table.foreign_keys if key.is_self]
    if len(selves) != 1 or len(selves[0].columns) != 1:
        return None
    bound = {name for key in table.foreign_keys for name in (*key.columns, *key.ref_columns)}
    bound |= set(table.primary_columns)
    kinds = {}
    for kind, names in packaged("names")["trees"].items():
        matches = [
            column.name
            for column in table.columns
            if whole(names).match(snake(column.name))
            and column.name not in bound
            and not column.generated
            and _fits(column, kind)
        ]
        if len(matches) == 1:
            kinds[kind] = matches[0]
    kinds = _with_both_ends(kinds)
    names = [column.name for column in table.columns if column.type.base in TEXT_BASES]
    label = next((name for name in _LABELS if name in names and "path" in kinds), None)
    return Tree(selves[0], kinds, label) if kinds else None


def _with_both_ends(kinds: dict[str, str]) -> dict[str, str]:
    if {"left", "right"} <= kinds.keys():
        return kinds
    return {kind: name for kind, name in kinds.items() if kind not in ("left", "right", "tree")}


def _fits(column: Column, kind: str) -> bool:
    base = column.type.base
    return base in ("text", "varchar", "ltree") if kind == "path" else base in INTEGERS


def shown_tree(work: TableRows, tree: Tree) -> Tree | None:
    """The tree without columns whose drawn values say that they are something else; or None.

    So are levels of logs and skills, paths of files, and what nobody keeps (most is NULL).
    """
    drawn = {kind: work.columns[c] for kind, c in tree.columns.items() if c in work.columns}
    few = {kind for kind, values in drawn.items() if 2 * values.null_count > work.rows}
    kinds = {kind: name for kind, name in tree.columns.items() if kind not in few}
    kinds = _with_both_ends(kinds)
    if "level" in drawn.keys() & kinds.keys() and not _are_levels(work, tree, drawn["level"]):
        del kinds["level"]
    column = work.table.column(kinds["path"]) if "path" in drawn.keys() & kinds.keys() else None
    if column and column.type.base != "ltree" and not {"level", "left"} & kinds.keys():
        texts = drawn["path"].cast(pa.string())
        sign = _sign(column, texts)
        if not _are_levels(work, tree, pc.count_substring(pc.utf8_trim(texts, sign), sign)):
            del kinds["path"]
    return replace(tree, columns=kinds) if kinds else None


def _are_levels(work: TableRows, tree: Tree, values: pa.Array) -> bool:
    """Whether levels follow each other, and about as many rows are at the first as are roots."""
    if tree.key.name not in work.parents or work.rows < _TELLING:
        return True
    level = values.filter(pa.array(work.alive)).drop_null().cast(pa.int64())
    steps, sizes = np.unique(np.asarray(level), return_counts=True)
    roots, most = _roots(work, tree), _USUAL * sizes.sum()
    first = _first_level(sizes, roots)
    reached = sizes[: first + 1].sum()
    few_before = reached - sizes[first] <= _BEFORE * reached
    steady = (np.diff(steps[sizes > most]) == 1).all()
    return bool(abs(reached - roots) <= most and few_before and steady)


def _roots(work: TableRows, tree: Tree) -> int:
    """The number of rows that refer to nothing or to themselves."""
    index = work.parents[tree.key.name]
    ends = (index < 0) | (index >= work.rows) | (index == np.arange(work.rows))
    return int((ends & work.alive).sum())


def _first_level(sizes: RowIndex, roots: int) -> int:
    """The place of the level down to which there are about as many rows as roots."""
    reached = np.log1p(np.cumsum(sizes)) - np.log1p(roots)
    return int(np.argmin(np.abs(reached)))


def place_at_levels(work: TableRows, tree: Tree) -> int:
    """Give every row a row of the level above it, and none to rows of the first level.

    The levels of the rows are those that the model drew, so that as many rows as there lie at each;
    a level that no row has is skipped. The first level is that with about as many rows as referred
    to nothing, since noise may put a row before it. A row is chosen as often as references led to
    it. Nothing is done where levels are unknown or too many.

    Returns:
        The first level: 0, 1 or below.
    """
    name, own = tree.columns.get("level"), tree.key.name
    if name not in work.columns or not work.rows:
        return 0
    values = work.columns[name].cast(pa.int64())
    level = np.asarray(values.fill_null(pc.min(values).as_py() or 0))
    steps, sizes = np.unique(level[work.alive], return_counts=True)
    if own not in work.parents or not 1 < len(steps) <= _MOST_LEVELS:
        return min(int(steps.min(initial=1)), 1)
    rows = np.arange(work.rows)
    index = np.where(work.parents[own] < work.rows, work.parents[own], NONE)
    roots = _roots(work, tree)
    first = _first_level(sizes[:-1], roots) if roots else 0
    level = np.maximum(level, steps[first])
    top = level == steps[first]
    index[top] = NONE if nullable_columns(work.table, tree.key) else rows[top]
    popular = np.bincount(index[index >= 0], minlength=work.rows).astype(np.float64)
    for above, below in pairwise(steps[first:]):
        pool = np.flatnonzero((level == above) & work.alive)
        lost = (level == below) & ((index < 0) | (level[index] != above) | ~work.alive[index])
        weights = popular[pool] if popular[pool].any() else np.ones(len(pool))
        index[lost] = work.rng.choice(pool, int(lost.sum()), p=weights / weights.sum())
    work.parents[own] = index
    return min(int(steps[first]), 1)


def with_tree(
    table: Table, tree: Tree, columns: dict[str, pa.Array], parents: RowIndex, first: int
) -> dict[str, pa.Array]:
    """The columns of a table with those of its tree, made of the parents of its rows.

    Args:
        table: The table.
        tree: Its tree.
        columns: Values of all rows by column.
        parents: The row above each, negative or its own number for none; without circles.
        first: The level of roots.
    """
    rows = len(parents)
    # Roots stand below one more row.
    above = np.where((parents < 0) | (parents == np.arange(rows)), rows, parents)
    depth = _depths(above)
    made: dict[str, np.ndarray] = {}
    if "level" in tree.columns:
        made["level"] = depth + first
    if "children" in tree.columns:
        made["children"] = np.bincount(above, minlength=rows + 1)[:rows]
    if "left" in tree.columns:
        made |= _nested(above, depth, "tree" in tree.columns)
    result = dict(columns)
    for kind, values in made.items():
        name = tree.columns[kind]
        old = columns.get(name)
        type_ = pa.int64() if old is None else old.type
        result[name] = pa.array(values, pa.int64()).cast(type_, safe=False)
    if "path" in tree.columns and int(depth.max(initial=0)) < _MOST_LEVELS:
        path = _paths(table, tree, columns, above, depth)
        if path is not None:
            result[tree.columns["path"]] = path
    return result


def _depths(above: RowIndex) -> RowIndex:
    """Number of rows above each; ``above`` is the number of rows for a root."""
    rows = len(above)
    jump = np.append(above, rows)
    depth = np.append((above < rows).astype(np.int64), 0)
    for _ in range(rows.bit_length()):
        # Every round doubles the number of generations that are passed.
        depth = depth + depth[jump]
        jump = jump[jump]
    return depth[:rows]


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
        label = pc.replace_substring_regex(
            columns[tree.label].cast(pa.string()), r"[^\pL\pN_]+", "_"
        )
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
    made: list[pa.Array] = []
    place = np.zeros(rows, np.int64)  # of a row of the generation before, within it
    for some in _generations(depth):
        own = part.take(pa.array(some))
        if made:
            before = made[-1].take(pa.array(place[above[some]]))
            own = pc.binary_join_element_wise(before, own, sign)
        place[some] = np.arange(len(some))
        order.append(some)
        made.append(own)
    back = np.argsort(np.concatenate(order)) if order else np.zeros(0, np.int64)
    return pa.concat_arrays(made).take(pa.array(back)) if made else part
