"""text, varchar, char, name, citext: labels that may be released, lengths and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.base import (
    CategoriesNeed,
    Codec,
    ColumnReader,
    Need,
    Released,
    attribute,
    concatenate,
)
from privbench.encoding.categories import MAX_LABEL, collect_labels, label_piece, released_labels
from privbench.encoding.checks import Limits, length_limits
from privbench.encoding.column_names import (
    Semantic,
    by_name,
    default_label,
    is_kind,
    is_own,
    of_table,
    plain_name,
    usual_labels,
)
from privbench.encoding.fallback import FillReader
from privbench.encoding.scale import int64_points
from privbench.encoding.shapes import SHAPES, shapes
from privbench.encoding.surrogates import declared
from privbench.encoding.text_codec import (
    WORD,
    TextCodec,
    length_cells,
    length_domain,
    length_edges,
    shape_domain,
)
from privbench.errors import ConfigError
from privbench.privacy.data import (
    NULL,
    Attribute,
    Cells,
    EdgesRecoding,
)
from privbench.schema import Column, Table

#: Usual labels to count where no list could be released at all (δ = 0).
_FEW = 32
#: Most public candidates that are counted beside a list.
_PUBLIC = 256


@dataclass(frozen=True)
class TextReader(ColumnReader):
    """Reads labels (under δ) and, without a semantic type, length and shape.

    Attributes:
        least: Least length.
        greatest: Greatest length, or None.
        per_unit: Distinct values that one unit may propose; 0 means that no label is read.
        provider: Semantic type of text that is not a label, or None.
        usual: Public labels to count where none are released, the most usual first.
        title: The column's name without its table's prefix.
        named: Whether its name tells them, not its default alone.
    """

    least: int = 0
    greatest: int | None = None
    per_unit: int = 0
    provider: str | None = None
    usual: tuple[str, ...] = ()
    title: str = ""
    named: bool = False

    @property
    def shaped(self) -> bool:
        """Whether length and shape are measured."""
        return self.provider is None

    @property
    def attributes(self) -> tuple[str, ...]:
        """The label, the length and the shape, as far as they are read."""
        parts = (attribute(self.name, "length"), attribute(self.name, "shape"))
        return ((self.name,) if self.labelled else ()) + (parts if self.shaped else ())

    @property
    def labelled(self) -> bool:
        """Whether texts are read that may be labels."""
        return bool(self.per_unit or self.usual)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The category list, where labels are read."""
        if not self.per_unit:
            return ()
        kind = is_kind(self.title)
        own = is_own(self.title) and not (kind or self.named)
        blank = ("",) if self.least == 0 else ()
        public = tuple(dict.fromkeys((*blank, *self.usual)))[:_PUBLIC]
        length = self.greatest
        need = CategoriesNeed(
            self.name, self.per_unit, kind, self.usual, own, length, public=public
        )
        return (need,)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        """The first characters and the length."""
        kept = MAX_LABEL + 1 if self.labelled else MAX_LABEL // 2
        whole = sql.SQL(self.column.type.text_form).format(identifier)
        text = sql.SQL("pg_catalog.left({}, {})").format(whole, sql.Literal(kept))
        length = sql.SQL("pg_catalog.char_length({})::bigint").format(whole)
        return [(text, self.alias()), *([(length, self.alias("n"))] if self.shaped else [])]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """Dictionary, length cell and shape class of every text."""
        text = batch[self.alias()]
        pieces: dict[str, Any] = {}
        if self.labelled:
            pieces[self.name] = label_piece(text)
        if self.shaped:
            length, shape = self.attributes[-2:]
            points = int64_points(batch[self.alias("n")])
            pieces[length] = self._lengths.apply(points)
            domain = shape_domain(self.nullable)
            null = len(SHAPES) - (not self.nullable)
            codes = np.where(points == NULL, null, shapes(text))
            pieces[shape] = codes.astype(domain.dtype)
        return pieces

    def collect(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Attribute]:
        """Labels and cells."""
        found: dict[str, Attribute] = {}
        if self.labelled:
            found[self.name] = collect_labels([piece[self.name] for piece in pieces])
        if self.shaped:
            lengths = length_domain(self._lengths.edges, self.nullable, self.labelled)
            domains = (lengths, shape_domain(self.nullable))
            for name, domain in zip(self.attributes[-2:], domains, strict=True):
                found[name] = Cells(concatenate(pieces, name, domain.dtype), domain)
        return found

    @property
    def _lengths(self) -> EdgesRecoding:
        return length_cells(length_edges(self.least, self.greatest), self.nullable, WORD)

    def finish(self, released: Mapping[str, Released]) -> Codec:
        """The codec of the released labels, else of the usual ones."""
        usual = self.usual[:_FEW] or None
        labels = released_labels(released, self.name) if self.per_unit else usual
        return TextCodec(
            self.name,
            self.column.type,
            self.nullable,
            labels,
            self._lengths.edges if self.shaped else None,
            self.provider,
        )

    def describe(self) -> tuple[str, str]:
        """Labels and what stands in for the rest."""
        rest = f"made-up {self.provider}" if self.provider else "made-up text of length and shape"
        public = "usual labels" if self.named else "the default"
        rest = f"{public} or {rest}" if self.usual else rest
        if self.per_unit:
            return f"released labels, else {rest}", "labels of enough units, under δ"
        if self.usual:
            why = "name" if self.named else "default"
            return rest, f"public labels by the column's {why}; others are never copied"
        return f"free text: {rest}", "text is never copied"


