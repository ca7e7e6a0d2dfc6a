"""The private database in memory: codes, grid points, labels and row indices of parents.

Nothing here prints, pickles or compares private values. Only queries read the underscored fields,
and only `Session` and the stability harness evaluate queries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.arrays import AnyInts, Ints
from privbench.domain import Codes, Domain
from privbench.errors import PrivacyRefusal, SchemaError
from privbench.privacy.recoding import (
    EdgesRecoding,
    LabelsRecoding,
    Recoding,
    narrow,
    points_as,
)
from privbench.privacy.spec import DatabaseSpec, KeySpec
from privbench.privacy.units import BOTTOM, RowIndex, Units, index_type, system_keys, tally

#: Most bytes of derived arrays (rows of regions, codes of owners) that one database caches. With
#: double a fit of 19 million rows takes as long.
CACHE_BYTES = 128 * 2**20


class _Private:
    """A base class whose objects do not print their content and cannot be pickled."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __reduce__(self) -> NoReturn:
        raise PrivacyRefusal("private data is never pickled.")


class Cells(_Private):
    """An attribute whose domain is public: the code of every row, of any integer type."""

    __slots__ = ("_codes", "domain")

    def __init__(self, codes: NDArray[np.integer[Any]], domain: Domain) -> None:
        values = np.asarray(codes)
        if values.size and (int(values.min()) < 0 or int(values.max()) >= domain.size):
            raise SchemaError("a code lies outside its domain.")
        self._codes: Codes = values.astype(domain.dtype, copy=False)
        self.domain = domain

    def __len__(self) -> int:
        return int(self._codes.size)

    def _restrict(self, keep: NDArray[Any]) -> Cells:
        return Cells(self._codes[keep], self.domain)


class Grid(_Private):
    """An attribute on a public integer grid whose bounds are not released yet.

    Its values, of shape (rows,), are grid points and the sentinels `NULL`, `NAN`, `NEG_INF`,
    `POS_INF`, in the narrowest type that holds them (`narrow`).
    """

    __slots__ = ("_narrow",)

    def __init__(self, values: AnyInts) -> None:
        self._narrow = narrow(np.asarray(values))

    def __len__(self) -> int:
        return int(self._narrow.size)

    @property
    def _values(self) -> Ints:
        return points_as(self._narrow, np.int64).astype(np.int64, copy=False)

    def _restrict(self, keep: NDArray[Any]) -> Grid:
        return Grid(self._narrow[keep])


class Labels(_Private):
    """A text attribute whose domain is not yet public, coded by a private dictionary.

    The dictionary ``labels`` holds distinct strings, as a sequence or an Arrow string array. A
    row's code is the position of its text in it, or −1 for NULL.
    """

    __slots__ = ("_codes", "_labels")

    def __init__(
        self, codes: NDArray[np.signedinteger[Any]], labels: Sequence[str] | pa.Array
    ) -> None:
        known: Any = labels
        if isinstance(labels, pa.ChunkedArray):
            known = labels.combine_chunks()
        elif not isinstance(labels, pa.Array):
            known = pa.array(labels, type=pa.string())
        values = np.asarray(codes)
        if values.size and (int(values.min()) < -1 or int(values.max()) >= len(known)):
            raise SchemaError("a label's code lies outside its dictionary.")
        if known.null_count or pc.count_distinct(known).as_py() != len(known):
            raise SchemaError("a dictionary of labels has duplicates or NULL.")
        self._codes: RowIndex = values.astype(index_type(len(known)), copy=False)
        self._labels: pa.Array = known

    def __len__(self) -> int:
        return int(self._codes.size)

    def _restrict(self, keep: NDArray[Any]) -> Labels:
        return Labels(self._codes[keep], self._labels)


