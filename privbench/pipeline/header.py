"""What a model's header may hold, before anything acts on it: whoever made it may be a stranger.

Fields, types, lengths, ranges, and that what refers to something finds it. The state of a
synthesizer is read by the synthesizer, under the same guard (`privbench.pipeline.decode`). The DDL
and the expressions are texts here; what they may do is judged where they are used.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from privbench.config import Config
from privbench.encoding import Codec, codec_from_json
from privbench.encoding.base import type_to_json
from privbench.errors import ConfigError, ModelError
from privbench.schema import Schema

#: Bytes of the header, depth of its brackets, and bytes of a name as PostgreSQL has them.
MAX_HEADER, MAX_DEPTH, MAX_NAME = 32 * 2**20, 64, 63
#: Characters of an expression; how deep its brackets are; and its operators, AND and OR among them.
MAX_EXPRESSION, MAX_BRACKETS, MAX_OPERATORS = 2**17, 100, 2000
MAX_TABLES, MAX_COLUMNS, MAX_PARTS = 10_000, 1600, 10_000
#: Texts other than names: labels of columns, values of lists, CHECKs.
MAX_TEXT, MAX_LABELS = 2**20, 2**20

#: Name and version of the format of a model file.
VERSION = "privbench-model", 4
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SYSTEM = re.compile(r"pg_|information_schema\Z")
_ESCAPED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_OPERATOR = re.compile(r"(?<!\w)(?:AND|OR|NOT|CASE|IS|LIKE|IN)(?!\w)|::|[-+*/<>=~!@#%^&|`?]+", re.I)

_IDENTIFIER = r'(?:"(?:[^"\0]|"")+"|[^\W\d][\w$]*)'
_FIELD = "(?:year|month|day|hour|minute|second)"
#: How `format_type` writes a type: a name, with its schema, or one of SQL's own of several words.
_TYPE = re.compile(
    rf"""(?:
      double\ precision | (?:character|bit)\ varying(?:\(\d+\))?
    | (?:time|timestamp)(?:\(\d\))?\ with(?:out)?\ time\ zone
    | interval(?:\ {_FIELD}(?:\ to\ {_FIELD})?)?(?:\(\d\))?
    | {_IDENTIFIER}(?:\.{_IDENTIFIER})?(?:\(-?\w+(?:,\s?-?\w+)*\))?
    )(?:\[\])*""",
    re.VERBOSE,
)


def _name(text: str) -> str:
    if not 0 < len(text.encode()) <= MAX_NAME:
        raise ValueError(f"a name has 1 to {MAX_NAME} bytes")
    return text


def _label(text: str) -> str:
    return _name(text) if text else text


def _space(text: str) -> str:
    if _SYSTEM.match(text):
        raise ValueError("the schemas of the system are not a model's")
    return _name(text)


def _type_text(text: str) -> str:
    if len(text) > MAX_TEXT or not _TYPE.fullmatch(text):
        raise ValueError("not the name of a type")
    return text


def expression(text: str) -> str:
    """An expression that can be parsed without end of stack or patience.

    Raises:
        ValueError: It is too long, or nested too deeply.
    """
    plain = _ESCAPED.sub("x", text) if len(text) <= MAX_EXPRESSION else ""
    if len(text) > MAX_EXPRESSION or len(_OPERATOR.findall(plain)) > MAX_OPERATORS:
        raise ValueError("the expression is too long")
    if depth(plain.encode()) > MAX_BRACKETS:
        raise ValueError("the expression is nested too deeply")
    return text


Name = Annotated[str, AfterValidator(_name)]
Label = Annotated[str, AfterValidator(_label)]
Space = Annotated[str, AfterValidator(_space)]
TypeText = Annotated[str, AfterValidator(_type_text)]
Expression = Annotated[str, AfterValidator(expression)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Names = Annotated[list[Name], Field(max_length=MAX_COLUMNS)]
Letter = Annotated[str, Field(pattern=r"^[a-zA-Z]$")]
Count = Annotated[int, Field(ge=0, le=2**31)]
Bigint = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Share = Annotated[float, Field(ge=0, lt=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class _TableName(_Strict):
    schema_: Space = Field(alias="schema")
    name: Name


class _Type(_Strict):
    sql: TypeText
    base: Name
    kind: Letter
    category: Letter
    labels: Annotated[list[Label], Field(max_length=MAX_LABELS)]
    length: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None
    precision: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None
    scale: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None
    domain: _TableName | None
    domain_checks: Annotated[list[Expression], Field(max_length=MAX_COLUMNS)]
    element: Name | None
    extension: Name | None
    parts: Annotated[list[_Type], Field(max_length=MAX_COLUMNS)]


class _Column(_Strict):
    name: Name
    position: Annotated[int, Field(ge=1, le=32767)]
    type: _Type
    not_null: bool
    default: Expression | None
    identity: Literal["", "a", "d"]
    generated: Literal["", "s", "v"]
    collation: Text | None
    sequence: _TableName | None


class _Unique(_Strict):
    name: Name
    columns: Names
    primary: bool
    nulls_not_distinct: bool


class _ForeignKey(_Strict):
    name: Name
    table: _TableName
    columns: Names
    ref_table: _TableName
    ref_columns: Names
    on_delete: Literal["a", "r", "c", "n", "d"]
    on_update: Literal["a", "r", "c", "n", "d"]
    match: Literal["s", "f", "p"]
    deferrable: bool
    validated: bool


class _Check(_Strict):
    name: Name
    expression: Expression
    columns: Names


class _Index(_Strict):
    name: Name
    definition: Expression
    unique: bool
    columns: Names
    predicate: Expression | None
    has_expressions: bool


class _Sequence(_Strict):
    name: _TableName
    start: Bigint
    increment: Bigint
    minimum: Bigint
    maximum: Bigint
    cycle: bool
    owned_by: Annotated[list[_TableName | Name], Field(min_length=2, max_length=2)] | None


class _Table(_Strict):
    name: _TableName
    columns: Annotated[list[_Column], Field(max_length=MAX_COLUMNS)]
    primary_key: _Unique | None
    uniques: Annotated[list[_Unique], Field(max_length=MAX_PARTS)]
    foreign_keys: Annotated[list[_ForeignKey], Field(max_length=MAX_PARTS)]
    checks: Annotated[list[_Check], Field(max_length=MAX_PARTS)]
    indexes: Annotated[list[_Index], Field(max_length=MAX_PARTS)]
    kind: Literal["r", "p"]
    partitions: Annotated[list[_TableName], Field(max_length=MAX_PARTS * 10)]
    partition_key: Expression | None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [column.name for column in self.columns]
        sets = [*self.uniques, *([self.primary_key] if self.primary_key else [])]
        _once(names, "column")
        _once([column.position for column in self.columns], "position")
        _once([key.name for key in self.foreign_keys], "foreign key")
        keys = [*(item.columns for item in sets), *(item.columns for item in self.foreign_keys)]
        others = [*(item.columns for item in self.checks), *(item.columns for item in self.indexes)]
        _require(all(keys), "a key names no column")
        known = all(set(columns) <= set(names) for columns in (*keys, *others))
        _require(known, "a key, CHECK or index names an unknown column")
        for key in self.foreign_keys:
            _require(key.table == self.name, f"{key.name!r} is of another table")
            _require(len(key.columns) == len(key.ref_columns), f"{key.name!r} is not a key")
        return self


class _Schema(_Strict):
    tables: Annotated[list[_Table], Field(max_length=MAX_TABLES)]
    sequences: Annotated[list[_Sequence], Field(max_length=MAX_PARTS)]
    enums: Annotated[dict[Text, list[Label]], Field(max_length=MAX_PARTS)]
    extensions: Annotated[list[Name], Field(max_length=MAX_COLUMNS)]
    views: Annotated[list[_TableName], Field(max_length=MAX_PARTS)]
    materialized_views: Annotated[list[_TableName], Field(max_length=MAX_PARTS)]
    schemas: Annotated[list[Space], Field(max_length=MAX_TABLES)]
    server_version: Annotated[int, Field(ge=0, le=10_000_000)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        columns = {
            (table.name.schema_, table.name.name): {column.name for column in table.columns}
            for table in self.tables
        }
        _once([(table.name.schema_, table.name.name) for table in self.tables], "table")
        for table in self.tables:
            for key in table.foreign_keys:
                known = columns.get((key.ref_table.schema_, key.ref_table.name))
                _require(known is not None, f"{key.name!r} points to an unknown table")
                assert known is not None
                _require(set(key.ref_columns) <= known, f"{key.name!r} points to unknown columns")
        for sequence in self.sequences:
            owner = sequence.owned_by
            _require(
                owner is None or (isinstance(owner[0], _TableName) and isinstance(owner[1], str)),
                f"sequence {sequence.name.name!r} is owned by no column",
            )
        return self


class _Promise(_Strict):
    epsilon: Annotated[float, Field(ge=0)]
    delta: Share
    accounting: Literal["pure", "zcdp"]
    neighbours: Literal["add-remove", "replace"]
    unit: Literal["owner", "row"]
    roots: Annotated[list[Text], Field(max_length=MAX_TABLES)]
    private: bool
    roles: Literal["declared", "proposed"]


class _Made(_Strict):
    own: Name | None
    making: Annotated[
        dict[Name, Literal["reference", "minted", "generated", "modelled"]],
        Field(max_length=MAX_COLUMNS),
    ]
    codecs: Annotated[dict[Name, dict[str, JsonValue]], Field(max_length=MAX_COLUMNS)]


class _Sensitivity(_Strict):
    l1: Annotated[int, Field(ge=0)]
    l2: Annotated[float, Field(ge=0)]
    linf: Annotated[int, Field(ge=0)]
    l0: Annotated[int, Field(ge=0)] | None


class _Event(_Strict):
    id: Count
    label: Text
    kind: Text
    table: Text
    columns: Annotated[list[Text], Field(max_length=MAX_PARTS)]
    query: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    shape: Annotated[list[Count], Field(max_length=64)]
    mechanism: Literal[
        "discrete_laplace", "discrete_gaussian", "noisy_max", "noisy_max_gumbel",
        "laplace_threshold", "gaussian_threshold",
    ]  # fmt: skip
    unit: Annotated[int, Field(ge=1, le=2**62)]
    sensitivity: _Sensitivity
    scale: Annotated[float, Field(ge=0)]
    threshold: int | None
    loss: Literal["epsilon", "rho"]
    amount: Annotated[float, Field(ge=0)]
    delta: Share
    roots: Annotated[list[Text], Field(max_length=MAX_TABLES)]
    neighbours: Literal["add-remove", "replace"]
    private: bool


class Header(_Strict):
    """The fields of ``header.json``, but for the hashes' own agreement with the members."""

    format: Literal["privbench-model"]
    version: Literal[4]
    promise: _Promise
    schema_: _Schema = Field(alias="schema")
    config: dict[str, JsonValue]
    tables: Annotated[dict[Text, _Made], Field(max_length=MAX_TABLES)]
    synthesizer: Name
    state: dict[str, JsonValue]
    arrays: Annotated[list[Text], Field(max_length=2**16)]
    public: Annotated[list[Text], Field(max_length=MAX_TABLES)]
    events: Annotated[list[_Event], Field(max_length=2**20)]
    extensions: Annotated[list[Name], Field(max_length=MAX_COLUMNS)]
    sha256: Annotated[
        dict[Text, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]], Field(max_length=2**17)
    ]


