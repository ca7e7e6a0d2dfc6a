"""Tables read from files: the split into training and test rows, public domains, and codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privbench.config import ColumnConfig
from privbench.domain import Domain
from privbench.encoding.bounds import literal
from privbench.encoding.categories import ListCodec
from privbench.encoding.ordered import OrderedCodec, public_cells
from privbench.encoding.scale import LINEAR, scale_of
from privbench.errors import ConfigError
from privbench.privacy.recoding import EdgesRecoding
from privbench.rng import generator
from privbench.schema import ColumnType
from privbench_lab.bench.config import DataConfig

#: Name of the one table, in specs and ledgers.
TABLE = "public.rows"
#: Numbers below this are whole in 64-bit integers and in floats alike.
_WHOLE = 2.0**53
#: Seed of the split and of the choice of rows: one for all synthesizers, seeds and ε.
_SPLIT = 20240229
_TEXT = ColumnType("text", "text", category="S")
_INTEGER = ColumnType("bigint", "int8", category="N")
_FLOAT = ColumnType("double precision", "float8", category="N")
#: Removes the decimals of a whole number's text: ``1.0`` becomes ``1``.
_PLAIN = methodcaller("removesuffix", ".0")


@dataclass(frozen=True)
class Column:
    """One column's public plan: how values become codes, and codes values."""

    codec: ListCodec | OrderedCodec  # turns codes to values; for numbers it has the edges of cells

    @property
    def values(self) -> tuple[str, ...] | None:
        """Its publicly listed values, as text; None for a number."""
        return self.codec.values if isinstance(self.codec, ListCodec) else None

    @property
    def domain(self) -> Domain:
        """The codes."""
        return self.codec.domains[self.codec.column]

    def encode(self, values: pd.Series[Any]) -> NDArray[np.integer[Any]]:
        """Codes of values, shape (rows,); numbers out of range become the nearest in range."""
        if isinstance(self.codec, ListCodec):
            found = pd.Index(self.codec.values).get_indexer(pd.Index(values))
            null = self.domain.null_code
            codes = np.where(values.isna(), 0 if null is None else null, found)
            return codes.astype(self.domain.dtype)
        numbers = values.to_numpy(np.float64)
        whole = self.codec.type is not _FLOAT
        kept = np.nan_to_num(numbers).astype(np.int64) if whole else numbers
        points = self.codec.scale.read(pa.array(kept, mask=np.isnan(numbers)))
        return np.asarray(self.codec.recoding.apply(points))

    def decode(self, codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> pd.Series[Any]:
        """Values of codes, as texts or floats; a value within a cell is drawn at random."""
        given = {self.codec.column: np.asarray(codes, np.int64)}
        array = self.codec.decode(given, rng, len(codes))
        if self.values is None:
            array = array.cast(pa.float64())
        return pd.Series(array.to_numpy(zero_copy_only=False))

    def coarse(self, cells: int) -> Column:
        """The column with at most ``cells`` cells if it is a number; cells near zero are narrow."""
        codec = self.codec
        if isinstance(codec, ListCodec) or self.domain.values <= cells:
            return self
        fine = codec.recoding
        equal = min(max(cells // 2, 1), LINEAR)
        edges = codec.scale.edges(fine.edges[0], fine.edges[-1], cells=equal)
        if len(edges) - 1 > cells:
            places = np.linspace(0, len(edges) - 1, cells + 1).round().astype(int)
            edges = [edges[place] for place in places]
        recoding = EdgesRecoding(tuple(edges), fine.specials, fine.nullable)
        return Column(replace(codec, recoding=recoding))


@dataclass(frozen=True)
class Table:
    """A table for which synthetic rows are to be made."""

    name: str  # the data set's name
    train: pd.DataFrame  # real rows that synthesizers see: texts (None is NULL) and floats (NaN)
    test: pd.DataFrame  # real rows that only the metrics read; none where nothing is learned
    columns: dict[str, Column]  # by name, in order
    target: str | None  # what classifiers learn, if anything
    config: DataConfig  # what the grid says of it
    notes: tuple[str, ...] = ()  # remarks for readers, such as that a domain was read off rows

    @property
    def domains(self) -> dict[str, Domain]:
        """Codes of every column."""
        return {name: column.domain for name, column in self.columns.items()}

    @property
    def classes(self) -> tuple[str, ...]:
        """Values of the target, the positive one of two last; none where a number is learned."""
        values = self.columns[self.target].values if self.target else None
        return values or ()

    def codes(self, rows: pd.DataFrame) -> dict[str, NDArray[np.integer[Any]]]:
        """Codes of rows, by column."""
        return {name: column.encode(rows[name]) for name, column in self.columns.items()}

    def values(
        self, codes: Mapping[str, NDArray[np.integer[Any]]], seed: int | None
    ) -> pd.DataFrame:
        """The rows that codes stand for; a value within a cell is drawn at random."""
        return pd.DataFrame(
            {
                name: column.decode(codes[name], generator(seed, "values", name))
                for name, column in self.columns.items()
            }
        )


def read_table(name: str, config: DataConfig, folder: Path) -> Table:
    """Read a data set, split it, and settle the domain of every column.

    The ConfigError names the data set and the column.
    """
    assert config.train is not None
    rows = _rows(name, folder / config.train, config)
    test = _rows(name, folder / config.test, config) if config.test is not None else None
    if test is not None and list(test.columns) != list(rows.columns):
        raise ConfigError("training and test rows have other columns.", table=name)
    if test is None:
        order = generator(_SPLIT, "split").permutation(len(rows))
        cut = round(len(rows) * config.test_share)
        rows, test = rows.iloc[np.sort(order[cut:])], rows.iloc[np.sort(order[:cut])]
    return table_of(name, config, rows, test, _declared(name, config, folder))


def table_of(
    name: str,
    config: DataConfig,
    train: pd.DataFrame,
    test: pd.DataFrame,
    declared: Mapping[str, ColumnConfig],
) -> Table:
    """A table from texts that were read already, see `read_table`."""
    target = config.target
    for column in [*config.columns, *([target] if target else [])]:
        if column not in train.columns:
            what = "the target" if column == target else "a declared column"
            raise ConfigError(f"{what} is missing.", table=name, column=column)
    cut, rows = len(train), pd.concat([train, test], ignore_index=True)
    if config.positive is not None and target is not None:
        held = rows[target].map(_PLAIN, na_action="ignore")
        held = held.isin([literal(value) for value in config.positive])
        if not held.any():
            raise ConfigError("no row has a positive value.", table=name, column=target)
        two = pd.Series(np.where(held, "1", "0"), rows.index, dtype=object)
        rows[target] = two.where(rows[target].notna(), None)
        declared = {**declared, target: ColumnConfig(values=["0", "1"])}
    rows = _kept(name, config, rows, cut)
    columns, made, read_off = {}, {}, []
    for column in rows.columns:
        known = declared.get(column, ColumnConfig())
        columns[column], made[column] = _settle(name, config, column, known, rows[column])
        read_off += [column] if known == ColumnConfig() else []
    frame = pd.DataFrame(made)
    train = frame[frame.index < cut].reset_index(drop=True)
    test = frame[frame.index >= cut].reset_index(drop=True)
    note = f"domains of {len(read_off)} columns were read off the rows, and are taken as public"
    return Table(name, train, test, columns, target, config, (note,) if read_off else ())


def coarse(table: Table, cells: int) -> Table:
    """The table in which every column of numbers has at most ``cells`` codes."""
    columns = {name: column.coarse(cells) for name, column in table.columns.items()}
    return replace(table, columns=columns)


def _rows(name: str, path: Path, config: DataConfig) -> pd.DataFrame:
    """Rows of a file as texts, None for NULL."""
    try:
        if path.suffix in (".parquet", ".pq"):
            found = pq.read_table(path).to_pandas()
            rows = found.astype(object).where(found.notna(), None).map(literal, na_action="ignore")
        else:
            header = 0 if config.header else None
            rows = pd.read_csv(path, dtype=str, header=header, keep_default_na=False)
            rows.columns = [c if config.header else f"c{c}" for c in rows.columns]
    except (OSError, ValueError, pa.ArrowException, EOFError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(f"{path} cannot be read: {reason}.", table=name) from error
    if missing := sorted(set(config.drop) - set(rows.columns)):
        raise ConfigError("there is no such column to drop.", table=name, column=missing[0])
    kept: pd.DataFrame = rows.drop(columns=config.drop).reset_index(drop=True).astype(object)
    return kept.where(~kept.isin(config.null), None)


def _declared(name: str, config: DataConfig, folder: Path) -> dict[str, ColumnConfig]:
    """What the grid and its file of domains declare, by column."""
    found: dict[str, ColumnConfig] = {}
    if config.domain is not None:
        path = folder / config.domain
        try:
            for column, known in json.loads(path.read_text(encoding="utf-8"))["columns"].items():
                if known["type"] == "categorical":
                    found[column] = ColumnConfig(values=[literal(v) for v in known["values"]])
                else:
                    found[column] = ColumnConfig(kind="range", min=known["min"], max=known["max"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is no file of domains.", table=name) from error
    return {**found, **config.columns}


def _kept(name: str, config: DataConfig, rows: pd.DataFrame, cut: int) -> pd.DataFrame:
    """The rows that the grid's options keep; training rows are those before ``cut``.

    Rows without a target are dropped.
    """
    target = [config.target] if config.target is not None else []
    rows = rows.dropna() if config.complete else rows.dropna(subset=target)
    train, test = rows[rows.index < cut], rows[rows.index >= cut]
    if config.rows is not None and len(train) > config.rows:
        chosen = generator(_SPLIT, "rows").permutation(len(train))[: config.rows]
        train = train.iloc[np.sort(chosen)]
    if train.empty or (target and test.empty):
        raise ConfigError("no rows are left.", table=name)
    return pd.concat([train, test])


def _settle(
    name: str, config: DataConfig, column: str, known: ColumnConfig, texts: pd.Series[Any]
) -> tuple[Column, pd.Series[Any]]:
    """The plan of one column, and its values, which have to fit what is declared."""
    given = texts.dropna()
    nullable = len(given) < len(texts)
    numbers = pd.to_numeric(given, errors="coerce")
    if known.kind == "range" and numbers.isna().any():
        bad = given[numbers.isna()].iloc[0]
        raise ConfigError(f"{bad!r} is no number.", table=name, column=column)
    listed = column == config.target and config.task == "classification"
    numeric = known.values is None and known.kind != "categories" and not listed
    if numeric and len(numbers) and not numbers.isna().any():
        return _number(column, known, numbers, nullable), pd.to_numeric(texts).astype(np.float64)
    plain = texts.map(_PLAIN, na_action="ignore")
    held = plain.dropna().unique()
    # Values are sorted: numbers by size, then texts by their letters.
    sizes = pd.to_numeric(pd.Series(held, dtype=object), errors="coerce").fillna(np.inf)
    values = tuple(text for _, text in sorted(zip(sizes, held, strict=True)))
    if known.values:
        values = tuple(v for v in map(literal, known.values) if v not in config.null)
    if strangers := sorted(set(held) - set(values)):
        what = f"{strangers[0]!r} is not in the declared list."
        raise ConfigError(what, table=name, column=column)
    return Column(ListCodec(column, _TEXT, nullable, values or ("",), False, False, True)), plain


def _number(column: str, known: ColumnConfig, numbers: pd.Series[Any], nullable: bool) -> Column:
    low = known.min if known.min is not None else float(numbers.min())
    high = known.max if known.max is not None else float(numbers.max())
    whole = bool((numbers == numbers.round()).all() and numbers.abs().max() < _WHOLE)
    if not -np.inf < float(low) <= float(high) < np.inf:
        raise ConfigError("the range holds no value, or is infinite.", table=TABLE, column=column)
    type_ = _INTEGER if whole else _FLOAT
    scale = scale_of(type_)
    assert scale is not None
    first, last = (scale.parse(str(int(end) if whole else float(end))) for end in (low, high))
    # NaN stands for NULL in a frame, so it needs no cell of its own.
    recoding = public_cells(scale, first, last + 1, known.bins, nullable=nullable)
    return Column(OrderedCodec(column, type_, nullable, recoding, True, (first, last)))
