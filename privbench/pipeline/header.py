"""The header of a model file, which may be a stranger's and is checked before anything uses it.

The checks cover fields, types, lengths and ranges (`privbench.limits`), and whether references have
targets. The state of a synthesizer is read by the synthesizer; errors in it are caught in
`privbench.pipeline.decode`.
"""

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainValidator, ValidationError

from privbench.config import Config
from privbench.encoding import Codec, ColumnRole, codec_from_json
from privbench.encoding.base import type_to_json
from privbench.errors import ConfigError, ModelError, PrivacyRefusal
from privbench.limits import (
    MAX_COLUMNS,
    MAX_DEPTH,
    MAX_PARTS,
    Amount,
    ColumnTuple,
    PartTuple,
    PgName,
    Share,
    Text,
    faults,
    json_depth,
)
from privbench.privacy import Event, Guarantee, loss_within, rho_for
from privbench.privacy.accountant import Level
from privbench.rules.facts import with_rules
from privbench.schema import Schema, Table

#: Most bytes of the header.
MAX_HEADER = 32 * 2**20

#: Name and version of the format of a model file. Files of version 9 have arrays of 64 bits.
VERSION = "privbench-model", 10


@dataclass(frozen=True)
class Promise:
    """The privacy guarantee of the release."""

    epsilon: Amount  # under zCDP what was fixed in advance (`Terms`), else the largest sum of ε
    delta: Share
    accounting: Literal["pure", "zcdp"]
    neighbours: Literal["add-remove", "replace"]
    unit: Literal["owner", "row"]
    # Tables whose rows may have no owner; a privacy unit is such a row with all that it owns.
    roots: PartTuple[Text]
    private: bool  # False when the noise was seeded: NOT PRIVATE
    roles: Literal["declared", "proposed"]  # chosen by the owner, or by privbench
    # Under zCDP the limit that was fixed in advance, and the part of δ that its conversion has.
    # Both are 0 in models of earlier versions.
    rho: Amount = 0.0
    conversion: Share = 0.0
    sizes_shown: bool = False  # whether roles were chosen with estimates of sizes in sight

    @property
    def level(self) -> Level:
        """The limit that is stated, or else the largest limit that the stated (ε, δ) allow."""
        if self.rho and self.conversion:
            return Level(self.rho, self.conversion)
        return Level(rho_for(self.epsilon, self.delta), self.delta / 2)

    def sentence(self) -> str:
        """The guarantee in one sentence."""
        if not self.private:
            return "NOT PRIVATE: the noise was seeded; this model must not leave the house."
        unit = "one row"
        if self.unit == "owner":
            names = " or ".join(self.roots)
            unit = f"one row of {names} that has no owner, with all the rows that it owns"
        delta = f", δ = {self.delta:g}" if self.delta else ""
        change = "added or removed" if self.neighbours == "add-remove" else "replaced"
        roles = " Roles were proposed by the tool and accepted." if self.roles == "proposed" else ""
        if self.sizes_shown:
            roles += " Roles were chosen with estimates of sizes in sight, which ε does not cover."
        return f"ε = {self.epsilon:g}{delta} ({self.accounting}). Unit: {unit}; {change}.{roles}"

    def require_sound(self, events: Sequence[Event]) -> Guarantee:
        """Recompute the loss of a release's events, checking each claim by OpenDP.

        A ModelError is raised if an event does not belong to the release, or if the events cost
        more than is promised.
        """
        for place, event in enumerate(events):
            belongs = event.id == place and event.neighbours == self.neighbours
            belongs &= event.private or not self.private
            if not belongs or not event.roots or not {*event.roots} <= {*self.roots}:
                raise ModelError(f"event {place} is not one of this release.")
        try:
            loss = loss_within(events, self.accounting, self.delta)
            least = max(loss.epsilon, self.level.epsilon if self.conversion else 0.0)
        except PrivacyRefusal as error:
            raise ModelError(str(error)) from None
        except Exception as error:
            # An untrusted file may state a number that no mechanism accepts.
            raise ModelError(f"the events have no price ({type(error).__name__}).") from None
        # The zCDP conversion minimises over a grid and is exact to about 10⁻¹². Twice this slack
        # would also accept only differences that no reader can notice.
        if max(loss.delta, self.conversion) > self.delta or least > self.epsilon * (1 + 1e-9):
            raise ModelError(
                f"the events cost ε = {loss.epsilon:g}, δ = {loss.delta:g}, and less is stated."
            )
        return loss


@dataclass(frozen=True)
class PrivateColumns:
    """How the columns of a private table are made; modelled columns have codecs."""

    own: PgName | None  # name of the OWN key, or None for a root
    making: Annotated[dict[PgName, ColumnRole], Field(max_length=MAX_COLUMNS)]
    codecs: Annotated[
        dict[PgName, Annotated[Codec, PlainValidator(codec_from_json)]],
        Field(max_length=MAX_COLUMNS),
    ]


