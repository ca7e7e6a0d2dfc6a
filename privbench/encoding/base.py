"""The interface of encoders: `ColumnReader` reads private values, `Codec` makes synthetic ones.

A reader is a public plan made from the catalog and the config. It says which SQL expressions to
select, turns the streamed Arrow batches into coded attributes, and names what must be released
(bounds, category lists) before the attributes can be measured. `ColumnReader.finish` takes what was
released and returns the codec, which is part of the model: it turns codes back into values that are
valid input for the column's type. A codec never sees a private row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql
from pydantic import TypeAdapter

from privbench.arrays import AnyInts, Ints, Mask, Rng
from privbench.domain import Domain, PublicValues
from privbench.encoding.bounds import Bounds, BoundsNeed
from privbench.encoding.text_words import FirstCharacters, WordPiece, WordShares, WordsNeed
from privbench.privacy.data import Attribute, Cells, Grid, Labels, Words
from privbench.privacy.recoding import Recoding, points_as
from privbench.privacy.spec import PART
from privbench.rules.facts import type_with_rules
from privbench.schema import Column, ColumnType

CodeMap = Mapping[str, NDArray[np.integer[Any]]]


#: The greatest number of decimals that is distinguished; the code of numbers with more decimals;
#: and the code of zero, which lies on every decimal grid and so has a cell of its own.
MOST, MORE, ZERO = 6, 7, -9
#: The number of decimals to assume where nothing is known of a column.
DEFAULT_DECIMALS = 2


@dataclass(frozen=True)
class PartNeed:
    """A need to release the step of an attribute's values, or their shares of weekdays or hours.

    It takes place before the attribute's cells are measured, or together with them. A step is the
    largest unit of which nearly all values are multiples: a number of decimals, or years, months,
    weeks, days, hours and so on. The query is one histogram over a few public cells: one for zero
    and one for each step, or one for each weekday or hour (`cycle`). It is the query of bounds
    (`GridHistogram`), with the same sensitivity. A row counts for the coarsest step that its value
    is a multiple of, or for its value's weekday or hour; either follows from that value alone, so
    that a row adds its weight to one cell at most.
    """

    # A `Grid` of small integers (`Scale.steps_of`, `Scale.cycle_of`), for this release alone.
    attribute: str
    # Steps to distinguish, the coarsest first; the last is for all other values. Of a cycle the
    # places but the first.
    choices: range = range(MORE + 1)
    default: int = DEFAULT_DECIMALS  # the step to take where nothing but zeros is found
    cycle: bool = False
    # For every step, the shares of its multiples that count for each step; () where the shares of
    # steps are not kept.
    chances: tuple[tuple[float, ...], ...] = ()
    # Sizes of steps, where one may be no multiple of those after it (60 and 50); else ().
    sizes: tuple[int, ...] = ()

    @property
    def candidates(self) -> Ints:
        return np.array(self.choices, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Step:
    """A released step, of which nearly all values are multiples, or shares of weekdays or hours."""

    # One of the need's choices, of which the last stands for values on no grid; None where the
    # signal is below the noise. For numbers, −2 means multiples of 100.
    choice: int | None = None
    # Shares of the values that are drawn among the multiples of each step, or of the places in a
    # cycle, with the sum 1; () where noise hides them.
    law: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class CategoriesNeed:
    """A list of a column's values to release by a stability threshold, which needs δ."""

    attribute: str  # the attribute, a `Labels`
    per_unit: int = 1  # how many distinct values of one unit are counted, at most
    repeats: bool = False  # whether the column's name suggests that many rows share few values
    default: tuple[str, ...] = ()  # labels to take where none are released, the most frequent first
    own: bool = False  # whether the column's name or type suggests that few rows share a value
    length: int | None = None  # greatest length of a value: fewer rows share a long value
    # The `Grid` attribute whose points are proposed, written in digits; None where texts are.
    grid: str | None = None
    # Candidates that are counted whether or not a row has them, distinct.
    public: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The attribute whose values are candidates for the list."""
        return self.grid or self.attribute


Need = BoundsNeed | PartNeed | CategoriesNeed
#: The result of one release: bounds, a step, the law of a cycle (a step without a choice), or a
#: sorted list of categories.
ReleasedDomain = Bounds | Step | tuple[str, ...]


#: How a column is covered of which no value is measured begins with this.
PLACEHOLDER = "valid placeholder"


@dataclass(frozen=True, slots=True)
class CoverageLine:
    """One line of the coverage map: what the clone will hold for a column, and the reason."""

    table: str
    column: str
    how: str
    why: str


def head(column: Column) -> tuple[str, ColumnType, bool]:
    """Return the fields that every codec has: name, type, and whether the column is nullable."""
    return column.name, column.type, not column.not_null


@dataclass(frozen=True)
class ColumnReader(ABC):
    """The public plan for reading one modelled column."""

    table: str  # the table's key, for messages
    column: Column  # the column as the catalog states it

    @property
    def name(self) -> str:
        """The column's name, which is also the name of its main attribute."""
        return self.column.name

    @property
    def nullable(self) -> bool:
        """Whether the column may hold NULL."""
        return not self.column.not_null

    @property
    def head(self) -> tuple[str, ColumnType, bool]:
        """The fields that every codec has, see `head`."""
        return head(self.column)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that the column becomes; may be empty."""
        return (self.name,)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The releases that must precede measurements of the attributes."""
        return ()

    @property
    def words(self) -> WordsNeed | None:
        """The release of words of the column's texts, made after all other releases, or None."""
        return None

    def alias(self, part: str = "") -> str:
        """Return a result column's name, unique in the table and short enough for PostgreSQL."""
        return f"c{self.column.position}{part}"

    def text(self, identifier: sql.Composable, size: int) -> sql.Composable:
        """Return the SQL expression for the first ``size`` characters of the column's texts.

        The number of a text's bytes is stored, and shows that a short one is whole in a fifth of
        the time that it takes to count characters. An expression would be computed twice for it.
        """
        whole = sql.SQL(self.column.type.text_form).format(identifier)
        cut = sql.SQL("pg_catalog.left({}, {})").format(whole, sql.Literal(size))
        stored = self.column.type.base in ("text", "varchar")
        if not stored or not isinstance(identifier, sql.Identifier):
            return cut
        form = "CASE WHEN pg_catalog.octet_length({}) <= {} THEN {} ELSE {} END"
        return sql.SQL(form).format(whole, sql.Literal(size), whole, cut)

    @abstractmethod
    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        """Return SQL expressions over the column (int8, float8, text or bool), with aliases."""

    @property
    def known(self) -> dict[str, PublicValues]:
        """What is publicly known of the values of each expression of `select`, by alias."""
        return {}

    @abstractmethod
    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        """Encode one batch of selected values, given by alias, as a piece of every attribute."""

    @property
    def cells(self) -> dict[str, Domain]:
        """The domains of the attributes that are read as codes because their cells are public."""
        return {}

    @property
    def labelled(self) -> bool:
        """Whether the main attribute is read as labels."""
        return False

    def collect(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Attribute]:
        """Join all pieces, in order, into attributes of the private database."""
        result: dict[str, Attribute] = {}
        cells = self.cells
        for name in self.attributes:
            if name in cells:
                codes = _concatenate(pieces, name, cells[name].dtype)
                result[name] = Cells(codes, cells[name])
            elif name == self.name and self.labelled:
                result[name] = _labels([piece[name] for piece in pieces])
            elif self.words is not None and name == self.words.attribute:
                result[name] = _words([piece[name] for piece in pieces])
            else:
                result[name] = Grid(_points(pieces, name))
        return result

    @abstractmethod
    def finish(self, released: Mapping[str, ReleasedDomain]) -> Codec:
        """Return the codec, given the released answers to the reader's needs."""

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """Return how the column is covered, and why, for the coverage map."""


