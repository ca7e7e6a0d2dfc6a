"""The rows of one synthetic table while their keys are made; what the repairs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.encoding.base import Codec
from privbench.encoding.checks import column_differences, column_orders
from privbench.encoding.keys.columns import ValueSpace, folded_uniques
from privbench.encoding.keys.uniqueness import Indices, Mask, combine, factorize, later_duplicates
from privbench.encoding.placeholders import value_space
from privbench.schema import ForeignKey, Table, Unique


@dataclass
class TableRows:
    """A table in the making.

    Attributes:
        table: The table.
        columns: Values so far, each of shape (rows,); at first those of modelled columns.
        parents: Parent row by foreign key, negative for none; each of shape (rows,). Indices count
            the parent's kept rows, or the given rows of the table itself where the key is a
            self-reference. Those that were given are never changed in place.
        rng: Source of randomness.
        rows: Number of rows, dropped ones included.
        codecs: Codecs of modelled columns, whose public lists and ranges a repair respects.
        own: Name of the OWN key, whose parents should change last, or None.
        alive: Rows that are kept so far.
        fixed: Columns that a foreign key has filled.
        distinct: Columns whose values were numbered: no two rows that are kept share one.
        referred: The parent's values by referencing column, for every key that is filled.
        targets: Parent rows that can be referred to, ascending, for every key that is filled.
    """

    table: Table
    columns: dict[str, pa.Array]
    parents: dict[str, Indices]
    rng: np.random.Generator
    rows: int
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    own: str | None = None
    alive: Mask = field(init=False)
    fixed: set[str] = field(default_factory=set)
    distinct: set[str] = field(default_factory=set)
    referred: dict[str, dict[str, pa.Array]] = field(default_factory=dict)
    targets: dict[str, Indices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns, self.parents = dict(self.columns), dict(self.parents)
        self.alive = np.ones(self.rows, dtype=np.bool_)

    def space(self, name: str) -> ValueSpace | None:
        """The values that a column can take."""
        return value_space(self.table, self.table.column(name), self.codecs.get(name), self.rows)

    def in_other_keys(self, key: ForeignKey, name: str) -> bool:
        """Whether another foreign key has a column of this one."""
        keys = self.table.foreign_keys
        return any(name in other.columns for other in keys if other.name != key.name)

    def own_keys(self, key: ForeignKey) -> dict[str, pa.Array]:
        """The table's own key values by referencing column, for a self-reference."""
        pairs = zip(key.columns, key.ref_columns, strict=True)
        return {name: self.columns[other] for name, other in pairs}

    def may_not_be_own_parent(self, key: ForeignKey) -> bool:
        """Whether a CHECK forbids that a row refers to itself by a key of one column."""
        pair = (key.columns[0], key.ref_columns[0])
        unlike = [*column_differences(self.table)]
        unlike += [(item.low, item.high) for item in column_orders(self.table) if item.strict]
        return len(key.columns) == 1 and bool({pair, pair[::-1]} & {*unlike})

    def group(self, names: Sequence[str], *, fold: bool = False) -> Indices:
        """One integer for every distinct combination of some columns, with `fold` of any case."""
        return combine([factorize(self.columns[name], fold=fold) for name in names], self.rows)

    def folds(self, item: Unique) -> bool:
        """Whether case does not make texts of a UNIQUE set different."""
        return item in folded_uniques(self.table)

    def duplicates(self, item: Unique) -> Mask:
        """Rows whose combination an earlier row has."""
        columns = [self.table.column(name) for name in item.columns]
        fold = self.folds(item)
        codes = [
            factorize(self.columns[c.name], fold=fold or c.type.base == "citext") for c in columns
        ]
        counted = self.alive.copy()
        if not item.nulls_not_distinct:
            for code in codes:
                counted &= code >= 0
        return later_duplicates(combine(codes, self.rows), counted)

    def move(self, space: ValueSpace, rows: Mask, points: Indices) -> None:
        """Give some rows the values at new grid points (or list positions)."""
        if not rows.any():
            return
        old = self.columns[space.column.name]
        points = np.where(rows, points, points[np.argmax(rows)])
        inside = np.clip(points, space.lo, space.hi)
        new = space.from_points(inside, text=pa.types.is_string(old.type))
        if new.type != old.type:
            new = new.cast(old.type)
        self.columns[space.column.name] = pc.if_else(pa.array(rows), new, old)


def known(array: pa.Array) -> Mask:
    """Rows that are not NULL."""
    mask: Mask = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    return mask


def finite(array: pa.Array) -> Mask:
    """Rows that are neither NULL nor NaN nor an infinity, as number or as text."""
    if pa.types.is_string(array.type):
        special = pc.is_in(array, value_set=pa.array(["infinity", "-infinity", "NaN"]))
        return known(array) & ~np.asarray(special.to_numpy(zero_copy_only=False), dtype=np.bool_)
    if pa.types.is_floating(array.type):
        return known(pc.if_else(pc.is_finite(array), array, None))
    return known(array)
