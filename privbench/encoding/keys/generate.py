"""Make the keys of synthetic tables: new keys, references and uniqueness, parents first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Mask, Rng
from privbench.encoding.base import Codec
from privbench.encoding.keys.columns import (
    is_counted,
    is_discriminator,
    kept_uniques,
    role_of,
    serial_key,
)
from privbench.encoding.keys.placeholders import random_uuids, value_space
from privbench.encoding.keys.references import (
    TableRows,
    break_cycles,
    fill_reference,
    redirect_dangling,
    refill_self_reference,
    remap,
    settle_types,
)
from privbench.encoding.keys.repair import (
    repair_orders,
    repair_uniques,
    separate_from_self,
)
from privbench.encoding.keys.sequences import (
    numbers_by_date,
    numbers_in_time,
    put_in_sequence,
    share_singles,
)
from privbench.encoding.keys.trees import place_rows, shown_tree, tree_of, with_tree
from privbench.errors import SchemaError
from privbench.privacy.units import BOTTOM, RowIndex, index_type
from privbench.rng import generator
from privbench.rules.facts import column_rules
from privbench.rules.named import creation_date
from privbench.rules.texts import column_pattern
from privbench.schema import Column, ForeignKey, Table, Unique

#: Characters of a UUID as text.
_UUID_LENGTH = 36
#: Rows that are numbered at a time, for memory alone.
_BLOCK = 2**20


@dataclass(frozen=True)
class KeyedTable:
    """A synthetic table whose keys are filled in."""

    columns: dict[str, pa.Array]  # values of every column that the load writes, kept rows only
    parents: dict[str, RowIndex]  # parent row of every kept row by foreign key, −1 for none
    keep: Mask  # which of the given rows are kept
    # Whether rows were dropped when others may have referred to them already, on a cycle of NOT
    # NULL keys.
    torn: bool = False

    @property
    def rows(self) -> int:
        """The number of rows that are kept."""
        return int(self.keep.sum())

    @property
    def dropped(self) -> int:
        """The number of rows that are dropped, since no valid key was left for them."""
        return len(self.keep) - self.rows


def fill_keys(
    work: TableRows,
    parent_keys: Callable[[ForeignKey], Sequence[pa.Array]],
    *,
    deferred: Collection[str] = (),
    referred: Collection[str] = (),
) -> KeyedTable:
    """Fill in all keys of a table and repair its UNIQUE sets; rows without a valid key are dropped.

    Keys named in ``deferred`` are filled in later, when their parent table exists. If other tables
    already refer to their columns (``referred``), these columns get surrogate keys. ``parent_keys``
    is not called for self-references.
    """
    table = work.table
    work.fixed |= table.pinned_columns & set(work.columns)
    settle_types(work)
    share_singles(work)
    outer = [key for key in table.foreign_keys if not key.is_self and key.name not in deferred]
    for key in sorted(outer, key=lambda key: (key.name != work.own, -len(key.columns))):
        values = parent_keys(key)
        fill_reference(work, key, dict(zip(key.columns, values, strict=True)))
    repair_orders(work)
    put_in_sequence(work)
    _generate_keys(work, referred)
    selves = [key for key in table.foreign_keys if key.is_self and key.name not in deferred]
    tree = tree_of(table) if selves else None
    tree = shown_tree(work, tree) if tree else None
    first = place_rows(work, tree) if tree else 0
    selves = [key for key in selves if not tree or key.columns != (tree.columns.get("root"),)]
    for key in selves:
        fill_reference(work, key, work.own_keys(key))
        separate_from_self(work, key)
        break_cycles(work, key)
        refill_self_reference(work, key)
    open_sets = [
        item
        for item in _unique_sets(table, work.columns)
        if not work.distinct.intersection(item.columns)
    ]
    repair_uniques(work, open_sets)
    for key in selves:
        break_cycles(work, key)
        refill_self_reference(work, key)
    # What rows refer to may have moved, and their references with it.
    moved = {name for key in selves for name in key.columns}
    for item in open_sets:
        if moved & set(item.columns):
            work.alive &= ~work.duplicates(item)
    result = _result(work, selves)
    if tree is None:
        return result
    columns, parents = with_tree(table, tree, result.columns, result.parents, first)
    return replace(result, columns=columns, parents=parents)


def _fill_deferred_key(
    table: Table,
    keyed: KeyedTable,
    key: ForeignKey,
    index: RowIndex,
    parent_keys: Sequence[pa.Array],
    rng: Rng,
) -> KeyedTable:
    """Fill in a key that was deferred to break a cycle, now that its parent's rows exist."""
    work = TableRows(table, keyed.columns, {key.name: index}, rng, keyed.rows)
    work.fixed = set(table.key_columns) & set(keyed.columns)
    settle_types(work)
    fill_reference(work, key, dict(zip(key.columns, parent_keys, strict=True)))
    sets = _unique_sets(table, work.columns)
    repair_uniques(work, [item for item in sets if set(item.columns) & set(key.columns)])
    result = _result(work, [])
    keep = keyed.keep.copy()
    keep[np.flatnonzero(keep)] = result.keep
    parents_kept = {name: values[result.keep] for name, values in keyed.parents.items()}
    torn = keyed.torn or result.rows < keyed.rows
    return KeyedTable(result.columns, {**parents_kept, **result.parents}, keep, torn)