class Words(_Private):
    """The words of every row's text, in order, coded by a private dictionary.

    The codes of all rows' words lie one after another, −1 for a word that does not count; ``ends``
    has the end of every row's words, shape (rows,). ``firsts`` has the code point of every text's
    first character, −1 for NULL and for the empty text.
    """

    __slots__ = ("_ends", "_firsts", "_keys", "_words")

    def __init__(self, words: Labels, ends: Ints, firsts: NDArray[np.int32]) -> None:
        if int(ends[-1] if ends.size else 0) != len(words) or ends.shape != firsts.shape:
            raise SchemaError("the words of a text are not those of its rows.")
        self._words, self._ends, self._firsts = words, ends, firsts
        self._keys: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return int(self._ends.size)

    def _drawn(self, units: Units, table: str) -> NDArray[np.uint64]:
        """A random number for every word, drawn once, by which a unit's words are chosen."""
        if self._keys is None:
            self._keys = units.keys(len(self._words), f"words of {table}")
        return self._keys

    def _of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The places of the words of some rows among all words, and the row of each."""
        starts = np.where(rows > 0, self._ends[rows - 1], 0)
        sizes = self._ends[rows] - starts
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(starts, sizes) + within, np.repeat(rows, sizes)

    def _restrict(self, keep: NDArray[Any]) -> Words:
        """The words of some rows, with their numbers: both databases share the rows."""
        rows = np.arange(len(self))[keep]
        places, _ = self._of(rows)
        words = Labels(self._words._codes[places], self._words._labels)
        sizes = np.diff(self._ends, prepend=0)[rows]
        result = Words(words, np.cumsum(sizes), self._firsts[rows])
        if self._keys is None:
            self._keys = system_keys(len(self._words), "")
        result._keys = self._keys[places]
        return result


Attribute = Cells | Grid | Labels | Words


class PrivateTable(_Private):
    """The rows of one table, whose number is private, with its attributes in column order.

    ``parents`` holds an array of shape (rows,) for every foreign key: each row's entry is the row
    index of its parent, `NONE` or `BOTTOM`.
    """

    __slots__ = ("_attributes", "_parents", "_rows")

    def __init__(
        self, rows: int, attributes: Mapping[str, Attribute], parents: Mapping[str, RowIndex]
    ) -> None:
        for name, attribute in attributes.items():
            if len(attribute) != rows:
                raise SchemaError("an attribute has another length than its table.", column=name)
        for name, parent in parents.items():
            if np.asarray(parent).shape != (rows,):
                raise SchemaError(f"the edges of key {name!r} have another length than its table.")
        self._rows = rows
        self._attributes = dict(attributes)
        self._parents: dict[str, RowIndex] = {
            name: np.asarray(parent) for name, parent in parents.items()
        }


class Cache(_Private):
    """A cache of derived arrays that drops the least recently used first."""

    __slots__ = ("_items", "_limit", "_used")

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._items: OrderedDict[Any, tuple[NDArray[Any], ...]] = OrderedDict()
        self._limit = limit
        self._used = 0

    def get(
        self, key: Any, make: Callable[[], tuple[NDArray[Any], ...]]
    ) -> tuple[NDArray[Any], ...]:
        """Return the arrays cached under ``key``, which ``make`` computes if there are none."""
        arrays = self.find(key)
        if arrays is None:
            arrays = make()
            self.put(key, arrays)
        return arrays

    def find(self, key: Any) -> tuple[NDArray[Any], ...] | None:
        """Return the arrays cached under ``key``, or None."""
        if key not in self._items:
            return None
        self._items.move_to_end(key)
        return self._items[key]

    def put(self, key: Any, value: tuple[NDArray[Any], ...]) -> None:
        """Cache arrays under a key that is not in the cache yet."""
        self._items[key] = value
        self._used += sum(array.nbytes for array in value)
        while self._used > self._limit and len(self._items) > 1:
            _, dropped = self._items.popitem(last=False)
            self._used -= sum(array.nbytes for array in dropped)


class PrivateDatabase(_Private):
    """All private tables, with their units.

    The attributes of ``spec`` are replaced by those of the tables' `Cells`. ``ranks`` are random
    ranks that were drawn before; they are given for a neighbouring database, whose remaining units
    keep their ranks, and ``remainders`` for a database that keeps parts of a unit (`Units`). A
    SchemaError says what does not fit the spec: a table, a key or a row index.
    """

    __slots__ = ("_cache", "_recodings", "_spec", "_tables", "_units", "counter")

    def __init__(
        self,
        spec: DatabaseSpec,
        tables: Mapping[str, PrivateTable],
        ranks: Mapping[str, RowIndex] | None = None,
        remainders: Mapping[str, RowIndex] | None = None,
    ) -> None:
        if set(spec.tables) != set(tables):
            raise SchemaError("the spec and the extracted tables differ.")
        for name in spec.tables:
            _check_keys(spec, name, tables)
            spec = spec.with_attributes(name, _settled(tables[name]))
        # Counts `privbench.privacy.queries.counting.Marginals`, on workers; None for this process.
        # It returns weighted histograms in grid units, the same integers wherever it counts, since
        # the weights, and the random ranks that decide them in truncated tables, are drawn once, in
        # the process of the session. It adds no noise and writes no ledger; nothing that it returns
        # leaves `Session` but through a mechanism.
        self.counter: Callable[[PrivateDatabase, Any], list[Ints]] | None = None
        self._spec = spec
        self._tables = dict(tables)
        self._recodings: list[tuple[str, str, Recoding]] = []
        self._cache = Cache()
        self._units = Units(
            spec,
            {name: table._rows for name, table in tables.items()},
            {
                key.table: tables[key.table]._parents[key.name]
                for table in spec.tables.values()
                for key in table.keys
                if key.role == "own"
            },
            ranks,
            remainders,
        )

    @property
    def spec(self) -> DatabaseSpec:
        """The public description; its attributes follow every `recode`."""
        return self._spec

    def rank_by(self, keys: Callable[[int, str], NDArray[np.uint64]]) -> None:
        """Rank rows of units by the given numbers, not by the system's entropy: NOT PRIVATE."""
        self._units.keys = keys

    @property
    def recodings(self) -> tuple[tuple[str, str, Recoding], ...]:
        """Every (table, attribute, recoding) applied so far, in order; public."""
        return tuple(self._recodings)

    def recode(self, table: str, attribute: str, recoding: Recoding) -> Domain:
        """Map a `Grid` or `Labels` attribute to cells in place, and return its public domain."""
        private = self._tables[table]
        raw = private._attributes.get(attribute)
        if isinstance(raw, Grid) and isinstance(recoding, EdgesRecoding):
            base = self._grid(table, recoding.since)._narrow if recoding.since else None
            codes = recoding.apply(raw._narrow, base)
        elif isinstance(raw, Labels) and isinstance(recoding, LabelsRecoding):
            codes = recoding.apply(raw._codes, raw._labels)
        else:
            raise SchemaError(
                "this recoding does not fit the attribute.", table=table, column=attribute
            )
        attributes = {**private._attributes, attribute: Cells(codes, recoding.domain)}
        self._tables[table] = PrivateTable(private._rows, attributes, private._parents)
        self._spec = self._spec.with_attributes(table, _settled(self._tables[table]))
        self._recodings.append((table, attribute, recoding))
        return recoding.domain

    def let_go(self, table: str, attribute: str) -> None:
        """Drop an attribute that has not become `Cells`, since it was only read for a release."""
        if isinstance(self._raw(table, attribute), Cells):
            raise SchemaError("a modelled attribute stays.", table=table, column=attribute)
        private = self._tables[table]
        attributes = {name: item for name, item in private._attributes.items() if name != attribute}
        self._tables[table] = PrivateTable(private._rows, attributes, private._parents)

    def copy(self) -> PrivateDatabase:
        """Return a database of the same rows and ranks; recoding it leaves this one unchanged."""
        copy = PrivateDatabase(self._spec, self._tables)
        copy.counter = self.counter
        copy._units = self._units
        copy._recodings = list(self._recodings)
        return copy

    def _raw(self, table: str, attribute: str) -> Attribute:
        values = self._tables[table]._attributes.get(attribute)
        if values is None:
            raise SchemaError("no such attribute.", table=table, column=attribute)
        return values

    def _points(self, table: str, attribute: str) -> Ints:
        """The integer of every row of a column on its `Grid`, NULL and ±∞ as sentinels; (rows,)."""
        return self._grid(table, attribute)._values

    def _grid(self, table: str, attribute: str) -> Grid:
        """An attribute whose domain is not settled."""
        grid = self._raw(table, attribute)
        if not isinstance(grid, Grid):
            raise SchemaError("the attribute is coded already.", table=table, column=attribute)
        return grid

    def _codes(self, table: str, attribute: str) -> tuple[Codes, Domain]:
        """Codes of a settled attribute and their domain."""
        settled = self._raw(table, attribute)
        if not isinstance(settled, Cells):
            raise SchemaError(
                "its domain is not settled: release it and recode first.",
                table=table,
                column=attribute,
            )
        return settled._codes, settled.domain

    def _rows(self, table: str) -> int:
        return self._tables[table]._rows

    def _parents(self, key: KeySpec) -> RowIndex:
        return self._tables[key.table]._parents[key.name]

    def _fan_out(self, key: KeySpec) -> RowIndex:
        """How many rows refer to every row of the parent, shape (rows of the parent,)."""

        def counts() -> tuple[RowIndex]:
            edges = self._parents(key)
            return (tally(edges, self._rows(key.parent)).astype(index_type(edges.size)),)

        return self._cache.get(("fan-out", key), counts)[0]


def _settled(table: PrivateTable) -> dict[str, Domain]:
    return {
        name: attribute.domain
        for name, attribute in table._attributes.items()
        if isinstance(attribute, Cells)
    }


def _check_keys(spec: DatabaseSpec, name: str, tables: Mapping[str, PrivateTable]) -> None:
    table = tables[name]
    keys = {key.name: key for key in spec.tables[name].keys}
    if set(keys) != set(table._parents):
        raise SchemaError("the spec and the extracted keys differ.", table=name)
    for key in keys.values():
        edges = table._parents[key.name]
        rows = 2**63 - 1 if key.role == "public" else tables[key.parent]._rows
        if edges.size and (int(edges.min()) < BOTTOM or int(edges.max()) >= rows):
            raise SchemaError(f"an edge of key {key.name!r} leads nowhere.", table=name)
        if spec.tables[name].elements and key.role == "own" and int(edges.min(initial=0)) < 0:
            raise SchemaError("an element of an array stands in no row.", table=name)
