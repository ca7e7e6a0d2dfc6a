"""Arrays: how many elements they have, and one random element of every row.

What is read of a row is a random map of its own value (P33, P39): the number of elements, and one
of them, each with the same chance, by a fresh random number of the operating system that is used
for nothing else. So the element is a text attribute with one value a row, like any other column of
labels, and every query over it has the sensitivity that it claims for such attributes. No query
counts several elements of a row: an array of a thousand elements adds no more than one of a single
element does, and a unit with several such rows what its rows add by their weights. A row without
elements, and one whose element is NULL, has NULL. The proof fixes the numbers that are drawn for
the rows that both databases share, as that of random ranks does (P14).

The elements of a row's array have, by this, the law of a random element given the array's length
and whatever else of the row the model has learned with it. Elements on a grid (numbers, dates) are
read as columns of their type are, with a released range. Whether a few elements ascend is a third
map of the row's own value, with two cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Ints, Mask, Rng
from privbench.encoding.base import (
    CodeMap,
    ColumnReader,
    attribute,
    head,
    null_mask,
)
from privbench.encoding.categories import (
    LabelReader,
    ListCodec,
    labels_of,
    list_reader,
)
from privbench.encoding.composites import (
    ComposedReader,
    PartedCodec,
    part_column,
    plain_type,
)
from privbench.encoding.filled import (
    MAX_ELEMENTS,
    SizedCodec,
    SizedReader,
    drawn_sizes,
    limited_edges,
)
from privbench.encoding.keys.placeholders import is_array, part_maker
from privbench.encoding.ordered import OrderedCodec, ordered_part
from privbench.encoding.scale import scale_of
from privbench.encoding.surrogate_text import TEXT_BASES, joined, quoted
from privbench.rules.named import packaged
from privbench.schema import Column, ColumnType

#: Stands for elements of which no label was released.
_UNKNOWN = "\x01"
#: Up to this share, elements without a label are taken for noise, as in columns of text.
_NOISE = 0.05
#: How often elements that a row has already are drawn again; what is still repeated then stays.
_AGAIN = 8


@dataclass(frozen=True)
class ArrayCodec(PartedCodec):
    """Makes arrays of a sampled length from the sampled element of a row and of other rows.

    The other elements come from rows whose arrays have the same length. Elements without a released
    label are placeholders of their type. If the element type has a list of values, labels are drawn
    from it. The labelled elements of one array differ if there are enough labels.
    """

    kind: ClassVar[str] = "array"

    def __post_init__(self) -> None:
        """Refuse parts that are not those of a reader."""
        names = [attribute(self.column, part) for part in ("length", "ascends")]
        known = [names[0], self.column, names[1]]
        if len(self.parts) < 2 or [part.column for part in self.parts] != known[: len(self.parts)]:
            raise ValueError("an array has other parts")
        element = self.parts[1]
        if not isinstance(element, ListCodec) and element.type != self.type.parts[0]:
            raise ValueError("an array has other elements")

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return array literals; NULL where the length has the code of NULL."""
        length, grid, *order = self.parts
        if not isinstance(length, SizedCodec):
            raise ValueError("an array has no length")
        cells, own_codes = codes[length.column], codes[self.column].astype(np.int64)
        sizes, null = drawn_sizes(cells, length.domains[length.column], length.edges, rng)
        known, element = ~null_mask(own_codes, grid.domains[self.column]), self.type.parts[0]
        labels = grid.values if isinstance(grid, ListCodec) else ()
        lost = np.array([text == _UNKNOWN for text in labels] + [True])
        if labels:
            named = ~lost[np.minimum(own_codes, len(labels))]
            few = (known & ~named).sum() < _NOISE * known.sum()
            known = named if named.any() and (few or labels_of(element)) else known
        there = np.flatnonzero(known & (sizes > 0))
        flat = _elements(own_codes, sizes, there, cells.astype(np.int64), len(labels), rng)
        if labels:
            values = self._values(labels, flat, np.flatnonzero(lost[flat]), rng)
        else:
            values = grid.decode({self.column: flat}, rng)
        for part in order:
            ascends = codes[part.column]
            fall, rise = (ascends == 0).sum(), (ascends == 1).sum()
            chosen = (ascends == 1) | (fall < _NOISE * rise) | ((ascends == 2) & (rise > fall))
            listed = pa.array(labels_of(element), pa.string())
            rank = pc.index_in(values, value_set=listed) if len(listed) else values
            if isinstance(grid, OrderedCodec):
                rank = pa.array(grid.scale.points_of(values))
            values = values.take(_ascending(rank, sizes, chosen))
        texts = quoted(values.cast(pa.string())).fill_null("NULL")
        places = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        lists = pa.ListArray.from_arrays(places, texts)
        literals = joined("{", pc.binary_join(lists, ";" if element.base == "box" else ","), "}")
        return pc.if_else(pa.array(null), pa.scalar(None, literals.type), literals)

    def _values(self, labels: Sequence[str], flat: Ints, others: Ints, rng: Rng) -> pa.Array:
        """Every element, those without a label made by their type."""
        maker = part_maker(self.type.parts[0])
        if maker is None:
            raise ValueError(f"no element of {self.type.sql} can be made")
        surrogates = maker.make(rng.integers(2**20, size=len(others)) % maker.room).cast(
            pa.string()
        )
        places = flat.copy()
        places[others] = len(labels) + np.arange(len(others))
        return pa.concat_arrays([pa.array(labels, pa.string()), surrogates]).take(pa.array(places))


