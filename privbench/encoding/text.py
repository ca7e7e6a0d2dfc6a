"""Columns of text types (text, varchar, char, name, citext): labels, lengths and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql
from pydantic import AfterValidator, BeforeValidator, PlainValidator

from privbench.arrays import Floats, Ints, Rng
from privbench.config import ColumnConfig
from privbench.domain import Domain
from privbench.encoding.base import (
    CategoriesNeed,
    Codec,
    CodeMap,
    ColumnReader,
    Need,
    ReleasedDomain,
    attribute,
    null_mask,
)
from privbench.encoding.categories import LONG, MAX_LABEL, LabelReader, label_piece, released_labels
from privbench.encoding.filled import fill_reader
from privbench.encoding.keys.columns import index_room
from privbench.encoding.ordered import OrderedCodec, OrderedReader, ordered_part
from privbench.encoding.scale import int64_points
from privbench.encoding.surrogate_text import (
    MAX_LENGTH,
    SHAPES,
    WORD,
    in_one_order,
    is_format,
    length_cells,
    length_domain,
    length_edges,
    made_text,
    settled,
    shape_domain,
    shapes,
)
from privbench.encoding.surrogates import (
    KIND,
    Surrogates,
    declared,
    known_provider,
    made_distinct,
    made_semantic,
    surrogates_from_json,
    times,
)
from privbench.encoding.text_formats import (
    GREATEST,
    beginnings_of,
    days_of,
    has_template,
    numbers_after,
)
from privbench.encoding.text_words import (
    CUT,
    SPARE,
    FirstCharacters,
    WordShares,
    WordsNeed,
    with_firsts,
    word_piece,
    worded,
)
from privbench.encoding.uniqueness import factorize, later_duplicates, replace_rows
from privbench.errors import ConfigError
from privbench.privacy.recoding import NULL, EdgesRecoding, LabelsRecoding, Recoding
from privbench.rules import named as names
from privbench.rules.facts import column_rules, length_limits
from privbench.schema import Column, ColumnType, Table

#: Up to this share of a column, rows without a label are taken for noise if the released counts by
#: rank show no such rows: where labels are released, the noise of a histogram cell stays below a
#: fiftieth. With twice this share, real values would become labels; with half of it, a few rows of
#: noise would become values of their own.
_NOISE = 0.05
#: Share of a column's numbers, codes and addresses, the longest ones, that is taken for noise.
_LONG = 0.01
#: Up to this share, rows without a label that the counts by rank do not show are taken to have a
#: few values. A larger share can only be many rare values, as noise would not have hidden a few.
#: With half or twice this share, columns in between get 10 values instead of 1,000 or vice versa.
_FEW = 1 / 3
#: Kinds of surrogate text that name no person: their texts have words like any other.
_OPEN = frozenset({"company", "street_address", "url"})
#: Kinds that are secrets: not even first letters of them are released.
_SECRET = frozenset({"password", "sha1", "sha256", "md5"})
#: Shapes of texts that are made from a template.
_TEMPLATED = [code for code, name in enumerate(SHAPES) if has_template(name) and name[:3] != "url"]
#: What is read of a text without words whose value is no possible label.
_SHAPED = MAX_LABEL // 2


_DATE = ColumnType("date", "date", category="D")


@dataclass(frozen=True)
class TextCodec(Codec):
    """Turns a code into its released label, or into surrogate text if it has no label."""

    kind: ClassVar[str] = "text"

    labels: tuple[str, ...] | None  # released labels, or None where no release was wanted
    # Edges of the length cells, or None where they are not measured.
    lengths: tuple[int, ...] | None
    provider: Annotated[str, AfterValidator(known_provider)] | None  # the semantic type, or None
    # How often each text without a label occurs: empty if all texts are labels, None if it is not
    # known.
    surrogates: Annotated[Surrogates, BeforeValidator(surrogates_from_json)] | None = None
    # Codec of the days on which texts lie that are dates.
    dates: Annotated[OrderedCodec, PlainValidator(OrderedCodec.from_json)] | None = None
    begun: bool = False  # whether the labels are what texts begin with (`beginnings_of`)
    pieces: WordShares = ()  # released words of the texts without a label
    firsts: FirstCharacters = ()  # first characters of these texts

    def __post_init__(self) -> None:
        """Refuse days that are not those of a reader."""
        if self.dates is not None and (
            self.lengths is None
            or (self.dates.column, self.dates.type) != (attribute(self.column, "date"), _DATE)
            or not self.dates.nullable
        ):
            raise ValueError("the days of a text are not those of its dates")

    @property
    def domains(self) -> dict[str, Domain]:
        result = {}
        if self.labels is not None:
            result[self.column] = self._labels.domain
        if self.lengths is not None:
            lengths = length_domain(self.lengths, self.nullable, self.labels is not None)
            result[attribute(self.column, "length")] = lengths
            result[attribute(self.column, "shape")] = shape_domain(self.nullable)
        return result | (self.dates.domains if self.dates else {})

    def with_surrogates(self, laws: Mapping[str, Surrogates | None]) -> TextCodec:
        return replace(self, surrogates=laws.get(self.column))

    @property
    def listed(self) -> tuple[str, ...] | None:
        return None if self.begun else self.labels

    @property
    def _labels(self) -> LabelsRecoding:
        return LabelsRecoding(self.labels or (), True, self.nullable)

    @property
    def recodings(self) -> dict[str, Recoding]:
        days = self.dates.recodings if self.dates else {}
        return days | ({} if self.labels is None else {self.column: self._labels})

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return labels and surrogate text; NULL where the first attribute has the code of NULL."""
        first, domain = next(iter(self.domains.items()))
        null = null_mask(codes[first], domain)
        # The position of the released label, −1 for other text.
        label = np.full(len(null), -1, dtype=np.int64)
        if self.labels:
            labels_drawn = codes[self.column].astype(np.int64)
            label = np.where(labels_drawn < len(self.labels), labels_drawn, -1)
        if self.begun:
            there = np.flatnonzero(~null)
            begun = pa.array(self.labels or ("",)).take(
                pa.array(label[there], mask=label[there] < 0)
            )
            texts = self._made(codes, there, None, rng).cast(pa.string())
            most = self.type.length or MAX_LENGTH
            texts = numbers_after(begun, texts, most, rng)
            return texts.take(pa.array(np.cumsum(~null) - 1, mask=null))
        made_rows, named = np.flatnonzero((label < 0) & ~null), np.flatnonzero(label >= 0)
        surrogates, share = self.surrogates, len(made_rows) / max(len(made_rows) + len(named), 1)
        if surrogates == () and share < _NOISE:
            label[made_rows] = rng.choice(label[named], len(made_rows)) if len(named) else -1
            made_rows = np.flatnonzero((label < 0) & ~null)
        elif surrogates == ():
            surrogates = KIND if share < _FEW else None
        texts = self._made(codes, made_rows, surrogates, rng)
        pool = pa.array(self.labels or (), texts.type)
        places = np.where(label >= 0, label, 0)
        places[made_rows] = len(pool) + np.arange(len(made_rows))
        both = pa.concat_arrays([pool, texts])
        return both.take(pa.array(places, mask=null))

    def _made(
        self, codes: CodeMap, chosen: Ints, surrogates: Surrogates | None, rng: Rng
    ) -> pa.Array:
        """Surrogate texts; rows that share a text have similar sampled shapes and lengths."""
        rows = len(chosen)
        count = rng.permutation(times(surrogates, rows)) if surrogates else None
        edges = np.array(self.lengths or (), dtype=np.int64)
        blank = edges[:2].tolist() == [0, 1]
        cell = np.ones(rows, np.int64)
        if self.lengths is not None:
            # Texts beside the labels are not empty if the empty text is one of these.
            least = int("" in (self.labels or ()) and blank and len(edges) > 2)
            coded = codes[attribute(self.column, "length")]
            cell = _present(coded, len(edges) - 1, chosen, rng, least)
        if self.lengths is None or (self.provider is not None and not self.pieces):
            provider, most = self.provider or "word", self.type.length
            weights = np.ones(rows) if count is None else count
            make = made_semantic if count is None else made_distinct
            some = len(weights)
            texts = make(provider, some + (some + SPARE if self.firsts else 0), rng, most)
            texts = with_firsts(texts[:some], self.firsts, weights, rng, spare=texts[some:])
            if count is not None:
                texts = texts.take(
                    pa.array(rng.permutation(np.repeat(np.arange(len(count)), count)))
                )
            empty = pa.array(blank & (cell == 0))
            return pc.if_else(empty, pa.scalar("", texts.type), texts)
        shape = _present(codes[attribute(self.column, "shape")], len(SHAPES), chosen, rng)
        shape = settled(shape, 2 * _NOISE, self.labels or (), rng)
        lengths = np.minimum(rng.integers(edges[cell], edges[cell + 1], dtype=np.int64), MAX_LENGTH)
        if (formats := is_format(shape)).any():
            # One number with as many digits as noise alone gives it would outweigh a column's sum.
            most = np.quantile(lengths[formats], 1 - _LONG, method="lower")
            lengths = np.where(formats, np.minimum(lengths, most), lengths)
        days = None
        if self.dates is not None:
            shape, date_codes = in_one_order(shape), codes[self.dates.column]
            date = _present(date_codes, self.dates.recoding.domain.size - 1, chosen, rng)
            lows, highs = self.dates.cells()
            days = self.dates.scale.draw(lows[date], highs[date], rng)
            if 2 * is_format(shape).sum() > rows:
                # Their own law says how often dates occur.
                count = None
        if count is None:
            return self._fitting(shape, lengths, np.ones(rows, np.int64), rng, days)
        order = np.lexsort((rng.random(rows), lengths, shape))
        middle = order[np.cumsum(count) - count // 2 - 1]
        days = None if days is None else days[middle]
        texts = self._distinct(shape[middle], lengths[middle], count, rng, days)
        positions = np.empty(rows, np.int64)
        positions[order] = np.repeat(np.arange(len(count)), count)
        return texts.take(pa.array(positions))

    def _distinct(
        self, shapes: Ints, lengths: Ints, count: Ints, rng: Rng, days: Ints | None
    ) -> pa.Array:
        """One text for each pair of shape and length; all differ as far as the lengths allow.

        ``count`` is the number of rows that each text is for.
        """
        texts = self._fitting(shapes, lengths, count, rng, days)
        for first in (True, False, False):
            keys = factorize(pa.concat_arrays([pa.array(self.labels or (), texts.type), texts]))
            again = np.flatnonzero(later_duplicates(keys, np.ones(len(keys), np.bool_)))
            again = again[again >= len(keys) - len(texts)] - (len(keys) - len(texts))
            if not len(again):
                break
            # A text of a format stays one, even if it has to be made twice.
            shape = np.where(first | is_format(shapes[again]), shapes[again], SHAPES.index("code"))
            later = None if days is None else days[again]
            new = self._fitting(shape, lengths[again], count[again], rng, later).cast(texts.type)
            texts = replace_rows(texts, again, new)
        return texts

    def _fitting(
        self,
        shapes: Ints,
        lengths: Ints,
        count: NDArray[np.integer[Any]],
        rng: Rng,
        days: Ints | None,
    ) -> pa.Array:
        """Texts of some shapes; plain words where a format does not fit the column's length."""
        texts = self._texts(shapes, lengths, count.astype(np.float64), rng, days)
        sizes = np.asarray(pc.utf8_length(texts))
        assert self.lengths is not None
        bad = np.flatnonzero((sizes < self.lengths[0]) | (sizes >= self.lengths[-1]))
        words = np.full(len(bad), SHAPES.index("lower"))
        new = made_text(words, lengths[bad], rng).cast(texts.type)
        return replace_rows(texts, bad, new) if len(bad) else texts

    def _texts(
        self, shapes: Ints, lengths: Ints, weights: Floats, rng: Rng, days: Ints | None
    ) -> pa.Array:
        """Texts of some shapes: numbers with released first digits, words that are released."""
        if not (self.pieces or self.firsts):
            return made_text(shapes, lengths, rng, days)
        assert self.lengths is not None
        numbers = (shapes == SHAPES.index("digits")) & ~np.isin(lengths, GREATEST)
        digits = tuple(one for one in self.firsts if 0x30 <= one[0] < 0x3A)
        rows = np.flatnonzero(~np.isin(shapes, _TEMPLATED) & (lengths > 0))
        rest = lengths.copy()
        rest[rows] = 0
        texts = with_firsts(made_text(shapes, rest, rng, days), digits, weights, rng, numbers)
        if not len(rows):
            return texts
        some = shapes[rows], lengths[rows], weights[rows], self.lengths[-1] - 1
        new, front = worded(self.pieces, *some, rng)
        new = with_firsts(new, self.firsts, some[2], rng, front)
        return replace_rows(texts, rows, new.cast(texts.type))


def _present(
    codes: NDArray[np.integer[Any]], cells: int, chosen: Ints, rng: Rng, least: int = 0
) -> Ints:
    """The cells of the chosen rows; NULL is replaced by the cell of a random row without NULL.

    So are cells before the `least`.
    """
    result = codes[chosen].astype(np.int64)
    # A learner may sample a present text together with the length code of NULL.
    lost = np.flatnonzero((result >= cells) | (result < least))
    known = np.flatnonzero((codes < cells) & (codes >= least))
    if len(lost):
        result[lost] = codes[rng.choice(known, len(lost))] if len(known) else least
    return result


@dataclass(frozen=True)
class LookupReader(LabelReader):
    """Reads a reference to a look-up table with a readable key as labels (`ForeignKey.natural`).

    It selects the referring column alone, and nothing of the look-up. So the value that is read is
    a map of that row, and removing a row of the look-up changes no row here. A query on the column
    is charged to the units of the referring table, like a query on any other column.
    """

    @property
    def needs(self) -> tuple[Need, ...]:
        return super().needs if self.per_unit else ()

    def finish(self, released: Mapping[str, ReleasedDomain]) -> Codec:
        labels = released_labels(released, self.name) if self.per_unit else ()
        return TextCodec(*self.head, labels, None, None)

    def describe(self) -> tuple[str, str]:
        return "labels of a look-up, released list", "natural key; used by enough units, under δ"


#: Most default labels that are counted where no list can be released (δ = 0).
_LABELS_UNRELEASED = 32
#: Most public candidates that are counted where a list is released.
_PUBLIC = 256


@dataclass(frozen=True)
class TextReader(ColumnReader):
    """Reads labels (under δ) and, for texts without a semantic type, length and shape."""

    least: int = 0
    greatest: int | None = None  # greatest length, or None
    per_unit: int = 0  # distinct values that one unit may propose; 0 means that no label is read
    provider: str | None = None  # semantic type of text that is not a label, or None
    # Public labels to count where none are released, the most frequent first.
    default_labels: tuple[str, ...] = ()
    title: str = ""  # the column's name without its table's prefix
    named: bool = False  # whether its name suggests default labels, not its DEFAULT alone
    pieces: bool = False  # whether words of the texts without a label may be released
    begun: bool = False  # whether what texts begin with is read as labels (`beginnings_of`)

    @property
    def shaped(self) -> bool:
        """Whether length and shape are measured."""
        return self.provider is None or (self.pieces and self.provider in _OPEN)

    @cached_property
    def days(self) -> OrderedReader | None:
        """The reader of days, if the column's name suggests that texts are dates, or None."""
        if not self.shaped or not names.is_moment(self.title or self.name):
            return None
        part = Column(attribute(self.name, "date"), self.column.position, _DATE)
        return ordered_part(self.table, part, title=self.title or self.name, spelled=True)

    @property
    def attributes(self) -> tuple[str, ...]:
        parts = (*self._measured, *(self.days.attributes if self.days else ()))
        words = () if self.words is None else (self.words.attribute,)
        return ((self.name,) if self.labelled else ()) + words + (parts if self.shaped else ())

    @property
    def words(self) -> WordsNeed | None:
        if not self.pieces:
            return None
        whole = self.name if self.labelled else ""
        return WordsNeed(attribute(self.name, "words"), whole, self.shaped, self.shaped)

    @property
    def _measured(self) -> tuple[str, str]:
        return attribute(self.name, "length"), attribute(self.name, "shape")

    @property
    def labelled(self) -> bool:
        """Whether texts are read as possible labels."""
        return bool(self.per_unit or self.default_labels)

    @property
    def needs(self) -> tuple[Need, ...]:
        days = self.days.needs if self.days else ()
        if not self.per_unit:
            return days
        kind = names.is_kind(self.title)
        own = self.begun or (names.is_own(self.title) and not (kind or self.named))
        blank = ("",) if self.least == 0 and not (self.begun and self.shaped) else ()
        public = tuple(dict.fromkeys((*blank, *self.default_labels)))[:_PUBLIC]
        length = self.greatest
        need = CategoriesNeed(
            self.name, self.per_unit, kind, self.default_labels, own, length, public=public
        )
        return (need, *days)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        longest = MAX_LABEL + 1 if self.labelled else _SHAPED
        longest = max(longest, CUT) if self.pieces else longest
        whole = sql.SQL(self.column.type.text_form).format(identifier)
        length = sql.SQL("pg_catalog.char_length({})::bigint").format(whole)
        return [
            (self.text(identifier, longest), self.alias()),
            *([(length, self.alias("n"))] if self.shaped else []),
        ]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        text = batch[self.alias()]
        pieces: dict[str, Any] = {}
        if self.labelled:
            pieces[self.name] = label_piece(beginnings_of(text, LONG) if self.begun else text)
        if self.words is not None:
            pieces[self.words.attribute] = word_piece(text, None if self.words.listed else False)
            text = pc.utf8_slice_codeunits(text, 0, MAX_LABEL + 1 if self.labelled else _SHAPED)
        if self.shaped:
            length, shape = self._measured
            points = int64_points(batch[self.alias("n")])
            pieces[length] = self._lengths.apply(points)
            domain = shape_domain(self.nullable)
            null = len(SHAPES) - (not self.nullable)
            codes = np.where(points == NULL, null, shapes(text))
            pieces[shape] = codes.astype(domain.dtype)
        if self.days is not None:
            pieces |= self.days.read({self.days.alias(): days_of(text)})
        return pieces

    @property
    def cells(self) -> dict[str, Domain]:
        if not self.shaped:
            return {}
        length, shape = self._measured
        lengths = length_domain(self._lengths.edges, self.nullable, self.labelled)
        return {length: lengths, shape: shape_domain(self.nullable)}

    @property
    def _lengths(self) -> EdgesRecoding:
        return length_cells(length_edges(self.least, self.greatest), self.nullable, WORD)

    def finish(self, released: Mapping[str, ReleasedDomain]) -> Codec:
        public = self.default_labels[:_LABELS_UNRELEASED] or None
        labels = released_labels(released, self.name) if self.per_unit else public
        lengths = self._lengths.edges if self.shaped else None
        days = self.days.finish(released) if self.days else None
        labels = None if self.begun and self.shaped and not labels else labels
        return TextCodec(*self.head, labels, lengths, self.provider, dates=days, begun=self.begun)

    def describe(self) -> tuple[str, str]:
        rest = (
            f"surrogate {self.provider}" if self.provider else "surrogate text of length and shape"
        )
        rest += ", dates with bounds released" if self.days else ""
        public = "default labels" if self.named else "the default"
        rest = f"{public} or {rest}" if self.default_labels else rest
        if self.words is not None:
            rest += " of released words" if self.words.listed else ", first letters released"
        if self.begun:
            return f"released beginnings, {rest}", "those of enough units, under δ"
        if self.per_unit:
            return f"released labels, else {rest}", "labels of enough units, under δ"
        if self.default_labels:
            why = "name" if self.named else "default"
            return rest, f"public labels by the column's {why}; others are never copied"
        return f"free text: {rest}", "text is never copied"


def text_reader(
    table: Table, column: Column, config: ColumnConfig, delta: float, *, unique: bool
) -> ColumnReader:
    """Return the reader of a text column without a declared list.

    The values of a column that is UNIQUE by itself cannot be categories. A column that a CHECK or a
    partition key may read gets no default labels, since they might not be allowed there.
    """
    if config.kind == "categories" and delta == 0:
        raise no_delta(table.key, column)
    declared_length = 63 if column.type.base == "name" else column.type.length
    room = index_room(table, column.name)
    if room is not None:
        declared_length = min(declared_length or room, room)
    least, greatest = length_limits(column_rules(table, column), declared_length)
    listed = config.kind == "categories" or (config.kind == "auto" and not unique)
    per_unit = config.per_unit if listed and delta > 0 else 0
    if column.dated:
        return TextReader(table.key, column, least, greatest, title="date")
    title = names.plain_name(column.name, table)
    kind = _semantic(table, column, title, config)
    allowed = listed and not _spoken_of(table, column)
    labels, named = _public_labels(table, column, title, (least, greatest), allowed)
    pieces = config.pieces and config.kind == "auto"
    begun = config.kind == "auto" and delta > 0 and not _spoken_of(table, column)
    if begun and unique and kind is None:
        head = (table.key, column, least, greatest, config.per_unit)
        return TextReader(*head, title=title, pieces=pieces, begun=True)
    provider = None if kind is None else kind.provider
    open_ = pieces and provider in _OPEN and delta > 0
    if open_ or kind is None or (per_unit and (kind.listed or config.kind == "categories")):
        per_unit = per_unit if kind is None or kind.listed or not open_ else 0
        return TextReader(
            table.key, column, least, greatest, per_unit, provider, labels, title, named, pieces
        )
    why = "named in the config" if config.faker else "by the column's name"
    measures_null = not column.not_null or (column.default or "").startswith("''")
    blank = not unique and least == 0 and measures_null
    rates = "rates of NULL and '' only" if blank else "NULL rate only"
    how = f"surrogate {kind.provider}, {rates}"
    reader = fill_reader(table.key, column, f"faker:{kind.provider}", how, why, blank=blank)
    if not config.pieces or kind.provider in _SECRET:
        return reader
    return replace(reader, hosts=kind.provider == "email")


def _spoken_of(table: Table, column: Column) -> bool:
    """Whether a CHECK, the column's domain or a partition key may read a column."""
    # A CHECK that names no column may read the whole row.
    named = any(column.name in check.columns or not check.columns for check in table.checks)
    parted = table.partition_key is not None and column.name in table.partition_key
    return named or parted or bool(column.type.domain_checks)


def _public_labels(
    table: Table, column: Column, title: str, lengths: tuple[int, int | None], allowed: bool
) -> tuple[tuple[str, ...], bool]:
    """Public labels to use where none are released, and whether the column's name suggests any."""
    if not allowed:
        return (), False
    least, greatest = lengths
    suggested = names.suggested_labels(title, least, greatest, table=table.name.name)
    longest = MAX_LABEL if greatest is None else min(greatest, MAX_LABEL)
    default = names.default_label(column, least, longest)
    # The DEFAULT is likely to be the most frequent value.
    first = () if default is None else (default,)
    return tuple(dict.fromkeys((*first, *suggested))), bool(suggested)


def _semantic(
    table: Table, column: Column, title: str, config: ColumnConfig
) -> names.Semantic | None:
    if config.faker is not None:
        return declared(config.faker, table=table.key, column=column.name)
    if config.kind != "auto":
        return None
    return (
        names.by_name(column.name) or names.by_name(title) or names.of_table(title, table.name.name)
    )


def no_delta(table: str, column: Column) -> ConfigError:
    """Return the error that refuses categories without a declared list at δ = 0."""
    return ConfigError(
        "categories without a list need delta > 0.",
        table=table,
        column=column.name,
        remedy="Declare the list in 'values', set [privacy] delta, or use kind = \"text\".",
    )
