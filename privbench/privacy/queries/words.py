"""Words of texts: which ones many units hold, and then how often each occurs and where.

The pieces of a row's text, the first `PLACES` places that they stand at, and its first character
are a public map of that row's own value (P39), as is whether the text is one of the labels that an
earlier event released: words of such a text do not count. So what a unit adds follows from its own
rows and from random numbers that are drawn for them and used for nothing else, and it adds the same
whoever else is in the database (the proof fixes the numbers of the rows that both databases share,
as that of random ranks does).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import Labels, PrivateDatabase, Words
from privbench.privacy.queries import labels
from privbench.privacy.queries.claims import up
from privbench.privacy.queries.histogram import root_down
from privbench.privacy.queries.labels import LabelCounts, Norm
from privbench.privacy.query import GRID, Integers, PublicArray, RawQuery, Sensitivity
from privbench.privacy.spec import DatabaseSpec

#: Most words of one unit that have a vote.
VOTES = 8
#: Places from the beginning of a text that are told apart.
PLACES = 3
#: Words that are counted at a time, about: 100 MB.
_BLOCK = 2**21
#: Bits of a weight of 1 before it is normalised.
_BITS = 16


def _parts(
    data: PrivateDatabase, table: str, held: Words, counted: NDArray[np.bool_]
) -> Iterator[NDArray[np.int64]]:
    """The rows that count in parts of about `_BLOCK` words, all rows of a unit in one of them."""
    units = data._units
    for rows in units.blocks(table):
        rows = rows[counted[rows]]
        words = int((held._ends[rows] - np.where(rows > 0, held._ends[rows - 1], 0)).sum())
        parts = 1 + words // _BLOCK
        which = units.identity(table)[rows] % parts
        yield from (rows[which == part] for part in range(parts))


def _held(
    data: PrivateDatabase, query: WordVotes | WordPresence
) -> tuple[Words, NDArray[np.bool_]]:
    """The words, and a mask of the rows that count: those with a text that is no label."""
    table = query.source
    held = data._raw(table, query.attribute)
    if not isinstance(held, Words):
        raise SchemaError("the attribute has no words.", table=table)
    counted = held._firsts >= 0
    if query.whole and query.without:
        texts = data._raw(table, query.whole)
        if not isinstance(texts, Labels):
            raise SchemaError("the texts are coded already.", table=table)
        counted &= _places(texts, query.without)[texts._codes] < 0
    return held, counted


def _places(held: Labels, texts: tuple[str, ...]) -> NDArray[np.int64]:
    """For every code the position of its text among some, −1 for others; the last is NULL's."""
    known = held._labels
    found = pc.index_in(known, value_set=pa.array(texts, known.type))
    return np.append(found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), -1)