def parse(data: bytes) -> dict[str, Any]:
    """The header's JSON, checked field by field.

    Raises:
        ModelError: It is no header; the message names the field.
    """
    if depth(_STRING.sub(b"", data)) > MAX_DEPTH:
        raise ModelError("the model's header is nested too deeply.")
    try:
        found = json.loads(data, object_pairs_hook=_pairs, parse_constant=_no, parse_float=_float)
        _text(found)
    except (ValueError, RecursionError) as error:
        raise ModelError("the model's header is no JSON of ours.") from error
    if not isinstance(found, dict) or (found.get("format"), found.get("version")) != VERSION:
        raise ModelError(
            "this is not a model of this version of privbench.", remedy="Fit it again."
        )
    try:
        Header.model_validate(found)
        Config.model_validate(found["config"])
    except (ValidationError, ConfigError) as error:
        raise ModelError(f"the model's header is damaged: {_first(error)}.") from error
    return found


def check(schema: Schema, header: dict[str, Any]) -> None:
    """Refuse a header whose tables, columns, keys and codecs are not those of its schema.

    Raises:
        ModelError: They are not.
    """
    tables, public = header["tables"], header["public"]
    keys = {table.key for table in schema}
    if sorted([*tables, *public]) != sorted(keys):
        raise ModelError("the model's tables are not those of its schema.")
    if not set(header["promise"]["roots"]) <= set(tables):
        raise ModelError("the model promises something to tables that it does not have.")
    for key, data in tables.items():
        table, making = schema.table(key), data["making"]
        modelled = {name for name, how in making.items() if how == "modelled"}
        if (
            set(making) != {column.name for column in table.columns}
            or set(data["codecs"]) != modelled
            or data["own"] not in (None, *(item.name for item in table.foreign_keys))
        ):
            raise ModelError("the model does not fit its schema.", table=key)
        for name, text in data["codecs"].items():
            codec = codec_from_json(text)
            told = type_to_json(table.column(name).type)
            if codec.column != name or type_to_json(codec.type) != told:
                raise ModelError("the codec is another column's.", table=key, column=name)
            _check_codec(codec, key)


