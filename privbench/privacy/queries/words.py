"""Queries on words of texts: which words many units have, and how often and where they occur.

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

from privbench.arrays import Ints, Mask
from privbench.errors import SchemaError
from privbench.privacy.data import Labels, PrivateDatabase, Words
from privbench.privacy.queries import labels
from privbench.privacy.queries.labels import LabelCounts, Norm, _Weighted
from privbench.privacy.query import PublicArray, Sensitivity
from privbench.privacy.spec import DatabaseSpec

#: Most words of one unit that have a vote.
VOTES = 8
#: Places from the beginning of a text that are told apart.
PLACES = 3
#: Words that are counted at a time, about: 100 MB.
_BLOCK = 2**21
_NONE = PublicArray([])


def _parts(
    data: PrivateDatabase, table: str, words_private: Words, counted: Mask
) -> Iterator[Ints]:
    """The rows that count in parts of about `_BLOCK` words, all rows of a unit in one of them."""
    for block in data._units.blocks(table):
        chosen = counted[block.rows]
        rows, units = block.rows[chosen], block.units[chosen]
        words = int(
            (words_private._ends[rows] - np.where(rows > 0, words_private._ends[rows - 1], 0)).sum()
        )
        parts = 1 + words // _BLOCK
        yield from (np.sort(rows[units % parts == part]) for part in range(parts))


def _held(data: PrivateDatabase, query: WordVotes | WordPresence) -> tuple[Words, Mask]:
    """The words of the query's attribute, and a mask of the rows whose words count, shape (rows,).

    These are the first `labels.ROWS` of each unit, by rank, that have a text which is not one of
    the released labels.
    """
    table = query.source
    raw = data._raw(table, query.attribute)
    if not isinstance(raw, Words):
        raise SchemaError("the attribute has no words.", table=table)
    counted = (raw._firsts >= 0) & data._units.first(table, labels.ROWS)
    if query.whole and query.without:
        texts = data._raw(table, query.whole)
        if not isinstance(texts, Labels):
            raise SchemaError("the texts are coded already.", table=table)
        counted &= _places(texts, query.without)[texts._codes] < 0
    return raw, counted


def _places(labels_private: Labels, texts: tuple[str, ...]) -> Ints:
    """For every code the position of its text among some, −1 for others; the last is NULL's."""
    known = labels_private._labels
    positions = pc.index_in(known, value_set=pa.array(texts, known.type))
    return np.append(positions.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), -1)


@dataclass(frozen=True, slots=True)
class WordVotes(LabelCounts):
    """Votes of units for the words of their texts, from which a threshold release makes a list.

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

    def evaluate_labels(self, data: PrivateDatabase) -> tuple[Ints, dict[str, int]]:
        """Return the public cell, and the map from every word; see the class's docstring."""
        words_held, counted = _held(data, self)
        units, words = data._units, words_held._words._labels
        public = _places(words_held._words, self.known) >= 0
        numbers = (words_held._drawn(units, self.source) >> np.uint64(1)).astype(np.int64)
        totals = np.zeros(len(words), np.int64)
        for rows in _parts(data, self.source, words_held, counted):
            at, row = words_held._of(rows)
            code = words_held._words._codes[at].astype(np.int64)
            votes = (code >= 0) & ~public[code]
            pair = labels._pairs(units.identity(self.source, row[votes]), code[votes], len(words))
            every = np.ones(pair.size, np.bool_)
            self._tally(totals, pair, numbers[at[votes]], every, self.norm, self.most)
        return np.zeros(1, np.int64), labels._beyond_one_unit(words, totals)


@dataclass(frozen=True, slots=True)
class WordPresence(_Weighted):
    """How often released words occur in texts, at which positions, and how texts begin.

    Statistic, one vector over cells that are fixed beforehand: the texts that count; those of them
    that begin with a character of each range of code points; those that hold each word; and those
    that have it at each of the first `PLACES` places. A row counts once in each of its cells,
    however often it holds a word, and at most `ROWS` rows of a unit do, chosen by random rank. A
    unit with h_v rows in cell v adds ⌊GRID · h_v / max(‖h‖, C)⌋, as in `LabelCounts`; no unit is
    cut to some of its cells.

    Sensitivity: what a unit adds follows from its own rows and their ranks (module), and has a norm
    of GRID at most. Under the L2 norm: L2 = L∞ = GRID, L1 = ⌈√cells⌉·GRID (Cauchy and Schwarz).
    Under the L1 norm all three are GRID. Replace: no entry is negative, so L2 is √2·GRID
    (‖v − u‖² ≤ ‖u‖² + ‖v‖²), L1 doubles, L∞ stays. Source: P31 for fixed cells.
    """

    words: tuple[str, ...] = ()  # released and public words, distinct
    firsts: PublicArray = _NONE  # first code points of ranges, ascending
    whole: str = ""  # the attribute of the column's whole texts; '' if it has none
    without: tuple[str, ...] = ()  # released labels: texts that are one of them do not count
    norm: Norm = "l2"
    kind = "word presence"

    def __post_init__(self) -> None:
        _Weighted.__post_init__(self)
        points = self.firsts.values
        if len({*self.words}) != len(self.words) or (np.diff(points) <= 0).any():
            raise SchemaError("words must be distinct, and code points ascend.", table=self.source)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1 + self.firsts.values.size + (1 + PLACES) * len(self.words),)

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        return labels._of_norm(self.norm, self.shape[0], spec)

    def evaluate(self, data: PrivateDatabase) -> Ints:
        words_held, counted = _held(data, self)
        known, (size,) = _places(words_held._words, self.words), self.shape
        units, counts = data._units, np.zeros(self.shape, np.int64)
        for rows in _parts(data, self.source, words_held, counted):
            if not rows.size:
                continue
            row, cell = self._cells(words_held, rows, known)
            once = np.sort(np.searchsorted(rows, row) * size + cell)
            once = once[np.diff(once, prepend=-1) > 0]  # a hash takes ten times as long
            row, cell = rows[once // size], once % size
            pair = labels._pairs(units.identity(self.source, row), cell, size)
            self._tally(counts, pair, row, np.zeros(1, np.bool_), self.norm, size)
        return counts

    def _cells(self, words_held: Words, rows: Ints, known: Ints) -> tuple[Ints, Ints]:
        """Every row and cell in which it counts, some of them several times."""
        first = np.searchsorted(self.firsts.values, words_held._firsts[rows], side="right")
        at, row = words_held._of(rows)
        word = known[words_held._words._codes[at]]
        start = 1 + self.firsts.values.size
        place = at - np.where(row > 0, words_held._ends[row - 1], 0)
        listed, near = word >= 0, (word >= 0) & (place < PLACES)
        at_place = start + len(self.words) * (1 + place[near]) + word[near]
        every = [rows, rows[first > 0], row[listed], row[near]]
        cells = [np.zeros_like(rows), first[first > 0], start + word[listed], at_place]
        return np.concatenate(every), np.concatenate(cells)
