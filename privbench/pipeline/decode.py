"""Turn a model into synthetic rows of PostgreSQL values, in chunks; needs no source.

Keys, UNIQUE sets and CHECKs between columns need whole columns; everything else is decoded chunk by
chunk while it is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Rng
from privbench.config import Config
from privbench.domain import Codes
from privbench.encoding import Codec, KeyedTable, generate_keys
from privbench.encoding.arrays import arrays_of_keys
from privbench.encoding.formats import FORMAT
from privbench.encoding.keys.columns import INTEGERS, is_discriminator, kept_uniques
from privbench.encoding.keys.key_types import in_key_type, with_key_types
from privbench.encoding.keys.references import remap
from privbench.encoding.keys.trees import tree_of
from privbench.errors import ModelError, UsageError
from privbench.learning.graphical.model import TableLaw
from privbench.learning.synthetic import NULL, Parts, SyntheticTable, windows
from privbench.pipeline.computed import texts
from privbench.pipeline.lookups import with_lookups
from privbench.pipeline.model import UNFIT, Model
from privbench.rng import generator
from privbench.rules.facts import exclusions, orders, singles
from privbench.rules.named import creation_date
from privbench.rules.texts import column_pattern
from privbench.schema import ROW, ForeignKey, Table
from privbench.synthesizers import FittedModel
from privbench.synthesizers import get as find_synthesizer

logger = logging.getLogger(__name__)

#: Rows that are decoded at a time.
CHUNK = 1 << 16


@dataclass(frozen=True)
class CloneTable:
    """One table of a clone, ready to be written."""

    table: Table
    columns: tuple[str, ...]  # columns to write; the others get their defaults
    rows: int
    dropped: int  # rows for which no valid key was left
    public: bool  # whether it is copied verbatim
    torn: bool  # whether rows may refer to rows of this table that were dropped
    draw: Callable[[Sequence[str]], Iterator[pa.Table]]  # gives the named columns in chunks

    def without(self, names: Collection[str]) -> CloneTable:
        """Return the table with some columns left to their defaults."""
        return replace(self, columns=tuple(name for name in self.columns if name not in names))

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows in chunks, with the columns in `columns`."""
        with sound(self.table.key):
            yield from self.draw(self.columns)


@contextmanager
def sound(table: str | None = None) -> Iterator[None]:
    """Within this context, report a model whose parts do not fit each other as a ModelError."""
    try:
        yield
    except UNFIT as error:
        raise ModelError(
            f"the model cannot be sampled: its parts do not fit ({type(error).__name__}).",
            table=table,
            remedy="Fetch it again; if you have fitted it, run again with -v and tell us.",
        ) from error


@sound()
def decode(model: Model, *, scale: float = 1.0, seed: int | None = None) -> list[CloneTable]:
    """Sample a model and make its keys; return all tables, in the schema's order.

    `scale` is the factor on the number of units, `seed` the public seed of the sampling.
    """
    fitted = find_synthesizer(model.synthesizer).load(model.state, model.arrays)
    drawn = fitted.sample(scale, seed)
    tables = with_key_types([model.schema.table(key) for key in sorted(model.tables)])
    codecs = {key: made.codecs for key, made in model.tables.items()}
    computed = texts(Config.model_validate(model.config))
    drawn, columns = with_lookups(tables, codecs, drawn, scale, seed)
    _check_drawn(tables, codecs, drawn, {key: t.num_rows for key, t in model.public.items()})
    minted = generate_keys(
        tables,
        {
            t.key: _complete_columns(t, tables, codecs[t.key], drawn, seed, computed.get(t.key, ()))
            | columns.get(t.key, {})
            for t in tables
        },
        {t.key: drawn[t.key].parents for t in tables},
        {t.key: drawn[t.key].rows for t in tables},
        seed=seed,
        codecs={table.key: _of_own_type(table, codecs[table.key]) for table in tables},
        own={key: made.own for key, made in model.tables.items() if made.own is not None},
        # Values of a public table are texts, as the codecs of keys have them.
        follows={key for key, table in drawn.items() if table.follows},
        serial={key: table.serial for key, table in drawn.items()},
        public_keys=lambda key: _public_keys(model, key),
        references=False,
    )
    by_key = {table.key: table for table in tables}
    for name, keyed in minted.items():
        for key in by_key[name].arrays:
            arrays = _arrays(model, by_key[name], key, drawn, minted, seed)
            keyed.columns[key.columns[0]] = arrays
    return [
        _private(by_key[table.key], minted[table.key], codecs[table.key], drawn[table.key], seed)
        if table.key in minted
        else _public(table, model.public[table.key])
        for table in model.schema
    ]


