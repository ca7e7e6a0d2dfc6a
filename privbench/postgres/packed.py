"""Read rows in packed form: several columns in one int8, and the rows of many pages in one value.

COPY sends a message for every row, which costs more than its content. Where it is publicly known
that a column has few values, an SQL expression numbers them, and several columns share an int8 as
bit fields. The server then sends these int8 of all rows of some pages as one value, in the physical
order of the rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql

from privbench.arrays import Ints, Mask
from privbench.domain import PublicValues
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.statement import build
from privbench.privacy.recoding import NEG_INF, POS_INF

#: The first server version that reads a range of pages without scanning all other pages.
READS_PAGES = 140_000
#: The number of pages that are read at once; and the most int8 per row: with more, COPY is as fast.
_PAGES, _WORDS = 1024, 64
#: The most bytes that are sent at once, of which the server holds a few copies; and the most rows
#: of a page, which bound these bytes: rows of only NULL are far larger packed than stored.
_BYTES, _ROWS = 2**24, 291
#: The bits of an int8 that hold numbers; and the most values that a dictionary lists.
_BITS, _LISTED = 63, 2**14
_OF_TYPE = {pa.int16(): range(-(2**15), 2**15), pa.int32(): range(-(2**31), 2**31)}
#: Stands for every text that a list lacks; no PostgreSQL text can be equal to it.
OTHER = "\x00"


@dataclass
class Packing:
    """A SELECT that sends columns as packed 8-byte words, and how to unpack the columns."""

    # SQL expressions of the columns.
    expressions: list[sql.Composable] = field(default_factory=list)
    # SQL of every word: an expression that gives its bytes, or the bit fields of an int8.
    words: list[sql.Composable | list[sql.Composable]] = field(default_factory=list)
    # Readers of the columns, in the order in which the columns were added.
    columns: list[Callable[[Sequence[Ints]], pa.Array]] = field(default_factory=list)
    _used: dict[int, int] = field(default_factory=dict)

    def statement(self, connection: Connection, source: sql.Composable) -> tuple[str, str]:
        """Return two parts of a SELECT with one row: packed rows of some pages, and a later row.

        The later row shows that the table goes on, so that its size, which is not public, is not
        needed. The caller adds a condition on ctid after each part, first that of the pages beyond,
        then that of the pages to read, and ends with ``) AS r``.
        """
        words = (
            build("pg_catalog.int8send({})", sql.SQL(" | ").join(word))
            if isinstance(word, list)
            else word
            for word in self.words
        )
        chosen = [build("pg_catalog.string_agg({}, ''::pg_catalog.bytea)", word) for word in words]
        columns = [build("{} AS {}", item, f"c{at}") for at, item in enumerate(self.expressions)]
        first = build("{}{}, ({}ctid FROM {} WHERE ", SELECT, chosen, SELECT, source)
        second = build(" LIMIT 1) FROM (SELECT {} FROM {} WHERE ", columns, source)
        return first.as_string(connection), second.as_string(connection)

    def batch(self, values: Sequence[bytes], names: Sequence[str]) -> pa.RecordBatch:
        """Unpack the rows in the result of a statement into a batch."""
        sent = [np.frombuffer(value, ">i8").astype(np.int64) for value in values]
        return pa.RecordBatch.from_arrays([read(sent) for read in self.columns], list(names))

    def add(
        self, expression: sql.Composable, type_: pa.DataType, known: PublicValues | None
    ) -> bool:
        """Add a column with its type and publicly known values; return whether it can be packed."""
        chosen = f"c{len(self.expressions)}"
        self.expressions.append(expression)
        if pa.types.is_boolean(type_):
            self._listed(build("{}::integer::bigint", chosen), pa.array([False, True]))
        elif type_ in _OF_TYPE:
            self._integers(chosen, type_, None)
        elif type_ == pa.int64() and isinstance(known, range) and _fits(known):
            self._integers(chosen, type_, known)
        elif type_ == pa.int64():
            self._whole("pg_catalog.int8send(coalesce({}, 0))", chosen, type_)
        elif type_ == pa.float64():
            self._whole("pg_catalog.float8send(coalesce({}, 0))", chosen, type_)
        elif type_ == pa.string() and isinstance(known, tuple):
            self._texts_of(chosen, known)
        else:
            return False
        return True

    def _bits(self, number: sql.Composable, size: int) -> Callable[[Sequence[Ints]], Ints]:
        """Add a bit field for numbers below ``size`` to a word with room; return its reader."""
        width = (size - 1).bit_length()
        fitting = (place for place, used in self._used.items() if used + width <= _BITS)
        place = next(fitting, len(self.words))
        free = self._used.setdefault(place, 0)
        if not free:
            self.words.append([])
        word = self.words[place]
        assert isinstance(word, list)
        word.append(build("({} << {})", number, free))
        self._used[place] = free + width
        mask = (1 << width) - 1
        return lambda sent: (sent[place] >> free) & mask

    def _listed(self, number: sql.Composable, values: pa.Array) -> None:
        """Add a column of listed values and NULL, sent as positions in the list."""
        size = len(values) + 1
        whole = build("coalesce({}, {})", number, len(values))
        numbers = self._bits(whole, size)
        narrow = np.min_scalar_type(size - 1)
        listed = pa.concat_arrays([values, pa.nulls(1, values.type)])
        self.columns.append(
            lambda sent: pa.DictionaryArray.from_arrays(numbers(sent).astype(narrow), listed)
        )

    def _integers(self, chosen: str, type_: pa.DataType, known: range | None) -> None:
        """Add integers of a known range or a type; values beyond the range arrive as −∞ and +∞."""
        if known is None:
            first, end = _OF_TYPE[type_].start, _OF_TYPE[type_].stop
            number = build("{}::bigint", chosen)
        else:
            first, end = known.start - 1, known.stop + 1
            clipped = "pg_catalog.int8smaller(pg_catalog.int8larger({}, {}), {})"
            number = build(clipped, chosen, _int8(first), _int8(end - 1))
        size = end - first
        number = build("{} - {}", number, _int8(first))
        if size <= _LISTED:
            values = np.arange(first, end)
            if known is not None:
                values[[0, -1]] = NEG_INF, POS_INF
            self._listed(number, pa.array(values, type_))
            return
        numbers = self._bits(build("coalesce({}, {})", number, _int8(size)), size + 1)

        def read(sent: Sequence[Ints]) -> pa.Array:
            codes = numbers(sent)
            values = codes + first
            if known is not None:
                values[codes == 0], values[codes == size - 1] = NEG_INF, POS_INF
            return _array(values, codes == size, type_)

        self.columns.append(read)

    def _whole(self, sent_as: LiteralString, chosen: str, type_: pa.DataType) -> None:
        """Add numbers of 64 bits; whether they are NULL is a bit of another word."""
        # Arrow's own answer to this needs pandas in many of its versions.
        kind = np.float64 if type_ == pa.float64() else np.int64
        self.words.append(build(sent_as, chosen))
        place = len(self.words) - 1
        null = self._bits(build("({} IS NULL)::integer::bigint", chosen), 2)
        self.columns.append(lambda sent: _array(sent[place].view(kind), null(sent) == 1, type_))

    def _texts_of(self, chosen: str, known: tuple[str, ...]) -> None:
        """Add texts of a list and `OTHER`, compared by bytes whatever their collation is."""
        cases = sql.SQL(" ").join(
            build("WHEN {} THEN {}", sql.Literal(value), _int8(number))
            for number, value in enumerate(known)
        )
        number = build(
            'CASE {0} COLLATE pg_catalog."C" {1} ELSE CASE WHEN {0} IS NOT NULL THEN {2} END END',
            *(chosen, cases, _int8(len(known))),
        )
        self._listed(number, pa.array([*known, OTHER]))


def packing(
    connection: Connection,
    expressions: Sequence[tuple[sql.Composable, str]],
    types: Sequence[pa.DataType],
    known: Mapping[str, PublicValues],
) -> Packing | None:
    """Return how the server packs these columns, or None if one of them cannot be packed.

    ``types`` are the types of the expressions; ``known`` holds what is publicly known of the values
    of some columns, by name.
    """
    result = Packing()
    if connection.info.server_version < READS_PAGES:
        return None
    for (expression, name), type_ in zip(expressions, types, strict=True):
        if not result.add(expression, type_, known.get(name)):
            return None
    return result if len(result.words) <= _WORDS else None


def packed(
    connection: Connection,
    form: Packing,
    source: sql.Composable,
    names: Sequence[str],
    pages: tuple[int, int | None],
) -> Iterator[pa.RecordBatch]:
    """Yield batches, at least one, of the rows of some pages in their physical order.

    The connection is one of the snapshot's; nothing else may use it meanwhile.
    """
    start, end = pages
    step = max(min(_PAGES, _BYTES // (8 * _ROWS * len(form.words))), 1)
    first, second = form.statement(connection, source)
    more = True
    with connection.cursor(binary=True) as cursor:
        while more:
            stop = start + step if end is None else min(start + step, end)
            others = f"ctid >= '({stop},0)'" + ("" if end is None else f" AND ctid < '({end},0)'")
            condition = f"ctid >= '({start},0)' AND ctid < '({stop},0)'"
            cursor.execute(f"{first}{others}{second}{condition}) AS r")
            result = cursor.pgresult
            assert result is not None
            *values, beyond = [result.get_value(0, place) for place in range(result.nfields)]
            yield form.batch([value or b"" for value in values], names)
            more = beyond is not None
            # A ctid is the number of the page, in four bytes, and the row's number on that page.
            start = int.from_bytes((beyond or b"")[:4])


def _fits(known: range) -> bool:
    """Whether the numbers of a range, and NULL, are few enough for a bit field."""
    return (known.stop - known.start).bit_length() < _BITS - 1


def _int8(number: int) -> sql.Composable:
    return sql.SQL(f"({number})::bigint")


def _array(values: NDArray[np.generic], null: Mask, type_: pa.DataType) -> pa.Array:
    return pa.array(values, mask=null if null.any() else None).cast(type_, safe=False)
