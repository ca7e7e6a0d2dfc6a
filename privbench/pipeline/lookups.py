"""Rows of look-ups with natural keys: one for each released label of the columns that refer to it.

Labels are released from the rows that refer to the look-up. Everything here follows from released
lists and drawn rows: it is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from privbench.domain import Codes
from privbench.encoding import Codec
from privbench.encoding.surrogates import Surrogates, times
from privbench.encoding.text import TextCodec
from privbench.encoding.uniqueness import Indices
from privbench.learning.synthetic import NULL, SyntheticDatabase, SyntheticTable
from privbench.rng import generator
from privbench.schema import ForeignKey, Table

Codecs = Mapping[str, Mapping[str, Codec]]
#: Up to this share, rows without a label are taken for noise, as they are for other texts.
_NOISE = 0.05


def labels_of_lookups(tables: Sequence[Table], codecs: Codecs) -> dict[str, tuple[str, ...]]:
    """The labels of every look-up that has a natural key, sorted."""
    labels: dict[str, set[str]] = {}
    for key in _natural_keys(tables):
        labels.setdefault(str(key.ref_table), set()).update(_listed(codecs, key))
    return {name: tuple(sorted(found)) for name, found in labels.items()}


def with_labels(
    tables: Sequence[Table],
    codecs: Codecs,
    drawn: SyntheticDatabase,
    labels: Mapping[str, tuple[str, ...]],
    seed: int | None,
) -> SyntheticDatabase:
    """The drawn rows, where the first rows of a look-up stand for its labels.

    A look-up has at least a row for each label, and one in all; further rows repeat what was drawn
    for others. Rows of a label refer to its row; rows of any other value to the rows of the look-up
    without a label, or by the labels' shares where it has none or where they are few.
    """
    made = dict(drawn.tables)
    for name, names in labels.items():
        rng = generator(seed, "labels", name)
        made[name] = _extended(made[name], max(len(names), 1), codecs[name], rng)
    for key in _natural_keys(tables):
        child, target = made[str(key.table)], str(key.ref_table)
        codec = codecs[str(key.table)][key.columns[0]]
        codes = child.codes.get(key.columns[0])
        places = {label: place for place, label in enumerate(labels[target])}
        rows = _targets(
            np.full(child.rows, len(codec.listed or ())) if codes is None else codes,
            np.array([places[label] for label in codec.listed or ()], np.int64),
            np.arange(len(places), made[target].rows),
            codec.surrogates if isinstance(codec, TextCodec) else None,
            generator(seed, "labels", str(key.table), key.name),
        )
        if codes is not None:
            domain = codec.domains[key.columns[0]]
            if domain.null_code is not None:
                rows[codes == domain.null_code] = NULL
        made[str(key.table)] = replace(child, parents={**child.parents, key.name: rows})
    return SyntheticDatabase(made)


def key_values(labels: Sequence[str], rows: int) -> pa.Array:
    """Values of a look-up's key: its labels, then NULL for rows whose keys are surrogates."""
    return pa.array([*labels, *[None] * (rows - len(labels))], pa.string())


def _natural_keys(tables: Sequence[Table]) -> Iterator[ForeignKey]:
    return (key for table in tables for key in table.foreign_keys if key.natural)


def _listed(codecs: Codecs, key: ForeignKey) -> tuple[str, ...]:
    return codecs[str(key.table)][key.columns[0]].listed or ()


def _extended(
    table: SyntheticTable, rows: int, codecs: Mapping[str, Codec], rng: np.random.Generator
) -> SyntheticTable:
    """The table with at least so many rows; where it has none, of any cells."""
    if table.rows >= rows:
        return table
    if table.rows:
        take = np.arange(rows) % table.rows
        codes = {name: values[take] for name, values in table.codes.items()}
        parents = {name: index[take] for name, index in table.parents.items()}
        return replace(table, rows=rows, codes=codes, parents=parents)
    domains = {name: d for codec in codecs.values() for name, d in codec.domains.items()}
    cells = {
        name: rng.integers(domain.values or domain.size, size=rows).astype(domain.dtype)
        for name, domain in domains.items()
    }
    none = {name: np.full(rows, NULL) for name in table.parents}
    return SyntheticTable(rows, cells, none)


def _targets(
    codes: Codes | Indices,
    known: Indices,
    others: Indices,
    law: Surrogates | None,
    rng: np.random.Generator,
) -> Indices:
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