def _check_codec(codec: Codec, key: str) -> None:
    """Refuse a codec that cannot decode: every kind is tried on no rows."""
    codes = {name: np.zeros(0, domain.dtype) for name, domain in codec.domains.items()}
    try:
        codec.decode(codes, np.random.default_rng(0), 0)
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
        raise ModelError("the codec cannot be used.", table=key, column=codec.column) from error


def depth(text: bytes) -> int:
    """How deep brackets of any kind are nested."""
    marks = np.frombuffer(text, np.uint8)
    steps = np.isin(marks, list(b"([{")).astype(np.int32)
    steps -= np.isin(marks, list(b")]}")).astype(np.int32)
    return int(np.cumsum(steps).max(initial=0))


def _once(items: Iterable[Any], what: str) -> None:
    twice = [item for item, count in Counter(items).items() if count > 1]
    _require(not twice, f"a {what} occurs twice")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    _require(len(found) == len(pairs), "a field occurs twice")
    return found


def _no(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _float(text: str) -> float:
    value = float(text)
    _require(math.isfinite(value), "a number is too large")
    return value


def _text(value: Any) -> None:
    """Refuse texts that PostgreSQL cannot hold: a zero byte, half a character."""
    if isinstance(value, str):
        _require("\0" not in value, "a text holds a zero byte")
        value.encode()
    elif isinstance(value, dict):
        for name, item in value.items():
            _text(name)
            _text(item)
    elif isinstance(value, list):
        for item in value:
            _text(item)


def _first(error: ValidationError | ConfigError) -> str:
    """The first fault, with its place and without its value."""
    if isinstance(error, ConfigError):
        return error.message.rstrip(".")
    fault = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(ascii(step)[:80].strip("'") for step in fault["loc"])
    return f"{place}: {fault['msg'].removeprefix('Value error, ')}"
