"""Choose the reader of a column by its type and config, and the codec by the JSON of a model."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from privbench.config import ColumnConfig
from privbench.encoding import datetimes, floats, numbers
from privbench.encoding.arrays import ArrayCodec, array_reader
from privbench.encoding.base import Codec, ColumnReader, CoverageLine, head
from privbench.encoding.bounds import literal, public_range
from privbench.encoding.categories import LabelReader, ListCodec, labels_of, list_reader
from privbench.encoding.composites import PartsCodec, RangeCodec, parts_reader
from privbench.encoding.documents import DOCUMENTS, DocumentCodec, DocumentReader
from privbench.encoding.filled import (
    FillCodec,
    SizedCodec,
    SizedReader,
    constant_of,
    fallback_reader,
    fill_reader,
    period_reader,
    sized_reader,
    skip_reader,
)
from privbench.encoding.keys.columns import (
    ColumnRole,
    index_room,
    kept_uniques,
    role_of,
    serial_key,
    unkept_indexes,
)
from privbench.encoding.ordered import OrderedCodec, OrderedReader
from privbench.encoding.scale import Scale, log_grid, scale_of
from privbench.encoding.surrogate_text import TEXT_BASES
from privbench.encoding.text import LookupReader, TextCodec, no_delta, text_reader
from privbench.errors import ConfigError, ModelError
from privbench.rules.facts import (
    SIZES,
    allowed,
    column_rules,
    length_limits,
    sharing_keys,
    singles,
)
from privbench.rules.named import creation_date, plain_name
from privbench.rules.parse import marks
from privbench.rules.texts import unkept_checks
from privbench.schema import Column, Rule, Table
from privbench.words import calendar_part

#: Modules that own a scale; importing them registers it.
SCALE_FAMILIES = (numbers, floats, datetimes)

_CODECS: dict[str, type[Codec]] = {
    codec.kind: codec
    for codec in (
        OrderedCodec,
        ListCodec,
        TextCodec,
        FillCodec,
        SizedCodec,
        ArrayCodec,
        RangeCodec,
        PartsCodec,
        DocumentCodec,
    )
}


def reader(column: Column, table: Table, config: ColumnConfig, delta: float) -> ColumnReader:
    """Return the public plan for reading one modelled column, which is not part of a foreign key.

    At δ = 0 no category list may be released.

    Raises:
        ConfigError: The config does not fit the type, or asks for what δ = 0 forbids.
        SchemaError: No valid value can be made for the column.
    """
    if config.kind == "skip" or column.generated:
        return skip_reader(table.key, column)
    if column.name in table.periods:
        return period_reader(table.key, column)
    if any(column.name in key.columns for key in table.arrays):
        how = "keys of synthetic rows, of measured number"
        return fill_reader(table.key, column, "text:{}", how, "each element is a reference")
    limits, per_unit = column_rules(table, column), config.per_unit if delta > 0 else 0
    scale = scale_of(column.type)
    _refuse_misfits(table, column, config, scale)
    known = (
        _calendar_reader(table, column, config, delta)
        if column.dated
        else _list_reader(table, column, config, limits, scale)
    )
    if known is not None:
        return known
    if column.name in table.natural_columns:
        return LookupReader(table.key, column, per_unit)
    if labels := labels_of(column.type):
        why = "boolean" if column.type.base == "bool" else "labels of the enum type"
        return list_reader(table.key, column, labels, why, ordered=True)
    if column.type.base in TEXT_BASES:
        return text_reader(table, column, config, delta, unique=_unique(table, column))
    if scale is not None and config.kind != "categories":
        bounds = public_range(table.key, column, scale, config, limits)
        title = plain_name(column.name, table)
        shared = 0 if _unique(table, column) else per_unit
        return OrderedReader(table.key, column, scale, bounds, config.bins, title, shared)
    if scale is not None:
        if delta == 0:
            raise no_delta(table.key, column)
        filler = (constant_of(column) or "text:0").removeprefix("text:")
        return LabelReader(table.key, column, config.per_unit, filler)
    if column.type.base in DOCUMENTS and column.type.kind == "b":
        # No load repairs what a domain refuses.
        free = config.pieces and column.type.domain is None
        asks = free and per_unit == ColumnConfig().per_unit
        return DocumentReader(table.key, column, tuple(config.paths.items()), per_unit, asks)
    room = index_room(table, column.name)
    sizes = length_limits(column_rules(table, column, SIZES), None)
    return (
        (array_reader(table.key, column, per_unit, sizes) if room is None else None)
        or parts_reader(table.key, column, per_unit)
        or sized_reader(table.key, column, sizes, room)
        or fallback_reader(table.key, column)
    )


def _calendar_reader(
    table: Table, column: Column, config: ColumnConfig, delta: float
) -> ColumnReader:
    """The reader of a date of a calendar, or of one that refers to it; lists have no part in it."""
    scale = scale_of(column.type)
    if scale is None:
        return text_reader(table, column, config, delta, unique=_unique(table, column))
    known = public_range(table.key, column, scale, config, column_rules(table, column))
    return OrderedReader(table.key, column, scale, known, config.bins, "date")


def serial_reader(table: Table, config: Mapping[str, ColumnConfig]) -> ColumnReader | None:
    """Return the reader of the key that may ascend with the date on which rows were added, or None.

    None is returned if the table lacks such a key or date. The key's values are read in public
    cells, four per octave, for their order only.
    """
    key, date = serial_key(table), creation_date(table)
    scale = None if key is None else scale_of(key.type)
    skipped = {name for name, item in config.items() if item.kind == "skip"}
    if key is None or scale is None or skipped & {key.name, date}:
        return None
    codec = SizedCodec(*head(key), "key", tuple(log_grid(0, scale.limits[1], near=4).tolist()))
    return SizedReader(table.key, key, codec, "surrogate key", "read for its order by date alone")


def _unique(table: Table, column: Column) -> bool:
    """Whether no two rows share a value of a column."""
    return any(item.columns == (column.name,) for item in kept_uniques(table))


def _refuse_misfits(table: Table, column: Column, config: ColumnConfig, scale: Any) -> None:
    """Refuse a kind or a setting in the config that the column's type cannot have."""
    text = column.type.base in TEXT_BASES
    listable = text or scale is not None or bool(labels_of(column.type))
    fits = {"range": scale is not None, "text": text, "categories": listable, "values": listable}
    fits["paths"] = column.type.base in DOCUMENTS
    declared: str = "values" if config.values is not None else config.kind
    declared = "paths" if config.paths else declared
    if fits.get(declared, True) and config.faker is not None:
        declared, fits = "faker", {"faker": text}
    if not fits.get(declared, True):
        raise ConfigError(
            f"{declared!r} does not fit the type {column.type.sql}.",
            table=table.key,
            column=column.name,
            remedy='Use kind = "auto" or "skip".',
        )