def _unique_sets(table: Table, columns: Collection[str]) -> list[Unique]:
    """UNIQUE sets whose columns are all filled in (generated ones are PostgreSQL's business)."""
    return [item for item in kept_uniques(table) if set(item.columns) <= set(columns)]


def _generate_keys(work: TableRows, referred: Collection[str]) -> None:
    """Values of all columns that are neither modelled nor refer to others."""
    for column in work.table.columns:
        minted = role_of(work.table, column) == "minted"
        # Keys of a look-up's first rows are labels, which its other keys must not repeat.
        labels = work.columns.pop(column.name, None) if minted else None
        is_new = minted or column.name in referred
        if column.name in work.columns or not is_new:
            continue
        if _holds_uuids(work.table, column):
            work.columns[column.name] = random_uuids(work.rows, work.rng)
        elif is_discriminator(work.table, column) and not _counts_all(work, column):
            others = [name for name in work.table.primary_columns if name in work.fixed]
            _number(work, column, numbers_in_time(work, column.name, others))
        else:
            number: RowIndex = np.cumsum(work.alive, dtype=index_type(work.rows))
            np.subtract(number, 1, out=number)
            if work.serial and column == serial_key(work.table):
                number[work.alive] = numbers_by_date(work)
            if _number(work, column, number):
                work.distinct.add(column.name)
        if labels is not None:
            values = work.columns[column.name]
            work.columns[column.name] = pc.coalesce(labels.cast(values.type), values)
            work.distinct.discard(column.name)


def _counts_all(work: TableRows, column: Column) -> bool:
    """Whether a sequence numbers all rows; not where its type has too few numbers above 0."""
    space = value_space(work.table, column, None, work.rows) if is_counted(column) else None
    rows = int(np.count_nonzero(work.alive))
    return space is not None and min(space.capacity, space.hi) >= rows


def _holds_uuids(table: Table, column: Column) -> bool:
    """Whether a key gets UUIDs: a uuid, or a text of a UUID's length that no CHECK limits."""
    if column.type.base not in ("varchar", "bpchar") or column.type.length != _UUID_LENGTH:
        return column.type.base == "uuid"
    return not column_rules(table, column) and column_pattern(table, column) is None


