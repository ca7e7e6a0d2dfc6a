"""Documents (json, jsonb) by paths that are public: each path's scalar is a part of the column.

Which paths there are is said by the config alone, so a part is a fixed public map of the row's own
document: absent (NULL) or one scalar of a declared type. What is no scalar of that type counts as
absent; no cast can fail, whatever a row holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

from privbench.config import ColumnConfig, PathType, path_steps, require_paths
from privbench.domain import Domain
from privbench.encoding.base import (
    Codec,
    Codes,
    ColumnReader,
    Released,
    Rng,
    attribute,
    null_mask,
)
from privbench.encoding.bounds import public_range
from privbench.encoding.categories import list_reader
from privbench.encoding.keys.placeholders import TEMPLATE_PART, of_templates
from privbench.encoding.ordered import OrderedReader
from privbench.encoding.parts import PartCodec, PartsReader, plain_type
from privbench.encoding.scale import scale_of
from privbench.encoding.surrogate_text import joined
from privbench.encoding.text import TextReader
from privbench.encoding.unmodelled import FillCodec, fill_reader
from privbench.privacy.recoding import Recoding
from privbench.rules import named as names
from privbench.schema import Column, ColumnType, TableName

_BASES: dict[str, str] = {"boolean": "bool", "bigint": "int8"}
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
#: What JSON takes for a number, and texts of dates and times: no infinite ones.
_PLAIN = {"N": r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$", "D": r"^\d"}
#: Escapes that PostgreSQL stores in a `json`, and cannot decode.
_UNDECODED = r"\\u(0000|[dD][89a-fA-F])"
#: A string of JSON; one that does not end takes the rest, so that no other is looked for there.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
#: Stands before a part of a template that is replaced by a number, where it is no part of a text.
_BARE = "\x00"

_Tree = dict[str, Any]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class DocumentReader(PartsReader):
    """Reads whether there is a document, and the scalar at every path."""

    paths: tuple[tuple[str, PathType], ...]
    per_unit: int  # distinct texts of a path that one unit may propose; 0 without δ

    @cached_property
    def parts(self) -> tuple[ColumnReader, ...]:
        there = (fill_reader(self.table, self.column, "null", "", ""),) if self.nullable else ()
        return (*there, *(self._part(path, type_) for path, type_ in self.paths))

    def _part(self, path: str, type_: PathType) -> ColumnReader:
        title = path_steps(path)[-1]
        name = part_name(self.name, path, _typed(type_).base)
        column = Column(name, self.column.position, _typed(type_))
        if type_ == "boolean":
            return list_reader(self.table, column, ("false", "true"), "", ordered=True)
        scale = scale_of(column.type)
        if scale is not None:
            known = public_range(self.table, column, scale, ColumnConfig(), ())
            return OrderedReader(self.table, column, scale, known, title=title)
        kind = names.by_name(title)
        provider = "word" if kind is None else kind.provider
        if not self.per_unit or not (kind is None or kind.listed):
            return fill_reader(self.table, column, f"faker:{provider}", "", "")
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
        found = [_expression(identifier, base, path, type_) for path, type_ in self.paths]
        return [*([identifier] if self.nullable else []), *found]

    def finish(self, released: Mapping[str, Released]) -> Codec:
        parts = tuple(part.finish(released) for part in self.parts[self.nullable :])
        paths = tuple(path for path, _ in self.paths)
        return DocumentCodec(*self.head, paths, parts, self.column.templates)

    def describe(self) -> tuple[str, str]:
        listed = ", ".join(f"{path} ({type_})" for path, type_ in self.paths)
        return f"document by its paths, {listed}", "paths in the config; other keys are not copied"


def _typed(type_: PathType) -> ColumnType:
    return plain_type(_BASES.get(type_, type_))


def part_name(column: str, path: str, base: str) -> str:
    """The attribute of a path's scalar; columns of one name and path share ranges by type."""
    name = attribute(column, path)
    return name if base == "text" else attribute(name, f"::{base}")


def _expression(
    identifier: sql.Composable, base: str, path: str, type_: PathType
) -> sql.Composable:
    """The scalar at a path; NULL where there is none of the type."""
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
    steps = sql.SQL(", ").join(map(sql.Literal, path_steps(path)))
    text = sql.SQL(
        f"CASE WHEN pg_catalog.{base}_typeof(pg_catalog.{base}_extract_path({{0}}, {{1}}))"
        " IN ('string', 'number', 'boolean')"
        f" THEN pg_catalog.{base}_extract_path_text({{0}}, {{1}}) END"
    ).format(identifier, steps)
    if type_ == "text":
        return sql.SQL("({})").format(text)
    valid = sql.Literal(f"^({_VALID[type_]})$")
    cast = sql.SQL("(CASE WHEN pg_catalog.left({0}, {3}) ~ {1} THEN ({0})::{2} END)")
    return cast.format(text, valid, sql.SQL(_typed(type_).sql), sql.Literal(_LONGEST))


