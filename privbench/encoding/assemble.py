"""Keys of a whole synthetic database: the order of tables, dropped parents, and cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.encoding.base import Codec
from privbench.encoding.integrity import Minted, ParentKeys, fill_deferred, mint
from privbench.encoding.references import remap
from privbench.errors import SchemaError
from privbench.rng import generator
from privbench.schema import ForeignKey, Table

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Step:
    """One table's turn.

    Attributes:
        table: The table.
        deferred: Foreign keys to fill in at the end, since their parent comes later.
    """

    table: Table
    deferred: tuple[str, ...] = ()


def mint_order(tables: Iterable[Table]) -> list[Step]:
    """Parents before children; a cycle breaks at the keys that matter least.

    Keys whose columns stand in no UNIQUE set and are referred to by nobody come first, nullable
    ones before the others. Self-references never count.
    """
    left = {table.key: table for table in tables}
    wanted = _referred_columns(left.values())
    steps: list[Step] = []
    while left:
        ready = [table for table in left.values() if not _pending(table, left)]
        if ready:
            chosen = [Step(table) for table in ready]
        else:
            table = min(left.values(), key=lambda item: _cost(item, left, wanted))
            names = tuple(key.name for key in _pending(table, left))
            chosen = [Step(table, names)]
        steps += chosen
        for step in chosen:
            del left[step.table.key]
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
    table: Table, left: Mapping[str, Table], wanted: set[tuple[str, str]]
) -> tuple[int, int, int, str]:
    """How much is lost by deferring all pending keys of a table."""
    pending = _pending(table, left)
    names = {name for key in pending for name in key.columns}
    unique = {name for item in table.unique_sets for name in item.columns}
    hard = sum(name in unique or (table.key, name) in wanted for name in names)
    stiff = sum(all(table.column(name).not_null for name in key.columns) for key in pending)
    return hard, stiff, len(pending), table.key


def mint_database(
    tables: Sequence[Table],
    decoded: Mapping[str, Mapping[str, pa.Array]],
    parents: Mapping[str, Mapping[str, Indices]],
    rows: Mapping[str, int],
    *,
    seed: int | None,
    codecs: Mapping[str, Mapping[str, Codec]] | None = None,
    own: Mapping[str, str] | None = None,
    public_keys: ParentKeys | None = None,
    references: bool = True,
) -> dict[str, Minted]:
    """Keys of all private tables.

    Args:
        tables: The private tables.
        decoded: Decoded columns by table.
        parents: Parent row indices by table and foreign key, as a synthesizer returns them.
        rows: Number of rows by table.
        seed: Seed of the sample, or None.
        codecs: Codecs by table and column.
        own: Name of the OWN key by table.
        public_keys: Key values of public tables.
        references: Whether the parent rows are given too, or only the columns that follow from
            them, in half the memory.

    Returns:
        The tables by name; in each, parents count the kept rows of the parent table.

    Raises:
        SchemaError: A key refers to a table that is neither private nor public.
    """
    rows = _viable(tables, rows)
    wanted = _referred_columns(tables)
    made: dict[str, Minted] = {}
    steps = mint_order(tables)
    private = {table.key for table in tables}
    for step in steps:
        table = step.table
        count = rows[table.key]
        index = {
            key.name: _index(key, parents.get(table.key, {}), made, count)
            for key in table.foreign_keys
            if key.name not in step.deferred
        }
        columns = decoded.get(table.key, {})
        made[table.key] = mint(
            table,
            {name: values.slice(0, count) for name, values in columns.items()},
            index,
            _keys_of(made, private, public_keys),
            generator(seed, "mint", table.key),
            rows=count,
            codecs=(codecs or {}).get(table.key),
            deferred=step.deferred,
            wanted=_wanted(step, wanted),
            own=(own or {}).get(table.key),
        )
        if not references and not step.deferred:
            made[table.key] = replace(made[table.key], parents={})
    for step in steps:
        for name in step.deferred:
            _fill(step.table, name, made, parents, rows, seed, _keys_of(made, private, public_keys))
    return made


def _wanted(step: Step, wanted: set[tuple[str, str]]) -> set[str]:
    """Columns of a table's deferred keys that others refer to, and no key fills at once."""
    table = step.table
    later = {
        name for key in table.foreign_keys if key.name in step.deferred for name in key.columns
    }
    now = {
        name for key in table.foreign_keys if key.name not in step.deferred for name in key.columns
    }
    return {name for name in later - now if (table.key, name) in wanted}


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
                if not key.is_self
            )
            if empty and counts[table.key]:
                counts[table.key], changed = 0, True
    return counts


def _index(
    key: ForeignKey, given: Mapping[str, Indices], made: Mapping[str, Minted], rows: int
) -> Indices:
    index = np.asarray(given.get(key.name, np.full(rows, -1)), dtype=np.int64)[:rows]
    parent = made.get(str(key.ref_table))
    if key.is_self or parent is None:
        return index
    least, most = int(index.min(initial=-1)), int(index.max(initial=-1))
    if parent.keep.all() and least >= -1 and most < len(parent.keep):
        return index
    return remap(np.where(index < len(parent.keep), index, -1), parent.keep)


def _keys_of(
    made: Mapping[str, Minted], private: set[str], public_keys: ParentKeys | None
) -> ParentKeys:
    def keys(key: ForeignKey) -> Sequence[pa.Array]:
        parent = str(key.ref_table)
        if parent in made:
            return [made[parent].columns[name] for name in key.ref_columns]
        if parent in private or public_keys is None:
            raise SchemaError(
                f"the key {key.name} refers to {parent}, which has no rows to refer to.",
                table=str(key.table),
                remedy="Declare the parent private or public.",
            )
        return public_keys(key)

    return keys


def _fill(
    table: Table,
    name: str,
    made: dict[str, Minted],
    parents: Mapping[str, Mapping[str, Indices]],
    rows: Mapping[str, int],
    seed: int | None,
    keys: ParentKeys,
) -> None:
    """Fill in one deferred key; the load ends references to rows that go."""
    key, mine = table.foreign_key(name), made[table.key]
    index = _index(key, parents.get(table.key, {}), made, rows[table.key])[mine.keep]
    rng = generator(seed, "defer", table.key, name)
    made[table.key] = fill_deferred(table, mine, key, index, keys(key), rng)
