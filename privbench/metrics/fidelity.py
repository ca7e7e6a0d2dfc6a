"""How close the tables of a clone are to those of the source, one set of columns at a time.

The columns of both tables are encoded by common small codes: code 0 is NULL, then come the values
in their order. Rows are encoded as they arrive, so that a table needs a byte or two for each row
and column. If a side of a table has more than `MOST_CODES` codes, its rows are sampled: each row is
kept with the probability that fits, by a seeded draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Ints
from privbench.config import Config
from privbench.domain import Codes
from privbench.metrics import canon
from privbench.metrics.columns import CellPlan
from privbench.metrics.columns import plan as plan_cells
from privbench.metrics.kld import Coded, DivergencePart, divergence
from privbench.postgres.snapshot import Snapshot
from privbench.rng import generator
from privbench.schema import Table

#: Most codes (rows times compared columns) of a side that are kept in memory.
MOST_CODES = 100_000_000
SEED = 20240301


@dataclass(frozen=True, slots=True)
class CodedColumn(Coded):
    """A compared column whose values have the same codes in source and clone."""

    plan: CellPlan  # how its values became cells
    labels: tuple[str, ...]  # what code 1, 2, … stands for

    @property
    def name(self) -> str:
        """The column's name."""
        return self.plan.column.name

    @property
    def ordered(self) -> bool:
        """Whether its codes have an order."""
        return canon.order_type(self.plan.column) is not None

    def counts(self) -> tuple[Ints, Ints]:
        """Return the rows of the source and of the clone in each code, each of shape (size,)."""
        return (
            np.bincount(self.real, minlength=self.size),
            np.bincount(self.clone, minlength=self.size),
        )


def share(rows: int, columns: int) -> float:
    """Return the share of a table's rows that is compared: all, or what `MOST_CODES` allows.

    >>> share(10_000_000, 10), share(10_000_000, 20)
    (1.0, 0.5)
    """
    return min(1.0, MOST_CODES / max(rows * columns, 1))


def encode(
    plans: Sequence[CellPlan],
    real: Iterable[pa.RecordBatch],
    clone: Iterable[pa.RecordBatch],
    shares: tuple[float, float] = (1.0, 1.0),
) -> list[CodedColumn]:
    """Encode the rows of both databases, which hold the plans' expressions, column by column.

    `shares` are the shares of the source's and the clone's rows that are kept. Memory holds only
    codes, in the narrowest type.
    """
    values: list[pa.Array] = [pa.array([], pa.string()) for _ in plans]
    sides = [
        _codes(plans, values, _thinned(batches, share_kept, label))
        for batches, share_kept, label in zip((real, clone), shares, ("real", "clone"), strict=True)
    ]
    return [_column(plan, values[i], *(side[i] for side in sides)) for i, plan in enumerate(plans)]


def _thinned(
    batches: Iterable[pa.RecordBatch], share_kept: float, label: str
) -> Iterator[pa.RecordBatch]:
    rng = generator(SEED, label)
    for batch in batches:
        yield (
            batch
            if share_kept >= 1
            else batch.filter(pa.array(rng.random(len(batch)) < share_kept))
        )


def _narrow(codes: pa.Array) -> Codes:
    """Codes in the narrowest type that holds those of this batch."""
    values = np.asarray(codes)
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _codes(
    plans: Sequence[CellPlan], values: list[pa.Array], batches: Iterable[pa.RecordBatch]
) -> list[Codes]:
    """Codes of one side: 0 for NULL, else 1 + the value's number; new values are added."""
    parts: list[list[Codes]] = [[np.zeros(0, dtype=np.uint8)] for _ in plans]
    for batch in batches:
        for i, plan in enumerate(plans):
            column = batch.column(i).cast(pa.int64() if plan.edges else pa.string())
            if not plan.edges:
                values[i] = _known(values[i], column)
                column = pc.index_in(column, value_set=values[i])
            parts[i].append(_narrow(pc.add(pc.fill_null(column, -1), 1)))
    codes = []
    for i in range(len(plans)):
        codes.append(np.concatenate(parts[i]))
        parts[i] = []  # The pieces are freed, so that memory never holds two copies of all columns.
    return codes