def text_reader(
    table: Table,
    column: Column,
    config: ColumnConfig,
    delta: float,
    limits: tuple[Limits, ...],
    *,
    unique: bool,
    checked: bool = False,
    room: int | None = None,
) -> ColumnReader:
    """The reader of a text column without a declared list.

    Args:
        table: The table.
        column: The column.
        config: What the config says of it.
        delta: δ of the release; 0 forbids labels.
        limits: What CHECK constraints say.
        unique: Whether the column alone is UNIQUE (its values cannot be categories then).
        checked: Whether a CHECK or a partition key may speak of the column: usual labels might
            not be among what it allows.
        room: Greatest length that the column's indexes can hold, or None.

    Raises:
        ConfigError: Categories without a list at δ = 0, or an unknown semantic type.
    """
    if config.kind == "categories" and delta == 0:
        raise no_delta(table.key, column)
    declared_length = 63 if column.type.base == "name" else column.type.length
    if room is not None:
        declared_length = min(declared_length or room, room)
    least, greatest = length_limits(limits, declared_length)
    listed = config.kind == "categories" or (config.kind == "auto" and not unique)
    per_unit = config.per_unit if listed and delta > 0 else 0
    title = plain_name(column.name, table)
    kind = _semantic(table, column, title, config)
    usual, named = _public_labels(table, column, title, (least, greatest), listed and not checked)
    if kind is None or (per_unit and (kind.listed or config.kind == "categories")):
        provider = None if kind is None else kind.provider
        return TextReader(
            table.key, column, least, greatest, per_unit, provider, usual, title, named
        )
    why = "named in the config" if config.faker else "by the column's name"
    said = not column.not_null or (column.default or "").startswith("''")
    blank = not unique and least == 0 and said
    rates = "rates of NULL and '' only" if blank else "NULL rate only"
    how = f"made-up {kind.provider}, {rates}"
    return FillReader(table.key, column, f"faker:{kind.provider}", True, how, why, blank)


def _public_labels(
    table: Table, column: Column, title: str, lengths: tuple[int, int | None], allowed: bool
) -> tuple[tuple[str, ...], bool]:
    """Labels to count where none are released, and whether the column's name tells any.

    The default comes first: it is the label that rows have of which nobody said any.
    """
    if not allowed:
        return (), False
    least, greatest = lengths
    usual = usual_labels(title, least, greatest, table=table.name.name)
    longest = MAX_LABEL if greatest is None else min(greatest, MAX_LABEL)
    default = default_label(column, least, longest)
    first = () if default is None else (default,)
    return tuple(dict.fromkeys((*first, *usual))), bool(usual)


def _semantic(table: Table, column: Column, title: str, config: ColumnConfig) -> Semantic | None:
    if config.faker is not None:
        return declared(config.faker, table=table.key, column=column.name)
    if config.kind != "auto":
        return None
    return by_name(column.name) or by_name(title) or of_table(title, table.name.name)


def no_delta(table: str, column: Column) -> ConfigError:
    """The refusal of categories without a list at δ = 0."""
    return ConfigError(
        "categories without a list need delta > 0.",
        table=table,
        column=column.name,
        remedy="Declare the list in 'values', set [privacy] delta, or use kind = \"text\".",
    )
