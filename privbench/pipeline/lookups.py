"""Rows of look-up tables with natural keys: a row for each released label that refers to the table.

Labels are released from the rows that refer to the look-up; dates of a calendar also from its own
rows: the clone's calendar has a row for each day or released step. Everything here follows from
released lists and distributions and from drawn rows: it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Rng
from privbench.domain import Codes
from privbench.encoding import Codec
from privbench.encoding.keys.repair import exchanged
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import scale_of
from privbench.encoding.surrogates import Surrogates, times
from privbench.encoding.text import TextCodec
from privbench.encoding.text_formats import days_of
from privbench.encoding.uniqueness import combine, factorize
from privbench.learning.synthetic import NULL, SyntheticTable
from privbench.privacy.units import RowIndex
from privbench.rng import generator
from privbench.rules.named import named_orders
from privbench.schema import ForeignKey, Table
from privbench.words import calendar_part, lists

#: Most kinds of the rows of a public table.
_KINDS = 10
#: Up to this share, rows without a label are taken for noise, as they are for other texts.
_NOISE = 0.05
#: Released ends are believed where the dates between them are as many as the calendar's rows, but
#: for this factor. Beyond its fourth power, a calendar has only the dates of its own drawn rows.
_COMPLETE = 1.25


def kinds_of(rows: pa.Table) -> RowIndex:
    """Return a number for each public row; rows that agree in columns of few values share one.

    Columns that would make more than `_KINDS` numbers are left out.
    """
    kinds = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        both = combine([kinds, factorize(column.combine_chunks())], rows.num_rows)
        if len(np.unique(both)) <= _KINDS:
            kinds = both
    return kinds


def labels_of_lookups(
    tables: Sequence[Table], codecs: dict[str, dict[str, Codec]]
) -> dict[str, tuple[str, ...]]:
    """Return the labels of every look-up that has a natural key, sorted."""
    labels: dict[str, set[str]] = {}
    for key in _natural_keys(tables):
        listed = codecs[str(key.table)][key.columns[0]].listed or ()
        labels.setdefault(str(key.ref_table), set()).update(listed)
    return {name: tuple(sorted(listed)) for name, listed in labels.items()}


def with_lookups(
    tables: Sequence[Table],
    codecs: dict[str, dict[str, Codec]],
    drawn: Mapping[str, SyntheticTable],
    scale: float,
    seed: int | None,
) -> tuple[dict[str, SyntheticTable], dict[str, dict[str, pa.Array]]]:
    """Return the drawn rows with look-ups whose rows are their labels or dates, and key columns.

    A look-up has a row for each label, and at least one row; further rows repeat what was drawn for
    other rows, and have no key yet. `_targets` says where rows without a label refer to.
    """
    drawn_rows, labels = dict(drawn), labels_of_lookups(tables, codecs)
    columns = dict[str, dict[str, pa.Array]]()
    for name, names in labels.items():
        rng = generator(seed, "labels", name)
        drawn_rows[name] = _extended(drawn_rows[name], max(len(names), 1), codecs[name], rng)
    for key in _natural_keys(tables):
        child, target = drawn_rows[str(key.table)], str(key.ref_table)
        codec = codecs[str(key.table)][key.columns[0]]
        codes = child.codes.get(key.columns[0])
        places = {label: place for place, label in enumerate(labels[target])}
        rows = _targets(
            np.full(child.rows, len(codec.listed or ())) if codes is None else codes,
            np.array([places[label] for label in codec.listed or ()], np.int64),
            np.arange(len(places), drawn_rows[target].rows),
            codec.surrogates if isinstance(codec, TextCodec) else None,
            generator(seed, "labels", str(key.table), key.name),
        )
        if codes is not None:
            domain = codec.domains[key.columns[0]]
            if domain.null_code is not None:
                rows[codes == domain.null_code] = NULL
        drawn_rows[str(key.table)] = replace(child, parents={**child.parents, key.name: rows})
        keys = [*labels[target], *[None] * (drawn_rows[target].rows - len(places))]
        columns[target] = {key.ref_columns[0]: pa.array(keys, pa.string())}
    for table in tables:
        for name in table.primary_columns:
            if table.column(name).dated == table.key:
                rng = generator(seed, "dates", table.key)
                columns[table.key] = _calendar(table, tables, codecs, drawn_rows, scale, rng)
    return drawn_rows, columns


def _natural_keys(tables: Sequence[Table]) -> Iterator[ForeignKey]:
    return (
        key
        for table in tables
        for key in table.foreign_keys
        if key.natural and not table.column(key.columns[0]).dated
    )


def _taken(table: SyntheticTable, rows: RowIndex) -> SyntheticTable:
    codes = {name: values[rows] for name, values in table.codes.items()}
    parents = {name: index[rows] for name, index in table.parents.items()}
    return replace(table, rows=len(rows), codes=codes, parents=parents)


def _extended(
    table: SyntheticTable, rows: int, codecs: Mapping[str, Codec], rng: Rng
) -> SyntheticTable:
    """The table with at least so many rows; where it has none, of any cells."""
    if table.rows >= rows:
        return table
    if table.rows:
        return _taken(table, np.arange(rows) % table.rows)
    domains = {name: d for codec in codecs.values() for name, d in codec.domains.items()}
    cells = {
        name: rng.integers(domain.values or domain.size, size=rows).astype(domain.dtype)
        for name, domain in domains.items()
    }
    none = {name: np.full(rows, NULL) for name in table.parents}
    return SyntheticTable(rows, cells, none)


def _targets(
    codes: Codes | RowIndex,
    known: RowIndex,
    others: RowIndex,
    law: Surrogates | None,
    rng: Rng,
) -> RowIndex:
    """The look-up's row of every row: ``known`` by the code of its label, else one of ``others``.

    Where the frequencies of values without a label were released, the targets have them.
    """
    other, named = np.flatnonzero(codes >= len(known)), np.flatnonzero(codes < len(known))
    result = np.zeros(len(codes), np.int64)
    result[named] = known[codes[named]]
    if len(named) and (len(other) < _NOISE * len(codes) or not len(others)):
        result[other] = rng.choice(result[named], len(other))
        return result
    others = rng.permutation(others if len(others) else np.arange(max(len(known), 1)))
    value = rng.integers(len(others), size=len(other))
    if law and len(other):
        count = times(law, len(other))
        value = rng.permutation(np.repeat(np.arange(len(count)), count)) % len(others)
    result[other] = others[value]
    return result


def _calendar(
    table: Table,
    tables: Sequence[Table],
    codecs: dict[str, dict[str, Codec]],
    drawn_rows: dict[str, SyntheticTable],
    scale: float,
    rng: Rng,
) -> dict[str, pa.Array]:
    """Give a calendar a row for each date, to which references lead; its key and what follows.

    References by other columns lead to the date that their target was drawn with. What does not
    follow from a date is that of the row that was drawn with it or the next one.
    """
    (name,), own_codecs = table.primary_columns, codecs[table.key]
    rows = _extended(drawn_rows[table.key], 1, own_codecs, rng)
    own = _Dates.drawn(own_codecs[name], rows, rng)
    keys = [
        (other.elements(key) if key in other.arrays else other.key, key)
        for other in tables
        for key in (*other.foreign_keys, *other.arrays)
        if key.ref_table == table.name
    ]
    dated = [
        _Dates.drawn(codecs[place][key.columns[0]], drawn_rows[place], rng) if key.natural else own
        for place, key in keys
    ]
    points, (own_points, *dated_points) = _points([own, *dated], rows.rows / scale)
    order = np.argsort(own_points, kind="stable")
    near = np.searchsorted(own_points[order], np.arange(len(points)))
    calendar_rows = drawn_rows[table.key] = _taken(rows, order[np.minimum(near, rows.rows - 1)])
    led = dict[tuple[str, str], RowIndex]()
    for (place, key), one, dates in zip(keys, dated, dated_points, strict=True):
        parents = drawn_rows[place].parents
        old = np.where(one.values.is_null(), NULL, 0) if key.natural else parents[key.name]
        index = np.where(old < 0, old, dates if key.natural else dates[old])
        led[place, key.columns[0]] = index
        drawn_rows[place] = replace(drawn_rows[place], parents={**parents, key.name: index})
    for child in tables:
        for low, high in named_orders(child):
            before, after = led.get((child.key, low)), led.get((child.key, high))
            if before is not None and after is not None:
                both = np.flatnonzero((before >= 0) & (after >= 0))
                moved = after[both][exchanged(before[both], after[both])]
                after[both] = np.maximum(before[both], moved)
    days, grid = pa.array(points), scale_of(own_codecs[name].type)
    values = grid.build(points, {}) if grid else _part("date", days, own_codecs[name], own.values)
    columns, days = {name: values}, days_of(pc.cast(values, pa.string()))
    for other, codec in own_codecs.items() if not days.null_count else ():
        part = calendar_part(other) if other != name else ""
        values = _part(part, days, codec, _decoded(codec, calendar_rows, rng)) if part else None
        columns |= {} if values is None else {other: values}
    return columns


class _Dates(NamedTuple):
    """The dates that were drawn for a column."""

    scale: Any
    ends: tuple[int, int]  # of its range
    points: RowIndex
    values: pa.Array

    @classmethod
    def drawn(cls, codec: Codec, table: SyntheticTable, rng: Rng) -> _Dates:
        days = codec.dates if isinstance(codec, TextCodec) else codec
        assert isinstance(days, OrderedCodec)
        values = _decoded(codec, table, rng)
        points = days.scale.points_of(values if days is codec else _as_dates(days_of(values)))
        first, end = days.recoding.core or (0, days.recoding.domain.values)
        ends = days.recoding.edges[first], days.recoding.edges[end]
        return cls(days.scale, ends, points, values)


def _points(every: Sequence[_Dates], rows: float) -> tuple[RowIndex, list[RowIndex]]:
    """The points of a calendar's dates, and the places of those drawn.

    A complete calendar has as many dates as rows, which tells an end that noise has moved: of the
    released ends, the pair is taken between which there are about as many. Where no pair is near,
    the densest stretch of so many dates is taken if it has nearly all drawn rows.
    Dates beyond its column's range, or the calendar's, become those of other rows.
    """
    own, scale = every[0].points, every[0].scale
    # Texts of months are their first days.
    steps = (step for step in scale.steps if np.mean(step.at(step.count(own)) == own) > 1 / 2)
    lattice, size = scale.lattice or next(steps), max(round(rows), 1)
    lows, highs = ({int(lattice.count(one.ends[side])) for one in every} for side in (0, 1))
    spans = ((low, max(high, low + 1)) for low in sorted(lows) for high in sorted(highs))
    first, end = min(spans, key=lambda span: abs(math.log((span[1] - span[0]) / size)))
    if not size / _COMPLETE <= end - first <= size * _COMPLETE:
        dates = np.sort(lattice.count(own + 1) - 1)
        inside = np.searchsorted(dates, dates + size) - np.arange(len(dates))
        if np.max(inside, initial=-1) >= (1 - _NOISE) * len(dates):
            first = int(dates[np.argmax(inside)])
            end = first + size
    drawn, (least, most) = list[RowIndex](), lattice.at(np.array([first, end]))
    for one in every:
        inside = (one.points >= max(one.ends[0], least)) & (one.points < min(one.ends[1], most))
        some = np.where(inside, one.points, np.resize(one.points[inside], len(inside)))
        drawn.append(np.clip(lattice.count(some + 1) - 1, first, end - 1))
    few = end - first > size * _COMPLETE**4
    numbers = np.unique(drawn[0]) if few else np.arange(first, end)
    places = [np.minimum(np.searchsorted(numbers, d), len(numbers) - 1) for d in drawn]
    return np.asarray(lattice.at(numbers), np.int64), places


def _part(part: str, days: pa.Array, codec: Codec, drawn: pa.Array) -> pa.Array | None:
    """A column's values for a part of dates, written as most of those that were drawn.

    The lists spell them as strftime does, with ``%q`` for the quarter, and ``yes|no`` for weekends.
    """
    dates, plain = _as_dates(days), pa.types.is_string(drawn.type)
    known = (pc.utf8_rtrim_whitespace(drawn) if plain else drawn).unique()
    best, most = None, 0 if plain and not part.endswith((" name", "date")) else -1
    quarter = pc.quarter(dates).cast(pa.string())
    for spelling in lists()["calendar"]["texts"].get(part, ()):
        before, marked, after = spelling.partition("%q")
        texts = [pc.strftime(dates, format=text) for text in (before, after)]
        text = pc.binary_join_element_wise(texts[0], quarter if marked else "", texts[1], "")
        if "|" in spelling:
            text = pc.if_else(pc.greater(pc.day_of_week(dates), 4), *spelling.split("|"))
        try:
            values = text.cast(drawn.type)
        except pa.ArrowInvalid:
            continue
        count = pc.sum(pc.is_in(values.unique(), known)).as_py()
        fits = pc.max(pc.utf8_length(text)).as_py() <= (codec.type.length or np.inf)
        if count > most and fits:
            best, most = values, count
    return best


def _decoded(codec: Codec, table: SyntheticTable, rng: Rng) -> pa.Array:
    return codec.decode({name: table.codes[name] for name in codec.domains}, rng, table.rows)


def _as_dates(days: pa.Array) -> pa.Array:
    return days.cast(pa.int32()).cast(pa.date32())