class Header(BaseModel):
    """The fields of ``header.json``; see `privbench.pipeline.model.Model`."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    format: Literal["privbench-model"]
    version: Literal[9, 10]
    promise: Promise
    schema_: Schema = Field(alias="schema")
    config: dict[str, JsonValue]
    tables: Annotated[dict[Text, PrivateColumns], Field(max_length=MAX_PARTS)]
    synthesizer: PgName
    state: dict[str, JsonValue]
    arrays: Annotated[list[Text], Field(max_length=2**16)]
    public: Annotated[list[Text], Field(max_length=MAX_PARTS)]
    events: Annotated[tuple[Event, ...], Field(max_length=2**20)]
    extensions: ColumnTuple[PgName]
    sha256: Annotated[
        dict[Text, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]], Field(max_length=2**17)
    ]


def parse(data: bytes) -> Header:
    """Parse the header; check each field, and schema and tables against each other.

    If the data are no header, a ModelError names the field.
    """
    if json_depth(data) > MAX_DEPTH:
        raise ModelError("the model's header is nested too deeply.")
    try:
        content = json.loads(
            data, object_pairs_hook=_pairs, parse_constant=_float, parse_float=_float
        )
        _refuse_bad_text(content)
    except (ValueError, RecursionError) as error:
        raise ModelError("the model's header is no JSON of ours.") from error
    stated = isinstance(content, dict) and (content.get("format"), content.get("version"))
    if stated not in (VERSION, (VERSION[0], 9)):
        raise ModelError(
            "this is not a model of this version of privbench.", remedy="Fit it again."
        )
    try:
        header = Header.model_validate_json(data)
        Config.model_validate(header.config)
    except ValidationError as error:
        raise ModelError(f"the model's header is damaged: {faults(error)[0]}.") from error
    except ConfigError as error:
        raise ModelError(f"the model's header is damaged: {error.message}") from error
    # No field of the schema may be missing, and none may be there that no fit writes.
    if json.loads(json.dumps(header.schema_.to_json())) != content["schema"]:
        raise ModelError("the model's header is damaged: its schema is not in full.")
    _check_schema(header.schema_)
    # Rules say what the CHECKs state, as this version reads them: no other rule counts.
    tables = tuple(map(with_rules, header.schema_.tables))
    header = header.model_copy(update={"schema_": replace(header.schema_, tables=tables)})
    _check_tables(header)
    return header


def _check_schema(schema: Schema) -> None:
    """Refuse a schema with duplicate names, or with a reference to a table or column it lacks."""
    columns = {table.key: {column.name for column in table.columns} for table in schema}
    _once([table.key for table in schema], "table")
    for table in schema:
        _once([column.name for column in table.columns], "column", table)
        _once([column.position for column in table.columns], "position", table)
        references = (*table.foreign_keys, *table.arrays)
        _once([key.name for key in references], "foreign key", table)
        keys = [item.columns for item in table.unique_sets]
        keys += [item.columns for item in references]
        others = [item.columns for item in table.checks]
        others += [item.columns for item in table.indexes]
        _require(all(keys), "a key names no column", table)
        known = all(columns[table.key].issuperset(names) for names in (*keys, *others))
        _require(known, "a key, CHECK or index names an unknown column", table)
        for key in references:
            target = columns.get(str(key.ref_table), set())
            _require(key.table == table.name, "a key is of another table", table)
            named = key.when is None or key.when[0] in columns[table.key]
            _require(named, "a key depends on an unknown column", table)
            _require(len(key.columns) == len(key.ref_columns), "a key has lost columns", table)
            _require(target.issuperset(key.ref_columns), "a key refers to nothing", table)
        stated = {item.expression for item in table.checks}
        stated |= {item.definition for item in table.indexes}
        texts = {rule.text for rule in table.rules if rule.source != "name"}
        _require(stated >= texts, "no CHECK or index states a rule", table)


def _check_tables(header: Header) -> None:
    """Refuse a header whose tables, columns, keys and codecs are not those of its schema."""
    schema, tables = header.schema_, header.tables
    if sorted([*tables, *header.public]) != sorted(table.key for table in schema):
        raise ModelError("the model's tables are not those of its schema.")
    if not set(header.promise.roots) <= set(tables):
        raise ModelError("the model's promise names tables that it does not have.")
    for key, made in tables.items():
        table = schema.table(key)
        modelled = {name for name, how in made.making.items() if how == "modelled"}
        codecs = made.codecs.items()
        modelled |= {n for n, codec in codecs if codec.omitted and made.making.get(n) == "minted"}
        if (
            set(made.making) != {column.name for column in table.columns}
            or set(made.codecs) != modelled
            or made.own not in (None, *(item.name for item in table.foreign_keys))
        ):
            raise ModelError("the model does not fit its schema.", table=key)
        for name, codec in made.codecs.items():
            stated = type_to_json(table.column(name).type)
            if codec.column != name or type_to_json(codec.type) != stated:
                raise ModelError("the codec belongs to another column.", table=key, column=name)
            _check_codec(codec, key)


def _check_codec(codec: Codec, key: str) -> None:
    """Refuse a codec that cannot decode; it is tried on zero rows."""
    codes = {name: np.zeros(0, domain.dtype) for name, domain in codec.domains.items()}
    try:
        codec.decode(codes, np.random.default_rng(0), 0)
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
        raise ModelError("the codec cannot be used.", table=key, column=codec.column) from error


def _once(items: Iterable[Hashable], what: str, table: Table | None = None) -> None:
    _require(max(Counter(items).values(), default=0) < 2, f"a {what} occurs twice", table)


def _require(condition: bool, message: str, table: Table | None) -> None:
    if not condition:
        key = table.key if table else None
        raise ModelError(f"the model's header is damaged: {message}.", table=key)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields_read = dict(pairs)
    if len(fields_read) < len(pairs):
        raise ValueError("a field occurs twice")
    return fields_read


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _refuse_bad_text(value: Any) -> None:
    """Refuse texts that PostgreSQL cannot hold: those with a zero byte or a lone surrogate."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("a text holds a zero byte")
        value.encode()
    elif isinstance(value, dict):
        for name, item in value.items():
            _refuse_bad_text(name)
            _refuse_bad_text(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_bad_text(item)