@dataclass(frozen=True, slots=True)
class WordVotes(LabelCounts):
    """Votes of units for the words that their texts hold: a list under a threshold.

    Statistic: that of `LabelCounts` by votes with C = 1, with words in place of values: a word has
    one vote of a unit that holds it, whatever the number of its rows or of times that they hold it.
    At most `privbench.privacy.queries.labels.ROWS` rows of a unit count, chosen by random rank, and
    at most ``most`` of their words, those with the least random numbers; words that are ``known``
    (public: they need no list) have no vote, and take none of another word. A unit's k votes weigh
    ⌊GRID/√k⌋ each under the L2 norm, and ⌊GRID/k⌋ under the L1 norm. The vector has one public
    cell, which is 0, and the map from word to max(X − GRID, 0): so one unit alone, whatever its
    rows, never brings a word into the map, let alone above the threshold.

    Sensitivity: what a unit adds follows from its own rows and their numbers (module), and its
    weights have a norm of GRID at most. So the claim is that of `LabelCounts` with t = ``most``,
    also where one row of a unit counts, since a text holds many words. If a constraint is broken so
    that a unit has further rows, they are counted with it and normalised with it.
    Source: P31 and P39 of this project's rules; Korolova, Kenthapadi, Mishra and Ntoulas 2009 and
    Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin 2020 (set union with weights 1/√k).
    """

    whole: str = ""  # the attribute of the column's whole texts; '' if it has none
    without: tuple[str, ...] = ()  # released labels: texts that are one of them do not count
    known: tuple[str, ...] = ()  # public words, which have no vote
    kind = "word votes"

    def _most(self, spec: DatabaseSpec) -> int:
        return self.most

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Integers, dict[str, int]]:
        """The public cell, and the map from every word; see the class's docstring."""
        held, counted = _held(data, self)
        units, words = data._units, held._words._labels
        public = _places(held._words, self.known) >= 0
        identity, ranks = units.identity(self.source), units.ranks(self.source)
        keys = (held._drawn(units, self.source) >> np.uint64(1)).astype(np.int64)
        found = np.zeros(len(words), np.int64)
        for rows in _parts(data, self.source, held, counted & (ranks < labels.ROWS)):
            at, row = held._of(rows)
            code = held._words._codes[at].astype(np.int64)
            votes = (code >= 0) & ~public[code]
            pair = identity[row[votes]].astype(np.int64) * len(words) + code[votes]
            if not pair.size:
                continue
            pairs = np.unique(pair)
            unit = np.cumsum(np.diff(pairs // len(words), prepend=-1) > 0) - 1
            chosen = labels._first_cells(unit, pairs, pair, keys[at[votes]], self.most)
            unit, pairs = unit[chosen], pairs[chosen]
            np.add.at(
                found, pairs % len(words), labels._weights(unit, np.ones_like(pairs), self.norm, 1)
            )
        found = np.maximum(found - GRID, 0)
        left = np.flatnonzero(found)
        names = words.take(pa.array(left)).cast(pa.string()).to_pylist()
        return np.zeros(1, np.int64), dict(zip(names, found[left].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class WordPresence(RawQuery):
    """How often released words occur in texts, where, and with which character texts begin.

    Statistic, one vector over cells that are fixed beforehand: the texts that count; those of them
    that begin with a character of each range of code points; those that hold each word; and those
    that have it at each of the first ``places`` places. A row adds its weight (`Units.weights`,
    fixed before any filter) once to each of its cells, however often it holds a word. If the
    rows of a unit add h to the cells, it counts with

        w = ⌊GRID · h / max(‖h‖, C)⌋,

    where ‖h‖ is the norm by which the noise is scaled, and C² (C under the L1 norm) the public or
    released number ``clip``. All numbers are integers: h is rounded down to 16 bits after its sum.

    Sensitivity: h follows from the unit's own rows (module), and ‖w‖ is GRID at most, as the norm
    is rounded up and the rest down. Under the L2 norm: L2 = L∞ = GRID, L1 = ⌈√cells⌉·GRID (Cauchy
    and Schwarz). Under the L1 norm all three are GRID. Replace: no entry is negative, so L2 is
    √2·GRID (‖v − u‖² ≤ ‖u‖² + ‖v‖²), L1 doubles, L∞ stays. Source: P31 for fixed cells.
    """

    words: tuple[str, ...]  # released and public words, distinct
    firsts: PublicArray  # first code points of ranges, ascending
    whole: str = ""  # the attribute of the column's whole texts; '' if it has none
    without: tuple[str, ...] = ()  # released labels: texts that are one of them do not count
    norm: Norm = "l2"
    clip: int = 1
    places: int = PLACES  # places from the beginning that are told apart
    kind = "word presence"
    unit = GRID

    def __post_init__(self) -> None:
        points = self.firsts.values
        if self.clip < 1 or len({*self.words}) != len(self.words) or (np.diff(points) <= 0).any():
            raise SchemaError("words must be distinct, and code points ascend.", table=self.source)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1 + self.firsts.values.size + (1 + self.places) * len(self.words),)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        l1 = GRID * (1 if self.norm == "l1" else 1 + int(np.sqrt(max(self.shape[0] - 1, 0))))
        if spec.relation.neighbours == "replace":
            return Sensitivity(2 * l1, up(2**0.5 * GRID), GRID)
        return Sensitivity(l1, float(GRID), GRID)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        held, counted = _held(data, self)
        known, (size,) = _places(held._words, self.words), self.shape
        units, found = data._units, np.zeros(self.shape, np.int64)
        for rows in _parts(data, self.source, held, counted):
            if not rows.size:
                continue
            row, cell = self._cells(held, rows, known)
            once = np.unique(np.searchsorted(rows, row) * size + cell)
            row, cell = rows[once // size], once % size
            pair = units.identity(self.source)[row].astype(np.int64) * size + cell
            pairs, place = np.unique(pair, return_inverse=True)
            sums = np.zeros(pairs.size, np.int64)
            np.add.at(sums, place, units.weights(self.source)[row].astype(np.int64))
            unit = np.cumsum(np.diff(pairs // size, prepend=-1) > 0) - 1
            np.add.at(found, pairs % size, self._normed(unit, sums >> (30 - _BITS)))
        return found

    def _cells(
        self, held: Words, rows: NDArray[np.int64], known: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every row and cell in which it counts, some of them several times."""
        first = np.searchsorted(self.firsts.values, held._firsts[rows], side="right")
        at, row = held._of(rows)
        word = known[held._words._codes[at]]
        start = 1 + self.firsts.values.size
        place = at - np.where(row > 0, held._ends[row - 1], 0)
        listed, near = word >= 0, (word >= 0) & (place < self.places)
        number = len(self.words)
        return (
            np.concatenate([rows, rows[first > 0], row[listed], row[near]]),
            np.concatenate(
                [
                    np.zeros(rows.size, np.int64),
                    first[first > 0],
                    start + word[listed],
                    start + number * (1 + place[near]) + word[near],
                ]
            ),
        )

    def _normed(self, unit: NDArray[np.int64], held: Integers) -> Integers:
        """The weight w of every pair of unit and cell, given h in 16 bits."""
        if self.norm == "l1":
            sums = np.bincount(unit, held).astype(np.int64)
            return GRID * held // np.maximum(sums, self.clip << _BITS)[unit]
        squares = np.zeros(int(unit.max(initial=-1)) + 1, np.int64)
        np.add.at(squares, unit, held * held)
        squares = np.maximum(squares, self.clip << (2 * _BITS))
        root = root_down(squares)
        return np.asarray(GRID * held // (root + (root * root < squares))[unit])