def _known(values: pa.Array, column: pa.Array) -> pa.Array:
    """The values, extended by the new values of a batch."""
    fresh = pc.unique(column).drop_null()
    fresh = fresh.filter(pc.invert(pc.is_in(fresh, value_set=values)))
    return pa.concat_arrays([values, fresh]) if len(fresh) else values


def _column(plan: CellPlan, values: pa.Array, real: Codes, clone: Codes) -> CodedColumn:
    if plan.edges:
        labels = plan.bin_labels
    else:
        texts = [str(text) for text in values.to_pylist()]
        order = sorted(range(len(texts)), key=lambda i: _place(plan, texts[i]))
        labels = tuple(texts[i] for i in order)
        places = np.zeros(len(texts) + 1, dtype=np.min_scalar_type(len(texts) + 1))
        places[np.array(order, dtype=np.intp) + 1] = np.arange(1, len(texts) + 1)
        real, clone = places[real], places[clone]
    size = len(labels) + 1
    narrow = np.min_scalar_type(size)
    real, clone = real.astype(narrow, copy=False), clone.astype(narrow, copy=False)
    return CodedColumn(real, clone, size, plan, labels)


def _place(plan: CellPlan, text: str) -> tuple[float, str]:
    """A sort key for a value of a column."""
    labels = plan.column.type.labels
    if text in labels:
        return float(labels.index(text)), ""
    if canon.order_type(plan.column) in ("numeric", "float8"):
        return float(text), ""
    return 0.0, text


#: The λ of λ-way KLD and TVD.
WAYS = (2, 3, 4)
#: Tables with fewer rows in the source are too small to show whether distributions are preserved.
FEW_ROWS = 100


@dataclass(frozen=True, slots=True)
class TableFidelity:
    """The comparison of one table in source and clone."""

    columns: tuple[CodedColumn, ...]  # the compared columns, coded
    left_out: dict[str, str]  # columns that are not compared, and why
    # The share of the rows that was compared, of the source and of the clone.
    shares: tuple[float, float] = (1.0, 1.0)
    # By λ; a λ without enough columns, or without rows, is missing.
    divergence: dict[int, DivergencePart] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of the source's rows that were compared."""
        return len(self.columns[0].real) if self.columns else 0

    def measured(self) -> TableFidelity:
        """Return the comparison with its divergence computed, which needs neither database."""
        divergences = {way: divergence(self.columns, way) for way in WAYS}
        return replace(self, divergence={way: item for way, item in divergences.items() if item})


def fidelity(
    source: Snapshot,
    clone: Snapshot,
    table: Table,
    distinct: Mapping[str, float],
    config: Config | None = None,
    rows: tuple[int, int] = (0, 0),
) -> TableFidelity:
    """Read one table of both databases, to be compared by `TableFidelity.measured`.

    `distinct` has the numbers of distinct values in the source for the columns that the clone has
    too; other columns are left out. The config may have public bins. If `rows`, the numbers of rows
    of both tables, are given, very large tables are sampled (`share`).
    """
    cells, left_out = plan_cells(source.connection, table, config, distinct)
    for cell in cells:
        if cell.column.name not in distinct:
            left_out[cell.column.name] = "missing in the clone"
    cells = [cell for cell in cells if cell.column.name in distinct]
    shares = share(rows[0], len(cells)), share(rows[1], len(cells))
    expressions = [(cell.expression, cell.column.name) for cell in cells]
    columns: list[CodedColumn] = []
    if cells:
        sides = source.stream(table, expressions), clone.stream(table, expressions)
        columns = encode(cells, *sides, shares)
    return TableFidelity(tuple(columns), left_out, shares)