@sound()
def scaled(model: str | Path | Model, factors: Mapping[str, float]) -> Model:
    """Return a model in which some tables are larger, each with all tables that it owns.

    The factors are logged.
    """
    loaded, whole = model if isinstance(model, Model) else Model.load(model), dict[str, float]()
    fitted, laws = _laws(loaded)
    if unknown := sorted(factors.keys() - laws.keys()):
        raise UsageError(
            f"--scale-table names {unknown[0]}, which is not a private table.",
            remedy=f"Name one of: {', '.join(sorted(laws))}.",
        )
    for name, law in laws.items():
        each = factors.get(name, 1.0) * (whole[law.own.parent] if law.own else 1.0)
        whole[name] = each
        if law.own and law.own.unique and factors.get(name, 1) > 1:
            reason = f"has at most one row for each of {law.own.parent}: scale that one."
            raise UsageError(reason, table=name)
        laws[name] = replace(law, rows=law.rows * each, free=law.free * each, lost=law.lost * each)
    listed = ", ".join(f"{name} × {each:g}" for name, each in whole.items() if each != 1)
    reason = "other tables keep their rows: references into larger ones spread, and rows of others "
    reason += "are referred to more often from larger ones"
    logger.info("%s; %s", listed, reason)
    state, arrays = fitted.to_state()
    return replace(loaded, state=state, arrays=arrays)


def _laws(model: Model) -> tuple[FittedModel, dict[str, TableLaw]]:
    """The model of the synthesizer, and its laws of tables, owners first; some have none."""
    fitted = find_synthesizer(model.synthesizer).load(model.state, model.arrays)
    return fitted, getattr(fitted, "laws", {})


@sound()
def fewer(model: str | Path | Model, most: float) -> tuple[Model, dict[str, float]]:
    """Return a model whose trees have at most ``most`` rows each, and each table's factor.

    A tree is a root table with all that it owns. Tables without a law keep their rows, and have no
    factor.
    """
    loaded = model if isinstance(model, Model) else Model.load(model)
    root, rows = dict[str, str](), dict[str, float]()
    for name, law in _laws(loaded)[1].items():
        root[name] = root[law.own.parent] if law.own else name
        rows[root[name]] = rows.get(root[name], 0.0) + law.rows + law.free
    factors = {name: most / total for name, total in rows.items() if total > most}
    smaller = scaled(loaded, factors) if factors else loaded
    return smaller, {name: factors.get(top, 1.0) for name, top in root.items()}


def _arrays(
    model: Model,
    table: Table,
    key: ForeignKey,
    drawn: Mapping[str, SyntheticTable],
    minted: Mapping[str, KeyedTable],
    seed: int | None,
) -> pa.Array:
    """For each row that is kept, an array of the keys of those of its targets that are kept."""
    name, parent = key.columns[0], str(key.ref_table)
    edges = drawn[table.elements(key)].parents
    if parent in minted:
        values, there = minted[parent].columns[key.ref_columns[0]], minted[parent].keep
    else:
        values = _public_keys(model, key)[0]
        there = np.ones(len(values), np.bool_)
    keep = minted[table.key].keep
    # Rows that no valid key was left for are gone, as are elements that would lead to one.
    owners, targets = (
        remap(np.where(edges[name] < len(mask), edges[name], NULL), mask)
        for name, mask in ((ROW, keep), (key.name, there))
    )
    both_kept = (owners >= 0) & (targets >= 0)
    codes, codec = drawn[table.key].codes, model.tables[table.key].codecs[name]
    rng = generator(seed, "elements", table.key, name)
    sizes_drawn = _decoded(table, codec, codes, rng, drawn[table.key].rows)
    null = np.asarray(sizes_drawn.is_null())[: len(keep)][keep]
    return arrays_of_keys(owners[both_kept], targets[both_kept], values, null, rng)


def _public_keys(model: Model, key: ForeignKey) -> list[pa.Array]:
    """The values of a public table that a key may take, in a type that the key's columns hold."""
    child, parent = model.schema.table(key.table), model.schema.table(key.ref_table)
    key_values = []
    for ours, theirs in zip(key.columns, key.ref_columns, strict=True):
        values = model.public[parent.key][theirs].combine_chunks()
        mine, own = child.column(ours).type, parent.column(theirs).type
        whole = mine.base in INTEGERS and own.base not in INTEGERS
        key_values.append(in_key_type(values, own, mine) if whole else values)
    return key_values


def _of_own_type(table: Table, codecs: Mapping[str, Codec]) -> dict[str, Codec]:
    """The codecs whose columns keep their type (`with_key_types`)."""
    types = {column.name: column.type.base for column in table.columns}
    return {name: codec for name, codec in codecs.items() if types[name] == codec.type.base}


def _check_drawn(
    tables: Sequence[Table],
    codecs: Mapping[str, Mapping[str, Codec]],
    drawn: Mapping[str, SyntheticTable],
    public: Mapping[str, int],
) -> None:
    """Refuse rows whose codes or references are not those of the tables."""
    sizes = {**{key: table.rows for key, table in drawn.items()}, **public}
    for table in tables:
        table_rows = drawn.get(table.key)
        if (
            table_rows is None
            or not set(table_rows.parents) >= {key.name for key in table.foreign_keys}
            or any(
                len(edges := table_rows.parents[key.name]) != table_rows.rows
                or int(edges.max(initial=-1)) >= sizes.get(str(key.ref_table), 0)
                for key in table.foreign_keys
            )
        ):
            raise _unlike(table)
        if not isinstance(table_rows.codes, Parts):
            _check_codes(table, codecs[table.key], table_rows.codes, table_rows.rows)