def _list_reader(
    table: Table,
    column: Column,
    config: ColumnConfig,
    limits: tuple[Rule, ...],
    scale: Scale | None,
) -> ColumnReader | None:
    """A reader of a public list: the config's, else a CHECK's; None without one."""
    check = allowed(limits)
    if config.values is not None:
        values = tuple(dict.fromkeys(literal(value) for value in config.values))
        bad = [value for value in values if not _valid(column, value, limits, scale)]
        if bad:
            raise ConfigError(
                f"declared value {bad[0]!r} is not valid for {column.type.sql} and its CHECKs.",
                table=table.key,
                column=column.name,
                remedy="Correct 'values'.",
            )
        if scale is not None:
            values = _sorted(scale, values)
        ordered = scale is not None or bool(labels_of(column.type))
        why = "declared list"
        return list_reader(table.key, column, values, why, ordered=ordered, other=True)
    if not check or config.kind not in ("auto", "categories"):
        return None
    if scale is not None:
        try:
            check = _sorted(scale, check)
        except ValueError:
            return None
    if labels := labels_of(column.type):
        check = tuple(value for value in labels if value in check)
    return list_reader(table.key, column, check, "CHECK constraint", ordered=scale is not None)


def _sorted(scale: Scale, values: tuple[str, ...]) -> tuple[str, ...]:
    points = {scale.parse(value): value for value in reversed(values)}
    return tuple(points[point] for point in sorted(points))


def _valid(column: Column, value: str, limits: tuple[Rule, ...], scale: Scale | None) -> bool:
    """Whether a declared value is of the type, and no CHECK forbids it."""
    if scale is not None:
        try:
            scale.parse(value)
        except ValueError:
            return False
        return True
    if labels := labels_of(column.type):
        return value in labels
    least, greatest = length_limits(limits, column.type.length)
    listed = allowed(limits)
    fits = least <= len(value) <= (len(value) if greatest is None else greatest)
    return fits and (listed is None or value in listed) and "\x00" not in value


def codec_from_json(data: Mapping[str, Any]) -> Codec:
    """Return the codec that a model's header describes; raise a ModelError if it is invalid."""
    try:
        return _CODECS[str(data["codec"])].from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise ModelError(f"the model holds a codec that cannot be read: {what}.") from error


_LINES: dict[ColumnRole, tuple[str, str]] = {
    "reference": ("reference to a synthetic row", "foreign key"),
    "minted": ("surrogate key", "unique by construction, never read"),
    "generated": ("computed by PostgreSQL", "generated column"),
}


def table_coverage(
    table: Table, config: Mapping[str, ColumnConfig], delta: float
) -> list[CoverageLine]:
    """Return the coverage map of a private table: a line per column, and per CHECK not understood.

    Errors are those of `reader`.
    """
    lines, key = [], serial_reader(table, config)
    for column in table.columns:
        role = role_of(table, column)
        if key is not None and column == key.column:
            how, why = key.describe()
        elif role == "modelled":
            declared = config.get(column.name, ColumnConfig())
            how, why = reader(column, table, declared, delta).describe()
            if column.dated:
                why = "natural key of a calendar"
            elif calendar_part(column.name) and any(c.dated == table.key for c in table.columns):
                how += "; made of the key's date"
        else:
            how, why = _LINES[role]
        lines.append(CoverageLine(table.key, column.name, how, why))
    return lines + unkept(table)


def unkept(table: Table) -> list[CoverageLine]:
    """Return the coverage lines on rules that sampled rows may break until they are loaded."""
    lines = []
    how = "not kept by construction: rows are repaired in the load"
    for check in unkept_checks(table):
        where = ", ".join(check.columns)
        lines.append(CoverageLine(table.key, where, how, f"CHECK {check.name} is not understood"))
    shared = [item for item in singles(table) if sharing_keys(table, item[0])]
    for index in unkept_indexes(table):
        where, marked = ", ".join(index.columns), (index.columns, marks(index.predicate or ""))
        described = "kept in generation: at most one such row a parent" if marked in shared else how
        lines.append(CoverageLine(table.key, where, described, f"UNIQUE index {index.name}"))
    if table.partition_key is not None:
        why = "rows that no partition takes are moved in the load"
        lines.append(CoverageLine(table.key, "", f"partitioned by {table.partition_key}", why))
    return lines
