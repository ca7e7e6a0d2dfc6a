"""Tables of files: one split for all, the public domain of every column, codes and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privbench.bench.config import DataConfig
from privbench.config import ColumnConfig
from privbench.domain import Domain
from privbench.encoding import reader
from privbench.encoding.bounds import literal
from privbench.encoding.categories import ListCodec
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import LINEAR, Spacing
from privbench.errors import ConfigError
from privbench.privacy.data import EdgesRecoding
from privbench.rng import generator
from privbench.schema import Column as SchemaColumn
from privbench.schema import ColumnType, TableName
from privbench.schema import Table as SchemaTable

#: Name of the one table, in specs and ledgers.
TABLE = "public.rows"
#: Numbers below this are whole in 64-bit integers and in floats alike.
_WHOLE = 2.0**53
#: Seed of the split and of the choice of rows: one for all synthesizers, seeds and ε.
_SPLIT = 20240229
_TEXT = ColumnType("text", "text", category="S")
_INTEGER = ColumnType("bigint", "int8", category="N")
_FLOAT = ColumnType("double precision", "float8", category="N")


@dataclass(frozen=True)
class Column:
    """One column's public plan: how values become codes, and codes values.

    Attributes:
        name: Its name.
        values: Its publicly listed values, as text; None for a number.
        codec: From codes to values; of a number it also holds the edges of the cells.
    """

    name: str
    values: tuple[str, ...] | None
    codec: ListCodec | OrderedCodec

    @property
    def domain(self) -> Domain:
        """The codes."""
        return self.codec.domains[self.name]

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
        """Values of codes: texts, or floats; within a cell drawn at random."""
        array = self.codec.decode({self.name: np.asarray(codes, np.int64)}, rng, len(codes))
        if self.values is None:
            array = array.cast(pa.float64())
        return pd.Series(array.to_numpy(zero_copy_only=False), name=self.name)

    def coarse(self, cells: int) -> Column:
        """The column with at most so many cells of numbers, narrow ones near zero."""
        codec = self.codec
        if isinstance(codec, ListCodec) or self.domain.values <= cells:
            return self
        fine = codec.recoding
        spacing = Spacing(cells=min(max(cells // 2, 1), LINEAR))
        edges = codec.scale.edges(fine.edges[0], fine.edges[-1], spacing)
        if len(edges) - 1 > cells:
            places = np.linspace(0, len(edges) - 1, cells + 1).round().astype(int)
            edges = [edges[place] for place in places]
        recoding = EdgesRecoding(tuple(edges), fine.specials, fine.nullable)
        return replace(self, codec=replace(codec, recoding=recoding))


@dataclass(frozen=True)
class Table:
    """A table to make synthetic rows of.

    Attributes:
        name: The data set's name.
        train: Real rows that synthesizers see: texts (None is NULL) and floats (NaN).
        test: Real rows that nobody sees but the metrics; None where nothing is learned.
        columns: By name, in order.
        target: What classifiers learn, if anything.
        positive: The positive value of a target of two values.
        config: What the grid says of it.
        notes: What a reader has to know, as where a domain was read off rows.
    """

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    columns: dict[str, Column]
    target: str | None
    positive: str | None
    config: DataConfig
    notes: tuple[str, ...] = field(default=())

    @property
    def domains(self) -> dict[str, Domain]:
        """Codes of every column."""
        return {name: column.domain for name, column in self.columns.items()}

    @property
    def classes(self) -> tuple[str, ...]:
        """Values of the target; none where a number is learned."""
        values = self.columns[self.target].values if self.target else None
        return values or ()

    def codes(self, rows: pd.DataFrame) -> dict[str, NDArray[np.integer[Any]]]:
        """Codes of rows, by column."""
        return {name: column.encode(rows[name]) for name, column in self.columns.items()}

    def values(
        self, codes: Mapping[str, NDArray[np.integer[Any]]], seed: int | None
    ) -> pd.DataFrame:
        """Rows of codes."""
        return pd.DataFrame(
            {
                name: column.decode(codes[name], generator(seed, "values", name))
                for name, column in self.columns.items()
            }
        )


def read_table(name: str, config: DataConfig, folder: Path) -> Table:
    """Read a data set, split it, and settle the domain of every column.

    Args:
        name: Its name.
        config: What the grid says.
        folder: What paths are relative to.

    Raises:
        ConfigError: A file cannot be read, a column is missing, or rows lie outside a declared
            list; the message names the data set and the column.
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
    """A table of texts that are read already, see `read_table`."""
    _require(name, config, list(train.columns))
    target = config.target
    sides = {"train": train, "test": test}
    positive: str | None = None
    if config.positive is not None and target is not None:
        wanted = [literal(value) for value in config.positive]
        sides = {side: _as_two(rows, target, wanted) for side, rows in sides.items()}
        if not any((rows[target] == "1").any() for rows in sides.values()):
            raise ConfigError("no row has a positive value.", table=name, column=target)
        positive = "1"
        declared = {**declared, target: ColumnConfig(values=["0", "1"])}
    sides = _kept(name, config, sides)
    listed = target if config.task == "classification" else None
    columns: dict[str, Column] = {}
    made: dict[str, dict[str, pd.Series[Any]]] = {"train": {}, "test": {}}
    for number, column in enumerate(train.columns):
        known = declared.get(column, ColumnConfig())
        columns[column], parts = _settle(
            name, column, number, known, sides, column == listed, config.null
        )
        for side, values in parts.items():
            made[side][column] = values
    frames = {side: pd.DataFrame(parts) for side, parts in made.items()}
    classes = columns[target].values if target is not None else None
    if classes is not None and positive is None and len(classes) == 2:
        positive = classes[1]
    notes = [column for column in columns if declared.get(column, ColumnConfig()) == ColumnConfig()]
    note = f"domains of {len(notes)} columns were read off the rows, and are taken as public"
    return Table(
        name,
        frames["train"],
        frames["test"],
        columns,
        target,
        positive,
        config,
        (note,) if notes else (),
    )