def _number(work: TableRows, column: Column, index: RowIndex) -> bool:
    """Give a key column the values of some numbers; rows past the last value are dropped."""
    space = value_space(work.table, column, None, work.rows)
    pattern = column_pattern(work.table, column)
    if pattern is not None and not (space and space.values) and work.rows:
        values = pattern.distinct(work.rows, work.rng)
        work.alive &= index < len(values)
        work.columns[column.name] = values.take(pa.array(np.clip(index, 0, len(values) - 1)))
        return True
    if space is None:
        # No numbering is known for the type: what distinguishes rows must be left to repair.
        work.columns[column.name] = pa.nulls(work.rows, pa.string())
        return False
    values = []
    for first in range(0, max(work.rows, 1), _BLOCK):
        some = slice(first, first + _BLOCK)
        number: RowIndex = np.maximum(index[some], 0).astype(np.int64)
        work.alive[some] &= number < space.capacity
        values.append(space.nth(np.minimum(number, space.capacity - 1)))
    work.columns[column.name] = values[0] if len(values) == 1 else pa.concat_arrays(values)
    return True


def _result(work: TableRows, selves: Sequence[ForeignKey]) -> KeyedTable:
    """The rows that are kept, self-references in their new numbers."""
    for key in selves:
        redirect_dangling(work, key)
    keep = work.alive
    columns, parents = dict(work.columns), dict(work.parents)
    if not keep.all():
        columns = {name: values.filter(pa.array(keep)) for name, values in columns.items()}
        parents = {name: index[keep] for name, index in parents.items()}
    for key in selves:
        parents[key.name] = remap(parents[key.name], keep)
    return KeyedTable(columns, parents, keep)


def table_order(tables: Iterable[Table]) -> list[tuple[Table, tuple[str, ...]]]:
    """Return the tables, parents before children, each with the keys to fill in at the end.

    A cycle is broken at the least important key: first keys whose columns are in no UNIQUE set and
    are not referred to, and among these nullable keys. Self-references never count.
    """
    left = {table.key: table for table in tables}
    referred = _referred_columns(left.values())
    steps: list[tuple[Table, tuple[str, ...]]] = []
    while left:
        ready = [table for table in left.values() if not _pending(table, left)]
        chosen = ready or [min(left.values(), key=lambda item: _cost(item, left, referred))]
        steps += [(table, tuple(key.name for key in _pending(table, left))) for table in chosen]
        for table in chosen:
            del left[table.key]
    return steps


def _pending(table: Table, left: Mapping[str, Table]) -> list[ForeignKey]:
    return [key for key in table.foreign_keys if not key.is_self and str(key.ref_table) in left]


def _referred_columns(tables: Iterable[Table]) -> set[tuple[str, str]]:
    return {
        (str(key.ref_table), name)
        for table in tables
        for key in table.foreign_keys
        for name in key.ref_columns
    }


def _cost(
    table: Table, left: Mapping[str, Table], referred: set[tuple[str, str]]
) -> tuple[int, int, int, str]:
    """How much is lost by deferring all pending keys of a table."""
    pending = _pending(table, left)
    names = {name for key in pending for name in key.columns}
    unique = {name for item in table.unique_sets for name in item.columns}
    hard = sum(name in unique or (table.key, name) in referred for name in names)
    stiff = sum(all(table.column(name).not_null for name in key.columns) for key in pending)
    return hard, stiff, len(pending), table.key