@dataclass(frozen=True)
class SettledReader(ColumnReader):
    """A reader whose codec is public, so that nothing need be released before measurements."""

    codec: Codec  # the codec, whose domains are those of the attributes that are read
    how: str  # how the column is covered, for the coverage map
    why: str  # why it is covered in this way, for the coverage map

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(self.codec.domains)

    @property
    def cells(self) -> dict[str, Domain]:
        return self.codec.domains

    def finish(self, released: Mapping[str, ReleasedDomain]) -> Codec:
        return self.codec

    def describe(self) -> tuple[str, str]:
        return self.how, self.why


@dataclass(frozen=True)
class Codec(ABC):
    """The released half of an encoder, which turns codes into values and is stored as JSON."""

    #: The name of this kind of codec in a model.
    kind: ClassVar[str]

    column: str
    type: ColumnType
    nullable: bool  # whether the column may hold NULL

    @property
    @abstractmethod
    def domains(self) -> dict[str, Domain]:
        """The domains of the column's attributes, in order."""

    @property
    def recodings(self) -> dict[str, Recoding]:
        """The public maps from grid points or labels to the cells of each attribute."""
        return {}

    @property
    def since(self) -> str:
        """The column from which this column's values are measured as distances, or ''."""
        return ""

    @property
    def omitted(self) -> bool:
        """Whether the column is left out of the load, so that its default applies."""
        return False

    @abstractmethod
    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return a value for each row, whose CSV form is valid input for the column's type.

        ``codes`` holds one array of shape (rows,) per attribute; the number of rows matters only
        for a column without attributes. Values within a cell are drawn with ``rng``.
        """

    def with_surrogates(self, laws: Mapping[str, Any]) -> Codec:
        """Return the codec with the shares of rows of surrogate values, by attribute."""
        return self

    def with_words(self, pieces: WordShares, firsts: FirstCharacters) -> Self:
        """Return a text codec that makes texts from released words and first characters."""
        words: Any = {"pieces": pieces, "firsts": firsts}
        return replace(self, **words)

    @property
    def listed(self) -> tuple[str, ...] | None:
        """Return the declared values or released labels that the first codes stand for, or None."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the codec as a JSON object for `from_json`; default values are left out."""
        own = {
            field.name: _jsonable(getattr(self, field.name))
            for field in fields(self)[_HEAD:]
            if getattr(self, field.name) != field.default
        }
        return {
            "codec": self.kind,
            "column": self.column,
            "type": type_to_json(self.type),
            "nullable": self.nullable,
            **own,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the codec that a JSON object describes; nothing in the object is trusted.

        Raises:
            KeyError, TypeError, ValueError: The object describes no such codec.
        """
        arguments = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        type_ = type_from_json(data["type"])
        result: Self = _validator(cls).validate_python({**arguments, "type": type_})
        return result


def _jsonable(value: Any) -> Any:
    if isinstance(value, Codec):
        return value.to_json()
    return [_jsonable(item) for item in value] if isinstance(value, tuple) else value


#: Fields that every codec has.
_HEAD = 3


@cache
def _validator(kind: type[Codec]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def attribute(column: str, part: str) -> str:
    """Return the name of a further attribute of a column."""
    return f"{column}{PART}{part}"


def null_mask(codes: NDArray[np.integer[Any]], domain: Domain) -> Mask:
    """Return a mask of the rows whose code stands for NULL."""
    if domain.null_code is None:
        return np.zeros(len(codes), dtype=np.bool_)
    return np.asarray(codes == domain.null_code, dtype=np.bool_)


def _concatenate(pieces: Sequence[Mapping[str, Any]], name: str, dtype: Any) -> NDArray[Any]:
    parts = [np.asarray(piece[name]) for piece in pieces]
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)


def _points(pieces: Sequence[Mapping[str, Any]], name: str) -> AnyInts:
    """Join points of a grid in the widest type of any piece."""
    parts = [np.asarray(piece[name]) for piece in pieces] or [np.empty(0, np.int64)]
    kind = np.result_type(*parts)
    return np.concatenate([points_as(part, kind) for part in parts])


def _labels(pieces: Sequence[pa.DictionaryArray]) -> Labels:
    """Join all pieces under one common dictionary."""
    if not pieces:
        return Labels(np.empty(0, dtype=np.int32), [])
    whole = pa.chunked_array(pieces).unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    codes = np.asarray(whole.indices.fill_null(-1))
    return Labels(codes.astype(np.int32, copy=False), whole.dictionary)


def _words(pieces: Sequence[WordPiece]) -> Words:
    """Join the words of all batches."""
    sizes = _concatenate([{"n": piece.sizes} for piece in pieces], "n", np.int64)
    firsts = _concatenate([{"n": piece.firsts} for piece in pieces], "n", np.int32)
    return Words(_labels([piece.words for piece in pieces]), np.cumsum(sizes), firsts)


_TYPE_FIELDS = ("sql", "base", "kind", "category", "length", "precision", "scale", "element")


def type_to_json(type_: ColumnType) -> dict[str, Any]:
    """Return the properties of a type that a codec uses as a JSON object."""
    return {
        **{name: getattr(type_, name) for name in _TYPE_FIELDS},
        "parts": [
            {**type_to_json(part), "labels": [*part.labels], "checks": [*part.domain_checks]}
            for part in type_.parts
        ],
    }


def type_from_json(data: Mapping[str, Any]) -> ColumnType:
    """Return the type that a JSON object of `type_to_json` describes.

    Only types within it, such as an array's element, keep their labels and the CHECKs of domains.
    """
    known = {name: data[name] for name in _TYPE_FIELDS}
    parts = (
        type_with_rules(
            replace(
                type_from_json(part),
                labels=tuple(map(str, part["labels"])),
                domain_checks=tuple(map(str, part["checks"])),
            )
        )
        for part in data.get("parts", ())
    )
    return ColumnType(**known, parts=tuple(parts))