def coarse(table: Table, cells: int) -> Table:
    """The table with at most so many codes of numbers in every column."""
    columns = {name: column.coarse(cells) for name, column in table.columns.items()}
    return replace(table, columns=columns)


def _rows(name: str, path: Path, config: DataConfig) -> pd.DataFrame:
    """Rows of a file as texts, None for NULL."""
    try:
        if path.suffix in (".parquet", ".pq"):
            found = pq.read_table(path).to_pandas()
            rows = found.astype(object).where(found.notna(), None).map(_text)
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


def _text(value: Any) -> str | None:
    return None if value is None else literal(value)


def _declared(name: str, config: DataConfig, folder: Path) -> dict[str, ColumnConfig]:
    """What the grid and its file of domains declare, by column."""
    found: dict[str, ColumnConfig] = {}
    if config.domain is not None:
        path = folder / config.domain
        try:
            columns = json.loads(path.read_text(encoding="utf-8"))["columns"]
            found = {column: _of_json(known) for column, known in columns.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is no file of domains.", table=name) from error
    return {**found, **config.columns}


def _of_json(known: Mapping[str, Any]) -> ColumnConfig:
    if known["type"] == "categorical":
        return ColumnConfig(values=[literal(value) for value in known["values"]])
    return ColumnConfig(kind="range", min=known["min"], max=known["max"])


def _require(name: str, config: DataConfig, columns: list[str]) -> None:
    """Refuse columns that the grid names and the rows lack."""
    wanted = [*config.columns, *([config.target] if config.target else [])]
    for column in wanted:
        if column not in columns:
            what = "the target" if column == config.target else "a declared column"
            raise ConfigError(f"{what} is missing.", table=name, column=column)


def _kept(
    name: str, config: DataConfig, sides: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Rows that the grid wants, on both sides; rows without a target are of no use.

    Raises:
        ConfigError: None are left.
    """
    target = [config.target] if config.target is not None else []
    found = {
        side: rows.dropna() if config.complete else rows.dropna(subset=target)
        for side, rows in sides.items()
    }
    if config.rows is not None and len(found["train"]) > config.rows:
        chosen = generator(_SPLIT, "rows").permutation(len(found["train"]))[: config.rows]
        found["train"] = found["train"].iloc[np.sort(chosen)]
    needed = [found["train"], *([found["test"]] if config.target is not None else [])]
    if any(rows.empty for rows in needed):
        raise ConfigError("no rows are left.", table=name)
    return found


def _as_two(rows: pd.DataFrame, target: str, positive: list[str]) -> pd.DataFrame:
    """The rows with a target of 1 for positive values and 0 for others."""
    held = rows[target].map(_plain).isin(positive)
    two = pd.Series(np.where(held, "1", "0"), rows.index, dtype=object)
    return rows.assign(**{target: two.where(rows[target].notna(), None)})


def _plain(value: str | None) -> str | None:
    """A whole number without its decimals: ``1.0`` is ``1``."""
    if value is not None and value.endswith(".0"):
        return value[:-2]
    return value


def _settle(
    name: str,
    column: str,
    number: int,
    known: ColumnConfig,
    sides: Mapping[str, pd.DataFrame],
    listed: bool,
    nulls: list[str],
) -> tuple[Column, dict[str, pd.Series[Any]]]:
    """The plan of one column, and its values on both sides.

    Raises:
        ConfigError: Values that are no numbers, or that a declared list does not hold.
    """
    texts = {side: rows[column].reset_index(drop=True) for side, rows in sides.items()}
    every = pd.concat(list(texts.values()), ignore_index=True)
    numbers = pd.to_numeric(every.dropna(), errors="coerce")
    numeric = known.values is None and known.kind != "categories" and not listed
    if known.kind == "range" and (column_bad := numbers.isna()).any():
        bad = every.dropna()[column_bad].iloc[0]
        raise ConfigError(f"{bad!r} is no number.", table=name, column=column)
    nullable = bool(every.isna().any())
    if numeric and len(numbers) and not numbers.isna().any():
        return _number(column, number, known, texts, numbers, nullable)
    plain = {side: part.map(_plain) for side, part in texts.items()}
    held = list(dict.fromkeys(value for part in plain.values() for value in part.dropna()))
    values = _ordered(held)
    if known.values:
        values = tuple(v for v in map(literal, known.values) if v not in nulls)
    if strangers := sorted(set(held) - set(values)):
        what = f"{strangers[0]!r} is not in the declared list."
        raise ConfigError(what, table=name, column=column)
    if not values:
        values = ("",)
    codec = ListCodec(column, _TEXT, nullable, values, False, False, True)
    return Column(column, values, codec), plain


def _number(
    column: str,
    number: int,
    known: ColumnConfig,
    texts: Mapping[str, pd.Series[Any]],
    numbers: pd.Series[Any],
    nullable: bool,
) -> tuple[Column, dict[str, pd.Series[Any]]]:
    low = known.min if known.min is not None else float(numbers.min())
    high = known.max if known.max is not None else float(numbers.max())
    whole = bool((numbers == numbers.round()).all() and numbers.abs().max() < _WHOLE)
    ends = [int(float(end)) if whole else float(end) for end in (low, high)]
    place = SchemaColumn(column, number + 1, _INTEGER if whole else _FLOAT, not nullable)
    table = SchemaTable(TableName.parse(TABLE), (place,))
    config = ColumnConfig(kind="range", min=ends[0], max=ends[1], bins=known.bins)
    codec = reader(place, table, config, 0.0).finish({})
    assert isinstance(codec, OrderedCodec)
    # NaN is NULL in a frame, so that it needs no cell of its own.
    codec = replace(codec, recoding=replace(codec.recoding, specials=()))
    values = {side: pd.to_numeric(part).astype(np.float64) for side, part in texts.items()}
    return Column(column, None, codec), values


def _ordered(values: list[str]) -> tuple[str, ...]:
    """Numbers by size, then texts by their letters."""
    return tuple(sorted(values, key=lambda text: (_size(text), text)))


def _size(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")