def generate_keys(
    tables: Sequence[Table],
    decoded: Mapping[str, Mapping[str, pa.Array]],
    parents: Mapping[str, Mapping[str, RowIndex]],
    rows: Mapping[str, int],
    *,
    seed: int | None,
    codecs: Mapping[str, Mapping[str, Codec]] | None = None,
    own: Mapping[str, str] | None = None,
    follows: Collection[str] = (),
    serial: Mapping[str, int] | None = None,
    public_keys: Callable[[ForeignKey], Sequence[pa.Array]] | None = None,
    references: bool = True,
) -> dict[str, KeyedTable]:
    """Make the keys of all private tables, and return the tables by name.

    Args:
        tables: The private tables.
        decoded: Decoded columns by table.
        parents: Parent row indices by table and foreign key, as a synthesizer returns them.
        rows: Number of rows by table.
        seed: Seed of the sample, or None.
        codecs: Codecs by table and column.
        own: Name of the OWN key by table.
        follows: Tables of which no row comes before its owner.
        serial: By table, 1 or -1 if keys ascend or descend with the dates of rows.
        public_keys: Key values of public tables.
        references: Whether the parent rows are given too, or only the columns that follow from
            them, in half the memory.
    """
    rows = _viable(tables, rows)
    referred = _referred_columns(tables)
    keyed: dict[str, KeyedTable] = {}
    by_key = {table.key: table for table in tables}
    steps = table_order(tables)
    parent_keys = _keys_of(keyed, {table.key for table in tables}, public_keys)
    for table, deferred in steps:
        count = rows[table.key]
        index = {
            key.name: _index(key, parents.get(table.key, {}), keyed, count)
            for key in table.foreign_keys
            if key.name not in deferred
        }
        columns = decoded.get(table.key, {})
        # Columns of keys that are filled later have no values yet.
        keys = table.foreign_keys
        later = {name for key in keys if key.name in deferred for name in key.columns}
        now = {name for key in keys if key.name not in deferred for name in key.columns}
        work = TableRows(
            table,
            {name: values.slice(0, count) for name, values in columns.items()},
            index,
            generator(seed, "mint", table.key),
            count,
            (codecs or {}).get(table.key, {}),
            (own or {}).get(table.key),
            serial=(serial or {}).get(table.key, 0),
        )
        if table.key in follows and work.own in index:
            owner = str(table.foreign_key(work.own).ref_table)
            above = TableRows(by_key[owner], keyed[owner].columns, {}, work.rng, keyed[owner].rows)
            work.owner_dates, _ = above.moments(creation_date(above.table))
        keyed[table.key] = fill_keys(
            work,
            parent_keys,
            deferred=deferred,
            referred={name for name in later - now if (table.key, name) in referred},
        )
        if not references and not deferred:
            keyed[table.key] = replace(keyed[table.key], parents={})
    for table, name in ((table, name) for table, deferred in steps for name in deferred):
        # The load ends references to rows that go.
        key, mine = table.foreign_key(name), keyed[table.key]
        targets = _index(key, parents.get(table.key, {}), keyed, rows[table.key])[mine.keep]
        rng = generator(seed, "defer", table.key, name)
        keyed[table.key] = _fill_deferred_key(table, mine, key, targets, parent_keys(key), rng)
    return keyed


def _viable(tables: Sequence[Table], rows: Mapping[str, int]) -> dict[str, int]:
    """Row counts; a table that must refer to an empty one has to be empty itself."""
    counts = {table.key: int(rows.get(table.key, 0)) for table in tables}
    changed = True
    while changed:
        changed = False
        for table in tables:
            empty = any(
                counts.get(str(key.ref_table), 1) == 0
                and all(table.column(name).not_null for name in key.columns)
                for key in table.foreign_keys
                if not (key.is_self or key.declared)
            )
            if empty and counts[table.key]:
                counts[table.key], changed = 0, True
    return counts


def _index(
    key: ForeignKey, targets: Mapping[str, RowIndex], keyed: Mapping[str, KeyedTable], rows: int
) -> RowIndex:
    index = targets[key.name][:rows] if key.name in targets else np.full(rows, -1, index_type(rows))
    parent = keyed.get(str(key.ref_table))
    if key.is_self or parent is None:
        return index
    least, most = int(index.min(initial=-1)), int(index.max(initial=-1))
    if parent.keep.all() and least >= BOTTOM and most < len(parent.keep):
        return index
    return remap(np.where(index < len(parent.keep), index, -1), parent.keep)


def _keys_of(
    keyed: Mapping[str, KeyedTable],
    private: set[str],
    public_keys: Callable[[ForeignKey], Sequence[pa.Array]] | None,
) -> Callable[[ForeignKey], Sequence[pa.Array]]:
    def keys(key: ForeignKey) -> Sequence[pa.Array]:
        parent = str(key.ref_table)
        if parent in keyed:
            return [keyed[parent].columns[name] for name in key.ref_columns]
        if parent in private or public_keys is None:
            raise SchemaError(
                f"the key {key.name} refers to {parent}, which has no rows to refer to.",
                table=str(key.table),
                remedy="Declare the parent private or public.",
            )
        return public_keys(key)

    return keys
