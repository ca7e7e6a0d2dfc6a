"""Documents (json, jsonb, hstore), modelled by paths: each path's scalar is a part of the column.

The paths are public: they come from the config or from an earlier release. So a part is a fixed
public map of the row's own document: absent (NULL) or one scalar of a known type. A value at the
path that is no scalar of that type counts as absent; no cast can fail, whatever a row holds.

When paths are released, the types of their scalars are released with them. An object whose keys are
data, as in ``{"user_812": …}``, has no paths of its own: keys with numbers, and all keys of an
object with very many keys, count as one class.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from privbench.arrays import Ints, Rng
from privbench.config import (
    MAX_KEY,
    MAX_PATHS,
    MAX_STEPS,
    PathType,
    path_steps,
    path_text,
    require_paths,
)
from privbench.display import toml_key
from privbench.domain import Domain
from privbench.encoding.base import (
    Codec,
    CodeMap,
    ColumnReader,
    ReleasedDomain,
    attribute,
    null_mask,
)
from privbench.encoding.categories import LabelReader, list_reader, released_labels
from privbench.encoding.composites import PartedCodec, PartsReader, plain_type
from privbench.encoding.filled import FillCodec, fill_reader
from privbench.encoding.keys.placeholders import TEMPLATE_PART, of_templates
from privbench.encoding.ordered import ordered_part
from privbench.encoding.scale import scale_of
from privbench.encoding.surrogate_text import joined
from privbench.encoding.text import TextReader
from privbench.encoding.text_words import WordPiece, WordsNeed
from privbench.privacy.recoding import LabelsRecoding, Recoding
from privbench.rules import named as names
from privbench.schema import Column, ColumnType, TableName

#: Of two types of a path the later one stands for both.
_TYPES: dict[PathType, ColumnType] = {
    "boolean": plain_type("bool"),
    "bigint": plain_type("int8"),
    "numeric": plain_type("numeric"),
    "date": plain_type("date"),
    "timestamp": plain_type("timestamp"),
    "timestamptz": plain_type("timestamptz"),
    "text": plain_type("text"),
}
#: How many elements of an array have paths of their own.
_PLACES = 4
#: The most bytes of a document whose paths are read, and of all documents of a row: PostgreSQL
#: prints no row of a gigabyte, and 16 bytes may be a number of 131,072 digits.
_READ, _READ_OF_ROW = 2**14, 2**16
#: A step of a path that is a place in an array.
_PLACE = re.compile(r"\[\d\]")
#: Stands between a path and its type.
_OF = "\x1f"
#: Paths with a smaller part of the votes of the most frequent one are left out: each would take as
#: much of the budget as that one.
_RARE = 0.05
#: Keys that a path may name: they do not begin with a digit, nor have three digits in a row, a
#: number at the end, an @ or a place in an array, all of which may identify something.
_KEY = re.compile(rf"(?!\d|.*(\d{{3}}|[-_]\d+$|@)|\[\d\]$)[^\\]{{1,{MAX_KEY}}}")
_DATE = (
    "(?!0000)([0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)"
    "|(0[13578]|1[02])-31)|([0-9]{2}(0[48]|[2468][048]|[13579][26])"
    "|([02468][048]|[13579][26])00)-02-29)"
)
_TIME = "[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
#: It stands behind a time alone: of a day by itself, PostgreSQL takes no zone with a minus.
_ZONE = "(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)?"
#: Texts that PostgreSQL surely takes for a value of the type; only these are cast.
_VALID: dict[str, str] = {
    "boolean": "true|false",
    "bigint": "-?[0-9]{1,18}",
    "numeric": "-?[0-9]{1,30}([.][0-9]{1,30})?([eE][+-]?[0-9]{1,2})?",
    "date": _DATE,
    "timestamp": f"{_DATE}({_TIME})?",
    "timestamptz": f"{_DATE}({_TIME}{_ZONE})?",
}
#: More characters than any of these texts has: what is longer is not looked at.
_LONGEST = 80
#: A `json` of more bytes, or with more objects and arrays than this, has no parts: PostgreSQL can
#: match no text of 256 MB, and a document that is nested as deeply as its stack allows when it is
#: stored needs more than that when a query reads it.
_MOST_BYTES, _MOST_NESTED = 2**24, 2**12
#: Bytes of a stored `hstore`, compressed up to 255 times; JSON may have six for one of its own.
_MOST_STORED = 2**18
#: What JSON takes for a number, and texts of dates and times: no infinite ones.
_PLAIN = {"N": r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$", "D": r"^\d"}
#: Escapes that PostgreSQL stores in a `json`, and cannot decode.
_UNDECODED = r"\\u(0000|[dD][89a-fA-F])"
#: A string of JSON; one that does not end takes the rest, so that no other is looked for there.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
#: Stands before a part of a template that is replaced by a number, where it is no part of a text.
_BARE = "\x00"

#: Types of documents.
DOCUMENTS = ("json", "jsonb", "hstore")


@dataclass(frozen=True)
class DocumentReader(PartsReader):
    """Reads whether a row has a document, and the scalar at every path."""

    paths: tuple[tuple[str, PathType], ...]
    per_unit: int  # distinct texts of a path that one unit may propose; 0 without δ
    asks: bool = False  # whether further paths that enough units hold are released

    @property
    def measured(self) -> bool:
        """Whether combinations of paths that occur together in a document are measured."""
        return bool(self.per_unit) and len(self.paths) > 1

    @cached_property
    def parts(self) -> tuple[ColumnReader, ...]:
        there: tuple[ColumnReader, ...] = ()
        if self.measured:
            text = replace(self.column, type=plain_type("text"))
            there = (LabelReader(self.table, text, self.per_unit),)
        elif self.nullable:
            there = (fill_reader(self.table, self.column, "null", "", ""),)
        return (*there, *(self._part(path, type_) for path, type_ in self.paths))

    def _part(self, path: str, type_: PathType) -> ColumnReader:
        *_, title = (self.name, *(s for s in path_steps(path) if not _PLACE.fullmatch(s)))
        name = part_name(self.name, path, _TYPES[type_].base)
        column = Column(name, self.column.position, _TYPES[type_])
        if type_ == "boolean":
            return list_reader(self.table, column, ("false", "true"), "", ordered=True)
        if scale_of(column.type) is not None:
            return ordered_part(self.table, column, title=title)
        kind = names.by_name(title)
        provider = "word" if kind is None else kind.provider
        if not self.per_unit or not (kind is None or kind.listed):
            filler, apart = f"faker:{provider}", not self.measured
            return fill_reader(self.table, column, filler, "", "", measured=apart)
        labels = names.suggested_labels(title, table=TableName.parse(self.table).name)
        return TextReader(
            self.table,
            column,
            per_unit=self.per_unit,
            provider=provider,
            default_labels=labels,
            title=title,
            named=bool(labels),
        )

    def expressions(self, identifier: sql.Composable) -> Sequence[sql.Composable]:
        base = self.column.type.base
        scalars = [_expression(identifier, base, path, type_) for path, type_ in self.paths]
        there = [_presence(identifier, base, self.paths)] if self.measured else [identifier]
        return [*there[: len(self.parts) - len(scalars)], *scalars]

    def finish(self, released: Mapping[str, ReleasedDomain]) -> Codec:
        some = self.parts[len(self.parts) - len(self.paths) :]
        parts = tuple(part.finish(released) for part in some)
        paths = tuple(path for path, _ in self.paths)
        shapes = released_labels(released, self.name) if self.measured else None
        return DocumentCodec(*self.head, parts, paths, self.column.templates, shapes)

    def describe(self) -> tuple[str, str]:
        described = [f"{path} ({type_})" for path, type_ in self.paths]
        described += ["those that enough units hold"][: self.asks]
        place = f"tables.{toml_key(self.table)}.columns.{toml_key(self.name)}"
        why = f'other keys are not copied: {place}.paths = ["…"]'
        return f"document by its paths, {', '.join(described) or 'none'}", why


def _presence(
    identifier: sql.Composable, base: str, paths: Sequence[tuple[str, PathType]]
) -> sql.Composable:
    """A digit a path: whether there is a scalar; NULL without a document."""
    digit = sql.SQL("CASE WHEN {} IS NULL THEN '0' ELSE '1' END")
    digits = [digit.format(_expression(identifier, base, path, "text")) for path, _ in paths]
    whole = sql.SQL("(CASE WHEN {} IS NOT NULL THEN pg_catalog.concat({}) END)")
    return whole.format(identifier, sql.SQL(", ").join(digits))


def part_name(column: str, path: str, base: str) -> str:
    """Return the name of the attribute for the scalar at a path.

    Columns of the same name with the same path and type share one range.
    """
    name = attribute(column, path)
    return name if base == "text" else attribute(name, f"::{base}")


def _expression(
    identifier: sql.Composable, base: str, path: str, type_: PathType
) -> sql.Composable:
    """The scalar at a path; NULL where there is none of the type."""
    if base == "hstore":
        few = "CASE WHEN pg_catalog.pg_column_size({0}) <= {1} THEN pg_catalog.to_json({0}) END"
        identifier = sql.SQL(f"({few})").format(identifier, sql.Literal(_MOST_STORED))
        base = "json"
    if base == "json":
        # Only `jsonb` refuses escapes that cannot be decoded when it is stored.
        known = sql.SQL(
            "(CASE WHEN pg_catalog.octet_length({0}::pg_catalog.text) > {3} THEN NULL"
            " WHEN pg_catalog.length({0}::pg_catalog.text) - pg_catalog.length("
            "pg_catalog.translate({0}::pg_catalog.text, '[{{', '')) > {4} THEN NULL"
            " WHEN {0}::pg_catalog.text !~ CASE pg_catalog.getdatabaseencoding()"
            " WHEN 'UTF8' THEN {1} ELSE {2} END THEN {0} END)"
        )
        texts = map(sql.Literal, (_UNDECODED, r"\\u", _MOST_BYTES, _MOST_NESTED))
        identifier = known.format(identifier, *texts)
    keys = (step[1:-1] if _PLACE.fullmatch(step) else step for step in path_steps(path))
    steps = sql.SQL(", ").join(map(sql.Literal, keys))
    text = sql.SQL(
        f"CASE WHEN pg_catalog.{base}_typeof(pg_catalog.{base}_extract_path({{0}}, {{1}}))"
        " IN ('string', 'number', 'boolean')"
        f" THEN pg_catalog.{base}_extract_path_text({{0}}, {{1}}) END"
    ).format(identifier, steps)
    if type_ == "text":
        return sql.SQL("({})").format(text)
    valid = sql.Literal(f"^({_VALID[type_]})$")
    cast = sql.SQL("(CASE WHEN pg_catalog.left({0}, {3}) ~ {1} THEN ({0})::{2} END)")
    return cast.format(text, valid, sql.SQL(_TYPES[type_].sql), sql.Literal(_LONGEST))


@dataclass(frozen=True)
class DocumentCodec(PartedCodec):
    """Makes documents from the scalars at their paths, within templates from a rehearsal."""

    kind: ClassVar[str] = "document"

    # Of parts there is one for each path.
    paths: tuple[str, ...]
    templates: tuple[str, ...] = ()  # of documents (`Column.templates`): what else they hold
    # Released sets of paths, as `_presence` writes them; None if they are not measured.
    shapes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse paths and parts that are not those of a reader."""
        require_paths(self.paths)
        expected = {part_name(self.column, *item) for item in self._typed()}
        if len(self.parts) != len(self.paths) or expected != {part.column for part in self.parts}:
            raise ValueError("the parts of a document are not those of its paths")
        if any(isinstance(p, FillCodec) and not p.filler.startswith("faker:") for p in self.parts):
            raise ValueError("a part of a document has no texts")
        if self.templates:
            of_templates(self.templates)

    def _typed(self) -> list[tuple[str, str]]:
        return [(p, part.type.base) for p, part in zip(self.paths, self.parts, strict=False)]

    @property
    def domains(self) -> dict[str, Domain]:
        whole = {self.column: Domain(1, nullable=True)} if self.nullable else {}
        whole |= {name: r.domain for name, r in self._whole.items()}
        return whole | super().domains

    @property
    def _whole(self) -> dict[str, Recoding]:
        if self.shapes is None:
            return {}
        return {self.column: LabelsRecoding(self.shapes, True, self.nullable)}

    @property
    def recodings(self) -> dict[str, Recoding]:
        return self._whole | super().recodings

    def with_surrogates(self, laws: Mapping[str, Any]) -> Codec:
        return replace(self, parts=tuple(part.with_surrogates(laws) for part in self.parts))

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return documents with the scalars that are not NULL.

        Objects without a scalar are left out.
        """
        tree: dict[str, Any] = {}
        for path, part in zip(self.paths, self.parts, strict=True):
            *outer, last = path_steps(path)
            node = tree
            for step in outer:
                node = node.setdefault(step, {})
            node[last] = _scalars(part, self._settled(path, part, codes, rng))
        count = len(next(iter(codes.values()))) if codes else rows or 0
        bases = [_base(text) for text in self.templates] or [{}]
        number = rng.integers(2**20, size=count)
        which = number % len(bases)
        made, order = [], np.argsort(which, kind="stable")
        for at, base in enumerate(bases):
            chosen = np.flatnonzero(which == at)
            made.append(_object(base, tree, chosen, number[chosen] // len(bases)))
        whole = pa.concat_arrays(made).take(pa.array(np.argsort(order)))
        if self.templates and not self.paths:
            whole = of_templates(self.templates).make(number)
        elif self.type.base == "hstore":
            pairs = pc.utf8_slice_codeunits(whole, 1, -1)
            whole = pc.replace_substring_regex(pairs, r'([^\\])": "', r'\1"=>"')
        if not self.nullable:
            return whole
        null = null_mask(codes[self.column], self.domains[self.column])
        return pc.if_else(pa.array(null), pa.scalar(None, whole.type), whole)

    def _settled(self, path: str, part: Codec, codes: CodeMap, rng: Rng) -> pa.Array:
        """The values at a path where sampled sets of paths have it, some drawn again."""
        values = part.decode(codes, rng)
        if self.shapes is None:
            return values
        at, end = self.paths.index(path), len(self.shapes)
        wants = np.array([*(text[at : at + 1] == "1" for text in self.shapes), False, False])
        shape, there = np.minimum(codes[self.column], end + 1), np.asarray(values.is_valid())
        # In a document of another set a value stays where its presence is measured.
        stays = there & (wants[shape] | (shape == end) & bool(part.domains))
        places = np.where(stays, np.arange(len(values)), -1)
        lacking = np.flatnonzero(wants[shape] & ~there)
        if there.any():
            places[lacking] = rng.choice(np.flatnonzero(there), len(lacking))
        return values.take(pa.array(places, mask=places < 0))


def _scalars(part: Codec, values: pa.Array) -> pa.Array:
    """Values as JSON; NULL where a number or a time is not finite."""
    texts = values.cast(pa.string())
    if part.type.category == "B":
        return texts
    plain = _PLAIN.get(part.type.category)
    if plain is not None:
        kept = pc.match_substring_regex(texts, plain)
        texts = pc.if_else(kept, texts, pa.scalar(None, pa.string()))
    if part.type.category == "N":
        return texts
    if part.type.category == "D":
        return joined('"', pc.replace_substring(texts, " ", "T"), '"')
    known = texts.dictionary_encode()
    written = [json.dumps(text, ensure_ascii=False) for text in known.dictionary.to_pylist()]
    return pa.array(written, pa.string()).take(known.indices)


def _base(template: str) -> dict[str, Any]:
    """The object that a template describes; an empty one where it describes another value.

    Parts that stand for numbers become texts that begin with `_BARE`.
    """
    parts = re.compile(f"{_STRING.pattern}|{TEMPLATE_PART.pattern}")
    text = parts.sub(lambda m: m[0] if m[0][0] == '"' else json.dumps(_BARE + m[0]), template)
    try:
        value = json.loads(text)
        json.dumps(value)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _constant(value: Any, numbers: Ints) -> pa.Array:
    """What a template has at a key, for every number."""
    text = json.dumps(value, ensure_ascii=False)
    bare = json.dumps(_BARE)[1:-1]
    text = re.sub(f'"{re.escape(bare)}([^"]*)"', r"\1", text)
    return of_templates([text]).make(numbers)


def _object(base: dict[str, Any], tree: dict[str, Any], rows: Ints, numbers: Ints) -> pa.Array:
    """Objects of the chosen rows: the keys of a template and those of paths, which come first.

    Where paths are places, arrays of their elements that are there.
    """
    places = bool(tree) and all(map(_PLACE.fullmatch, tree))
    pairs = [pa.array([""] * len(rows), pa.string())]
    for key in {**tree, **({} if places else base)}:
        below, inner = tree.get(key), base.get(key)
        if below is None:
            value = _constant(inner, numbers)
        elif isinstance(below, dict):
            value = _object(inner if isinstance(inner, dict) else {}, below, rows, numbers)
            other = _constant(inner, numbers) if inner else pa.scalar(None, value.type)
            value = pc.if_else(pc.less(pc.utf8_length(value), 3), other, value)
        else:
            value = below.take(pa.array(rows))
        name = "" if places else f"{json.dumps(key, ensure_ascii=False)}: "
        pairs.append(pc.fill_null(joined(f", {name}", value), ""))
    whole = pc.utf8_slice_codeunits(joined(*pairs), 2)
    return joined("[", whole, "]") if places else joined("{", whole, "}")


@dataclass(frozen=True)
class PathReader(ColumnReader):
    """Reads which paths each document has, so that the paths can be released."""

    beside: int = 1  # columns of the table of which paths are read

    @property
    def words(self) -> WordsNeed:
        return WordsNeed(self.attributes[0], "", listed=True, plain=False, most=MAX_PATHS)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (attribute(self.name, "paths"),)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        # PostgreSQL may not be able to print a large document; what is stored may be compressed.
        text = "CASE WHEN pg_catalog.pg_column_size({}) <= {} THEN {} END"
        limit = sql.Literal(min(_READ, _READ_OF_ROW // self.beside))
        whole = sql.SQL("pg_catalog.to_json({})::pg_catalog.text").format(identifier)
        if self.column.type.base == "jsonb":
            plain = sql.SQL("pg_catalog.jsonb_build_array({})").format(identifier)
            whole = sql.SQL(text).format(plain, limit, whole)
        return [(sql.SQL(text).format(identifier, limit, whole), self.alias())]

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        return {self.attributes[0]: path_piece(batch[self.alias()])}

    def finish(self, released: Mapping[str, ReleasedDomain]) -> NoReturn:
        raise TypeError("paths are no values")

    def describe(self) -> tuple[str, str]:
        return "", ""


def path_piece(texts: pa.Array) -> WordPiece:
    """Return the paths of a batch of documents, each with the type of its scalar."""
    codes = dict[str, int]()
    paths = [
        [codes.setdefault(path, len(codes)) for path in _paths(text or "")]
        for text in texts.to_pylist()
    ]
    flat = pa.array([code for some in paths for code in some], pa.int32())
    words = pa.DictionaryArray.from_arrays(flat, pa.array([*codes], pa.large_string()))
    firsts = np.where(np.asarray(texts.is_valid()), 0, -1).astype(np.int32)
    return WordPiece(words, np.array([*map(len, paths)], np.int64), firsts)


def _paths(text: str) -> list[str]:
    try:
        whole = json.loads(
            text,
            parse_int=lambda digits: ("bigint" if len(digits) < 19 else "numeric",),
            parse_float=lambda _: ("numeric",),
        )
    except (ValueError, RecursionError):
        return []
    return [path_text(steps) + _OF + type_ for steps, type_ in _typed_paths(whole, ())]


def _typed_paths(value: Any, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, list):
        value = {f"[{place}]": item for place, item in enumerate(value[:_PLACES])}
    elif isinstance(value, dict):
        keys = (key for key in value if _KEY.fullmatch(key) and key.isprintable())
        value = {key: value[key] for key in keys} if len(value) <= MAX_PATHS else {}
    elif value is not None and steps:
        moments = ("date", "timestamp", "timestamptz")
        if isinstance(value, str):
            fits = (type_ for type_ in moments if re.fullmatch(_VALID[type_], value[:40]))
            yield steps, next(fits, "text")
        else:
            yield steps, "boolean" if isinstance(value, bool) else str(*value)
        return
    for step, item in value.items() if isinstance(value, dict) and len(steps) < MAX_STEPS else ():
        yield from _typed_paths(item, (*steps, step))


def released_paths(votes: Mapping[str, int], known: Mapping[str, PathType]) -> dict[str, PathType]:
    """Return the known and the released paths with their types.

    Two released paths conflict if one leads into the scalar of the other; the one that more
    documents have is kept.
    """
    released, kinds, types = (
        dict[str, Any](),
        dict[tuple[str, ...], bool | None](),
        list[Any](_TYPES),
    )
    least = _RARE * max(votes.values(), default=0)
    often = sorted((w for w in votes if votes[w] >= least), key=lambda word: (-votes[word], word))
    for word in (*(path + _OF + type_ for path, type_ in known.items()), *often):
        path, _, type_ = word.partition(_OF)
        steps = path_steps(path)
        branches = {steps[:n]: bool(_PLACE.fullmatch(s)) for n, s in enumerate(steps)} | {
            steps: None
        }
        if path in released:
            released[path] = known.get(path) or max(released[path], type_, key=types.index)
        elif len(released) < MAX_PATHS and all(
            kinds.get(*item) == item[1] for item in branches.items()
        ):
            kinds |= branches
            released[path] = type_
    return dict(sorted(released.items()))
