"""Find duplicate keys in synthetic rows and move later ones to free values (post-processing)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.arrays import Mask
from privbench.privacy.units import RowIndex


def factorize(array: pa.Array, *, fold: bool = False) -> RowIndex:
    """Return a small integer for every distinct value, −1 for NULL; shape (rows,)."""
    text = pc.utf8_lower(array) if fold and pa.types.is_string(array.type) else array
    codes = text.dictionary_encode().indices.fill_null(-1)
    return np.asarray(codes, np.int64)


def combine(parts: Sequence[RowIndex], rows: int) -> RowIndex:
    """Return an integer for each distinct combination of several integer columns."""
    whole = np.zeros(rows, np.int64)
    for part in parts:
        _, dense = np.unique(part, return_inverse=True)
        pairs = whole * (int(dense.max(initial=0)) + 1) + dense
        _, whole = np.unique(pairs, return_inverse=True)
    return np.asarray(whole, np.int64)


def ranks(groups: RowIndex, *by: NDArray[Any]) -> RowIndex:
    """Return the number of each row within its group, in the order of ``by``, then of rows."""
    order = np.lexsort((*by[::-1], groups))
    first = np.flatnonzero(starts(groups[order]))
    result = np.empty(len(groups), np.int64)
    result[order] = np.arange(len(groups)) - np.repeat(first, np.diff(first, append=len(groups)))
    return result


def later_duplicates(keys: RowIndex, counted: Mask) -> Mask:
    """Return a mask of the rows whose key an earlier row has.

    Only ``counted`` rows are compared.
    """
    later = np.zeros(len(keys), np.bool_)
    rows = np.flatnonzero(counted)
    if len(rows):
        later[rows] = ranks(keys[rows]) > 0
    return later


def move_apart(points: RowIndex, groups: RowIndex, lo: int, hi: int) -> tuple[RowIndex, Mask]:
    """Return points that are distinct within each group, each as near as possible to its old point.

    Within a group, sorted points are pushed up until they ascend strictly, then pushed down from
    `hi` where they passed it. Points of groups that are already distinct do not move. Also returns
    a mask of the rows that found no room, since their group has more rows than points.

    >>> move_apart(np.array([3, 3, 3]), np.zeros(3, int), 1, 3)[0].tolist()
    [1, 2, 3]
    """
    order = np.lexsort((points, groups))
    value, group = np.clip(points[order], lo, hi), groups[order]
    moved = laid_out(value, np.ones_like(value), group, lo, hi + 1)
    full = ranks(group) >= hi - lo + 1
    result, bad = points.copy(), np.zeros(len(points), np.bool_)
    result[order], bad[order] = np.where(full, value, moved), full
    return result, bad


def starts(groups: RowIndex) -> Mask:
    """Return whether each row is the first of its group, for rows sorted by group."""
    return np.append(True, groups[1:] != groups[:-1])[: len(groups)]


def laid_out(begin: RowIndex, length: RowIndex, groups: RowIndex, lo: int, hi: int) -> RowIndex:
    """Return new begins of sorted periods, so that no two periods of a group overlap.

    Where periods would pass `hi` they move back, if there is room from `lo` on.

    >>> laid_out(np.array([1, 2, 9]), np.array([3, 3, 2]), np.zeros(3), 1, 11).tolist()
    [1, 4, 9]
    >>> laid_out(np.array([1, 9, 10]), np.array([3, 3, 2]), np.zeros(3), 1, 12).tolist()
    [1, 7, 10]
    """
    first = starts(groups)
    group, heads = np.cumsum(first) - 1, np.flatnonzero(first)
    place = np.cumsum(length) - length
    place -= place[heads][group]
    # Ranks are small: one running maximum serves all groups.
    distinct, rank = np.unique(begin - place, return_inverse=True)
    lift = group * len(distinct)
    free = distinct[np.maximum.accumulate(rank + lift) - lift]
    room = np.maximum(hi - np.add.reduceat(length, heads), lo)[group]
    moved: RowIndex = np.minimum(free, room) + place
    return moved


def number_texts(
    text: pa.Array, rows: RowIndex, numbers: RowIndex, greatest: int | None
) -> pa.Array:
    """Append numbers to the texts in ``rows`` (before an ``@``), no longer than `greatest`."""
    chosen = text.take(pa.array(rows))
    suffix = pa.array(numbers).cast(chosen.type)
    pieces = pc.extract_regex(chosen, r"(?s)^(?P<head>[^@]*)(?P<tail>.*)$")
    head, tail = (pc.struct_field(pieces, name).cast(chosen.type) for name in ("head", "tail"))
    numbered = pc.binary_join_element_wise(head, suffix, tail, "")
    if greatest is not None:
        numbered = _fitted(numbered, head, suffix, tail, greatest)
    return replace_rows(text, rows, numbered)


def replace_rows(array: pa.Array, rows: RowIndex, new: pa.Array) -> pa.Array:
    """Return the array with other values in some rows."""
    places = np.arange(len(array))
    places[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, new]).take(pa.array(places))


def _fitted(
    numbered: pa.Array, head: pa.Array, suffix: pa.Array, tail: pa.Array, top: int
) -> pa.Array:
    """Shorten texts over ``top``: drop the end of the head or, if it is too short, the tail too."""
    length = np.asarray(pc.utf8_length(numbered))
    excess = np.maximum(length - top, 0)
    room = np.asarray(pc.utf8_length(head))
    for cut in np.unique(excess[excess > 0]):
        shorter = pc.utf8_slice_codeunits(head, 0, stop=-int(cut))
        joined = pc.binary_join_element_wise(shorter, suffix, tail, "")
        bare = pc.utf8_slice_codeunits(pc.binary_join_element_wise(head, suffix, ""), -top)
        fitting = pc.if_else(pa.array(room >= cut), joined, bare)
        numbered = pc.if_else(pa.array(excess == cut), fitting, numbered)
    return numbered
