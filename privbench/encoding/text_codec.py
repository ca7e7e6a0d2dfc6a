"""The released half of text columns: a label by its code, else made-up text of length and shape."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.encoding.base import AnyCodes, Codec, attribute, null_mask
from privbench.encoding.madeup import made_text
from privbench.encoding.shapes import SHAPES
from privbench.encoding.surrogates import (
    KIND,
    Surrogates,
    made_distinct,
    made_semantic,
    providers,
    surrogates_from_json,
    times,
)
from privbench.encoding.uniqueness import factorize, later_duplicates
from privbench.privacy.data import EdgesRecoding, LabelsRecoding, Recoding

#: Longest text that lengths are told apart for.
MAX_LENGTH = 2**20
#: Longest text that is made up: noise may fill the top cells, and must not fill the disk.
MAX_MADE = 2**16
#: Greatest usual length of a text of which nothing is known.
WORD = 9
#: Share of a column without a label up to which it is noise, where the law by rank has none: noise
#: of a histogram's cell stays below a fiftieth where labels are released at all (twice as much: a
#: real rest would become labels; half: a few rows would become values of their own).
_NOISE = 0.05
#: Up to this share, a rest that the law does not show is a few values; more can only be many rare
#: ones, as noise would not have hidden few (half or twice: 10 values instead of 1,000, or the
#: other way round, in columns that lie between).
_FEW = 1 / 3


def length_edges(least: int, greatest: int | None) -> tuple[int, ...]:
    """Public cells of lengths: 0 to 16 one by one, then two an octave.

    >>> length_edges(0, 3), length_edges(2, 20)
    ((0, 1, 2, 3, 4), (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 21))
    """
    top = MAX_LENGTH if greatest is None else min(greatest, MAX_LENGTH)
    grid = [*range(18), *(round(2 ** (k / 2)) + 1 for k in range(9, 41))]
    inner = [edge for edge in grid if least < edge < top + 1]
    return (min(least, top), *inner, top + 1)


def length_cells(edges: tuple[int, ...], nullable: bool, usual: int = 0) -> EdgesRecoding:
    """Cells of lengths; outside the usual ones they are empty unless measured otherwise.

    Args:
        edges: Edges of the cells.
        nullable: Whether NULL is a cell.
        usual: The greatest usual length. 0: where nothing is clear, there is nothing. Otherwise
            cells from half of it on are usual: a text whose length is lost in noise has a word's.
    """
    last = max(min(bisect_right(edges, usual), len(edges) - 1), 1)
    first = min(bisect_right(edges, (usual + 1) // 2) - 1, last - 1)
    return EdgesRecoding(edges, (), nullable, core=(max(first, 0), last))


def shape_domain(nullable: bool) -> Domain:
    """The domain of shape classes; numbers, addresses and hashes only if they are seen."""
    core = SHAPES.index("lower"), len(SHAPES)
    return Domain(len(SHAPES), nullable=nullable, core=core, filler=True)


def length_domain(edges: tuple[int, ...], nullable: bool, labelled: bool) -> Domain:
    """The domain of lengths; beside labels they only shape what is made up."""
    return replace(length_cells(edges, nullable, WORD).domain, filler=labelled)


@dataclass(frozen=True)
class TextCodec(Codec):
    """A released label where the code names one, else made-up text.

    Attributes:
        labels: Released labels, or None where none were asked for.
        lengths: Edges of the length cells, or None where the text has a semantic type.
        provider: The semantic type, or None.
        surrogates: How often each text without a label occurs: nothing where labels are all there
            is, None where it is not known.
    """

    kind: ClassVar[str] = "text"

    labels: tuple[str, ...] | None
    lengths: tuple[int, ...] | None
    provider: str | None
    surrogates: Surrogates | None = None

    @property
    def domains(self) -> dict[str, Domain]:
        """Label, length and shape, as far as they are modelled."""
        found = {}
        if self.labels is not None:
            found[self.column] = self._labels.domain
        if self.lengths is not None:
            lengths = length_domain(self.lengths, self.nullable, self.labels is not None)
            found[attribute(self.column, "length")] = lengths
            found[attribute(self.column, "shape")] = shape_domain(self.nullable)
        return found

    @property
    def _labels(self) -> LabelsRecoding:
        return LabelsRecoding(self.labels or (), True, self.nullable)

    @property
    def recodings(self) -> dict[str, Recoding]:
        """The released labels."""
        return {} if self.labels is None else {self.column: self._labels}

    def decode(
        self, codes: Mapping[str, AnyCodes], rng: np.random.Generator, rows: int | None = None
    ) -> pa.Array:
        """Labels and made-up text; NULL where the first attribute says so."""
        first, domain = next(iter(self.domains.items()))
        null = null_mask(codes[first], domain)
        label = self._label_codes(codes, len(null))
        made_rows, named = np.flatnonzero((label < 0) & ~null), np.flatnonzero(label >= 0)
        surrogates, share = self.surrogates, len(made_rows) / max(len(made_rows) + len(named), 1)
        if surrogates == () and share < _NOISE:
            label[made_rows] = rng.choice(label[named], len(made_rows)) if len(named) else -1
            made_rows = np.flatnonzero((label < 0) & ~null)
        elif surrogates == ():
            surrogates = KIND if share < _FEW else None
        made = self._made(codes, made_rows, surrogates, rng)
        pool = pa.array(self.labels or (), made.type)
        places = np.where(label >= 0, label, 0)
        places[made_rows] = len(pool) + np.arange(len(made_rows))
        both = pa.concat_arrays([pool, made])
        return both.take(pa.array(places, mask=null))

    def _label_codes(self, codes: Mapping[str, AnyCodes], count: int) -> NDArray[np.int64]:
        """Position of the released label, −1 for other text."""
        if not self.labels:
            return np.full(count, -1, dtype=np.int64)
        given = codes[self.column].astype(np.int64)
        return np.where(given < len(self.labels), given, -1)

    def _made(
        self,
        codes: Mapping[str, AnyCodes],
        chosen: NDArray[np.int64],
        surrogates: Surrogates | None,
        rng: np.random.Generator,
    ) -> pa.Array:
        """Made-up texts; rows that share one are alike in shape and length."""
        rows = len(chosen)
        count = rng.permutation(times(surrogates, rows)) if surrogates else None
        value = None if count is None else np.repeat(np.arange(len(count)), count)
        if self.provider is not None or self.lengths is None:
            provider = self.provider or "word"
            if count is None or value is None:
                return made_semantic(provider, rows, rng, self.type.length)
            made = made_distinct(provider, len(count), rng, self.type.length)
            return made.take(pa.array(rng.permutation(value)))
        edges = np.array(self.lengths, dtype=np.int64)
        cell = _present(codes[attribute(self.column, "length")], len(edges) - 1, chosen, rng)
        shape = _present(codes[attribute(self.column, "shape")], len(SHAPES), chosen, rng)
        lengths = np.minimum(rng.integers(edges[cell], edges[cell + 1], dtype=np.int64), MAX_MADE)
        if count is None or value is None:
            return made_text(shape, lengths, rng)
        order = np.lexsort((rng.random(rows), lengths, shape))
        middle = order[np.cumsum(count) - count // 2 - 1]
        made, taken = self._distinct(shape[middle], lengths[middle], rng), np.empty(rows, np.int64)
        taken[order] = value
        return made.take(pa.array(taken))

    def _distinct(
        self, shapes: NDArray[np.int64], lengths: NDArray[np.int64], rng: np.random.Generator
    ) -> pa.Array:
        """One text each, all different as far as length allows; codes, where words run out."""
        made = made_text(shapes, lengths, rng)
        for first in (True, False, False):
            keys = factorize(pa.concat_arrays([pa.array(self.labels or (), made.type), made]))
            again = np.flatnonzero(later_duplicates(keys, np.ones(len(keys), np.bool_)))
            again = again[again >= len(keys) - len(made)] - (len(keys) - len(made))
            if not len(again):
                break
            places = np.arange(len(made))
            places[again] = len(made) + np.arange(len(again))
            shape = shapes[again] if first else np.full(len(again), SHAPES.index("code"))
            new = made_text(shape, lengths[again], rng).cast(made.type)
            made = pa.concat_arrays([made, new]).take(pa.array(places))
        return made

    def to_json(self) -> dict[str, Any]:
        """Labels, edges and the semantic type."""
        return {
            **self.header(),
            "labels": None if self.labels is None else list(self.labels),
            "lengths": None if self.lengths is None else list(self.lengths),
            "provider": self.provider,
            **({} if self.surrogates is None else {"surrogates": list(self.surrogates)}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The codec that `to_json` wrote."""
        labels, lengths, provider = data["labels"], data["lengths"], data["provider"]
        if provider is not None and provider not in providers():
            raise ValueError("there is no such provider of made-up text")
        return cls(
            **cls.head_from_json(data),
            labels=None if labels is None else tuple(str(label) for label in labels),
            lengths=None if lengths is None else tuple(int(edge) for edge in lengths),
            provider=provider,
            surrogates=surrogates_from_json(data.get("surrogates")),
        )


def _present(
    codes: AnyCodes, cells: int, chosen: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Cells of the chosen rows; where one says NULL, that of a row drawn from those that do not.

    A learner may sample a text that is there with the length of one that is not.
    """
    found = codes[chosen].astype(np.int64)
    lost = np.flatnonzero(found >= cells)
    known = np.flatnonzero(codes < cells)
    if len(lost):
        found[lost] = codes[rng.choice(known, len(lost))] if len(known) else 0
    return found