@dataclass(frozen=True)
class DocumentCodec(Codec):
    """Documents from the scalars at their paths, within templates that a rehearsal found."""

    kind: ClassVar[str] = "document"

    paths: tuple[str, ...]
    parts: tuple[PartCodec, ...]  # one for each path
    templates: tuple[str, ...] = ()  # of documents (`Column.templates`): what else they hold

    def __post_init__(self) -> None:
        """Refuse paths and parts that are not those of a reader."""
        require_paths(self.paths)
        made = {part_name(self.column, *item) for item in self._typed()}
        if len(self.parts) != len(self.paths) or made != {part.column for part in self.parts}:
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
        return whole | {name: d for part in self.parts for name, d in part.domains.items()}

    @property
    def recodings(self) -> dict[str, Recoding]:
        return {name: r for part in self.parts for name, r in part.recodings.items()}

    def with_surrogates(self, laws: Mapping[str, Any]) -> Codec:
        return replace(self, parts=tuple(part.with_surrogates(laws) for part in self.parts))

    def decode(self, codes: Codes, rng: Rng, rows: int | None = None) -> pa.Array:
        """Documents with the scalars that are not NULL; objects without any are left out."""
        tree: _Tree = {}
        for path, part in zip(self.paths, self.parts, strict=True):
            *outer, last = path_steps(path)
            held = tree
            for step in outer:
                held = held.setdefault(step, {})
            held[last] = _scalars(part, part.decode(codes, rng))
        count = len(next(iter(codes.values())))
        bases = [_base(text) for text in self.templates] or [{}]
        number = rng.integers(2**20, size=count)
        which = number % len(bases)
        made, order = [], np.argsort(which, kind="stable")
        for at, base in enumerate(bases):
            chosen = np.flatnonzero(which == at)
            made.append(_object(base, tree, chosen, number[chosen] // len(bases)))
        whole = pa.concat_arrays(made).take(pa.array(np.argsort(order)))
        if not self.nullable:
            return whole
        null = null_mask(codes[self.column], self.domains[self.column])
        return pc.if_else(pa.array(null), pa.scalar(None, whole.type), whole)


def document_reader(
    table: str, column: Column, config: ColumnConfig, delta: float
) -> DocumentReader:
    """The reader of a column of documents whose paths the config declares."""
    per_unit = config.per_unit if delta > 0 else 0
    return DocumentReader(table, column, tuple(config.paths.items()), per_unit)


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


def _base(template: str) -> _Tree:
    """The object that a template describes; an empty one where it describes another value.

    Parts that stand for numbers become texts that begin with `_BARE`.
    """
    parts = re.compile(f"{_STRING.pattern}|{TEMPLATE_PART.pattern}")
    text = parts.sub(lambda m: m[0] if m[0][0] == '"' else json.dumps(_BARE + m[0]), template)
    try:
        found = json.loads(text)
        json.dumps(found)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _constant(value: Any, numbers: Numbers) -> pa.Array:
    """What a template has at a key, for every number."""
    text = json.dumps(value, ensure_ascii=False)
    bare = json.dumps(_BARE)[1:-1]
    text = re.sub(f'"{re.escape(bare)}([^"]*)"', r"\1", text)
    return of_templates([text]).make(numbers)


def _object(base: _Tree, tree: _Tree, rows: Numbers, numbers: Numbers) -> pa.Array:
    """Objects of the chosen rows: the keys of a template and those of paths, which come first."""
    pairs = []
    for key in {**tree, **base}:
        held, inner = tree.get(key), base.get(key)
        if held is None:
            value = _constant(inner, numbers)
        elif isinstance(held, dict):
            value = _object(inner if isinstance(inner, dict) else {}, held, rows, numbers)
            value = pc.if_else(pc.equal(value, "{}"), pa.scalar(None, value.type), value)
        else:
            value = held.take(pa.array(rows))
        pair = joined(f", {json.dumps(key, ensure_ascii=False)}: ", value)
        pairs.append(pc.fill_null(pair, ""))
    whole = pc.utf8_slice_codeunits(joined(*pairs), 2)
    return joined("{", whole, "}")