def _check_codes(
    table: Table, codecs: Mapping[str, Codec], codes: Mapping[str, Codes], rows: int
) -> None:
    """Refuse codes if a column of the table is missing among them, or a code has no cell."""
    domains = [item for codec in codecs.values() for item in codec.domains.items()]
    if any(
        len(codes.get(name, ())) != rows or int(codes[name].max(initial=0)) >= domain.size
        for name, domain in domains
    ):
        raise _unlike(table)


def _unlike(table: Table) -> ModelError:
    return ModelError("the model's rows are not those of its schema.", table=table.key)


def _complete_columns(
    table: Table,
    tables: Sequence[Table],
    codecs: Mapping[str, Codec],
    drawn: Mapping[str, SyntheticTable],
    seed: int | None,
    computed: Collection[str],
) -> dict[str, pa.Array]:
    """The decoded columns that have to be complete: those of keys, orders and UNIQUE sets.

    Stand-ins of computed columns are none of them: no value may move in from there.
    """
    names = {name for item in kept_uniques(table) for name in item.columns}
    names |= {name for check in table.checks if len(check.columns) > 1 for name in check.columns}
    names |= {
        name
        for other in tables
        for key in other.foreign_keys
        if key.ref_table == table.name
        for name in key.ref_columns
    }
    names |= {name for order in orders(table) for name in order.columns}
    names |= {n for codec in codecs.values() if codec.since for n in (codec.column, codec.since)}
    for same, period, _, where in exclusions(table):
        names.update(same, period, (name for name, *_ in where))
    names |= {name for _, some in singles(table) for name, *_ in some}
    tree = tree_of(table)
    names |= tree.read if tree else set()
    names |= {key.when[0] for key in table.foreign_keys if key.when is not None}

    below = {t.key for t in tables for key in t.foreign_keys if key.ref_table == table.name}
    numbered = any(singles(table)) or any(
        is_discriminator(table, column) for column in table.columns
    )
    if numbered or drawn[table.key].serial or any(drawn[k].follows for k in (table.key, *below)):
        names.add(creation_date(table))
    codes, rows = drawn[table.key].codes, drawn[table.key].rows
    return {
        name: in_key_type(
            _decoded(table, codec, codes, generator(seed, "decode", table.key, name), rows),
            codec.type,
            table.column(name).type,
        )
        for name, codec in codecs.items()
        if name in names - table.natural_columns - {*computed} and not codec.omitted
    }


def _decoded(
    table: Table, codec: Codec, codes: Mapping[str, Codes], rng: Rng, rows: int
) -> pa.Array:
    """Decode a column to values that match the pattern of its CHECK, if it has one."""
    attribute_codes = {attribute: codes[attribute] for attribute in codec.domains}
    values = codec.decode(attribute_codes, rng, rows)
    pattern = column_pattern(table, table.column(codec.column))
    if pattern is None:
        return values
    matching = pattern.replace_bad(values, rng)
    has_format = any(c.name == FORMAT and codec.column in c.columns for c in table.checks)
    if not (has_format and codec.listed):
        return matching
    # Labels were values of the source, so its expressions take them, whatever the format.
    label = pc.is_in(values, value_set=pa.array(codec.listed, values.type))
    return pc.if_else(label, values, matching.cast(values.type))


def _private(
    table: Table,
    minted: KeyedTable,
    codecs: Mapping[str, Codec],
    synthetic: SyntheticTable,
    seed: int | None,
) -> CloneTable:
    def draw(columns: Sequence[str]) -> Iterator[pa.Table]:
        starts = range(0, minted.rows, CHUNK)
        positions = np.flatnonzero(minted.keep)
        pieces = [positions[start:][:CHUNK] for start in starts]
        taken = windows(synthetic.codes, pieces)
        for start, part, codes in zip(starts, pieces, taken, strict=True):
            number = start // CHUNK
            _check_codes(table, codecs, codes, len(part))
            rng = generator(seed, "decode", table.key, number)
            arrays = [
                minted.columns[name].slice(start, len(part))
                if name in minted.columns
                else _decoded(table, codecs[name], codes, rng, len(part))
                for name in columns
            ]
            # Positions, not names: two columns may differ only in what Arrow folds.
            yield pa.Table.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    columns = tuple(
        column.name
        for column in table.columns
        if column.name in minted.columns
        or (column.name in codecs and not codecs[column.name].omitted)
    )
    return CloneTable(table, columns, minted.rows, minted.dropped, False, minted.torn, draw)


def _public(table: Table, rows: pa.Table) -> CloneTable:
    def draw(columns: Sequence[str]) -> Iterator[pa.Table]:
        yield rows.select(columns)

    return CloneTable(table, tuple(rows.column_names), rows.num_rows, 0, True, False, draw)