def _ascending(values: pa.Array, sizes: Ints, ascend: Mask) -> pa.Array:
    """Places of the elements, those of some rows in ascending order."""
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = pc.sort_indices(
        pa.table({"row": row, "value": values}),
        sort_keys=[("row", "ascending"), ("value", "ascending")],
    )
    return pa.array(np.where(ascend[row], order, np.arange(len(row))).astype(np.int64))


def _elements(
    own_codes: Ints, sizes: Ints, known: Ints, cells: Ints, labels: int, rng: Rng
) -> Ints:
    """The codes of all elements, row by row; a row that is ``known`` begins with its own.

    All others are those of known rows of the same cell of lengths, or of any row where it has none.
    """
    row = np.repeat(np.arange(len(sizes)), sizes)
    if not len(known):
        return np.full(len(row), labels, np.int64)
    order = known[np.argsort(cells[known], kind="stable")]
    sides = [np.searchsorted(cells[order], cells, side=side) for side in ("left", "right")]
    first, end = np.where(sides[0] < sides[1], sides, [[0], [len(order)]])

    def drawn(rows: Ints) -> Ints:
        return np.asarray(own_codes[order[rng.integers(first[rows], end[rows])]])

    flat = drawn(row)
    starts = np.cumsum(sizes) - sizes
    flat[starts[known]] = own_codes[known]
    for _ in range(_AGAIN):
        _, once = np.unique(row * (labels + 1) + flat, return_index=True)
        repeated = flat < labels
        repeated[once] = False
        again = np.flatnonzero(repeated)
        if not len(again):
            break
        flat[again] = drawn(row[again])
    return flat


def arrays_of_keys(owners: Ints, targets: Ints, keys: pa.Array, null: Mask, rng: Rng) -> pa.Array:
    """Return array literals of keys whose elements differ if there are enough different targets.

    ``owners`` gives the row of each element, ``targets`` the position of its key in ``keys``. As
    many rows without elements become NULL as ``null`` marks, marked rows first; the others get an
    empty array.
    """
    pool = targets.copy()
    for left in range(_AGAIN, -1, -1):
        _, once = np.unique(owners * len(keys) + targets, return_index=True)
        again = np.setdiff1d(np.arange(len(pool)), once)
        if left and len(again):
            targets[again] = pool[rng.integers(len(pool), size=len(again))]
    once = rng.permutation(once)
    once = once[np.argsort(owners[once], kind="stable")]
    sizes = np.bincount(owners[once], minlength=len(null))
    empty = np.flatnonzero(sizes == 0)
    missing = np.zeros(len(null), np.bool_)
    missing[empty[np.argsort(~null[empty], kind="stable")][: null.sum()]] = True
    places = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    texts = quoted(keys.cast(pa.string())).take(pa.array(targets[once]))
    literals = joined("{", pc.binary_join(pa.ListArray.from_arrays(places, texts), ","), "}")
    return pc.if_else(pa.array(missing), pa.scalar(None, literals.type), literals)


def _has_grid(element: ColumnType) -> bool:
    return scale_of(element) is not None and element.domain is None


def array_reader(
    table: str, column: Column, per_unit: int, sizes: tuple[int, int | None]
) -> ComposedReader | None:
    """The reader of an array whose elements are numbers or can be released as labels, else None.

    It reads every array's length, one of its elements, and whether it ascends. ``sizes`` are the
    least and greatest number of elements that rules of the schema allow.
    """
    if column.templates or not is_array(column.type):
        return None
    element = column.type.parts[0]
    if not (per_unit or _has_grid(element)) or part_maker(element) is None:
        return None
    length = part_column(column, "length", column.type, null=not column.not_null)
    codec = SizedCodec(*head(length), "array", limited_edges(column, sizes, MAX_ELEMENTS))
    size = SizedReader(table, length, codec, "", "")
    ascends = part_column(column, "ascends", plain_type("bool"))
    order = list_reader(table, ascends, ("false", "true"), "")
    known = packaged("parts", "privbench.encoding")["arrays"]
    parts: tuple[ColumnReader, ...]
    if _has_grid(element):
        own, text = Column(column.name, column.position, element), "e.v"
        parts = size, ordered_part(table, own, per_unit=per_unit), order
    else:
        # PostgreSQL cannot print a value whose text is longer than a gigabyte, and a nested one may
        # take many times its size. No element of more than 16 kB is printed: it is too long for
        # a label.
        text = known["element"].replace("TEXT", element.text_form.replace("{0}", "e.v"))
        own, public = Column(column.name, column.position, plain_type("text")), labels_of(element)
        labels = LabelReader(table, own, per_unit, _UNKNOWN, True, public)
        parts = size, labels, order
        if not public and element.base not in TEXT_BASES:
            parts = size, labels
    texts = ("{0}", text, known["ascends"])[: len(parts)]
    said = "arrays of measured length, of released elements", "by the type of the elements"
    return ComposedReader(table, column, parts, texts, ArrayCodec, *said, drawn=known["drawn"])
